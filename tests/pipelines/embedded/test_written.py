"""Rows in, a release out: the files of the command, paid once, whatever cuts the pipeline off."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from tests.support.embedded import AMUN, COLUMNS, GRAPH, claims, paid
from tests.support.releasing import digests, fix_key, ledger_entries, manifest, tracecloak
from tracecloak import ReadEventLog, WriteRelease, verify
from tracecloak.schemas.published.manifest import ORDERED_BY_NAME

KEYS = {**GRAPH, "epsilon": 2}


def written(
    folder: Path, rows: Sequence[dict[str, Any]], keys: dict[str, Any] | None = None
) -> dict[str, str]:
    """Digests of the files of the release that a pipeline writes."""
    out = folder / "out"
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        ended = (
            pipeline
            | beam.Create(rows)
            | WriteRelease(**(keys or KEYS), **paid(folder, output=str(out)))
            | beam.Map(lambda row: (row.release_id, row.folder))
        )
        assert_that(ended, equal_to([("r", str(out / "run_id=r"))]))
    return digests(out / "run_id=r")


def csv_of(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    lines = ["claim,step,at", *(",".join(row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def actions(folder: Path) -> list[str]:
    return [entry.action for entry in ledger_entries(folder / "keys")]


def by_the_command(folder: Path, log: Path, *flags: object) -> Path:
    """The folder of a release that the command makes of a file."""
    columns = [word for name, value in COLUMNS.items() for word in (f"--{name}", value)]
    places = ["--output", folder / "other", "--key_store", folder / "others", "--release_id", "r"]
    assert tracecloak("release", "--log", log, *places, *columns, *flags) == 0
    return folder / "other" / "run_id=r"


BY_METHOD = (
    "--method", "private-dfg", "--epsilon", "2", "--runner", "FnApiRunner", "--order", "at",
    "--vocabulary", '["Register", "Check", "Pay", "Reject"]',
)  # fmt: skip


def test_rows_are_written_as_the_command_writes_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under one key: also its statement and its page."""
    fix_key(monkeypatch)
    rows = claims(60)
    command = by_the_command(tmp_path, csv_of(tmp_path / "claims.csv", rows), *BY_METHOD)
    keys = {**KEYS, "order": "at"}
    assert written(tmp_path, rows, keys) == digests(command)
    assert actions(tmp_path) == ["reserve", "draw", "commit"]
    found, expected = (manifest(one) for one in (tmp_path / "out" / "run_id=r", command))
    assert found == expected
    assert verify(str(tmp_path / "out" / "run_id=r")).holds
    assert written(tmp_path, rows[::-1], keys) == digests(command)  # it is there: nothing is paid
    with pytest.raises(Exception, match="was made of other rows than these;"):
        written(tmp_path, [{**row, "step": "Pay"} for row in rows], keys)
    assert actions(tmp_path) == ["reserve", "draw", "commit"]
    # Rows have no order of their own, and the release says what orders them.
    unordered = tmp_path / "unordered"
    written(unordered, rows)
    guarantee = manifest(unordered / "out" / "run_id=r")["guarantee"]
    assert set(guarantee["not_covered"]) - {*found["guarantee"]["not_covered"]} == {ORDERED_BY_NAME}


@pytest.mark.slow
def test_names_are_joined_and_duplicates_dropped_as_the_command_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_key(monkeypatch)
    rows = [
        {**row, "step": row["step"].lower()} if n % 3 else row for n, row in enumerate(claims(60))
    ]
    rows += rows[::2]
    log = csv_of(tmp_path / "claims.csv", rows)
    rename = {name.lower(): name for name in ("Register", "Check", "Pay", "Reject")}
    flags = ("--rename", json.dumps(rename), "--drop_duplicates", *BY_METHOD)
    expected = digests(by_the_command(tmp_path, log, *flags))
    keys = {**KEYS, "rename": rename, "drop_duplicates": True, "order": "at"}
    assert written(tmp_path, rows, keys) == expected
    out = tmp_path / "read"
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        events = pipeline | ReadEventLog(str(log), **COLUMNS, order="at")
        _ = events | WriteRelease(**keys, **paid(out, output=str(out / "out")))
    assert digests(out / "out" / "run_id=r") == expected


def test_a_filter_of_events_that_are_read_already_is_refused(tmp_path: Path) -> None:
    """Catches events whose order is lost, as their columns are read a second time."""
    log = csv_of(tmp_path / "claims.csv", claims(9))
    filtered = {**KEYS, "where": "activity = Pay"}
    with (
        pytest.raises(Exception, match="give it to ReadEventLog"),
        beam.Pipeline(runner="FnApiRunner") as pipeline,
    ):
        events = pipeline | ReadEventLog(str(log), **COLUMNS)
        _ = events | WriteRelease(**filtered, **paid(tmp_path, output=str(tmp_path / "out")))


_CUT_OFF = """
import os, sys
from tests.pipelines.embedded.test_written import claims, written
from pathlib import Path
import tracecloak.transforms.batch.anonymize as on_beam
on_beam.commit = lambda *given: os.kill(os.getpid(), 9)
written(Path(sys.argv[1]), claims(60))
"""


@pytest.mark.slow
def test_a_pipeline_that_is_killed_is_finished_by_the_next_and_paid_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It drew, wrote and was killed before its commit."""
    killed = subprocess.run([sys.executable, "-c", _CUT_OFF, tmp_path], timeout=300, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert actions(tmp_path) == ["reserve", "draw"]
    assert not (tmp_path / "out").exists()

    other = [{**row, "step": "Pay"} for row in claims(60)]
    with pytest.raises(Exception, match="decided on another input"):
        written(tmp_path, other)
    assert not (tmp_path / "out").exists()
    with pytest.raises(Exception, match="drew noise before it was cut off, and"):
        written(tmp_path, claims(60), {**KEYS, "epsilon": 1})

    assert written(tmp_path, claims(60))
    assert actions(tmp_path) == ["reserve", "draw", "commit"]
    assert not list(tmp_path.glob("_incomplete*/*"))


@pytest.mark.slow
def test_too_many_malformed_records_end_a_syntactic_release_and_no_rigorous_one(
    tmp_path: Path,
) -> None:
    rows = [*claims(60), *({"claim": "c-1", "step": "Pay", "at": "soon"} for _ in range(20))]
    with pytest.raises(Exception, match=r"more than max_error_ratio=0\.01 of the") as told:
        written(tmp_path, rows, AMUN)
    assert "soon" not in str(told.value) and re.search(r"\b20\b", str(told.value)) is None
    assert actions(tmp_path) == ["reserve"]  # nothing was drawn: another release may begin
    assert written(tmp_path, rows)
    assert actions(tmp_path)[:3] == ["reserve", "void", "reserve"]


@pytest.mark.slow
def test_files_are_read_into_a_pipeline_as_the_command_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal stamps are in the order of the file then, and not of their content."""
    fix_key(monkeypatch)
    rows = claims(60, ties=True)
    log = csv_of(tmp_path / "claims.csv", rows)
    command = by_the_command(tmp_path, log, "--method", "amun", "--guessing_advantage", "0.4")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        events = pipeline | ReadEventLog(str(log), **COLUMNS)
        _ = events | WriteRelease(**AMUN, **paid(tmp_path, output=str(tmp_path / "out")))
        steps = pipeline | "Rows" >> ReadEventLog(str(log), **COLUMNS, output="rows")
        found = steps | beam.Map(lambda row: (row.case_id, row.activity))
        assert_that(found, equal_to([(row["claim"], row["step"]) for row in rows]))
    assert digests(tmp_path / "out" / "run_id=r") == digests(command)

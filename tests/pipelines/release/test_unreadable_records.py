"""No record decides by its text whether there is a release with a true epsilon.

What cannot be read of a log is left out and told to the operator, who can see it beforehand, too.
What files declare is looked at before anything is paid.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.releasing import csv_log, operator_folder, small_rows, tracecloak
from tests.support.tiers import at_night
from tracecloak.pipelines.planning.findings import NOTHING_READ
from tracecloak.transforms.formats import csv as csv_format
from tracecloak.transforms.formats import jsonl as jsonl_format
from tracecloak.transforms.formats import xes as xes_format

SECRET = "patient-4711"


def flags(source: Path, *more: object) -> list[object]:
    return [
        "--log", source, "--output", source.parent / "out", "--key_store", source.parent / "keys",
        "--method", "private-dfg", "--epsilon", 1, "--release_id", "r", "--runner", "InMemory",
        "--buy_vocabulary", *more,
    ]  # fmt: skip


def kept(keys: Path) -> str:
    """What was told to the operator, whose folder keeps it; a log that others read has none."""
    return (operator_folder(keys) / "operator.log").read_text()


def log_with(folder: Path, ending: str, odd: str) -> Path:
    """A log of a sound case and one whose activity is `odd`, which is too long for its reader."""
    path = folder / f"log.{ending}"
    rows = [("a", "A"), (SECRET, odd), ("b", "B")]
    stamp = "2026-01-01T00:00:00Z"
    if ending == "csv":
        csv_log(path, [(case, step, stamp) for case, step in rows])
    elif ending == "jsonl":
        events = [{"case_id": c, "activity": a, "timestamp": stamp} for c, a in rows]
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
    else:
        traces = "".join(
            f'<trace><string key="concept:name" value="{c}"/><event>'
            f'<string key="concept:name" value="{a}"/><date key="time:timestamp" value="{stamp}"/>'
            "</event></trace>"
            for c, a in rows
        )
        path.write_text(f"<log>{traces}</log>")
    return path


@pytest.mark.parametrize(
    ("ending", "runner"),
    [
        ("csv", "InMemory"), ("jsonl", "InMemory"), ("xes", "InMemory"), ("xes", "FnApiRunner"),
        at_night("csv", "FnApiRunner"), at_night("jsonl", "FnApiRunner"),
    ],
)  # fmt: skip
def test_one_text_that_is_too_long_is_one_malformed_record(
    ending: str,
    runner: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for module, names in (
        (csv_format, ("RECORD_BYTES", "BLOCK_BYTES", "_CHUNK_BYTES")),
        (jsonl_format, ("LINE_BYTES", "_CHUNK_BYTES")),
        (xes_format, ("_TOKEN_BYTES", "_PIECE_BYTES")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, 500)
    path = log_with(tmp_path, ending, "x" * 5_000)
    assert tracecloak("release", *flags(path), "--runner", runner) == 0
    [letter] = (operator_folder(tmp_path / "keys") / "file-00000.jsonl").read_text().splitlines()
    assert json.loads(letter) == {"file": 0, "record": 2, "reason": "malformed record"}
    told = capfd.readouterr()
    for_operator = kept(tmp_path / "keys")
    assert "1 of 3: no whole record" in for_operator and "1 of 3" not in told.out + told.err
    for text in (told.out, told.err, for_operator):
        assert SECRET not in text and "xxxxx" not in text


@pytest.mark.parametrize("ending", ["csv", "jsonl", "xes"])
def test_a_log_of_which_nothing_can_be_read_is_released_with_a_loud_warning(
    ending: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = log_with(tmp_path, ending, "A")
    assert tracecloak("release", *flags(path, "--timestamp_format", "%d.%m.%Y")) == 0
    assert "NOT ONE" not in capfd.readouterr().err and NOTHING_READ in kept(tmp_path / "keys")
    (tmp_path / "keys" / "operator").rename(tmp_path / "before")
    assert tracecloak("release", *flags(path), "--release_id", "again") == 0
    assert not (operator_folder(tmp_path / "keys") / "operator.log").exists()


@pytest.mark.parametrize(
    ("step", "stamp", "told"),
    [
        (["A"], "2026-01-01", "the column 'activity' is nested"),
        (True, "2026-01-01", "column 'activity' has type bool, which cannot serve as text"),
        ("A", 5, "column 'timestamp' holds numbers; say their unit since 1970"),
    ],
)
def test_types_that_a_file_declares_are_refused_before_anything_is_paid(
    step: object, stamp: object, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"case_id": ["a"], "activity": [step], "timestamp": [stamp]}), path)
    assert tracecloak("release", *flags(path)) == 3
    assert told in capfd.readouterr().err
    assert not (tmp_path / "keys").exists()


def test_every_header_is_looked_at_before_anything_is_paid(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also that of the last of many files."""
    for i in range(30):
        csv_log(tmp_path / f"log-{i:02}.csv", list(small_rows(1)))
    last = tmp_path / "log-29.csv"
    last.write_text(last.read_text().replace("activity", "step", 1))
    assert tracecloak("release", *flags(tmp_path / "log-*.csv")) == 3
    assert "log-29.csv: the input has no column 'activity'" in capfd.readouterr().err
    assert not (tmp_path / "keys").exists()
    last.write_bytes(b"")
    assert tracecloak("release", *flags(tmp_path / "log-*.csv")) == 3
    assert not (tmp_path / "keys").exists()

"""What the operator's screen says of the records that were read, on every runner."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.support.releasing import csv_log, operator_folder, tracecloak
from tests.support.searching import files_with
from tests.support.terminal import watch
from tests.support.tiers import at_night
from tracecloak.pipelines.configuration.config import Columns
from tracecloak.pipelines.planning.findings import finding_lines
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import FINDINGS, WHOLE_KEY, ReadTally
from tracecloak.schemas.events.traces import DROPPED
from tracecloak.transforms.formats.registry import CSV_KEYS, SourceFormat
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.sources import EventSource

SECRET = "patient-4711"
ASIDE = ("dropped by a filter", "outside the window", "which is no event")
RUNNERS = (
    ["--runner", "InMemory"],
    ["--runner", "FnApiRunner"],
    at_night(["--runner", "BundleBasedDirectRunner"]),
    at_night(["--direct_running_mode=multi_processing", "--direct_num_workers=2"]),
)
runners = pytest.mark.parametrize("runner", RUNNERS, ids=lambda flags: flags[-1].split("=")[-1])


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator looks: elsewhere none of this is shown (`test_what_others_read.py`)."""
    watch(monkeypatch)


def release(tmp_path: Path, source: Path, *flags: object) -> int:
    return tracecloak(
        "release", "--log", source, "--output", tmp_path / "out", "--key_store",
        tmp_path / "keys", "--method", "private-dfg", "--epsilon", 1, "--buy_vocabulary",
        "--release_id", "r", "--max_error_ratio", 0.01, *flags,
    )  # fmt: skip


def warned(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """The warnings on the screen, and the last line."""
    lines = capsys.readouterr().err.splitlines()
    assert SECRET not in "\n".join(lines)
    warnings = [line.split(" WARNING ")[1] for line in lines if " WARNING " in line]
    return warnings, lines[-1] if lines else ""


@runners
def test_they_are_told_of_too_when_the_run_goes_on(
    tmp_path: Path, runner: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    good = [(f"c{i}", "A", "2026-03-29 02:30") for i in range(90)]
    csv_log(tmp_path / "logs" / "a.csv", good)
    late = [("c", "", "2026-01-01"), *good[:6], ("", "A", "2026-01-01"), (SECRET, "A", "")]
    late += [("5", "A", "2026-10-25 02:30"), ("5.0", "A", "2026-01-01"), ("", "A", SECRET)]
    second = csv_log(tmp_path / "logs" / "b.csv", late)
    dead = tmp_path / "dead"
    flags = ["--max_error_ratio", 0.1, "--dead_letter", dead, "--time_zone", "Europe/Berlin"]
    assert release(tmp_path, tmp_path / "logs", *flags, *runner) == 0
    clock = "if that is wrong, write stamps with their offset, or correct --time_zone"
    assert warned(capsys)[0] == [
        f"2 of 102: no case id, first at record 8 of {second}; mend the source, or map another "
        "column with --case_id",
        f"1 of 102: no activity, first at record 1 of {second}; mend the source, or map another "
        "column with --activity",
        f"1 of 102: no timestamp, first at record 9 of {second}; mend the source, or map another "
        "column with --timestamp",
        f"96 of 102: timestamp in an hour that the clocks of Europe/Berlin skip, read as its end, "
        f"first at record 1 of {tmp_path}/logs/a.csv; {clock}",
        f"1 of 102: timestamp in an hour that the clocks of Europe/Berlin show twice, read as the "
        f"first, first at record 10 of {second}; {clock}",
        f"1 of 102: case id written like 5.0, while 1 are written like 5, first at record 11 of "
        f"{second}; these are different cases; say --whole_numbers case_id if they are the same",
        f"malformed records are left out; {dead} says where each one is",
    ]
    internal = operator_folder(tmp_path / "keys") / "statement.md"
    assert str(dead) in internal.read_text()
    public = tmp_path / "out" / "run_id=r"
    assert files_with(b"private-dfg", public) and not files_with(str(dead).encode(), public)


def test_what_is_no_xes_is_said_where_a_release_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same file ends a method that does not go on, and no record decides for one that does."""
    path = tmp_path / "log.xes"
    path.write_text(
        "<log><object-types/><event-types/><objects/><events>"
        f'<event id="{SECRET}" type="A" time="2026-01-01T00:00:00Z"/></events></log>'
    )
    assert release(tmp_path, path, "--max_error_ratio", 1) == 0
    told = [line for line in warned(capsys)[0] if "object-centric log (OCEL 2.0 as XML)" in line]
    assert len(told) == 1 and "pm4py.ocel_flattening" in told[0] and "1 of 1: " in told[0]
    assert tracecloak("vocabulary", "--log", path) == 3
    assert "object-centric log (OCEL 2.0 as XML)" in warned(capsys)[1]


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        (ColumnMapping(), "as ISO 8601"),
        (ColumnMapping(timestamp_format="%d.%m.%Y"), "--timestamp_format '%d.%m.%Y' says"),
        (ColumnMapping(timestamp_unit="ms"), "as ms since 1970 nor as ISO 8601"),
    ],
)
def test_every_finding_has_a_line_with_a_mend_that_exists(
    mapping: ColumnMapping, told: str
) -> None:
    known = {*Columns.model_fields, *CSV_KEYS, "vocabulary", "closed_vocabulary", "where"}
    source = EventSource((SourceFile(0, "a.csv", 1),), SourceFormat(), mapping)
    counts, first = np.full(len(FINDINGS), 1_234), np.full(len(FINDINGS), 4_566)
    tally = ReadTally(5_678, counts, first)
    lines = list(finding_lines(tally, source))
    assert len(lines) == len(set(lines)) == len(FINDINGS) - 1  # the two forms of a key are one
    assert WHOLE_KEY in FINDINGS
    n_all = tally.n_records + 4 * 1_234
    for line in lines:
        of = n_all if any(words in line for words in ASIDE) else tally.n_records
        if line != DROPPED % 1_234:
            assert line.startswith(f"1,234 of {of:,}: ") and "record 4,567 of a.csv; " in line
        assert set(re.findall(r"--(\w+)", line)) <= known
    assert any(told in line for line in lines)

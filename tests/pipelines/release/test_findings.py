"""What the operator is told of the records that were read, and that none of them ends a release.

What cannot be read of a log is left out and told to the operator. What files declare is looked at
before anything is paid.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.releasing import csv_log, operator_folder, placed, small_rows, tracecloak
from tests.support.searching import files_with
from tests.support.terminal import watch
from tests.support.tiers import at_night
from tracecloak.pipelines.configuration.config import Columns
from tracecloak.pipelines.planning import plan as plans
from tracecloak.pipelines.planning.findings import NOTHING_READ, finding_lines
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import FINDINGS, Noted, ReadTally
from tracecloak.schemas.events.traces import DROPPED
from tracecloak.transforms.formats import csv as csv_format
from tracecloak.transforms.formats import jsonl as jsonl_format
from tracecloak.transforms.formats import xes as xes_format
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


def release(tmp_path: Path, source: Path, *flags: object) -> int:
    graph = ("--method", "private-dfg", "--epsilon", 1, "--buy_vocabulary")
    return tracecloak(*placed(tmp_path, source, *graph, *flags))


def warned(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """The warnings on the screen, and the last line."""
    lines = capsys.readouterr().err.splitlines()
    assert SECRET not in "\n".join(lines)
    warnings = [line.split(" WARNING ")[1] for line in lines if " WARNING " in line]
    return warnings, lines[-1] if lines else ""


@runners
def test_they_are_told_of_when_the_run_goes_on(
    tmp_path: Path,
    runner: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a terminal; elsewhere none of this is shown (`test_what_others_read.py`)."""
    watch(monkeypatch)
    (tmp_path / "logs").mkdir()
    good = [(f"c{i}", "A", "2026-03-29 02:30") for i in range(90)]
    first = csv_log(tmp_path / "logs" / "a.csv", good)
    late = [("c", "", "2026-01-01"), *good[:6], ("", "A", "2026-01-01"), (SECRET, "A", "")]
    late += [("5", "A", "2026-10-25 02:30"), ("5.0", "A", "2026-01-01"), ("", "A", SECRET)]
    second = csv_log(tmp_path / "logs" / "b.csv", late)
    dead = tmp_path / "dead"
    flags = ["--max_error_ratio", 0.1, "--dead_letter", dead, "--time_zone", "Europe/Berlin"]
    assert release(tmp_path, tmp_path / "logs", *flags, *runner) == 0
    *found, last = warned(capsys)[0]
    assert str(dead) in last
    said = r"^(\d+) of 102: .* first at record (\d+) of (\S+);"
    assert [re.findall(said, one) for one in found] == [
        [("2", "8", str(second))], [("1", "1", str(second))], [("1", "9", str(second))],
        [("96", "1", str(first))], [("1", "10", str(second))], [("1", "11", str(second))],
    ]  # fmt: skip
    internal = operator_folder(tmp_path / "keys") / "statement.md"
    assert str(dead) in internal.read_text()
    public = tmp_path / "out" / "run_id=r"
    assert files_with(b"private-dfg", public) and not files_with(str(dead).encode(), public)


def test_what_is_no_xes_is_said_where_a_release_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file ends a method that does not go on, and no record decides for one that does."""
    watch(monkeypatch)
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
        (ColumnMapping(timestamp_format="%d.%m.%Y"), "timestamp_format '%d.%m.%Y' says"),
        (ColumnMapping(timestamp_unit="ms"), "as ms since 1970 nor as ISO 8601"),
    ],
)
def test_every_finding_has_a_line_with_a_remedy_that_exists(
    mapping: ColumnMapping, told: str
) -> None:
    known = {*Columns.model_fields, *CSV_KEYS, "vocabulary", "closed_vocabulary", "where"}
    source = EventSource((SourceFile(0, "a.csv", 1),), SourceFormat(), mapping)
    counts, first = dict.fromkeys(FINDINGS, 1_234), dict.fromkeys(FINDINGS, 4_566)
    tally = ReadTally(5_678, counts, first)
    lines = list(finding_lines(tally, source))
    assert len(lines) == len(set(lines)) == len(FINDINGS) - 1  # the two forms of a key are one
    assert Noted.WHOLE_KEY in FINDINGS
    n_all = tally.n_records + 4 * 1_234
    for line in lines:
        of = n_all if any(words in line for words in ASIDE) else tally.n_records
        if line != DROPPED % 1_234:
            assert line.startswith(f"1,234 of {of:,}: ") and "record 4,567 of a.csv; " in line
        assert set(re.findall(r"\b[a-z]+_\w+", line)) <= known
    assert any(told in line for line in lines)


# --- how large a release by oversampling becomes --------------------------------------------------

SAID = "A release would have about "


@pytest.fixture
def growing(tmp_path: Path) -> list[str]:
    """Of a log of 30 cases, each with an activity of its own."""
    rows = [f"{i},a{i},2026-01-0{1 + i % 9}T00:00:00Z" for i in range(30)]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["case_id,activity,timestamp", *rows, ""]))
    return [
        "--log", str(log), "--output", str(tmp_path / "out"), "--method", "amun",
        "--guessing_advantage", "0.2",
    ]  # fmt: skip


def test_a_plan_does_not_read_a_large_log_for_it(
    growing: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plans, "_FORETOLD_BYTES", 10)
    assert tracecloak("plan", *growing, "--full", "--mode", "oversampling") == 0
    told = capsys.readouterr().out
    assert SAID not in told
    assert "a plan reads up to 10 for it. A release says it before noise is drawn." in told


@pytest.mark.parametrize("runner", ["InMemory", at_night("FnApiRunner")])
def test_a_release_says_it_before_noise_is_drawn(
    growing: list[str],
    runner: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And one that is too large is refused, with public numbers alone."""
    watch(monkeypatch)
    assert tracecloak("release", *growing, "--mode", "oversampling", "--runner", runner) == 0
    told = capsys.readouterr().err
    assert 0 < told.index(f"WARNING amun: {SAID}") < told.index("decided: dafsa")
    wanted = [*growing, "--mode", "oversampling", "--max_growth"]
    assert tracecloak("release", *wanted, "1.5") == 2
    told = capsys.readouterr().err.splitlines()
    assert re.findall(r"\d[\d.]*", told[-1]) == ["1.5", "2"]  # the parameter, and the exit code
    assert tracecloak("release", *wanted, "10") == 0


# --- what no record decides ---------------------------------------------------------------------


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
    assert release(tmp_path, path, "--runner", runner) == 0
    [letter] = (operator_folder(tmp_path / "keys") / "file-00000.jsonl").read_text().splitlines()
    assert json.loads(letter) == {"file": 0, "record": 2, "reason": "malformed record"}
    told = capfd.readouterr()
    for_operator = (operator_folder(tmp_path / "keys") / "operator.log").read_text()
    assert "1 of 3: no whole record" in for_operator and "1 of 3" not in told.out + told.err
    for text in (told.out, told.err, for_operator):
        assert SECRET not in text and "xxxxx" not in text


def test_a_log_of_which_nothing_can_be_read_is_released_with_a_loud_warning(tmp_path: Path) -> None:
    path = log_with(tmp_path, "csv", "A")
    for name, more in (("loud", ["--timestamp_format", "%d.%m.%Y"]), ("calm", [])):
        assert release(tmp_path / name, path, *more) == 0
        kept = operator_folder(tmp_path / name / "keys") / "operator.log"
        assert NOTHING_READ in kept.read_text() if more else not kept.exists()


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
    assert release(tmp_path, path) == 3
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
    assert release(tmp_path, tmp_path / "log-*.csv") == 3
    assert "log-29.csv: the input has no column 'activity'" in capfd.readouterr().err
    assert not (tmp_path / "keys").exists()
    last.write_bytes(b"")
    assert release(tmp_path, tmp_path / "log-*.csv") == 3
    assert not (tmp_path / "keys").exists()

"""Columns of a release: attributes as they are declared, and no times where there are none."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.golden.releases import data_of, log_file, run_example
from tests.support.attribute_methods import register
from tests.support.examples import examples_of
from tests.support.received import edited, rewritten
from tests.support.releasing import fix_key, released, tracecloak, visible
from tests.support.searching import contents
from tests.support.tiers import at_night
from tests.support.xes_schema import schema_problems
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.demo.hospital import hospital_log
from tracecloak.examination.measure.registry import MEASURES
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.events.events import released_schema
from tracecloak.schemas.published.manifest import has_times
from tracecloak.transforms.publish.figures_data import NO_STARTS, NO_TIMES

N_CASES = 300
NAMES = ("Registration", "Triage", "CRP", "Leucocytes", "Discharge home")
DECLARED: dict[str, Any] = {
    "org:resource": {"values": ["R1", "R2 & <R3>"], "column": "who"},
    "case:age": {"bounds": [0, 100], "n_bins": 10, "whole": True, "column": "age"},
    "amount": {"bounds": [0, 50], "n_bins": 5},
}
TYPES = {"org:resource": pa.string(), "case:age": pa.int64(), "amount": pa.float64()}
# A column that nobody maps with its values; a value, numbers and words in columns that are mapped.
CANARIES = ("canary-name", "canary-column", "canary-value", "77777.25", "canary-number", "471100")


@pytest.fixture(autouse=True)
def known_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)
    fix_key(monkeypatch)


def rows() -> list[dict[str, Any]]:
    """A hospital log with attributes; some are missing, undeclared or no numbers."""
    made = pa.Table.from_batches(hospital_log(N_CASES)).to_pylist()
    for number, row in enumerate(made):
        case = int(row["case_id"].strip("P"))
        row["timestamp"] = row["timestamp"].isoformat()
        row["person"] = f"person-{case // 3}"
        row["who"] = ("R1", "R2 & <R3>", "canary-value", "")[(number + case) % 4]
        row["age"] = "" if case % 4 == 0 or number % 3 == 0 else str((case * 7) % 100)
        if case % 50 == 1:
            row["age"] = "471100"
        row["amount"] = ("1.5", "49", "77777.25", "canary-number", "")[number % 5]
        row["canary-name"] = "canary-column"
    return made


def write_csv(path: Path, made: Sequence[dict[str, Any]], names: Sequence[str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(made)
    return path


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two files, the events of a case in both."""
    folder = tmp_path_factory.mktemp("inputs")
    made = rows()
    (folder / "names.txt").write_text("\n".join(NAMES) + "\n")
    lines = folder / "b.jsonl"
    with lines.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in made[1::2])
    return [write_csv(folder / "a.csv", made[::2], list(made[0])), lines]


def release(folder: Path, inputs: Sequence[Path], *flags: object, **declared: Any) -> Path:
    return released(
        folder, ",".join(map(str, inputs)), "--parts", 3,
        "--method", "private-log", "--epsilon", 40, "--delta", "1e-5", "--max_trace_length", 2,
        "--vocabulary", inputs[0].parent / "names.txt", "--formats", "parquet,xes,csv",
        "--attributes", json.dumps(declared or DECLARED), *flags,
    )  # fmt: skip


def table_of(made: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in sorted((made / "log").iterdir()))


# --- what is released -----------------------------------------------------------------------------


@pytest.mark.parametrize("runner", ["InMemory", at_night("FnApiRunner")])
def test_attributes_are_typed_columns_within_their_declaration_and_all_that_is_released(
    tmp_path: Path, inputs: list[Path], runner: str
) -> None:
    """Parquet is looked at as it is and unpacked; control: the declared values are found."""
    table = table_of(release(tmp_path, inputs, "--runner", runner))
    assert table.schema.remove_metadata().equals(released_schema(TYPES))
    found = table.to_pydict()
    assert set(found["org:resource"]) == {"R1", "R2 & <R3>", None}
    for name, high in (("case:age", 100), ("amount", 50)):
        values = [value for value in found[name] if value is not None]
        assert values and all(0 <= value <= high for value in values)
        assert None in found[name]
    ages: dict[str, set[int | None]] = {}
    for case, age in zip(found["case_id"], found["case:age"], strict=True):
        ages.setdefault(case, set()).add(age)
    assert all(len(own) == 1 for own in ages.values())
    whole = b"".join(
        path.name.encode() + text for path in visible(tmp_path / "out") for text in contents(path)
    )
    for canary in CANARIES:
        assert canary.encode() not in whole, canary
    assert b"R2 &amp; &lt;R3&gt;" in whole and b"R2 & <R3>" in whole


@pytest.mark.parametrize("runner", [at_night("InMemory"), "FnApiRunner"])
def test_an_empty_release_still_has_the_columns(tmp_path: Path, runner: str) -> None:
    header = write_csv(tmp_path / "empty.csv", [], list(rows()[0]))
    found = released(
        tmp_path, header, "--parts", 2, "--method", "passing", "--formats", "parquet,xes,csv",
        "--attributes", json.dumps(DECLARED), "--runner", runner,
    )  # fmt: skip
    assert table_of(found).num_rows == 0
    expected = released_schema(TYPES)
    for path in (found / "log").iterdir():
        assert pq.read_schema(path).remove_metadata().equals(expected)
    lines = gzip.decompress((found / "log.csv.gz").read_bytes()).decode().splitlines()
    assert lines == [",".join(expected.names)]
    assert schema_problems(gzip.decompress((found / "log.xes.gz").read_bytes())) == []


@pytest.mark.parametrize("runner", ["InMemory", at_night("FnApiRunner")])
def test_texts_of_the_source_are_never_written(
    tmp_path: Path, inputs: list[Path], runner: str
) -> None:
    """Catches a method that releases what it was given; `passing` can be told to."""
    flags = (
        "release", "--log", ",".join(map(str, inputs)), "--key_store", tmp_path / "keys",
        "--method", "passing", "--attributes", json.dumps(DECLARED), "--runner", runner,
    )  # fmt: skip
    assert tracecloak(*flags, "--output", tmp_path / "right") == 0
    assert tracecloak(*flags, "--output", tmp_path / "wrong", "--wrongly") == 6
    assert not visible(tmp_path / "wrong")


# --- Releases without times -----------------------------------------------------------------------


BY_DAY = {"pretsa", "variant-histogram", "auto-variants", "sapa", "private-log"}


def untimed() -> dict[str, Mapping[str, Any]]:
    """The first example without times of each method that releases a log."""
    found = {}
    for name, method in METHODS.builtins.items():
        for example in examples_of(method) if method.log != "none" else ():
            if not has_times(method.operations_of(method.Params(**example))):
                found.setdefault(name, example)
    return found


EXAMPLES = untimed()


def release_without_times(folder: Path, method: str, **changes: Any) -> Path:
    example = EXAMPLES.get(method) or METHODS[method].examples[0]
    if "epsilon" in example:
        example = {**example, "epsilon": "100"}  # so that something comes out
    assert run_example(folder, method, example, log_file(folder), **changes) == 0
    return folder / "out" / "run_id=golden"


@pytest.mark.parametrize("method", [n if n in BY_DAY else at_night(n) for n in EXAMPLES])
def test_nothing_of_a_release_without_times_is_a_time(tmp_path: Path, method: str) -> None:
    release = release_without_times(tmp_path, method)
    columns = ["case_id", "activity", "event_index", *EXAMPLES[method].get("duration", ())]
    for part in (release / "log").iterdir():
        assert pq.read_schema(part).names == columns
    csv = gzip.decompress((release / "log.csv.gz").read_bytes()).decode()
    assert csv.partition("\n")[0] == ",".join(columns)
    xes = gzip.decompress((release / "log.xes.gz").read_bytes()).decode()
    assert "<date" not in xes and 'prefix="time"' not in xes and xes.count("<trace>") > 100
    page = (release / "report.html").read_bytes()
    shown = json.loads(data_of(page))
    assert shown["times"] is None and shown["map"]["edges"]
    assert all(edge["median_s"] is None for edge in shown["map"]["edges"])
    assert NO_TIMES in page.decode() and "1970" not in page.decode()
    assert tracecloak("verify", release) == 0
    report = tmp_path / "e.json"
    assert tracecloak("evaluate", release, "--log", tmp_path / "log.csv", "--output", report) == 0
    measured = json.loads(report.read_text())["legend"]
    assert measured and not any("times" in MEASURES[name].needs for name in measured)


@pytest.mark.parametrize("method", ["tlkc", "pretsa-case"])
def test_a_page_of_times_since_one_public_time_does_not_tell_when_cases_begin(
    tmp_path: Path, method: str
) -> None:
    release = release_without_times(tmp_path, method)
    page = (release / "report.html").read_bytes()
    shown = json.loads(data_of(page))["times"]
    assert shown["spans"] and shown["starts"] == [] and shown["week"] is None
    assert NO_STARTS in page.decode() and 'id="starts"' not in page.decode()
    report = tmp_path / "e.json"
    assert tracecloak("evaluate", release, "--log", tmp_path / "log.csv", "--output", report) == 0
    body = json.loads(report.read_text())
    assert body["drift"] is None is body["hour_of_week_total_variation"]
    assert body["case_duration_distance"] is not None


def test_a_log_with_the_seconds_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    release = release_without_times(tmp_path, "variant-histogram")
    [part, *_] = sorted((release / "log").iterdir())
    stamped = pq.read_table(part).rename_columns(["case_id", "activity", "timestamp"])
    now = Contents(Received.at(str(release))).whole()
    assert now is not None and now.durations.max() < 100
    seconds = stamped["timestamp"].cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "UTC"))
    pq.write_table(stamped.set_column(2, "timestamp", seconds), part)
    rewritten(release, f"log/{part.name}", part.read_bytes())
    of_part = (f"log/{part.name}", "statement.md")

    def earlier(body: Any) -> None:
        body["tool"]["version"] = "0.1.0"
        body["outputs"] = [one for one in body["outputs"] if one["path"] in of_part]

    edited(release, earlier)
    before = Contents(Received.at(str(release))).whole()
    assert before is not None and before.n_events == stamped.num_rows

"""Events with equal timestamps: in the order of a column, else of their places, else of names."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracecloak
from tests.support.logs import read_cases
from tests.support.record_files import ALL_WRITERS, record
from tests.support.releasing import digests, fix_key
from tests.support.releasing import tracecloak as command
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.plan import source_of
from tracecloak.pipelines.frames.functions import frame_source
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import FileTally
from tracecloak.schemas.published.manifest import ORDERED_BY_NAME
from tracecloak.transforms.inputs.python_rows import RowReader
from tracecloak.transforms.sources import EventSource

STEPS = ["Create order", "Approve", "Receive goods", "Pay"]
NAMES = ["_CASE_KEY", "ACTIVITY_EN", "EVENTTIME", "_SORTING"]
COLUMNS = dict(zip(("case_id", "activity", "timestamp"), NAMES, strict=False))
ORDER = {**COLUMNS, "order": "_SORTING"}


def rows(n_cases: int = 60) -> list[tuple[Any, ...]]:
    """Cases of one day each, whose steps an export numbers."""
    return [
        (4500000 + case, step, f"2024-02-{1 + case % 28:02}", 10 * (1 + place))
        for case in range(n_cases)
        for place, step in enumerate(STEPS)
    ]


ROWS = rows()
SHUFFLED = random.Random(3).sample(ROWS, len(ROWS))


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    fix_key(monkeypatch)
    Path("names.txt").write_text("\n".join(STEPS))
    return tmp_path


def write(path: str, records: list[tuple[Any, ...]]) -> str:
    """Writes records into a file of CSV."""
    lines = [NAMES, *records]
    Path(path).write_text("".join(f"{','.join(map(str, line))}\n" for line in lines))
    return path


def variants(source: EventSource) -> set[tuple[str, ...]]:
    (traces,) = group_into_traces(source.events())
    return {tuple(name for name, _ in events) for events in read_cases(traces).values()}


def of_files(log: str, **columns: str) -> EventSource:
    return source_of(load_log({"log": log, **columns}))


@pytest.mark.parametrize("kind", ALL_WRITERS)
def test_an_order_column_orders_the_files_of_every_format(kind: str) -> None:
    records = [
        record(str(case), step, kind=str(number), stamp=f"{day}T00:00:00Z")
        for case, step, day, number in SHUFFLED
    ]
    for half in range(2):
        Path(f"{half}.{kind}").write_bytes(ALL_WRITERS[kind](records[half::2]))
    names = {"case_id": "case", "activity": "activity", "timestamp": "stamp"}
    columns = {} if kind == "xes" else names
    assert variants(of_files(f"0.{kind},1.{kind}", **columns, order="kind")) == {tuple(STEPS)}
    assert len(variants(of_files(f"0.{kind}", **columns))) > 4


def frames(records: list[tuple[Any, ...]]) -> dict[str, Any]:
    df = pd.DataFrame(records, columns=NAMES)
    labels = random.Random(1).sample(range(len(df)), len(df))
    whole = pl.DataFrame(df.to_dict("list"))
    return {
        "pandas": df,
        "labels that are shuffled": df.set_index(pd.Index(labels)),
        "objects": df.astype(object),
        "polars": whole,
        "Arrow": whole.to_arrow(),
        "polars, lazy": whole.lazy(),
        "DuckDB": duckdb.from_arrow(whole.to_arrow()),
    }


def test_the_rows_of_a_frame_are_its_order_unless_it_is_lazy() -> None:
    for name, frame in frames(ROWS).items():
        is_lazy = name in ("polars, lazy", "DuckDB")
        expected = sorted(STEPS) if is_lazy else STEPS
        assert variants(frame_source(frame, dict(COLUMNS))) == {tuple(expected)}, name
    for name, frame in frames(SHUFFLED).items():
        assert variants(frame_source(frame, dict(ORDER))) == {tuple(STEPS)}, name


GRAPH = {"method": "private-dfg", "epsilon": 2, "vocabulary": STEPS, "max_trace_length": 6}


def released(log: list[str], name: str, **columns: str) -> dict[str, str]:
    """The digests of all that a release has."""
    flags = [text for key, value in columns.items() for text in (f"--{key}", value)]
    params = ("--epsilon", 2, "--vocabulary", "names.txt", "--max_trace_length", 6)
    assert command(
        "release", *log, "--output", name, "--release_id", "r", "--method", "private-dfg",
        "--key_store", f"{name}/k", *params, *flags,
    ) == 0  # fmt: skip
    return digests(Path(name) / "run_id=r")


def database(path: str, records: list[tuple[Any, ...]]) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE e (_CASE_KEY, ACTIVITY_EN, EVENTTIME, _SORTING)")
        connection.executemany("INSERT INTO e VALUES (?, ?, ?, ?)", records)


def test_shuffled_rows_with_an_order_are_the_release_of_the_original() -> None:
    made = []
    for name, records in (("first", ROWS), ("shuffled", SHUFFLED)):
        made.append(released(["--log", write(f"{name}.csv", records)], name, **ORDER))
    assert made[0] == made[1]
    made = []
    for name, records in (("one", ROWS), ("other", SHUFFLED)):
        database(f"{name}.db", records)
        asked = ["--query", "SELECT * FROM e", "--database", f"sqlite:///{name}.db"]
        made.append(released(asked, name, **ORDER))
    assert made[0] == made[1]
    first = tracecloak.release(frames(ROWS)["pandas"], **GRAPH, **ORDER, new_ledger=True)
    for name, frame in frames(SHUFFLED).items():
        assert tracecloak.release(frame, **GRAPH, **ORDER).was_released_before, name
    # A frame without an order is in that of its rows, and a column may have another scale.
    untouched = frames(ROWS)["labels that are shuffled"]
    scaled = untouched.assign(_SORTING=untouched["_SORTING"] / 7 - 3)
    again = tracecloak.release(scaled.sample(frac=1, random_state=2), **GRAPH, **ORDER)
    assert again.folder == first.folder
    assert tracecloak.release(untouched, **GRAPH, **COLUMNS).release_id != first.release_id
    found = [
        tracecloak.release(frames(one)["polars"], **GRAPH, **COLUMNS) for one in (ROWS, SHUFFLED)
    ]
    assert [one.was_released_before for one in found] == [True, False]


def test_the_rows_of_a_query_count_only_where_they_are_said_to() -> None:
    database("visits.db", ROWS)
    query = "SELECT * FROM e ORDER BY _CASE_KEY, _SORTING"
    asked = ["--query", query, "--database", "sqlite:///visits.db"]
    counts = {}
    for name, order in (
        ("names", {}),
        ("rows", {"order": "rows"}),
        ("column", {"order": NAMES[3]}),
    ):
        released(asked, name, **{**COLUMNS, **order})
        body = json.loads(Path(name, "run_id=r/dfg.json").read_text())
        counts[name] = {(e["source"], e["target"]): e["count"] for e in body["edges"]}
        for file in ("statement.md", "report.html", "manifest.json"):
            text = Path(name, "run_id=r", file).read_text().replace("\n", " ")
            assert (ORDERED_BY_NAME in text) == (name == "names"), (name, file)
        assert command("verify", Path(name, "run_id=r")) == 0
    right = ("Receive goods", "Pay")
    assert min(counts["rows"][right], counts["column"][right]) > 40
    assert counts["names"].get(right, 0) < 20
    # Elsewhere a column may have that name.
    write("log.csv", SHUFFLED)
    text = Path("log.csv").read_text().replace("_SORTING", "rows")
    Path("log.csv").write_text(text)
    assert variants(of_files("log.csv", **COLUMNS, order="rows")) == {tuple(STEPS)}


# --- whatever a value is ---------------------------------------------------------------------

STRANGE: list[Any] = [
    None, "", "x", [1], {"a": 1}, True, float("nan"), float("inf"), 2.0**60, "\u202e",
]  # fmt: skip


def order_of(source: EventSource) -> list[str]:
    """The activities of the one case; no record of the source may be malformed."""
    events, rejects = [], 0
    for file in source.files:
        for batch, rejected in source.read(file, FileTally(file.rank)):
            events.append(batch)
            rejects += rejected.num_rows
    assert not rejects
    (traces,) = group_into_traces(events)
    return [name for name, _ in read_cases(traces)["c"]]


VALUES = st.lists(
    st.one_of(st.sampled_from(STRANGE), st.integers(-(2**70), 2**70), st.floats(-9, 9),
              st.text("5 .é", max_size=3)),
    min_size=1, max_size=6,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(VALUES, st.data())
def test_no_value_of_an_order_makes_a_record_malformed_or_moves_another(
    values: list[Any], data: st.DataObject
) -> None:
    mapping = ColumnMapping(order="n")

    def orders(given: list[tuple[int, Any]]) -> list[list[str]]:
        fields = [
            {"case_id": "c", "activity": f"{i:02}", "timestamp": "2026-01-01", "n": value}
            for i, value in given
        ]
        reader = RowReader.for_unnamed_columns(mapping)
        events, reasons = reader.read([row.get for row in fields], FileTally(0))
        assert not reasons
        (traces,) = group_into_traces([events])
        frame = pd.DataFrame(fields).astype(object)
        lines = "".join(json.dumps(row) + "\n" for row in fields)
        Path("log.jsonl").write_text(lines)
        return [
            [name for name, _ in read_cases(traces)["c"]],
            order_of(frame_source(frame, {"order": "n"})),
            order_of(of_files("log.jsonl", order="n")),
        ]

    placed = list(enumerate(values))
    whole = orders(placed)
    gone = data.draw(st.integers(0, len(values) - 1))
    if len(values) > 1:
        for all_of_it, fewer in zip(whole, orders(placed[:gone] + placed[gone + 1 :]), strict=True):
            assert fewer == [name for name in all_of_it if name != f"{gone:02}"]

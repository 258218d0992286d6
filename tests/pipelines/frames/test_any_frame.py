"""Frames of every library as columns of Arrow, and back."""

from __future__ import annotations

import datetime
import decimal
import re
import sys
import types
import uuid
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tracecloak.pipelines.frames.frame_source import AnyFrame
from tracecloak.schemas.errors import InputSchemaError, OtherFormat
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.source_column import SourceColumn

TABLE = pa.table({"case": ["a", "b", "a"], "n": [1, 2, 3], "unused": [[1], [2], [3]]})


def relation(table: pa.Table) -> Any:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.from_arrow(table)


FRAMES = {
    "Arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "a lazy frame of polars": lambda table: pl.from_arrow(table).lazy(),
    "DuckDB": relation,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_columns_come_in_and_a_table_goes_out_as_the_same_kind(kind: str) -> None:
    """Catches a library that is read otherwise, or whose user gets another kind back."""
    given = FRAMES[kind](TABLE)
    frame = AnyFrame.of(given)
    columns, unread = frame.columns(["n", "case"])
    assert frame.names == ("case", "n", "unused")
    assert columns.to_pydict() == {"n": [1, 2, 3], "case": ["a", "b", "a"]}
    assert unread.tolist() == [False] * 3
    assert type(frame.like_it(TABLE.select(["case", "n"]))) is type(given)


def test_a_log_of_pm4py_gets_a_log_and_its_graph_as_a_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches a graph that pm4py is asked to read as events, which it refuses."""
    log = type("EventLog", (), {"__module__": "pm4py.objects.log.obj"})
    pm4py = types.SimpleNamespace(
        convert_to_dataframe=lambda log: TABLE.to_pandas(), convert_to_event_log=lambda frame: log()
    )
    monkeypatch.setitem(sys.modules, "pm4py", pm4py)
    frame = AnyFrame.of(log())
    assert isinstance(frame.like_it(TABLE, is_log=True), log)
    assert isinstance(frame.like_it(TABLE), pd.DataFrame)


def test_a_value_has_no_say_in_the_type_of_another_one() -> None:
    """Catches inference over a column of objects, by which one record renames the others."""
    mixed = [
        1, 2.0, "x", 1.5, None, True, decimal.Decimal("7.00"), np.int8(3), float("nan"), "\ud800",
    ]  # fmt: skip
    more = [[1], b"\xff", pd.NaT, pd.NA, pd.Period("2026-01"), {"a": 1}]
    with_more = pd.DataFrame({"c": pd.Series([*mixed, *more], dtype=object)})
    columns, unread = AnyFrame.of(with_more).columns(["c"])
    column = SourceColumn("c", columns.column("c"))
    assert column.text().to_pylist() == [
        *("1", "2", "x", "1.5", None, "true", "7", "3", None, None), *[None] * 6,
    ]  # fmt: skip
    # What is missing is there; what is no scalar is neither.
    assert np.flatnonzero(unread).tolist() == [9, 10, 14, 15]
    assert np.flatnonzero(column.fractions()).tolist() == [3]
    alone, _ = AnyFrame.of(pd.DataFrame({"c": pd.Series([1], dtype=object)})).columns(["c"])
    assert SourceColumn("c", alone.column("c")).text().to_pylist() == ["1"]


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["2024-01-02", "10", "9"])])
def test_categories_of_polars_are_times_and_order_events(kind: Any) -> None:
    """Catches categories, which polars keeps as views, that end the reading of a frame."""
    frame = pl.DataFrame({"c": ["2024-01-02", "10", None, "9"]}).with_columns(
        pl.col("c").cast(kind)
    )
    columns, _ = AnyFrame.of(frame).columns(["c"])
    column = SourceColumn("c", columns.column("c"))
    assert column.order_text().to_pylist() == ["2024-01-02", "10", None, "9"]
    wall = ColumnMapping().wall_clock()
    assert column.times(wall, None, None).to_pylist() == [1_704_153_600_000_000, *[None] * 3]


def test_no_value_ends_the_reading_of_the_others() -> None:
    """Catches what one record of a frame could refuse a whole release with."""
    uuid_text = "12345678-1234-5678-1234-567812345678"
    odd = [decimal.Decimal("sNaN"), decimal.Decimal("1e300000"), 10**5000, uuid.UUID(uuid_text)]
    objects = pd.DataFrame({"c": pd.Series([*odd, "x"], dtype=object)})
    columns, _ = AnyFrame.of(objects).columns(["c"])
    assert columns.column("c").to_pylist() == [None, None, None, uuid_text, "x"]


def test_a_type_of_another_library_is_refused_by_its_column() -> None:
    """Catches periods that are read as the numbers by which pandas counts them."""
    months = pd.DataFrame({"month": pd.period_range("2026-01", periods=2, freq="M")})
    with pytest.raises(InputSchemaError, match=r"'month' has type pandas\.period"):
        AnyFrame.of(months).columns(["month"])


def test_times_that_serve_as_texts_are_iso_8601_in_columns_of_any_type() -> None:
    """Catches a date that names something else in a typed column than among objects."""
    day, moment = datetime.date(2026, 1, 2), pd.Timestamp("2026-01-02T03:04:05Z")
    clock = np.datetime64("2026-01-02T03:04:05.123456789")
    mixed = pd.DataFrame({"t": pd.Series([day, moment, "2026-01-03", clock], dtype=object)})
    typed = {
        "t": mixed["t"],
        "day": pa.array([day], pa.date32()),
        "moment": pd.Series([moment.tz_convert("Asia/Tokyo")]),
        "clock": pd.Series([clock]),
        "category": pd.Series([moment]).astype("category"),
    }
    texts = {}
    for name, values in typed.items():
        columns, _ = AnyFrame.of(
            pa.table({name: values})
            if isinstance(values, pa.Array)
            else pd.DataFrame({name: values})
        ).columns([name])
        texts[name] = SourceColumn(name, columns.column(name)).text().to_pylist()
    assert texts == {
        "t": [
            "2026-01-02T00:00:00", "2026-01-02T03:04:05Z", "2026-01-03",
            "2026-01-02T03:04:05.123456",
        ],
        "day": ["2026-01-02T00:00:00"], "moment": ["2026-01-02T03:04:05Z"],
        "clock": ["2026-01-02T03:04:05.123456"], "category": ["2026-01-02T03:04:05Z"],
    }  # fmt: skip


def test_what_is_no_frame_is_refused_by_its_type_and_never_shown() -> None:
    """Catches a traceback of a library, and a value in an error."""
    with pytest.raises(InputSchemaError, match=r"got builtins\.list") as refused:
        AnyFrame.of(["secret"])
    assert "secret" not in str(refused.value)


@pytest.mark.filterwarnings("ignore")  # of pm4py and its dependencies
def test_an_object_centric_log_is_to_be_flattened_as_the_error_says() -> None:
    """What it says is evaluated as it is, and the frame is taken."""
    pm4py = pytest.importorskip("pm4py")
    from pm4py.objects.ocel.obj import OCEL

    events = pd.DataFrame({"ocel:eid": ["e1"], "ocel:activity": ["A"]})
    events["ocel:timestamp"] = pd.to_datetime(["2024-01-01T10:00:00Z"])
    objects = pd.DataFrame({"ocel:oid": ["o1"], "ocel:type": ["order"]})
    relations = events.assign(**{"ocel:oid": "o1", "ocel:type": "order"})
    ocel = OCEL(events=events, objects=objects, relations=relations)
    with pytest.raises(OtherFormat, match="flatten") as raised:
        AnyFrame.of(ocel)
    [(call, types)] = re.findall(
        r"release\((pm4py.*?\)), .*?(pm4py\.ocel_get.*?\))", str(raised.value)
    )
    here = {"pm4py": pm4py, "ocel": ocel}
    [here["TYPE"]] = eval(types, here)
    assert {"case:concept:name", "concept:name", "time:timestamp"} <= set(
        AnyFrame.of(eval(call, here)).names
    )


DAY, HOUR = datetime.date(2024, 1, 31), datetime.time(9, 30, 5)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"d": [DAY, DAY], "h": [HOUR, None]}),
        pd.DataFrame({"d": pd.to_datetime([DAY, DAY]), "h": ["09:30:05", None]}),
        pd.DataFrame({"d": ["2024-01-31", DAY], "h": [HOUR, None]}),
        pl.DataFrame({"d": [DAY, DAY], "h": [HOUR, None]}),
        pa.table({"d": ["2024-01-31"] * 2, "h": pa.array([HOUR, None], pa.time32("s"))}),
    ],
    ids=["objects", "stamps", "mixed", "polars", "arrow"],
)
def test_a_date_and_a_time_of_day_of_a_frame_are_one_time(frame: Any) -> None:
    mapping = ColumnMapping("c", "c", ("d", "h"), time_zone="Europe/Berlin")
    columns, unread = AnyFrame.of(frame).columns(["d", "h"])
    texts = pa.array(["c"] * 2)
    batch = pa.RecordBatch.from_arrays([*columns.columns, texts], ["d", "h", "c"])
    assert not unread.any()
    resolved = mapping.resolve(batch.schema.names, xes_names=False)
    events, _ = resolved.canonicalise(batch, np.arange(2), np.zeros(0, np.int64), 0)
    assert events.column("timestamp").to_pylist() == [1_706_689_805_000_000]


def test_two_columns_of_one_name_are_refused() -> None:
    """Catches the choice of one of them."""
    doubled = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(InputSchemaError, match="share a name"):
        AnyFrame.of(doubled)
    with pytest.raises(InputSchemaError, match="named by texts"):
        AnyFrame.of(pd.DataFrame({0: [1]}))

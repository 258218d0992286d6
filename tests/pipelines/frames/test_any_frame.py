"""Frames of every library as columns of Arrow, and back."""

from __future__ import annotations

import datetime
import decimal
import sys
import types
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tiers import each_row
from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.plan import source_of
from tracecloak.pipelines.frames.frame_source import AnyFrame, FrameSource
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.row_masks import RowFilter
from tracecloak.schemas.events.source_column import SourceColumn
from tracecloak.schemas.events.tally import FileTally, Reject
from tracecloak.transforms.inputs.python_rows import RowReader

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
    frame = pl.DataFrame({"c": ["2024-01-02", "10", None, "9"]}).with_columns(
        pl.col("c").cast(kind)
    )
    columns, _ = AnyFrame.of(frame).columns(["c"])
    column = SourceColumn("c", columns.column("c"))
    assert column.order_text().to_pylist() == ["2024-01-02", "10", None, "9"]
    wall = ColumnMapping().clock.to_utc
    assert column.times(wall, None, None).to_pylist() == [1_704_153_600_000_000, *[None] * 3]


def test_no_value_ends_the_reading_of_the_others() -> None:
    uuid_text = "12345678-1234-5678-1234-567812345678"
    odd = [decimal.Decimal("sNaN"), decimal.Decimal("1e300000"), 10**5000, uuid.UUID(uuid_text)]
    objects = pd.DataFrame({"c": pd.Series([*odd, "x"], dtype=object)})
    columns, _ = AnyFrame.of(objects).columns(["c"])
    assert columns.column("c").to_pylist() == [None, None, None, uuid_text, "x"]


def test_times_that_serve_as_texts_are_iso_8601_in_columns_of_any_type() -> None:
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


OCEL = type("OCEL", (), {"__module__": "pm4py.objects.ocel.obj"})


@each_row(
    ("frame", "told"),
    [
        (["secret"], r"got builtins\.list"),
        (OCEL(), r"release\(pm4py\.ocel_flattening\("),
        (pd.DataFrame([[1, 2]], columns=["c", "c"]), "share a name"),
        (pd.DataFrame({0: [1]}), "named by texts"),
        # Which are no numbers, as pandas counts them.
        (pd.DataFrame({"c": pd.period_range("2026-01", periods=2, freq="M")}),
         r"'c' has type pandas\.period"),
    ],
)  # fmt: skip
def test_what_is_no_frame_is_refused_and_never_shown(frame: Any, told: str) -> None:
    with pytest.raises(InputSchemaError, match=told) as refused:
        AnyFrame.of(frame).columns(["c"])
    assert "secret" not in str(refused.value)


DAY, HOUR = datetime.date(2024, 1, 31), datetime.time(9, 30, 5)


@each_row(
    "frame",
    [
        pd.DataFrame({"d": [DAY, DAY], "h": [HOUR, None]}),
        pd.DataFrame({"d": pd.to_datetime([DAY, DAY]), "h": ["09:30:05", None]}),
        pd.DataFrame({"d": ["2024-01-31", DAY], "h": [HOUR, None]}),
        pl.DataFrame({"d": [DAY, DAY], "h": [HOUR, None]}),
        pa.table({"d": ["2024-01-31"] * 2, "h": pa.array([HOUR, None], pa.time32("s"))}),
    ],
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


Record = dict[str, Any]
COLUMNS = ("case_id", "activity", "timestamp", "begun", "note")

# Every key that says how values are read is a line here.
MAPPINGS = st.fixed_dictionaries(
    {
        "timestamp_format": st.sampled_from([None, None, "%d.%m.%Y %H:%M", "%Y%m%d"]),
        "timestamp_unit": st.sampled_from([None, "s", "ms", "us"]),
        "time_zone": st.sampled_from(["UTC", "Europe/Berlin", "Asia/Tokyo"]),
        "whole_numbers": st.sampled_from([(), ("case_id",), ("note", "activity")]),
        "start_timestamp": st.sampled_from([None, "begun"]),
        "order": st.sampled_from([None, "note"]),
        "filters": st.sampled_from(
            [
                *[()] * 5,
                (RowFilter("note", ("5", "true", "2026-01-01")),),
                (RowFilter("note", ("'5'", "x")),),
                (RowFilter("note", at_least="0", below="2027-01-01"),),
                (RowFilter("timestamp", above="1980-01-01"),),
            ]
        ),
    }
).map(lambda keys: ColumnMapping(**keys, attributes=(("note", "note"),)))

_MOMENTS = st.datetimes(datetime.datetime(1901, 1, 1), datetime.datetime(2200, 1, 1))
# Columns of one type each, as frames mostly have them.
TYPED = st.sampled_from(
    [
        st.integers(-(2**53), 2**53),
        st.integers(0, 4 * 10**9),
        st.integers(-9, 9).map(float),
        st.floats(-1e12, 1e12),
        st.booleans(),
        st.sampled_from(["5", "5.0", "x", "", "01.02.2026 10:00", "20260102", "2026-01-01", "1e3"]),
        _MOMENTS,
        _MOMENTS.map(lambda at: at.replace(tzinfo=datetime.UTC)),
        st.sampled_from([5, None]).map(lambda value: value and float(value)),
    ]
)
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.dates(),
    st.binary(max_size=3), st.decimals(), st.datetimes(), st.datetimes(timezones=st.timezones()),
    st.sampled_from(["01.02.2026 10:00", "2026-01-01", "5.0", pd.NaT, pd.NA, uuid.UUID(int=5)]),
    st.integers(-(10**14), 10**14).map(lambda us: Timestamp(micros=us)),
    st.floats(width=32).map(np.float32), st.lists(st.integers(), max_size=1),
    st.sampled_from([np.int8(5), np.datetime64("NaT"), np.datetime64("2026-01-01", "ns")]),
    st.just(pd.Timestamp(np.datetime64("20000-01-01", "s"))),
)  # fmt: skip


@st.composite
def logs(draw: Any) -> tuple[list[Record], Record, int]:
    """(records whose columns have one type each, any other record, a place for it)."""
    n = draw(st.integers(1, 5))
    columns = [draw(st.lists(draw(TYPED), min_size=n, max_size=n)) for _ in COLUMNS]
    records = [dict(zip(COLUMNS, values, strict=True)) for values in zip(*columns, strict=True)]
    odd = dict(zip(COLUMNS, [draw(st.one_of(ODD, draw(TYPED))) for _ in COLUMNS], strict=True))
    return records, odd, draw(st.integers(0, n))


def of_pandas(records: Sequence[Record]) -> pd.DataFrame:
    return pd.DataFrame({c: [record[c] for record in records] for c in COLUMNS})


LIBRARIES: dict[str, Callable[[Sequence[Record]], Any]] = {
    "pandas": of_pandas,
    "pandas, nullable": lambda records: of_pandas(records).convert_dtypes(),
    "pandas, objects": lambda records: of_pandas(records).astype(object),
    "pandas, categories": lambda records: of_pandas(records).astype("category"),
    "polars": lambda records: pl.DataFrame({c: [r[c] for r in records] for c in COLUMNS}),
    "Arrow": lambda records: pa.table({c: [r[c] for r in records] for c in COLUMNS}),
}


def of_frame(frame: Any, mapping: ColumnMapping) -> Counter[str] | None:
    """The events of a frame, and the reasons of the other rows; None where a type is refused."""
    source = FrameSource.over(AnyFrame.of(frame), mapping)
    try:
        ((events, rejects),) = source.read(source.files[0])
    except InputSchemaError as error:  # of a column that is known to hold numbers alone
        assert "say their unit since 1970" in str(error) and mapping.timestamp_unit is None
        return None
    return found(events, rejects.column("reason").to_pylist())


def found(events: pa.RecordBatch, reasons: Sequence[str]) -> Counter[str]:
    # What orders events is used up where a frame is put in order.
    kept = [name for name in events.schema.names if name not in ("event_index", "order")]
    rows = events.select(kept).to_pylist()
    return Counter([*map(repr, rows), *reasons])


def of_rows(records: Sequence[Record], mapping: ColumnMapping) -> Counter[str]:
    rows = [record.get for record in records]
    return found(*RowReader.for_unnamed_columns(mapping).read(rows, FileTally(0)))


@settings(deadline=None)
@given(log=logs(), mapping=MAPPINGS)
def test_no_record_changes_the_event_of_another(
    log: tuple[list[Record], Record, int], mapping: ColumnMapping
) -> None:
    records, odd, place = log
    alone = sum((of_rows([record], mapping) for record in records), Counter[str]())
    assert of_rows(records, mapping) == alone
    for kind, frame in LIBRARIES.items():
        assert of_frame(frame(records), mapping) in (alone, None), kind
    with_it = [*records[:place], odd, *records[place:]]
    for read in (
        of_rows(with_it, mapping),
        of_frame(of_pandas(with_it), mapping),
        of_frame(of_pandas(with_it).astype(object), mapping),
        of_frame(
            pl.DataFrame({c: pl.Series([r[c] for r in with_it], dtype=pl.Object) for c in COLUMNS}),
            mapping,
        ),
    ):
        if read is not None:
            assert alone <= read and (read - alone).total() <= 1


def test_a_column_without_a_start_is_one_of_floats_and_holds_no_numbers() -> None:
    """Catches a refusal that hangs on whether another record has a text there."""
    frame = pd.DataFrame({"case_id": ["c"], "activity": "A", "timestamp": "2026-01-01"})
    frame["begun"] = np.nan
    mapping = ColumnMapping(start_timestamp="begun")
    without = of_frame(frame, mapping) or Counter()
    assert Reject.NO_TIME not in without and without.total() == 1
    odd = frame.assign(begun="2025-12-31")
    assert without <= (of_frame(pd.concat([frame, odd]), mapping) or Counter())


def test_numbers_among_objects_are_times_of_the_unit() -> None:
    numbers = [5, 5.0, np.int8(5), np.float32(5), decimal.Decimal("5.00"), "5", np.uint64(5)]
    n = len(numbers)
    frame = pd.DataFrame(
        {"case_id": ["c"] * n, "activity": "A", "timestamp": [*numbers]}, dtype=object
    )
    mapping = ColumnMapping(timestamp_unit="s")
    read = of_frame(frame, mapping)
    assert read == of_rows(frame.to_dict("records"), mapping)
    assert read is not None and len(read) == 1


def test_files_as_a_frame_have_its_events(tmp_path: Path) -> None:
    """Also several, one without a record, with events at one time and none that passes a filter."""
    rows = [(f"c{n % 7}", "ABC"[n % 3], f"2026-01-0{1 + n % 2}T00:00:00Z") for n in range(60)]
    whole = pl.DataFrame(rows, ["case_id", "activity", "timestamp"], orient="row")
    for place, part in enumerate((whole[:25], whole[:0], whole[25:])):
        part.write_csv(tmp_path / f"{place}.csv")
    for where in ([], "activity = A, B", "activity = D"):
        files = source_of(load_log({"log": f"{tmp_path}/*.csv", "where": where}))
        frame = FrameSource.over(AnyFrame.of(whole), files.mapping)
        assert FrameSource.of_files(files).with_digest().files == frame.with_digest().files

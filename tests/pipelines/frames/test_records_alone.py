"""Frames and rows: whatever record is put in, wherever, every other one is read as it is alone.

One odd value makes pandas change the type of a column. Neither that nor the library that holds a
record has a say in which event it becomes.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.pipelines.frames.frame_source import AnyFrame, FrameSource
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.row_masks import RowFilter
from tracecloak.schemas.events.tally import NO_TIME, FileTally
from tracecloak.transforms.inputs.python_rows import RowReader

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


FRAMES: dict[str, Callable[[Sequence[Record]], Any]] = {
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
    for kind, frame in FRAMES.items():
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


@pytest.mark.parametrize("odd", ["x", 5, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), [1]])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_one_odd_stamp_makes_one_malformed_record(odd: Any, zone: str | None) -> None:
    """Catches times among objects that are written out and then read by the format of texts."""
    stamps = [pd.Timestamp("2026-01-01", tz=zone) + pd.Timedelta(hours=i) for i in range(400)]
    frame = pd.DataFrame({"case_id": range(400), "activity": "A", "timestamp": stamps})
    mapping = ColumnMapping(timestamp_format="%d.%m.%Y %H:%M", time_zone="Europe/Berlin")
    whole = of_frame(frame, mapping) or Counter()
    assert whole.total() == 400 and NO_TIME not in whole
    one = pd.DataFrame({"case_id": ["odd"], "activity": "A", "timestamp": [odd]})
    mixed = pd.concat([frame, one], ignore_index=True)
    assert mixed["timestamp"].dtype == object or isinstance(odd, datetime.datetime)
    more = of_frame(mixed, mapping) or Counter()
    assert whole <= more and more.total() == 401


def test_a_column_without_a_start_is_one_of_floats_and_holds_no_numbers() -> None:
    """Catches a refusal that hangs on whether another record has a text there."""
    frame = pd.DataFrame({"case_id": ["c"], "activity": "A", "timestamp": "2026-01-01"})
    frame["begun"] = np.nan
    mapping = ColumnMapping(start_timestamp="begun")
    without = of_frame(frame, mapping) or Counter()
    assert NO_TIME not in without and without.total() == 1
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

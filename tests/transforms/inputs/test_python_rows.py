"""Rows of Python values: each value is read by itself, and a row that is none stops no other."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import FileTally, Reject
from tracecloak.transforms.inputs.python_rows import RowReader

FRACTION_CASE, NO_CASE = Reject.FRACTION_CASE, Reject.NO_CASE
NO_SCALAR, NO_TIME = Reject.NO_SCALAR, Reject.NO_TIME

US = 1_000_000


def read(
    rows: list[Mapping[str, Any]], mapping: ColumnMapping | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """(the events, the reasons of the others) of dicts, read together."""
    tally = FileTally(0)
    reader = RowReader.for_unnamed_columns(mapping or ColumnMapping(timestamp_unit="s"))
    events, reasons = reader.read([row.get for row in rows], tally)
    assert set(events.column("event_index").to_pylist()) <= {0}
    result = tally.result()
    assert (result.n_events, result.n_rejects) == (events.num_rows, len(reasons))
    assert events.num_rows + len(reasons) == len(rows)
    found = [{n: v for n, v in e.items() if n != "event_index"} for e in events.to_pylist()]
    return found, reasons


def row(**changes: Any) -> dict[str, Any]:
    return {"case_id": "c", "activity": "A", "timestamp": 5, **changes}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, NO_CASE), ("", NO_CASE), (float("nan"), NO_CASE), (b"\xff", NO_CASE),
        (Decimal("NaN"), NO_CASE), (1.5, FRACTION_CASE), (np.float32(1.5), FRACTION_CASE),
        (Decimal("1.5"), FRACTION_CASE), (2.0**60, FRACTION_CASE), ([1], NO_SCALAR),
        ({"a": 1}, NO_SCALAR), ("\ud800", NO_SCALAR), (object(), NO_SCALAR),
        (datetime.timedelta(1), NO_SCALAR), (pd.Period("2026-01"), NO_SCALAR),
        (np.timedelta64(5, "ns"), NO_SCALAR), (np.timedelta64(5, "s"), NO_SCALAR),
        (np.datetime64("30000-01-01"), NO_CASE), (np.datetime64("300000000-01-01"), NO_CASE),
        (pd.NA, NO_CASE), (np.timedelta64("NaT"), NO_CASE),
    ],
)  # fmt: skip
def test_what_names_no_case_is_malformed_and_stops_no_other(value: Any, reason: str) -> None:
    events, reasons = read([row(), row(case_id=value), row(case_id="d")])
    assert [event["case_id"] for event in events] == ["c", "d"]
    assert reasons == [reason]


@pytest.mark.parametrize("value", [1 << 20_000, Decimal("1e999999999")], ids=["wide", "long"])
def test_a_number_that_would_fill_the_memory_as_text_is_malformed(value: Any) -> None:
    assert read([row(case_id=value)]) == ([], [NO_SCALAR])


@pytest.mark.parametrize(
    ("value", "time_s"),
    [
        (5, 5), (5.5, 5.5), ("5", 5), (Timestamp(5), 5), ("1970-01-01T00:00:05Z", 5),
        (datetime.datetime(1970, 1, 1, 0, 0, 5, tzinfo=datetime.UTC), 5),
        (datetime.datetime(1970, 1, 1, 1, 0, 5), 5),  # on the clock of Berlin
        (datetime.datetime(1970, 1, 1, 5, tzinfo=ZoneInfo("Asia/Tokyo")), -4 * 3600),
        (datetime.date(1970, 1, 2), 23 * 3600), (pd.Timestamp("1970-01-01 01:00:05"), 5),
        (np.datetime64("1970-01-01T01:00:05"), 5), (datetime.datetime(1969, 1, 1), -31_539_600),
    ],
)  # fmt: skip
def test_a_time_is_a_moment_a_wall_clock_a_number_or_a_text(value: Any, time_s: float) -> None:
    mapping = ColumnMapping(timestamp_unit="s", time_zone="Europe/Berlin")
    events, _ = read([row(timestamp=value)], mapping)
    assert events[0]["timestamp"] == time_s * US


@pytest.mark.parametrize(
    "value",
    [
        *(None, "soon", pd.NaT, np.datetime64("NaT"), MAX_TIMESTAMP, float("inf"), True),
        *(np.datetime64("30000-01-01"), np.datetime64("300000000-01-01")),
        pd.Timestamp(np.datetime64("20000-01-01", "s")),
        pd.Timestamp(np.datetime64("20000-01-01", "s"), tz="UTC"),
        datetime.datetime.min.replace(tzinfo=ZoneInfo("Asia/Tokyo")),
    ],
    ids=str,
)
def test_what_is_no_time_is_malformed(value: Any) -> None:
    assert read([row(timestamp=value), row()])[1] == [NO_TIME]


def test_a_date_and_a_time_of_day_of_rows_are_one_time() -> None:
    """Of whatever kind they are in a row, as spreadsheets and databases return them."""
    mapping = ColumnMapping(timestamp=("day", "hour"), time_zone="Europe/Berlin")
    day, midnight = datetime.date(1970, 1, 1), datetime.datetime(1970, 1, 1)
    rows = [
        row(day=day, hour=datetime.time(1, 0, 5)), row(day="1970-01-01", hour="01:00:05"),
        row(day=midnight, hour=datetime.time(1, 0, 5)),
        row(day=pd.Timestamp(midnight), hour="01:00"),
        row(day=day, hour=None), row(day=midnight.replace(tzinfo=datetime.UTC), hour="01:00:05"),
    ]  # fmt: skip
    events, reasons = read(rows, mapping)
    assert [event["timestamp"] for event in events] == [5 * US] * 3 + [0]
    assert reasons == [NO_TIME] * 2


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.binary(max_size=3), st.decimals(), st.dates(), st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.integers(-(10**14), 10**14).map(lambda us: Timestamp(micros=us)),
    st.floats(width=32).map(np.float32), st.lists(st.integers(), max_size=1),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=6))
def test_rows_read_together_are_rows_read_one_by_one(values: list[tuple[Any, ...]]) -> None:
    """Whatever comes: nothing ends the reading, and no value changes another's text."""
    rows = [dict(zip(row(), one, strict=True)) for one in values]
    events, reasons = read(rows)
    parts = [read([one]) for one in rows]

    def in_order(found: list[dict[str, Any]]) -> list[str]:
        return sorted(map(repr, found))

    assert in_order(events) == in_order([event for found, _ in parts for event in found])
    assert sorted(reasons) == sorted(reason for _, found in parts for reason in found)

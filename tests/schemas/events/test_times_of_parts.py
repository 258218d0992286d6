"""Times whose parts are in several columns, such as SAP's dates and times of day."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

import pyarrow as pa
import pytest

from tests.schemas.events.test_times import BERLIN, EPOCH, MICROSECOND, us_of
from tests.support.record_files import canonical
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import attribute_column


def read_parts(columns: dict[str, Any], **mapping: Any) -> list[str | None]:
    """Times of the columns, joined in their order, as text in UTC; None where one is rejected."""
    n = len(next(iter(columns.values())))
    mapped = ColumnMapping(timestamp=tuple(columns), **mapping)
    named = {"case_id": ["c"] * n, "activity": ["A"] * n, **columns}
    required = mapped.resolve(list(named), False).required
    assert set(required) == set(named)
    events, _ = canonical(named, mapped)
    index, times = (events.column(name).to_pylist() for name in ("event_index", "timestamp"))
    found = dict(zip(index, times, strict=True))
    return [(EPOCH + found[i] * MICROSECOND).isoformat() if i in found else None for i in range(n)]


HALF_TEN = time(9, 30, 5)
EXPECTED = ["2024-01-31T08:30:05", None, None]  # what is nine in Berlin
SAP = {"timestamp_format": "%Y%m%d %H%M%S"}


@pytest.mark.parametrize(
    ("dates", "hours", "mapping"),
    [
        (["2024-01-31", "2024-01-31", None], ["09:30:05", None, "09:30:05"], {}),
        (["20240131", "20240131", ""], ["093005", "", "093005"], SAP),
        ([20240131, 20240131, None], [93005, None, 93005], SAP),
        (pa.array([20240131.0, 20240131.0, None]), pa.array([93005.0, None, 1.0]), SAP),
        ([date(2024, 1, 31)] * 2 + [None], ["09:30:05", None, "10:00"], {}),
        ([date(2024, 1, 31)] * 2 + [None], [HALF_TEN, None, HALF_TEN], {}),
        ([date(2024, 1, 31)] * 2 + [None], [HALF_TEN, None, HALF_TEN], SAP),
        (pa.array([date(2024, 1, 31)] * 2 + [None], pa.date64()),
         pa.array([HALF_TEN, None, HALF_TEN], pa.time32("s")), {}),
        (pa.array([HALF_TEN, HALF_TEN, None], pa.time64("ns")),
         [date(2024, 1, 31), None, date(2024, 1, 31)], {}),
        ([datetime(2024, 1, 31), datetime(2024, 1, 31), None],
         [datetime(1899, 12, 30, 9, 30, 5), None, datetime(1900, 1, 1)], {}),
        (["2024-01-31 00:00:00", "2024-01-31 00:00:00", None],
         ["1899-12-30 09:30:05", None, "1900-01-01 09:30:05"], {}),
        (["31.01.2024", "31.01.2024", None], ["9:30:05 AM", None, "9:30:05 AM"],
         {"timestamp_format": "%d.%m.%Y %I:%M:%S %p"}),
    ],
)  # fmt: skip
def test_a_date_and_a_time_of_day_are_one_time(dates, hours, mapping):
    got = read_parts({"day": dates, "hour": hours}, time_zone=BERLIN, **mapping)
    assert got == EXPECTED


def test_an_instant_is_no_part_of_a_time():
    instants = pa.array([0], pa.timestamp("us", "UTC"))
    with pytest.raises(InputSchemaError, match="column 'hour' has type timestamp"):
        read_parts({"day": ["2024-01-31"], "hour": instants})


def test_starts_of_several_columns():
    columns = {
        "case_id": ["c"] * 3, "activity": ["A"] * 3, "timestamp": ["2024-01-31T12:00"] * 3,
        "day": ["2024-01-31", "2024-01-31", None], "hour": ["09:30", None, None],
    }  # fmt: skip
    events, rejects = canonical(columns, ColumnMapping(start_timestamp=("day", "hour")))
    starts = events.column(attribute_column("start_timestamp")).to_pylist()
    assert (starts, rejects.num_rows) == ([us_of(datetime(2024, 1, 31, 9, 30)), None, None], 0)


@pytest.mark.parametrize(
    ("kind", "mapping", "words"),
    [
        (pa.timestamp("us", "UTC"), {}, "instants"),
        (pa.timestamp("us"), {}, "local times of Europe/Berlin"),
        (pa.date32(), {}, "midnights of Europe/Berlin"),
        (pa.int64(), {"timestamp_unit": "ns"}, "numbers, ns since 1970"),
        (None, {}, "text in ISO 8601; without an offset, local times of Europe/Berlin"),
        (pa.struct([("float64", pa.float64())]), {}, "numbers, which need --timestamp_unit"),
        (pa.string(), {"timestamp_unit": "s"}, "s since 1970, or text in ISO 8601; without"),
        (None, {"timestamp_format": ("%Y", "%Y-%m")}, "text in the format %Y or %Y-%m; without"),
    ],
)
def test_how_a_column_of_times_is_read_is_said(kind, mapping, words):
    names, arrays = ([], []) if kind is None else (["when"], [pa.array([], kind)])
    resolved = ColumnMapping(timestamp="when", time_zone=BERLIN, **mapping).resolve(None, False)
    (line,) = resolved.readings(pa.RecordBatch.from_arrays(arrays, names))
    assert line.startswith(f"when: {words}")

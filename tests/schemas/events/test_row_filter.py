"""Filters with bounds: numbers as numbers, times as times, other text by its characters."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.record_files import canonical
from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.row_masks import RowFilter, mask_of

BOUNDS = ("at_least", "above", "at_most", "below")
BERLIN = "Europe/Berlin"


def passing(row_filter: RowFilter, *values: str | None, time_zone: str = "UTC") -> list[str | None]:
    mask = mask_of(row_filter, pa.array(values, pa.string()), LocalClock.of(time_zone))
    return [value for value, passed in zip(values, mask, strict=True) if passed]


def kept(mapping: ColumnMapping, **columns: Any) -> list[int]:
    """Numbers of the records that pass; they have a case, an activity and, if not given, a time."""
    n = len(next(iter(columns.values())))
    stamps = [datetime.datetime(2026, 1, 1)] * n
    plain = {"case_id": ["c"] * n, "activity": ["a"] * n, "timestamp": pa.array(stamps)}
    events, _ = canonical({**plain, **columns}, mapping)
    return [int(index) for index in events.column("event_index")]


@pytest.mark.parametrize(
    ("bound", "passes", "fails"),
    [
        ("9", ("10", "1e2", " 9 ", "+9", "9.0"), ("8.999", "-10", "08")),
        ("9223372036854775807", ("9223372036854775807", "9223372036854775808"), ("9e17",)),
        ("9007199254740993", ("9007199254740993",), ("9007199254740992",)),  # no doubles
        ("99999999999999999999", ("1e30",), ("9223372036854775807", "0")),
        ("-99999999999999999999", ("-9223372036854775808", "0"), ("-1e30",)),
        ("2026-11-01", ("2026-11-01", "20261101", "2026-11-01-00", "2026-12"), ("2026-10-31-23",)),
        ("2026-11", ("2026-11-01", "2026/11/01", "2027"), ("2026-10-31", "2026-10", "20261031")),
        ("20261101", ("20261101", "2026-11-01"), ("20261031", "2026-10-31")),
        ("2026-11-01T13", ("2026-11-01T12:30:00-01:00",), ("2026-11-01 12:59:59.999999",)),
        ("B", ("B", "B2", "b", "é"), ("A9", "10", "2026")),
        ("10", ("A",), ("",)),  # not both are numbers: by their characters
    ],
)
def test_what_is_compared_is_told_by_both(
    bound: str, passes: tuple[str, ...], fails: tuple[str, ...]
) -> None:
    row_filter = RowFilter("x", at_least=bound)
    assert passing(row_filter, *passes, *fails) == list(passes)


@pytest.mark.parametrize(
    ("literal", "passes"),
    [
        ("5", ["5.0", "5", " 5", "05", "5e0"]),
        ("05", ["05"]), ("'5'", ["5"]), ('"5"', ["5"]), ("5.0", ["5.0"]), ("5e0", ["5e0"]),
        (" 5", [" 5"]), ("'", ["'"]), ("''", []), ("\"'5'\"", ["'5'"]), ("2024", []),
    ],
)  # fmt: skip
def test_the_literal_alone_decides_whether_a_value_or_a_text_is_meant(
    literal: str, passes: list[str]
) -> None:
    values = ("5.0", "5", " 5", "05", "5e0", "A", "'5'", "'", "2024-01-01", "2024-01", None)
    assert passing(RowFilter("n", (literal,)), *values) == passes


@pytest.mark.parametrize(
    ("literal", "passes"),
    [
        ("2026-07-01T10:00:00Z", [0, 1, 2, 3]),
        ("2026-07-01 12:00:00+02:00", [0, 1, 2, 3]),
        ("2026-07-01T12:00", [0, 1, 2, 3]),  # on the clocks of Berlin
        ("'2026-07-01T12:00'", [3]),
        ("2026/07/01 12:00", [2]),  # is not ISO 8601: its text
        ("2026-10-25T02:30", [4]),  # twice that night
        ("2026-10-25T02:30+02:00", [4]),
        ("2026-07", [5]),
    ],
)
def test_a_time_equals_every_text_of_it(literal: str, passes: list[int]) -> None:
    texts = (
        *("2026-07-01T10:00:00Z", "2026-07-01T08:00:00.000000-02:00", "2026/07/01 12:00"),
        *("2026-07-01T12:00", "2026-10-25T02:30", "2026-07"),
    )
    expected = [texts[i] for i in passes]
    assert passing(RowFilter("t", (literal,)), *texts, time_zone=BERLIN) == expected


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("column", ["t", "timestamp"])
def test_a_time_equals_typed_ones_and_those_of_a_format(column: str, zone: str | None) -> None:
    """Catches a literal that a type, or the format of the mapped time, gives another meaning."""
    stamps = [datetime.datetime(2026, 7, 1, 10), datetime.datetime(2026, 7, 2)]
    typed = pa.array(stamps, pa.timestamp("ns", zone))
    literal = "2026-07-01T10:00:00Z"
    mapping = ColumnMapping(filters=(RowFilter(column, (literal,)),))
    assert kept(mapping, **{column: typed}) == [0]
    assert kept(
        ColumnMapping(filters=(RowFilter(column, (f"'{literal}'",)),)), **{column: typed}
    ) == ([] if zone is None else [0])
    assert kept(ColumnMapping(filters=(RowFilter("t", begins_with="2026-07-01"),)), t=typed) == [0]
    of_format = ColumnMapping(
        timestamp="At", timestamp_format="%d.%m.%Y %H:%M", filters=(RowFilter("At", (literal,)),)
    )
    assert kept(of_format, At=["01.07.2026 10:00", "soon"]) == [0]
    in_seconds = ColumnMapping(
        timestamp="At", timestamp_unit="s", filters=(RowFilter("At", ("60", "1970-01-01T00:02Z")),)
    )
    assert kept(in_seconds, At=[59, 60, 120]) == [1, 2]


_NAMES = st.from_regex(r"[0-9]{4}(-[0-9]{2}){0,3}")


@given(
    name=st.sampled_from(BOUNDS),
    bound=st.text(min_size=1).filter(lambda text: bool(text.strip())),
    values=st.lists(st.one_of(st.none(), st.text(), _NAMES), max_size=6),
)
def test_any_text_is_compared_and_a_missing_value_never_passes(
    name: str, bound: str, values: list[str | None]
) -> None:
    """Fuzz: values are the data's, and no value may end the reading."""
    assert None not in passing(RowFilter("x", **{name: bound}), *values)


DAYS = [datetime.date(2026, 10, 31), datetime.date(2026, 11, 1), None, datetime.date(2026, 11, 2)]


def test_a_bound_on_the_time_that_is_no_time_is_refused_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match="'day': at_least is empty"):
        RowFilter("day", at_least=" ")
    mapping = ColumnMapping(filters=(RowFilter("day", below="soon"),))
    with pytest.raises(InputSchemaError, match="'day': below must be a time"):
        kept(mapping, day=pa.array(DAYS, pa.date32()))


# --- what is known of all records of a file -------------------------------------------------------


@pytest.mark.parametrize(
    ("row_filter", "known", "passes"),
    [
        (RowFilter("day", at_least="2026-11-01"), {"day": "2026-10-31"}, False),
        (RowFilter("day", at_least="2026-11-01"), {"day": "2026-11-01"}, True),
        (RowFilter("day", at_least="2026-11-01"), {"day": None}, False),
        (RowFilter("day", at_least="2026-11-01"), {"ward": "x"}, True),
        (RowFilter("day", ("2026-11-01",)), {"day": "2026-11-01"}, True),
        (RowFilter("n", ("5",)), {"n": "5.0"}, True),
        (RowFilter("n", ("'5'",)), {"n": "5.0"}, False),
        (RowFilter("ward", ("A/B", "C")), {"ward": "A/B"}, True),
        (RowFilter("ward", ("A/B", "C")), {"ward": "a/b"}, False),
        (RowFilter("lifecycle", ("complete",)), {"lifecycle": "COMPLETE"}, True),
        (RowFilter("activity", ("A",)), {"Act": "B"}, False),  # by what it is mapped to
        (RowFilter("activity", ("A",)), {"activity": "B"}, True),  # another column then
        (RowFilter("individual_id", ("A",)), {"Who": "B"}, False),
        (RowFilter("timestamp", below="2026-11-01"), {"timestamp": "2026-11-01"}, False),
    ],
)
def test_a_file_whose_records_cannot_pass_is_known_by_its_values(
    row_filter: RowFilter, known: dict[str, str | None], passes: bool
) -> None:
    mapping = ColumnMapping(activity="Act", individual_id="Who", filters=(row_filter,))
    assert mapping.may_match(known, xes_names=False) is passes


def test_each_bound_is_what_its_name_says() -> None:
    values = ("9", "10", "10.0", "11", None, "")
    assert passing(RowFilter("n", at_least="10"), *values) == ["10", "10.0", "11"]
    assert passing(RowFilter("n", above="10"), *values) == ["11"]
    assert passing(RowFilter("n", at_most="10"), *values) == ["9", "10", "10.0", ""]
    assert passing(RowFilter("n", below="10"), *values) == ["9", ""]
    assert passing(RowFilter("n", at_least="9.5", below="11"), *values) == ["10", "10.0"]

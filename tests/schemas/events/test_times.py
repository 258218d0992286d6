"""Time stamps: every Arrow type, unit, notation and zone to microseconds in UTC."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.record_files import canonical
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US, attribute_column
from tracecloak.schemas.events.tally import Reject

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
BERLIN = "Europe/Berlin"


def read_us(values: Any, **mapping: Any) -> list[int | None]:
    """The column's times in microseconds since 1970 UTC, None where the record was rejected."""
    column = values if isinstance(values, pa.Array) else pa.array(values)
    n = len(column)
    texts = {name: pa.array(["x"] * n, pa.string()) for name in ("case_id", "activity")}
    events, rejects = canonical(
        {**texts, "when": column}, ColumnMapping(timestamp="when", **mapping)
    )
    assert set(rejects.column("reason").to_pylist()) <= {Reject.NO_TIME}
    index, times = (events.column(name).to_pylist() for name in ("event_index", "timestamp"))
    assert sorted([*index, *rejects.column("record").to_pylist()]) == list(range(n))
    found = dict(zip(index, times, strict=True))
    return [found.get(i) for i in range(n)]


def read(values: Any, **mapping: Any) -> list[str | None]:
    """The same as text in UTC."""
    return [
        None if us is None else (EPOCH + us * MICROSECOND).isoformat()
        for us in read_us(values, **mapping)
    ]


def us_of(stamp: datetime) -> int:
    """Microseconds since 1970 of a stamp, in UTC if it has no zone."""
    return (stamp.replace(tzinfo=stamp.tzinfo or UTC) - EPOCH.replace(tzinfo=UTC)) // MICROSECOND


# --- columns of Arrow's own time types ------------------------------------------------------------

TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def floor_us(tick: int, unit: str) -> int:
    return tick // 1_000 if unit == "ns" else tick * TICKS[unit]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_typed_stamps_of_every_unit_are_cut_to_microseconds(unit):
    ticks = [0, 1, -1, 999, 1000, 1001, -999, -1000, -1001, 1_600_000_000]
    expected = [floor_us(tick, unit) for tick in ticks]
    for zone in (None, "UTC", BERLIN, "+05:30"):  # with a zone the ticks are in UTC already
        stamps = pa.array([*ticks, None], pa.timestamp(unit, zone))
        assert read_us(stamps) == [*expected, None]
    zoned = pa.array(ticks, pa.timestamp(unit, BERLIN))
    assert read_us(zoned, time_zone="Asia/Tokyo") == expected


@pytest.mark.parametrize("zone", ["UTC", BERLIN])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_typed_stamps_beyond_the_year_9999_are_rejected_one_by_one(unit, zone):
    hours = 2 * 3_600_000_000  # beyond the edge on Berlin's clock as well
    edge = [(MIN_TIME_US - 1) // TICKS[unit], (MAX_TIME_US + hours) // TICKS[unit]]
    beyond = [*edge, 2**62, -(2**62), 2**63 - 1, -(2**63)]
    stamps = [tick for far in beyond for tick in (far, 0)]
    found = read(pa.array(stamps, pa.timestamp(unit)), time_zone=zone)
    assert found[0::2] == [None] * len(beyond)
    near = "1970-01-01T00:00:00" if zone == "UTC" else "1969-12-31T23:00:00"
    assert found[1::2] == [near] * len(beyond)


def test_a_column_of_nulls_has_no_times():
    assert read(pa.nulls(2)) == [None, None]
    assert read(pa.array([None, None], pa.string())) == [None, None]
    assert read(pa.array([], pa.string())) == []


# --- ISO text -------------------------------------------------------------------------------------


ISO = {
    # separators and parts
    "2021/01/02": "2021-01-02T00:00:00", "2021-01-02": "2021-01-02T00:00:00",
    "2021-01-02T03:04": "2021-01-02T03:04:00", "  2021-01-02\t": "2021-01-02T00:00:00",
    # offsets
    "2021/01/02T03:04-11:30": "2021-01-02T14:34:00",
    "2021-01-02T03:04:05-00:00": "2021-01-02T03:04:05",
    "2021-01-01T00:30:00+23:59": "2020-12-31T00:31:00",
    # fractions
    "2021-01-02T03:04:05.1": "2021-01-02T03:04:05.100000",
    "2021-01-02T03:04:05.1234": "2021-01-02T03:04:05.123400",
    "2021-01-02T03:04:05.999999999+02:00": "2021-01-02T01:04:05.999999",
    # far away
    "0001-01-01": "0001-01-01T00:00:00", "0001-01-01T00:00:00-00:01": "0001-01-01T00:01:00",
    "9999-12-31T23:59:59.999999": "9999-12-31T23:59:59.999999",
    "1969-12-31T23:59:59.999999Z": "1969-12-31T23:59:59.999999",
    "1582-10-10": "1582-10-10T00:00:00",  # proleptic Gregorian
    "2020-02-29": "2020-02-29T00:00:00",
}  # fmt: skip


def test_iso_text_is_read() -> None:
    for text, expected in ISO.items():
        assert read([text]) == [expected], text


BAD = [
    "2021-02-30", "2021-02-29T00:00:00", "2021-04-31T00:00:00Z", "2021-13-01", "2021-00-01",
    "2021-01-00", "2021-01-01T24:00:00", "2021-01-01T23:60:00", "2021-01-01T23:59:60",
    "2021-01-01T00:00:00+24:00", "2021-01-01T00:00:00+23:60", "2021-01-01T00:00:00 +02:00",
    "2021-01-01T00:00:00z", "2021-01-01t00:00:00", "2021-01-01T00", "2021-01-01T00:00:00.",
    "2021-01-01T00:00:00,5", "2021-01-01Z", "20210101", "2021-1-1", "01.01.2021", "01/02/2021",
    "2021/01-02", "12021-01-01", "-2021-01-01", "+2021-01-01", "0000-01-01",
    "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "1609459200", "\uff12021-01-01",
    "now", "garbage", "NaT", " ", "", None,
]  # fmt: skip


def test_bad_text_is_rejected_and_its_neighbours_survive():
    for zone, text in itertools.product(["UTC", BERLIN], BAD):
        good = ["2021-01-02T00:00:00Z", "2021-01-03T12:00:00"]
        alone = read(pa.array([text], pa.string()), time_zone=zone)
        among = read([good[0], text, good[1], text, good[0]], time_zone=zone)
        assert alone == [None], (zone, text)
        noon = "2021-01-03T12:00:00" if zone == "UTC" else "2021-01-03T11:00:00"
        expected = ["2021-01-02T00:00:00", None, noon, None, "2021-01-02T00:00:00"]
        assert among == expected, (zone, text)


# --- any notation, there and back -----------------------------------------------------------------

notations = st.fixed_dictionaries(
    {
        "separator": st.sampled_from("T "),
        "slashes": st.booleans(),
        "offset": st.one_of(st.none(), st.just("Z"), st.integers(-14 * 60, 14 * 60)),
        "style": st.sampled_from(["{:02}:{:02}", "{:02}{:02}", "{:02}"]),
        "digits": st.integers(6, 9),
        "blanks": st.sampled_from(["", " "]),
    }
)


def write(stamp: datetime, notation: dict[str, Any]) -> str:
    """A time in UTC in one of the notations; digits beyond the sixth are not its own."""
    offset, blanks = notation["offset"], notation["blanks"]
    tail = "" if offset is None else "Z"
    if isinstance(offset, int):
        if notation["style"] == "{:02}":
            offset -= offset % 60  # whole hours
        stamp = stamp.astimezone(timezone(timedelta(minutes=offset)))
        tail = "-" if offset < 0 else "+"
        tail += notation["style"].format(*divmod(abs(offset), 60))
    mark = "/" if notation["slashes"] else "-"
    day = f"{stamp.year:04}{mark}{stamp.month:02}{mark}{stamp.day:02}"
    clock = f"{stamp:%H:%M:%S}.{f'{stamp.microsecond:06}987'[: notation['digits']]}"
    return blanks + day + notation["separator"] + clock + tail + blanks


inner = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC))


@settings(deadline=None)
@given(st.lists(st.tuples(inner, notations), min_size=1, max_size=8), st.integers(0, 7))
def test_a_stamp_in_any_notation_is_read_back_exactly(rows, place):
    texts = [write(stamp, notation) for stamp, notation in rows]
    expected: list[int | None] = [us_of(stamp) for stamp, _ in rows]
    assert read_us(texts) == expected
    # One bad neighbour changes nothing for the others.
    texts.insert(place, "2021-02-30T00:00:00Z")
    expected.insert(place, None)
    assert read_us(texts) == expected


SHAPES = st.sampled_from([
    "2024-02-%02dT10:%02d:07.125+02:00", "2024-%02d-28 10:%02d", "2023/03/%02d 02:%02d:00",
    "2024-02-%02dT10:%02d:07.1234567Z", "2024-02-%02dT10:%02d:07-0530", "%02d%02d", "",
])  # fmt: skip


@st.composite
def columns_of_few_shapes(draw):
    """Texts of one to three shapes, of which some have another byte or are missing."""
    shapes = draw(st.lists(SHAPES, min_size=1, max_size=3))
    texts = []
    for _ in range(draw(st.integers(1, 12))):
        shape, numbers = draw(st.sampled_from(shapes)), draw(st.tuples(*[st.integers(1, 70)] * 2))
        text = shape % numbers if shape else shape
        if text and draw(st.integers(0, 9)) == 0:
            place = draw(st.integers(0, len(text) - 1))
            text = text[:place] + draw(st.sampled_from("0:-/+,T Z.é\n")) + text[place + 1 :]
        texts.append(None if draw(st.integers(0, 19)) == 0 else text)
    return texts


@settings(max_examples=60, deadline=None)
@given(columns_of_few_shapes(), st.sampled_from(["UTC", BERLIN]))
def test_texts_of_one_shape_are_read_as_each_of_them_alone(texts, zone):
    """A blank in front changes no time, and sends the whole column past what reads one shape."""
    apart = [None if text is None else f" {text}" for text in texts]
    together = pa.array(texts, pa.string())
    assert read_us(together, time_zone=zone) == read_us(
        pa.array(apart, pa.string()), time_zone=zone
    )
    window = pa.array(["x", *texts, "x"], pa.string()).slice(1, len(texts))
    assert read_us(window, time_zone=zone) == read_us(together, time_zone=zone)


@settings(deadline=None)
@given(st.text(max_size=12) | st.from_regex(r"\A[0-9/:T.Z +-]{1,25}\Z"))
def test_any_text_is_read_or_rejected_but_never_an_error(text):
    for zone in ("UTC", BERLIN):
        found = read_us([text, "2021-01-01T00:00:00Z"], time_zone=zone)
        assert found[1] == us_of(datetime(2021, 1, 1))
        assert found[0] is None or MIN_TIME_US <= found[0] <= MAX_TIME_US


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_numbers_with_a_fraction_are_rounded_to_microseconds(unit):
    factor = TICKS[unit]
    numbers = [0.5, -0.5, 1.25, 1_600_000_000.5, 0.0, -0.0]
    # Halves and quarters are exact in binary, and times a factor still.
    expected = [round(number * factor) for number in numbers]
    assert read_us(numbers, timestamp_unit=unit) == expected
    bad = [float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 1e19, None]
    expected = [factor, *[None] * len(bad), 2 * factor]
    assert read_us([1.0, *bad, 2.0], timestamp_unit=unit) == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_numbers_in_text_are_read_in_their_unit_too(unit):
    """Catches a CSV of epoch seconds, of which every record was malformed."""
    texts = ["1609459200", " 1609459200.5 ", "-1", "+7", "5.", "1.5e3", "0", "9007199254740993.0"]
    numbers = [1609459200, 1609459200.5, -1, 7, 5, 1500.0, 0, 9007199254740993]
    expected = [read_us([number], timestamp_unit=unit)[0] for number in numbers]
    assert read_us(texts, timestamp_unit=unit) == expected
    assert read_us(pa.array(texts).dictionary_encode(), timestamp_unit=unit) == expected


def test_what_is_no_number_is_read_as_iso_8601_and_else_rejected():
    texts = [
        "1609459200", "2021-01-01T00:00:00Z", "", None, "x", "1e999", "nan", "1_0", "0x10", "٣",
    ]  # fmt: skip
    assert read(texts, timestamp_unit="s") == [
        "2021-01-01T00:00:00", "2021-01-01T00:00:00", *[None] * 8
    ]  # fmt: skip
    assert read(["1609459200"]) == [None]
    assert read(["20210101"], timestamp_unit="s", timestamp_format="%Y%m%d") == [
        "2021-01-01T00:00:00"
    ]


# --- formats --------------------------------------------------------------------------------------

FORMATS = [
    "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%Y%m%d%H%M%S", "%d-%b-%Y %I:%M:%S %p", "%Y-%m-%d",
    "%d.%m.%Y %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S%z", "%m/%d/%Y %I:%M:%S.%f %p %z",
]  # fmt: skip


@pytest.mark.parametrize("layout", FORMATS)
@settings(deadline=None)
@given(stamps=st.lists(st.datetimes(datetime(1980, 1, 1), datetime(2036, 1, 1)), max_size=4))
def test_a_stamp_in_a_declared_format_is_read_back(layout, stamps):
    zone = timezone(timedelta(hours=-3)) if "%z" in layout else None
    texts = [stamp.replace(tzinfo=zone).strftime(layout) for stamp in stamps]
    expected = [us_of(datetime.strptime(text, layout)) for text in texts]
    assert read_us(pa.array(texts, pa.string()), timestamp_format=layout) == expected


UNFIT = (
    "garbage", "", None, "2021-01-01 00:00:00xx", "2021-13-01 00:00:00", "2021-01-32 00:00:00",
    "2021-01-01 24:00:00", "2021-01-01", "01.01.2021 00:00:00",
    "0001-01-01 00:00:00",  # year 0 in UTC
)  # fmt: skip


@pytest.mark.parametrize("tail", ["", ".%f"])
def test_what_does_not_fit_the_format_is_rejected_alone(tail):
    fraction = ".0" if tail else ""
    good = f"2021-07-01 12:00:00{fraction}"
    for text in UNFIT:
        texts = [good, text + fraction if text else text, good]
        found = read(texts, timestamp_format="%Y-%m-%d %H:%M:%S" + tail, time_zone=BERLIN)
        assert found == ["2021-07-01T10:00:00", None, "2021-07-01T10:00:00"], text


def test_each_stamp_is_read_by_the_first_format_that_fits_it():
    """BigQuery leaves out a fraction that is zero."""
    texts = ["2024-01-01 10:00:00 UTC", "2024-01-01 10:00:00.25 UTC", "01.02.2024", None, "x"]
    layouts = ["%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M:%S.%f UTC", "%d.%m.%Y", "%m.%d.%Y"]
    expected = ["2024-01-01T10:00:00", "2024-01-01T10:00:00.250000", "2024-02-01T00:00:00"]
    assert read(texts, timestamp_format=layouts) == [*expected, None, None]
    # Formats with an offset and without one have one record each; the zone is of the second.
    mixed = read(
        ["2024-07-01 10:00 +0100", "2024-07-01T10:00"],
        timestamp_format=("%Y-%m-%d %H:%M %z", "%Y-%m-%dT%H:%M"),
        time_zone=BERLIN,
    )
    assert mixed == ["2024-07-01T09:00:00", "2024-07-01T08:00:00"]


ABBREVIATIONS = {
    "UTC": 0, "GMT": 0, "UT": 0, "WET": 0, "WEST": 1, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2,
    "EET": 2, "EEST": 3,
}  # fmt: skip


def test_abbreviations_of_one_offset_are_read_wherever_the_log_is_from():
    for (name, hours), zone in itertools.product(ABBREVIATIONS.items(), ("UTC", "Asia/Tokyo")):
        expected = [f"2024-07-01T{10 - hours:02}:00:00"]
        assert read([f"2024-07-01 10:00:00 {name}"], time_zone=zone) == expected
        for layout, text in (
            ("%d.%m.%Y %H:%M %Z", f"01.07.2024 10:00 {name}"),
            ("%a %b %d %H:%M:%S %Z %Y", f"Mon Jul 01 10:00:00 {name} 2024"),  # Java's
        ):
            assert read([text], timestamp_format=layout, time_zone=zone) == expected


@pytest.mark.parametrize(
    ("layout", "whole", "broken"),
    [
        ("%Y%m%d%H%M%S", "20240113093005", ["2024011393005", "202401139305", "2024113093005"]),
        ("%Y%m%d", "20240113", ["2024113", "240113", "202401131"]),
        ("%Y%m%dT%H%M%S", "20240113T093005", ["20240113T93005", "2024113T093005"]),
        ("%d%m%Y %H:%M", "13012024 09:30", ["1312024 09:30", "3012024 09:30"]),
        ("%Y%m%d%H%M%S%f", "20240113093005123", ["2024011393005", "20240113093005"]),
        ("%y%m%d%H%M", "2401130930", ["240113930", "24113930"]),
    ],
)
def test_numbers_that_adjoin_need_all_their_digits(layout, whole, broken):
    """Python takes 2024111 for two dates, and 2024011393005 for one at 9:30:05 or at 0:30:05."""
    expected = read([datetime.strptime(whole, layout).isoformat()])
    assert expected != [None]
    assert read([whole, *broken], timestamp_format=layout) == [*expected, *[None] * len(broken)]


def test_a_time_of_day_that_was_a_number_gets_its_zeros_back():
    """SAP's times of day, of which a program that took them for numbers left out zeros."""
    texts = ["20240131 93005", "20240131 093005", "20240131 5", "20240131 0", "20240131 11005"]
    hours = ["09:30:05", "09:30:05", "00:00:05", "00:00:00", "01:10:05"]
    expected = [f"2024-01-31T{hour}" for hour in hours]
    assert read(texts, timestamp_format="%Y%m%d %H%M%S") == expected
    broken = ["20240131 1093005", "20240131 97000", "2024131 93005", "20240131 ", "20240131"]
    assert read(broken, timestamp_format="%Y%m%d %H%M%S") == [None] * 5
    short = read(["20240131 930", "20240131 5"], timestamp_format="%Y%m%d %H%M")
    assert short == ["2024-01-31T09:30:00", "2024-01-31T00:05:00"]


# --- parts in several columns, such as SAP's dates and times of day -------------------------------


def read_parts(columns: dict[str, Any], **mapping: Any) -> list[str | None]:
    """Times of the columns, joined in their order, as text in UTC; None where one is rejected."""
    n = len(next(iter(columns.values())))
    named = {"case_id": ["c"] * n, "activity": ["A"] * n, **columns}
    mapped = ColumnMapping(timestamp=tuple(columns), **mapping)
    assert set(mapped.resolve(list(named), False).required) == set(named)
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
        (pa.struct([("float64", pa.float64())]), {}, "numbers, which need timestamp_unit"),
        (pa.string(), {"timestamp_unit": "s"}, "s since 1970, or text in ISO 8601; without"),
        (None, {"timestamp_format": ("%Y", "%Y-%m")}, "text in the format %Y or %Y-%m; without"),
    ],
)
def test_how_a_column_of_times_is_read_is_said(kind, mapping, words):
    names, arrays = ([], []) if kind is None else (["when"], [pa.array([], kind)])
    resolved = ColumnMapping(timestamp="when", time_zone=BERLIN, **mapping).resolve(None, False)
    (line,) = resolved.readings(pa.RecordBatch.from_arrays(arrays, names))
    assert line.startswith(f"when: {words}")

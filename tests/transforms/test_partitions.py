"""Partitions of a data lake: columns from paths, files that are passed over, spans of time."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracecloak.transforms.sources as sources
from tests.support.record_files import ALL_WRITERS as WRITERS
from tests.support.record_files import as_csv
from tests.support.tiers import each_row
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import attribute_column
from tracecloak.schemas.events.row_masks import RowFilter
from tracecloak.transforms.formats.parquet import ParquetReader
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import (
    SourceFile,
    can_hold,
    match_files,
    partitions_of,
)
from tracecloak.transforms.sources import EventSource

HOUR = 3_600_000_000
DAY = 24 * HOUR
NOVEMBER = 1_793_491_200_000_000  # 2026-11-01, microseconds since 1970 UTC


@each_row(
    ("path", "columns"),
    [
        ("lake/day=2026-11-01/hospital=A%2FB/p.csv", {"day": "2026-11-01", "hospital": "A/B"}),
        ("gs://b/claims/day=__HIVE_DEFAULT_PARTITION__/p.parquet", {"day": None}),
        ("day=/p.csv", {"day": None}),
        ("/a/b%20c=d=e/p.csv", {"b c": "d=e"}),
        ("a=1/x/b=2/a=3/p.csv", {"a": "3", "b": "2"}),
        ("ward=%C3%A9/p.csv", {"ward": "é"}),
        ("ward=é/p.csv", {"ward": "é"}),
        ("ward=%FF/p.csv", {"ward": None}),  # no UTF-8
        ("ward=\udcff/p.csv", {"ward": None}),
        ("%FF=x/p.csv", {}),
        ("=x/p.csv", {}),
        ("lake/day=1.csv", {}),  # a file and no folder
        ("lake/p.csv", {}),
        ("ward=100%/p.csv", {"ward": "100%"}),
    ],
)
def test_a_path_gives_columns(path: str, columns: dict[str, str | None]) -> None:
    assert dict(partitions_of(path)) == columns


_NAMES = st.text(st.characters() | st.sampled_from("=%_A2F"), max_size=12)


@given(folders=st.lists(_NAMES), name=_NAMES, value=_NAMES)
def test_any_path_gives_columns_of_text(folders: list[str], name: str, value: str) -> None:
    """Fuzz: a name of a folder is whatever whoever writes into the lake makes it."""
    path = "/".join([*folders, f"{name}={value}", f"ward={value}", "p.csv"])
    found = dict(partitions_of(path))
    assert "ward" in found and "" not in found
    pa.array([*found, *found.values()], pa.string())


# --- as columns, in every format ------------------------------------------------------------------

ROWS = [("c1", "A", "2026-11-01T10:00:00"), ("c2", "B", "2026-11-01T11:00:00")]
NAMES = ("case_id", "activity", "timestamp", "ward")


def lake(folder: Path, ending: str, own_ward: bool = False) -> str:
    for day in ("2026-11-01", "2026-11-02", "__HIVE_DEFAULT_PARTITION__"):
        part = folder / "lake" / f"day={day}" / "ward=A%2FB"
        part.mkdir(parents=True)
        rows = [(*row, "own") for row in ROWS] if own_ward else ROWS
        data = WRITERS[ending](rows, NAMES[: len(rows[0])])
        (part / f"p.{ending}").write_bytes(data)
    return f"{folder}/lake"


def source(pattern: str, goes_on: bool = False, **mapping: Any) -> EventSource:
    files = tuple(match_files([pattern]))
    return EventSource(files, SourceFormat(goes_on=goes_on), ColumnMapping(**mapping))


def events_of(found: EventSource) -> list[dict[str, Any]]:
    batches = [events for file in found.files for events, _ in found.read(file)]
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.by_day(10)
@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("own_ward", [False, True], ids=["", "file has it too"])
@pytest.mark.parametrize("goes_on", [False, True], ids=["", "goes on"])
def test_a_partition_is_a_column_of_every_record_and_stands_for_the_files_own(
    tmp_path: Path, ending: str, own_ward: bool, goes_on: bool
) -> None:
    """As in Spark: files are passed over by their paths, so their records cannot say otherwise."""
    found = source(
        lake(tmp_path, ending, own_ward),
        goes_on,
        resource="ward",
        attributes=(("d", "day"),),
        filters=(RowFilter("ward", ("A/B",)),),
    )
    found.check_partitions()
    for file in found.files:
        columns = found.columns_of(file)
        assert columns is None or columns.count("ward") == columns.count("day") == 1
    rows = events_of(found)
    days = ["2026-11-01"] * 2 + ["2026-11-02"] * 2 + [None] * 2
    assert [row["resource"] for row in rows] == ["A/B"] * 6
    assert [row[attribute_column("d")] for row in rows] == days
    assert [row["case_id"] for row in rows] == ["c1", "c2"] * 3


def test_a_column_of_some_paths_alone_is_an_error_that_names_it(tmp_path: Path) -> None:
    lake(tmp_path, "csv")
    (tmp_path / "lake" / "day=2026-11-02" / "q.csv").write_bytes(as_csv(ROWS, NAMES[:3]))
    found = source(f"{tmp_path}/lake", resource="ward")
    with pytest.raises(InputSchemaError, match=r"'ward' is .*ward=A%2FB/p.csv but"):
        found.check_partitions()
    source(f"{tmp_path}/lake", resource="day").check_partitions()  # nobody reads the ward
    filtered = source(f"{tmp_path}/lake", filters=(RowFilter("ward", ("x",)),))
    with pytest.raises(InputSchemaError, match="'ward'"):
        filtered.check_partitions()


def test_files_that_cannot_pass_are_left_out_unopened_and_ranked_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = source(lake(tmp_path, "csv"), filters=(RowFilter("day", at_least="2026-11-02"),))
    monkeypatch.setattr(sources, "open_source", None)
    kept = found.narrowed()
    assert [(file.rank, dict(file.partitions)["day"]) for file in kept.files] == [(0, "2026-11-02")]
    assert kept.n_passed_over == 2
    assert kept.narrowed(lambda file: False).n_passed_over == 3
    assert not kept.narrowed(lambda file: False).files


# --- a span of time, by partitions ----------------------------------------------------------------


def at(path: str) -> SourceFile:
    return SourceFile(0, path, 1, partitions_of(path))


@each_row(
    ("path", "column", "begin", "end"),
    [
        ("day=2026-11-01/p", "day", NOVEMBER, NOVEMBER + DAY),
        ("hour=2026-11-01-13/p", "hour", NOVEMBER + 13 * HOUR, NOVEMBER + 14 * HOUR),
        ("month=2026-11/p", "month", NOVEMBER, NOVEMBER + 30 * DAY),
        ("y=2026/m=11/d=01/h=02/p", "y,m, d,h", NOVEMBER + 2 * HOUR, NOVEMBER + 3 * HOUR),
        ("y=2026/m=11/d=01/h=02/p", "y,m,d", NOVEMBER, NOVEMBER + DAY),
        ("day=20261101/hour=3/p", "day,hour", NOVEMBER + 3 * HOUR, NOVEMBER + 4 * HOUR),
    ],
)
def test_a_file_is_kept_if_its_period_meets_the_span(
    path: str, column: str, begin: int, end: int
) -> None:
    file = at(path)
    for spread in (0, 2 * HOUR):
        assert can_hold(file, column, "UTC", (end + spread - 1, end + 9 * DAY), spread)
        assert not can_hold(file, column, "UTC", (end + spread, end + 9 * DAY), spread)
        assert can_hold(file, column, "UTC", (begin - 9 * DAY, begin - spread + 1), spread)
        assert not can_hold(file, column, "UTC", (begin - 9 * DAY, begin - spread), spread)


@each_row("value", ["soon", "__HIVE_DEFAULT_PARTITION__", "2026-11-01 13%3A00%3A00"])
def test_a_file_whose_partition_is_no_period_is_kept(value: str) -> None:
    assert can_hold(at(f"day={value}/p"), "day", "UTC", (0, 1), 0)


def test_a_partition_column_that_is_not_there_is_named() -> None:
    with pytest.raises(InputSchemaError, match=r"lake/p\.csv.*no partition column 'day'"):
        can_hold(at("lake/p.csv"), "day", "UTC", (0, 1), 0)


# --- a span of time, by what Parquet files say of their row groups --------------------------------


class Watched(ParquetReader):
    """Counts the rows that were read."""

    n_rows = 0

    def _read(self, *arguments: Any) -> Iterator[Any]:
        for batch in super()._read(*arguments):
            Watched.n_rows += len(batch.records)
            yield batch


def read_span(
    data: bytes, span_us: tuple[int, int], pushed_down: bool = True, **mapping: Any
) -> tuple[pa.Table, int]:
    """The events of a span, and how many rows were read for them."""
    Watched.n_rows = 0
    reader = Watched(goes_on=True)
    resolved = ColumnMapping(**mapping).resolve(["case_id", "activity", "timestamp"], False)
    wanted = resolved.wanted
    stream = io.BytesIO(data)
    if pushed_down:
        stamps = resolved.names["timestamp"]
        raw = reader.read_groups(
            stream, wanted, wanted, 3, stamps, lambda ends: resolved.can_hold(ends, span_us)
        )
    else:
        raw = reader.read(stream, wanted, wanted, 3)
    batches = [
        resolved.canonicalise(b.columns, b.records, b.malformed, 0, None, span_us)[0] for b in raw
    ]
    if not batches:
        return pa.table({}), Watched.n_rows
    return pa.Table.from_batches(batches).unify_dictionaries(), Watched.n_rows


def parquet(stamps: pa.Array, at: str = "", **options: Any) -> bytes:
    n, name = len(stamps), "timestamp"
    for outer in at.split(".")[::-1] if at else ():
        stamps, name = pa.StructArray.from_arrays([stamps], [name]), outer
    table = pa.table({"case_id": ["c"] * n, "activity": ["a"] * n, name: stamps})
    stream = io.BytesIO()
    pq.write_table(table, stream, **{"row_group_size": 4, **options})
    return stream.getvalue()


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    if not table.num_rows:
        return []
    return list(
        zip(
            table["event_index"].to_pylist(),
            table["timestamp"].cast(pa.int64()).to_pylist(),
            strict=True,
        )
    )


HOURS = [NOVEMBER + hour * HOUR for hour in range(-60, 60)]
TYPED = [
    pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "Asia/Tokyo"),
    pa.timestamp("ms"), pa.timestamp("s"), pa.date32(),
]  # fmt: skip


@pytest.mark.by_day(9)
@pytest.mark.parametrize("kind", [*TYPED, pa.int64(), pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize(("zone", "at"), [("UTC", ""), ("Europe/Berlin", ""), ("UTC", "e.i")])
def test_row_groups_outside_the_span_are_not_read(kind: pa.DataType, zone: str, at: str) -> None:
    stamps = pa.array(HOURS, pa.int64())
    mapping: dict[str, Any] = {"time_zone": zone}
    if pa.types.is_integer(kind):
        mapping["timestamp_unit"] = "us"
    else:
        stamps = stamps.cast(pa.timestamp("us"))
        if not pa.types.is_timestamp(kind) or kind.tz is None:
            stamps = stamps.cast(kind)
        else:
            stamps = pa.compute.assume_timezone(stamps, "UTC").cast(kind)
    data = parquet(stamps, at)
    if at:
        mapping["timestamp"] = f"{at}.timestamp"
    span = (NOVEMBER - 2 * HOUR, NOVEMBER + 3 * HOUR)
    found, n_read = read_span(data, span, **mapping)
    expected, n_all = read_span(data, span, pushed_down=False, **mapping)
    assert rows_of(found) == rows_of(expected)
    assert n_all == len(HOURS)
    # Of text the date alone is looked at, and a day on either side.
    assert 0 < n_read < (100 if "string" in str(kind) else 60 if kind == pa.date32() else 13)
    none, n_read = read_span(data, (0, 1), **mapping)
    assert n_read == 0 and not none.num_rows


_TICKS = st.one_of(
    st.none(),
    st.integers(NOVEMBER - 4 * DAY, NOVEMBER + 4 * DAY),
    st.integers(-(2**62), 2**62),
    st.sampled_from([0, -1, 1_774_749_600_000_000, 1_793_000_000_000_000]),
)


@st.composite
def _files(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    mapping: dict[str, Any] = {
        "time_zone": draw(st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Apia"]))
    }
    if draw(st.booleans()):
        ticks = pa.array(draw(st.lists(_TICKS, max_size=12)), pa.int64())
        kind = draw(st.sampled_from([*TYPED[:-1], pa.int64(), pa.date32()]))
        if pa.types.is_integer(kind):
            mapping["timestamp_unit"] = draw(st.sampled_from(["s", "ms", "us"]))
            stamps = ticks
        elif kind == pa.date32():
            days = [None if t is None else t // DAY % 4_000_000 for t in ticks.to_pylist()]
            stamps = pa.array(days, pa.int32()).cast(kind)
        else:
            stamps = ticks.cast(pa.timestamp(kind.unit, kind.tz))
    else:
        stamps = pa.array(draw(st.lists(_STAMPS, max_size=12)), pa.string())
        mapping |= draw(
            st.sampled_from([{}, {}, {"timestamp_unit": "s"}, {"timestamp_format": "%Y-%m-%d"}])
        )
    options = draw(
        st.sampled_from(
            [{}, {"write_statistics": False}, {"use_deprecated_int96_timestamps": True},
             {"row_group_size": 1}, {"row_group_size": 2, "store_schema": False}]
        )
    )  # fmt: skip
    if pa.types.is_timestamp(stamps.type) and options.get("use_deprecated_int96_timestamps"):
        options = {}  # which cannot hold most of these
    if pa.types.is_timestamp(stamps.type) and stamps.type.unit == "s":
        small = [None if t is None else t % 10**10 for t in ticks.to_pylist()]
        stamps = pa.array(small, pa.int64()).cast(stamps.type)
    return parquet(stamps, **options), mapping


_STAMPS = st.one_of(
    st.none(),
    st.builds(
        "{}{}{}{}{}".format,
        st.sampled_from(["2026-11-01", "2026-10-31", "2026/11/01", "2025-12-31", "2026-12-01"]),
        st.sampled_from(["T", " "]),
        st.sampled_from(["00:00", "23:59:59", "12:30:00.123456789"]),
        st.sampled_from(["", "Z", "+14:00", "-23:59", "+0530"]),
        st.sampled_from(["", " "]),
    ),
    st.sampled_from(["2026-11-01", "2026/10/30", " 2026-11-02", "soon", "", "20261101", "2026"]),
    st.text(max_size=3),
)


@given(
    file=_files(),
    begin=st.integers(NOVEMBER - 3 * DAY, NOVEMBER + 3 * DAY),
    length=st.integers(0, 3 * DAY),
)
def test_the_events_of_a_span_are_the_same_whatever_is_passed_over(
    file: tuple[bytes, dict[str, Any]], begin: int, length: int
) -> None:
    data, mapping = file
    span = (begin, begin + length)
    found, _ = read_span(data, span, **mapping)
    expected, _ = read_span(data, span, pushed_down=False, **mapping)
    assert rows_of(found) == rows_of(expected)


def test_fuzz() -> None:
    """Damaged footers and statistics: rows or an error of ours, whatever the bytes."""
    rng = random.Random(2)
    stamps: Sequence[pa.Array] = (
        pa.array(HOURS, pa.timestamp("us", "UTC")),
        pa.array(HOURS, pa.timestamp("us")).cast(pa.string()),
        pa.array(HOURS, pa.int64()),
    )
    valid = [parquet(array, row_group_size=25) for array in stamps]
    outcomes = {"rows": 0, "error": 0}
    for _ in range(300):
        data = bytearray(rng.choice(valid))
        for _ in range(rng.randrange(1, 6)):
            data[-rng.randrange(1, 1_500)] = rng.randrange(256)
        try:
            read_span(bytes(data), (NOVEMBER, NOVEMBER + HOUR), timestamp_unit="us")
            outcomes["rows"] += 1
        except InputSchemaError:
            outcomes["error"] += 1
    assert min(outcomes.values()) > 25

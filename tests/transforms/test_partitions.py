"""Partitions of a data lake: columns from paths, files that are passed over, spans of time."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
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
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import (
    SourceFile,
    can_hold,
    match_files,
    partitions_of,
    span_of_period,
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


def test_a_partition_that_is_no_period_is_kept_and_one_that_is_not_there_is_named() -> None:
    for value in ("soon", "__HIVE_DEFAULT_PARTITION__", "2026-11-01 13%3A00%3A00"):
        assert can_hold(at(f"day={value}/p"), "day", "UTC", (0, 1), 0), value
    with pytest.raises(InputSchemaError, match=r"lake/p\.csv.*no partition column 'day'"):
        can_hold(at("lake/p.csv"), "day", "UTC", (0, 1), 0)


# --- what partitions are named by: years, months, days and hours ----------------------------------


def us(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text)
    return round((moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)).total_seconds()) * (
        1_000_000
    )


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("zone", "values", "begin", "end"),
    [
        ("UTC", ("2026",), "2026-01-01T00:00Z", "2027-01-01T00:00Z"),
        ("UTC", ("2026-11",), "2026-11-01T00:00Z", "2026-12-01T00:00Z"),
        ("UTC", ("2026", "12"), "2026-12-01T00:00Z", "2027-01-01T00:00Z"),
        ("UTC", ("20261130",), "2026-11-30T00:00Z", "2026-12-01T00:00Z"),
        ("UTC", ("2026", "11", "3"), "2026-11-03T00:00Z", "2026-11-04T00:00Z"),
        ("UTC", ("2026-11-30-23",), "2026-11-30T23:00Z", "2026-12-01T00:00Z"),
        ("UTC", ("2026-11-30T23",), "2026-11-30T23:00Z", "2026-12-01T00:00Z"),
        ("UTC", ("20261130", "07"), "2026-11-30T07:00Z", "2026-11-30T08:00Z"),
        ("UTC", ("2026", "11", "30", "7"), "2026-11-30T07:00Z", "2026-11-30T08:00Z"),
        # Where a clock is put it is of 23 hours or of 25, and an hour is shown twice or never.
        (BERLIN, ("2026-03-29",), "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        (BERLIN, ("2026-10-25",), "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        (BERLIN, ("2026-10-25-02",), "2026-10-25T00:00Z", "2026-10-25T02:00Z"),
        (BERLIN, ("2026-03-29-02",), "2026-03-29T01:00Z", "2026-03-29T02:00Z"),
        (BERLIN, ("2026-10-25T02Z",), "2026-10-25T02:00Z", "2026-10-25T03:00Z"),
    ],
)
def test_a_period_begins_and_ends_with_its_name(
    zone: str, values: tuple[str, ...], begin: str, end: str
) -> None:
    assert span_of_period(values, zone) == (us(begin), us(end))


NO_PERIOD = (
    (), ("",), ("soon",), ("26-11-01",), ("2026-13",), ("2026-02-30",), ("2026-11-01-24",),
    ("2026-11-01 13:00:00",), ("2026-11-01T00:00:00Z",), ("202611",), ("2026", "x"),
    ("2026", "11", "1", "1", "1"), ("2026-11-01-13", "1"), ("9999",), ("0000",), ("\uff12026",),
    ("2026", "-1"), ("2026-11-01\n",),
)  # fmt: skip


def test_what_is_no_period_is_none() -> None:
    assert [values for values in NO_PERIOD if span_of_period(values, "UTC") is not None] == []


_PERIODS = st.from_regex(r"[0-9]{4}(-[0-9]{2}){0,3}")


@given(values=st.lists(st.one_of(st.text(max_size=9), _PERIODS), max_size=4))
def test_any_text_is_a_period_or_none(values: list[str]) -> None:
    """Fuzz: folders are named by whoever writes into the lake."""
    found = span_of_period(tuple(values), "Pacific/Apia")
    assert found is None or found[1] - found[0] >= HOUR

"""A lake's partitions hold the hospital's events, each on its day, and the same every time."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracecloak.examination.demo.hospital import ACTIVITIES, END_ACTIVITIES
from tracecloak.examination.demo.lake import Lake, main
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import RELEASED_SCHEMA

MONDAY = date(2026, 8, 31)


def rows(lake: Lake) -> dict[date, pa.Table]:
    """The events of each day whose partition is there."""
    return {day: pq.ParquetFile(lake.path(day)).read() for day in lake.days
            if lake.path(day).exists()}  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = Lake(tmp_path_factory.mktemp("lake"), MONDAY)
    made.write(made.days)
    return made


def test_every_event_is_in_the_partition_of_its_day(lake: Lake) -> None:
    found = rows(lake)
    assert list(found) == lake.days and len(found) == 91
    assert lake.path(MONDAY).relative_to(lake.folder).parts[0] == "day=2026-08-31"
    for day, table in found.items():
        assert table.schema.equals(RELEASED_SCHEMA)
        stamps = table.column("timestamp").to_pylist()
        assert {stamp.date() for stamp in stamps} == {day}
        assert stamps == sorted(stamps)


def test_cases_are_whole_but_for_what_has_not_happened(lake: Lake) -> None:
    """Each begins as the hospital's do, keeps the order of its events, and ends at most once."""
    table = pa.concat_tables(rows(lake).values()).to_pandas()
    cases = [case["activity"].tolist() for _, case in table.groupby("case_id", sort=False)]
    assert len(cases) == 3000
    assert {case[0] for case in cases} == {ACTIVITIES[0]}
    ended = [case[-1] in END_ACTIVITIES for case in cases]
    assert 0.9 < np.mean(ended) < 1
    assert not any(set(case[:-1]) & set(END_ACTIVITIES) for case in cases)
    assert table.groupby("case_id")["timestamp"].agg(np.ptp).max() > np.timedelta64(14, "D")


def test_a_day_can_be_late_and_a_file_corrupt_and_both_are_mended(tmp_path: Path) -> None:
    late, broken = MONDAY + timedelta(3), MONDAY + timedelta(5)
    common = ["--first_day", MONDAY.isoformat(), "--days", "7", "--cases", "100"]
    whole, mended = tmp_path / "whole", tmp_path / "mended"
    assert main([str(whole), *common]) == 0
    again = [str(mended), *common]
    assert main([*again, "--held_back", late.isoformat(), "--corrupt", broken.isoformat()]) == 0
    lake = Lake(mended, MONDAY, 7, 100)
    assert [day for day in lake.days if not lake.path(day).exists()] == [late]
    with pytest.raises(pa.ArrowInvalid):
        pq.ParquetFile(lake.path(broken))
    assert main([*again, "--only", late.isoformat(), "--only", broken.isoformat()]) == 0
    for day, table in rows(Lake(whole, MONDAY, 7, 100)).items():
        assert pq.ParquetFile(lake.path(day)).read().equals(table)
    assert not list(mended.rglob("_*"))


def test_what_is_no_day_and_no_number_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="days must be at least 1, got 0"):
        Lake(tmp_path, MONDAY, 0)
    lake = [str(tmp_path), "--first_day", "2026-08-31", "--days", "7", "--cases", "10"]
    assert main([*lake, "--only", "2026-09-07"]) == 2
    said = "lake: 2026-09-07 is no day of the lake, 2026-08-31 to 2026-09-06\n"
    assert capsys.readouterr().err == said

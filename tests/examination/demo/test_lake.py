"""A lake's partitions hold the hospital's events, each on its day."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracecloak.examination.demo.hospital import ACTIVITIES, END_ACTIVITIES, main, write_lake
from tracecloak.schemas.events.events import RELEASED_SCHEMA

MONDAY = date(2026, 8, 31)


def test_every_event_is_on_its_day_and_cases_are_whole_but_for_what_has_not_happened(
    tmp_path: Path,
) -> None:
    """Each begins as the hospital's do, keeps the order of its events, and ends at most once."""
    paths = write_lake(tmp_path, MONDAY)
    assert paths[0].relative_to(tmp_path).parts[0] == "day=2026-08-31"
    tables = [pq.ParquetFile(path).read() for path in paths]
    assert len(tables) == 91
    for number, table in enumerate(tables):
        assert table.schema.equals(RELEASED_SCHEMA)
        stamps = table.column("timestamp").to_pylist()
        assert {stamp.date() for stamp in stamps} == {MONDAY + timedelta(number)}
        assert stamps == sorted(stamps)
    log = pa.concat_tables(tables).to_pandas()
    cases = [case["activity"].tolist() for _, case in log.groupby("case_id", sort=False)]
    assert len(cases) == 3000
    assert {case[0] for case in cases} == {ACTIVITIES[0]}
    assert 0.9 < np.mean([case[-1] in END_ACTIVITIES for case in cases]) < 1
    assert not any(set(case[:-1]) & set(END_ACTIVITIES) for case in cases)
    assert log.groupby("case_id")["timestamp"].agg(np.ptp).max() > np.timedelta64(14, "D")


def test_what_is_no_number_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--first_day", "2026-08-31", "--days", "0"]) == 2
    assert "days" in capsys.readouterr().err

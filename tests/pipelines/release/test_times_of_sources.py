"""Times as exports have them, from the configuration to the events: several columns and formats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.pipelines.configuration.config import ReleaseConfig, load, load_log
from tracecloak.pipelines.configuration.source import source_of


def times(log: Path, **keys: Any) -> list[str]:
    """The times of the events of a log, in UTC."""
    source = source_of(load_log({"log": str(log), **keys}))
    read = [us for events in source.events() for us in events.column("timestamp").to_pylist()]
    return pa.array(read, pa.timestamp("us")).cast(pa.string()).to_pylist()


def csv(folder: Path, text: str) -> Path:
    path = folder / "log.csv"
    path.write_text(text)
    return path


def test_windows_of_parquet_read_a_date_and_a_time_of_day(tmp_path: Path) -> None:
    """Row groups cannot be passed over by one of the two; and a filter is on both together."""
    n = 50
    table = pa.table({
        "case_id": ["c"] * n, "activity": ["A"] * n,
        "day": pa.array([20240101 + i % 25 for i in range(n)]),
        "hour": pa.array([i % 24 * 10_000 for i in range(n)]),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=5)
    keys = {"timestamp": "day,hour", "timestamp_format": "%Y%m%d %H%M%S"}
    every = times(tmp_path / "log.parquet", **keys)
    some = [at for at in every if at >= "2024-01-10 05"]
    assert len(every) == n and 10 < len(some) < 40
    where = ["timestamp >= 2024-01-10T05:00"]
    assert times(tmp_path / "log.parquet", where=where, **keys) == some
    source = source_of(load_log({"log": str(tmp_path / "log.parquet"), **keys}))
    from_us = 1_704_862_800_000_000
    windowed = replace(source, span_us=(from_us, 2 * from_us)).events()
    assert sum(events.num_rows for events in windowed) == len(some)


def config(**columns: Any) -> ReleaseConfig:
    return load(None, {
        "log": "a.csv", "output": "out", "method": "private-dfg", "epsilon": "1",
        "release_id": "r", "vocabulary": '["A", "B"]', **columns,
    })  # fmt: skip


def test_one_format_is_the_same_release_however_it_is_given() -> None:
    assert config(timestamp_format=["%Y"]).digest == config(timestamp_format="%Y").digest
    several = [config(timestamp_format=given).digest for given in (["%Y", "%y"], ["%y", "%Y"])]
    assert len({*several, config(timestamp_format="%Y").digest}) == 3

"""Times as exports have them, from the configuration to the events: several columns and formats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.releasing import tracecloak
from tracecloak.pipelines.configuration.config import ReleaseConfig, load, load_log
from tracecloak.pipelines.configuration.source import source_of
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.formats.messages import MessageFormat

SAP = "case_id,activity,BUDAT,CPUTM\nc,A,20240131,93005\nc,B,20240131,093006\nc,C,20240131,\n"
UTC_TEXTS = ["2024-01-01 10:00:00 UTC"] * 6 + ["2024-01-01 10:00:00.5 UTC"] * 114
PARAMS = ("--method", "private-dfg", "--epsilon", 1, "--release_id", "r", "--vocabulary", '["A"]')


def times(log: Path, **keys: Any) -> list[str]:
    """The times of the events of a log, in UTC."""
    source = source_of(load_log({"log": str(log), **keys}))
    read = [us for events in source.events() for us in events.column("timestamp").to_pylist()]
    return pa.array(read, pa.timestamp("us")).cast(pa.string()).to_pylist()


def csv(folder: Path, text: str) -> Path:
    path = folder / "log.csv"
    path.write_text(text)
    return path


def test_a_date_and_a_time_of_day_of_sap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = csv(tmp_path, SAP)
    expected = [f"2024-01-31 08:30:0{second}.000000" for second in (5, 6)]
    keys = {"timestamp_format": "%Y%m%d %H%M%S", "time_zone": "Europe/Berlin"}
    for columns in ("BUDAT,CPUTM", "BUDAT, CPUTM", ["BUDAT", "CPUTM"]):
        assert times(log, timestamp=columns, **keys) == expected
    flags = ("--log", log, "--timestamp", "BUDAT,CPUTM", "--timestamp_format", "%Y%m%d %H%M%S")
    assert tracecloak("plan", *flags, *PARAMS, "--output", tmp_path, "--full") == 0
    shown = capsys.readouterr().out
    assert "BUDAT + CPUTM: text in the format %Y%m%d %H%M%S; without an offset" in shown
    assert "1 of 3: no timestamp, first at record 3 of" in shown
    assert tracecloak("profile", *flags[:4], "--output", tmp_path / "profile.json") == 0
    assert "timestamp_format: '%Y%m%d %H%M%S'" in capsys.readouterr().out


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


def test_several_formats_as_flags_and_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"c,A,{text}" for text in UTC_TEXTS]
    log = csv(tmp_path, "\n".join(["case_id,activity,timestamp", *rows, ""]))
    layouts = ["%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M:%S.%f UTC"]
    assert len(times(log)) == 120
    assert [len(times(log, timestamp_format=one)) for one in (*layouts, layouts)] == [6, 114, 120]
    repeated = [part for one in layouts for part in ("--timestamp_format", one)]
    for given, n_read in ((repeated, 120), (repeated[:2], 6)):
        flags = ("--log", log, *given, *PARAMS, "--output", tmp_path, "--full")
        assert tracecloak("plan", *flags) == 0
        shown = capsys.readouterr().out
        assert f"{n_read} can be read" in shown
        assert " or ".join(given[1::2]) in shown


def test_local_times_of_all_years(tmp_path: Path) -> None:
    """Arrow, which read them before, knows no summer time from 2038 on."""
    years = (1800, 1945, 2037, 2038, 2050, 9998)
    rows = [f"c,A,{year}-07-01T12:00:00" for year in years]
    log = csv(tmp_path, "\n".join(["case_id,activity,timestamp", *rows, ""]))
    read = times(log, time_zone="Europe/Berlin")
    hours = ["11:06:32", "09:00:00", *["10:00:00"] * 4]  # the sun's time, and double summer time
    assert read == [f"{year}-07-01 {hour}.000000" for year, hour in zip(years, hours, strict=True)]


def test_times_of_spark_and_of_impala(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    noon = pa.array([1_719_828_000_000_000], pa.timestamp("us"))
    table = pa.table({"case_id": ["c"], "activity": ["A"], "timestamp": noon})
    pq.write_table(table, log, use_deprecated_int96_timestamps=True)
    berlin = {"time_zone": "Europe/Berlin"}
    assert times(log, **berlin) == ["2024-07-01 10:00:00.000000"]
    assert times(log, int96_timestamps="local", **berlin) == ["2024-07-01 08:00:00.000000"]


def config(**columns: Any) -> ReleaseConfig:
    return load(None, {
        "log": "a.csv", "output": "out", "method": "private-dfg", "epsilon": "1",
        "release_id": "r", "vocabulary": '["A", "B"]', **columns,
    })  # fmt: skip


def test_one_format_is_the_same_release_however_it_is_given() -> None:
    assert config(timestamp_format=["%Y"]).digest == config(timestamp_format="%Y").digest
    several = [config(timestamp_format=given).digest for given in (["%Y", "%y"], ["%y", "%Y"])]
    assert len({*several, config(timestamp_format="%Y").digest}) == 3


def test_a_column_whose_name_has_a_comma_is_a_list_of_one() -> None:
    assert config(timestamp=["Date, time"]).mapping.timestamp == "Date, time"
    assert config(timestamp="Date, time").mapping.timestamp == ("Date", "time")
    assert config(timestamp=" Zeit").mapping.timestamp == " Zeit"


def test_a_stream_takes_a_time_from_one_field() -> None:
    with pytest.raises(UsageError, match="a stream takes each time from one field"):
        MessageFormat(config(timestamp="a,b").mapping)

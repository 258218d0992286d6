"""Files that are not there, and files that a filter leaves out and nobody opens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.golden.releases import run_example
from tests.support.releasing import check_whole, csv_log, operator_folder, release_of
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.plan import source_of

BOUGHT = {"epsilon": 1, "buy_vocabulary": True}


# Every source once, every method, and Beam with a folder that is there and one that is not.
@pytest.mark.parametrize(
    ("method", "runner", "source"),
    [
        ("private-dfg", "InMemory", "day=2/"),
        ("private-log", "InMemory", "day=2/*.csv"),
        ("variant-histogram", "InMemory", "day=1"),
        ("private-dfg", "InMemory", "day=1/*"),
        ("private-dfg", "FnApiRunner", "day=2/*.csv"),
        ("private-dfg", "FnApiRunner", "day=1"),
        at_night("private-dfg", "FnApiRunner", "day=2/"),
        at_night("private-dfg", "FnApiRunner", "day=1/*"),
    ],
)
def test_so_is_a_missing_partition_on_every_runner(
    tmp_path: Path, source: str, method: str, runner: str
) -> None:
    """Of one that is there, a file says that it is complete, and none has a record."""
    (tmp_path / "claims" / "day=1").mkdir(parents=True)
    (tmp_path / "claims" / "day=1" / "_SUCCESS").touch()
    example = METHODS[method].examples[0]
    source = f"{tmp_path}/claims/{source}"
    assert run_example(tmp_path, method, example, source, runner=runner) == 0
    check_whole(tmp_path / "out" / "run_id=golden")
    internal = operator_folder(tmp_path / "keys") / "statement.md"
    assert source in internal.read_text()


def test_missing_partitions_of_two_days_are_two_releases_and_a_partition_that_comes_is_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in (1, 2):
        source = f"{tmp_path}/day={day}/"
        assert run_example(tmp_path, "laplace-dfg", {"epsilon": 1}, source, release_id=None) == 0
    assert len(list((tmp_path / "out").glob("run_id=*"))) == 2
    assert run_example(tmp_path, "private-dfg", BOUGHT, source, release_id="r") == 0
    (tmp_path / "day=2").mkdir()
    csv_log(tmp_path / "day=2" / "log.csv", [("a", "A", "2026-01-01")])
    again = {"release_id": "r", "columns": {}}
    assert run_example(tmp_path, "private-dfg", BOUGHT, source, **again) == 2
    assert "the input" in capsys.readouterr().err


@pytest.mark.parametrize(
    "source", ["claims/none.csv", "claims/day=2", "none/*.csv", "none/", "log.csv,none.csv"]
)
def test_what_is_not_there_ends_with_3_before_anything_is_paid(
    tmp_path: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "claims").mkdir()
    csv_log(tmp_path / "log.csv", [("a", "A", "2026-01-01")])
    paths = ",".join(f"{tmp_path}/{path}" for path in source.split(","))
    assert run_example(tmp_path, "private-dfg", BOUGHT, paths, columns={}) == 3
    assert f"{source.split(',')[-1]}'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "keys").exists()


# --- what is not opened ---------------------------------------------------------------------------


def test_what_does_not_pass_is_not_opened_and_is_no_part_of_the_input(tmp_path: Path) -> None:
    days = ("2026-11-01", "2026-11-02", "2026-11-03")
    for day in days:
        part = tmp_path / "claims" / f"day={day}"
        part.mkdir(parents=True)
        csv_log(part / "log.csv", [(day, name, f"{day}T0{i}:00:00") for i, name in enumerate("AB")])
    unread = tmp_path / "claims" / f"day={days[0]}" / "log.csv"
    unread.write_text("nothing of the kind")
    log: dict[str, Any] = {"log": str(tmp_path / "claims"), "formats": ["csv"]}
    assert release_of(tmp_path, **log, release_id="all") == 3
    since = ("--where", f"day >= {days[1]}")
    assert release_of(tmp_path, *since, **log) == 0
    # It changes, and the release is the same and there already.
    unread.write_text("nothing of another kind")
    assert release_of(tmp_path, *since, **log) == 0
    csv_log(part / "more.csv", [("x", "A", f"{days[2]}T00:00:00")])
    assert release_of(tmp_path, *since, **log) == 2


def times(log: Path, **keys: Any) -> list[str]:
    """The times of the events of a log, in UTC."""
    source = source_of(load_log({"log": str(log), **keys}))
    read = [us for events in source.events() for us in events.column("timestamp").to_pylist()]
    return pa.array(read, pa.timestamp("us")).cast(pa.string()).to_pylist()


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

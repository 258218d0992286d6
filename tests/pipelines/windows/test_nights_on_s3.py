"""A night of windows whose lake is on S3: each file is got once, and the lake is listed once."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.releasing import as_typed, digests, fix_key, tracecloak
from tests.support.s3_double import S3Double, s3_double
from tests.support.tiers import at_night

BEGIN = dt.datetime(2026, 1, 1, 8, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Double]:
    with s3_double() as double:
        yield double


class Night:
    """A lake with a folder a day, on S3 and in a folder of this machine, and its windows."""

    def __init__(self, server: S3Double, folder: Path, n_days: int) -> None:
        self.server, self.folder, self.n_days = server, folder, n_days
        self.name = folder.name
        self.paths = [
            f"day={BEGIN + dt.timedelta(day):%Y-%m-%d}/part-{part}.parquet"
            for day in range(n_days)
            for part in range(3)
        ]
        for path in self.paths:
            self.put(path, 20)
        (folder / "names.txt").write_text("A\nB\n")

    def put(self, path: str, n_cases: int) -> None:
        """Writes a file of the lake, on S3 and here."""
        begin = dt.datetime.fromisoformat(f"{path[4:14]}T08:00Z")
        cases = [f"{path}-{case}" for case in range(n_cases) for _ in "AB"]
        rows: dict[str, Any] = {
            "case_id": cases,
            "activity": ["A", "B"] * n_cases,
            "timestamp": [begin + dt.timedelta(minutes=i) for i in range(len(cases))],
        }
        made = io.BytesIO()
        pq.write_table(pa.table(rows), made)
        here = self.folder / "lake" / path
        here.parent.mkdir(parents=True, exist_ok=True)
        here.write_bytes(made.getvalue())
        self.server.put(f"{self.name}/{path}", made.getvalue())

    def release(self, place: str, *flags: object) -> int:
        """Releases all windows of the lake there."""
        logs = {"there": f"s3://lake/{self.name}/", "here": f"{self.folder}/lake/"}
        config = self.folder / f"{place}.yaml"
        body = {
            "log": logs[place], "output": f"{self.folder}/{place}",
            "key_store": f"{self.folder}/keys-{place}", "release_id": "ward", "runner": "InMemory",
            "method": "private-dfg", "account": "night",
            "params": {"epsilon": "1", "vocabulary": f"{self.folder}/names.txt"},
            "schedule": {
                "dataset": "hospital", "origin": "2026-01-01", "period": "day", "gap": "1h",
                "max_lifetime": "2h", "release_delay": "1h", "horizon": self.n_days,
                "partition": "day",
            },
        }  # fmt: skip
        config.write_text(yaml.safe_dump(body))
        self.server.requests.clear()
        return tracecloak("release", config, "--window", "due", *flags)

    def released(self, place: str) -> dict[str, dict[str, str]]:
        """The digests of the files of each release."""
        return {path.name: digests(path) for path in (self.folder / place).glob("run_id=*")}


@pytest.mark.parametrize("n_days", [2, at_night(22)])
def test_a_night_asks_for_each_file_once_and_lists_the_lake_once(
    server: S3Double, tmp_path: Path, n_days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_key(monkeypatch)
    night = Night(server, tmp_path, n_days)
    assert night.release("there") == 0
    # One listing of the lake, and one for each marker of a table in the folder above it.
    assert night.server.kinds == {"LIST": 4, "GET": 3 * n_days}
    assert len(server.requests) <= 200
    assert night.release("here") == 0
    assert night.released("here") == night.released("there")
    assert len(night.released("there")) == n_days
    assert as_typed("release", tmp_path / "there.yaml", "--window", "due") == 0
    assert server.requests == []  # nothing is left, so nothing is looked for


@pytest.mark.slow
def test_processes_side_by_side_are_given_the_listing(server: S3Double, tmp_path: Path) -> None:
    night = Night(server, tmp_path, 3)
    assert night.release("there", "--jobs", 2) == 0
    kinds = night.server.kinds
    # What one process got, the other does not have.
    assert set(kinds) == {"LIST", "GET"} and kinds["LIST"] == 4 and kinds["GET"] <= 2 * 9

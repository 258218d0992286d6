"""That nothing happened is released like anything else, by every method with a true epsilon."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.golden.releases import HEADER, example_config
from tests.support.examples import examples_of, rigorous_examples
from tests.support.releasing import csv_log, operator_folder, tracecloak
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS

BOUGHT = {"epsilon": 1, "buy_vocabulary": True}
# The first two of each method; further examples repeat their ways with other numbers.
RIGOROUS = [row if row[1] < 2 else at_night(*row) for row in rigorous_examples()]


def release(
    folder: Path, method: str, example: Mapping[str, Any], source: str | Path, **changes: object
) -> int:
    body = {**example_config(folder, method, example, Path("x")), "log": str(source), **changes}
    (folder / "release.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    return tracecloak("release", folder / "release.yaml")


def check_released(folder: Path) -> None:
    made = folder / "out" / "run_id=golden"
    said = json.loads((made / "manifest.json").read_text())
    assert said["outputs"] and all((made / o["path"]).is_file() for o in said["outputs"])


@pytest.mark.by_day(10)
@pytest.mark.parametrize(("method", "number"), RIGOROUS)
def test_a_source_without_cases_is_released(tmp_path: Path, method: str, number: int) -> None:
    """Catches a method that counts on a case: its failure would tell that there is none."""
    log = tmp_path / "log.csv"
    log.write_text(",".join(HEADER) + "\n")
    assert release(tmp_path, method, examples_of(METHODS[method])[number], log) == 0
    check_released(tmp_path)


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
    assert release(tmp_path, method, example, source, runner=runner) == 0
    check_released(tmp_path)
    internal = operator_folder(tmp_path / "keys") / "statement.md"
    assert source in internal.read_text()


def test_missing_partitions_of_two_days_are_two_releases_and_a_partition_that_comes_is_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches a day that counts as released because another day was as empty."""
    for day in (1, 2):
        source = f"{tmp_path}/day={day}/"
        assert release(tmp_path, "laplace-dfg", {"epsilon": 1}, source, release_id=None) == 0
    assert len(list((tmp_path / "out").glob("run_id=*"))) == 2
    assert release(tmp_path, "private-dfg", BOUGHT, source, release_id="r") == 0
    (tmp_path / "day=2").mkdir()
    csv_log(tmp_path / "day=2" / "log.csv", [("a", "A", "2026-01-01")])
    again = {"release_id": "r", "columns": {}}
    assert release(tmp_path, "private-dfg", BOUGHT, source, **again) == 2
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
    assert release(tmp_path, "private-dfg", BOUGHT, paths, columns={}) == 3
    assert f"{source.split(',')[-1]}'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "keys").exists()

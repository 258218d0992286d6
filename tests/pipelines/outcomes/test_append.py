"""A table gets the log of a release once, whatever happens on the way."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.lake_tables import all_rows, in_order, opened, use_catalogue
from tests.support.releasing import Commands, small_release, tracecloak
from tests.support.tiers import at_night
from tracecloak.pipelines.outcomes.metrics import append_release
from tracecloak.schemas.errors import InputSchemaError

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

NAME = "lake.published.visits"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("release"), "r")


def made(folder: Path, name: str, formats: str = "parquet") -> Path:
    named = ("--release_id", name, "--parts", 2, "--formats", formats)
    assert not tracecloak(*small_release(folder, "--vocabulary", '["A", "B", "C", "D"]', *named))
    return folder / "out" / f"run_id={name}"


@pytest.fixture(autouse=True)
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_catalogue(monkeypatch, tmp_path)


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"delta:{tmp_path}/published" if request.param == "delta" else f"iceberg:{NAME}"


def released(release: Path) -> list[tuple[Any, ...]]:
    parts = pa.concat_tables([pq.read_table(path) for path in sorted(release.glob("log/*"))])
    return in_order(parts)


def names_in_history(table: str) -> list[str]:
    kind, _, place = table.partition(":")
    if kind == "delta":
        commits = deltalake.DeltaTable(place).history()
        return [one["tracecloak.release"] for one in commits if "tracecloak.release" in one]
    summaries = [one.summary for one in opened(table).snapshots()]
    return [one["tracecloak.release"] for one in summaries if one["tracecloak.release"]]


def test_a_table_gets_the_rows_once(
    release: Path, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak("append", release, "--table", table) == 0
    assert "appended" in capsys.readouterr().out
    assert in_order(all_rows(table)) == released(release)
    assert tracecloak("append", f"{release}/", "--table", table) == 0
    assert "was there" in capsys.readouterr().out
    assert len(all_rows(table)) == len(released(release))
    assert names_in_history(table) == ["r"]


def test_a_history_that_was_cut_off_is_no_reason_to_append_again(
    release: Path, table: str, tmp_path: Path
) -> None:
    append_release(str(release), table)
    kind, _, place = table.partition(":")
    if kind == "delta":
        log = deltalake.DeltaTable(place)
        log.create_checkpoint()
        for commit in (Path(place) / "_delta_log").glob("*.json"):
            commit.unlink()
    else:
        rows = all_rows(table)
        opened(table).overwrite(rows)
        first = opened(table).snapshots()[0].snapshot_id
        opened(table).maintenance.expire_snapshots().by_id(first).commit()
        assert "r" not in names_in_history(table)
    assert append_release(str(release), table).was_there
    assert len(all_rows(table)) == len(released(release))


def test_two_at_once_append_it_once(release: Path, table: str, tmp_path: Path) -> None:
    """Catches a commit that is tried again without a look whether the other had this release."""
    from pyiceberg.catalog import load_catalog

    other = made(tmp_path, "other")
    if table.startswith("iceberg"):  # whose client makes the catalogue's own tables at first use
        load_catalog("lake")
    results: list[bool] = []

    def run(folder: Path) -> None:
        results.append(append_release(str(folder), table).was_there)

    threads = [threading.Thread(target=run, args=(one,)) for one in (release, release, other) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False, False, True, True, True, True]
    assert in_order(all_rows(table)) == sorted(released(release) + released(other))


@pytest.mark.parametrize("is_made_meanwhile", [True, False])
def test_a_namespace_that_another_process_makes_meanwhile(
    release: Path, is_made_meanwhile: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two who append at first find neither namespace nor table, and a database refuses one."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy.exc import IntegrityError

    other, make = load_catalog("lake"), SqlCatalog.create_namespace

    def refused(*arguments: Any) -> None:
        if is_made_meanwhile:
            make(other, "published")
        raise IntegrityError("insert", {}, Exception("not unique"))

    monkeypatch.setattr(SqlCatalog, "create_namespace", refused)
    if is_made_meanwhile:
        append_release(str(release), f"iceberg:{NAME}")
        assert in_order(all_rows(f"iceberg:{NAME}")) == released(release)
    else:
        with pytest.raises(InputSchemaError, match="IntegrityError"):
            append_release(str(release), f"iceberg:{NAME}")


def test_what_is_no_release_or_no_table_is_refused(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(release, changed)
    part = next(changed.glob("log/*.parquet"))
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    (tmp_path / "w").mkdir()
    without = made(tmp_path / "w", "w", "csv")
    deltalake.write_deltalake(str(tmp_path / "others"), pa.table({"x": [1]}))
    dates = pa.table({"case_id": ["c"], "activity": ["A"], "timestamp": pa.array([0], pa.date32())})
    deltalake.write_deltalake(str(tmp_path / "dates"), dates)
    cases = (
        (tmp_path, f"delta:{tmp_path}/t", 3, "holds no manifest.json"),
        (changed, f"delta:{tmp_path}/t", 5, "tracecloak verify"),
        (without, f"delta:{tmp_path}/t", 2, "no log in Parquet"),
        (release, f"delta:{tmp_path}/t@3", 2, "without a version"),
        (release, str(tmp_path / "t"), 2, "delta:PATH"),
        (release, f"delta:{tmp_path}/others", 2, "other columns"),
        (release, f"delta:{tmp_path}/dates", 2, ""),  # which times would be cast to
        (release, f"delta:{release / 'manifest.json'}/t", 3, "cannot be read or written"),
        (release, "iceberg:nowhere.a.b", 2, "nowhere"),
    )
    for folder, table, code, words in cases:
        assert tracecloak("append", folder, "--table", table) == code, table
        assert words in capsys.readouterr().err, table
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("when", ["before", at_night("after")])
def test_a_killed_append_is_finished_by_the_next_one(
    commands: Commands, release: Path, tmp_path: Path, when: str
) -> None:
    table = f"delta:{tmp_path}/published"
    for _ in range(2):
        killed = commands.run("append", release, "--table", table, at=f"kill {when} append")
        assert killed.code == -9
    assert not tracecloak("append", release, "--table", table)
    assert in_order(all_rows(table)) == released(release)

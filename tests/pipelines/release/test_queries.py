"""A release of a query asks it once, keeps the result for itself, and promises what it can."""

from __future__ import annotations

import functools
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import releasing
from tests.support.lake_tables import events_of, files_below, log_rows
from tests.support.postgres import database, server
from tests.support.releasing import (
    digests,
    fix_key,
    ledger_entries,
    manifest,
    operator_folder,
    release_of,
    tracecloak,
)
from tests.support.searching import contents
from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.plan import source_of
from tracecloak.pipelines.release.querying import QueryExtension
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.inputs import databases

__all__ = ["database", "server"]  # fixtures

ROWS = log_rows(40)
SCHEDULE = {
    "origin": "2026-11-02", "period": "week", "max_lifetime": "1d", "horizon": 2, "partition": "day"
}  # fmt: skip
QUERY = "SELECT case_id, activity, timestamp FROM planted_visits"


release = functools.partial(release_of, query=QUERY)
cut_off = functools.partial(releasing.cut_off, query=QUERY)


@pytest.fixture(autouse=True)
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_key(monkeypatch)


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "planted-visits.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE planted_visits (case_id TEXT, activity TEXT, timestamp TEXT)"
        )
        fill(connection, "INSERT INTO planted_visits VALUES (?, ?, ?)")
    return path


def fill(connection: Any, statement: str) -> None:
    connection.executemany(statement, [tuple(row.values()) for row in ROWS.to_pylist()])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The queries that a database was asked."""
    queries: list[str] = []
    original = databases._stream

    def noting(database: str, query: str, stream: Any) -> str:
        queries.append(query)
        return original(database, query, stream)

    monkeypatch.setattr(databases, "_stream", noting)
    yield queries


def made(folder: Path) -> dict[str, str]:
    return digests(folder / "out" / "run_id=r")


def results(folder: Path) -> list[Path]:
    return list((folder / "_incomplete-out").rglob("input/*"))


def test_it_is_asked_once_and_a_rerun_reads_what_it_answered(
    tmp_path: Path, visits: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"database": f"sqlite:///{visits}"}
    assert release(tmp_path / "whole", **given) == 0
    cut_off(tmp_path, **given)
    (result,) = results(tmp_path)
    assert stat.S_IMODE(result.stat().st_mode) == 0o600
    for folder in (result.parent, result.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    visits.unlink()
    assert release(tmp_path, **given) == 0
    assert made(tmp_path) == made(tmp_path / "whole")
    assert [e.action for e in ledger_entries(tmp_path / "keys")] == ["reserve", "draw", "commit"]
    assert not results(tmp_path)
    # It is there, and nobody asks.
    assert release(tmp_path, **given) == 0
    assert asked == [QUERY] * 2
    capsys.readouterr()
    assert release(tmp_path, **{**given, "query": f"{QUERY} WHERE 1 = 1"}) == 2
    assert "the query changed" in capsys.readouterr().err


def test_a_result_that_is_gone_is_not_asked_for_after_noise_was_drawn(
    tmp_path: Path, visits: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"database": f"sqlite:///{visits}"}
    cut_off(tmp_path, **given)
    capsys.readouterr()
    assert release(tmp_path, **{**given, "query": f"{QUERY} WHERE 1 = 1"}) == 2
    assert "the query changed" in capsys.readouterr().err
    results(tmp_path)[0].unlink()
    assert release(tmp_path, **given) == 6
    said = capsys.readouterr().err
    assert "leaves epsilon 1 spent" in said and "ledger forfeit" in said
    assert asked == [QUERY]
    assert given_up(tmp_path) == 0
    assert not results(tmp_path)


def given_up(folder: Path) -> int:
    return tracecloak(
        "ledger", "forfeit", "--output", folder / "out", "--release_id", "r", "--by", "me",
        "--reason", "gone", "--key_store", folder / "keys",
    )  # fmt: skip


def waiting(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the ledger lists of what was cut off."""
    capsys.readouterr()
    assert tracecloak("ledger", "list-unfinished", "--key_store", folder / "keys") == 0
    return capsys.readouterr().out


def test_a_result_that_nothing_was_reserved_for_is_known_and_goes(
    tmp_path: Path, visits: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"database": f"sqlite:///{visits}"}

    def killed(**changes: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tracecloak.pipelines.release.opening.source_of", 1)
            patch.setattr(QueryExtension, "dropped", lambda _: None)
            assert release(tmp_path, **given, **changes) == 6

    killed()
    (result,) = results(tmp_path)
    said = waiting(tmp_path, capsys)
    assert str(result.parent) in said and "ledger forfeit" in said
    assert given_up(tmp_path) == 0
    assert "Nothing was reserved" in capsys.readouterr().out
    assert not results(tmp_path) and "Nothing waits" in waiting(tmp_path, capsys)
    assert given_up(tmp_path) == 2
    # The next run deletes what an earlier one left elsewhere, with or without a reservation.
    area = str(tmp_path / "area")
    killed(staging_area=area)
    assert list((tmp_path / "area").rglob("input/*"))
    cut_off(tmp_path, step="discard", **given)
    assert not list(files_below(tmp_path / "area"))
    assert release(tmp_path, **given, staging_area=area) == 0
    assert not results(tmp_path) and not list(files_below(tmp_path / "area"))
    assert asked == [QUERY] * 4
    assert not list((tmp_path / "keys").rglob("*.result"))


def test_a_result_that_is_no_log_leaves_nothing(
    tmp_path: Path, visits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"database": f"sqlite:///{visits}"}
    for query in ("SELECT activity FROM planted_visits", "SELECT nothing", "SELEKT 'planted'"):
        assert release(tmp_path, **given, query=query) == 3
        said = capsys.readouterr().err
        assert "planted" not in said.replace(str(visits), ""), query
        assert not list(tmp_path.rglob("*.part")) and not results(tmp_path)
    assert ledger_entries(tmp_path / "keys") == []


def test_no_value_of_a_column_decides_how_another_is_read(tmp_path: Path) -> None:
    """Catches ids of 8 bytes that are one case, as somebody else's is no whole number."""
    path, ids = tmp_path / "mixed.db", (2**53, 2**53 + 1, 5, 5.0, "5.0", 5.5, b"five", b"\xff")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE visits (case_id, activity, timestamp, [a ward])")
        rows = [(one, "A", "2026-11-01T10:00", one) for one in ids]
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
        connection.execute("INSERT INTO visits VALUES ('x', CAST(x'ff' AS TEXT), 1, NULL)")
    file = databases.write_result(f"sqlite:///{path}", "SELECT * FROM visits", tmp_path / "r")
    read = source_of(load_log({"log": str(file), "resource": "a ward"}))
    names = ("9007199254740992", "9007199254740993", "5", "5", "5.0", "five")
    assert events_of(read, "resource") == [(name, "A", name) for name in names]
    # A name that stands there twice is no column.
    file = databases.write_result(f"sqlite:///{path}", "SELECT 1 x, 2 x", tmp_path / "twice")
    with pytest.raises(InputSchemaError, match="2 fields 'x'"):
        source_of(load_log({"log": str(file)}))


def test_the_promise_is_for_units_of_the_result_and_everything_says_so(
    tmp_path: Path, visits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release(tmp_path, database=f"sqlite:///{visits}") == 0
    assert "any one case, in the result of a query" in capsys.readouterr().out
    made_here = tmp_path / "out" / "run_id=r"
    guarantee = manifest(made_here)["guarantee"]
    assert guarantee["population"] == "query result"
    assert "removed from the result of a query" in guarantee["sentence"]
    assert any("LIMIT" in sentence for sentence in guarantee["not_covered"])
    statement = (made_here / "statement.md").read_text()
    assert "whether that one is in the result of the query" in statement.split("\n\n")[1]
    page = (made_here / "report.html").read_text()
    assert "removed from the result of a query" in page and "LIMIT" in page
    assert tracecloak("verify", made_here) == 0
    # Whoever takes the word away promises more than the method can.
    edited = (made_here / "manifest.json").read_text().replace('"query result"', '"input"')
    (made_here / "manifest.json").write_text(edited)
    assert tracecloak("verify", made_here) == 5


def test_what_is_published_says_nothing_of_query_and_database(
    tmp_path: Path,
    visits: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PLANTED_URI", f"sqlite:///{visits}")
    (tmp_path / "planted.sql").write_text(f"{QUERY}\n-- planted")
    given = {"database": "env:PLANTED_URI", "query": f"@{tmp_path / 'planted.sql'}"}
    cut_off(tmp_path, **given)
    assert release(tmp_path, **given) == 0
    said = capsys.readouterr()
    assert "SELECT" not in said.out + said.err and "planted-visits" not in said.out + said.err
    published = [(path, text) for path in files_below(tmp_path / "out") for text in contents(path)]
    assert published
    for path, text in published:
        for marker in (b"planted", b"PLANTED", b"sqlite", QUERY[:20].encode()):
            assert marker not in text, (path, marker)
    # Beside the operator's statement stands what was asked, whatever becomes of the file.
    own = operator_folder(tmp_path / "keys")
    assert (own / "query.sql").read_text() == f"{QUERY}\n-- planted"
    # Not even the operator's own files have the address that the variable holds.
    for path in files_below(operator_folder(tmp_path / "keys")):
        assert str(visits).encode() not in path.read_bytes(), path


def test_wrong_keys_are_told_with_the_remedy(
    tmp_path: Path,
    visits: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = f"sqlite:///{visits}"
    cases = (
        ({"log": "x.csv", "database": uri}, 2, "exclude each other"),
        ({"query": None, "database": uri}, 2, "database needs query"),
        ({}, 2, "query needs database"),
        ({"query": None}, 2, "log is missing"),
        ({"database": "postgresql://me:planted@host/db"}, 2, "has a password in it"),
        ({"database": "mysql://host/db"}, 2, "must begin with one of"),
        ({"database": "visits.db"}, 2, "write it as sqlite:///visits.db"),
        ({"database": "c:planted@visits.db"}, 2, "write it as sqlite:///visits.db"),
        ({"database": "env:NO_SUCH_VARIABLE"}, 2, "no URI of a database"),
        ({"database": f"sqlite:///{tmp_path}/none.db"}, 3, "a file that is not there"),
        ({"database": uri, "query": f"@{tmp_path}/none.sql"}, 2, "cannot be read"),
        ({"database": uri, "query": " "}, 2, "query is empty"),
        ({"database": uri, "release_id": None}, 2, "release_id is missing"),
        ({"database": uri, "input_format": "csv"}, 2, "input_format is of files"),
        ({"database": uri, "delimiter": ";"}, 2, "delimiter is of files"),
        ({"database": uri, "encoding": "latin-1"}, 2, "encoding is of files"),
        ({"database": uri, "header": "a,b"}, 2, "header is of files"),
        ({"database": uri, "comment": "#"}, 2, "comment is of files"),
        ({"database": uri, "schedule": SCHEDULE, "dataset": "x"}, 2, "partition is of files"),
        ({"database": uri, "output": "objects://out"}, 2, "not on this machine"),
    )
    for changes, code, words in cases:
        assert release(tmp_path, **changes) == code, changes
        said = capsys.readouterr().err
        assert words in said and "planted@" not in said, changes
    monkeypatch.setenv("URI", "oracle://planted")
    assert release(tmp_path, database="env:URI") == 2
    assert "planted" not in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_duckdb_is_asked_too(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "visits.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE planted_visits AS SELECT 'c' || (range // 3) AS case_id, "
            "'A' AS activity, TIMESTAMPTZ '2026-11-01' AS timestamp FROM range(300)"
        )
    before = path.read_bytes()
    assert release(tmp_path, database=f"duckdb:///{path}") == 0
    assert path.read_bytes() == before
    assert os.listdir(tmp_path / "out" / "run_id=r")


@pytest.mark.slow
def test_postgresql_is_asked_too(tmp_path: Path, database: str, monkeypatch: Any) -> None:
    pytest.importorskip("adbc_driver_postgresql")
    psycopg = pytest.importorskip("psycopg")
    uri = database.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(uri) as connection:
        connection.execute(
            "CREATE TABLE planted_visits (case_id numeric, activity text, timestamp timestamptz)"
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO planted_visits VALUES (%s, %s, %s)",
                [
                    (int(row["case_id"].rpartition("-")[2]), row["activity"], row["timestamp"])
                    for row in ROWS.to_pylist()
                ],
            )
    monkeypatch.setenv("WAREHOUSE", uri)
    assert release(tmp_path, database="env:WAREHOUSE") == 0

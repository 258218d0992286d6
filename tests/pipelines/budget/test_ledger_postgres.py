"""The ledger on a server: a real PostgreSQL, started for these tests."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.support.books import book_of, claimed_by_window, of_window, scope, units
from tests.support.keys import release_key
from tests.support.ledgers import ROOT, account, contend, faults, python, reservation
from tests.support.postgres import database as url
from tests.support.postgres import server
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.case_digests import CaseSketch
from tracecloak.pipelines.budget.opening import officers_ledger
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import reading
from tracecloak.pipelines.ledger.database import (
    TABLE,
    Asks,
    Database,
    LedgerError,
    LedgerUnavailable,
    read_entries,
)
from tracecloak.pipelines.ledger.noted_cases import NotedCases, erase, note_cases
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.reading import verify
from tracecloak.schemas.errors import BudgetExhausted, UsageError
from tracecloak.transforms.batch.job import SketchFile, WrittenSketch
from tracecloak.transforms.keys.wrapping import KeyReference

__all__ = ["server", "url"]  # fixtures

psycopg = pytest.importorskip("psycopg")


def execute(url: str, *statements: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    ("isolation", "n_processes"),
    [at_night("read committed", 50), at_night("repeatable read", 16), ("serializable", 16)],
)
def test_of_many_processes_at_once_10_fit_the_cap(
    url: str, isolation: str, n_processes: int
) -> None:
    name = sa.make_url(url).database
    execute(url, f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    ends = contend(url, n_processes)
    assert Database(url, 1).is_shared
    assert ends == {0: 10, BudgetExhausted.exit_code: n_processes - 10}
    ledger = Ledger(url, {"a": account()}, new=True)
    assert faults(ledger) == []
    assert len(ledger.entries()) == 10
    assert ledger.balance("a").remaining_epsilon == 0


def test_of_many_processes_at_once_each_case_goes_to_one_window(url: str, tmp_path: Path) -> None:
    """On a server nobody holds a lock: who comes second decides again on what was claimed."""
    ledger = Ledger(url, {"a": account()}, new=True)
    n_processes, n_cases = 4, 5
    code = (
        "from tests.support.books import *; "
        f"fork_and_claim({url!r}, {str(tmp_path)!r}, {n_processes}, {n_cases})"
    )
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "")
    claimed = claimed_by_window(book_of(ledger), ledger)
    sizes = sorted(map(len, claimed.values()))
    assert sizes == [1] * (n_processes - 1) + [n_cases + 1]
    assert len(set().union(*claimed.values())) == n_cases + n_processes
    assert faults(ledger) == []
    assert ledger.balance("a").spent_epsilon == 1


@pytest.fixture
def roles(url: str) -> dict[str, str]:
    """URLs of the roles of `deploy/ledger_roles.sql`, which ran as it is, by what they are."""
    Ledger(url, new=True)
    names = {kind: f"{kind}_{secrets.token_hex(4)}" for kind in ("pipeline", "officer")}
    script = (ROOT / "deploy" / "ledger_roles.sql").read_text()
    for kind, name in names.items():
        execute(url, f"CREATE ROLE {name} LOGIN")
        script = script.replace(f':"{kind}"', name)
    execute(url, script)
    return {kind: url.replace("postgres@", f"{name}@") for kind, name in names.items()}


def test_a_pipeline_pays_and_only_the_officer_declares(url: str, roles: dict[str, str]) -> None:
    """Catches a cap that a pipeline with its own login raises, or an entry that it takes away."""
    officer = Ledger(roles["officer"])
    officer.declare_account(account("0.5"), "the officer", "file 17", "sum")
    pipeline = Ledger(roles["pipeline"])
    pipeline.reserve(reservation(0, "0.4"))
    pipeline.draw("/out", "r0", "k")
    pipeline.commit("/out", "r0", "k")
    pipeline.reserve(reservation(1))
    pipeline.void("/out", "r1", "k")
    with pytest.raises(BudgetExhausted):
        pipeline.reserve(reservation(2, "0.2"))
    pipeline.reserve(reservation(3))
    pipeline.reserve(of_window(4, "2026-11", "0"))
    book = book_of(pipeline)
    book.check(scope())
    assert len(book.claim("/out", "r4", "k", units(["c1"])).units.digests) == 1
    assert reading.verify(officer)[1] and book.check(scope(), compares_all=True) == 1
    pipeline.draw("/out", "r4", "k")
    pipeline.note_step(("/out", "r0", "k"), 0, "0" * 64)
    for declare in (
        lambda: pipeline.declare_account(account("100"), "me", "more"),
        lambda: pipeline.bind_dataset("d", "a", "me", "mine"),
        lambda: pipeline.withdraw("/out", "r0", "me", "gone"),
        lambda: pipeline.forfeit("/out", "r3", "k", "me", "gone"),
    ):
        with pytest.raises(LedgerError, match="leave to the privacy officer what is"):
            declare()
    for kind in ("pipeline", "officer"):
        for statement in (
            "DELETE FROM tracecloak_ledger",
            "UPDATE tracecloak_ledger SET epsilon = '0'",
            "TRUNCATE tracecloak_ledger",
            "DROP TABLE tracecloak_ledger",
            "ALTER TABLE tracecloak_ledger DISABLE ROW LEVEL SECURITY",
            "DELETE FROM tracecloak_units",
            "UPDATE tracecloak_units SET seq = 0",
        ):
            with pytest.raises(sa.exc.ProgrammingError, match=r"permission denied|must be owner"):
                execute(roles[kind], statement)
    execute(url, f"REVOKE INSERT ON tracecloak_ledger FROM {sa.make_url(pipeline.url).username}")
    with pytest.raises(LedgerError, match="grant SELECT and INSERT"):
        pipeline.reserve(reservation(5, "0"))
    officer.forfeit("/out", "r3", "k", "the officer", "its input is gone")
    officer.withdraw("/out", "r0", "the officer", "a name was in it")
    assert faults(officer) == []
    assert str(pipeline.balance("a").spent_epsilon) == "1/2"


def test_a_pipeline_notes_cases_and_erases_only_those_whose_day_has_passed(
    url: str, roles: dict[str, str]
) -> None:
    pipeline, officer = (Ledger(roles[kind]) for kind in ("pipeline", "officer"))
    cases = NotedCases(pipeline.url)
    for number, until in enumerate(("2000-01-01", "2999-01-01")):
        pipeline.reserve(reservation(number))
        written = WrittenSketch(CaseSketch(np.arange(9, dtype=np.uint64)), "k", until)
        for _ in range(2):  # once noted, it stays as it is
            assert cases.note(pipeline.entries()[-1], written) == []
    assert [noted.release_id for noted in cases.all()] == ["r1"]
    assert cases.erase() == 0
    officer.forfeit("/out", "r1", "k", "the officer", "its input is gone")
    for kind in ("pipeline", "officer"):
        with pytest.raises(sa.exc.ProgrammingError, match="permission denied"):
            execute(roles[kind], "UPDATE tracecloak_cases SET account = 'b'")
    assert erase(officer, None, "r1", None, "the officer", "asked to") == 1
    assert cases.all() == [] and faults(officer) == []


def test_the_owner_migrates_and_both_logins_go_on(
    url: str, roles: dict[str, str], tmp_path: Path
) -> None:
    """Catches a pipeline whose login may not write what this version writes beside its entries."""
    Ledger(roles["pipeline"]).reserve(of_window(0, "w0"))
    execute(
        url,
        "DROP INDEX tracecloak_ledger_of_release",
        "DROP TABLE tracecloak_windows",
        "ALTER POLICY pipeline_pays ON tracecloak_ledger WITH CHECK (action <> 'checkpoint')",
    )
    keys = KeyStore(tmp_path / "keys")
    for login, refusal in ((roles["officer"], "gives this user no permission"), (url, "")):
        with pytest.raises(UsageError, match="`tracecloak ledger migrate`"):
            officers_ledger(keys, login)
        ledger = officers_ledger(keys, login, is_migrated=False)
        with pytest.raises(LedgerError, match=refusal) if refusal else contextlib.nullcontext():
            ledger.migrate()
    assert sa.inspect(sa.create_engine(url, poolclass=sa.NullPool)).get_indexes(TABLE.name)
    pipeline = officers_ledger(keys, roles["pipeline"])
    for number in range(1, 66):
        pipeline.reserve(reservation(number, "0"))
    pipeline.commit("/out", "r0", "k")
    officers_ledger(keys, roles["officer"]).withdraw("/out", "r0", "the officer", "a name")
    told, is_sound = verify(pipeline)
    assert is_sound, told
    assert [e.action for e in pipeline.entries()].count("checkpoint") == 2


def test_a_table_of_cases_that_is_gone_is_told(
    url: str, roles: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    execute(url, "DROP TABLE tracecloak_cases")
    pipeline = Ledger(roles["pipeline"])
    pipeline.reserve(reservation(0))
    sketch = SketchFile(str(tmp_path / "s"), KeyReference("env:NONE"), "2999-01-01")
    sketch.write(CaseSketch(np.arange(9, dtype=np.uint64)), release_key())
    note_cases(pipeline, pipeline.entries()[-1].keyed_release, sketch.path)
    assert "lacks a table" in caplog.text and "`tracecloak ledger migrate`" in caplog.text
    officers_ledger(KeyStore(tmp_path / "keys"), url, new=True)
    assert NotedCases(url).all() == []


def test_a_locked_table_is_told_and_waited_for(url: str) -> None:
    ledger = Ledger(url, {"a": account()}, patience_seconds=0.3, new=True)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("LOCK TABLE tracecloak_ledger IN ACCESS EXCLUSIVE MODE")
        started = time.monotonic()
        with pytest.raises(LedgerError, match="is locked by another process"):
            ledger.reserve(reservation())
        with pytest.raises(LedgerUnavailable, match="is locked by another process"):
            Ledger(url, patience_seconds=0.3, new=True)
        assert time.monotonic() - started < 30
    ledger.reserve(reservation())


def test_a_connection_that_breaks_is_made_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(url, {"a": account()}, new=True)
    broken = []
    read = read_entries

    def breaking(ask: Asks, *known: Any) -> Any:
        if not broken:
            [[pid]] = ask(sa.select(sa.func.pg_backend_pid()))
            broken.append(pid)
            execute(url, f"SELECT pg_terminate_backend({pid})")
            time.sleep(0.2)
        return read(ask, *known)

    monkeypatch.setattr("tracecloak.pipelines.ledger.ledger.read_entries", breaking)
    ledger.reserve(reservation())
    assert broken
    assert ledger.balance("a").n_releases == 1


def test_two_who_make_the_table_at_once_both_have_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = sa.Table.create

    def late(table: sa.Table, connection: sa.Connection, checkfirst: bool) -> None:
        monkeypatch.setattr(sa.Table, "create", create)  # it has looked, and there was none
        Ledger(url, {"a": account()}, new=True).reserve(reservation())
        create(table, connection, checkfirst=False)

    monkeypatch.setattr(sa.Table, "create", late)
    ledger = Ledger(url, {"a": account()}, new=True)
    assert ledger.balance("a").n_releases == 1
    assert faults(ledger) == []


@pytest.mark.parametrize("was_reached", [True, False])
def test_a_server_that_takes_no_more_connections_is_asked_again(
    url: str, was_reached: bool
) -> None:
    Ledger(url, new=True)
    role = f"busy_{secrets.token_hex(4)}"
    execute(
        url,
        f"CREATE ROLE {role} LOGIN CONNECTION LIMIT {int(was_reached)}",
        f"GRANT SELECT, INSERT ON tracecloak_ledger TO {role}",
    )
    theirs = url.replace("postgres@", f"{role}@")
    ledger = Ledger(theirs, {"a": account()}, new=True) if was_reached else None
    execute(url, f"ALTER ROLE {role} CONNECTION LIMIT 0")
    limit = f"ALTER ROLE {role} CONNECTION LIMIT 1"
    threading.Timer(0.5, execute, [url, limit]).start()
    started = time.monotonic()
    (ledger or Ledger(theirs, {"a": account()}, new=True)).reserve(reservation())
    assert time.monotonic() - started > 0.3

"""The ledger on a server: a real PostgreSQL, started for these tests."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.ledgers import account, contend, reservation
from tests.support.tiers import at_night
from tracecloak.pipelines.budget.ledger import Ledger, LedgerError, LedgerUnavailable
from tracecloak.schemas.errors import BudgetExhausted, TracecloakError, UsageError

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains where there is no XDG_RUNTIME_DIR
        pgserver = pytest.importorskip("pgserver")
        # As root it runs the server as a user of its own, who must be able to reach the folder.
        folder = Path(tempfile.mkdtemp(prefix="ledger-"))
        try:
            started = pgserver.get_server(folder, cleanup_mode="stop")
        except (OSError, AssertionError, subprocess.SubprocessError, RuntimeError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"PostgreSQL cannot be started here: {type(error).__name__}")
    yield started
    started.cleanup()
    shutil.rmtree(folder)


@pytest.fixture
def url(server: Any) -> str:
    """URL of a database of the test's own."""
    name = f"test_{secrets.token_hex(8)}"
    server.psql(f"CREATE DATABASE {name}")
    return f"postgresql+psycopg://postgres@/{name}?host={server.get_postmaster_info().socket_dir}"


def execute(url: str, *statements: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_a_ledger_on_a_server_is_shared_and_says_the_same(url: str) -> None:
    execute(url, "CREATE TABLE of_others (x int)")
    ledger = Ledger(url, {"a": account()})
    assert ledger.is_shared
    ledger.reserve(reservation(1, output="/aus gänge"))
    ledger.commit("/aus gänge", "r1", "k")
    ledger.reserve(reservation(2))
    ledger.void("/out", "r2", "k")
    ledger.reserve(reservation(3))

    again = Ledger(url, {"a": account()})
    assert again.verify() == []
    assert [e.action for e in again.entries()] == [
        "reserve",
        "commit",
        "reserve",
        "void",
        "reserve",
    ]
    balance = again.balance("a")
    assert (str(balance.spent_epsilon), balance.n_releases, balance.n_open) == ("1/5", 2, 1)


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
    assert ends == {0: 10, BudgetExhausted.exit_code: n_processes - 10}
    ledger = Ledger(url, {"a": account()})
    assert ledger.verify() == []
    assert len(ledger.entries()) == 10
    assert ledger.balance("a").remaining_epsilon == 0


def test_tampering_on_a_server_is_noticed(url: str) -> None:
    ledger = Ledger(url, {"a": account()})
    for number in range(3):
        ledger.reserve(reservation(number))
    execute(url, "UPDATE tracecloak_ledger SET epsilon = '0.01' WHERE seq = 2")
    assert ledger.verify() == ["entry 2: it was changed, its hash is of other columns"]
    with pytest.raises(LedgerError, match="entry 2"):
        ledger.reserve(reservation(4))


def test_a_login_that_can_only_read_and_insert_is_enough(url: str) -> None:
    Ledger(url)
    role = f"pipeline_{secrets.token_hex(4)}"
    execute(url, f"CREATE ROLE {role} LOGIN")
    theirs = url.replace("postgres@", f"{role}@")
    with pytest.raises(UsageError, match="grant SELECT and INSERT"):
        Ledger(theirs)
    execute(url, f"GRANT SELECT, INSERT ON tracecloak_ledger TO {role}")
    ledger = Ledger(theirs, {"a": account()})
    ledger.reserve(reservation())
    ledger.commit("/out", "r0", "k")
    for statement in (
        "DELETE FROM tracecloak_ledger",
        "UPDATE tracecloak_ledger SET epsilon = '0'",
    ):
        with pytest.raises(sa.exc.ProgrammingError, match="permission denied"):
            execute(theirs, statement)
    execute(url, f"REVOKE INSERT ON tracecloak_ledger FROM {role}")
    with pytest.raises(LedgerError, match="grant SELECT and INSERT"):
        ledger.reserve(reservation(1))
    assert ledger.balance("a").n_releases == 1


def test_a_locked_table_is_told_and_waited_for(url: str) -> None:
    ledger = Ledger(url, {"a": account()}, patience_seconds=0.3)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("LOCK TABLE tracecloak_ledger IN ACCESS EXCLUSIVE MODE")
        started = time.monotonic()
        with pytest.raises(LedgerError, match="is locked by another process"):
            ledger.reserve(reservation())
        with pytest.raises(LedgerUnavailable, match="is locked by another process"):
            Ledger(url, patience_seconds=0.3)
        assert time.monotonic() - started < 30
    ledger.reserve(reservation())


def test_a_connection_that_breaks_is_made_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(url, {"a": account()})
    broken = []
    read = Ledger._read

    def breaking(connection: sa.Connection) -> Any:
        if not broken:
            broken.append(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
            execute(url, f"SELECT pg_terminate_backend({broken[0]})")
            time.sleep(0.2)
        return read(connection)

    monkeypatch.setattr(Ledger, "_read", staticmethod(breaking))
    ledger.reserve(reservation())
    assert broken
    assert ledger.balance("a").n_releases == 1


def test_two_who_make_the_table_at_once_both_have_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_there = Ledger._is_there
    looks = []

    def late(self: Ledger, connection: sa.Connection) -> bool:
        looks.append(is_there(self, connection))
        if len(looks) == 2:  # the last look before it makes the table
            monkeypatch.setattr(Ledger, "_is_there", is_there)
            Ledger(url, {"a": account()}).reserve(reservation())
        return looks[-1]

    monkeypatch.setattr(Ledger, "_is_there", late)
    ledger = Ledger(url, {"a": account()})
    assert looks == [False, False]
    assert ledger.balance("a").n_releases == 1
    assert ledger.verify() == []


def test_a_database_that_is_not_there_is_told(url: str) -> None:
    there = sa.make_url(url).set(password="pw-7f3a")
    Ledger(there.render_as_string(hide_password=False))
    gone = there.set(database="gone")
    with pytest.raises(TracecloakError, match=r"ledger gone .*does not (answer|exist)") as raised:
        Ledger(gone.render_as_string(hide_password=False))
    assert "pw-7f3a" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("was_reached", [True, False])
def test_a_server_that_takes_no_more_connections_is_asked_again(
    url: str, was_reached: bool
) -> None:
    Ledger(url)
    role = f"busy_{secrets.token_hex(4)}"
    execute(
        url,
        f"CREATE ROLE {role} LOGIN CONNECTION LIMIT {int(was_reached)}",
        f"GRANT SELECT, INSERT ON tracecloak_ledger TO {role}",
    )
    theirs = url.replace("postgres@", f"{role}@")
    ledger = Ledger(theirs, {"a": account()}) if was_reached else None
    execute(url, f"ALTER ROLE {role} CONNECTION LIMIT 0")
    limit = f"ALTER ROLE {role} CONNECTION LIMIT 1"
    threading.Timer(0.5, execute, [url, limit]).start()
    started = time.monotonic()
    (ledger or Ledger(theirs, {"a": account()})).reserve(reservation())
    assert time.monotonic() - started > 0.3


def test_a_table_of_somebody_else_is_told(url: str) -> None:
    execute(url, "CREATE TABLE tracecloak_ledger (seq int)")
    with pytest.raises(UsageError, match="not a ledger of this version"):
        Ledger(url)

"""Ledgers in tests: reservations, tampering, and many processes at one ledger."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.balance import ChargeState, charge_states
from tracecloak.pipelines.ledger.caps import Account
from tracecloak.pipelines.ledger.database import Database, LedgerError, MadeByAnother
from tracecloak.pipelines.ledger.entries import Charge, Entry, Reservation
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.snapshot import problems
from tracecloak.schemas.errors import BudgetExhausted, TracecloakError

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """An empty folder in memory, where there is such a one: an append waits for its disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def account(epsilon: str | None = "1", delta: str | None = "1e-5", **changes: Any) -> Account:
    """Returns the account `a`."""
    caps = [None if text is None else Fraction(text) for text in (epsilon, delta)]
    return Account(**{
        "name": "a", "epsilon_cap": caps[0], "delta_cap": caps[1], "unit": "case", **changes,
    })  # fmt: skip


def faults(ledger: Ledger) -> list[str]:
    """Returns what is wrong with the chain of a ledger."""
    return problems(ledger.entries())


def execute(path: Path, *statements: str) -> None:
    """Executes statements on a file of SQLite, each of which holds at once."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def windowed(entries: Iterable[Entry]) -> dict[Charge, ChargeState]:
    """Returns the charges of windows, those that were given back among them."""
    return {c: state for c, state in charge_states(entries).items() if state.window is not None}


def reservation(number: int = 0, epsilon: str | None = "0.1", **changes: Any) -> Reservation:
    """Returns what release `r<number>` asks of the account `a`."""
    values: dict[str, Any] = {
        "account": "a", "release_id": f"r{number}", "output": "/out", "unit": "case",
        "epsilon": None if epsilon is None else Fraction(epsilon), "delta": Fraction(0),
        "adjacency": "add_remove", "method": "m", "config_digest": "c", "key_fingerprint": "k",
        "spends": ({"for": "all", "epsilon": "0.1"},),
    }  # fmt: skip
    return Reservation(**{**values, **changes})


def begun_anew(keys: Path) -> Ledger:
    """Returns a ledger without entries in place of a key store's own, which accepted the loss."""
    (keys / "ledger.db").unlink()
    shutil.rmtree(keys / "ledgers")
    store = KeyStore(keys)
    ledger = Ledger(store.ledger_url, new=True, store=store)
    assert ledger.memory is not None
    ledger.memory.accept(ledger.past())
    return ledger


def forked(n_processes: int, prepare: Callable[[int], Callable[[], object]]) -> list[int]:
    """Forks processes that all do something at once; returns their exit codes.

    To be run in a process without threads: see `python`.

    Args:
        n_processes: How many.
        prepare: Returns what a process does at once with the others, by its number.
    """
    gate, opener = os.pipe()
    children = []
    for number in range(n_processes):
        child = os.fork()
        if child == 0:
            code = 99
            try:
                os.close(opener)
                work = prepare(number)
                os.read(gate, 1)  # returns when the parent has closed its end
                work()
                code = 0
            except TracecloakError as error:
                code = error.exit_code
                if not isinstance(error, BudgetExhausted):
                    os.write(2, f"{error}\n".encode())
            finally:
                os._exit(code)
        children.append(child)
    os.close(opener)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def fork_and_reserve(url: str, n_processes: int) -> None:
    """Forks processes that all reserve a tenth of a cap of 1 at once; prints how they ended."""
    Database(url, 1)  # imports the driver once, before there are fifty of us

    def reserve(number: int) -> None:
        ledger = Ledger(url, {"a": account()}, patience_seconds=120, new=True)
        ledger.reserve(reservation(number))

    ends = forked(n_processes, lambda number: lambda: reserve(number))
    sys.stdout.write(json.dumps({str(code): ends.count(code) for code in set(ends)}))


def contend(url: str, n_processes: int) -> Mapping[int, int]:
    """Returns how many processes ended with which exit code; see `fork_and_reserve`."""
    code = f"from tests.support.ledgers import *; fork_and_reserve({url!r}, {n_processes})"
    done = python(code, check=True)
    if done.stderr:  # an error that is not about the budget
        raise AssertionError(done.stderr)
    return {int(code): n for code, n in json.loads(done.stdout).items()}


def python(code: str, check: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=check,
    )


def begun_at_once(url: str, folder: Path, release_id: str, n_stores: int = 6) -> int:
    """Has many key stores reserve one release at one moment; returns how many could.

    Each has read the ledger while none had reserved, and waits for the others before it writes.
    """
    together = threading.Barrier(n_stores)
    begun: list[int] = []

    def begin(number: int) -> None:
        ledger = Ledger(url, store=KeyStore(folder / f"keys {number}"), patience_seconds=60)
        ledger.entries()
        together.wait(60)
        with contextlib.suppress(MadeByAnother, LedgerError):  # which a broken ledger ends with
            ledger.reserve(reservation(release_id=release_id, key_fingerprint=f"k{number}"))
            begun.append(number)

    threads = [threading.Thread(target=begin, args=(i,)) for i in range(n_stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(begun)

"""The ledger on SQLite: exact sums, one rule for every ending of a run, and a chain that tells."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import fields
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.ledgers import account, contend, execute, faults, in_memory, python, reservation
from tests.support.tiers import at_night
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import database as ledger_database
from tracecloak.pipelines.ledger import reading
from tracecloak.pipelines.ledger.database import LedgerError, LedgerUnavailable, read_entries
from tracecloak.pipelines.ledger.entries import Entry, Reservation
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.snapshot import problems
from tracecloak.schemas.errors import BudgetExhausted, TracecloakError, UsageError

NOBODY = 65534


@pytest.fixture
def path() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger(f"sqlite:///{path}", {"a": account()}, new=True)


# Whose budget it is


OTHER_KINDS: list[tuple[dict[str, Any], str]] = [
    ({"account": "b"}, "account 'b' is not in the accounts file, which has a"),
    ({"unit": "individual"}, "caps per case; use one per individual"),
    ({"epsilon": None}, "no finite epsilon holds for a release with m"),
    ({"epsilon": None, "delta": None}, "no finite epsilon"),
    ({"adjacency": "replace_one"}, "adjacency add_remove, whose epsilons do not add up"),
]


def test_what_does_not_add_up_is_refused(ledger: Ledger) -> None:
    ledger.reserve(reservation())
    for change, told in OTHER_KINDS:
        with pytest.raises(UsageError, match=told):
            ledger.reserve(reservation(1, **change))
    assert len(ledger.entries()) == 1


ODD_RESERVATIONS: list[dict[str, Any]] = [
        {"delta": Fraction(-1)}, {"epsilon": Fraction(-1)},
        {"delta": Fraction(2)}, {"delta": None}, {"unit": "person"}, {"adjacency": "near"},
        {"account": ""}, {"release_id": "a\nb"}, {"output": "\udc80"},
    ]  # fmt: skip


def test_a_reservation_that_no_ledger_can_hold_is_refused() -> None:
    for change in ODD_RESERVATIONS:
        with pytest.raises(UsageError, match=next(iter(change))):
            Reservation(**{**vars(reservation()), **change})
    with pytest.raises(UsageError, match="1/3 is no finite decimal"):
        reservation(epsilon="1/3")


# The chain


def filled(ledger: Ledger) -> Ledger:
    ledger.reserve(reservation(0))
    ledger.commit("/out", "r0", "k")
    ledger.reserve(reservation(1))
    ledger.void("/out", "r1", "k")
    ledger.reserve(reservation(2))
    return ledger


TAMPERINGS = {
    **{
        f"edit {column.name}": [f"UPDATE tracecloak_ledger SET {column.name} = 'x' WHERE seq = 3"]
        for column in fields(Entry)
        if column.name != "seq"
    },
    "edit to null": ["UPDATE tracecloak_ledger SET epsilon = NULL WHERE seq = 1"],
    "edit to bytes": ["UPDATE tracecloak_ledger SET epsilon = x'00ff' WHERE seq = 1"],
    "edit of the last": ["UPDATE tracecloak_ledger SET epsilon = '0.01' WHERE seq = 5"],
    "delete the first": ["DELETE FROM tracecloak_ledger WHERE seq = 1"],
    "delete and close the gap": [
        "DELETE FROM tracecloak_ledger WHERE seq = 3",
        "UPDATE tracecloak_ledger SET seq = 3 WHERE seq = 4",
        "UPDATE tracecloak_ledger SET seq = 4 WHERE seq = 5",
    ],
    "insert a copy": [
        "CREATE TEMP TABLE copy AS SELECT * FROM tracecloak_ledger WHERE seq = 4",
        "UPDATE copy SET seq = 6",
        "INSERT INTO tracecloak_ledger SELECT * FROM copy",
    ],
    "swap two": [
        "UPDATE tracecloak_ledger SET seq = 9 WHERE seq = 1",
        "UPDATE tracecloak_ledger SET seq = 1 WHERE seq = 3",
        "UPDATE tracecloak_ledger SET seq = 3 WHERE seq = 9",
    ],
    "move all": ["UPDATE tracecloak_ledger SET seq = seq + 10"],
}  # fmt: skip


def test_tampering_is_noticed_and_stops_releases(ledger: Ledger, path: Path) -> None:
    assert faults(filled(ledger)) == []
    whole = path.read_bytes()
    for name, statements in TAMPERINGS.items():
        path.write_bytes(whole)
        execute(path, *statements)
        assert not reading.verify(ledger)[1], name
        for call in (
            lambda: ledger.reserve(reservation(7)),
            lambda: ledger.void("/out", "r2", "k"),
        ):
            with pytest.raises(LedgerError, match="does not say what tracecloak wrote") as raised:
                call()
            assert raised.value.exit_code == 6


def test_a_commit_goes_through_on_a_broken_chain(ledger: Ledger, path: Path) -> None:
    # The release is visible: not to note it would be another lie.
    filled(ledger)
    execute(path, "UPDATE tracecloak_ledger SET method = 'x' WHERE seq = 1")
    ledger.commit("/out", "r2", "k")
    assert ledger.entries()[-1].action == "commit"


def test_the_export_has_the_hashes_that_the_documentation_says(ledger: Ledger) -> None:
    filled(ledger)
    previous = "0" * 64  # as the documentation of the format says, without tracecloak's code
    for line in reading.export(ledger).splitlines():
        columns = json.loads(line)
        own = columns.pop("hash")
        text = json.dumps(columns, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        assert hashlib.sha256(text.encode("ascii")).hexdigest() == own
        assert columns["previous_hash"] == previous
        previous = own


ODD_COLUMNS: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": "1/3"}, "epsilon is no decimal"),
    ({"epsilon": "nan"}, "epsilon is no decimal"),
    ({"epsilon": "-1"}, "epsilon is no decimal"),
    ({"epsilon": "0.10"}, "epsilon is not in its one form"),
    ({"delta": "x"}, "delta is no decimal"),
    ({"delta": None}, "delta is missing"),
    ({"unit": "person"}, "unit is not one of"),
    ({"adjacency": ""}, "adjacency is not one of"),
    ({"action": "forget"}, "action is not one of reserve, claim"),
    ({"action": "account", "unit": "person"}, "unit is not one of"),
    ({"action": "account"}, "by is missing"),
    ({"action": "dataset"}, "reason is missing"),
]


def test_columns_that_no_ledger_writes_are_noticed() -> None:
    for change, told in ODD_COLUMNS:
        action = change.pop("action", "reserve")
        entry = Entry.after(None, action, {**reservation().columns(), **change})
        assert [problem for problem in problems([entry]) if told in problem], told


# Many at once


@pytest.mark.parametrize("n", [16, at_night(50)])
def test_of_many_processes_at_once_10_fit_the_cap(path: Path, n: int) -> None:
    assert contend(f"sqlite:///{path}", n) == {0: 10, BudgetExhausted.exit_code: n - 10}
    ledger = Ledger(f"sqlite:///{path}", {"a": account()}, new=True)
    assert faults(ledger) == []
    assert len(ledger.entries()) == 10


def test_who_comes_second_decides_again(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without SQLite's write lock, as on a server: both read, one inserts, the other must see it.
    monkeypatch.setattr(ledger._database, "is_shared", True)
    other = Ledger(f"sqlite:///{path}", {"a": account()}, new=True)
    read = read_entries
    n_reads = []

    def overtaken(connection: Any, *known: Any) -> Any:
        found = read(connection, *known)
        n_reads.append(len(found))
        if len(n_reads) == 1:
            monkeypatch.setattr("tracecloak.pipelines.ledger.ledger.read_entries", read)
            other.reserve(reservation(1, epsilon="0.6"))
            monkeypatch.setattr("tracecloak.pipelines.ledger.ledger.read_entries", overtaken)
        return found

    monkeypatch.setattr("tracecloak.pipelines.ledger.ledger.read_entries", overtaken)
    with pytest.raises(BudgetExhausted, match=r"spent 0\.6"):
        ledger.reserve(reservation(2, epsilon="0.6"))
    assert n_reads[:2] == [0, 1]


# What can be wrong with the database


def not_sqlite(path: Path) -> None:
    path.write_text("a note, and no ledger\n" * 100)


def of_others(path: Path) -> None:
    execute(path, "CREATE TABLE experiments (id INTEGER)")


def other_columns(path: Path) -> None:
    execute(path, "CREATE TABLE tracecloak_ledger (seq INTEGER)")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (not_sqlite, "not an SQLite database; correct the URL"),
        (of_others, "has other tables"),
        (other_columns, "has other columns"),
        (Path.mkdir, "cannot be opened; make its folder"),
    ],
)
def test_what_is_no_ledger_is_refused_and_left_alone(
    path: Path, make: Callable[[Path], None], told: str
) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(UsageError, match=told) as raised:
        Ledger(f"sqlite:///{path}", new=True)
    assert str(path) in str(raised.value)
    assert (path.read_bytes() if path.is_file() else None) == before


SECRET = "pw-7f3a"


URLS = (
    ("ledger.sqlite", "cannot be read; write"),
    (SECRET, "cannot be read; write"),
    ("sqlite://", "names no file"),
    ("sqlite:///:memory:", "names no file"),
    ("sqlite:///file:x?mode=memory&uri=true", "names no file"),
    (f"sqlite:////dev/shm/x.sqlite?{SECRET}=1", "takes no options"),
    (f"nodb://u:{SECRET}@h/d", "cannot be used"),
    (f"postgresql+pg8000://u:{SECRET}@h/d", "needs the driver pg8000"),
    (f"postgresql+psycopg://u:{SECRET}@127.0.0.1:1/d", "ledger d .*127.0.0.1:1. does not ans"),
    (f"postgresql+psycopg://{SECRET}@127.0.0.1:1/d", "does not answer"),
    (f"postgresql+psycopg://127.0.0.1:1/d?user=u&password={SECRET}", "does not answer"),
    (f"postgresql+psycopg://127.0.0.1:1/d?no_such_option={SECRET}", "does not answer"),
    (f"postgresql+psycopg://u:p@{SECRET}@127.0.0.1:1/d", "write %40"),
    (f"postgresql+psycopg://u:p@h/{SECRET}@127.0.0.1:1/d", "write %40"),
    (f"postgresql+psycopg://u:p@h:{SECRET}@127.0.0.1/d", "cannot be read"),
)


def test_a_url_that_leads_nowhere_is_told_and_nothing_secret_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    for url, told in URLS:
        with pytest.raises(TracecloakError, match=told) as raised:
            Ledger(url, patience_seconds=0.2, new=True)
        # A server may answer later; a URL that is none stays so.
        assert raised.value.exit_code == (75 if "does not ans" in told else 2)
        shown = "".join(traceback.format_exception(raised.value)) + repr(raised.value) + caplog.text
        assert SECRET not in shown


# Holds a lock on the file of argv[1] until its input closes.
_LOCKING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_locked_ledger_is_told_and_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_database, "_LOCK_SECONDS", 0.05)  # so that it takes several waits
    ledger = Ledger(f"sqlite:///{path}", {"a": account()}, new=True)
    hurried = Ledger(f"sqlite:///{path}", {"a": account()}, patience_seconds=0.2, new=True)
    with subprocess.Popen(
        [sys.executable, "-c", _LOCKING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as locking:
        assert locking.stdin is not None
        assert locking.stdout is not None
        assert locking.stdout.readline() == "locked\n"
        for call in (
            lambda: hurried.reserve(reservation()),
            lambda: hurried.commit("/out", "r0", "k"),
            lambda: hurried.balance("a"),
            hurried.entries,
        ):
            with pytest.raises(LedgerError, match="is locked by another process") as raised:
                call()
            assert raised.value.exit_code == 75
        with pytest.raises(LedgerUnavailable, match="is locked by another process"):
            Ledger(f"sqlite:///{path}", patience_seconds=0.2, new=True)
        threading.Timer(0.5, locking.stdin.close).start()
        started = time.monotonic()
        ledger.reserve(reservation())
        assert time.monotonic() - started > 0.3
    assert ledger.balance("a").n_releases == 1


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        # No file may grow beyond what the ledger's journal needs at once.
        ("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))", "disk"),
        pytest.param(
            f"os.setegid({NOBODY}), os.seteuid({NOBODY}); ledger = opened()\n"
            "assert ledger.balance('a').n_releases == 2 and faults(ledger) == []",
            "give this user write permission",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user"),
        ),
    ],
    ids=["full", "read only"],
)
def test_a_file_that_cannot_be_written_is_told_and_the_ledger_stays_sound(
    ledger: Ledger, path: Path, limit: str, told: str
) -> None:
    filled(ledger)
    path.parent.chmod(0o755)
    path.chmod(0o644)
    done = python(
        "from tests.support.ledgers import *\n"
        f"opened = lambda: Ledger('sqlite:///{path}', new=True)\n"
        f"ledger = opened()\n{limit}\nledger.reserve(reservation(7))"
    )
    last = done.stderr.splitlines()[-1]
    assert "LedgerError" in last and told in last and "/out" not in done.stderr
    assert faults(ledger) == []
    assert len(ledger.entries()) == 5


# Everything together


# What an action makes of the states of charges, and the state that it leaves as it is; where no
# charge is in any of these, it is refused, but for a void.
MOVES: dict[str, tuple[dict[str, str], str]] = {
    "commit": ({"open": "committed", "drawn": "committed"}, "committed"),
    "withdraw": ({"committed": "withdrawn"}, "withdrawn"),
    "draw": ({"open": "drawn", "drawn": "drawn"}, "committed"),
    "forfeit": ({"open": "forfeited", "drawn": "forfeited"}, "forfeited"),
    "void": ({"open": "void"}, ""),
}


class Model:
    """A naive ledger: a list of charges, each with its state."""

    def __init__(self, cap: Fraction, delta_cap: Fraction) -> None:
        self.cap, self.delta_cap = cap, delta_cap
        self.is_declared = self.has_lost = False
        self.charges: list[dict[str, Any]] = []

    def spent(self, name: str) -> Fraction:
        return sum((c[name] for c in self.charges if c["state"] != "void"), Fraction(0))

    def reserve(self, identity: tuple[str, ...], epsilon: Fraction, delta: Fraction) -> int:
        if any(c["identity"][0] == identity[0] and c["state"] == "withdrawn" for c in self.charges):
            return 2
        price = {"identity": identity, "epsilon": epsilon, "delta": delta}
        state = next(
            (c["state"] for c in reversed(self.charges) if price.items() <= c.items()), "void"
        )
        is_elsewhere = any(
            c["identity"][0] == identity[0] and c["identity"][1] != identity[1]
            and c["state"] in ("open", "drawn", "committed")
            for c in self.charges
        )  # fmt: skip
        if is_elsewhere and state in ("void", "forfeited"):
            return 75
        if state != "void":
            return 0
        if (
            self.spent("epsilon") + epsilon > self.cap
            or self.spent("delta") + delta > self.delta_cap
        ):
            return 4
        self.charges.append({**price, "state": "open"})
        return 0

    def end(self, action: str, release: str, key: str | None = None) -> int:
        """Does an action to the charges of a release, under a key or under all."""
        moved, refuses = MOVES[action]
        mine = [
            charge
            for charge in self.charges
            if charge["identity"][0] == release and key in (None, charge["identity"][1])
        ]
        if refuses and not any(c["state"] in (*moved, refuses) for c in mine):
            return 2
        for charge in mine:
            if charge["state"] in moved:
                charge["state"] = moved[charge["state"]]
        return 0

    def commit(self, release: str, key: str) -> int:
        mine = [c for c in self.charges if c["identity"][:2] == (release, key)]
        if mine and not {c["state"] for c in mine} & {"open", "drawn", "committed", "withdrawn"}:
            mine[-1]["state"] = "committed"
        self.end("commit", release, key)
        return 0 if mine or self.has_lost else 2

    def states(self) -> dict[tuple[Any, ...], str]:
        """The last state of each charge, in the order in which they were first reserved."""
        return {(c["identity"], c["epsilon"], c["delta"]): c["state"] for c in self.charges}

    def kept(self) -> tuple[dict[tuple[Any, ...], str], Fraction, bool]:
        return self.states(), self.cap, self.is_declared

    def restore(self, backup: tuple[dict[tuple[Any, ...], str], Fraction, bool], n: int) -> None:
        """The ledger forgot what came after a backup of n entries: all that was left is spent."""
        states, self.cap, was_declared = backup
        self.charges = [
            {"identity": identity, "epsilon": epsilon, "delta": delta, "state": state}
            for (identity, epsilon, delta), state in states.items()
        ]
        epsilon, delta = self.cap - self.spent("epsilon"), self.delta_cap - self.spent("delta")
        if epsilon > 0 or delta > 0:
            left = {"epsilon": max(epsilon, Fraction(0)), "delta": max(delta, Fraction(0))}
            self.charges.append({
                "identity": (f"lost-{n + 1}", "lost", "lost"), "state": "committed", **left,
            })  # fmt: skip
        if self.is_declared and not was_declared:
            self.cap = self.delta_cap = Fraction(0)
        self.has_lost = True


def code_of(call: Callable[[], object]) -> int:
    try:
        call()
    except TracecloakError as error:
        return error.exit_code
    return 0


def check_against_the_model(path: Path, rng: np.random.Generator) -> int:
    """Runs one sequence on an empty ledger; returns how many reservations did not fit."""
    Ledger(f"sqlite:///{path}", new=True)
    execute(path, "DELETE FROM tracecloak_ledger")
    store = KeyStore(Path(tempfile.mkdtemp(dir=path.parent)))
    ledger = Ledger(f"sqlite:///{path}", {"a": account()}, store=store)
    model = Model(Fraction(1), Fraction(1, 100_000))
    n_kept, backup = 0, model.kept()
    n_refused = 0
    for _ in range(rng.integers(2, 16)):
        release, key = f"r{rng.integers(4)}", "kkkl"[rng.integers(4)]
        others = [
            "draw", "commit", "void", "forfeit", "withdraw", "cap", "back up", "restore", "restore",
        ]  # fmt: skip
        kind = rng.choice([*["reserve"] * 4, *others])
        if kind == "reserve":
            config = "cd"[rng.integers(2)]
            epsilon = Fraction(int(rng.integers(1, 5)), 10)
            delta = Fraction(int(rng.integers(0, 5)), 1_000_000)
            asked = reservation(
                release_id=release, key_fingerprint=key, config_digest=config,
                epsilon=epsilon, delta=delta,
            )  # fmt: skip
            got = code_of(lambda asked=asked: ledger.reserve(asked))  # type: ignore[misc]
            expected = model.reserve((release, key, config), epsilon, delta)
            n_refused += expected == 4
        elif kind in MOVES:
            signed = ("me", "why not") if kind in ("forfeit", "withdraw") else ()
            named = (release,) if kind == "withdraw" else (release, key)
            got = code_of(partial(getattr(ledger, kind), "/out", *named, *signed))
            is_commit = kind == "commit"
            expected = model.commit(*named) if is_commit else model.end(kind, *named)
        elif kind == "cap":  # in the ledger, beside the file's cap of 1
            cap = Fraction(int(rng.integers(5, 20)), 10)
            declared = account(str(float(cap)))
            got = code_of(partial(ledger.declare_account, declared, "me", "why not", "sum"))
            model.cap, expected = min(cap, Fraction(1)), 0
            model.delta_cap, model.is_declared = Fraction(1, 100_000), True
        elif kind == "back up":
            n_kept, backup = len(ledger.entries()), model.kept()
            got = expected = 0
        else:
            expected = 0 if len(ledger.entries()) > n_kept else 2  # nothing to accept
            execute(path, f"DELETE FROM tracecloak_ledger WHERE seq > {n_kept}")
            assert bool(ledger.complaints()) == (expected == 0)
            got = code_of(partial(ledger.accept, "me", "the disk broke"))
            if expected == 0:
                model.restore(backup, n_kept)
            assert ledger.complaints() == []
            n_kept, backup = len(ledger.entries()), model.kept()
        assert got == expected
    balance = ledger.balance("a")
    assert balance.spent_epsilon == model.spent("epsilon")
    assert balance.spent_delta == model.spent("delta")
    assert balance.remaining_epsilon == max(model.cap - model.spent("epsilon"), Fraction(0))
    is_above = model.spent("epsilon") > model.cap or model.spent("delta") > model.delta_cap
    assert bool(balance.exceeded) == is_above  # as charges count again that a backup had not
    assert balance.n_open == sum(charge["state"] in ("open", "drawn") for charge in model.charges)
    assert balance.n_releases == sum(charge["state"] != "void" for charge in model.charges)
    last = {entry.charge: entry for entry in ledger.entries() if entry.is_of_charge}
    assert model.states() == {
        ((e.release_id, e.key_fingerprint, e.config_digest), *e.values()): _STATES[e.action]
        for e in last.values()
    }
    assert faults(ledger) == []
    return n_refused


_STATES = {
    "reserve": "open", "draw": "drawn", "commit": "committed", "void": "void",
    "forfeit": "forfeited", "withdraw": "withdrawn",
}  # fmt: skip


@pytest.mark.parametrize("n", [40, at_night(1000)])
def test_random_sequences_agree_with_a_naive_model(path: Path, n: int) -> None:
    rng = np.random.default_rng(20260801)
    refused = [check_against_the_model(path, rng) for _ in range(n)]
    assert sum(refused) > n // 8  # the caps did bind


# What a reader sees


def test_show_says_what_is_spent_open_and_left(path: Path) -> None:
    accounts = {"a": account(), "b": account("10", None, name="b", unit="individual")}
    ledger = Ledger(f"sqlite:///{path}", accounts, new=True)
    for number in range(7):
        ledger.reserve(reservation(number))
    ledger.commit("/out", "r0", "k")
    assert 0.3 // 0.1 == 2  # what binary floating point would say of what is left
    lines = reading.show(ledger)[0].splitlines()
    assert lines[:6] == [
        "Account a (per case): 7 releases, 6 of them open",
        "           cap      spent  of it open  remaining",
        "  epsilon  1        0.7    0.6         0.3",
        "  delta    0.00001  0      0           0.00001",
        "  Open: reserved, and neither committed nor voided; it counts as spent.",
        "  Releases like the last one that still fit: 3",
    ]
    assert "  delta    no cap  0      0           no cap" in lines
    assert lines[-1].split()[0] == "8"
    assert reading.show(ledger, "a")[1]["accounts"] == [
        {
            "account": "a", "unit": "case", "epsilon_cap": "1", "delta_cap": "0.00001",
            "spent_epsilon": "0.7", "spent_delta": "0", "open_epsilon": "0.6", "open_delta": "0",
            "n_releases": 7, "n_open": 6, "remaining_epsilon": "0.3",
            "remaining_delta": "0.00001", "is_exceeded": False, "composition": "sum",
            "caps": {"epsilon": "1", "delta": "0.00001"}, "spent": {"epsilon": "0.7", "delta": "0"},
            "shares": {"epsilon": 0.7, "delta": 0.0},
            "releases_like_the_last_left": 3, "windows": [],
        }
    ]  # fmt: skip
    with pytest.raises(UsageError, match="account 'x' is not known; there are a"):
        reading.show(ledger, "x")[0]


FITTING: list[tuple[tuple[str | None, ...], tuple[str | None, str], str]] = [
    (("1", "1e-5"), ("0.1", "1e-6"), "9"),
    (("1", "1e-5"), ("0.1", "4e-6"), "1"),  # delta is what runs out
    (("1", None), ("0.3", "4e-6"), "2"),
    ((None, "1e-5"), ("0.3", "0"), "any number, no cap limits them"),
    ((None, None), (None, "0"), "any number, no cap limits them"),
    (("1", "1e-5"), ("0", "0"), "any number, no cap limits them"),
]


def test_show_counts_the_releases_that_still_fit(path: Path) -> None:
    for number, (caps, asked, left) in enumerate(FITTING):
        url = f"sqlite:///{path}{number}"
        ledger = Ledger(url, {"a": account(*caps)}, new=True)
        ledger.reserve(reservation(epsilon=asked[0], delta=Fraction(asked[1])))
        assert f"that still fit: {left}\n" in reading.show(ledger)[0]


def test_show_warns_of_sums_that_bound_nothing_and_of_a_ledger_that_is_not_sound(
    path: Path,
) -> None:
    ledger = Ledger(f"sqlite:///{path}", new=True)
    assert reading.show(ledger)[0] == "The ledger is empty, and no account is declared.\n"
    assert reading.export(ledger) == ""
    assert "it has no entries" in reading.verify(ledger)[0]
    ledger.reserve(reservation(0))
    ledger.reserve(reservation(1, epsilon=None, adjacency="replace_one"))
    text = reading.show(ledger)[0]
    assert "Account a (no caps)" in text
    assert "epsilon  no cap  not finite  not finite  no cap" in text
    assert (
        "The sums are not a valid bound: the releases are about case, add_remove and case, rep"
        in text
    )
    assert "not sound" not in text
    execute(path, "UPDATE tracecloak_ledger SET method = 'x' || char(27) || '[2J' WHERE seq = 1")
    text = reading.show(ledger)[0]
    assert text.startswith("This ledger is not sound; problems found by `verify`: 1\n")
    assert "\x1b" not in text

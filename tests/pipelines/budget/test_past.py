"""What a key store knows of its ledger: the same as all entries say, and read once."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.budget.test_windows import asked, chained
from tests.support.ledgers import account, reservation
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import ledger as ledger_module
from tracecloak.pipelines.ledger import reading
from tracecloak.pipelines.ledger.balance import balance_of, charges, spent_in, windowed
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.entries import WindowCharge
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.errors import BudgetExhausted

OFFICER = ("the officer", "the disk broke")


class World:
    """A ledger and a key store that pays with it."""

    def __init__(self, folder: Path) -> None:
        self.file, self.keys = folder / "ledger.sqlite", folder / "keys"
        self.opened(new=True)

    def opened(self, **named: Any) -> Ledger:
        accounts = {"a": account("1")}
        return Ledger(f"sqlite:///{self.file}", accounts, store=KeyStore(self.keys), **named)

    def change(self, statement: str) -> None:
        _execute(self.file, statement)

    @property
    def copy(self) -> Path:
        (copy,) = self.keys.glob("ledgers/*.db")
        return copy


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    for number in range(4):
        world.opened().reserve(reservation(number))
    return world


@given(st.lists(asked, max_size=6), st.data())
def test_it_says_what_all_entries_say_in_whatever_pieces_they_came(
    drawn: list[tuple[Fraction | None, Fraction, WindowCharge | None, tuple[str, ...]]],
    data: st.DataObject,
) -> None:
    steps = []
    for number, (epsilon, delta, window, way) in enumerate(drawn):
        of = replace(
            reservation(number % 4, window=window, config_digest=f"c{number}"), epsilon=epsilon,
            delta=None if epsilon is None else delta,
        )  # fmt: skip
        steps += [(a, of) for a in way if window is not None or a != "claim"]
    entries = chained(*steps)
    ends = sorted(data.draw(st.lists(st.integers(0, len(entries)), max_size=3)))
    with contextlib.closing(LedgerSnapshot(None)) as past:
        for begin, end in zip([0, *ends], [*ends, len(entries)], strict=True):
            assert past.problems(entries[begin:end]) == []
            past.add(entries[begin:end])
        past.add(entries[:2])  # which are there
        assert past.entries() == entries and not past.differs_from(entries)
        expected = balance_of(spent_in(entries, "a"), "a", account())
        assert balance_of(past.spent("a"), "a", account()) == expected
        assert past.spent("a").kinds == spent_in(entries, "a").kinds
        for _, _, window, _ in drawn:  # one more of a window that is there
            more = (Fraction(3), Fraction(0), window if window and not window.adds_up else None)
            whole, short = spent_in(entries, "a"), past.spent("a", window)
            assert balance_of(
                replace(short, still_open=(*short.still_open, more)), "a", None
            ) == balance_of(replace(whole, still_open=(*whole.still_open, more)), "a", None)
        last = charges(entries)
        for scope in ("s", "t"):
            assert sorted((label, e.seq) for label, e in past.charged(scope)) == sorted(
                (one.window.label, last[charge].seq)
                for charge, one in windowed(entries).items()
                if one.window.scope == scope
            )
        claimed = [one for one in windowed(entries).values() if one.claim is not None]
        for scope in {one.window.scope for one in claimed}:
            assert sorted(past.claims(scope)) == sorted(
                (one.window.label, one.claim.units_sha256)
                for one in claimed
                if one.claim is not None and one.window.scope == scope
            )


def test_a_release_reads_only_what_is_new(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a night that takes longer each year."""
    since: list[int] = []
    read = ledger_module.read_entries
    monkeypatch.setattr(
        ledger_module,
        "read_entries",
        lambda connection, first=1: since.append(first) or read(connection, first),
    )
    monkeypatch.setattr(LedgerSnapshot, "entries", None)
    ledger = world.opened()
    ledger.check_remembered()
    ledger.reserve(reservation(4))
    ledger.draw("/out", "r4", "k")
    ledger.commit("/out", "r4", "k")
    assert ledger.balance("a").spent_epsilon == Fraction("0.5")
    assert min(since) == 4


@pytest.mark.parametrize(
    ("change", "is_noticed"),
    [
        ("UPDATE tracecloak_ledger SET epsilon = '0.01' WHERE seq = 4", True),
        ("DELETE FROM tracecloak_ledger WHERE seq = 4", True),
        ("UPDATE tracecloak_ledger SET epsilon = '0.01' WHERE seq = 2", False),
        ("DELETE FROM tracecloak_ledger WHERE seq = 2", False),
    ],
)
def test_what_is_changed_in_the_ledger_is_never_believed(
    world: World, change: str, is_noticed: bool
) -> None:
    world.change(change)
    ledger = world.opened()
    assert not reading.verify(ledger)[1]
    if is_noticed:
        with pytest.raises(LedgerError):
            ledger.check_remembered()
            ledger.reserve(reservation(5))
        return
    assert ledger.balance("a").spent_epsilon == Fraction("0.4")
    with pytest.raises(BudgetExhausted, match=r"spent 0\.4"):
        ledger.reserve(reservation(5, "0.7"))
    other = Ledger(f"sqlite:///{world.file}")  # which no key store follows
    with pytest.raises(LedgerError, match="does not say what tracecloak wrote"):
        other.reserve(reservation(5))


def test_entries_that_others_wrote_since_are_checked(world: World, tmp_path: Path) -> None:
    others = Ledger(f"sqlite:///{world.file}", store=KeyStore(tmp_path / "others"))
    others.reserve(reservation(7))
    world.change("UPDATE tracecloak_ledger SET epsilon = '0.01' WHERE seq = 5")
    with pytest.raises(LedgerError, match="entry 5: it was changed"):
        world.opened().reserve(reservation(5))


def test_a_key_store_that_lost_its_copy_says_so_until_it_is_accepted(
    world: World, tmp_path: Path
) -> None:
    """Catches a ledger of an earlier day whose copy was deleted with what it knew."""
    shutil.copy(world.file, tmp_path / "backup")
    world.opened().reserve(reservation(4))
    shutil.copy(tmp_path / "backup", world.file)
    world.copy.unlink()
    for _ in range(2):
        with pytest.raises(LedgerError, match="has lost its copy of ledger"):
            world.opened().check_remembered()
        assert not reading.verify(world.opened())[1]
    world.opened().accept(*OFFICER)
    assert world.opened().complaints() == [] and reading.verify(world.opened())[1]
    world.opened().reserve(reservation(5))


def test_a_copy_that_says_something_else_is_told_by_verify(world: World) -> None:
    """Catches sums that do not follow from the entries."""
    _execute(world.copy, "UPDATE unfinished SET account = 'b'")
    assert world.opened().complaints() == []
    text, is_sound = reading.verify(world.opened())
    assert not is_sound and "copy of ledger" in text and "accept" in text
    world.opened().accept(*OFFICER)
    assert reading.verify(world.opened())[1]


def test_what_another_version_made_is_computed_again_from_its_entries(world: World) -> None:
    _execute(world.copy, "DROP TABLE dearest")
    _execute(world.copy, "PRAGMA user_version = 7")
    assert world.opened().balance("a").spent_epsilon == Fraction("0.4")
    assert reading.verify(world.opened())[1]


def _execute(file: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(statement)

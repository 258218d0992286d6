"""A ledger or a key store that was restored from an old backup stops releases until it is told."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import example, given
from hypothesis import strategies as st

from tests.pipelines.budget.test_windows import WAYS, asked, chained
from tests.support.ledgers import account, faults, reservation, windowed
from tests.support.postgres import database, server
from tests.support.releasing import as_typed, small_release, tracecloak
from tracecloak.pipelines.budget.opening import back_up, restore
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import ledger as ledger_module
from tracecloak.pipelines.ledger import reading
from tracecloak.pipelines.ledger.balance import (
    Cost,
    Spent,
    balance_of,
    charges,
    counting,
    paid_place,
)
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.entries import Entry, WindowCharge
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.reading import accepted_text
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.errors import BudgetExhausted, UsageError

__all__ = ["database", "server"]  # fixtures

OFFICER = ("the officer", "the disk broke")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shared.sqlite"


@pytest.fixture
def opened(file: Path, tmp_path: Path) -> Callable[..., Ledger]:
    """Opens the ledger with a key store, by its name."""

    def opened(store: str = "keys", **named: Any) -> Ledger:
        return Ledger(f"sqlite:///{file}", new=True, store=KeyStore(tmp_path / store), **named)

    return opened


def spent(ledger: Ledger) -> Fraction | None:
    return ledger.balance("a").spent_epsilon


# The ledger forgot


def test_a_ledger_from_an_old_backup_is_noticed_and_what_it_forgot_counts_again(
    opened: Callable[..., Ledger], file: Path, tmp_path: Path
) -> None:
    """Catches a budget that is there again because a backup was played back."""
    ledger = opened()
    ledger.declare_account(account("1"), *OFFICER)
    ledger.reserve(reservation(0, "0.1"))
    shutil.copy(file, tmp_path / "backup")
    ledger.commit("/out", "r0", "k")
    ledger.reserve(reservation(1, "0.2", dataset="claims"))
    ledger.reserve(reservation(2, "0.3"))
    ledger.commit("/out", "r2", "k")
    ledger.withdraw("/out", "r2", *OFFICER)
    ledger.reserve(reservation(3, "0.1"))
    ledger.void("/out", "r3", "k")
    ledger.declare_account(account("0.7"), *OFFICER)
    ledger.bind_dataset("claims", "a", *OFFICER)
    ledger.check_remembered()
    before = {e.charge: e.action for e in ledger.entries() if e.is_of_charge}

    shutil.copy(tmp_path / "backup", file)
    ledger = opened()
    assert faults(ledger) == []  # its chain is sound
    with pytest.raises(LedgerError, match="it was restored from an older backup") as raised:
        ledger.check_remembered()
    assert raised.value.exit_code == 6
    assert "lacks entry 11 of 20" in str(raised.value)
    assert "`tracecloak ledger accept [CONFIG] --by NAME --reason TEXT`" in reading.show(ledger)
    assert not reading.verify(ledger)[1]
    ledger.reserve(reservation(7, "0.1"))  # of somebody who did not look; the alarm stays
    assert ledger.complaints() and opened().complaints()

    accepted = ledger.accept(*OFFICER)
    assert ledger.complaints() == opened().complaints() == []
    assert faults(ledger) == []
    after = {e.charge: e.action for e in ledger.entries() if e.is_of_charge}
    assert {c: a for c, a in before.items() if a != "void"}.items() <= after.items()
    assert spent(ledger) == Fraction("0.7")
    assert ledger.balance("a").remaining_epsilon == 0  # by the later cap
    reserved = [e for e in accepted.again if (e.action, e.release_id) == ("reserve", "r1")]
    assert reserved[0].facts["dataset"] == "claims"
    entry = next(e for e in ledger.entries() if e.action == "accept")
    assert (entry.facts["by"], entry.facts["lost"]["seq"]) == ("the officer", 11)
    text = reading.accepted_text(accepted)
    assert "release r2 in /out, account a, epsilon 0.3, delta 0: withdraw\n" in text
    assert "copy: the caps of account a\n" in text
    assert "copy: data set claims, bound to account a\n" in text
    with pytest.raises(UsageError, match="there is nothing to accept"):
        ledger.accept(*OFFICER)


def test_a_ledger_that_is_gone_is_not_begun_anew_unseen(
    opened: Callable[..., Ledger], file: Path
) -> None:
    """Catches `new_ledger`, left in a configuration, that begins at zero after a loss."""
    ledger = opened()
    ledger.declare_account(account("1"), *OFFICER)
    ledger.reserve(reservation(0, "0.6"))
    for remains in (b"", None):
        if remains is None:
            file.unlink()
        else:
            file.write_bytes(remains)
        with pytest.raises(LedgerError, match="begun anew"):
            opened()
    assert not file.exists()
    ledger = opened(after_loss=True)
    ledger.accept(*OFFICER)
    assert (spent(ledger), ledger.balance("a").remaining_epsilon) == (
        Fraction("0.6"), Fraction("0.4"),
    )  # fmt: skip
    ledger.commit("/out", "r0", "k")  # the run that was at work goes on
    assert opened().complaints() == []


def test_a_second_ledger_where_caps_are_declared_in_the_first_is_the_officers_to_begin(
    opened: Callable[..., Ledger], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches a configuration that gets round a cap by new_ledger and another ledger."""
    opened().declare_account(account(), *OFFICER)
    second, keys = f"sqlite:///{tmp_path / 'second.sqlite'}", tmp_path / "keys"
    release = small_release(tmp_path, "--ledger", second, "--release_id", "r", "--account", "a")
    assert tracecloak(*release) == 2
    assert "their caps would not hold in a fresh one" in capsys.readouterr().err
    assert not (tmp_path / "second.sqlite").exists()
    assert as_typed("ledger", "begin", "--ledger", second, "--key_store", keys) == 0
    assert as_typed(*release) == 0


def test_an_older_copy_of_a_ledger_at_another_place_is_noticed_and_counts_again(
    opened: Callable[..., Ledger], file: Path, tmp_path: Path
) -> None:
    """Catches a backup that a configuration names in place of the ledger."""
    opened().reserve(reservation(0, "0.1"))
    backup, moved = tmp_path / "backup.sqlite", tmp_path / "moved.sqlite"
    shutil.copy(file, backup)
    opened().reserve(reservation(1, "0.2"))
    shutil.copy(file, moved)
    store = KeyStore(tmp_path / "keys")
    newer = Ledger(f"sqlite:///{moved}", store=store)
    newer.check_remembered()  # it has all that was seen
    newer.reserve(reservation(2, "0.3"))
    with pytest.raises(LedgerError, match=r"lacks entry 3 .* it is an older copy of"):
        opened().check_remembered()  # which was left for the other
    older = Ledger(f"sqlite:///{backup}", store=store)
    with pytest.raises(LedgerError, match=r"backup\.sqlite lacks entry 3 .* at"):
        older.check_remembered()
    older.accept(*OFFICER)
    assert spent(older) == Fraction("0.6")
    assert Ledger(f"sqlite:///{backup}", store=store).complaints() == []
    others = KeyStore(tmp_path / "others")
    assert Ledger(f"sqlite:///{file}", store=others).complaints() == []  # which saw nothing of it


def test_each_key_store_that_saw_more_says_so_and_nothing_counts_twice(
    opened: Callable[..., Ledger], file: Path, tmp_path: Path
) -> None:
    one, two = opened("one"), opened("two")
    one.reserve(reservation(0, "0.1"))
    shutil.copy(file, tmp_path / "backup")
    two.reserve(reservation(1, "0.1"))
    one.reserve(reservation(2, "0.1"))
    shutil.copy(tmp_path / "backup", file)
    assert opened("three").complaints() == []  # which saw nothing of it
    assert opened("one").complaints() and opened("two").complaints()
    opened("one").accept(*OFFICER)
    assert spent(one) == Fraction("0.3")
    assert opened("two").complaints()
    opened("two").accept(*OFFICER)
    assert spent(one) == Fraction("0.3")
    assert opened("one").complaints() == opened("two").complaints() == []
    assert faults(one) == []


def test_a_restored_ledger_that_has_grown_since_is_noticed_all_the_same(
    opened: Callable[..., Ledger], file: Path, tmp_path: Path
) -> None:
    """Catches a copy that goes on behind entries that the ledger has not, and hides the loss."""
    opened().reserve(reservation(0))
    shutil.copy(file, tmp_path / "backup")
    opened().reserve(reservation(1))
    shutil.copy(tmp_path / "backup", file)
    for number in range(2, 5):
        opened("others").reserve(reservation(number))
    opened().commit("/out", "r0", "k")  # a run of this key store that was at work
    assert "lacks entry 2" in opened().complaints()[0]
    opened().accept(*OFFICER)
    assert spent(opened()) == Fraction("0.5")
    assert opened().complaints() == []


def test_a_chain_that_was_computed_anew_is_noticed(
    opened: Callable[..., Ledger], file: Path
) -> None:
    ledger = opened()
    ledger.reserve(reservation(0, "0.9"))
    cheaper = Entry.after(None, "reserve", {**asdict(ledger.entries()[0]), "epsilon": "0.1"})
    connection = sqlite3.connect(file)
    connection.execute(
        "UPDATE tracecloak_ledger SET epsilon = '0.1', hash = ?, details = '', recorded_at = ?",
        (cheaper.hash, cheaper.recorded_at),
    )
    connection.commit()
    connection.close()
    assert faults(opened()) == []
    assert opened().complaints()


# No false alarm


def test_a_run_cut_off_between_the_ledger_and_the_copy_alarms_nobody(
    opened: Callable[..., Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened()
    ledger.reserve(reservation(0))
    with monkeypatch.context() as patch:
        patch.setattr(LedgerSnapshot, "add", _interrupted_at_new)
        with pytest.raises(KeyboardInterrupt):
            ledger.reserve(reservation(1))
    assert len(ledger.entries()) == 2
    assert opened().complaints() == []
    with monkeypatch.context() as patch:  # after the key store has counted, before the ledger has
        patch.setattr("tracecloak.pipelines.ledger.ledger.read_entries", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.reserve(reservation(2))
    KeyStore.next_generation(ledger.memory.store)  # type: ignore[union-attr]
    assert opened().complaints() == []
    ledger.reserve(reservation(2))
    assert opened().complaints() == []


def test_a_copy_of_an_earlier_version_is_taken_over_and_a_line_that_was_cut_off_read_again(
    opened: Callable[..., Ledger], tmp_path: Path
) -> None:
    ledger = opened()
    for number in range(2):
        ledger.reserve(reservation(number))
    (copy,) = (tmp_path / "keys" / "ledgers").glob("*.db")
    assert copy.stat().st_mode & 0o077 == 0
    copy.unlink()
    lines = [f"{json.dumps(asdict(entry))}\n" for entry in ledger.entries()]
    copy.with_suffix(".jsonl").write_text("".join(lines)[:-40])
    assert opened().complaints() == []
    ledger.reserve(reservation(2))
    assert ledger.memory is not None and not copy.with_suffix(".jsonl").exists()
    assert ledger.memory.opened(ledger.memory.file).entries() == ledger.entries()


# The key store forgot


def test_a_key_store_from_an_old_backup_is_noticed(
    opened: Callable[..., Ledger], tmp_path: Path
) -> None:
    """Catches receipts and keys that are those of an earlier day."""
    opened().reserve(reservation(0))
    shutil.copytree(tmp_path / "keys", tmp_path / "backup")
    for number in (1, 2):
        opened().reserve(reservation(number))
    opened("others").reserve(reservation(3))
    shutil.rmtree(tmp_path / "keys")
    (tmp_path / "backup").rename(tmp_path / "keys")
    ledger = opened()
    with pytest.raises(LedgerError, match="notes 3 of its reservations, and it"):
        ledger.check_remembered()
    assert opened("others").complaints() == []
    accepted = ledger.accept(*OFFICER)
    assert accepted.again == []
    assert "has nothing that the ledger lacks" in reading.accepted_text(accepted)
    assert opened().complaints() == []
    opened().reserve(reservation(4))
    assert opened().complaints() == []


def test_a_key_store_used_in_two_places_is_noticed(
    opened: Callable[..., Ledger], tmp_path: Path
) -> None:
    opened().reserve(reservation(0))
    shutil.copytree(tmp_path / "keys", tmp_path / "clone")
    opened("clone").reserve(reservation(1))
    assert "is used in two places" in opened().complaints()[0]


# The command


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def _interrupted_at_new(_: LedgerSnapshot, new: Sequence[Entry]) -> None:
    if new:
        raise KeyboardInterrupt


class Place:
    """Ledgers that two machines share, each with a key store of its own."""

    def __init__(self, folder: Path, url: str, restored_url: str) -> None:
        self.folder, self.url, self.restored_url = folder, url, restored_url
        self.backup = str(folder / "ledger.backup")

    def store(self, name: str) -> KeyStore:
        return KeyStore(self.folder / name)

    def ledger(self, name: str) -> Ledger:
        return Ledger(self.url, new=True, store=self.store(name))

    def restored(self, name: str) -> Ledger:
        return Ledger(self.restored_url, store=self.store(name))

    def restore(self) -> None:
        restore(self.store("officer"), self.restored_url, self.backup, *OFFICER)


def check_restored(place: Place) -> None:
    """One machine paid after the backup and one did not; both are asked before anybody pays."""
    place.ledger("one").declare_account(account("1"), *OFFICER)
    place.ledger("one").reserve(reservation(1, "0.3"))
    place.ledger("two").reserve(reservation(2, "0.2"))
    head = back_up(place.ledger("one"), place.backup)
    assert head == place.ledger("two").entries()[-1]
    place.ledger("one").reserve(reservation(3, "0.4"))
    before = place.ledger("one").entries()

    place.restore()
    names = {name: place.store(name).identity() for name in ("one", "two")}
    assert place.restored("two").entries()[:-1] == before[: head.seq]
    assert faults(place.restored("two")) == []
    for store in (place.store("two"), place.store("new"), None):  # who has forgotten nothing
        with pytest.raises(LedgerError, match="does not know what was paid since") as raised:
            Ledger(place.restored_url, store=store).reserve(reservation(4, "0.1"))
        assert raised.value.exit_code == 6
        assert all(name in str(raised.value) for name in names.values())
    with pytest.raises(LedgerError, match="was restored from a backup"):
        place.restored("new").check_remembered()

    accepted = place.restored("two").accept(*OFFICER)
    assert f"once these have answered, too: {names['one']}." in accepted_text(accepted)
    with pytest.raises(LedgerError) as raised:
        place.restored("two").check_remembered()
    assert names["one"] in str(raised.value)
    assert names["two"] not in str(raised.value)
    with pytest.raises(UsageError, match="this key store paid nothing with it"):
        place.restored("new").accept(*OFFICER)
    accepted = place.restored("one").accept(*OFFICER)
    assert [entry.release_id for entry in accepted.again] == ["r3"]
    assert place.restored("two").balance("a").spent_epsilon == Fraction("0.9")
    for name in ("one", "two", "new"):
        place.restored(name).check_remembered()
    place.restored("new").reserve(reservation(5, "0.1"))
    assert faults(place.restored("one")) == []


def test_a_restored_ledger_pays_nothing_until_each_key_store_said_what_it_paid(
    tmp_path: Path,
) -> None:
    urls = [f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("first", "second")]
    check_restored(Place(tmp_path, *urls))


@pytest.mark.slow
def test_so_does_one_on_postgresql(tmp_path: Path, database: str, server: object) -> None:
    check_restored(Place(tmp_path, database, server.new_database()))  # type: ignore[attr-defined]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    urls = [f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("first", "second")]
    return Place(tmp_path, *urls)


def test_a_key_store_that_is_lost_is_answered_for_by_name(place: Place) -> None:
    place.ledger("one").reserve(reservation(1))
    back_up(place.ledger("one"), place.backup)
    place.restore()
    name = place.store("one").identity()
    with pytest.raises(UsageError, match="does not wait for key store 'none'; it"):
        place.restored("new").accept(*OFFICER, lost_stores=["none"])
    place.restored("new").accept(*OFFICER, lost_stores=[name])
    place.restored("new").reserve(reservation(2))
    with pytest.raises(UsageError, match="there is nothing to accept"):
        place.restored("new").accept(*OFFICER)


def test_a_backup_that_is_cut_off_or_changed_is_none(place: Place) -> None:
    for number in range(3):
        place.ledger("one").reserve(reservation(number))
    back_up(place.ledger("one"), place.backup)
    whole = Path(place.backup).read_bytes()
    lines = whole.splitlines(keepends=True)
    end = json.loads(lines[-1])
    broken = [whole[:n] for n in range(0, len(whole) - 2, 97)]
    broken += [b"".join(lines[:-1]), b"".join([lines[0], *lines[2:]])]
    broken += [whole.replace(b'"0.1"', b'"0.0"'), b"".join(lines[:-2]) + lines[-1]]
    fewer = {**end, "entries": 2, "hash": json.loads(lines[1])["hash"]}
    assert fewer != end
    for text in broken:
        Path(place.backup).write_bytes(text)
        with pytest.raises(UsageError, match="is not complete"):
            place.restore()
        assert not (place.folder / "second.sqlite").exists()
    Path(place.backup).write_bytes(whole)
    place.restore()


def test_neither_a_ledger_nor_a_backup_is_replaced(place: Place) -> None:
    place.ledger("one").reserve(reservation(1))
    back_up(place.ledger("one"), place.backup)
    with pytest.raises(UsageError, match="may be the last good backup"):
        back_up(place.ledger("one"), place.backup)
    with pytest.raises(UsageError, match="has entries, which are not replaced"):
        restore(place.store("one"), place.url, place.backup, *OFFICER)
    assert len(place.ledger("one").entries()) == 1


def test_a_restore_that_is_killed_leaves_no_entry(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a ledger that has half of what was spent."""
    for number in range(4):
        place.ledger("one").reserve(reservation(number))
    back_up(place.ledger("one"), place.backup)
    execute = sa.Connection.execute

    def cut_off(connection: sa.Connection, asked: Any, *rows: Any) -> Any:
        done = execute(connection, asked, *rows)
        if isinstance(asked, sa.Insert):
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "execute", cut_off)
        with pytest.raises(KeyboardInterrupt):
            place.restore()
    with pytest.raises(UsageError, match="does not exist"):
        Ledger(place.restored_url)
    place.restore()
    assert len(Ledger(place.restored_url).entries()) == 5


def test_the_commands_back_up_restore_and_accept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, signed = ["--key_store", tmp_path / "keys"], ["--by", "A. Officer", "--reason", "disk"]
    caps = ["--epsilon", "1", "--delta", "0", "--unit", "case"]
    assert as_typed("ledger", "begin", *keys) == 0
    assert as_typed("ledger", "declare", "a", *caps, *keys, *signed) == 0
    assert as_typed("ledger", "backup", *keys, "--output", tmp_path / "backup") == 0
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    (tmp_path / "keys" / "ledger.db").unlink()
    assert as_typed("ledger", "restore", *keys, *signed, "--backup", tmp_path / "backup") == 0
    capsys.readouterr()
    assert as_typed("ledger", "verify", *keys) == 6
    assert "was restored from a backup" in capsys.readouterr().out
    assert as_typed("ledger", "accept", *keys, *signed) == 0
    assert as_typed("ledger", "verify", *keys) == 0


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


def each_by_itself(entries: Sequence[Entry]) -> Spent:
    """What the charges of an account cost, as a naive reader finds it."""
    counted = counting(entries, "a")
    return Spent(
        tuple(one.cost for one in counted if not one.last.is_open),
        tuple(one.cost for one in counted if one.last.is_open),
        frozenset((one.last.unit, one.last.adjacency) for one in counted),
    )


_CLOSED = (Fraction(1), Fraction(0), WindowCharge("s", "1"), WAYS[3])
_OPEN = (Fraction(1), Fraction(0), WindowCharge("s", "1"), WAYS[0])


@example([_CLOSED, _OPEN], [1])
@example([_CLOSED], [])
@given(st.lists(asked, max_size=6), st.lists(st.integers(0, 30), max_size=3))
def test_it_says_what_all_entries_say_in_whatever_pieces_they_came(
    drawn: list[tuple[Fraction | None, Fraction, WindowCharge | None, tuple[str, ...]]],
    cuts: list[int],
) -> None:
    steps = []
    for number, (epsilon, delta, window, way) in enumerate(drawn):
        of = replace(
            reservation(number % 4, window=window, config_digest=f"c{number}"), epsilon=epsilon,
            delta=None if epsilon is None else delta,
        )  # fmt: skip
        steps += [(a, of) for a in way if window is not None or a != "claim"]
    entries = chained(*steps)
    ends = sorted(min(cut, len(entries)) for cut in cuts)
    with contextlib.closing(LedgerSnapshot(None)) as past:
        for begin, end in zip([0, *ends], [*ends, len(entries)], strict=True):
            assert past.problems(entries[begin:end]) == []
            past.add(entries[begin:end])
        past.add(entries[:2])  # which are there
        assert past.entries() == entries and not past.differs_from(entries)
        expected = balance_of(each_by_itself(entries), "a", account())
        assert balance_of(past.spent("a"), "a", account()) == expected
        assert past.spent("a").kinds == each_by_itself(entries).kinds
        for _, _, window, _ in drawn:  # one more of a window that is there
            more = Cost(Fraction(3), Fraction(0), paid_place(window))
            whole, short = each_by_itself(entries), past.spent("a", window)
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
    _execute(world.copy, "UPDATE charges SET epsilon = '0'")
    assert world.opened().complaints() == []
    text, is_sound = reading.verify(world.opened())
    assert not is_sound and "copy of ledger" in text and "accept" in text
    world.opened().accept(*OFFICER)
    assert reading.verify(world.opened())[1]


def test_what_another_version_made_is_computed_again_from_its_entries(world: World) -> None:
    _execute(world.copy, "DROP TABLE charges")
    _execute(world.copy, "PRAGMA user_version = 7")
    assert world.opened().balance("a").spent_epsilon == Fraction("0.4")
    assert reading.verify(world.opened())[1]


def _execute(file: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(statement)

"""A ledger or a key store that was restored from an old backup stops releases until it is told."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import example, given
from hypothesis import strategies as st

from tests.pipelines.budget.test_windows import WAYS, Drawn, asked, chained
from tests.support.books import of_window
from tests.support.ledgers import account, execute, faults, reservation, windowed
from tests.support.postgres import database, server
from tests.support.releasing import as_typed, small_release, tracecloak
from tracecloak.pipelines.budget.opening import back_up, restore
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import balance, reading
from tracecloak.pipelines.ledger import ledger as ledger_module
from tracecloak.pipelines.ledger.balance import KnownCharge
from tracecloak.pipelines.ledger.cache import _KNOWN, LedgerCache
from tracecloak.pipelines.ledger.caps import asked_of
from tracecloak.pipelines.ledger.database import TABLE, WINDOWS, LedgerError, asks, read_entries
from tracecloak.pipelines.ledger.entries import NO_COLUMNS, Entry, WindowCharge
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.errors import BudgetExhausted, UsageError

__all__ = ["database", "server"]  # fixtures

OFFICER = ("the officer", "the disk broke")


class World:
    """A ledger that machines share, each with a key store of its own, by name."""

    def __init__(self, folder: Path, url: str = "", restored_url: str = "") -> None:
        self.folder, self.file = folder, folder / "ledger.sqlite"
        self.url = url or f"sqlite:///{self.file}"
        self.restored_url = restored_url or f"sqlite:///{folder}/second.sqlite"
        self.backup = folder / "ledger.backup"

    def store(self, name: str) -> KeyStore:
        return KeyStore(self.folder / name)

    def opened(self, store: str = "keys", **named: Any) -> Ledger:
        return Ledger(self.url, new=True, store=self.store(store), **named)

    def restored(self, name: str) -> Ledger:
        return Ledger(self.restored_url, store=self.store(name))

    def restore(self) -> None:
        restore(self.store("officer"), self.restored_url, str(self.backup), *OFFICER)

    def copy_file(self) -> None:
        shutil.copy(self.file, self.folder / "old")

    def play_back(self) -> None:
        shutil.copy(self.folder / "old", self.file)

    @property
    def copy(self) -> Path:
        (head,) = (self.folder / "keys").glob("ledgers/*.head")
        return head

    def as_another_process(self) -> Ledger:
        """Opens the ledger as a process does that read nothing of it yet."""
        _KNOWN.clear()
        return self.opened()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def spent(ledger: Ledger) -> Fraction | None:
    return ledger.balance("a").spent_epsilon


# The ledger forgot


def test_a_ledger_from_an_old_backup_is_noticed_and_what_it_forgot_counts_again(
    world: World,
) -> None:
    ledger = world.opened()
    ledger.declare_account(account("1"), *OFFICER, "sum")
    ledger.reserve(reservation(0, "0.1"))
    world.copy_file()
    ledger.commit("/out", "r0", "k")
    ledger.reserve(reservation(1, "0.2", dataset="claims"))
    ledger.reserve(reservation(2, "0.3"))
    ledger.commit("/out", "r2", "k")
    ledger.withdraw("/out", "r2", *OFFICER)
    ledger.reserve(reservation(3, "0.1"))
    ledger.void("/out", "r3", "k")
    ledger.declare_account(account("0.7"), *OFFICER, "sum")
    ledger.bind_dataset("claims", "a", *OFFICER)
    ledger.check_remembered()

    world.play_back()
    ledger = world.opened()
    assert faults(ledger) == []  # its chain is sound
    with pytest.raises(LedgerError, match="lacks entry 11 of 20") as raised:
        ledger.check_remembered()
    assert raised.value.exit_code == 6
    assert "`tracecloak ledger accept`" in reading.show(ledger)[0]
    assert not reading.verify(ledger)[1]
    ledger.reserve(reservation(7, "0.1"))  # of somebody who did not look; the alarm stays
    assert ledger.complaints() and world.opened().complaints()

    complaints, counted = ledger.accept(*OFFICER)
    assert ledger.complaints() == world.opened().complaints() == faults(ledger) == []
    assert (spent(ledger), ledger.balance("a").remaining_epsilon) == (1, 0)
    assert ledger.balance("a").remaining_delta == 0
    entry = next(e for e in ledger.entries() if e.action == "accept")
    assert (entry.facts["by"], entry.facts["lost"]["seq"]) == ("the officer", 11)
    text = reading.text_of("accepted", complaints=complaints, counted=counted)
    assert "Account a: what was left counts as spent, epsilon 0.8 and delta 0.00001.\n" in text
    with pytest.raises(UsageError, match="there is nothing to accept"):
        ledger.accept(*OFFICER)
    with pytest.raises(BudgetExhausted):
        ledger.reserve(reservation(8, "0.1"))
    ledger.commit("/out", "r2", "k")  # of a run that was at work: what it cost is counted
    ledger.declare_account(account("1.1"), *OFFICER, "sum")
    ledger.reserve(reservation(8, "0.1"))
    assert faults(ledger) == []


def test_a_ledger_that_is_gone_is_not_begun_anew_unseen(world: World) -> None:
    """Catches `new_ledger`, left in a configuration, that begins at zero after a loss."""
    ledger = world.opened()
    ledger.declare_account(account("1"), *OFFICER, "sum")
    ledger.reserve(reservation(0, "0.6"))
    for remains in (b"", None):
        if remains is None:
            world.file.unlink()
        else:
            world.file.write_bytes(remains)
        with pytest.raises(LedgerError, match="begun anew"):
            world.opened()
    assert not world.file.exists()
    ledger = world.opened(after_loss=True)
    complaints, counted = ledger.accept(*OFFICER)
    text = reading.text_of("accepted", complaints=complaints, counted=counted)
    assert "Account a was declared and is lost: its caps are 0 now." in text
    with pytest.raises(BudgetExhausted):
        ledger.reserve(reservation(1, "0.1"))
    ledger.commit("/out", "r0", "k")  # the run that was at work goes on
    assert world.opened().complaints() == []


def test_a_second_ledger_where_caps_are_declared_in_the_first_is_the_officers_to_begin(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches a configuration that gets round a cap by new_ledger and another ledger."""
    world.opened().declare_account(account(), *OFFICER, "sum")
    second, keys = f"sqlite:///{world.folder}/second.sqlite", world.folder / "keys"
    release = small_release(world.folder, "--ledger", second, "--release_id", "r", "--account", "a")
    assert tracecloak(*release) == 2
    assert "would not hold in a fresh one" in capsys.readouterr().err
    assert not (world.folder / "second.sqlite").exists()
    assert as_typed("ledger", "begin", "--ledger", second, "--key_store", keys) == 0
    assert as_typed(*release) == 0


def test_an_older_copy_of_a_ledger_at_another_place_is_noticed_and_counts_again(
    world: World,
) -> None:
    world.opened().reserve(reservation(0, "0.1"))
    world.copy_file()
    world.opened().reserve(reservation(1, "0.2"))
    shutil.copy(world.file, world.folder / "moved")
    newer, older = (
        Ledger(f"sqlite:///{world.folder}/{name}", store=world.store("keys"))
        for name in ("moved", "old")
    )
    newer.check_remembered()  # it has all that was seen
    newer.reserve(reservation(2, "0.3"))
    for ledger in (world.opened(), older):
        with pytest.raises(LedgerError, match=r"lacks entry 3 .* at another place"):
            ledger.check_remembered()
    older.accept(*OFFICER)
    assert older.complaints() == []
    assert world.opened("others").complaints() == []  # which saw nothing of it


def test_each_key_store_that_saw_more_says_so(world: World) -> None:
    one, two = world.opened("one"), world.opened("two")
    one.declare_account(account(), *OFFICER, "sum")
    one.reserve(reservation(0, "0.1"))
    world.copy_file()
    two.reserve(reservation(1, "0.1"))
    one.reserve(reservation(2, "0.1"))
    world.play_back()
    assert world.opened("three").complaints() == []  # which saw nothing of it
    for name in ("one", "two"):
        assert world.opened(name).complaints()
        world.opened(name).accept(*OFFICER)
        assert spent(one) == 1
    assert one.complaints() == two.complaints() == faults(one) == []


def test_a_restored_ledger_that_has_grown_since_is_noticed_all_the_same(world: World) -> None:
    """Catches a copy that goes on behind entries that the ledger has not, and hides the loss."""
    world.opened().reserve(reservation(0))
    world.copy_file()
    world.opened().reserve(reservation(1))
    world.play_back()
    for number in range(2, 5):
        world.opened("others").reserve(reservation(number))
    world.opened().commit("/out", "r0", "k")  # a run of this key store that was at work
    assert "lacks entry 2" in world.opened().complaints()[0]
    world.opened().accept(*OFFICER)
    assert world.opened().complaints() == []


def test_a_chain_that_was_computed_anew_is_noticed(world: World) -> None:
    ledger = world.opened()
    ledger.reserve(reservation(0, "0.9"))
    cheaper = Entry.after(None, "reserve", {**asdict(ledger.entries()[0]), "epsilon": "0.1"})
    execute(
        world.file,
        f"UPDATE tracecloak_ledger SET epsilon = '0.1', hash = '{cheaper.hash}', details = '', "
        f"recorded_at = '{cheaper.recorded_at}'",
    )
    assert faults(world.opened()) == [] and world.opened().complaints()


# No false alarm


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_run_cut_off_between_the_ledger_and_the_copy_alarms_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = world.opened()
    ledger.reserve(reservation(0))
    with monkeypatch.context() as patch:
        patch.setattr(LedgerCache, "keep", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.reserve(reservation(1))
    assert len(ledger.entries()) == 2 and world.opened().complaints() == []
    with monkeypatch.context() as patch:  # after the key store has counted, before the ledger has
        patch.setattr(ledger_module, "read_entries", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.reserve(reservation(2))
    world.store("keys").next_generation()
    assert world.opened().complaints() == []
    ledger.reserve(reservation(2))
    assert world.opened().complaints() == []


def test_a_copy_of_0_1_0_is_taken_over_and_a_line_that_was_cut_off_is_none(world: World) -> None:
    ledger = world.opened()
    for number in range(3):
        ledger.reserve(reservation(number))
    lines = [f"{json.dumps(asdict(entry))}\n" for entry in ledger.entries()]
    for n_lines, is_noticed in ((3, False), (2, False), (3, True)):
        head, copy = world.copy, world.copy.with_suffix(".jsonl")
        head.unlink()
        copy.write_text("".join(lines[:n_lines]) + lines[2][:40])
        if is_noticed:
            execute(world.file, "DELETE FROM tracecloak_ledger WHERE seq >= 3")
        with pytest.raises(UsageError, match="`tracecloak ledger migrate`"):
            world.as_another_process().reserve(reservation(4))
        where = ("--ledger", world.url, "--key_store", world.folder / "keys")
        assert as_typed("ledger", "show", *where) == 2
        assert as_typed("ledger", "migrate", *where) == 0
        assert head.exists() and not copy.exists() and head.stat().st_mode & 0o077 == 0
        assert bool(world.as_another_process().complaints()) == is_noticed


# The key store forgot


def test_a_key_store_from_an_old_backup_or_in_two_places_is_noticed(world: World) -> None:
    world.opened().reserve(reservation(0))
    shutil.copytree(world.folder / "keys", world.folder / "clone")
    for number in (1, 2):
        world.opened().reserve(reservation(number))
    world.opened("others").reserve(reservation(3))
    ledger = world.opened("clone")
    with pytest.raises(LedgerError, match="notes 3 of its reservations, and it"):
        ledger.check_remembered()
    assert world.opened("others").complaints() == []
    _, counted = ledger.accept(*OFFICER)
    assert counted == []
    assert ledger.complaints() == []
    ledger.reserve(reservation(4))
    assert world.opened("clone").complaints() == []
    assert "is used in two places" in world.opened().complaints()[0]


# Backups


def check_restored(world: World) -> None:
    """One machine paid after the backup and one did not; both are asked before anybody pays."""
    world.opened("one").declare_account(account("1"), *OFFICER, "sum")
    world.opened("one").reserve(reservation(1, "0.3"))
    world.opened("two").reserve(reservation(2, "0.2"))
    head = back_up(world.opened("one"), str(world.backup))
    assert head == world.opened("two").entries()[-1]
    world.opened("one").reserve(reservation(3, "0.4"))
    before = world.opened("one").entries()

    world.restore()
    assert world.restored("two").entries()[:-1] == before[: head.seq]
    assert faults(world.restored("two")) == []
    for store in (world.store("two"), world.store("new"), None):  # who has forgotten nothing
        with pytest.raises(LedgerError, match="does not know what was paid since") as raised:
            Ledger(world.restored_url, store=store).reserve(reservation(4, "0.1"))
        assert raised.value.exit_code == 6
    with pytest.raises(LedgerError, match="was restored from a backup"):
        world.restored("new").check_remembered()

    world.restored("two").accept(*OFFICER)
    assert world.restored("two").complaints() == world.restored("new").complaints() == []
    (left,) = world.restored("one").complaints()  # which paid since
    assert "lacks entry 4" in left
    world.restored("one").accept(*OFFICER)
    assert spent(world.restored("two")) == 1
    for name in ("one", "two", "new"):
        world.restored(name).check_remembered()
    with pytest.raises(BudgetExhausted):
        world.restored("new").reserve(reservation(5, "0.1"))
    assert faults(world.restored("one")) == []


def test_a_restored_ledger_pays_nothing_until_that_is_accepted(
    world: World,
) -> None:
    check_restored(world)


@pytest.mark.slow
def test_so_does_one_on_postgresql(tmp_path: Path, database: str, server: object) -> None:
    check_restored(World(tmp_path, database, server.new_database()))  # type: ignore[attr-defined]


@pytest.fixture
def backed_up(world: World) -> World:
    """A world of which a backup was made after three reservations."""
    for number in range(3):
        world.opened("one").reserve(reservation(number))
    back_up(world.opened("one"), str(world.backup))
    return world


def test_a_backup_that_is_cut_off_or_changed_is_none(backed_up: World) -> None:
    whole = backed_up.backup.read_bytes()
    lines = whole.splitlines(keepends=True)
    broken = [whole[:n] for n in range(0, len(whole) - 2, 97)]
    broken += [b"".join(lines[:-1]), b"".join([lines[0], *lines[2:]])]
    broken += [whole.replace(b'"0.1"', b'"0.0"'), b"".join(lines[:-2]) + lines[-1]]
    for text in broken:
        backed_up.backup.write_bytes(text)
        with pytest.raises(UsageError, match="is not complete"):
            backed_up.restore()
        assert not (backed_up.folder / "second.sqlite").exists()
    backed_up.backup.write_bytes(whole)
    backed_up.restore()


def test_neither_a_ledger_nor_a_backup_is_replaced(backed_up: World) -> None:
    ledger, path = backed_up.opened("one"), str(backed_up.backup)
    with pytest.raises(UsageError, match="may be the last good backup"):
        back_up(ledger, path)
    with pytest.raises(UsageError, match="has entries"):
        restore(backed_up.store("one"), backed_up.url, path, *OFFICER)
    assert len(ledger.entries()) == 3


def test_a_restore_that_is_killed_leaves_no_entry(
    backed_up: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sa.Connection.execute

    def cut_off(connection: sa.Connection, asked: Any, *rows: Any) -> Any:
        done = run(connection, asked, *rows)
        if isinstance(asked, sa.Insert):
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "execute", cut_off)
        with pytest.raises(KeyboardInterrupt):
            backed_up.restore()
    with pytest.raises(UsageError, match="does not exist"):
        Ledger(backed_up.restored_url)
    backed_up.restore()
    assert len(Ledger(backed_up.restored_url).entries()) == 4


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
    assert as_typed("ledger", "verify", *keys) == 6
    assert "was restored from a backup" in capsys.readouterr().out
    assert as_typed("ledger", "accept", *keys, *signed) == 0
    assert as_typed("ledger", "verify", *keys) == 0


# What the key store keeps


def each_by_itself(entries: Sequence[Entry]) -> balance.Spent:
    """What the charges of an account cost, as a naive reader finds it."""
    states = balance.charge_states(entries).values()
    counted = [one for one in states if one.last.action != "void"]
    return balance.Spent(
        balance.added({}, (KnownCharge.of(one) for one in counted if not one.last.is_open)),
        tuple(KnownCharge.of(one) for one in counted if one.last.is_open),
        frozenset((one.last.unit, one.last.adjacency) for one in counted),
    )


_CLOSED = (Fraction(1), Fraction(0), WindowCharge("s", "1"), WAYS[3])
_DEARER = (Fraction(3, 2), Fraction(0), WindowCharge("s", "2"), WAYS[3])
_IN_THIRD = (Fraction(1), Fraction(0), WindowCharge("s", "3"), WAYS[3])
_OPEN = (Fraction(1), Fraction(0), WindowCharge("s", "1"), WAYS[0])


@example([_CLOSED, _OPEN], [1], True)
@example([_CLOSED, _DEARER, _IN_THIRD, (*_IN_THIRD[:3], WAYS[0])], [], False)
@example([_CLOSED], [], True)
@given(st.lists(asked, max_size=6), st.lists(st.integers(0, 30), max_size=3), st.booleans())
def test_it_says_what_all_entries_say_in_whatever_pieces_they_came(
    drawn: list[Drawn], cuts: list[int], is_resumed: bool
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
    with sa.create_engine("sqlite://").begin() as connection:
        TABLE.create(connection)
        WINDOWS.create(connection)
        ask = asks(connection)
        past: LedgerSnapshot | None = LedgerSnapshot()
        written: list[Entry] = []
        for begin, end in zip([0, *ends], [*ends, len(entries)], strict=True):
            if past is not None and past.head is not None and is_resumed:
                past = LedgerSnapshot.at_checkpoint(past.head, ask)
            assert past is not None
            for entry in entries[begin:end]:
                last = written[-1] if written else None
                written.append(Entry.after(last, entry.action, asdict(entry), entry.facts))
                past.take_in(written[-1:], ask)
                connection.execute(sa.insert(TABLE), [asdict(written[-1])])
                if past.rows:
                    connection.execute(sa.insert(WINDOWS), past.rows)
            if past.head is None:
                continue
            written.append(past.checkpoint())
            past.take_in(written[-1:], ask)
            connection.execute(sa.insert(TABLE), [asdict(written[-1])])
            assert past.faults == []
        whole = LedgerSnapshot.of(written)
        assert whole.faults == [] and read_entries(ask) == written
        expected = balance.balance_of(each_by_itself(entries), "a", account())
        assert balance.balance_of(past.spent("a"), "a", account()) == expected
        assert past.spent("a").kinds == each_by_itself(entries).kinds
        if past.head is not None:
            resumed = LedgerSnapshot.at_checkpoint(past.head, ask)
            assert resumed is not None
            assert balance.balance_of(resumed.spent("a"), "a", account()) == expected
        for _, _, window, _ in drawn:  # one more of a window that is there
            more = asked_of(reservation(9, "3", window=window))
            every, short = each_by_itself(entries), past.spent("a", window)
            assert balance.balance_of(
                replace(short, still_open=(*short.still_open, more)), "a", None
            ) == balance.balance_of(replace(every, still_open=(*every.still_open, more)), "a", None)
        last_ones, of_windows = balance.charges(written), windowed(written)
        for scope in ("s", "t"):
            own = {c: one for c, one in of_windows.items() if one.window.scope == scope}
            assert sorted((label, e.seq) for label, e in past.charged(scope)) == sorted(
                (one.window.label, last_ones[charge].seq)
                for charge, one in own.items()
                if one.last.action != "void"
            )
            found = [(k.label, k.claim, k.units) for k in past.claims(scope)]
            assert sorted(found) == sorted(
                (one.window.label, one.claim.seq, one.claim.units_sha256)
                for one in own.values()
                if one.claim is not None
            )


@pytest.fixture
def paid(world: World) -> World:
    """A world in which four releases were paid."""
    for number in range(4):
        world.opened().reserve(reservation(number))
    return world


def test_a_release_reads_only_what_is_new(paid: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a night that takes longer each year."""
    for number in range(4, 70):
        paid.opened().reserve(reservation(number, "0.01"))
    for number in (80, 81):  # a row of the table of windows before a checkpoint, and one behind
        paid.opened().reserve(of_window(number, "w"))
        paid.opened().commit("/out", f"r{number}", "k")
        for more in range(62 if number == 80 else 0):
            paid.opened().reserve(reservation(100 * number + more, "0"))
    n_read: list[int] = []
    read = ledger_module.read_entries
    monkeypatch.setattr(
        ledger_module,
        "read_entries",
        lambda *asked: n_read.append(len(found := read(*asked))) or found,
    )
    ledger = paid.as_another_process()
    ledger.check_remembered()
    ledger.reserve(of_window(70, "w"))
    ledger.commit("/out", "r70", "k")
    assert spent(ledger) == Fraction("1.36")
    assert max(n_read) < 70


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
    paid: World, change: str, is_noticed: bool
) -> None:
    execute(paid.file, change)
    ledger = paid.opened(accounts={"a": account("1")})
    assert not reading.verify(ledger)[1]
    if is_noticed:
        with pytest.raises(LedgerError):
            ledger.check_remembered()
            ledger.reserve(reservation(5))
        return
    assert spent(ledger) == Fraction("0.4")
    with pytest.raises(BudgetExhausted, match=r"spent 0\.4"):
        ledger.reserve(reservation(5, "0.7"))
    with pytest.raises(LedgerError, match="does not say what tracecloak wrote"):
        Ledger(paid.url).reserve(reservation(5))  # which no key store follows


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("epsilon = '0.01' WHERE seq = 2", None),  # of which the sums know
        ("action = 'step' WHERE seq = 6", "is not as it was seen"),  # what was drawn was given back
        ("action = 'commit' WHERE seq = 4", "its hash is not"),
    ],
)
def test_a_process_that_did_not_see_a_change_believes_none(
    paid: World, change: str, told: str | None
) -> None:
    paid.opened().draw("/out", "r0", "k")
    paid.opened().draw("/out", "r1", "k")
    for number in range(4, 70):
        paid.opened().reserve(reservation(number, "0"))
    execute(paid.file, f"UPDATE tracecloak_ledger SET {change}")
    ledger = paid.as_another_process()
    assert spent(ledger) == Fraction("0.4") and ledger.complaints() == []
    assert not reading.verify(ledger)[1]
    if told is not None:
        for number in (1, 3):
            with contextlib.suppress(LedgerError):
                assert ledger.void("/out", f"r{number}", "k") is (number == 3)
        with pytest.raises(LedgerError, match=told):
            ledger.states("/out", "r1", "k")
            ledger.states("/out", "r3", "k")


def test_entries_that_others_wrote_since_are_checked(paid: World) -> None:
    paid.opened("others").reserve(reservation(7))
    execute(paid.file, "UPDATE tracecloak_ledger SET epsilon = '0.01' WHERE seq = 5")
    with pytest.raises(LedgerError, match="entry 5: it was changed"):
        paid.opened().reserve(reservation(5))


def test_a_key_store_that_lost_what_it_saw_says_so_until_it_is_accepted(paid: World) -> None:
    paid.copy_file()
    paid.opened().reserve(reservation(4))
    paid.play_back()
    paid.copy.unlink()
    for _ in range(2):
        with pytest.raises(LedgerError, match="has lost what it saw of ledger"):
            paid.opened().check_remembered()
        assert not reading.verify(paid.opened())[1]
    paid.opened().accept(*OFFICER)
    assert paid.opened().complaints() == [] and reading.verify(paid.opened())[1]
    paid.opened().reserve(reservation(5))


@pytest.fixture
def checkpointed(world: World) -> World:
    """A world with two windows, of which one was released twice, before a checkpoint."""
    for number in range(3):
        world.opened().reserve(of_window(number, f"w{number % 2}"))
        world.opened().commit("/out", f"r{number}", "k")
    for number in range(3, 70):
        world.opened().reserve(reservation(number, "0"))
    assert [e.seq for e in world.opened().entries() if e.action == "checkpoint"] == [65]
    return world


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM tracecloak_windows WHERE seq = 6",
     """UPDATE tracecloak_windows SET body = replace(body, '"0.1"', '"0.01"')"""],
)  # fmt: skip
def test_a_table_of_windows_that_was_changed_is_never_believed(
    checkpointed: World, change: str
) -> None:
    execute(checkpointed.file, change)
    told, is_sound = reading.verify(checkpointed.as_another_process())
    assert not is_sound and "table of windows" in told and "ledger migrate" in told
    checkpointed.as_another_process().reserve(of_window(70, "w0"))
    assert spent(checkpointed.as_another_process()) == Fraction("0.3")
    where = ("--ledger", checkpointed.url, "--key_store", checkpointed.folder / "keys")
    assert as_typed("ledger", "migrate", *where) == 0
    assert reading.verify(checkpointed.opened())[1]
    execute(checkpointed.file, change, "UPDATE tracecloak_ledger SET epsilon = '0' WHERE seq = 1")
    with pytest.raises(LedgerError, match="are not as they were"):
        checkpointed.as_another_process().reserve(of_window(71, "w0"))
    checkpointed.as_another_process().commit("/out", "r70", "k")  # it is visible, whatever it says


def test_a_checkpoint_that_does_not_follow_stops_releases(checkpointed: World) -> None:
    """Catches sums that a login of the pipeline lies about, and nobody checks."""
    *_, last = checkpointed.opened().entries()
    facts = checkpointed.opened().past().checkpoint().facts
    for closed, is_right in (({}, False), (facts["closed"], True)):
        lie = Entry.after(last, "checkpoint", NO_COLUMNS, {**facts, "closed": closed})
        with sa.create_engine(checkpointed.url).begin() as connection:
            connection.execute(sa.insert(TABLE).values(asdict(lie)))
        for name in ("keys", "others"):
            _KNOWN.clear()
            assert bool(checkpointed.opened(name).past().faults) != is_right
        if not is_right:
            with pytest.raises(LedgerError, match="does not follow from all entries"):
                checkpointed.opened().reserve(reservation(71, "0"))
            execute(checkpointed.file, f"DELETE FROM tracecloak_ledger WHERE seq = {lie.seq}")


def test_an_earlier_version_refuses_a_migrated_ledger(world: World) -> None:
    """It takes an action that it does not know for a change: migrating writes a checkpoint."""
    world.opened().reserve(of_window(0, "w0"))
    world.opened().commit("/out", "r0", "k")
    execute(world.file, "DROP TABLE tracecloak_windows")
    where = ("--ledger", world.url, "--key_store", world.folder / "keys")
    assert as_typed("ledger", "show", *where) == 2
    for n_entries in (3, 3):
        assert as_typed("ledger", "migrate", *where) == 0
        assert len(world.opened().entries()) == n_entries
    assert reading.verify(world.opened())[1] and spent(world.opened()) == Fraction("0.1")
    assert world.opened().entries()[-1].action == "checkpoint"

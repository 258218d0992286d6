"""A ledger or a key store that was restored from an old backup stops releases until it is told."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.support.ledgers import account, reservation
from tests.support.releasing import as_typed, small_release, tracecloak
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import reading
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.errors import UsageError

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
    assert ledger.verify() == []  # its chain is sound
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
    assert ledger.verify() == []
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
    with pytest.raises(LedgerError, match=r"lacks entry 3 .* it is an older copy of it"):
        opened().check_remembered()  # which was left for the other
    older = Ledger(f"sqlite:///{backup}", store=store)
    with pytest.raises(LedgerError, match=r"backup\.sqlite lacks entry 3 .* at another place"):
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
    assert one.verify() == []


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
    assert opened().verify() == []
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
    with pytest.raises(LedgerError, match="notes 3 of its reservations, and it counts 1"):
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

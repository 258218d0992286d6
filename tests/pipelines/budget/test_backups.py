"""A ledger is backed up whole, and one that was restored pays nothing until it is answered for."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from tests.support.ledgers import account, reservation
from tests.support.postgres import database, server
from tests.support.releasing import as_typed
from tracecloak.pipelines.budget.opening import back_up, restore
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.pipelines.ledger.reading import accepted_text
from tracecloak.schemas.errors import UsageError

__all__ = ["database", "server"]  # fixtures

OFFICER = ("A. Officer", "the disk broke")


class Place:
    """Ledgers that two machines share, each with a key store of its own."""

    def __init__(self, folder: Path, url: str, restored_url: str) -> None:
        self.folder, self.url, self.restored_url = folder, url, restored_url
        self.backup = str(folder / "ledger.backup")

    def store(self, name: str) -> KeyStore:
        return KeyStore(self.folder / name)

    def ledger(self, name: str) -> OfficersLedger:
        return OfficersLedger(self.url, new=True, store=self.store(name))

    def restored(self, name: str) -> OfficersLedger:
        return OfficersLedger(self.restored_url, store=self.store(name))

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
    assert place.restored("two").verify() == []
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
    with pytest.raises(UsageError, match="this key store paid nothing with it before"):
        place.restored("new").accept(*OFFICER)
    accepted = place.restored("one").accept(*OFFICER)
    assert [entry.release_id for entry in accepted.again] == ["r3"]
    assert place.restored("two").balance("a").spent_epsilon == Fraction("0.9")
    for name in ("one", "two", "new"):
        place.restored(name).check_remembered()
    place.restored("new").reserve(reservation(5, "0.1"))
    assert place.restored("one").verify() == []


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
    with pytest.raises(
        UsageError, match=f"does not wait for key store 'none'; it waits for {name}"
    ):
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
        with pytest.raises(UsageError, match="is not whole"):
            place.restore()
        assert not (place.folder / "second.sqlite").exists()
    Path(place.backup).write_bytes(whole)
    place.restore()


def test_neither_a_ledger_nor_a_backup_is_replaced(place: Place) -> None:
    place.ledger("one").reserve(reservation(1))
    back_up(place.ledger("one"), place.backup)
    with pytest.raises(UsageError, match="may be the last good backup"):
        back_up(place.ledger("one"), place.backup)
    with pytest.raises(UsageError, match="has entries, and what they say was spent is not"):
        restore(place.store("one"), place.url, place.backup, *OFFICER)
    assert len(place.ledger("one").entries()) == 1


def test_a_restore_that_is_killed_leaves_no_entry(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a ledger that has half of what was spent."""
    for number in range(4):
        place.ledger("one").reserve(reservation(number))
    back_up(place.ledger("one"), place.backup)
    monkeypatch.setattr("tracecloak.pipelines.budget.opening._ROWS_AT_ONCE", 2)
    original = range

    def cut_off(*bounds: int) -> object:
        yield from list(original(*bounds))[:1]
        raise KeyboardInterrupt

    monkeypatch.setattr("tracecloak.pipelines.budget.opening.range", cut_off, raising=False)
    with pytest.raises(KeyboardInterrupt):
        place.restore()
    monkeypatch.undo()
    with pytest.raises(UsageError, match="does not exist"):
        OfficersLedger(place.restored_url)
    place.restore()
    assert len(OfficersLedger(place.restored_url).entries()) == 5


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

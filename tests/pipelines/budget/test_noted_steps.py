"""Steps of streams in the ledger, and who may begin an epoch or a window: one key store."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.support.books import book_of, of_window, units
from tests.support.ledgers import account, begun_at_once, faults, reservation
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger.database import MadeByAnother
from tracecloak.pipelines.ledger.entries import Entry, KeyedRelease, Reservation
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.snapshot import problems
from tracecloak.schemas.errors import GuaranteeError, UsageError

EPOCH = ("/out", "ward@1", "k")
ONE, OTHER = "1" * 64, "2" * 64


def decided_of(entries: Sequence[Entry], keyed_release: KeyedRelease) -> dict[int, str]:
    return dict(
        e.decided for e in entries if e.decided is not None and e.keyed_release == keyed_release
    )


def epoch(**changes: Any) -> Reservation:
    return reservation(release_id="ward@1", **changes)


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Ledger]:
    """Opens the ledger with a key store, by its name."""

    def opened(store: str = "keys", **named: Any) -> Ledger:
        url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
        return Ledger(url, new=True, store=KeyStore(tmp_path / store), **named)

    return opened


@pytest.fixture
def ledger(opened: Callable[..., Ledger]) -> Ledger:
    """A ledger in which one epoch is paid."""
    ledger = opened()
    ledger.reserve(epoch())
    ledger.commit(*EPOCH)
    return ledger


# --- Steps ------------------------------------------------------------------------------------


def test_a_step_is_noted_once_and_changes_no_charge(ledger: Ledger) -> None:
    before = ledger.balance("a")
    for step in (0, 1, 1, 0):
        ledger.note_step(EPOCH, step, ONE)
    assert [e.action for e in ledger.entries()] == ["reserve", "commit", "step", "step"]
    assert decided_of(ledger.entries(), EPOCH) == {0: ONE, 1: ONE}
    assert decided_of(ledger.entries(), ("/out", "ward@2", "k")) == {}
    past = ledger.past()
    assert past.last_decided(EPOCH) == 1 and past.decided(EPOCH, 0) == ONE
    assert past.last_decided(("/out", "ward@2", "k")) is None
    assert faults(ledger) == []
    assert ledger.balance("a") == before
    assert ledger.states(*EPOCH)[-1].last.action == "commit"
    # Who adds up epsilons of the table does not count the epoch again.
    assert [e.epsilon for e in ledger.entries()] == ["0.1", "0.1", None, None]
    ledger.withdraw("/out", "ward@1", "me", "wrong data")
    assert faults(ledger) == []


def test_a_step_that_came_out_otherwise_is_refused(ledger: Ledger) -> None:
    ledger.note_step(EPOCH, 3, ONE)
    with pytest.raises(GuaranteeError, match=r"step 3 of 'ward@1' in /out was decided"):
        ledger.note_step(EPOCH, 3, OTHER)
    assert decided_of(ledger.entries(), EPOCH) == {3: ONE}


def test_a_step_of_an_epoch_that_is_not_paid_or_withdrawn_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="was never reserved"):
        ledger.note_step(("/out", "ward@1", "other key"), 0, ONE)
    ledger.withdraw("/out", "ward@1", "me", "wrong data")
    with pytest.raises(UsageError, match="is withdrawn"):
        ledger.note_step(EPOCH, 0, ONE)


ODD_STEPS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("ward@1", {"step": 0, "sha256": ONE}, "step 0 is decided twice"),
    ("ward@2", {"step": 0, "sha256": ONE}, "step without commit"),
    ("ward@1", {"step": -1, "sha256": ONE}, "step or sha256 is not valid"),
    ("ward@1", {"step": True, "sha256": ONE}, "step or sha256 is not valid"),
    ("ward@1", {"step": 1, "sha256": "1"}, "step or sha256 is not valid"),
    ("ward@1", {}, "step or sha256 is not valid"),
)


def test_steps_that_no_ledger_writes_are_noticed(ledger: Ledger) -> None:
    ledger.note_step(EPOCH, 0, ONE)
    entries = ledger.entries()
    for release_id, details, told in ODD_STEPS:
        columns = asdict(entries[-1]) | {"release_id": release_id}
        odd = Entry.after(entries[-1], "step", columns, details)
        assert problems([*entries, odd]) == [f"entry 4: {told}"]


def test_steps_that_a_restored_ledger_has_forgotten_are_not_decided_again(
    ledger: Ledger, opened: Callable[..., Ledger], tmp_path: Path
) -> None:
    file, store = tmp_path / "shared.sqlite", KeyStore(tmp_path / "keys")
    store.reserve(*EPOCH[:2], "", "c")
    ledger.note_step(EPOCH, 0, ONE)
    shutil.copy(file, tmp_path / "backup")
    for step in (1, 2):
        ledger.note_step(EPOCH, step, OTHER)
        store.note_step(*EPOCH[:2], step)
    shutil.copy(tmp_path / "backup", file)
    restored = opened()
    assert "lacks entry 5" in restored.complaints()[0]
    restored.accept("me", "the disk broke")
    with pytest.raises(GuaranteeError, match="step 2 of 'ward@1' in /out was decided before"):
        restored.note_step(EPOCH, 2, OTHER)
    restored.note_step(EPOCH, 3, ONE)
    assert decided_of(restored.entries(), EPOCH) == {0: ONE, 3: ONE}
    assert faults(restored) == [] and opened().complaints() == []


def test_a_receipt_has_the_last_step_and_goes_never_back(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys")
    with pytest.raises(KeyStoreError, match="the receipt of release_id 'ward@1' in"):
        store.note_step("/out", "ward@1", 0)
    store.reserve("/out", "ward@1", "", "c")
    found = []
    for step in (0, 1, 0):
        store.note_step("/out", "ward@1", step)
        found.append(store.last_step("/out", "ward@1"))
    assert found == [0, 1, 1]
    store.commit("/out", "ward@1")
    assert store.last_step("/out", "ward@1") == 1


# --- One key store for an epoch, or a window --------------------------------------------------


@pytest.mark.parametrize("other", [{}, {"account": "b"}, {"epsilon": "0.2", "config_digest": "d"}])
def test_another_key_store_does_not_pay_for_an_epoch_again(
    ledger: Ledger, opened: Callable[..., Ledger], other: dict[str, Any]
) -> None:
    theirs = opened("their keys")
    with pytest.raises(MadeByAnother, match=r"'ward@1'.*nothing is paid here.*another") as no:
        theirs.reserve(epoch(key_fingerprint="k2", **other))
    assert no.value.exit_code == 75
    assert len(ledger.entries()) == 2
    ledger.reserve(epoch())  # whose it is goes on for nothing
    theirs.reserve(reservation(release_id="ward@2", key_fingerprint="k2"))
    theirs.reserve(epoch(output="/other", key_fingerprint="k2"))
    assert ledger.balance("a").n_releases == 3


def test_a_window_that_was_released_while_another_looked_is_not_paid_twice(
    opened: Callable[..., Ledger],
) -> None:
    """Between its look at the output and its reservation, the other's release became visible."""
    ledger, other = opened(), opened("their keys")
    ledger.reserve(of_window(1, "2026-11"))
    book_of(ledger).claim("/out", "r1", "k", units(["c"]))
    ledger.draw("/out", "r1", "k")
    ledger.commit("/out", "r1", "k")
    before = ledger.entries()
    with pytest.raises(MadeByAnother, match=r"which paid for it.*which finds it"):
        other.reserve(of_window(1, "2026-11", key_fingerprint="k2"))
    assert ledger.entries() == before


@pytest.mark.parametrize("release_id", ["ward@1", "r"])
def test_of_many_key_stores_at_once_one_pays(
    opened: Callable[..., Ledger], tmp_path: Path, release_id: str
) -> None:
    """Catches a look for others outside the transaction that reserves."""
    opened().declare_account(account("9"), "me", "a cap that all of them fit into")
    assert begun_at_once(f"sqlite:///{tmp_path / 'shared.sqlite'}", tmp_path, release_id) == 1
    assert opened().balance("a").n_releases == 1
    assert faults(opened()) == []


def test_an_epoch_whose_key_store_is_lost_can_be_taken_back(opened: Callable[..., Ledger]) -> None:
    """Also where it was lost between the reservation and the word that it has begun."""
    opened("lost").reserve(epoch())
    with pytest.raises(MadeByAnother):
        opened("other").reserve(epoch(key_fingerprint="k2"))
    ledger = opened("other")
    ledger.withdraw("/out", "ward@1", "officer", "the machine is gone")
    assert faults(ledger) == []
    with pytest.raises(UsageError, match="withdrawn"):
        ledger.reserve(epoch(key_fingerprint="k2"))

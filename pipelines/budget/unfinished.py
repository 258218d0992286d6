"""Releases that were cut off: what waits for a rerun, and how one is given up.

A release that somebody ends by hand: where each of its keys is, and where it was built with it.

The ledger says both, to whoever ends it, as the key store that made it may be on another machine.

Taking a release back: its files go, what it spent stays, and the ledger says who and why.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracecloak.pipelines.budget.registry import ReleaseRegistry, ledger_state
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.notes import noted_results
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.pipelines.ledger.reading import text_of
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import absolute, is_on_this_machine, remove_folder
from tracecloak.transforms.operator_log import operator_log
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.stream.step_sinks import epoch_folder, epoch_workplace


def resume_text(store: KeyStore, ledger: Ledger) -> str:
    """Returns what waits for a rerun, for the reader: what it holds, and what can be done with it.

    Raises:
        LedgerError: The ledger cannot be read.
        KeyStoreError: The key store cannot be read.
    """
    entries = ledger.entries()
    keys = {
        receipt.key_fingerprint
        for receipt in store.receipts(".key")
        if store.key_state(receipt) == "there"
    }
    results = _lone_results(store, entries)
    return text_of("unfinished", open=_unfinished(entries), keys=keys, results=results)


def forfeit(
    store: KeyStore, ledger: OfficersLedger, output: str, release_id: str, by: str, reason: str
) -> Ended:
    """Gives up a release that was cut off: it stays spent, its key and its workplace go.

    The ledger first: what still goes on is stopped there. A job on a cluster is stopped by its key
    and its workplace, which it looks for before it commits.

    Args:
        store: The key store of its runs; without its key it can be given up all the same.
        ledger: The ledger that it was charged to.
        output: The folder of all releases.
        release_id: The release's name.
        by: Who gives it up.
        reason: Why.

    Returns:
        What became of it: whether its key was here, and who else has one.

    Raises:
        UsageError: Nothing of it is open, or it is visible: then it is finished. Or it is an epoch
            of a stream.
        RetryLater: A run of it is at work on this machine.
        LedgerError: The ledger cannot be used.
        KeyStoreError: The key store cannot be used.
    """
    if "@" in release_id:
        raise UsageError(
            f"{release_id!r} is an epoch of a stream, which is paid as a whole when it begins: run "
            "the stream again, or use `tracecloak ledger withdraw`"
        )
    place = absolute(output)
    receipt = store.receipt(place, release_id)
    final = ReleaseFolder(place, release_id).final
    with store.alone(place, release_id), operator_log(store.operator_folder(place, release_id)):
        built = builds_of(ledger.past().release_entries(place, release_id))
        states = ledger.states(place, release_id)
        ended = [state.last for state in states if state.last.is_open]
        for entry in ended:
            books = ReleaseRegistry(store, ledger, built[entry.key_fingerprint])
            if books.shows(entry.key_fingerprint) == "this release":
                books.finish(entry.key_fingerprint)
                raise UsageError(
                    f"release {release_id!r} in {place} is complete, and the ledger contains "
                    "that now; take it back with `tracecloak ledger withdraw`"
                )
            books.note_cases(entry.key_fingerprint)
            # The ledger first: what draws meanwhile is stopped there.
            ledger.forfeit(*entry.keyed_release, by, reason)
        keys = {entry.key_fingerprint for entry in ended}
        own, results = built if receipt is None else (receipt.key_fingerprint,), []
        if not ended:  # it may have left its key here, or the result of its query
            lone = _lone_results(store, ledger.entries())
            results = [one for one in lone if (one.output, one.release_id) == (place, release_id)]
            if any(ledger_state(states, key) == "given up" for key in own):
                keys = {*built, *own}
        for folder in (*(built[key] for key in keys & {*built}), *results):
            folder.clear()
        had_key = bool(results or keys & {*own}) and store.forget(place, release_id)
    if not (ended or had_key or results):
        raise UsageError(
            f"release {release_id!r} in {place} has no open reservation in {ledger.place}; see "
            "`tracecloak ledger list-unfinished`"
        )
    others = elsewhere(built, [entry.key_fingerprint for entry in ended], receipt)
    return Ended(final, had_key, others, was_reserved=not results)


def _lone_results(store: KeyStore, entries: Sequence[Entry]) -> list[ReleaseFolder]:
    """Returns where results of queries lie that nothing was reserved or drawn for."""
    charged = {entry.keyed_release[:2] for entry in _unfinished(entries)}
    return [
        folder
        for folder in noted_results(store)
        if (folder.output, folder.release_id) not in charged
        and store.ledger_of(folder.output, folder.release_id) is None  # nor in another ledger
    ]


def _unfinished(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in charges(entries).values() if entry.is_open]


@dataclass(frozen=True)
class Ended:
    """How a release was ended.

    Attributes:
        folder: Where it was, or would have been.
        had_key: Whether its key was in this key store, which destroyed it.
        elsewhere: The key stores, by their names in the ledger, that made it and have no receipt
            here. Their keys, and the copies of these for workers, nobody here can reach.
        was_reserved: Whether anything was paid for it.
    """

    folder: str
    had_key: bool
    elsewhere: tuple[str, ...] = ()
    was_reserved: bool = True


def builds_of(entries: Sequence[Entry]) -> dict[str, ReleaseFolder]:
    """Returns where a release was made, and with which key store, by its keys' fingerprints.

    The store is as `KeyStore.identity` has it; empty: the ledger names none. Of an epoch of a
    stream, it is the folder of the stream.

    Args:
        entries: Those of the ledger about the release.
    """
    return {
        entry.key_fingerprint: ReleaseFolder(
            entry.output,
            entry.release_id.partition("@")[0],
            entry.facts.get("staging_area"),
            store=str(entry.facts.get("store", "")),
        )
        for entry in entries
        if entry.action == "reserve"
    }


def elsewhere(
    built: Mapping[str, ReleaseFolder],
    key_fingerprints: Iterable[str],
    receipt: Receipt | None,
) -> tuple[str, ...]:
    """Returns which key stores made what is ended, without the one that has its receipt.

    That one is known by the receipt and not by its own name, since the name needs a secret that may
    be wrapped in a key that is lost.

    Args:
        built: As `builds_of` returns it.
        key_fingerprints: The keys of what is ended.
        receipt: What this key store has of it; None: nothing.
    """
    own = None if receipt is None else built.get(receipt.key_fingerprint)
    stores = {built[key].store for key in key_fingerprints}
    return tuple(sorted(stores - {own and own.store}))


def withdraw(
    store: KeyStore, ledger: OfficersLedger, output: str, release_id: str, by: str, reason: str
) -> Ended:
    """Takes a committed release back; what was cut off is finished by the same call again.

    The ledger first, then the receipt, then the files: so nothing is gone of which nobody says why,
    and no run takes what is still there for a release.

    Args:
        store: The key store; whether it made the release is of no account.
        ledger: The ledger that the release was charged to.
        output: The folder of all releases.
        release_id: The release's name; of a stream that of one epoch, `NAME@EPOCH`, which goes with
            all its steps. It must have been stopped: what runs elsewhere goes on publishing.
        by: Who takes it back.
        reason: Why.

    Returns:
        What became of it: whether its key was here still, and who else made it.

    Raises:
        UsageError: The ledger knows no such release, or it is not committed.
        RetryLater: A run of this release is at work.
        LedgerError: The ledger cannot be used.
    """
    place = absolute(output)
    with store.alone(place, release_id):
        receipt = store.receipt(place, release_id)
        ledger.withdraw(place, release_id, by, reason)
        # The key of a stream, which may have steps to publish, goes as well.
        had_key = receipt is not None and store.commit(place, release_id)
        built = builds_of(ledger.past().release_entries(place, release_id))
        others = elsewhere(built, built, receipt)
        internal = store.operator_folder(place, release_id)
        name, at, epoch = release_id.partition("@")
        if at:
            areas = {folder.staging_area for folder in built.values()}
            places = [epoch_workplace(place, name, epoch, area) for area in areas]
            return Ended(_remove_epoch(place, name, epoch, *places, internal), had_key, others)
        for folder in built.values():
            folder.withdraw(_newest(ledger, folder), internal)
    return Ended(ReleaseFolder(place, release_id).final, had_key, others)


def _remove_epoch(output: str, name: str, epoch: str, *others: str) -> str:
    """Removes what an epoch of a stream published, and others, and returns where that was."""
    published = epoch_folder(output, name, epoch)
    for folder in (published, *others):
        remove_folder(folder)
    if is_on_this_machine(output):
        with contextlib.suppress(OSError):  # unless it has other epochs, or is gone
            Path(published).parent.rmdir()
    return published


def _newest(ledger: Ledger, withdrawn: ReleaseFolder) -> str | None:
    """Returns the release of the same folder that was committed last and is there."""
    for entry in reversed(ledger.entries()):
        is_other = entry.output == withdrawn.output and entry.release_id != withdrawn.release_id
        if is_other and entry.action == "commit" and "@" not in entry.release_id:
            folder = ReleaseFolder(entry.output, entry.release_id)
            if folder.committed() is not None:
                return folder.release_id
    return None

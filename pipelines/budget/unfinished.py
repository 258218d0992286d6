"""Releases that were cut off: what waits for a rerun, and how one is given up."""

from __future__ import annotations

from collections.abc import Sequence

from tracecloak.pipelines.budget.books import Books
from tracecloak.pipelines.budget.ended import Ended, elsewhere, makings
from tracecloak.pipelines.budget.standing import ledger_says
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.keys.results import forget_result, noted_results
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import absolute
from tracecloak.transforms.operator_log import operator_log
from tracecloak.transforms.publish.release_folder import ReleaseFolder


def resume_text(store: KeyStore, ledger: Ledger) -> str:
    """Returns what waits for a rerun, for the reader: what it holds, and what can be done with it.

    Raises:
        LedgerError: The ledger cannot be read.
        KeyStoreError: The key store cannot be read.
    """
    entries = ledger.entries()
    keys = {receipt.key_fingerprint for receipt in store.all_unfinished()}
    waiting = [_unfinished_text(e, e.key_fingerprint in keys) for e in _unfinished(entries)]
    waiting += map(_result_text, _lone_results(store, entries))
    if not waiting:
        return "Nothing waits: every release is committed, or was given back or given up.\n"
    return "\n".join(waiting)


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
            f"{release_id!r} is an epoch of a stream, which is paid as a whole when it begins: "
            "there is nothing to give up. Run the stream again to go on with it, or take the epoch "
            f"back with `tracecloak ledger withdraw --release_id {release_id}`"
        )
    place = absolute(output)
    receipt = store.receipt(place, release_id)
    final = ReleaseFolder(place, release_id).final
    with store.alone(place, release_id), operator_log(store.operator_folder(place, release_id)):
        entries = ledger.entries()
        making_by_key = makings(entries, place, release_id)
        open_charges = [
            entry for entry in _unfinished(entries) if entry.of_key[:2] == (place, release_id)
        ]
        if not open_charges and _was_given_up(entries, place, release_id, receipt):
            for making in making_by_key.values():  # cut off after the ledger was told
                making.folder(place, release_id).clear()
            if store.forget(place, release_id):
                return Ended(final, had_key=True)
        for folder in _lone_results(store, entries):
            if (folder.output, folder.release_id) == (place, release_id):
                folder.clear()
                forget_result(store, folder)
                return Ended(final, store.forget(place, release_id), was_reserved=False)
        if not open_charges:
            raise UsageError(
                f"release {release_id!r} in {place} has no open reservation in {ledger.place}; "
                "`tracecloak ledger list-unfinished` lists those that have one"
            )
        had_key = False
        for entry in open_charges:
            books = Books(
                store, ledger, making_by_key[entry.key_fingerprint].folder(place, release_id)
            )
            if books.shows(entry.key_fingerprint) == "this release":
                books.finish(entry.key_fingerprint)
                raise UsageError(
                    f"release {release_id!r} in {place} is visible and complete, which the ledger "
                    "says now, too, so there is nothing to give up; take it back with `tracecloak "
                    "ledger withdraw`"
                )
            books.note_cases(entry.key_fingerprint)
            # The ledger first: what draws meanwhile is stopped there.
            ledger.forfeit(*entry.of_key, by, reason)
            books.folder.clear()
            if receipt is None or receipt.key_fingerprint == entry.key_fingerprint:
                had_key |= store.forget(place, release_id)
        keys = [entry.key_fingerprint for entry in open_charges]
    return Ended(final, had_key, elsewhere(making_by_key, keys, receipt))


def _lone_results(store: KeyStore, entries: Sequence[Entry]) -> list[ReleaseFolder]:
    """Returns where results of queries lie that nothing was reserved or drawn for."""
    charged = {entry.of_key[:2] for entry in _unfinished(entries)}
    return [
        folder
        for folder in noted_results(store)
        if (folder.output, folder.release_id) not in charged
        and store.ledger_of(folder.output, folder.release_id) is None  # nor in another ledger
    ]


def _was_given_up(
    entries: Sequence[Entry], output: str, release_id: str, receipt: Receipt | None
) -> bool:
    """Whether a release was given up: under the key of its receipt, or of a key that has none."""
    if receipt is not None:
        return ledger_says(entries, output, release_id, receipt.key_fingerprint) == "given up"
    last = charges(entries).values()
    return any(e.of_key[:2] == (output, release_id) and e.action == "forfeit" for e in last)


def _unfinished(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in charges(entries).values() if entry.is_open]


def _result_text(folder: ReleaseFolder) -> str:
    return (
        f"{folder.release_id}  in {folder.output}\n"
        f"  the result of its query lies in {folder.input}, and nothing is reserved\n"
        "  Run the same command again, or delete the result with `tracecloak ledger forfeit`.\n"
    )


def _unfinished_text(entry: Entry, has_key: bool) -> str:
    epsilon = "no finite epsilon" if entry.epsilon is None else f"epsilon {entry.epsilon}"
    if not has_key:
        mend = (
            "Its key is not in this key store: run the same command with the key_store that has "
            "it, or give the release up."
        )
    elif entry.action == "draw":
        mend = (
            "It drew noise. Run the same command again, which finishes it with the same noise and "
            "pays nothing, or give it up, which leaves it spent."
        )
    else:
        mend = "It drew nothing yet. Run the same command again, which pays nothing more."
    return (
        f"{entry.release_id}  in {entry.output}\n"
        f"  {entry.method}, {epsilon}, account {entry.account}, since {entry.recorded_at[:19]}Z\n"
        f"  {mend}\n"
    )

"""What a release is, by three witnesses, and what the next run of its command does.

The witnesses are the ledger, the folder where the release lies, and its key in the key store. A run
can be cut off between any two of its steps, disks are restored from backups, and people give
releases up, so every combination of them can be met: the table below has a row for each. What a
receipt says, of which input and configuration the release was begun, is compared afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tracecloak.pipelines.keys.key_store import KeyState
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.entries import Action, Entry

# What the ledger says of a release under its key. `withdrawn` is so under whatever key, and
# `another ledger` where the release was begun with one that is not asked.
LedgerSays = Literal[
    "nothing", "reserved", "drawn", "committed", "given back", "given up", "withdrawn",
    "another ledger",
]  # fmt: skip
# What a reader sees in the folder: `another's` is a whole release under another key, `parts` files
# of a commit that was cut off, as it can be where files are moved one by one.
FolderShows = Literal["nothing", "this release", "another's", "parts"]

State = Literal[
    "new", "reserved", "drawn", "visible", "released", "gone", "key lost", "given up", "withdrawn",
    "made elsewhere", "another ledger",
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A state, what the witnesses say in it, and what is done.

    Attributes:
        state: What it is called.
        ledger: What the ledger says; empty: whatever it says.
        folder: Likewise.
        key: Likewise.
        next_run: What the next run of the same command does, as a sentence.
    """

    state: State
    ledger: tuple[LedgerSays, ...]
    folder: tuple[FolderShows, ...]
    key: tuple[KeyState, ...]
    next_run: str

    def holds(self, ledger: LedgerSays, folder: FolderShows, key: KeyState) -> bool:
        """Returns whether the witnesses say what this row has."""
        pairs = ((self.ledger, ledger), (self.folder, folder), (self.key, key))
        return all(not asked or said in asked for asked, said in pairs)


TABLE: tuple[Row, ...] = (
    Row("withdrawn", ("withdrawn",), (), (), "It refuses: choose another release_id."),
    Row(
        "made elsewhere", (), ("another's",), (),
        "It refuses: another key store made what is there.",
    ),
    Row(
        "made elsewhere", (), ("this release",), ("none",),
        "It refuses: another key store made what is there.",
    ),
    Row(
        "visible", (), ("this release",), ("there",),
        "It does what comes after the release is visible: the ledger notes it, and the key goes.",
    ),
    Row(
        "released", (), ("this release",), ("ended",),
        "It compares input and configuration, and says that the release is there.",
    ),
    Row(
        "another ledger", ("another ledger",), (), ("there", "ended"),
        "It refuses: name the ledger that the release was begun with.",
    ),
    Row(
        "given up", ("given up",), (), ("there",),
        "It destroys the key, and begins a new release under another one, which is another spend.",
    ),
    Row(
        "drawn", ("drawn", "committed"), (), ("there",),
        "It finishes the release with the same noise, if its input is as it was, and pays nothing.",
    ),
    Row(
        "reserved", ("nothing", "reserved", "given back"), (), ("there",),
        "It goes on if it is the same release, and else gives back what was reserved and begins.",
    ),
    Row(
        "gone", ("committed", "nothing"), (), ("ended",),
        "It refuses: the release was committed, and its files are not there any more.",
    ),
    Row(
        "key lost", ("reserved", "drawn"), (), ("ended",),
        "It ends with 75 until the release is given up: what was paid stays spent.",
    ),
    Row("new", (), (), (), "It begins the release, unless another key is charged for it."),
)  # fmt: skip
"""The rows in their order: the first that holds is the state."""


def state_of(ledger: LedgerSays, folder: FolderShows, key: KeyState) -> State:
    """Returns what a release is, by what the witnesses say of it."""
    return next(row.state for row in TABLE if row.holds(ledger, folder, key))


_SAYS: dict[Action, LedgerSays] = {
    "reserve": "reserved",
    "claim": "reserved",
    "draw": "drawn",
    "commit": "committed",
    "void": "given back",
    "forfeit": "given up",
}


def ledger_says(
    entries: Sequence[Entry], output: str, release_id: str, key_fingerprint: str | None
) -> LedgerSays:
    """Returns what the entries of a ledger say of a release.

    Args:
        entries: All entries.
        output: The folder of all releases.
        release_id: The release's name.
        key_fingerprint: Of its key; None: it has none.
    """
    last = [e for e in charges(entries).values() if e.of_key[:2] == (output, release_id)]
    if any(entry.action == "withdraw" for entry in last):
        return "withdrawn"
    ours = [entry.action for entry in last if entry.key_fingerprint == key_fingerprint]
    for lasting in ("commit", "draw"):  # under one key there is one noise, whatever else is charged
        if lasting in ours:
            return _SAYS[lasting]
    return _SAYS[ours[-1]] if ours else "nothing"

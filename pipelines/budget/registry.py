"""The state of a release by ledger, folder and key, from its reservation to its end.

A run can be cut off between any two of its steps, disks are restored from backups, and people give
releases up, so every combination can be met: the table has a row for each. The ledger is told
first, whatever happens: what it says is what is spent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from tracecloak.pipelines.keys.key_store import KeyState, KeyStore
from tracecloak.pipelines.keys.receipts import Origin, Receipt
from tracecloak.pipelines.ledger.balance import ChargeState
from tracecloak.pipelines.ledger.entries import Action, Entry, KeyedRelease, Reservation
from tracecloak.schemas.errors import BudgetExhausted, ReleaseTaken, TracecloakError, UsageError
from tracecloak.transforms.files import holds_files, join
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.publish.release_folder import ReleaseFolder, key_fingerprint_of

if TYPE_CHECKING:
    from tracecloak.pipelines.ledger.ledger import Ledger

# --- What a release is, by three witnesses, and what the next run of its command does. ------------
# The witnesses are the ledger, the folder where the release lies, and its key in the key store. A
# run can be cut off between any two of its steps, disks are restored from backups, and people
# give releases up, so every combination of them can be met: the table below has a row for each.
# What a receipt says, of which input and configuration the release was begun, is compared
# afterwards.


# What the ledger says of a release under its key. `withdrawn` is so under whatever key, and
# `another ledger` where the release was begun with one that is not asked.
LedgerState = Literal[
    "nothing", "reserved", "drawn", "committed", "given back", "given up", "withdrawn",
    "another ledger",
]  # fmt: skip
# What a reader sees in the folder: `another's` is a whole release under another key, `parts` files
# of a commit that was cut off, as it can be where files are moved one by one.
FolderState = Literal["nothing", "this release", "another's", "parts"]

State = Literal[
    "new", "reserved", "drawn", "visible", "released", "gone", "key lost", "given up", "withdrawn",
    "made elsewhere", "another ledger",
]  # fmt: skip


class Row(NamedTuple):
    """A state, what the witnesses say in it, and what is done.

    Attributes:
        state: What it is called.
        ledger: What the ledger says; empty: whatever it says.
        folder: Likewise.
        key: Likewise.
        next_run: What the next run of the same command does, as a sentence.
    """

    state: State
    ledger: tuple[LedgerState, ...]
    folder: tuple[FolderState, ...]
    key: tuple[KeyState, ...]
    next_run: str


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


def state_of(ledger: LedgerState, folder: FolderState, key: KeyState) -> State:
    """Returns what a release is, by what the witnesses say of it."""
    said = ledger, folder, key
    rows = ((row, zip((row.ledger, row.folder, row.key), said, strict=True)) for row in TABLE)
    return next(r.state for r, pairs in rows if all(not ask or one in ask for ask, one in pairs))


_SAYS: dict[Action, LedgerState] = {
    "reserve": "reserved",
    "claim": "reserved",
    "draw": "drawn",
    "commit": "committed",
    "void": "given back",
    "forfeit": "given up",
}


def ledger_state(states: Sequence[ChargeState], key_fingerprint: str | None) -> LedgerState:
    """Returns what a ledger says of a release.

    Args:
        states: Its charges, under whatever key, the latest one last.
        key_fingerprint: Of its key; None: it has none.
    """
    if any(state.last.action == "withdraw" for state in states):
        return "withdrawn"
    ours = [one.last.action for one in states if one.last.key_fingerprint == key_fingerprint]
    for lasting in ("commit", "draw"):  # under one key there is one noise, whatever else is charged
        if lasting in ours:
            return _SAYS[lasting]
    return _SAYS[ours[-1]] if ours else "nothing"


# --- What ledger, key store and folder are told of one release, from its reservation to its end. --


_LOG = logging.getLogger("tracecloak")


class AfterReleaseError(TracecloakError, exit_code=7, section="A step after the release failed"):
    """The release is complete and visible, but a step after it failed."""


@dataclass(frozen=True)
class ReleaseState:
    """What a release is now.

    Attributes:
        state: See `TABLE`.
        receipt: Of what it was begun; None: this key store did not begin it.
    """

    state: State
    receipt: Receipt | None


@dataclass(frozen=True)
class ReleaseRegistry:
    """Where it is written down what became of a release.

    Attributes:
        store: Keys and receipts.
        ledger: Who paid.
        folder: Where the release is built and will lie.
        epoch: Name of the epoch of a stream, whose folder other epochs have as well; empty: it is
            of a release.
    """

    store: KeyStore
    ledger: Ledger
    folder: ReleaseFolder
    epoch: str = ""

    @property
    def named(self) -> tuple[str, str]:
        """The folder of all releases, and the name by which ledger and key store know this one."""
        return self.folder.output, self.epoch or self.folder.release_id

    def look(self) -> ReleaseState:
        """Returns what the release is now.

        Raises:
            LedgerError: The ledger cannot be read.
            KeyStoreError: The key store cannot be read.
        """
        named = self.named
        receipt = self.store.receipt(*named)
        key = self.store.key_state(receipt)
        fingerprint = None if receipt is None else receipt.key_fingerprint
        says = ledger_state(self.ledger.states(*named), fingerprint)
        if key != "none" and says == "nothing":
            from tracecloak.pipelines.ledger.database import place_of

            begun_with = self.store.ledger_of(*named)
            if begun_with is not None and place_of(begun_with) != self.ledger.place:
                says = "another ledger"
        return ReleaseState(state_of(says, self.shows(fingerprint), key), receipt)

    def shows(self, key_fingerprint: str | None) -> FolderState:
        """Returns what a reader sees in the place of the release, for who has a key of it."""
        manifest = self.folder.committed()
        if manifest is not None:
            made_with = key_fingerprint_of(manifest)
            is_ours = made_with is not None and made_with == key_fingerprint
            return "this release" if is_ours else "another's"
        return "parts" if holds_files(self.folder.final) else "nothing"

    def refusal(self, standing: ReleaseState) -> TracecloakError | None:
        """Returns why the next run refuses, in a state in which it does; None: it does not.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        from tracecloak.pipelines.ledger.database import MadeByAnother, place_of

        output, release_id = self.named
        where, state = f"release_id {release_id!r} in {output}", standing.state
        if state == "made elsewhere":
            if any(one.window is not None for one in self.ledger.states(output, release_id)):
                return MadeByAnother(
                    f"{where} is of a window that another key store released: run again, which "
                    "finds it; if that one was cut off, run again with its key store"
                )
        begun_with = self.store.ledger_of(output, release_id) if state == "another ledger" else None
        why = {
            "withdrawn": "was withdrawn; choose another release_id, which is another spend",
            "made elsewhere": "was made with another key store, so its input is not known here; "
            "use the key_store of that run, or choose another release_id",
            "another ledger": f"was begun with {begun_with and place_of(begun_with)} and is not "
            "finished; name that ledger, or use `tracecloak ledger forfeit` with it",
            "gone": f"was committed, and {self.folder.final} is gone: mount its disk or restore "
            "the files, and run again; or note the loss with `tracecloak ledger withdraw`; or "
            "choose another release_id, which is another spend",
        }
        return ReleaseTaken(f"{where} {why[state]}") if state in why else None

    def reserve(
        self, digests: tuple[str, str], origin: Origin, asked: Callable[[str], Reservation]
    ) -> tuple[KeyReference, Receipt]:
        """Makes or returns the key of the release, and takes what it costs from its account.

        Args:
            digests: (Fingerprint of the input, digest of the configuration).
            origin: What else it is made of.
            asked: Returns what it costs, by the fingerprint of its key.

        Returns:
            Where the key is, and of what the release is begun.

        Raises:
            UsageError: It was begun otherwise, or its account may not pay for it.
            BudgetExhausted: The account has too little left.
            MadeByAnother: Another key store began it.
            LedgerError: The ledger cannot be used.
            KeyStoreError: The key store cannot be used.
        """
        from tracecloak.pipelines.ledger.database import MadeByAnother

        is_new = self.store.unfinished(*self.named) is None
        key = self.store.reserve(*self.named, *digests, origin)
        ends_all: tuple[type[BaseException], ...] = (BaseException,)  # the ledger knows nothing yet
        try:
            begun = self.store.receipt(*self.named)
            assert begun is not None  # it was written
            reservation = asked(key.fingerprint)
            # Refused, nothing is charged or drawn under a new key. With an old one something may
            # be, and after any other error the ledger may hold the charge: those keys stay.
            ends_all = (UsageError, BudgetExhausted, MadeByAnother)
            self.ledger.reserve(reservation)
        except BaseException as error:
            if is_new and isinstance(error, ends_all):
                self.store.forget(*self.named)
                if not self.epoch:
                    self.folder.clear()
            raise
        return key, begun

    def begin_anew(self, found: ReleaseState) -> None:
        """Ends here what drew nothing, or was given up elsewhere, so that another can begin.

        What drew nothing is given back first.

        Raises:
            UsageError: It may have drawn noise.
            LedgerError: The ledger cannot be used: to go on would be to pay twice with one key.
            KeyStoreError: The key store cannot be used.
        """
        receipt = found.receipt
        assert receipt is not None  # or nobody could tell that it was begun
        keyed_release = self.keyed_release(receipt.key_fingerprint)
        if found.state != "given up" and not self.ledger.void(*keyed_release):
            raise receipt.cannot_go_on("what it is made of, or who pays, changed since")
        replace(self.folder, staging_area=receipt.origin.staging_area).clear(keeps_input=True)
        self.store.forget(receipt.output, receipt.release_id)

    def void(self, key_fingerprint: str) -> bool:
        """Nothing of the release is visible: what was reserved is free again, if nothing was drawn.

        Where that cannot be written down, the key stays, so a further run draws nothing new.

        Returns:
            Whether it is free, or why not was told.
        """
        try:
            if not self.ledger.void(*self.keyed_release(key_fingerprint)):
                return False
            self.folder.clear()
            self.store.forget(*self.named)
        except Exception as error:
            from tracecloak.pipelines.runners.failures import reason_of

            _LOG.warning(
                "nothing was released, which was not recorded: %s. Run again, or it may stay spent",
                reason_of(error),
            )
        return True

    def keyed_release(self, key_fingerprint: str) -> KeyedRelease:
        """Returns the names by which the ledger knows the release."""
        return *self.named, key_fingerprint

    def charges(self, key_fingerprint: str) -> list[Entry]:
        """Returns the last entries of the release's charges under a key, the latest one last.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        return [state.last for state in self.ledger.states(*self.keyed_release(key_fingerprint))]

    def decisions(self, key_fingerprint: str) -> str:
        """Returns where what is decided under a key is kept.

        Another key store may release to the same output.
        """
        return join(self.folder.decisions, key_fingerprint)

    def sketch_path(self, key_fingerprint: str) -> str:
        """Returns where a run under a key puts the sketch of the cases that it read."""
        return join(self.decisions(key_fingerprint), "cases.sketch")

    def note_cases(self, key_fingerprint: str) -> None:
        """Notes which cases a run read that drew noise, if it came to know; see `noted_cases`."""
        from tracecloak.pipelines.ledger.noted_cases import note_cases

        path = self.sketch_path(key_fingerprint)
        note_cases(self.ledger, self.keyed_release(key_fingerprint), path)

    def finish(self, key_fingerprint: str) -> None:
        """What comes after the release is visible.

        Raises:
            AfterReleaseError: It failed; running the release again is the remedy.
        """
        folder = self.folder
        try:
            self.note_cases(key_fingerprint)
            folder.point_latest()
            self.ledger.commit(*self.keyed_release(key_fingerprint))
            folder.clear()
            self.store.commit(*self.named)
        except BaseException as error:  # an interrupt, too: the release is visible
            raise after_release(folder, error) from error


def after_release(folder: ReleaseFolder, error: BaseException) -> AfterReleaseError:
    """Returns what to say where a step failed and the release is visible."""
    from tracecloak.pipelines.runners.failures import reason_of

    return AfterReleaseError(
        f"the release in {folder.final} is complete, but a step after it failed: "
        f"{reason_of(error)}. Run the same command again"
    )

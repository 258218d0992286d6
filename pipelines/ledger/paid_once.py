"""A release of one name in one output is paid once, and made by whoever began it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracecloak.pipelines.ledger.balance import charge_states, charges
from tracecloak.pipelines.ledger.database import MadeElsewhere
from tracecloak.pipelines.ledger.entries import Entry, Reservation
from tracecloak.schemas.errors import UsageError


def is_charged(entries: Sequence[Entry], reservation: Reservation) -> bool:
    """Returns whether a reservation is charged already.

    Args:
        entries: Those of the ledger about the output and the name of the release.
        reservation: Of the release.

    Raises:
        UsageError: The release was withdrawn, or is charged to another window or kind of window.
        MadeElsewhere: It is reserved or visible under another key.
    """
    states = charge_states(entries)
    check_not_withdrawn(state.last for state in states.values())
    ours = states.get(reservation.charge)
    if ours is None or ours.last.action in ("void", "forfeit"):
        check_not_elsewhere(entries, reservation)
    if ours is None or ours.last.action == "void":
        return False
    was, now = ours.window, reservation.window
    places = {None if window is None else window.place for window in (was, now)}
    if len(places) > 1 or (was and now and now.adds_up and not was.adds_up):
        raise UsageError(
            f"release {reservation.release_id!r} in {reservation.output} is charged to "
            f"{'no window' if was is None else f'window {was.label} of scope {was.scope}'}, and "
            f"this run is of {'none' if now is None else f'window {now.label} of {now.scope}'}; "
            "choose another release_id, or set the schedule as it was"
        )
    return True


def check_not_withdrawn(last: Iterable[Entry]) -> None:
    """Makes sure that a release was not withdrawn, as the last entry of each charge shows.

    Raises:
        UsageError: It was.
    """
    for entry in last:
        if entry.action == "withdraw":
            raise UsageError(
                f"release {entry.release_id!r} in {entry.output} was withdrawn on "
                f"{entry.recorded_at[:10]}, and is not released again; choose another release_id, "
                "which is another spend"
            )


def check_not_elsewhere(entries: Sequence[Entry], reservation: Reservation) -> None:
    """Makes sure that nobody else makes the same release.

    Two machines with key stores of their own may be told to do the same at the same time, and one
    may have ended while the other looked.

    Raises:
        MadeElsewhere: The same release is reserved or visible under another key.
    """
    window = reservation.window
    for entry in charges(entries).values():
        is_ours = entry.key_fingerprint == reservation.key_fingerprint
        if is_ours or entry.action in ("void", "forfeit"):
            continue
        begun = (
            f"release {entry.release_id!r} in {entry.output} was begun on "
            f"{entry.recorded_at[:19]}Z with another key store, or with a key that this one lost, "
            "which paid for"
        )
        if "@" in reservation.release_id:
            raise MadeElsewhere(
                f"{begun} the whole epoch, so nothing is paid here. To go on with it here, end it "
                "there and bring that key store, with the state of the stream in it; or begin "
                "another epoch, which is another spend"
            )
        finds = "it, so nothing is paid here: wait until it ends"
        if window is not None:
            finds = f"window {window.label}: wait until it ends and run again, which finds it"
        raise MadeElsewhere(
            f"{begun} {finds}. If it was cut off, run it again with that key store, which finishes "
            "it for nothing, or give it up with `tracecloak ledger forfeit`. If it was visible and "
            "is gone, restore it, or choose another release_id, which is another spend"
        )

"""Earlier syntactic releases that may have cases of one that is made: who makes it is told."""

from __future__ import annotations

import logging

from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.ledger.balance import charge_states
from tracecloak.pipelines.ledger.entries import Reservation
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.schemas.errors import UsageError

_LOG = logging.getLogger("tracecloak")


def warn_of_overlaps(reservation: Reservation, ledger: Ledger) -> None:
    """Tells the operator of earlier syntactic releases that may have cases of this one.

    Two logs in each of which k cases are alike can single somebody out if they are laid side by
    side, and no ledger adds that up. Releases count as of the same log if they are of one data set,
    or, where one of them names none, lie in one folder. Windows of one schedule share no case,
    unless they are the same window. Of the log nothing is looked at, and nobody is refused.

    Args:
        reservation: Of the release that is made.
        ledger: Who pays.
    """
    with ledger.past() as past:
        entries = past.entries()
    places, window = [], reservation.window
    for state in charge_states(entries).values():
        entry, other = state.last, state.window
        is_own = entry.of_key[:2] == (reservation.output, reservation.release_id)
        was_seen = entry.action in ("commit", "withdraw") and _is_syntactic(entry.method)
        datasets = (reservation.dataset, state.reserved.facts.get("dataset"))
        if None in datasets:
            is_of_log = entry.output == reservation.output
        else:
            is_of_log = datasets[0] == datasets[1]
        is_apart = (
            window is not None
            and other is not None
            and other.scope == window.scope
            and other.label != window.label
        )
        if was_seen and is_of_log and not is_own and not is_apart:
            places.append(f"{entry.output}/run_id={entry.release_id}")
    if places:
        more = f" and {len(places) - 1} before it" if len(places) > 1 else ""
        _LOG.warning(
            "%s%s may have cases of this release, and promises k alike ones, too: laid side by "
            "side, such releases can single out who is safe in each: see "
            '"Releases of a log that grows" in the documentation',
            places[-1],
            more,
        )


def _is_syntactic(method: str) -> bool:
    """Whether a method that the ledger names is one; of what is not installed nobody can tell."""
    try:
        return method_named(method).guarantee_kind == "syntactic"
    except UsageError:
        return False

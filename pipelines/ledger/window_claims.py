"""What the ledger notes of windows: which units a release counts, and that each is paid once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from tracecloak.pipelines.ledger.entries import (
    Entry,
    OfKey,
    Step,
    WindowCharge,
    windowed,
)
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.past import Past
from tracecloak.schemas.errors import UsageError


def claim(ledger: Ledger, of_key: OfKey, freeze: Callable[[Past, WindowCharge], str]) -> str:
    """Notes which units a release of a window counts. Once noted, they stay.

    Args:
        ledger: The ledger.
        of_key: The folder of all releases, the release's name, and the fingerprint of its key.
        freeze: Is given what the ledger says and the release's window; writes the units that no
            other window has claimed into a file that lasts, and returns its SHA-256. It is called
            while nobody else can claim, or again where somebody did meanwhile.

    Returns:
        The SHA-256 of the file with the units of this release.

    Raises:
        UsageError: There is no such reservation, or no longer, or it is of no window.
        LedgerError: The ledger cannot be used, or somebody changed what it said.
    """
    sha256 = ""

    def steps(past: Past) -> list[Step]:
        nonlocal sha256
        ledger.check_sound(past)
        entries = past.of_release(*of_key[:2])
        live = ledger.not_ended(entries, of_key)
        window, claimed = _window_of(ledger, entries, live)
        sha256 = freeze(past, window) if claimed is None else claimed
        undrawn = [entry for entry in live if entry.action == "reserve"]
        return [("claim", asdict(entry), {"units": sha256}) for entry in undrawn]

    ledger.append(steps)
    return sha256


def _window_of(
    ledger: Ledger, entries: Sequence[Entry], live: Sequence[Entry]
) -> tuple[WindowCharge, str | None]:
    """Returns the one window of a release's charges, and what it claimed, if it did."""
    of_windows = windowed(entries)
    of_release = [of_windows.get(entry.charge) for entry in live]
    windows = {None if one is None else one.window.place for one in of_release}
    first = next((one for one in of_release if one is not None), None)
    if first is None or len(windows) > 1:
        raise UsageError(
            f"release {live[-1].release_id!r} in {live[-1].output} is reserved "
            f"{'for no window' if first is None else 'for several windows'} in "
            f"{ledger.place}; give it up with `tracecloak ledger forfeit`, and choose "
            "another release_id"
        )
    claims = [one.claim for one in of_release if one is not None and one.claim is not None]
    return first.window, claims[-1].units_sha256 if claims else None

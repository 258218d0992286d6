"""What the ledger notes of a release besides its charge: units of a window, steps of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from tracecloak.pipelines.ledger.balance import ChargeState
from tracecloak.pipelines.ledger.caps import NO_COLUMNS
from tracecloak.pipelines.ledger.entries import OfKey, Step, WindowCharge
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.errors import GuaranteeError, UsageError

# --- What the ledger notes of windows: which units a release counts, and that each is paid once. --


def claim(
    ledger: Ledger, of_key: OfKey, freeze: Callable[[LedgerSnapshot, WindowCharge], str]
) -> str:
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

    def steps(past: LedgerSnapshot) -> list[Step]:
        nonlocal sha256
        ledger.check_sound(past)
        live = ledger.not_ended(past.states(*of_key), *of_key[:2])
        window, claimed = _window_of(ledger, live)
        sha256 = freeze(past, window) if claimed is None else claimed
        undrawn = [state.last for state in live if state.last.action == "reserve"]
        return [("claim", asdict(entry), {"units": sha256}) for entry in undrawn]

    ledger.append(steps)
    return sha256


def _window_of(ledger: Ledger, live: Sequence[ChargeState]) -> tuple[WindowCharge, str | None]:
    """Returns the one window of a release's charges, and what it claimed, if it did."""
    places = {None if state.window is None else state.window.place for state in live}
    first = next((state.window for state in live if state.window is not None), None)
    if first is None or len(places) > 1:
        last = live[-1].last
        raise UsageError(
            f"release {last.release_id!r} in {last.output} is reserved "
            f"{'for no window' if first is None else 'for several windows'} in "
            f"{ledger.place}; give it up with `tracecloak ledger forfeit`, and choose "
            "another release_id"
        )
    claims = [state.claim for state in live if state.claim is not None]
    return first, claims[-1].units_sha256 if claims else None


# --- What the ledger notes of a stream: which steps of an epoch are decided, each with a digest. --


def note_step(ledger: Ledger, of_key: OfKey, step: int, sha256: str) -> None:
    """Notes that a step of an epoch is decided. If it is noted already, this does nothing.

    It is called before the step is published: if two runs with one key decide it differently, only
    the first of them goes on.

    Args:
        ledger: The ledger.
        of_key: The folder of all releases, the epoch's name, and the fingerprint of its key.
        step: Number of the step, from 0.
        sha256: Digest of all that it releases.

    Raises:
        UsageError: The epoch was never paid for, or was withdrawn.
        GuaranteeError: The step was decided otherwise before.
        LedgerError: The ledger cannot be used, or somebody changed what it said.
    """

    def steps(past: LedgerSnapshot) -> list[Step]:
        ledger.check_sound(past)
        live = ledger.not_ended(past.states(*of_key), *of_key[:2])
        noted = past.decided(of_key, step)
        if noted not in (None, sha256):
            output, release_id, _ = of_key
            raise GuaranteeError(
                f"step {step} of {release_id!r} in {output} was decided before, and came out "
                "otherwise. That happens if two machines run one epoch, or if a restart lost what "
                "was read: publishing the step now would be a second release of its cases. End one "
                "of the two runs, or begin another epoch, which is another spend"
            )
        # Whose it is, and nothing that could be added up.
        named = zip(("output", "release_id", "key_fingerprint"), of_key, strict=True)
        columns = {**NO_COLUMNS, "account": live[-1].last.account, **dict(named)}
        details = {"step": step, "sha256": sha256}
        return [("step", columns, details)] if noted is None else []

    ledger.append(steps)

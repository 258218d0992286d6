"""What the ledger notes of a stream: which steps of an epoch are decided, each with a digest."""

from __future__ import annotations

from tracecloak.pipelines.ledger.declarations import NO_COLUMNS
from tracecloak.pipelines.ledger.entries import OfKey, Step
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.past import Past
from tracecloak.schemas.errors import GuaranteeError


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

    def steps(past: Past) -> list[Step]:
        ledger.check_sound(past)
        live = ledger.not_ended(past, of_key)
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

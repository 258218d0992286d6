"""Notes on the decided steps of a stream, in the ledger and in the key store.

A stream whose state is lost, and whose files a consumer moved away, looks as if it had published
nothing. Its steps would be drawn once more, on other counts, for one spend. So a step is noted in
the ledger and in the key store before anybody sees a byte of it. A stream that begins with fewer
steps than are noted publishes nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.pipelines.budget.gate import Gate
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.decided_steps import note_step
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.stream.kept_steps import KeptSteps


@dataclass(frozen=True)
class NotedSteps:
    """The steps of one epoch that are decided, as ledger and key store note them; it pickles.

    Attributes:
        gate: Of the epoch; by it workers on this machine find the ledger.
    """

    gate: Gate

    def send(self, released: Step) -> None:
        """Notes that a step is decided, first in the ledger; a step that is noted stays as it is.

        Args:
            released: What the step releases, of which nobody has seen a byte.

        Raises:
            UsageError: The epoch was withdrawn.
            GuaranteeError: The step was decided before, with another release.
            RetryLater: The ledger does not answer now.
            LedgerError: The ledger cannot be used.
            KeyStoreError: The key store cannot be used.
        """
        step = released.key[-1]
        sha256 = hashlib.sha256(released.to_kept()).hexdigest()
        note_step(self.gate.ledger(), self.gate.of_key, step, sha256)
        self.gate.store().note_step(self.gate.output, self.gate.release_id, step)

    def last(self, ledger: Ledger | None = None) -> int | None:
        """Returns the last step that the ledger or the key store notes; None: they note none.

        Args:
            ledger: The ledger that pays; None: as the gate opens it, which keeps a copy of it.

        Raises:
            LedgerError: The ledger cannot be read.
            KeyStoreError: The key store cannot be read.
        """
        ledger = ledger or self.gate.ledger()
        with ledger.past() as past:
            ledger.check_sound(past)
            decided = past.last_decided(self.gate.of_key)
        noted = self.gate.store().last_step(self.gate.output, self.gate.release_id)
        return max((step for step in (decided, noted) if step is not None), default=None)

    def end(self, last_step: int) -> None:
        """Notes that all steps are published: the key of the epoch and its state are deleted.

        Of the key of identities the copy for workers is deleted, unless another epoch of the stream
        needs it.

        Args:
            last_step: The last of the horizon.

        Raises:
            KeyStoreError: The key store cannot be used.
        """
        store = self.gate.store()
        store.note_step(self.gate.output, self.gate.release_id, last_step)
        end_epoch(store, self.gate.output, self.gate.release_id)

    @property
    def has_ended(self) -> bool:
        """Whether the end is noted."""
        store = self.gate.store()
        receipt = store.receipt(self.gate.output, self.gate.release_id)
        return receipt is not None and receipt not in store.with_key_files()


def end_epoch(store: KeyStore, output: str, name: str) -> None:
    """Deletes what only a running epoch needs; see `NotedSteps.end`.

    Args:
        store: The key store.
        output: The folder of all releases.
        name: Of the stream and its epoch.

    Raises:
        KeyStoreError: The key store cannot be used.
    """
    store.commit(output, name)
    identities = f"{name.partition('@')[0]}@"
    epochs = [one.release_id for one in store.with_key_files() if one.output == output]
    if not any(one.startswith(identities) and one != identities for one in epochs):
        store.forget_for_workers(output, identities)


def note_kept(noted: NotedSteps, steps: KeptSteps, key: ReleaseKey) -> None:
    """Notes kept steps that workers decided and could not note themselves.

    Args:
        noted: Of the epoch.
        steps: Where what each of its steps released is kept.
        key: The epoch's.

    Raises:
        TracecloakError: See `NotedSteps`; or what is kept was changed.
    """
    last, last_kept = noted.last(), steps.last()
    for step in range(0 if last is None else last + 1, 0 if last_kept is None else last_kept + 1):
        if (kept_step := steps.of(step, key)) is not None:
            noted.send(kept_step.released)

"""What is noted of an epoch that has begun: its configuration, and its decided steps.

A stream whose state is lost, and whose files a consumer moved away, looks as if it had published
nothing. Its steps would be drawn once more, on other counts, for one spend. So a step is noted in
the ledger and in the key store before anybody sees a byte of it. A stream that begins with fewer
steps than are noted publishes nothing.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracecloak.anonymizers.accounting.composition import decimal_text, total
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.pipelines.budget.draw_guard import DrawGuard
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.claims_and_steps import note_step
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.runners.flags import LOCAL
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.files import join, read_if_there
from tracecloak.transforms.services.kafka_clock import CLOCK_SKEW_US
from tracecloak.transforms.stream.step_files import KeptSteps

# --- The configuration of an epoch that has begun: a vocabulary that grows, and another horizon. --
# A public vocabulary may get more names. A case still counts in one step, with a vector of the
# same clip, over more cells; and noise of the same scale is drawn for each cell, whatever their
# number. So what one case changes over all steps, and epsilon and delta, are as before. The names
# count from the first step on that begins after the stream has started with them: a message that
# was published before that is of `__other__`, or of a closed vocabulary left out, whenever it is
# read. So which cell an event is in is a function of the event and of public numbers, and never
# of how far the messages of others were read. The names are a person's choice, and are never
# taken from the data.
#
# Another horizon is another epoch, since what was published promises this one.


def resumed_config(
    config: StreamConfig, store: KeyStore, clock: Callable[[], float] = time.time
) -> StreamConfig:
    """Returns the configuration with which an epoch begins or goes on. Nothing is written.

    It is the given one, with what is known of names that came later, and under the clip of the
    first vocabulary. If the epoch did not begin with it, and not with fewer names, it is returned
    as it is: its digest is not that of the receipt. So is one that this has returned.

    Args:
        config: What is published, of what.
        store: The key store.
        clock: Seconds since 1970 UTC.

    Raises:
        UsageError: Nothing differs but the horizon, or a vocabulary that cannot grow so.
        TracecloakError: The published manifest is damaged.
    """
    receipt, last_step = store.receipt(*config.place), store.last_step(*config.place)
    is_running = store.key_state(receipt) == "there"
    if receipt is None or config.since or not (is_running or last_step is not None):
        return config
    noted = json.loads(store.names_of(*config.place) or "{}")
    if noted.pop("key", None) != receipt.key_fingerprint:  # or it is of a run that lost its key
        if receipt.config_digest == config.digest:
            return config
        noted = _published(join(config.folder, MANIFEST_NAME))
    noted = {"vocabulary": config.vocabulary, "horizon": config.horizon, "since": {}} | noted
    since: dict[str, int] = noted["since"]
    changed = {"vocabulary": tuple(noted["vocabulary"]), "horizon": noted["horizon"]}
    begun = config.model_copy(update=changed)
    if begun.digest != receipt.config_digest:  # a manifest that was changed is found, too
        return config

    def refused(reason: str, remedy: str) -> UsageError:
        return UsageError(
            f"epoch {config.epoch!r} of {config.release_id!r} was begun with another "
            f"configuration: {reason}. {remedy}, or begin another epoch, which is another spend"
        )

    if begun.horizon != config.horizon:
        charged, _ = total(begun.made_product().spends())
        raise refused(
            f"it is charged epsilon {decimal_text(charged)} for {begun.horizon:,} steps, and each "
            "step promises that",
            f"Set horizon to {begun.horizon} again",
        )
    known, names = {*begun.vocabulary, *since}, set(config.vocabulary)
    if lost := sorted(known - names):
        raise refused(
            f"its vocabulary has {lost[0]!r}, and can only get more names",
            "Add what is missing",
        )
    if is_running and (new := sorted(names - known)):
        now_us: Any = int(clock() * 1e6) + CLOCK_SKEW_US  # no message from then on is read yet
        step = max(int(config.rule.step_of(now_us)) + 1, 0)
        since |= dict.fromkeys(new, step)
        if step >= config.horizon:
            raise refused("no step begins in which more names could count", "Leave them out")
    if since and (config.runner not in (LOCAL, "DirectRunner") or config.product != "dfg"):
        raise refused(
            f"its vocabulary grows with product dfg and runner {LOCAL} alone, as other state has "
            "the numbers of its names for good",
            "Leave the new names out",
        )
    grown = config.grown(begun, since)
    if grown.made_product().spends() != begun.made_product().spends():
        raise refused("more names would need other noise than was paid for", "Leave them out")
    return grown


def _published(path: str) -> dict[str, Any]:
    """Returns the parameters in a manifest, or none if it is not there."""
    try:
        return dict(json.loads(read_if_there(path) or "{}").get("params", {}))
    except (ValueError, TypeError, AttributeError):  # no JSON, or another value than a manifest
        raise TracecloakError(
            f"{path} is damaged, by which the stream knows how its epoch was begun; restore it"
        ) from None


# --- Notes on the decided steps of a stream, in the ledger and in the key store. ------------------


@dataclass(frozen=True)
class NotedSteps:
    """The steps of one epoch that are decided, as ledger and key store note them; it pickles.

    Attributes:
        gate: Of the epoch; by it workers on this machine find the ledger.
    """

    gate: DrawGuard

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

"""The release of one step, the table of products, and a stream as a function of its cases.

Messages get keyed identities, cases close in steps, and each step is released once.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.anonymizers.contract.method import Params
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.schemas.arrays.columnar import digest
from tracecloak.schemas.arrays.merging import Mergeable, Statistics
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.events import (
    ACTIVITY,
    CASE_ID,
    EVENT_ID,
    MAX_TIME_US,
    MIN_TIME_US,
    PUBLISH_TIME,
    SOURCE_ORDER,
    TIMESTAMP,
    ActivityVocabulary,
)
from tracecloak.schemas.events.traces import INDIVIDUAL_ID, TraceBatch
from tracecloak.schemas.plugins import Plugins
from tracecloak.schemas.published.manifest import CONDENSED, Guarantee, Operation
from tracecloak.schemas.published.step import Step, View
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.open_cases import CaseEvents, OpenCases
from tracecloak.schemas.streams.stream_caps import CountedCases, PlacedCases, is_merge_due

# --- Keyed identities for the names in a stream's messages, so that no text meets its state. ------


_KINDS = ("case", "individual", "case of individual", "event", "activity", "event without id")


class Identities:
    """Keyed identities of what the messages of a stream name."""

    def __init__(self, key: ReleaseKey) -> None:
        self._of = {of: key.blocks(f"stream identity/{of}".encode()) for of in _KINDS}

    def keyed(self, events: pa.RecordBatch, rule: ClosingRule, horizon: int) -> CaseEvents:
        """Returns the events with keys for names, as the state of a stream has them.

        An event without an id is identified by its activity and time within its case. What was
        published after the last step has ended is left out: it changes no step. So is what was
        published before its name came to a closed vocabulary.

        Args:
            events: Batch of `MessageFormat.schema`.
            rule: Whose vocabulary is public; where it has a cap, a case is a pair of an individual
                and a case id.
            horizon: Number of steps.
        """
        case, ids = _coded(events, CASE_ID)
        keys, whose = self._of["case"].text_blocks(ids), np.zeros((len(ids), 0), np.uint64)
        if rule.cap is not None:
            individual, names = _coded(events, INDIVIDUAL_ID)
            pairs, case = np.unique(individual * len(ids) + case, return_inverse=True)
            whose = self._of["individual"].text_blocks(names)[pairs // len(ids)]
            # The words of the two kinds are independent, so two pairs agree with chance 2^-128.
            keys = self._of["case of individual"].encrypt(keys[pairs % len(ids)] ^ whose)
        activity, names = _coded(events, ACTIVITY)
        time, published = (np.asarray(events.column(n)) for n in (TIMESTAMP, PUBLISH_TIME))
        given = events.column(EVENT_ID)
        event_ids = self._of["event"].text_blocks(pc.fill_null(given, ""))[:, 0].copy()
        unnamed = np.flatnonzero(np.asarray(given.is_null()))
        if len(unnamed):
            described = np.empty((len(unnamed), 2), np.uint64)
            described[:, 0] = time[unnamed].view(np.uint64)
            described[:, 1] = self._of["activity"].text_blocks(names)[activity[unnamed], 0]
            event_ids[unnamed] = self._of["event without id"].encrypt(described)[:, 0]
        codes = rule.coded(names, activity, published)
        time = published if rule.by_publishing else time
        publish, times = (np.clip(t, MIN_TIME_US, MAX_TIME_US) for t in (published, time))
        orders = np.asarray(events.column(SOURCE_ORDER))
        case = case.astype(np.int32)
        found = CaseEvents(keys, whose, case, publish, times, orders, event_ids, codes)
        within, _ = found.before(rule.step_start(horizon))
        return within.known() if rule.since else within


def _coded(events: pa.RecordBatch, name: str) -> tuple[np.ndarray, pa.StringArray]:
    column = events.column(name)
    return np.asarray(column.indices).astype(np.int64), column.dictionary


# ---
# The loop of a stream, as functions of values: its messages are taken, cases close, the cases of a
# step are counted, the step is decided, and the stream goes on or refuses. The noise is that of
# `anonymizers.streams.continual`. Of the steps before, only the exact counts and what was measured
# of them with noise are needed; the caller keeps both. Whoever keeps the state, and what goes into
# it afterwards, can go on from there, and gets the same releases.
#
# RunningStream is for a stream in one place. On Beam `transforms.stream.beam_stages` has the parts
# of the state in shards, and calls the same functions: the bytes are the same.
#
# Not here: where messages come from, where the state is kept, and the clock.


_LOG = logging.getLogger("tracecloak")
# The name of the statistic by which steps with equal counts of different cases are told apart.
_CASES = "digest of cases"
_N_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class StreamName:
    """What a stream is called, and where its steps lie.

    Attributes:
        release_id: Its name.
        epoch: Which of its epochs: the noise of each is its own.
        noise_digest: Digest of all that determines what is published beside key and input, the
            version of the product included (`contract.identity`).
        start_us: Where step 0 begins, microseconds since 1970 UTC.
        period_us: Length of a step.
        counts_digest: Digest of the cases and counts of the step at hand and of all before it.
            Noise is drawn for these alone: where one case is another, all noise is. Sums over steps
            are sound with that as windows are: whatever is measured is measured in one step, once,
            and kept from then on; so every measured value has one digest and one noise, which is
            independent of that of any other, whether their digests agree or not.
    """

    release_id: str
    epoch: str
    noise_digest: str
    start_us: int
    period_us: int
    counts_digest: str = ""

    @property
    def both(self) -> str:
        """Name and epoch in one: what keys and budgets are kept under."""
        return f"{self.release_id}@{self.epoch}"

    def exhausted_message(self, step: int) -> str:
        """Returns what is said once the last step of the horizon is published."""
        return (
            f"the budget of epoch {self.epoch} of {self.release_id} is spent: step {step} was the "
            "last of its horizon. Begin another epoch, which is another spend"
        )

    def facts(
        self, step: int, horizon: int, spent: tuple[Fraction, Fraction], first: int | None = None
    ) -> dict[str, Any]:
        """Returns what the release of a step says beside its numbers: whose, of when, how dear.

        Args:
            step: Its number.
            horizon: Number of steps.
            spent: Epsilon and delta of all of them.
            first: The first step that it sums up; None: it is of one step.
        """
        first = step if first is None else first
        return {
            "release_id": self.release_id,
            "epoch": self.epoch,
            "step": step,
            "start_us": self.start_us + first * self.period_us,
            "end_us": self.start_us + (step + 1) * self.period_us,
            "n_steps_left": horizon - step - 1,
            **dict(zip(("epsilon", "delta"), map(decimal_text, spent), strict=True)),
        }

    def randomness(self, key: ReleaseKey) -> Randomness:
        """Returns the randomness of the step at hand."""
        return Randomness(key, self.both, self.counts_digest, self.noise_digest)


class StepProduct(Protocol):
    """A product of a stream: what is published of every step, and for which promise.

    Whatever depends on the product is said here, and nobody else tells products apart. The name of
    one is an entry of `anonymizers.streams.steps`.

    Attributes:
        name: As in the configuration and in what is published.
        version: Which of its versions it is, see `contract.Anonymizer`.
        summary: What is published, in a few words.
        Params: The type of its parameters. Those that are keys of a stream's configuration are
            taken from there; the others are its `log_params`, and flags.
        kinds: The statistics that are counted of a step, by name.
        views: Times that it can be published over.
        guarantees: Promises that it can be published for, as `StreamParams.guarantee` has them.
        released: The type of what `publish` returns, which says how it is written.
        operations: What it does to a log, in the words of the XES privacy extension.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    summary: ClassVar[str]
    Params: ClassVar[type[Params]]
    kinds: ClassVar[Mapping[str, type[Mergeable]]]
    views: ClassVar[tuple[View, ...]] = ("window", "total", "sliding")
    guarantees: ClassVar[tuple[Literal["case", "w_event"], ...]] = ("case", "w_event")
    released: ClassVar[type[Step]]
    operations: ClassVar[tuple[Operation, ...]] = (CONDENSED,)
    params: Any

    def __init__(self, params: Any) -> None:
        """Keeps parameters of the type `Params`."""
        self.params = params

    @property
    def horizon(self) -> int:
        """Number of steps."""
        horizon: int = self.params.horizon
        return horizon

    @property
    def inner_versions(self) -> Mapping[str, int]:
        """The versions of what the parameters name, see `contract.Anonymizer`."""
        return {}

    def count(self, traces: TraceBatch) -> Statistics:
        """Returns the exact statistics of cases that close in one step."""

    def publish(
        self, step: int, counted: Statistics, past: Sequence[Any], name: StreamName, key: ReleaseKey
    ) -> tuple[Step, Any]:
        """Returns what is published of a step, and what to keep of it.

        The same arguments give the same result.

        Args:
            step: Its number.
            counted: Its exact statistics, of all its cases.
            past: What was kept of each step before, in their order.
            name: The stream's.
            key: The epoch's.

        Returns:
            The release, and a columnar value to keep, or None: nothing needs to be kept.
        """

    def spends(self) -> tuple[Spend, ...]:
        """Returns the parts of the guarantee, for the whole horizon."""

    def guarantee(self) -> Guarantee:
        """Returns what holds for the whole horizon."""

    def repeated(self, n_times: int, gap: int) -> tuple[Fraction, Fraction]:
        """Returns the (epsilon, delta) of a case that counts in several steps.

        Args:
            n_times: In how many, at most.
            gap: Steps from one to the next, at least.
        """

    def explain(self) -> tuple[str, ...]:
        """Returns, before anything runs, what each step publishes, at which error."""


def kinds_of(product: StepProduct) -> dict[str, type[Mergeable]]:
    """Returns what is counted of a step: the product's statistics, and which cases these were."""
    return {**product.kinds, _CASES: InputDigest}


def counts_digest(before: bytes, step: int, counted: Statistics, key: ReleaseKey) -> bytes:
    """Returns 32 bytes that stand for what was counted in a step and in all steps before it.

    They are keyed, so that nobody without the key finds the counts by trying.

    Args:
        before: That of the step before; empty for step 0.
        step: Its number.
        counted: All that was counted of it, merged.
        key: The epoch's.
    """
    text = f"{before.hex()}\n{step}\n{digest(counted)}"
    return hmac.digest(key.derive(b"stream counts"), text.encode(), hashlib.sha256)


@dataclass(frozen=True)
class DecidedStep:
    """A step that is over.

    Attributes:
        step: Its number.
        counts_digest: Of the counts that it was made of, and of those before it.
        released: What is published of it.
    """

    step: int
    counts_digest: bytes
    released: Step

    def to_kept(self) -> bytes:
        """Returns all of it but its number, to be kept until its epoch ends."""
        return self.counts_digest + self.released.to_kept()

    @classmethod
    def from_kept(cls, step: int, data: bytes, kind: type[Step]) -> DecidedStep:
        """Returns what `to_kept` kept of a step that releases this type."""
        return cls(step, data[:_N_DIGEST], kind.from_kept(data[_N_DIGEST:]))

    def is_same_release(self, other: DecidedStep) -> bool:
        """Returns whether another decision of this step releases the same."""
        kept, again = self.released, other.released.in_form_of(self.released)
        return kept.to_json() == again.to_json() and kept.to_rows().equals(again.to_rows())


class KeptDecisions(Protocol):
    """Where decided steps are kept before anybody sees a byte of them."""

    def of(self, step: int, key: ReleaseKey) -> DecidedStep | None:
        """Returns a step as it was decided; None: it is not decided yet."""

    def keep(self, decided: DecidedStep, key: ReleaseKey) -> DecidedStep:
        """Keeps a step; returns the kept one, as another worker may have been first."""


@dataclass(frozen=True, eq=False)
class StepCounts:
    """What is known of the steps of a stream.

    Attributes:
        waiting: By step that is not decided, the exact counts of its cases.
        past: What the product keeps of each decided step, in their order; of some nothing.
        next_step: The step that is decided next.
        digest: Stands for all cases and counts of the decided steps; empty before the first.
    """

    waiting: dict[int, Statistics]
    past: tuple[Any, ...]
    next_step: int
    digest: bytes


Counts = TypeVar("Counts", bound=StepCounts)


@dataclass(frozen=True, eq=False, repr=False)
class StepDecider:
    """Counts the cases of steps, and decides one step after the other; itself without state.

    Attributes:
        product: What is published.
        name: The stream's, without a digest of counts.
        key: The epoch's, of its noise.
    """

    product: StepProduct
    name: StreamName
    key: ReleaseKey

    def count(self, traces: TraceBatch) -> Statistics:
        """Returns the statistics of `kinds_of` for cases that close in one step."""
        cases = InputDigest.from_traces(traces, self.key)
        return Statistics({**self.product.count(traces).by_name, _CASES: cases})

    def merge(self, counts: Sequence[Statistics]) -> Statistics:
        """Returns the statistics of all cases of a step."""
        kinds = kinds_of(self.product).items()
        return Statistics({n: kind.merge([one.by_name[n] for one in counts]) for n, kind in kinds})

    def decide(self, state: Counts) -> tuple[Counts, DecidedStep]:
        """Returns the state after the next step, and that step with the noise of its counts."""
        return self._drawn(*self._counted(state))

    def decide_once(
        self, state: Counts, kept: KeptDecisions, wait: Callable[[int], None]
    ) -> tuple[Counts, DecidedStep]:
        """Decides the next step where its state may be lost or come again, and keeps it.

        A step that is kept is not drawn again: it is returned as it was decided, and if that was on
        other cases no later step is decided.

        Args:
            state: The state.
            kept: Where the decided steps are.
            wait: Returns when a step, which is not decided yet, may be.

        Returns:
            The state after the step, and the step, which has another digest than the state if it
            was decided on other cases.

        Raises:
            GuaranteeError: An earlier step was decided on other cases, or is gone; or the step was
                decided otherwise on the same cases.
            TracecloakError: What is kept was changed.
        """
        step = state.next_step
        before = kept.of(step - 1, self.key) if step else None
        goes_on = not step or (before is not None and before.counts_digest == state.digest)
        decided = kept.of(step, self.key)
        if decided is None:
            if not goes_on:
                raise GuaranteeError(
                    f"step {step} cannot be published: an earlier step was decided on other cases, "
                    "or what was kept of it is gone, so cases could count twice. Begin another "
                    "epoch, which is another spend"
                )
            wait(step)
        after, counted = self._counted(state)
        if decided is None or decided.counts_digest == after.digest:
            after, drawn = self._drawn(after, counted)
            decided = decided or kept.keep(drawn, self.key)
            if decided.counts_digest == after.digest and not decided.is_same_release(drawn):
                raise GuaranteeError(
                    f"step {step} differs from what was decided on the same cases: restore the "
                    "version of tracecloak and libraries, or begin another epoch (another spend)"
                )
        if goes_on and decided.counts_digest != after.digest:
            _LOG.warning(
                "the cases of step %d are not those that it was decided on, as after a restart "
                "that lost the stream's state; its release is published again, and nothing new",
                step,
            )
        return after, decided

    def _counted(self, state: Counts) -> tuple[Counts, Statistics]:
        """The state after the next step, without what is kept of it; and the counts of the step."""
        step, waiting = state.next_step, dict(state.waiting)
        counted = waiting.pop(step) if step in waiting else self.merge(())
        so_far = counts_digest(state.digest, step, counted, self.key)
        return replace(state, waiting=waiting, next_step=step + 1, digest=so_far), counted

    def _drawn(self, after: Counts, counted: Statistics) -> tuple[Counts, DecidedStep]:
        step, name = after.next_step - 1, replace(self.name, counts_digest=after.digest.hex())
        of_product = Statistics({kind: counted.by_name[kind] for kind in self.product.kinds})
        released, to_keep = self.product.publish(step, of_product, after.past, name, self.key)
        if to_keep is not None:
            after = replace(after, past=(*after.past, to_keep))
        return after, DecidedStep(step, after.digest, released)


@dataclass(frozen=True, eq=False)
class StreamState(PlacedCases, StepCounts):
    """All that a stream in one place knows between two batches.

    Attributes:
        n_late: Cases that were complete after their step was decided, and do not count.
    """

    n_late: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class RunningStream(StepDecider):
    """What happens to the state of a stream in one place; itself without state.

    Attributes:
        rule: When a case closes, with step 0 where the horizon begins.
        identities: Under the key of identities, the same in all epochs.
    """

    rule: ClosingRule
    identities: Identities

    def begin(self) -> StreamState:
        """Returns the state before the first message."""
        opened = OpenCases.none(self.rule.cap is not None)
        return StreamState({}, (), 0, b"", opened, (), CountedCases.none())

    def keyed(self, events: pa.RecordBatch) -> CaseEvents:
        """See `Identities.keyed`."""
        return self.identities.keyed(events, self.rule, self.product.horizon)

    def take(self, state: StreamState, events: CaseEvents) -> StreamState:
        """Returns the state with these messages; when all steps are decided it stays as it is."""
        if not events.n_events or state.next_step >= self.product.horizon:
            return state
        state = replace(state, pending=(*state.pending, events))
        # The first pending batch may be what the last merging left over, since its messages come
        # after the next closing. It does not count towards the next merging.
        left = state.pending[0].n_events
        if is_merge_due(self.rule, state.n_pending - left, state.opened.n_events + left):
            return state.merged(state.closing_us(self.rule), self.rule, state.next_step)
        return state

    def grown(self, state: StreamState, before: ActivityVocabulary) -> StreamState:
        """Returns a state of before names came to the vocabulary, with the codes of this one.

        Args:
            state: The state.
            before: The vocabulary with which it has codes.
        """
        codes, product = self.rule.codes.codes(before.names), cast(Any, self.product)

        def recoded(events: Any) -> Any:
            return replace(events, activities=codes[events.activities])

        opened, pending = recoded(state.opened), tuple(map(recoded, state.pending))
        waiting, past = product.grown(before, state.waiting, state.past, self.name, self.key)
        return replace(state, opened=opened, pending=pending, waiting=waiting, past=past)

    def advance(
        self, state: StreamState, complete_until_us: int
    ) -> tuple[StreamState, list[DecidedStep]]:
        """Closes the cases of steps that end by a moment, and decides the steps that are over.

        Args:
            state: The state.
            complete_until_us: Moment before which all messages have been taken. What comes later
                all the same counts if its step is not published.

        Returns:
            The state, and the steps in their order.
        """
        decided = []
        while state.next_step < self.product.horizon:
            closing_us = state.closing_us(self.rule)
            over_us = self.rule.release_time(state.next_step)
            if min(closing_us, over_us) > complete_until_us:
                break
            if closing_us <= over_us:
                state = self._closed(state, closing_us)
            else:
                state, step = self.decide(state)
                decided.append(step)
        return state, decided

    def _closed(self, state: StreamState, moment_us: int) -> StreamState:
        """The cases of all steps that end by a moment are counted in their steps."""
        state, steps, n_late = state.close(moment_us, self.rule, state.next_step)
        waiting = dict(state.waiting)
        for step, cases in steps:
            if step < self.product.horizon:
                before = [waiting[step]] if step in waiting else []
                waiting[step] = self.merge([*before, self.count(cases)])
        return replace(state, waiting=waiting, n_late=state.n_late + n_late)


# --- The table of products of a stream: the name of each, and the class that says all of it. ------


STREAM_PRODUCTS: Plugins[type[StepProduct]] = Plugins(
    "product of a stream",
    "tracecloak.stream_products",
    {
        "dfg": "tracecloak.anonymizers.streams.dfg_steps:DfgSteps",
        "variants": "tracecloak.anonymizers.streams.variant_steps:VariantSteps",
        "indicators": "tracecloak.anonymizers.streams.indicator_steps:IndicatorSteps",
        "log": "tracecloak.anonymizers.streams.log_steps:LogSteps",
    },
    own_name="name",
)

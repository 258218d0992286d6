"""RunningStream: a stream in one place, as a function of its messages and of how far they are read.

Batches of messages and moments up to which all of them are there go in, releases of steps come out.
The state is a value: whoever keeps it, and what goes into it afterwards, can go on from there, and
gets the same releases. `transforms.stream.publish_steps` and `assemble` do the same on Beam, with
the same bytes.

Not here: where messages come from, where the state is kept, and the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.anonymizers.streams.identities import Identities
from tracecloak.anonymizers.streams.steps import (
    StepProduct,
    StreamName,
    counted_of,
    counts_digest,
    kinds_of,
)
from tracecloak.schemas.arrays.merging import Pieces, Statistics
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.step import Step
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.open_cases import CaseEvents, OpenCases
from tracecloak.schemas.streams.stream_caps import CaseCap, CountedCases

_NEVER = np.iinfo(np.int64).max
# Pending messages are merged once there are so many, or half as many as the open cases have.
_MERGE_EVENTS = 1 << 17


@dataclass(frozen=True, eq=False)
class StreamState:
    """All that a stream knows between two batches.

    Attributes:
        opened: The cases that are open, and those that are remembered to have closed.
        pending: Messages that are not among these yet, as they were published behind the next
            moment at which cases close, or so that a message costs no more where many are open.
        counted: Whose cases have counted.
        waiting: By step that is not published, the exact counts of its cases.
        past: What the product keeps of each published step, in their order; of some nothing.
        next_step: The step that is published next.
        digest: Stands for all cases and counts of the published steps; empty before the first.
        n_late: Cases that were complete after their step was published, and do not count.
    """

    opened: OpenCases
    pending: tuple[CaseEvents, ...]
    counted: CountedCases
    waiting: dict[int, Statistics]
    past: tuple[Any, ...]
    next_step: int
    digest: bytes
    n_late: int = 0

    @cached_property
    def n_pending(self) -> int:
        """Number of messages that are not merged."""
        return sum(events.n_events for events in self.pending)

    @cached_property
    def first_pending_us(self) -> int | None:
        """When the first of these was published; None: there is none."""
        return min((int(events.publish.min()) for events in self.pending), default=None)


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


@dataclass(eq=False, repr=False)
class RunningStream:
    """What happens to the state of a stream; itself without state.

    Attributes:
        product: What is published.
        rule: When a case closes, with step 0 where the horizon begins.
        name: The stream's.
        key: The epoch's, of its noise.
        identities: The key of identities, the same in all epochs.
        by_individual: The unit is the individual, whom every event must name.
        cap: How many cases of an individual count; None: all.
    """

    product: StepProduct
    rule: ClosingRule
    name: StreamName
    key: ReleaseKey
    identities: ReleaseKey
    by_individual: bool = False
    cap: CaseCap | None = None

    def __post_init__(self) -> None:
        """Derives the keys of names."""
        self._identities = Identities(self.identities)

    @property
    def horizon(self) -> int:
        """Number of steps."""
        return self.product.horizon

    def release_us(self, step: int) -> int:
        """Returns when a step is released, if all its messages are there by then."""
        return self.rule.release_time(step)

    def begin(self) -> StreamState:
        """Returns the state before the first message."""
        opened = OpenCases.none(self.by_individual)
        return StreamState(opened, (), CountedCases.none(), {}, (), 0, b"")

    def keyed(self, events: pa.RecordBatch) -> CaseEvents:
        """Returns events of `MessageFormat.schema` with keys for names, as the state has them.

        What was published after the last step has ended is left out: it changes no step. So is what
        was published before its name came to a closed vocabulary.
        """
        keyed = self._identities.keyed(events, self.rule, self.by_individual)
        within, _ = keyed.before(self.rule.step_start(self.horizon))
        return within.known() if self.rule.since else within

    def take(self, state: StreamState, events: CaseEvents) -> StreamState:
        """Returns the state with these messages; when all steps are decided it stays as it is."""
        if not events.n_events or state.next_step >= self.horizon:
            return state
        state = replace(state, pending=(*state.pending, events))
        # If cases may open again, all messages wait for the next closing. A message that is read
        # later can be older, and can keep its case closed.
        if self.rule.tombstone_us is not None:
            return state
        # The first pending batch may be what the last merging left over, since its messages come
        # after the next closing. It does not count towards the next merging.
        left = state.pending[0].n_events
        most = max(_MERGE_EVENTS, (state.opened.n_events + left) // 2)
        if state.n_pending - left >= most:
            return self._merged(state, self._closing_us(state))
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

    def due_us(self, state: StreamState) -> int | None:
        """Returns the first moment at which `advance` has something to do; None: all is published.

        It is when a step ends in which a case may close, or when a step is released.
        """
        if state.next_step >= self.horizon:
            return None
        return min(self._closing_us(state), self.rule.release_time(state.next_step))

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
        while (due := self.due_us(state)) is not None and due <= complete_until_us:
            if self._closing_us(state) == due:
                state = self._closed(state, due)
            else:
                state, step = self._decided(state)
                decided.append(step)
        return state, decided

    def _closing_us(self, state: StreamState) -> int:
        """No case closes in a step that ends before this."""
        moments = []
        if (closes := state.opened.next_close) is not None:
            moments.append(closes)
        if (first := state.first_pending_us) is not None:
            moments.append(self.rule.earliest_close(first))
        return self.rule.step_end(min(moments)) if moments else _NEVER

    def _merged(self, state: StreamState, moment_us: int) -> StreamState:
        """The messages that were published before a moment are among the open cases."""
        first = state.first_pending_us
        if first is None or first >= moment_us:
            return state
        early, later = CaseEvents.concat(state.pending).before(moment_us)
        opened = state.opened.add(early, self.rule, state.next_step)
        return replace(state, opened=opened, pending=(later,) if later.n_events else ())

    def _closed(self, state: StreamState, moment_us: int) -> StreamState:
        """The cases of all steps that end by a moment are counted in their steps.

        What was published from that moment on is no part of this, however far messages are read.
        """
        state = self._merged(state, moment_us)
        opened, steps, n_late = state.opened.close(moment_us, self.rule, state.next_step)
        counted = state.counted
        if self.cap is not None and steps:
            counted, steps = counted.within(steps, self.cap, state.next_step)
        waiting = dict(state.waiting)
        for step, cases in steps:
            if step < self.horizon:
                added = counted_of(self.product, cases, self.key)
                before = [waiting[step]] if step in waiting else []
                waiting[step] = self._sum([*before, added])
        return replace(
            state, opened=opened, counted=counted, waiting=waiting, n_late=state.n_late + n_late
        )

    def _sum(self, counts: Sequence[Statistics]) -> Statistics:
        return Statistics(
            {
                name: Pieces(kind, [part.by_name[name] for part in counts]).result()
                for name, kind in kinds_of(self.product).items()
            }
        )

    def _decided(self, state: StreamState) -> tuple[StreamState, DecidedStep]:
        step = state.next_step
        waiting = dict(state.waiting)
        counted = waiting.pop(step) if step in waiting else self._sum(())
        digest = counts_digest(state.digest, step, counted, self.key)
        of_product = Statistics({name: counted.by_name[name] for name in self.product.kinds})
        name = replace(self.name, counts_digest=digest.hex())
        released, new_past = self.product.publish(step, of_product, state.past, name, self.key)
        past = state.past if new_past is None else (*state.past, new_past)
        after = replace(state, waiting=waiting, past=past, next_step=step + 1, digest=digest)
        return after, DecidedStep(step, digest, released)

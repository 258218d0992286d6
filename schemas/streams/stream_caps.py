"""The cases of a stream in one place until they count: no more than a cap for each individual."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import ranks_within
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import INDIVIDUAL_ID, TraceBatch
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.open_cases import FOREVER_US, CaseEvents, OpenCases

# --- How many cases of an individual have counted in a stream, so that no more than a cap count. --


@dataclass(frozen=True)
class CaseCap:
    """How many cases of one individual count.

    Attributes:
        cases: The most of them, at least 1.
        per_step: In each step; else in all steps together, which takes a memory of every
            individual that ever had a case.
    """

    cases: int
    per_step: bool = False


class CountedCases(Columnar, wire_name="counted-cases"):
    """The individuals whose cases have counted.

    Its size is bounded by their number: some 52 bytes for each that the stream has seen, or, with a
    cap on every step, for each in the steps that are not over.

    Attributes:
        names: string[n], keyed names of individuals, distinct within a step.
        steps: int64[n], the step; 0 where the cap is on all steps together.
        counts: int64[n], cases that have counted.
    """

    names: pa.StringArray
    steps: np.ndarray
    counts: np.ndarray

    @classmethod
    def none(cls) -> CountedCases:
        """Returns that nothing has counted."""
        return cls(pa.array([], pa.string()), np.zeros(0, np.int64), np.zeros(0, np.int64))

    def admit(self, traces: TraceBatch, step: int, cap: CaseCap) -> tuple[CountedCases, TraceBatch]:
        """Counts cases that close, and drops those beyond the cap.

        Which are dropped depends on the individual's own cases alone: they count in the order in
        which they come.

        Args:
            traces: Cases with their individuals.
            step: In which they close.
            cap: On the cases of an individual.

        Returns:
            What has counted now, and the cases that count, of which there may be none.

        Raises:
            UsageError: The cases name no individuals.
        """
        if traces.individuals is None:
            raise UsageError(f"a cap on cases needs their individuals: map {INDIVIDUAL_ID}")
        at = step if cap.per_step else 0
        known, other = self._of_steps(self.steps == at), self._of_steps(self.steps != at)
        coded = pa.concat_arrays([known.names, traces.individuals]).dictionary_encode()
        whose = np.asarray(coded.indices)[len(known.names) :].astype(np.int64)
        counts = np.zeros(len(coded.dictionary), np.int64)
        counts[: len(known.names)] = known.counts
        counts_now = counts[whose] + ranks_within(whose) < cap.cases
        counts += np.bincount(whose[counts_now], minlength=len(counts))
        state = CountedCases(
            pa.concat_arrays([other.names, coded.dictionary]),
            np.append(other.steps, np.full(len(counts), at)),
            np.append(other.counts, counts),
        )
        return state, traces.take(np.flatnonzero(counts_now))

    def _of_steps(self, is_one: np.ndarray) -> CountedCases:
        names = self.names.filter(pa.array(is_one))
        return CountedCases(names, self.steps[is_one], self.counts[is_one])

    def within(
        self, steps: Iterable[tuple[int, TraceBatch]], cap: CaseCap, first_step: int
    ) -> tuple[CountedCases, list[tuple[int, TraceBatch]]]:
        """Counts the cases that close, step by step.

        Args:
            steps: (step, cases that close in it), in the order of steps.
            cap: On the cases of an individual.
            first_step: Steps before this one take no more cases.

        Returns:
            What has counted now, and the cases that count, without steps that have none of them.
        """
        state = self
        if cap.per_step:  # steps before are forgotten
            state = self._of_steps(self.steps >= first_step)
        counting_steps = []
        for step, traces in steps:
            state, counting = state.admit(traces, step, cap)
            if counting.n_cases:
                counting_steps.append((step, counting))
        return state, counting_steps


# --- The cases of one place, such as a shard: messages go in, cases of whole steps come out. ------


# Pending messages are merged once there are so many, or half as many as the open cases have.
_MERGE_EVENTS = 1 << 17


def is_merge_due(rule: ClosingRule, n_fresh: int, n_known: int) -> bool:
    """Returns whether pending messages are to be merged with the open cases before a step ends.

    So a message costs no more where many cases are open. If cases may open again, all messages wait
    for the next closing: one that is read later can be older, and can keep its case closed.

    Args:
        rule: When a case closes.
        n_fresh: Messages that came since the last merging.
        n_known: Messages that were there then, in open cases or published after the next closing.
    """
    return rule.tombstone_us is None and n_fresh >= max(_MERGE_EVENTS, n_known // 2)


@dataclass(frozen=True, eq=False)
class PlacedCases:
    """What is known of the cases that meet in one place; a value, its functions return another.

    Attributes:
        opened: The cases that are open, and those that are remembered to have closed.
        pending: Messages that are not among these yet, as they were published behind the next
            moment at which cases close, or so that a message costs no more where many are open.
        counted: Whose cases have counted.
    """

    opened: OpenCases
    pending: tuple[CaseEvents, ...]
    counted: CountedCases

    @cached_property
    def n_pending(self) -> int:
        """Number of messages that are not merged."""
        return sum(events.n_events for events in self.pending)

    @cached_property
    def first_pending_us(self) -> int | None:
        """When the first of these was published; None: there is none."""
        return min((int(events.publish.min()) for events in self.pending), default=None)

    def closing_us(self, rule: ClosingRule) -> int:
        """Returns a moment: no case closes in a step that ends before it; FOREVER_US: none does."""
        first, closes = self.first_pending_us, self.opened.closes
        ends = [] if first is None else [rule.earliest_end(first)]
        ends += [rule.step_end(int(closes.min()))] if len(closes) else []
        return min(ends, default=FOREVER_US)

    def merged(self, moment_us: int, rule: ClosingRule, next_step: int) -> Self:
        """Returns the cases with the messages that were published before a moment.

        Args:
            moment_us: The moment.
            rule: When a case closes.
            next_step: Earlier steps are released.
        """
        first = self.first_pending_us
        if first is None or first >= moment_us:
            return self
        early, later = CaseEvents.concat(self.pending).before(moment_us)
        opened = self.opened.add(early, rule, next_step)
        return replace(self, opened=opened, pending=(later,) if later.n_events else ())

    def close(
        self, moment_us: int, rule: ClosingRule, next_step: int
    ) -> tuple[Self, list[tuple[int, TraceBatch]], int]:
        """Closes the cases of all steps that end by a moment, and drops those beyond a cap.

        What was published from that moment on is no part of this, however far messages are read.

        Args:
            moment_us: Before which all messages have come.
            rule: When a case closes.
            next_step: Earlier steps are released, and take no more cases.

        Returns:
            What stays; (step, cases that count in it), in the order of steps; and how many cases
            came too late for their step.
        """
        cases = self.merged(moment_us, rule, next_step)
        opened, steps, n_late = cases.opened.close(moment_us, rule, next_step)
        counted = cases.counted
        if rule.cap is not None and steps:
            counted, steps = counted.within(steps, rule.cap, next_step)
        return replace(cases, opened=opened, counted=counted), steps, n_late


# --- The cases that close in a step, as a statistic: for what needs them whole and together. ------


class ClosedCases(Columnar, wire_name="closed-cases"):
    """Cases of one step; they are all in memory at once.

    Attributes:
        traces: The cases, in the order of their ids.
    """

    traces: TraceBatch

    @classmethod
    def merge(cls, pieces: Sequence[ClosedCases]) -> ClosedCases:
        """Returns the cases of pieces of one vocabulary, in which each id is once."""
        filled = [piece.traces for piece in pieces if piece.traces.n_cases]
        if not filled:
            return cls(TraceBatch.from_events([]))
        traces = TraceBatch.concat(filled)
        return cls(traces.take(np.asarray(pc.sort_indices(traces.case_ids)).astype(np.int64)))

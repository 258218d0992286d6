"""The cases that close in a step, of which no more than a cap count for each individual."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import INDIVIDUAL_ID, TraceBatch

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


@dataclass(frozen=True, eq=False)
class CountedCases:
    """The individuals whose cases have counted.

    Its size is bounded by their number: some 52 bytes for each that the stream has seen, or, with a
    cap on every step, for each in the steps that are not over.

    Attributes:
        names: string[n], keyed names of individuals, distinct within a step.
        steps: int64[n], the step; 0 where the cap is on all steps together.
        counts: int64[n], cases that have counted.
    """

    wire_name: ClassVar[str] = "counted-cases"

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
        in_step = np.flatnonzero(self.steps == at)
        coded = traces.individuals.dictionary_encode()
        whose = np.asarray(coded.indices).astype(np.int64)
        places = pc.index_in(coded.dictionary, value_set=self.names.take(pa.array(in_step)))
        known = np.asarray(places.is_valid())
        row = in_step[np.asarray(places.drop_null())]
        before = np.zeros(len(known), np.int64)
        before[known] = self.counts[row]

        order = np.argsort(whose, kind="stable")
        rank = np.empty(len(whose), np.int64)
        rank[order] = np.arange(len(whose)) - np.searchsorted(whose[order], whose[order])
        counts_now = before[whose] + rank < cap.cases
        added = np.bincount(whose[counts_now], minlength=len(known))
        counts = self.counts.copy()
        counts[row] += added[known]
        fresh = np.flatnonzero(~known)
        state = CountedCases(
            pa.concat_arrays([self.names, coded.dictionary.take(pa.array(fresh))]),
            np.concatenate([self.steps, np.full(len(fresh), at)]),
            np.concatenate([counts, added[fresh]]),
        )
        return state, traces.take(np.flatnonzero(counts_now))

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
            rows = np.flatnonzero(self.steps >= first_step)
            names = self.names.take(pa.array(rows))
            state = CountedCases(names, self.steps[rows], self.counts[rows])
        counting_steps = []
        for step, traces in steps:
            state, counting = state.admit(traces, step, cap)
            if counting.n_cases:
                counting_steps.append((step, counting))
        return state, counting_steps


# --- The cases that close in a step, as a statistic: for what needs them whole and together. ------


@dataclass(frozen=True, eq=False)
class ClosedCases:
    """Cases of one step; they are all in memory at once.

    Attributes:
        traces: The cases, in the order of their ids.
    """

    wire_name: ClassVar[str] = "closed-cases"

    traces: TraceBatch

    @classmethod
    def of(cls, *batches: TraceBatch) -> ClosedCases:
        """Returns the cases of batches of one vocabulary, in which each id is once."""
        filled = [traces for traces in batches if traces.n_cases]
        if not filled:
            return cls(TraceBatch.from_events([]))
        traces = TraceBatch.concat(filled)
        return cls(traces.take(np.asarray(pc.sort_indices(traces.case_ids)).astype(np.int64)))

    @classmethod
    def merge(cls, pieces: Sequence[ClosedCases]) -> ClosedCases:
        """Returns the cases of all pieces."""
        return cls.of(*(piece.traces for piece in pieces))

    @property
    def weight(self) -> int:
        """Number of events."""
        return self.traces.n_events

"""Stamps for generated cases: a drawn start, and drawn times of steps added up in working time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracecloak.anonymizers.logs.case_spans import SpansDecision, spans_at
from tracecloak.anonymizers.logs.case_starts import StartsDecision, sample_starts
from tracecloak.anonymizers.logs.step_durations import DurationsDecision, sample_durations
from tracecloak.anonymizers.logs.step_sums import StepSums, ranks_of
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.schemas.arrays.merging import ranges
from tracecloak.schemas.events.time_grid import TimeGrid
from tracecloak.schemas.events.traces import TraceBatch


def timed(
    traces: TraceBatch,
    case_numbers: np.ndarray,
    grid: TimeGrid,
    starts: StartsDecision,
    durations: DurationsDecision,
    spans: SpansDecision,
    sums: StepSums,
    randomness: Randomness,
) -> TraceBatch:
    """Returns the same cases with stamps on the grid, in its range and in its working time.

    Each case begins at a drawn start, and every further event follows after a drawn time that its
    activity and the one before decide. How long the case takes comes from the spans: that whose
    steps come to the most takes longest, and so on (`step_sums`). So the steps need little change
    to fit; see `_fitted`. All is added up in working time, so stamps do not decrease within a case.
    A case that would outlast the range begins as much earlier.

    A case's stamps depend on its number and its activities alone, not on the other cases of the
    batch.

    Args:
        traces: Generated cases over the vocabulary of `durations`; their times are not looked at.
        case_numbers: int64[n_cases], distinct over the release.
        grid: Of the range that all the others were decided in.
        starts: What starts are drawn from.
        durations: What times of steps are drawn from.
        spans: What times of cases are drawn from.
        sums: What the times of such steps come to.
        randomness: The release's.
    """
    taken = drawn_steps(traces, case_numbers, durations, randomness)
    ranks = ranks_of(sums, sums_of_cases(taken, traces), case_numbers, randomness)
    taken = _fitted(taken, traces, spans_at(spans, ranks))
    summed = np.cumsum(taken)
    since_start = summed - np.repeat(summed[traces.offsets[:-1]], traces.lengths)
    begun = grid.ticks(sample_starts(starts, case_numbers, randomness))
    begun = np.minimum(begun, grid.n_ticks - 1 - since_start[traces.offsets[1:] - 1])
    return replace(traces, times=grid.at_us(np.repeat(begun, traces.lengths) + since_start))


def drawn_steps(
    traces: TraceBatch,
    case_numbers: np.ndarray,
    durations: DurationsDecision,
    randomness: Randomness,
) -> np.ndarray:
    """Returns int64[n_events], a drawn time since the event before, in ticks; 0 of first events."""
    position = ranges(np.zeros(traces.n_cases, np.int64), traces.lengths)
    step = np.flatnonzero(~traces.is_first)
    taken = np.zeros(traces.n_events, np.int64)
    taken[step] = sample_durations(
        durations,
        traces.activities[step - 1],
        traces.activities[step],
        np.repeat(case_numbers, traces.lengths)[step],
        position[step],
        randomness,
    )
    return taken


def sums_of_cases(taken: np.ndarray, traces: TraceBatch) -> np.ndarray:
    """Returns int64[n_cases], what the times of each case's steps come to, below 2^63 for sure.

    A step takes below 2^33 ticks, as a range is at most 130 years, and a case has at most a million
    events.
    """
    reached = np.concatenate([[0], np.cumsum(taken)])  # may wrap around, its differences do not
    return np.diff(reached[traces.offsets])


def _fitted(taken: np.ndarray, traces: TraceBatch, spans: np.ndarray) -> np.ndarray:
    """int64[n_events], the times of steps brought to the sum that is wanted for each case.

    Where they come to less, the longest takes the rest: what is seldom and long is what the
    histograms of steps do not see. Where they come to more, the longest gives way, and if that is
    not enough, it takes no time and the next one gives way, and so on. If all were shortened in
    proportion, waits that follow each other would be short and long together. Of equally long steps
    the first comes first. A case of one event has no step.

    Args:
        taken: int64[n_events], times since the event before; 0 of first events.
        traces: The cases.
        spans: int64[n_cases], the wanted sums.
    """
    excess = sums_of_cases(taken, traces) - spans
    excess[traces.lengths == 1] = 0
    own = np.flatnonzero(excess)
    events = ranges(traces.offsets[own], traces.lengths[own])
    events = events[~traces.is_first[events]]
    case = np.repeat(own, traces.lengths[own] - 1)
    order = np.lexsort((-taken[events], case))  # stable: the first of equal ones stays first
    events = events[order]
    longest_first = taken[events]
    before = np.cumsum(longest_first) - longest_first
    heads = np.flatnonzero(np.diff(case, prepend=-1))
    before -= np.repeat(before[heads], np.diff(heads, append=len(case)))
    change = np.clip(excess[case] - before, 0, longest_first)
    change[heads] = np.minimum(excess[case[heads]], longest_first[heads])
    fitted = taken.copy()
    fitted[events] -= change
    return fitted

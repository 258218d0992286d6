"""Stamps for generated cases: a drawn start, and drawn times of steps added up in working time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracecloak.anonymizers.logs.case_spans import SpansDecision, sample_spans
from tracecloak.anonymizers.logs.case_starts import StartsDecision, sample_starts
from tracecloak.anonymizers.logs.step_durations import DurationsDecision, sample_durations
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.schemas.arrays.merging import ranges
from tracecloak.schemas.events.traces import TraceBatch


def timed(
    traces: TraceBatch,
    case_numbers: np.ndarray,
    starts: StartsDecision,
    durations: DurationsDecision,
    spans: SpansDecision,
    randomness: Randomness,
) -> TraceBatch:
    """Returns the same cases with stamps in the range of the starts and in its working time.

    Each case begins at a drawn start, and every further event follows after a drawn time that its
    activity and the one before decide; see `_fitted` for how these are brought to the time that was
    drawn for the whole case. All is added up in working time, so stamps do not decrease
    within a case. A case that would outlast the range begins as much earlier.

    A case's stamps depend on its number and its activities alone, not on the other cases of the
    batch.

    Args:
        traces: Generated cases over the vocabulary of `durations`; their times are not looked at.
        case_numbers: int64[n_cases], distinct over the release.
        starts: What starts are drawn from; has the range and the working time.
        durations: What times of steps are drawn from.
        spans: What times of cases are drawn from, over the same vocabulary and range.
        randomness: The release's.
    """
    time = starts.time
    longest = time.total_us - 1
    position = ranges(np.zeros(traces.n_cases, np.int64), traces.lengths)
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)
    step = np.flatnonzero(~traces.is_first)
    taken = np.zeros(traces.n_events, np.int64)
    taken[step] = sample_durations(
        durations,
        traces.activities[step - 1],
        traces.activities[step],
        case_numbers[case[step]],
        position[step],
        randomness,
    )
    drawn = sample_spans(spans, traces.activities[traces.offsets[1:] - 1], case_numbers, randomness)
    taken = _fitted(taken, traces, np.minimum(drawn, longest))
    # The sum over the batch may wrap around, the differences within a case are right.
    summed = np.cumsum(taken)
    since_start = summed - np.repeat(summed[traces.offsets[:-1]], traces.lengths)
    begun = time.elapsed_us(sample_starts(starts, case_numbers, randomness))
    begun = np.minimum(begun, longest - since_start[traces.offsets[1:] - 1])
    return replace(traces, times=time.at_us(begun[case] + since_start))


def _fitted(taken: np.ndarray, traces: TraceBatch, spans: np.ndarray) -> np.ndarray:
    """int64[n_events], the times of steps brought to the sum that is wanted for each case.

    Where they come to more, all are shortened in proportion. Where they come to less, the longest
    takes the rest: what is seldom and long is what the histograms of steps do not see. The first
    event of a case takes no time, and a case of one event has no step.

    Args:
        taken: int64[n_events], times since the event before.
        traces: The cases.
        spans: int64[n_cases], the wanted sums.
    """
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)
    # In floats, because integers may overflow; a factor that is slightly too small does no harm.
    sums = np.bincount(case, taken, traces.n_cases)
    factor = np.where(sums > spans, spans / np.maximum(sums, 1) * (1 - 1e-9), 1.0)[case]
    fitted = np.where(factor < 1, np.floor(taken * factor).astype(np.int64), taken)
    if not len(case):
        return fitted
    longest = np.maximum.reduceat(fitted, traces.offsets[:-1])
    is_longest = (fitted == longest[case]) & ~traces.is_first
    places = np.flatnonzero(is_longest)
    whose, first = np.unique(case[places], return_index=True)
    rest = spans - np.bincount(case, fitted, traces.n_cases).astype(np.int64)
    fitted[places[first]] += np.maximum(rest[whose], 0)
    return fitted

"""Stamps for generated cases: a drawn start, and drawn times of steps added up in working time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.times.case_classes import CaseClasses
from tracecloak.anonymizers.times.case_spans import SpansDecision, spans_at
from tracecloak.anonymizers.times.case_starts import Periods, StartsDecision, sample_starts
from tracecloak.anonymizers.times.case_times import CaseTimes, ranks_among_all, sample_periods
from tracecloak.anonymizers.times.longest_steps import Propensities, sample_longest
from tracecloak.anonymizers.times.step_durations import DurationsDecision, Steps, sample_durations
from tracecloak.anonymizers.times.step_sums import StepSums, ranks_of
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.events.time_grid import TimeGrid
from tracecloak.schemas.events.traces import TraceBatch


@dataclass(frozen=True)
class Timing:
    """What stamps are drawn from; all of one release.

    Attributes:
        grid: The range in which the others were decided.
        classes: The classes of cases.
        starts: When cases start.
        periods: Parts of the range.
        spans: How long cases take.
        times: In which period cases of each class start, and how long they take.
        durations: How long steps take.
        sums: What the times of such steps come to, by class.
        longest: Which step of a case tends to take longest.
    """

    grid: TimeGrid
    classes: CaseClasses
    starts: StartsDecision
    periods: Periods
    spans: SpansDecision
    times: CaseTimes
    durations: DurationsDecision
    sums: StepSums
    longest: Propensities


def timed(
    traces: TraceBatch, case_numbers: np.ndarray, timing: Timing, randomness: Randomness
) -> TraceBatch:
    """Returns the same cases with stamps on the grid, in its range and in its working time.

    A case's class decides in which period it begins, and with it how long it takes; of the cases of
    a class that whose steps come to the most takes longest, and so on (`step_sums`). Every event
    follows the one before after a drawn time, and one step, drawn too, takes what is left; see
    `_fitted`. All is added up in working time, so stamps do not decrease within a case. A case that
    would outlast the range begins as much earlier.

    A case's stamps depend on its number and its activities alone, not on the other cases of the
    batch.

    Args:
        traces: Generated cases over the vocabulary of the release; their times are not looked at.
        case_numbers: int64[n_cases], distinct over the release.
        timing: What from.
        randomness: The release's.
    """
    grid = timing.grid
    classes = timing.classes.of_cases(traces)
    steps = Steps.of(traces, case_numbers, timing.classes, classes)
    taken = sample_durations(timing.durations, steps, randomness)
    is_single = traces.lengths == 1
    periods = sample_periods(timing.times, classes, is_single, case_numbers, randomness)
    sums = sums_of_cases(taken, traces)
    ranks = ranks_of(timing.sums, sums, classes, case_numbers, randomness)
    ranks = ranks_among_all(timing.times, timing.spans, classes, periods, ranks)
    wanted = np.where(is_single, 0, spans_at(timing.spans, ranks))
    taken = _fitted(taken, steps, wanted, timing, randomness)
    since_start = np.zeros(traces.n_events, np.int64)
    since_start[steps.events] = taken
    reached = np.cumsum(since_start)  # may wrap around, its differences do not
    since_start = reached - np.repeat(reached[traces.offsets[:-1]], traces.lengths)
    within = timing.periods.ranks[periods], timing.periods.ranks[periods + 1]
    begun = grid.ticks(sample_starts(timing.starts, case_numbers, randomness, within))
    begun = np.minimum(begun, grid.n_ticks - 1 - since_start[traces.offsets[1:] - 1])
    return replace(traces, times=grid.at_us(np.repeat(begun, traces.lengths) + since_start))


def sums_of_cases(taken: np.ndarray, traces: TraceBatch) -> np.ndarray:
    """Returns int64[n_cases], what the times of each case's steps come to, at most 2^62.

    A range is at most 130 years, which are 2^52 microseconds. Steps so long that a case of many
    could come to more than 2^62 ticks are cut to its share of that.

    Args:
        taken: int64[n_steps], of all cases' steps in their order.
        traces: The cases.
    """
    most = np.repeat((1 << 62) // np.maximum(traces.lengths - 1, 1), traces.lengths - 1)
    # The sums may wrap around, their differences do not.
    reached = np.concatenate([[0], np.cumsum(np.minimum(taken, most))])
    return np.diff(reached[offsets_of(traces.lengths - 1)])


def _fitted(
    taken: np.ndarray, steps: Steps, wanted: np.ndarray, timing: Timing, randomness: Randomness
) -> np.ndarray:
    """int64[m], the times of steps brought to the sum that is wanted for each case.

    One step of each case is drawn to be the longest. Another that was drawn to take more than half
    of what is wanted is drawn again, to take less. The longest takes what the others leave; where
    that is less than one of them takes, no step takes more than a common limit.

    Args:
        taken: int64[m], drawn times.
        steps: The steps.
        wanted: int64[n_cases], the sums.
        timing: What is drawn from.
        randomness: The release's.
    """
    bins = np.searchsorted(timing.spans.borders, wanted, side="right")
    longest = sample_longest(timing.longest, steps, bins, randomness)
    fitted = taken.copy()
    half = wanted[steps.own] // 2
    again = np.flatnonzero(fitted > half)
    few, most = steps.take(again), half[again]
    drawn = sample_durations(timing.durations, few, randomness, "shorter step of a case", most)
    fitted[again] = np.minimum(drawn, most)
    fitted[longest] = 0
    fitted = _limited(fitted, steps.own, wanted)
    case = steps.own[longest]
    begins = np.flatnonzero(np.diff(steps.own, prepend=-1))
    sums = np.add.reduceat(fitted, begins) if len(begins) else np.zeros(0, np.int64)
    fitted[longest] = wanted[case] - sums
    return fitted


def _limited(taken: np.ndarray, case_of: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """int64[m], times cut at the highest limit, for each case, that leaves one more such time.

    With the j longest of them cut, the limit is what the others leave divided by j + 1; it is the
    first of these that the next one does not exceed.

    Args:
        taken: int64[m], times of steps, of which each case has one that takes none yet.
        case_of: int64[m], the case of each, ascending.
        wanted: int64[n_cases], the sums.
    """
    order = np.lexsort((-taken, case_of))
    falling, cases = taken[order], case_of[order]
    begins = np.flatnonzero(np.diff(cases, prepend=-1))
    lengths = np.diff(begins, append=len(cases))
    n_cut = ranges(np.zeros(len(begins), np.int64), lengths)
    before = np.cumsum(falling) - falling
    sums = np.add.reduceat(falling, begins) if len(begins) else before
    left = np.repeat(sums + before[begins], lengths) - before
    limits = (wanted[cases] - left) // (n_cut + 1)
    holds = np.flatnonzero(limits >= falling)
    # At least one limit of each case holds: the last one, of a step that takes no time yet.
    first = holds[np.flatnonzero(np.diff(cases[holds], prepend=-1))]
    cut = taken.copy()
    cut[order] = np.minimum(falling, np.repeat(limits[first], lengths))
    return cut

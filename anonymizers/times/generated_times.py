"""Stamps for generated cases: a drawn start, and times of steps added up in working time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.times.case_classes import CaseClasses
from tracecloak.anonymizers.times.case_spans import SpansDecision, spans_at
from tracecloak.anonymizers.times.case_starts import Periods, StartsDecision, sample_starts
from tracecloak.anonymizers.times.case_times import (
    CaseTimes,
    ranks_among_all,
    sample_periods,
    wide_bins_at,
)
from tracecloak.anonymizers.times.split_times import PairFactors, divided, sums_of_steps, weights_of
from tracecloak.anonymizers.times.step_durations import DurationsDecision, Steps, sample_durations
from tracecloak.anonymizers.times.step_sums import IN_BIN, StepSums, ranks_of
from tracecloak.schemas.calendar.time_grid import TimeGrid
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
        sums: What the times of such steps come to, by class, then by wide bin.
        factors: By what the times of the steps of each pair are multiplied.
    """

    grid: TimeGrid
    classes: CaseClasses
    starts: StartsDecision
    periods: Periods
    spans: SpansDecision
    times: CaseTimes
    durations: DurationsDecision
    sums: StepSums
    factors: PairFactors


def timed(
    traces: TraceBatch, case_numbers: np.ndarray, timing: Timing, randomness: Randomness
) -> TraceBatch:
    """Returns the same cases with stamps on the grid, in its range and in its working time.

    A case's class decides in which period it begins, and with it in which wide bin its time lies;
    of the cases of a class that whose steps come to the most takes longest, and so on, and likewise
    within a bin of those of all classes (`step_sums`). That time is divided among its steps
    (`split_times`), by which the events follow each other. All is added up in working time, so
    stamps do not decrease within a case. A case that would outlast the range begins as much
    earlier.

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
    weights = weights_of(taken, steps, timing.factors)
    sums = sums_of_steps(weights, steps, traces.n_cases)
    ranks = ranks_of(timing.sums, sums, classes, case_numbers, randomness)
    bins = wide_bins_at(timing.times, classes, periods, ranks)
    of_bins = len(timing.times.spans) + bins  # they come after the classes
    places = ranks_of(timing.sums, sums, of_bins, case_numbers, randomness, IN_BIN)
    ranks = ranks_among_all(timing.spans, bins, places)
    wanted = np.where(is_single, 0, spans_at(timing.spans, ranks))
    taken = divided(wanted, weights, steps)
    since_start = np.zeros(traces.n_events, np.int64)
    since_start[steps.events] = taken
    reached = np.cumsum(since_start)  # may wrap around, its differences do not
    since_start = reached - np.repeat(reached[traces.offsets[:-1]], traces.lengths)
    within = timing.periods.ranks[periods], timing.periods.ranks[periods + 1]
    begun = grid.ticks(sample_starts(timing.starts, case_numbers, randomness, within))
    begun = np.minimum(begun, grid.n_ticks - 1 - since_start[traces.offsets[1:] - 1])
    return replace(traces, times=grid.at_us(np.repeat(begun, traces.lengths) + since_start))

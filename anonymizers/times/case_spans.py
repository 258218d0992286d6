"""How long cases take from first event to last: a noisy histogram, and times by their rank in it.

Of all steps of a case the one that takes longest decides how long it takes, and such steps are few:
in the histograms of steps (anonymizers.times.step_durations) they are lost in the noise. But a case
takes one time from first to last, so the histogram of these has little noise. Each case of two
events or more counts once, by public bins of the time. So one case changes one count by 1: exact
discrete noise on each covers it.

How fine the stamps of a log are, from microseconds to dates; public, or chosen and paid.

A log of dates in which cases start at any hour is wrong for whoever reads it. So the stamps of a
release are whole multiples of one granularity on the local clock, and it is the log's own. Where it
is not public, each case counts once, by the coarsest grid that has all of its stamps, and noise is
added to these six counts. That errs less than a choice by permute-and-flip at the same price: it
tells logs of seconds from logs of dates with a third of the cases.

Stamps finer than a microsecond are cut to it where they are read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.noise.noting import note
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_counts, variance_of
from tracecloak.anonymizers.rigorous.bought import in_vocabulary, within_length
from tracecloak.anonymizers.rigorous.budget import Means, Sums
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.times.time_bins import bins_text, time_borders, times_at
from tracecloak.anonymizers.times.time_range import LogTime, grid_clock
from tracecloak.schemas.calendar.time_grid import GRANULARITIES, GRID_US, Granularity
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.measures import DURATION
from tracecloak.schemas.statistics.clipped_flows import CaseCells, ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams

# A number must be so many deviations of its noise above 0 to count. Then about one in a hundred
# logs of dates is taken for a log of hours or minutes, and one in a hundred tiny logs for a log of
# dates.
_DEVIATIONS = 2.5
# At most this share of the cases may have stamps off a grid that is kept, for in most logs a few
# stamps are unlike all others.
_OFF = 1 / 50
_N_CELLS = len(GRANULARITIES)
# What is kept where noise hides how fine the stamps are.
_SECOND = GRANULARITIES.index("second")


def count_granularities(batch: Batch, time_zone: str) -> ClippedCells:
    """Counts cases by the coarsest grid that all their stamps are on.

    Cell i of `ClippedCells` is `GRANULARITIES[i]`.

    Args:
        batch: Complete cases, and what was decided before.
        time_zone: Of the clock that the grids are of.
    """
    traces = batch.traces
    clock = grid_clock(time_zone)
    local = clock.local_us(traces.times)
    # Where the clock leaps over midnight, a date is the first moment after: when the clock was
    # changed, and at no other time.
    place = np.maximum(np.searchsorted(clock.since_us, traces.times, side="right") - 1, 0)
    changed = np.flatnonzero(clock.since_us[place] == traces.times)
    coarsest = np.zeros(traces.n_events, np.int64)
    for rank, granularity in enumerate(GRANULARITIES):
        over = local % GRID_US[granularity]
        is_on = over == 0
        begins = clock.first_us(local[changed] - over[changed])
        is_on[changed] |= begins == traces.times[changed]
        coarsest[is_on] = rank
    n = traces.n_cases
    of_cases = np.full(n, _N_CELLS - 1)
    np.minimum.at(of_cases, np.repeat(np.arange(n), traces.lengths), coarsest)
    cells = CaseCells.of(np.arange(n), of_cases, n, _N_CELLS)
    return ClippedCells.of_cases(cells, 1, 1)  # norm 1: never clipped


@dataclass(frozen=True)
class GranularityDecision(contract.Decision):
    """The granularity that was chosen.

    Attributes:
        granularity: Of the stamps that are released.
    """

    wire_name: ClassVar[str] = "granularity"

    granularity: Granularity


def changed_granularities(max_units: int) -> Sensitivity:
    """Returns what one unit changes of the counts."""
    return of_one_cell(max_units)


def decide_granularity(
    counted: ClippedCells, noise: SumNoise, randomness: Randomness
) -> GranularityDecision:
    """Adds noise to the counts and chooses the coarsest grid that the log seems to be on.

    A grid above seconds is one that no noise could make of a finer log: the cases on it outnumber
    those off it by 2.5 deviations of the difference. And one that is nearly all: those off it are
    no more than 2.5 deviations of their number, or than a fiftieth of all. A grid below seconds is
    one that cases clearly need: those off the next coarser one are more than that. Where no grid is
    either, seconds are kept.

    Args:
        counted: What `count_granularities` counts, exactly.
        noise: Of each count; made for `changed_granularities`.
        randomness: The release's.
    """
    noisy = noisy_counts(counted, _N_CELLS, noise, "granularity", randomness, is_whole=True)
    margin = _DEVIATIONS * math.sqrt(variance_of(noise))
    off = np.cumsum(noisy) - noisy  # cases off each grid: their stamps are finer
    tolerated = np.maximum(margin * np.sqrt(np.arange(_N_CELLS)), _OFF * noisy.sum())
    for place in reversed(range(_SECOND + 1, _N_CELLS)):
        is_clear = noisy.sum() - 2 * off[place] >= margin * math.sqrt(_N_CELLS)
        if is_clear and off[place] <= tolerated[place]:
            return GranularityDecision(GRANULARITIES[place])
    needed = np.flatnonzero(off[: _SECOND + 1] <= tolerated[: _SECOND + 1])
    return GranularityDecision(GRANULARITIES[needed[-1]])


def granularity_part(params: PrivateLogParams, share: Fraction, round_name: str) -> Part:
    """Returns the part of `private-log` that buys the granularity."""
    changed = changed_granularities(params.max_units)

    def sentence(means: Means) -> str:
        within = means["granularity"].noise(changed).half_width
        return (
            "counts cases by how fine their stamps are (microseconds, milliseconds, seconds, "
            f"minutes, hours, dates), each within {within:,} (95 %), and keeps that in what is "
            "released"
        )

    def decide(given: Given) -> GranularityDecision:
        noise = given.means["granularity"].noise(changed)
        return decide_granularity(given.statistics["granularity"], noise, given.randomness)

    needs = (Sums("granularity", share, changed),)
    counters = {
        "granularity": Counted(ClippedCells, count_granularities, (params.calendar_time_zone,))
    }
    return Part("granularity", needs, sentence, decide, counters, round_name, chosen="granularity")


# For counts by class and by period bins are wider. There are more of these only while each has so
# many cases, in deviations of the noise of one count.
_FEWEST_WIDE, _CASES_OF_WIDE = 8, 40
# A bin counts as empty unless it and its neighbours together are so many deviations of the noise
# above 0. Noise alone often makes one far bin large, but seldom three in a row.
_LEAST_DEVIATIONS = 2.5
_TINY = np.finfo(np.float64).tiny


def count_spans(batch: Batch, time: LogTime, n_bins: int | None = None) -> ClippedCells:
    """Counts cases by time from first to last event: bin d is cell d.

    Args:
        batch: Complete cases, and what was decided before.
        time: When the log takes place; times are working time in its range, in ticks of its grid.
        n_bins: See `time_borders`; None for as many as were decided.
    """
    traces, decisions = batch.traces, batch.decisions
    traces = within_length(in_vocabulary(traces, decisions), decisions)
    traces = traces.take(np.flatnonzero(traces.lengths > 1))
    bins, n_bins = bins_of_spans(traces, time, n_bins, decisions)
    n = traces.n_cases
    cells = CaseCells.of(np.arange(n), bins, n, n_bins)
    return ClippedCells.of_cases(cells, 1, 1)  # norm 1: never clipped


def bins_of_spans(
    traces: TraceBatch, time: LogTime, n_bins: int | None, decisions: contract.Decisions
) -> tuple[np.ndarray, int]:
    """Returns int64[n_cases], the bin of each case's time, and how many bins there are.

    Args:
        traces: Complete cases.
        time: See `count_spans`.
        n_bins: See `count_spans`.
        decisions: What was decided before.
    """
    grid = time.grid(decisions)
    borders = time_borders(n_bins or decisions["bins"].spans, grid.n_ticks, grid.second)
    ticks = grid.ticks(traces.times)
    spans = ticks[traces.offsets[1:] - 1] - ticks[traces.offsets[:-1]]
    return np.searchsorted(borders, spans, side="right"), len(borders) + 1


@dataclass(frozen=True)
class SpansDecision(contract.Decision):
    """What times of cases are drawn from.

    Attributes:
        borders: int64[k-1], borders of the bins, in ticks.
        reached: float64[k], the chance of each bin or a lower one; the last is 1.
        n_ticks: Each case takes less: the working time of the range.
        counts: float64[k], the noisy counts that it is made of.
        deviation: Of the noise of each.
        wide: int64[k], the wide bin of each bin, ascending from 0; see `wide_bins`.
    """

    wire_name: ClassVar[str] = "binned-spans"

    borders: np.ndarray
    reached: np.ndarray
    n_ticks: int
    counts: np.ndarray
    deviation: float
    wide: np.ndarray

    @property
    def n_wide(self) -> int:
        """Number of wide bins."""
        return int(self.wide[-1]) + 1


def changed_spans(max_units: int) -> Sensitivity:
    """Returns what one unit changes of the counts."""
    return of_one_cell(max_units)


def decide_spans(
    counted: ClippedCells,
    n_bins: int,
    n_ticks: int,
    noise: SumNoise,
    randomness: Randomness,
    second: int = 1,
) -> SpansDecision:
    """Adds noise to all counts, and makes shares of the bins; equal ones if none stands out.

    Args:
        counted: What `count_spans` counts, exactly.
        n_bins: See `time_borders`.
        n_ticks: Working time of the range, in ticks.
        noise: Of each count; made for `changed_spans`.
        randomness: The release's.
        second: Ticks of a second.
    """
    borders = time_borders(n_bins, n_ticks, second)
    k = len(borders) + 1
    noisy = noisy_counts(counted, k, noise, "case span", randomness, is_whole=True)
    together, n_summed = with_neighbours(noisy), with_neighbours(np.ones(k))
    deviation = noise.deviation
    least = _LEAST_DEVIATIONS * deviation * np.sqrt(n_summed)
    shares_kept = np.where(together > least, np.maximum(noisy, 0), 0.0)
    if not shares_kept.any():
        shares_kept = np.ones(k)
    reached = np.cumsum(shares_kept)
    n_wide = int(reached[-1] / (_CASES_OF_WIDE * deviation))
    wide = wide_bins(shares_kept / reached[-1], borders, max(n_wide, _FEWEST_WIDE))
    return SpansDecision(borders, reached / reached[-1], n_ticks, noisy, deviation, wide)


def wide_bins(shares: np.ndarray, borders: np.ndarray, n_wide: int) -> np.ndarray:
    """Returns int64[k], the wide bin of each bin, numbered from 0.

    The first bin, for what takes no time, is one by itself. The others are divided such that each
    wide bin has about as much of the cases and of their time: of the sum of the two shares. So
    where a few cases have most of the time, these are told apart, too.

    Args:
        shares: float64[k], of the cases, by bin.
        borders: int64[k-1], borders of the bins, in ticks.
        n_wide: So many there are at most, at least 2.
    """
    if n_wide >= len(shares):
        return np.arange(len(shares))
    times = shares * np.concatenate([[0], borders])
    both = shares / max(float(np.cumsum(shares)[-1]), _TINY)
    both = both + times / max(float(np.cumsum(times)[-1]), _TINY)
    both[0] = 0
    upto = np.cumsum(both)
    middles = (upto - both / 2) / max(float(upto[-1]), _TINY)
    parts = 1 + np.minimum((middles * (n_wide - 1)).astype(np.int64), n_wide - 2)
    parts[0] = 0
    return np.unique(parts, return_inverse=True)[1].astype(np.int64)


def with_neighbours(row: np.ndarray) -> np.ndarray:
    """Returns each number plus the one before it and the one after it, where there is one."""
    return row + np.append(0, row[:-1]) + np.append(row[1:], 0)


def spans_at(decision: SpansDecision, ranks: np.ndarray) -> np.ndarray:
    """Returns int64[m], in ticks, how long cases of two events or more take.

    Args:
        decision: How long they do.
        ranks: float64[m] in [0, 1), among all cases; see `times_at`.
    """
    nowhere = np.zeros(len(ranks), np.int64)
    reached = decision.reached[None]
    return times_at(reached, nowhere, decision.borders, decision.n_ticks, ranks)


def _note(decision: SpansDecision, tick_us: int, randomness: Randomness) -> None:
    """Notes how many cases take how long."""
    borders = [0, *decision.borders.tolist(), decision.n_ticks]

    def of() -> list[tuple[str, ...]]:
        ends = ((low * tick_us, (high - 1) * tick_us) for low, high in pairwise(borders))
        return [(str(first), str(last)) for first, last in ends]

    note(randomness, DURATION, of, decision.counts, decision.deviation)


def spans_part(params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log`."""
    changed = changed_spans(params.max_units)

    def sentence(means: Means) -> str:
        within = means["spans"].noise(changed).half_width
        return (
            f"counts cases by time from first to last event, in {bins_text(None)}, each within "
            f"{within:,} (95 %)"
        )

    def decide(given: Given) -> SpansDecision:
        grid = params.log_time.grid(given.decisions)
        decision = decide_spans(
            given.statistics["spans"],
            given.decisions["bins"].spans,
            grid.n_ticks,
            given.means["spans"].noise(changed),
            given.randomness,
            grid.second,
        )
        if params.log_time.calendar.is_always:  # else stamps are further apart than working time
            _note(decision, GRID_US[grid.granularity], given.randomness)
        return decision

    needs = (Sums("spans", share, changed),)
    counters = {"spans": Counted(ClippedCells, count_spans, (params.log_time,))}
    return Part("spans", needs, sentence, decide, counters)

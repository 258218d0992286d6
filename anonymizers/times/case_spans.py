"""Durations of cases, the granularity of timestamps, and time between activities.

Each is a table of noisy numbers of its own: cases by bins of their time, cases by the coarsest grid
that has their stamps, and clipped sums of time by directly-follows pair.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.sensitivity import (
    Sensitivity,
    of_clipped_cells,
    of_count,
    of_one_cell,
)
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.contract.sentences import told
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_counts, note
from tracecloak.anonymizers.rigorous.bought import (
    rank_of_clip,
    traces_in_domain,
    vocabulary_in_effect,
)
from tracecloak.anonymizers.rigorous.budget import UNITS, Sums
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, noisy_part
from tracecloak.anonymizers.times.case_classes import BY_ACTIVITY, Detail
from tracecloak.anonymizers.times.time_bins import bins_text, time_borders, times_at
from tracecloak.anonymizers.times.time_range import LogTime, grid_clock
from tracecloak.schemas.arrays.merging import distinct_counts, sum_by_key, sum_groups
from tracecloak.schemas.calendar.working_time import GRANULARITIES, GRID_US, Granularity
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import DURATION, TIME_OF_PAIR
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.clipped_flows import ClippedCells, clipped_counts
from tracecloak.schemas.statistics.variants import DirectlyFollows

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams


# ---
# How long cases take from first event to last: a noisy histogram, and times by their rank in it.
# Of all steps of a case the one that takes longest decides how long it takes, and such steps are
# few: in the histograms of steps (anonymizers.times.step_durations) they are lost in the noise. But
# a case takes one time from first to last, so the histogram of these has little noise. Each case of
# two events or more counts once, by public bins of the time. So one case changes one count by 1:
# exact discrete noise on each covers it. How fine the stamps of a log are, from microseconds to
# dates; public, or chosen and paid.
#
# A log of dates in which cases start at any hour is wrong for whoever reads it. So the stamps of a
# release are whole multiples of one granularity on the local clock, and it is the log's own. Where
# it is not public, each case counts once, by the coarsest grid that has all of its stamps, and
# noise is added to these six counts. That errs less than a choice by permute-and-flip at the same
# price: it tells logs of seconds from logs of dates with a third of the cases.
#
# Stamps finer than a microsecond are cut to it where they are read.


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
    cell_of_case = np.full(n, _N_CELLS - 1)
    np.minimum.at(cell_of_case, np.repeat(np.arange(n), traces.lengths), coarsest)
    return ClippedCells(*distinct_counts(cell_of_case))


class GranularityDecision(contract.Decision, wire_name="granularity"):
    """The granularity that was chosen.

    Attributes:
        granularity: Of the stamps that are released.
    """

    granularity: Granularity


def decide_granularity(given: Given, noise: SumNoise) -> GranularityDecision:
    """Adds noise to the counts and chooses the coarsest grid that the log seems to be on.

    A grid above seconds is one that no noise could make of a finer log: the cases on it outnumber
    those off it by 2.5 deviations of the difference. And one that is nearly all: those off it are
    no more than 2.5 deviations of their number, or than a fiftieth of all. A grid below seconds is
    one that cases clearly need: those off the next coarser one are more than that. Where no grid is
    either, seconds are kept.

    Args:
        given: With what `count_granularities` counts, exactly.
        noise: Of each count, of which one case changes one by 1.
    """
    counted, own = given.statistics["granularity"], given.randomness
    noisy = noisy_counts(counted, _N_CELLS, noise, "granularity", own, is_whole=True)
    margin = _DEVIATIONS * noise.deviation
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
    name, counter = "granularity", (count_granularities, (params.calendar_time_zone,))
    return noisy_part(
        Sums(name, share, of_one_cell(params.max_units)),
        {name: Counted(ClippedCells, *counter)},
        told("private-log", name, params),
        decide_granularity,
        round_name,
        chosen=name,
    )


# For counts by class and by period bins are wider. There are more of these only while each has so
# many cases, in deviations of the noise of one count.
_FEWEST_WIDE, _CASES_OF_WIDE = 8, 40
# A bin counts as empty unless it and its neighbours together are so many deviations of the noise
# above 0. Noise alone often makes one far bin large, but seldom three in a row.
_LEAST_DEVIATIONS = 2.5
_TINY = np.finfo(np.float64).tiny


def count_spans(batch: Batch, time: LogTime) -> ClippedCells:
    """Counts cases by time from first to last event: bin d is cell d.

    Args:
        batch: Complete cases, and what was decided before.
        time: When the log takes place; times are working time in its range, in ticks of its grid.
    """
    traces = traces_in_domain(batch)
    traces = traces.take(np.flatnonzero(traces.lengths > 1))
    return ClippedCells(*distinct_counts(bins_of_spans(traces, time, batch.decisions)))


def bins_of_spans(traces: TraceBatch, time: LogTime, decisions: contract.Decisions) -> np.ndarray:
    """Returns int64[n_cases], the bin of each case's time.

    Args:
        traces: Complete cases.
        time: See `count_spans`.
        decisions: What was decided before.
    """
    grid = time.grid(decisions)
    borders = time_borders(decisions["bins"].spans, grid.n_ticks, grid.second)
    ticks = grid.ticks(traces.times)
    spans = ticks[traces.offsets[1:] - 1] - ticks[traces.offsets[:-1]]
    return np.searchsorted(borders, spans, side="right")


class SpansDecision(contract.Decision, wire_name="binned-spans"):
    """What times of cases are drawn from.

    Attributes:
        borders: int64[k-1], borders of the bins, in ticks.
        reached: float64[k], the chance of each bin or a lower one; the last is 1.
        n_ticks: Each case takes less: the working time of the range.
        counts: float64[k], the noisy counts that it is made of.
        deviation: Of the noise of each.
        wide: int64[k], the wide bin of each bin, ascending from 0; see `wide_bins`.
    """

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

    @property
    def wide_shares(self) -> np.ndarray:
        """float64[n_wide], the chance of each wide bin."""
        return np.bincount(self.wide, np.diff(self.reached, prepend=0))


def decide_spans(given: Given, noise: SumNoise, time: LogTime) -> SpansDecision:
    """Adds noise to all counts, and makes shares of the bins; equal ones if none stands out.

    Notes how many cases take how long.

    Args:
        given: With what `count_spans` counts, exactly.
        noise: Of each count, of which one case changes one by 1.
        time: When the log takes place.
    """
    grid, randomness = time.grid(given.decisions), given.randomness
    borders = time_borders(given.decisions["bins"].spans, grid.n_ticks, grid.second)
    k, counted = len(borders) + 1, given.statistics["spans"]
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

    def of() -> list[tuple[str, ...]]:
        ends = pairwise((0, *borders.tolist(), grid.n_ticks))
        return [(str(low * tick_us), str((high - 1) * tick_us)) for low, high in ends]

    tick_us = GRID_US[grid.granularity]
    if time.calendar.is_always:  # else stamps are further apart than working time
        note(randomness, DURATION, of, noisy, deviation)
    return SpansDecision(borders, reached / reached[-1], grid.n_ticks, noisy, deviation, wide)


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


def spans_part(params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log`."""
    return noisy_part(
        Sums("spans", share, of_one_cell(params.max_units)),
        {"spans": Counted(ClippedCells, count_spans, (params.log_time,))},
        told("private-log", "spans", params, bins=bins_text(None)),
        partial(decide_spans, time=params.log_time),
    )


# --- How much time cases spend between which two activities: noisy sums of clipped times. ---------
# Where the time of a log goes is what the histograms of single steps say least of: most of it
# lies in a few long steps, and a histogram's noise does not know that these weigh more. So the
# time itself is added up. A case is the vector of its times by directly-follows pair: all that it
# spends on steps from a to b. Where the vector's norm is above a clip, it is scaled down to it,
# so that a case of years changes the sums by no more than one of weeks. The clip is a time that
# follows from the noisy lengths of cases: about as many cases take longer as the noise of the
# sums is worth, so it costs nothing, and rises as noise falls.
#
# With delta the norm is L2, and the sums get discrete Gaussian noise; without, it is L1, and they
# get discrete Laplace noise. Vectors are whole numbers on a lattice of UNITS steps of the clip,
# so the norm holds exactly.


# Of a case the time on one pair is cut at so many clips, so that squares fit 64 bits.
_MOST_CLIPS = 1 << 10
# Of the sum of all times, that of one pair, so many times as many cases are scaled down: what is
# beyond the clip the counts of lengths tell, and noise is in proportion to it.
_MORE_OF_ONE = 4.0
# No more than this share of the cases is scaled down, however much noise there is.
_LARGEST_SHARE = 0.25


def changed_times(max_units: int, *, is_pure: bool) -> Sensitivity:
    """Returns what one unit changes of the sums, in lattice steps of which UNITS are the clip.

    Args:
        max_units: Cases of one unit.
        is_pure: Whether delta is 0, and the norm L1.
    """
    return of_count(UNITS).of_cases(max_units) if is_pure else of_clipped_cells(UNITS, max_units)


def clip_of(spans: SpansDecision, n_names: int) -> int:
    """Returns the clip, in ticks, at least 1: a time that a share of the cases exceeds.

    The share is that of `rank_of_clip` for noise as wide as that of the lengths, up to a quarter;
    of a single activity it is four times that.

    Args:
        spans: How long cases take.
        n_names: Activities.
    """
    n_cases = max(float(np.cumsum(spans.counts)[-1]), 1.0)
    weight = _MORE_OF_ONE if n_names == 1 else 1.0
    rank = rank_of_clip(spans.deviation, n_names * n_names, n_names, weight)
    share = min(rank / n_cases, _LARGEST_SHARE)
    return max(int(spans_at(spans, np.array([1 - share]))[0]), 1)


def clipped_times(
    ticks: np.ndarray,
    case_of: np.ndarray,
    pairs: np.ndarray,
    sizes: tuple[int, int],
    clip: int,
    *,
    is_pure: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Adds up the clipped vectors of cases.

    Args:
        ticks: int64[n], the times of steps, not negative.
        case_of: int64[n], the case of each.
        pairs: int64[n], the pair of each.
        sizes: Number of cases and of pairs.
        clip: Largest norm of a case, in ticks.
        is_pure: Whether it is the L1 norm; else it is the L2 norm.

    Returns:
        The pairs of which there is a sum, int64[m], ascending; and the sums, int64[m], in lattice
        steps of which UNITS are the clip.
    """
    n_cases, n_pairs = sizes
    keys, times = sum_by_key(case_of * n_pairs + pairs, ticks)
    case, pair = np.divmod(keys, max(n_pairs, 1))
    # The quotient and the rest apart, so that no product overflows.
    whole, rest = np.divmod(np.minimum(times, clip * _MOST_CLIPS), clip)
    steps = whole * UNITS + rest * UNITS // clip
    if is_pure:
        norms = sum_groups(case, steps, n_cases)
        values = steps * UNITS // np.maximum(norms, UNITS)[case]
    else:
        squares = sum_groups(case, steps**2, n_cases)
        values = clipped_counts(steps, squares[case], UNITS, 1)
    return sum_by_key(pair[values > 0], values[values > 0])


def count_pair_times(
    batch: Batch, time: LogTime, is_pure: bool, detail: Detail = BY_ACTIVITY
) -> ClippedCells:
    """Adds up clipped times of cases by directly-follows pair: a n + b is from a to b.

    Args:
        batch: Complete cases, and what was decided before.
        time: When the log takes place.
        is_pure: Whether a case's norm is L1.
        detail: By what time is added up: where all events are of one activity, by case.
    """
    traces, decisions = detail.cases(traces_in_domain(batch)), batch.decisions
    n = len(traces.vocabulary)
    ticks = time.grid(decisions).ticks(traces.times)
    step = np.flatnonzero(~traces.is_first)
    case_of = np.repeat(np.arange(traces.n_cases), traces.lengths)[step]
    pairs = traces.activities[step - 1].astype(np.int64) * n + traces.activities[step]
    times, clip = ticks[step] - ticks[step - 1], clip_of(decisions["spans"], n)
    sizes = traces.n_cases, n * n
    return ClippedCells(*clipped_times(times, case_of, pairs, sizes, clip, is_pure=is_pure))


class PairTimesDecision(contract.Decision, wire_name="pair-times"):
    """Noisy sums.

    Attributes:
        sums: float64[n n], in clips, of any sign.
        deviation: Of the noise of each.
        clip: Largest norm of a case, in ticks.
        is_pure: Whether that is the L1 norm.
    """

    sums: np.ndarray
    deviation: float
    clip: int
    is_pure: bool


def decide_pair_times(given: Given, noise: SumNoise, params: PrivateLogParams) -> PairTimesDecision:
    """Adds noise to all sums, and notes those of pairs that the released variants have.

    Args:
        given: With what `count_pair_times` counts, exactly.
        noise: Of each sum, in lattice steps; made for `changed_times`.
        params: The method's.
    """
    known, randomness, detail = given.decisions, given.randomness, params.detail
    names = detail.names(vocabulary_in_effect(params.words, known))
    n, counted = len(names), given.statistics["pair times"]
    clip = clip_of(known["spans"], n)
    noisy = noisy_counts(counted, n * n, noise, "time of a pair", randomness)
    decision = PairTimesDecision(noisy, noise.deviation, clip, params.delta == 0)
    is_always = params.log_time.calendar.is_always  # else stamps are further apart
    if not is_always or detail.is_of_all:
        return decision
    # The sums of pairs that the released variants have are far fewer than all.
    shown: ReleasedVariants = known["variants"]
    codes = names.codes(shown.names.take(pa.array(shown.codes)))
    arcs = DirectlyFollows.from_rows(shown.offsets, codes, shown.counts, names).inner(names)
    pairs = arcs.sources.astype(np.int64) * n + arcs.targets

    def of() -> list[tuple[str, ...]]:
        labels, ends = names.labels, (arcs.sources.tolist(), arcs.targets.tolist())
        return [(labels[a], labels[b]) for a, b in zip(*ends, strict=True)]

    unit = float(clip) * GRID_US[params.log_time.grid(known).granularity]
    note(randomness, TIME_OF_PAIR, of, noisy[pairs] * unit, noise.deviation * unit)
    return decision


def pair_times_part(params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log`; its round comes after that of spans."""
    is_pure, detail, name = params.delta == 0, params.detail, "pair times"
    counter = Counted(ClippedCells, count_pair_times, (params.log_time, is_pure, detail))
    return noisy_part(
        Sums(name, share, changed_times(params.max_units, is_pure=is_pure), UNITS),
        {name: counter},
        told("private-log", "pair_times", params),
        partial(decide_pair_times, params=params),
    )

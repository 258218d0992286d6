"""How long steps take: noisy histograms by pair of activities, and draws from them.

A step is an event and its predecessor in the case. Its time, in working time if there is a
calendar and in ticks of the grid of stamps, falls into public bins: exactly zero, and evenly in the
logarithm up to the length of the range (`time_bins`). A case is the vector of its steps counted
twice over: by source, target and bin, and by target and bin. The second says more of a target than
the sum over its sources does, whose noise is that of as many cells as there are activities. If its
variant is one of those that are classes (`case_classes`), its steps count a third time, by their
place in the variant and bin: how long work waits can depend on what came before.

With delta the vector of both is scaled down to a public or privately chosen L2 norm, on a lattice
and exactly (schemas.statistics.clipped_flows), and gets discrete Gaussian noise. Without, cases
have at most `max_trace_length` events, n, hence n - 1 steps that count up to 3 each: a case changes
the sums by at most 3 (n - 1) in L1, and they get discrete Laplace noise. Where n is 1 there is no
step, nothing changes, and any noise will do. Canonne, Kamath and Steinke (NeurIPS 2020) for the
noise; Balle and Wang (ICML 2018) for its scale.

From the noisy sums shares of the bins are made for each pair of activities, and for each place in
these variants, by looking at coarser sums where noise has left little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tracecloak.anonymizers.accounting import sensitivity
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, uniform
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_counts
from tracecloak.anonymizers.rigorous.bought import (
    rank_of_clip,
    traces_in_domain,
    vocabulary_in_effect,
)
from tracecloak.anonymizers.rigorous.budget import UNITS, Allowances
from tracecloak.anonymizers.rigorous.clips import clip_part, clipped_need, norm_grid
from tracecloak.anonymizers.rigorous.names import MAX_CELLS
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.times import case_classes, time_bins
from tracecloak.anonymizers.times.time_range import LogTime
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import places_among
from tracecloak.schemas.calendar.working_time import TimeGrid
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import CaseCells, CaseNorms, ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams

# How much an error by noise weighs against one by clipping when the clip is chosen. It weighs much,
# because only the shares of the bins of each pair are used, and clipping hardly changes these.
_WEIGHT_OF_NOISE = 8
# How much likelier it is beforehand that no step of a pair takes time than that a share does, and
# these shares.
_ODDS = 3.0
_SHARES_THAT_WAIT = np.arange(0.1, 1.05, 0.1).tolist()
# A bin of the whole log counts as empty if it is fewer deviations of its noise above 0 than this.
_LEAST_DEVIATIONS = 3


def n_cells_of(n_names: int, n_bins: int, n_places: int = 0) -> int:
    """Returns the number of cells of all levels.

    Args:
        n_names: Activities, OTHER included.
        n_bins: Of times.
        n_places: In the variants that are classes.
    """
    return (n_names * (n_names + 1) + n_places) * n_bins


def most_names_of_durations(n_bins: int) -> int:
    """Returns how many names, OTHER included, a vocabulary can have at so many bins."""
    return (math.isqrt(4 * (MAX_CELLS // n_bins) + 1) - 1) // 2


def whole_norm(max_trace_length: int) -> int:
    """Returns the largest L1 norm of a case of so many events, or 1 if that would be 0."""
    return int(sensitivity.of_steps(max_trace_length).l1)


def cells_of_steps(
    traces: TraceBatch, grid: TimeGrid, borders: np.ndarray, classes: case_classes.CaseClasses
) -> CaseCells:
    """Returns each case's vector.

    With n names and k bins the cell of a step from a to b in bin d is `(a n + b) k + d`, that of b
    and d is `n² k + b k + d`, and that of place p in the variants that are classes, which only
    their cases have, is `n (n + 1) k + p k + d`.

    Args:
        traces: Complete cases, in the public vocabulary.
        grid: In which the steps' times are measured; what is out of its range takes no time.
        borders: int64[k-1], see `time_borders`.
        classes: The classes of cases.
    """
    n, k = len(traces.vocabulary), len(borders) + 1
    ticks = grid.ticks(traces.times)
    step = np.flatnonzero(~traces.is_first)
    bins = places_among(borders, ticks[step] - ticks[step - 1])
    target = traces.activities[step].astype(np.int64)
    source = traces.activities[step - 1].astype(np.int64)
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)[step]
    place = classes.places(classes.of_cases(traces)[case], step - traces.offsets[case])
    rows = np.flatnonzero(place >= 0)
    keys = (source * n + target) * k, (n * n + target) * k, (n * (n + 1) + place[rows]) * k
    return CaseCells.of(
        np.concatenate([case, case, case[rows]]),
        np.concatenate([keys[0] + bins, keys[1] + bins, keys[2] + bins[rows]]),
        traces.n_cases,
        n_cells_of(n, k, classes.n_places),
    )


def cells_of_durations(
    traces: TraceBatch,
    decisions: contract.Decisions,
    of: tuple[LogTime, case_classes.Detail],
) -> CaseCells:
    """Returns each case's vector, over the bins and by the classes that were decided.

    Args:
        traces: Complete cases, in the vocabulary and within the length in effect.
        decisions: What was decided before; no case counts by class until there are variants.
        of: When the log takes place, and by what steps are counted.
    """
    time, detail = of
    classes = case_classes.NO_CLASSES
    if "variants" in decisions:
        classes = detail.classes(decisions["variants"], traces.vocabulary)
    grid = time.grid(decisions)
    borders = time_bins.time_borders(decisions["bins"].steps, grid.n_ticks, grid.second)
    return cells_of_steps(detail.cases(traces), grid, borders, classes)


def count_norms(batch: Batch, *of: Any) -> CaseNorms:
    """Counts cases by the norm of their vector, on `clips.norm_grid`: what to choose a clip by.

    As if each step counted in three cells, which those of the variants that are classes do: which
    these are is not known yet. A case of one event has the norm 0, one of two the root of 3.

    Args:
        batch: Complete cases, and what was decided before.
        of: See `cells_of_durations`.
    """
    traces, known = traces_in_domain(batch), {**batch.decisions}
    known.pop("variants", None)
    squares = cells_of_durations(traces, known, of).squares
    return CaseNorms.from_squares(squares + traces.lengths - 1, norm_grid())


class DurationsDecision(contract.Decision, wire_name="binned-steps"):
    """What the times of steps are drawn from.

    Attributes:
        borders: int64[k-1], borders of the bins, in ticks.
        reached: float64[n n + n_places, k], the chance of each bin or a lower one; the last is 1.
            Row a n + b is that of steps from a to b, and row n n + p that of steps to place p in
            the variants that are classes.
        is_idle: bool[n n], whether clearly no step from a to b takes time; its chances say so.
        n_names: n, number of activities.
        n_ticks: Each step takes less: the working time of the range.
    """

    borders: np.ndarray
    reached: np.ndarray
    is_idle: np.ndarray
    n_names: int
    n_ticks: int

    def rows(self, steps: Steps) -> np.ndarray:
        """Returns int64[m], the row of each step: of its place, else of its pair."""
        n = self.n_names
        return np.where(steps.places < 0, steps.pairs, n * n + steps.places)


def decide_durations(given: Given, noise: SumNoise, params: PrivateLogParams) -> DurationsDecision:
    """Adds noise to all cells, and makes shares of the bins for each pair of activities.

    A target's bins are what the cells of the target and the sums over its sources say together,
    each weighted by the inverse of its variance (Hay, Rastogi, Miklau and Suciu, VLDB 2010). The
    log's are the sums over the targets that stand out of the noise; bins that do not are taken for
    empty, because a stray thousandth of all steps in a bin of years outlasts the rest of a case.
    The shares of a target are estimated from its bins and the log's shares, those of a pair from
    its bins and its target's shares, and those of a place in a variant from its bins and its pair's
    shares: a count x where the coarser level leads one to expect m
    becomes m + m² / (m² + s²) (x - m), as for a normal prior of mean and deviation m and noise of
    deviation s. So what the coarser level takes for empty stays so, unless x itself is beyond what
    noise reaches in any of the N cells of its level, s times the root of 2 ln N (Donoho and
    Johnstone, 1994); then it is taken as it is. And where the longest times that the coarser level
    has are clearly missing, none is taken to be so long (`without_longest`).

    Args:
        given: With the sums of the vectors of `cells_of_durations`, exactly.
        noise: What is added to each cell; calibrated to the clip by the caller.
        params: The method's; of activities at most as many as `most_names_of_durations` says.
    """
    known, grid = given.decisions, params.log_time.grid(given.decisions)
    vocabulary = vocabulary_in_effect(params.words, known)
    classes = params.detail.classes(known["variants"], vocabulary)
    borders = time_bins.time_borders(known["bins"].steps, grid.n_ticks, grid.second)
    n, k = len(params.detail.names(vocabulary)), len(borders) + 1
    n_cells, counted = n_cells_of(n, k, classes.n_places), given.statistics["durations"]
    noisy = noisy_counts(counted, n_cells, noise, "step duration", given.randomness).reshape(-1, k)
    pairs = noisy[: n * n].reshape(n, n, k)
    direct, places = np.split(noisy[n * n :], [n])
    deviation = noise.deviation
    targets = (n * direct + pairs.sum(axis=0)) / (n + 1)
    deviation_of_targets = deviation * math.sqrt(n / (n + 1))
    is_large = targets > time_bins.largest_noise(targets.size) * deviation_of_targets
    log_shares = _shares_of_log(targets, deviation_of_targets, is_large)
    coarser = time_bins.without_longest(targets, deviation_of_targets, log_shares)
    target_shares = time_bins.estimated_shares(targets, deviation_of_targets, coarser, is_large)
    is_idle = _idle_pairs(pairs.reshape(n * n, k), deviation, log_shares)
    # One target after the other: memory for one copy of the cells is enough.
    reached = np.empty((n * n + len(places), k))
    for target in range(n):
        rows = pairs[:, target]
        is_large = rows > time_bins.largest_noise(pairs.size) * deviation
        coarser = time_bins.without_longest(rows, deviation, target_shares[target])
        reached[target : n * n : n] = time_bins.estimated_shares(rows, deviation, coarser, is_large)
    reached[: n * n][is_idle] = np.eye(1, k)
    is_large = places > time_bins.largest_noise(max(places.size, 2)) * deviation
    pair_of_place = classes.pairs(n)
    is_large[is_idle[pair_of_place]] = False  # what their coarser level has none of stays so
    coarser = time_bins.without_longest(places, deviation, reached[pair_of_place])
    reached[n * n :] = time_bins.estimated_shares(places, deviation, coarser, is_large)
    np.cumsum(reached, axis=1, out=reached)
    reached /= reached[:, -1:]
    return DurationsDecision(borders, reached, is_idle, n, grid.n_ticks)


def _idle_pairs(pairs: np.ndarray, deviation: float, log_shares: np.ndarray) -> np.ndarray:
    """bool[n n], of which pairs it is more likely that no step takes time than that some do.

    A step that takes time is taken to fall into the bins as those of the whole log that do. If
    a share of a pair's steps takes time, two numbers tell it: the noisy count of the first bin,
    and the least-squares estimate of how many steps take time. The likelihood that the share is 0
    is compared with the mean over all shares, each with the number of steps that fits best. What
    is not clearly above the noise is never taken to be idle.

    Args:
        pairs: float64[n n, k], noisy counts.
        deviation: Of the noise of each.
        log_shares: float64[k], shares of the bins in the whole log.
    """
    shares = log_shares[1:] / max(float(log_shares[1:].sum()), np.finfo(np.float64).tiny)
    square = float((shares**2).sum())
    if not square:
        return np.zeros(len(pairs), np.bool_)
    at_once, taking = pairs[:, 0] / deviation, (pairs[:, 1:] * shares).sum(axis=1) / square
    taking *= math.sqrt(square) / deviation
    ratios = np.zeros(len(pairs))
    for share in _SHARES_THAT_WAIT:
        a, b = 1 - share, share * math.sqrt(square)
        fits = (at_once * b - taking * a) ** 2 / (a * a + b * b)  # squared distance to the line
        ratios += elementary.exp(np.clip((taking**2 - fits) / 2, -600, 600))
    return (ratios < _ODDS * len(_SHARES_THAT_WAIT)) & (at_once > _LEAST_DEVIATIONS)


def _shares_of_log(targets: np.ndarray, deviation: float, is_large: np.ndarray) -> np.ndarray:
    """float64[k], shares of the bins in the whole log; equal where nothing stands out.

    Args:
        targets: float64[n, k], noisy counts by target.
        deviation: Of the noise of each.
        is_large: bool[n, k], the cells that are beyond all noise, whatever their bin.
    """
    k = targets.shape[1]
    in_sum = targets.sum(axis=1) > deviation * math.sqrt(k)
    if not in_sum.any():
        in_sum[:] = True
    sums = targets[in_sum].sum(axis=0)
    is_kept = sums > _LEAST_DEVIATIONS * deviation * math.sqrt(in_sum.sum())
    total = np.where(is_kept, sums, np.where(is_large, targets, 0).sum(axis=0))
    if not total.any():
        total = np.ones(k)
    return total / total.sum()


class Steps:
    """The steps of some cases, in their order.

    Attributes:
        events: int64[m], the events that they lead to.
        own: int64[m], the case of each, by its place in the batch.
        cases: int64[m], its number, distinct over the release.
        positions: int64[m], of the event in its case; with the case's number it decides what is
            drawn.
        pairs: int64[m], n times the activity before, plus that of the event, of n activities.
        places: int64[m], the event's place in the variants that are classes, or -1.

    Args:
        traces: Complete cases over the vocabulary of the release.
        case_numbers: int64[n_cases].
        classes: The classes of cases.
        own_classes: int64[n_cases], the class of each.
    """

    def __init__(
        self,
        traces: TraceBatch,
        case_numbers: np.ndarray,
        classes: case_classes.CaseClasses,
        own_classes: np.ndarray,
    ) -> None:
        self.events = np.flatnonzero(~traces.is_first)
        self.own = np.repeat(np.arange(traces.n_cases), traces.lengths)[self.events]
        self.cases = case_numbers[self.own]
        self.positions = self.events - traces.offsets[self.own]
        sources = traces.activities[self.events - 1].astype(np.int64)
        self.pairs = sources * len(traces.vocabulary) + traces.activities[self.events]
        self.places = classes.places(own_classes[self.own], self.positions)


def sample_durations(
    decision: DurationsDecision, steps: Steps, randomness: Randomness
) -> np.ndarray:
    """Draws the times of steps; see `times_at`.

    Args:
        decision: What from.
        steps: The steps.
        randomness: The release's.

    Returns:
        int64[m], in ticks.
    """
    cells, purpose = cell_numbers(steps.cases), "step duration of a case"
    ranks = uniform(randomness.words(purpose, cells, steps.positions)[:, 0])
    borders, rows = decision.borders, decision.rows(steps)
    return time_bins.times_at(decision.reached, rows, borders, decision.n_ticks, ranks)


def steps_clip_part(params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log` that buys the clip."""
    max_units = params.max_units

    def rank(given: Given) -> float:
        changed = sensitivity.of_clipped(UNITS, max_units, is_pure=False)
        noise = given.means["durations"].noise(changed, UNITS)
        n_names = len(params.detail.names(vocabulary_in_effect(params.words, given.decisions)))
        k = given.decisions["bins"].steps
        cells = n_cells_of(n_names, k), n_names
        return rank_of_clip(noise.width / noise.units, *cells, _WEIGHT_OF_NOISE, k)

    norms = Counted(CaseNorms, count_norms, (params.log_time, params.detail))
    return clip_part(norms, share, rank, max_units)


# From traces in the vocabulary and within the length in effect to the vectors of their cases.
CellsOf = Callable[[TraceBatch, contract.Decisions, Any], CaseCells]


def clip_in_effect(public_units: int | None, decisions: contract.Decisions, square: int = 1) -> int:
    """Returns the clip of vectors of a case's events, in lattice steps.

    Args:
        public_units: The public one; None: it follows from `decisions["clip"].clip_units`, rounded
            down, and is at least one occurrence.
        decisions: What was decided before.
        square: The bought clip is divided by the root of this.
    """
    if public_units is not None:
        return public_units
    bought: int = decisions["clip"].clip_units
    return max(UNITS, math.isqrt(bought**2 // square))


def clipped_sums(
    batch: Batch, cells_of: CellsOf, of: Any, clip: int | None, units: int, square: int = 1
) -> ClippedCells:
    """Returns the sums of the cases' clipped vectors.

    Args:
        batch: Complete cases, and what was decided.
        cells_of: From these traces, the decisions and `of` to the cases' vectors.
        of: What they are of.
        clip: See `clip_in_effect`.
        units: Lattice steps of what the vectors count by.
        square: See `clip_in_effect`.
    """
    cells = cells_of(traces_in_domain(batch), batch.decisions, of)
    return ClippedCells.from_cases(cells, clip_in_effect(clip, batch.decisions, square), units)


def vectors_part(
    name: str,
    params: PrivateLogParams,
    share: Fraction,
    counted: tuple[CellsOf, Any],
    sentence: str,
    estimate: Callable[[Given, SumNoise], Any],
    most: int,
    fineness: int = 1,
    square: int = 1,
) -> Part:
    """Returns a part of `private-log` that is made of vectors of the events of a case.

    Args:
        name: Of the part, and of what is counted for it.
        params: The method's.
        share: See `Sums`.
        counted: What counts the vectors, and of what, see `clipped_sums`.
        sentence: What is counted, in words.
        estimate: From what is known, with the exact sums, and the noise of each to what is decided.
        most: How many occurrences a case has in all at most, where delta is 0.
        fineness: Into how many parts an occurrence is divided.
        square: See `clip_in_effect`.
    """
    is_pure = params.delta == 0
    clip = most * fineness if is_pure else params.public_clip_units  # None while it is bought
    lattice = fineness if is_pure else UNITS

    def changed(clip_units: int) -> sensitivity.Sensitivity:
        return sensitivity.of_clipped(clip_units, params.max_units, is_pure=is_pure)

    def explain(means: Allowances) -> str:
        noise = means[name].noise(changed(clip or UNITS), lattice)
        if clip is not None:
            return f"{sentence}, each within {noise.half_width:,} of the sum (95 %)"
        width = noise.width / UNITS * (1 / math.sqrt(square))
        return f"{sentence}, with noise of {width:.1f} times the bought clip"

    def decide(given: Given) -> Any:
        chosen = clip_in_effect(clip, given.decisions, square)
        return estimate(given, given.means[name].noise(changed(chosen), lattice))

    need = clipped_need(name, share, clip, changed, lattice)
    sums = Counted(ClippedCells, clipped_sums, (*counted, clip, lattice // fineness, square))
    return Part(name, (need,), explain, decide, {name: sums})


def durations_part(params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log`."""
    detail, most = params.detail, whole_norm(params.max_trace_length or 1)
    by_what = (
        f"by pair of activities, and of {case_classes.MOST_VARIANTS} variants by position, and "
    )
    bins = time_bins.bins_text(params.n_duration_bins)
    sentence = f"counts steps {by_what * (not detail.is_of_all)}by time, in {bins}"
    cells = cells_of_durations, (params.log_time, detail)
    estimate = partial(decide_durations, params=params)
    return vectors_part("durations", params, share, cells, sentence, estimate, most)

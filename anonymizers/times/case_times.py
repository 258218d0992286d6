"""When cases of each class begin, and how long they take: noisy tables, and draws that agree.

Logs drift: what is frequent in spring is rare in autumn. And what takes long differs from variant
to variant. So each case counts once by class and period, once by class and time from first to last
event, and once by period and that time, in a few wide bins; one of a single event has a bin of its
own for it. Where in a wide bin the time is, all cases say. A case changes three counts by 1 each,
in tables of their own: exact discrete noise on each covers it.

Classes follow from the variants, periods and bins from noisy counts, all decided before.

Tables of cases that agree with several noisy sums of theirs at once.

Looks at noisy numbers and public ones only, so it costs no privacy, and floats may be used. As
`anonymizers.variants.reweight` does for cases, but the sums are over whole axes of a table, so one
after the other is met exactly, again and again, as in iterative proportional fitting (Deming and
Stephan 1940), and what is met is weighed against what was expected.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_distinct_cells
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.contract.sentences import told
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, uniform
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_counts
from tracecloak.anonymizers.rigorous.bought import traces_in_domain, vocabulary_in_effect
from tracecloak.anonymizers.rigorous.budget import Allowance, Sums
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, noisy_part
from tracecloak.anonymizers.times.case_classes import MOST_VARIANTS, CaseClasses
from tracecloak.anonymizers.times.case_spans import SpansDecision, bins_of_spans
from tracecloak.anonymizers.times.case_starts import Periods
from tracecloak.anonymizers.times.time_bins import bins_at, is_reached
from tracecloak.anonymizers.times.time_range import LogTime
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import distinct_counts, sum_groups
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams


_MAX_ROUNDS = 60
_MAX_STEPS = 25
_NO_STEP = 1e-9
# Fitting stops when a round moves less than this share of all cases.
_SETTLED = 1e-4
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class NoisySums:
    """What a table comes to over all its axes but some.

    Attributes:
        axes: Those that are left, ascending.
        sums: float64, with these axes; of any sign. Where the last axis of the table is left and it
            has fewer, they are those of its first cells.
        deviation: Of the noise on each; 0 where they are exact, and then not negative.
    """

    axes: tuple[int, ...]
    sums: np.ndarray
    deviation: float


def agreeing_table(prior: np.ndarray, measured: Sequence[NoisySums], worth: float) -> np.ndarray:
    """Returns float64, a table like the prior that agrees with noisy sums.

    Of all tables t it has the least (worth / N) sum over the cells of t ln(t / prior) - t + prior,
    plus, over all sums y with deviation s, (t's sum - y)^2 / (2 s^2): what the prior says counts
    like `worth` cases that were drawn from it, of the N that it has. In the dual one block of sums
    after the other is met as well as it can be, until nothing moves. Cells where the prior is 0
    stay 0, and sums of nothing but such cells are not looked at.

    Args:
        prior: float64, not negative, in cases; the same axes as the result.
        measured: The sums.
        worth: In cases, above 0.
    """
    table = prior.copy()
    total = float(prior.sum())
    if not total:
        return table
    pulls = [np.zeros_like(block.sums) for block in measured]
    for _ in range(_MAX_ROUNDS):
        moved = 0.0
        for number, block in enumerate(measured):
            others = tuple(axis for axis in range(prior.ndim) if axis not in block.axes)
            is_last = prior.ndim - 1 in block.axes
            part = table[..., : block.sums.shape[-1]] if is_last else table
            expected = part.sum(axis=others)
            logs = log_factors(expected, block, pulls[number], total, worth)
            pulls[number] = pulls[number] - logs * (worth / total)
            part *= np.expand_dims(elementary.exp(logs), others)
            moved = max(moved, float(np.abs(elementary.expm1(logs) * expected).max()))
        if moved < _SETTLED * total:
            break
    return table


def log_factors(
    expected: np.ndarray, block: NoisySums, pulls: np.ndarray, total: float, worth: float
) -> np.ndarray:
    """Returns by what to multiply sums, in the logarithm, so that one block is met best.

    With d the deviation squared and a = total / worth, the new sum x solves
    x + (d / a) ln x = y + d pull + (d / a) ln(expected): a convex equation in ln x (Newton).

    Args:
        expected: float64, the sums of the table as it is.
        block: What they should be.
        pulls: float64, the block's dual numbers so far.
        total: Of the table.
        worth: Of the prior, in cases.

    Returns:
        float64; 0 where nothing is expected.
    """
    is_there = expected > _LEAST
    known = np.where(is_there, expected, 1.0)
    if not block.deviation:
        return np.where(is_there, elementary.log(np.maximum(block.sums, _LEAST) / known), 0.0)
    before = elementary.log(known)
    variance = block.deviation * block.deviation
    slope = variance * worth / total
    wanted = block.sums + variance * pulls + slope * before
    highest = math.ceil(math.log(max(total, 1.0))) + 3
    logs = elementary.log(np.maximum(np.maximum(known, block.sums), 1e-3))
    for _ in range(_MAX_STEPS):
        powers = elementary.exp(logs)
        nearer = np.minimum(logs - (powers + slope * logs - wanted) / (powers + slope), highest)
        step, logs = float(np.abs(nearer - logs).max(initial=0)), nearer
        if step < _NO_STEP:
            break
    return np.where(is_there, logs - before, 0.0)


_FEWEST_PERIODS, _MOST_PERIODS = 2, 24
# A log is divided into more periods only while each has so many cases, in deviations of the noise
# of one count.
_CASES_OF_PERIOD = 40
# What is expected before a class is counted weighs as much as so many counted cases.
_WORTH = 300.0
_TABLES = 3


def n_periods_of(n_cases: int, allowance: Allowance, max_units: int) -> int:
    """Returns how many periods the noise leaves something of: 2 to 24, by the size of the log.

    Args:
        n_cases: Noisy, and paid for.
        allowance: What the tables may spend.
        max_units: Cases of one unit.
    """
    deviation = allowance.noise(changed_tables(max_units)).deviation
    worth = int(n_cases / (_CASES_OF_PERIOD * deviation))
    return min(max(worth, _FEWEST_PERIODS), _MOST_PERIODS)


def changed_tables(max_units: int) -> Sensitivity:
    """Returns what one unit changes of the three tables."""
    return of_distinct_cells(_TABLES, max_units)


def count_tables(batch: Batch, time: LogTime) -> ClippedCells:
    """Counts cases by class and period, by class and wide bin, and by period and wide bin.

    Args:
        batch: Complete cases, and what was decided before.
        time: When the log takes place.
    """
    traces, decisions = traces_in_domain(batch), batch.decisions
    classes = CaseClasses.of(decisions["variants"], traces.vocabulary)
    periods: Periods = decisions["periods"]
    working = time.working_time(decisions)
    starts = working.at_us(working.elapsed_us(traces.starts))
    bins = bins_of_spans(traces, time, decisions)
    spans: SpansDecision = decisions["spans"]
    n_bins, bins = spans.n_wide, spans.wide[bins]
    axes = (
        (classes.size, classes.of_cases(traces)),
        (periods.size, periods.of(starts)),
        (n_bins + 1, np.where(traces.lengths > 1, bins, n_bins)),
    )
    keys, first = [], 0
    for (n_rows, rows), (width, columns) in itertools.combinations(axes, 2):
        keys.append(first + rows * width + columns)
        first += n_rows * width
    return ClippedCells(*distinct_counts(np.concatenate(keys)))


class TablesDecision(contract.Decision, wire_name="case-tables"):
    """Noisy counts.

    Attributes:
        by_period: float64[n_classes, n_periods].
        by_span: float64[n_classes, n_wide+1], the last bin for cases of a single event.
        of_periods: float64[n_periods, n_wide+1], likewise.
        deviation: Of the noise of each.
    """

    by_period: np.ndarray
    by_span: np.ndarray
    of_periods: np.ndarray
    deviation: float


def decide_tables(given: Given, noise: SumNoise, params: PrivateLogParams) -> TablesDecision:
    """Adds noise to all counts.

    Args:
        given: With what `count_tables` counts, exactly.
        noise: Of each count; made for `changed_tables`.
        params: The method's.
    """
    known, counted, own = given.decisions, given.statistics["tables"], given.randomness
    classes = CaseClasses.of(known["variants"], vocabulary_in_effect(params.words, known))
    sizes = classes.size, known["periods"].size, known["spans"].n_wide + 1
    shapes = list(itertools.combinations(sizes, 2))
    ends = np.cumsum([a * b for a, b in shapes])
    noisy = noisy_counts(counted, int(ends[-1]), noise, "case table", own, is_whole=True)
    tables = np.split(noisy, ends[:-1])
    by_period, by_span, of_periods = (t.reshape(s) for t, s in zip(tables, shapes, strict=True))
    return TablesDecision(by_period, by_span, of_periods, noise.deviation)


class CaseTimes(contract.Decision, wire_name="case-times"):
    """What periods and times of cases of each class are drawn from.

    Attributes:
        periods: float64[2 n_classes, n_periods], the chance of each period or an earlier one: of
            the cases of each class that have one event, then of those that have more.
        spans: float64[n_classes, n_periods, n_wide], the chance of each wide bin or a lower one.
    """

    periods: np.ndarray
    spans: np.ndarray


def decide_times(
    tables: TablesDecision,
    of_all: SpansDecision,
    periods: Periods,
    classes: CaseClasses,
    bins: tuple[np.ndarray, np.ndarray],
) -> CaseTimes:
    """Finds the times that agree with all tables, and with the released number of each class.

    Before they are counted, a class is expected to begin when all cases do, and to take as long as
    its steps come to in comparison with those of others: times drawn by ranks among all.

    Args:
        tables: Noisy counts.
        of_all: How long all cases take.
        periods: When they begin.
        classes: The classes of the released variants.
        bins: int64[n] each: of some cases like those that are released the class, and the wide bin
            of the time by its steps' rank; n_wide for a case of one event.
    """
    n_classes, width = tables.by_span.shape
    shares_of_all = np.append(of_all.wide_shares, 0)
    sums = sum_groups(bins[0] * width + bins[1], np.ones(len(bins[0]), np.int64), n_classes * width)
    may_be = is_reached(tables.by_span, tables.deviation, np.tile(shares_of_all, (n_classes, 1)))
    class_shares = sums.reshape(n_classes, width) + np.where(may_be, shares_of_all, 0.0)
    class_shares[~class_shares.any(axis=1)] = shares_of_all
    class_shares /= class_shares.sum(axis=1, keepdims=True)
    cases_of_period = np.diff(periods.ranks)
    used = np.flatnonzero(classes.sizes)
    sizes = classes.sizes[used].astype(np.float64)
    prior = sizes[:, None, None] * cases_of_period[None, :, None] * class_shares[used][:, None, :]
    measured = [
        NoisySums((0, 2), tables.by_span[used], tables.deviation),
        NoisySums((0, 1), tables.by_period[used], tables.deviation),
        NoisySums((1, 2), tables.of_periods, tables.deviation),
        NoisySums((2,), np.bincount(of_all.wide, of_all.counts), of_all.deviation),
        NoisySums((0,), sizes, 0.0),
        NoisySums((1,), sizes.sum() * cases_of_period, tables.deviation),
    ]
    table = agreeing_table(prior, measured, _WORTH)
    single = np.tile(cases_of_period, (n_classes, 1))
    several = single.copy()
    single[used] = _shares(table[:, :, -1], cases_of_period)
    several[used] = _shares(table[:, :, :-1].sum(axis=2), cases_of_period)
    spans = np.tile(shares_of_all[:-1], (n_classes, len(cases_of_period), 1))
    spans[used] = _shares(table[:, :, :-1], shares_of_all[:-1])
    return CaseTimes(reached_of(np.concatenate([single, several])), reached_of(spans))


def _shares(rows: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Rows along the last axis in proportion; where there is nothing, something else."""
    totals = rows.sum(axis=-1, keepdims=True)
    return np.where(totals > 0, rows / np.where(totals > 0, totals, 1), otherwise)


def reached_of(rows: np.ndarray) -> np.ndarray:
    """Sums up to each, along the last axis; the last is 1."""
    sums = np.cumsum(rows, axis=-1)
    return sums / sums[..., -1:]


def sample_periods(
    decision: CaseTimes,
    classes: np.ndarray,
    is_single: np.ndarray,
    case_numbers: np.ndarray,
    randomness: Randomness,
) -> np.ndarray:
    """Draws the period in which each case begins.

    Args:
        decision: What from.
        classes: int64[n], of each case.
        is_single: bool[n], whether it has one event.
        case_numbers: int64[n], distinct over the release; the number decides what is drawn.
        randomness: The release's.

    Returns:
        int64[n].
    """
    ranks = uniform(randomness.words("period of a case", cell_numbers(case_numbers))[:, 0])
    n_classes = len(decision.spans)
    return bins_at(decision.periods, classes + n_classes * ~is_single, ranks)


def wide_bins_at(
    decision: CaseTimes, classes: np.ndarray, periods: np.ndarray, ranks: np.ndarray
) -> np.ndarray:
    """Returns int64[m], the wide bins of the times of cases with these ranks in their classes.

    Args:
        decision: How long cases of each class take.
        classes: int64[m].
        periods: int64[m].
        ranks: float64[m] in [0, 1), among the cases of the class and period.
    """
    n_classes, n_periods, k = decision.spans.shape
    reached = decision.spans.reshape(n_classes * n_periods, k)
    return bins_at(reached, classes * n_periods + periods, ranks)


def ranks_among_all(of_all: SpansDecision, bins: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Returns float64[m] in [0, 1), the ranks among all cases of those with ranks in wide bins.

    A wide bin can reach from nothing to a week. Where in it the cases of a class lie was not
    counted, so that is decided among all cases of the bin.

    Args:
        of_all: How long all cases take.
        bins: int64[m], wide ones.
        ranks: float64[m] in [0, 1), among all cases of the bin.
    """
    shares = of_all.wide_shares
    return (np.cumsum(shares) - shares)[bins] + np.minimum(ranks, 1 - 1e-9) * shares[bins]


def tables_part(params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log`; its round comes after those of variants and starts."""
    said = {"most_variants": MOST_VARIANTS, "fewest": _FEWEST_PERIODS, "most": _MOST_PERIODS}
    return noisy_part(
        Sums("tables", share, changed_tables(params.max_units)),
        {"tables": Counted(ClippedCells, count_tables, (params.log_time,))},
        told("private-log", "tables", params, **said),
        partial(decide_tables, params=params),
    )

"""Estimates with a standard deviation, and figures that show them beside a released number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.rigorous.clips import least_events
from tracecloak.anonymizers.times.case_spans import with_neighbours
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import distinct_counts, order_of_small
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published import figures as sums
from tracecloak.schemas.published.figures import (
    DERIVED,
    MEASURED,
    Figure,
    Measure,
    ReleasedFigures,
    ReleasedMeasures,
    ReleasedProduct,
    wider_ends,
)
from tracecloak.schemas.published.graph import ReleasedGraph, ReleasedGroups
from tracecloak.schemas.published.variants import LogCounts
from tracecloak.schemas.statistics.log_times import LogTimes, middles
from tracecloak.schemas.statistics.variant_flows import (
    PARTS,
    FlowCells,
    GroupCells,
    VariantFlows,
    group_vectors,
)
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- Estimates with a standard deviation, and figures that show them beside a released number. ----


Z95 = 1.959963984540054
"""Standard deviations of normal noise to each side that hold 95 % of it."""

OF_CORRECTION = 0.5
"""The standard deviation of a correction, as a share of it. It is that of the sum of many arcs as
well: where the released cases are longer than the original ones, all corrections are too large."""

OF_WIDTH = 0.125
"""The standard deviation of the place of a mean within its bin, as a share of the bin's width."""

# A count just above a threshold is rather one that noise has raised: its lower end is lower by as
# many deviations as it is nearer to the threshold than this.
_FAR_FROM_THRESHOLD = 2.0
_LARGEST = 1 << 62


@dataclass(frozen=True)
class Estimate:
    """A number as far as noisy sums tell it.

    Attributes:
        value: The number.
        variance: Of its error.
    """

    value: float
    variance: float

    def ends_of_shown(self, above: float) -> tuple[float, float]:
        """Returns the ends of the interval of a sum that is shown because it is large.

        Args:
            above: By how many deviations of its noise the sum is above what it is shown from.
        """
        deviation, near = math.sqrt(self.variance), max(_FAR_FROM_THRESHOLD - max(above, 0.0), 0.0)
        return self.value - (Z95 + near) * deviation, self.value + Z95 * deviation

    def figure(self, name: str, of: tuple[str, ...], released: float, kind: str) -> Figure:
        """Returns the figure of a released number.

        Its interval is that of the estimate, 95 % wide, and reaches to the released number where
        that lies outside.

        Args:
            name: See `ReleasedFigures.figures`.
            of: What it is of.
            released: What the released log says.
            kind: See `schemas.published.figures`.
        """
        half = Z95 * math.sqrt(self.variance)
        # An estimate below 0 has the upper end of a 0: a lower one would say more than is known.
        ends = self.value - half, max(self.value, 0.0) + half
        return figure_within(name, of, released, ends, kind)


def surest(estimates: Sequence[Estimate]) -> Estimate:
    """Returns the most precise of several estimates that may all err to the same side.

    What clipping or noise hides of long cases makes all of them too small, so their mean is no
    surer than the best of them.

    Args:
        estimates: At least one.
    """
    return min(estimates, key=lambda one: one.variance)


def cases_of(measures: ReleasedMeasures) -> Estimate:
    """Returns how many cases there are, by all parts that counted them, and how precisely."""
    counted = [(row.value, 1 / row.deviation**2) for row in measures.rows(sums.CASES)]
    total = sum(weight for _, weight in counted)
    return Estimate(sum(weight * value for value, weight in counted) / total, 1 / total)


def figure_within(
    name: str, of: tuple[str, ...], released: float, ends: tuple[float, float], kind: str
) -> Figure:
    """Returns a figure whose interval holds both ends and the released number.

    Args:
        name: See `ReleasedFigures.figures`.
        of: What it is of.
        released: What the released log says.
        ends: Of the interval; no end below 0 is shown.
        kind: See `schemas.published.figures`.
    """
    value = round(released)
    low, high = (min(max(end, 0.0), _LARGEST) for end in ends)
    return Figure(name, of, value, min(math.floor(low), value), max(math.ceil(high), value), kind)


def clipped_estimate(
    measure: Measure, whole: float, clipped: float, least: tuple[float, float] = (1.0, 1.0)
) -> Estimate:
    """Returns what a sum over clipped cases says of one over whole cases.

    Args:
        measure: The sum.
        whole: The same of the released log.
        clipped: The same of its clipped cases.
        least: By how much all sums together are raised at least, as far as the noise allows: the
            ratio that they say, and the largest that they do not exclude.
    """
    ratio, correction = whole / clipped if clipped > 0 else 1.0, whole - clipped
    if least[0] > ratio:
        ratio, correction = least[0], max(correction, (least[0] - 1) * measure.value)
    excess = max(least[1] - ratio, 0.0) / Z95 * measure.value
    variance = (measure.deviation * ratio) ** 2 + (OF_CORRECTION * correction) ** 2 + excess**2
    return Estimate(measure.value * ratio, variance)


# --- What the numbers of a released log say of the original one: intervals from what was measured.
# A log is drawn so that it agrees with many noisy sums. Each of its numbers is one of three
# kinds:
#
# * measured: there is a noisy sum of the same thing, such as the cases that take an arc. The
# interval
#   is that of the noise around the sum, corrected by what clipping took.
# * derived: there are sums that it follows from, such as the mean duration from cases by duration.
# * modelled: there is none. It is no figure, and has no interval.
#
# The value of a figure is what the released log says, and the interval is what the sums say:
# where the log was drawn off a sum, the interval reaches from one to the other. Only what was
# released is read, so whoever has the release computes the same; no key, and no other source of
# noise.
#
# Figures of when the cases of a released log begin, and how long they take.
#
# Cases by bin of their time from first to last event were counted with noise. How many cases take
# as long as a bin or longer is a sum of these, and lies within the noise of that sum; so the ends
# of an interval follow from all sums at their ends together, whatever noise hides. A quantile
# lies in or after a bin if more cases than its share take as long, and a mean is the sum of all
# such sums, each by the width of its bin. Where in its bin a time lies was not counted. For a
# mean, times are taken to lie evenly in the logarithm, as they were drawn, and a share of each
# bin is added to its uncertainty. The interval of a quantile has whole bins: in many processes a
# step takes always as long, so that all times of a bin lie at one place of it. Times before and
# after the range of dates were cut.
#
# Figures of how long cases of a released log take from one activity to the next, on average.
#
# The time that cases spend between two activities was added up with noise, of cases that were
# scaled down to a clip. How much that took of a pair was not measured: perhaps nothing, and
# perhaps what it takes of the same pair in cases like the released ones, and once more the share
# that it takes of all time there. The interval reaches from the one to the other, with the noise
# of the sum and of how often the second activity followed the first. It is of the time within the
# released range of dates.
#
# Figures of what the cases of a released log do: totals, activities, arcs and variants.
#
# The sum of an arc is over cases that were scaled down to a norm, so it is too low. By how much
# the released log tells: its cases are scaled down likewise, and the sum is raised by the
# quotient of what its arc has before and after, and by no less than what all sums together say of
# clipped cases of any lengths (`clips.least_events`). How far the cases of the log may differ
# from those of the original in that is not known; half of the correction is taken for its
# standard deviation. That is an estimate and no bound: no interval of a bounded width could hold
# for cases of any length.


# Rarer variants are no figures.
_LEAST_OF_VARIANT = 50


@dataclass(frozen=True, eq=False)
class _Arcs:
    """How often a released log takes each arc, and how often its clipped cases do.

    Attributes:
        names: Of the ends; START comes last among the sources, and END last among the targets.
        whole: float64[n+1, n+1].
        clipped: float64[n+1, n+1], likewise.
        least: As of `clipped_estimate`.
    """

    names: ActivityVocabulary
    whole: np.ndarray
    clipped: np.ndarray
    least: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of(
        cls, names: ActivityVocabulary, keys: np.ndarray, counts: np.ndarray, scales: np.ndarray
    ) -> _Arcs:
        """Adds up occurrences by `source * (n + 1) + target`, each with the scale of its case."""
        side = len(names) + 1
        whole, clipped = (
            np.bincount(keys, values, side**2).reshape(side, side)
            for values in (counts, counts * scales)
        )
        return cls(names, whole, clipped)

    @cached_property
    def taken(self) -> dict[tuple[str, ...], tuple[float, float]]:
        """What the whole cases and the clipped ones have of each arc, by the names of its ends."""
        labels, cells = self.names.labels, np.nonzero(self.whole)
        ends = zip(*(at.tolist() for at in cells), strict=True)
        both = zip(self.whole[cells].tolist(), self.clipped[cells].tolist(), strict=True)
        of = ((labels[a], labels[b + (b == len(self.names))]) for a, b in ends)
        return dict(zip(of, both, strict=True))

    def path(self, row: Measure, n_cells: int) -> Figure:
        """Returns the figure of an arc that is taken, shown for its sum among those of n cells."""
        whole, clipped = self.taken[row.of]
        above = row.value / row.deviation - math.sqrt(math.log(n_cells))  # `SumNoise.threshold`
        ends = clipped_estimate(row, whole, clipped, self.least).ends_of_shown(above)
        return figure_within("path", row.of, whole, ends, MEASURED)


def _arcs_of_log(
    measures: ReleasedMeasures, variants: VariantHistogram, names: ActivityVocabulary
) -> _Arcs:
    n = len(names)
    begins = [int(row.value) for row in measures.rows(sums.POSITION)]
    longest = int(np.diff(variants.offsets).max(initial=0))
    cells = FlowCells.without_positions(n, longest)
    if begins:
        cells = FlowCells(n, np.searchsorted(begins, np.arange(longest + 1), side="right") + 1)
    flows = VariantFlows.from_variants(variants, cells)
    clip = measures.rows(sums.CLIP)[0].value
    scales = np.minimum(1.0, clip / np.sqrt(flows.squares.astype(np.float64)))
    # The whole case, and the arc from START; or all, where no arc counts by position.
    is_once = (flows.keys < 2 * cells.side**2) | (not cells.has_whole)
    rows, pairs = flows.rows[is_once], flows.keys[is_once] % cells.side**2
    counts = (flows.counts * flows.cases[flows.rows])[is_once].astype(np.float64)
    [events], n_cases = measures.rows(sums.EVENTS), max(cases_of(measures).value, 1.0)
    likely, most = (
        least_events(each, clip, 1 + bool(begins)) / each
        for each in (max(events.value + z * events.deviation, 1.0) / n_cases for z in (0.0, Z95))
    )
    return replace(_Arcs.of(names, pairs, counts, scales[rows]), least=(likely, most))


def flow_figures(
    measures: ReleasedMeasures, variants: VariantHistogram, names: ActivityVocabulary
) -> Iterator[Figure]:
    """Yields the figures that sums were measured of; see `ReleasedFigures.figures`.

    Args:
        measures: The sums.
        variants: Of the released log.
        names: What their codes mean.
    """
    yield cases_of(measures).figure("cases", (), variants.n_cases, MEASURED)
    if not measures.rows(sums.CLIP):
        return
    released = _arcs_of_log(measures, variants, names)
    n = len(names)
    into, onward = released.whole[:, :n], released.clipped[:, :n]
    by_bins = _estimates_by_occurrence(measures, variants, names)
    sums_of_arcs = into.sum(), onward.sum(), released.least
    events = [clipped_estimate(row, *sums_of_arcs) for row in measures.rows(sums.EVENTS)]
    used = names.names.filter(pa.array(into.any(axis=0))).to_pylist()
    if by_bins.keys() >= {*used}:  # what no released case has is not among the names of its files
        total = sum(estimate.value for estimate in by_bins.values())
        events.append(Estimate(total, sum(one.variance for one in by_bins.values())))
    yield surest(events).figure("events", (), float(into.sum()), DERIVED)
    yield from _activities(measures, released, names, by_bins)
    yield from _paths(measures, released)
    yield from _variants(measures, variants, names)


def _activities(
    measures: ReleasedMeasures,
    released: _Arcs,
    names: ActivityVocabulary,
    by_bins: dict[str, Estimate],
) -> Iterator[Figure]:
    n = len(names)
    whole, clipped = (
        (arcs[:, :n].sum(axis=0) + arcs[:n].sum(axis=1)) / 2
        for arcs in (released.whole, released.clipped)
    )
    by_arcs = {row.of[0]: row for row in measures.rows(sums.ACTIVITY)}
    for code, name in enumerate(names.names.to_pylist()):
        if not whole[code] or name not in by_arcs:
            continue
        sums_of = float(whole[code]), float(clipped[code])
        several = [clipped_estimate(by_arcs[name], *sums_of, released.least)]
        if name in by_bins:
            several.append(by_bins[name])
        yield surest(several).figure("activity", (name,), sums_of[0], DERIVED)


def _estimates_by_occurrence(
    measures: ReleasedMeasures, variants: VariantHistogram, names: ActivityVocabulary
) -> dict[str, Estimate]:
    """How often each activity occurs, by the cases that have it so and so often.

    Where a bin has several numbers of occurrences, the mean is that of the released cases in it. It
    is off by a share of the width of the bin, or of how far it is from where the last begins.
    """
    n = len(names)
    row_of = np.repeat(np.arange(variants.n_variants), np.diff(variants.offsets))
    pairs, times = distinct_counts(row_of * n + variants.codes)
    cases, code = variants.counts[pairs // n].astype(np.float64), pairs % n
    # By activity, and the pairs of each in their order.
    pairs = np.stack([cases, times])[:, order_of_small(code, n)]
    ends = np.cumsum(np.bincount(code, minlength=n))[:-1]
    own = dict(zip(names.names.to_pylist(), np.split(pairs, ends, axis=1), strict=True))
    rows_of: dict[str, list[Measure]] = {}
    for row in measures.rows(sums.OCCURRENCES):
        rows_of.setdefault(row.of[0], []).append(row)
    estimates = {}
    for name, rows in rows_of.items():
        cases, times = own.get(name, np.zeros((2, 0)))
        total = by_noise = by_place = 0.0
        for row in rows:
            low, high = int(row.of[1]), float(row.of[2] or math.inf)
            is_here = (times >= low) & (times <= high)
            n_here = float(cases[is_here].sum())
            mean = (low + min(high, 2 * low)) / 2
            if n_here:
                mean = float((cases * times)[is_here].sum()) / n_here
            place = OF_WIDTH * (high - low) if row.of[2] else OF_CORRECTION * (mean - low)
            total += mean * row.value
            by_noise += (mean * row.deviation) ** 2
            by_place += (place * row.value) ** 2
        # The bin after the last that was counted may have cases that its noise would have hidden.
        last = max(rows, key=lambda row: int(row.of[1]))
        by_noise += ((float(last.of[2]) + 1.0 if last.of[2] else 0.0) * last.deviation) ** 2
        estimates[name] = Estimate(total, by_noise + by_place)
    return estimates


def _paths(measures: ReleasedMeasures, released: _Arcs) -> Iterator[Figure]:
    """The arcs of the log, and how many cases an arc can have that is none of them."""
    n = len(measures.rows(sums.ACTIVITY))
    rows = measures.rows(sums.ARC)
    yield from (released.path(row, n * (n + 1)) for row in rows if row.of in released.taken)
    hidden = [row for row in rows if row.of not in released.taken]
    hidden += measures.rows(sums.ARC_NOT_SHOWN)
    if hidden:
        # Clipping is taken to leave no less of such an arc than of any that is shown.
        is_taken = released.clipped > 0
        ratios = released.whole[is_taken] / released.clipped[is_taken]
        ratio = max(float(ratios.max(initial=1.0)), *released.least)
        most = max(row.value + Z95 * row.deviation for row in hidden) * ratio
        yield figure_within("path_not_shown", (), 0, (0.0, max(most, 0.0)), MEASURED)


# ---
# The graph of groups of activities: as the released log has it, with what was counted beside it.
# As of arcs of activities, the sum of a step between groups is over cases that were scaled down,
# and is raised by what its step has in the released log before and after that.


def groups_of_log(
    measures: ReleasedMeasures, variants: VariantHistogram, names: ActivityVocabulary
) -> ReleasedGroups:
    """Returns the groups of a released log and their graph.

    Args:
        measures: The sums, those of groups among them.
        variants: Of the released log.
        names: What their codes mean.
    """
    members = {row.of[0]: row.of[1] for row in measures.rows(sums.GROUP)}
    groups = ActivityVocabulary.of(sorted(set(members.values())))
    group_names = pa.array([members[name] for name in names.names.to_pylist()], pa.string())
    steps, n = _steps(measures, variants, groups, groups.codes(group_names)), len(groups)
    rows = {row.of: row for row in measures.rows(sums.STEP)}
    limits = (one.value + Z95 * one.deviation for one in measures.rows(sums.STEP_NOT_SHOWN))
    hidden = 0.0, max(limits, default=math.inf)  # of a step that no drawn case had
    figures = [
        steps.path(rows[of], n * (n + 1) + 1)
        if of in rows
        else figure_within("path", of, whole, hidden, MEASURED)
        for of, (whole, _) in steps.taken.items()
    ]
    numbers = [(one.value, one.low, one.high) for one in figures]
    counts, lows, highs = np.array(numbers, np.int64).reshape(-1, 3).T
    sources, targets = (ends.astype(np.int32) for ends in np.nonzero(steps.whole))
    targets[targets == n] = groups.end
    intervals = wider_ends(counts, lows, highs)
    graph = ReleasedGraph(groups.names, sources, targets, counts, *intervals)
    activities, of = (pa.array(list(column), pa.string()) for column in (members, members.values()))
    return ReleasedGroups(activities, of, graph)


def _steps(
    measures: ReleasedMeasures,
    variants: VariantHistogram,
    groups: ActivityVocabulary,
    codes: np.ndarray,
) -> _Arcs:
    """How often a released log goes from group to group, and how often its clipped cases do."""
    [clip] = (row.value for row in measures.rows(sums.GROUP_CLIP))
    begins = [int(row.value) for row in measures.rows(sums.GROUP_POSITION)]
    longest = int(np.diff(variants.offsets).max(initial=0))
    bins = np.searchsorted(begins, np.arange(longest + 1), side="right") - 1
    cells = GroupCells(len(groups), bins)
    vectors = group_vectors(variants, codes, cells)
    norms = np.sqrt(vectors.squares.astype(np.float64))
    scales = np.minimum(1.0, clip * PARTS / np.maximum(norms, 1.0))
    is_step = vectors.keys < cells.side**2  # after the steps, what cases begin with
    rows, keys = vectors.rows[is_step], vectors.keys[is_step]
    counts = (vectors.counts[is_step] / cells.weights[keys]) * variants.counts[rows]
    steps = _Arcs.of(groups, keys, counts, scales[rows])
    return replace(steps, whole=np.rint(steps.whole))


def _variants(
    measures: ReleasedMeasures, variants: VariantHistogram, names: ActivityVocabulary
) -> Iterator[Figure]:
    """The frequent variants of the log."""
    seen = {row.of: row for row in measures.rows(sums.VARIANT)}
    limits = [row.value for row in measures.rows(sums.LEAST_OF_VARIANT)]
    deviation = max((row.deviation for row in seen.values()), default=0.0)
    words, ends = names.names.to_pylist(), variants.offsets.tolist()
    frequent = np.flatnonzero(variants.counts >= _LEAST_OF_VARIANT)
    order = frequent[np.argsort(-variants.counts[frequent], kind="stable")]
    for variant in order.tolist():
        count = int(variants.counts[variant])
        of = tuple(words[code] for code in variants.codes[ends[variant] : ends[variant + 1]])
        label = (" → ".join(of),)
        row = seen.get(of)
        if row is not None:
            above = (row.value - limits[0]) / row.deviation
            shown = Estimate(row.value, row.deviation**2).ends_of_shown(above)
            yield figure_within("variant", label, count, shown, MEASURED)
        elif limits:
            most = limits[0] + Z95 * deviation
            yield figure_within("variant", label, count, (0.0, most), DERIVED)


_QUANTILES = (0.25, 0.5, 0.75, 0.9)
# A bin counts as empty unless it and its neighbours together are so many deviations of the noise
# above 0; as for the times that were drawn.
_LEAST_DEVIATIONS = 2.5


class _Durations:
    """Cases by duration, as they were counted with noise.

    Attributes:
        first: float64[k], the shortest time of each bin, in microseconds; 0 of the first.
        last: float64[k], the longest.
        counts: float64[k], how many cases each has; 0 where noise could have made that.
        reached: float64[k], how many each or a longer one has, with noise.
        variances: float64[k], of that noise.
        cases: How many cases there are; those of one event take no time and are in no bin.

    Args:
        measures: With cases by duration.
    """

    def __init__(self, measures: ReleasedMeasures) -> None:
        rows = measures.rows(sums.DURATION)
        noisy, deviation = np.array([row.value for row in rows]), rows[0].deviation
        least = _LEAST_DEVIATIONS * deviation * np.sqrt(with_neighbours(np.ones(len(rows))))
        self.counts = np.where(with_neighbours(noisy) > least, noisy, 0.0)
        self.first, self.last = np.array([row.of for row in rows], np.float64).T
        self.reached = np.cumsum(noisy[::-1])[::-1]
        self.variances = np.arange(len(rows), 0, -1) * deviation**2
        self.cases = cases_of(measures)

    @property
    def _middles(self) -> np.ndarray:
        """float64[k], the mean of times that lie evenly in the logarithm, of each bin."""
        low, high = np.maximum(self.first, 1.0), np.maximum(self.last, 1.0)
        is_wide = high > low
        logs = np.where(is_wide, elementary.log(high / low), 1.0)
        return np.where(is_wide, (high - low) / logs, self.first)

    def mean(self) -> tuple[float, float]:
        """Returns the ends of the interval of the mean of the durations of all cases."""
        case_deviation = Z95 * math.sqrt(self.cases.variance)
        fewest, all_cases = (max(self.cases.value + side * case_deviation, 1.0) for side in (-1, 1))
        half = Z95 * np.sqrt(self.variances)
        most = np.minimum.accumulate(np.clip(self.reached + half, 0.0, all_cases))
        least = np.maximum.accumulate(np.clip(self.reached - half, 0.0, all_cases)[::-1])[::-1]
        steps = np.diff(self._middles, prepend=0.0)
        places = OF_WIDTH * (self.last - self.first) * self.counts
        within = Z95 * math.sqrt(float((places**2).sum()))
        ends = float((steps * least).sum()) - within, float((steps * most).sum()) + within
        return ends[0] / all_cases, ends[1] / fewest

    def quantile(self, quantile: float) -> tuple[float, float]:
        """Returns the ends of the interval of a quantile of the durations of all cases.

        The first bin after which it need not lie, and the last one from which on it can.
        """
        rest = 1 - quantile
        more = self.reached - rest * self.cases.value
        slack = Z95 * np.sqrt(self.variances + rest**2 * self.cases.variance)
        n_surely = int(np.argmax(np.append(more <= slack, True)))
        possible = np.flatnonzero(more >= -slack)
        low = float(self.first[n_surely - 1]) if n_surely else 0.0
        return low, float(self.last[possible[-1]]) if len(possible) else 0.0


def time_figures(measures: ReleasedMeasures, times: LogTimes) -> Iterator[Figure]:
    """Yields the figures that sums were measured of; see `ReleasedFigures.figures`.

    Args:
        measures: The sums.
        times: Of the released log.
    """
    if measures.rows(sums.DURATION) and len(times.spans):
        durations = _Durations(measures)
        durations_us = middles(times.spans)
        reached = np.cumsum(times.span_counts)
        mean = float((durations_us * times.span_counts).sum()) / float(reached[-1])
        yield figure_within("mean_duration_us", (), mean, durations.mean(), DERIVED)
        for quantile in _QUANTILES:
            value = float(durations_us[np.searchsorted(reached, quantile * float(reached[-1]))])
            is_median = quantile == 0.5
            name = "median_duration_us" if is_median else "quantile_duration_us"
            of = () if is_median else (f"{quantile:g}",)
            yield figure_within(name, of, value, durations.quantile(quantile), DERIVED)
    for row in measures.rows(sums.START):
        estimate = Estimate(row.value, row.deviation**2)
        yield estimate.figure("starts", row.of, max(row.value, 0.0), MEASURED)


_FEWEST = 100
# Of a pair of which clipping may have taken more, only so much is known.
_MOST_LOST = 0.9


def wait_figures(
    measures: ReleasedMeasures, paths: Iterable[Figure], times: LogTimes, names: ActivityVocabulary
) -> Iterator[Figure]:
    """Yields the mean wait of pairs that 100 released cases or more show.

    Args:
        measures: The sums.
        paths: The figures of the arcs.
        times: Of the released log.
        names: What its codes mean.
    """
    time_of = {row.of: row for row in measures.rows(sums.TIME_OF_PAIR)}
    lost = {row.of: 1 - row.value for row in measures.rows(sums.TIME_KEPT)}
    released = _means(times, names)
    for path in paths:
        if path.value < _FEWEST or path.of not in time_of or path.of not in released:
            continue
        time, often = time_of[path.of], max((path.low + path.high) / 2, 1.0)
        mean = max(time.value, 0.0) / often
        deviation_of_frequency = (path.high - path.low) / (2 * Z95)
        half = Z95 * math.hypot(time.deviation, mean * deviation_of_frequency) / often
        most_lost = min(lost.get(path.of, 1.0) + lost.get((), 1.0), _MOST_LOST)
        ends = mean - half, (mean + half) / (1 - most_lost)
        yield figure_within("mean_wait_us", path.of, released[path.of], ends, DERIVED)


def _means(times: LogTimes, names: ActivityVocabulary) -> Mapping[tuple[str, ...], float]:
    """Returns the mean wait of each pair in the released log, in microseconds."""
    sources, targets, bins = times.split_steps()
    pairs = sources * len(names) + targets
    distinct, place = np.unique(pairs, return_inverse=True)
    spent = np.bincount(place, middles(bins) * times.step_counts, len(distinct))
    steps = np.bincount(place, times.step_counts, len(distinct))
    labels = names.names.to_pylist()
    ends = (divmod(pair, len(names)) for pair in distinct.tolist())
    means = (spent / np.maximum(steps, 1)).tolist()
    return {(labels[a], labels[b]): mean for (a, b), mean in zip(ends, means, strict=True)}


def figures_of_log(measures: ReleasedMeasures, log: LogCounts) -> dict[str, ReleasedProduct]:
    """Returns the figures of a released log, and its groups if any, by the name of their files.

    Args:
        measures: The noisy sums that it was drawn from.
        log: What was counted on it.
    """
    flow = list(flow_figures(measures, log.variants, log.names))
    times = time_figures(measures, log.times)
    paths = (figure for figure in flow if figure.name == "path")
    waits = wait_figures(measures, paths, log.times, log.names)
    figures = {"figures": ReleasedFigures.from_noisy([*flow, *times, *waits])}
    if not measures.rows(sums.GROUP):
        return {**figures}
    return {**figures, "groups": groups_of_log(measures, log.variants, log.names)}

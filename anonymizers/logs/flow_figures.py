"""Figures of what the cases of a released log do: totals, activities, arcs and variants.

The sum of an arc is over cases that were scaled down to a norm, so it is too low. By how much the
released log tells: its cases are scaled down likewise, and the sum is raised by the quotient of
what its arc has before and after, and by no less than what all sums together say of clipped cases
of any lengths (`clips.least_events`). How far the cases of the log may differ from those of the
original in that is not known; half of the correction is taken for its standard deviation. That is
an estimate and no bound: no interval of a bounded width could hold for cases of any length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.logs.estimates import (
    OF_CORRECTION,
    OF_WIDTH,
    Z95,
    Estimate,
    cases_of,
    figure_within,
    of_clipped,
    surest,
)
from tracecloak.anonymizers.rigorous.clips import least_events
from tracecloak.schemas.arrays.distinct import distinct_counts
from tracecloak.schemas.arrays.merging import offsets_of, order_of_small
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published import measures as sums
from tracecloak.schemas.published.figure import DERIVED, MEASURED
from tracecloak.schemas.published.figures import Figure
from tracecloak.schemas.published.measures import Measure, ReleasedMeasures
from tracecloak.schemas.statistics.variant_flows import FlowCells, VariantFlows
from tracecloak.schemas.statistics.variants import VariantHistogram

# Rarer variants are no figures.
_LEAST_OF_VARIANT = 50


@dataclass(frozen=True, eq=False)
class _Released:
    """How often a released log takes each arc, and how often its clipped cases do.

    Attributes:
        labels: Of START, which comes last among the sources, and END, last among the targets.
        whole: float64[n+1, n+1].
        clipped: float64[n+1, n+1], likewise.
        least: As of `of_clipped`.
    """

    labels: tuple[list[str], list[str]]
    whole: np.ndarray
    clipped: np.ndarray
    least: tuple[float, float]

    @classmethod
    def of(
        cls,
        measures: ReleasedMeasures,
        variants: VariantHistogram,
        names: ActivityVocabulary,
        n_cases: float,
    ) -> _Released:
        n, words = len(names), names.labels
        begins = [int(row.value) for row in measures.rows(sums.POSITION)]
        longest = int(np.diff(variants.offsets).max(initial=0))
        cells = FlowCells.without_positions(n, longest)
        if begins:
            cells = FlowCells(n, np.searchsorted(begins, np.arange(longest + 1), side="right") + 1)
        flows = VariantFlows.of(variants, cells)
        clips = measures.rows(sums.CLIP)
        clip = clips[0].value if clips else math.inf
        scales = np.minimum(1.0, clip / np.sqrt(flows.squares.astype(np.float64)))
        # The whole case, and the arc from START; or all, where no arc counts by position.
        is_once = (flows.keys < 2 * cells.side**2) | (not cells.has_whole)
        rows, pairs = flows.rows[is_once], flows.keys[is_once] % cells.side**2
        counts = (flows.counts * flows.cases[flows.rows])[is_once].astype(np.float64)
        shape = cells.side, cells.side
        whole, clipped = (
            np.bincount(pairs, values, cells.side**2).reshape(shape)
            for values in (counts, counts * scales[rows])
        )
        own = words[:n]
        [events] = measures.rows(sums.EVENTS)
        likely, most = (
            max(events.value + z * events.deviation, 1.0) / max(n_cases, 1.0) for z in (0.0, Z95)
        )
        least = tuple(least_events(k, clip, 1 + bool(begins)) / k for k in (likely, most))
        labels = [*own, words[names.start]], [*own, words[names.end]]
        return cls(labels, whole, clipped, (least[0], least[1]))


def flow_figures(
    measures: ReleasedMeasures, variants: VariantHistogram, names: ActivityVocabulary
) -> Iterator[Figure]:
    """Yields the figures that sums were measured of; see `ReleasedFigures.figures`.

    Args:
        measures: The sums.
        variants: Of the released log.
        names: What their codes mean.
    """
    cases = cases_of(measures)
    yield cases.figure("cases", (), variants.n_cases, MEASURED)
    if not measures.rows(sums.CLIP):
        return
    released = _Released.of(measures, variants, names, cases.value)
    n = len(names)
    into, onward = released.whole[:, :n], released.clipped[:, :n]
    by_bins = _by_occurrences(measures, variants, names)
    sums_of_arcs = into.sum(), onward.sum(), released.least
    events = [of_clipped(row, *sums_of_arcs) for row in measures.rows(sums.EVENTS)]
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
    released: _Released,
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
        several = [
            of_clipped(by_arcs[name], float(whole[code]), float(clipped[code]), released.least)
        ]
        if name in by_bins:
            several.append(by_bins[name])
        yield surest(several).figure("activity", (name,), float(whole[code]), DERIVED)


def _by_occurrences(
    measures: ReleasedMeasures, variants: VariantHistogram, names: ActivityVocabulary
) -> dict[str, Estimate]:
    """How often each activity occurs, by the cases that have it so and so often.

    Where a bin has several numbers of occurrences, the mean is that of the released cases in it,
    and as uncertain as `_place_in_bin` says.
    """
    n = len(names)
    row_of = np.repeat(np.arange(variants.n_variants), np.diff(variants.offsets))
    pairs, times = distinct_counts(row_of * n + variants.codes)
    cases, code = variants.counts[pairs // n].astype(np.float64), pairs % n
    # By activity, and the pairs of each in their order: a slice each.
    order = order_of_small(code, n)
    cases, times = cases[order], times[order]
    ends = offsets_of(np.bincount(code, minlength=n)).tolist()
    slices = (slice(*of) for of in pairwise(ends))
    own = dict(zip(names.names.to_pylist(), slices, strict=True))
    rows_of: dict[str, list[Measure]] = {}
    for row in measures.rows(sums.OCCURRENCES):
        rows_of.setdefault(row.of[0], []).append(row)
    estimates = {}
    for name, rows in rows_of.items():
        of_name = own.get(name, slice(0))
        bins = [_mean_of_bin(row, cases[of_name], times[of_name]) for row in rows]
        total = sum(mean * row.value for mean, row in zip(bins, rows, strict=True))
        # The bin after the last that was counted may have cases that its noise would have hidden.
        last = max(rows, key=lambda row: int(row.of[1]))
        bins.append(int(last.of[2]) + 1.0 if last.of[2] else 0.0)
        variance = sum((mean * last.deviation) ** 2 for mean in bins)
        places = zip(bins, rows, strict=False)
        variance += sum((_place_in_bin(row, mean) * row.value) ** 2 for mean, row in places)
        estimates[name] = Estimate(total, variance)
    return estimates


def _mean_of_bin(row: Measure, cases: np.ndarray, times: np.ndarray) -> float:
    """How often cases of a bin have the activity on average, by the released ones."""
    low = int(row.of[1])
    high = int(row.of[2]) if row.of[2] else math.inf
    is_here = (times >= low) & (times <= high)
    total = float(cases[is_here].sum())
    middle = (low + min(high, 2 * low)) / 2
    return float((cases * times)[is_here].sum()) / total if total else middle


def _place_in_bin(row: Measure, mean: float) -> float:
    """The standard deviation of the mean number of occurrences of the cases of a bin."""
    low = int(row.of[1])
    return OF_WIDTH * (int(row.of[2]) - low) if row.of[2] else OF_CORRECTION * (mean - low)


def _paths(measures: ReleasedMeasures, released: _Released) -> Iterator[Figure]:
    """The arcs of the log, and how many cases an arc can have that is none of them."""
    sources, targets = ({name: i for i, name in enumerate(of)} for of in released.labels)
    n = len(measures.rows(sums.ACTIVITY))
    threshold = math.sqrt(math.log(n * (n + 1)))  # as of `SumNoise.threshold`
    hidden = []
    for row in measures.rows(sums.ARC):
        source, target = (ends.get(row.of[i], -1) for i, ends in enumerate((sources, targets)))
        whole = float(released.whole[source, target]) if min(source, target) >= 0 else 0.0
        if not whole:
            hidden.append(row)
            continue
        estimate = of_clipped(row, whole, released.clipped[source, target], released.least)
        ends = estimate.ends_of_shown(row.value / row.deviation - threshold)
        yield figure_within("path", row.of, whole, ends, MEASURED)
    hidden += measures.rows(sums.ARC_NOT_SHOWN)
    if hidden:
        # Clipping is taken to leave no less of such an arc than of any that is shown.
        is_taken = released.clipped > 0
        ratios = released.whole[is_taken] / released.clipped[is_taken]
        ratio = max(float(ratios.max(initial=1.0)), *released.least)
        most = max(row.value + Z95 * row.deviation for row in hidden) * ratio
        yield figure_within("path_not_shown", (), 0, (0.0, max(most, 0.0)), MEASURED)


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
            of_row = Estimate(row.value, row.deviation**2).ends_of_shown(above)
            yield figure_within("variant", label, count, of_row, MEASURED)
        elif limits:
            most = limits[0] + Z95 * deviation
            yield figure_within("variant", label, count, (0.0, most), DERIVED)

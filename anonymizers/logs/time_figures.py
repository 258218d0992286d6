"""Figures of when the cases of a released log begin, and how long they take.

Cases by bin of their time from first to last event were counted with noise. Where in its bin a time
lies was not: the released log says, and for that a share of each bin is added to its uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracecloak.anonymizers.logs.estimates import Z95, Estimate, figure_within
from tracecloak.schemas.published import measures as sums
from tracecloak.schemas.published.figure import DERIVED, MEASURED
from tracecloak.schemas.published.figures import Figure
from tracecloak.schemas.published.measures import ReleasedMeasures
from tracecloak.schemas.statistics.log_times import BIN_EDGES_US, LogTimes
from tracecloak.schemas.statistics.variants import VariantHistogram

_QUANTILES = (0.25, 0.5, 0.75, 0.9)
# The standard deviation of the place of a quantile, or of a mean, within its bin: as a share of the
# cases of the bin, or of its width.
_WITHIN_BIN = 0.125


@dataclass(frozen=True, eq=False)
class _Durations:
    """Cases by duration, as measured and as released.

    Attributes:
        borders: int64[k+1], of the bins of the measured ones, in microseconds.
        counts: float64[k], noisy.
        deviation: Of the noise of each.
        times: float64[m], durations in the released log, ascending, in microseconds.
        cases: int64[m], cases of each.
        n_single: Released cases of one event, which take no time and are in no bin.
    """

    borders: np.ndarray
    counts: np.ndarray
    deviation: float
    times: np.ndarray
    cases: np.ndarray
    n_single: int

    @classmethod
    def of(
        cls, measures: ReleasedMeasures, variants: VariantHistogram, times: LogTimes
    ) -> _Durations | None:
        rows = measures.rows(sums.DURATION)
        if not rows or not len(times.spans):
            return None
        borders = [int(rows[0].of[0]), *(int(row.of[1]) for row in rows)]
        counts = np.array([row.value for row in rows])
        lengths = np.diff(variants.offsets)
        n_single = int(variants.counts[lengths == 1].sum())
        released = times.span_counts.copy()
        released[0] -= min(n_single, int(released[0])) if times.spans[0] == 0 else 0
        return cls(
            *(np.array(borders), counts, rows[0].deviation),
            *(_middles(times.spans), released, n_single),
        )

    @property
    def in_bins(self) -> np.ndarray:
        """int64[m], the bin of each released duration."""
        return np.clip(
            np.searchsorted(self.borders[1:], self.times, side="right"), 0, len(self.counts) - 1
        )

    @property
    def released(self) -> np.ndarray:
        """float64[k], released cases of each bin."""
        return np.bincount(self.in_bins, self.cases, len(self.counts))


def _middles(spans: np.ndarray) -> np.ndarray:
    """float64[n], the geometric middle of each bin of released durations; 0 of the first."""
    edges = BIN_EDGES_US.astype(np.float64)
    low = edges[np.clip(spans - 1, 0, len(edges) - 1)]
    high = edges[np.clip(spans, 0, len(edges) - 1)]
    return np.where(spans == 0, 0.0, np.sqrt(low * high))


def time_figures(
    measures: ReleasedMeasures, variants: VariantHistogram, times: LogTimes
) -> Iterator[Figure]:
    """Yields the figures that sums were measured of; see `ReleasedFigures.figures`.

    Args:
        measures: The sums.
        variants: Of the released log.
        times: Of the released log.
    """
    durations = _Durations.of(measures, variants, times)
    if durations is not None:
        yield _mean(durations)
        for quantile in _QUANTILES:
            yield _quantile(durations, quantile)
    for row in measures.rows(sums.START):
        estimate = Estimate(row.value, row.deviation**2)
        yield estimate.figure("starts", row.of, max(row.value, 0.0), MEASURED)


def _mean(durations: _Durations) -> Figure:
    """The mean duration of all cases; those of one event take no time."""
    cases, in_bins = durations.cases.astype(np.float64), durations.in_bins
    released = durations.released
    n = float(cases.sum()) + durations.n_single
    value = float((cases * durations.times).sum()) / n
    totals = np.bincount(in_bins, cases * durations.times, len(released))
    low, high = durations.borders[:-1].astype(np.float64), durations.borders[1:].astype(np.float64)
    middles = np.where(released > 0, totals / np.maximum(released, 1.0), np.sqrt(low * high))
    middles[0] = 0.0
    is_used = released > 0
    counts = np.where(is_used, durations.counts, 0.0)
    n_measured = max(float(counts.sum()) + durations.n_single, 1.0)
    mean = float((counts * middles).sum()) / n_measured
    of_noise = durations.deviation**2 * float(((middles - mean)[is_used] ** 2).sum())
    widths = np.where(is_used, high - low, 0.0) * np.maximum(counts, 0.0)
    within = float(((_WITHIN_BIN * widths) ** 2).sum())
    estimate = Estimate(mean, (of_noise + within) / n_measured**2)
    return estimate.figure("mean_duration_us", (), value, DERIVED)


def _quantile(durations: _Durations, quantile: float) -> Figure:
    """A quantile of the durations: the time below which that share of the cases lies."""
    cases, times = durations.cases.astype(np.float64), durations.times
    reached = np.cumsum(cases) + durations.n_single
    n = reached[-1]
    value = _at(times, reached, quantile * n)
    released = durations.released
    is_used = released > 0
    k = int(np.clip(np.searchsorted(durations.borders[1:], value, side="right"), 0, len(released) - 1))
    counts = np.where(is_used, durations.counts, 0.0)
    n_measured = max(float(counts.sum()) + durations.n_single, 1.0)
    # The measured share of the cases up to the middle of the bin, and the released one.
    shares = [
        (float(of[:k].sum() + of[k] / 2) + durations.n_single) / total
        for of, total in ((counts, n_measured), (released, n))
    ]
    n_below, n_used = int(is_used[: k + 1].sum()), int(is_used.sum())
    share = min(max(shares[0], 0.0), 1.0)
    of_noise = n_below * (1 - share) ** 2 + (n_used - n_below) * share**2
    of_bin = max(counts[k], 0.0) / n_measured
    variance = of_noise * (durations.deviation / n_measured) ** 2 + (_WITHIN_BIN * of_bin) ** 2
    rank = quantile + shares[1] - shares[0]
    half = Z95 * math.sqrt(variance)
    low, high = (_at(times, reached, (rank + side * half) * n) for side in (-1, 1))
    name = "median_duration_us" if quantile == 0.5 else "quantile_duration_us"
    of = () if quantile == 0.5 else (f"{quantile:g}",)
    return figure_within(name, of, value, (low, high), DERIVED)


def _at(times: np.ndarray, reached: np.ndarray, rank: float) -> float:
    """The time at a rank, between those of the cases beside it; 0 below the first.

    Args:
        times: float64[m], ascending.
        reached: float64[m], cases up to each.
        rank: Of all cases.
    """
    place = int(np.searchsorted(reached, rank))
    if place >= len(times):
        return float(times[-1])
    before = float(reached[place - 1]) if place else 0.0
    if rank <= 0 or place == 0:
        return float(times[0]) if rank > 0 else 0.0
    share = (rank - before) / max(float(reached[place]) - before, 1.0)
    return float(times[place - 1]) + share * float(times[place] - times[place - 1])

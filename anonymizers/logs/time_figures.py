"""Figures of when the cases of a released log begin, and how long they take.

Cases by bin of their time from first to last event were counted with noise. Where in its bin a time
lies was not. For a mean, times are taken to lie evenly in the logarithm, as they were drawn, and a
share of each bin is added to its uncertainty. The interval of a quantile has whole bins: in many
processes a step takes always as long, so that all times of a bin lie at one place of it. Times
before and after the range of dates were cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracecloak.anonymizers.logs.estimates import Z95, Estimate, figure_within
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.published import measures as sums
from tracecloak.schemas.published.figure import DERIVED, MEASURED
from tracecloak.schemas.published.figures import Figure
from tracecloak.schemas.published.measures import ReleasedMeasures
from tracecloak.schemas.statistics.log_times import LogTimes, middles_us
from tracecloak.schemas.statistics.variants import VariantHistogram

_QUANTILES = (0.25, 0.5, 0.75, 0.9)
# The standard deviation of the place of a mean within its bin, as a share of the bin's width.
_OF_WIDTH = 0.125
# A bin counts as empty unless it and its neighbours together are so many deviations of the noise
# above 0; as for the times that were drawn.
_LEAST_DEVIATIONS = 2.5
# Few cases that take long matter for the mean, and noise hides them: this many bins after the last
# that is not empty are as uncertain as those that are not.
_HIDDEN_BINS = 2


@dataclass(frozen=True, eq=False)
class _Durations:
    """Cases by duration, as they were counted with noise.

    Attributes:
        first: float64[k], the shortest time of each bin, in microseconds; 0 of the first.
        last: float64[k], the longest.
        counts: float64[k], noisy; 0 where noise could have made it.
        n_used: How many bins are not empty.
        deviation: Of the noise of each.
        n_single: About how many cases have one event, which take no time and are in no bin.
    """

    first: np.ndarray
    last: np.ndarray
    counts: np.ndarray
    n_used: int
    deviation: float
    n_single: int

    @classmethod
    def of(cls, measures: ReleasedMeasures, n_single: int) -> _Durations | None:
        rows = measures.rows(sums.DURATION)
        if not rows:
            return None
        counts, deviation = np.array([row.value for row in rows]), rows[0].deviation
        least = _LEAST_DEVIATIONS * deviation * np.sqrt(_with_neighbours(np.ones(len(counts))))
        is_used = _with_neighbours(counts) > least
        first, last = (np.array([float(row.of[end]) for row in rows]) for end in (0, 1))
        counts = np.where(is_used, counts, 0.0)
        return cls(first, last, counts, int(is_used.sum()), deviation, n_single)

    @property
    def n_cases(self) -> float:
        """About how many cases there are, at least 1."""
        return max(float(self.counts.sum()) + self.n_single, 1.0)

    def mean(self) -> Estimate:
        """Returns the mean of the durations of all cases."""
        low, high = np.maximum(self.first, 1.0), np.maximum(self.last, 1.0)
        is_wide = high > low
        logs = np.where(is_wide, elementary.log(high / low), 1.0)
        middles = np.where(is_wide, (high - low) / logs, self.first)
        n = self.n_cases
        mean = float((self.counts * middles).sum()) / n
        is_used = self.counts != 0
        last = int(np.flatnonzero(is_used).max(initial=-1))
        is_used[last + 1 : last + 1 + _HIDDEN_BINS] = True
        of_noise = self.deviation**2 * float(((middles - mean)[is_used] ** 2).sum())
        within = float(((_OF_WIDTH * (high - low) * self.counts) ** 2).sum())
        return Estimate(mean, (of_noise + within) / n**2)

    def quantile(self, quantile: float) -> tuple[float, float]:
        """Returns the ends of the interval of a quantile of the durations of all cases."""
        reached = self.n_single + np.cumsum(np.maximum(self.counts, 0.0))
        n = max(float(reached[-1]), 1.0)
        k = min(int(np.searchsorted(reached, quantile * n)), len(reached) - 1)
        share = float(reached[k]) / n
        n_below = int((self.counts[: k + 1] != 0).sum())
        of_noise = n_below * (1 - share) ** 2 + (self.n_used - n_below) * share**2
        half = Z95 * math.sqrt(of_noise) * self.deviation
        low, high = (
            min(int(np.searchsorted(reached, quantile * n + side * half)), len(reached) - 1)
            for side in (-1, 1)
        )
        is_single = quantile * n - half <= self.n_single
        return 0.0 if is_single else float(self.first[low]), float(self.last[high])


def _with_neighbours(row: np.ndarray) -> np.ndarray:
    """Each number plus the one before it and the one after it, where there is one."""
    return row + np.append(0, row[:-1]) + np.append(row[1:], 0)


def time_figures(
    measures: ReleasedMeasures, variants: VariantHistogram, times: LogTimes
) -> Iterator[Figure]:
    """Yields the figures that sums were measured of; see `ReleasedFigures.figures`.

    Args:
        measures: The sums.
        variants: Of the released log.
        times: Of the released log.
    """
    n_single = int(variants.counts[np.diff(variants.offsets) == 1].sum())
    durations = _Durations.of(measures, n_single)
    if durations is not None and len(times.spans):
        middles = middles_us(times.spans)
        reached = np.cumsum(times.span_counts)
        mean = float((middles * times.span_counts).sum()) / float(reached[-1])
        yield durations.mean().figure("mean_duration_us", (), mean, DERIVED)
        for quantile in _QUANTILES:
            value = float(middles[np.searchsorted(reached, quantile * float(reached[-1]))])
            is_median = quantile == 0.5
            name = "median_duration_us" if is_median else "quantile_duration_us"
            of = () if is_median else (f"{quantile:g}",)
            yield figure_within(name, of, value, durations.quantile(quantile), DERIVED)
    for row in measures.rows(sums.START):
        estimate = Estimate(row.value, row.deviation**2)
        yield estimate.figure("starts", row.of, max(row.value, 0.0), MEASURED)

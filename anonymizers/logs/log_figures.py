"""What the numbers of a released log say of the original one: intervals from what was measured.

A log is drawn so that it agrees with many noisy sums. Each of its numbers is one of three kinds:

* measured: there is a noisy sum of the same thing, such as the cases that take an arc. The interval
  is that of the noise around the sum, corrected by what clipping took.
* derived: there are sums that it follows from, such as the mean duration from cases by duration.
* modelled: there is none. It is no figure, and has no interval.

The value of a figure is what the released log says, and the interval is what the sums say: where
the log was drawn off a sum, the interval reaches from one to the other. Only what was released is
read, so whoever has the release computes the same; no key, and no other source of noise.

Figures of when the cases of a released log begin, and how long they take.

Cases by bin of their time from first to last event were counted with noise. How many cases take as
long as a bin or longer is a sum of these, and lies within the noise of that sum; so the ends of an
interval follow from all sums at their ends together, whatever noise hides. A quantile lies in or
after a bin if more cases than its share take as long, and a mean is the sum of all such sums, each
by the width of its bin. Where in its bin a time lies was not counted. For a mean, times are taken
to lie evenly in the logarithm, as they were drawn, and a share of each bin is added to its
uncertainty. The interval of a quantile has whole bins: in many processes a step takes always as
long, so that all times of a bin lie at one place of it. Times before and after the range of dates
were cut.

Figures of how long cases of a released log take from one activity to the next, on average.

The time that cases spend between two activities was added up with noise, of cases that were scaled
down to a clip. How much that took of a pair was not measured: perhaps nothing, and perhaps what it
takes of the same pair in cases like the released ones, and once more the share that it takes of all
time there. The interval reaches from the one to the other, with the noise of the sum and of how
often the second activity followed the first. It is of the time within the released range of dates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tracecloak.anonymizers.logs.estimates import OF_WIDTH, Z95, Estimate, cases_of, figure_within
from tracecloak.anonymizers.logs.flow_figures import flow_figures
from tracecloak.anonymizers.times.case_spans import with_neighbours
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published import measures as sums
from tracecloak.schemas.published.figure import DERIVED, MEASURED
from tracecloak.schemas.published.figures import Figure, ReleasedFigures
from tracecloak.schemas.published.measures import GROUP, ReleasedMeasures
from tracecloak.schemas.published.product import ReleasedProduct
from tracecloak.schemas.statistics.log_times import LogTimes, middles_us
from tracecloak.schemas.statistics.variants import VariantHistogram

_QUANTILES = (0.25, 0.5, 0.75, 0.9)
# A bin counts as empty unless it and its neighbours together are so many deviations of the noise
# above 0; as for the times that were drawn.
_LEAST_DEVIATIONS = 2.5


@dataclass(frozen=True, eq=False)
class _Durations:
    """Cases by duration, as they were counted with noise.

    Attributes:
        first: float64[k], the shortest time of each bin, in microseconds; 0 of the first.
        last: float64[k], the longest.
        noisy: float64[k], how many cases each has, with noise.
        counts: float64[k], likewise, and 0 where noise could have made it.
        deviation: Of the noise of each.
        cases: How many cases there are; those of one event take no time and are in no bin.
    """

    first: np.ndarray
    last: np.ndarray
    noisy: np.ndarray
    counts: np.ndarray
    deviation: float
    cases: Estimate

    @classmethod
    def of(cls, measures: ReleasedMeasures) -> _Durations | None:
        rows = measures.rows(sums.DURATION)
        if not rows:
            return None
        counts, deviation = np.array([row.value for row in rows]), rows[0].deviation
        least = _LEAST_DEVIATIONS * deviation * np.sqrt(with_neighbours(np.ones(len(counts))))
        is_used = with_neighbours(counts) > least
        first, last = (np.array([float(row.of[end]) for row in rows]) for end in (0, 1))
        used = np.where(is_used, counts, 0.0)
        return cls(first, last, counts, used, deviation, cases_of(measures))

    @property
    def _middles(self) -> np.ndarray:
        """float64[k], the mean of times that lie evenly in the logarithm, of each bin."""
        low, high = np.maximum(self.first, 1.0), np.maximum(self.last, 1.0)
        is_wide = high > low
        logs = np.where(is_wide, elementary.log(high / low), 1.0)
        return np.where(is_wide, (high - low) / logs, self.first)

    @property
    def _from(self) -> tuple[np.ndarray, np.ndarray]:
        """float64[k] twice: cases in each bin or a longer one, and the variance of that."""
        places = np.arange(len(self.noisy), 0, -1)
        return np.cumsum(self.noisy[::-1])[::-1], places * self.deviation**2

    def mean(self) -> tuple[float, float]:
        """Returns the ends of the interval of the mean of the durations of all cases."""
        of_cases = Z95 * math.sqrt(self.cases.variance)
        fewest, all_cases = (max(self.cases.value + side * of_cases, 1.0) for side in (-1, 1))
        reached, variances = self._from
        half = Z95 * np.sqrt(variances)
        most = np.minimum.accumulate(np.clip(reached + half, 0.0, all_cases))
        least = np.maximum.accumulate(np.clip(reached - half, 0.0, all_cases)[::-1])[::-1]
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
        reached, variances = self._from
        more = reached - rest * self.cases.value
        slack = Z95 * np.sqrt(variances + rest**2 * self.cases.variance)
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
    durations = _Durations.of(measures)
    if durations is not None and len(times.spans):
        middles = middles_us(times.spans)
        reached = np.cumsum(times.span_counts)
        mean = float((middles * times.span_counts).sum()) / float(reached[-1])
        yield figure_within("mean_duration_us", (), mean, durations.mean(), DERIVED)
        for quantile in _QUANTILES:
            value = float(middles[np.searchsorted(reached, quantile * float(reached[-1]))])
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
        of_often = (path.high - path.low) / (2 * Z95)
        half = Z95 * math.hypot(time.deviation, mean * of_often) / often
        most_lost = min(lost.get(path.of, 1.0) + lost.get((), 1.0), _MOST_LOST)
        ends = mean - half, (mean + half) / (1 - most_lost)
        yield figure_within("mean_wait_us", path.of, released[path.of], ends, DERIVED)


def _means(times: LogTimes, names: ActivityVocabulary) -> Mapping[tuple[str, ...], float]:
    """Returns the mean wait of each pair in the released log, in microseconds."""
    sources, targets, bins = times.of_steps()
    pairs = sources * len(names) + targets
    distinct, place = np.unique(pairs, return_inverse=True)
    spent = np.bincount(place, middles_us(bins) * times.step_counts, len(distinct))
    steps = np.bincount(place, times.step_counts, len(distinct))
    labels = names.names.to_pylist()
    ends = (divmod(pair, len(names)) for pair in distinct.tolist())
    means = (spent / np.maximum(steps, 1)).tolist()
    return {(labels[a], labels[b]): mean for (a, b), mean in zip(ends, means, strict=True)}


class CountedLog(Protocol):
    """What is counted on a released log."""

    @property
    def variants(self) -> VariantHistogram:
        """Its variants."""

    @property
    def times(self) -> LogTimes:
        """When its cases begin, and how long they take."""

    @property
    def names(self) -> ActivityVocabulary:
        """What the codes mean."""


def figures_of_log(measures: ReleasedMeasures, log: CountedLog) -> dict[str, ReleasedProduct]:
    """Returns the figures of a released log, and its groups if any, by the name of their files.

    Args:
        measures: The noisy sums that it was drawn from.
        log: What was counted on it.
    """
    flow = list(flow_figures(measures, log.variants, log.names))
    times = time_figures(measures, log.times)
    paths = (figure for figure in flow if figure.name == "path")
    waits = wait_figures(measures, paths, log.times, log.names)
    figures = {"figures": ReleasedFigures.of_noisy([*flow, *times, *waits])}
    if not measures.rows(GROUP):
        return {**figures}
    from tracecloak.anonymizers.logs.group_figures import groups_of_log

    return {**figures, "groups": groups_of_log(measures, log.variants, log.names)}

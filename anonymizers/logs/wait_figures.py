"""Figures of how long cases of a released log take from one activity to the next, on average.

The time that cases spend between two activities was added up with noise, of cases that were scaled
down to a clip. By how much that is too little the durations of cases tell, which nothing was
clipped of: all sums are raised by one factor, so that they come to the time of all cases. The mean
wait is such a sum divided by how often the second activity followed the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tracecloak.anonymizers.logs.estimates import Z95, Estimate, figure_within
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published import measures as sums
from tracecloak.schemas.published.figure import DERIVED
from tracecloak.schemas.published.figures import Figure
from tracecloak.schemas.published.measures import ReleasedMeasures
from tracecloak.schemas.statistics.log_times import LogTimes, middles_us

_FEWEST = 100
# The standard deviation of what the clip took of a pair, as a share of it: as of arcs.
_OF_CORRECTION = 0.5
# Sums that noise alone could have made say little of what was clipped: they are raised no further.
_LARGEST_RATIO = 4.0


def wait_figures(
    measures: ReleasedMeasures,
    paths: Iterable[Figure],
    all_time_us: float,
    times: LogTimes,
    names: ActivityVocabulary,
) -> Iterator[Figure]:
    """Yields the mean wait of pairs that 100 released cases or more show.

    Args:
        measures: The sums.
        paths: The figures of the arcs.
        all_time_us: The time of all cases, by the noisy durations, in microseconds.
        times: Of the released log.
        names: What its codes mean.
    """
    rows = measures.rows(sums.TIME_OF_PAIR)
    together = sum(row.value for row in rows)
    ratio = min(max(all_time_us / together, 1.0), _LARGEST_RATIO) if together > 0 else 1.0
    time_of = {row.of: Estimate(row.value, row.deviation**2) for row in rows}
    released = _means(times, names)
    for path in paths:
        if path.value < _FEWEST or path.of not in time_of or path.of not in released:
            continue
        time = time_of[path.of]
        often = max((path.low + path.high) / 2, 1.0)
        of_often = (path.high - path.low) / (2 * Z95)
        mean = max(time.value, 0.0) * ratio / often
        variance = (
            time.variance * (ratio / often) ** 2
            + (mean * of_often / often) ** 2
            + (mean * _OF_CORRECTION * (1 - 1 / ratio)) ** 2
        )
        half = Z95 * math.sqrt(variance)
        ends = mean - half, mean + half
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

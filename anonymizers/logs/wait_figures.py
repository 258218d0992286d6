"""Figures of how long cases of a released log take from one activity to the next, on average.

The time that cases spend between two activities was added up with noise, of cases that were scaled
down to a clip. How much that took of a pair was not measured: perhaps nothing, and perhaps what it
takes of the same pair in cases like the released ones, and once more the share that it takes of all
time there. The interval reaches from the one to the other, with the noise of the sum and of how
often the second activity followed the first. It is of the time within the released range of dates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tracecloak.anonymizers.logs.estimates import Z95, figure_within
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published import measures as sums
from tracecloak.schemas.published.figure import DERIVED
from tracecloak.schemas.published.figures import Figure
from tracecloak.schemas.published.measures import ReleasedMeasures
from tracecloak.schemas.statistics.log_times import LogTimes, middles_us

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

"""How well a release keeps how long events are worked on, and how long they wait for that."""

from __future__ import annotations

import numpy as np

from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.service_times import IntervalTimes

Totals = tuple[np.ndarray, np.ndarray]


def service_errors(a: TraceBatch, b: TraceBatch) -> dict[str, float | None]:
    """Returns the measures of service and waiting by their names in the registry.

    The error of the mean by activity, weighed by the original's events, over its mean of all. An
    activity that is not released counts as one without any such time.

    Args:
        a: The original.
        b: The released log, in its vocabulary.

    Returns:
        None of a measure where the original has no such time; nothing where either has no starts.
    """
    n = len(a.vocabulary)
    service, waiting = [], []
    for log in (a, b):
        times = IntervalTimes.of(log)
        if not times.is_known.any():
            return {}
        service.append(_totals(log, times.service_us, times.is_known, n))
        waiting.append(_totals(log, times.waiting_us, times.has_wait, n))
    return {
        "service_time_error": mean_error(*service),
        "waiting_time_error": mean_error(*waiting),
    }


def _totals(traces: TraceBatch, times_us: np.ndarray, is_counted: np.ndarray, n: int) -> Totals:
    """Two float64[n]: events of each activity that are counted, and the sum of their times."""
    activities = traces.activities[is_counted]
    counts = np.bincount(activities, minlength=n).astype(np.float64)
    return counts, np.bincount(activities, times_us[is_counted].astype(np.float64), n)


def mean_error(original: Totals, released: Totals) -> float | None:
    """Returns the sum of |released mean - mean| by activity over that of the means, both weighed.

    Args:
        original: Two float64[n], events and sums of times; the events weigh.
        released: Likewise.

    Returns:
        None where all times of the original are 0.
    """
    counts, sums = original
    if not sums.any():
        return None
    others, other_sums = released
    means = np.where(others > 0, other_sums / np.where(others > 0, others, 1), 0.0)
    return float(np.abs(counts * means - sums).sum() / sums.sum())

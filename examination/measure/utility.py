"""How well a released log or graph keeps what analysts look at: distances of distributions.

Beside `examination.measure.measures`, whose definitions are those of the papers, these are the
plain ones: total variation, relative error, Wasserstein distance. Every figure is exact about
private data: for the operator, not for publication. Pure functions of arrays.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from scipy.stats import wasserstein_distance

from tracecloak.examination.measure.measures import EdgeWeights
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram

_HOUR_US = 3_600_000_000
_HOURS_OF_WEEK = 168
_DAYS_FROM_MONDAY_TO_1970 = 3  # 1970-01-01 was a Thursday


def total_variation(a: np.ndarray, b: np.ndarray) -> float:
    """Returns half the sum of |a - b|, each scaled to sum 1: from 0, the same, to 1, disjoint.

    Args:
        a: float64[n] or int64[n], not negative.
        b: The same cells.

    Returns:
        The distance; 1 if exactly one of them is all zero, 0 if both are.
    """
    sums = a.sum(), b.sum()
    if not all(sums):
        return float(any(sums))
    return float(np.abs(a / sums[0] - b / sums[1]).sum() / 2)


def aligned_variants(
    a: VariantHistogram, b: VariantHistogram
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (counts of a, counts of b, whether a has it) over the union of their variants.

    Both are coded by one vocabulary.
    """
    union = VariantHistogram.merge([a, b])
    counts = []
    for side in (a, b):
        of_side = np.zeros(union.n_variants, np.int64)
        of_side[np.asarray(pc.index_in(side.sequences, value_set=union.sequences))] = side.counts
        counts.append(of_side)
    return counts[0], counts[1], counts[0] > 0


def true_variant_mass(a: VariantHistogram, b: VariantHistogram) -> float:
    """Returns the share of b's cases whose variant a has, from 0 to 1; 1 if b is empty."""
    _, counts, is_true = aligned_variants(a, b)
    total = counts.sum()
    return float(counts[is_true].sum() / total) if total else 1.0


def aligned_edges(a: EdgeWeights, b: EdgeWeights) -> tuple[np.ndarray, np.ndarray]:
    """Returns the weights of both over the union of their edges, 0 where an edge lacks."""
    sides = []
    keys = [(side.source.astype(np.int64) << 32) + side.target for side in (a, b)]
    union = np.unique(np.concatenate(keys))
    for side, of_side in zip((a, b), keys, strict=True):
        weights = np.zeros(len(union))
        weights[np.searchsorted(union, of_side)] = side.weight
        sides.append(weights)
    return sides[0], sides[1]


def relative_error(a: np.ndarray, b: np.ndarray) -> float | None:
    """Returns the sum of |a - b| over the sum of a; 1 is what publishing nothing gives."""
    return float(np.abs(a - b).sum() / a.sum()) if a.sum() else None


def precision_and_recall(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Returns the shares of b's edges that a has, and of a's that b has; 1 where there is none."""
    both = ((a > 0) & (b > 0)).sum()
    sizes = (b > 0).sum(), (a > 0).sum()
    precision, recall = (float(both / size) if size else 1.0 for size in sizes)
    return precision, recall


def length_distance(a: TraceBatch, b: TraceBatch) -> float | None:
    """Returns the 1-Wasserstein distance of the trace lengths in events; None of an empty log."""
    return _distance(a.lengths, b.lengths)


def case_duration_distance_days(a: TraceBatch, b: TraceBatch) -> float | None:
    """Returns that of the times from first to last event, in days."""
    day_us = 24 * _HOUR_US
    return _distance(case_durations_us(a) / day_us, case_durations_us(b) / day_us)


def _distance(a: np.ndarray, b: np.ndarray) -> float | None:
    return float(wasserstein_distance(a, b)) if len(a) and len(b) else None


def case_durations_us(traces: TraceBatch) -> np.ndarray:
    """Returns float64[n_cases], microseconds from the first to the last event of each case."""
    return (traces.times[traces.offsets[1:] - 1] - traces.starts).astype(np.float64)


def hour_of_week_distance(a: TraceBatch, b: TraceBatch) -> float:
    """Returns the total variation of the events over the 168 hours of the week, in UTC."""
    profiles = []
    for traces in (a, b):
        hours = traces.times // _HOUR_US + 24 * _DAYS_FROM_MONDAY_TO_1970
        profiles.append(np.bincount(hours % _HOURS_OF_WEEK, minlength=_HOURS_OF_WEEK))
    return total_variation(*profiles)


def activity_mix_distance(a: TraceBatch, b: TraceBatch) -> float:
    """Returns the total variation of the events over the activities of one vocabulary."""
    n = len(a.vocabulary)
    return total_variation(
        np.bincount(a.activities, minlength=n), np.bincount(b.activities, minlength=n)
    )

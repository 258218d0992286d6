"""The figures of a graph: totals, median times, what may be hidden below the threshold."""

from __future__ import annotations

import math

import numpy as np

from tracecloak.anonymizers.graphs.noisy_graph import (
    TWO_SIDED,
    NoisyCells,
    reach_of_noise,
    trust_in_hidden,
)
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published.figures import DERIVED, Figure
from tracecloak.schemas.published.graph import ReleasedDurations, ReleasedGraph

# --- The numbers that go with a graph: totals, and what may be hidden below the threshold. --------
# A total is a sum over all possible pairs, those that are not shown included: what the graph
# leaves out is no less true for being left out. In every log as many occurrences of an activity
# are entered as are left. So its number is measured twice, as the sum of all pairs that lead to
# it and of all that leave it, and the mean of both is that of the nearest noisy sums which agree
# (the projection of all pairs onto circulations, in closed form, since every pair is possible).
# No total is chosen for being large, so the interval of a total is that of its noise, and what
# clipping takes comes on top as in `count_intervals`.
#
# The number that is released for a total is what its pairs add up to by the graph: the counts
# that are shown, and what is expected of the pairs that are not (`noisy_graph.trust_in_hidden`).
#
# All of it looks at the noisy sums only and costs no privacy.


# Of a sum of Laplace noises of variance 1, at most: that of a single one, which has most of it.
LAPLACE_QUANTILE = math.log(20) / math.sqrt(2)


def figures_of_graph(
    arcs: NoisyCells, graph: ReleasedGraph, vocabulary: ActivityVocabulary
) -> list[Figure]:
    """Returns the figures of a graph that shows some pairs.

    Args:
        arcs: Of all possible pairs.
        graph: What is released of them.
        vocabulary: What their codes mean.
    """
    is_shown, at = np.zeros(len(arcs.cells), bool), np.searchsorted(arcs.cells, graph.cells)
    counts = trust_in_hidden(arcs.variances, arcs.least(len(arcs.cells))) * arcs.values
    is_shown[at], counts[at] = True, graph.counts
    return figures_of_pairs(arcs, is_shown, vocabulary, counts)


def figures_of_pairs(
    arcs: NoisyCells, is_shown: np.ndarray, vocabulary: ActivityVocabulary, counts: np.ndarray
) -> list[Figure]:
    """Returns the cases, events, occurrences of each activity, and the limit of a hidden path.

    Args:
        arcs: Of all possible pairs.
        is_shown: bool[n], which of them are.
        vocabulary: What their codes mean.
        counts: float64[n], what all of them are said or expected to be.
    """
    names = vocabulary.names.to_pylist()
    [cases, *activities] = _throughputs(arcs, counts, vocabulary)
    return [
        Figure("cases", (), *cases, DERIVED),
        Figure("events", (), *_events(arcs, counts, vocabulary), DERIVED),
        *(
            Figure("activity", (name,), *numbers, DERIVED)
            for name, numbers in zip(names, activities, strict=True)
        ),
        Figure("path_not_shown", (), 0, 0, _most_hidden(arcs, is_shown), DERIVED),
    ]


def quantile_of(arcs: NoisyCells) -> float:
    """Returns half the width of a 95 % interval of a sum of noises, in its deviations."""
    return LAPLACE_QUANTILE if arcs.noise.is_laplace else TWO_SIDED


def _throughputs(
    arcs: NoisyCells, counts: np.ndarray, vocabulary: ActivityVocabulary
) -> list[tuple[int, int, int]]:
    """How often a case begins, then how often each activity occurs, with low and high."""
    n_codes, start = vocabulary.end + 1, vocabulary.start
    sources, targets = np.divmod(arcs.cells, n_codes)
    # The start and the end are one node, which comes first.
    ends = [np.where(codes >= start, 0, codes + 1) for codes in (sources, targets)]
    is_loop = ends[0] == ends[1]

    def summed(values: np.ndarray, weight: float) -> np.ndarray:
        halves = np.where(is_loop, values / 2, values * weight)
        return np.bincount(ends[0], halves, start + 1) + np.bincount(ends[1], halves, start + 1)

    # A loop is in both sums with the same noise, any other pair in one of them.
    values, variances = summed(arcs.values, 1 / 2), summed(arcs.variances, 1 / 4)
    lost = summed(arcs.most_taken(arcs.values >= arcs.least(len(arcs.cells)), n_codes), 1 / 2)
    # A case that is scaled down from a norm v loses the share 1 - clip / v of its one beginning,
    # and that is at most (v - clip) / clip.
    lost[0] = min(lost[0], max(arcs.beyond, 0.0) / arcs.clip)
    return _numbers(arcs, values, variances, lost, summed(counts, 1 / 2))


def _events(
    arcs: NoisyCells, counts: np.ndarray, vocabulary: ActivityVocabulary
) -> tuple[int, int, int]:
    """How many events there are: the sum of all activities."""
    sources, targets = np.divmod(arcs.cells, vocabulary.end + 1)
    is_inner = (sources < vocabulary.start) & (targets < vocabulary.start)
    weights = np.where(is_inner, 1.0, 0.5)
    lost = arcs.most_taken(arcs.values >= arcs.least(len(arcs.cells)))
    sums = [
        np.array([(weights**power * values).sum()])
        for power, values in ((1, arcs.values), (2, arcs.variances), (1, lost), (1, counts))
    ]
    return _numbers(arcs, *sums)[0]


def _numbers(
    arcs: NoisyCells,
    values: np.ndarray,
    variances: np.ndarray,
    lost: np.ndarray,
    expected: np.ndarray,
) -> list[tuple[int, int, int]]:
    """What is expected of totals, and limits.

    Args:
        arcs: Of all pairs.
        values: float64[n], their noisy sums.
        variances: float64[n], of the noise in these.
        lost: float64[n], what clipping takes from them.
        expected: float64[n], sums of what the pairs are expected to be.
    """
    deviations = np.sqrt(variances)
    half_widths = quantile_of(arcs) * deviations
    low = np.floor(np.maximum(values - half_widths, 0))
    # A sum below 0 has the limits of 0: one that ended there would say more than is known.
    high = np.ceil(np.maximum(values, 0) + half_widths + lost)
    columns = (np.clip(np.rint(expected), low, high), low, high)
    rows = zip(*(column.astype(np.int64).tolist() for column in columns), strict=True)
    return [(value, low, high) for value, low, high in rows]


def _most_hidden(arcs: NoisyCells, is_shown: np.ndarray) -> int:
    """The largest count that any pair has which is not shown, with probability 0.95.

    A pair of a larger count is shown but for a noise below minus z scales. That happens to none of
    k such pairs with probability 0.95 if it does to one with 0.05 / k. There are hardly more such
    pairs than are shown, as each of them is shown almost surely.
    """
    if is_shown.all():
        return 0
    reached = np.maximum(arcs.values, arcs.least(len(arcs.cells)))[~is_shown]
    scales = reach_of_noise(max(int(is_shown.sum()), 1), is_laplace=arcs.noise.is_laplace)
    limits = reached + scales * arcs.scales[~is_shown]
    norm = math.sqrt(float((np.maximum(arcs.values, 0) ** 2).sum()))
    return math.ceil(float(limits.max()) * (1 + max(arcs.beyond, 0.0) / max(norm, 1.0)))


# --- Median times between the ends of released paths, with intervals, from noisy counts by bins. --
# The median lies at or above a border of the bins if at most as many steps lie below it as do
# not. The difference of these two is a sum of noisy counts, so which borders it may lie between
# is known with probability 0.95 (a test of the sign, inverted). All bins are summed, those that
# do not stand out of the noise included, as what they hold is in the median, too. The noisy count
# of the path itself, which was measured apart, corrects them: what the bins sum up to is known
# twice. An interval has whole bins, as where in a bin the steps lie was not counted.
#
# All of it looks at the noisy sums only and costs no privacy.


# Times of the last bin, which has no upper border, are said to be below so many times its lower
# one: a hundred years.
_NO_LIMIT = 10


def median_times(
    arcs: NoisyCells | None, bins: NoisyCells, graph: ReleasedGraph, durations: ReleasedDurations
) -> list[Figure]:
    """Returns the median time of each released path between activities, in microseconds.

    Args:
        arcs: Of all possible pairs, where they were measured apart from the bins.
        bins: Of all possible pairs and bins.
        graph: What is released of the pairs.
        durations: What is released of the pairs and bins.
    """
    n_codes = graph.end + 1
    pairs, first = np.unique(
        durations.sources.astype(np.int64) * n_codes + durations.targets, return_index=True
    )
    if not len(pairs):
        return []
    values = _released_medians(durations, first)
    lows, highs = _limits(arcs, bins, pairs, durations.edges_us)
    labels = graph.labels
    columns = (pairs.tolist(), values.tolist(), lows.tolist(), highs.tolist())
    return [
        Figure(
            "median_time_us",
            (labels[pair // n_codes], labels[pair % n_codes]),
            *(value, min(low, value), max(high, value)),
            DERIVED,
        )
        for pair, value, low, high in zip(*columns, strict=True)
    ]


def _released_medians(durations: ReleasedDurations, first: np.ndarray) -> np.ndarray:
    """int64[n_pairs]: the medians of the released counts, inside a bin by its logarithm.

    The last bin has no upper border: a median in it is its lower one.
    """
    below = np.cumsum(durations.counts)
    before = below[first] - durations.counts[first]
    ends = np.append(first[1:], len(below))
    half = (before + below[ends - 1]) / 2
    rows = np.searchsorted(below, half, side="left")
    share = (half - (below[rows] - durations.counts[rows])) / durations.counts[rows]
    edges_us, bins = durations.edges_us, durations.bins[rows]
    lower = np.concatenate([[0], edges_us])[bins].astype(np.float64)
    upper = np.append(edges_us, edges_us[-1])[bins].astype(np.float64)
    # The first bin begins at 0, which has no logarithm: it is gone through evenly.
    is_first = bins == 0
    ratio = np.where(
        is_first | (bins == len(edges_us)), 1.0, upper / np.where(is_first, 1.0, lower)
    )
    grown = lower * elementary.power(ratio, share)
    return np.rint(np.where(is_first, upper * share, grown)).astype(np.int64)


def _limits(
    arcs: NoisyCells | None, bins: NoisyCells, pairs: np.ndarray, edges_us: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """int64[n_pairs] twice: between which borders the medians lie."""
    n_bins = len(edges_us) + 1
    at = np.searchsorted(bins.cells, pairs * n_bins)[:, None] + np.arange(n_bins)
    rows, variance = bins.values[at], bins.variances[at[:, 0]]
    n_below = np.arange(1, n_bins)
    if arcs is None:
        deviations = np.sqrt(n_bins * variance)[:, None] * np.ones(n_bins - 1)
    else:
        path = np.searchsorted(arcs.cells, pairs)
        weight = variance / (n_bins * variance + arcs.variances[path])
        rows = rows + ((arcs.values[path] - rows.sum(axis=1)) * weight)[:, None]
        known = (2 * n_below - n_bins) ** 2 * weight[:, None]
        deviations = np.sqrt(variance[:, None] * (n_bins - known))
    below = np.cumsum(rows, axis=1)
    differences = 2 * below[:, :-1] - below[:, -1:]
    slack = quantile_of(bins) * deviations
    always = np.ones((len(pairs), 1), bool)
    lowest = np.argmax(np.hstack([differences >= -slack, always]), axis=1)
    from_last = np.hstack([always, differences <= slack])[:, ::-1]
    highest = n_bins - 1 - np.argmax(from_last, axis=1)
    lower = np.concatenate([[0], edges_us])
    upper = np.append(edges_us, edges_us[-1] * _NO_LIMIT)
    return lower[lowest], upper[highest]

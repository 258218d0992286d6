"""The graph of a log in which a few variants have nearly all cases, from a histogram of these.

One case moves the count of one variant by 1, however long it is, so its pairs together get as much
noise as one number. What is lost are the cases of variants below a threshold, and whether they are
few is known from three numbers with noise, of which a case counts in one (as in `auto-variants`).

A count is that of the variants that are seen. Its upper limit is what it would be if every missing
case had the pair as often as the others have it, and once at least: as few are missing, that is
little more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tracecloak.anonymizers.graphs.graph_figures import LAPLACE_QUANTILE
from tracecloak.anonymizers.noise.sums import SumNoise, variance_of
from tracecloak.anonymizers.variants.stable_variants import CLEARLY_SHOWN
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.figure import DERIVED, wider_ends
from tracecloak.schemas.published.figures import Figure
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.statistics.variants import VariantHistogram


def missing_cases(numbered: np.ndarray, threshold: int) -> float:
    """Returns about how many cases a histogram does not show, of noisy `numbered_cases`."""
    n_shown = numbered[1] / ((CLEARLY_SHOWN - 1) * threshold)
    return float(numbered[0] - n_shown * (threshold - 1))


def votes(
    counted: VariantHistogram, vocabulary: ActivityVocabulary, ratio: float, n_buckets: int
) -> np.ndarray:
    """Returns int64[n_buckets], how many more cases have an L2 norm above a part of their L1 norm.

    Than below; the norms are of a case's numbers of each pair. In the first are cases of up to 2
    pairs, in each other one those of up to twice as many, and in the last all longer ones as well.

    Args:
        counted: Cases by variant.
        vocabulary: What the codes mean.
        ratio: The part.
        n_buckets: See above.
    """
    variants, sources, targets = _steps(counted, vocabulary)
    side = vocabulary.end + 1
    rows, times = np.unique((variants * side + sources) * side + targets, return_counts=True)
    squares = np.bincount(rows // side**2, times**2, counted.n_variants)
    pairs = np.bincount(variants, minlength=counted.n_variants)
    signs = np.where(squares > (ratio * pairs) ** 2, 1, -1)
    buckets = np.searchsorted(1 << np.arange(1, n_buckets), pairs)
    return sum_groups(buckets, signs * counted.counts, n_buckets)


def _steps(
    seen: VariantHistogram, vocabulary: ActivityVocabulary
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """int64[n] three times: variants with their pairs, START and END included."""
    offsets, codes = seen.offsets, seen.codes.astype(np.int64)
    lengths = np.diff(offsets)
    sources = np.insert(codes, offsets[:-1], vocabulary.start)
    targets = np.insert(codes, offsets[1:], vocabulary.end)
    return np.repeat(np.arange(len(lengths)), lengths + 1), sources, targets


@dataclass(frozen=True)
class VariantGraph:
    """What is released of noisy variants.

    Attributes:
        seen: Noisy variants, of codes of the vocabulary.
        noise: Of each count.
        missing: About how many cases are of no variant among them; may be negative.
        of_missing: The noise of that number.
        vocabulary: What the codes mean.
    """

    seen: VariantHistogram
    noise: SumNoise
    missing: float
    of_missing: SumNoise
    vocabulary: ActivityVocabulary

    def graph(self) -> ReleasedGraph:
        """Returns the graph, of the pairs that the variants have."""
        variants, sources, targets = _steps(self.seen, self.vocabulary)
        side = self.vocabulary.end + 1
        cells, numbers = np.unique(sources * side + targets, return_inverse=True)
        starts, ends = (codes.astype(np.int32) for codes in np.divmod(cells, side))
        columns = self._summed(variants, numbers, len(cells))
        return ReleasedGraph(self.vocabulary.names, starts, ends, *columns)

    def figures(self) -> list[Figure]:
        """Returns the figures of `graph_figures.figures_of_graph`."""
        variants, _, targets = _steps(self.seen, self.vocabulary)
        start, names = self.vocabulary.start, self.vocabulary.names.to_pylist()
        is_event = targets < start
        every = np.zeros(len(variants), np.int64)

        def figures(
            name: str, of: list[tuple[str, ...]], chosen: np.ndarray, numbers: np.ndarray
        ) -> list[Figure]:
            columns = self._summed(variants[chosen], numbers[chosen], len(of))
            rows = zip(of, *(column.tolist() for column in columns), strict=True)
            return [Figure(name, what, n, low, high, DERIVED) for what, n, low, high in rows]

        return [
            *figures("cases", [()], ~is_event, every),
            *figures("events", [()], is_event, every),
            *figures("activity", [(name,) for name in names], is_event, targets),
            Figure("path_not_shown", (), 0, 0, self._most_missing, DERIVED),
        ]

    @property
    def _most_missing(self) -> int:
        # Two noisy numbers are in it, the second one divided, see `missing_cases`.
        noise = self.of_missing.half_width * math.sqrt(1 + (CLEARLY_SHOWN - 1) ** -2)
        return int(np.ceil(max(self.missing, 0.0) + noise))

    def _summed(
        self, variants: np.ndarray, numbers: np.ndarray, n: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """int64[n] three times: occurrences of what has these numbers in variants, and limits."""
        pairs, times = np.unique(variants * n + numbers, return_counts=True)
        rows, at = np.divmod(pairs, n)
        counts = self.seen.counts
        sums = np.bincount(at, times * counts[rows], n)
        deviations = np.sqrt(np.bincount(at, times**2 * variance_of(self.noise), n))
        low = np.maximum(sums - LAPLACE_QUANTILE * deviations, 0)
        # Of what a case has several times, so have the missing ones.
        often = np.maximum(sums / max(int(counts.sum()), 1), 1.0)
        high = sums + LAPLACE_QUANTILE * deviations + self._most_missing * often
        columns = sums, np.floor(low), np.ceil(high)
        counts, lows, highs = (column.astype(np.int64) for column in columns)
        return counts, *wider_ends(counts, lows, highs)

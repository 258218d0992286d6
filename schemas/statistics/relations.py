"""Relations between activities: in how many cases one is followed by another, at any distance.

The behavioural abstraction behind the behavioural appropriateness of Rozinat and van der Aalst
("Conformance checking of processes based on monitoring real behavior", 2008): whether an activity
always, sometimes or never follows, or precedes, another. The followers of an activity are those of
its first occurrence in a case and its predecessors those of its last one, so that b is a follower
of a exactly where a is a predecessor of b: where some a comes before some b. One count a pair is
therefore enough for both directions. A second one takes the predecessors of the first occurrence
instead, by which whatever a case begins with can be judged. Does not look at distances, at times or
at how often.

k-follows: how closely activities come after each other, the smallest distance over all cases.

Fahrenkrog-Petersen, Kabierski, van der Aa and Weidlich ("Semantics-aware mechanisms for
control-flow anonymization in process mining") score a directly-follows pair by it: a pair that was
only seen far apart is unlikely to be right next to each other. Says nothing of how often.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracecloak.schemas.arrays.merging import (
    OfArrays,
    distinct_counts,
    distinct_places,
    offsets_of,
    order_of_small,
    pair_keys,
    ranges,
    sum_by_key,
    sum_by_pair,
)
from tracecloak.schemas.errors import check_least
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram


class KFollows(OfArrays, wire_name="k-follows"):
    """The pairs of which one comes after the other in some case, sorted by (source, target).

    A distance of 1 is that of neighbours, with START before a case's first activity and END after
    its last one: the pairs of distance 1 are the directly-follows pairs. Where distances are
    bounded, a pair that is always further apart is not here, as one that never occurs is not.

    Attributes:
        sources: int32[n_pairs], code of the earlier activity, or START.
        targets: int32[n_pairs], code of the later activity, or END; may be the earlier one again.
        distances: int32[n_pairs], smallest number of steps from one to the other, from 1.
    """

    _types = (np.int32, np.int32, np.int32)

    sources: np.ndarray
    targets: np.ndarray
    distances: np.ndarray

    @classmethod
    def from_traces(cls, traces: TraceBatch, max_distance: int | None = None) -> KFollows:
        """Finds the smallest distances in the cases of a batch.

        Time is in proportion to the events times the distances that are looked at.

        Args:
            traces: Complete cases.
            max_distance: Largest distance that is looked at, at least 1; None for all.

        Raises:
            UsageError: `max_distance` is below 1.
        """
        check_least(1, max_distance=max_distance)
        if traces.n_cases == 0:
            return cls.merge(())
        # Codes with START and END around each case, and how many come after each.
        words, n_codes = traces.vocabulary, traces.vocabulary.end + 1
        lengths = traces.lengths + 2
        ends = np.cumsum(lengths)
        codes = np.empty(int(ends[-1]), np.int64)
        row = np.repeat(np.arange(traces.n_cases), traces.lengths)
        codes[np.arange(traces.n_events) + 2 * row + 1] = traces.activities
        codes[ends - lengths], codes[ends - 1] = words.start, words.end
        left = np.repeat(ends, lengths) - 1 - np.arange(len(codes))
        farthest = int(left.max())
        if max_distance is not None:
            farthest = min(farthest, max_distance)
        at = np.arange(len(codes))
        parts = []
        for distance in range(1, farthest + 1):
            at = at[left[at] >= distance]
            keys, _ = distinct_counts(codes[at] * n_codes + codes[at + distance])
            parts.append((keys, np.full(len(keys), distance, np.int32)))
        keys, distances = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return cls.of(keys // n_codes, keys % n_codes, distances)

    @classmethod
    def of(cls, sources: np.ndarray, targets: np.ndarray, distances: np.ndarray) -> KFollows:
        """Returns the smallest distance of each pair, of pairs in any order."""
        keys, pairs_of = pair_keys(sources, targets)
        distinct, places = distinct_places(keys)
        smallest = np.full(len(distinct), np.iinfo(np.int32).max, np.int32)
        np.minimum.at(smallest, places, distances)
        return cls(*map(np.asarray, (*pairs_of(distinct), smallest), cls._types))

    def keys_within(self, vocabulary: ActivityVocabulary, max_distance: int) -> np.ndarray:
        """Returns int64[n], ascending `source * (end + 1) + target` of pairs at most so far apart.

        Args:
            vocabulary: What the codes mean.
            max_distance: At most the one that was looked for.
        """
        near = self.distances <= max_distance
        return self.sources[near].astype(np.int64) * (vocabulary.end + 1) + self.targets[near]


# Pairs of a case's distinct activities that are looked at in one go: it bounds memory.
_BLOCK = 1 << 22


class ActivityRelations(OfArrays, wire_name="activity-relations"):
    """The pairs that occur, sorted by (source, target), with their numbers of cases.

    Attributes:
        sources: int32[n_pairs], code of the earlier activity, or START.
        targets: int32[n_pairs], code of the later activity. From START it is any activity of a
            case, so the count is that of the cases that have it.
        counts: int64[n_pairs], cases in which some event of the source comes before some event of
            the target; all positive.
        counts_before_first: int64[n_pairs], those of them in which some event of the source comes
            before the first event of the target; for START all of them.
        first_codes: int32[n_firsts], the activities that cases begin with, sorted and distinct.
        first_counts: int64[n_firsts], cases that begin with them.
    """

    _types = (np.int32, np.int32, np.int64, np.int64, np.int32, np.int64)

    sources: np.ndarray
    targets: np.ndarray
    counts: np.ndarray
    counts_before_first: np.ndarray
    first_codes: np.ndarray
    first_counts: np.ndarray

    @classmethod
    def from_traces(cls, traces: TraceBatch) -> ActivityRelations:
        """Counts the relations of all cases of a batch."""
        return cls.from_variants(VariantHistogram.from_traces(traces), traces.vocabulary)

    @classmethod
    def from_variants(
        cls, variants: VariantHistogram, vocabulary: ActivityVocabulary
    ) -> ActivityRelations:
        """Counts the relations of all cases from their variants."""
        pieces = [cls.merge(())]
        for first, last in _blocks(np.diff(variants.offsets), len(vocabulary)):
            start, stop = variants.offsets[first], variants.offsets[last]
            weights = variants.counts[first:last]
            lengths = np.diff(variants.offsets[first : last + 1])
            codes = variants.codes[start:stop].astype(np.int64)
            row, *pairs, is_first = _pairs(lengths, codes, vocabulary.start)
            counts = weights[row], weights[row] * is_first
            begins = codes[(offsets_of(lengths)[:-1])[lengths > 0]]
            pieces.append(cls.of(*pairs, *counts, begins, weights[lengths > 0]))
        return cls.merge(pieces)

    @classmethod
    def of(cls, *columns: np.ndarray) -> ActivityRelations:
        """Adds up the counts of equal pairs, and of equal first activities, in any order."""
        summed = *sum_by_pair(*columns[:4]), *sum_by_key(*columns[4:])
        return cls(*map(np.asarray, summed, cls._types))

    def table(self, vocabulary: ActivityVocabulary, at_first: bool = False) -> np.ndarray:
        """Returns int64[n + 2, n], cases in which activity a comes before activity b at [a, b].

        The last row but one has the cases that have each activity, and the last one those that
        begin with it.

        Args:
            vocabulary: What the codes mean.
            at_first: Whether a must come before the first b.
        """
        n = len(vocabulary)
        table = np.zeros((n + 2, n), np.int64)
        # The code of START is n.
        table[self.sources, self.targets] = self.counts_before_first if at_first else self.counts
        table[-1, self.first_codes] = self.first_counts
        return table


def _blocks(lengths: np.ndarray, n_names: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows of which no two have more than `_BLOCK` pairs together."""
    most = np.minimum(lengths, n_names).astype(np.int64)
    ends = np.cumsum(most * (most + 1))
    first = 0
    while first < len(lengths):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _BLOCK, side="right")))
        yield first, last
        first = last


def _pairs(lengths: np.ndarray, codes: np.ndarray, start: int) -> tuple[np.ndarray, ...]:
    """Returns the pairs, each once a row.

    Returns:
        int64[m] rows, sources and targets, and bool[m], whether the source comes before the first
        target.
    """
    n_codes = start + 1
    row = np.repeat(np.arange(len(lengths)), lengths)
    cell = row * n_codes + codes
    order = order_of_small(cell, len(lengths) * n_codes)
    changes = np.diff(cell[order], prepend=-1) != 0
    begins = np.flatnonzero(changes)
    # Positions of the first and of the last event of each activity of each row.
    firsts = order[begins]
    lasts = order[np.append(begins[1:], len(order)) - 1] if len(order) else firsts
    own_row, own_code = row[firsts], codes[firsts]
    n_distinct = np.bincount(own_row, minlength=len(lengths))
    offsets = offsets_of(n_distinct)
    left = np.repeat(np.arange(len(firsts)), n_distinct[own_row])
    right = ranges(offsets[own_row], n_distinct[own_row])
    occurs = firsts[left] < lasts[right]
    left, right = left[occurs], right[occurs]
    rows = np.concatenate([own_row, own_row[left]])
    sources = np.concatenate([np.full(len(own_code), start), own_code[left]])
    targets = np.concatenate([own_code, own_code[right]])
    is_first = np.concatenate([np.ones(len(own_row), bool), firsts[left] < firsts[right]])
    return rows, sources, targets, is_first

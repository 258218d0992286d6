"""Directly-follows counts, with artificial START and END: how often `b` came right after `a`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tracecloak.schemas.arrays.merging import OfArrays, sum_by_key, sum_groups
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary

if TYPE_CHECKING:
    from tracecloak.schemas.statistics.variants import VariantHistogram


@dataclass(frozen=True, eq=False)
class DirectlyFollows(OfArrays):
    """The pairs that occur, sorted by (source, target), with their numbers of occurrences.

    Attributes:
        sources: int32[n_pairs], code of the earlier activity, or START.
        targets: int32[n_pairs], code of the later activity, or END.
        counts: int64[n_pairs], all positive.
    """

    wire_name: ClassVar[str] = "directly-follows"
    _types = (np.int32, np.int32, np.int64)

    sources: np.ndarray
    targets: np.ndarray
    counts: np.ndarray

    @classmethod
    def from_traces(cls, traces: TraceBatch) -> DirectlyFollows:
        """Counts the pairs of all cases of a batch."""
        ones = np.ones(traces.n_cases, np.int64)
        return cls.from_rows(traces.offsets, traces.activities, ones, traces.vocabulary)

    @classmethod
    def from_variants(
        cls, variants: VariantHistogram, vocabulary: ActivityVocabulary
    ) -> DirectlyFollows:
        """Counts the pairs of all cases from their variants."""
        return cls.from_rows(variants.offsets, variants.codes, variants.counts, vocabulary)

    @classmethod
    def from_rows(
        cls, offsets: np.ndarray, codes: np.ndarray, weights: np.ndarray, words: ActivityVocabulary
    ) -> DirectlyFollows:
        """Counts the pairs of sequences in CSR form, each as often as its weight says.

        Args:
            offsets: int64[n+1].
            codes: int32[n_positions].
            weights: int64[n].
            words: What the codes mean.
        """
        if len(codes) == 0:
            return cls.merge(())
        # A row more a case than events: each event after its predecessor or START, then END.
        source = np.empty(len(codes) + len(weights), np.int64)
        target = np.empty_like(source)
        row = np.repeat(np.arange(len(weights)), np.diff(offsets))
        place = np.arange(len(codes)) + row
        target[place] = codes
        source[place + 1] = codes
        source[offsets[:-1] + np.arange(len(weights))] = words.start
        target[offsets[1:] + np.arange(len(weights))] = words.end
        n_codes = words.end + 1
        weight = np.repeat(weights, np.diff(offsets) + 1)
        pairs = source * n_codes + target
        if n_codes**2 <= len(pairs):  # few names: a cell for every possible pair
            cells = sum_groups(pairs, weight, n_codes**2)
            keys = np.flatnonzero(cells)
            counts = cells[keys]
        else:
            keys, counts = sum_by_key(pairs, weight)
        return cls((keys // n_codes).astype(np.int32), (keys % n_codes).astype(np.int32), counts)

    @classmethod
    def _collapsed(
        cls, sources: np.ndarray, targets: np.ndarray, counts: np.ndarray
    ) -> DirectlyFollows:
        distinct, totals = sum_by_key(sources.astype(np.int64) << 32 | targets, counts)
        return cls(
            (distinct >> 32).astype(np.int32), (distinct & 0xFFFFFFFF).astype(np.int32), totals
        )

    def inner(self, vocabulary: ActivityVocabulary) -> DirectlyFollows:
        """Returns the pairs between activities, without START and END, as pm4py's DFG has them."""
        inner = (self.sources != vocabulary.start) & (self.targets != vocabulary.end)
        return DirectlyFollows(self.sources[inner], self.targets[inner], self.counts[inner])

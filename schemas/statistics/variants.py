"""Variants, directly-follows pairs, and the minimal automaton of the variants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import (
    CountsByKey,
    CountsByPair,
    beside,
    distinct_counts,
    offsets_of,
    order_of_small,
    ranges,
    stable_order,
    sum_groups,
)
from tracecloak.schemas.arrays.sequences import (
    arcs_of,
    decode_sequences,
    encode_sequences,
    number_prefixes,
    word_bytes,
)
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch

# --- Variants and how many cases follow each: exact counts of distinct activity sequences. --------
# Does not look at times or at who the cases are. Other statistics of the control flow (trie,
# DAFSA, contingency table) are functions of this one.
#
# Two further counts of cases are here: by their number of events, and what cases add to each
# activity where a case counts for a bounded number of them.


class ActivityCounts(CountsByKey, wire_name="activity-counts"):
    """Sums over cases by activity.

    Attributes:
        names: string[n], distinct, sorted by their bytes.
        counts: int64[n], what the cases of each add, all positive.
    """

    _types = (pa.string(), np.int64)

    names: pa.StringArray
    counts: np.ndarray


class TraceLengths(CountsByKey, wire_name="trace-lengths"):
    """Cases by number of events.

    Attributes:
        lengths: int64[n], distinct, ascending.
        counts: int64[n], all positive.
    """

    lengths: np.ndarray
    counts: np.ndarray

    @classmethod
    def from_traces(cls, traces: TraceBatch) -> TraceLengths:
        """Counts the cases of a batch."""
        return cls(*distinct_counts(traces.lengths))

    @property
    def n_cases(self) -> int:
        """Number of cases."""
        return int(self.counts.sum())

    def histogram(self, grid: np.ndarray) -> np.ndarray:
        """Returns int64[n_grid+1], cases in the buckets of an ascending grid; the last are above.

        Cumulative sums of it are the numbers of cases up to each grid point.
        """
        bucket = np.searchsorted(grid, self.lengths)
        return sum_groups(bucket, self.counts, len(grid) + 1)


class VariantHistogram(CountsByKey, wire_name="variant-histogram"):
    """Distinct variants in lexicographic order of their codes, with their numbers of cases.

    Attributes:
        sequences: large_binary[n_variants], see `encode_sequences`; sorted and distinct.
        counts: int64[n_variants], cases of each variant, all positive.
    """

    _types = (pa.large_binary(), np.int64)
    _keys = ("sequences",)

    sequences: pa.LargeBinaryArray
    counts: np.ndarray

    @classmethod
    def from_traces(cls, traces: TraceBatch) -> VariantHistogram:
        """Counts the variants of a batch."""
        sequences = encode_sequences(traces.offsets, traces.activities)
        return cls.of(sequences, np.ones(traces.n_cases, np.int64))

    @property
    def n_variants(self) -> int:
        """Number of distinct variants."""
        return len(self.counts)

    @property
    def n_cases(self) -> int:
        """Number of cases of all variants."""
        return int(self.counts.sum())

    @cached_property
    def _decoded(self) -> tuple[np.ndarray, np.ndarray]:
        return decode_sequences(self.sequences)

    @property
    def offsets(self) -> np.ndarray:
        """int64[n_variants+1], CSR offsets of the variants into `codes`."""
        return self._decoded[0]

    @property
    def codes(self) -> np.ndarray:
        """int32[n_positions], the variants' activity codes one after the other."""
        return self._decoded[1]

    @cached_property
    def levels(self) -> PrefixLevels:
        """The prefixes of the variants, level by level."""
        return PrefixLevels.of(self)

    def named(self, vocabulary: ActivityVocabulary) -> dict[tuple[str, ...], int]:
        """Returns the cases of each variant by its names."""
        labels, ends = vocabulary.labels, pairwise(self.offsets.tolist())
        words = [labels[code] for code in self.codes.tolist()]
        return dict(zip((tuple(words[a:b]) for a, b in ends), self.counts.tolist(), strict=True))

    def is_in(self, other: VariantHistogram) -> np.ndarray:
        """Returns bool[n_variants], whether another one in the same codes has each."""
        return np.asarray(pc.is_in(self.sequences, value_set=other.sequences), bool)

    def cases_of(self, sequences: pa.LargeBinaryArray) -> np.ndarray:
        """Returns int64[n], the cases of each sequence, 0 of one that is not here."""
        place = pc.fill_null(pc.index_in(sequences, value_set=self.sequences), self.n_variants)
        return np.append(self.counts, 0)[np.asarray(place)]

    def find(self, traces: TraceBatch) -> np.ndarray:
        """Returns int64[n_cases], the variant number of each case, or -1 where it is not here."""
        variants = encode_sequences(traces.offsets, traces.activities).dictionary_encode()
        # The batch's few variants are made the look-up table, not the log's many.
        places = pc.index_in(self.sequences, value_set=variants.dictionary)
        known = np.flatnonzero(places.is_valid())
        number = np.full(len(variants.dictionary), -1, np.int64)
        number[np.asarray(places.take(pa.array(known)))] = known
        return number[np.asarray(variants.indices)]


# --- Directly-follows counts, with artificial START and END: how often `b` came right after `a`. --


class DirectlyFollows(CountsByPair, wire_name="directly-follows"):
    """The pairs that occur, sorted by (source, target), with their numbers of occurrences.

    Attributes:
        sources: int32[n_pairs], code of the earlier activity, or START.
        targets: int32[n_pairs], code of the later activity, or END.
        counts: int64[n_pairs], all positive.
    """

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
        sources, targets = arcs_of(offsets, codes, words.start, words.end)
        return cls.of(sources, targets, np.repeat(weights, np.diff(offsets) + 1))

    def inner(self, vocabulary: ActivityVocabulary) -> DirectlyFollows:
        """Returns the pairs between activities, without START and END, as pm4py's DFG has them."""
        inner = (self.sources != vocabulary.start) & (self.targets != vocabulary.end)
        return DirectlyFollows(self.sources[inner], self.targets[inner], self.counts[inner])

    @property
    def keys(self) -> np.ndarray:
        """int64[n_pairs], equal for equal pairs; codes may be negative."""
        return (self.sources.astype(np.int64) << 32) + self.targets

    def beside(self, other: DirectlyFollows) -> np.ndarray:
        """Returns float64[2, n], the counts of both over the union of pairs, 0 where one lacks."""
        return beside(self.keys, self.counts, other.keys, other.counts)

    def relative_error(self, other: DirectlyFollows) -> float | None:
        """Returns the sum of the differences over that of the counts; 1 is what no pair gives."""
        counts = self.beside(other)
        total = counts[0].sum()
        return float(np.abs(counts[0] - counts[1]).sum() / total) if total else None


# --- The minimal DAFSA of a log's variants, and the contingency table of its transitions. ---------
# A minimal deterministic acyclic automaton groups prefixes that allow the same continuations
# (Amun, Definition 3.3; Daciuk et al. 2000). It is unique up to the names of its states, so
# building the prefix tree and merging equal subtrees from the leaves up gives the automaton of
# the incremental construction.
#
# The prefix tree of a variant histogram, in columns, built without a loop over variants.


class Trie(Columnar, wire_name="trie"):
    """Distinct prefixes of the variants; node 0 is the empty one.

    Nodes are numbered in the lexicographic order of their prefixes, parents before children, so a
    node's children, in the order of their numbers, are in the order of their activities.

    Attributes:
        parents: int32[n_nodes], parent of each node; the root's is -1.
        activities: int32[n_nodes], last activity of the prefix; the root's is -1.
        counts: int64[n_nodes], cases with that prefix.
        is_end: bool[n_nodes], whether some variant ends here.
        depths: int32[n_nodes], length of the prefix.
        heights: int32[n_nodes], length of the longest continuation.
        nodes: int32[n_positions], node of each position of the histogram's CSR variants.
    """

    parents: np.ndarray
    activities: np.ndarray
    counts: np.ndarray
    is_end: np.ndarray
    depths: np.ndarray
    heights: np.ndarray
    nodes: np.ndarray

    @classmethod
    def from_variants(cls, variants: VariantHistogram) -> Trie:
        """Builds the tree; one node per distinct prefix of a variant."""
        offsets, codes = variants.offsets, variants.codes
        lengths = np.diff(offsets)
        if len(codes) == 0:
            none = np.array([-1], np.int32)
            zero = np.zeros(1, np.int32)
            empty = np.zeros(0, np.int32)
            return cls(none, none, np.zeros(1, np.int64), np.zeros(1, bool), zero, zero, empty)
        row = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        n_empty = int(lengths[0] == 0)  # which is first
        depth, node, inner = number_prefixes(offsets[n_empty:], codes)
        n_nodes = len(inner) + 1
        parents = np.full(n_nodes, -1, np.int32)
        activities = np.full(n_nodes, -1, np.int32)
        parents[1:] = np.where(depth[inner] == 0, 0, node[inner - 1])
        activities[1:] = codes[inner]
        is_end = np.zeros(n_nodes, bool)
        is_end[0] = n_empty
        is_end[node[offsets[n_empty + 1 :] - 1]] = True
        counts = sum_groups(node, variants.counts[row], n_nodes)
        counts[0] = variants.n_cases
        heights = np.zeros(n_nodes, np.int32)
        np.maximum.at(heights, node, lengths.astype(np.int32)[row] - 1 - depth)
        heights[0] = lengths.max()
        depths = np.zeros(n_nodes, np.int32)
        depths[1:] = depth[inner] + 1
        return cls(parents, activities, counts, is_end, depths, heights, node)


@dataclass(frozen=True, eq=False)
class PrefixLevels:
    """The same prefixes by their lengths: those of one are neighbours, the empty one is first.

    Attributes:
        parents: int64[n_nodes], ascending; the root's is 0.
        codes: int64[n_nodes], last code of the prefix; the root's is -1.
        offsets: list of n_levels + 1 numbers, where the nodes of each length begin.
        ends: int64[n_variants], the node at which each variant ends.
    """

    parents: np.ndarray
    codes: np.ndarray
    offsets: list[int]
    ends: np.ndarray

    @classmethod
    def of(cls, variants: VariantHistogram) -> PrefixLevels:
        """Builds the levels of variants."""
        trie = Trie.from_variants(variants)
        order = order_of_small(trie.depths, int(trie.heights[0]))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        parents, codes = place[np.maximum(trie.parents[order], 0)], trie.activities[order]
        filled = np.flatnonzero(np.diff(variants.offsets))
        ends = np.zeros(variants.n_variants, np.int64)
        ends[filled] = place[trie.nodes[variants.offsets[1:][filled] - 1]]
        sizes = np.bincount(trie.depths)
        return cls(parents, codes.astype(np.int64), [0, *np.cumsum(sizes).tolist()], ends)


class Dafsa(Columnar, wire_name="dafsa"):
    """The automaton that accepts exactly the variants of a histogram.

    State 0 is the initial one; states and transitions are numbered by their first visit in
    lexicographic order, so equal histograms give equal numbers.

    Attributes:
        variants: The accepted variants, with their counts.
        sources: int32[n_transitions], state that a transition leaves.
        activities: int32[n_transitions], its activity.
        targets: int32[n_transitions], state that it enters.
        is_final: bool[n_states], whether a variant may end there.
        path: int32[n_positions], transition at each position of the CSR variants.
    """

    variants: VariantHistogram
    sources: np.ndarray
    activities: np.ndarray
    targets: np.ndarray
    is_final: np.ndarray
    path: np.ndarray

    @classmethod
    def from_variants(cls, variants: VariantHistogram) -> Dafsa:
        """Merges the equal subtrees of the variants' prefix tree, level by level.

        Equal subtrees can be those of any two variants, so all distinct variants are in one place.
        It takes at most 180 bytes for each of their events while it is built, which is 2.2 KB for a
        variant of 12 events, and 30 bytes once it is there, its variants not counted.
        """
        trie = Trie.from_variants(variants)
        n_children = np.bincount(trie.parents[1:], minlength=len(trie.parents)).astype(np.int32)
        child_offsets = offsets_of(n_children).astype(np.int32)
        # By parent, in the order of their activities; and how many siblings come before each.
        children = (stable_order(trie.parents[1:]) + 1).astype(np.int32)
        rank = np.zeros(len(trie.parents), np.int32)
        rank[children] = np.arange(len(children)) - child_offsets[trie.parents[children]]
        merged = _merge_subtrees(trie, child_offsets, children)

        is_kept = merged == np.arange(len(merged), dtype=np.int32)
        representative = np.flatnonzero(is_kept)
        state = (np.cumsum(is_kept, dtype=np.int32) - 1)[merged]
        fan_out = n_children[representative]
        edges = children[ranges(child_offsets[representative], fan_out)]
        transition_offsets = offsets_of(fan_out).astype(np.int32)
        # The k-th child of a node goes by the k-th transition of the node's state.
        transition = transition_offsets[state[trie.parents]] + rank
        return cls(
            variants,
            np.repeat(np.arange(len(fan_out), dtype=np.int32), fan_out),
            trie.activities[edges],
            state[edges],
            trie.is_end[representative],
            transition[trie.nodes],
        )

    @property
    def n_states(self) -> int:
        """Number of states, the initial one included."""
        return len(self.is_final)

    @property
    def n_transitions(self) -> int:
        """Number of transitions."""
        return len(self.sources)

    def contingency_table(self, counts: np.ndarray) -> np.ndarray:
        """Returns int64[n_transitions], cases that take each transition (Amun, Definition 3.11).

        Args:
            counts: int64[n_variants], the cases of each variant.
        """
        weights = np.repeat(counts, np.diff(self.variants.offsets))
        return sum_groups(self.path, weights, self.n_transitions)

    def counts_of(self, variants: VariantHistogram) -> np.ndarray:
        """Returns int64[n_variants], the counts of another histogram by this automaton's variants.

        Raises:
            ValueError: It has a variant that this automaton does not accept.
        """
        counts = variants.cases_of(self.variants.sequences)
        if counts.sum() != variants.n_cases:
            raise ValueError("a variant is not accepted by the automaton")
        return counts

    def annotate(self, traces: TraceBatch) -> tuple[np.ndarray, np.ndarray]:
        """Follows every case through the automaton (Amun, Definition 3.6).

        Returns:
            (variant int64[n_cases], transition int32[n_events]).

        Raises:
            ValueError: A case's variant is not accepted.
        """
        variant = self.variants.find(traces)
        if (variant < 0).any():
            raise ValueError("a case's variant is not accepted by the automaton")
        return variant, self.path[ranges(self.variants.offsets[variant], traces.lengths)]


def _merge_subtrees(trie: Trie, child_offsets: np.ndarray, children: np.ndarray) -> np.ndarray:
    """int32[n_nodes]: of all nodes with a node's continuations, the first.

    Equal subtrees have equal height, so each height is settled on its own, from the leaves up.
    """
    n_nodes = len(trie.parents)
    merged = np.full(n_nodes, -1, np.int32)
    order = order_of_small(trie.heights, int(trie.heights[0]))
    level_offsets = np.searchsorted(trie.heights[order], np.arange(trie.heights.max() + 2))
    # A node alone at its height equals no other: the long tail of one long case costs nothing.
    alone = order[level_offsets[:-1][np.diff(level_offsets) == 1]]
    merged[alone] = alone
    for height in np.flatnonzero(np.diff(level_offsets) > 1):
        level = order[level_offsets[height] : level_offsets[height + 1]]
        fan_out = child_offsets[level + 1] - child_offsets[level]
        edges = children[ranges(child_offsets[level], fan_out)]
        # Signature: whether a variant ends here, then each child's activity and merged node.
        signature_offsets = offsets_of(1 + 2 * fan_out)
        signatures = np.empty(int(signature_offsets[-1]), np.int32)
        signatures[signature_offsets[:-1]] = trie.is_end[level]
        place = ranges(signature_offsets[:-1] + 1, 2 * fan_out)
        signatures[place[0::2]] = trie.activities[edges]
        signatures[place[1::2]] = merged[edges]
        encoded = word_bytes(signature_offsets, signatures).dictionary_encode()
        group = np.asarray(encoded.indices)
        first = np.empty(len(encoded.dictionary), np.int32)
        first[group[::-1]] = level[::-1]  # the last assignment holds: that of the first node
        merged[level] = first[group]
    return merged

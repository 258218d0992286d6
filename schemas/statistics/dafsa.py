"""The minimal DAFSA of a log's variants, and the contingency table of its transitions.

A minimal deterministic acyclic automaton groups prefixes that allow the same continuations (Amun,
Definition 3.3; Daciuk et al. 2000). It is unique up to the names of its states, so building the
prefix tree and merging equal subtrees from the leaves up gives the automaton of the incremental
construction.

The prefix tree of a variant histogram, in columns, built without a loop over variants.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tracecloak.schemas.arrays.merging import offsets_of, order_of_small, ranges, sum_groups
from tracecloak.schemas.arrays.prefixes import number_prefixes
from tracecloak.schemas.arrays.sequences import word_bytes
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram


@dataclass(frozen=True, eq=False)
class Trie:
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

    wire_name: ClassVar[str] = "trie"

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
        depth, node, inner = number_prefixes(offsets, codes)
        n_nodes = len(inner) + 1
        parents = np.full(n_nodes, -1, np.int32)
        activities = np.full(n_nodes, -1, np.int32)
        parents[1:] = np.where(depth[inner] == 0, 0, node[inner - 1])
        activities[1:] = codes[inner]
        is_end = np.zeros(n_nodes, bool)
        is_end[node[offsets[1:] - 1]] = True
        counts = sum_groups(node, variants.counts[row], n_nodes)
        counts[0] = variants.n_cases
        heights = np.zeros(n_nodes, np.int32)
        np.maximum.at(heights, node, (lengths[row] - 1 - depth).astype(np.int32))
        heights[0] = lengths.max()
        depths = np.zeros(n_nodes, np.int32)
        depths[1:] = depth[inner] + 1
        return cls(parents, activities, counts, is_end, depths, heights, node)


@dataclass(frozen=True, eq=False)
class Dafsa:
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

    wire_name: ClassVar[str] = "dafsa"

    variants: VariantHistogram
    sources: np.ndarray
    activities: np.ndarray
    targets: np.ndarray
    is_final: np.ndarray
    path: np.ndarray

    @classmethod
    def from_variants(cls, variants: VariantHistogram) -> Dafsa:
        """Merges the equal subtrees of the variants' prefix tree, level by level."""
        trie = Trie.from_variants(variants)
        n_children = np.bincount(trie.parents[1:], minlength=len(trie.parents))
        child_offsets = offsets_of(n_children)
        rank = _sibling_ranks(trie)
        children = np.empty(len(trie.parents) - 1, np.int64)
        children[child_offsets[trie.parents[1:]] + rank[1:]] = np.arange(1, len(trie.parents))
        merged = _merge_subtrees(trie, child_offsets, children)

        representative = np.flatnonzero(merged == np.arange(len(merged)))
        state = (np.cumsum(merged == np.arange(len(merged))) - 1)[merged]
        fan_out = n_children[representative]
        edges = children[ranges(child_offsets[representative], fan_out)]
        transition_offsets = offsets_of(fan_out)
        # The k-th child of a node goes by the k-th transition of the node's state.
        transition = transition_offsets[state[trie.parents]] + rank
        return cls(
            variants,
            np.repeat(np.arange(len(fan_out), dtype=np.int32), fan_out),
            trie.activities[edges],
            state[edges].astype(np.int32),
            trie.is_end[representative],
            transition[trie.nodes].astype(np.int32),
        )

    @property
    def n_states(self) -> int:
        """Number of states, the initial one included."""
        return len(self.is_final)

    @property
    def n_transitions(self) -> int:
        """Number of transitions."""
        return len(self.sources)

    @cached_property
    def contingency_table(self) -> np.ndarray:
        """int64[n_transitions], cases that take each transition (Amun, Definition 3.11)."""
        return self._table_of(self.variants.counts)

    def contingency_table_of(self, counts: np.ndarray) -> np.ndarray:
        """Returns int64[n_transitions], the table for other numbers of cases per variant.

        Args:
            counts: int64[n_variants].
        """
        return self.contingency_table if counts is self.variants.counts else self._table_of(counts)

    def _table_of(self, counts: np.ndarray) -> np.ndarray:
        weights = np.repeat(counts, np.diff(self.variants.offsets))
        return sum_groups(self.path, weights, self.n_transitions)

    def counts_of(self, variants: VariantHistogram) -> np.ndarray:
        """Returns int64[n_variants], the counts of another histogram by this automaton's variants.

        Raises:
            ValueError: It has a variant that this automaton does not accept.
        """
        if variants is self.variants:
            return variants.counts
        union = VariantHistogram.merge([self.variants, variants])
        if union.n_variants != self.variants.n_variants:
            raise ValueError("a variant is not accepted by the automaton")
        return union.counts - self.variants.counts

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


def _sibling_ranks(trie: Trie) -> np.ndarray:
    """int64[n_nodes]: which child of its parent each node is, by the order of activities.

    Along one depth the nodes' numbers and their parents' both grow, so siblings are neighbours.
    """
    order = order_of_small(trie.depths, int(trie.heights[0]))
    parents = trie.parents[order]
    position = np.arange(len(order))
    is_first = np.ones(len(order), bool)
    is_first[1:] = parents[1:] != parents[:-1]
    rank = np.empty(len(order), np.int64)
    rank[order] = position - np.maximum.accumulate(np.where(is_first, position, 0))
    return rank


def _merge_subtrees(trie: Trie, child_offsets: np.ndarray, children: np.ndarray) -> np.ndarray:
    """int64[n_nodes]: of all nodes with a node's continuations, the first.

    Equal subtrees have equal height, so each height is settled on its own, from the leaves up.
    """
    n_nodes = len(trie.parents)
    merged = np.full(n_nodes, -1, np.int64)
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
        first = np.empty(len(encoded.dictionary), np.int64)
        first[group[::-1]] = level[::-1]  # the last assignment holds: that of the first node
        merged[level] = first[group]
    return merged

"""The prefix tree of a variant histogram, in columns, built without a loop over variants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.schemas.arrays.merging import order_of_small, sum_groups
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
        depth = (np.arange(len(codes)) - offsets[row]).astype(np.int32)
        node = _number_prefixes(offsets, codes, lengths, row, depth)
        n_nodes = int(node.max()) + 1

        first = np.full(n_nodes, -1, np.int64)
        first[node[::-1]] = np.arange(len(node) - 1, -1, -1)  # the first position of each node
        parents = np.full(n_nodes, -1, np.int32)
        activities = np.full(n_nodes, -1, np.int32)
        inner = first[1:]
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
class PrefixLevels:
    """The same prefixes level by level: those of one length are neighbours, the empty one is first.

    Attributes:
        parents: int64[n_nodes], ascending; the root's is 0.
        activities: int64[n_nodes], last activity of the prefix; the root's is -1.
        offsets: list of n_levels + 1 numbers, where the nodes of each length begin.
        ends: int64[n_variants], the node at which each variant ends.
    """

    parents: np.ndarray
    activities: np.ndarray
    offsets: list[int]
    ends: np.ndarray

    @classmethod
    def from_variants(cls, variants: VariantHistogram) -> PrefixLevels:
        """Builds the levels; a variant may be empty."""
        lengths = np.diff(variants.offsets)
        n_empty = int((lengths == 0).sum())  # those are first
        offsets, lengths = variants.offsets[n_empty:], lengths[n_empty:]
        ends = np.zeros(variants.n_variants, np.int64)
        if not len(lengths):
            return cls(np.zeros(1, np.int64), np.full(1, -1), [0, 1], ends)
        row = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        depth = (np.arange(len(row)) - offsets[row]).astype(np.int32)
        node = _number_prefixes(offsets, variants.codes, lengths, row, depth)
        first = np.empty(int(node.max()) + 1, np.int64)
        first[node[::-1]] = np.arange(len(node) - 1, -1, -1)  # the first position of each node
        inner = first[1:]
        order = order_of_small(depth[inner], int(lengths.max()))
        level_of = np.zeros(len(first), np.int64)
        level_of[1 + order] = np.arange(1, len(first))
        inner = inner[order]
        parents, activities = np.zeros(len(first), np.int64), np.full(len(first), -1)
        parents[1:] = np.where(depth[inner] == 0, 0, level_of[node[inner - 1]])
        activities[1:] = variants.codes[inner]
        ends[n_empty:] = level_of[node[offsets[1:] - 1]]
        sizes = np.bincount(depth[inner])
        return cls(parents, activities, [0, *np.cumsum([1, *sizes]).tolist()], ends)


def _number_prefixes(
    offsets: np.ndarray, codes: np.ndarray, lengths: np.ndarray, row: np.ndarray, depth: np.ndarray
) -> np.ndarray:
    """int32[n_positions]: number of the prefix that ends at each position, from 1."""
    previous_length = np.concatenate([[0], lengths[:-1]])
    has_previous = depth < previous_length[row]
    previous = np.where(has_previous, offsets[row - 1] + depth, 0)
    differs = ~has_previous | (codes[previous] != codes)
    # Sorted and distinct variants: a row shares its beginning with the row before it, and differs
    # from the first mismatch on.
    shared = np.minimum.reduceat(np.where(differs, depth, np.iinfo(np.int32).max), offsets[:-1])
    is_new = depth >= shared[row]
    number = np.cumsum(is_new, dtype=np.int32)
    # A position that is shared with the row before has the number that was last assigned at its
    # depth. The first position of each depth is new, so the search for that number stays within the
    # depth.
    order = order_of_small(depth, int(lengths.max()))
    last_new = np.where(is_new[order], np.arange(len(order), dtype=np.int32), 0)
    number[order] = number[order[np.maximum.accumulate(last_new)]]
    return number

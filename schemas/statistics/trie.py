"""The prefix tree of a variant histogram, in columns, built without a loop over variants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.arrays.prefixes import number_prefixes
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
        node = number_prefixes(offsets, codes, lengths, row, depth)
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

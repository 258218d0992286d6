"""The distinct prefixes of sorted sequences, without a loop over the sequences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecloak.schemas.arrays.merging import order_of_small


@dataclass(frozen=True, eq=False)
class PrefixLevels:
    """Distinct prefixes of sequences: those of one length are neighbours, the empty one is first.

    Attributes:
        parents: int64[n_nodes], ascending; the root's is 0.
        codes: int64[n_nodes], last code of the prefix; the root's is -1.
        offsets: list of n_levels + 1 numbers, where the nodes of each length begin.
        ends: int64[n_sequences], the node at which each sequence ends.
    """

    parents: np.ndarray
    codes: np.ndarray
    offsets: list[int]
    ends: np.ndarray

    @classmethod
    def of(cls, offsets: np.ndarray, codes: np.ndarray) -> PrefixLevels:
        """Builds the levels of sequences that are sorted and distinct; the first may be empty.

        Args:
            offsets: int64[n_sequences+1], CSR offsets into `codes`.
            codes: int32[n_positions], from 0.
        """
        lengths = np.diff(offsets)
        n_empty = int((lengths == 0).sum())  # those are first
        ends = np.zeros(len(lengths), np.int64)
        offsets, lengths = offsets[n_empty:], lengths[n_empty:]
        if not len(lengths):
            return cls(np.zeros(1, np.int64), np.full(1, -1), [0, 1], ends)
        depth, node, inner = number_prefixes(offsets, codes)
        n_nodes = len(inner) + 1
        order = order_of_small(depth[inner], int(lengths.max()))
        level_of = np.zeros(n_nodes, np.int64)
        level_of[1 + order] = np.arange(1, n_nodes)
        inner = inner[order]
        parents, last = np.zeros(n_nodes, np.int64), np.full(n_nodes, -1)
        parents[1:] = np.where(depth[inner] == 0, 0, level_of[node[inner - 1]])
        last[1:] = codes[inner]
        ends[n_empty:] = level_of[node[offsets[1:] - 1]]
        sizes = np.bincount(depth[inner])
        return cls(parents, last, [0, *np.cumsum([1, *sizes]).tolist()], ends)


def number_prefixes(
    offsets: np.ndarray, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers the prefixes of sorted and distinct sequences that are not empty.

    Returns:
        int32[n_positions], the place of each position in its sequence; int32[n_positions], the
        number of the prefix that ends there, from 1; int64[n], the first position of each prefix.
    """
    lengths = np.diff(offsets)
    row = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    depth = (np.arange(len(row)) - offsets[row]).astype(np.int32)
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
    first = np.empty(int(number.max()) + 1, np.int64)
    first[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    return depth, number, first[1:]

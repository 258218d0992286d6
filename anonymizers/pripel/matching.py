"""Which case of the log a released sequence is made from: the cheapest assignment by edits.

PRIPEL (Fahrenkrog-Petersen, van der Aa, Weidlich, "PRIPEL: Privacy-Preserving Event Log Publishing
Including Contextual Information", 2020) assigns every sequence that its query gives to a case of
the log, each case at most once, so that the sum of the Levenshtein distances is smallest. Its
authors' code fills a matrix of all sequences by all cases. Here it is a transportation problem
between variants with their numbers of cases, with the same smallest sum:

Equal variants are matched first. That is part of a cheapest assignment: if a sequence of variant v
took a case of w, and a sequence of u a case of v, then by the triangle inequality v with v and u
with w cost no more.

Of what is left, with S sequences in all, each variant looks at its nearest ones alone, up to the
distance within which there are S cases or more. All other sequences together take fewer, so one of
these is always free, and nearer than any further one.

The rest is solved exactly by the primal-dual method for transportation (Ford and Fulkerson, 1956;
Kuhn, 1955): as many sequences as possible are sent along pairs whose distance is the sum of the
prices at their ends, then the prices of what can still be reached move by the smallest step that
opens a new pair. Distances are small integers, so there are few such steps.

The assignment reads the unprotected log: no epsilon covers it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from tracecloak.anonymizers.variants.distance import LevenshteinDistance
from tracecloak.schemas.arrays.merging import offsets_of, sum_groups
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.variants import VariantHistogram

# At most so many distances are computed, which takes minutes, and at most so many pairs are kept,
# which take 2 GB.
MAX_DISTANCES = 1 << 30
MAX_PAIRS = 1 << 26


@dataclass(frozen=True, eq=False)
class VariantMatching:
    """How many sequences of a released variant are made from cases of a variant of the log.

    Attributes:
        raw: int64[n], numbers of the log's variants, ascending.
        released: int64[n], numbers of the released variants, ascending within each of the log's.
        cases: int64[n], sequences, all positive; they add up to those of each released variant.
        cost: Sum of the distances of all sequences.
    """

    raw: np.ndarray
    released: np.ndarray
    cases: np.ndarray
    cost: int


def match_variants(released: VariantHistogram, raw: VariantHistogram) -> VariantMatching:
    """Assigns every released sequence to a case of the log at the smallest sum of distances.

    A case takes at most one sequence, or, where more sequences are released than the log has
    cases, as many as there are released for each case of the log, rounded up.

    Args:
        released: Variants of the query with their numbers of sequences.
        raw: Variants of the log; at least one unless nothing is released. Same codes.

    Raises:
        UsageError: There are too many pairs of variants to compare.
    """
    if not released.n_variants:
        nothing = np.zeros(0, np.int64)
        return VariantMatching(nothing, nothing, nothing, 0)
    supply = released.counts.copy()
    capacity = raw.counts * -(-released.n_cases // raw.n_cases)
    twin = pc.index_in(released.sequences, value_set=raw.sequences)
    same = np.flatnonzero(twin.is_valid())
    twins = np.asarray(twin.drop_null(), np.int64)
    equal = np.minimum(supply[same], capacity[twins])
    supply[same] -= equal
    capacity[twins] -= equal

    rows, columns = np.flatnonzero(supply), np.flatnonzero(capacity)
    pairs = _nearest_pairs(released, raw, rows, columns, supply[rows], capacity[columns])
    sent = transport(pairs, supply[rows], capacity[columns])
    used = np.flatnonzero(sent)
    from_raw = np.concatenate([twins, columns[pairs.columns[used]]])
    to_released = np.concatenate([same, rows[pairs.rows[used]]])
    cases = np.concatenate([equal, sent[used]])
    order = np.lexsort((to_released, from_raw))
    order = order[cases[order] > 0]
    cost = int((sent * pairs.costs).sum())
    return VariantMatching(from_raw[order], to_released[order], cases[order], cost)


@dataclass(frozen=True, eq=False)
class CandidatePairs:
    """Pairs that an assignment may use, in the order of their rows.

    Attributes:
        rows: int64[n], places in the supply.
        columns: int64[n], places in the capacity.
        costs: int64[n], not negative: of one unit.
    """

    rows: np.ndarray
    columns: np.ndarray
    costs: np.ndarray


def _nearest_pairs(
    released: VariantHistogram,
    raw: VariantHistogram,
    rows: np.ndarray,
    columns: np.ndarray,
    supply: np.ndarray,
    capacity: np.ndarray,
) -> CandidatePairs:
    """Returns the pairs that a cheapest assignment needs, see the module."""
    if len(rows) * len(columns) > MAX_DISTANCES:
        raise _too_many()
    together = pa.concat_arrays(
        [released.sequences.take(pa.array(rows)), raw.sequences.take(pa.array(columns))]
    )
    both = VariantHistogram.from_sequences(together, np.ones(len(together), np.int64))
    number = np.asarray(pc.index_in(together, value_set=both.sequences), np.int64)
    distance = LevenshteinDistance(both)
    candidates = number[len(rows) :]
    total = int(supply.sum())
    near_columns: list[np.ndarray] = []
    costs: list[np.ndarray] = []
    n_pairs = 0
    for row in number[: len(rows)].tolist():
        distances = distance.between(row, candidates, None)
        within = np.cumsum(sum_groups(distances, capacity, int(distances.max()) + 1))
        near = np.flatnonzero(distances <= np.searchsorted(within, total))
        n_pairs += len(near)
        if n_pairs > MAX_PAIRS:
            raise _too_many()
        near_columns.append(near.astype(np.int32))
        costs.append(distances[near].astype(np.int32))
    nothing = np.zeros(0, np.int32)
    return CandidatePairs(
        np.repeat(np.arange(len(rows)), [len(near) for near in near_columns]),
        np.concatenate([nothing, *near_columns]).astype(np.int64),
        np.concatenate([nothing, *costs]).astype(np.int64),
    )


def _too_many() -> UsageError:
    return UsageError(
        f"more than {MAX_PAIRS:,} pairs of variants would be compared to match the released "
        "variants with those of the log: raise p_harmful or epsilon, or lower max_prefix_length"
    )


def transport(pairs: CandidatePairs, supply: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Returns int64[n_pairs], what is sent along each pair: all of the supply, at the least cost.

    Args:
        pairs: The pairs that may be used; there must be room for all of the supply along them.
        supply: int64[n_rows], positive.
        capacity: int64[n_columns], positive.
    """
    rows, columns, costs = pairs.rows, pairs.columns, pairs.costs
    sent = np.zeros(len(rows), np.int64)
    if not len(supply):
        return sent
    left, room = supply.copy(), capacity.copy()
    # Rows and columns have prices: the cost of a pair is at least the sum of its two prices, and is
    # that sum where the pair is used.
    of_rows = np.minimum.reduceat(costs, np.searchsorted(rows, np.arange(len(supply))))
    of_columns = np.zeros(len(capacity), np.int64)
    slack = costs - of_rows[rows]
    while True:
        tight = np.flatnonzero(slack == 0)
        change = _largest_flow(rows[tight], columns[tight], sent[tight], left, room)
        sent[tight] += change
        left -= sum_groups(rows[tight], change, len(left))
        room -= sum_groups(columns[tight], change, len(room))
        if not left.any():
            return sent
        row_reached, column_reached = _reached(rows[tight], columns[tight], sent[tight], left, room)
        opens = row_reached[rows] & ~column_reached[columns]
        step = slack[opens].min()
        of_rows[row_reached] += step
        of_columns[column_reached] -= step
        slack = costs - of_rows[rows] - of_columns[columns]


def _largest_flow(
    rows: np.ndarray, columns: np.ndarray, sent: np.ndarray, left: np.ndarray, room: np.ndarray
) -> np.ndarray:
    """Returns int64[n], by how much to change what is sent so that most of what is left goes."""
    n, m = len(left), len(room)
    source, sink = n + m, n + m + 1
    waiting, free, back = np.flatnonzero(left), np.flatnonzero(room), np.flatnonzero(sent)
    tails = [np.full(len(waiting), source), rows, columns[back] + n, free + n]
    heads = [waiting, columns + n, rows[back], np.full(len(free), sink)]
    most = [left[waiting], np.full(len(rows), left.sum()), sent[back], room[free]]
    graph = _graph(tails, heads, most, n + m + 2)
    flow = maximum_flow(graph, source, sink).flow
    return np.asarray(flow[rows, columns + n], np.int64).ravel()


def _reached(
    rows: np.ndarray, columns: np.ndarray, sent: np.ndarray, left: np.ndarray, room: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns (bool[n_rows], bool[n_columns]), what more could be sent to without its being free.

    Rows that have something left, columns along their pairs, the rows that send there, and so on.
    """
    n, m = len(left), len(room)
    waiting, back = np.flatnonzero(left), np.flatnonzero(sent)
    tails = [np.full(len(waiting), n + m), rows, columns[back] + n]
    heads = [waiting, columns + n, rows[back]]
    graph = _graph(tails, heads, [np.ones(len(part)) for part in heads], n + m + 1)
    order = breadth_first_order(graph, n + m, return_predecessors=False)
    is_reached = np.zeros(n + m + 1, bool)
    is_reached[order] = True
    return is_reached[:n], is_reached[n : n + m]


def _graph(
    tails: list[np.ndarray], heads: list[np.ndarray], weights: list[np.ndarray], n_nodes: int
) -> csr_array:
    tail, head = np.concatenate(tails), np.concatenate(heads)
    order = np.lexsort((head, tail))
    offsets = offsets_of(np.bincount(tail, minlength=n_nodes)).astype(np.int32)
    weight = np.concatenate(weights)[order].astype(np.int32)
    return csr_array((weight, head[order].astype(np.int32), offsets), shape=(n_nodes, n_nodes))

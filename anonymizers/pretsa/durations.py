"""The durations that PRETSA releases: drawn anew for every event from what its group had.

PRETSA's authors keep the durations of the cases that were not merged, and give the others draws
from the raw durations of their activity. Here no case keeps its own, and no draw is one of the
values:

* The events of a node of the merged tree take the quantiles of the durations that its cases have
  there, one of each of as many equal slices as there are events, dealt out by the key. So the group
  keeps its distribution, and what a case gets says nothing of what it had.
* A quantile lies between two neighbouring values, or around the smallest or largest one by up to
  half of the distance to its neighbour. It is a value of the group only where several cases share
  it.
* A node where fewer than k cases have a duration of their own takes the quantiles of its activity,
  and where that has fewer than k too, those of all events. If the whole log has fewer than k
  durations, nothing is drawn and all durations are 0.

A duration is the time since the predecessor, or the bin of a declared attribute; then it is drawn
where in its bin the number lies, and an event of an activity without any number has none.

What was drawn is measured as the verifier measures it. A node whose draws are t or more away from
those of its activity is drawn anew from its activity's durations, and where that does not help it
is cut like any other node that violates t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, uniform
from tracecloak.anonymizers.pretsa.tree import ROUNDING, ActivityDurations, MergedTree
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.events.attributes import Attribute
from tracecloak.schemas.statistics.durations import DurationTable


@dataclass(frozen=True, eq=False)
class Pools:
    """Sorted durations of groups.

    Attributes:
        values: int64[n], sorted within each pool.
        running: int64[n], events up to here, over all pools.
        offsets: int64[n_pools+1], CSR offsets of the pools.
    """

    values: np.ndarray
    running: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, pools: np.ndarray, values: np.ndarray, counts: np.ndarray, n_pools: int) -> Pools:
        """Sorts entries of (pool, duration, events)."""
        order = np.lexsort((values, pools))
        offsets = np.searchsorted(pools[order], np.arange(n_pools + 1))
        return cls(values[order], np.cumsum(counts[order]), offsets)

    @property
    def sizes(self) -> np.ndarray:
        """int64[n_pools], events of each pool."""
        return np.diff(np.append(0, self.running)[self.offsets])

    def quantiles(self, pools: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Returns int64[n], smoothed quantiles whose mean over all shares is the pool's mean.

        Args:
            pools: int64[n], none of them empty.
            shares: float64[n] in (0, 1).
        """
        sizes, before = self.sizes[pools], np.append(0, self.running)[self.offsets[pools]]
        rank = shares * sizes - 0.5
        lower = np.clip(np.floor(rank), 0, sizes - 1).astype(np.int64)
        upper = np.minimum(lower + 1, sizes - 1)
        inside = self._ranked(before + lower), self._ranked(before + upper)
        drawn = inside[0] + np.clip(rank - lower, 0, 1) * (inside[1] - inside[0])
        # Ranks reach half a step below the smallest value and half a step above the largest.
        gap = self._ranked(before + np.minimum(1, sizes - 1)) - self._ranked(before)
        gap = np.minimum(gap / 2, self._ranked(before))
        drawn = np.where(rank < 0, self._ranked(before) + (4 * rank + 1) * gap, drawn)
        top = sizes - 1
        gap = (self._ranked(before + top) - self._ranked(before + np.maximum(top - 1, 0))) / 2
        over = rank - top
        drawn = np.where(over > 0, self._ranked(before + top) + (4 * over - 1) * gap, drawn)
        return np.rint(drawn).astype(np.int64)

    def _ranked(self, ranks: np.ndarray) -> np.ndarray:
        return self.values[np.searchsorted(self.running, ranks, side="right")].astype(np.float64)


def draw_durations(
    tree: MergedTree,
    durations: DurationTable,
    k: int,
    t: float | None,
    randomness: Randomness,
    attribute: Attribute | None = None,
) -> np.ndarray:
    """Draws the durations of all released events, and cuts nodes where they cannot be close.

    Args:
        tree: After `merge`; merged further where a node's draws cannot be brought below t.
        durations: Durations of the events by their positions in `tree.variants.codes`.
        k: Fewest durations that are drawn from.
        t: As for the tree.
        randomness: Where the draws come from.
        attribute: Whose bins the durations are; None: they are microseconds.

    Returns:
        The events of the live variants in their order, each variant case by case. Of microseconds
        int64[n_released_events], 0 for the first event of a case; of an attribute float64, its
        numbers, NaN for none.

    Raises:
        GuaranteeError: Nothing would be left of the tree.
    """
    widened = np.zeros(len(tree.trie.parents), bool)
    while True:
        nodes = released_nodes(tree)
        drawn = _draw(tree, durations, nodes, k, widened, randomness, attribute)
        if t is None:
            return drawn
        far = _far_nodes(tree, nodes, drawn, t)
        if not len(far):
            return drawn
        is_drawn = attribute is not None or tree.trie.depths[far] > 1
        helpless = far[widened[far] | ~np.broadcast_to(is_drawn, len(far))]
        if len(helpless) < len(far):
            widened[far] = True
            continue
        for node in helpless.tolist():
            tree.cut(node)
        tree.merge()


def released_nodes(tree: MergedTree) -> np.ndarray:
    """Returns int32[n_released_events], the node of each released event."""
    live = tree.live
    variant = np.repeat(live, tree.n_cases[live])
    begins = tree.variants.offsets[variant]
    return tree.trie.nodes[ranges(begins, tree.variants.offsets[variant + 1] - begins)]


def _draw(
    tree: MergedTree,
    durations: DurationTable,
    nodes: np.ndarray,
    k: int,
    widened: np.ndarray,
    randomness: Randomness,
    attribute: Attribute | None,
) -> np.ndarray:
    shallowest = 1 if attribute else 2  # a first event has no predecessor
    pools, pool_of = _pools(tree, durations, k, widened, shallowest)
    drawn = np.zeros(len(nodes), np.int64) if attribute is None else np.full(len(nodes), np.nan)
    has_one = (tree.trie.depths[nodes] >= shallowest) & (pool_of[nodes] >= 0)
    filled = np.flatnonzero(has_one)
    if not len(filled):
        return drawn
    node = nodes[filled]
    # One share of each of n equal slices for the n events of a node, dealt out by sorted words.
    order = np.argsort(node, kind="stable")
    sizes = np.bincount(node)
    offsets = offsets_of(sizes)
    number = np.empty(len(node), np.int64)
    number[order] = np.arange(len(node)) - offsets[node[order]]
    words = randomness.words("pretsa/duration", cell_numbers(node.astype(np.uint64)), number)
    dealt = np.lexsort((words[:, 0], node))
    piece = np.empty(len(node), np.int64)
    piece[dealt] = np.arange(len(node)) - offsets[node[dealt]]
    # Rounding up to 1 would leave the slice.
    shares = np.minimum((piece + uniform(words[:, 1])) / sizes[node], 1 - 2.0**-53)
    quantiles = pools.quantiles(pool_of[node], shares)
    if attribute is None:
        drawn[filled] = quantiles
        return drawn
    cells = cell_numbers(node.astype(np.uint64))
    inside = uniform(randomness.words("pretsa/within-bin", cells, number)[:, 0])
    numbers = attribute.values_of(np.clip(quantiles, 1, attribute.n_cells - 1), inside)
    drawn[filled] = np.asarray(numbers, np.float64)
    return drawn


def _pools(
    tree: MergedTree, durations: DurationTable, k: int, widened: np.ndarray, shallowest: int
) -> tuple[Pools, np.ndarray]:
    """The durations to draw from, and int64[n_nodes], the pool of each node; -1: it has none.

    The pool of a node has its number; those of activities follow, and the one of all events.
    """
    trie, variants = tree.trie, tree.variants
    n_nodes, n_codes = len(trie.parents), int(variants.codes.max()) + 1
    common = [tree.n_common(v, goal) for v, goal in enumerate(tree.target.tolist())]
    positions = ranges(variants.offsets[:-1], np.array(common, np.int64))
    is_own = np.zeros(len(variants.codes), bool)
    is_own[positions] = True

    rows = np.flatnonzero(trie.depths[trie.nodes[durations.groups]] >= shallowest)
    position = durations.groups[rows]
    on_own_path = is_own[position]
    pools = Pools.of(
        np.concatenate(
            [
                trie.nodes[position[on_own_path]],
                n_nodes + variants.codes[position],
                np.full(len(rows), n_nodes + n_codes),
            ]
        ),
        np.concatenate([durations.values[rows[on_own_path]], *[durations.values[rows]] * 2]),
        np.concatenate([durations.counts[rows[on_own_path]], *[durations.counts[rows]] * 2]),
        n_nodes + n_codes + 1,
    )
    sizes = pools.sizes
    enough = sizes >= max(k, 2)
    activity = np.where(enough[n_nodes:-1], n_nodes + np.arange(n_codes), n_nodes + n_codes)
    activity[(sizes[n_nodes:-1] == 0) | ~enough[-1]] = -1
    pool_of = np.arange(n_nodes)
    wide = widened | ~enough[:n_nodes]
    pool_of[wide] = activity[trie.activities[wide]]
    return pools, pool_of


def _far_nodes(tree: MergedTree, nodes: np.ndarray, drawn: np.ndarray, t: float) -> np.ndarray:
    """int64[n], the nodes whose draws are t or more away from those of their activity."""
    has_one = ~np.isnan(drawn)
    nodes, drawn = nodes[has_one], drawn[has_one]
    once = np.ones(len(nodes), np.int64)
    reference, places = ActivityDurations.of(tree.trie.activities[nodes], drawn, once)
    distances = reference.distances(nodes, places, once, len(tree.trie.parents))
    return np.flatnonzero(distances >= t * (1 - ROUNDING))

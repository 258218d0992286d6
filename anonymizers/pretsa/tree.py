"""The prefix tree of PRETSA and the durations of its nodes."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, uniform
from tracecloak.anonymizers.variants.distance import Targets, VariantDistance
from tracecloak.schemas.arrays.merging import offsets_of, ranges, ranks_within, sum_groups
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.variants import Trie, VariantHistogram

# --- The durations that PRETSA releases: drawn anew for every event from what its group had. ------
# PRETSA's authors keep the durations of the cases that were not merged, and give the others draws
# from the raw durations of their activity. Here no case keeps its own, and no draw is one of the
# values:
#
# * The events of a node of the merged tree take the quantiles of the durations that its cases have
#   there, one of each of as many equal slices as there are events, dealt out by the key. So the
#   group keeps its distribution, and what a case gets says nothing of what it had.
# * A quantile lies between two neighbouring values, or around the smallest or largest one by up to
#   half of the distance to its neighbour. It is a value of the group only where several cases share
#   it.
# * A node where fewer than k cases have a duration of their own takes the quantiles of its
#   activity, and where that has fewer than k too, those of all events. If the whole log has fewer
#   than k durations, nothing is drawn and all durations are 0.
#
# A duration is the time since the predecessor, or the bin of a declared attribute; then it is
# drawn where in its bin the number lies, and an event of an activity without any number has none.
#
# What was drawn is measured as the verifier measures it. A node whose draws are t or more away
# from those of its activity is drawn anew from its activity's durations, and where that does not
# help it is cut like any other node that violates t.


class Pools:
    """Sorted durations of groups.

    Attributes:
        values: int64[n], sorted within each pool.
        running: int64[n], events up to here, over all pools.
        offsets: int64[n_pools+1], CSR offsets of the pools.
    """

    def __init__(
        self, pools: np.ndarray, values: np.ndarray, counts: np.ndarray, n_pools: int
    ) -> None:
        """Sorts entries of (pool, duration, events)."""
        order = np.lexsort((values, pools))
        self.values, self.running = values[order], np.cumsum(counts[order])
        self.offsets = np.searchsorted(pools[order], np.arange(n_pools + 1))

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
    tree: MergedTree, t: float | None, randomness: Randomness, attribute: Attribute | None = None
) -> np.ndarray:
    """Draws the durations of all released events, and cuts nodes where they cannot be close.

    Args:
        tree: After `merge`; merged further where a node's draws cannot be brought below t.
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
        drawn = _draw(tree, nodes, widened, randomness, attribute)
        if t is None:
            return drawn
        has_one = ~np.isnan(drawn)
        once = np.ones(int(has_one.sum()), np.int64)
        activities = tree.trie.activities[nodes[has_one]]
        reference = ActivityDurations(activities, drawn[has_one], once)
        distances = reference.distances(nodes[has_one], reference.places, once, len(widened))
        far = np.flatnonzero(distances >= t * (1 - ROUNDING))
        if not len(far):
            return drawn
        is_first = tree.trie.depths[far] == 1
        helpless = far[widened[far] | (is_first & (attribute is None))]  # their duration is 0
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
    nodes: np.ndarray,
    widened: np.ndarray,
    randomness: Randomness,
    attribute: Attribute | None,
) -> np.ndarray:
    shallowest = 1 if attribute else 2  # a first event has no predecessor
    pools, pool_of = _pools(tree, widened, shallowest)
    drawn = np.zeros(len(nodes), np.int64) if attribute is None else np.full(len(nodes), np.nan)
    has_one = (tree.trie.depths[nodes] >= shallowest) & (pool_of[nodes] >= 0)
    filled = np.flatnonzero(has_one)
    if not len(filled):
        return drawn
    node = nodes[filled]
    # One share of each of n equal slices for the n events of a node, dealt out by sorted words.
    sizes, number = np.bincount(node), ranks_within(node)
    words = randomness.words("pretsa/duration", cell_numbers(node.astype(np.uint64)), number)
    piece = ranks_within(node, np.lexsort((words[:, 0], node)))
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


def _pools(tree: MergedTree, widened: np.ndarray, shallowest: int) -> tuple[Pools, np.ndarray]:
    """The durations to draw from, and int64[n_nodes], the pool of each node; -1: it has none.

    The pool of a node has its number; those of activities follow, and the one of all events.
    """
    trie, variants, durations = tree.trie, tree.variants, tree.durations
    n_nodes, n_codes = len(trie.parents), int(variants.codes.max()) + 1
    is_own = np.zeros(len(variants.codes), bool)
    is_own[ranges(variants.offsets[:-1], np.array(tree.common, np.int64))] = True

    rows = np.flatnonzero(trie.depths[trie.nodes[durations.groups]] >= shallowest)
    position = durations.groups[rows]
    own = is_own[position]
    rows = np.concatenate([rows[own], rows, rows])
    of_all = np.full(len(position), n_nodes + n_codes)
    pools = Pools(
        np.concatenate([trie.nodes[position[own]], n_nodes + variants.codes[position], of_all]),
        durations.values[rows],
        durations.counts[rows],
        n_nodes + n_codes + 1,
    )
    sizes = pools.sizes
    enough = sizes >= max(tree.k, 2)
    activity = np.where(enough[n_nodes:-1], n_nodes + np.arange(n_codes), n_nodes + n_codes)
    activity[(sizes[n_nodes:-1] == 0) | ~enough[-1]] = -1
    pool_of = np.arange(n_nodes)
    wide = widened | ~enough[:n_nodes]
    pool_of[wide] = activity[trie.activities[wide]]
    return pools, pool_of


# ---
# PRETSA's sanitisation of the prefix tree: which variant the cases of each one are merged into.
# Fahrenkrog-Petersen, van der Aa, Weidlich: PRETSA: Event Log Sanitization for Privacy-aware
# Process Discovery (2019), as section 2.2 of Rösel et al. recalls it. Of the tree's nodes in
# preorder, the first that fewer than k cases pass, or whose durations are at least t away from
# those of its activity, is cut off with all that is below it. Each case that loses its place goes
# to the nearest variant that is still in the tree, by the distance from the variant it had in the
# input. This is repeated until no node is left to be cut. Differences from the authors' code, which
# publishes variants that nobody had: a variant goes out of the tree with any of its nodes, so cases
# only ever go where their whole variant is there. And with `protect_ends`, when all nodes are
# right, the variant of the fewest cases is taken out as long as it has fewer than k, so that not
# only the prefixes have k cases, but the variants.
#
# All cases of a variant stay together, so the work is done on variants. A case has its own duration
# at those nodes that its variant in the input and its variant now have in common; only these count
# for the distance of durations.
#
# How far a group's durations are from those of its activity: the 1-Wasserstein distance.
#
# The t-closeness of Li, Li and Venkatasubramanian (2007) as PRETSA uses it (Fahrenkrog-Petersen,
# van der Aa, Weidlich: PRETSA, 2019): the earth mover's distance between the durations at a node of
# the prefix tree and those of all events of the node's activity, divided by the range of the
# latter. So it lies in [0, 1], and is 0 where all durations of the activity are equal.
#
# Both distributions are steps, and the area between a step of the one and the increasing steps of
# the other is a difference of integrals. So a group of m values costs m look-ups in its activity's
# cumulated distribution, however many values the activity has.


class ActivityDurations:
    """The distribution of each activity's durations.

    Attributes:
        activities: int64[n_values], number of the activity of each distinct value, sorted.
        above_least: float64[n_values], the values less their activity's smallest, sorted within it.
        share: float64[n_values], share of the activity's events with at most this value.
        area: float64[n_values], integral of that share from the activity's smallest value to here.
        last: int64[n_values], place of the activity's largest value.
        places: int64[n], the place of each entry's value in them.

    Args:
        activities: int[n], from 0.
        values: int64[n] or float64[n], durations.
        counts: int64[n], events with that duration, positive.
    """

    def __init__(self, activities: np.ndarray, values: np.ndarray, counts: np.ndarray) -> None:
        order = np.lexsort((values, activities))
        activity, value = activities[order].astype(np.int64), values[order]
        head = np.ones(len(order), bool)
        head[1:] = (activity[1:] != activity[:-1]) | (value[1:] != value[:-1])
        place = np.cumsum(head) - 1
        self.places = np.empty(len(order), np.int64)
        self.places[order] = place
        cases = sum_groups(place, counts[order], int(head.sum()))
        self.activities = activity = activity[head]
        value = value[head]

        begins = np.ones(len(activity), bool)
        begins[1:] = activity[1:] != activity[:-1]
        group = np.cumsum(begins) - 1
        first = np.flatnonzero(begins)
        past = np.append(first, len(activity))[1:]
        self.last = past[group] - 1
        running = np.cumsum(cases)
        share = running - (running - cases)[first][group]
        self.share = share / share[self.last]
        # A pair of values may be further apart than int64 holds, but not than float64 does.
        self.above_least = above = value.astype(np.float64) - value[first][group].astype(np.float64)
        steps = np.zeros(len(above))
        steps[1:] = np.where(begins[1:], 0.0, np.diff(above) * self.share[:-1])
        self.area = np.empty(len(above))
        for start, end in zip(first, past, strict=True):
            self.area[start:end] = np.cumsum(steps[start:end])
        # Increasing over all activities: a share is at most 1.
        self._keys = self.activities * 2 + self.share

    def distances(
        self, groups: np.ndarray, places: np.ndarray, counts: np.ndarray, n_groups: int
    ) -> np.ndarray:
        """Returns float64[n_groups], the distance of each group from its activity, from 0 to 1.

        Args:
            groups: int[n], the group of each entry; all entries of a group are of one activity.
            places: int64[n], the entries' values, as places in these distributions.
            counts: int64[n], positive.
            n_groups: Their number; one without entries has distance 0.
        """
        if not len(groups):
            return np.zeros(n_groups)
        order = np.lexsort((places, groups))
        group, place, count = groups[order], places[order], counts[order]
        sizes = np.bincount(group, minlength=n_groups)
        offsets = offsets_of(sizes)
        filled = np.flatnonzero(sizes)
        running = np.cumsum(count)
        before = np.zeros(n_groups, np.int64)
        before[filled] = (running - count)[offsets[filled]]
        total = np.ones(n_groups, np.int64)
        total[filled] = running[offsets[filled + 1] - 1] - before[filled]
        share = (running - before[group]) / total[group]

        # From each value of the group to its next, or to the activity's largest, the group's share
        # is constant. The activity's is below it up to one place and not below it from there on.
        following = np.append(place[1:], 0)
        ends = offsets[filled + 1] - 1
        following[ends] = self.last[place[ends]]
        cross = np.searchsorted(self._keys, self.activities[place] * 2 + share)
        cross = np.clip(cross, place, following)
        above, area = self.above_least, self.area
        apart = share * (2 * above[cross] - above[place] - above[following])
        apart += area[place] + area[following] - 2 * area[cross]
        apart[offsets[filled]] += area[place[offsets[filled]]]

        distances = np.zeros(n_groups)
        distances[filled] = np.add.reduceat(apart, offsets[filled])
        ranges = np.zeros(n_groups)
        ranges[filled] = above[self.last[place[offsets[filled]]]]
        return np.divide(distances, ranges, out=np.zeros(n_groups), where=ranges > 0)


# A distance this little below t is taken for t: a verifier adds floats in another order.
ROUNDING = 1e-9


class MergedTree:
    """The prefix tree of a log while its variants are merged.

    Attributes:
        variants: The variants of the input.
        trie: Their prefix tree.
        target: int64[n_variants], the variant that the cases of each variant have now.
        n_cases: int64[n_variants], the cases that have each variant now.
        common: For each variant, how many of its events are its target's too.
        durations: As given.
        k: As given.

    Args:
        variants: At least one.
        durations: Durations of the events by their positions in `variants.codes`.
        distance: To the variants that cases can be merged into.
        k: Fewest cases of a node.
        t: Every node's distance from its activity is below it; None: durations do not matter.
        protect_ends: Whether each variant has at least k cases too, not just each prefix.
    """

    def __init__(
        self,
        variants: VariantHistogram,
        durations: DurationTable,
        distance: VariantDistance,
        k: int,
        t: float | None,
        protect_ends: bool,
    ) -> None:
        self.variants = variants
        self.trie = Trie.from_variants(variants)
        self.target = np.arange(variants.n_variants)
        self.n_cases = variants.counts.copy()
        self._targets, self.k = Targets(distance, variants.n_variants), k
        self._t = None if t is None else t * (1 - ROUNDING)
        self._is_live = np.ones(variants.n_variants, bool)
        self._n_live = variants.n_variants
        self._members = [[variant] for variant in range(variants.n_variants)]
        self._begins = variants.offsets.tolist()
        self.common = np.diff(variants.offsets).tolist()
        # The variants below a node are neighbours in the order of the histogram.
        row = np.repeat(np.arange(variants.n_variants), np.diff(variants.offsets))
        n_nodes = len(self.trie.parents)
        self._first = np.zeros(n_nodes, np.int64)
        self._past = np.full(n_nodes, variants.n_variants)
        self._first[self.trie.nodes[::-1]] = row[::-1]
        self._past[self.trie.nodes] = row + 1

        self._passing = self.trie.counts.copy()  # cases by node
        self._staying = self.trie.counts.copy()  # of these, those with their own duration there
        self.durations = durations
        self._rows = durations.offsets(len(variants.codes))
        activities = variants.codes[durations.groups]
        self._reference = ActivityDurations(activities, durations.values, durations.counts)
        # An upper bound of the distance of each node, which is computed again only when it could
        # matter.
        nodes = self.trie.nodes[durations.groups]
        places = self._reference.places
        self._at_most = self._reference.distances(nodes, places, durations.counts, n_nodes)
        self._protect_ends = protect_ends
        self._pending = list(range(1, n_nodes))  # nodes that may violate k or t, a heap
        # A heap of all live variants by their cases, and of numbers that are theirs no more.
        self._by_cases = list(zip(self.n_cases.tolist(), range(variants.n_variants), strict=True))
        heapify(self._by_cases)

    @property
    def live(self) -> np.ndarray:
        """int64[n], the variants that are still in the tree, in increasing order."""
        return np.flatnonzero(self._is_live)

    def path(self, variant: int) -> np.ndarray:
        """Returns int32[length], the nodes of a variant."""
        return self.trie.nodes[self._begins[variant] : self._begins[variant + 1]]

    def merge(self) -> None:
        """Cuts the first node in preorder that violates k or t, until there is none; then ends.

        Raises:
            GuaranteeError: Nothing would be left of the tree.
        """
        while True:
            while self._pending:
                node = heappop(self._pending)
                if self._violates(node):
                    self.cut(node)
            if not self._protect_ends:
                return
            n_cases, smallest = self._by_cases[0]
            if not self._is_live[smallest] or self.n_cases[smallest] != n_cases:
                heappop(self._by_cases)
            elif n_cases >= self.k:
                return
            else:
                self._merge_away(np.array([smallest]))

    def cut(self, node: int) -> None:
        """Cuts a node with all that is below it, and moves its cases to the nearest variants.

        A node that is no longer in the tree changes nothing. Does not look for violations that
        come of it; `merge` does.

        Raises:
            GuaranteeError: No variant is left to move them to.
        """
        first, past = int(self._first[node]), int(self._past[node])
        gone = first + np.flatnonzero(self._is_live[first:past])
        if len(gone):
            self._merge_away(gone)

    def _merge_away(self, gone: np.ndarray) -> None:
        self._is_live[gone] = False
        self._n_live -= len(gone)
        self._targets.remove(gone)
        if not self._n_live:
            raise GuaranteeError(
                "merging variants left none: the log has fewer than k cases, or durations that are "
                "at least t away from those of their activity wherever they occur; lower k or "
                "raise t"
            )
        changed = [self.path(variant) for variant in gone.tolist()]
        for variant, path in zip(gone.tolist(), changed, strict=True):
            self._passing[path] -= self.n_cases[variant]
            self.n_cases[variant] = 0
        moved = [variant for other in gone.tolist() for variant in self._members[other]]
        for variant in moved:
            changed.append(self._move(variant, self._targets.nearest(variant)))
        for variant in gone.tolist():
            self._members[variant] = []
        self._look_again(np.unique(np.concatenate(changed)))

    def _move(self, variant: int, goal: int) -> np.ndarray:
        """Puts the cases of an input's variant on another path; returns the nodes that matter."""
        count = self.variants.counts[variant]
        before, after = self.common[variant], self._n_common(variant, goal)
        nodes = self.path(variant)[min(before, after) : max(before, after)]
        # Taking r of m values away, or putting r of m values in, moves a distribution by at most
        # r / m of its range.
        is_lost = after < before
        with_these = self._staying[nodes] + (0 if is_lost else count)
        self._staying[nodes] = with_these - (count if is_lost else 0)
        self._at_most[nodes] += count / with_these
        self.target[variant], self.common[variant] = goal, after
        self._members[goal].append(variant)
        self._passing[self.path(goal)] += count
        self.n_cases[goal] += count
        heappush(self._by_cases, (int(self.n_cases[goal]), goal))
        return nodes

    def _n_common(self, variant: int, other: int) -> int:
        """Returns the length of the longest common prefix of two variants."""
        a, b = self.path(variant), self.path(other)
        n = min(len(a), len(b))
        differs = a[:n] != b[:n]
        first = int(differs.argmax())
        return first if differs[first] else n

    def _look_again(self, nodes: np.ndarray) -> None:
        """Notes the nodes in the tree that may violate k or t since they changed."""
        nodes = nodes[self._passing[nodes] > 0]
        suspect = self._passing[nodes] < self.k
        if self._t is not None:
            suspect |= self._at_most[nodes] >= self._t
        for node in nodes[suspect].tolist():
            heappush(self._pending, node)

    def _violates(self, node: int) -> bool:
        """Whether a node has too few cases, but some, or durations too far from its activity's."""
        if self._passing[node] < self.k:
            return bool(self._passing[node])
        if self._t is None or self._at_most[node] < self._t:
            return False
        rows = self.own_durations(node)
        node_of_row = np.zeros(len(rows), np.int64)
        counts = self.durations.counts[rows]
        distances = self._reference.distances(node_of_row, self._reference.places[rows], counts, 1)
        self._at_most[node] = distances[0]
        return bool(distances[0] >= self._t)

    def own_durations(self, node: int) -> np.ndarray:
        """Returns int64[n], the rows of `durations` that cases still have at a node."""
        first, past = self._first[node], self._past[node]
        goals = self.target[first:past]
        staying = first + np.flatnonzero((goals >= first) & (goals < past))
        position = self.variants.offsets[staying] + self.trie.depths[node] - 1
        begins = self._rows[position]
        return ranges(begins, self._rows[position + 1] - begins)

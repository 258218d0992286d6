"""A private tree of prefixes: which prefixes are split, and noisy counts of the leaves.

Zhang, Xiao and Xie, "PrivTree: A Differentially Private Algorithm for Hierarchical Decompositions"
(SIGMOD 2016), with whole numbers throughout. Only what is here sees exact counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_interval, laplace_scale
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.randomness import Randomness, below, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream, draw_laplace
from tracecloak.anonymizers.rigorous.budget import Allowances, Need, Pure
from tracecloak.anonymizers.rigorous.params import drawable
from tracecloak.anonymizers.variants.generator import Domain, VariantGenerator, released
from tracecloak.schemas.arrays.hashing import mix
from tracecloak.schemas.arrays.merging import offsets_of, ranges, sum_groups
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import Trie, VariantHistogram

# Children of all splits together. They bound the memory at a few hundred megabytes and the time at
# seconds.
MAX_NODES = 1 << 21


class SplitRule:
    """When a prefix is split; public.

    A prefix v of c(v) cases at depth k (the empty prefix has depth 0) is split iff
    max(c(v) - k decay, -decay) + X > 0, with X discrete Laplace noise of `scale`. This is the rule
    of the paper, b(v) + X > theta with b(v) = max(c(v) - k decay, theta - decay), at theta = 0.

    **The tree is epsilon-DP** for one case more or less, if scale >= (2 beta - 1) / ((beta - 1)
    epsilon) and decay >= scale ln(beta), for any beta > 1 and any depth. Write a = e^(-1/scale),
    and s(g) = P(g + X > 0) for a whole number g. With P(X >= t) = a^t / (1 + a) for t >= 0 and the
    symmetry of X,

        s(g) = a^(1-g) / (1 + a) for g <= 1,    s(g) = 1 - a^g / (1 + a) for g >= 0.

    Let a case be added. The counts of the prefixes of its variant rise by 1 and no others change;
    the decisions are independent, so only those on one path of the tree matter: all of its nodes
    are split but perhaps the last. The chance 1 - s(g) = s(1 - g) of an unsplit node falls, by a
    factor of at least a, as s(g) / s(g - 1) <= 1/a for every g. So the tree's chance falls by no
    more than e^(1/scale) < e^epsilon. It rises by no more than the product of s(g) / s(g - 1) over
    the split nodes whose g, with the case, is above -decay; the g of the others is -decay before
    and after. The logarithm r(g) of such a factor is 1/scale for g <= 1. For g >= 2,

        r(g) = ln(1 + a^(g-1) (1 - a) / (1 + a - a^(g-1))) <= a^(g-1) (1 - a) <= a^(g-1) / scale,

    since a^(g-1) <= a and 1 - a <= -ln a = 1/scale. Going up the path from the deepest node with
    g >= 1 - decay, the count does not fall and the depth does, so g rises by decay or more at each
    step: the i-th ancestor has g >= 1 + (i - 1) decay. All together the loss is at most

        (1 + 1 + a^decay + a^(2 decay) + ...) / scale = (1 + 1 / (1 - a^decay)) / scale,

    and a^decay <= 1/beta makes this at most (2 beta - 1) / ((beta - 1) scale) <= epsilon. This is
    the bound of the paper, with noise on integers and a bar on integers. Without the lower bound on
    g every node of a path of few cases costs 1/scale, so that a path of 100 nodes costs 100 times
    that.

    For a unit of m cases, add them one after the other, at epsilon / m each.

    Attributes:
        scale: (numerator, denominator) of the noise, in cases.
        decay: By how much the bar rises with every level, in cases.
    """

    def __init__(self, epsilon: Fraction, n_children: int, max_units: int) -> None:
        """Takes the numbers of the paper for a tree with so many children a split.

        Below the root an empty node is then split with probability less than 1 / (2 n_children), so
        the tree ends by itself: a split empty node has less than one split descendant on average.

        Raises:
            UsageError: The noise would be too wide to draw.
        """
        # (2 beta - 1) / (beta - 1) for each of the cases of a unit.
        per_case = epsilon * (n_children - 1) / (2 * n_children - 1)
        self.scale = drawable(laplace_scale(per_case, of_one_cell(max_units)))
        # The upper end of the logarithm is used, since the decay may be too large and never too
        # small.
        log = Interval.of(n_children).log().high
        self.decay = max(1, math.ceil(Fraction(log) * Fraction(*self.scale)))

    def biased(self, counts: np.ndarray, depth: int) -> np.ndarray:
        """Returns int64[n], the counts that are compared with noise: never below -decay."""
        return np.maximum(counts - depth * self.decay, -self.decay)


@dataclass(frozen=True, eq=False)
class SplitTree:
    """The split prefixes in the order of their lengths; number 0 is the empty one.

    Attributes:
        scale: (numerator, denominator) of the noise of a leaf, in cases.
        parents: int64[n_split], the prefix without its last activity; -1 for the empty one.
        activities: int64[n_split], the last activity; -1 for the empty one.
        depths: int64[n_split], number of activities.
        is_leaf: bool[n_split, n_activities+1], which children are leaves; the last column is the
            end of the case. False for split children, and for the end of the empty prefix, which no
            case has.
        counts: int64[n_split, n_activities+1], noisy cases of these leaves, else 0.
    """

    scale: tuple[int, int]
    parents: np.ndarray
    activities: np.ndarray
    depths: np.ndarray
    is_leaf: np.ndarray
    counts: np.ndarray


def grow(
    counted: VariantHistogram,
    domain: Domain,
    rule: SplitRule,
    scale: tuple[int, int],
    randomness: Randomness,
    max_nodes: int = MAX_NODES,
) -> SplitTree:
    """Returns the tree of a histogram with its noisy leaves.

    The noise of a prefix is keyed by its activities: its cell is a keyed function of the cell of
    the prefix without the last one and of this activity, so that long prefixes cost no more.

    Args:
        counted: Over the codes of the domain.
        domain: What is public.
        rule: When to split.
        scale: Of the noise of the leaves.
        randomness: The release's.
        max_nodes: Children of all splits; the root may be split in any case.
    """
    n_activities = len(domain.vocabulary)
    n_columns = n_activities + 1
    most = max(1, max_nodes // n_columns)
    trie = _Counted(counted)
    root = cell_numbers(np.zeros(1, np.int64))
    levels = [_no_level(n_columns)]
    nodes = np.zeros(int(_passes(trie.counts[:1], 0, rule, root, randomness)[0]), np.int64)
    cells, parents, activities = root[nodes], np.full(len(nodes), -1), np.full(len(nodes), -1)
    depth, n_split = 0, 0
    while len(nodes):
        first, n_split = n_split, n_split + len(nodes)
        counts, children = trie.children(nodes, n_columns)
        # A CBC-MAC of the activities: that two prefixes share a cell has chance 2^-80 at most.
        below_them = randomness.words(
            "privtree prefix",
            np.repeat(cells, n_columns, axis=0),
            np.tile(np.arange(n_columns), len(nodes)) + 1,
        )
        is_leaf = np.ones(counts.shape, bool)
        is_leaf[:, -1] = depth > 0
        inner = np.flatnonzero(np.arange(counts.size) % n_columns < n_activities)
        if depth + 1 == domain.max_length:
            inner = inner[:0]
        passed = _passes(counts.ravel()[inner], depth + 1, rule, below_them[inner], randomness)
        chosen = inner[passed]
        if len(chosen) > most - n_split:
            # Cells are random, and whatever the counts they are the same.
            order = np.argsort(below_them[chosen, 0], kind="stable")
            chosen = np.sort(chosen[order[: most - n_split]])
        is_leaf.ravel()[chosen] = False
        leaves = np.flatnonzero(is_leaf)
        noisy = np.zeros(counts.size, np.int64)
        noise = CellStream(randomness, "privtree leaf", below_them[leaves])
        noisy[leaves] = counts.ravel()[leaves] + draw_laplace(noise, *scale)
        depths = np.full(len(nodes), depth)
        levels.append((parents, activities, depths, is_leaf, noisy.reshape(counts.shape)))
        nodes, cells = children.ravel()[chosen], below_them[chosen]
        parents, activities = first + chosen // n_columns, chosen % n_columns
        depth += 1
    columns = (np.concatenate(column) for column in zip(*levels, strict=True))
    return SplitTree(scale, *columns)


def _no_level(n_columns: int) -> tuple[np.ndarray, ...]:
    none = np.zeros(0, np.int64)
    return none, none, none, np.zeros((0, n_columns), bool), np.zeros((0, n_columns), np.int64)


def _passes(
    counts: np.ndarray, depth: int, rule: SplitRule, cells: np.ndarray, randomness: Randomness
) -> np.ndarray:
    """bool[n], the decisions on prefixes of one length."""
    noise = draw_laplace(CellStream(randomness, "privtree split", cells), *rule.scale)
    return rule.biased(counts, depth) + noise > 0


class _Counted:
    """Exact counts of the prefixes that occur, and of the cases that end there."""

    def __init__(self, counted: VariantHistogram) -> None:
        self._trie = trie = Trie.from_variants(counted)
        n_nodes = len(trie.parents)
        self.counts = trie.counts
        self._ends = sum_groups(trie.nodes[counted.offsets[1:] - 1], counted.counts, n_nodes)
        self._by_parent = np.argsort(trie.parents, kind="stable")[1:]
        self._first = offsets_of(np.bincount(trie.parents[1:], minlength=n_nodes))

    def children(self, nodes: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns int64[n, n_columns] twice: cases of each child, and its number or -1.

        The last column is the end. The number -1 stands for any prefix that does not occur.
        """
        counts = np.zeros((len(nodes), n_columns), np.int64)
        numbers = np.full((len(nodes), n_columns), -1)
        rows = np.flatnonzero(nodes >= 0)
        known = nodes[rows]
        degrees = self._first[known + 1] - self._first[known]
        edges = self._by_parent[ranges(self._first[known], degrees)]
        at = np.repeat(rows, degrees), self._trie.activities[edges]
        counts[at], numbers[at] = self.counts[edges], edges
        counts[rows, -1] = self._ends[known]
        return counts, numbers


# --- `privtree`: variants from a private tree of prefixes, without any delta. ---------------------
# Zhang, Xiao and Xie, "PrivTree: A Differentially Private Algorithm for Hierarchical
# Decompositions" (SIGMOD 2016), on the prefixes of variants: a prefix that enough cases begin
# with is split into its continuations, one for each activity and one for the end of the case.
# What is not split any further gets a noisy number of cases. The noise of a decision does not
# grow with the depth of the tree, because the bar rises with every level and the count is never
# taken for less than a bound.


# The share of epsilon that the decisions to split spend; the numbers of cases get the rest. Of all
# tenths this one has the least error on synthetic logs of 1,000 to 1,500 cases at epsilon 1. At
# epsilon 4 a half has less, by a twentieth.
STRUCTURE_SHARE = Fraction(3, 5)

# A leaf is kept if its count is at least so many scales times ln(number of leaves). Of 1,000 empty
# leaves about five reach that.
_NOISE_SHARE = 0.7

# The most activities of all walks together, and of one walk.
_MAX_WALKED = 1 << 22
_LONGEST_WALK = 1 << 14

_CODES = np.uint64(0x9E3779B97F4A7C15)


class PrivTree(VariantGenerator, name="privtree"):
    """The generator; see the module and `SplitRule`.

    A prefix of `max_length` activities is a whole case, so it is not split, and neither is the end
    of a case. The leaves of the tree partition the cases that are possible: a unit of m cases
    changes their counts by at most m in total, whatever the tree. So discrete Laplace noise of
    scale m / epsilon_2 on all leaves, those that no case has included, is epsilon_2-DP given the
    tree, and both parts together are epsilon-DP. What follows sees the noisy tree alone:

    1. A leaf below 0.7 scales times ln(number of leaves) counts as empty. All others keep their
       noisy counts, so the counts of prefixes, sums of leaves, are consistent.
    2. An end of a case, or a prefix of full length, is a variant with its count.
    3. Of the cases of an unsplit prefix no more is known. Each walks on at random until it ends, by
       the tree's own numbers of what follows a prefix. From all split prefixes that are like the
       one walked so far they are added up, where like means, in this order as far as there are
       any: the same activities equally often and the same last one; the same activities equally
       often; the same last three; the same last two; the same last one; any prefix. The first two
       tell what is still to do where activities come in any order, the others what loops.
    4. A walk that does not end within `max_length` activities has found no end, as where the tree
       is too shallow to have one; its case is the unsplit prefix itself.

    Nothing is released of an unsplit root. Time and memory are linear in the events of the
    histogram, plus at most `MAX_NODES` = 2^21 children of splits, |A| + 1 each, and 2^22 walked
    activities. If a level would have more children than are left, the prefixes that may still be
    split are a random choice, which does not look at counts: whether the others passed is not
    used, so this is a function of the tree without a bound, which is private. If the cases would
    walk further, each walk stands for several cases.
    """

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what the decisions and the leaves need.

        Raises:
            UsageError: The noise would be too wide to draw.
        """
        one = of_one_cell(max_units)
        # The noise of the decisions is widest with two children, where it covers 3 cases a unit;
        # with more children it covers fewer.
        return (
            Pure("prefixes", STRUCTURE_SHARE, largest=one.times(3)),
            Pure("leaves", 1 - STRUCTURE_SHARE, one),
        )

    def explain(self, means: Allowances, max_units: int) -> str:
        """Returns what is done and the error to expect."""
        rule = SplitRule(means["prefixes"].epsilon, 21, max_units)
        scale = Fraction(*means["leaves"].noise(of_one_cell(max_units)).scale)
        half = laplace_interval(scale)
        return sentence("generators", "tree", None, decay=rule.decay, half=half)

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns the variants of the tree; their counts have no intervals, as walks were drawn."""
        n_children = len(domain.vocabulary) + 1
        rule = SplitRule(means["prefixes"].epsilon, n_children, domain.max_units)
        scale = means["leaves"].noise(of_one_cell(domain.max_units)).scale
        tree = grow(counted, domain, rule, scale, randomness)
        pieces = list(complete(tree, domain, randomness))
        log = VariantHistogram.merge(
            [VariantHistogram.of(encode_sequences(o, c), n) for o, c, n in pieces]
        )
        return released(log, domain.vocabulary)


# --- from the tree to variants: nothing below sees the log ---------------------------------------

_Piece = tuple[np.ndarray, np.ndarray, np.ndarray]  # offsets, codes, counts


def complete(tree: SplitTree, domain: Domain, randomness: Randomness) -> Iterator[_Piece]:
    """Yields variants with their counts; the same variant may come again."""
    counts = clear_noise(tree)
    end = counts.shape[1] - 1
    rows, columns = np.nonzero(counts)
    known = counts[rows, columns]
    is_whole = (columns == end) | (tree.depths[rows] + 1 == domain.max_length)
    last = np.where(columns == end, -1, columns)
    yield *_paths(tree, rows[is_whole], last[is_whole]), known[is_whole]
    is_open = ~is_whole
    if is_open.any():
        yield _walk(tree, counts, rows[is_open], last[is_open], known[is_open], domain, randomness)


def clear_noise(tree: SplitTree) -> np.ndarray:
    """Returns int64[n_split, n_activities+1], the leaves' counts, 0 where noise alone may do it."""
    n_leaves = max(2, int(tree.is_leaf.sum()))
    scale = tree.scale[0] / tree.scale[1]
    least = max(1, math.ceil(_NOISE_SHARE * scale * math.log(n_leaves)))
    return np.where(tree.counts >= least, tree.counts, 0)


def _paths(tree: SplitTree, rows: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns CSR offsets and codes: split prefixes, each with an activity more if that is >= 0."""
    has_last = last >= 0
    offsets = offsets_of(tree.depths[rows] + has_last)
    codes = np.empty(int(offsets[-1]), np.int32)
    at = offsets[1:] - has_last
    codes[at[has_last]] = last[has_last]
    node, active = rows.copy(), np.flatnonzero(tree.depths[rows] > 0)
    while len(active):
        at[active] -= 1
        codes[at[active]] = tree.activities[node[active]]
        node[active] = tree.parents[node[active]]
        active = active[tree.depths[node[active]] > 0]
    return offsets, codes


@dataclass(frozen=True, eq=False)
class _Likeness:
    """What prefixes are compared by.

    Attributes:
        bags: uint64[n], a hash of how often each activity occurs.
        recent: int64[n, 3], the last three activities; -1 before the first.
    """

    bags: np.ndarray
    recent: np.ndarray

    @classmethod
    def empty(cls, n: int) -> _Likeness:
        return cls(np.zeros(n, np.uint64), np.full((n, _RECENT), -1))

    def after(self, activities: np.ndarray) -> _Likeness:
        """Returns that of the prefixes with one activity more."""
        bags = self.bags + _mix(activities.astype(np.uint64) + np.uint64(1))
        return _Likeness(bags, np.column_stack([self.recent[:, 1:], activities]))

    def take(self, rows: np.ndarray) -> _Likeness:
        return _Likeness(self.bags[rows], self.recent[rows])

    def keys(self) -> list[np.ndarray]:
        """Returns uint64[n] for each way to be alike, the closest first."""
        recent = (self.recent + 2).astype(np.uint64)
        last = [_mix(recent[:, -1])]
        for i in range(2, _RECENT + 1):
            last.append(_mix(last[-1] + recent[:, -i]))
        return [_mix(self.bags + last[0]), self.bags, *reversed(last), np.zeros_like(self.bags)]


_RECENT = 3


def _mix(values: np.ndarray) -> np.ndarray:
    """A public bijection of 64 bits whose values look random (splitmix64); it protects nothing."""
    return mix(values * _CODES)


class _Continuations:
    """How many cases go on how after split prefixes that are alike in one way.

    Args:
        keys: uint64[n], equal for prefixes that are alike.
        counts: int64[n, n_columns], cases of each child, in every row some.
    """

    def __init__(self, keys: np.ndarray, counts: np.ndarray) -> None:
        order = np.argsort(keys, kind="stable")
        self._keys, first = np.unique(keys[order], return_index=True)
        summed = np.add.reduceat(counts[order], first, axis=0)
        self._width = summed.shape[1]
        self._ends = offsets_of(summed.sum(axis=1))
        self._cumulated = np.cumsum(summed.ravel())

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Returns int64[m], the number of each key, or -1."""
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, at, -1)

    def draw(self, numbers: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Returns int64[m], a child for each number, in proportion to the cases."""
        first = self._ends[numbers]
        place = first + below(words, self._ends[numbers + 1] - first)
        return np.searchsorted(self._cumulated, place, side="right") - numbers * self._width


def _continuations(tree: SplitTree, counts: np.ndarray) -> tuple[_Likeness, list[_Continuations]]:
    """The likeness of split prefixes, and a table for each way to be alike, the closest first."""
    sums = counts.copy()
    likeness = _Likeness.empty(len(sums))
    # Levels lie one after the other, from the root on.
    borders = np.searchsorted(tree.depths, np.arange(int(tree.depths[-1]) + 2))
    for first, last in pairwise(borders[1:].tolist()):
        level, parents = slice(first, last), tree.parents[first:last]
        longer = likeness.take(parents).after(tree.activities[level])
        likeness.bags[level], likeness.recent[level] = longer.bags, longer.recent
    for last, first in pairwise(borders[:0:-1].tolist()):
        level = slice(first, last)
        sums[tree.parents[level], tree.activities[level]] = sums[level].sum(axis=1)
    used = np.flatnonzero(sums.any(axis=1))
    return likeness, [_Continuations(keys, sums[used]) for keys in likeness.take(used).keys()]


def _walk(
    tree: SplitTree,
    counts: np.ndarray,
    rows: np.ndarray,
    last: np.ndarray,
    n_cases: np.ndarray,
    domain: Domain,
    randomness: Randomness,
) -> _Piece:
    """Returns whole variants for the cases of unsplit prefixes; see `PrivTree`.

    Args:
        tree: The tree.
        counts: Of its leaves, without noise's own.
        rows: int64[n], the split prefixes that the unsplit ones continue.
        last: int64[n], by which activity.
        n_cases: int64[n], cases of each.
        domain: What is public.
        randomness: The release's.
    """
    likeness, tables = _continuations(tree, counts)
    offsets, codes = _paths(tree, rows, last)
    end = counts.shape[1] - 1
    limit = min(domain.max_length, _LONGEST_WALK)
    together = -(-int(n_cases.sum()) * limit // _MAX_WALKED)  # cases a walk
    n_walks = -(-n_cases // together)
    leaf = np.repeat(np.arange(len(rows)), n_walks)
    rank = ranges(np.zeros(len(rows), np.int64), n_walks)
    walked = n_cases[leaf] // n_walks[leaf] + (rank < n_cases[leaf] % n_walks[leaf])

    likeness = likeness.take(rows).after(last).take(leaf)
    lengths = np.diff(offsets)[leaf]
    cells, active = cell_numbers(np.arange(len(leaf))), np.arange(len(leaf))
    has_ended = np.zeros(len(leaf), bool)
    steps: list[tuple[np.ndarray, np.ndarray]] = []
    while True:
        active = active[lengths[active] + len(steps) <= limit]
        if not len(active):
            break
        words = randomness.words("privtree walk", cells[active], len(steps))[:, 0]
        following = _follow(tables, likeness.take(active), words)
        goes_on = following != end
        has_ended[active[~goes_on]] = True
        active, following = active[goes_on], following[goes_on]
        steps.append((active, following))
        longer = likeness.take(active).after(following)
        likeness.bags[active], likeness.recent[active] = longer.bags, longer.recent
    n_steps = np.zeros(len(leaf), np.int64)
    for ids, _ in steps:
        n_steps[ids] += 1
    n_steps[~has_ended] = 0
    begins = offsets_of(lengths + n_steps)
    out = np.empty(int(begins[-1]), np.int32)
    out[ranges(begins[:-1], lengths)] = codes[ranges(offsets[leaf], lengths)]
    for i, (ids, following) in enumerate(steps):
        ends = has_ended[ids]
        out[begins[ids[ends]] + lengths[ids[ends]] + i] = following[ends]
    return begins, out, walked


def _follow(tables: list[_Continuations], likeness: _Likeness, words: np.ndarray) -> np.ndarray:
    """int64[m]: a column for each walk, from the closest table that knows its like."""
    following = np.full(len(words), -1)
    for table, keys in zip(tables, likeness.keys(), strict=True):
        rest = np.flatnonzero(following < 0)
        numbers = table.find(keys[rest])
        rest, numbers = rest[numbers >= 0], numbers[numbers >= 0]
        following[rest] = table.draw(numbers, words[rest])
    return following

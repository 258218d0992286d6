"""A private tree of prefixes: which prefixes of variants are split, and noisy counts of the leaves.

Zhang, Xiao and Xie, "PrivTree: A Differentially Private Algorithm for Hierarchical Decompositions"
(SIGMOD 2016), with whole numbers throughout. Only what is here sees exact counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.params import drawable
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.schemas.arrays.merging import offsets_of, ranges, sum_groups
from tracecloak.schemas.statistics.dafsa import Trie
from tracecloak.schemas.statistics.variants import VariantHistogram

# Children of all splits together. They bound the memory at a few hundred megabytes and the time at
# seconds.
MAX_NODES = 1 << 21


@dataclass(frozen=True)
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

    scale: tuple[int, int]
    decay: int

    @classmethod
    def of(cls, epsilon: Fraction, n_children: int, max_units: int) -> SplitRule:
        """Returns the rule of the paper for a tree with so many children a split.

        Below the root an empty node is then split with probability less than 1 / (2 n_children), so
        the tree ends by itself: a split empty node has less than one split descendant on average.

        Raises:
            UsageError: The noise would be too wide to draw.
        """
        # (2 beta - 1) / (beta - 1) for each of the cases of a unit.
        per_case = epsilon * (n_children - 1) / (2 * n_children - 1)
        scale = drawable(laplace_scale(per_case, of_one_cell(max_units)))
        # The upper end of the logarithm is used, since the decay may be too large and never too
        # small.
        log = Interval.of(n_children).log().high
        return cls(scale, max(1, math.ceil(Fraction(log) * Fraction(*scale))))

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
    trie = _Counted.of(counted)
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


@dataclass(frozen=True, eq=False)
class _Counted:
    """Exact counts of the prefixes that occur, and of the cases that end there."""

    counts: np.ndarray
    ends: np.ndarray
    activities: np.ndarray
    by_parent: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, counted: VariantHistogram) -> _Counted:
        trie = Trie.from_variants(counted)
        n_nodes = len(trie.parents)
        ends = sum_groups(trie.nodes[counted.offsets[1:] - 1], counted.counts, n_nodes)
        by_parent = np.argsort(trie.parents, kind="stable")[1:]
        first = offsets_of(np.bincount(trie.parents[1:], minlength=n_nodes))
        return cls(trie.counts, ends, trie.activities, by_parent, first)

    def children(self, nodes: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns int64[n, n_columns] twice: cases of each child, and its number or -1.

        The last column is the end. The number -1 stands for any prefix that does not occur.
        """
        counts = np.zeros((len(nodes), n_columns), np.int64)
        numbers = np.full((len(nodes), n_columns), -1)
        rows = np.flatnonzero(nodes >= 0)
        known = nodes[rows]
        degrees = self.first[known + 1] - self.first[known]
        edges = self.by_parent[ranges(self.first[known], degrees)]
        at = np.repeat(rows, degrees), self.activities[edges]
        counts[at], numbers[at] = self.counts[edges], edges
        counts[rows, -1] = self.ends[known]
        return counts, numbers

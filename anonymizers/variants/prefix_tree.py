"""`prefix-tree`: noisy counts of prefixes, level by level, with the epsilon of all levels together.

The trace-variant query of Mannhardt, Koschmider, Baracaldo, Weidlich and Michael
("Privacy-Preserving Process Mining", 2019) grows a tree of prefixes and adds noise to the number of
cases of each. One case is in a node of every level, so the levels share the budget. Here they do,
nothing but noisy counts decides what is grown, every possible continuation gets noise, and the
counts are made to agree by least squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.sensitivity import of_distinct_cells, of_one_cell
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM, CellStream
from tracecloak.anonymizers.noise.sums import SumNoise, variance_of
from tracecloak.anonymizers.rigorous.bought_length import length_grid
from tracecloak.anonymizers.rigorous.budget import Means, Need, Sums
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.schemas.arrays.merging import offsets_of, ranges, sum_groups
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.variants import VariantHistogram

# What the prefixes get of epsilon (Laplace) or of the squared sensitivity (Gaussian). The rest is
# for ends, of which every case has one only, however long it is.
PREFIX_SHARE = Fraction(9, 10)
# Noisy counts of all levels together, at most: it bounds time and memory.
MAX_CELLS = 1 << 23


@dataclass(frozen=True)
class NodeNoise:
    """Noise on the counts of one kind of node.

    Attributes:
        noise: What is added.
        least: Smallest noisy count that is kept, at least one case; in lattice steps.
    """

    noise: SumNoise
    least: int


@dataclass(frozen=True)
class TreeNoise:
    """What is public of a tree: the noise on prefixes that may grow, and on ends."""

    prefix: NodeNoise
    end: NodeNoise


@dataclass(frozen=True)
class Level:
    """The kept children of the nodes that were expanded on one level, and what was pruned there.

    Attributes:
        parents: int64[n_kept], ascending numbers of expanded nodes of this level.
        counts: float64[n_kept], noisy.
        variances: float64[n_kept], of their noise.
        grows: bool[n_kept], which are expanded on the next level, where they are numbered in order.
        pruned: float64[n_expanded], the sum of the noisy counts of pruned children.
        pruned_variances: float64[n_expanded], of that sum; 0 where no child was pruned.
    """

    parents: np.ndarray
    counts: np.ndarray
    variances: np.ndarray
    grows: np.ndarray
    pruned: np.ndarray
    pruned_variances: np.ndarray


class PrefixTree:
    """The generator; see the module.

    The nodes of the whole tree are the prefixes of 1 to `max_length` - 1 activities, and the ends:
    prefixes with an end after them, and prefixes of `max_length` activities. A case is in at most
    one prefix of each length and in exactly one end, and a unit has `max_units` cases m. With a
    share f for the prefixes:

    - Laplace: a unit changes the prefixes by at most m (max_length - 1) in total and the ends by m.
      Scales of m (max_length - 1) / (f epsilon) and m / ((1 - f) epsilon) cover the two with
      epsilon together (Dwork, McSherry, Nissim, Smith 2006).
    - Gaussian: a unit changes each level of prefixes by at most m in L1, hence in L2, so all of
      them by at most m sqrt(max_length - 1), and the ends by m: two blocks of one Gaussian
      mechanism with shares f and 1 - f (`anonymizers.accounting.joint`). Coordinates that do not
      differ have equal laws and lose nothing, so it is the few that differ that count as its
      coordinates.

    Where max_length is public, the noise that errs less is taken. Every node has noise of its own,
    keyed by its prefix, whether a case has it or not; that only some nodes are looked at is a
    function of noisy counts, and so is all that follows:

    - A prefix is kept if its noisy count reaches a threshold that one without cases passes with
      probability of about 1 / (2 (|A| + 1)): b ln(|A| + 1) for Laplace noise of scale b. Kept
      prefixes are expanded: all their |A| + 1 continuations are drawn, of which half a false one
      is kept on average. For ends max_length takes the place of |A| + 1 if it is more.
    - On each level at most MAX_CELLS / (max_length (|A| + 1)) nodes are expanded, at least one:
      those of the largest noisy counts. So time and memory are bounded by MAX_CELLS noisy counts,
      or by max_length (|A| + 1) of them if that is more, and by the events of the histogram.
    - The counts of parents and children are made to agree by weighted least squares (Hay, Rastogi,
      Miklau, Suciu, VLDB 2010). What was pruned is a child too, with the large variance that the
      sum of its counts has; its cases are not released, and not given to its siblings either.
    - Kept ends are released as variants, rounded to whole cases, those of 1 or more.
    """

    name: ClassVar[str] = "prefix-tree"
    summary: ClassVar[str] = "variants of a tree of noisy prefixes, grown level by level"
    is_pure: ClassVar[bool] = False
    shares_by_case: ClassVar[bool] = True
    most_names: ClassVar[int | None] = None
    reality: ClassVar[str] = (
        "A case is in one prefix of each length, up to the length at which cases are cut, and in "
        "one end; the noise on all prefixes and ends of the public activities is scaled to what "
        "one unit changes on all levels together. Which prefixes are grown, which are pruned and "
        "how counts are made to agree follows from noisy counts alone."
    )

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what prefixes and ends need."""
        one = of_one_cell(max_units)
        if max_length == 1:  # no prefix can grow: all is for ends
            return (Sums("ends", Fraction(1), one),)
        ends = Sums("ends", 1 - PREFIX_SHARE, one)
        if max_length is not None:
            changed = of_distinct_cells(max_length - 1, max_units)
            return (Sums("prefixes", PREFIX_SHARE, changed), ends)
        largest = of_distinct_cells(int(length_grid()[-1]) - 1, max_units)
        return (
            Sums("prefixes", PREFIX_SHARE, one, is_any_clip=True, largest=largest),
            ends,
        )

    def explain(self, means: Means, max_units: int) -> str:
        """Returns what is done and the error to expect."""
        noise = means["ends"].noise(of_one_cell(max_units))
        kind = "Laplace" if noise.is_laplace else "Gaussian"
        return (
            "grows prefixes level by level where noisy counts are large, and releases those that "
            f"end; expect an error of about {noise.width / noise.units:.3g} cases a variant "
            f"({kind} noise), and to lose the prefixes below a number of cases that grows with "
            "max_trace_length"
        )

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Means, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns the variants that end in kept nodes."""
        noise = tree_noise(domain, means)
        by_level = [VariantHistogram.merge(())]
        levels, ends = _grow(counted, domain, noise, randomness)
        for sequences, counts in zip(ends, consistent(levels), strict=True):
            whole = np.clip(np.rint(counts), 0, LARGEST_TERM).astype(np.int64)
            by_level.append(VariantHistogram.from_sequences(sequences, whole))
        log = VariantHistogram.merge(by_level)  # in the order of their codes
        return most_frequent_first(domain.vocabulary.names, log.offsets, log.codes, log.counts)


# --- noise ----------------------------------------------------------------------------------------


def tree_noise(domain: Domain, means: Means) -> TreeNoise:
    """Returns the noise of a tree; depends on public numbers only.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    m, n_levels = domain.max_units, domain.max_length - 1
    n_children = len(domain.vocabulary) + 1
    ends = means["ends"].noise(of_one_cell(m))
    of_ends = NodeNoise(ends, _least(ends, max(n_children, domain.max_length)))
    if not n_levels or "prefixes" not in means:
        return TreeNoise(of_ends, of_ends)
    prefixes = means["prefixes"].noise(of_distinct_cells(n_levels, m))
    return TreeNoise(NodeNoise(prefixes, _least(prefixes, n_children)), of_ends)


def _least(noise: SumNoise, n_nodes: int) -> int:
    """Returns the threshold; of so many nodes without cases about half a one passes."""
    if noise.is_laplace:
        width = math.log(n_nodes)
    else:
        width = NormalDist().inv_cdf(1 - 1 / (2 * n_nodes))
    return max(noise.units, math.ceil(noise.width * width))


# --- growing --------------------------------------------------------------------------------------


def max_expanded(domain: Domain) -> int:
    """Returns how many nodes of a level are expanded at most; public."""
    return max(1, MAX_CELLS // (domain.max_length * (len(domain.vocabulary) + 1)))


def _grow(
    counted: VariantHistogram, domain: Domain, noise: TreeNoise, randomness: Randomness
) -> tuple[list[Level], list[pa.LargeBinaryArray]]:
    """Draws the tree level by level.

    Returns:
        The levels, and the variants of each one's kept ends, in the order of its children.
    """
    end = len(domain.vocabulary)
    n_symbols, limit = end + 1, max_expanded(domain)
    units = noise.end.noise.units
    of_prefixes, of_ends = variance_of(noise.prefix.noise), variance_of(noise.end.noise)
    lengths = np.diff(counted.offsets)
    # The rows of the variants that are in expanded nodes, and for each row the node of the level.
    rows, inside = np.arange(counted.n_variants), np.zeros(counted.n_variants, np.int64)
    # Expanded nodes: their activities, and what their noise is keyed by. A child's cell is the
    # image of its parent's and of its last symbol, so a CBC-MAC of its prefix. It is an input of
    # further functions only, which makes it safe for prefixes of each other (Petrank and Rackoff,
    # "CBC MAC for Real-Time Data Sources", 2000).
    prefixes, cells = np.zeros((1, 0), np.int32), cell_numbers(np.arange(1))
    levels: list[Level] = []
    ends: list[pa.LargeBinaryArray] = []
    for depth in range(domain.max_length):
        n_expanded = len(prefixes)
        if not n_expanded:
            break
        symbols = np.full(len(rows), end)
        goes_on = lengths[rows] > depth
        symbols[goes_on] = counted.codes[counted.offsets[rows[goes_on]] + depth]
        places = inside * n_symbols + symbols
        noisy = sum_groups(places, counted.counts[rows] * units, n_expanded * n_symbols)

        symbol = np.tile(np.arange(n_symbols), n_expanded)
        parents = np.repeat(np.arange(n_expanded), n_symbols)
        children = randomness.words("prefix-tree node", cells[parents], symbol)
        grows = (symbol < end) & (depth < domain.max_length - 1)
        is_child = (symbol < end) | (depth > 0)  # no case is without events
        for kind, of_kind, purpose in (
            (noise.prefix, np.flatnonzero(grows), "prefix-tree prefix count"),
            (noise.end, np.flatnonzero(~grows & is_child), "prefix-tree end count"),
        ):
            stream = CellStream(randomness, purpose, children[of_kind])
            noisy[of_kind] += kind.noise.draw(stream)

        # From here on nothing exact is looked at.
        is_kept = is_child & (noisy >= np.where(grows, noise.prefix.least, noise.end.least))
        growing = np.flatnonzero(is_kept & grows)
        is_kept[growing] = False
        growing = np.sort(growing[np.argsort(-noisy[growing], kind="stable")[:limit]])
        is_kept[growing] = True
        pruned = is_child & ~is_kept
        variances = np.where(grows, of_prefixes, of_ends)
        levels.append(
            Level(
                parents[is_kept],
                noisy[is_kept] / units,
                variances[is_kept],
                grows[is_kept],
                np.bincount(parents[pruned], noisy[pruned], n_expanded) / units,
                np.bincount(parents[pruned], variances[pruned], n_expanded),
            )
        )
        ending = np.flatnonzero(is_kept & ~grows)
        ends.append(_sequences(prefixes[parents[ending]], symbol[ending], end))

        number = np.full(len(symbol), -1)
        number[growing] = np.arange(len(growing))
        inside = number[places]
        rows, inside = rows[inside >= 0], inside[inside >= 0]
        prefixes = np.column_stack([prefixes[parents[growing]], symbol[growing].astype(np.int32)])
        cells = children[growing]
    return levels, ends


def _sequences(prefixes: np.ndarray, symbols: np.ndarray, end: int) -> pa.LargeBinaryArray:
    """Returns the variants that these prefixes and their last symbols are, without the end."""
    codes = np.column_stack([prefixes, symbols.astype(np.int32)])
    lengths = codes.shape[1] - (symbols == end)
    starts = np.arange(len(codes), dtype=np.int64) * codes.shape[1]
    return encode_sequences(offsets_of(lengths), codes.ravel()[ranges(starts, lengths)])


# --- counts that agree ----------------------------------------------------------------------------


def consistent(levels: list[Level]) -> list[np.ndarray]:
    """Returns the counts of kept ends that least squares gives, level by level.

    Of all counts that add up in every expanded node, the root without a count of its own, those of
    the smallest sum of squared changes divided by variances. A pass from the leaves up gives each
    node the best estimate from what is below it, a pass down shares out what a parent has more, by
    variance (Hay et al. 2010, section 4, here for unequal variances).

    Returns:
        float64[n_ends] of each level, in the order of its children; may be negative.
    """
    upwards: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    below, below_variance = np.zeros(0), np.zeros(0)  # of the children of what grows
    for level in reversed(levels):
        counts, variances, grows = level.counts.copy(), level.variances.copy(), level.grows
        node_counts, node_variances = counts[grows], variances[grows]
        # A node's own count and its children's sum, weighted by the inverses of their variances.
        both = node_variances + below_variance
        counts[grows] = (node_counts * below_variance + below * node_variances) / both
        variances[grows] = node_variances / both * below_variance
        n_expanded = len(level.pruned)
        below = level.pruned + np.bincount(level.parents, counts, n_expanded)
        below_variance = level.pruned_variances + np.bincount(level.parents, variances, n_expanded)
        upwards.append((counts, variances, below, below_variance))
    ends: list[np.ndarray] = []
    fitted = below  # of the root, what its children add up to
    for level, (counts, variances, total, variance) in zip(levels, reversed(upwards), strict=True):
        counts = counts + variances * ((fitted - total) / variance)[level.parents]
        ends.append(counts[~level.grows])
        fitted = counts[level.grows]
    return ends

"""From noisy sums of directly-follows pairs to a graph with intervals of its counts.

All of it looks at noisy sums and public numbers only, so it costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published.figures import wider_ends
from tracecloak.schemas.published.graph import ReleasedDurations, ReleasedGraph

# ---
# Intervals around noisy sums of which only the large ones are shown, of cases that were clipped.
# Three things lie between a count and its noisy sum, and an interval must allow for each. Noise. It
# has a known law and takes the usual quantile.
#
# The threshold. A sum is shown because it is large, and so more often too large than too small: of
# cells that no case has, those that are shown lie above zero by more than any quantile. So the
# lower limit is that of the law of what is shown, the noise given that the sum is not below the
# threshold (Lee, Sun, Sun and Taylor 2016): the smallest mean m with P(Y >= y | Y >= threshold; m)
# of at least 1/40. The upper limit stays: P(Y <= m - h | Y >= threshold) is at most P(Y <= m - h)
# for every h. So whatever the mean is, each limit fails with probability 1/40 at most, given that
# the sum is shown.
#
# The clip. It only lowers sums: lower limits hold all the same, and upper ones are raised. By how
# much is asked of the log: the cases' norms beyond the clip, of each case as much as the clip at
# most, are one more sum of the release's joint Gaussian mechanism, by which a case moves it by the
# clip at most. Clipping takes from no pair more than that. How it is spread over pairs is not
# asked, as to know that would take the noise of a larger clip: it is taken to be spread as the
# shown sums are, by their direction, a vector of norm 1. But the cases that are scaled down are
# long, and long cases repeat: so all of it may be of the pairs that a case can have again at once,
# which are those of an activity with itself, and those of which the graph has the reverse. An upper
# limit allows for either. Both are estimates, not bounds: where cases are many times as long as the
# clip, they are too little. No interval of a bounded width can hold for these, as one case may have
# any number of events, and what is released must hardly depend on it.
#
# All that looks at the noisy sums is arithmetic and costs no privacy.


# Each side fails with this probability at most.
_TAIL = 1 / 40
TWO_SIDED, ONE_SIDED = 1.959963984540054, 1.6448536269514722
"""In deviations, of 95 % to both sides and to one."""
_BISECTIONS = 60
# The lower limit is searched at most so many scales of the noise below the threshold. Where it
# would be lower still, it is 0.
_FAR = 1e4


def norms_beyond(squares: np.ndarray, cases: np.ndarray, clip_units: int, units: int) -> int:
    """Returns the sum of the cases' norms beyond the clip, of each case the clip at most.

    One case more changes it by at most `clip_units`, whatever its norm.

    Args:
        squares: int64[n], squared norms in occurrences.
        cases: int64[n], cases of each.
        clip_units: In lattice steps.
        units: Lattice steps of one occurrence.
    """
    # A root is rounded the same on every machine (IEEE 754); what it is rounded to does not matter.
    beyond = np.floor(np.sqrt(squares.astype(np.float64)) * units) - clip_units
    return int((np.clip(beyond, 0, clip_units).astype(np.int64) * cases).sum())


def intervals_of_shown(
    values: np.ndarray,
    scales: np.ndarray,
    least: np.ndarray,
    taken: np.ndarray | float = 0.0,
    *,
    is_laplace: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[n] twice: lower and upper limits of the counts, with probability 0.95.

    Args:
        values: float64[n], the noisy sums that are shown. One below `least`, shown all the same,
            has a lower limit of 0; a negative one has the limits of 0.
        scales: float64[n], of the noise of each: the deviation, or Laplace's scale.
        least: float64[n], from what on each is shown, positive.
        taken: float64[n], what clipping may have taken from each, in occurrences.
        is_laplace: Whether the noise is Laplace; else it is Gaussian.
    """
    low = _lowest_means(values / scales, least / scales, is_laplace) * scales
    high = np.maximum(values, 0) + quantile_of_one(is_laplace) * scales + taken
    return np.floor(np.maximum(low, 0)).astype(np.int64), np.ceil(high).astype(np.int64)


def intervals_of_all(
    values: np.ndarray, scales: np.ndarray, *, is_laplace: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[n] twice: limits as of `intervals_of_shown`, of sums that are all shown.

    No sum is chosen for being large, and nothing is said of what clipping takes. No count is below
    0, and neither is a limit. A sum below 0 has the limits of 0, as an interval that ended at 0 or
    before would say more than is known.

    Args:
        values: float64[n] or int64[n], the noisy sums.
        scales: float64[n], of the noise of each: the deviation, or Laplace's scale.
        is_laplace: Whether the noise is Laplace; else it is Gaussian.
    """
    half_widths = quantile_of_one(is_laplace) * scales
    low, high = values - half_widths, np.maximum(values, 0) + half_widths
    return np.floor(np.maximum(low, 0)).astype(np.int64), np.ceil(high).astype(np.int64)


def reach_of_noise(n_cells: int, *, is_laplace: bool) -> float:
    """Returns the scales that none of so many noises exceeds with probability 0.95."""
    tail = 2 * _TAIL / n_cells
    return -math.log(2 * tail) if is_laplace else -NormalDist().inv_cdf(tail)


def quantile_of_one(is_laplace: bool) -> float:
    """Returns half the width of a 95 % interval around one noise, in its scales."""
    return math.log(1 / (2 * _TAIL)) if is_laplace else TWO_SIDED


def _lowest_means(values: np.ndarray, least: np.ndarray, is_laplace: bool) -> np.ndarray:
    """float64[n], in scales: means whose values, where shown, reach these with 1/40.

    The chance grows with the mean, since the noise's density is log-concave.
    """
    from scipy.special import log_ndtr  # it takes long to load

    def log_tail(x: np.ndarray) -> np.ndarray:
        if is_laplace:
            upper = -np.abs(x) - math.log(2)
            return np.where(x > 0, upper, elementary.log1p(-elementary.exp(upper)))
        return np.asarray(log_ndtr(-x))

    low, high = np.full(len(values), -_FAR), values.astype(np.float64)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        is_unlikely = log_tail(values - middle) - log_tail(least - middle) < math.log(_TAIL)
        low, high = np.where(is_unlikely, middle, low), np.where(is_unlikely, high, middle)
    return low


# --- From noisy sums of directly-follows pairs to a graph that people can read. -------------------
# Threshold, intervals and the fit of the counts in them look at the noisy sums and at public
# numbers only, so they cost no privacy.
#
# Counts inside their intervals that agree with each other: what enters an activity also leaves
# it.
#
# In every directly-follows graph as many occurrences of an activity are entered as are left. This
# holds of all pairs together, and not of those alone that stand out of the noise: the others may
# have some of the flow, each of them up to the threshold. So the counts of the shown pairs and
# what is hidden at each activity are estimated together. With x the counts, m what each is by
# itself (nearly always the middle of its interval), v the variances of the noise, and r_i what
# flows out of activity i beyond what flows in,
#
#     minimise  sum (x - m)^2 / v  +  sum (r_i(x) - h_i)^2 / V_i    with  low <= x <= high.
#
# The hidden pairs of i are expected to take h_i, with variance V_i: each is taken to be anything
# from 0 to its threshold t, of variance t^2 / 12, and its noisy sum says the rest. Start and end
# are one node, as what leaves the start has entered the end.
#
# The conditions are soft, so there is always a solution, and the intervals hold of all counts.
# Where no counts in them agree with what may be hidden, the conditions are violated by least
# squares.
#
# The function is quadratic and its domain is a box. A matrix D that is diagonal and not below its
# Hessian (Gershgorin) makes a step of projected gradient descent a clip of each count by itself,
# and as the Hessian is not below q D, Nesterov's constant momentum takes the error below any bound
# in so many steps times 1 / sqrt(q) ("Introductory Lectures on Convex Optimization", 2004, section
# 2.2.4). Only sums of numpy are used, whose order is the same on every machine.
#
# It sees noisy sums only, so it is post-processing and costs no privacy.


# Occurrences of a pair beyond which floats lose the unit.
MAX_COUNT = 1e12
_LAPLACE_FACTOR = 1.5


@dataclass(frozen=True)
class NoisyCells:
    """Noisy sums of a public domain.

    Attributes:
        cells: int64[n], the domain, ascending; see `possible_pairs`.
        values: float64[n], the sums in occurrences.
        scales: float64[n], of the noise of each, in occurrences: the deviation, or Laplace's scale.
        noise: What was added to each number that was measured.
        beyond: What clipping takes from all of them, a likely upper limit, in occurrences.
        clip: Norm of a case's sums from which on it is scaled down, in occurrences.
        lost: What clipping takes from all of them, as is to be expected; None: `beyond`.
    """

    cells: np.ndarray
    values: np.ndarray
    scales: np.ndarray
    noise: SumNoise
    beyond: float = 0.0
    clip: float = 1.0
    lost: float | None = None

    @classmethod
    def measured(
        cls, cells: np.ndarray, noisy: np.ndarray, noise: SumNoise, *clipped: Any
    ) -> NoisyCells:
        """Returns sums that were measured one by one, given in lattice steps.

        Args:
            cells: The domain.
            noisy: int64[n], the sums.
            noise: Of each.
            clipped: `beyond`, `clip` and `lost`, as far as cases were clipped.
        """
        # A release must not fail because its noise was large, so the values are cut off.
        values = np.minimum(noisy / noise.units, MAX_COUNT)
        scales = np.full(len(cells), noise.width / noise.units)
        return cls(cells, values, scales, noise, *clipped)

    def over_bins(self, n_bins: int) -> NoisyCells:
        """Returns the sums over the duration bins of each pair.

        A sum of Laplace noises has no Laplace law. A Laplace law of the same variance has longer
        tails, so limits that are made with it hold.
        """
        if n_bins == 1:
            return self
        pairs, first, n_summed = np.unique(
            self.cells // n_bins, return_index=True, return_counts=True
        )
        values = np.add.reduceat(self.values, first) if len(first) else self.values
        scales = self.scales[first] * np.sqrt(n_summed)
        return NoisyCells(pairs, np.minimum(values, MAX_COUNT), scales, self.noise, self.beyond)

    def least(self, n_cells: int) -> np.ndarray:
        """Returns float64[n], from what on each is taken for more than noise among so many."""
        return self.scales * shown_from(self.noise, n_cells) / (self.noise.width / self.noise.units)

    @property
    def variances(self) -> np.ndarray:
        """float64[n], the variance of the noise of each sum, in squared occurrences."""
        squares: np.ndarray = self.scales * self.scales
        return 2 * squares if self.noise.is_laplace else squares

    def most_taken(self, is_shown: np.ndarray, n_codes: int = 1) -> np.ndarray:
        """Returns float64[n], what clipping may have taken from each; see `count_intervals`.

        Args:
            is_shown: bool[n], the cells that it is taken to be of.
            n_codes: The number of a pair is its source times this, plus its target; 1 of others.
        """
        sources, targets = np.divmod(self.cells, n_codes)
        may_repeat = is_shown & np.isin(self.cells, (targets * n_codes + sources)[is_shown])
        return np.maximum(*(self._spread(self.beyond, of) for of in (is_shown, may_repeat)))

    def _spread(self, taken: float, of: np.ndarray) -> np.ndarray:
        values = np.where(of, np.maximum(self.values, 0), 0.0)
        return values * (max(taken, 0.0) / max(math.sqrt(float((values**2).sum())), 1.0))

    def fitted(
        self,
        at: np.ndarray,
        is_shown: np.ndarray,
        ends: tuple[np.ndarray, np.ndarray],
        totals: np.ndarray,
        least: np.ndarray,
        n_codes: int = 1,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns int64[n_shown] three times: what is released of the shown cells, and its limits.

        Args:
            at: int64[n], the places of some cells.
            is_shown: bool[n], which of them are shown.
            ends: int[n] twice, the nodes that each of them leaves and enters.
            totals: float64[n_nodes], how much more leaves each node than enters it.
            least: Of all cells, see `least`.
            n_codes: As of `most_taken`.
        """
        shown, lost = at[is_shown], self.beyond if self.lost is None else self.lost
        every = np.isin(np.arange(len(least)), shown)
        taken = self.most_taken(every, n_codes)[shown]
        limits = intervals_of_shown(
            *(self.values[shown], self.scales[shown], least[shown], taken),
            is_laplace=self.noise.is_laplace,
        )
        likely = self._spread(lost, every)[shown]
        middles = np.clip((limits[0] + limits[1] + likely - taken) / 2, *limits)
        numbers = self.values[at], self.variances[at], least[at]
        counts = fitted_counts(ends, totals, *numbers, is_shown, limits, middles)
        reach = quantile_of_one(self.noise.is_laplace) * self.scales[shown]
        return counts, *wider_ends(counts, *limits, reach)


def shown_from(noise: SumNoise, n_cells: int) -> float:
    """Returns from how many occurrences on one of so many sums is taken for more than noise.

    Laplace noise is larger more often, and gets half as much again: then the fourth root of the
    number of empty cells reaches it, and of Gaussian noise fewer than the root.
    """
    factor = _LAPLACE_FACTOR if noise.is_laplace else 1
    return noise.threshold(n_cells) / noise.units * factor


def released_graph(arcs: NoisyCells, vocabulary: ActivityVocabulary) -> ReleasedGraph:
    """Returns the graph of the pairs that stand out of the noise and belong to a process.

    Of many empty pairs noise raises some above the threshold. With many activities most of those
    meet no other pair, so a pair that no shown ones join to the start or the end is not shown.

    Args:
        arcs: Of all possible pairs.
        vocabulary: What their codes mean.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    least = arcs.least(len(arcs.cells))
    sources, targets = np.divmod(arcs.cells, vocabulary.end + 1)
    # The start and the end are one node.
    ends = (np.minimum(sources, vocabulary.start), np.minimum(targets, vocabulary.start))
    is_shown = arcs.values >= least
    shown = ends[0][is_shown], ends[1][is_shown]
    edges = csr_array((np.ones(len(shown[0])), shown), (vocabulary.start + 1,) * 2)
    labels = connected_components(edges, connection="weak")[1]
    is_shown &= (labels == labels[-1])[ends[0]]
    totals = np.zeros(vocabulary.start + 1)
    columns = arcs.fitted(np.arange(len(least)), is_shown, ends, totals, least, vocabulary.end + 1)
    flows = np.flatnonzero(columns[0])
    codes = (codes[is_shown][flows].astype(np.int32) for codes in (sources, targets))
    return ReleasedGraph(vocabulary.names, *codes, *(column[flows] for column in columns))


def released_durations(
    bins: NoisyCells, graph: ReleasedGraph, borders_us: np.ndarray
) -> ReleasedDurations:
    """Spreads each released pair of activities over the bins that stand out of the noise.

    Over all where none does. With what may be in the bins that are not shown, they agree with the
    count of the pair as far as their intervals allow.

    Args:
        bins: Of all possible pairs and bins.
        graph: What is released of the pairs.
        borders_us: int64[n_bins-1], borders of the duration bins in microseconds.
    """
    n_bins, start = len(borders_us) + 1, len(graph.names)
    inner = np.flatnonzero((graph.sources < start) & (graph.targets < start))
    totals = graph.counts[inner]
    pairs = graph.sources[inner].astype(np.int64) * (graph.end + 1) + graph.targets[inner]
    at = np.searchsorted(bins.cells, pairs * n_bins)[:, None] + np.arange(n_bins)
    least = bins.least(n_bins)
    rows = bins.values[at]
    is_clear = rows >= least[at]
    is_clear |= ~is_clear.any(axis=1, keepdims=True)
    # What flows out of each pair flows into one more node.
    ends = (np.repeat(np.arange(len(pairs)), n_bins), np.full(at.size, len(pairs)))
    columns = bins.fitted(
        at.ravel(), is_clear.ravel(), ends, np.append(totals, -totals.sum()), least
    )
    counted = np.flatnonzero(columns[0])
    row, bin_number = (places[counted] for places in np.nonzero(is_clear))
    return ReleasedDurations(
        *(graph.names, borders_us),
        *(graph.sources[inner][row], graph.targets[inner][row], bin_number.astype(np.int32)),
        *(column[counted] for column in columns),
    )


# Steps over the root of the condition: what is left of an error is e to the minus of it.
_ACCURACY = 30


def fitted_counts(
    ends: tuple[np.ndarray, np.ndarray],
    totals: np.ndarray,
    values: np.ndarray,
    variances: np.ndarray,
    least: np.ndarray,
    is_shown: np.ndarray,
    intervals: tuple[np.ndarray, np.ndarray],
    middles: np.ndarray,
) -> np.ndarray:
    """Returns int64[n_shown], the counts of the shown cells; see the module.

    They are rounded to whole numbers, each by itself.

    Args:
        ends: int[n] twice, the nodes that each cell leaves and enters.
        totals: float64[n_nodes], how much more leaves each node than enters it, by all cells.
        values: float64[n], noisy sums.
        variances: float64[n], of their noise, positive.
        least: float64[n], from what on each is shown, positive.
        is_shown: bool[n].
        intervals: int64[n_shown] twice, lower and upper limits.
        middles: float64[n_shown], the counts to be expected of each by itself, within these.
    """
    n_nodes = len(totals)
    trust = trust_in_hidden(variances, least)
    expected = np.where(is_shown, 0.0, trust * values)
    unsure = np.where(is_shown | (ends[0] == ends[1]), 0.0, trust * variances)
    # Of a node without hidden cells the condition is as soft as with one.
    least = (trust * variances).min(initial=np.inf)
    node_weights = np.maximum(sum(np.bincount(nodes, unsure, n_nodes) for nodes in ends), least)
    totals = totals - _net_flows(ends, expected, n_nodes)

    shown = (ends[0][is_shown], ends[1][is_shown])
    low, high = (limits.astype(np.float64) for limits in intervals)
    weights = 1 / variances[is_shown]
    degrees = sum(np.bincount(nodes, minlength=n_nodes) for nodes in shown)
    end_degrees = degrees / node_weights
    steep = weights + end_degrees[shown[0]] + end_degrees[shown[1]]
    root = math.sqrt(float((weights / steep).min(initial=1.0)))
    momentum = (1 - root) / (1 + root)
    counts = at = middles
    for _ in range(math.ceil(_ACCURACY / root)):
        pull = (_net_flows(shown, at, n_nodes) - totals) / node_weights
        slope = weights * (at - middles) + pull[shown[0]] - pull[shown[1]]
        before, counts = counts, np.clip(at - slope / steep, low, high)
        at = counts + momentum * (counts - before)
    return np.rint(counts).astype(np.int64)


def trust_in_hidden(variances: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Returns float64[n], by what noisy sums of hidden cells are what they are expected to be.

    Args:
        variances: As of `fitted_counts`.
        least: See there.
    """
    squares: np.ndarray = least**2
    return squares / (squares + 12 * variances)


def _net_flows(ends: tuple[np.ndarray, np.ndarray], counts: np.ndarray, n_nodes: int) -> np.ndarray:
    """float64[n_nodes], outflow less inflow of each node."""
    out, into = (np.bincount(nodes, counts, n_nodes) for nodes in ends)
    flows: np.ndarray = out - into
    return flows

"""`joint-variants` with groups of activities: both levels are measured, and cases fit both."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import of_clipped_cells
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import noisy_sums, note
from tracecloak.anonymizers.rigorous import clips
from tracecloak.anonymizers.rigorous.bought import rank_of_clip
from tracecloak.anonymizers.rigorous.budget import Allowance, Allowances, Need, Sums
from tracecloak.anonymizers.rigorous.names import Grouping, Groups
from tracecloak.anonymizers.variants import joint_variants, markov
from tracecloak.anonymizers.variants.generator import Domain, released
from tracecloak.schemas.arrays.merging import distinct_places, sum_groups
from tracecloak.schemas.published import figures
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variant_flows import PARTS, FlowCells, GroupCells, group_vectors
from tracecloak.schemas.statistics.variants import VariantHistogram

# Steps of all bins of positions of a chain over the activities.
_STEPS = 1 << 24
# How much an error by noise weighs against one by clipping when the clip is chosen.
_RANK_WEIGHT = 1.5


class GroupSums:
    """What is known of the groups: noisy sums.

    Attributes:
        groups: Which activity is in which.
        cells: What was counted.
        clip: The norm that cases were scaled down to, in lattice steps.
        sums: int64[size], weighted sums, in lattice steps.
        noise: Of these sums; its `units` are those of an occurrence of weight 1.
        steps: float64[2, n_groups, n_groups+1], how often groups follow each other, END as the
            last, in occurrences: the sums, and their deviations.
        by_bin: float64[2, n_bins, n_groups+1], how often groups are come to in each bin of
            positions, and END, likewise.

    Args:
        counted: Exact counts of variants of activities.
        groups: Which activity is in which.
        domain: What is public.
        allowance: What the sums may spend.
        of_ranks: What the choice of their clip may spend.
        name: What all purposes begin with.
        randomness: The release's.
    """

    def __init__(
        self,
        counted: VariantHistogram,
        groups: Groups,
        domain: Domain,
        allowance: Allowance,
        of_ranks: Allowance,
        name: str,
        randomness: Randomness,
    ) -> None:
        # As many bins of positions as a chain of the activities may have.
        bins = FlowCells.of(len(domain.vocabulary), domain.max_length, _STEPS).blocks - 1
        self.groups, self.cells = groups, GroupCells(len(groups.names), bins)
        m, cells = domain.max_units, self.cells
        vectors = group_vectors(counted, groups.codes, cells)
        buckets = np.searchsorted(clips.norm_grid() * PARTS**2, vectors.squares)
        longer = sum_groups(buckets, counted.counts, len(clips.norm_grid()) + 1)
        wide = allowance.relative_width * m
        rank = rank_of_clip(wide, cells.size, cells.n_groups, _RANK_WEIGHT)
        squared = clips.choose_clip(longer, of_ranks, rank, m, randomness, f"{name}/group ranks")
        units = max(clips.lattice_units(allowance, m) // PARTS, 1)  # public, whatever the clip
        self.clip = math.isqrt(squared * (units * PARTS) ** 2)
        self.noise = allowance.noise(of_clipped_cells(self.clip, m), units * PARTS)
        values = vectors.clipped(self.clip, units) * counted.counts[vectors.rows]
        exact = sum_groups(vectors.keys, values, cells.size)
        places = np.arange(cells.size)
        self.sums = noisy_sums(exact, self.noise, f"{name}/groups", places, randomness)
        weights = cells.weights * (self.noise.units / PARTS)  # steps of an occurrence
        both = np.stack([self.sums / weights, self.noise.width / weights])
        both = both.reshape(2, -1, cells.side)
        self.steps, self.by_bin = np.split(both, [cells.n_groups], axis=1)

    def compared(self, proposals: VariantHistogram) -> joint_variants.Block:
        """Returns what cases add to the sums, and the sums."""
        vectors = group_vectors(proposals, self.groups.codes, self.cells)
        reached, column = distinct_places(vectors.keys)
        values = vectors.clipped(self.clip, self.noise.units // PARTS) / self.noise.units
        return vectors.rows, column, values, self.sums[reached], self.noise

    def note(self, drawn: VariantHistogram, domain: Domain, randomness: Randomness) -> None:
        """Notes which activity is in which group, and the steps that drawn cases have.

        Steps that no drawn case has are not listed: the largest of their sums stands for all.

        Args:
            drawn: The cases.
            domain: What is public.
            randomness: The release's.
        """
        names, groups = domain.vocabulary.names.to_pylist(), self.groups.names.labels
        places, side = self.groups.codes.tolist(), self.cells.side
        pairs = [(name, groups[code]) for name, code in zip(names, places, strict=True)]
        note(randomness, figures.GROUP, lambda: pairs, np.zeros(len(pairs)), 0.0)
        vectors = group_vectors(drawn, self.groups.codes, self.cells)
        sums, deviations = (  # those from START last
            np.concatenate([step_sums, bin_sums[:1]]).ravel()
            for step_sums, bin_sums in zip(self.steps, self.by_bin, strict=True)
        )
        first = self.cells.first_bin + side
        is_step = np.zeros(first, bool)
        is_step[vectors.keys[vectors.keys < first]] = True
        starts = [*groups[: self.cells.n_groups], groups[-2]]
        targets = [*groups[: self.cells.n_groups], groups[-1]]

        def labels(cells: np.ndarray) -> list[tuple[str, ...]]:
            return [(starts[cell // side], targets[cell % side]) for cell in cells.tolist()]

        for deviation in np.unique(deviations).tolist():
            of = np.flatnonzero(is_step & (deviations == deviation))
            note(randomness, figures.STEP, partial(labels, of), sums[of], deviation)
        others = np.flatnonzero(~is_step & (np.arange(first) < first - 1))
        if len(others):
            largest = others[np.argmax(sums[others])]
            value = np.array([sums[largest]])
            widest = float(deviations[others].max())
            note(randomness, figures.STEP_NOT_SHOWN, lambda: [()], value, widest)
        clip = np.array([self.clip / self.noise.units])
        note(randomness, figures.GROUP_CLIP, lambda: [()], clip, 0.0)
        begins = np.flatnonzero(np.diff(self.cells.bins, prepend=-1))
        note(randomness, figures.GROUP_POSITION, lambda: [()] * len(begins), begins, 0.0)


# A step between groups is taken for noise below so many of its deviations, and a group is come to
# in a bin for sure from so many on.
_CLEAR, _SURE = 3.0, 3.5
# What groups have beside clear steps of activities weighs so much less, as these say more.
_HIDDEN = 0.5
# Occurrences by activity and by group can differ by as much as this factor.
_MOST_SCALED = 2.0
_ROUNDS, _MOST_STEERED = 3, 10.0


def group_chain(measured: joint_variants.Measured, sums: GroupSums) -> markov.Chain | None:
    """Returns the chain.

    Args:
        measured: Of the activities, whose arcs are not counted by position.
        sums: Of their groups.

    Returns:
        None where no first activity has a positive sum.
    """
    starts, overall = _completed(measured, sums)
    if not starts.any():
        return None
    starts, overall, _ = markov.ending(starts, overall)
    starts = starts / starts.sum()
    blocks = sums.cells.bins + 1
    return markov.Chain(
        starts,
        _steered(starts, overall, measured.n_cases, sums),
        FlowCells(measured.cells.n_names, blocks),
    )


def _completed(measured: joint_variants.Measured, sums: GroupSums) -> tuple[np.ndarray, np.ndarray]:
    """First activities and arcs, with what groups have beside those that stand out.

    Returns:
        float64[n] and float64[n, n+1], in occurrences.
    """
    codes, units = sums.groups.codes, measured.chain_noise.units
    with_end = np.append(codes, sums.cells.n_groups)
    known = measured.known_ends()
    starts, whole, _ = markov.clear_sums(
        measured.chain, measured.cells, measured.chain_noise, known
    )
    starts, whole = starts / units, whole / units
    assert known.occurrences is not None
    (steps, deviations), (bins, bin_deviations) = sums.steps, sums.by_bin
    steps = np.where(steps >= _CLEAR * deviations, steps, 0.0)
    firsts = np.where(bins[0] >= _CLEAR * bin_deviations[0], bins[0], 0.0)[:-1]
    # The arcs of activities by their groups.
    keys = codes[:, None].astype(np.int64) * sums.cells.side + with_end
    seen = np.bincount(keys.ravel(), whole.ravel(), steps.size).reshape(steps.shape)
    steps = np.maximum(steps, seen)
    firsts = np.maximum(firsts, np.bincount(codes, starts, len(firsts)))
    occur = known.occurrences / units
    come_to = firsts + steps[:, :-1].sum(axis=0)
    group_counts = np.bincount(codes, occur, len(firsts))
    scale = np.where(group_counts > 0, come_to / np.maximum(group_counts, 1e-9), 1.0)
    occur = occur * np.clip(scale, 1 / _MOST_SCALED, _MOST_SCALED)[codes]

    leave = np.maximum(occur - whole.sum(axis=1), 0)
    come = np.append(occur - starts, measured.n_cases) - whole.sum(axis=0)
    come = np.maximum(come, 0)
    hidden = np.maximum(steps - seen, 0)
    hidden_of = hidden[np.ix_(codes, with_end)]
    arcs = _shares(leave, codes)[:, None] * hidden_of * _shares(come, with_end)
    begin = np.maximum(firsts - np.bincount(codes, starts, len(firsts)), 0)
    starts = starts + begin[codes] * _shares(occur, codes)
    return starts, whole + _HIDDEN * arcs


def _shares(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """float64[n], of the sum of each one's group; 0 where that is 0."""
    totals = np.bincount(codes, values)[codes]
    return values / np.where(totals > 0, totals, 1.0)


def _steered(starts: np.ndarray, overall: np.ndarray, n_cases: int, sums: GroupSums) -> np.ndarray:
    """The steps in each bin, which lead to groups as often as these were counted there.

    What is expected is moved towards the noisy count as in `markov_chain.chain_of`.

    Args:
        starts: float64[n], chances of the first activity.
        overall: float64[n, n+1], rows that sum to 1.
        n_cases: About how many cases there are.
        sums: Of the groups.

    Returns:
        float64[n_bins-1, n, n+1]; the first bin is that of the steps from START.
    """
    with_end = np.append(sums.groups.codes, sums.cells.n_groups)
    counted, deviations = sums.by_bin
    widths = sums.cells.widths.tolist()
    steps = np.empty((len(widths) - 1, *overall.shape))
    come, fewest = starts * n_cases, markov.GOES_ON * n_cases
    for i, width in enumerate(widths[1:]):
        deviation, wanted = deviations[i + 1], None
        rows = overall
        for _ in range(_ROUNDS):
            visits, _after = markov.visits_of(come, rows, width, fewest)
            reached = (visits[:, None] * rows).sum(axis=0)
            expected = np.bincount(with_end, reached, sums.cells.side)
            if wanted is None:
                trust = 1 / (1 + (deviation / np.maximum(expected, 1e-9 * deviation)) ** 2)
                wanted = np.maximum(expected + (counted[i + 1] - expected) * trust, 0)
                is_sure = counted[i + 1] >= _SURE * deviation
                wanted = np.where(is_sure, np.maximum(wanted, counted[i + 1]), wanted)
            factors = np.where(expected > 0, wanted / np.where(expected > 0, expected, 1), 1.0)
            factors = np.clip(factors, 1 / _MOST_STEERED, _MOST_STEERED)
            rows = markov.rows_of(rows * factors[with_end], overall)
        steps[i] = rows
        _, come = markov.visits_of(come, rows, width, fewest)
    return steps


HIDDEN, CLEAR = Fraction(15, 100), Fraction(3, 100)
"""The share of groups, of what the vectors of a case have together: where noise hides most
activities, and elsewhere."""

_RANKS = Fraction(1, 100)
# Noise hides usual pairs of activities that stand out by fewer deviations than this: a little more
# than what the sum of a pair must have to be taken for more than noise.
_LEAST_DEVIATIONS = 4.0


class GroupedVariants(joint_variants.JointVariants):
    """The generator; see the module."""

    reality: ClassVar[str] = (
        f"{joint_variants.JointVariants.reality} Groups of activities are one more vector of the "
        "case, clipped to a norm that a paid number chooses, with a share of the same budget: what "
        "a case changes of activities and of groups is one sensitivity. Which activity is in which "
        "group is public, or follows from its name."
    )

    def __init__(self, grouping: Grouping) -> None:
        """Keeps how activities are grouped."""
        self.grouping = grouping

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what it needs without groups, and the choice of their clip."""
        ranks = clips.ranks_need(f"{self.name} group ranks", _RANKS, max_units)
        needs: list[Need] = [ranks]
        for need in super().needs(max_units, max_length):
            if need.name == self.name:
                assert isinstance(need, Sums)
                # The largest sums are those of the groups, where these have the smaller share.
                steps = math.ceil(PARTS / math.sqrt(CLEAR))
                need = replace(
                    need,
                    share=need.share - _RANKS,
                    open_share=need.open_share * (1 - max(HIDDEN, CLEAR)),
                    largest=clips.largest_sums(steps, max_units),
                )
            needs.append(need)
        return tuple(needs)

    def explain(self, means: Allowances, max_units: int) -> str:
        """Returns what it does and the noise to expect, of groups too."""
        whole = means[self.name]
        without = super().explain({**means, self.name: whole.part(1 - HIDDEN)}, max_units)
        width = whole.part(HIDDEN).relative_width * max_units
        return sentence("generators", "grouped", None, without=without, width=width)

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns cases by the weights that were fitted to both levels."""
        m, whole = domain.max_units, means[self.name]
        number = joint_variants.noisy_number(counted, means, m, self.name, randomness)
        is_hidden = hides_activities(number[0], domain, whole)
        share = HIDDEN if is_hidden else CLEAR
        groups = self.grouping.of(domain.vocabulary)
        group_means = whole.part(share), means[f"{self.name} group ranks"]
        sums = GroupSums(counted, groups, domain, *group_means, self.name, randomness)
        activity_means = {**means, self.name: whole.part(1 - share)}
        measured = joint_variants.Measured(
            self.name, counted, number, domain, activity_means, randomness
        )
        follows = is_hidden and not measured.cells.has_whole
        chain = group_chain(measured, sums) if follows else measured.chain_alone()
        drawn = measured.drawn(chain, (sums.compared,))
        sums.note(drawn, domain, randomness)
        return released(drawn, domain.vocabulary)


def hides_activities(n_cases: float, domain: Domain, whole: Allowance) -> bool:
    """Returns whether noise hides usual pairs of activities, as far as public numbers say.

    Args:
        n_cases: About how many cases there are.
        domain: What is public.
        whole: What the vectors of a case may spend together.
    """
    for_chain = whole.part((1 - HIDDEN) * joint_variants.SCATTERED.chain)
    return joint_variants.pair_deviations(max(n_cases, 1.0), domain, for_chain) < _LEAST_DEVIATIONS

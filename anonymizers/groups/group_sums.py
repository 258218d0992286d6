"""Noisy sums of groups of activities, and what released cases are compared with.

A case's vector over groups (`schemas.statistics.group_cells`) is scaled down to a norm, which a
paid number chooses, and counted once. What the case adds to the sums of activities is another
vector of the same unit. Both have shares of one Gaussian budget, fixed before either is measured,
so that what one case changes of the two levels together is one sensitivity
(`budget.Allowance.part`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import of_clipped_cells
from tracecloak.anonymizers.noise.noting import note
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums
from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.anonymizers.rigorous.clip_by_rank import rank_of_clip
from tracecloak.anonymizers.rigorous.clips import choose_clip, norm_grid
from tracecloak.anonymizers.rigorous.grouping import Groups
from tracecloak.anonymizers.rigorous.markov_sums import lattice_units
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.schemas.arrays.distinct import distinct_places
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.published import measures
from tracecloak.schemas.statistics.group_cells import PARTS, GroupCells, GroupVectors
from tracecloak.schemas.statistics.variant_flows import FlowCells
from tracecloak.schemas.statistics.variants import VariantHistogram

# Steps of all bins of positions of a chain over the activities.
_STEPS = 1 << 24
# How much an error by noise weighs against one by clipping when the clip is chosen.
_RANK_WEIGHT = 1.5


@dataclass(frozen=True, eq=False)
class GroupSums:
    """What is known of the groups: noisy sums.

    Attributes:
        groups: Which activity is in which.
        cells: What was counted.
        clip: The norm that cases were scaled down to, in lattice steps.
        sums: int64[size], weighted sums, in lattice steps.
        noise: Of these sums; its `units` are those of an occurrence of weight 1.
    """

    groups: Groups
    cells: GroupCells
    clip: int
    sums: np.ndarray
    noise: SumNoise

    @classmethod
    def of(
        cls,
        counted: VariantHistogram,
        groups: Groups,
        domain: Domain,
        allowance: Allowance,
        of_ranks: Allowance,
        name: str,
        randomness: Randomness,
    ) -> GroupSums:
        """Measures groups.

        Args:
            counted: Exact counts of variants of activities.
            groups: Which activity is in which.
            domain: What is public.
            allowance: What the sums may spend.
            of_ranks: What the choice of their clip may spend.
            name: What all purposes begin with.
            randomness: The release's.
        """
        m, cells = domain.max_units, group_cells(groups, domain)
        vectors = GroupVectors.of(counted, groups.codes, cells)
        buckets = np.searchsorted(norm_grid() * PARTS**2, vectors.squares)
        longer = sum_groups(buckets, counted.counts, len(norm_grid()) + 1)
        wide = allowance.relative_width * m
        rank = rank_of_clip(wide, cells.size, cells.n_groups, _RANK_WEIGHT)
        squared = choose_clip(longer, of_ranks, rank, m, randomness, f"{name}/group ranks")
        units = units_of_part(allowance, m)
        clip = math.isqrt(squared * (units * PARTS) ** 2)
        noise = allowance.noise(of_clipped_cells(clip, m), units * PARTS)
        values = vectors.clipped(clip, units) * counted.counts[vectors.rows]
        exact = sum_groups(vectors.keys, values, cells.size)
        places = np.arange(cells.size)
        return cls(
            groups,
            cells,
            clip,
            noisy_sums(exact, noise, f"{name}/groups", places, randomness),
            noise,
        )

    @property
    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """How often groups follow each other, END as the last: the sums, and their deviations.

        Both float64[n_groups, n_groups+1], in occurrences.
        """
        weights, first = self._weights, self.cells.first_bin
        shape = self.cells.n_groups, self.cells.side
        sums = self.sums[:first] / weights[:first]
        return sums.reshape(shape), (self.noise.width / weights[:first]).reshape(shape)

    @property
    def by_bin(self) -> tuple[np.ndarray, np.ndarray]:
        """How often groups are come to in each bin of positions, and END: sums and deviations.

        Both float64[n_bins, n_groups+1], in occurrences.
        """
        weights, first = self._weights, self.cells.first_bin
        shape = self.cells.n_bins, self.cells.side
        sums = self.sums[first:] / weights[first:]
        return sums.reshape(shape), (self.noise.width / weights[first:]).reshape(shape)

    @property
    def _weights(self) -> np.ndarray:
        """float64[size], lattice steps of one occurrence in each cell."""
        return self.cells.weights * (self.noise.units / PARTS)

    def compared(
        self, proposals: VariantHistogram
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, SumNoise]:
        """Returns what cases add to the sums, and the sums; see `joint_variants.Compared`."""
        vectors = GroupVectors.of(proposals, self.groups.codes, self.cells)
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
        note(randomness, measures.GROUP, lambda: pairs, np.zeros(len(pairs)), 0.0)
        vectors = GroupVectors.of(drawn, self.groups.codes, self.cells)
        sums, deviations = (of.ravel() for of in (self._targets()))
        first = self.cells.first_bin + side
        is_step = np.zeros(first, bool)
        is_step[vectors.keys[vectors.keys < first]] = True
        starts = [*groups[: self.cells.n_groups], groups[-2]]
        targets = [*groups[: self.cells.n_groups], groups[-1]]

        def labels(cells: np.ndarray) -> list[tuple[str, ...]]:
            return [(starts[cell // side], targets[cell % side]) for cell in cells.tolist()]

        for deviation in np.unique(deviations).tolist():
            of = np.flatnonzero(is_step & (deviations == deviation))
            note(randomness, measures.STEP, partial(labels, of), sums[of], deviation)
        others = np.flatnonzero(~is_step & (np.arange(first) < first - 1))
        if len(others):
            largest = others[np.argmax(sums[others])]
            value = np.array([sums[largest]])
            widest = float(deviations[others].max())
            note(randomness, measures.STEP_NOT_SHOWN, lambda: [()], value, widest)
        clip = np.array([self.clip / self.noise.units])
        note(randomness, measures.GROUP_CLIP, lambda: [()], clip, 0.0)
        begins = np.flatnonzero(np.diff(self.cells.bins, prepend=-1))
        note(randomness, measures.GROUP_POSITION, lambda: [()] * len(begins), begins, 0.0)

    def _targets(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums and deviations of steps, those from START last; float64[n_groups+1, n_groups+1]."""
        sums, deviations = (
            np.concatenate([of_step, of_bin[:1]])
            for of_step, of_bin in zip(self.steps, self.by_bin, strict=True)
        )
        return sums, deviations


def group_cells(groups: Groups, domain: Domain) -> GroupCells:
    """Returns the cells of groups: as many bins of positions as a chain of the activities may have.

    Args:
        groups: Which activity is in which.
        domain: What is public.
    """
    bins = FlowCells.of(len(domain.vocabulary), domain.max_length, _STEPS).blocks - 1
    return GroupCells(len(groups.names), bins)


def units_of_part(allowance: Allowance, max_units: int) -> int:
    """Returns the lattice steps of a sixteenth of an occurrence: public, whatever the clip."""
    return max(lattice_units(allowance, max_units) // PARTS, 1)

"""`auto-variants`: `joint-variants`, a histogram or a PrivTree, by which is likely to err least.

Three hundredths of epsilon are for two numbers: about how many cases are of variants that a
histogram would show for sure, and about how many are not. What is compared with them is public, or
noise that is known beforehand:

1. Cases that a histogram would not show are made up by `joint-variants` from a noisy chain, if they
   stand out of its noise (`joint_variants.unseen_stand_out`). The cases that would have been shown
   anyway come out worse then, as they share the budget.
2. Elsewhere a histogram does it, with Laplace noise. Three quarters of the cases that it misses are
   walks of the chain of what it published (`anonymizers.variants.completed_variants`), unless their
   number may be nothing but its noise.
3. Where the numbers are not clear of their own noise, or where a histogram would miss half of the
   cases or more, which a chain could not show either, a tree of prefixes does it: it stops where
   cases get few, and shows how these began. What it does takes longer the longer its walks may be,
   so it takes cases for ended after event 100, or where a declared length ends them before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.budget import Choice, Instead, Means, Need, Pure, Sums
from tracecloak.anonymizers.rigorous.params import drawable
from tracecloak.anonymizers.variants.completed_variants import completed
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.joint_variants import (
    REPEATED,
    JointVariants,
    unseen_stand_out,
)
from tracecloak.anonymizers.variants.privtree import PrivTree
from tracecloak.anonymizers.variants.stable_variants import released, stable_variants
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

_CHOICE = Fraction(3, 100)
# The share of delta for the histogram's threshold. At a delta of 1e-6 a quarter raises the noise of
# `joint-variants` by 1 %, and the threshold by 10 %.
_OF_DELTA = Fraction(1, 4)
# Events of a case in the tree.
_LONGEST_IN_TREE = 100
# If a histogram would miss this share of the cases, the variants that it shows say too little about
# the others.
_MANY_UNSEEN = 0.5
# Scales of the noise that a number must exceed to be more than none: it does so by chance in one
# of fifteen.
_CLEAR = 2


@dataclass(frozen=True)
class SeenAndUnseen:
    """About how many cases are of variants that a histogram would be sure to show, or not.

    Attributes:
        n_seen: Sum over the variants of max(0, count - threshold + 1).
        n_unseen: All others. One case more adds 1 to one of the two, so both together change by
            no more than a count does, which the numbers of cases above and below do not.
    """

    n_seen: int
    n_unseen: int

    @classmethod
    def of(cls, counted: VariantHistogram, threshold: int) -> SeenAndUnseen:
        """Counts exactly."""
        seen = int(np.maximum(counted.counts - (threshold - 1), 0).sum())
        return cls(seen, counted.n_cases - seen)


class AutoVariants(JointVariants):
    """The generator; see the module.

    Where something else of a release gets noise, too, it is `joint-variants` in any case.
    """

    name: ClassVar[str] = "auto-variants"
    summary: ClassVar[str] = "joint-variants, or a histogram or tree where that is likely better"
    reality: ClassVar[str] = (
        f"{JointVariants.reality} Or all of it is done by a PrivTree, or by a histogram of "
        "variants with a threshold, with what the choice between them leaves of epsilon; that "
        "choice is made by two numbers with exact Laplace noise."
    )

    def __init__(self) -> None:
        """Has the tree for logs that are too small for a chain."""
        self._tree = PrivTree()

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what `joint-variants` needs, what the choice, and what is done in its place."""
        joint = super().needs(max_units, max_length)
        names = tuple(need.name for need in joint if isinstance(need, Sums))
        tree = (
            Instead(f"{self.name}/{need.name}", "privtree", need.share, names, need.largest)
            for need in self._tree.needs(max_units, max_length)
            if isinstance(need, Pure)
        )
        cases = Instead(
            *(f"{self.name}/histogram", "variant-histogram", Fraction(1), names),
            delta_share=_OF_DELTA,
        )
        return (Choice(self._choice, _CHOICE), *joint, *tree, cases)

    @property
    def _choice(self) -> str:
        return f"{self.name} choice"

    def explain(self, means: Means, max_units: int) -> str:
        """Returns what it does."""
        joint = super().explain(means, max_units)
        if not self._has_others(means):
            return joint
        histogram = means[f"{self.name}/histogram"]
        least = histogram.threshold(of_one_cell(max_units))
        return (
            f"{joint}; or, where few cases are of variants that would not be seen, releases "
            f"variants of at least {least:,} noisy cases, with Laplace noise, and makes up three "
            "quarters of the others from these; or, where they are most and too few for a chain, "
            f"{self._tree.explain(self._of_tree(means), max_units)}"
        )

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Means, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns the variants of the way that was chosen."""
        if not self._has_others(means):
            return super().answer(counted, domain, means, randomness)
        allowance = means[f"{self.name}/histogram"]
        threshold = allowance.threshold(of_one_cell(domain.max_units))
        about, scale = self._about(counted, threshold, domain, means, randomness)
        n_cases, unseen = about.n_seen + about.n_unseen, max(about.n_unseen, 0)
        least = _CLEAR * scale
        is_clear = n_cases > math.sqrt(2) * least  # it has the noise of both
        for_chain = means[self.name].part(REPEATED.chain)
        if is_clear and unseen_stand_out(unseen, n_cases, domain, for_chain):
            return super().answer(counted, domain, means, randomness)
        # A variant that is seen has cases below the threshold, too, which were counted as unseen.
        of_seen = (threshold - 1) * (about.n_seen > least)
        if not is_clear or unseen - of_seen >= _MANY_UNSEEN * n_cases:
            in_tree = replace(domain, max_length=min(domain.max_length, _LONGEST_IN_TREE))
            return self._tree.answer(counted, in_tree, self._of_tree(means), randomness)
        prefix = f"{self.name}/histogram"
        seen = stable_variants(counted, allowance, domain.max_units, randomness, prefix)
        # The cases below the threshold of each variant that was shown are no longer unseen.
        missing = unseen - (threshold - 1) * seen.n_variants
        if missing > scale:
            seen = completed(seen, threshold, missing, domain, randomness, prefix)
        return released(seen, domain.vocabulary)

    def _of_tree(self, means: Means) -> Means:
        names = (need.name for need in self._tree.needs(1, None))
        return {name: means[f"{self.name}/{name}"] for name in names}

    def _has_others(self, means: Means) -> bool:
        return bool(means[f"{self.name}/histogram"].epsilon)

    def _about(
        self,
        counted: VariantHistogram,
        threshold: int,
        domain: Domain,
        means: Means,
        randomness: Randomness,
    ) -> tuple[SeenAndUnseen, float]:
        """The two numbers with noise, and its scale."""
        scale = laplace_scale(means[self._choice].epsilon, of_one_cell(domain.max_units))
        stream = CellStream(randomness, f"{self.name}/choice", cell_numbers(np.arange(2)))
        exact = SeenAndUnseen.of(counted, threshold)
        both = np.array([exact.n_seen, exact.n_unseen])
        noisy = SeenAndUnseen(*(both + draw_laplace(stream, *drawable(scale))).tolist())
        return noisy, float(Fraction(*drawable(scale)))

"""`auto-variants`: what `joint-variants` does, or a PrivTree where a log is too small for it.

Variants that a histogram would not show are made up by `joint-variants` from a noisy chain. Where
they have so few cases that the arcs of these cases are lost in the chain's noise, what is made up
would be noise. Then all of epsilon is better spent on a tree of prefixes, which stops where cases
get few. A fiftieth of epsilon is for the number of these cases; what is compared with it are public
numbers and the noise that is known beforehand:

A case of l events has l + 1 directly-follows pairs, which the chain counts twice over, so its norm
is about sqrt(2 (l + 1)), and the noise on each pair has a deviation of that times what a norm of 1
needs. Processes have about three pairs for each activity that are not rare, so U cases of n
activities have each of these about U (l + 1) / 3n times. The tree is taken if that is less than two
deviations. For l half of the length is taken at which cases are cut.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_scale, stability_threshold
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.budget import Choice, Instead, Means, Need, Pure, Sums
from tracecloak.anonymizers.rigorous.params import drawable
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.joint_variants import REPEATED, JointVariants
from tracecloak.anonymizers.variants.privtree import PrivTree
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

_CHOICE = Fraction(2, 100)
# Pairs of an activity that are not rare, and deviations that their counts must exceed.
_PAIRS_OF_NAME = 3
_CLEAR = 2.0


class AutoVariants(JointVariants):
    """The generator; see the module.

    Where something else of a release gets noise, too, it is `joint-variants` in any case.
    """

    name: ClassVar[str] = "auto-variants"
    summary: ClassVar[str] = "cases that agree with noisy counts, or of a noisy tree of prefixes"
    reality: ClassVar[str] = (
        f"{JointVariants.reality} Or all of it is done by a PrivTree with what the choice between "
        "them leaves of epsilon; that choice is made by a number with exact Laplace noise."
    )

    def __init__(self) -> None:
        """Has the tree for logs that are too small for a chain."""
        self._tree = PrivTree()

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what `joint-variants` needs, what the choice, and what the tree in its place."""
        joint = super().needs(max_units, max_length)
        names = tuple(need.name for need in joint if isinstance(need, Sums))
        tree = (
            Instead(f"{self.name}/{need.name}", need.share, names, need.largest)
            for need in self._tree.needs(max_units, max_length)
            if isinstance(need, Pure)
        )
        return (Choice(f"{self.name} choice", _CHOICE), *joint, *tree)

    def explain(self, means: Means, max_units: int) -> str:
        """Returns what it does."""
        joint = super().explain(means, max_units)
        if not self._has_tree(means):
            return joint
        return (
            f"{joint}; or, where too few cases are of variants that would not be seen, "
            f"{self._tree.explain(self._of_tree(means), max_units)}"
        )

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Means, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns the variants of the way that was chosen."""
        if self._has_tree(means) and not self._is_clear(counted, domain, means, randomness):
            return self._tree.answer(counted, domain, self._of_tree(means), randomness)
        return super().answer(counted, domain, means, randomness)

    def _of_tree(self, means: Means) -> Means:
        begin = f"{self.name}/"
        return {
            name.removeprefix(begin): own for name, own in means.items() if name.startswith(begin)
        }

    def _has_tree(self, means: Means) -> bool:
        return all(own.epsilon for own in self._of_tree(means).values())

    def _is_clear(
        self, counted: VariantHistogram, domain: Domain, means: Means, randomness: Randomness
    ) -> bool:
        """Whether the arcs of the cases that a histogram would not show stand out of the noise."""
        own, units = means[self.name], domain.max_units
        epsilon = sum((tree.epsilon for tree in self._of_tree(means).values()), Fraction(0))
        least = stability_threshold(epsilon, own.delta, units)
        scale = drawable(laplace_scale(means[f"{self.name} choice"].epsilon, of_one_cell(units)))
        cell = cell_numbers(np.zeros(1, np.int64))
        stream = CellStream(randomness, f"{self.name}/choice", cell)
        n_unseen = unseen_cases(counted, least) + int(draw_laplace(stream, *scale)[0])
        n_steps = domain.max_length / 2 + 1
        occurrences = n_unseen * n_steps / (_PAIRS_OF_NAME * len(domain.vocabulary))
        width = own.part(REPEATED.chain).relative_width * units * math.sqrt(2 * n_steps)
        return occurrences >= _CLEAR * width


def unseen_cases(counted: VariantHistogram, threshold: int) -> int:
    """Returns the number of cases less sum of max(0, count - threshold + 1) over the variants.

    One case more adds 1, or nothing where its variant is above the threshold: a number of
    sensitivity 1, which that of the cases below the threshold is not.
    """
    return counted.n_cases - int(np.maximum(counted.counts - (threshold - 1), 0).sum())

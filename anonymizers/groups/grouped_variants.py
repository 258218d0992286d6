"""`joint-variants` with groups of activities: both levels are measured, and cases agree with both.

A log of 400 activities and 1,000 cases has pairs that occur ten times, and noise of 40 on each. Its
20 groups have pairs that occur a thousand times. So groups are counted as well, with a share of
what the vectors of a case have together (`group_sums`). Where noise hides most activities, walks
follow the groups (`group_chain`); elsewhere groups get little, and walks are as without them. In
both cases proposals are compared with what was counted of groups, too.

Which of the two it is follows from a noisy number of cases and public numbers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

from tracecloak.anonymizers.groups.group_chain import group_chain
from tracecloak.anonymizers.groups.group_sums import GroupSums
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.budget import Allowance, Means, Need, Sums
from tracecloak.anonymizers.rigorous.clips import ranks_need
from tracecloak.anonymizers.rigorous.grouping import Grouping
from tracecloak.anonymizers.rigorous.markov_sums import largest_sums
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.joint_variants import (
    SCATTERED,
    JointVariants,
    Measured,
    noisy_number,
    pair_deviations,
)
from tracecloak.anonymizers.variants.stable_variants import released
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.group_cells import PARTS
from tracecloak.schemas.statistics.variants import VariantHistogram

HIDDEN, CLEAR = Fraction(15, 100), Fraction(3, 100)
"""The share of groups, of what the vectors of a case have together: where noise hides most
activities, and elsewhere."""

_RANKS = Fraction(1, 100)
# Noise hides usual pairs of activities that stand out by fewer deviations than this: a little more
# than what the sum of a pair must have to be taken for more than noise.
_LEAST_DEVIATIONS = 4.0


class GroupedVariants(JointVariants):
    """The generator; see the module."""

    reality: ClassVar[str] = (
        f"{JointVariants.reality} Groups of activities are one more vector of the case, clipped to "
        "a norm that a paid number chooses, with a share of the same budget: what a case changes "
        "of activities and of groups is one sensitivity. Which activity is in which group is "
        "public, or follows from its name."
    )

    def __init__(self, grouping: Grouping) -> None:
        """Keeps how activities are grouped."""
        self.grouping = grouping

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what it needs without groups, and the choice of their clip."""
        ranks = ranks_need(f"{self.name} group ranks", _RANKS, max_units)
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
                    largest=largest_sums(steps, max_units),
                )
            needs.append(need)
        return tuple(needs)

    def explain(self, means: Means, max_units: int) -> str:
        """Returns what it does and the noise to expect, of groups too."""
        whole = means[self.name]
        without = super().explain({**means, self.name: whole.part(1 - HIDDEN)}, max_units)
        width = whole.part(HIDDEN).relative_width * max_units
        return (
            f"{without}; counts groups of activities beside them (noise of a standard deviation of "
            f"{width:.1f} times a clip), with less for them where activities stand out"
        )

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Means, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns cases by the weights that were fitted to both levels."""
        m, whole = domain.max_units, means[self.name]
        number = noisy_number(counted, means, m, self.name, randomness)
        is_hidden = hides_activities(number[0], domain, whole)
        share = HIDDEN if is_hidden else CLEAR
        groups = self.grouping.of(domain.vocabulary)
        of_groups = whole.part(share), means[f"{self.name} group ranks"]
        sums = GroupSums.of(counted, groups, domain, *of_groups, self.name, randomness)
        of_activities = {**means, self.name: whole.part(1 - share)}
        measured = Measured.of(self.name, counted, number, domain, of_activities, randomness)
        follows = is_hidden and not measured.cells.has_whole
        chain = group_chain(measured, sums) if follows else measured.chain_alone()
        drawn = self.drawn(measured, chain, (sums,), domain, randomness)
        sums.note(drawn, domain, randomness)
        return released(drawn, domain.vocabulary)


def hides_activities(n_cases: float, domain: Domain, whole: Allowance) -> bool:
    """Returns whether noise hides usual pairs of activities, as far as public numbers say.

    Args:
        n_cases: About how many cases there are.
        domain: What is public.
        whole: What the vectors of a case may spend together.
    """
    for_chain = whole.part((1 - HIDDEN) * SCATTERED.chain)
    return pair_deviations(max(n_cases, 1.0), domain, for_chain) < _LEAST_DEVIATIONS

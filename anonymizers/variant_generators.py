"""What a generator of variants is: from exact counts to variants that may be published.

A generator is a pure function of the histogram of variants, so its budget, its noise and its error
can be looked at without a log. `anonymizers.variant_log` makes a method of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

from anonymizers.accounting import Spend
from anonymizers.randomness import Randomness
from schemas.released_variants import ReleasedVariants
from schemas.variants import VariantHistogram
from schemas.vocabulary import ActivityVocabulary


@dataclass(frozen=True)
class Domain:
    """What is public of the cases, or paid for, before their variants are looked at.

    Attributes:
        vocabulary: The activities, OTHER among them; every case is made of these.
        max_length: Largest number of events of a case, at least 1.
        max_units: Cases of one unit of privacy: adding or removing it changes the counts of
            variants by at most so many in total.
    """

    vocabulary: ActivityVocabulary
    max_length: int
    max_units: int


class VariantGenerator(Protocol):
    """One way from exact counts of variants to published ones.

    Attributes:
        name: As in the configuration.
        summary: What it does, in a line.
        is_pure: Whether it needs no delta: then it is given 0, and else what is above 0.
        reality: Why its epsilon and delta hold, in sentences.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    is_pure: ClassVar[bool]
    reality: ClassVar[str]

    def spends(self, epsilon: Fraction, delta: Fraction, max_units: int) -> tuple[Spend, ...]:
        """Returns the parts, which add up to epsilon and delta exactly."""
        ...

    def explain(self, epsilon: Fraction, delta: Fraction, max_units: int) -> str:
        """Returns what it does with this budget and the error to expect, in a sentence."""
        ...

    def answer(
        self,
        counted: VariantHistogram,
        domain: Domain,
        epsilon: Fraction,
        delta: Fraction,
        randomness: Randomness,
    ) -> ReleasedVariants:
        """Returns variants with whole numbers of cases; may invent variants of the domain.

        Deterministic given the randomness; never fails on any histogram of the domain.

        Args:
            counted: Exact counts over the codes of `domain.vocabulary`, cases of 1 to
                `domain.max_length` events.
            domain: What is public.
            epsilon: Budget of everything that is drawn here.
            delta: Likewise; 0 if `is_pure`.
            randomness: The release's; every purpose begins with the generator's name.
        """
        ...

"""Generators of variants with a budget of their own, as if nothing else were released."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.budget import Budget, budget_of
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.schemas.arrays.columnar import encode
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram


def budget(
    generator: Any, epsilon: Any, delta: Any, max_units: int = 1, max_length: int | None = None
) -> Budget:
    return budget_of(Fraction(epsilon), Fraction(delta), generator.needs(max_units, max_length))


def spends_of(
    generator: Any, epsilon: Any, delta: Any, max_units: int = 1, max_length: int | None = None
) -> tuple[Spend, ...]:
    return budget(generator, epsilon, delta, max_units, max_length).spends()


def explanation_of(
    generator: Any, epsilon: Any, delta: Any, max_units: int = 1, max_length: int | None = None
) -> str:
    means = budget(generator, epsilon, delta, max_units, max_length).means
    return str(generator.explain(means, max_units))


def answer_of(
    generator: Any,
    counted: VariantHistogram,
    domain: Domain,
    epsilon: Any,
    delta: Any,
    randomness: Randomness,
) -> ReleasedVariants:
    means = budget(generator, epsilon, delta, domain.max_units, domain.max_length).means
    made: ReleasedVariants = generator.answer(counted, domain, means, randomness)
    if generator.keeps_rows:  # what is kept of parts is enough
        kept = [generator.keep(part, domain, means, randomness) for _, part in counted.split(3)]
        again = generator.answer(VariantHistogram.merge(kept), domain, means, randomness)
        assert encode(again) == encode(made)
    return made

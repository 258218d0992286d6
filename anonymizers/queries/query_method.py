"""A published query as a method of parts: as the paper has it, or with an honest budget.

The noise of a part is made for what its needs say that a unit changes. As published that is what
the papers take it for, and another epsilon holds, or none; with an honest budget it is what a unit
really changes, and all that is said follows from the parts as for every rigorous method.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any, ClassVar

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.rigorous.budget import Budget
from tracecloak.anonymizers.rigorous.parts_method import PartsMethod
from tracecloak.schemas.published.guarantee import Guarantee, Kind, at_most


def published_guarantee(
    params: Any, claim: str, reality: str, epsilon: Fraction | None, *not_covered: str
) -> Guarantee:
    """Returns the promise of a published query: the claim beside the epsilon that really holds.

    Args:
        params: The method's parameters.
        claim: The paper's.
        reality: Why it is not what holds, in sentences.
        epsilon: What holds for the whole release, or None.
        not_covered: What is not covered, beside cases that depend on each other.
    """
    people = "A person with several cases is protected case by case."
    is_case = params.max_cases_per_individual is None
    return Guarantee(
        kind="published",
        unit="case" if is_case else "individual",
        adjacency="add_remove",
        epsilon=None if epsilon is None else float(epsilon),
        delta=None if epsilon is None else 0.0,
        claim=claim,
        reality=reality,
        not_covered=(
            *not_covered,
            *((people,) if is_case else ()),
            "Releases of the same cases add up: so do their epsilons.",
        ),
    )


class QueryMethod(PartsMethod):
    """The part of a published query's method that does not depend on which query it is.

    Its parameters say by `is_honest` which of the two budgets they have, and by `spending` what
    their needs may spend.
    """

    guarantee_kind: ClassVar[Kind] = "published"

    @abstractmethod
    def spends_as_published(self, params: Any) -> tuple[Spend, ...]:
        """Returns what really holds without an honest budget; none where no epsilon is finite."""

    @abstractmethod
    def guarantee_as_published(self, params: Any) -> Guarantee:
        """Returns the paper's claim and what is true of it."""

    def budget(self, params: Any) -> Budget:
        """Returns what each need has: as published, what the paper says that it spends."""
        budget: Budget = params.spending
        return budget

    def moves_by_case(self, params: Any) -> bool:
        """Returns whether the budget is honest: then nothing is chosen but by noisy counts."""
        return bool(params.is_honest)

    def spends(self, params: Any) -> tuple[Spend, ...]:
        """Returns the parts of the epsilon that holds, if a finite one does.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        spends = super().spends(params)
        return spends if params.is_honest else self.spends_as_published(params)

    def guarantee(self, params: Any) -> Guarantee:
        """Returns the promise of the honest form, or the published claim and what is true of it."""
        return (
            super().guarantee(params) if params.is_honest else self.guarantee_as_published(params)
        )

    def explain(self, params: Any) -> tuple[str, ...]:
        """Returns what each part does, the error to expect, and what is spent."""
        if params.is_honest:
            return super().explain(params)
        means, spends = self.budget(params).means, self.spends(params)
        holds = "no finite one holds"
        if spends:
            holds = f"{at_most(sum((spend.epsilon for spend in spends), Fraction(0)))} holds"
        cost = f"epsilon {decimal_text(Fraction(params.epsilon))} as published, and {holds}"
        return tuple(f"{p.name}: {p.sentence(means)}; {cost}" for p in self.parts(params))

"""`laplace-variants`: the Laplace trace-variant query of Mannhardt et al., as published or honest.

Mannhardt, Koschmider, Baracaldo, Weidlich and Michael ("Privacy-Preserving Process Mining", 2019),
the baseline of Fahrenkrog-Petersen et al. ("Semantics-aware Mechanisms for Control-flow
Anonymization in Process Mining", 2023): level by level the number of cases of every continuation of
a surviving prefix, with noise; those below `p_harmful` are pruned. See
`anonymizers.queries.prefix_query`.

As published each level has all of epsilon, so k levels cost k epsilon; and the activities are the
log's own, so that no epsilon is finite. The budget `honest` divides epsilon among the levels and
takes a public vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from pydantic import Field

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.contract.counters import variants_and_names
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM
from tracecloak.anonymizers.queries.prefix_method import (
    Form,
    LevelMethod,
    LevelParams,
    chance_of_nothing,
    decision_of,
    epsilon_in_all,
    half_width_of,
    names_of,
    published_guarantee,
    text_of,
)
from tracecloak.anonymizers.queries.prefix_query import LevelQuery, trace_variant_query
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.variants.generator import VariantsDecision
from tracecloak.schemas.published.guarantee import Guarantee


class LaplaceVariantsParams(LevelParams):
    """Parameters of `laplace-variants`."""

    p_harmful: int = Field(ge=1, le=LARGEST_TERM)
    """Smallest noisy count that is not pruned, in cases; higher loses more, lower invents more."""

    @property
    def form(self) -> Form:
        """The law of the noise."""
        reference = self.profile == "reference" and not self.is_honest
        return "truncated" if reference else "discrete"

    @property
    def query(self) -> LevelQuery:
        """The query of the prefixes, level by level."""
        return self.level_query(self.form, self.p_harmful, named="p_harmful")


class LaplaceVariants(LevelMethod):
    """The method; see the module."""

    name: ClassVar[str] = "laplace-variants"
    version: ClassVar[int] = 2
    summary: ClassVar[str] = "noisy counts of prefixes, level by level"
    Params: ClassVar[type[LaplaceVariantsParams]] = LaplaceVariantsParams
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"epsilon": "1", "max_prefix_length": 5, "p_harmful": 4},
        {"epsilon": "1", "max_prefix_length": 3, "p_harmful": 4, "vocabulary": ("A", "B", "C")},
        {
            "epsilon": "4",
            "max_prefix_length": 4,
            "p_harmful": 5,
            "vocabulary": ("A", "B", "C"),
            "budget": "honest",
        },
        {
            "epsilon": "4",
            "max_prefix_length": 3,
            "p_harmful": 8,
            "vocabulary": ("A", "B"),
            "budget": "honest",
            "max_cases_per_individual": 2,
        },
    )

    def parts(self, params: LaplaceVariantsParams) -> tuple[Part, ...]:
        """Returns the one part, all levels."""
        k, scale = params.max_prefix_length, float(Fraction(*params.scale))
        passing = chance_of_nothing(params, params.p_harmful)
        sentence = (
            f"counts the cases of prefixes on {k} levels, with noise of scale {scale:.4g}, and "
            f"continues those of at least {params.p_harmful}; a candidate without cases survives "
            f"with probability {passing:.2g}"
        )
        reality = (
            f"A case is in one candidate of each of the {k} levels; exact discrete Laplace noise "
            f"of scale {scale:g} on every candidate covers all levels together with epsilon. Which "
            "prefixes are continued follows from noisy counts and public numbers alone."
        )

        def decide(given: Given) -> VariantsDecision:
            vocabulary = names_of(given.statistics, params)
            variants, n_names = given.statistics["variants"], len(vocabulary)
            counts = trace_variant_query(
                variants, n_names, params.query, given.randomness, self.name
            )
            return decision_of(counts, vocabulary, params, half_width_of(params))

        counters = variants_and_names()
        needs = params.needs
        return (
            Part("variants", needs, lambda means: sentence, decide, counters, "variants", reality),
        )

    def spends_as_published(self, params: LaplaceVariantsParams) -> tuple[Spend, ...]:
        """Returns the levels, where their epsilon is finite."""
        if params.vocabulary is None:
            return ()
        return (Spend("levels", "pure", epsilon_in_all(params, params.form), Fraction(0)),)

    def guarantee_as_published(self, params: LaplaceVariantsParams) -> Guarantee:
        """Returns the published claim and what holds."""
        k = params.max_prefix_length
        in_all = epsilon_in_all(params, params.form)
        why = (
            f"A case is in one candidate of each of the {k} levels, each of which has all of "
            "epsilon, so the levels cost "
            + (
                f"{k} times epsilon plus ln 2 for every count that a unit changes, as the noise is "
                "cut off towards 0"
                if params.form == "truncated"
                else f"{k} times epsilon"
            )
            + f": {text_of(in_all)} in all."
        )
        no_epsilon = (
            "No finite epsilon holds: the activities are read from the log, so one that only one "
            "case has proves that case's presence when it comes out. Were they public: "
        )
        is_finite = params.vocabulary is not None
        return published_guarantee(
            params,
            f"epsilon = {decimal_text(Fraction(params.epsilon))}, by Laplace noise of scale "
            "1/epsilon on every count.",
            why if is_finite else no_epsilon + why[0].lower() + why[1:],
            in_all if is_finite else None,
            "A pruning threshold that is chosen until the result looks right, as published, tells "
            "of the log.",
        )

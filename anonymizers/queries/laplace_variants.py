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

from tracecloak.anonymizers.accounting.by_case import divides_by_case
from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import CollectNames, CountVariants
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.published import truncated_laplace
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM
from tracecloak.anonymizers.queries.prefix_method import (
    Form,
    LevelMethod,
    LevelParams,
    chance_of_nothing,
    cost_of,
    decision_of,
    epsilon_in_all,
    half_width_of,
    honest_guarantee,
    names_of,
    published_guarantee,
    text_of,
)
from tracecloak.anonymizers.queries.prefix_query import LevelQuery, trace_variant_query
from tracecloak.anonymizers.variants.generator import VariantsDecision
from tracecloak.schemas.published.guarantee import Guarantee, Kind


class LaplaceVariantsParams(LevelParams):
    """Parameters of `laplace-variants`."""

    p_harmful: int = Field(ge=1, le=LARGEST_TERM)
    """Smallest noisy count that is not pruned, in cases; higher loses more, lower invents more."""

    @property
    def form(self) -> Form:
        """The law of the noise."""
        reference = self.profile == "reference" and self.budget == "published"
        return "truncated" if reference else "discrete"

    @property
    def query(self) -> LevelQuery:
        """What is asked."""
        prunes_all = self.profile == "paper"
        return LevelQuery(
            self.max_prefix_length,
            self.scale,
            self.p_harmful,
            prunes_ended=prunes_all,
            prunes_last=prunes_all,
            when_full=self.when_full,
            draw=truncated_laplace if self.form == "truncated" else draw_laplace,
            named="p_harmful",
        )


class LaplaceVariants(LevelMethod):
    """The method; see the module."""

    name: ClassVar[str] = "laplace-variants"
    summary: ClassVar[str] = "noisy counts of prefixes, level by level"
    guarantee_kind: ClassVar[Kind] = "published"
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

    def rounds(self, params: LaplaceVariantsParams) -> tuple[str, ...]:
        """Returns the one round."""
        return ("variants",)

    def spends(self, params: LaplaceVariantsParams) -> tuple[Spend, ...]:
        """Returns the levels, where their epsilon is finite."""
        if params.vocabulary is None:
            return ()
        epsilon = Fraction(params.epsilon)
        if params.budget == "published":
            epsilon = epsilon_in_all(params, params.form)
        return (Spend("levels", "pure", epsilon, Fraction(0)),)

    def shares_by_case(self, params: LaplaceVariantsParams) -> bool:
        """Returns whether j of m cases cost at most j/m of what is paid.

        Only with an honest budget, under which nothing is chosen on the log but by noisy counts: a
        case is in one candidate of each level.
        """
        return params.budget == "honest" and divides_by_case(self.spends(params))

    def guarantee(self, params: LaplaceVariantsParams) -> Guarantee:
        """Returns the promise: the published claim and what holds, or the honest epsilon."""
        k = params.max_prefix_length
        if params.budget == "honest":
            return honest_guarantee(
                params,
                self.spends(params),
                f"A case is in one candidate of each of the {k} levels; exact discrete Laplace "
                f"noise of scale {float(Fraction(*params.scale)):g} on every candidate covers all "
                "levels together with epsilon. Which prefixes are continued follows from noisy "
                "counts and public numbers alone.",
            )
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

    def explain(self, params: LaplaceVariantsParams) -> tuple[str, ...]:
        """Returns what the round does, what it costs and what to expect."""
        passing = chance_of_nothing(params, params.p_harmful)
        width = float(Fraction(*params.scale))
        return (
            f"variants: counts the cases of prefixes on {params.max_prefix_length} levels, with "
            f"noise of scale {width:.4g}, and continues those of at least {params.p_harmful}; a "
            f"candidate without cases survives with probability {passing:.2g}; "
            + cost_of(self, params),
        )

    def requires(
        self, round_name: str, params: LaplaceVariantsParams
    ) -> Mapping[str, contract.Counter]:
        """Returns the counters."""
        return {"variants": CountVariants(), "names": CollectNames()}

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: LaplaceVariantsParams,
        randomness: Randomness,
    ) -> VariantsDecision:
        """Asks level by level.

        Raises:
            UsageError: As published, a level has too many candidates, or the release too many
                events.
        """
        vocabulary = names_of(statistics, params)
        found = trace_variant_query(
            statistics["variants"], len(vocabulary), params.query, randomness, self.name
        )
        return decision_of(found, vocabulary, params, half_width_of(params))

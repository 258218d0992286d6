"""`laplace-dfg`: the directly-follows graph with Laplace noise on every pair, as published.

The directly-follows query of Mannhardt, Koschmider, Baracaldo, Weidlich and Michael
("Privacy-Preserving Process Mining", 2019): noise of scale 1 / epsilon on the count of each pair of
activities, START and END included; what is negative becomes 0. No pair comes before START, after
END, or leads from START to END. Nothing is done about small counts, most of which are noise, nor
about flows that do not add up; `private-dfg` does both.

With `budget` honest the same query keeps epsilon: it is divided by the pairs that a case of at most
`max_trace_length` events has, and the noise is discrete Laplace (Ghosh, Roughgarden and
Sundararajan, 2009).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from tracecloak.anonymizers.accounting.by_case import divides_by_case
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.counters import CollectNames
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.queries.pair_query import (
    DfgDecision,
    PairCounts,
    PairQueryParams,
    Pairs,
    clipped_graph,
    honest_guarantee,
    laplace_query,
    noise_of,
    published_guarantee,
)
from tracecloak.schemas.published.guarantee import Guarantee, Kind
from tracecloak.schemas.published.manifest import Operation


class LaplaceDfg(contract.Anonymizer):
    """The method; see the module."""

    name: ClassVar[str] = "laplace-dfg"
    summary: ClassVar[str] = "directly-follows graph with Laplace noise on each pair"
    guarantee_kind: ClassVar[Kind] = "published"
    log: ClassVar[Literal["none"]] = "none"
    Params: ClassVar[type[PairQueryParams]] = PairQueryParams
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("condensation", "event", "concept:name"),
    )
    exact_noise: ClassVar[bool] = True
    has_error_bars: ClassVar[bool] = True
    sums: ClassVar[Literal["none", "released", "pairs", "cells"]] = "pairs"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"epsilon": "1"},
        {"epsilon": "1", "vocabulary": ("A", "B", "C"), "max_trace_length": 4},
        {"epsilon": "1", "profile": "paper", "vocabulary": ("A", "B"), "max_trace_length": 3},
        {
            "epsilon": "2",
            "vocabulary": ("A", "B"),
            "max_trace_length": 3,
            "max_cases_per_individual": 2,
        },
        {"epsilon": "2", "budget": "honest", "vocabulary": ("A", "B"), "max_trace_length": 3},
    )

    def bounds(self, params: PairQueryParams) -> ContributionBounds:
        """Returns the public caps."""
        return params.bounds

    def rounds(self, params: PairQueryParams) -> tuple[str, ...]:
        """Returns the one round."""
        return ("pairs",)

    def spends(self, params: PairQueryParams) -> tuple[Spend, ...]:
        """Returns the one part, the counts, if a finite epsilon holds.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        return params.spends

    def shares_by_case(self, params: PairQueryParams) -> bool:
        """Returns whether j of m cases cost at most j/m of what is paid.

        Only with an honest budget, under which nothing is chosen on the log but by noisy counts: a
        case is in at most max_trace_length + 1 pairs.
        """
        return params.is_honest and divides_by_case(self.spends(params))

    def guarantee(self, params: PairQueryParams) -> Guarantee:
        """Returns the promise of the honest form, or the published claim and what is true of it."""
        if params.is_honest:
            return honest_guarantee(params, "What is negative becomes 0 afterwards.")
        return published_guarantee(params, params.why_more)

    def explain(self, params: PairQueryParams) -> tuple[str, ...]:
        """Returns what the round does, the error to expect and what it costs."""
        return (
            f"pairs: counts directly-follows pairs, adds {params.noise_text} to every possible "
            "one, and releases those above 0; expect each count within "
            f"{noise_of(params).half_width} of what is counted (95 %); {params.cost_text}",
        )

    def requires(self, round_name: str, params: PairQueryParams) -> Mapping[str, contract.Counter]:
        """Returns the counters."""
        return {"pairs": Pairs(), "names": CollectNames()}

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: PairQueryParams,
        randomness: Randomness,
    ) -> DfgDecision:
        """Adds the noise.

        Raises:
            UsageError: The log has so many names that noise on every pair cannot be drawn.
        """
        pairs = PairCounts.of(statistics["pairs"], statistics["names"], params)
        noisy = laplace_query(pairs, params, randomness, self.name)
        words = pairs.vocabulary
        return DfgDecision(clipped_graph(noisy, pairs.domain, words, noise_of(params)))

    def writes(self, params: PairQueryParams) -> tuple[str, ...]:
        """Returns the name of the product."""
        return ("dfg",)

    def products(self, decisions: contract.Decisions, params: PairQueryParams) -> contract.Products:
        """Returns the graph."""
        return contract.Products({"dfg": decisions["pairs"].graph})

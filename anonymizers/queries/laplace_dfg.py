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
from typing import Any, ClassVar

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import CollectNames
from tracecloak.anonymizers.queries.pair_query import (
    DfgDecision,
    PairCounts,
    PairQueryMethod,
    PairQueryParams,
    Pairs,
    clipped_graph,
    honest_reality,
    laplace_query,
    noise_of,
)
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.schemas.published.manifest import CONDENSED, Operation


class LaplaceDfg(PairQueryMethod):
    """The method; see the module."""

    name: ClassVar[str] = "laplace-dfg"
    summary: ClassVar[str] = "directly-follows graph with Laplace noise on each pair"
    Params: ClassVar[type[PairQueryParams]] = PairQueryParams
    operations: ClassVar[tuple[Operation, ...]] = (CONDENSED,)
    has_error_bars: ClassVar[bool] = True
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

    def parts(self, params: PairQueryParams) -> tuple[Part, ...]:
        """Returns the one part, the counts of pairs."""
        sentence = (
            f"counts directly-follows pairs, adds {params.noise_text} to every possible one, and "
            f"releases those above 0; expect each count within {noise_of(params).half_width} of "
            "what is counted (95 %)"
        )

        def decide(given: Given) -> DfgDecision:
            pairs = PairCounts.of(given.statistics["pairs"], given.statistics["names"], params)
            noisy = laplace_query(pairs, params, given.randomness, self.name)
            words = pairs.vocabulary
            return DfgDecision(clipped_graph(noisy, pairs.domain, words, noise_of(params)))

        counters: dict[str, contract.Counter] = {"pairs": Pairs(), "names": CollectNames()}
        reality = honest_reality(params, "What is negative becomes 0 afterwards.")
        needs = params.needs
        return (Part("pairs", needs, lambda means: sentence, decide, counters, "pairs", reality),)

    def writes(self, params: PairQueryParams) -> tuple[str, ...]:
        """Returns the name of the product."""
        return ("dfg",)

    def products(self, decisions: contract.Decisions, params: PairQueryParams) -> contract.Products:
        """Returns the graph."""
        return contract.Products({"dfg": decisions["pairs"].graph})

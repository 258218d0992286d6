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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from anonymizers import base
from anonymizers.accounting import Spend
from anonymizers.bounding import ContributionBounds
from anonymizers.counters import CollectNames
from anonymizers.noisy_graph import SumNoise
from anonymizers.pair_query import (
    PairCounts,
    PairQueryParams,
    Pairs,
    laplace_query,
    noise_of,
)
from anonymizers.randomness import Randomness
from anonymizers.rigorous import guarantee_of
from schemas.guarantee import Guarantee
from schemas.release import Operation
from schemas.released_graph import ReleasedGraph
from schemas.vocabulary import ActivityVocabulary


@dataclass(frozen=True)
class DfgDecision(base.Decision):
    """What is released.

    Attributes:
        graph: The directly-follows graph.
    """

    graph: ReleasedGraph


def clipped_graph(
    noisy: np.ndarray,
    domain: np.ndarray,
    vocabulary: ActivityVocabulary,
    borders_us: None,
    noise: SumNoise,
) -> tuple[ReleasedGraph, None]:
    """Returns the graph of the counts above 0, and no durations.

    Args:
        noisy: int64[n_pairs], counts with noise.
        domain: int64[n_pairs], ascending: the pairs, `source * (end + 1) + target`.
        vocabulary: What the codes mean.
        borders_us: None: pairs have no durations.
        noise: What was added to each count, which the intervals are made of.
    """
    kept = np.flatnonzero(noisy > 0)
    counts, n_codes = noisy[kept], vocabulary.end + 1
    graph = ReleasedGraph(
        vocabulary.names,
        (domain[kept] // n_codes).astype(np.int32),
        (domain[kept] % n_codes).astype(np.int32),
        counts,
        np.maximum(counts - noise.half_width, 0),
        counts + noise.half_width,
    )
    return graph, None


class LaplaceDfg(base.Anonymizer):
    """The method; see the module."""

    name: ClassVar[str] = "laplace-dfg"
    summary: ClassVar[str] = "directly-follows graph with Laplace noise on each pair (published)"
    log: ClassVar[Literal["none"]] = "none"
    Params: ClassVar[type[PairQueryParams]] = PairQueryParams
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("condensation", "event", "concept:name"),
    )
    exact_noise: ClassVar[bool] = True
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

    # Audits look at the noisy counts before they are made a graph.
    publish: Callable[..., Any] = staticmethod(clipped_graph)

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
            f"{noise_of(params).half_width} of the truth (95 %); {params.cost_text}",
        )

    def requires(self, round_name: str, params: PairQueryParams) -> Mapping[str, base.Counter]:
        """Returns the counters."""
        return {"pairs": Pairs(), "names": CollectNames()}

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: base.Decisions,
        params: PairQueryParams,
        randomness: Randomness,
    ) -> DfgDecision:
        """Adds the noise.

        Raises:
            UsageError: The log has so many names that noise on every pair cannot be drawn.
        """
        pairs = PairCounts.of(statistics["pairs"], statistics["names"], params)
        noisy = laplace_query(pairs, params, randomness, self.name)
        graph, _ = self.publish(noisy, pairs.domain, pairs.vocabulary, None, noise_of(params))
        return DfgDecision(graph)

    def writes(self, params: PairQueryParams) -> tuple[str, ...]:
        """Returns the name of the product."""
        return ("dfg",)

    def products(self, decisions: base.Decisions, params: PairQueryParams) -> base.Products:
        """Returns the graph."""
        return base.Products({"dfg": decisions["pairs"].graph})


def honest_guarantee(params: PairQueryParams, afterwards: str) -> Guarantee:
    """Returns the promise of a query with its epsilon divided.

    Args:
        params: The method's parameters.
        afterwards: What becomes of the noisy counts, in a sentence.
    """
    whose = "One case of at most {} events changes"
    if params.max_units > 1:
        whose = f"{params.max_units} cases of one individual, each of at most {{}} events, change"
    return guarantee_of(
        params,  # type: ignore[arg-type]  # of which it asks for the unit alone
        params.spends,
        f"{whose.format(params.max_trace_length)} the counts of directly-follows pairs by at most "
        f"{params.max_pairs} in total; exact discrete Laplace noise of scale "
        f"{noise_of(params).width:.6g} on every possible pair of the public activities covers it. "
        f"{afterwards}",
        "The names of the vocabulary and the length are taken to be public.",
    )


def published_guarantee(params: PairQueryParams, reality: str) -> Guarantee:
    """Returns the published claim beside the epsilon that holds, if a finite one does.

    Args:
        params: The method's parameters.
        reality: Why the claim is not what holds, in sentences.
    """
    epsilon = params.real_epsilon
    not_covered = []
    if params.vocabulary is None:
        not_covered.append("The activity names are the input's own, so a new one is seen for sure.")
    if params.max_trace_length is None:
        not_covered.append("The length of cases is not bounded.")
    if params.max_cases_per_individual is None:
        not_covered.append("A person with several cases is protected case by case.")
    not_covered.append("Releases of the same cases add up: so do their epsilons.")
    return Guarantee(
        kind="published",
        unit="case" if params.max_cases_per_individual is None else "individual",
        adjacency="add_remove",
        epsilon=None if epsilon is None else float(epsilon),
        delta=None if epsilon is None else 0.0,
        claim=params.claim,
        reality=reality,
        not_covered=tuple(not_covered),
    )

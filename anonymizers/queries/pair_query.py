"""Published queries as methods, and the directly-follows query."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_count, of_directly_follows
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import CollectNames, from_traces
from tracecloak.anonymizers.contract.method import NamesParams
from tracecloak.anonymizers.contract.sentences import sentence, told
from tracecloak.anonymizers.noise.published import truncated_laplace
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream, draw_laplace
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.budget import Allowance, Budget, Need, Sums, budget_of
from tracecloak.anonymizers.rigorous.names import (
    excess_of_names,
    most_names_of_pairs,
    possible_pairs,
)
from tracecloak.anonymizers.rigorous.params import Exact, published_guarantee
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, PartsMethod
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.manifest import Guarantee, at_most
from tracecloak.schemas.statistics.variants import DirectlyFollows

# --- A published query as a method of parts: as the paper has it, or with an honest budget. -------
# The noise of a part is made for what its needs say that a unit changes. As published that is
# what the papers take it for, and another epsilon holds, or none; with an honest budget it is
# what a unit really changes, and all that is said follows from the parts as for every rigorous
# method.


class QueryParams(NamesParams):
    """What parameters of published queries have in common: either of two budgets of an epsilon.

    Each has `epsilon` and `budget`, in `needs` what is paid for, the counts last, in `changed` what
    their noise is made for: what a unit really changes, or what the paper has; and in
    `spends_as_published` what really holds without an honest budget, none where no epsilon does.
    """

    @property
    def is_honest(self: Any) -> bool:
        """Whether epsilon is that of the whole release."""
        return bool(self.budget == "honest")

    @property
    def spending(self: Any) -> Budget:
        """What each need may spend of epsilon; as published, what the paper says that it spends."""
        return budget_of(Fraction(self.epsilon), Fraction(0), self.needs)

    @property
    def scale(self: Any) -> tuple[int, int]:
        """(numerator, denominator) of the scale of the noise on each count.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        allowance: Allowance = self.spending.means[self.needs[-1].name]
        return allowance.noise(self.changed).scale


class QueryMethod(PartsMethod):
    """The part of a published query's method that does not depend on which query it is.

    Its parameters are `QueryParams`.
    """

    @abstractmethod
    def guarantee_as_published(self, params: Any) -> Guarantee:
        """Returns the paper's claim and what is true of it."""

    def budget(self, params: Any) -> Budget:
        """Returns what each need has: as published, what the paper says that it spends."""
        budget: Budget = params.spending
        return budget

    def moves_by_case(self, params: QueryParams) -> bool:
        """Returns whether the budget is honest: then nothing is chosen but by noisy counts."""
        return params.is_honest

    def spends(self, params: Any) -> tuple[Spend, ...]:
        """Returns the parts of the epsilon that holds, if a finite one does.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        spends = super().spends(params)
        return spends if params.is_honest else params.spends_as_published

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


# --- What directly-follows queries have in common: parameters, counts, noise, and what it costs. --
# Mannhardt, Koschmider, Baracaldo, Weidlich and Michael ("Privacy-Preserving Process Mining",
# 2019) add Laplace noise of scale 1 / epsilon to the count of each pair of activities, as if a
# case were in one of them. It is in as many as it has events, and one more. With `budget` honest,
# epsilon is that of a whole case, or of all cases of an individual.
#
# Two profiles: `paper` takes exact discrete Laplace noise, as the papers do not say how counts
# with Laplace noise stay whole. `reference` cuts the noise off towards 0, as the authors' code
# does.
#
# `laplace-dfg`: the directly-follows graph with Laplace noise on every pair, as published.
#
# The directly-follows query of Mannhardt, Koschmider, Baracaldo, Weidlich and Michael
# ("Privacy-Preserving Process Mining", 2019): noise of scale 1 / epsilon on the count of each
# pair of activities, START and END included; what is negative becomes 0. No pair comes before
# START, after END, or leads from START to END. Nothing is done about small counts, most of which
# are noise, nor about flows that do not add up; `private-dfg` does both.
#
# With `budget` honest the same query keeps epsilon: it is divided by the pairs that a case of at
# most `max_trace_length` events has, and the noise is discrete Laplace (Ghosh, Roughgarden and
# Sundararajan, 2009).


# ln 2 = 0.693147…, rounded up.
_LN_2 = Fraction(693_148, 10**6)


class PairQueryParams(QueryParams):
    """Parameters of the methods that ask for directly-follows pairs."""

    epsilon: Exact = Field(gt=0, le=1000)
    """As published, the epsilon of the count of one pair; with budget honest, that of the whole
    release. A decimal above 0; smaller protects more and errs more."""
    budget: Literal["published", "honest"] = "published"
    """published spends epsilon on every pair anew, as the paper has it; honest divides it by the
    pairs that a case can have, so that it holds for the whole release. Noise grows as much."""
    profile: Literal["paper", "reference"] = "reference"
    """reference: noise that is cut off towards 0, as the authors' code has it, which costs more.
    paper: exact discrete Laplace noise. With budget honest it is always the latter."""
    max_trace_length: int | None = Field(default=None, ge=1)
    """Events of a case that count; what comes later is cut off. Public. Without it a case can have
    any number of pairs, and no finite epsilon holds."""
    max_cases_per_individual: int | None = Field(default=None, ge=1, le=1000)
    """Cases of one individual that count, a random choice of them; epsilon is divided by it. Makes
    the individual the unit of privacy. By default 1 if individual_id is mapped; if it is not, the
    unit is the case."""

    @pydantic.model_validator(mode="after")
    def _check_public(self) -> PairQueryParams:
        if self.is_honest and (self.vocabulary is None or self.max_trace_length is None):
            raise ValueError(
                "budget honest needs a public vocabulary and a public max_trace_length: without "
                "them there is nothing finite to divide epsilon by"
            )
        if excess := excess_of_names(self.n_words, most_names_of_pairs(1)):
            raise ValueError(excess)
        return self

    @property
    def is_cut_off(self) -> bool:
        """Whether noise loses its decimals towards 0."""
        return self.profile == "reference" and not self.is_honest

    @property
    def max_pairs(self) -> int | None:
        """Pairs that one unit of privacy can have, or None: any number."""
        if self.max_trace_length is None:
            return None
        return int(of_directly_follows(self.max_trace_length, self.max_units).l1)

    @property
    def changed(self) -> Sensitivity:
        """What the noise is made for: the pairs of a unit, or as published, one of each case."""
        if not self.is_honest:
            return of_count(self.max_units)
        assert self.max_trace_length is not None  # without it the parameters are refused
        return of_directly_follows(self.max_trace_length, self.max_units)

    @property
    def needs(self) -> tuple[Need, ...]:
        """What the counts of pairs have to spend."""
        return (Sums("pairs", Fraction(1), self.changed),)

    @property
    def spends_as_published(self) -> tuple[Spend, ...]:
        """What holds as published, where noise is on every pair; none: no finite epsilon.

        The counts of a unit's pairs change by `max_pairs` in total, and each that changes costs
        ln 2 more where the noise is cut off towards 0.
        """
        most, n_names, nothing = self.max_pairs, self.n_words, Fraction(0)
        if n_names is None or most is None:
            return ()
        epsilon = Fraction(self.epsilon) / self.max_units * most
        if not self.is_cut_off:
            return (Spend("pairs", "discrete_laplace", epsilon, nothing, self.scale, most),)
        # A case has one pair with START and one with END.
        n_distinct = n_names**2 + 2 * min(n_names, self.max_units)
        return (Spend("pairs", "pure", epsilon + min(most, n_distinct) * _LN_2, nothing),)


def pairs_and_names() -> dict[str, contract.Counter]:
    """Returns the counters: occurrences of directly-follows pairs, and the names."""
    return {"pairs": from_traces(DirectlyFollows), "names": CollectNames()}


class PairCounts:
    """Counts of all possible pairs.

    Attributes:
        vocabulary: The activities.
        domain: int64[n_pairs], ascending, `source * (end + 1) + target`.
        counts: int64[n_pairs], exact.
        sources: int64[n_pairs], codes of the earlier activities, or START.
        targets: int64[n_pairs], codes of the later activities, or END.
    """

    def __init__(
        self, counted: DirectlyFollows, names: ActivityVocabulary, params: PairQueryParams
    ) -> None:
        """Puts counts into the domain of a public vocabulary, or of the log's names.

        Raises:
            UsageError: The log has so many names that noise on every pair cannot be drawn.
        """
        # Where names are public, the log has the same ones unless it is empty.
        self.vocabulary = params.names_in_effect(names)
        self.domain, side = possible_pairs(self.vocabulary, 1), self.vocabulary.end + 1
        self.sources, self.targets = np.divmod(self.domain, side)
        self.counts = np.zeros(len(self.domain), np.int64)
        keys = counted.sources.astype(np.int64) * side + counted.targets
        self.counts[np.searchsorted(self.domain, keys)] = counted.counts


def laplace_query(
    pairs: PairCounts, params: PairQueryParams, randomness: Randomness, name: str
) -> np.ndarray:
    """Returns int64[n_pairs], the counts with noise, negative ones too.

    The noise is discrete Laplace, or that of the Laplace distribution without its decimals, see the
    module. Both are drawn exactly.

    Args:
        pairs: The counts.
        params: The method's parameters.
        randomness: The release's.
        name: What the purpose begins with.
    """
    draw = truncated_laplace if params.is_cut_off else draw_laplace
    stream = CellStream(randomness, f"{name}/pair", cell_numbers(pairs.domain))
    noisy = pairs.counts + draw(stream, *params.scale)
    names = pairs.vocabulary.names
    randomness.noise.made(f"{name}/pair", pairs.domain, noisy, noise_of(params), names)
    return noisy


def noise_of(params: PairQueryParams) -> SumNoise:
    """Returns what is public of the noise."""
    return SumNoise(params.scale, 1, is_laplace=True)


class DfgDecision(contract.Decision, wire_name="pair-graph"):
    """What is released.

    Attributes:
        graph: The directly-follows graph.
    """

    graph: ReleasedGraph


def honest_reality(params: PairQueryParams) -> str:
    """Returns why a query with its epsilon divided keeps it; empty as published."""
    if not params.is_honest:
        return ""
    return sentence("pair-query", "honest", params, noise=noise_of(params))


class PairQueryMethod(QueryMethod):
    """The part of a directly-follows query's method that does not depend on what it releases."""

    sums: ClassVar[Literal["none", "released", "pairs", "cells"]] = "pairs"

    def guarantee_as_published(self, params: PairQueryParams) -> Guarantee:
        """Returns the published claim beside the epsilon that holds, if a finite one does."""
        epsilon = next((spend.epsilon for spend in params.spends_as_published), None)
        each = Fraction(params.epsilon) / params.max_units
        return published_guarantee("pair-query", params, epsilon, each=each)

    def not_covered(self, params: PairQueryParams) -> tuple[str, ...]:
        """Returns what the honest form does not cover."""
        return ("The names of the vocabulary and the length are taken to be public.",)


class LaplaceDfg(PairQueryMethod, name="laplace-dfg"):
    """The method; see the module."""

    Params: ClassVar[type[PairQueryParams]] = PairQueryParams

    def parts(self, params: PairQueryParams) -> tuple[Part, ...]:
        """Returns the one part, the counts of pairs."""

        def decide(given: Given) -> DfgDecision:
            pairs = PairCounts(given.statistics["pairs"], given.statistics["names"], params)
            noisy = laplace_query(pairs, params, given.randomness, self.name)
            positive, half_width = noisy > 0, noise_of(params).half_width
            counts = noisy[positive]
            sources, targets = pairs.sources[positive], pairs.targets[positive]
            graph = ReleasedGraph(
                pairs.vocabulary.names,
                sources.astype(np.int32),
                targets.astype(np.int32),
                counts,
                np.maximum(counts - half_width, 0),
                counts + half_width,
            )
            return DfgDecision(graph)

        counters = pairs_and_names()
        does = told("pair-query", "pairs", params, noise=noise_of(params))
        reality = honest_reality(params)
        return (Part("pairs", params.needs, does, decide, counters, "pairs", reality),)

    def products(self, decisions: contract.Decisions, params: PairQueryParams) -> contract.Products:
        """Returns the graph."""
        return contract.Products({"dfg": decisions["pairs"].graph})

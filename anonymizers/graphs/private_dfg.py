"""`private-dfg`: the directly-follows graph with noise, (epsilon, delta) for the whole release.

Every case's vector of directly-follows counts, START and END included, is scaled down to a public
or privately chosen L2 norm and put on an integer lattice; the sums of all possible pairs get
discrete Gaussian noise, those below a threshold become zero, and the rest is made a flow: nothing
negative, as much into each activity as out of it. With delta 0, cases are cut off at a public
length instead, and the noise is discrete Laplace. Optionally each count is spread over public bins
of the time since the predecessor.

The domain of pairs is that of a public vocabulary, so which pairs occur is protected as well.
Canonne, Kamath and Steinke (NeurIPS 2020) for the noise; Balle and Wang (ICML 2018) for its scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers import contract
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.sensitivity import (
    Sensitivity,
    of_clipped_flows,
    of_directly_follows,
)
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.graphs.noisy_graph import released_graph
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums
from tracecloak.anonymizers.rigorous.bought import (
    NormsOfCases,
    clip_part,
    in_vocabulary,
    known_vocabulary,
    largest_clip,
    vocabulary_part,
)
from tracecloak.anonymizers.rigorous.cells import (
    excess_of_pairs,
    most_names_of_pairs,
    possible_pairs,
)
from tracecloak.anonymizers.rigorous.names import ListedParams
from tracecloak.anonymizers.rigorous.params import DECLARED, Exact, guarantee_of
from tracecloak.anonymizers.rigorous.parts import (
    Given,
    Part,
    Shares,
    counters_of,
    decided,
    divided,
    sentences_of,
    spends_of,
)
from tracecloak.anonymizers.rigorous.sum_noise import gaussian_sums, laplace_sums, spend_of
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.durations import ReleasedDurations
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.guarantee import Guarantee, Kind
from tracecloak.schemas.published.manifest import Operation
from tracecloak.schemas.statistics.clipped_flows import ClippedFlows
from tracecloak.schemas.statistics.durations import duration_borders

# Lattice steps of one occurrence: scaled cases lose less than a step in each pair.
UNITS = 1024


class PrivateDfgParams(ListedParams):
    """Parameters of `private-dfg`."""

    l2_clip: Exact | None = Field(None, ge=1, le=100_000)
    """Largest L2 norm of one case's counts, public; a case beyond it is scaled down. Without it, a
    quantile of the norms is bought with 5 % of epsilon. Noise is proportional to it."""
    clip_quantile: Exact = Field(Decimal("0.8"), gt=0, lt=1, decimal_places=3)
    """Share of the cases whose norm the bought clip shall reach, at most three decimals."""
    durations: bool = False
    """Spread each pair's count over bins of the time since the predecessor, and release them."""
    n_duration_bins: int = Field(24, ge=3, le=200)
    """Number of these bins: below a second, evenly in the logarithm, from ten years on."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> PrivateDfgParams:
        if self.delta == 0 and self.max_trace_length is None:
            raise ValueError("delta 0 needs a public max_trace_length")
        if self.delta == 0 and self.l2_clip is not None:
            raise ValueError("l2_clip is for delta above 0; with delta 0 max_trace_length bounds")
        if self.n_words is not None:
            if excess := excess_of_pairs(self.n_words, self.n_bins):
                raise ValueError(excess)
        self.check_names()
        return self

    @property
    def n_bins(self) -> int:
        """Duration bins of a pair, 1 without durations."""
        return self.n_duration_bins if self.durations else 1

    @property
    def is_pure(self) -> bool:
        """Whether delta is 0 and the noise Laplace."""
        return self.delta == 0

    @property
    def buys_clip(self) -> bool:
        """Whether the clip is chosen on the log, and paid for."""
        return not self.is_pure and self.l2_clip is None

    @property
    def parts(self) -> tuple[Part, ...]:
        """What epsilon is divided among: a round each."""
        bought = []
        if self.vocabulary is None:
            other = "; all others count as __other__"
            most = most_names_of_pairs(self.n_bins)
            of_unit = self.max_activities, self.max_units
            bought.append(vocabulary_part(*of_unit, other, most_names=most))
        if self.buys_clip:
            norms = NormsOfCases(self.n_duration_bins if self.durations else None)
            bought.append(clip_part(norms, UNITS, Fraction(self.clip_quantile), self.max_units))
        return (*bought, edges_part(self))

    @property
    def shares(self) -> Shares:
        """(epsilon, delta) of each part; they add up to those of the release."""
        return divided(self.parts, *self.budget, rest="edges")

    @property
    def borders_us(self) -> np.ndarray | None:
        """Borders of the duration bins, or None without durations."""
        return duration_borders(self.n_duration_bins) if self.durations else None

    def sensitivity(self, clip_units: int) -> Sensitivity:
        """How far one unit moves the sums, see `noise`."""
        if self.is_pure:  # a case of so many pairs
            return of_directly_follows(clip_units - 1, self.max_units)
        return of_clipped_flows(clip_units, self.max_units)

    def edges_noise(self, epsilon: Fraction, delta: Fraction, clip_units: int) -> SumNoise:
        """The noise of one sum.

        Args:
            epsilon: Of all sums.
            delta: Likewise.
            clip_units: Largest norm of a case in lattice steps: L2, or with delta 0 L1.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        changed = self.sensitivity(clip_units)
        if self.is_pure:
            return laplace_sums(epsilon, changed, self.units)
        return gaussian_sums(epsilon, delta, changed, self.units)

    def noise(self, clip_units: int) -> SumNoise:
        """The noise of one sum at the share of the sums, see `edges_noise`."""
        return self.edges_noise(*self.shares["edges"], clip_units)

    @property
    def public_clip_units(self) -> int | None:
        """The clip in lattice steps where it is public."""
        if self.is_pure:
            assert self.max_trace_length is not None
            return self.max_trace_length + 1  # pairs of a case; one step is one occurrence
        return None if self.l2_clip is None else int(Fraction(self.l2_clip) * UNITS)

    @property
    def units(self) -> int:
        """Lattice steps of one occurrence."""
        return 1 if self.is_pure else UNITS


@dataclass(frozen=True)
class GraphDecision(contract.Decision):
    """What is released.

    Attributes:
        graph: The directly-follows graph.
        durations: Its counts by duration, or None.
    """

    graph: ReleasedGraph
    durations: ReleasedDurations | None


@dataclass(frozen=True)
class _Flows:
    """Sums of the cases' clipped vectors."""

    params: PrivateDfgParams
    kind: ClassVar[type[ClippedFlows]] = ClippedFlows

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> ClippedFlows:
        return ClippedFlows.from_traces(
            in_vocabulary(traces, decisions),
            clip_of(decisions, self.params),
            self.params.units,
            self.params.borders_us,
        )


def clip_of(decisions: contract.Decisions, params: PrivateDfgParams) -> int:
    """Returns the clip in lattice steps, public or bought."""
    public = params.public_clip_units
    return decisions["clip"].clip_units if public is None else public


class PrivateDfg(contract.Anonymizer):
    """The method; see the module."""

    name: ClassVar[str] = "private-dfg"
    summary: ClassVar[str] = "directly-follows graph with noise on every possible pair"
    guarantee_kind: ClassVar[Kind] = "rigorous"
    log: ClassVar[Literal["none"]] = "none"
    Params: ClassVar[type[PrivateDfgParams]] = PrivateDfgParams
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("condensation", "event", "concept:name"),
    )
    exact_noise: ClassVar[bool] = True
    sums: ClassVar[Literal["none", "released", "pairs", "cells"]] = "pairs"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"epsilon": "1", "vocabulary": ("A", "B", "C"), "l2_clip": "4"},
        {
            "epsilon": "20",
            "delta": "1e-5",
            "buy_vocabulary": True,
            "durations": True,
            "n_duration_bins": 4,
        },
        {"epsilon": "2", "delta": "0", "vocabulary": ("A", "B"), "max_trace_length": 3},
        {"epsilon": "9", "vocabulary": ("A", "B"), "max_cases_per_individual": 2},
    )

    def bounds(self, params: PrivateDfgParams) -> ContributionBounds:
        """Returns the public caps."""
        return params.bounds

    def rounds(self, params: PrivateDfgParams) -> tuple[str, ...]:
        """Returns the rounds: one for each thing bought, and the graph."""
        return tuple(params.shares)

    def spends(self, params: PrivateDfgParams) -> tuple[Spend, ...]:
        """Returns the parts.

        Raises:
            UsageError: Noise as wide as some part may need cannot be drawn.
        """
        return spends_of(params.parts, params.shares)

    def guarantee(self, params: PrivateDfgParams) -> Guarantee:
        """Returns the promise."""
        noise = "discrete Laplace" if params.is_pure else "discrete Gaussian"
        bought = [name for name in params.shares if name != "edges"]
        return guarantee_of(
            params,
            self.spends(params),
            "One case changes the sums by a vector whose norm is bounded, exactly and in integers; "
            f"exact {noise} noise on every possible pair covers it. Threshold, flow conservation "
            "and rounding look at the noisy sums only."
            + (f" Chosen on the log and paid for: {' and '.join(bought)}." if bought else ""),
            DECLARED,
        )

    def explain(self, params: PrivateDfgParams) -> tuple[str, ...]:
        """Returns a sentence a round, and the error to expect."""
        return sentences_of(params.parts, params.shares)

    def requires(self, round_name: str, params: PrivateDfgParams) -> Mapping[str, contract.Counter]:
        """Returns the counters of a round."""
        return counters_of(params.parts, round_name)

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: PrivateDfgParams,
        randomness: Randomness,
    ) -> contract.Decision:
        """Decides a round."""
        made = decided(params.parts, round_name, params.shares, statistics, decisions, randomness)
        return made[round_name]

    def writes(self, params: PrivateDfgParams) -> tuple[str, ...]:
        """Returns the names of the products."""
        return ("dfg", "durations") if params.durations else ("dfg",)

    def products(
        self, decisions: contract.Decisions, params: PrivateDfgParams
    ) -> contract.Products:
        """Returns the graph, and the durations if they were asked for."""
        decided: GraphDecision = decisions["edges"]
        products: dict[str, Any] = {"dfg": decided.graph}
        if decided.durations is not None:
            products["durations"] = decided.durations
        return contract.Products(products)


def edges_part(params: PrivateDfgParams) -> Part:
    """Returns the part that the sums of pairs are."""
    clip = params.public_clip_units  # None while it is to be bought

    def spends(epsilon: Fraction, delta: Fraction) -> tuple[Spend, ...]:
        if clip is None:
            params.edges_noise(epsilon, delta, largest_clip() * UNITS)  # or is refused
        noise = params.edges_noise(epsilon, delta, clip or UNITS)
        return (spend_of("edges", epsilon, delta, noise, is_any_clip=clip is None),)

    def sentence(epsilon: Fraction, delta: Fraction) -> str:
        kind = "discrete Laplace" if params.is_pure else "discrete Gaussian"
        if clip is None:
            return f"{kind} noise in proportion to the bought clip on every possible pair"
        noise = params.edges_noise(epsilon, delta, clip)
        return (
            f"{kind} noise of scale {noise.width / noise.units:.1f} occurrences on every possible "
            f"pair; expect each count within {noise.half_width} of the sum (95 %)"
        )

    def decide(given: Given) -> GraphDecision:
        vocabulary = known_vocabulary(params.words, given.decisions)
        borders = params.borders_us
        domain = possible_pairs(vocabulary, params.n_bins)
        chosen = clip_of(given.decisions, params)
        noise = params.edges_noise(given.epsilon, given.delta, chosen)
        flows: ClippedFlows = given.statistics["flows"]
        sums, names = flows.dense(domain), vocabulary.names
        noisy = noisy_sums(sums, noise, "edge sum", domain, given.randomness, names)
        return GraphDecision(*released_graph(noisy, domain, vocabulary, borders, noise))

    counters = {"flows": _Flows(params)}
    # The weight is what the others leave.
    return Part("edges", Fraction(0), spends, sentence, decide, counters, "edges", takes_delta=True)

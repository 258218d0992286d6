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

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers import contract
from tracecloak.anonymizers.accounting.calibration import gaussian_scale, laplace_scale
from tracecloak.anonymizers.accounting.composition import Spend, decimal_text, split
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
    ActivitiesOfCases,
    NormsOfCases,
    VocabularyDecision,
    choose_clip,
    choose_vocabulary,
    in_vocabulary,
    norm_grid,
    vocabulary_scale,
    vocabulary_threshold,
)
from tracecloak.anonymizers.rigorous.cells import excess_of_pairs, possible_pairs
from tracecloak.anonymizers.rigorous.params import (
    BOUGHT_SHARE,
    Exact,
    RigorousParams,
    drawable,
    guarantee_of,
)
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.published.durations import ReleasedDurations
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.published.manifest import Operation
from tracecloak.schemas.statistics.clipped_flows import ClippedFlows
from tracecloak.schemas.statistics.durations import duration_borders

# Lattice steps of one occurrence: scaled cases lose less than a step in each pair.
UNITS = 1024
# `gaussian_scale` rounds up to 8 digits, by at most 1e-7; twice that covers what is rounded.
_SCALE_ROUNDING = Fraction(2, 10**7)


class PrivateDfgParams(RigorousParams):
    """Parameters of `private-dfg`."""

    l2_clip: Exact | None = Field(None, ge=1, le=100_000)
    """Largest L2 norm of one case's counts, public; a case beyond it is scaled down. Without it, a
    quantile of the norms is bought with 5 % of epsilon. Noise is proportional to it."""
    clip_quantile: Exact = Field(Decimal("0.8"), gt=0, lt=1, decimal_places=3)
    """Share of the cases whose norm the bought clip shall reach, at most three decimals."""
    max_activities: int = Field(16, ge=1, le=1000)
    """Distinct activities of a case that count where the vocabulary is bought."""
    durations: bool = False
    """Spread each pair's count over bins of the time since the predecessor, and release them."""
    n_duration_bins: int = Field(24, ge=3, le=200)
    """Number of these bins: below a second, evenly in the logarithm, from ten years on."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> PrivateDfgParams:
        if self.delta == 0 and self.vocabulary is None:
            raise ValueError("delta 0 needs a public vocabulary: names are bought with delta")
        if self.delta == 0 and self.max_trace_length is None:
            raise ValueError("delta 0 needs a public max_trace_length")
        if self.delta == 0 and self.l2_clip is not None:
            raise ValueError("l2_clip is for delta above 0; with delta 0 max_trace_length bounds")
        if self.vocabulary is not None:
            n_names = len({*self.vocabulary, OTHER})
            excess = excess_of_pairs(n_names, self.n_duration_bins if self.durations else 1)
            if excess:
                raise ValueError(excess)
        return self

    @property
    def is_pure(self) -> bool:
        """Whether delta is 0 and the noise Laplace."""
        return self.delta == 0

    @property
    def buys_clip(self) -> bool:
        """Whether the clip is chosen on the log, and paid for."""
        return not self.is_pure and self.l2_clip is None

    @property
    def shares(self) -> dict[str, tuple[Fraction, Fraction]]:
        """(epsilon, delta) of each part; they add up to those of the release."""
        epsilon, delta = self.budget
        bought = [
            name
            for name, buys in (("vocabulary", self.vocabulary is None), ("clip", self.buys_clip))
            if buys
        ]
        rest = 1 - BOUGHT_SHARE * len(bought)
        shares = split(epsilon, delta, {**dict.fromkeys(bought, BOUGHT_SHARE), "edges": rest})
        if "clip" in shares:  # chosen without a delta, whose share the edges take
            shares["edges"] = (shares["edges"][0], shares["edges"][1] + shares["clip"][1])
            shares["clip"] = (shares["clip"][0], Fraction(0))
        return shares

    @property
    def borders_us(self) -> np.ndarray | None:
        """Borders of the duration bins, or None without durations."""
        return duration_borders(self.n_duration_bins) if self.durations else None

    def sensitivity(self, clip_units: int) -> Sensitivity:
        """How far one unit moves the sums, see `noise`."""
        if self.is_pure:  # a case of so many pairs
            return of_directly_follows(clip_units - 1, self.max_units)
        return of_clipped_flows(clip_units, self.max_units)

    def noise(self, clip_units: int) -> SumNoise:
        """The noise of one sum.

        Args:
            clip_units: Largest norm of a case in lattice steps: L2, or with delta 0 L1.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        epsilon, delta = self.shares["edges"]
        if self.is_pure:
            scale = laplace_scale(epsilon, self.sensitivity(clip_units))
        else:
            scale = gaussian_scale(epsilon, delta, self.sensitivity(clip_units))
        return SumNoise(drawable(scale), self.units, self.is_pure)

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
class ClipDecision(contract.Decision):
    """The clip that was bought.

    Attributes:
        clip_units: In lattice steps.
    """

    clip_units: int


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
    summary: ClassVar[str] = "directly-follows graph with noise on every possible pair (rigorous)"
    log: ClassVar[Literal["none"]] = "none"
    Params: ClassVar[type[PrivateDfgParams]] = PrivateDfgParams
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("condensation", "event", "concept:name"),
    )
    exact_noise: ClassVar[bool] = True
    sums: ClassVar[Literal["none", "released", "pairs", "cells"]] = "pairs"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"epsilon": "1", "vocabulary": ("A", "B", "C"), "l2_clip": "4"},
        {"epsilon": "20", "delta": "1e-5", "durations": True, "n_duration_bins": 4},
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
        parts = []
        for name, (epsilon, delta) in params.shares.items():
            if name == "vocabulary":
                vocabulary_scale(epsilon, delta, params.max_activities, params.max_units)
                parts.append(Spend("vocabulary", "approximate", epsilon, delta))
            elif name == "clip":
                parts.append(Spend("clip", "pure", epsilon, delta))
            else:
                clip = params.public_clip_units
                kind: Any = "discrete_laplace" if params.is_pure else "discrete_gaussian"
                # Of a bought clip the ratio of scale to sensitivity is known beforehand, but for
                # how much the scale is rounded up.
                changed = params.sensitivity(UNITS if clip is None else clip)
                sensitivity = Fraction(changed.l1 if params.is_pure else changed.l2)
                if clip is None:
                    sensitivity *= 1 + _SCALE_ROUNDING
                    params.noise(math.ceil(math.sqrt(norm_grid()[-1]) * UNITS))  # or is refused
                noise = params.noise(UNITS if clip is None else clip)
                parts.append(Spend("edges", kind, epsilon, delta, noise.scale, sensitivity))
        return tuple(parts)

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
            "The names of a public vocabulary, lengths and clips given as parameters are taken to "
            "be public.",
        )

    def explain(self, params: PrivateDfgParams) -> tuple[str, ...]:
        """Returns a sentence a round, and the error to expect."""
        sentences = []
        for name, (epsilon, delta) in params.shares.items():
            spent = f"; spends epsilon {decimal_text(epsilon)}, delta {decimal_text(delta)}"
            if name == "vocabulary":
                least = vocabulary_threshold(
                    epsilon, delta, params.max_activities, params.max_units
                )
                sentences.append(
                    f"vocabulary: chooses activities of about {least:,} cases or more; all others "
                    f"count as __other__{spent}"
                )
            elif name == "clip":
                sentences.append(
                    "clip: chooses the norm that about a share of "
                    f"{decimal_text(Fraction(params.clip_quantile))} of the cases reaches{spent}"
                )
            else:
                sentences.append(f"edges: {self._edges_sentence(params)}{spent}")
        return tuple(sentences)

    def _edges_sentence(self, params: PrivateDfgParams) -> str:
        clip = params.public_clip_units
        kind = "discrete Laplace" if params.is_pure else "discrete Gaussian"
        if clip is None:
            return f"{kind} noise in proportion to the bought clip on every possible pair"
        noise = params.noise(clip)
        return (
            f"{kind} noise of scale {noise.width / noise.units:.1f} occurrences on every possible "
            f"pair; expect each count within {noise.half_width} of the sum (95 %)"
        )

    def requires(self, round_name: str, params: PrivateDfgParams) -> Mapping[str, contract.Counter]:
        """Returns the counters of a round."""
        if round_name == "vocabulary":
            return {"activities": ActivitiesOfCases(params.max_activities)}
        if round_name == "clip":
            return {"norms": NormsOfCases(params.n_duration_bins if params.durations else None)}
        return {"flows": _Flows(params)}

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: PrivateDfgParams,
        randomness: Randomness,
    ) -> contract.Decision:
        """Decides a round.

        Raises:
            UsageError: The vocabulary has too many possible pairs.
        """
        if round_name == "vocabulary":
            epsilon, delta = params.shares["vocabulary"]
            return choose_vocabulary(
                statistics["activities"],
                epsilon,
                delta,
                params.max_activities,
                params.max_units,
                randomness,
            )
        if round_name == "clip":
            clip = choose_clip(
                statistics["norms"],
                params.shares["clip"][0],
                Fraction(params.clip_quantile),
                params.max_units,
                randomness,
            )
            return ClipDecision(math.floor(clip * UNITS))
        return self._decide_edges(statistics["flows"], decisions, params, randomness)

    def _decide_edges(
        self,
        flows: ClippedFlows,
        decisions: contract.Decisions,
        params: PrivateDfgParams,
        randomness: Randomness,
    ) -> GraphDecision:
        vocabulary = _vocabulary(decisions, params)
        borders = params.borders_us
        domain = possible_pairs(vocabulary, 1 if borders is None else len(borders) + 1)
        noise = params.noise(clip_of(decisions, params))
        noisy = noisy_sums(flows.dense(domain), noise, "edge sum", domain, randomness)
        return GraphDecision(*released_graph(noisy, domain, vocabulary, borders, noise))

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


def _vocabulary(decisions: contract.Decisions, params: PrivateDfgParams) -> ActivityVocabulary:
    if params.vocabulary is None:
        bought: VocabularyDecision = decisions["vocabulary"]
        return bought.vocabulary
    return ActivityVocabulary.public(params.vocabulary)

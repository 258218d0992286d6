"""Methods that release variants of a generator: one method for each, with its own guarantee.

What the generator must know of the log, its activities and the length at which cases are cut, is
public or bought; all of the rest of the budget is the generator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import pydantic
from pydantic import Field

from tracecloak.anonymizers import contract
from tracecloak.anonymizers.accounting.composition import Spend, decimal_text, split
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.bought import (
    ActivitiesOfCases,
    LengthsOfCases,
    choose_length,
    choose_vocabulary,
    in_vocabulary,
    vocabulary_threshold,
    within_length,
)
from tracecloak.anonymizers.rigorous.params import BOUGHT_SHARE, Exact, RigorousParams, guarantee_of
from tracecloak.anonymizers.variants.generator import (
    Domain,
    VariantGenerator,
    VariantsDecision,
    log_of,
)
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.published.manifest import Operation
from tracecloak.schemas.statistics.variants import VariantHistogram


class VariantLogParams(RigorousParams):
    """Parameters of the methods that generate variants."""

    length_quantile: Exact = Field("0.95", gt=0, lt=1)  # type: ignore[assignment]
    """Share of the cases that a bought max_trace_length shall not cut; without max_trace_length it
    is bought with 5 % of epsilon."""
    max_activities: int = Field(16, ge=1, le=1000)
    """Distinct activities of a case that count where the vocabulary is bought."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> VariantLogParams:
        if self.delta == 0 and self.vocabulary is None:
            raise ValueError("delta 0 needs a public vocabulary: names are bought with delta")
        if self.delta == 0 and self.max_trace_length is None:
            raise ValueError("delta 0 needs a public max_trace_length")
        return self

    @property
    def shares(self) -> dict[str, tuple[Fraction, Fraction]]:
        """(epsilon, delta) of each round; they add up to those of the release."""
        epsilon, delta = self.budget
        bought = [
            name
            for name, buys in (
                ("vocabulary", self.vocabulary is None),
                ("length", self.max_trace_length is None),
            )
            if buys
        ]
        rest = 1 - BOUGHT_SHARE * len(bought)
        shares = split(epsilon, delta, {**dict.fromkeys(bought, BOUGHT_SHARE), "variants": rest})
        if "length" in shares:  # chosen without a delta, whose share the variants take
            shares["variants"] = (
                shares["variants"][0],
                shares["variants"][1] + shares["length"][1],
            )
            shares["length"] = (shares["length"][0], Fraction(0))
        return shares


@dataclass(frozen=True)
class _Variants:
    """Cases by variant, over the vocabulary and within the length that were decided."""

    kind: ClassVar[type[VariantHistogram]] = VariantHistogram

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> VariantHistogram:
        return VariantHistogram.from_traces(
            within_length(in_vocabulary(traces, decisions), decisions)
        )


class VariantLog(contract.Anonymizer):
    """The method of one generator."""

    log: ClassVar[Literal["generated"]] = "generated"
    Params: ClassVar[type[VariantLogParams]] = VariantLogParams
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("substitution", "case", "concept:name"),
        Operation("substitution", "case", "case"),
        Operation("suppression", "event", "time:timestamp"),
    )
    exact_noise: ClassVar[bool] = True

    def __init__(self, generator: VariantGenerator) -> None:
        """Keeps the generator, whose name the method takes."""
        self._generator = generator
        self.name = generator.name
        self.summary = f"{generator.summary} (rigorous)"
        pure: dict[str, Any] = {
            "epsilon": "1",
            "delta": "0" if generator.is_pure else "1e-6",
            "vocabulary": ("A", "B", "C"),
            "max_trace_length": 4,
        }
        self.examples = (  # type: ignore[misc]
            pure,
            {**pure, "epsilon": "4", "max_cases_per_individual": 2},
            {"epsilon": "20", "delta": "1e-5"},
        )

    def bounds(self, params: VariantLogParams) -> ContributionBounds:
        """Returns the public caps."""
        return params.bounds

    def rounds(self, params: VariantLogParams) -> tuple[str, ...]:
        """Returns the rounds: one for each thing bought, and the variants."""
        return tuple(params.shares)

    def _budget(self, params: VariantLogParams) -> tuple[Fraction, Fraction]:
        return params.shares["variants"]

    def spends(self, params: VariantLogParams) -> tuple[Spend, ...]:
        """Returns the parts."""
        parts = []
        for name, (epsilon, delta) in params.shares.items():
            if name == "vocabulary":
                parts.append(Spend(name, "approximate", epsilon, delta))
            elif name == "length":
                parts.append(Spend(name, "pure", epsilon, delta))
            else:
                parts.extend(self._generator.spends(epsilon, delta, params.max_units))
        return tuple(parts)

    def guarantee(self, params: VariantLogParams) -> Guarantee:
        """Returns the promise."""
        bought = [name for name in params.shares if name != "variants"]
        return guarantee_of(
            params,
            self.spends(params),
            self._generator.reality
            + (f" Chosen on the log and paid for: {' and '.join(bought)}." if bought else ""),
            "The names of a public vocabulary and a length given as a parameter are taken to be "
            "public.",
        )

    def explain(self, params: VariantLogParams) -> tuple[str, ...]:
        """Returns a sentence a round."""
        sentences = []
        for name, (epsilon, delta) in params.shares.items():
            spent = f"; spends epsilon {decimal_text(epsilon)}, delta {decimal_text(delta)}"
            if name == "vocabulary":
                least = vocabulary_threshold(
                    epsilon, delta, params.max_activities, params.max_units
                )
                said = f"chooses activities of about {least:,} cases or more"
            elif name == "length":
                share = decimal_text(Fraction(params.length_quantile))
                said = f"chooses the length that about a share of {share} of the cases reaches"
            else:
                said = self._generator.explain(epsilon, delta, params.max_units)
            sentences.append(f"{name}: {said}{spent}")
        return tuple(sentences)

    def requires(self, round_name: str, params: VariantLogParams) -> Mapping[str, contract.Counter]:
        """Returns the counters of a round."""
        if round_name == "vocabulary":
            return {"activities": ActivitiesOfCases(params.max_activities)}
        if round_name == "length":
            return {"lengths": LengthsOfCases()}
        return {"variants": _Variants()}

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: VariantLogParams,
        randomness: Randomness,
    ) -> contract.Decision:
        """Decides a round."""
        epsilon, delta = params.shares[round_name]
        if round_name == "vocabulary":
            return choose_vocabulary(
                statistics["activities"],
                epsilon,
                delta,
                params.max_activities,
                params.max_units,
                randomness,
            )
        if round_name == "length":
            quantile = Fraction(params.length_quantile)
            return choose_length(
                statistics["lengths"], epsilon, quantile, params.max_units, randomness
            )
        domain = domain_of(decisions, params)
        return VariantsDecision(
            self._generator.answer(statistics["variants"], domain, epsilon, delta, randomness)
        )

    def writes(self, params: VariantLogParams) -> tuple[str, ...]:
        """Returns the name of the product."""
        return ("variants",)

    def products(
        self, decisions: contract.Decisions, params: VariantLogParams
    ) -> contract.Products:
        """Returns the variants."""
        return contract.Products({"variants": decisions["variants"].variants})

    def generate(
        self,
        piece: int,
        n_pieces: int,
        decisions: contract.Decisions,
        params: VariantLogParams,
        randomness: Randomness,
    ) -> TraceBatch:
        """Returns every `n_pieces`-th of the released cases, with positions for stamps."""
        return log_of(decisions["variants"].variants, piece, n_pieces, randomness)


def domain_of(decisions: contract.Decisions, params: VariantLogParams) -> Domain:
    """Returns the domain, public or bought."""
    if params.vocabulary is None:
        vocabulary = decisions["vocabulary"].vocabulary
    else:
        vocabulary = ActivityVocabulary.public(params.vocabulary)
    length = params.max_trace_length
    if length is None:
        length = decisions["length"].max_trace_length
    return Domain(vocabulary, length, params.max_units)

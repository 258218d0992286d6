"""`variant-histogram`: the stability histogram of variants, (epsilon, delta) for the whole release.

Each variant's number of cases gets discrete Laplace noise, and a variant is released if the noisy
number reaches a threshold so high that a variant of one unit alone passes it with probability at
most delta. No variant is ever invented, no length is bounded and no alphabet has to be known.
Korolova, Kenthapadi, Mishra and Ntoulas (WWW 2009); with bounded noise, Desfontaines, Voss, Gipson
and Mandayam (PoPETs 2022); for event logs, TraVaS (Rafiei, Wangelik and van der Aalst, 2022).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic

from tracecloak.anonymizers.accounting.by_case import divides_by_case
from tracecloak.anonymizers.accounting.calibration import (
    laplace_interval,
    laplace_scale,
    stability_threshold,
    truncated_noise_bound,
)
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.counters import CollectNames, CountVariants
from tracecloak.anonymizers.noise.drawing import draw_laplace, draw_truncated_laplace
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.params import (
    DECLARED,
    RigorousParams,
    drawable,
    guarantee_of,
)
from tracecloak.anonymizers.variants.generator import VariantsDecision, fitting, log_of
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.guarantee import Guarantee, Kind
from tracecloak.schemas.published.manifest import Operation
from tracecloak.schemas.published.variants import most_frequent_first
from tracecloak.schemas.statistics.variants import VariantHistogram


class VariantHistogramParams(RigorousParams):
    """Parameters of `variant-histogram`."""

    noise: Literal["laplace", "truncated"] = "laplace"
    """laplace: discrete Laplace noise and a threshold. truncated: the same noise cut off at the
    threshold, which is a little lower where an individual has several cases."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> VariantHistogramParams:
        if self.delta == 0:
            raise ValueError(
                "variant-histogram needs delta above 0: with delta 0 no variant that the log alone "
                "names may be released"
            )
        return self

    @property
    def scale(self) -> tuple[int, int]:
        """(numerator, denominator) of the noise's scale, in cases."""
        return drawable(laplace_scale(self.budget[0], of_one_cell(self.max_units)))

    @property
    def threshold(self) -> int:
        """Smallest noisy number of cases that is released."""
        if self.noise == "truncated":
            return truncated_noise_bound(*self.budget, self.max_units) + 1
        return stability_threshold(*self.budget, self.max_units)

    @property
    def interval(self) -> int:
        """Half the width of the interval that holds the noise with probability 0.95, in cases."""
        numerator, denominator = self.scale
        return laplace_interval(Fraction(numerator, denominator))


class VariantHistogramMethod(contract.Anonymizer):
    """The method; see the module."""

    name: ClassVar[str] = "variant-histogram"
    summary: ClassVar[str] = "noisy counts of variants above a threshold"
    guarantee_kind: ClassVar[Kind] = "rigorous"
    log: ClassVar[Literal["generated"]] = "generated"
    Params: ClassVar[type[VariantHistogramParams]] = VariantHistogramParams
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("suppression", "case", "concept:name"),
        Operation("substitution", "case", "case"),
        Operation("suppression", "event", "time:timestamp"),
    )
    exact_noise: ClassVar[bool] = True
    has_error_bars: ClassVar[bool] = True
    sums: ClassVar[Literal["none", "released", "pairs", "cells"]] = "released"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"epsilon": "1"},
        {"epsilon": "8", "delta": "1e-5", "max_cases_per_individual": 2},
        {"epsilon": "4", "vocabulary": ("A", "B"), "max_trace_length": 2},
    )

    def bounds(self, params: VariantHistogramParams) -> ContributionBounds:
        """Returns the public caps; none is needed for the guarantee per case."""
        return params.bounds

    def spends(self, params: VariantHistogramParams) -> tuple[Spend, ...]:
        """Returns the one part: the counts."""
        epsilon, delta = params.budget
        return (Spend("variants", "approximate", epsilon, delta),)

    def shares_by_case(self, params: VariantHistogramParams) -> bool:
        """Returns whether j of m cases cost at most j/m of what is paid.

        Each case is in one count, and both kinds of threshold are made for a part of the cases, too
        (`calibration.stability_threshold`, `calibration.truncated_noise_bound`).
        """
        return divides_by_case(self.spends(params))

    def rounds(self, params: VariantHistogramParams) -> tuple[str, ...]:
        """Returns the one round."""
        return ("variants",)

    def guarantee(self, params: VariantHistogramParams) -> Guarantee:
        """Returns the promise."""
        return guarantee_of(
            params,
            self.spends(params),
            "One case changes the count of one variant by one; exact discrete Laplace noise of "
            f"scale {params.scale[0] / params.scale[1]:g} covers it with epsilon, and a variant of "
            f"one unit alone reaches the threshold of {params.threshold} cases with probability at "
            "most delta. All that is released follows from these counts.",
            "The names of the activities of released variants are the input's own."
            if params.vocabulary is None
            else DECLARED,
        )

    def explain(self, params: VariantHistogramParams) -> tuple[str, ...]:
        """Returns what the round does and the error to expect."""
        epsilon, delta = params.spent_texts
        return (
            f"variants: counts cases by variant, adds {params.noise} noise, releases those of at "
            f"least {params.threshold} noisy cases; spends epsilon {epsilon}, delta {delta}; "
            f"expect each count within {params.interval} cases of what is counted (95 %)",
        )

    def requires(
        self, round_name: str, params: VariantHistogramParams
    ) -> Mapping[str, contract.Counter]:
        """Returns the counters."""
        return {"variants": CountVariants(), "names": CollectNames()}

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: VariantHistogramParams,
        randomness: Randomness,
    ) -> VariantsDecision:
        """Adds the noise and applies the threshold."""
        counted: VariantHistogram = statistics["variants"]
        names: ActivityVocabulary = statistics["names"]
        cells = randomness.identify("variant", counted.sequences)
        stream = CellStream(randomness, "variant count", cells)
        if params.noise == "truncated":
            noise = draw_truncated_laplace(stream, *params.scale, params.threshold - 1)
        else:
            noise = draw_laplace(stream, *params.scale)
        noisy = counted.counts + noise
        # Names that only unreleased variants have go no further, nor does their number.
        released = most_frequent_first(
            names.names,
            counted.offsets,
            counted.codes,
            np.where(noisy >= params.threshold, noisy, 0),
            params.interval,
        )
        return VariantsDecision(fitting(released, params.max_cases))

    def writes(self, params: VariantHistogramParams) -> tuple[str, ...]:
        """Returns the name of the product."""
        return ("variants",)

    def products(
        self, decisions: contract.Decisions, params: VariantHistogramParams
    ) -> contract.Products:
        """Returns the histogram."""
        return contract.Products({"variants": decisions["variants"].variants})

    def generate(
        self,
        piece: int,
        n_pieces: int,
        decisions: contract.Decisions,
        params: VariantHistogramParams,
        randomness: Randomness,
    ) -> TraceBatch:
        """Returns every `n_pieces`-th of the cases that the histogram describes.

        Their stamps are positions: a second each, from 1970 on. Nothing was measured.
        """
        return log_of(decisions["variants"].variants, piece, n_pieces, randomness)

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

from tracecloak.anonymizers.accounting.calibration import laplace_interval, laplace_scale
from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.accounting.thresholds import stability_threshold, truncated_noise_bound
from tracecloak.anonymizers.contract.counters import variants_and_names
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.budget import Pure
from tracecloak.anonymizers.rigorous.params import RigorousParams, drawable
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.rigorous.parts_method import PartsMethod
from tracecloak.anonymizers.variants.generator import VariantsDecision, fitting
from tracecloak.anonymizers.variants.method import CasesOfVariants
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.manifest import SUPPRESSED_TIMES, Operation
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


class VariantHistogramMethod(CasesOfVariants, PartsMethod):
    """The method; see the module."""

    name: ClassVar[str] = "variant-histogram"
    summary: ClassVar[str] = "noisy counts of variants above a threshold"
    Params: ClassVar[type[VariantHistogramParams]] = VariantHistogramParams
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("suppression", "case", "concept:name"),
        Operation("substitution", "case", "case"),
        SUPPRESSED_TIMES,
    )
    has_error_bars: ClassVar[bool] = True
    sums: ClassVar[Literal["none", "released", "pairs", "cells"]] = "released"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"epsilon": "1"},
        {"epsilon": "8", "delta": "1e-5", "max_cases_per_individual": 2},
        {"epsilon": "4", "vocabulary": ("A", "B"), "max_trace_length": 2},
    )

    def parts(self, params: VariantHistogramParams) -> tuple[Part, ...]:
        """Returns the one part: the counts."""
        sentence = (
            f"counts cases by variant, adds {params.noise} noise, releases those of at least "
            f"{params.threshold} noisy cases, which delta {decimal_text(params.budget[1])} is for; "
            f"expect each count within {params.interval} cases of what is counted (95 %)"
        )
        reality = (
            "One case changes the count of one variant by one; exact discrete Laplace noise of "
            f"scale {params.scale[0] / params.scale[1]:g} covers it with epsilon, and a variant of "
            f"one unit alone reaches the threshold of {params.threshold} cases with probability at "
            "most delta. All that is released follows from these counts."
        )
        counters = variants_and_names()
        return (
            Part(
                "variants",
                (Pure("variants", Fraction(1)),),  # whose threshold has all of delta
                lambda means: sentence,
                lambda given: _noisy_variants(given, params),
                counters,
                "variants",
                reality,
            ),
        )

    def not_covered(self, params: VariantHistogramParams) -> tuple[str, ...]:
        """Returns whose names the released activities have."""
        if params.vocabulary is None:
            return ("The names of the activities of released variants are the input's own.",)
        return super().not_covered(params)

    def moves_by_case(self, params: VariantHistogramParams) -> bool:
        """Each case is in one count, and both thresholds are made for a part of the cases, too.

        See `thresholds.stability_threshold` and `thresholds.truncated_noise_bound`.
        """
        return True


def _noisy_variants(given: Given, params: VariantHistogramParams) -> VariantsDecision:
    """Adds the noise and applies the threshold."""
    counted: VariantHistogram = given.statistics["variants"]
    names: ActivityVocabulary = given.statistics["names"]
    cells = given.randomness.identify("variant", counted.sequences)
    stream = CellStream(given.randomness, "variant count", cells)
    if params.noise == "truncated":
        noise = stream.noise.truncated_laplace(stream, *params.scale, params.threshold - 1)
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

"""The method that makes a log of a generator of variants."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting import calibration
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import variants_and_names
from tracecloak.anonymizers.contract.sentences import sentence, told
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import CellStream, draw_laplace
from tracecloak.anonymizers.noise.sums import MeasureRecorder
from tracecloak.anonymizers.rigorous.bought import length_part, vocabulary_part
from tracecloak.anonymizers.rigorous.budget import Budget, Need, Pure, Sums, budget_of
from tracecloak.anonymizers.rigorous.names import GroupedParams, ListedParams, excess_of_names
from tracecloak.anonymizers.rigorous.params import (
    LENGTH_SHARE,
    LONGEST_CASE,
    VOCABULARY_SHARE,
    Exact,
    RigorousParams,
    drawable,
)
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, PartsMethod
from tracecloak.anonymizers.variants.generator import (
    VariantGenerator,
    VariantsDecision,
    fitting,
    log_of,
    released,
    variants_part,
)
from tracecloak.anonymizers.variants.joint_variants import JointVariants
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import ReleasedMeasures
from tracecloak.schemas.published.manifest import SUPPRESSED_TIMES, Operation
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- Methods that release variants of a generator: one method for each, with its own guarantee. ---
# What the generator must know of the log, its activities and, if it needs one, the length at
# which cases are cut, is public or bought; all of the rest of the budget is the generator's.
#
# `variant-histogram`: the stability histogram of variants, (epsilon, delta) for the whole
# release.
#
# Each variant's number of cases gets discrete Laplace noise, and a variant is released if the
# noisy number reaches a threshold so high that a variant of one unit alone passes it with
# probability at most delta. No variant is ever invented, no length is bounded and no alphabet has
# to be known. Korolova, Kenthapadi, Mishra and Ntoulas (WWW 2009); with bounded noise,
# Desfontaines, Voss, Gipson and Mandayam (PoPETs 2022); for event logs, TraVaS (Rafiei, Wangelik
# and van der Aalst, 2022).


class VariantLogParams(ListedParams):
    """Parameters of the methods that generate variants."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> VariantLogParams:
        if self.delta == 0 and self.max_trace_length is None:
            raise ValueError("delta 0 needs a public max_trace_length")
        self.check_names()
        return self

    # Whether the generator has no use for delta.
    is_pure: ClassVar[bool] = False

    def bought_parts(self, most_names: int | None = None) -> tuple[Part, ...]:
        """Returns what is bought, a round each.

        Args:
            most_names: That the generator can count by; None: any number.
        """
        if self.vocabulary is not None:
            return ()
        return (vocabulary_part(self, most_names=most_names),)

    @property
    def longest_case(self) -> int | None:
        """Events of a case that can count, public; None: as many as are bought."""
        return self.max_trace_length or LONGEST_CASE

    @property
    def variants_share(self) -> Fraction:
        """What the generator has, of all that is no choice."""
        bought = VOCABULARY_SHARE * (self.vocabulary is None)
        return 1 - bought - LENGTH_SHARE * (self.longest_case is None)

    @property
    def spending(self) -> Budget:
        """What each need may spend, with one for the variants, whatever a generator chooses."""
        needs = [need for part in self.bought_parts() for need in part.needs]
        last: Need = Sums("variants", self.variants_share, of_one_cell(), is_any_clip=True)
        if self.is_pure:
            last = Pure("variants", self.variants_share)
        return budget_of(*self.budget, (*needs, last))


class CutVariantLogParams(VariantLogParams):
    """Parameters of those whose generator needs the length at which cases are cut."""

    length_quantile: Exact = Field(default=Decimal("0.95"), gt=0, lt=1, decimal_places=3)
    """Share of the cases that a bought max_trace_length shall not cut, at most three decimals;
    without max_trace_length it is bought."""

    @property
    def longest_case(self) -> int | None:
        """Events of a case that can count, public; None: as many as are bought."""
        return self.max_trace_length

    def bought_parts(self, most_names: int | None = None) -> tuple[Part, ...]:
        """Returns what is bought, a round each; see `VariantLogParams`."""
        parts = super().bought_parts(most_names)
        if self.max_trace_length is not None:
            return parts
        quantile = Fraction(self.length_quantile)
        return (*parts, length_part(quantile, self.max_units, "reaches"))


class PureVariantLogParams(CutVariantLogParams):
    """Parameters of those whose generator has no use for delta."""

    is_pure: ClassVar[bool] = True


class CasesOfVariants:
    """What a method has of its own whose one product and whose log are its decision `variants`."""

    log: ClassVar[Literal["transformed", "generated", "none"]] = "generated"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("substitution", "case", "concept:name"),
        Operation("substitution", "case", "case"),
        SUPPRESSED_TIMES,
    )
    written: ClassVar[tuple[str, ...]] = ("variants",)

    def generate(
        self,
        piece: int,
        n_pieces: int,
        decisions: contract.Decisions,
        params: Any,
        randomness: Randomness,
    ) -> TraceBatch:
        """Returns every `n_pieces`-th of the cases that the variants describe.

        They have no times: nothing was measured.
        """
        return log_of(decisions["variants"].variants, piece, n_pieces, randomness)


class VariantLog(CasesOfVariants, PartsMethod):
    """The method of one generator."""

    def __init__(self, generator: VariantGenerator) -> None:
        """Keeps the generator, whose name the method takes."""
        self._generator = generator
        for name in ("name", "summary", "version", "has_error_bars"):
            setattr(self, name, getattr(generator, name))
        pure: dict[str, Any] = {
            "epsilon": "1",
            "delta": "0" if generator.is_pure else "1e-6",
            "vocabulary": ("A", "B", "C"),
            "max_trace_length": 4,
        }
        self.examples = (  # type: ignore[misc]
            pure,
            {**pure, "epsilon": "4", "max_cases_per_individual": 2},
            {"epsilon": "20", "delta": "1e-5", "buy_vocabulary": True},
        )

    @property
    def Params(self) -> type[VariantLogParams]:  # noqa: N802  # a type, named as one
        """The type of the parameters."""
        if self._generator.is_pure:
            return PureVariantLogParams
        is_whole = self._generator.takes_whole_cases
        return VariantLogParams if is_whole else CutVariantLogParams

    def generator(self, params: Any) -> VariantGenerator:
        """Returns what makes the variants; by default the same whatever the parameters."""
        return self._generator

    def parts(self, params: VariantLogParams) -> tuple[Part, ...]:
        """Returns what is bought, a round each, and the variants.

        Raises:
            UsageError: The generator cannot count by so many public names.
        """
        generator = self.generator(params)
        if excess := excess_of_names(params.n_words, generator.most_names):
            raise UsageError(f"{generator.name}: {excess}")
        bought = params.bought_parts(generator.most_names)
        return (*bought, variants_part(generator, params, params.variants_share))

    def moves_by_case(self, params: VariantLogParams) -> bool:
        """They do of what is bought, and of what the generator has if it says so."""
        return self._generator.shares_by_case

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: VariantLogParams
    ) -> contract.Decision:
        """Returns what was decided, of the variants as many cases as there is room for."""
        if round_name == "variants":
            return VariantsDecision(fitting(decided[round_name], params.max_cases))
        return super().combined(round_name, decided, given, params)


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
        return drawable(calibration.laplace_scale(self.budget[0], of_one_cell(self.max_units)))

    @property
    def threshold(self) -> int:
        """Smallest noisy number of cases that is released."""
        if self.noise == "truncated":
            return calibration.truncated_noise_bound(*self.budget, self.max_units) + 1
        return calibration.stability_threshold(*self.budget, self.max_units)

    @property
    def interval(self) -> int:
        """Half the width of the interval that holds the noise with probability 0.95, in cases."""
        numerator, denominator = self.scale
        return calibration.laplace_interval(Fraction(numerator, denominator))


class VariantHistogramMethod(CasesOfVariants, PartsMethod, name="variant-histogram"):
    """The method; see the module."""

    Params: ClassVar[type[VariantHistogramParams]] = VariantHistogramParams

    def parts(self, params: VariantHistogramParams) -> tuple[Part, ...]:
        """Returns the one part: the counts."""
        reality = sentence(self.name, "reality", params)
        counters = variants_and_names()

        def keep(given: Given) -> dict[str, Any]:
            rows, _ = _above_threshold(given, params)
            return {"variants": given.statistics["variants"].take(rows)}

        return (
            Part(
                "variants",
                (Pure("variants", Fraction(1)),),  # whose threshold has all of delta
                told(self.name, "counts", params),
                lambda given: _noisy_variants(given, params),
                counters,
                "variants",
                reality,
                keep=keep,
            ),
        )

    def not_covered(self, params: VariantHistogramParams) -> tuple[str, ...]:
        """Returns whose names the released activities have."""
        if params.vocabulary is None:
            return ("The names of the activities of released variants are the input's own.",)
        return super().not_covered(params)

    def moves_by_case(self, params: VariantHistogramParams) -> bool:
        """Each case is in one count, and both thresholds are made for a part of the cases, too.

        See `calibration.stability_threshold` and `calibration.truncated_noise_bound`.
        """
        return True


def _above_threshold(given: Given, params: VariantHistogramParams) -> tuple[np.ndarray, np.ndarray]:
    """int64[n] twice: the variants whose noisy counts reach the threshold, and these counts."""
    counted: VariantHistogram = given.statistics["variants"]
    cells = given.randomness.identify("variant", counted.sequences)
    stream = CellStream(given.randomness, "variant count", cells)
    if params.noise == "truncated":
        noise = stream.noise.truncated_laplace(stream, *params.scale, params.threshold - 1)
    else:
        noise = draw_laplace(stream, *params.scale)
    noisy = counted.counts + noise
    rows = np.flatnonzero(noisy >= params.threshold)
    return rows, noisy[rows]


def _noisy_variants(given: Given, params: VariantHistogramParams) -> VariantsDecision:
    """Adds the noise and applies the threshold."""
    rows, counts = _above_threshold(given, params)
    # Names that only unreleased variants have go no further, nor does their number.
    seen = VariantHistogram(given.statistics["variants"].take(rows).sequences, counts)
    variants = released(seen, given.statistics["names"], params.interval)
    return VariantsDecision(fitting(variants, params.max_cases))


# ---
# `joint-variants` as a method: variants, and what was counted of groups where these are declared.


class JointVariantsParams(VariantLogParams, GroupedParams):
    """Parameters of `joint-variants`."""


class MeasuredVariantsDecision(contract.Decision, wire_name="measured-variants"):
    """What is released where groups are counted.

    Attributes:
        variants: The variants with their noisy numbers of cases.
        measures: The noisy sums that they follow from.
    """

    variants: ReleasedVariants
    measures: ReleasedMeasures


class JointVariantsLog(VariantLog):
    """The method; see the module."""

    name: ClassVar[str] = JointVariants.name

    def __init__(self) -> None:
        """Makes the method of its generator."""
        super().__init__(JointVariants())
        groups = {"A": "first", "B": "first"}
        self.examples = (*self.examples, {**self.examples[0], "groups": groups})  # type: ignore[misc]

    @property
    def Params(self) -> type[JointVariantsParams]:  # noqa: N802  # a type, named as one
        """The type of the parameters."""
        return JointVariantsParams

    def generator(self, params: JointVariantsParams) -> VariantGenerator:
        """Returns what makes the variants, with groups if any are declared."""
        if params.grouping is None:
            return self._generator
        from tracecloak.anonymizers.variants.grouped_variants import GroupedVariants

        return GroupedVariants(params.grouping)

    def notes(self, round_name: str, params: JointVariantsParams) -> bool:
        """Returns whether noisy sums are published: with groups, those of the variants."""
        return params.grouping is not None and round_name == "variants"

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: VariantLogParams
    ) -> contract.Decision:
        """Returns what was decided, and with groups the noisy sums."""
        decision = super().combined(round_name, decided, given, params)
        noting = given.randomness.noise
        if not isinstance(decision, VariantsDecision) or not isinstance(noting, MeasureRecorder):
            return decision
        return MeasuredVariantsDecision(decision.variants, noting.measures)

    def writes(self, params: Any) -> tuple[str, ...]:
        """Returns the names of the products."""
        return (*super().writes(params), *(() if params.grouping is None else ("measures",)))

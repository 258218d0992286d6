"""Methods that release variants of a generator: one method for each, with its own guarantee.

What the generator must know of the log, its activities and, if it needs one, the length at which
cases are cut, is public or bought; all of the rest of the budget is the generator's.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Literal

import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.bought import known_length, known_vocabulary
from tracecloak.anonymizers.rigorous.bought_length import length_part
from tracecloak.anonymizers.rigorous.bought_vocabulary import vocabulary_part
from tracecloak.anonymizers.rigorous.budget import (
    Budget,
    Need,
    Pure,
    Sums,
    budget_of,
)
from tracecloak.anonymizers.rigorous.names import ListedParams
from tracecloak.anonymizers.rigorous.params import (
    LENGTH_SHARE,
    LONGEST_CASE,
    VOCABULARY_SHARE,
    Exact,
)
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.rigorous.parts_method import PartsMethod
from tracecloak.anonymizers.variants.generator import (
    Domain,
    VariantGenerator,
    VariantsDecision,
    excess_of_names,
    fitting,
    log_of,
    takes_whole_cases,
    variants_part,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import SUPPRESSED_TIMES, Operation


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
        parts = []
        if self.vocabulary is None:
            of_unit = self.max_activities, self.max_units
            parts.append(vocabulary_part(*of_unit, most_names=most_names))
        return tuple(parts)

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

    length_quantile: Exact = Field(Decimal("0.95"), gt=0, lt=1, decimal_places=3)
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

    def writes(self, params: Any) -> tuple[str, ...]:
        """Returns the name of the product."""
        return ("variants",)

    def products(self, decisions: contract.Decisions, params: Any) -> contract.Products:
        """Returns the variants."""
        return contract.Products({"variants": decisions["variants"].variants})

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
        self.name = generator.name
        self.summary = generator.summary
        self.version = getattr(generator, "version", 1)  # type: ignore[misc]
        self.has_error_bars = getattr(generator, "has_error_bars", False)  # type: ignore[misc]
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
        is_whole = takes_whole_cases(self._generator)
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
        if excess := excess_of_names(generator, params.n_words):
            raise UsageError(excess)

        def domain(decisions: contract.Decisions) -> Domain:
            return domain_of(decisions, params)

        of_log = params.max_units, params.longest_case, params.variants_share
        bought = params.bought_parts(generator.most_names)
        return (*bought, variants_part(generator, domain, *of_log))

    def moves_by_case(self, params: VariantLogParams) -> bool:
        """They do of what is bought, and of what the generator has if it says so."""
        return bool(getattr(self._generator, "shares_by_case", False))

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: VariantLogParams
    ) -> contract.Decision:
        """Returns what was decided, of the variants as many cases as there is room for."""
        if round_name == "variants":
            return VariantsDecision(fitting(decided[round_name], params.max_cases))
        return super().combined(round_name, decided, given, params)


def domain_of(decisions: contract.Decisions, params: VariantLogParams) -> Domain:
    """Returns the domain, public or bought."""
    vocabulary = known_vocabulary(params.words, decisions)
    length = known_length(params.longest_case, decisions)
    return Domain(vocabulary, length, params.max_units)

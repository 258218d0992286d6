"""What the methods with a true epsilon have in common: parameters, and every kind of promise."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text, total
from tracecloak.anonymizers.contract.method import NamesParams
from tracecloak.anonymizers.contract.sentences import promise, sentences
from tracecloak.anonymizers.noise.samplers import LARGEST_SCALE
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import Adjacency, Guarantee

# Every decimal of so many digits is a float's shortest text, so JSON numbers keep it exactly.
MAX_DIGITS = 12
# A number between 1e-300 and 1e300 is neither 0 nor infinite as a float, and is a short fraction.
MAX_EXPONENT = 300
# Delta stays below this unless a flag says that more is meant.
MAX_DELTA = Decimal("1e-5")
# Events of a case that can count: what noise is checked for before any data is read.
LONGEST_TRACE = 1_000_000
# Events of a case that count where no length is declared and none is bought. It bounds time and
# memory; no noise depends on it.
LONGEST_CASE = 10_000
# A sentence in the explanation of every parameter that declares something as public.
DECLARED = "What is declared is public: a name copied from this log is not protected."
# The share of the budget for all sums that goes to the choice of the length at which cases are cut.
LENGTH_SHARE = Fraction(3, 100)
# The share of the budget for all sums that goes to the choice of a vocabulary.
VOCABULARY_SHARE = Fraction(15, 100)


def _exact(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise ValueError("must be a decimal number") from None
    if not number.is_finite():
        raise ValueError("must be finite")
    if len(number.normalize().as_tuple().digits) > MAX_DIGITS:
        raise ValueError(f"must have at most {MAX_DIGITS} significant digits")
    if number and abs(number.adjusted()) > MAX_EXPONENT:
        raise ValueError(f"must be 0 or between 1e-{MAX_EXPONENT} and 1e{MAX_EXPONENT}")
    return number


Exact = Annotated[
    Decimal,
    pydantic.BeforeValidator(_exact),
    pydantic.PlainSerializer(lambda number: decimal_text(Fraction(number)), return_type=str),
]
DateText = Annotated[
    str,
    pydantic.BeforeValidator(lambda date: None if date is None else str(date)),
    pydantic.WithJsonSchema({"type": "string", "format": "date"}),
]
"""A date as text, such as 2026-01-01, or a `datetime.date`, as YAML reads it."""


class RigorousParams(NamesParams):
    """Parameters of every method whose epsilon holds for the whole release."""

    _where_given: ClassVar[tuple[str, ...]] = ("allow_large_delta",)
    epsilon: Exact = Field(gt=0, le=1000)
    """Privacy loss of the whole release, a decimal above 0; smaller protects more and errs more."""
    delta: Exact = Field(default=Decimal("1e-6"), ge=0, le=0.5)
    """It is as if, with this probability, the release told everything, and kept to epsilon
    otherwise. A decimal from 0; at most 1e-5, and at most 1 / max_cases where that is declared."""
    allow_large_delta: bool = False
    """Permit a delta above 1e-5, up to 1 / max_cases, which must be declared. The statement says
    what such a delta allows."""
    max_cases: int | None = Field(default=None, ge=1)
    """Public upper bound on the number of cases, which bounds delta. It is believed, not enforced:
    a sample of so many cases would double what one case changes. By default there is none."""
    max_cases_per_individual: int | None = Field(default=None, ge=1, le=1000)
    """Cases of one individual that count, a random choice of them; noise grows in proportion.
    Makes the individual the unit of privacy. By default 1 if individual_id is mapped; if it is not,
    the unit is the case."""
    vocabulary: tuple[str, ...] | None = None
    """Public file of activity names, one a line; any other activity counts as __other__. By default
    none is declared, which most methods refuse unless the names are bought."""
    max_trace_length: int | None = Field(default=None, ge=1, le=LONGEST_TRACE)
    """Events of a case that count; what comes later is cut off. Public. By default nothing is cut
    but what comes after event 10,000, or where the method needs a length one is bought."""

    @pydantic.model_validator(mode="after")
    def _check_delta(self) -> RigorousParams:
        if self.max_cases is not None and self.delta > 1 / Decimal(self.max_cases):
            raise ValueError(
                "delta must be at most 1/max_cases, as a larger one permits releasing a whole case"
            )
        if self.delta <= MAX_DELTA:
            return self
        if not self.allow_large_delta:
            raise ValueError(
                "delta must be at most 1e-5: give a smaller one, or set allow_large_delta, which "
                "the statement repeats"
            )
        if self.max_cases is None:
            raise ValueError(
                "delta must be at most 1e-5, as max_cases is not declared: allow_large_delta needs "
                "max_cases"
            )
        return self

    @property
    def budget(self) -> tuple[Fraction, Fraction]:
        """(epsilon, delta), exactly."""
        return Fraction(self.epsilon), Fraction(self.delta)


def drawable(scale: tuple[int, int]) -> tuple[int, int]:
    """Returns a scale of noise that can be drawn, so that no release fails after it was counted.

    Raises:
        UsageError: It is too wide for the samplers.
    """
    if scale[0] > LARGEST_SCALE * scale[1]:
        raise UsageError(
            f"the noise would have a scale of {scale[0] / scale[1]:.3g}, and {LARGEST_SCALE} is "
            "the largest: raise epsilon or delta, or lower max_cases_per_individual, "
            "max_trace_length or the clip"
        )
    return scale


def guarantee_of(
    params: RigorousParams,
    spends: tuple[Spend, ...],
    reality: str,
    *not_covered: str,
    in_each: str = "",
) -> Guarantee:
    """Returns the promise of a release whose parts spend what adds up to epsilon and delta.

    Args:
        params: The method's parameters.
        spends: Every part of the release.
        reality: Why it holds, in sentences.
        not_covered: What the release shows or allows beyond it.
        in_each: Where so many cases of an individual count, such as " in each step"; empty: in all.
    """
    epsilon, delta = total(spends)
    is_large = delta > Fraction(MAX_DELTA)

    def said(macro: str) -> tuple[str, ...]:
        given = {"delta": delta, "is_large": is_large, "in_each": in_each}
        return sentences("rigorous", macro, params, **given)

    return Guarantee(
        kind="rigorous",
        unit="case" if params.max_cases_per_individual is None else "individual",
        adjacency="add_remove",
        epsilon=float(epsilon),
        delta=float(delta),
        claim=f"({decimal_text(epsilon)}, {decimal_text(delta)})-differential privacy.",
        reality=" ".join([reality, *said("of_individual")]),
        not_covered=(*said("large"), *not_covered, *said("always")),
    )


def published_guarantee(
    template: str,
    params: Any,
    epsilon: Fraction | None,
    adjacency: Adjacency = "add_remove",
    **values: Any,
) -> Guarantee:
    """Returns the promise of a published method: the claim beside the epsilon that really holds.

    Args:
        template: Of the paper's claim, why it is not what holds, and what is not covered, beside
            cases that depend on each other; see `contract.sentences.promise`.
        params: The method's parameters.
        epsilon: What holds for the whole release, or None.
        adjacency: Which logs are neighbours.
        values: What the template prints beside the parameters.
    """
    said = promise(template, params, declared=DECLARED, **values)
    people = "A person with several cases is protected case by case."
    is_case = getattr(params, "max_cases_per_individual", None) is None
    return Guarantee(
        kind="published",
        unit="case" if is_case else "individual",
        adjacency=adjacency,
        epsilon=None if epsilon is None else float(epsilon),
        delta=None if epsilon is None else 0.0,
        claim=said["claim"],
        reality=said["reality"],
        not_covered=(
            *said["not_covered"],
            *((people,) if is_case else ()),
            "Releases of the same cases add up: so do their epsilons.",
        ),
    )

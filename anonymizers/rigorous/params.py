"""What the methods with a true epsilon have in common: their parameters and their promise."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, Any

import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text, total
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.names import NamesParams
from tracecloak.anonymizers.noise.samplers import LARGEST_SCALE
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.guarantee import Guarantee

# Every decimal of so many digits is a float's shortest text, so JSON numbers keep it exactly.
MAX_DIGITS = 12
# Numbers between 1e-300 and 1e300 are floats other than 0, and short fractions.
MAX_EXPONENT = 300
# Without a declared number of cases, delta stays below this.
MAX_DELTA = Decimal("1e-5")
# Said of every method that is told what is public.
DECLARED = "What is declared is public: a name copied from this log is not protected."
# What is not given is bought with this share of epsilon and delta.
BOUGHT_SHARE = Fraction(5, 100)


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


class RigorousParams(NamesParams):
    """Parameters of every method whose epsilon holds for the whole release."""

    epsilon: Exact = Field(gt=0, le=1000)
    """Privacy loss of the whole release, a decimal above 0; smaller protects more and errs more."""
    delta: Exact = Field(Decimal("1e-6"), ge=0, le=0.5)
    """Probability with which epsilon may not hold, a decimal from 0; at most 1 / max_cases."""
    max_cases: int | None = Field(None, ge=1)
    """Public upper bound on the number of cases, which bounds delta; without it, delta is at most
    1e-5."""
    max_cases_per_individual: int | None = Field(None, ge=1, le=1000)
    """Cases of one individual that count, a random choice of them; noise grows in proportion.
    Makes the individual the unit of privacy. By default 1 if individual_id is mapped; if it is not,
    the unit is the case."""
    vocabulary: tuple[str, ...] | None = None
    """Public file of activity names, one a line; any other activity counts as __other__. By default
    none is declared, which most methods refuse unless the names are bought."""
    max_trace_length: int | None = Field(None, ge=1)
    """Events of a case that count; what comes later is cut off. Public. By default nothing is cut,
    or where the method needs a length one is bought."""

    @pydantic.model_validator(mode="after")
    def _check_delta(self) -> RigorousParams:
        bound = MAX_DELTA if self.max_cases is None else 1 / Decimal(self.max_cases)
        if self.delta > bound:
            said = "1e-5, as max_cases is not declared" if self.max_cases is None else "1/max_cases"
            raise ValueError(
                f"delta must be at most {said}, or it would cover releasing a whole case"
            )
        return self

    @property
    def budget(self) -> tuple[Fraction, Fraction]:
        """(epsilon, delta), exactly."""
        return Fraction(self.epsilon), Fraction(self.delta)

    @property
    def spent_texts(self) -> tuple[str, str]:
        """(epsilon, delta) as texts."""
        epsilon, delta = self.budget
        return decimal_text(epsilon), decimal_text(delta)

    @property
    def max_units(self) -> int:
        """Cases that one unit of privacy can have: 1, or those of an individual that count."""
        return self.max_cases_per_individual or 1

    @property
    def bounds(self) -> ContributionBounds:
        """The public caps."""
        return ContributionBounds(
            self.vocabulary,
            self.max_trace_length,
            self.max_cases_per_individual,
            self.closed_vocabulary,
        )


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
    params: RigorousParams, spends: tuple[Spend, ...], reality: str, *not_covered: str
) -> Guarantee:
    """Returns the promise of a release whose parts spend what adds up to epsilon and delta.

    Args:
        params: The method's parameters.
        spends: Every part of the release.
        reality: Why it holds, in sentences.
        not_covered: What the release shows or allows beyond it.
    """
    epsilon, delta = total(spends)
    unit = "case" if params.max_cases_per_individual is None else "individual"
    always = [
        "Cases of different individuals that depend on each other are protected one by one, not as "
        "a group.",
        "Releases of the same cases add up: so do their epsilons and deltas.",
    ]
    if unit == "case":
        always.append("A person with several cases is protected case by case.")
    return Guarantee(
        kind="rigorous",
        unit=unit,  # type: ignore[arg-type]
        adjacency="add_remove",
        epsilon=float(epsilon),
        delta=float(delta),
        claim=f"({decimal_text(epsilon)}, {decimal_text(delta)})-differential privacy.",
        reality=reality,
        not_covered=(*not_covered, *always),
    )

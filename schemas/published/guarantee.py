"""What a release promises, in numbers and in a sentence that a privacy officer can file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, Literal

from tracecloak.schemas.errors import UsageError

Kind = Literal["rigorous", "published", "syntactic"]
Unit = Literal["case", "individual", "event"]
Adjacency = Literal["add_remove", "replace_one"]
Population = Literal["input", "query result"]

_UNITS = {
    "case": "any one case",
    "individual": "every case of any one individual",
    "event": "any one event",
}
ORDERED_BY_NAME = (
    "In each case, events with equal timestamps are ordered by name: the input does not say which "
    "of them came first."
)
"""What a release says of an input whose records have no order."""
# The longest number that is written without an exponent.
_MANY_PLACES = 20
_SIX_DIGITS = Context(prec=6, rounding=ROUND_CEILING)
_POPULATIONS = {"input": "the input", "query result": "the result of a query"}
_CHANGES = {
    "add_remove": "is added to or removed from {}",
    "replace_one": "is replaced in {} by another",
}


def at_most(value: float | Fraction) -> str:
    """Returns a number of at most six digits that is not below the value, for a sentence.

    An epsilon that was rounded down would be one that does not hold.

    Args:
        value: At least 0; a float stands for the decimal that is its shortest text.
    """
    exact = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    number = _SIX_DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator)).normalize()
    plain = f"{number:f}"
    return plain if len(plain) <= _MANY_PLACES else f"{number:e}"


@dataclass(frozen=True)
class Guarantee:
    """The promise of one release.

    Attributes:
        kind: `rigorous`: epsilon and delta hold for everything in the release. `published`: the
            paper's claim, which does not hold for the whole release. `syntactic`: a property of the
            released bytes, verified on them.
        unit: What one person is taken to be.
        adjacency: Which change of the input the promise is about.
        epsilon: The epsilon that really holds for the whole release, or None: no finite one does.
        delta: The delta that goes with it, or None.
        claim: For `published`: what the paper claims.
        reality: Why the claim is or is not what holds, in sentences.
        not_covered: What the release shows or allows beyond the promise, one sentence each.
        population: Of what the units are that the promise is for.
    """

    kind: Kind
    unit: Unit
    adjacency: Adjacency
    epsilon: float | None
    delta: float | None
    claim: str
    reality: str
    not_covered: tuple[str, ...] = ()
    population: Population = "input"

    def __post_init__(self) -> None:
        if self.kind == "rigorous" and (self.epsilon is None or self.delta is None):
            raise UsageError("a rigorous guarantee needs epsilon and delta")

    def with_order_note(self, is_by_name: bool) -> Guarantee:
        """Returns the promise; where names order events with equal timestamps, it says so."""
        if not is_by_name:
            return self
        return replace(self, not_covered=(*self.not_covered, ORDERED_BY_NAME))

    @property
    def order_sentence(self) -> str:
        """Says that names order events with equal timestamps, if they do; else empty."""
        return ORDERED_BY_NAME if ORDERED_BY_NAME in self.not_covered else ""

    @property
    def short(self) -> str:
        """What holds, in a line for a screen."""
        if self.kind == "syntactic":
            return f"{self.claim} No epsilon holds."
        if self.epsilon is None:
            return "No finite epsilon holds: what was published about the method is not kept."
        epsilon, delta = (
            f"{Decimal(repr(float(value or 0))).normalize():f}"
            for value in (self.epsilon, self.delta)
        )
        holds = f"epsilon {epsilon} and delta {delta} hold for {_UNITS[self.unit]}"
        if self.adjacency == "replace_one":
            holds += " that is replaced by another"
        if self.population != "input":
            holds += f", in {_POPULATIONS[self.population]}"
        if self.kind == "published":
            return f"Not what was published, but {holds}."
        return f"Differential privacy: {holds}."

    @property
    def sentence(self) -> str:
        """One sentence for the file of a privacy officer."""
        change = (
            f"{_UNITS[self.unit]} {_CHANGES[self.adjacency].format(_POPULATIONS[self.population])}"
        )
        epsilon, delta = (at_most(number or 0) for number in (self.epsilon, self.delta))
        if self.kind == "rigorous":
            # The sentence does not say "except with probability delta", since e^epsilon is exceeded
            # more often than that, by less.
            return (
                f"If {change}, the probability of whatever the release may show becomes at most "
                f"e^{epsilon} times what it was{f', plus {delta}' if self.delta else ''}."
            )
        if self.kind == "syntactic":
            return (
                f"{self.claim} This was verified on the released files; it is no differential "
                "privacy."
            )
        if self.epsilon is None:
            return (
                f"No finite epsilon holds for this release if {change}. "
                f"Published claim: {self.claim}"
            )
        return (
            f"If {change}, epsilon {epsilon} with delta {delta} holds for the whole "
            f"release, not what was published. Published claim: {self.claim}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the fields and the sentence as JSON values, the usual population aside."""
        body = {**asdict(self), "not_covered": list(self.not_covered), "sentence": self.sentence}
        if self.population == "input":
            del body["population"]
        return body

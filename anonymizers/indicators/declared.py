"""What can be asked for: a declared list of indicators, each with what is public about it.

In a configuration an indicator is a mapping, `{indicator: throughput, of: mean, at_most: 90d}`, or
the same in a text, as a flag has it: `throughput of=mean at_most=90d`. Everything in it is public:
names of activities, bounds, values of attributes. What a case has beyond a bound counts as the
bound.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import pydantic
from pydantic import Field

from tracecloak.anonymizers.rigorous.params import Exact
from tracecloak.schemas.events.time_texts import Duration, duration_text
from tracecloak.schemas.statistics.declare_rules import OF_ONE, OF_TWO

MAX_INDICATORS = 200
# Of a histogram, or of the grid that quantiles are read from.
MAX_BINS = 200

Period = Literal["day", "week", "month", "quarter", "year"]
Moment = Literal["mean", "sum"]


class Filter(pydantic.BaseModel):
    """Of which cases an indicator speaks: all that are given must hold."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    occurs: str | None = None
    """An activity that the case has."""
    attribute: str | None = None
    """An attribute of the case, as `case:channel`."""
    equals: str | None = None
    """Its value."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Filter:
        if (self.attribute is None) != (self.equals is None):
            raise ValueError("attribute and equals go together")
        if self.occurs is None and self.attribute is None:
            raise ValueError("needs occurs, or attribute and equals")
        return self

    @property
    def words(self) -> str:
        """It as a part of a sentence."""
        parts = []
        if self.occurs is not None:
            parts.append(f"with {self.occurs}")
        if self.attribute is not None:
            parts.append(f"whose {self.attribute} is {self.equals}")
        return " and ".join(parts)


class Indicator(pydantic.BaseModel):
    """What all indicators have."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True
    )

    indicator: str
    name: str | None = Field(None, min_length=1, max_length=200)
    """Its name in what is released; by default what it is, in words."""
    where: Filter | None = None
    """Of which cases it speaks; by default of all."""
    by: Period | None = None
    """By which period of the start of a case it is told apart; by default it is one figure."""
    priority: Exact = Field(1, gt=0, le=1000)  # type: ignore[assignment]
    """What it weighs: with twice the priority an indicator has half the noise beside others."""
    wanted_error: Exact | None = Field(None, gt=0)
    """Half the width of the interval that is wanted, in the unit of the indicator: `plan` says the
    least epsilon for it. By default none is."""

    @property
    def words(self) -> str:
        """What it is, in words, by its own parameters."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """Its name."""
        if self.name is not None:
            return self.name
        return self.words + (f", cases {self.where.words}" if self.where else "")

    @property
    def activities(self) -> tuple[str, ...]:
        """The activities that it names."""
        return () if self.where is None or self.where.occurs is None else (self.where.occurs,)


class Cases(Indicator):
    """The number of cases."""

    indicator: Literal["cases"]

    @property
    def words(self) -> str:
        return "cases"


class Throughput(Indicator):
    """How long cases take, from their first event to their last."""

    indicator: Literal["throughput"]
    of: Literal["mean", "median", "histogram"] | tuple[Exact, ...] = "mean"
    """mean, median, histogram, or a list of quantiles between 0 and 1."""
    at_most: Duration
    """The longest time that counts; a longer one counts as this."""
    n_bins: int = Field(50, ge=2, le=MAX_BINS)
    """Bins of a histogram, of equal width."""

    @property
    def words(self) -> str:
        upto = f"up to {duration_text(self.at_most)}"
        if isinstance(self.of, str):
            return f"{self.of} throughput time, {upto}"
        return f"quantiles of the throughput time, {upto}"


class Within(Indicator):
    """The share of cases that take no longer than a limit."""

    indicator: Literal["within"]
    limit: Duration
    """The longest time that is in time."""

    @property
    def words(self) -> str:
        return f"share within {duration_text(self.limit)}"


class Rework(Indicator):
    """The share of cases in which an activity repeats."""

    indicator: Literal["rework"]
    activity: str | None = None
    """Which activity; by default any."""

    @property
    def words(self) -> str:
        return "share with rework" + (f" of {self.activity}" if self.activity else "")

    @property
    def activities(self) -> tuple[str, ...]:
        return (*super().activities, *((self.activity,) if self.activity else ()))


class Frequency(Indicator):
    """How often an activity occurs in all cases together."""

    indicator: Literal["frequency"]
    activity: str
    at_most: int = Field(1, ge=1, le=10_000)
    """Of one case so many count."""

    @property
    def words(self) -> str:
        of_case = f", up to {self.at_most:,} a case" if self.at_most > 1 else ""
        return f"{self.activity}{of_case}" if of_case else f"cases with {self.activity}"

    @property
    def activities(self) -> tuple[str, ...]:
        return (*super().activities, self.activity)


class Rule(Indicator):
    """The share of cases that keep a rule (`schemas.statistics.declare_rules`)."""

    indicator: Literal["rule"]
    template: str
    """existence, absence, first, last, response, precedence, succession, chain_response,
    chain_precedence, chain_succession or not_coexistence."""
    activity: str
    """The activity that the rule names first."""
    then: str | None = None
    """The other activity, of a rule on two."""
    n: int = Field(1, ge=1, le=10_000)
    """How often, of existence and absence."""
    within: Duration | None = None
    """The longest time between the two, or since the start of the case; by default any."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Rule:
        if self.template not in {*OF_ONE, *OF_TWO}:
            raise ValueError(f"template must be one of {', '.join((*OF_ONE, *OF_TWO))}")
        if (self.template in OF_TWO) != (self.then is not None):
            needs = "needs then" if self.template in OF_TWO else "has no then"
            raise ValueError(f"a rule {self.template} {needs}")
        if self.then == self.activity:
            raise ValueError("activity and then must be two activities")
        if self.n != 1 and self.template not in ("existence", "absence"):
            raise ValueError("n is for existence and absence")
        return self

    @property
    def words(self) -> str:
        named = f"{self.activity}, {self.then}" if self.then else self.activity
        times = f", {self.n:,} times" if self.n != 1 else ""
        limit = f" within {duration_text(self.within)}" if self.within is not None else ""
        return f"share that keeps {self.template.replace('_', ' ')}({named}{times}){limit}"

    @property
    def activities(self) -> tuple[str, ...]:
        both = (self.activity,) if self.then is None else (self.activity, self.then)
        return (*super().activities, *both)


class Waiting(Indicator):
    """How long cases wait between an activity and the one right after it, in the mean."""

    indicator: Literal["waiting"]
    activity: str
    """The activity before."""
    then: str
    """The activity after."""
    at_most: Duration
    """The longest time that counts, of all such steps of a case together."""

    @property
    def words(self) -> str:
        upto = duration_text(self.at_most)
        return f"mean wait from {self.activity} to {self.then}, up to {upto}"

    @property
    def activities(self) -> tuple[str, ...]:
        return (*super().activities, self.activity, self.then)


class Amount(Indicator):
    """The mean or the sum of a numeric attribute of cases."""

    indicator: Literal["amount"]
    attribute: str
    """An attribute of the case, as `case:amount`."""
    of: Moment = "mean"
    """mean or sum."""
    bounds: tuple[Exact, Exact]
    """The smallest and the largest number that counts; numbers beyond count as the nearer one."""
    column: str | None = Field(None, min_length=1)
    """Source column (or XES key); by default the attribute's name."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Amount:
        low, high = self.bounds
        if low >= high:
            raise ValueError(f"bounds must be a smaller and a larger number, got {low} and {high}")
        return self

    @property
    def words(self) -> str:
        return f"{self.of} of {self.attribute}, from {self.bounds[0]} to {self.bounds[1]}"


KINDS: tuple[type[Indicator], ...] = (
    Cases, Throughput, Within, Rework, Frequency, Rule, Waiting, Amount,
)  # fmt: skip


def _of_text(value: Any) -> Any:
    """Reads `throughput of=mean at_most=90d` as a mapping; anything else is left as it is."""
    if not isinstance(value, str):
        return value
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise ValueError(f"an indicator's quotes must be closed: {error}") from None
    if not words:
        raise ValueError("an indicator is a word such as cases, and what it takes: of=mean")
    first, *others = words
    given: dict[str, Any] = {"indicator": first}
    for word in others:
        key, sign, text = word.partition("=")
        if not sign:
            raise ValueError(f"after the indicator, each word is KEY=VALUE, got {word!r}")
        given[key] = text
    return given


AnyIndicator = Annotated[
    Cases | Throughput | Within | Rework | Frequency | Rule | Waiting | Amount,
    Field(discriminator="indicator"),
]
OneIndicator = Annotated[AnyIndicator, pydantic.BeforeValidator(_of_text)]
"""An indicator, as a mapping or as a text."""

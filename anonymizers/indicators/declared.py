"""What can be asked for: a declared list of indicators, each with what is public about it.

In a configuration an indicator is a mapping, `{indicator: throughput, of: mean, at_most: 90d}`, or
the same in a text, as a flag has it: `throughput of=mean at_most=90d`. Everything in it is public:
names of activities, bounds, values of attributes. What a case has beyond a bound counts as the
bound.
"""

from __future__ import annotations

import shlex
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, get_args

import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.indicators.declare_rules import OF_ONE, OF_TWO
from tracecloak.anonymizers.rigorous.params import Exact
from tracecloak.schemas.calendar.durations import Duration, duration_text, short_duration
from tracecloak.schemas.events.events import is_case_attribute
from tracecloak.schemas.published.figures import SHARE

MAX_INDICATORS = 200
MAX_GROUPS = 1_000
MAX_BINS = 200
# Ranks of cases are counted in parts of one, of which a sum must not overflow.
_FINEST = 1_000_000

# A duration whose text in a manifest is what a configuration has: 90d.
Time = Annotated[Duration, pydantic.PlainSerializer(short_duration, return_type=str)]

Period = Literal["day", "week", "month", "quarter", "year"]
PERIODS: tuple[str, ...] = get_args(Period)

ACTIVITY = "activity"
PAIR = "pair"


class Filter(pydantic.BaseModel):
    """Of which cases an indicator speaks: all that are given must hold."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    occurs: str | None = Field(default=None, min_length=1)
    """An activity that the case has."""
    attribute: str | None = None
    """An attribute of the case, as `case:channel`."""
    equals: str | None = Field(default=None, min_length=1)
    """Its value."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Filter:
        if (self.attribute is None) != (self.equals is None):
            raise ValueError("attribute and equals go together")
        if self.occurs is None and self.attribute is None:
            raise ValueError("needs occurs, or attribute and equals")
        if self.attribute is not None:
            _check_of_case(self.attribute)
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


def _check_of_case(attribute: str) -> None:
    if not is_case_attribute(attribute):
        raise ValueError("must be an attribute of the case, whose name begins with case:")


def _listed(value: Any) -> Any:
    """Reads `A|B` as a list, since a comma stands between the indicators of a flag."""
    return [part.strip() for part in value.split("|")] if isinstance(value, str) else value


Group = str | tuple[str, str]


def _pair_of(group: Any) -> tuple[Any, Any]:
    """The two activities of a pair, which a text has as A>B."""
    parts = [part.strip() for part in group.split(">", 1)] if isinstance(group, str) else group
    match parts:
        case [first, second]:
            return first, second
    raise ValueError("groups must be pairs of activities, [A, B] or in a text A>B")


class Indicator(pydantic.BaseModel):
    """What all indicators have."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True
    )
    steps: ClassVar[str | None] = None
    """Of what a case can have several, and that it can be told apart by: activities, pairs or
    nothing."""
    is_of_a_step: ClassVar[bool] = False
    """Whether it needs one, named or told apart by."""
    is_of_all: ClassVar[bool] = True
    """Whether every case has a number of it."""
    unit: ClassVar[str] = SHARE
    said: ClassVar[str] = ""
    """Its words, with its parameters in braces."""
    """Of what is released: share, cases, events, occurrences, s for seconds, or that of an
    attribute, which has no name."""

    indicator: str
    name: str | None = Field(default=None, min_length=1, max_length=200)
    """Its name in what is released; by default what it is, in words."""
    where: Filter | None = None
    """Of which cases it speaks; by default of all."""
    by: str | None = None
    """What it is told apart by: day, week, month, quarter or year of the start of a case, an
    attribute of the case such as `case:channel`, or activity or pair where it is about these; by
    default it is one figure."""
    groups: Annotated[
        tuple[Group, ...] | None,
        pydantic.BeforeValidator(_listed),
        Field(min_length=1, max_length=MAX_GROUPS),
    ] = None
    """The values of that attribute, the activities or the pairs, public; in a text A|B, and a pair
    as A>B. By default the most frequent ones are chosen on the log, for a share of the budget."""
    n_groups: int = Field(default=10, ge=1, le=MAX_GROUPS)
    """How many are chosen at most where groups are not declared."""
    priority: Exact = Field(default=1, gt=0, le=1000)  # type: ignore[assignment]
    """Its share of the budget beside others; with twice the priority it gets twice the share."""
    wanted_error: Exact | None = Field(default=None, gt=0)
    """Half the width of the interval that is wanted, in the unit of the indicator: times in
    seconds, quantiles in cases by which their rank is off. `plan` says the least epsilon for all
    that are wanted. By default none is."""

    @pydantic.model_validator(mode="after")
    def _check_groups(self) -> Indicator:
        self._check_by()
        groups = self.groups or ()
        if len(set(groups)) < len(groups):
            raise ValueError("groups must be distinct")
        if not all(group if isinstance(group, str) else all(group) for group in groups):
            raise ValueError("groups must not be empty texts")
        if self.by != PAIR and not all(isinstance(group, str) for group in groups):
            raise ValueError("groups must be texts")
        if not all(self.activities):
            raise ValueError("the name of an activity must not be empty")
        named = getattr(self, "activity", None)
        if self.is_of_a_step and (named is None) == (self.by != self.steps):
            raise ValueError(f"needs either {ACTIVITY} or by={self.steps}")
        return self

    def _check_by(self) -> None:
        if self.by is None:
            if self.groups is not None:
                raise ValueError("groups needs by, which says what they are of")
        elif self.by in (ACTIVITY, PAIR):
            if self.by != self.steps:
                raise ValueError(f"{self.indicator} cannot be told apart by {self.by}")
        elif self.by in PERIODS:
            if self.groups is not None:
                raise ValueError(
                    "groups are not for periods: first_date and last_date say which there are"
                )
        elif not is_case_attribute(self.by):
            known = ", ".join((*PERIODS, *((self.steps,) if self.steps else ())))
            raise ValueError(f"by must be {known} or an attribute of the case such as case:channel")

    @pydantic.field_validator("groups", mode="before")
    @classmethod
    def _pairs_of_texts(cls, groups: Any, info: pydantic.ValidationInfo) -> Any:
        groups = _listed(groups)
        if info.data.get("by") != PAIR or not isinstance(groups, list | tuple):
            return groups
        return tuple(map(_pair_of, groups))

    @pydantic.model_serializer(mode="wrap")
    def _as_text(self, serialise: pydantic.SerializerFunctionWrapHandler) -> str | dict[str, Any]:
        """Leaves out what is as it is by default; a mapping only where a text would say another."""
        fields = type(self).model_fields
        given = {
            name: value
            for name, value in serialise(self).items()
            if name == "indicator" or getattr(self, name) != fields[name].default
        }
        text = _text_of(given)
        try:
            return text if type(self).model_validate(_parse_text(text)) == self else given
        except ValueError:
            return given

    @property
    def words(self) -> str:
        """What it is, in words, by its own parameters."""
        return self.said.format(self)

    @property
    def title(self) -> str:
        """Its name."""
        if self.name is not None:
            return self.name
        where = f", cases {self.where.words}" if self.where else ""
        return self.words + (f" by {self.by}" if self.by else "") + where

    @property
    def steps_of(self) -> tuple[Group, ...]:
        """The activities or pairs that are declared: those that it names, or is told apart by."""
        named = getattr(self, "activity", None) if self.steps == ACTIVITY else None
        if named is not None:
            return (named,)
        return (self.groups or ()) if self.is_by_steps else ()

    @property
    def is_by_steps(self) -> bool:
        """Whether it is told apart by what a case can have several of."""
        return self.by is not None and self.by == self.steps

    @property
    def is_selected(self) -> bool:
        """Whether its groups are chosen on the log; periods are not, as they follow from dates."""
        return self.by is not None and self.by not in PERIODS and self.groups is None

    @property
    def activities(self) -> tuple[str, ...]:
        """The activities that it names."""
        steps = self.steps_of if self.steps else ()
        by = [name for step in steps for name in ((step,) if isinstance(step, str) else step)]
        return (*by, *((self.where.occurs,) if self.where and self.where.occurs else ()))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it reads."""
        by = () if self.by in (None, ACTIVITY, PAIR, *PERIODS) else (self.by,)
        where = self.where.attribute if self.where else None
        return tuple(name for name in (*by, where) if name)


class Cases(Indicator):
    """The number of cases."""

    unit: ClassVar[str] = "cases"
    said: ClassVar[str] = "cases"
    indicator: Literal["cases"]


Moments = Literal["mean", "sum", "median", "histogram"]


class Measured(Indicator):
    """An indicator of numbers between bounds, one of each case: their mean, quantiles or bins."""

    is_of_all: ClassVar[bool] = False
    of: Moments | Annotated[tuple[Exact, ...], Field(min_length=1, max_length=50)] = "mean"
    """mean, sum, median, histogram, or a list of quantiles between 0 and 1, in a text 0.5|0.9."""
    n_bins: int = Field(default=20, ge=2, le=MAX_BINS)
    """Bins of a histogram, of equal width."""

    @pydantic.field_validator("of", mode="before")
    @classmethod
    def _read_of(cls, value: Any) -> Any:
        if value == "median":
            return ("0.5",)
        if isinstance(value, str) and value not in get_args(Moments):
            value = _listed(value)
        return [value] if isinstance(value, int | float) else value

    @pydantic.field_validator("of")
    @classmethod
    def _check_of(cls, of: Any) -> Any:
        if isinstance(of, str):
            return of
        if not all(0 < share < 1 for share in of):
            raise ValueError("quantiles must lie between 0 and 1")
        if any(Fraction(share).denominator > _FINEST for share in of):
            raise ValueError(f"quantiles must be multiples of {1 / _FINEST:.6f}")
        if list(of) != sorted(set(of)):
            raise ValueError("quantiles must ascend, each once")
        return of

    @property
    def quantiles(self) -> tuple[Fraction, ...]:
        """The quantiles that are asked for."""
        return () if isinstance(self.of, str) else tuple(Fraction(share) for share in self.of)

    @property
    def of_words(self) -> str:
        """What is asked for, in words."""
        if isinstance(self.of, str):
            return f"{self.of} of" if self.of == "histogram" else self.of
        if self.quantiles == (Fraction(1, 2),):
            return "median"
        if len(self.of) == 1:
            return f"{decimal_text(Fraction(self.of[0]))} quantile of"
        return "quantiles of"


class Timed(Measured):
    """An indicator of durations."""

    unit: ClassVar[str] = "s"
    at_most: Time | None = None
    """The longest time that counts; a longer one counts as this. By default one is chosen on the
    log, for a share of the budget: some times as long as three of four cases take."""

    @pydantic.model_validator(mode="after")
    def _check_range(self) -> Timed:
        if self.at_most is not None and self.at_most <= 0:
            raise ValueError("at_most must be above 0")
        if self.at_most is None and self.wanted_error is not None:
            raise ValueError("wanted_error needs at_most, of which the error is a part: declare it")
        if self.at_most is None and self.is_by_steps:
            raise ValueError(f"at_most must be declared where times are told apart by {self.by}")
        return self


class Throughput(Timed):
    """How long cases take, from their first event to their last."""

    said: ClassVar[str] = "{0.of_words} throughput time"
    indicator: Literal["throughput"]
    is_of_all: ClassVar[bool] = True


class Within(Indicator):
    """The share of cases that take no longer than a limit."""

    indicator: Literal["within"]
    limit: Time
    """The longest time that is in time."""

    @property
    def words(self) -> str:
        """See `Indicator`."""
        return f"share within {duration_text(self.limit)}"


class Rework(Indicator):
    """The share of cases in which an activity repeats."""

    indicator: Literal["rework"]
    steps: ClassVar[str | None] = ACTIVITY
    activity: str | None = None
    """Which activity; by default any, or those that it is told apart by."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Rework:
        if self.activity is not None and self.is_by_steps:
            raise ValueError(f"has either {ACTIVITY} or by={ACTIVITY}")
        return self

    @property
    def words(self) -> str:
        """See `Indicator`."""
        return "share with rework" + (f" of {self.activity}" if self.activity else "")


class Frequency(Indicator):
    """How often an activity occurs in all cases together."""

    indicator: Literal["frequency"]
    is_of_a_step: ClassVar[bool] = True
    steps: ClassVar[str | None] = ACTIVITY
    activity: str | None = None
    """Which activity, unless it is told apart by activity."""
    at_most: int = Field(default=1, ge=1, le=10_000)
    """Of one case so many count; with 1, cases that have it are counted."""

    @property
    def words(self) -> str:
        """See `Indicator`."""
        cap_text = f", up to {self.at_most:,} a case" if self.at_most > 1 else ""
        what = "occurrences of" if cap_text else "cases with"
        return f"{what} {self.activity or 'an activity'}{cap_text}"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """See `Indicator`."""
        return "cases" if self.at_most == 1 else "occurrences"


class Rule(Indicator):
    """The share of cases that keep a rule (`anonymizers.indicators.declare_rules`)."""

    indicator: Literal["rule"]
    template: str
    """existence, absence, first, last, response, precedence, succession, chain_response,
    chain_precedence, chain_succession or not_coexistence."""
    activity: str
    """The activity that the rule names first."""
    then: str | None = None
    """The other activity, of a rule on two."""
    n: int = Field(default=1, ge=1, le=10_000)
    """How often, of existence and absence."""
    within: Time | None = None
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
        """See `Indicator`."""
        named = f"{self.activity}, {self.then}" if self.then else self.activity
        times = f", {self.n:,} times" if self.n != 1 else ""
        limit = f" within {duration_text(self.within)}" if self.within is not None else ""
        return f"share that keeps {self.template.replace('_', ' ')}({named}{times}){limit}"

    @property
    def activities(self) -> tuple[str, ...]:
        """See `Indicator`."""
        both = (self.activity,) if self.then is None else (self.activity, self.then)
        return (*super().activities, *both)


class Waiting(Timed):
    """How long cases wait between an activity and the one right after it, the first time."""

    indicator: Literal["waiting"]
    is_of_a_step: ClassVar[bool] = True
    steps: ClassVar[str | None] = PAIR
    activity: str | None = None
    """The activity before, unless it is told apart by pair."""
    then: str | None = None
    """The activity after."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Waiting:
        if (self.activity is None) != (self.then is None):
            raise ValueError("activity and then go together")
        return self

    @property
    def words(self) -> str:
        """See `Indicator`."""
        pair = f"{self.activity} to {self.then}" if self.activity else "one activity to the next"
        return f"{self.of_words} wait from {pair}"

    @property
    def steps_of(self) -> tuple[Group, ...]:
        """See `Indicator`."""
        if self.activity is None or self.then is None:
            return super().steps_of
        return ((self.activity, self.then),)


class Working(Timed):
    """How long an activity is worked on in a case altogether, where starts are known."""

    indicator: Literal["working"]
    is_of_a_step: ClassVar[bool] = True
    steps: ClassVar[str | None] = ACTIVITY
    activity: str | None = None
    """Which activity, unless it is told apart by activity."""

    @property
    def words(self) -> str:
        """See `Indicator`."""
        return f"{self.of_words} working time of {self.activity or 'an activity'}"


class Amount(Measured):
    """A numeric attribute of cases."""

    unit: ClassVar[str] = ""
    said: ClassVar[str] = "{0.of_words} {0.attribute}"
    indicator: Literal["amount"]
    attribute: str
    """An attribute of the case, as `case:amount`."""
    bounds: Annotated[tuple[Exact, Exact], pydantic.BeforeValidator(_listed)]
    """The smallest and the largest number that counts, in a text 0|500; numbers beyond count as the
    nearer one, and a case without a number does not count."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Amount:
        low, high = self.bounds
        if low >= high:
            raise ValueError("bounds must be a smaller and a larger number")
        _check_of_case(self.attribute)
        return self

    @property
    def attributes(self) -> tuple[str, ...]:
        """See `Indicator`."""
        return (*super().attributes, self.attribute)


class Workload(Indicator):
    """Events by who does them: a value of an attribute of events."""

    unit: ClassVar[str] = "events"
    said: ClassVar[str] = "events, up to {0.at_most:,} a case"
    indicator: Literal["workload"]
    by: str = "org:resource"
    """The attribute of events, by default org:resource; org:group and org:role are others."""
    at_most: int = Field(default=10, ge=1, le=10_000)
    """Events of a case that count, the first ones of the groups that are shown; the noise is in
    proportion to it."""

    def _check_by(self) -> None:
        if is_case_attribute(self.by) or self.by in (ACTIVITY, PAIR, *PERIODS):
            raise ValueError("by must be an attribute of events, such as org:resource")

    @property
    def is_by_steps(self) -> bool:
        """See `Indicator`: a case has several, which are no activities."""
        return True


def _text_of(given: dict[str, Any]) -> str:
    """The text that `_parse_text` reads as such a mapping, if no name has a | or > in it."""
    words = [given["indicator"]]
    for key, value in given.items():
        if key == "where":
            words += [f"where.{name}={text}" for name, text in value.items() if text is not None]
        elif isinstance(value, list | tuple):
            parts = (part if isinstance(part, str) else ">".join(part) for part in value)
            words.append(f"{key}={'|'.join(parts)}")
        elif key != "indicator":
            words.append(f"{key}={value}")
    return shlex.join(words)


AnyIndicator = Annotated[
    Cases | Throughput | Within | Rework | Frequency | Rule | Waiting | Working | Amount | Workload,
    Field(discriminator="indicator"),
]


def _parse_text(value: Any) -> Any:
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
        part, dot, inner = key.partition(".")
        target = given
        if dot and part == "where" and isinstance(where := given.setdefault(part, {}), dict):
            target, key = where, inner
        if key in target:
            raise ValueError(f"{key} is there twice, each key goes once: {word!r}")
        target[key] = text
    return given


class _OrText:
    """Says in a JSON schema that a text stands for a mapping as well."""

    def __get_pydantic_json_schema__(
        self, core: Any, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "minLength": 1}, handler(core)]}


OneIndicator = Annotated[AnyIndicator, pydantic.BeforeValidator(_parse_text), _OrText()]
"""An indicator, as a mapping or as a text."""

"""Parameters of `private-indicators`, and what follows from them before any data is read.

That is what a release or a stream is asked for, which sums the list of indicators needs, each once,
and their shares of the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import pydantic
from pydantic import Field, PrivateAttr

from tracecloak.anonymizers.indicators import terms
from tracecloak.anonymizers.indicators.declared import (
    ACTIVITY,
    MAX_GROUPS,
    MAX_INDICATORS,
    PERIODS,
    Amount,
    Cases,
    Frequency,
    Group,
    Indicator,
    Measured,
    OneIndicator,
    Timed,
    Working,
    Workload,
)
from tracecloak.anonymizers.indicators.quantiles import rank_half_width
from tracecloak.anonymizers.indicators.summands import Groups, Population, periods_of
from tracecloak.anonymizers.rigorous.budget import Sums, budget_of
from tracecloak.anonymizers.rigorous.params import DateText, RigorousParams
from tracecloak.anonymizers.times.time_range import TIME_RANGE, TimeRange
from tracecloak.schemas.calendar.local_time import zone_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events import declarations
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.events.events import OTHER

MAX_STEPS = 200
"""Activities or pairs that one indicator is told apart by."""

# How parts begin that are of no indicator alone.
_TAKEN = ("number of cases", "groups by ", TIME_RANGE)
# What the sums and choices of an indicator are called, after its name.
_OF_TITLES = ("sum", "cases", "bins", "events", "windows", "longest time")


class RequestedParams(RigorousParams):
    """Parameters that ask for indicators.

    Attributes:
        chooses_quantiles: Whether a quantile can be chosen on the exact counts; else all are read
            from running sums.
    """

    chooses_quantiles: ClassVar[bool] = True

    indicators: tuple[OneIndicator, ...] = Field(
        max_length=MAX_INDICATORS, json_schema_extra={"minItems": 1}
    )
    """What is asked for, such as cases, or throughput of=mean at_most=90d; each a text or a mapping
    of keys. Everything in it is public, and each has its share of the budget."""

    @pydantic.field_validator("indicators", mode="before")
    @classmethod
    def _one_text(cls, indicators: Any) -> Any:
        return [indicators] if isinstance(indicators, str) else indicators

    @pydantic.model_validator(mode="after")
    def _check_indicators(self) -> RequestedParams:
        if not self.indicators:
            raise ValueError("indicators needs one at least, such as cases")
        titles = [indicator.title for indicator in self.indicators]
        taken = {f"{title}, {what}" for title in titles for what in _OF_TITLES}
        for place, (indicator, title) in enumerate(zip(self.indicators, titles, strict=True)):
            at = f"indicators.{place}: "
            if titles.index(title) < place:
                raise ValueError(f"{at}{title!r} is there twice: give one of them another name")
            if title.startswith(_TAKEN):
                raise ValueError(f"{at}the name {title!r} is taken: begin another way")
            if title in taken:
                raise ValueError(f"{at}the name {title!r} is taken: give it another one")
            self._check_names(at, indicator)
        self._check_populations()
        self._check_attributes()
        return self

    def _check_populations(self) -> None:
        """Two numbers of cases that are called alike would have the same noise."""
        by_words: dict[str, Population] = {}
        for place, indicator in enumerate(self.indicators):
            own = Population.of(indicator)
            if by_words.setdefault(own.words, own) != own:
                raise ValueError(
                    f"indicators.{place}: others{own.words} have other groups: declare the same "
                    "groups, in the same order, for all that are told apart alike"
                )

    def _check_attributes(self) -> None:
        declared = {attribute.name: attribute.declaration for attribute in self.declared_attributes}
        if len(declared) > declarations.MAX_ATTRIBUTES:
            most = declarations.MAX_ATTRIBUTES
            raise ValueError(f"indicators read {len(declared)} attributes, and {most} are the most")
        for name in declared.keys() & set(declarations.TAKEN_NAMES):
            raise ValueError(f"{name!r} is the case, the activity or the time, and no attribute")
        declarations.check_names(declared)

    def _check_names(self, at: str, indicator: Indicator) -> None:
        n_steps = len(self.steps_of(indicator) or ())
        n_chosen = indicator.n_groups if indicator.is_by_steps else 0
        if indicator.steps and max(n_steps, n_chosen) > MAX_STEPS:
            raise ValueError(f"{at}at most {MAX_STEPS} activities or pairs can be told apart")
        for name in indicator.activities if self.vocabulary is not None else ():
            if name not in (self.vocabulary or ()):
                raise ValueError(
                    f"{at}activity {name!r} is not in the vocabulary: correct it, or add it there"
                )

    @property
    def public_range(self) -> TimeRange | None:
        """The declared range of dates by which periods are told apart; by default none."""
        return None

    def periods(self, period: str, span: TimeRange) -> Groups:
        """Returns the periods of a range of dates, of parameters that have a time zone."""
        zone = getattr(self, "calendar_time_zone", "UTC")
        return periods_of(period, span.first_us, span.last_us, zone)

    def steps_of(self, indicator: Indicator) -> tuple[Group, ...] | None:
        """Returns the activities, pairs or values that it is about; None: they are bought.

        Empty where it is about none. Activities that are not named are those of the vocabulary.
        """
        if indicator.is_by_steps and indicator.groups is None:
            return self.vocabulary if indicator.by == ACTIVITY else None
        return indicator.steps_of

    def n_steps_of(self, indicator: Indicator) -> int:
        """Returns how many these are at most, or 1 where it is about none."""
        steps = self.steps_of(indicator)
        return max(self.selected_groups[str(indicator.by)] if steps is None else len(steps), 1)

    @cached_property
    def selected_groups(self) -> Mapping[str, int]:
        """By what indicators are told apart whose groups are bought, and how many at most."""
        wanted: dict[str, int] = {}
        for indicator in self.indicators:
            by = indicator.by
            if by is None or not indicator.is_selected:
                continue
            if indicator.is_by_steps and self.steps_of(indicator) is not None:
                continue
            wanted[by] = max(wanted.get(by, 0), indicator.n_groups)
        return wanted

    @cached_property
    def selected_times(self) -> tuple[Timed, ...]:
        """The indicators whose longest time is chosen on the log."""
        return tuple(i for i in self.indicators if isinstance(i, Timed) and i.at_most is None)

    @cached_property
    def declared_attributes(self) -> tuple[Attribute, ...]:
        """What is read of the attributes, with all values and bounds that are declared."""
        values: dict[str, list[str]] = {}
        bounds: dict[str, tuple[float, float]] = {}
        for indicator in self.indicators:
            for name in indicator.attributes:
                values.setdefault(name, [])
            where, by = indicator.where, indicator.by
            if where is not None and where.attribute is not None and where.equals is not None:
                values[where.attribute].append(where.equals)
            if by in values:
                values[by] += [str(group) for group in indicator.groups or ()]
            if isinstance(indicator, Amount):
                low, high = indicator.bounds
                bounds[indicator.attribute] = float(low), float(high)
        attributes, columns = [], getattr(self, "attribute_columns", {})
        for name, texts in values.items():
            domain: dict[str, Any] = {"values": tuple(dict.fromkeys(texts)) or (OTHER,)}
            if name in bounds:
                domain = {"bounds": bounds[name]}
            declaration = declarations.Declaration(**domain, column=columns.get(name))
            attributes.append(Attribute(name, declaration))
        return tuple(attributes)


class IndicatorParams(RequestedParams):
    """Parameters of `private-indicators`."""

    first_date: DateText | None = None
    """First date of the periods by which indicators are told apart, such as 2026-01-01. By default
    the range is chosen on the log, for a share of the budget."""
    last_date: DateText | None = None
    """Last date of these periods, inclusive; goes with first_date. By default, without first_date,
    the range is bought."""
    calendar_time_zone: str = "UTC"
    """IANA time zone whose dates and periods are meant."""
    max_activities: int = Field(default=16, ge=1, le=1000)
    """Distinct activities, pairs or values of a case that count where groups are chosen on the
    log."""
    attribute_columns: dict[str, str] = Field(default_factory=dict)
    """The source column (or XES key) of attributes whose column has another name, as
    {"case:channel": "Channel"}. By default the column has the attribute's name."""
    service_times: bool = False
    """Whether events have starts. It follows from start_timestamp and lifecycle; by default
    they have none."""
    _n_cases: int | None = PrivateAttr(None)

    @pydantic.model_validator(mode="after")
    def _check(self) -> IndicatorParams:
        try:
            self._check_time()
        except UsageError as error:
            raise ValueError(str(error)) from None
        for place, indicator in enumerate(self.indicators):
            at = f"indicators.{place}: "
            if isinstance(indicator, Working) and not self.service_times:
                raise ValueError(
                    f"{at}working needs the starts of events: map their column with "
                    "start_timestamp, or the lifecycle"
                )
            if indicator.is_selected and indicator.by in self.selected_groups and not self.delta:
                raise ValueError(f"{at}groups are chosen with a delta: declare them, or give one")
        unknown = set(self.attribute_columns) - {a for i in self.indicators for a in i.attributes}
        if unknown:
            raise ValueError(f"attribute_columns: no indicator reads {', '.join(sorted(unknown))}")
        return self

    def _check_time(self) -> None:
        zone_of(self.calendar_time_zone)
        if (self.first_date is None) != (self.last_date is None):
            raise UsageError("first_date and last_date go together")
        span, periods = self.public_range, [i.by for i in self.indicators if i.by in PERIODS]
        if span is not None and not periods:
            raise UsageError("first_date is of periods, and no indicator is by one: leave it out")
        for period in periods:
            if span is None and period in ("day", "week"):
                raise UsageError(f"by {period} needs first_date and last_date")
            if span is not None and (n := len(self.periods(str(period), span).labels)) > MAX_GROUPS:
                raise UsageError(
                    f"by {period} makes {n:,} periods, and {MAX_GROUPS:,} are the most"
                )

    def expecting(self, n_cases: int) -> IndicatorParams:
        """Returns the same parameters, of which `costs` foretells errors for so many cases."""
        expecting = self.model_copy()
        expecting._n_cases = n_cases
        return expecting

    @property
    def n_cases_expected(self) -> int | None:
        """Cases that were declared to be expected."""
        return self._n_cases

    @cached_property
    def public_range(self) -> TimeRange | None:
        """The declared range of dates."""
        if self.first_date is None or self.last_date is None:
            return None
        return TimeRange.from_dates(self.first_date, self.last_date, self.calendar_time_zone)


@dataclass(frozen=True)
class Known:
    """What is public by now, be it declared or bought, for counting and for figures.

    Attributes:
        params: The parameters.
        decided: What was bought, by the names of parts.
    """

    params: RequestedParams
    decided: Mapping[str, Any]

    def groups(self, population: Population) -> Groups:
        """Returns the groups of the cases of a population."""
        by = population.by
        if by is None:
            return Groups()
        if by in PERIODS:
            span = self.params.public_range
            if span is None:
                span = self.decided[TIME_RANGE].time_range
            return self.params.periods(by, span)
        if population.groups is not None:
            return Groups(population.groups, by)
        return Groups(tuple(self.decided[selection_name(by)].labels), by)

    def steps(self, indicator: Indicator) -> tuple[Group, ...]:
        """Returns the activities, pairs or values that an indicator is about."""
        steps = self.params.steps_of(indicator)
        if steps is not None:
            return steps
        return tuple(self.decided[selection_name(str(indicator.by))].steps)

    def selected_us(self, indicator: Indicator) -> int | None:
        """Returns the longest time that was bought for it."""
        if not isinstance(indicator, Timed) or indicator.at_most is not None:
            return None
        return int(self.decided[longest_time_name(indicator)].longest_us)


def selection_name(by: str) -> str:
    """Returns the name of the part that buys groups."""
    return f"groups by {by}"


def longest_time_name(indicator: Timed) -> str:
    """Returns the name of the part that buys the longest time of an indicator."""
    return f"{indicator.title}, longest time"


# The share of numbers of cases, which nothing halves, beside 1 for a centred sum: of six figures
# the product of the errors is the same then, and none errs more than it would with a sixth of
# epsilon to itself.
WHOLE_SHARE = Fraction(3, 2)
QUANTILE_SHARE = Fraction(5, 2)
"""The share of the two choices around a quantile."""

# What the number of cases that have a number has, beside the sum of these.
_WITH_SHARE = Fraction(3, 4)
# What the sum of a frequency has: the noise of half of the number of cases is added to its own.
_FREQUENCY_SHARE = Fraction(5, 4)


def is_running(indicator: Measured, params: RequestedParams) -> bool:
    """Returns whether an indicator's quantiles are read from running sums; public.

    That is where they would err less, by the ranks that half an interval has, if the indicator were
    alone.
    """
    n_choices = len(indicator.quantiles)
    if not params.chooses_quantiles:
        return True
    if n_choices < 2 or params.delta == 0:  # one is always better chosen
        return False
    return _running_errs_less(indicator, n_choices, params.budget)


@lru_cache(maxsize=256)
def _running_errs_less(
    indicator: Measured, n_choices: int, budget: tuple[Fraction, Fraction]
) -> bool:
    term = terms.BinsOf(indicator, 1, is_running=True)
    epsilon, delta = budget
    try:
        alone = budget_of(epsilon, delta, (Sums("bins", Fraction(1), term.changed, term.units),))
        noise = alone.means["bins"].noise(term.changed, term.units)
    except UsageError:
        return False
    norm = float(term.changed.l2) / term.units
    return noise.half_width * norm < rank_half_width(epsilon / (2 * n_choices), Fraction(1, 2), 1)


def weighed_terms(params: RequestedParams) -> dict[terms.Term, Fraction]:
    """Returns all sums that get noise in the round of sums, in a fixed order, with their shares."""
    counted = counted_terms(params).items()
    return {term: share for term, share in counted if not terms.is_chosen(term)}


def counted_terms(params: RequestedParams) -> dict[terms.Term, Fraction]:
    """Returns what is counted in the round of sums: what gets noise, and bins of choices after it.

    In a fixed order, each with its share of the budget, beside those of the others.
    """
    shares: dict[terms.Term, Fraction] = {}
    dependents: dict[Population, list[Fraction]] = {}
    asked: dict[Population, Fraction] = {}
    for indicator in params.indicators:
        population, weight = Population.of(indicator), Fraction(indicator.priority)
        if isinstance(indicator, Cases):
            asked[population] = max(weight * WHOLE_SHARE, asked.get(population, Fraction(0)))
        own = _terms_of(indicator, weight, params)
        is_sum = any(isinstance(term, terms.SumOf) for term in own)
        if is_sum and (indicator.is_of_all or population.by is None):  # it uses the number of cases
            dependents.setdefault(population, []).append(weight)
        shares |= own
    for population in {**asked, **dependents}:
        if terms.CasesOf(population).is_centred:  # half of all cases is added again
            others = dependents.get(population, []) or [asked[population]]
            dependents.setdefault(Population(), []).extend(others)
    populations = sorted({**asked, **dependents}, key=lambda p: not p.is_whole)
    counts: dict[terms.Term, Fraction] = {
        terms.CasesOf(p): max(asked.get(p, Fraction(0)), terms.weight_of(dependents.get(p, [])))
        for p in populations
    }
    return counts | dict(sorted(shares.items(), key=lambda own: terms.is_chosen(own[0])))


def _terms_of(
    indicator: Indicator, weight: Fraction, params: RequestedParams
) -> dict[terms.Term, Fraction]:
    n_steps = params.n_steps_of(indicator)
    match indicator:
        case Cases():
            return {}
        case Workload():
            return {terms.EventsOf(indicator, n_steps): weight}
        case Frequency():
            return {terms.SumOf(indicator, n_steps): weight * _FREQUENCY_SHARE}
        case Measured() if indicator.quantiles:
            is_measured = is_running(indicator, params)
            share = weight if is_measured else weight * QUANTILE_SHARE
            return {terms.BinsOf(indicator, n_steps, is_measured): share}
        case Measured(of="histogram"):
            return {terms.BinsOf(indicator, n_steps): weight}
        case Measured(is_of_all=False):
            cases = terms.CasesWith(indicator, n_steps)
            return {terms.SumOf(indicator, n_steps): weight, cases: weight * _WITH_SHARE}
    return {terms.SumOf(indicator, n_steps): weight}

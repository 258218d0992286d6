"""Parameters of `private-indicators`, and what follows from them before any data is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pydantic
from pydantic import Field, PrivateAttr

from tracecloak.anonymizers.indicators.asked import AskedParams
from tracecloak.anonymizers.indicators.declared import (
    MAX_GROUPS,
    PERIODS,
    Group,
    Indicator,
    Timed,
    Working,
    Workload,
)
from tracecloak.anonymizers.indicators.populations import Groups, Population, periods_of
from tracecloak.anonymizers.times.time_range import TIME_RANGE, TimeRange
from tracecloak.schemas.calendar.local_time import zone_of
from tracecloak.schemas.errors import UsageError


class IndicatorParams(AskedParams):
    """Parameters of `private-indicators`."""

    first_date: str | None = None
    """First date of the periods by which indicators are told apart, such as 2026-01-01. By default
    the range is chosen on the log, for a share of the budget."""
    last_date: str | None = None
    """Last date of these periods, inclusive; goes with first_date. By default, without first_date,
    the range is bought."""
    calendar_time_zone: str = "UTC"
    """IANA time zone whose dates and periods are meant."""
    max_activities: int = Field(16, ge=1, le=1000)
    """Distinct activities, pairs or values of a case that count where groups are chosen on the
    log."""
    attribute_columns: dict[str, str] = Field(default_factory=dict)
    """The source column (or XES key) of attributes whose column has another name, as
    {"case:channel": "Channel"}. By default the column has the attribute's name."""
    service_times: bool = False
    """Whether events have starts. It follows from --start_timestamp and --lifecycle; by default
    they have none."""
    _n_cases: int | None = PrivateAttr(None)

    @pydantic.field_validator("first_date", "last_date", mode="before")
    @classmethod
    def _date_text(cls, date: Any) -> Any:
        return None if date is None else str(date)

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
            if indicator.is_bought and indicator.by in self.bought_groups and not self.delta:
                raise ValueError(f"{at}groups are chosen with a delta: declare them, or give one")
        unknown = set(self.attribute_columns) - {a for i in self.indicators for a in i.attributes}
        unknown -= {i.by for i in self.indicators if isinstance(i, Workload)}
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
        return TimeRange.of_dates(self.first_date, self.last_date, self.calendar_time_zone)

    def periods(self, period: str, span: TimeRange) -> Groups:
        """Returns the periods of a range of dates."""
        return periods_of(period, span.first_us, span.last_us, self.calendar_time_zone)

    def column_of(self, attribute: str) -> str | None:
        """Returns the source column of an attribute, if it is not its name."""
        return self.attribute_columns.get(attribute)

    @cached_property
    def buys_range(self) -> bool:
        """Whether the range of dates is chosen on the log."""
        return self.public_range is None and any(i.by in PERIODS for i in self.indicators)


@dataclass(frozen=True)
class Known:
    """What is public or was bought, for counting and for figures; see `terms.Known`.

    Attributes:
        params: The parameters.
        decided: What was bought, by the names of parts.
    """

    params: AskedParams
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
        return Groups(tuple(self.decided[bought_name(by)].labels), by)

    def steps(self, indicator: Indicator) -> tuple[Group, ...]:
        """Returns the activities, pairs or values that an indicator is about."""
        steps = self.params.steps_of(indicator)
        if steps is not None:
            return steps
        return tuple(self.decided[bought_name(str(indicator.by))].steps)

    def bought_us(self, indicator: Indicator) -> int | None:
        """Returns the longest time that was bought for it."""
        if not isinstance(indicator, Timed) or indicator.at_most is not None:
            return None
        return int(self.decided[bound_name(indicator)].longest_us)


def bought_name(by: str) -> str:
    """Returns the name of the part that buys groups."""
    return f"groups by {by}"


def bound_name(indicator: Timed) -> str:
    """Returns the name of the part that buys the longest time of an indicator."""
    return f"{indicator.title}, longest time"

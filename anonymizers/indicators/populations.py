"""Of which cases an indicator speaks, and by what they are told apart: one group for each case."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.indicators.declared import PERIODS, Filter, Indicator, Workload
from tracecloak.anonymizers.indicators.summands import occurrences
from tracecloak.schemas.calendar.local_time import day_start_us, zone_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


@dataclass(frozen=True)
class Population:
    """Which cases count, and by which period or attribute of the case they are told apart.

    Attributes:
        where: What must hold for a case; None: nothing.
        by: A period, an attribute of the case, or None.
        groups: Its declared values; None: it has none, or they are bought.
    """

    where: Filter | None = None
    by: str | None = None
    groups: tuple[str, ...] | None = None

    @classmethod
    def of(cls, indicator: Indicator) -> Population:
        """Returns that of an indicator; activities and pairs tell steps apart, and no cases."""
        is_of_steps = indicator.is_by_steps or isinstance(indicator, Workload)
        if is_of_steps or indicator.by is None:
            return cls(indicator.where)
        groups = None if indicator.groups is None else tuple(map(str, indicator.groups))
        return cls(indicator.where, indicator.by, groups)

    @property
    def is_whole(self) -> bool:
        """Whether every case counts, in one number."""
        return self.where is None and self.by is None

    @property
    def words(self) -> str:
        """It as a part of a sentence."""
        by = f" by {self.by}" if self.by else ""
        return by + (f", cases {self.where.words}" if self.where else "")

    def places(self, traces: TraceBatch, groups: Groups) -> np.ndarray:
        """Returns int64[n_cases], the group of each case, or -1 for one that does not count."""
        places = groups.places(traces)
        return (
            places if self.where is None else np.where(cases_where(traces, self.where), places, -1)
        )


@dataclass(frozen=True)
class Groups:
    """The groups of the cases of a population.

    Attributes:
        labels: Their names; one without a name where cases are not told apart.
        attribute: Of which attribute they are the values; None: of none.
        borders_us: int64[n_groups+1], when periods begin and the last one ends, microseconds since
            1970 UTC; None: they are no periods.
    """

    labels: tuple[str, ...] = ("",)
    attribute: str | None = None
    borders_us: np.ndarray | None = None

    def places(self, traces: TraceBatch) -> np.ndarray:
        """Returns int64[n_cases], the group of each case, or -1."""
        if self.borders_us is not None:
            place = np.searchsorted(self.borders_us, traces.starts, side="right") - 1
            return np.where(place < len(self.labels), place, -1)
        if self.attribute is None:
            return np.zeros(traces.n_cases, np.int64)
        return case_places(traces, self.attribute, self.labels)


def cases_where(traces: TraceBatch, chosen: Filter) -> np.ndarray:
    """Returns bool[n_cases], the cases for which a filter holds."""
    is_meant = np.ones(traces.n_cases, bool)
    if chosen.occurs is not None:
        is_meant &= occurrences(traces, [chosen.occurs])[:, 0] > 0
    if chosen.attribute is not None and chosen.equals is not None:
        is_meant &= case_places(traces, chosen.attribute, (chosen.equals,)) == 0
    return is_meant


def case_places(traces: TraceBatch, attribute: str, values: Sequence[str]) -> np.ndarray:
    """Returns int64[n_cases], which of some values the attribute of each case has, or -1."""
    texts = traces.attributes.get(attribute)
    if texts is None:
        return np.full(traces.n_cases, -1, np.int64)
    return value_places(texts.take(pa.array(traces.offsets[:-1])), values)


def value_places(texts: pa.Array, values: Sequence[str]) -> np.ndarray:
    """Returns int64[n], which of some values each text is, or -1.

    Args:
        texts: string[n], or a dictionary of them.
        values: Distinct.
    """
    place = pc.index_in(texts, value_set=pa.array(values, pa.string()))
    return np.asarray(pc.fill_null(place, -1), np.int64)


def periods_of(period: str, first_us: int, last_us: int, time_zone: str) -> Groups:
    """Returns the periods of a range of time, whole ones by the clock of a place.

    Args:
        period: A name of `declared.PERIODS`.
        first_us: When the range begins.
        last_us: When it ends, exclusive.
        time_zone: IANA name of the place.

    Raises:
        UsageError: It has no period.
    """
    assert period in PERIODS
    moment = _EPOCH + datetime.timedelta(microseconds=first_us)
    date = _begin(period, moment.astimezone(zone_of(time_zone)).date())
    borders, labels = [day_start_us(date, time_zone)], []
    while borders[-1] < last_us:
        labels.append(_label(period, date))
        date = _next(period, date)
        borders.append(day_start_us(date, time_zone))
    if not labels:
        raise UsageError(f"by: there is no {period} between the dates")
    return Groups(tuple(labels), None, np.array(borders, np.int64))


def _begin(period: str, date: datetime.date) -> datetime.date:
    if period == "day":
        return date
    if period == "week":
        return date - datetime.timedelta(days=date.weekday())
    return date.replace(day=1, month=(date.month - 1) // _MONTHS[period] * _MONTHS[period] + 1)


def _next(period: str, date: datetime.date) -> datetime.date:
    if period in ("day", "week"):
        return date + datetime.timedelta(days=1 if period == "day" else 7)
    years, month = divmod(date.month - 1 + _MONTHS[period], 12)
    return date.replace(year=date.year + years, month=month + 1)


def _label(period: str, date: datetime.date) -> str:
    if period == "day":
        return date.isoformat()
    if period == "week":
        year, week, _ = date.isocalendar()
        return f"{year}-W{week:02}"
    if period == "quarter":
        return f"{date.year}-Q{(date.month + 2) // 3}"
    return f"{date.year}-{date.month:02}" if period == "month" else f"{date.year}"

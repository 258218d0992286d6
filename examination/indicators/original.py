"""A log as indicators see it: numbers of each case, and the cases of a group. All of it is exact.

It is written anew, one indicator after the other, so that it can tell a mistake of a release.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.indicators.declared import PERIODS, Filter
from tracecloak.schemas.events.attributes import numbers_of
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.service_times import IntervalTimes, has_step

_SECOND_US = 1_000_000


@dataclass(frozen=True)
class OriginalLog:
    """The unprotected log.

    A number of each case is a float64[n_cases], NaN of a case that has none.

    Attributes:
        traces: Its cases, with the attributes that indicators read.
        time_zone: IANA name of the place by whose clock periods are meant.
    """

    traces: TraceBatch
    time_zone: str = "UTC"

    @cached_property
    def cases(self) -> np.ndarray:
        """int64[n_events], the place of the case of each event."""
        return np.repeat(np.arange(self.traces.n_cases), self.traces.lengths)

    def events_of(self, activity: str) -> np.ndarray:
        """Returns bool[n_events], the events of an activity."""
        names = self.traces.vocabulary.names.to_pylist()
        if activity not in names:
            return np.zeros(self.traces.n_events, bool)
        return self.traces.activities == names.index(activity)

    def occurrences(self, activity: str) -> np.ndarray:
        """Returns how often each case has an activity."""
        counts = np.bincount(self.cases[self.events_of(activity)], minlength=self.traces.n_cases)
        return counts.astype(np.float64)

    def throughput_us(self) -> np.ndarray:
        """Returns the time from the first to the last event of each case."""
        last = self.traces.times[self.traces.offsets[1:] - 1]
        return (last - self.traces.starts).astype(np.float64)

    def repeats(self) -> np.ndarray:
        """Returns 1 of a case in which any activity occurs twice, and 0 of others."""
        width = max(len(self.traces.vocabulary), 1)
        distinct = np.unique(self.cases * width + self.traces.activities) // width
        n_distinct = np.bincount(distinct, minlength=self.traces.n_cases)
        return (self.traces.lengths > n_distinct).astype(np.float64)

    def wait_us(self, before: str, after: str) -> np.ndarray:
        """Returns the time of the first step from one activity right to another."""
        is_before = np.roll(self.events_of(before), 1)
        steps = np.flatnonzero(is_before & self.events_of(after) & has_step(self.traces))
        waits = np.full(self.traces.n_cases, np.nan)
        # From the last step to the first, which overwrites it.
        waits[self.cases[steps][::-1]] = self.traces.durations[steps][::-1]
        return waits

    def work_us(self, activity: str) -> np.ndarray:
        """Returns how long an activity is worked on altogether, of events whose start is known."""
        times = IntervalTimes.of(self.traces)
        is_meant = self.events_of(activity) & times.is_known
        n_cases, cases = self.traces.n_cases, self.cases[is_meant]
        work = np.bincount(cases, times.service_us[is_meant], minlength=n_cases)
        return np.where(np.bincount(cases, minlength=n_cases) > 0, work, np.nan)

    def amounts(self, attribute: str) -> np.ndarray:
        """Returns the number that an attribute of the case has."""
        texts = self._texts_of_cases(attribute)
        numbers = numbers_of(pa.array(texts, pa.string()))
        return np.where(np.isfinite(numbers), numbers, np.nan)

    def cases_where(self, chosen: Filter | None) -> np.ndarray:
        """Returns bool[n_cases], for which cases a filter holds; None holds for all."""
        holds = np.ones(self.traces.n_cases, bool)
        if chosen is not None and chosen.occurs is not None:
            holds &= self.occurrences(chosen.occurs) > 0
        if chosen is not None and chosen.attribute is not None:
            holds &= self._texts_of_cases(chosen.attribute) == chosen.equals
        return holds

    def groups_by(self, by: str) -> np.ndarray:
        """Returns object[n_cases], the name of each case's period or its value of an attribute."""
        if by not in PERIODS:
            return self._texts_of_cases(by)
        zone = ZoneInfo(self.time_zone)
        seconds = (self.traces.starts // _SECOND_US).tolist()
        days = [datetime.datetime.fromtimestamp(s, zone).date() for s in seconds]
        return _texts([_period(day, by) for day in days])

    def texts_of_events(self, attribute: str) -> np.ndarray:
        """Returns object[n_events], the values of an attribute; None of an event without one."""
        values = self.traces.attributes.get(attribute)
        return _texts([None] * self.traces.n_events if values is None else values.to_pylist())

    def _texts_of_cases(self, attribute: str) -> np.ndarray:
        """An attribute of a case is the same in all of its events."""
        return self.texts_of_events(attribute)[self.traces.offsets[:-1]]


def _texts(values: list[str | None]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _period(day: datetime.date, period: str) -> str:
    year, week, _ = day.isocalendar()
    return {
        "day": day.isoformat(),
        "week": f"{year}-W{week:02}",
        "month": f"{day.year}-{day.month:02}",
        "quarter": f"{day.year}-Q{(day.month + 2) // 3}",
        "year": f"{day.year}",
    }[period]

"""The summands of an indicator: a bounded number for each case, and their sums by cell.

A share is the mean of a number that is 0 or 1, so every indicator is a count, a sum or a mean of
bounded numbers. What is summed up is the number less the middle of its bounds, on a lattice of
steps between them, so one case moves the sum by half of their distance at most.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.indicators import declared
from tracecloak.anonymizers.indicators.declare_rules import cases_that_keep
from tracecloak.schemas.arrays.merging import OfArrays, sum_groups
from tracecloak.schemas.calendar.local_time import day_start_us, period_around, zone_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.declarations import numbers_of
from tracecloak.schemas.events.events import OTHER
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.log_times import IntervalTimes, has_step

# --- Sums over cases of the numbers that each adds to the cells of a public list. -----------------


class CellSums(OfArrays, wire_name="cell-sums"):
    """The sum of each cell; cells and lattice are public and the same for all pieces.

    Attributes:
        values: int64[n_cells], in lattice steps; of a log without cases int64[0].
    """

    values: np.ndarray

    @classmethod
    def merge(cls, pieces: Sequence[CellSums]) -> CellSums:
        """Returns the sums over the cases of all pieces.

        Raises:
            ValueError: They have different numbers of cells.
        """
        counted = [piece.values for piece in pieces if len(piece.values)]
        if len(set(map(len, counted))) > 1:
            raise ValueError("sums of different cells cannot be added")
        if not counted:
            return cls(np.zeros(0, np.int64))
        return cls(np.stack(counted).sum(axis=0, dtype=np.int64))

    def cells(self, n_cells: int) -> np.ndarray:
        """Returns int64[n_cells], the sum of each cell, which is 0 of a log without cases."""
        return self.values if len(self.values) else np.zeros(n_cells, np.int64)


# --- What one case adds to an indicator: a number between two public bounds, about their middle. --
# A share is the mean of a number that is 0 or 1, so every indicator is a count, a sum or a mean
# of bounded numbers. What is summed up is the number less the middle of its bounds: one case then
# moves the sum by half of their distance at most, and not by all of it, so that the noise is half
# as wide. The number of cases is counted anyway, and gives back what was taken off.
#
# Numbers are brought within the bounds and put on a lattice of steps between them, whose ends are
# the bounds, so no rounding makes a case weigh more.
#
# Of which cases an indicator speaks, and by what they are told apart: one group for each case.


RANGE = 1 << 20
"""Lattice steps between the bounds of a number, an even number."""


@dataclass(frozen=True)
class Numbers:
    """A number of each case, or of each case and step of some, and which cases have one.

    Attributes:
        values: float64 or int64[n_cases, n_steps].
        is_there: bool[n_cases, n_steps]; what has none does not count.
    """

    values: np.ndarray
    is_there: np.ndarray

    @classmethod
    def from_cases(cls, values: np.ndarray) -> Numbers:
        """Returns numbers that every case has, int64 or bool[n_cases] or [n_cases, n_steps]."""
        table = values if values.ndim > 1 else values[:, None]
        return cls(table, np.ones(table.shape, bool))


class Summand(NamedTuple):
    """A bounded number of each case, or of each case and step.

    Attributes:
        low: Its least value.
        high: Its largest one, above `low`; what is beyond the bounds counts as these.
    """

    low: float
    high: float

    @property
    def middle(self) -> float:
        """What is taken off each number."""
        return (self.low + self.high) / 2

    def places(self, values: np.ndarray, n_steps: int = RANGE) -> np.ndarray:
        """Returns int64 of any shape, numbers as lattice steps above `low`, from 0 to `n_steps`."""
        within = np.clip(np.nan_to_num(values, nan=self.middle), self.low, self.high)
        relative = (within - self.low) / (self.high - self.low)
        return np.rint(relative * n_steps).astype(np.int64)


def throughput_of(traces: TraceBatch) -> np.ndarray:
    """Returns int64[n_cases], microseconds from the first to the last event of each case."""
    return traces.times[traces.offsets[1:] - 1] - traces.starts


def occurrences(traces: TraceBatch, activities: Sequence[str]) -> np.ndarray:
    """Returns int64[n_cases, n_activities], how often each case has each of some activities."""
    places = _places_of(traces, activities)
    return _by_case(traces, places[traces.activities], len(activities))


def repeats(traces: TraceBatch) -> np.ndarray:
    """Returns bool[n_cases], whether any activity occurs twice in a case.

    OTHER does not count: it is many activities.
    """
    width = max(len(traces.vocabulary), 1)
    pairs = np.sort(cases_of_events(traces) * width + traces.activities)
    again = pairs[1:][pairs[1:] == pairs[:-1]]
    names = traces.vocabulary.names.to_pylist()
    if OTHER in names:
        again = again[again % width != names.index(OTHER)]
    return np.bincount(again // width, minlength=traces.n_cases) > 0


def cases_of_events(traces: TraceBatch) -> np.ndarray:
    """Returns int64[n_events], the place of the case of each event."""
    return np.repeat(np.arange(traces.n_cases), traces.lengths)


def _places_of(traces: TraceBatch, activities: Sequence[str]) -> np.ndarray:
    """int64[n_names], the place of each name of the vocabulary among some activities, or -1."""
    place = {name: number for number, name in enumerate(activities)}
    names = traces.vocabulary.names.to_pylist()
    return np.array([place.get(name, -1) for name in names], np.int64)


def _by_case(traces: TraceBatch, places: np.ndarray, n_places: int) -> np.ndarray:
    """int64[n_cases, n_places], the events of each case by places, -1 for none."""
    is_meant = places >= 0
    keys = cases_of_events(traces)[is_meant] * n_places + places[is_meant]
    counts = np.bincount(keys, minlength=traces.n_cases * n_places)
    return counts.astype(np.int64).reshape(traces.n_cases, n_places)


def _waits(traces: TraceBatch, pairs: Sequence[tuple[str, str]]) -> Numbers:
    """The time of the first step of each pair in each case."""
    ends = sorted({name for pair in pairs for name in pair})
    codes = _places_of(traces, ends)[traces.activities]
    table = np.full((len(ends), len(ends)), -1, np.int64)
    for place, (a, b) in enumerate(pairs):
        table[ends.index(a), ends.index(b)] = place
    later = np.flatnonzero(has_step(traces))
    later = later[(codes[later] >= 0) & (codes[later - 1] >= 0)]
    number = table[codes[later - 1], codes[later]]
    later, number = later[number >= 0], number[number >= 0]
    shape = traces.n_cases, len(pairs)
    keys = cases_of_events(traces)[later] * len(pairs) + number
    first, where = np.unique(keys, return_index=True)  # events are in order, so it is the first
    values, is_there = np.zeros(shape, np.int64), np.zeros(shape, bool)
    values.reshape(-1)[first] = traces.durations[later[where]]
    is_there.reshape(-1)[first] = True
    return Numbers(values, is_there)


def _work(traces: TraceBatch, activities: Sequence[str]) -> Numbers:
    """The time that each of some activities is worked on in each case, of known starts."""
    times = IntervalTimes.of(traces)
    places = np.where(times.is_known, _places_of(traces, activities)[traces.activities], -1)
    is_meant = places >= 0
    keys = cases_of_events(traces)[is_meant] * len(activities) + places[is_meant]
    values = sum_groups(keys, times.service_us[is_meant], traces.n_cases * len(activities))
    is_there = _by_case(traces, places, len(activities)) > 0
    return Numbers(values.reshape(is_there.shape), is_there)


def _amounts(traces: TraceBatch, attribute: str) -> Numbers:
    values = traces.attributes.get(attribute)
    if values is None:
        nothing = np.zeros((traces.n_cases, 1))
        return Numbers(nothing, nothing > 0)
    numbers = numbers_of(values.take(traces.offsets[:-1]))[:, None]
    return Numbers(numbers, np.isfinite(numbers))


def bounds_of(indicator: declared.Indicator, selected_us: int | None = None) -> Summand:
    """Returns between which bounds an indicator's numbers count.

    Args:
        indicator: None of cases or of events by who does them, which are counts.
        selected_us: The longest time, where it was chosen on the log.
    """
    match indicator:
        case declared.Amount(bounds=(low, high)):
            return Summand(float(low), float(high))
        case declared.Timed(at_most=longest):
            longest = longest if selected_us is None else selected_us
            assert longest is not None
            return Summand(0.0, float(longest))
        case declared.Frequency(at_most=most):
            return Summand(0.0, float(most))
    return Summand(0.0, 1.0)


def numbers_added(
    indicator: declared.Indicator, steps: Sequence[declared.Group], traces: TraceBatch
) -> Numbers:
    """Returns what cases add to the share, the mean or the sum of an indicator.

    Args:
        indicator: None of cases or of events by who does them, which are counts.
        steps: The activities or pairs that it is about.
        traces: Complete cases.
    """
    names = [str(step) for step in steps]
    match indicator:
        case declared.Waiting():
            return _waits(traces, [step for step in steps if not isinstance(step, str)])
        case declared.Working():
            return _work(traces, names)
        case declared.Amount(attribute=attribute):
            return _amounts(traces, attribute)
        case declared.Throughput():
            values = throughput_of(traces)
        case declared.Within(limit=limit):
            values = throughput_of(traces) <= limit
        case declared.Rework():
            values = occurrences(traces, names) > 1 if names else repeats(traces)
        case declared.Frequency():
            values = occurrences(traces, names)
        case declared.Rule(template=template, activity=first, then=second, n=n, within=within):
            values = cases_that_keep(traces, template, first, second, n, within)
        case _:
            raise TypeError(f"{type(indicator).__name__} has no numbers")
    return Numbers.from_cases(values)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Population:
    """Which cases count, and by which period or attribute of the case they are told apart.

    Attributes:
        where: What must hold for a case; None: nothing.
        by: A period, an attribute of the case, or None.
        groups: Its declared values; None: it has none, or they are bought.
    """

    where: declared.Filter | None = None
    by: str | None = None
    groups: tuple[str, ...] | None = None

    @classmethod
    def of(cls, indicator: declared.Indicator) -> Population:
        """Returns that of an indicator; activities and pairs tell steps apart, and no cases."""
        if indicator.is_by_steps or indicator.by is None:
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
        is_meant = True if self.where is None else cases_where(traces, self.where)
        return np.where(is_meant, groups.places(traces), -1)


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


def cases_where(traces: TraceBatch, chosen: declared.Filter) -> np.ndarray:
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


def events_by(
    traces: TraceBatch, attribute: str, values: Sequence[str], is_meant: np.ndarray, at_most: int
) -> np.ndarray:
    """Returns int64[n], events by values of an attribute, in cases that count; 0 if there are none.

    Args:
        traces: Complete cases.
        attribute: Of events.
        values: Distinct ones.
        is_meant: bool[n_cases], the cases that count.
        at_most: Of a case so many events count, the first ones of these values.
    """
    n, texts = max(len(values), 1), traces.attributes.get(attribute)
    if texts is None or not values:
        return np.zeros(n, np.int64)
    who, case = value_places(texts, values), cases_of_events(traces)
    is_counted = (who >= 0) & is_meant[case]
    before = np.cumsum(is_counted) - is_counted
    is_counted &= before - before[traces.offsets[:-1]][case] < at_most
    return np.bincount(who[is_counted], minlength=n).astype(np.int64)


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
    assert period in declared.PERIODS
    moment = _EPOCH + datetime.timedelta(microseconds=first_us)
    date = moment.astimezone(zone_of(time_zone)).date()
    begin, following, label = period_around(period, date)
    borders, labels = [day_start_us(begin, time_zone)], []
    while borders[-1] < last_us:
        labels.append(label)
        borders.append(day_start_us(following, time_zone))
        _, following, label = period_around(period, following)
    if not labels:
        raise UsageError(f"by: there is no {period} between the dates")
    return Groups(tuple(labels), None, np.array(borders, np.int64))

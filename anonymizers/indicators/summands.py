"""What one case adds to an indicator: a number between two public bounds, about their middle.

A share is the mean of a number that is 0 or 1, so every indicator is a count, a sum or a mean of
bounded numbers. What is summed up is the number less the middle of its bounds: one case then moves
the sum by half of their distance at most, and not by all of it, so that the noise is half as wide.
The number of cases is counted anyway, and gives back what was taken off.

Numbers are brought within the bounds and put on a lattice of steps between them, whose ends are the
bounds, so no rounding makes a case weigh more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tracecloak.anonymizers.indicators.declare_rules import cases_that_keep
from tracecloak.anonymizers.indicators.declared import (
    Amount,
    Frequency,
    Group,
    Indicator,
    Measured,
    Rework,
    Rule,
    Throughput,
    Timed,
    Waiting,
    Within,
    Working,
)
from tracecloak.schemas.events.attributes import numbers_of
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import OTHER
from tracecloak.schemas.statistics.service_times import IntervalTimes, has_step

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
    def of_all(cls, values: np.ndarray) -> Numbers:
        """Returns numbers that every case has, int64 or bool[n_cases] or [n_cases, n_steps]."""
        table = values if values.ndim > 1 else values[:, None]
        return cls(table, np.ones(table.shape, bool))


@dataclass(frozen=True)
class Summand:
    """A bounded number of each case, or of each case and step.

    Attributes:
        low: Its least value.
        high: Its largest one, above `low`.
        numbers: Returns them of traces; beyond the bounds they count as these.
        is_of_all: Whether every case has one.
    """

    low: float
    high: float
    numbers: Callable[[TraceBatch], Numbers]
    is_of_all: bool = True

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
    wanted = {(ends.index(a), ends.index(b)): number for number, (a, b) in enumerate(pairs)}
    table = np.full((len(ends), len(ends)), -1, np.int64)
    for (a, b), number in wanted.items():
        table[a, b] = number
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
    values = np.zeros((traces.n_cases, len(activities)), np.int64)
    np.add.at(values.reshape(-1), keys, times.service_us[is_meant])
    return Numbers(values, _by_case(traces, places, len(activities)) > 0)


def _amounts(traces: TraceBatch, attribute: str) -> Numbers:
    values = traces.attributes.get(attribute)
    if values is None:
        nothing = np.zeros((traces.n_cases, 1))
        return Numbers(nothing, nothing > 0)
    numbers = numbers_of(values.take(traces.offsets[:-1]))[:, None]
    return Numbers(numbers, np.isfinite(numbers))


def bounds_of(indicator: Measured, bought_us: int | None = None) -> tuple[float, float]:
    """Returns between which bounds an indicator's numbers count.

    Args:
        indicator: Of times or amounts.
        bought_us: The longest time, where it was chosen on the log.
    """
    if isinstance(indicator, Amount):
        low, high = indicator.bounds
        return float(low), float(high)
    assert isinstance(indicator, Timed)
    longest = indicator.at_most if bought_us is None else bought_us
    assert longest is not None
    return 0.0, float(longest)


def numbers_counted(indicator: Measured, steps: Sequence[Group]) -> Callable[[TraceBatch], Numbers]:
    """Returns how the numbers of an indicator of times or amounts are read off traces.

    Args:
        indicator: What it is.
        steps: The activities or pairs that it is about.
    """
    match indicator:
        case Throughput():
            return lambda traces: Numbers.of_all(throughput_of(traces))
        case Waiting():
            pairs = [step for step in steps if not isinstance(step, str)]
            return lambda traces: _waits(traces, pairs)
        case Working():
            return lambda traces: _work(traces, [str(step) for step in steps])
        case Amount(attribute=attribute):
            return lambda traces: _amounts(traces, attribute)
    raise TypeError(f"{type(indicator).__name__} has no numbers")


def summand_of(
    indicator: Indicator, steps: Sequence[Group] = (), bought_us: int | None = None
) -> Summand:
    """Returns what a case adds to the share, the mean or the sum of an indicator.

    Args:
        indicator: None of cases or of events by who does them, which are counts.
        steps: The activities or pairs that it is about.
        bought_us: See `bounds_of`.
    """
    names = [str(step) for step in steps]
    match indicator:
        case Measured():
            low, high = bounds_of(indicator, bought_us)
            is_of_all = isinstance(indicator, Throughput)
            return Summand(low, high, numbers_counted(indicator, steps), is_of_all)
        case Within(limit=limit):
            return _share(lambda traces: throughput_of(traces) <= limit)
        case Rework() if not names:
            return _share(repeats)
        case Rework():
            return _share(lambda traces: occurrences(traces, names) > 1)
        case Frequency(at_most=most):
            return Summand(
                0.0, float(most), lambda traces: Numbers.of_all(occurrences(traces, names))
            )
        case Rule(template=template, activity=first, then=second, n=n, within=within):
            return _share(
                lambda traces: cases_that_keep(traces, template, first, second, n, within)
            )
    raise TypeError(f"{type(indicator).__name__} has no summand")


def _share(of_cases: Callable[[TraceBatch], np.ndarray]) -> Summand:
    return Summand(0.0, 1.0, lambda traces: Numbers.of_all(of_cases(traces)))

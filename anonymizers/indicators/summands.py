"""What one case adds to an indicator: a number between two public bounds, about their middle.

A share is the mean of a number that is 0 or 1, so every indicator is a count, a sum or a mean of
bounded numbers. What is summed up is the number less the middle of its bounds: one case then moves
the sum by half of their distance at most, and not by all of it, so that the noise is half as wide.
The number of cases is counted anyway, and gives back what was taken off.

Numbers are put on a lattice of `RANGE` steps between the bounds, and brought within them after
that, so no rounding makes a case weigh more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from tracecloak.anonymizers.indicators.declared import (
    Amount,
    Cases,
    Filter,
    Frequency,
    Indicator,
    Rework,
    Rule,
    Throughput,
    Waiting,
    Within,
)
from tracecloak.schemas.events.attributes import numbers_of
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.declare_rules import cases_that_keep

RANGE = 1 << 20
"""Lattice steps between the bounds of a number; a case adds half as many at most."""

HALF = RANGE // 2


@dataclass(frozen=True)
class Summand:
    """A bounded number of each case.

    Attributes:
        low: Its least value.
        high: Its largest one, above `low`.
        of_cases: Returns float64[n_cases] of traces, of any size; beyond the bounds counts as they
            do, and what is no number as the middle.
    """

    low: float
    high: float
    of_cases: Callable[[TraceBatch], np.ndarray]

    @property
    def middle(self) -> float:
        """What is taken off each number."""
        return (self.low + self.high) / 2

    @property
    def unit(self) -> float:
        """What a lattice step is worth."""
        return (self.high - self.low) / RANGE

    def steps(self, traces: TraceBatch) -> np.ndarray:
        """Returns int64[n_cases], each case's number less the middle, from -HALF to HALF steps."""
        with np.errstate(invalid="ignore"):
            relative = (self.of_cases(traces) - self.low) / (self.high - self.low)
        relative = np.where(np.isnan(relative), 0.5, np.clip(relative, 0.0, 1.0))
        return np.rint(relative * RANGE).astype(np.int64) - HALF


def throughput_of(traces: TraceBatch) -> np.ndarray:
    """Returns int64[n_cases], microseconds from the first to the last event of each case."""
    return traces.times[traces.offsets[1:] - 1] - traces.starts


def occurrences(traces: TraceBatch, activity: str) -> np.ndarray:
    """Returns int64[n_cases], how often each case has an activity."""
    return _count(traces, _is_activity(traces, activity))


def repeats(traces: TraceBatch, activity: str | None) -> np.ndarray:
    """Returns bool[n_cases], whether an activity occurs twice in a case; None: any does."""
    if activity is not None:
        return occurrences(traces, activity) > 1
    width = max(len(traces.vocabulary), 1)
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)
    pairs = np.sort(case * width + traces.activities)
    again = pairs[1:][pairs[1:] == pairs[:-1]] // width
    return np.bincount(again, minlength=traces.n_cases) > 0


def steps_between(traces: TraceBatch, before: str, after: str) -> np.ndarray:
    """Returns bool[n_events], events of an activity whose predecessor in the case is another."""
    previous = np.append(False, _is_activity(traces, before)[:-1])[: traces.n_events]
    return _is_activity(traces, after) & previous & ~traces.is_first


def cases_where(traces: TraceBatch, chosen: Filter | None) -> np.ndarray:
    """Returns bool[n_cases], of which cases an indicator speaks."""
    is_meant = np.ones(traces.n_cases, bool)
    if chosen is None:
        return is_meant
    if chosen.occurs is not None:
        is_meant &= occurrences(traces, chosen.occurs) > 0
    if chosen.attribute is not None:
        values = traces.attributes.get(chosen.attribute)
        if values is None:
            return np.zeros(traces.n_cases, bool)
        is_equal = np.asarray(pc.fill_null(pc.equal(values, chosen.equals), False))
        is_meant &= is_equal[traces.offsets[:-1]]
    return is_meant


def summand_of(indicator: Indicator) -> Summand | None:
    """Returns what a case adds to the mean, share or sum; None: it is a number of cases.

    Quantiles and histograms of throughput have counts of cases by bin instead.
    """
    match indicator:
        case Cases():
            return None
        case Throughput(at_most=most):
            return Summand(0.0, float(most), throughput_of)
        case Within(limit=limit):
            return _share(lambda traces: throughput_of(traces) <= limit)
        case Rework(activity=activity):
            return _share(lambda traces: repeats(traces, activity))
        case Frequency(activity=activity, at_most=most):
            return Summand(0.0, float(most), lambda traces: occurrences(traces, activity))
        case Rule(template=template, activity=first, then=second, n=n, within=within):
            return _share(
                lambda traces: cases_that_keep(traces, template, first, second, n, within)
            )
        case Amount(attribute=attribute, bounds=(low, high)):
            return Summand(float(low), float(high), lambda traces: _amounts(traces, attribute))
    raise TypeError(f"no summand of {type(indicator).__name__}")


def _share(of_cases: Callable[[TraceBatch], np.ndarray]) -> Summand:
    return Summand(0.0, 1.0, of_cases)


def _amounts(traces: TraceBatch, attribute: str) -> np.ndarray:
    values = traces.attributes.get(attribute)
    if values is None:
        return np.full(traces.n_cases, np.nan)
    return numbers_of(values)[traces.offsets[:-1]]


def _is_activity(traces: TraceBatch, activity: str) -> np.ndarray:
    names = traces.vocabulary.names.to_pylist()
    if activity not in names:
        return np.zeros(traces.n_events, bool)
    return traces.activities == names.index(activity)


def _count(traces: TraceBatch, is_event: np.ndarray) -> np.ndarray:
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)
    return np.bincount(case[is_event], minlength=traces.n_cases)

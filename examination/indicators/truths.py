"""What each released number would be without noise and without bounds.

The mean of durations is that of all durations, and not of those cut at their longest; so are sums
and quantiles. A quantile is the smallest number that a share of the cases reaches. Only what is
counted so by its own words is cut: occurrences and events up to so many a case.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from tracecloak.anonymizers.indicators.declare_rules import cases_that_keep
from tracecloak.anonymizers.indicators.declared import (
    PAIR,
    Amount,
    Cases,
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
    Workload,
)
from tracecloak.examination.indicators.original import OriginalLog

_SECOND_US = 1_000_000
_ARROW = " → "
_UNITS_US = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_WORDS = re.compile(r"([0-9.e+-]+) (day|hour|minute|second)s?")


def truths_of(
    indicator: Indicator, groups: Sequence[str | None], log: OriginalLog
) -> list[float | None]:
    """Returns the true number of each row of an indicator, in the unit of the release.

    Args:
        indicator: What was asked for.
        groups: The group of each of its rows, in the order of the release.
        log: The whole log.

    Returns:
        As many numbers; None where there is none, as of the mean of no case.
    """
    if isinstance(indicator, Workload):
        return list(_events_by(indicator, [group or "" for group in groups], log))
    parts = [_parted(indicator, group or "") for group in groups]
    of_where = log.cases_where(indicator.where)
    by = None if indicator.by is None or indicator.is_by_steps else log.groups_by(indicator.by)

    @cache
    def numbers(step: Group | None) -> np.ndarray:
        return _numbers(indicator, step, log)

    @cache
    def chosen(label: str) -> np.ndarray:
        is_meant = of_where if by is None else of_where & (by == label)
        if isinstance(indicator, Cases):
            return np.ones(int(is_meant.sum()))
        values = numbers(_step_of(indicator, label, log))[is_meant]
        return values[~np.isnan(values)]

    figure = _figure_of(indicator, [tail for _, tail in parts])
    seen: Counter[str] = Counter()
    truths = []
    for label, tail in parts:
        truths.append(figure(chosen(label), tail, seen[label]))
        seen[label] += 1
    return truths


def _parted(indicator: Indicator, group: str) -> tuple[str, str]:
    """The group of the cases, and which quantile or bin of theirs a row is."""
    is_parted = isinstance(indicator, Measured) and (
        indicator.of == "histogram" or len(indicator.quantiles) > 1
    )
    if not is_parted:
        return group, ""
    head, _, tail = group.rpartition(", ")
    return ("", group) if indicator.by is None else (head, tail)


def _step_of(indicator: Indicator, label: str, log: OriginalLog) -> Group | None:
    """The activity or the pair that a row is about."""
    if not indicator.is_by_steps:
        return next(iter(indicator.steps_of), None)
    for step in indicator.groups or ():
        if label == (step if isinstance(step, str) else _ARROW.join(step)):
            return step
    if indicator.by != PAIR:
        return label
    # An arrow may stand in a name: the pair is that of which the log has both.
    names = set(log.traces.vocabulary.names.to_pylist())
    words = label.split(_ARROW)
    pairs = [
        (_ARROW.join(words[:place]), _ARROW.join(words[place:])) for place in range(1, len(words))
    ]
    return next((pair for pair in pairs if names.issuperset(pair)), ("", ""))


def _numbers(indicator: Indicator, step: Group | None, log: OriginalLog) -> np.ndarray:
    """A number of each case, NaN of one that has none; shares are the mean of 0 and 1."""
    match indicator:
        case Throughput():
            return log.throughput_us()
        case Within(limit=limit):
            return (log.throughput_us() <= limit).astype(np.float64)
        case Rework():
            return log.repeats() if step is None else 1.0 * (log.occurrences(str(step)) > 1)
        case Frequency(at_most=most):
            return np.minimum(log.occurrences(str(step)), most)
        case Rule(template=template, activity=first, then=second, n=n, within=within):
            keeps = cases_that_keep(log.traces, template, first, second, n, within)
            return keeps.astype(np.float64)
        case Waiting() if isinstance(step, tuple):
            return log.wait_us(*step)
        case Working():
            return log.work_us(str(step))
        case Amount(attribute=attribute):
            return log.amounts(attribute)
    raise TypeError(f"{type(indicator).__name__} has no numbers")


Figure = Callable[[np.ndarray, str, int], float | None]


def _figure_of(indicator: Indicator, tails: Sequence[str]) -> Figure:
    """How the number of a row follows from those of its cases, its quantile or bin, and its place.

    Args:
        indicator: What was asked for.
        tails: The quantile or the bin of each row.
    """
    unit = _SECOND_US if isinstance(indicator, Timed) else 1
    if isinstance(indicator, Cases | Frequency):
        return lambda values, tail, place: float(values.sum())
    if not isinstance(indicator, Measured) or indicator.of == "mean":
        return lambda values, tail, place: float(values.mean()) / unit if len(values) else None
    if indicator.of == "sum":
        return lambda values, tail, place: float(values.sum()) / unit
    if indicator.of == "histogram":
        edges = _edges(indicator, tails[-1] if tails else "")
        return lambda values, tail, place: _in_bin(values, edges, place)
    [*quantiles] = indicator.quantiles
    return lambda values, tail, place: _quantile(
        values / unit, Fraction(tail) if tail else quantiles[0]
    )


def _quantile(values: np.ndarray, share: Fraction) -> float | None:
    """The smallest value that so large a share of the values does not exceed."""
    if not len(values):
        return None
    return float(np.sort(values)[math.ceil(share * len(values)) - 1])


def _edges(indicator: Measured, last_bin: str) -> list[float]:
    """The borders of bins of equal width; a longest time that was chosen stands in the last one."""
    low, high = 0.0, 0.0
    if isinstance(indicator, Amount):
        low, high = (float(bound) for bound in indicator.bounds)
    elif isinstance(indicator, Timed) and indicator.at_most is not None:
        high = float(indicator.at_most)
    else:
        ends = _WORDS.findall(last_bin.partition(" to ")[2])
        high = sum(float(number) * _UNITS_US[unit] * _SECOND_US for number, unit in ends)
    n = indicator.n_bins
    return [low + (high - low) * place / n for place in range(n + 1)]


def _in_bin(values: np.ndarray, edges: Sequence[float], place: int) -> float:
    """How many values a bin has; the first and the last one hold what lies beyond, too."""
    is_in = np.ones(len(values), bool)
    if place > 0:
        is_in &= values >= edges[place]
    if place < len(edges) - 2:
        is_in &= values < edges[place + 1]
    return float(is_in.sum())


def _events_by(indicator: Workload, values: Sequence[str], log: OriginalLog) -> list[float]:
    """Events by who does them: of a case the first ones of all values that are shown."""
    who = log.texts_of_events(indicator.by)
    is_shown = np.isin(who, list(values)) if len(who) else np.zeros(0, bool)
    meant = np.flatnonzero(is_shown & log.cases_where(indicator.where)[log.cases])
    counts: Counter[str] = Counter()
    of_case: Counter[int] = Counter()
    for event in meant.tolist():
        case = int(log.cases[event])
        if of_case[case] < indicator.at_most:
            of_case[case] += 1
            counts[who[event]] += 1
    return [float(counts[value]) for value in values]

"""What is chosen on the log where it is not declared: groups, dates and longest times.

Groups are activities, pairs of them, or values of an attribute: labels that a case has several of.
They are chosen as a vocabulary is (`rigorous.bought_vocabulary`), and the most frequent ones are
kept. A longest time is chosen as a quantile on a grid, and doubled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.indicators.cell_sums import CellSums
from tracecloak.anonymizers.indicators.declared import ACTIVITY, PAIR, Group, Timed
from tracecloak.anonymizers.indicators.params import IndicatorParams, bought_name, bound_name
from tracecloak.anonymizers.indicators.summands import numbers_counted
from tracecloak.anonymizers.rigorous import bought_vocabulary
from tracecloak.anonymizers.rigorous.budget import Choice, Means, Sums
from tracecloak.anonymizers.rigorous.choices import choose_quantile
from tracecloak.anonymizers.rigorous.params import VOCABULARY_SHARE
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.times.time_range import time_range_part
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.events import is_case_attribute
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.statistics.variants import ActivityCounts

BOUGHT = "bought"
"""The round in which all of it is chosen."""

_SECOND_US = 1_000_000
_OF_UNITS_S = {1: (1, 2, 5, 10, 30), 60: (1, 2, 5, 10, 30), 3600: (1, 2, 4, 8, 16)}
# Longest times that can be chosen: round ones, each about twice the one before.
LONGEST_US = np.array(
    [
        _SECOND_US * unit * n
        for unit, numbers in {**_OF_UNITS_S, 86_400: tuple(1 << k for k in range(13))}.items()
        for n in numbers
    ],
    np.int64,
)
_N_BINS = len(LONGEST_US) + 1
# Chosen is the time that so many cases do not exceed, and then a few times as much. A share nearer
# to 1 would leave so few cases beyond it that noise might choose a time far above all of them.
_QUANTILE, _FURTHER = Fraction(3, 4), 2
# Of epsilon, for each of these choices, and for all of them together.
_BOUND_SHARE, _BOUND_SHARES = Fraction(1, 25), Fraction(1, 5)


@dataclass(frozen=True)
class GroupsDecision(contract.Decision):
    """The groups that were bought.

    Attributes:
        names: string[n], the labels in the order of their bytes; a pair is its two names in JSON.
        is_pair: Whether they are pairs.
    """

    wire_name: ClassVar[str] = "bought-groups"

    names: pa.StringArray
    is_pair: bool

    @property
    def labels(self) -> list[str]:
        """The labels."""
        names: list[str] = self.names.to_pylist()
        return names

    @property
    def steps(self) -> list[Group]:
        """What they stand for."""
        if not self.is_pair:
            return list(self.labels)
        return [(first, second) for first, second in map(json.loads, self.labels)]


@dataclass(frozen=True)
class LongestTimeDecision(contract.Decision):
    """The longest time that was bought.

    Attributes:
        longest_us: In microseconds.
    """

    wire_name: ClassVar[str] = "bought-longest-time"

    longest_us: int


def count_labels(batch: Batch, by: str, max_labels: int) -> ActivityCounts:
    """Adds up the weights of cases by label, see `activities_of_cases`.

    Args:
        batch: Complete cases, and what was decided before.
        by: What the labels are of.
        max_labels: Distinct ones of a case that count.
    """
    labelled = labelled_by(batch.traces, by)
    return bought_vocabulary.activities_of_cases(
        Batch(labelled, batch.decisions, batch.randomness), max_labels
    )


def labelled_by(traces: TraceBatch, by: str) -> TraceBatch:
    """Returns the cases with labels in place of activities; OTHER where an event has none.

    Args:
        traces: Complete cases.
        by: activity, pair, or an attribute of events or of the case.
    """
    if by == ACTIVITY or not traces.n_events:
        return traces
    if by == PAIR:
        width, codes = len(traces.vocabulary), traces.activities.astype(np.int64)
        pairs = np.append(0, codes[:-1]) * width + codes
        used, labels = np.unique(np.where(traces.is_first, -1, pairs), return_inverse=True)
        names = traces.vocabulary.names.to_pylist()
        texts = [
            OTHER if key < 0 else json.dumps([names[key // width], names[key % width]])
            for key in used.tolist()
        ]
        # The first event has the label of the second, if there is one, so that it adds none.
        second = np.minimum(traces.offsets[:-1] + 1, traces.n_events - 1)
        labels = labels.astype(np.int64)
        labels[traces.offsets[:-1]] = np.where(
            traces.lengths > 1, labels[second], labels[traces.offsets[:-1]]
        )
        return _relabelled(traces, labels, pa.array(texts, pa.string()))
    values = traces.attributes.get(by)
    if values is None:
        return _relabelled(traces, np.zeros(traces.n_events, np.int64), pa.array([OTHER]))
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    texts = pa.concat_arrays([encoded.dictionary.cast(pa.string()), pa.array([OTHER])])
    texts = pc.if_else(pc.equal(texts, ""), OTHER, texts)  # a group has a name
    labels = np.asarray(pc.fill_null(encoded.indices, len(texts) - 1), np.int64)
    return _relabelled(traces, labels, texts)


def _relabelled(traces: TraceBatch, labels: np.ndarray, texts: pa.Array) -> TraceBatch:
    vocabulary = ActivityVocabulary.of(texts)
    codes = vocabulary.codes(texts)[labels]
    return replace(traces, activities=codes, vocabulary=vocabulary)


def count_times(batch: Batch, indicator: Timed) -> CellSums:
    """Counts cases by the bin of an indicator's time, of `LONGEST_US`.

    Args:
        batch: Complete cases, and what was decided before.
        indicator: What it is.
    """
    numbers = numbers_counted(indicator, indicator.steps_of)(batch.traces)
    bins = np.searchsorted(LONGEST_US, numbers.values[numbers.is_there])
    return CellSums(np.bincount(bins, minlength=_N_BINS).astype(np.int64))


def bought_parts(params: IndicatorParams) -> tuple[Part, ...]:
    """Returns the parts that choose what is not declared."""
    parts = []
    if params.buys_range:
        calendar, zone = WorkingCalendar(), params.calendar_time_zone
        parts.append(time_range_part(calendar, zone, params.max_units, BOUGHT))
    share = VOCABULARY_SHARE / max(len(params.bought_groups), 1)
    parts += [_groups_part(params, by, most, share) for by, most in params.bought_groups.items()]
    times = params.of_bought_times
    each = min(_BOUND_SHARE, _BOUND_SHARES / max(len(times), 1))
    return (*parts, *(_bound_part(params, indicator, each) for indicator in times))


def _groups_part(params: IndicatorParams, by: str, most: int, share: Fraction) -> Part:
    name = bought_name(by)
    # A case has one value of its own attribute.
    max_labels = 1 if is_case_attribute(by) else params.max_activities
    changed = bought_vocabulary.changed_names(max_labels, params.max_units)
    what = {ACTIVITY: "activities", PAIR: "pairs of activities"}.get(by, f"values of {by}")

    def sentence(means: Means) -> str:
        likely = bought_vocabulary.likely_names(means[name], max_labels, params.max_units)
        return (
            f"chooses {likely.replace('activities', what, 1)}, the {most:,} most frequent at most"
        )

    def decide(given: Given) -> GroupsDecision:
        counted, allowance = given.statistics[name], given.means[name]
        chosen = bought_vocabulary.choose_vocabulary(
            counted, allowance, changed, given.randomness, most + 1, purpose=name
        )
        names = chosen.vocabulary.names
        return GroupsDecision(names.filter(pc.not_equal(names, OTHER)), by == PAIR)

    needs = (Sums(name, share, changed, bought_vocabulary.NAME_UNITS, is_open=True, is_l2=True),)
    counters = {name: Counted(ActivityCounts, count_labels, (by, max_labels))}
    return Part(name, needs, sentence, decide, counters, BOUGHT, chosen=name)


def _bound_part(params: IndicatorParams, indicator: Timed, share: Fraction) -> Part:
    name = bound_name(indicator)

    def decide(given: Given) -> LongestTimeDecision:
        cases = given.statistics[name].cells(_N_BINS)
        epsilon = given.means[name].epsilon
        place = choose_quantile(cases, epsilon, _QUANTILE, params.max_units, given.randomness, name)
        return LongestTimeDecision(int(LONGEST_US[min(place + _FURTHER, len(LONGEST_US) - 1)]))

    sentence = "chooses a round time, 4 to 8 times what about three of four cases do not exceed"
    needs, counters = (Choice(name, share),), {name: Counted(CellSums, count_times, (indicator,))}
    return Part(name, needs, lambda means: sentence, decide, counters, BOUGHT, chosen=f"the {name}")

"""Pairs of logs that differ in one unit, made so that a careless method shows the difference.

The first kind is made up for a method's parameters: names of the public vocabulary or invented
ones, cases of the greatest length, an individual with all the cases that count, times and values
that nobody else has. The second is the operator's own log, with one unit more or one unit less.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.examination.attack.releases import STEP_US, Variant, counts_by_variant, is_log_seen
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.calendar.working_time import WorkingTime
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import has_times
from tracecloak.schemas.statistics.variants import VariantHistogram

_DAY_US = 86_400_000_000
_SYNTHETIC_NAMES = ("A", "B", "C", "D", "E", "F")
_NEW = "Z"
# Events of a case where no public cap says how many.
_LONG = 64
# So many cases for 1 / epsilon that every threshold is passed, even of a choice that is bought with
# a twentieth of epsilon and has sixteen counts a case.
_CROWD = 4000
_LARGEST_CROWD = 200_000
_CROWD_WITHOUT_EPSILON = 20
_CANARY_LENGTH = 8
_UNIT = "the unit"

# Days that made-up cases begin on, and after how many days a unit does that begins alone.
_N_DAYS = 7
_MUCH_LATER = 300
# A time that no other case or step takes, in days where no range of time bounds it.
_LONG_DAYS = 30
_NOT_DECLARED = "nobody declared this"

# A case: its individual and its activities.
_Case = tuple[str, Variant]


@dataclass(frozen=True)
class Pair:
    """Two logs of which one has a unit that the other lacks.

    Attributes:
        what: What the two are, in words; names nothing of the operator's log.
        with_unit: The log that has the unit, as one batch.
        without_unit: The log that lacks it.
        variants: The variants of the unit's cases, as they are within the method's bounds.
    """

    what: str
    with_unit: TraceBatch
    without_unit: TraceBatch
    variants: tuple[Variant, ...]


@dataclass(frozen=True)
class Setting:
    """What made-up cases have beside their activities.

    Attributes:
        by_individual: Whether they have individuals.
        time: The working time that they take place in, where it is public; else all time from 1970.
        attributes: What is declared, and so what their events have.
    """

    by_individual: bool
    time: WorkingTime | None = None
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True)
class CasePattern:
    """When a case begins, how long it takes, and which values it has.

    Attributes:
        start_us: When it begins; None on one day of the first week.
        first_step_us: Time of its first step.
        step_us: Time of each other step.
        value: Which of the declared values its events have.
        others_begin_us: When the first case begins that has no pattern.
    """

    start_us: int | None = None
    first_step_us: int = STEP_US
    step_us: int = STEP_US
    value: Literal["usual", "another", "undeclared"] = "usual"
    others_begin_us: int = 0


USUAL = CasePattern()


def log_of(
    cases: Sequence[_Case], setting: Setting, pattern: CasePattern = USUAL, n_in_pattern: int = 0
) -> TraceBatch:
    """Returns cases as one batch: by default a day apart within a week, their events a minute.

    Args:
        cases: Individuals and activities.
        setting: What they have beside these.
        pattern: How the last cases are.
        n_in_pattern: How many these are.
    """
    names = pa.array([name for _, variant in cases for name in variant], pa.string())
    vocabulary = ActivityVocabulary.of(names)
    lengths = np.array([len(variant) for _, variant in cases], np.int64)
    place = ranges(0, lengths)
    has_pattern = np.repeat(np.arange(len(cases)) >= len(cases) - n_in_pattern, lengths)
    day_us = _DAY_US
    if setting.time is not None:
        day_us = min(day_us, (setting.time.total_us - pattern.others_begin_us) // _N_DAYS)
    times = pattern.others_begin_us + np.repeat(np.arange(len(cases)) % _N_DAYS, lengths) * day_us
    if pattern.start_us is not None:
        times[has_pattern] = pattern.start_us
    steps = np.where(has_pattern, pattern.step_us, STEP_US)
    first_steps = np.where(has_pattern, pattern.first_step_us, STEP_US)
    times += np.where(place > 0, first_steps + (place - 1) * steps, 0)
    if setting.time is not None:
        times = setting.time.at_us(times)
    return TraceBatch(
        pa.array([f"case {i}" for i in range(len(cases))], pa.string()),
        offsets_of(lengths),
        vocabulary.codes(names),
        times,
        vocabulary,
        pa.array([whose for whose, _ in cases], pa.string()) if setting.by_individual else None,
        {
            attribute.name: pa.DictionaryArray.from_arrays(
                pa.array(has_pattern.astype(np.int32)),
                pa.array([_value(attribute, value) for value in ("usual", pattern.value)]),
            )
            for attribute in setting.attributes
        },
    )


def _value(attribute: Attribute, which: str) -> str:
    declared = attribute.declaration.values or attribute.declaration.bounds or ()
    if which == "undeclared":
        return _NOT_DECLARED
    return str(declared[0 if which == "usual" else -1])


def all_pairs_walk(names: Sequence[str], max_length: int) -> Variant:
    """Returns the longest walk over names that takes no pair twice, cut off at a length.

    It is a de Bruijn sequence of words of two letters with its first letter again at the end (by
    Lyndon words; Fredricksen and Maiorana, 1978).
    """
    walk: list[str] = []
    for i, name in enumerate(names):
        walk.append(name)
        for later in names[i + 1 :]:
            walk += [name, later]
    return tuple([*walk, names[0]][:max_length])


def synthetic_pairs(method: Anonymizer, params: Any) -> list[Pair]:
    """Returns pairs of logs that nobody's data is in, hard for a method with these parameters."""
    bounds = method.bounds(params)
    names = bounds.vocabulary or _SYNTHETIC_NAMES
    cap = bounds.max_trace_length or _LONG
    by_individual = bounds.max_cases_per_individual is not None
    m = bounds.max_cases_per_individual or 1
    epsilon = getattr(params, "epsilon", None)
    n_crowd = _CROWD_WITHOUT_EPSILON
    if epsilon is not None:
        n_crowd = min(math.ceil(_CROWD * m / epsilon), _LARGEST_CROWD)
    usual = tuple(names[:cap])
    log_time = getattr(params, "log_time", None)
    time = None
    if log_time is not None and log_time.time_range is not None:
        time = log_time.working_time({})
    setting = Setting(by_individual, time, method.attributes(params))
    crowd: list[_Case] = [(f"individual {i}", usual) for i in range(n_crowd)]
    each = "one case" if m == 1 else f"one individual with {m} cases"
    some = f"{n_crowd} cases of one variant and"
    walk = all_pairs_walk(names, cap)
    new = {
        "of a variant of its own": usual[::-1] + usual[:1],
        "with a pair that is new": usual[-1:] + usual[:1],
        "with an activity that is new": (_NEW, usual[0]),
    }
    # Units among a crowd, by what they are.
    units = {
        f"{m} more of it, of one unit": [usual] * m,
        f"{each} of the longest walk that takes no pair twice": [walk] * m,
        f"{each} that repeats one activity {cap} times": [(names[0],) * cap] * m,
    }
    for what, variant in new.items():
        if _within(variant, method, params) != usual:  # a short cap may leave nothing new of it
            units[f"{each} {what}"] = [variant] * m
    if m > 1:
        units[f"{each}, each of a variant of its own"] = [walk[: i + 1] for i in range(m)]
    if by_individual:
        units[f"one individual with {m + 3} cases, of which {m} count"] = [usual] * (m + 3)

    def pair(
        what: str, others: list[_Case], unit: list[Variant], pattern: CasePattern = USUAL
    ) -> Pair:
        cases = [*others, *((_UNIT, variant) for variant in unit)]
        within = dict.fromkeys(_within(variant, method, params) for variant in unit)
        with_unit = log_of(cases, setting, pattern, len(unit))
        return Pair(what, with_unit, log_of(others, setting, pattern), tuple(within))

    patterns = _patterns(method, params, len(usual), setting)
    return [
        pair(f"{each} and an empty log", [], [usual] * m),
        *(pair(f"{some} {what}", crowd, unit) for what, unit in units.items()),
        *(
            pair(f"{some} {each} {how}", crowd, [usual] * m, pattern)
            for how, pattern in patterns.items()
        ),
    ]


def _patterns(
    method: Anonymizer, params: Any, length: int, setting: Setting
) -> dict[str, CasePattern]:
    """How a unit can differ from others that have its activities, as far as a release tells it."""
    patterns: dict[str, CasePattern] = {}
    # Whether times come out, and not positions in their place.
    has_stamps = is_log_seen(method, params) and has_times(method.operations_of(params))
    whole_us = setting.time.total_us if setting.time else (_MUCH_LATER + _LONG_DAYS) * _DAY_US
    if has_stamps:
        late_us = max(whole_us - 1 - length * STEP_US, 0)
        patterns["that starts when nobody else does"] = CasePattern(start_us=late_us)
    if has_stamps and length > 1:
        long_us = _LONG_DAYS * _DAY_US if setting.time is None else whole_us // 2
        each_us = long_us // (length - 1)
        still = "with a step that takes no time, as nobody else's"
        patterns[still] = CasePattern(first_step_us=0)
        patterns["that takes as long as nobody else's"] = CasePattern(0, each_us, each_us)
    if setting.attributes:
        patterns["with values that nobody else has"] = CasePattern(value="another")
        patterns["with values that nobody declared"] = CasePattern(value="undeclared")
    if has_stamps:
        early = CasePattern(start_us=0, others_begin_us=whole_us // 2)
        patterns["that starts before all others"] = early
    return patterns


# --- the operator's own log -----------------------------------------------------------------------


def pairs_of_log(traces: TraceBatch, method: Anonymizer, params: Any) -> list[Pair]:
    """Returns the operator's log beside the same log with one unit more or less.

    Args:
        traces: The log as one batch.
        method: The method.
        params: Its parameters.
    """
    pairs = []
    new_variants = canaries(traces, method, params, 1)
    m = method.bounds(params).max_cases_per_individual or 1
    if new_variants:
        what = "your log and one unit more, whose variant nobody else has"
        more = with_cases(traces, [(_UNIT, new_variants[0])] * m)
        pairs.append(Pair(what, more, traces, (new_variants[0],)))
    lone = _lone_unit(traces)
    if lone is not None:
        rest = traces.take(np.setdiff1d(np.arange(traces.n_cases), lone))
        variants = set(variant_counts(traces.take(lone), method, params))
        what = "your log and the same without one unit, whose variant nobody else has"
        pairs.append(Pair(what, traces, rest, tuple(sorted(variants))))
    return pairs


def _within(variant: Variant, method: Anonymizer, params: Any) -> Variant:
    bounds = method.bounds(params)
    if bounds.vocabulary is not None:
        variant = tuple(name if name in bounds.vocabulary else OTHER for name in variant)
    return variant[: bounds.max_trace_length]


def _lone_unit(traces: TraceBatch) -> np.ndarray | None:
    """int64[n]: the cases of a unit, one of which is the only one of its variant."""
    if traces.n_cases == 0:
        return None
    histogram = VariantHistogram.from_traces(traces)
    alone = np.flatnonzero(histogram.counts[histogram.find(traces)] == 1)
    if len(alone) == 0:
        return None
    if traces.individuals is None:
        return alone[:1]
    whose = np.asarray(traces.individuals.dictionary_encode().indices)
    return np.flatnonzero(whose == whose[alone[0]])


def canaries(traces: TraceBatch, method: Anonymizer, params: Any, n: int) -> list[Variant]:
    """Returns up to n random variants that the log does not have, within the method's bounds.

    Their activities are the public ones, or the log's.
    """
    bounds = method.bounds(params)
    names = list(bounds.vocabulary or traces.vocabulary.names.to_pylist()) or [*_SYNTHETIC_NAMES]
    length = min(bounds.max_trace_length or _CANARY_LENGTH, _CANARY_LENGTH)
    taken = set(variant_counts(traces, method, params))
    variants: list[Variant] = []
    for _ in range(20 * n):
        variant = tuple(secrets.choice(names) for _ in range(length))
        if variant not in taken:
            taken.add(variant)
            variants.append(variant)
            if len(variants) == n:
                break
    return variants


def with_cases(traces: TraceBatch, cases: Sequence[_Case]) -> TraceBatch:
    """Returns the log with further cases, which begin with its first and have no values."""
    if not cases:
        return traces
    more = log_of(cases, Setting(traces.individuals is not None))
    start = int(traces.times.min()) if traces.n_events else 0
    vocabulary = ActivityVocabulary.merge([traces.vocabulary, more.vocabulary])
    ids = pa.array([f"canary {secrets.token_hex(8)}" for _ in cases], pa.string())
    nothing = pa.nulls(more.n_events, pa.dictionary(pa.int32(), pa.string()))
    attributes = dict.fromkeys(traces.attributes, nothing)
    times = start + ranges(0, more.lengths) * STEP_US
    more = replace(more, case_ids=ids, times=times, attributes=attributes)
    return TraceBatch.concat([traces.recode(vocabulary), more.recode(vocabulary)])


def variant_counts(traces: TraceBatch, method: Anonymizer, params: Any) -> dict[Variant, int]:
    """Returns the cases of each variant, as variants are within the method's bounds."""
    counts: Counter[Variant] = Counter()
    for variant, count in counts_by_variant(traces).items():
        counts[_within(variant, method, params)] += count
    return dict(counts)

"""Pairs of logs that differ in one unit, made so that a careless method shows the difference.

The first kind is made up for a method's parameters: names of the public vocabulary or invented
ones, cases of the greatest length, an individual with all the cases that count. The second is the
operator's own log, with one unit more or one unit less.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anonymizers.base import Anonymizer
from pipelines.audit_releases import STEP_US, Variant
from schemas.merging import offsets_of
from schemas.traces import TraceBatch
from schemas.variants import VariantHistogram
from schemas.vocabulary import OTHER, ActivityVocabulary

_DAY_US = 86_400_000_000
_MADE_UP = ("A", "B", "C", "D", "E", "F")
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


def log_of(cases: Sequence[_Case], by_individual: bool) -> TraceBatch:
    """Returns cases as one batch: a day apart within a week, their events a minute apart."""
    variants = [variant for _, variant in cases]
    vocabulary = ActivityVocabulary.of({name for variant in variants for name in variant})
    code = {name: i for i, name in enumerate(vocabulary.names.to_pylist())}
    lengths = np.array([len(variant) for variant in variants], np.int64)
    offsets = offsets_of(lengths)
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    day = np.repeat(np.arange(len(cases)) % 7, lengths)
    return TraceBatch(
        pa.array([f"case {i}" for i in range(len(cases))], pa.string()),
        offsets,
        np.array([code[name] for variant in variants for name in variant], np.int32),
        day * _DAY_US + place * STEP_US,
        vocabulary,
        pa.array([whose for whose, _ in cases], pa.string()) if by_individual else None,
    )


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


def made_up_pairs(method: Anonymizer, params: Any) -> list[Pair]:
    """Returns pairs of logs that nobody's data is in, hard for a method with these parameters."""
    bounds = method.bounds(params)
    names = bounds.vocabulary or _MADE_UP
    cap = bounds.max_trace_length or _LONG
    by_individual = bounds.max_cases_per_individual is not None
    m = bounds.max_cases_per_individual or 1
    epsilon = getattr(params, "epsilon", None)
    n_crowd = _CROWD_WITHOUT_EPSILON
    if epsilon is not None:
        n_crowd = min(math.ceil(_CROWD * m / epsilon), _LARGEST_CROWD)
    usual = tuple(names[:cap])
    crowd: list[_Case] = [(f"individual {i}", usual) for i in range(n_crowd)]
    each = "one case" if m == 1 else f"one individual with {m} cases"

    def pair(what: str, others: list[_Case], unit: Sequence[Variant]) -> Pair:
        cases: list[_Case] = [*others, *((_UNIT, variant) for variant in unit)]
        watched = tuple(dict.fromkeys(_within(variant, method, params) for variant in unit))
        return Pair(what, log_of(cases, by_individual), log_of(others, by_individual), watched)

    some = f"{n_crowd} cases of one variant"
    loop = (names[0],) * cap
    pairs = [
        pair(f"{each} and an empty log", [], [usual] * m),
        pair(f"{some} and {m} more of it, of one unit", crowd, [usual] * m),
        pair(
            f"{some} and {each} of the longest walk that takes no pair twice",
            crowd,
            [all_pairs_walk(names, cap)] * m,
        ),
        pair(f"{some} and {each} that repeats one activity {cap} times", crowd, [loop] * m),
    ]
    new = {
        f"{some} and {each} of a variant of its own": usual[::-1] + usual[:1],
        f"{some} and {each} with a pair that is new": usual[-1:] + usual[:1],
        f"{some} and {each} with an activity that is new": (_NEW, usual[0]),
    }
    for what, variant in new.items():
        if _within(variant, method, params) != usual:  # a short cap may leave nothing new of it
            pairs.append(pair(what, crowd, [variant] * m))
    if m > 1:
        own = [all_pairs_walk(names, cap)[: i + 1] for i in range(m)]
        pairs.append(pair(f"{some} and {each}, each of a variant of its own", crowd, own))
    if by_individual:
        pairs.append(
            pair(
                f"{some} and one individual with {m + 3} cases, of which {m} count",
                crowd,
                [usual] * (m + 3),
            )
        )
    return pairs


# --- the operator's own log -----------------------------------------------------------------------


def own_pairs(traces: TraceBatch, method: Anonymizer, params: Any) -> list[Pair]:
    """Returns the operator's log beside the same log with one unit more or less.

    Args:
        traces: The log as one batch.
        method: The method.
        params: Its parameters.
    """
    pairs = []
    found = canaries(traces, method, params, 1)
    m = method.bounds(params).max_cases_per_individual or 1
    if found:
        pairs.append(
            Pair(
                "your log and one unit more, whose variant nobody else has",
                with_cases(traces, [(_UNIT, found[0])] * m),
                traces,
                (found[0],),
            )
        )
    lone = _lone_unit(traces)
    if lone is not None:
        rest = np.setdiff1d(np.arange(traces.n_cases), lone)
        names = traces.vocabulary.names.to_pylist()
        unit = traces.take(lone)
        variants = {
            _within(tuple(names[code] for code in unit.activities[first:last]), method, params)
            for first, last in zip(unit.offsets[:-1], unit.offsets[1:], strict=True)
        }
        pairs.append(
            Pair(
                "your log and the same without one unit, whose variant nobody else has",
                traces,
                traces.take(rest),
                tuple(sorted(variants)),
            )
        )
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
    names = list(bounds.vocabulary or traces.vocabulary.names.to_pylist()) or [*_MADE_UP]
    length = min(bounds.max_trace_length or _CANARY_LENGTH, _CANARY_LENGTH)
    taken = set(variant_counts(traces, method, params))
    found: list[Variant] = []
    for _ in range(20 * n):
        variant = tuple(secrets.choice(names) for _ in range(length))
        if variant not in taken:
            taken.add(variant)
            found.append(variant)
            if len(found) == n:
                break
    return found


def with_cases(traces: TraceBatch, cases: Sequence[_Case]) -> TraceBatch:
    """Returns the log with further cases, the times of which lie within the log's."""
    if not cases:
        return traces
    more = log_of(cases, traces.individuals is not None)
    start = int(traces.times.min()) if traces.n_events else 0
    vocabulary = ActivityVocabulary.merge([traces.vocabulary, more.vocabulary])
    ids = pa.array([f"canary {secrets.token_hex(8)}" for _ in cases], pa.string())
    place = np.arange(more.n_events) - np.repeat(more.offsets[:-1], more.lengths)
    more = TraceBatch(
        ids, more.offsets, more.activities, start + place * STEP_US, more.vocabulary,
        more.individuals,
    )  # fmt: skip
    return TraceBatch.concat([traces.recode(vocabulary), more.recode(vocabulary)])


def variant_counts(traces: TraceBatch, method: Anonymizer, params: Any) -> dict[Variant, int]:
    """Returns the cases of each variant, as variants are within the method's bounds."""
    histogram = VariantHistogram.from_traces(traces)
    names = traces.vocabulary.names.to_pylist()
    text = [names[code] for code in histogram.codes.tolist()]
    bounds = histogram.offsets.tolist()
    counts: Counter[Variant] = Counter()
    for first, last, count in zip(bounds[:-1], bounds[1:], histogram.counts.tolist(), strict=True):
        counts[_within(tuple(text[first:last]), method, params)] += count
    return dict(counts)

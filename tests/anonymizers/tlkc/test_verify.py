"""The verifier of the k-anonymity family: right against plain Python, and no fault gets past it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.anonymizers.tlkc import test_method
from tests.anonymizers.tlkc.test_method import DISEASE_DECLARED, RESOURCE_DECLARED
from tests.support.tlkc_logs import (
    DISEASE,
    HOUR_US,
    RESOURCE,
    Case,
    release_of,
    traces_with,
)
from tests.support.tlkc_naive import RESOURCES, TWELVE, VALUES, naive, small_logs
from tracecloak.anonymizers.tlkc import promise as verify
from tracecloak.anonymizers.tlkc.method import Tlkc
from tracecloak.anonymizers.tlkc.promise import KAnonymousParams, TlkcParams
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("kind", "perspective"), TWELVE)
@given(
    log=small_logs(), length=st.integers(1, 3), k=st.integers(1, 4),
    confidence=st.sampled_from([0.3, 0.5, 1.0]),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_what_is_found_is_what_plain_python_finds(
    kind: str,
    perspective: str,
    log: Mapping[str, Case],
    length: int,
    k: int,
    confidence: float,
) -> None:
    """Of logs that nobody anonymised, in two batches, for each of the twelve kinds."""
    traces = traces_with(log, released=True)
    expected = naive(traces, kind, perspective, length, [DISEASE])
    half = traces.n_cases // 2
    batches = [
        traces.take(np.arange(half)),
        traces.take(np.arange(half, traces.n_cases)),
    ]
    asked = params(kind, perspective, k, length=length, confidence=confidence)
    share = Fraction(str(confidence))
    too_few = {piece for piece, cases in expected.cases.items() if len(cases) < k}
    too_sure = expected.violating(k, share) - too_few
    assert verify.count_violations(batches, asked) == (len(too_few), len(too_sure))


def params(kind: str, perspective: str, k: int = 3, **more: Any) -> TlkcParams:
    given_ = {"confidence": 0.7, "sensitive": DISEASE_DECLARED, **more}
    return test_method.params(kind, perspective, k=k, **given_)


def some_log() -> TraceBatch:
    """Nine times the same few cases, and one of its own; no value has more than a third."""
    paths = [
        [("A", "R1", 0), ("B", "R2", 1)],
        [("A", "R1", 0), ("B", "R2", 1), ("B", "R2", 3)],
        [("B", "R1", 0)],
    ]
    cases: dict[str, Case] = {}
    for number in range(9):
        cases[f"c{number}"] = (
            [(a, r, hour * HOUR_US) for a, r, hour in paths[number % 3]],
            {DISEASE: VALUES[number // 3]},
        )
    cases["last"] = ([("C", "R2", 0), ("A", "R1", 2 * HOUR_US)], {DISEASE: "x"})
    return traces_with(cases)


def case_of(traces: TraceBatch, path: str) -> int:
    """The first case with a path."""
    names = traces.vocabulary.names.to_pylist()
    for case, (first, last) in enumerate(itertools.pairwise(traces.offsets.tolist())):
        if "".join(names[code] for code in traces.activities[first:last]) == path:
            return case
    raise AssertionError(f"no case {path}")


def with_values(traces: TraceBatch, **columns: list[Any]) -> TraceBatch:
    named = {"resource": RESOURCE, "disease": DISEASE}
    changed = {named[key]: pa.array(values, pa.string()) for key, values in columns.items()}
    return replace(traces, attributes={**traces.attributes, **changed})


def test_one_other_value_event_or_time_is_noticed() -> None:
    given_ = params("relative", "activity_resource")
    [released] = release_of([some_log()], Tlkc(), given_)
    Tlkc().verify([released], given_)

    first, last = (int(released.offsets[case_of(released, "ABB") + i]) for i in (0, 1))
    times = released.times.copy()
    times[last - 1] += HOUR_US
    activities = released.activities.copy()
    activities[last - 1] = activities[first]
    resources = released.attributes[RESOURCE].to_pylist()
    others = [*resources[: last - 1], "R1", *resources[last:]]
    for mutated in (
        replace(released, times=times),
        replace(released, activities=activities),
        with_values(released, resource=others),
    ):
        with pytest.raises(GuaranteeError, match="k=3"):
            Tlkc().verify([mutated], given_)

    diseases = released.attributes[DISEASE].to_pylist()
    assert {"x", "y"} < set(diseases)
    surer = with_values(released, disease=["x"] * len(diseases))
    with pytest.raises(GuaranteeError, match=r"confidence=0\.7: a sensitive value is") as found:
        Tlkc().verify([surer], given_)
    assert "k=3" not in str(found.value)
    assert "'x'" not in str(found.value)


def test_a_release_is_verified_as_it_is_read_again() -> None:
    """Read again, its texts are in dictionaries and its numbers are texts; both are checked."""
    cases: dict[str, Case] = {
        f"c{i}": (
            [("A", "R1", 0), ("B", RESOURCES[i % 2], HOUR_US), ("C", None, i // 8 * HOUR_US * 3)],
            {DISEASE: VALUES[i % 3], "case:age": str(20 + 5 * (i % 8))},
        )
        for i in range(24)
    }
    age = {"case:age": {"bounds": [0, 99], "n_bins": 20, "whole": True}}
    sensitive = {**DISEASE_DECLARED, **age}
    given_ = params("relative", "activity_resource", sensitive=sensitive, confidence=0.6)
    [released] = release_of([traces_with(cases)], Tlkc(), given_)
    known = naive(released, "relative", "activity_resource", 2).cases
    matching = min((cases for piece, cases in known.items() if piece), key=len)
    fewer = released.take(np.setdiff1d(np.arange(released.n_cases), matching[2:]))

    def read_again(traces: TraceBatch) -> TraceBatch:
        texts = {k: v.cast(pa.string()).dictionary_encode() for k, v in traces.attributes.items()}
        return replace(traces, attributes=texts)

    Tlkc().verify([read_again(released)], given_)
    with pytest.raises(GuaranteeError, match="k=3"):
        Tlkc().verify([read_again(fewer)], given_)
    older = traces_with(
        {case: (events, {**values, "case:age": "30"}) for case, (events, values) in cases.items()}
    )
    with pytest.raises(GuaranteeError, match="confidence"):
        Tlkc().verify([older], given_)


@given(log=small_logs(), k=st.integers(1, 3), timed=st.booleans())
@settings(max_examples=60, deadline=None)
def test_k_anonymity_is_counted_as_plain_python_counts(
    log: Mapping[str, Case], k: int, timed: bool
) -> None:
    traces = traces_with(log, released=True)
    alike: dict[Any, int] = {}
    for events, _ in log.values():
        start = events[0][2]
        key = tuple((a, r, time - start if timed else 0) for a, r, time in events)
        alike[key] = alike.get(key, 0) + 1
    asked = KAnonymousParams(
        k=k,
        knowledge_kind="relative" if timed else "sequence",
        perspective="activity_resource",
        resources=RESOURCE_DECLARED,
    )
    if min(alike.values()) < k:
        with pytest.raises(GuaranteeError, match=f"k={k}: a variant has fewer cases"):
            verify.verify_released([traces], asked)
    else:
        verify.verify_released([traces], asked)

"""TLKC privacy: what is released, and what a verifier finds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.anonymizers.tlkc import test_method
from tests.support.keys import randomness
from tests.support.logs import trace_batch
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
from tracecloak.anonymizers.tlkc.method import (
    Patterns,
    Tlkc,
    labels_of,
    maximal_frequent,
    minimal_violations,
)
from tracecloak.anonymizers.tlkc.promise import KAnonymousParams, TlkcParams
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import (
    CaseTable,
    PatternCriteria,
    codes_of_words,
    times_of_words,
)

RESOURCE_DECLARED = {RESOURCE: {"values": list(RESOURCES)}}
DISEASE_DECLARED = {DISEASE: {"values": list(VALUES)}}
HALF = Fraction(1, 2)


def params(kind: str, perspective: str, **more: Any) -> TlkcParams:
    values: dict[str, Any] = {
        "k": 2,
        "knowledge_kind": kind,
        "perspective": perspective,
        "resources": {} if perspective == "activity" else RESOURCE_DECLARED,
    }
    return TlkcParams(**{**values, **more})


def known(traces: TraceBatch, given_: TlkcParams) -> CaseTable:
    return Tlkc().requires("suppression", given_)["cases"].count(traces, {}, randomness()).decoded()


def words_of(patterns: Patterns) -> list[tuple[int, ...]]:
    return [tuple(words) for of in patterns.of_length for words in patterns.elements[of].tolist()]


def pieces(patterns: Patterns, traces: TraceBatch, given_: TlkcParams) -> set[tuple[Any, ...]]:
    """Patterns as the plain reference writes them."""
    names = traces.vocabulary.names.to_pylist()

    def element(word: int) -> Any:
        code, time = (int(f(np.array([word]))[0]) for f in (codes_of_words, times_of_words))
        if given_.perspective == "activity":
            found: Any = names[code - 1]
        elif given_.perspective == "resource":
            found = RESOURCES[code - 1]
        else:
            activity, cell = divmod(code - 1, len(RESOURCES) + 1)
            found = (names[activity], ["", *RESOURCES][cell])
        return (found, time) if given_.knowledge_kind == "relative" else found

    found = [tuple(element(word) for word in words) for words in words_of(patterns)]
    return {
        tuple(sorted(piece)) if given_.knowledge_kind in ("set", "multiset") else piece
        for piece in found
    }


logs = small_logs()
demands = st.tuples(
    st.integers(1, 4), st.sampled_from([Fraction(1, 3), HALF, Fraction(2, 3), Fraction(1)])
)


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("kind", "perspective"), TWELVE)
@given(log=logs, demand=demands, length=st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_minimal_violations_are_those_of_the_definition(
    kind: str, perspective: str, log: Mapping[str, Case], demand: tuple[int, Fraction], length: int
) -> None:
    """Writes out all knowledge of every case, for each of the twelve kinds."""
    given_ = params(kind, perspective, sensitive=DISEASE_DECLARED)
    traces = traces_with(log)
    cases = known(traces, given_)
    labels = labels_of(cases, given_.sensitive_attributes)
    found = minimal_violations(
        cases, labels, given_.knowledge_kind, PatternCriteria(*demand), length
    )
    expected = naive(traces, kind, perspective, length, [DISEASE]).minimal(*demand)
    assert pieces(found, traces, given_) == expected
    assert found.n == len(expected)


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("kind", "perspective"), TWELVE)
@given(
    log=logs,
    k=st.integers(1, 3),
    length=st.integers(1, 3),
    confidence=st.sampled_from(["1/2", "2/3", "1"]),
    how=st.tuples(
        st.sampled_from(["n_score", "frequent_traces"]), st.sampled_from(["sparing", "paper"])
    ),
)
@settings(max_examples=20, deadline=None)
def test_a_released_log_has_no_violation(
    kind: str,
    perspective: str,
    log: Mapping[str, Case],
    k: int,
    length: int,
    confidence: str,
    how: tuple[str, str],
) -> None:
    """On the released cases alone, by the plain reference and by the method's own verifier."""
    given_ = params(
        kind,
        perspective,
        k=k,
        length=length,
        confidence=float(Fraction(confidence)),
        algorithm=how[0],
        profile=how[1],
        sensitive=DISEASE_DECLARED,
    )
    try:
        [released] = release_of([traces_with(log)], Tlkc(), given_)
    except GuaranteeError:
        return
    assert released.n_cases >= k
    found = naive(released, kind, perspective, length, [DISEASE])
    assert found.violating(k, given_.exact_confidence) == set()
    Tlkc().verify([released], given_)


@given(log=logs, theta=st.sampled_from([Fraction(1, 4), HALF, Fraction(1)]))
@settings(max_examples=20, deadline=None)
def test_maximal_frequent_traces_are_those_of_the_definition(
    log: Mapping[str, Case], theta: Fraction
) -> None:
    given_ = params("sequence", "activity", sensitive={})
    traces = traces_with(log)
    found = pieces(maximal_frequent(known(traces, given_), "sequence", theta), traces, given_)
    counted = naive(traces, "sequence", "activity", 4).cases
    frequent = {p for p, cases in counted.items() if p and len(cases) >= theta * traces.n_cases}

    def has(piece: tuple[Any, ...], part: tuple[Any, ...]) -> bool:
        return part in set(itertools.combinations(piece, len(part)))

    assert found == {p for p in frequent if not any(p != q and has(q, p) for q in frequent)}


def test_a_release_has_new_ids_cut_times_resources_and_sensitive_values() -> None:
    """Times are cut to the hour where it begins, and count from the first event that is left."""
    minute = HOUR_US // 60
    cases: dict[str, Case] = {
        f"c{i}": (
            [("A", "R1", 55 * minute), ("B", "R2", 65 * minute), ("C", None, (200 + i) * minute)],
            {DISEASE: VALUES[i % 3], "case:age": str(30 + i), "case:other": "secret"},
        )
        for i in range(4)
    }
    given_ = params(
        "sequence",
        "activity_resource",
        confidence=1,
        initial_time="2024-02-03T04:05:06Z",
        sensitive={
            **DISEASE_DECLARED,
            "case:age": {"bounds": [0, 99], "n_bins": 10, "whole": True},
        },
    )
    [released] = release_of([traces_with(cases)], Tlkc(), given_)
    assert list(released.attributes) == [RESOURCE, DISEASE, "case:age"]
    assert released.attributes[RESOURCE].to_pylist() == ["R1", "R2", None] * 4
    assert released.attributes[DISEASE].to_pylist() == [v for v in "xyzx" for _ in range(3)]
    assert released.attributes["case:age"] == pa.array([30] * 12, pa.int64())
    begin = int(datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC).timestamp()) * 1_000_000
    assert (released.times.reshape(4, 3) - begin).tolist() == [[0, HOUR_US, 3 * HOUR_US]] * 4
    assert not set(released.case_ids.to_pylist()) & set(cases)
    assert all(len(case) == 24 for case in released.case_ids.to_pylist())
    released.to_rows().validate(full=True)


def ages(values: list[str | None]) -> TraceBatch:
    return traces_with({f"c{i}": ([("A", None, 0)], {"case:age": v}) for i, v in enumerate(values)})


AGE = {"case:age": {"bounds": [0, 119], "n_bins": 120, "whole": True}}


def test_the_attribute_of_a_value_that_is_too_frequent_in_the_whole_log_is_named() -> None:
    """Half of the cases that have a number are in the middle box, and more where some tie."""
    given_ = params("set", "activity", sensitive=AGE, confidence=0.5)
    with pytest.raises(GuaranteeError, match=r"confidence=0\.5 .* of 'case:age'") as raised:
        release_of([ages(["10", "20", "30", "40", "50"])], Tlkc(), given_)
    assert raised.value.exit_code == 5
    assert "even among all cases of the log" in str(raised.value)


@pytest.mark.parametrize(
    ("log", "more", "message"),
    [
        ({}, {}, "the log has no events"),
        ({"1": "A"}, {}, "k=2 is more than the cases in the log"),
        ({"1": "A", "2": "B"}, {}, "no case is left"),
        ({"1": "A", "2": "A", "3": "B"}, {"k": 3}, "no case is left"),
    ],
)
def test_a_log_of_which_nothing_would_be_left_is_refused(
    log: Mapping[str, str], more: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(GuaranteeError, match=message) as raised:
        release_of([trace_batch(log)], Tlkc(), params("set", "activity", **more))
    assert raised.value.exit_code == 5


def test_times_that_no_file_could_hold_are_refused() -> None:
    years = [("1", "A", 0), ("1", "B", 8_000 * 365 * 24 * HOUR_US)]
    fits = params("sequence", "activity", k=1, initial_time="1970-01-01T00:00:00Z")
    [released] = release_of([trace_batch(years)], Tlkc(), fits)
    assert released.n_events == 2
    late = params("sequence", "activity", k=1, initial_time="2500-01-01T00:00:00Z")
    with pytest.raises(GuaranteeError, match=r"initial_time=2500-01-01.* take an"):
        release_of([trace_batch(years)], Tlkc(), late)


# --- What a verifier finds ------------------------------------------------------------------------


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
    asked = params_to_verify(kind, perspective, k, length=length, confidence=confidence)
    share = Fraction(str(confidence))
    too_few = {piece for piece, cases in expected.cases.items() if len(cases) < k}
    too_sure = expected.violating(k, share) - too_few
    assert verify.count_violations(batches, asked) == (len(too_few), len(too_sure))


def params_to_verify(kind: str, perspective: str, k: int = 3, **more: Any) -> TlkcParams:
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
    given_ = params_to_verify("relative", "activity_resource")
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
    given_ = params_to_verify("relative", "activity_resource", sensitive=sensitive, confidence=0.6)
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

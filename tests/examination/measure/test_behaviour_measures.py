"""The measures of the TLKC and PRETSA papers: worked examples, controls and plain Python."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from tests.support.logs import cases_of, event_logs, read_cases, trace_batch
from tests.support.tlkc_logs import RESOURCE, TABLE_3, TABLE_8, hours_log, traces_with
from tests.support.tlkc_naive import elements_of, small_logs
from tracecloak.examination.measure import behaviour_measures as measures
from tracecloak.examination.measure.behaviour_measures import PERSPECTIVES, projected
from tracecloak.schemas.events.traces import TraceBatch


def log(cases: dict[str, str], names: str = "ABCD") -> TraceBatch:
    return trace_batch(cases, names)


def similarity(a: TraceBatch, b: TraceBatch) -> Any:
    graphs = measures.edges_of(a), measures.edges_of(b)
    return measures.graph_similarity(*graphs, np.unique(a.activities))


# --- Data utility ---------------------------------------------------------------------------------


def test_data_utility_is_that_of_the_perspective() -> None:
    """Other resources do the same work: of activities nothing is lost, of the others all is."""
    before, after = hours_log(TABLE_3), hours_log(TABLE_3)
    names = [f"new {name}" for name in after.attributes[RESOURCE].to_pylist()]
    after = replace(after, attributes={RESOURCE: pa.array(names, pa.string())})
    found = {p: measures.data_utility(*projected([before, after], p)) for p in PERSPECTIVES}
    assert found == {
        "activity": pytest.approx(1),
        "resource": pytest.approx(0),
        "activity_resource": pytest.approx(0),
    }


# --- Graphs ---------------------------------------------------------------------------------------


@settings(deadline=None)
@given(event_logs(), event_logs())
def test_graphs_are_those_of_sets_of_pairs(original: Any, released: Any) -> None:
    """The paper's equations, written out."""
    a, b = (
        Counter(
            pair
            for steps in cases_of(one).values()
            for pair in itertools.pairwise(activity for activity, _ in steps)
        )
        for one in (original, released)
    )
    nodes = {activity for steps in cases_of(original).values() for activity, _ in steps}
    free = set(itertools.product(nodes, nodes)) - a.keys()
    found = similarity(*(trace_batch(one, "ABC") for one in (original, released)))
    if a:
        fitness = sum(b[pair] for pair in a.keys() & b.keys()) / sum(a.values())
        assert found["occurrence_ratio"] == pytest.approx(fitness)
        kept = sum(min(a[pair], b[pair]) for pair in a) / sum(a.values())
        assert found["kept"] == pytest.approx(kept)
    if free:
        assert found["precision"] == pytest.approx(len(free - b.keys()) / len(free))


def test_the_papers_table_8_loses_edges_and_adds_one() -> None:
    """Table 3 has 22 pairs; five of its edges lose events. Counted from the two printed tables."""
    before, after = projected([hours_log(TABLE_3), hours_log(TABLE_8)], "activity")
    pairs = [
        Counter(
            pair
            for text, _ in rows.values()
            for pair in itertools.pairwise(event[:2] for event in text.split())
        )
        for rows in (TABLE_3, TABLE_8)
    ]
    total = sum(pairs[0].values())
    expected = sum(n for pair, n in pairs[1].items() if pair in pairs[0]) / total
    found = similarity(before, after)
    assert found["occurrence_ratio"] == pytest.approx(expected) and total == 22
    assert set(pairs[1]) - set(pairs[0]) == {("HO", "BT")}
    assert found["precision"] == pytest.approx(1 - 1 / (25 - len(pairs[0])))


# --- Bottlenecks ----------------------------------------------------------------------------------


def test_bottlenecks_by_hand() -> None:
    """A B takes 10 minutes, B C 2, C D 30 on average; the release halves B C, loses C D and E."""
    original = log({"1": "A@0 B@10 C@12 E@14 D@32", "2": "A@0 B@10 C@12 D@52"}, "ABCDE")
    released = log({"1": "A@0 B@10 C@11", "2": "A@0 B@10 C@11", "3": "A@0 D@10"}, "ABCDE")
    found = measures.bottlenecks(original, released, n=2)
    # On A B C and D the original is the same; its slowest are C D and A B.
    assert found["n_compared"] == 2 and found["shared"] == 0.5 and found["is_slowest_kept"] == 0
    assert found["rank_correlation"] is None  # two arcs in common
    assert found["mean_error"] == pytest.approx((2 * 0 + 2 * 1) / (2 * 10 + 2 * 2))
    same = measures.bottlenecks(original, original, n=3)
    assert same["shared"] == 1 and same["is_slowest_kept"] == 1
    assert same["rank_correlation"] == pytest.approx(1) and same["mean_error"] == 0


def test_rare_arcs_are_no_bottlenecks() -> None:
    cases = {str(i): "A@0 B@1" for i in range(150)}
    original = log({**cases, "slow": "C@0 D@500"})
    assert measures.bottlenecks(original, original)["n_compared"] == 1
    assert measures.bottlenecks(original, original, frequent_share=0)["n_compared"] == 2


# --- Behavioural appropriateness ------------------------------------------------------------------


def naive_relations(one: Any) -> dict[tuple[str, str, str], str]:
    traces = [[activity for activity, _ in steps] for steps in cases_of(one).values()]
    used = {activity for trace in traces for activity in trace}
    found = {}
    for x, y in itertools.product(used, used):
        follows = [y in t[t.index(x) + 1 :] for t in traces if x in t]
        precedes = [x in t[: len(t) - 1 - t[::-1].index(y)] for t in traces if y in t]
        for name, seen in (("follows", follows), ("precedes", precedes)):
            found[name, x, y] = "always" if all(seen) else "sometimes" if any(seen) else "never"
    return found


@settings(deadline=None)
@given(event_logs(), event_logs())
def test_behavioural_appropriateness_is_that_of_plain_python(original: Any, released: Any) -> None:
    a, b = naive_relations(original), naive_relations(released)
    used = {x for found in (a, b) for _, x, _ in found}
    share = measures.behavioural_appropriateness(
        *(trace_batch(one, "ABC") for one in (original, released))
    )
    if used:
        n_equal = sum(b.get(key) == relation for key, relation in a.items())
        assert share == pytest.approx(n_equal / (2 * len(used) ** 2))
    else:
        assert share == 1


def test_too_many_names_are_not_compared() -> None:
    many = trace_batch({"1": " ".join(f"a{i}" for i in range(2001))})
    assert measures.behavioural_appropriateness(many, many) is None


# --- Truly sampled --------------------------------------------------------------------------------


def test_truly_sampled_by_hand() -> None:
    """Half of the cases are left. A B 8 times becomes 4, B C 4 times 4, C D 4 times 0."""
    original = log({**{f"x{i}": "A B" for i in range(8)}, **{f"y{i}": "B C D" for i in range(4)}})
    released = log(
        {
            **{f"x{i}": "A B" for i in range(2)},
            **{f"y{i}": "A B C" for i in range(2)},
            **{f"z{i}": "B C" for i in range(2)},
        }
    )
    found = measures.truly_sampled(original, released)
    assert list(found.values()) == [1 / 3] * 3
    same = measures.truly_sampled(original, original)
    assert list(same.values()) == [1, 1, 0]


def test_without_pairs_nothing_is_sampled() -> None:
    assert set(measures.truly_sampled(log({"1": "A"}), log({"1": "A B"})).values()) == {None}
    none = measures.truly_sampled(log({"1": "A B"}), log({}))
    assert none["truly"] == 0 and none["unsampled"] == 1


# --- Durations ------------------------------------------------------------------------------------


def test_total_duration_error_by_hand() -> None:
    original = log({"1": "A@0 B@10", "2": "A@5 C@35"})  # 40 minutes
    assert measures.total_duration_error(original, original) == 0
    assert measures.total_duration_error(original, log({"1": "A@0 B@10"})) == 0.75
    assert measures.total_duration_error(original, log({"1": "A@0 B@100"})) == 1.5
    assert measures.total_duration_error(log({"1": "A"}), original) is None


MINUTE_US = 60_000_000


def shapes(logs: list[TraceBatch]) -> list[list[tuple[int, ...]]]:
    """Traces as numbers of elements, in the order in which elements first appear in the logs."""
    numbers: dict[Any, int] = {}
    return [
        [
            tuple(numbers.setdefault(activity, len(numbers)) for activity, _ in steps)
            for steps in read_cases(log).values()
        ]
        for log in logs
    ]


@settings(deadline=None)
@given(small_logs(), small_logs())
def test_projections_are_those_of_plain_python(log: Any, other: Any) -> None:
    logs = [traces_with(log), traces_with(other)]
    for perspective in PERSPECTIVES:
        made = projected(logs, perspective)
        expected = []
        numbers: dict[Any, int] = {}
        for traces in logs:
            known = [case for case in elements_of(traces, "sequence", perspective) if case]
            expected.append([tuple(numbers.setdefault(e, len(numbers)) for e in c) for c in known])
        assert shapes(made) == expected
        assert made[0].vocabulary == made[1].vocabulary
        for traces, source in zip(made, logs, strict=True):
            assert set(traces.times.tolist()) <= set(source.times.tolist())

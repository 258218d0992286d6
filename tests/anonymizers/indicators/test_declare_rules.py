"""Rules of Declare: examples, plain loops, and pm4py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import trace_batch
from tracecloak.anonymizers.indicators.declare_rules import OF_ONE, OF_TWO, cases_that_keep
from tracecloak.schemas.events.traces import TraceBatch

Case = list[tuple[str, int]]


def batch(cases: list[Case]) -> TraceBatch:
    """Cases of activities and times in microseconds."""
    return trace_batch(
        [(f"c{number}", name, time) for number, case in enumerate(cases) for name, time in case]
    )


def keeps(case: Case, template: str, n: int, within: int | None) -> bool:
    """The same of one case, as one would say it; A is the first activity, B the second."""
    begin = case[0][1]

    def near(earlier: int, later: int) -> bool:
        return within is None or case[later][1] - case[earlier][1] <= within

    places = range(len(case))
    a = [i for i in places if case[i][0] == "A"]
    b = [i for i in places if case[i][0] == "B"]
    soon = [i for i in a if within is None or case[i][1] - begin <= within]
    response = all(any(j > i and near(i, j) for j in b) for i in a)
    precedence = all(any(i < j and near(i, j) for i in a) for j in b)
    chain_response = all(i + 1 in b and near(i, i + 1) for i in a)
    chain_precedence = all(j - 1 in a and near(j - 1, j) for j in b)
    return {
        "existence": len(soon) >= n,
        "absence": len(soon) < n,
        "first": case[0][0] == "A",
        "last": len(case) - 1 in soon,
        "response": response,
        "precedence": precedence,
        "succession": response and precedence,
        "chain_response": chain_response,
        "chain_precedence": chain_precedence,
        "chain_succession": chain_response and chain_precedence,
        "not_coexistence": not any(near(min(i, j), max(i, j)) for i in a for j in b),
    }[template]


def timed(case: Case) -> Case:
    """The same events, each as much later than the one before as its number says."""
    times = np.cumsum([since for _, since in case]).tolist()
    return [(name, time) for (name, _), time in zip(case, times, strict=True)]


steps = st.tuples(st.sampled_from("ABC"), st.integers(0, 3))
cases = st.lists(st.lists(steps, min_size=1, max_size=6).map(timed), min_size=1, max_size=6)


@pytest.mark.parametrize("template", [*OF_ONE, *OF_TWO])
@given(log=cases, n=st.integers(1, 3), within=st.none() | st.integers(0, 5))
def test_what_is_found_is_what_plain_loops_find(
    template: str, log: list[Case], n: int, within: int | None
) -> None:
    found = cases_that_keep(batch(log), template, "A", "B", n, within)
    assert found.tolist() == [keeps(case, template, n, within) for case in log]


def test_an_activity_that_never_occurs_breaks_no_rule_that_needs_it_to() -> None:
    traces = batch([[("A", 0)], [("C", 0)]])
    assert cases_that_keep(traces, "precedence", "nowhere", "A").tolist() == [False, True]
    assert cases_that_keep(traces, "existence", "nowhere").tolist() == [False, False]

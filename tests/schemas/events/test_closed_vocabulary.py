"""A vocabulary that has all names: what is not on it is left out, wherever it comes from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.logs import cases_of, event_batch, event_logs, read_cases, trace_batch
from tests.support.record_files import canonical
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import OTHER
from tracecloak.schemas.events.tally import OTHER_ACTIVITY


def test_a_record_outside_the_list_is_a_reject_and_the_others_are_read() -> None:
    columns = {
        "case_id": ["1", "1", "2", None],
        "activity": ["A", "B", "C", "C"],
        "timestamp": ["2026-01-01T00:00:00Z"] * 4,
    }
    events, rejects = canonical(columns, ColumnMapping(activities=("A", "C")))
    assert events.column("activity").to_pylist() == ["A", "C"]
    assert rejects.column("record").to_pylist() == [1, 3]
    assert rejects.column("reason").to_pylist() == [OTHER_ACTIVITY, "no case id"]


@given(event_logs(), st.sets(st.sampled_from("ABC"), min_size=1))
def test_a_closed_bound_keeps_the_events_on_the_list_and_their_order(log, names) -> None:
    bounds = ContributionBounds(tuple(sorted(names)), closed=True)
    [traces] = group_into_traces([event_batch(log)]) or [trace_batch({})]
    bounded = bounds.bound(traces, randomness().of_units)
    expected = {
        case: kept
        for case, steps in cases_of(log).items()
        if (kept := [step for step in steps if step[0] in names])
    }
    assert read_cases(bounded) == expected
    assert OTHER not in bounded.vocabulary.names.to_pylist()

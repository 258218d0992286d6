"""Contribution bounding against loops, and that no unit's data change another's contribution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support import logs
from tests.support.keys import randomness
from tracecloak.anonymizers.contract.bounding import (
    ContributionBounds,
    distinct_activities,
)
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.events.events import OTHER
from tracecloak.schemas.events.traces import TraceBatch

Owned = list[tuple[logs.Event, str]]


def batches_of(owned: Owned, n_shards: int = 1) -> list[TraceBatch]:
    """Traces of events that name their individuals."""
    batch = logs.event_batch([e for e, _ in owned], individuals=[who for _, who in owned])
    return group_into_traces([batch], n_shards, by_individual=True)


def bounded(
    batches: Iterable[TraceBatch], bounds: ContributionBounds, key: int = 0
) -> dict[tuple[str, str], list[logs.Step]]:
    """The bounded cases of all batches, by individual and case."""
    found: dict[tuple[str, str], list[logs.Step]] = {}
    for batch in batches:
        found.update(logs.read_cases_of_individuals(bounds.bound(batch, randomness(key))))
    return found


owned_logs = st.builds(
    lambda log, owners: list(zip(log, owners, strict=False)),
    logs.event_logs(max_events=40, n_cases=6),
    st.lists(st.sampled_from("ijkl"), min_size=40, max_size=40),
)


@given(logs.event_logs(), st.integers(1, 5), st.sets(st.sampled_from("ABX")))
def test_caps_of_a_case_are_those_of_a_loop(log, length, public):
    bounds = ContributionBounds(tuple(public), length)
    found = bounds.bound(logs.trace_batch(log), randomness())
    assert logs.read_cases(found) == {
        case: [(a if a in public else OTHER, time) for a, time in steps[:length]]
        for case, steps in logs.cases_of(log).items()
    }


@given(owned_logs, st.integers(1, 4), st.integers(0, 5))
def test_of_an_individual_some_whole_cases_are_kept(owned, most, key):
    everything = bounded(batches_of(owned), ContributionBounds())
    found = bounded(batches_of(owned), ContributionBounds(max_cases_per_individual=most), key)
    assert found.items() <= everything.items()
    had = Counter(who for who, _ in everything)
    assert Counter(who for who, _ in found) == {who: min(n, most) for who, n in had.items()}
    assert list(found) == [pair for pair in everything if pair in found]  # in their order


CAPS = ContributionBounds(("A", "B"), 3, 2)


@given(owned_logs, st.sampled_from([2, 3, 16]), st.randoms(use_true_random=False))
def test_shards_and_order_do_not_matter(owned, n_shards, random):
    expected = bounded(batches_of(owned), CAPS)
    assert bounded(batches_of(owned, n_shards), CAPS) == expected
    (batch,) = batches_of(owned) or [TraceBatch.from_events([], True)]
    places = np.array(random.sample(range(batch.n_cases), batch.n_cases), np.int64)
    assert bounded([batch.take(places)], CAPS) == expected


@given(owned_logs, st.integers(0, 3))
def test_an_individual_changes_no_other_ones_contribution(owned, key):
    everyone = bounded(batches_of(owned), CAPS, key)
    for gone in "ijkl":
        without = [(event, who) for event, who in owned if who != gone]
        assert bounded(batches_of(without), CAPS, key) == {
            pair: steps for pair, steps in everyone.items() if pair[0] != gone
        }


@given(logs.event_logs(n_cases=4), st.integers(0, 3))
def test_a_case_changes_no_other_ones_contribution(log, key):
    bounds = ContributionBounds(("A", "B"), 3)
    everyone = logs.read_cases(bounds.bound(logs.trace_batch(log), randomness(key)))
    for gone in ("c1", "c2", "c3", "c4"):
        without = logs.trace_batch([event for event in log if event[0] != gone])
        found = logs.read_cases(bounds.bound(without, randomness(key)))
        assert found == {case: steps for case, steps in everyone.items() if case != gone}


def chosen(traces: TraceBatch, most: int, key: int = 0) -> dict[str, set[str]]:
    """The chosen activities' names by case."""
    cases, codes = distinct_activities(traces, most, randomness(key))
    assert (cases.dtype, codes.dtype) == (np.int64, np.int32)
    pairs = list(zip(cases.tolist(), codes.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    found: dict[str, set[str]] = {case: set() for case in traces.case_ids.to_pylist()}
    for case, code in pairs:
        found[traces.case_ids[case].as_py()].add(traces.vocabulary.names[code].as_py())
    return found


@given(logs.event_logs(activities="ABCDEFG"), st.integers(1, 7), st.integers(0, 5))
def test_of_each_case_at_most_so_many_activities_are_chosen(log, most, key):
    found = chosen(logs.trace_batch(log), most, key)
    for case, steps in logs.cases_of(log).items():
        had = {activity for activity, _ in steps}
        assert found[case] <= had and len(found[case]) == min(most, len(had))


@given(logs.event_logs(n_cases=4, activities="ABCDEFG"), st.integers(0, 3))
def test_activities_chosen_do_not_depend_on_other_cases(log, key):
    # Without the others the vocabulary is another one too, and the codes with it.
    everyone = chosen(logs.trace_batch(log), 2, key)
    for case in logs.cases_of(log):
        alone = logs.trace_batch([event for event in log if event[0] == case])
        assert chosen(alone, 2, key) == {case: everyone[case]}
    assert chosen(logs.trace_batch(log, "0ABCDEFGH"), 2, key) == everyone

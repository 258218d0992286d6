"""Contribution bounding and sets of counted units: no unit's data change what another adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import logs
from tests.support.attribute_methods import Passing
from tests.support.books import KEY, batch, units
from tests.support.keys import randomness, release_key
from tests.support.logs import event_logs, plain, trace_batch
from tracecloak.anonymizers.contract.bounding import (
    ContributionBounds,
    distinct_activities,
)
from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.anonymizers.contract.in_memory import anonymise, group_into_traces
from tracecloak.schemas.errors import UsageError
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
    for piece in batches:
        found.update(logs.read_cases_of_individuals(bounds.bound(piece, randomness(key))))
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


def test_a_log_that_is_transformed_is_under_the_caps_too() -> None:
    """Catches caps that hold of what is counted alone."""

    class Capped(Passing):
        def bounds(self, params: Any) -> ContributionBounds:
            return ContributionBounds(max_trace_length=2)

    log = [trace_batch({"c": "A B C"})]
    made = anonymise(log, Capped(), Capped.Params(), release_key(1), "r", "configuration")
    assert [traces.n_events for traces in made.traces] == [2]


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


WHOSE = {"c1": "p", "c2": "p", "c3": "q", "c4": "q", "c5": "r"}

both_kinds = pytest.mark.parametrize("by_individual", [False, True], ids=["cases", "individuals"])


def whose(by_individual: bool) -> dict[str, str] | None:
    return WHOSE if by_individual else None


@both_kinds
@given(
    log=event_logs(max_events=20),
    dealt=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    random=st.randoms(use_true_random=False),
)
def test_parts_merge_to_the_whole_in_any_order_and_grouping(by_individual, log, dealt, random):
    """The laws of `tests/schemas/arrays/test_merging.py`; parts may share cases beside."""

    def counted(events):
        made = trace_batch(events, "ABC", whose(by_individual))
        return CountedUnits.from_traces(made, KEY, by_individual)

    whole = counted(log)
    parts = [[e for e in log if dealt[int(e[0][1:]) - 1] == number] for number in range(4)]
    pieces = [counted(part) for part in parts]
    before = [plain(piece) for piece in pieces]
    nothing = CountedUnits.merge(())
    assert plain(CountedUnits.merge(pieces)) == plain(whole)
    assert plain(CountedUnits.merge([nothing, *pieces, whole, *pieces])) == plain(whole)
    random.shuffle(pieces)
    nested = CountedUnits.merge([CountedUnits.merge(pieces[:2]), CountedUnits.merge(pieces[2:])])
    assert plain(nested) == plain(whole)
    assert sorted(map(str, map(plain, pieces))) == sorted(map(str, before))
    assert plain(CountedUnits.from_bytes(whole.to_bytes())) == plain(whole)
    assert len({e[0] for e in log}) == len(whole.digests)


def test_one_case_id_of_two_individuals_is_two_units():
    """Catches a set by case ids alone, which would count one individual for the other."""
    of_p, of_q = units(["c"], {"c": "p"}), units(["c"], {"c": "q"})
    assert len(CountedUnits.merge([of_p, of_q]).digests) == 2
    assert not of_p.holds(of_q.digests).any()
    assert of_p.kept(batch(["c"], {"c": "q"}), KEY).n_cases == 0


@given(
    n=st.integers(0, 60),
    n_distinct=st.integers(1, 4),
    n_columns=st.sampled_from([2, 4]),
    number=st.integers(0, 99),
)
def test_rows_are_held_that_are_in_the_set_also_where_words_agree(n, n_distinct, n_columns, number):
    """Against Python's sets, with words so few that many agree, as those of digests never do."""
    generator = np.random.default_rng(number)
    rows = generator.integers(0, n_distinct, (n, n_columns)).astype(np.uint64)
    asked = generator.integers(0, n_distinct, (20, n_columns)).astype(np.uint64)
    some = CountedUnits.of(rows)
    expected = set(map(tuple, rows.tolist()))
    assert list(map(tuple, some.digests.tolist())) == sorted(expected)
    assert some.holds(asked).tolist() == [tuple(row) in expected for row in asked.tolist()]
    firsts = [row[:2] for row in expected]
    assert some.cases_of(asked[:, :2]).tolist() == [
        firsts.count(tuple(row)) for row in asked[:, :2].tolist()
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\2" + b"1" * 15,
        b"\3" + b"1" * 24,
        b"\4",
        b"\2" + b"\2" * 16 + b"\1" * 16,
        b"\2" + b"\1" * 32,
    ],
    ids=["nothing", "half a row", "other columns", "empty of individuals", "order", "twice"],
)
def test_other_bytes_are_no_set(data):
    with pytest.raises(ValueError):
        CountedUnits.from_bytes(data)


def test_sets_of_two_kinds_and_individuals_that_nobody_names_are_told():
    for mixed in (
        lambda: CountedUnits.merge([units(["c1"]), units(["c1"], WHOSE)]),
        lambda: units(["c1"]).holds(units(["c1"], WHOSE).digests),
        lambda: CountedUnits.from_traces(batch(["c1"]), KEY, True),
    ):
        with pytest.raises(UsageError, match="individuals"):
            mixed()

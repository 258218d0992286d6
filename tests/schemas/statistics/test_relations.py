"""Relations between activities against a loop over cases and pairs of events.

Smallest distances between activities against a naive search, and their merging.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import Log, cases_of, event_logs, plain, read_pairs, trace_batch
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.relations import ActivityRelations, KFollows
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.batch.traces import MergeStatisticsFn

Distances = dict[tuple[str, str], int]


def naive_distances(log: Log, max_distance: int | None = None) -> Distances:
    """The smallest distance of each pair of labels, by looking at every two places of each case."""
    found: Distances = {}
    for steps in cases_of(log).values():
        path = ["▶", *(activity for activity, _ in steps), "■"]
        for (i, a), (j, b) in itertools.combinations(enumerate(path), 2):
            if max_distance is None or j - i <= max_distance:
                found[a, b] = min(j - i, found.get((a, b), j - i))
    return found


def distances_of(follows: KFollows, traces: TraceBatch) -> Distances:
    assert follows.sources.dtype == follows.targets.dtype == follows.distances.dtype == np.int32
    keys = follows.sources.astype(np.int64) << 32 | follows.targets
    assert (np.diff(keys) > 0).all()
    labels = traces.vocabulary.labels
    return {
        (labels[a], labels[b]): int(d)
        for a, b, d in zip(follows.sources, follows.targets, follows.distances, strict=True)
    }


@given(event_logs(activities="ABCD"), st.sampled_from([None, 1, 2, 3, 7]))
def test_distances_are_those_of_a_naive_search(log: Log, max_distance: int | None) -> None:
    traces = trace_batch(log, "ABCD")
    found = KFollows.from_traces(traces, max_distance)
    assert distances_of(found, traces) == naive_distances(log, max_distance)
    assert found.weight == len(found.distances)


@given(
    event_logs(n_cases=6),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
    st.permutations(range(4)),
    st.sampled_from([None, 1, 2]),
)
def test_merged_distances_are_those_of_the_whole(
    log: Log, part_of: list[int], order: list[int], max_distance: int | None
) -> None:
    """Fresh ones merged at once, one after the other, in any order and in pairs; parts are kept."""
    traces = trace_batch(log, "ABC")
    whole = KFollows.from_traces(traces, max_distance)
    dealt = np.array(part_of)[: traces.n_cases]
    parts = [
        KFollows.from_traces(traces.take(np.flatnonzero(dealt == i)), max_distance)
        for i in range(4)
    ]
    before = [encode(part) for part in parts]
    assert KFollows.merge(parts) == whole
    assert KFollows.merge([parts[i] for i in order]) == whole
    sequential = KFollows.merge(())
    for i in order:
        sequential = KFollows.merge([sequential, parts[i]])
    assert sequential == whole
    halves = [KFollows.merge(parts[:2]), KFollows.merge(parts[2:])]
    assert KFollows.merge([*halves, KFollows.merge(())]) == KFollows.merge(halves[::-1]) == whole
    assert KFollows.merge([whole, whole]) == whole  # a smallest one stays what it is
    assert [encode(part) for part in parts] == before
    assert decode(encode(whole)) == whole
    assert (KFollows.merge(()) == whole) == (not log)


@given(event_logs())
def test_neighbours_are_the_directly_follows_pairs(log: Log) -> None:
    traces = trace_batch(log, "ABC")
    near = KFollows.from_traces(traces, 1)
    assert (
        distances_of(near, traces).keys()
        == read_pairs(DirectlyFollows.from_traces(traces), traces.vocabulary).keys()
    )
    # Looking further adds pairs and moves none of these.
    far = KFollows.from_traces(traces, 4)
    assert (
        far.keys_within(traces.vocabulary, 1).tolist()
        == near.keys_within(traces.vocabulary, 1).tolist()
    )


def test_two_events_between_make_a_distance_of_3() -> None:
    """The paper's example: at least two other events come between in every case."""
    log = {"1": "A X Y B", "2": "A X X Y B", "3": "B A"}
    traces = trace_batch(log)
    found = distances_of(KFollows.from_traces(traces), traces)
    assert found["A", "B"] == 3
    assert found["B", "A"] == 1
    assert found["X", "X"] == 1
    assert ("Y", "X") not in found
    assert ("A", "A") not in found
    assert ("A", "B") not in distances_of(KFollows.from_traces(traces, 2), traces)


def test_a_case_of_one_event_has_start_and_end_two_steps_apart() -> None:
    traces = trace_batch({"1": "A"})
    assert distances_of(KFollows.from_traces(traces), traces) == {
        ("▶", "A"): 1,
        ("▶", "■"): 2,
        ("A", "■"): 1,
    }


def test_keys_within_a_distance_are_ascending_pairs_of_codes() -> None:
    traces = trace_batch({"1": "A B C"})
    follows = KFollows.from_traces(traces)
    n_codes = traces.vocabulary.end + 1
    for distance, n_pairs in ((1, 4), (2, 7), (3, 9), (4, 10)):
        keys = follows.keys_within(traces.vocabulary, distance)
        assert keys.dtype == np.int64
        assert len(keys) == n_pairs
        assert (np.diff(keys) > 0).all()
        labels = traces.vocabulary.labels
        assert {(labels[key // n_codes], labels[key % n_codes]) for key in keys} == set(
            naive_distances({"1": "A B C"}, distance)
        )


def test_a_large_alphabet_gives_the_same_as_a_small_one() -> None:
    """Beyond a few hundred names pairs are not looked up in a table any more."""
    log = {"1": "A B A C", "2": "C A", "3": "B B"}
    small, large = trace_batch(log), trace_batch(log, [*"ABC", *(f"Z{i}" for i in range(500))])
    expected = distances_of(KFollows.from_traces(small, 2), small)
    assert distances_of(KFollows.from_traces(large, 2), large) == expected
    assert expected == naive_distances(log, 2)


def test_an_empty_batch_has_no_pairs_and_a_distance_below_1_is_refused() -> None:
    traces = trace_batch({"1": "A"})
    assert KFollows.from_traces(traces.take(np.zeros(0, np.int64))) == KFollows.merge(())
    with pytest.raises(UsageError, match="max_distance must be at least 1, got 0"):
        KFollows.from_traces(traces, 0)


Pair = tuple[str, str]


def naive(log: Log) -> tuple[dict[Pair, tuple[int, int]], dict[str, int]]:
    """Cases by pair, at all and before the first target, and cases by first activity.

    Those that have an activity are under ▶.
    """
    pairs: Counter[Pair] = Counter()
    before_first: Counter[Pair] = Counter()
    firsts: Counter[str] = Counter()
    for steps in cases_of(log).values():
        names = [name for name, _ in steps]
        pairs.update({("▶", name) for name in names})
        pairs.update(set(itertools.combinations(names, 2)))  # in the order of the case
        for target in set(names):
            before = {"▶", *names[: names.index(target)]}
            before_first.update({(source, target) for source in before})
        firsts[names[0]] += 1
    return {pair: (n, before_first[pair]) for pair, n in pairs.items()}, dict(firsts)


def read(
    relations: ActivityRelations, vocabulary: ActivityVocabulary
) -> tuple[dict[Pair, tuple[int, int]], dict[str, int]]:
    labels = vocabulary.labels
    pairs = zip(
        relations.sources.tolist(), relations.targets.tolist(), relations.counts.tolist(),
        relations.counts_before_first.tolist(), strict=True,
    )  # fmt: skip
    firsts = zip(relations.first_codes.tolist(), relations.first_counts.tolist(), strict=True)
    return (
        {(labels[source], labels[target]): tuple(counts) for source, target, *counts in pairs},
        {labels[code]: count for code, count in firsts},
    )


def test_relations_by_hand() -> None:
    traces = trace_batch({"c1": "A B A", "c2": "B C", "c3": "B C"}, "ABCD")
    relations = ActivityRelations.from_traces(traces)
    assert read(relations, traces.vocabulary) == (
        {
            ("A", "A"): (1, 0), ("A", "B"): (1, 1), ("B", "A"): (1, 0), ("B", "C"): (2, 2),
            ("▶", "A"): (1, 1), ("▶", "B"): (3, 3), ("▶", "C"): (2, 2),
        },
        {"A": 1, "B": 2},
    )  # fmt: skip
    assert relations.matrix(traces.vocabulary).tolist() == [
        [1, 1, 0, 0],
        [1, 0, 2, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]
    assert relations.matrix(traces.vocabulary, at_first=True).tolist() == [
        [0, 1, 0, 0],
        [0, 0, 2, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]
    assert relations.cases(traces.vocabulary).tolist() == [1, 3, 2, 0]
    assert relations.firsts(traces.vocabulary).tolist() == [1, 2, 0, 0]
    assert relations.weight == 7


@given(event_logs())
def test_relations_are_those_of_a_loop(log: Log) -> None:
    traces = trace_batch(log, "ABC")
    relations = ActivityRelations.from_traces(traces)
    assert read(relations, traces.vocabulary) == naive(log)
    assert relations.sources.dtype == relations.targets.dtype == np.int32
    assert relations.first_codes.dtype == np.int32
    assert relations.counts_before_first.dtype == np.int64
    assert relations.counts.dtype == relations.first_counts.dtype == np.int64
    pairs = list(zip(relations.sources.tolist(), relations.targets.tolist(), strict=True))
    assert pairs == sorted(set(pairs))


@given(event_logs(max_events=40, n_cases=9))
def test_blocks_of_rows_give_the_same(log: Log) -> None:
    traces = trace_batch(log, "ABC")
    variants = VariantHistogram.from_traces(traces)
    whole = plain(ActivityRelations.from_variants(variants, traces.vocabulary))
    for block in (1, 7, 20):
        with mock.patch("tracecloak.schemas.statistics.relations._BLOCK", block):
            found = ActivityRelations.from_variants(variants, traces.vocabulary)
        assert plain(found) == whole


def test_pairs_of_a_wide_vocabulary_stay_apart() -> None:
    names = [f"{i:05}" for i in range(70_000)]
    traces = trace_batch({"c1": "00001 69999 00001"}, names)
    found, firsts = read(ActivityRelations.from_traces(traces), traces.vocabulary)
    assert firsts == {"00001": 1}
    assert found == {
        ("00001", "00001"): (1, 0),
        ("00001", "69999"): (1, 1),
        ("69999", "00001"): (1, 0),
        ("▶", "00001"): (1, 1),
        ("▶", "69999"): (1, 1),
    }


Fn = MergeStatisticsFn


def fresh_then_merged(fn: Fn, batches: list[Statistics]) -> Any:
    return fn.merge_accumulators([fn.add_input(fn.create_accumulator(), b) for b in batches])


def sent_over_the_wire(fn: Fn, batches: list[Statistics]) -> Any:
    coder = fn.get_accumulator_coder()
    added = [fn.compact(fn.add_input(fn.create_accumulator(), b)) for b in batches]
    return fn.merge_accumulators([coder.decode(coder.encode(a)) for a in added])


def one_after_the_other(fn: Fn, batches: list[Statistics]) -> Any:
    accumulator = fn.create_accumulator()
    for batch in batches:
        accumulator = fn.add_input(accumulator, batch)
    return accumulator


def permuted(fn: Fn, batches: list[Statistics]) -> Any:
    halves = [one_after_the_other(fn, batches[::-1][i::2]) for i in range(2)]
    return fn.merge_accumulators([fn.create_accumulator(), *halves])


@pytest.mark.parametrize(
    "way", [fresh_then_merged, sent_over_the_wire, one_after_the_other, permuted]
)
@given(event_logs())
def test_the_count_step_combines_them_in_every_way(
    way: Callable[[Fn, list[Statistics]], Any], log: Log
) -> None:
    traces = trace_batch(log, "ABC")
    whole = plain(ActivityRelations.from_traces(traces))
    parts = [traces.take(np.arange(first, traces.n_cases, 4)) for first in range(4)]
    batches = [Statistics({"relations": ActivityRelations.from_traces(part)}) for part in parts]
    before = [plain(batch.by_name["relations"]) for batch in batches]
    fn = MergeStatisticsFn({"relations": ActivityRelations})
    accumulator = way(fn, batches)
    for _ in range(2):
        assert plain(fn.extract_output(accumulator).by_name["relations"]) == whole
    assert [plain(batch.by_name["relations"]) for batch in batches] == before
    assert plain(decode(encode(ActivityRelations.from_traces(traces)))) == whole


def test_no_cases_have_no_relations() -> None:
    empty = ActivityRelations.from_traces(trace_batch({}))
    assert empty == ActivityRelations.merge(()) and empty.weight == 0
    assert plain(empty) == plain(ActivityRelations.merge(()))


@pytest.mark.parametrize(
    "other", [{"c": "A C"}, {"c": "B A"}, {"c": "A B", "d": "A B"}, {"c": "A B B"}, {"c": "A"}, {}]
)
def test_relations_are_equal_if_all_counts_are(other: Log) -> None:
    ours = ActivityRelations.from_traces(trace_batch({"c": "A B"}, "ABC"))
    assert ours == ActivityRelations.from_traces(trace_batch({"d": "A B"}, "ABC"))
    assert ours != ActivityRelations.from_traces(trace_batch(other, "ABC"))
    assert ours != "A B"

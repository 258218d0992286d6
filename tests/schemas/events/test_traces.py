"""Whole cases from events in any order, and what can be done with them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import (
    MINUTE,
    Event,
    cases_of,
    event_batch,
    event_batches,
    event_logs,
    events_of,
    naive_durations,
    plain,
    read_cases,
    read_cases_of_individuals,
    trace_batch,
)
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import EVENT_SCHEMA, RELEASED_SCHEMA, event_schema
from tracecloak.schemas.events.traces import (
    INDIVIDUAL_ID,
    TraceBatch,
    carried_columns,
    split_by_shard,
)
from tracecloak.schemas.events.vocabulary import ActivityVocabulary

EXAMPLE = {"c1": "A@0 B@5 C@5 A@7", "c2": "B@3", "c3": "C@1 A@9"}


def steps(text: str) -> list[tuple[str, int]]:
    return cases_of({"c": text})["c"]


# --- from events ----------------------------------------------------------------------------------


def test_equal_stamps_keep_the_order_of_their_indexes_and_not_of_their_rows():
    events = [("c", name, 0) for name in "DBCA"] + [("c", "E", -1)]
    batch = event_batch(events, index=[30, 10, 20, 40, 50])
    assert read_cases(TraceBatch.from_events([batch])) == {
        "c": [("E", -1), ("B", 0), ("C", 0), ("D", 0), ("A", 0)]
    }


@pytest.mark.parametrize("index", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_time_goes_before_the_index(index):
    batch = event_batch([("c", "A", 1), ("c", "B", 2), ("c", "C", 3)], index)
    assert read_cases(TraceBatch.from_events([batch])) == {"c": [("A", 1), ("B", 2), ("C", 3)]}


def test_a_tie_at_a_border_of_cases_is_no_tie():
    # In document order already, and equal stamps across cases with falling indexes.
    batch = event_batch([("a", "A", 5), ("a", "B", 5), ("b", "C", 5)], index=[8, 9, 1])
    traces = TraceBatch.from_events([batch])
    assert read_cases(traces) == {"a": [("A", 5), ("B", 5)], "b": [("C", 5)]}


@settings(deadline=None)
@given(event_logs(), st.integers(1, 5), st.randoms(use_true_random=False))
def test_cases_spread_over_batches_are_those_of_a_loop(log, n_batches, random):
    batches = event_batches(log, n_batches)  # each with dictionaries of its own
    random.shuffle(batches)
    traces = TraceBatch.from_events(batches)
    assert read_cases(traces) == cases_of(log)
    assert traces.vocabulary == ActivityVocabulary.of(activity for _, activity, _ in log)


@settings(deadline=None)
@given(event_logs(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(log, random):
    places = list(range(len(log)))
    random.shuffle(places)
    shuffled = event_batch([log[place] for place in places], places)
    assert read_cases(TraceBatch.from_events([shuffled])) == cases_of(log)


@pytest.mark.parametrize("batches", [[], [event_batch([])], [event_batch([]), event_batch([])]])
def test_no_events_are_no_cases(batches):
    traces = TraceBatch.from_events(batches)
    assert read_cases(traces) == {} and len(traces.vocabulary) == 0
    assert traces.lengths.tolist() == traces.durations.tolist() == traces.starts.tolist() == []
    assert traces.is_first.tolist() == []
    assert traces.to_rows().num_rows == 0
    assert read_cases(traces.take(np.zeros(0, np.int64))) == {}


def test_one_event_is_a_case():
    traces = TraceBatch.from_events([event_batch({"only": "A@3"})])
    assert read_cases(traces) == {"only": [("A", 3 * MINUTE)]}
    assert traces.durations.tolist() == [0] and traces.is_first.tolist() == [True]


def test_one_case_of_100_000_events_is_sorted():
    n = 100_000
    rng = np.random.default_rng(0)
    times = rng.integers(0, 1000, n)  # a hundred events share a time
    codes = rng.integers(0, 5, n).astype(np.int32)
    index = rng.permutation(n)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["long"]),
            pa.DictionaryArray.from_arrays(codes, list("ABCDE")),
            pa.array(times),
            pa.array(index),
        ],
        schema=EVENT_SCHEMA,
    )
    traces = TraceBatch.from_events([batch.slice(0, 60_000), batch.slice(60_000)])
    expected = sorted(zip(times.tolist(), index.tolist(), codes.tolist(), strict=True))
    assert traces.times.tolist() == [time for time, _, _ in expected]
    assert traces.activities.tolist() == [code for _, _, code in expected]
    assert traces.offsets.tolist() == [0, n]


def test_ids_and_further_columns_that_no_event_has_are_left_behind():
    # A slice keeps the whole dictionary; the ids of other rows are not cases here.
    batch = event_batch({"c1": "A B", "canary": "C", "c2": "B"})
    batch = pa.RecordBatch.from_arrays(
        [*batch.columns, pa.array(["r"] * 4).dictionary_encode()], schema=event_schema(["resource"])
    )
    traces = TraceBatch.from_events([batch.slice(0, 2), batch.slice(3, 1)])
    assert {case: [a for a, _ in found] for case, found in read_cases(traces).items()} == {
        "c1": ["A", "B"],
        "c2": ["B"],
    }


# --- properties of a batch ------------------------------------------------------------------------


@settings(deadline=None)
@given(event_logs())
def test_durations_are_those_of_a_loop(log):
    traces = trace_batch(log)
    assert traces.durations.tolist() == list(itertools.chain(*naive_durations(log).values()))
    assert traces.starts.tolist() == [found[0][1] for found in cases_of(log).values()]
    assert traces.lengths.tolist() == [len(found) for found in cases_of(log).values()]


@settings(deadline=None)
@given(event_logs(), st.data())
def test_take_gives_the_cases_at_their_positions(log, data):
    traces = trace_batch(log)
    places = st.lists(st.integers(0, max(0, traces.n_cases - 1)), max_size=8, unique=True)
    chosen = data.draw(places) if traces.n_cases else []
    cases = list(cases_of(log).items())
    taken = traces.take(np.array(chosen, np.int64))
    assert list(read_cases(taken).items()) == [cases[i] for i in chosen]
    assert taken.vocabulary == traces.vocabulary


def test_take_may_repeat_cases():
    taken = trace_batch(EXAMPLE).take(np.array([2, 1, 2]))
    assert taken.case_ids.to_pylist() == ["c3", "c2", "c3"]
    assert taken.activities.tolist() == [2, 0, 1, 2, 0]
    assert taken.offsets.tolist() == [0, 2, 3, 5]


def test_recode_changes_codes_and_nothing_else():
    wide = ActivityVocabulary.of(["A", "AA", "B", "BB", "C"])
    traces = trace_batch(EXAMPLE)
    recoded = traces.recode(wide)
    assert recoded.activities.tolist() == [0, 2, 4, 0, 2, 4, 0]
    assert recoded.vocabulary == wide and traces.activities.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert read_cases(recoded) == read_cases(traces)
    assert read_cases(recoded.recode(traces.vocabulary.merge([traces.vocabulary, wide]))) == (
        read_cases(traces)
    )


def test_recode_refuses_a_vocabulary_that_lacks_an_activity():
    with pytest.raises(ValueError, match="an activity is not in the vocabulary") as caught:
        trace_batch({"c": "A canary"}).recode(ActivityVocabulary.of("A"))
    assert "canary" not in str(caught.value)


def test_recode_to_a_public_vocabulary_loses_no_event():
    traces = trace_batch({"c1": "A@0 canary@5 C@7", "c2": "canary@3 B@3"})
    public = ActivityVocabulary.public(["C", "A", "Z"])
    assert read_cases(traces.recode_public(public)) == {
        "c1": steps("A@0 __other__@5 C@7"),
        "c2": steps("__other__@3 __other__@3"),
    }
    assert read_cases(TraceBatch.from_events([]).recode_public(public)) == {}


@settings(deadline=None)
@given(event_logs(), st.integers(1, 6))
def test_truncate_cuts_off_the_end_of_each_case(log, length):
    expected = {case: found[:length] for case, found in cases_of(log).items()}
    assert read_cases(trace_batch(log).truncate(length)) == expected


def test_recode_of_no_cases():
    empty = TraceBatch.from_events([]).recode(ActivityVocabulary.of("AB"))
    assert read_cases(empty) == {} and len(empty.vocabulary) == 2


@settings(deadline=None)
@given(st.lists(event_logs(max_events=8), min_size=1, max_size=4))
def test_concat_puts_cases_one_after_the_other(logs):
    logs = [[(f"{i}-{case}", *rest) for case, *rest in log] for i, log in enumerate(logs)]
    joined = TraceBatch.concat([trace_batch(log, "ABC") for log in logs])
    expected = list(itertools.chain(*(cases_of(log).items() for log in logs)))
    assert list(read_cases(joined).items()) == expected


@pytest.mark.parametrize("batches", [[], [trace_batch({"c": "A"}), trace_batch({"d": "B"})]])
def test_concat_needs_batches_of_one_vocabulary(batches):
    with pytest.raises(ValueError, match="at least one batch, and batches of one vocabulary"):
        TraceBatch.concat(batches)


def test_rows_are_the_events_as_text():
    rows = trace_batch(EXAMPLE, names=["A", "B", "C", "canary"]).to_rows()
    assert rows.schema.equals(RELEASED_SCHEMA)
    rows.validate(full=True)
    found = [tuple(row.values()) for row in rows.to_pylist()]
    assert found == [
        (case, activity, datetime.fromtimestamp(time / 1e6, UTC))
        for case, activity, time in events_of(EXAMPLE)
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    assert b"canary" not in sink.getvalue().to_pybytes()  # a name that no row has


# --- shards ---------------------------------------------------------------------------------------


def rows_of(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in batch.to_pylist()]


@settings(deadline=None)
@given(event_logs(n_cases=12), st.sampled_from([1, 2, 3, 7, 64, 65_536]))
def test_shards_are_a_partition_of_the_events_by_case(log, n_shards):
    batch = event_batch(log)
    parts = list(split_by_shard(batch, n_shards))
    numbers = [shard for shard, _ in parts]
    assert numbers == sorted(set(numbers))
    for shard, part in parts:
        part.validate(full=True)
        assert part.schema.equals(batch.schema) and part.num_rows
        ids = part.column("case_id")
        assert set((hash_text(ids.dictionary) % np.uint64(n_shards)).tolist()) == {shard}
        # Just the shard's own ids, each of which some row has.
        assert sorted(ids.dictionary.to_pylist()) == sorted(set(ids.to_pylist()))
        # In their order: the event index was ascending.
        assert part.column("event_index").to_pylist() == sorted(
            part.column("event_index").to_pylist()
        )
    together = itertools.chain(*(rows_of(part) for _, part in parts))
    assert sorted(together, key=lambda row: row[3]) == rows_of(batch)


def test_a_case_goes_to_the_same_shard_from_every_batch():
    one = dict(split_by_shard(event_batch([("b", "A", 0), ("a", "A", 0)]), 16))
    two = dict(split_by_shard(event_batch([("a", "B", 1), ("c", "B", 1)]).slice(0, 1), 16))
    (shard,) = [s for s, part in one.items() if "a" in part.column("case_id").to_pylist()]
    assert "a" in two[shard].column("case_id").to_pylist()


def test_further_columns_go_along_with_their_events():
    batch = event_batch({f"c{i}": "A B" for i in range(20)})
    resources = [f"r{i}" for i in range(40)]
    batch = pa.RecordBatch.from_arrays(
        [*batch.columns, pa.array(resources).dictionary_encode()], schema=event_schema(["resource"])
    )
    found = itertools.chain(*(rows_of(part) for _, part in split_by_shard(batch, 4)))
    assert {(row[3], row[4]) for row in found} == set(enumerate(resources))


def test_no_events_are_in_no_shard():
    assert list(split_by_shard(event_batch([]), 4)) == []


def sharded(batches: Sequence[pa.RecordBatch], n_shards: int) -> dict[str, object]:
    """The cases that come out of all shards, and the shape of each."""
    shards: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        for shard, part in split_by_shard(batch, n_shards):
            shards.setdefault(shard, []).append(part)
    cases: dict[str, object] = {}
    for parts in shards.values():
        found = read_cases(TraceBatch.from_events(parts))
        assert not cases.keys() & found.keys()
        cases.update(found)
    return cases


@settings(deadline=None)
@given(
    event_logs(n_cases=12),
    st.sampled_from([1, 2, 5, 64]),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_cases_do_not_depend_on_shards_batches_or_their_order(log, n_shards, n_batches, random):
    batches = event_batches(log, n_batches)
    random.shuffle(batches)
    assert sharded(batches, n_shards) == cases_of(log)


def test_splitting_and_sorting_leave_their_input_alone():
    events: list[Event] = [("b", "B", 2), ("a", "A", 1), ("b", "A", 0)]
    batch = event_batch(events)
    before = batch.to_pylist()
    dict(split_by_shard(batch, 3))
    traces = TraceBatch.from_events([batch])
    kept = plain(traces)
    traces.take(np.array([1]))
    traces.recode(ActivityVocabulary.of("ABC"))
    assert traces.durations is traces.durations
    assert batch.to_pylist() == before and plain(traces) == kept


# --- individuals ----------------------------------------------------------------------------------


def of_individuals(log: list[Event], whose: list[str]) -> dict[tuple[str, str], object]:
    """Steps by individual and case, one individual's own log after the other."""
    return {
        (individual, case): found
        for individual in dict.fromkeys(whose)
        for case, found in cases_of(
            [event for event, who in zip(log, whose, strict=True) if who == individual]
        ).items()
    }


def test_a_case_that_names_two_individuals_is_one_of_each():
    log = [("c", "A", 1), ("d", "B", 2), ("c", "C", 3), ("c", "D", 4)]
    batch = event_batch(log, individuals=["i", "i", "j", "i"])
    traces = TraceBatch.from_events([batch], by_individual=True)
    assert read_cases_of_individuals(traces) == {
        ("i", "c"): [("A", 1), ("D", 4)],
        ("i", "d"): [("B", 2)],
        ("j", "c"): [("C", 3)],
    }
    # Who does not ask for individuals gets cases, as ever.
    plain_cases = TraceBatch.from_events([batch])
    assert plain_cases.individuals is None
    assert read_cases(plain_cases) == cases_of(log)
    assert plain(plain_cases) == plain(TraceBatch.from_events([event_batch(log)]))


@settings(deadline=None)
@given(
    event_logs(n_cases=6),
    st.sampled_from([1, 2, 5, 64]),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_individuals_do_not_depend_on_shards_batches_or_their_order(
    log, n_shards, n_batches, random
):
    whose = [random.choice("ijk") for _ in log]
    events = list(enumerate(zip(log, whose, strict=True)))
    batches = [
        event_batch([e for _, (e, _) in hand], [n for n, _ in hand], [w for _, (_, w) in hand])
        for hand in (events[k::n_batches] for k in range(n_batches))
    ]
    random.shuffle(batches)
    shards: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        for shard, part in split_by_shard(batch, n_shards, INDIVIDUAL_ID):
            part.validate(full=True)
            assert part.schema.equals(batch.schema)
            for name in (INDIVIDUAL_ID, "case_id"):  # just the shard's own
                column = part.column(name)
                assert sorted(column.dictionary.to_pylist()) == sorted(set(column.to_pylist()))
            shards.setdefault(shard, []).append(part)
    found: dict[object, object] = {}
    seen: set[str] = set()
    for parts in shards.values():
        traces = TraceBatch.from_events(parts, by_individual=True)
        assert not seen & set(traces.individuals.to_pylist())  # whole individuals
        seen |= set(traces.individuals.to_pylist())
        found.update(read_cases_of_individuals(traces))
    assert found == of_individuals(log, whose)


def test_individuals_go_along_with_their_cases():
    whose = {"c1": "i", "c2": "j", "c3": "i"}
    traces = trace_batch(EXAMPLE, individuals=whose)
    assert traces.take(np.array([2, 1])).individuals.to_pylist() == ["i", "j"]
    wide = traces.vocabulary.merge([traces.vocabulary, ActivityVocabulary.of(["0"])])
    for same in (traces.recode(wide), traces.truncate(1), decode(encode(traces))):
        assert same.individuals.to_pylist() == ["i", "j", "i"]
    assert plain(decode(encode(traces))) == plain(traces)
    assert decode(encode(trace_batch(EXAMPLE))).individuals is None
    joined = TraceBatch.concat([traces, traces.take(np.array([1]))])
    assert joined.individuals.to_pylist() == ["i", "j", "i", "j"]
    with pytest.raises(ValueError, match="all have individuals, or none"):
        TraceBatch.concat([traces, trace_batch(EXAMPLE)])


def test_no_events_are_cases_of_no_individual():
    traces = TraceBatch.from_events([], by_individual=True)
    assert read_cases_of_individuals(traces) == {}
    assert list(split_by_shard(event_batch([]), 4, INDIVIDUAL_ID)) == []


def missing_values() -> dict[str, pa.RecordBatch]:
    """An event without individual, in every way to write one."""
    batch = event_batch([("canary", "A", 1), ("c", "B", 2)], individuals=["i", None])
    in_dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), ["i", None])
    return {
        "a null index": batch,
        "a null in the dictionary": batch.set_column(4, batch.schema.field(4), in_dictionary),
        "no column": event_batch([("canary", "A", 1)]),
    }


@pytest.mark.parametrize("batch", missing_values().values(), ids=missing_values())
def test_events_without_individual_are_not_lost_silently(batch):
    for use in (
        lambda: list(split_by_shard(batch, 2, INDIVIDUAL_ID)),
        lambda: TraceBatch.from_events([batch], by_individual=True),
        lambda: carried_columns(batch, by_individual=True),
    ):
        with pytest.raises(
            InputSchemaError,
            match="column 'individual_id'; map a column that every event has, or drop the events",
        ) as caught:
            use()
        assert "canary" not in str(caught.value)
    assert TraceBatch.from_events([batch]).n_events == batch.num_rows

"""Whole cases from events in any order, and what can be done with them."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import (
    Event,
    cases_of,
    event_batch,
    event_logs,
    naive_durations,
    plain,
    read_cases,
    read_cases_of_individuals,
    trace_batch,
)
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import ActivityVocabulary, event_schema
from tracecloak.schemas.events.traces import (
    INDIVIDUAL_ID,
    TraceBatch,
    carried_columns,
    split_by_shard,
)

EXAMPLE = {"c1": "A@0 B@5 C@5 A@7", "c2": "B@3", "c3": "C@1 A@9"}


# --- from events ----------------------------------------------------------------------------------


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


@pytest.mark.parametrize("batches", [[], [trace_batch({"c": "A"}), trace_batch({"d": "B"})]])
def test_concat_needs_batches_of_one_vocabulary(batches):
    with pytest.raises(ValueError, match="at least one batch, and batches of one"):
        TraceBatch.concat(batches)


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


def of_individuals(log: list[Event], whose: list[str]) -> dict[tuple[str, str], object]:
    """Steps by individual and case, one individual's own log after the other."""
    return {
        (individual, case): found
        for individual in dict.fromkeys(whose)
        for case, found in cases_of(
            [event for event, who in zip(log, whose, strict=True) if who == individual]
        ).items()
    }


@pytest.mark.parametrize("by_individual", [False, True])
@settings(deadline=None)
@given(
    event_logs(n_cases=12),
    st.sampled_from([1, 2, 5, 64]),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_cases_do_not_depend_on_shards_batches_or_their_order(
    by_individual, log, n_shards, n_batches, random
):
    whose = [random.choice("ijk") for _ in log]
    events = list(enumerate(zip(log, whose, strict=True)))
    batches = [
        event_batch([e for _, (e, _) in hand], [n for n, _ in hand], [w for _, (_, w) in hand])
        for hand in (events[k::n_batches] for k in range(n_batches))
    ]
    random.shuffle(batches)
    key = INDIVIDUAL_ID if by_individual else "case_id"
    shards: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        for shard, part in split_by_shard(batch, n_shards, key):
            part.validate(full=True)
            assert part.schema.equals(batch.schema)
            for name in {key, "case_id"}:  # just the shard's own
                column = part.column(name)
                assert sorted(column.dictionary.to_pylist()) == sorted(set(column.to_pylist()))
            shards.setdefault(shard, []).append(part)
    found: dict[object, object] = {}
    seen: set[str] = set()
    for parts in shards.values():
        traces = TraceBatch.from_events(parts, by_individual)
        units = set((traces.individuals if by_individual else traces.case_ids).to_pylist())
        assert not seen & units  # whole ones
        seen |= units
        found.update((read_cases_of_individuals if by_individual else read_cases)(traces))
    assert found == (of_individuals(log, whose) if by_individual else cases_of(log))


# --- individuals ----------------------------------------------------------------------------------


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
            match="column 'individual_id'; map a column",
        ) as caught:
            use()
        assert "canary" not in str(caught.value)
    assert TraceBatch.from_events([batch]).n_events == batch.num_rows


@settings(deadline=None)
@given(event_logs())
def test_durations_are_those_of_a_loop(log):
    traces = trace_batch(log)
    assert traces.durations.tolist() == list(itertools.chain(*naive_durations(log).values()))
    assert traces.starts.tolist() == [found[0][1] for found in cases_of(log).values()]
    assert traces.lengths.tolist() == [len(found) for found in cases_of(log).values()]

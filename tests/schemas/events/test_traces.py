"""Events grouped into cases, and the order that they have in one."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

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
from tests.support.record_files import canonical
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import (
    EVENT_INDEX,
    IS_START,
    ORDER,
    RELEASED_SCHEMA,
    START_TIMESTAMP,
    ActivityVocabulary,
    attribute_column,
    event_schema,
    in_order,
)
from tracecloak.schemas.events.traces import (
    INDIVIDUAL_ID,
    TraceBatch,
    carried_columns,
    is_duplicate,
    split_by_shard,
    without_duplicates,
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
        for shard, part in split_by_shard(batch, n_shards, by_individual):
            part.validate(full=True)
            assert part.schema.equals(carried_columns(batch, by_individual).schema)
            index = part.column("event_index").to_pylist()
            assert index == sorted(index)  # in their order
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
        lambda: list(split_by_shard(batch, 2, by_individual=True)),
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


# --- batches that are split so that each is small -------------------------------------------------


@given(event_logs(), st.integers(1, 400))
def test_split_keeps_every_case_once_and_in_order(log: list[Event], max_bytes: int) -> None:
    traces = trace_batch(log)
    pieces = list(traces.split(max_bytes))
    assert plain(TraceBatch.concat(pieces)) == plain(traces)
    assert len(pieces) == 1 or all(piece.n_cases for piece in pieces)
    if max_bytes == 1:
        assert len(pieces) == max(1, traces.n_cases)


@pytest.fixture
def large() -> TraceBatch:
    """600 cases of 200 individuals, each with a text of its own."""
    traces = trace_batch({f"c{i:03}": "A B C" for i in range(600)})
    whose = pa.array([f"p{i // 3:03}" for i in range(600)])
    texts = pa.array([f"{'x' * 50}{i // 3}" for i in range(traces.n_events)]).dictionary_encode()
    return replace(traces, individuals=whose, attributes={"note": texts})


def test_an_individual_is_in_one_batch(large: TraceBatch) -> None:
    pieces = list(large.split(4_000))
    assert len(pieces) > 5
    seen = [set(piece.individuals.to_pylist()) for piece in pieces if piece.individuals]
    assert sum(len(names) for names in seen) == len(set.union(*seen)) == 200


def test_a_small_batch_carries_no_value_of_another(large: TraceBatch) -> None:
    """Catches a slice that sends the dictionary of all, however small it is itself."""
    pieces = list(large.split(4_000))
    assert max(len(encode(piece)) for piece in pieces) < len(encode(large)) / 4
    values = [v for piece in pieces for v in piece.attributes["note"].to_pylist()]
    assert values == large.attributes["note"].to_pylist()
    assert {piece.attributes["note"].type for piece in pieces} == {large.attributes["note"].type}


# --- equal events of a case count once, and no case has a say in another --------------------------


Row = tuple[str, str, int, str | None]

NOTED = st.lists(
    st.tuples(
        st.sampled_from("pqr"), st.sampled_from("AB"), st.integers(0, 2),
        st.sampled_from(["x", "y", None]),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


def noted_batch(rows: list[Row], first: int = 0) -> pa.RecordBatch:
    """Canonical events with one attribute, numbered from a number on."""
    cases, names, times, values = zip(*rows, strict=True)
    schema = event_schema((), ("note",))
    columns = {
        "case_id": pa.array(cases).dictionary_encode(),
        "activity": pa.array(names).dictionary_encode(),
        "timestamp": pa.array(times, pa.int64()),
        "event_index": pa.array(range(first, first + len(rows)), pa.int64()),
        attribute_column("note"): pa.array(values, pa.string()).dictionary_encode(),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def noted(traces: TraceBatch) -> dict[str, list[tuple[int, str, str | None]]]:
    names = traces.vocabulary.names.to_pylist()
    notes = traces.attributes["note"].to_pylist()
    return {
        case: [
            (int(traces.times[i]), names[traces.activities[i]], notes[i])
            for i in range(traces.offsets[n], traces.offsets[n + 1])
        ]
        for n, case in enumerate(traces.case_ids.to_pylist())
    }


def naive(rows: list[Row]) -> dict[str, list[tuple[int, str, str | None]]]:
    cases: dict[str, list[tuple[int, str, str | None]]] = {}
    for case, name, time, note in sorted(rows, key=lambda row: row[2]):
        events = cases.setdefault(case, [])
        if (time, name, note) not in events:
            events.append((time, name, note))
    return cases


@given(NOTED)
def test_the_first_of_equal_events_stays(rows: list[Row]) -> None:
    traces = TraceBatch.from_events([noted_batch(rows)])
    assert noted(without_duplicates(traces)) == naive(rows)
    assert is_duplicate(traces).sum() == traces.n_events - sum(map(len, naive(rows).values()))


@given(NOTED, st.integers(0, 12), st.integers(1, 4))
def test_borders_of_batches_and_shards_do_not_matter(
    rows: list[Row], cut: int, n_shards: int
) -> None:
    """Catches duplicates that stay as they came in two files, or that fall out with a shard."""
    parts = [noted_batch(p, first) for p, first in ((rows[:cut], 0), (rows[cut:], cut)) if p]
    merged = {}
    for traces in group_into_traces(parts, n_shards, drops_duplicates=True):
        merged |= noted(traces)
    assert merged == naive(rows)


@given(NOTED)
def test_no_case_has_a_say_in_another(rows: list[Row]) -> None:
    """Catches a sensitivity that grows: without a case, all others are what they were."""
    whole = noted(without_duplicates(TraceBatch.from_events([noted_batch(rows)])))
    for case in whole:
        others = [row for row in rows if row[0] != case]
        if others:
            fewer = noted(without_duplicates(TraceBatch.from_events([noted_batch(others)])))
            assert fewer == {name: events for name, events in whole.items() if name != case}


@pytest.mark.parametrize("closed", [False, True])
def test_an_activity_is_read_by_its_new_name(closed: bool) -> None:
    """Catches a chain of renames, a filter that sees new names, and a reject of an old one."""
    mapping = ColumnMapping(
        activities=("A", "B", "C") if closed else None, renames=(("a", "B"), ("B", "C"))
    )
    columns = {"case_id": ["p"] * 4, "activity": ["a", "B", "A", None]}
    events, rejects = canonical({**columns, "timestamp": ["2026-01-01"] * 4}, mapping)
    assert events.column("activity").to_pylist() == ["B", "C", "A"]
    assert rejects.column("record").to_pylist() == [3]


def test_rows_are_the_events_of_one_case_after_the_other() -> None:
    rows = trace_batch([("d", "B", 2), ("c", "B", 3), ("c", "A", 1)]).to_rows()
    assert rows.schema.equals(RELEASED_SCHEMA)
    columns = [rows.column(i).to_pylist() for i in range(2)]
    assert columns == [["d", "c", "c"], ["B", "A", "B"]]
    assert rows.column(2).cast("int64").to_pylist() == [2, 1, 3]


# --- The order of events --------------------------------------------------------------------------


OrderedRow = tuple[str, str, int, str | None, int | None]
SCHEMA = event_schema(["resource"], [START_TIMESTAMP])
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["c1", "c2", "ß"]),
        st.sampled_from(["A", "B", "a", "Ä"]),
        st.integers(0, 1),
        st.sampled_from([None, "r", "s"]),
        st.sampled_from([None, -5, 0, IS_START]),
    ),
    max_size=20,
)


def batch_of(rows: list[OrderedRow], spare: list[str] | None = None) -> pa.RecordBatch:
    """Canonical events whose dictionaries begin with names that no row has."""

    def coded(values: list[Any]) -> pa.DictionaryArray:
        names = [*(spare or ()), *dict.fromkeys(v for v in values if v is not None)]
        codes = [None if v is None else names.index(v) for v in values]
        return pa.DictionaryArray.from_arrays(
            pa.array(codes, pa.int32()), pa.array(names, "string")
        )

    columns = list(zip(*rows, strict=True)) or [[]] * 5
    return pa.RecordBatch.from_arrays(
        [
            coded(list(columns[0])),
            coded(list(columns[1])),
            pa.array(columns[2], pa.int64()),
            pa.array([7] * len(rows), pa.int64()),
            coded(list(columns[3])),
            pa.array(columns[4], pa.int64()),
        ],
        schema=SCHEMA,
    )


def by_hand(row: OrderedRow) -> tuple[Any, ...]:
    """What to sort a row by: records of starts come first, and nothing before something."""
    case, activity, time, resource, start = row
    begun = (start != IS_START, start is not None, start or 0)
    return case, time, activity, begun, (resource is not None, resource or "")


@settings(max_examples=100)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_is_that_of_python_and_no_delivery_changes_it(
    rows: list[OrderedRow], chance: random.Random
) -> None:
    whole = in_order(batch_of(rows))
    told = [
        tuple(row[name] for name in SCHEMA.names if name != EVENT_INDEX)
        for row in whole.to_pylist()
    ]
    assert told == [(c, a, t, r, s) for c, a, t, r, s in sorted(rows, key=by_hand)]
    assert whole.column(EVENT_INDEX).to_pylist() == list(range(len(rows)))

    again = in_order(batch_of(chance.sample(rows, len(rows)), ["nobody", "B", "r"]))
    assert again.equals(whole)  # with its dictionaries, which have no name that no row has


def test_a_start_finds_the_completion_of_the_same_moment() -> None:
    rows: list[OrderedRow] = [("c", "A", 9, None, None), ("c", "A", 9, None, IS_START)]
    traces = TraceBatch.from_events([batch_of(rows)])
    assert (traces.n_events, traces.attributes[START_TIMESTAMP].to_pylist()) == (1, [9])


# --- the order column ----------------------------------------------------------------------


def ordered_batch(orders: list[str | None], index: list[int] | None = None) -> pa.RecordBatch:
    """Events of one case and one time, named by their places in the list."""
    n = len(orders)
    columns = event_batch([("c", f"{i:03}", 0) for i in range(n)], index or [0] * n).columns
    texts = pa.array(orders, pa.string()).dictionary_encode()
    return pa.RecordBatch.from_arrays([*columns, texts], schema=event_schema([ORDER]))


def in_order_of(orders: list[str | None], index: list[int] | None = None) -> list[str | None]:
    traces = TraceBatch.from_events([ordered_batch(orders, index)])
    return [orders[int(traces.vocabulary.labels[code])] for code in traces.activities]


def naive_order(text: str | None) -> tuple[Any, ...]:
    """What to sort an order by, with Python's exact fractions."""
    if text is None:
        return (2,)
    try:
        return (0, Fraction(text.strip() if text.isascii() else "a text"))
    except ValueError:
        return 1, text.encode()


NUMBERS = st.one_of(
    st.integers(-(10**25), 10**25).map(str),
    st.integers(-3, 3).map(str),
    st.decimals(-5, 5, places=2).map(str),
    st.sampled_from(["05", " 5", "5.0", "+5", "5e0", "-0", "1e400", ".5", "5.", "5 "]),
)
TEXTS = st.text("aß5é-./:\U0001f600\uff15", min_size=1, max_size=4).filter(lambda t: "/" not in t)
ORDERS = st.lists(st.one_of(st.none(), NUMBERS, TEXTS), min_size=1, max_size=12)


@settings(max_examples=200)
@given(ORDERS, st.data())
def test_an_order_is_read_value_by_value(orders: list[str | None], data: st.DataObject) -> None:
    """Catches a number that is compared as a text or as a float, and a value that moves others."""
    index = data.draw(st.permutations(range(len(orders))))
    expected = sorted(range(len(orders)), key=lambda i: (naive_order(orders[i]), index[i]))
    traces = TraceBatch.from_events([ordered_batch(orders, index)])
    assert [int(traces.vocabulary.labels[code]) for code in traces.activities] == expected
    # Without one of them the others are in the same order.
    gone = data.draw(st.integers(0, len(orders) - 1))
    kept = [i for i in range(len(orders)) if i != gone]
    if kept:
        fewer = TraceBatch.from_events([ordered_batch([orders[i] for i in kept],
                                                      [index[i] for i in kept])])  # fmt: skip
        left = [kept[int(fewer.vocabulary.labels[code])] for code in fewer.activities]
        assert left == [i for i in expected if i != gone]


def test_a_number_beyond_all_decimals_is_a_text() -> None:
    assert in_order_of(["1e999999999999999999999", "3"]) == ["3", "1e999999999999999999999"]


def test_just_some_events_with_an_order_are_refused() -> None:
    with pytest.raises(InputSchemaError, match="all or none an order"):
        TraceBatch.from_events([ordered_batch(["1"]), event_batch([("c", "A", 0)])])

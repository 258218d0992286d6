"""Events without numbers: ordered by what they say, however they are delivered."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import event_batch, event_logs, events_of
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.content_order import in_content_order
from tracecloak.schemas.events.events import (
    EVENT_INDEX,
    EVENT_SCHEMA,
    IS_START,
    START_TIMESTAMP,
    attribute_column,
    event_schema,
)
from tracecloak.schemas.events.traces import TraceBatch

Row = tuple[str, str, int, str | None, int | None]
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


def batch_of(rows: list[Row], spare: list[str] | None = None) -> pa.RecordBatch:
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


def by_hand(row: Row) -> tuple[Any, ...]:
    """What to sort a row by: records of starts come first, and nothing before something."""
    case, activity, time, resource, start = row
    begun = (start != IS_START, start is not None, start or 0)
    return case, time, activity, begun, (resource is not None, resource or "")


def test_events_with_equal_stamps_are_in_the_order_of_their_content() -> None:
    events = event_batch([("c2", "B", 5), ("c1", "B", 5), ("c2", "A", 5), ("c2", "Z", 1)])
    ordered = in_content_order([events])
    assert ordered.to_pylist() == [
        {"case_id": case, "activity": activity, "timestamp": time, "event_index": i}
        for i, (case, activity, time) in enumerate(
            [("c1", "B", 5), ("c2", "Z", 1), ("c2", "A", 5), ("c2", "B", 5)]
        )
    ]


@settings(max_examples=100)
@given(ROWS, st.randoms(use_true_random=False), st.integers(1, 4))
def test_the_order_is_that_of_python_and_no_delivery_changes_it(
    rows: list[Row], chance: random.Random, n_batches: int
) -> None:
    whole = in_content_order([batch_of(rows)])
    told = [
        tuple(row[name] for name in SCHEMA.names if name != EVENT_INDEX)
        for row in whole.to_pylist()
    ]
    assert told == [(c, a, t, r, s) for c, a, t, r, s in sorted(rows, key=by_hand)]
    assert whole.column(EVENT_INDEX).to_pylist() == list(range(len(rows)))

    shuffled = chance.sample(rows, len(rows))
    hands = [shuffled[k::n_batches] for k in range(n_batches)]
    again = in_content_order(
        [batch_of(hand, ["nobody", "B", "r"][:k]) for k, hand in enumerate(hands)]
    )
    assert again.equals(whole)  # with its dictionaries, which have no name that no row has


@settings(max_examples=50)
@given(event_logs(max_events=15), st.randoms(use_true_random=False))
def test_traces_of_shuffled_events_are_the_same(log: Any, chance: random.Random) -> None:
    events = events_of(log)
    traces = [
        TraceBatch.from_events([in_content_order([event_batch(rows)])]).to_rows()
        for rows in (events, chance.sample(events, len(events)))
    ]
    assert traces[0].equals(traces[1])


def test_numbers_come_first_where_they_are_kept() -> None:
    events = [("c", "B", 0), ("c", "A", 0), ("c", "C", 0)]
    ordered = in_content_order([event_batch(events, [0, 3, 0])], keeps_numbers=True)
    assert [row["activity"] for row in ordered.to_pylist()] == ["B", "C", "A"]
    assert ordered.column(EVENT_INDEX).to_pylist() == [0, 1, 2]


def test_a_start_finds_the_completion_of_the_same_moment() -> None:
    rows: list[Row] = [("c", "A", 9, None, None), ("c", "A", 9, None, IS_START)]
    traces = TraceBatch.from_events([in_content_order([batch_of(rows)])])
    assert (traces.n_events, traces.attributes[START_TIMESTAMP].to_pylist()) == (1, [9])


def test_columns_may_come_in_any_order_and_must_be_the_same() -> None:
    events = event_batch([("c", "B", 0), ("c", "A", 0)])
    turned = events.select(EVENT_SCHEMA.names[::-1])
    assert in_content_order([events, turned]).num_rows == 4
    more = event_batch([("c", "A", 0)], individuals=["i"])
    with pytest.raises(InputSchemaError, match="same columns"):
        in_content_order([events, more])


def test_no_events_are_no_events() -> None:
    assert in_content_order([]).schema == EVENT_SCHEMA
    assert in_content_order([event_batch([])]).num_rows == 0
    assert in_content_order([batch_of([])]).schema.names[-1] == attribute_column(START_TIMESTAMP)

"""Events of a case: by time, order column, place and content, however they are delivered."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import event_batch
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import (
    EVENT_INDEX,
    IS_START,
    ORDER,
    START_TIMESTAMP,
    event_schema,
    in_order,
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


@settings(max_examples=100)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_is_that_of_python_and_no_delivery_changes_it(
    rows: list[Row], chance: random.Random
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
    rows: list[Row] = [("c", "A", 9, None, None), ("c", "A", 9, None, IS_START)]
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


def naive(text: str | None) -> tuple[Any, ...]:
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
    expected = sorted(range(len(orders)), key=lambda i: (naive(orders[i]), index[i]))
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

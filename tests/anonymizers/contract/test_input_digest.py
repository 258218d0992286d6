"""The digest of a log: on what it depends, on what it does not, and how pieces add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import release_key
from tests.support.paper_log import canonical_events, table_1, traces_of
from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.events.traces import TraceBatch

Row = tuple[str, str, int]
BASE: list[Row] = [
    ("1", "A", 10),
    ("1", "B", 20),
    ("1", "C", 20),
    ("2", "A", 10),
    ("2", "B", 30),
]

rows = st.lists(
    st.tuples(st.sampled_from(["1", "2", "3", ""]), st.text(max_size=3), st.integers(-50, 50)),
    max_size=12,
)


def digest(batches: list[TraceBatch], number: int = 0) -> str:
    key = release_key(number)
    return InputDigest.merge([InputDigest.from_traces(batch, key) for batch in batches]).hex


def of_rows(log: list[Row], number: int = 0) -> str:
    return digest(traces_of(log), number)


CHANGED: dict[str, list[Row]] = {
    "another case id": [("9", *row[1:]) if row[0] == "2" else row for row in BASE],
    "another activity": [*BASE[:4], ("2", "C", 30)],
    "another time": [*BASE[:4], ("2", "B", 31)],
    "another order of a tie": [BASE[0], BASE[2], BASE[1], *BASE[3:]],
    "activities of two events of a case swapped": [
        ("1", "B", 10),
        ("1", "A", 20),
        *BASE[2:],
    ],
    "activities of two cases swapped": [
        ("1", "A", 10),
        ("1", "B", 20),
        ("1", "B", 20),
        ("2", "A", 10),
        ("2", "C", 30),
    ],
    "times of two events swapped over cases": [
        ("1", "A", 10),
        ("1", "B", 20),
        ("1", "C", 30),
        ("2", "A", 10),
        ("2", "B", 20),
    ],
    "cases swapped": [({"1": "2", "2": "1"}[row[0]], *row[1:]) for row in BASE],
    "an event less": BASE[:-1],
    "a case less": BASE[:3],
    "an event twice": [*BASE, BASE[-1]],
    "a case split in two": [*BASE[:2], ("3", "C", 20), *BASE[3:]],
    "two cases joined": [("1", *row[1:]) for row in BASE],
    "nothing": [],
}


@pytest.mark.parametrize("change", CHANGED)
def test_every_change_of_the_log_changes_the_digest(change: str) -> None:
    assert of_rows(CHANGED[change]) != of_rows(BASE)


@given(rows, st.randoms(use_true_random=False), st.integers(1, 7))
def test_batches_shards_and_their_order_do_not_matter(
    log: list[Row], order: Any, n_shards: int
) -> None:
    batch = canonical_events(log)
    places = list(range(len(log)))
    order.shuffle(places)
    mixed = batch.take(
        pa.array(places, pa.int64())
    )  # with their event numbers, so ties keep their order
    cut = order.randint(0, len(log))
    shards = group_into_traces([mixed.slice(cut), mixed.slice(0, cut)], n_shards)
    order.shuffle(shards)
    assert digest(shards) == of_rows(log)


def pieces() -> list[InputDigest]:
    [traces] = table_1()
    return [InputDigest.from_traces(traces.take(np.array([i])), release_key()) for i in range(6)]


def test_the_digest_of_one_log_does_not_tell_that_of_its_events() -> None:
    """Keyed: the difference that one event makes is another under another key."""
    differences = set()
    for number in range(8):
        key = release_key(number)
        [all_rows], [fewer] = traces_of(BASE), traces_of(BASE[:-1])
        lanes = InputDigest.from_traces(all_rows, key).lanes
        difference = lanes - InputDigest.from_traces(fewer, key).lanes
        differences.add(tuple(difference.tolist()))
    assert len(differences) == 8


def of_attributes(**attributes: list[str | None]) -> str:
    [traces] = traces_of(BASE)
    arrays = {
        name: pa.array(values, pa.string()).dictionary_encode()
        for name, values in attributes.items()
    }
    return digest([replace(traces, attributes=arrays)])


def test_every_value_of_an_attribute_is_digested_with_its_event_and_its_name() -> None:
    """Catches noise that stays the same when nothing but an attribute has changed."""
    values = ["x", "y", None, "x", ""]
    found = [
        of_rows(BASE),
        of_attributes(one=values),
        of_attributes(two=values),
        of_attributes(one=values, two=values),
        of_attributes(one=["y", "x", None, "x", ""]),
        of_attributes(one=["x", None, "y", "x", ""]),
        of_attributes(one=["x", "y", "", "x", ""]),
        of_attributes(one=["x", "y", "", "x", None]),
    ]
    assert len(set(found)) == len(found)
    assert of_attributes(one=values, two=["z"] * 5) == of_attributes(two=["z"] * 5, one=values)

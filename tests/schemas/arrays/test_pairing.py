"""Starts and completions paired first in, first out: by hand, and against queues."""

from __future__ import annotations

from collections import deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.arrays.pairing import pairs_of_records


def pairs(text: str) -> list[tuple[int, int]]:
    """Records as `a+ a-`: group a has a start and a completion."""
    tokens = text.split()
    groups = np.array([ord(token[0]) for token in tokens], np.int64)
    starts, ends = pairs_of_records(groups, np.array([t[1] == "+" for t in tokens], bool))
    return sorted(zip(starts.tolist(), ends.tolist(), strict=True))


def test_by_hand():
    assert pairs("") == []
    assert pairs("a+ a-") == [(0, 1)]
    assert pairs("a+ a+ a- a-") == [(0, 2), (1, 3)]  # first in, first out
    assert pairs("a- a+ a-") == [(1, 2)]  # nothing began the first
    assert pairs("a+ a- a+") == [(0, 1)]  # nothing ends the last
    assert pairs("a+ b+ a- b-") == [(0, 2), (1, 3)]  # side by side
    assert pairs("a- a- a- b+ a+ a- b-") == [(3, 6), (4, 5)]


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_pairs_are_those_of_queues(records):
    queues: dict[int, deque[int]] = {}
    expected = []
    for place, (group, is_start) in enumerate(records):
        queue = queues.setdefault(group, deque())
        if is_start:
            queue.append(place)
        elif queue:
            expected.append((queue.popleft(), place))
    groups = np.array([group for group, _ in records], np.int64)
    starts, ends = pairs_of_records(groups, np.array([s for _, s in records], bool))
    assert sorted(zip(starts.tolist(), ends.tolist(), strict=True)) == sorted(expected)

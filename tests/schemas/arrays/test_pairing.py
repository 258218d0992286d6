"""Starts and completions paired first in, first out: by hand, and against queues."""

from __future__ import annotations

from collections import deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.events.tally import pairs_of_records


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

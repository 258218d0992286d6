"""Cases ranked by keyed identities."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.arrays.sequences import CaseRanks

word = st.one_of(st.integers(0, 2), st.sampled_from([256, 2**63, 2**64 - 1]))
cases = st.lists(st.tuples(st.integers(-1, 3), word, word), max_size=12)


def ranks_of(rows: list[tuple[int, int, int]]) -> CaseRanks:
    groups = np.array([row[0] for row in rows], np.int64)
    identities = np.array([row[1:] for row in rows], np.uint64).reshape(-1, 2)
    return CaseRanks.of(groups, identities)


@settings(deadline=None)
@given(cases)
def test_ranks_are_sorted_by_group_and_bytes(rows):
    ranks = ranks_of(rows)
    expected = sorted((group, struct.pack("<QQ", *words)) for group, *words in rows)
    found = zip(ranks.groups.tolist(), ranks.cases.to_pylist(), strict=True)
    assert list(found) == expected
    assert ranks.groups.dtype == np.int64

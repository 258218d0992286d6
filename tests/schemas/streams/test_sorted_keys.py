"""Orders that are made in fewer steps are those of `np.lexsort`."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.streams.closed_keys import order_by, order_of_keys


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), max_size=30))
def test_further_columns_decide_only_among_equal_rows(rows: list[tuple[int, ...]]) -> None:
    """With few values, so that all kinds of ties are there, also of all columns."""
    a, b, c, d = np.array(rows, np.int64).reshape(-1, 4).T
    assert order_by((a, b), (c, d)).tolist() == np.lexsort((c, d, a, b)).tolist()
    keys = np.stack([a, b], axis=1).astype(np.uint64)
    assert order_of_keys(keys).tolist() == np.lexsort((b, a)).tolist()

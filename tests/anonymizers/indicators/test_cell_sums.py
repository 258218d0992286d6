"""Sums of the cells of a public list, which add up in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.anonymizers.indicators.summands import CellSums

PIECES = st.integers(0, 4).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(-(2**40), 2**40), min_size=n, max_size=n).map(
            lambda values: CellSums(np.array(values, np.int64))
        ),
        max_size=5,
    )
)


@given(PIECES, st.integers(0, 5))
def test_merging_adds_in_any_grouping(pieces: list[CellSums], at: int) -> None:
    whole = CellSums.merge(pieces)
    assert whole.values.dtype == np.int64
    expected = np.sum([piece.values for piece in pieces], axis=0) if pieces else []
    assert whole.values.tolist() == list(expected)
    parts = [CellSums.merge(pieces[:at]), CellSums.merge(pieces[at:])]
    assert CellSums.merge(parts) == CellSums.merge(pieces[::-1]) == whole


def test_a_log_without_cases_has_sums_of_0() -> None:
    none, some = CellSums.merge([]), CellSums(np.array([3, -4]))
    assert none.weight == 0 and some.weight == 2
    assert none.cells(2).tolist() == [0, 0]
    assert some.cells(2).tolist() == [3, -4]
    assert CellSums.merge([none, some, none]) == some


def test_sums_of_other_cells_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="different cells"):
        CellSums.merge([CellSums(np.zeros(2, np.int64)), CellSums(np.zeros(3, np.int64))])
    assert CellSums(np.zeros(2, np.int64)) != CellSums(np.zeros(3, np.int64))
    assert CellSums(np.zeros(2, np.int64)) != [0, 0]

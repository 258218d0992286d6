"""The distinct ones of many integers against numpy's `unique`, whatever way they are looked up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.arrays import merging
from tracecloak.schemas.arrays.merging import distinct_counts, distinct_places, stable_order

_INT64 = np.iinfo(np.int64)


def _compare(keys: np.ndarray) -> None:
    before = keys.copy()
    for result, expected in (
        (distinct_places(keys), np.unique(keys, return_inverse=True)),
        (distinct_counts(keys), np.unique(keys, return_counts=True)),
    ):
        for column, naive in zip(result, expected, strict=True):
            assert column.dtype == naive.dtype
            assert np.array_equal(column, naive)
    assert np.array_equal(stable_order(keys), np.argsort(keys, kind="stable"))
    assert np.array_equal(keys, before)


@given(
    st.lists(st.one_of(st.integers(-5, 9), st.integers(_INT64.min, _INT64.max)), max_size=40),
    st.integers(0, 62),
)
def test_like_numpy(numbers: list[int], shift: int) -> None:
    """A table, sorting, and what is left to numpy; the smaller, the nearer together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_FEW", 1)
        patch.setattr(merging, "_STRIDE", 2)
        _compare(np.array(numbers, np.int64) >> shift)
        _compare((np.array(numbers, np.int64) >> shift).astype(np.int32))
        _compare(np.array(numbers, np.int64).astype(np.uint64) << np.uint64(shift))

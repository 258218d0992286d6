"""Looking up by first digits against numpy's search."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.arrays import merging
from tracecloak.schemas.arrays.merging import n_at_most

numbers = st.one_of(
    st.floats(0, 5),
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0, np.nextafter(1, 0), 5e-324, 1e-300, 1e300]),
)


@given(st.lists(numbers, max_size=12).map(sorted), st.lists(numbers, max_size=60))
def test_like_numpy(ascending: list[float], queries: list[float]) -> None:
    """Also where numbers are equal to each other and to queries, and where none is above 0."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_FEW_QUERIES", 1)
        among, asked = np.array(ascending), np.array(queries)
        before = among.copy(), asked.copy()
        found = n_at_most(among, asked)
        assert found.dtype == np.int64
        assert found.tolist() == np.searchsorted(among, asked, side="right").tolist()
        assert np.array_equal(before[0], among) and np.array_equal(before[1], asked)

"""Looking up by first digits against numpy's search."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.arrays import guided_search
from tracecloak.schemas.arrays.guided_search import n_at_most

numbers = st.one_of(
    st.floats(0, 5),
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0, np.nextafter(1, 0), 5e-324, 1e-300, 1e300]),
)


@given(st.lists(numbers, max_size=12).map(sorted), st.lists(numbers, max_size=60))
def test_like_numpy(ascending: list[float], queries: list[float]) -> None:
    """Also where numbers are equal to each other and to queries, and where none is above 0."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guided_search, "_FEW", 1)
        among, asked = np.array(ascending), np.array(queries)
        before = among.copy(), asked.copy()
        found = n_at_most(among, asked)
        assert found.dtype == np.int64
        assert found.tolist() == np.searchsorted(among, asked, side="right").tolist()
        assert np.array_equal(before[0], among) and np.array_equal(before[1], asked)


def test_whole_numbers_among_borders_far_apart() -> None:
    rng = np.random.default_rng(4)
    borders = np.rint(np.geomspace(1_000_000, 10**14, 150)).astype(np.int64)
    queries = np.concatenate([rng.integers(0, 10**13, 20_000), borders, borders - 1, [0, 2**62]])
    assert np.array_equal(
        n_at_most(borders, queries), np.searchsorted(borders, queries, side="right")
    )
    far = borders * 2**16 + 1  # not exact as floats
    below = np.tile(far - 1, 200)
    assert np.array_equal(n_at_most(far, below), np.searchsorted(far, below, side="right"))

"""The range of the case starts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.events.timeline import StartRange


@settings(deadline=None)
@given(st.lists(st.integers(MIN_TIME_US, MAX_TIME_US), min_size=1, max_size=9))
def test_the_range_of_some_starts(starts):
    found = StartRange.of(np.array(starts, np.int64))
    assert (found.first_us, found.last_us) == (min(starts), max(starts))
    assert found.width_us == max(starts) - min(starts) and not found.is_empty
    assert type(found.first_us) is type(found.last_us) is int

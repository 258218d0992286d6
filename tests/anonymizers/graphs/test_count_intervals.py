"""Intervals of noisy sums that are shown: how often they hold, and what they allow for.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from tracecloak.anonymizers.graphs.noisy_graph import (
    intervals_of_shown,
    norms_beyond,
)

LAWS = [(False, stats.norm), (True, stats.laplace)]
SCALE = 10.0
LEAST = 25.0


def limits(
    values: np.ndarray, taken: float = 0.0, *, is_laplace: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    of_all = np.full(len(values), SCALE), np.full(len(values), LEAST)
    return intervals_of_shown(values, *of_all, taken, is_laplace=is_laplace)


def test_no_case_moves_the_sum_by_more_than_the_clip_and_one_does() -> None:
    """Every log of up to two cases, and every case that may come to it."""
    squares, units, clip = np.array([2, 3, 9, 16, 25, 10_000]), 8, 24
    moved = set()
    for n in range(3):
        for log in itertools.combinations_with_replacement(range(len(squares)), n):
            cases = np.bincount(log, minlength=len(squares)) if log else np.zeros(6, np.int64)
            before = norms_beyond(squares, cases, clip, units)
            for own in np.eye(len(squares), dtype=np.int64):
                moved.add(norms_beyond(squares, cases + own, clip, units) - before)
    # Norms of 3 and less are not beyond; 4 and 5 are by 8 and 16 steps; 100 counts as the clip.
    assert moved == {0, 8, 16, 24}


@pytest.mark.parametrize(("is_laplace", "law"), LAWS)
@pytest.mark.parametrize("count", [0.0, 5.0, 24.0, 25.0, 40.0, 1000.0])
def test_of_what_is_shown_each_limit_fails_with_a_fortieth_at_most(
    is_laplace: bool, law: stats.rv_continuous, count: float
) -> None:
    """The chances are exact: a limit grows with the value, so it fails beyond or below one."""
    values = np.linspace(LEAST, count + 400, 100_000)
    low, high = limits(values, is_laplace=is_laplace)
    assert (np.diff(low) >= 0).all() and (np.diff(high) >= 0).all()
    noise = law(scale=SCALE)
    shown = noise.sf(LEAST - count)
    too_high = values[low > count]
    if len(too_high):
        # A grid point before the first one that fails may fail, too.
        assert noise.sf(too_high[0] - count) <= 1 / 40 * shown
    too_low = values[high < count]
    if len(too_low):
        assert shown - noise.sf(too_low[-1] - count) <= 1 / 40 * shown


def test_what_clipping_took_raises_upper_limits_alone() -> None:
    values = np.array([300.0, 400.0])
    low, high = limits(values)
    same, higher = limits(values, 50.0)
    assert (same == low).all() and (higher - high).tolist() == [50, 50]


def test_what_is_shown_below_the_threshold_may_be_nothing() -> None:
    """A bin of a pair that is shown, and of which no bin stands out of the noise."""
    low, high = limits(np.array([-30.0, LEAST - 1]), 50.0)
    assert low.tolist() == [0, 0]
    assert high.tolist() == [70, math.ceil(24 + 19.6 + 50)]

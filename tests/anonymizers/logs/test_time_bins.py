"""Times in public bins: the borders, shares by a loop, and where in its bin a time is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.logs import MINUTE
from tracecloak.anonymizers.logs.time_bins import (
    MIN_BINS,
    estimated_shares,
    largest_noise,
    step_borders,
    times_in_bins,
)
from tracecloak.schemas.errors import UsageError

SECOND = MINUTE // 60
DAY = 24 * 60 * MINUTE
BORDERS = step_borders(12)
LONG = 10**17


def test_the_bins_begin_with_zero_and_go_from_a_second_to_ten_years():
    borders = step_borders(16)
    assert borders[0] == 1 and borders[1] == SECOND
    assert borders[-1] == pytest.approx(3652.425 * DAY)
    assert (np.diff(borders) > 0).all() and len(borders) == 15
    ratios = borders[2:] / borders[1:-1]
    assert ratios == pytest.approx(ratios[0])
    assert borders.dtype == np.int64
    assert len(step_borders(MIN_BINS)) == MIN_BINS - 1 == 3
    with pytest.raises(UsageError, match="n_duration_bins must be at least 4, got 3"):
        step_borders(3)


@pytest.mark.parametrize("n_cells", [10, 500, 10**6])
def test_noise_of_many_cells_hardly_exceeds_its_largest(n_cells):
    """Of as many normals fewer than a third are expected above it, and one above 3/4 of it."""
    assert n_cells * stats.norm.sf(largest_noise(n_cells)) < 1 / 3
    assert n_cells * stats.norm.sf(0.75 * largest_noise(n_cells)) > 1 / 3


# --- shares ---------------------------------------------------------------------------------------


def naive_shares(
    row: list[float], deviation: float, shares: list[float], is_large: list[bool]
) -> list[float]:
    """What the docstring of `decide_durations` says, one cell after the other."""
    counted = [
        x for x, share, large in zip(row, shares, is_large, strict=True) if share > 0 or large
    ]
    total = max(sum(counted), 0)
    found = []
    for x, share, large in zip(row, shares, is_large, strict=True):
        m = total * share
        mixed = m + m * m / (m * m + deviation**2) * (x - m) if m > 0 else 0
        found.append(max(x if large else mixed, 0))
    return [x / sum(found) for x in found] if sum(found) > 0 else shares


@st.composite
def noisy_rows(draw: st.DrawFn) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """Rows, the deviation of their noise, the coarser shares and which cells are large."""
    n, k = draw(st.integers(0, 4)), draw(st.integers(1, 6))
    counts = st.integers(-100, 300)
    rows = draw(st.lists(st.lists(counts, min_size=k, max_size=k), min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(0, 5), min_size=k, max_size=k).filter(any))
    deviation = draw(st.sampled_from([1e-6, 0.5, 20, 10**6]))
    found = np.array(rows, np.float64).reshape(n, k)
    return found, deviation, np.array(weights) / sum(weights), found > 4 * deviation


@given(noisy_rows())
def test_shares_are_those_of_a_loop_and_sum_to_1(drawn):
    rows, deviation, shares, is_large = drawn
    found = estimated_shares(rows, deviation, shares, is_large)
    assert found.shape == rows.shape and (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(1)
    assert (found[:, shares == 0] == 0)[~is_large[:, shares == 0]].all()
    for i, row in enumerate(rows.tolist()):
        expected = naive_shares(row, deviation, shares.tolist(), is_large[i].tolist())
        assert found[i] == pytest.approx(expected, abs=1e-9)


def test_little_noise_leaves_a_row_its_own_and_much_leaves_it_the_coarser_shares():
    row, shares = np.array([[30.0, 60, 10, 50]]), np.array([0.5, 0.25, 0.25, 0])
    none = np.zeros((1, 4), bool)
    assert estimated_shares(row, 1e-9, shares, none)[0] == pytest.approx([0.3, 0.6, 0.1, 0])
    assert estimated_shares(row, 1e9, shares, none)[0] == pytest.approx(shares)
    between = estimated_shares(row, 30.0, shares, none)[0]
    assert 0.25 < between[1] < 0.6 and 0.3 < between[0] < 0.5
    # A cell beyond all noise counts though the coarser level takes it for empty.
    large = np.array([[False, False, False, True]])
    assert estimated_shares(row, 1e-9, shares, large)[0] == pytest.approx(row[0] / 150)
    # A row whose sum is below 0 says nothing.
    assert estimated_shares(-row, 1.0, shares, none)[0].tolist() == shares.tolist()
    below = np.array([[-100.0, 60, 0, 0]])
    assert estimated_shares(below, 20.0, shares, none)[0].tolist() == shares.tolist()


# --- draws ----------------------------------------------------------------------------------------

bins = st.integers(0, len(BORDERS))
chances = st.floats(0, 1, exclude_max=True)


def drawn_in(bin_: int, chance: float, longest_us: int = LONG) -> int:
    found = times_in_bins(np.array([bin_]), BORDERS, longest_us, np.array([chance]))
    assert found.dtype == np.int64 and found.shape == (1,)
    return int(found[0])


@given(bins, chances, st.integers(1, LONG))
def test_a_time_is_in_its_bin_and_no_longer_than_the_longest(bin_, chance, longest):
    time = drawn_in(bin_, chance)
    assert np.searchsorted(BORDERS, time, side="right") == bin_
    assert time < 2 * BORDERS[-1]
    low = 0 if bin_ == 0 else int(BORDERS[bin_ - 1])
    assert drawn_in(bin_, 0.0) == low
    if low <= longest:
        within = drawn_in(bin_, chance, longest)
        assert low <= within <= longest
        assert np.searchsorted(BORDERS, within, side="right") == bin_


def test_times_of_bin_0_are_0_and_the_ends_of_the_others_are_reached():
    assert drawn_in(0, 0.999) == 0
    last = np.nextafter(1, 0)
    for bin_ in range(1, len(BORDERS)):
        assert drawn_in(bin_, last) >= (BORDERS[bin_] - 1) * (1 - 1e-9)
    assert drawn_in(len(BORDERS), last) >= 2 * BORDERS[-1] * (1 - 1e-9)
    assert drawn_in(5, last, int(BORDERS[4]) + 7) == BORDERS[4] + 7
    assert drawn_in(5, last, int(BORDERS[4])) == BORDERS[4]


@pytest.mark.parametrize("longest", [LONG, 3 * int(BORDERS[6]) // 2])
def test_times_are_even_in_their_logarithm(longest):
    """Even chances give every tenth of the bin as many; evenly spread times, the control, do not.

    With the longest time in the bin its tenths are those up to there.
    """
    n, bin_ = 10_000, 7
    chance = (np.arange(n) + 0.5) / n
    times = times_in_bins(np.full(n, bin_), BORDERS, longest, chance)
    assert (np.diff(times) >= 0).all()
    low, high = BORDERS[bin_ - 1], min(int(BORDERS[bin_]), longest + 1)
    place = np.log(times / low) / math.log(high / low)
    tenths = np.histogram(place, np.linspace(0, 1, 11))[0]
    assert np.abs(tenths - n / 10).max() <= 2
    even = np.histogram(np.log1p(chance * (high / low - 1)) / math.log(high / low), 10, (0, 1))[0]
    assert np.abs(even - n / 10).max() > 100


def test_nothing_is_drawn_of_nothing():
    none = np.zeros(0, np.int64)
    assert times_in_bins(none, BORDERS, LONG, none.astype(float)).tolist() == []

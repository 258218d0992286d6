"""Quantiles that are chosen or read from running sums, and whether their intervals hold them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.silence import Silence
from tracecloak.anonymizers.indicators.quantiles import (
    choose_points,
    interval_of_point,
    n_windows,
    quantiles_of_running,
    rank_half_width,
    value_at,
    windows,
)
from tracecloak.anonymizers.indicators.summands import RANGE
from tracecloak.anonymizers.indicators.terms import coarse_grid, grid
from tracecloak.anonymizers.rigorous.clip_by_rank import RANK_UNITS, measured_ranks

SHARES = (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
LAST = len(grid()) - 1


def bins_of(places: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.bincount(np.searchsorted(points, places), minlength=len(points))


def sample(kind: str, n: int, number: int = 0) -> np.ndarray:
    """Lattice places of some cases; the same for the same number."""
    rng = np.random.default_rng(number)
    values = {
        "uniform": lambda: rng.uniform(0, 1, n),
        "long tail": lambda: np.clip(rng.lognormal(-4, 1, n), 0, 1),
        "two humps": lambda: np.where(rng.random(n) < 0.6, rng.normal(0.1, 0.02, n), 0.5),
        "short times": lambda: rng.exponential(0.002, n),
        "steep": lambda: rng.normal(0.3, 0.01, n),
    }[kind]()
    if kind == "two humps":
        values = np.where(values == 0.5, rng.normal(0.5, 0.05, n), values)
    return np.rint(np.clip(values, 0, 1) * RANGE).astype(np.int64)


# --- choices --------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), max_size=3))
def test_without_noise_the_quantile_is_the_first_bin_that_so_many_reach(
    rows: list[list[int]],
) -> None:
    bins = np.array(rows, np.int64).reshape(len(rows), 6)
    points = choose_points(
        bins, SHARES, Fraction(1), 1, randomness().with_noise(Silence()), "x"
    ).points
    expected = []
    for row in rows:
        values = [b for b, n in enumerate(row) for _ in range(n)]
        for share in SHARES:
            reached = [b for b in range(6) if sum(v <= b for v in values) >= share * len(values)]
            expected.append(reached[0])
    assert points.tolist() == expected


@given(st.lists(st.integers(0, 2), min_size=9, max_size=9), st.integers(0, 1000))
def test_chosen_quantiles_ascend_whatever_the_noise(row: list[int], number: int) -> None:
    bins = np.array([row, row[::-1]], np.int64)
    points = choose_points(bins, SHARES, Fraction(1, 5), 1, randomness(number), "x").points
    assert points.shape == (2 * len(SHARES),)
    assert ((points >= 0) & (points < 9)).all()
    assert (np.diff(points.reshape(2, -1), axis=1) >= 0).all()


def test_no_row_and_no_case() -> None:
    none = choose_points(np.zeros((0, 5), np.int64), SHARES, Fraction(1), 1, randomness(), "x")
    assert none.points.tolist() == []
    empty = choose_points(np.zeros((1, 5), np.int64), SHARES, Fraction(1), 1, randomness(), "x")
    assert len(empty.points) == 3
    assert windows(np.zeros((0, len(grid())), np.int64), none.points).tolist() == []


@pytest.mark.parametrize("max_units", [1, 3])
@pytest.mark.parametrize("share", SHARES)
def test_a_choice_is_off_by_more_ranks_than_it_says_in_one_of_twenty_at_most(
    share: Fraction, max_units: int
) -> None:
    places = sample("long tail", 2000)
    bins, n_keys = bins_of(places, grid()), 120
    half = rank_half_width(Fraction(1), share, max_units)
    reached = np.cumsum(bins)
    misses = 0
    for number in range(n_keys):
        keyed = randomness(number)
        [point] = choose_points(bins[None], (share,), Fraction(1), max_units, keyed, "x").points
        rank = float(share) * len(places)
        off = max(reached[point] - bins[point] - rank, rank - reached[point], 0)
        misses += off > half
    # Of a tenth of a long tail it is more than one in twenty: .06, and .09 of units of three cases.
    rate = 0.1 if share < Fraction(1, 2) else 0.05
    assert misses <= rate * n_keys + 4 * math.sqrt(rate * (1 - rate) * n_keys)


def test_rank_half_width_by_hand() -> None:
    """Laplace noise of scale 1 / epsilon on both sides of the rank is off by more than ln(20)."""
    assert rank_half_width(Fraction(1), Fraction(1, 2), 1) == pytest.approx(math.log(20))
    assert rank_half_width(Fraction(2), Fraction(9, 10), 3) == pytest.approx(2.7 * math.log(20))


# --- windows --------------------------------------------------------------------------------------


BINS = st.integers(0, LAST)


@given(st.lists(BINS, max_size=30), st.lists(BINS, min_size=4, max_size=4))
def test_windows_count_cases_by_how_far_they_are(cases: list[int], points: list[int]) -> None:
    """Two rows of two quantiles each: up to 32 bins away, to 64, to 128, on both sides together."""
    bins = np.zeros((2, LAST + 1), np.int64)
    for i, case in enumerate(cases):
        bins[i % 2, case] += 1
    counted = windows(bins, np.array(points)).reshape(4, n_windows())
    assert counted.dtype == np.int64
    for place, point in enumerate(points):
        expected = [0] * n_windows()
        for case in cases[place // 2 :: 2]:
            window = 0
            while abs(case - point) > 32 * 2**window:
                window += 1
            expected[window] += 1
        assert counted[place].tolist() == expected


def test_every_case_is_in_one_window_of_each_quantile() -> None:
    bins = np.ones((1, LAST + 1), np.int64)
    counted = windows(bins, np.array([0, LAST // 2, LAST])).reshape(3, n_windows())
    assert (counted.sum(axis=1) == LAST + 1).all()
    assert counted[:, 0].tolist() == [33, 65, 33]
    assert counted[0, -1] > 0  # and there is no window that no case can be in


# --- intervals ------------------------------------------------------------------------------------


def held(
    kind: str, n: int, share: Fraction, epsilon: Fraction, n_keys: int = 150
) -> tuple[float, float]:
    """How often the interval of a chosen quantile holds it, and how many cases are in it."""
    points, scale = grid(), 9 / 4 / float(epsilon)
    ranks, holds, wide = rank_half_width(epsilon, share, 1), 0, []
    rng = np.random.default_rng(n)
    for number in range(n_keys):
        places = sample(kind, n, number)
        bins, keyed = bins_of(places, points)[None], randomness(number)
        true = np.sort(places)[math.ceil(float(share) * n) - 1] / RANGE
        [point] = choose_points(bins, (share,), epsilon, 1, keyed, kind).points.tolist()
        counts = windows(bins, np.array([point])) + rng.laplace(0, scale, n_windows())
        at = interval_of_point(point, counts, math.sqrt(2) * scale, share, ranks)
        assert 0 <= at.low <= at.value <= at.high <= LAST
        low, high = (value_at(end, 0, 1, points) for end in (at.low, at.high))
        holds += low <= true <= high
        wide.append(((places > low * RANGE) & (places < high * RANGE)).sum())
    return holds / n_keys, float(np.median(wide))


KINDS = ["uniform", "long tail", "two humps", "short times", "steep"]


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_interval_of_a_quantile_holds_it_as_often_as_it_says(
    kind: str, share: Fraction
) -> None:
    """Neither are the intervals far wider than they must be."""
    hold, wide = held(kind, 1000, share, Fraction(1, 2))
    assert hold > 0.95 - 4 * math.sqrt(0.05 * 0.95 / 150)
    assert wide < 8 * rank_half_width(Fraction(1, 2), share, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [10, 200])
def test_of_a_few_cases_the_interval_is_wide_and_holds(kind: str, n: int) -> None:
    """Where the noise of a choice is as large as what lies beyond the quantile."""
    hold, _ = held(kind, n, Fraction(9, 10), Fraction(1, 4), 60)
    assert hold > 0.95 - 4 * math.sqrt(0.05 * 0.95 / 60)


def test_where_no_window_stands_out_the_interval_is_everything() -> None:
    counts = np.zeros(n_windows())
    interval = interval_of_point(5, counts, 10.0, Fraction(1, 2), 3.0)
    assert (interval.low, interval.high) == (0, LAST)


def test_all_cases_near_one_number_make_a_narrow_interval() -> None:
    counts = np.zeros(n_windows())
    counts[0] = 200_000
    interval = interval_of_point(500, counts, 10.0, Fraction(1, 2), 30.0)
    assert interval.high - interval.low < 3
    assert interval.low < interval.value == 499.5 < interval.high


def test_the_ends_are_as_far_as_so_many_cases_need_at_that_density() -> None:
    counts = np.zeros(n_windows())
    counts[0] = 650
    interval = interval_of_point(500, counts, 0.0, Fraction(1, 2), 10.0)
    assert interval.low == pytest.approx(500 - 1 - 1)
    assert interval.high == pytest.approx(500 + 1)


# --- numbers --------------------------------------------------------------------------------------


def test_values_of_places_ascend_between_the_bounds() -> None:
    points = np.array([0, 10, 30, 100])
    assert [value_at(place, 0.0, 100.0, points) for place in (0, 1, 1.5, 3)] == [0, 10, 20, 100]
    assert value_at(2, -5.0, 5.0, points) == -2
    ascending = [value_at(place, 0, 1, grid()) for place in np.linspace(0, LAST, 500)]
    assert ascending == sorted(ascending)


# --- running sums ---------------------------------------------------------------------------------


def running(
    kind: str, n: int, half_width: float, number: int = 0
) -> list[tuple[bool, float, float, float]]:
    """Of each quantile whether its interval holds it, it, what is said, and how wide that is."""
    places, points = sample(kind, n, number), coarse_grid()
    rng = np.random.default_rng(number + 1000)
    measured = measured_ranks(bins_of(places, points)) / RANK_UNITS
    measured += rng.normal(0, half_width / 1.96, len(measured))
    numbers = []
    for share, one in zip(SHARES, quantiles_of_running(measured, SHARES, half_width), strict=True):
        value, low, high = (value_at(e, 0, 1, points) for e in (one.value, one.low, one.high))
        assert 0 <= low <= value <= high <= 1
        true = np.sort(places)[math.ceil(float(share) * n) - 1] / RANGE
        numbers.append((bool(low <= true <= high), true, value, high - low))
    return numbers


@pytest.mark.parametrize("kind", KINDS)
def test_with_hardly_any_noise_running_sums_say_each_quantile_to_a_bin(kind: str) -> None:
    points = coarse_grid() / RANGE
    for holds, true, value, _ in running(kind, 20_000, 1e-3):
        bin_ = int(np.searchsorted(points, true))
        assert holds
        assert points[max(bin_ - 1, 0)] <= value <= points[bin_]


@pytest.mark.parametrize("n", [50, 3000])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_running_sums_hold_the_quantiles_as_often_as_they_say(
    kind: str, n: int
) -> None:
    """Also where cases are fewer than the noise, and in bins where there are none."""
    n_keys = 200
    found = [running(kind, n, 37.0, number) for number in range(n_keys)]
    holds = np.mean([[one[0] for one in row] for row in found], axis=0)
    assert (holds > 0.95 - 4 * math.sqrt(0.05 * 0.95 / n_keys)).all(), holds


def test_intervals_of_running_sums_are_narrow_where_cases_are_many() -> None:
    [_, (_, true, _, wide), _] = running("uniform", 100_000, 37.0)
    assert wide < 0.2 * true


def test_of_no_case_the_interval_is_everything() -> None:
    for one in quantiles_of_running(np.zeros(len(coarse_grid())), SHARES, 20.0):
        assert (one.low, one.high) == (0, len(coarse_grid()) - 1)

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
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.clip_by_rank import (
    RANK_UNITS,
    changed_ranks,
    measured_ranks,
)

SHARES = (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
LAST = len(grid()) - 1


def bins_of(places: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.bincount(np.searchsorted(points, places), minlength=len(points))


def sample(kind: str, n: int) -> np.ndarray:
    """Lattice places of some cases; the same whenever it is asked for."""
    rng = np.random.default_rng(len(kind))
    values = {
        "uniform": lambda: rng.uniform(0, 1, n),
        "long tail": lambda: np.clip(rng.lognormal(-4, 1, n), 0, 1),
        "two humps": lambda: np.where(rng.random(n) < 0.6, rng.normal(0.1, 0.02, n), 0.5),
        "short times": lambda: rng.exponential(0.002, n),
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
    assert misses <= 0.05 * n_keys + 4 * math.sqrt(0.05 * 0.95 * n_keys)


def test_rank_half_width_by_hand() -> None:
    """Laplace noise of scale 1 / epsilon on both sides of the rank is off by more than ln(20)."""
    assert rank_half_width(Fraction(1), Fraction(1, 2), 1) == pytest.approx(math.log(20))
    assert rank_half_width(Fraction(2), Fraction(9, 10), 3) == pytest.approx(2.7 * math.log(20))


# --- windows --------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, LAST), max_size=30),
    st.lists(st.integers(0, LAST), min_size=4, max_size=4),
)
def test_windows_count_cases_by_how_far_they_are(cases: list[int], points: list[int]) -> None:
    """Two rows of two quantiles each: nearer than 32 bins, than 64, than 128, and so on."""
    bins = np.zeros((2, LAST + 1), np.int64)
    for i, case in enumerate(cases):
        bins[i % 2, case] += 1
    counted = windows(bins, np.array(points)).reshape(4, n_windows())
    assert counted.dtype == np.int64
    for place, point in enumerate(points):
        expected = [0] * n_windows()
        for case in cases[place // 2 :: 2]:
            far, window = abs(case - point), 0
            while far >= 32 * 2**window:
                window += 1
            expected[window] += 1
        assert counted[place].tolist() == expected


def test_every_case_is_in_one_window_of_each_quantile() -> None:
    bins = np.ones((1, LAST + 1), np.int64)
    counted = windows(bins, np.array([0, LAST // 2, LAST])).reshape(3, n_windows())
    assert (counted.sum(axis=1) == LAST + 1).all()
    assert counted[0, 0] == 32 and counted[1, 0] == 63 and counted[2, 0] == 32
    assert counted[0, -1] > 0  # and there is no window that no case can be in


# --- intervals ------------------------------------------------------------------------------------


def held(
    kind: str, n: int, share: Fraction, epsilon: Fraction, n_keys: int = 150
) -> tuple[float, float]:
    """How often the interval of a chosen quantile holds it, and how many ranks it is wide."""
    places, points = sample(kind, n), grid()
    bins = bins_of(places, points)
    true = np.sort(places)[math.ceil(float(share) * n) - 1] / RANGE
    deviation = math.sqrt(2) * 2 / float(epsilon)
    ranks, holds, wide = rank_half_width(epsilon, share, 1), 0, []
    rng = np.random.default_rng(n)
    for number in range(n_keys):
        [point] = choose_points(
            bins[None], (share,), epsilon, 1, randomness(number), kind
        ).points.tolist()
        counts = windows(bins[None], np.array([point])).astype(float)
        counts += rng.laplace(0, 2 / float(epsilon), len(counts))
        at = interval_of_point(point, counts, deviation, ranks)
        assert 0 <= at[1] <= at[0] <= at[2] <= LAST
        value, low, high = (value_at(end, 0, 1, points) for end in at)
        assert low <= value <= high
        holds += low <= true <= high
        wide.append(((places > low * RANGE) & (places < high * RANGE)).sum())
    return holds / n_keys, float(np.median(wide))


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("kind", ["uniform", "long tail", "two humps", "short times"])
def test_the_interval_of_a_quantile_holds_it_as_often_as_it_says(
    kind: str, share: Fraction
) -> None:
    hold, wide = held(kind, 1000, share, Fraction(1, 2))
    assert hold > 0.95 - 4 * math.sqrt(0.05 * 0.95 / 150)
    assert wide < 20 * rank_half_width(Fraction(1, 2), share, 1)


def test_of_a_few_cases_the_interval_is_wide_and_holds() -> None:
    hold, _ = held("uniform", 10, Fraction(1, 2), Fraction(1, 10), 60)
    assert hold > 0.95


def test_where_no_window_stands_out_the_interval_is_everything() -> None:
    counts = np.zeros(n_windows())
    assert interval_of_point(5, counts, 10.0, 3.0) == (5.0, 0.0, float(LAST))


def test_all_cases_at_one_number_make_a_narrow_interval() -> None:
    counts = np.zeros(n_windows())
    counts[0] = 100_000
    point, low, high = interval_of_point(500, counts, 10.0, 30.0)
    assert point == 500 and high - low < 3


# --- numbers --------------------------------------------------------------------------------------


def test_values_of_places_ascend_between_the_bounds() -> None:
    points = np.array([0, 10, 30, 100])
    assert value_at(0, -5.0, 5.0, points) == -5
    # A bin ends at its point and begins at the one before, so its middle stands for it.
    assert value_at(1, 0.0, 100.0, points) == 5
    assert value_at(2, 0.0, 100.0, points) == 20
    assert value_at(2.5, 0.0, 100.0, points) == 42.5
    assert value_at(3, 0.0, 100.0, points) == 65
    ascending = [value_at(place, 0, 1, grid()) for place in np.linspace(0, LAST, 500)]
    assert ascending == sorted(ascending)


# --- running sums ---------------------------------------------------------------------------------


def running(
    kind: str, n: int, scale: int, number: int = 0
) -> tuple[list[tuple[float, ...]], np.ndarray]:
    """The intervals of the quantiles, as numbers; and the lattice places of the cases."""
    places, points = sample(kind, n), coarse_grid()
    rng = np.random.default_rng(number)
    measured = measured_ranks(bins_of(places, points))
    measured = measured + np.rint(rng.normal(0, scale, len(measured))).astype(np.int64)
    noise = SumNoise((max(scale, 1), 1), RANK_UNITS, False, Fraction(1))
    found = quantiles_of_running(measured, SHARES, noise)
    return [
        tuple(value_at(end, 0, 1, points) for end in (one.value, one.low, one.high))
        for one in found
    ], places  # fmt: skip


@pytest.mark.parametrize("kind", ["uniform", "long tail", "two humps", "short times"])
def test_without_noise_running_sums_say_each_quantile_to_a_bin(kind: str) -> None:
    numbers, places = running(kind, 20_000, 0)
    points = coarse_grid() / RANGE
    for share, (value, low, high) in zip(SHARES, numbers, strict=True):
        true = np.quantile(places, float(share)) / RANGE
        bin_ = int(np.searchsorted(points, true))
        assert points[max(bin_ - 2, 0)] <= value <= points[min(bin_ + 1, len(points) - 1)]
        assert low <= value <= high


@pytest.mark.parametrize("kind", ["uniform", "long tail", "two humps", "short times"])
def test_intervals_of_running_sums_hold_the_quantiles_as_often_as_they_say(kind: str) -> None:
    n_keys, holds = 100, np.zeros(len(SHARES))
    scale = 12 * math.isqrt(int(changed_ranks(len(coarse_grid())).l2_squared))
    for number in range(n_keys):
        numbers, places = running(kind, 3000, scale, number)
        for i, (share, (value, low, high)) in enumerate(zip(SHARES, numbers, strict=True)):
            true = np.sort(places)[math.ceil(float(share) * len(places)) - 1] / RANGE
            assert low <= value <= high
            holds[i] += low <= true <= high
    assert (holds / n_keys > 0.95 - 4 * math.sqrt(0.05 * 0.95 / n_keys)).all(), holds / n_keys


def test_the_margin_covers_the_noise_of_every_running_sum() -> None:
    """What is added up has a deviation that the norm of a row of the root bounds."""
    n = len(coarse_grid())
    rows = np.array([measured_ranks(np.eye(n, dtype=np.int64)[i]) for i in range(n)]).T
    root = rows / RANK_UNITS  # measured = root @ cases
    added_up = np.linalg.inv(root)  # cases of noise, from which all from a bin on are added
    above = np.cumsum(added_up[::-1], axis=0)[::-1]
    norms = np.linalg.norm(above, axis=1)
    assert norms.max() <= math.sqrt(math.log(n) / math.pi + 1) * 1.01


def test_no_case_at_all() -> None:
    noise = SumNoise((1000, 1), RANK_UNITS, True, Fraction(1))
    for one in quantiles_of_running(np.zeros(len(coarse_grid()), np.int64), SHARES, noise):
        assert 0 <= one.low <= one.value <= one.high <= len(coarse_grid()) - 1

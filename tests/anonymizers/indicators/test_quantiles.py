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
    interval_between,
    quantiles_of_running,
    rank_half_width,
    value_at,
)
from tracecloak.anonymizers.indicators.summands import RANGE
from tracecloak.anonymizers.indicators.terms import coarse_grid, grid
from tracecloak.anonymizers.rigorous.bought import RANK_UNITS, measured_ranks

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


@given(st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), max_size=3))
def test_without_noise_the_ends_are_the_bins_of_ranks_below_and_above(
    rows: list[list[int]],
) -> None:
    """Epsilon 8 is off by one case at most; what lies beyond all cases is the first or last bin."""
    bins = np.array(rows, np.int64).reshape(len(rows), 6)
    keyed = randomness().with_noise(Silence())
    points = choose_points(bins, SHARES, Fraction(8), 1, keyed, "x").points
    expected = []
    for row in rows:
        values = [b for b, n in enumerate(row) for _ in range(n)]
        for share in SHARES:
            for shift in (-1, 1):
                goal = share * len(values) + shift
                reached = [b for b in range(6) if sum(v <= b for v in values) >= goal]
                beyond = 0 if shift < 0 else 5
                expected.append(reached[0] if reached and goal >= 0 else beyond)
    assert points.tolist() == expected


@given(st.lists(st.integers(0, 2), min_size=9, max_size=9), st.integers(0, 1000))
def test_chosen_quantiles_ascend_whatever_the_noise(row: list[int], number: int) -> None:
    bins = np.array([row, row[::-1]], np.int64)
    points = choose_points(bins, SHARES, Fraction(1, 5), 1, randomness(number), "x").points
    assert points.shape == (2 * len(SHARES) * 2,)
    assert ((points >= 0) & (points < 9)).all()
    ends = points.reshape(2, len(SHARES), 2)
    assert (np.diff(ends, axis=1) >= 0).all() and (np.diff(ends, axis=2) >= 0).all()


def held(
    kind: str, n: int, share: Fraction, epsilon: Fraction, n_keys: int = 150
) -> tuple[float, float]:
    """How often the interval of a chosen quantile holds it, and how many cases are in it."""
    points, holds, wide = grid(), 0, []
    for number in range(n_keys):
        places = sample(kind, n, number)
        bins, keyed = bins_of(places, points)[None], randomness(number)
        true = np.sort(places)[math.ceil(float(share) * n) - 1] / RANGE
        at = interval_between(
            *choose_points(bins, (share,), epsilon, 1, keyed, kind).points.tolist()
        )
        assert 0 <= at.low <= at.value <= at.high <= LAST
        low, high = (value_at(end, 0, 1, points) for end in (at.low, at.high))
        holds += low <= true <= high
        # Less the cases of the bins at both ends, which a choice cannot divide.
        wide.append(((places > low * RANGE) & (places < high * RANGE)).sum() - 2 * bins.max())
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


def test_values_of_places_ascend_between_the_bounds() -> None:
    points = np.array([0, 10, 30, 100])
    assert [value_at(place, 0.0, 100.0, points) for place in (0, 1, 1.5, 3)] == [0, 10, 20, 100]
    assert value_at(2, -5.0, 5.0, points) == -2
    ascending = [value_at(place, 0, 1, grid()) for place in np.linspace(0, LAST, 500)]
    assert ascending == sorted(ascending)


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

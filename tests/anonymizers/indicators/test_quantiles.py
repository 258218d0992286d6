"""Quantiles, means and numbers of noisy sums: whether their intervals hold them."""

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
    NoisyNumber,
    choose_points,
    interval_between,
    mean_of,
    number_of,
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


@pytest.mark.by_day(5)
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


@pytest.mark.by_day(5)
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


N = 200_000


def drawn(widths: tuple[float, ...], is_laplace: bool, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(7)
    draw = rng.laplace if is_laplace else rng.normal
    return np.sum([draw(0, width, n) for width in widths], axis=0)


def noise_of(is_laplace: bool, *widths: float) -> NoisyNumber:
    return NoisyNumber(0.0, {str(place): width for place, width in enumerate(widths)}, is_laplace)


WIDTHS = [
    (1.0,), (3.0, 3.0), (1.0, 2.0, 5.0), (2.0, 2.0, 2.0, 2.0), (1e-9, 4.0), (1.0, 1.0001),
    (0.0, 2.0),
]  # fmt: skip


@pytest.mark.by_day(6)
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("is_laplace", [True, False])
def test_the_tail_is_that_of_the_sum_of_noises(widths: tuple[float, ...], is_laplace: bool) -> None:
    noise, sample = noise_of(is_laplace, *widths), np.abs(drawn(widths, is_laplace))
    for share in (0.5, 0.8, 0.95, 0.99):
        size = float(np.quantile(sample, share))
        expected = 1 - share
        error = 5 * math.sqrt(share * expected / N)
        assert abs(noise.exceeds(size) - expected) < error + 1e-3 * expected
    assert (sample > noise.half_width).mean() == pytest.approx(0.05, abs=0.003)


def test_numbers_add_up_with_their_noise() -> None:
    whole = NoisyNumber(10.0, {"a": 2.0}, True)
    part = NoisyNumber(4.0, {"b": 3.0}, True).plus(0.5, whole)
    both = part.plus(-0.5, whole)
    assert part == NoisyNumber(9.0, {"b": 3.0, "a": 1.0}, True)
    assert both.value == 4.0
    # What cancels has no noise left.
    assert both.half_width == pytest.approx(noise_of(True, 3.0).half_width)


def covered(
    n_cases: int, mean: float, width: float, is_laplace: bool, n: int = 400
) -> tuple[float, float]:
    """How often the interval of a mean between 0 and 10 holds it, and how wide it is on average."""
    rng = np.random.default_rng(n_cases)
    draw = rng.laplace if is_laplace else rng.normal
    holds, wide = 0, 0.0
    total, cases = n_cases * (mean - 5), float(n_cases)
    for a, b, c in draw(0, 1, (n, 3)):
        noisy = NoisyNumber(total + 5 * width * a, {"sum": 5 * width}, is_laplace)
        # The cases of a population: half of all cases is added to what was centred.
        count = NoisyNumber(0.5 * cases + width * b, {"cases": width}, is_laplace)
        count = count.plus(0.5, NoisyNumber(cases + width * c, {"all": width}, is_laplace))
        interval = mean_of(noisy, count, 0.0, 10.0)
        assert 0 <= interval.low <= interval.value <= interval.high <= 10
        holds += interval.low - 1e-9 <= mean <= interval.high + 1e-9
        wide += (interval.high - interval.low) / n
    return holds / n, wide


@pytest.mark.by_day(6)
@pytest.mark.parametrize("is_laplace", [True, False])
@pytest.mark.parametrize(
    ("n_cases", "mean"),
    [(0, 5.0), (1, 0.0), (3, 10.0), (20, 5.0), (20, 0.0), (50, 9.5), (300, 2.0), (5000, 7.0)],
)
def test_an_interval_holds_the_mean_as_often_as_it_says(
    n_cases: int, mean: float, is_laplace: bool
) -> None:
    """In few cases, too, where the number of them is little more than noise."""
    share, wide = covered(n_cases, mean, 10.0, is_laplace)
    assert share > 0.95 - 4 * math.sqrt(0.05 * 0.95 / 400)
    if n_cases >= 300:
        assert share < 0.99
    if n_cases == 5000:
        assert wide < 0.2


def test_a_count_is_not_below_0_and_another_number_is_as_it_is() -> None:
    half = math.log(20)
    below = number_of(NoisyNumber(-7.4, {"a": 1.0}, True))
    assert (below.value, below.low, below.high) == (0, 0, pytest.approx(half))
    above = number_of(NoisyNumber(7.4, {"a": 1.0}, True))
    assert (above.value, above.low) == (7.4, pytest.approx(7.4 - half))
    other = number_of(NoisyNumber(-7.4, {"a": 1.0}, True), is_count=False)
    assert other.value == -7.4
    assert (other.low, other.high) == (pytest.approx(-7.4 - half), pytest.approx(-7.4 + half))


def test_a_mean_below_its_bound_is_never_surely_there() -> None:
    """Catches 0 (0-0) where noise has pushed a sum far below what is possible."""
    far, near = (
        mean_of(NoisyNumber(sum_, {"s": 4.0}), NoisyNumber(10.0, {"n": 1.0}), 0.0, 10.0)
        for sum_ in (-90.0, -50.0)
    )
    assert (far.value, far.low) == (near.value, near.low) == (0, 0)
    assert far.high == near.high > 1

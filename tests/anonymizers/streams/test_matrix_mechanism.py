"""The matrix mechanism's arithmetic against dense linear algebra, enumeration and closed forms."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from tracecloak.anonymizers.accounting.composition import square_root
from tracecloak.anonymizers.streams.matrix_mechanism import (
    COLUMN_UNITS,
    LARGEST_VALUE,
    MAX_HORIZON,
    MAX_WINDOWS,
    Participation,
    Strategy,
)
from tracecloak.schemas.errors import UsageError

lengths = st.one_of(st.none(), st.integers(1, 12))
horizons = st.integers(1, 40)
# Columns as they are, and normalised by coarse and by fine factors.
column_units = st.sampled_from([1, 3, COLUMN_UNITS])


def dense(series: np.ndarray) -> np.ndarray:
    """The lower triangular Toeplitz matrix of a first column."""
    return np.tril(linalg.toeplitz(series))


def measured_by(strategy: Strategy) -> np.ndarray:
    """C D: column j of C as often as its factor says."""
    return dense(strategy.coefficients) * strategy.column_factors


def wanted(horizon: int, length: int | None) -> np.ndarray:
    """A: row t adds up the last `length` steps."""
    lags = np.arange(horizon)[:, None] - np.arange(horizon)
    return ((lags >= 0) & (lags < (length or horizon))).astype(np.int64)


@given(horizons, lengths)
def test_the_root_times_itself_is_what_is_wanted(horizon: int, length: int | None) -> None:
    root = dense(square_root(horizon, length))
    np.testing.assert_allclose(root @ root, wanted(horizon, length), atol=1e-12)


@given(horizons, lengths, column_units)
def test_columns_are_as_long_as_the_first_within_a_unit_and_never_longer(
    horizon: int, length: int | None, units: int
) -> None:
    strategy = Strategy(horizon, length, units)
    factors = strategy.column_factors.tolist()
    if length == 1 or units == 1:
        assert factors == [1] * horizon
        return
    columns = dense(strategy.coefficients).astype(object)
    squares = (columns**2).sum(axis=0).tolist()
    longest = units**2 * squares[0]
    for factor, square in zip(factors, squares, strict=True):
        assert factor**2 * square <= longest < (factor + 1) ** 2 * square
    assert strategy.squared_norm() == longest
    assert strategy.coefficients[0] * factors[0] == 1024 * units


@given(horizons, lengths, lengths, column_units)
def test_weights_times_what_is_measured_is_what_is_wanted(
    horizon: int, length: int | None, other: int | None, units: int
) -> None:
    strategy = Strategy(horizon, length, units)
    weights = np.zeros((horizon, horizon))
    for step in reversed(range(horizon)):  # in any order
        weights[step, : step + 1] = strategy.weights(step, other)
    product = weights @ measured_by(strategy)
    np.testing.assert_allclose(product, wanted(horizon, other), atol=1e-9)
    errors = strategy.error_factors(other)
    np.testing.assert_allclose(errors, np.sqrt((weights**2).sum(axis=1)), rtol=1e-9)


@given(st.data(), st.integers(1, 150), lengths, column_units)
def test_encoding_is_exact_from_any_step_on(
    data: st.DataObject, horizon: int, length: int | None, units: int
) -> None:
    strategy = Strategy(horizon, length, units)
    n_steps = data.draw(st.integers(1, horizon))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    counts = rng.integers(-(10**9), 10**9, (n_steps, 3))
    first = data.draw(st.integers(0, n_steps - 1))
    exactly = measured_by(strategy)[:n_steps, :n_steps].astype(object) @ counts
    assert (strategy.encode(counts, first) == exactly[first:]).all()


@pytest.mark.parametrize("units", [1, COLUMN_UNITS])
@pytest.mark.parametrize("length", [None, 1, 5])
def test_counts_that_do_not_fit_are_measured_as_the_largest_that_does(
    length: int | None, units: int
) -> None:
    strategy = Strategy(100, length, units)
    most = strategy.largest_count
    ends = np.iinfo(np.int64)
    counts = np.tile([[ends.max, ends.min, most]], (100, 1))
    exactly = measured_by(strategy).astype(object) @ np.tile([[most, -most, most]], (100, 1))
    found = strategy.encode(counts)
    assert (found == exactly).all()
    assert np.abs(found).max() <= LARGEST_VALUE
    # One more would pass it, if the signs were those of the coefficients.
    one_more = (most + 1) * np.abs(measured_by(strategy)).astype(object).sum(axis=1)
    assert one_more.max() > LARGEST_VALUE


@given(st.data(), horizons, lengths, lengths, column_units)
def test_decoding_gives_the_sums_from_any_step_on(
    data: st.DataObject, horizon: int, length: int | None, other: int | None, units: int
) -> None:
    strategy = Strategy(horizon, length, units)
    n_steps = data.draw(st.integers(1, horizon))
    counts = np.random.default_rng(n_steps).integers(0, 10**6, (n_steps, 2))
    sums = wanted(horizon, other)[:n_steps, :n_steps] @ counts
    measured = strategy.encode(counts)
    first = data.draw(st.integers(0, n_steps - 1))
    whole = strategy.decode(measured, other)
    np.testing.assert_allclose(whole, sums, rtol=1e-9, atol=1e-3)
    # In the same bits for a part of the steps, and for a part of the columns.
    assert (strategy.decode(measured, other, first) == whole[first:]).all()
    assert (strategy.decode(measured[:, 1:], other) == whole[:, 1:]).all()
    assert (strategy.decode(measured[:, 0], other) == whole[:, 0]).all()


def squared(values: np.ndarray) -> int:
    return int((values.astype(object) ** 2).sum())


@pytest.mark.parametrize("units", [1, 5, COLUMN_UNITS])
@pytest.mark.parametrize("length", [None, 1, 2])
def test_sensitivity_over_all_neighbouring_streams(length: int | None, units: int) -> None:
    """All streams of three steps and two cells with up to a case each, near the largest as well."""
    strategy = Strategy(3, length, units)
    largest = np.zeros(3, object)
    for base in (0, strategy.largest_count - 1):
        for bits in itertools.product((0, 1), repeat=6):
            stream = np.array(bits).reshape(3, 2) + base
            for step, cell in itertools.product(range(3), range(2)):
                neighbour = stream.copy()
                neighbour[step, cell] += 1
                change = squared(strategy.encode(neighbour) - strategy.encode(stream))
                largest[step] = max(largest[step], change)
    assert largest.max() == largest[0] == strategy.squared_norm()
    assert length == 1 or units > 1 or largest[1] < largest[0]
    if length != 1 and units > 1:
        more = [(factor + 1) / factor for factor in strategy.column_factors.tolist()]
        assert all(change * by**2 > largest[0] for change, by in zip(largest, more, strict=True))
    assert Fraction(largest[0]) <= strategy.norm(Participation()) ** 2


def patterns(horizon: int, cases: int) -> np.ndarray:
    """int64[n, horizon], all ways in which the cases of one unit may fall into the steps."""
    return np.array(list(itertools.product(range(cases + 1), repeat=horizon)))


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("cases", "window"), [(1, 1), (1, 2), (2, 2), (1, 3), (2, 3), (1, 9)])
def test_no_behaviour_of_a_unit_exceeds_its_norm(cases: int, window: int) -> None:
    """Every pattern over five steps, and the signs of opposite vectors; totals attain it."""
    for length, units in itertools.product([None, 1, 2, 3], [1, COLUMN_UNITS]):
        strategy = Strategy(5, length, units)
        participation = Participation(cases, window)
        matrix = measured_by(strategy)
        largest = {"window": 0, "all": 0}
        for signs in itertools.product((1, -1), repeat=4):
            ways = patterns(5, cases) * np.array([1, *signs])
            changes = ((ways @ matrix.T) ** 2).sum(axis=1)
            used = [np.flatnonzero(row) for row in ways]
            within = np.array([not len(at) or at[-1] - at[0] < window for at in used])
            largest["all"] = max(largest["all"], int(changes.max()))
            largest["window"] = max(largest["window"], int(changes[within].max()))
        of_window, of_all = strategy.norm(participation), strategy.norm_over_all(participation)
        assert largest["window"] <= of_window**2, (length, units)
        assert largest["all"] <= of_all**2, (length, units)
        if length in (None, 1) and units == 1:
            assert of_window**2 == pytest.approx(largest["window"], rel=1e-10), (length, units)
            assert of_all**2 == pytest.approx(largest["all"], rel=1e-10), (length, units)


def largest_of_gapped(strategy: Strategy, gap: int, n_times: int) -> int:
    """The largest squared change over up to so many steps that are the gap apart, and all signs."""
    matrix = measured_by(strategy)
    largest = 0
    for bits in range(1, 1 << strategy.horizon):
        steps = [t for t in range(strategy.horizon) if bits >> t & 1]
        if len(steps) > n_times or any(b - a < gap for a, b in itertools.pairwise(steps)):
            continue
        signs = itertools.product((1, -1), repeat=len(steps) - 1)
        ways = np.array([(1, *others) for others in signs])
        largest = max(largest, int(((ways @ matrix[:, steps].T) ** 2).sum(axis=1).max()))
    return largest


@pytest.mark.by_day(7)
@pytest.mark.parametrize(
    ("horizon", "gap", "n_times"),
    [
        *((9, 1, 1), (9, 1, 3), (9, 2, 3), (9, 4, 2), (9, 3, 9), (12, 2, 12), (12, 7, 12)),
        *((9, 1, 2), (12, 3, 12), (12, 4, 12), (12, 12, 12)),
    ],
)
def test_cases_that_count_again_are_covered_and_hardly_more(
    horizon: int, gap: int, n_times: int
) -> None:
    """All choices among so many steps, by squares: what columns take from each other is free."""
    for length, units in itertools.product([None, 1, 2, 3, 5, 8], [1, COLUMN_UNITS]):
        strategy = Strategy(horizon, length, units)
        attained = largest_of_gapped(strategy, gap, n_times)
        bound = strategy.repeated_norm(n_times, gap)
        assert attained <= bound**2 <= Fraction(4, 3) * attained, (length, units)
        assert bound <= n_times * strategy.repeated_norm(1, gap), (length, units)
        if length == 1:
            n = min(n_times, -(-horizon // gap))
            assert n <= bound**2 == pytest.approx(n, rel=1e-10), (length, units)


def bound_by_products(largest: list[int], n_times: int, gap: int) -> int:
    """The bound of columns that are the gap apart, as it is defined: without any short cut."""
    last = len(largest) - 1

    @cache
    def chain(n_behind: int, distance: int) -> int:
        """The largest sum of so many distances or fewer, the gap apart, up to this one."""
        if not n_behind or distance < gap:
            return 0
        with_it = largest[distance] + chain(n_behind - 1, distance - gap)
        return max(with_it, chain(n_behind, distance - 1))

    n_times = min(n_times, 1 + last // gap)
    return sum(largest[0] + 2 * chain(n, last - (n_times - 1 - n) * gap) for n in range(n_times))


@given(
    st.integers(1, 40),
    lengths,
    st.sampled_from([3, COLUMN_UNITS]),
    st.integers(1, 45),
    st.integers(1, 45),
)
def test_the_bound_by_products_is_what_it_is_defined_to_be(
    horizon: int, length: int | None, units: int, gap: int, n_times: int
) -> None:
    strategy = Strategy(horizon, length, units)
    matrix = measured_by(strategy)
    products = np.abs(matrix.T @ matrix)
    largest = [int(np.diagonal(products, distance).max()) for distance in range(horizon)]
    assert strategy.squared_norm(n_times, gap) == bound_by_products(largest, n_times, gap)


STRATEGY = Strategy(3, None)


@pytest.mark.parametrize(
    ("refused", "named"),
    [
        (lambda: Strategy(0, 1), "horizon must be 1 to"),
        (lambda: Strategy(MAX_WINDOWS + 1, 1), f"1 to {MAX_WINDOWS} steps, got"),
        (lambda: Strategy(MAX_HORIZON + 1, None), f"1 to {MAX_HORIZON} steps, got"),
        (lambda: Strategy(5, 0), "length must be at least 1"),
        (lambda: STRATEGY.encode(np.zeros((4, 1), np.int64)), "step 3 is outside"),
        (lambda: STRATEGY.decode(np.zeros((4, 1), np.int64), None), "step 3 is outside"),
        (lambda: STRATEGY.weights(0, 0), "length must be at least 1"),
        (lambda: STRATEGY.error_factors(0), "length must be at least 1"),
        (lambda: STRATEGY.repeated_norm(0, 1), "n_times must be at least 1, got 0"),
        (lambda: STRATEGY.repeated_norm(1, 0), "gap must be at least 1, got 0"),
        (lambda: Participation(0), "cases must be at least 1, got 0"),
        (lambda: Participation(1, 0), "window must be at least 1, got 0"),
    ],
)
def test_what_is_out_of_range_is_refused(refused: Callable[[], object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        refused()

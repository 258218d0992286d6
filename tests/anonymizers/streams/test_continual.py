"""Noise of streams: its law, its keys, its privacy loss, and the numbers that are promised.

The exact privacy loss of streams of two and three steps, with a case in any of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal, stats

from tests.support import privacy_loss
from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness
from tests.support.privacy_loss import Law, delta_between, gaussian_delta
from tracecloak.anonymizers.accounting.composed import composed_epsilon
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.streams.continual import ContinualNoise, continual_noise, variant_noise
from tracecloak.anonymizers.streams.matrix_mechanism import (
    COLUMN_UNITS,
    LARGEST_VALUE,
    Participation,
    Strategy,
)
from tracecloak.schemas.errors import UsageError

ONE = Fraction(1)


def discrete_gaussian_law(sigma: float, reach: int) -> np.ndarray:
    law = np.exp(-((np.arange(-reach, reach + 1) / sigma) ** 2) / 2)
    return law / law.sum()


def delta_of_column(column: list[int], sigma: float, epsilon: float) -> float:
    """The exact delta between measured values and those that a case changes by a column."""
    shares = [abs(s) // math.gcd(*column) for s in column if s]
    reach = math.ceil(9 * sigma)
    law = np.ones(1)
    for share in shares:
        spread = np.zeros(2 * reach * share + 1)
        spread[::share] = discrete_gaussian_law(sigma, reach)
        law = signal.fftconvolve(law, spread)
    at = np.arange(len(law)) - len(law) // 2
    loss = (sum(s**2 for s in column) + 2 * math.gcd(*column) * at) / (2 * sigma**2)
    return float((np.maximum(law, 0) * -np.expm1(np.minimum(epsilon - loss, 0))).sum())


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coefficients of few units, so that exact laws are short: what holds of any holds of these."""
    place = "tracecloak.anonymizers.streams.matrix_mechanism"
    monkeypatch.setattr(f"{place}._ENCODER_UNITS", 64)
    monkeypatch.setattr(f"{place}.COLUMN_UNITS", 16)


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("length", [None, 2, 1])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_exact_loss_of_a_case_in_any_step(length: int | None, epsilon: Fraction) -> None:
    """A case in one of three steps keeps (epsilon, delta), in the first one only just."""
    delta, norm = Fraction(1, 100), 8 if length == 1 else 1
    noise = continual_noise(epsilon, delta, 3, norm, n_cells=1, length=length)
    sigma, goal = noise.deviation, float(delta)
    deltas, columns = [], []
    for step in range(3):
        case = np.zeros((3, 1), np.int64)
        case[step] = norm
        columns.append(noise.strategy.encode(case)[:, 0].tolist())
        deltas.append(delta_of_column(columns[-1], sigma, float(epsilon)))
    assert max(deltas) <= goal
    if length == 1:  # 8 units a case, so that the discreteness is felt
        assert deltas[0] > 0.75 * goal
        return
    assert deltas[0] > 0.999 * goal
    own_step_alone = sigma * columns[0][0] / float(noise.sensitivity)
    for less in (own_step_alone, 0.99 * sigma):
        assert delta_of_column(columns[0], less, float(epsilon)) > 1.01 * goal
    for step in (1, 2):
        factor = int(noise.strategy.column_factors[step])
        longer = [value // factor * (factor + 1) for value in columns[step]]
        assert delta_of_column(longer, sigma, float(epsilon)) > goal


def laws_of_steps(law_of_step: Callable[[int], Law], shifts: tuple[int, ...]) -> Law:
    laws = [law_of_step(shift) for shift in shifts]
    joined = laws[0]
    for law in laws[1:]:
        joined = joined.times(law)
    return joined


@pytest.mark.parametrize("participation", [Participation(), Participation(2), Participation(1, 2)])
def test_exact_loss_of_pure_windows(participation: Participation) -> None:
    """Two steps; a unit's cases in any of them keep epsilon 1, and nothing less than it."""
    noise = continual_noise(ONE, Fraction(0), 2, 1, n_cells=1, participation=participation)
    law = partial(privacy_loss.discrete_laplace, Fraction(*noise.scale), 60)
    without = laws_of_steps(law, (0, 0))
    most = participation.protected_cases
    for shifts in itertools.product(range(participation.cases + 1), repeat=2):
        if 0 < sum(shifts) <= most:
            whole = laws_of_steps(law, shifts)
            assert delta_between(whole, without, ONE)[1] < Fraction(1, 10**10)
            tight = delta_between(whole, without, Fraction(99, 100))[0] > Fraction(1, 1000)
            assert tight == (sum(shifts) == most)
    if most > 1:  # the control: noise that covers one case only
        narrow = partial(privacy_loss.discrete_laplace, ONE, 60)
        twice, never = (laws_of_steps(narrow, shifts) for shifts in ((1, 1), (0, 0)))
        assert delta_between(twice, never, ONE)[0] > Fraction(1, 10)


@pytest.mark.parametrize("cases", [1, 2])
def test_exact_loss_of_variants_in_windows(cases: int) -> None:
    """New variants in two steps, a known one beside: each case in any of the cells."""
    delta = Fraction(1, 50)
    noise = variant_noise(ONE, delta, 2, Participation(cases))
    threshold = noise.threshold
    assert threshold is not None

    def law_of(shift: int, least: int = threshold) -> Law:
        """Of the noisy count of a variant that occurs; one that does not is not published."""
        if not shift:
            return Law({None: (privacy_loss.ONE, privacy_loss.ONE)}, 0)
        law = privacy_loss.discrete_laplace(Fraction(*noise.scale), 45, shift)
        return law.map(lambda y: y if isinstance(y, int) and y >= least else None)

    def known(shift: int) -> Law:
        return privacy_loss.discrete_laplace(Fraction(*noise.scale), 45, 20 + shift)

    without = laws_of_steps(law_of, (0, 0)).times(known(0))
    found = []
    for shifts in itertools.product(range(cases + 1), repeat=3):
        if 0 < sum(shifts) <= cases:
            whole = laws_of_steps(law_of, shifts[:2]).times(known(shifts[2]))
            found.append(delta_between(whole, without, ONE)[1])
    assert delta / 4 < max(found) <= delta
    found = []
    for shifts in {(cases, 0), (1, cases - 1)}:  # the control: a threshold that is one lower
        whole = laws_of_steps(partial(law_of, least=threshold - 1), shifts).times(known(0))
        found.append(delta_between(whole, without, ONE)[0])
    assert max(found) > delta


MILLIONTH = Fraction(1, 10**6)
CELLS = cell_numbers(np.arange(5))
STREAM = partial(randomness, input_digest="")

totals_of = partial(continual_noise, ONE, MILLIONTH, case_norm=64, n_cells=5, length=None, units=64)
windows_of = partial(continual_noise, ONE, MILLIONTH, case_norm=64, n_cells=5, units=64)


def pure_windows(horizon: int, participation: Participation | None = None) -> ContinualNoise:
    return continual_noise(ONE, Fraction(0), horizon, 1, n_cells=5, participation=participation)


MAKERS: list[Callable[..., ContinualNoise]] = [
    totals_of,
    windows_of,
    pure_windows,
    partial(totals_of, length=3),
]
makers = pytest.mark.parametrize("maker", MAKERS, ids=["totals", "windows", "pure", "sliding"])


def counts_of(horizon: int, number: int = 0, n: int = 5) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 10_000, (horizon, n))


@makers
def test_values_come_out_the_same_in_any_order_shard_and_block(
    maker: Callable[..., ContinualNoise], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So nothing needs to be saved: not what was drawn, nor what was measured."""
    noise, counts = maker(9), counts_of(9)
    whole = noise.measure(counts, CELLS, STREAM(), "dfg")
    estimates = noise.estimate(whole, None)
    for t in reversed(range(9)):
        newest = noise.measure(counts[: t + 1], CELLS, STREAM(), "dfg", first=t)
        assert (newest == whole[t]).all()
    for part in ([3, 0, 2, 4, 1], [2], [4, 1]):
        shard = noise.measure(counts[:, part], CELLS[part], STREAM(), "dfg")
        assert (shard == whole[:, part]).all()
        assert (noise.estimate(shard, None) == estimates[:, part]).all()
    monkeypatch.setattr("tracecloak.anonymizers.streams.continual._BLOCK_VALUES", 7)
    assert (noise.measure(counts, CELLS, STREAM(), "dfg", first=4) == whole[4:]).all()


@makers
def test_keys_purposes_cells_and_steps_have_noise_of_their_own(
    maker: Callable[..., ContinualNoise],
) -> None:
    """On equal values; Laplace noise of scale 1 is wide enough only over many cells."""
    n = 200
    noise, values = replace(maker(4), n_cells=n), np.full((4, n), 7)
    cells = cell_numbers(np.arange(n))
    drawn = [
        noise.add(0, values, cells, stream, what)
        for stream, what in [
            (STREAM(), "dfg"),
            (STREAM(), "other"),
            (STREAM(1), "dfg"),
            (STREAM(release_id="next epoch"), "dfg"),
        ]
    ]
    rows = [row for one in drawn for row in one]
    assert not any((a == b).all() for a, b in itertools.combinations(rows, 2))
    other_cells = noise.add(0, values, cell_numbers(np.arange(n, 2 * n)), STREAM(), "dfg")
    assert not (other_cells == drawn[0]).all(axis=1).any()


def replayed(noise: ContinualNoise, n: int, stream: Randomness) -> tuple[np.ndarray, np.ndarray]:
    """What is measured on five steps of n cells, and on a replay with a case more in step 2."""
    counts = counts_of(5, n=n)
    changed = counts.copy()
    changed[2, : n // 2] += noise.case_norm
    cells = cell_numbers(np.arange(n))
    noise = replace(noise, n_cells=n)
    first, second = (noise.measure(rows, cells, stream, "dfg") for rows in (counts, changed))
    return first, second


@makers
def test_a_replay_with_other_counts_draws_fresh_noise(maker: Callable[..., ContinualNoise]) -> None:
    """On 20,000 cells, of which the later half is the same."""
    noise, n = maker(5), 20_000
    first, second = replayed(noise, n, STREAM())
    difference = (second - first)[:, : n // 2]
    assert (first[:2] == second[:2]).all()
    assert (first[:, n // 2 :] == second[:, n // 2 :]).all()
    shifts = noise.strategy.encode(np.eye(5, 1, -2, dtype=np.int64) * noise.case_norm)
    for t in range(2, 5):
        if shifts[t]:
            found = difference[t].var() / (2 * noise.deviation**2)
            assert found == pytest.approx(1, rel=0.15)
        else:  # of windows, and what they do not show of an earlier step
            assert (difference[t] == 0).all()


def test_noise_without_the_value_in_its_key_would_show_the_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: then the difference of the replays is the case's own column of C D, exactly."""

    def of_cells_and_steps(
        first: int, values: np.ndarray, cells: np.ndarray, stream: Randomness, what: str
    ) -> np.ndarray:
        blocks = np.tile(cells, (len(values), 1))
        blocks[:, 1] = np.repeat(np.arange(first, first + len(values)), len(cells)) << 40
        return stream.words(f"{what}/value", blocks)

    noise = totals_of(5)
    monkeypatch.setattr(
        "tracecloak.anonymizers.streams.continual.cells_of_values", of_cells_and_steps
    )
    first, second = replayed(noise, 10, STREAM())
    factor = 64 * int(noise.strategy.column_factors[2])
    column = [0, 0, factor * 1024, factor * 512, factor * 384]
    assert (second - first)[:, 0].tolist() == column


def gaussian_masses(sigma: float, edges: np.ndarray) -> np.ndarray:
    """Of the bins between edges, for a sigma at which the density's sums are the integrals'."""
    return np.diff(stats.norm.cdf(edges - 0.5, scale=sigma))


def laplace_masses(scale: float, edges: np.ndarray) -> np.ndarray:
    def below(x: np.ndarray) -> np.ndarray:  # P(X < x)
        upper = np.exp(-np.where(x > 0, x, 1 - x) / scale) / (1 + math.exp(-1 / scale))
        return np.where(x > 0, 1 - upper, upper)

    return np.diff(below(edges))


@pytest.mark.parametrize(
    ("maker", "masses"),
    [
        (totals_of, gaussian_masses),
        (windows_of, gaussian_masses),
        (partial(pure_windows, participation=Participation(20)), laplace_masses),
    ],
    ids=["totals", "windows", "pure"],
)
def test_law_of_the_noise(
    maker: Callable[..., ContinualNoise], masses: Callable[[float, np.ndarray], np.ndarray]
) -> None:
    """Over 200,000 values in four steps; chi-square at 1e-9; 5 % off in scale must be condemned."""
    n = 50_000
    noise = replace(maker(4), n_cells=n)
    counts = counts_of(4, n=n)
    measured = noise.measure(counts, cell_numbers(np.arange(n)), STREAM(), "law")
    drawn = (measured - noise.strategy.encode(counts)).ravel()
    width = noise.scale[0] / noise.scale[1]
    inner = np.ceil(np.linspace(-4 * width, 4 * width, 60))
    edges = np.concatenate([[-1e15], inner, [1e15]])
    observed = np.histogram(drawn, edges)[0]
    assert p_value(observed, len(drawn) * masses(width, edges)) > ALPHA
    for wrong in (0.95, 1.05):
        assert p_value(observed, len(drawn) * masses(wrong * width, edges)) < ALPHA
    assert drawn.std() == pytest.approx(noise.deviation, rel=0.02)


def test_the_largest_values_do_not_overflow() -> None:
    noise = totals_of(3)
    ends = np.iinfo(np.int64)
    counts = np.tile([ends.max, ends.min, 0, 0, 0], (3, 1))
    measured = noise.measure(counts, CELLS, STREAM(), "dfg")
    assert (measured[:, 0] > 0).all()
    assert (measured[:, 1] < 0).all()
    direct = windows_of(3).add(0, counts, CELLS, STREAM(), "dfg")
    assert (np.abs(direct[:, :2].astype(object)) > LARGEST_VALUE - 10**6).all()
    assert (np.sign(direct[:, :2]) == [1, -1]).all()


@settings(max_examples=6)
@given(
    st.sampled_from([Fraction(1, 10), ONE, Fraction(7)]),
    st.sampled_from([Fraction(1, 100), MILLIONTH]),
    st.integers(1, 60),
    st.integers(64, 5000),
    st.one_of(st.none(), st.integers(1, 9)),
)
def test_the_spend_keeps_what_is_promised_and_wastes_nothing(
    epsilon: Fraction, delta: Fraction, horizon: int, norm: int, length: int | None
) -> None:
    noise = continual_noise(epsilon, delta, horizon, norm, n_cells=3, length=length)
    spend = noise.spend("dfg")
    assert (spend.epsilon, spend.delta) == (epsilon, delta)
    assert 0.97 * epsilon < composed_epsilon([spend], delta) <= float(epsilon) * (1 + 1e-8)
    # The conversion of concentrated privacy holds a larger epsilon.
    rho = float((noise.sensitivity / Fraction(*noise.scale)) ** 2 / 2)
    assert rho + 2 * math.sqrt(rho * math.log(1 / float(delta))) > epsilon


def test_a_unit_that_counts_more_often_pays_for_laplace_noise_so_often() -> None:
    """Ten steps make four stretches of three; what one step of them spends is a third."""
    noise = pure_windows(10, Participation(2, 3))
    assert noise.scale == (6, 1)
    variants = variant_noise(ONE, MILLIONTH, 10, Participation(2, 3))
    for of, delta in ((noise, Fraction(0)), (variants, MILLIONTH)):
        assert of.budget_at(4, Strategy.repeated_norm) == (4, 4 * delta)  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [None, 1, 4])
def test_a_unit_that_changes_more_pays_for_its_norm(length: int | None) -> None:
    """All of the horizon of w-events, and cases that count again (Balle and Wang 2018)."""
    windows, again = Participation(1, 5), Participation(2)
    norms: list[tuple[Participation, list[Callable[[Strategy], Fraction]]]] = [
        (windows, [lambda of: of.norm_over_all(windows)]),
        (again, [lambda of, n=n: of.repeated_norm(n, 3) * 2 for n in (2, 3, 7)]),  # type: ignore[misc]
    ]
    for unit, larger in norms:
        noise = continual_noise(
            ONE, MILLIONTH, 20, 1000, n_cells=1, length=length, participation=unit
        )
        found = [ONE]
        for norm in larger:
            epsilon, delta = noise.budget_at(2, norm)
            ratio = float(norm(noise.strategy)) * 1000 / noise.deviation
            assert delta == MILLIONTH
            assert gaussian_delta(ratio, float(epsilon)) == pytest.approx(1e-6, rel=1e-3)
            assert epsilon > found[-1]
            found.append(epsilon)
    if length == 1:  # as much as that many cases in other steps
        assert float(noise.sensitivity) * math.sqrt(7) == pytest.approx(ratio * noise.deviation)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"delta": Fraction(0)}, r"needs delta above 0; .*length 1"),
        ({"n_cells": 10**8}, "n_cells: 100000000 cells in 20 steps are more than"),
        ({"case_norm": 0}, "case_norm must be at least 1, got 0"),
        ({"n_cells": 0}, "n_cells must be at least 1"),
        ({"units": 0}, "units must be at least 1"),
        ({"horizon": 0}, "horizon must be 1 to"),
        ({"epsilon": 1.0}, "epsilon must be an exact number"),
        ({"epsilon": Fraction(1, 10**9), "delta": Fraction(1, 10**9)}, "the noise would have a"),
    ],
)
def test_parameters_out_of_range_are_refused(changed: dict[str, object], named: str) -> None:
    given = {"epsilon": ONE, "delta": MILLIONTH, "horizon": 20, "case_norm": 1024, "n_cells": 5}
    with pytest.raises(UsageError, match=named):
        continual_noise(**{"length": None, **given, **changed})  # type: ignore[arg-type]


def test_steps_and_cells_beyond_what_was_declared_are_refused() -> None:
    noise = totals_of(3)
    with pytest.raises(UsageError, match="step 3 is outside the horizon of 3 steps"):
        noise.measure(counts_of(4), CELLS, STREAM(), "dfg")
    with pytest.raises(UsageError, match="step 3 is outside"):
        noise.add(2, counts_of(2), CELLS, STREAM(), "dfg")
    with pytest.raises(UsageError, match="cells: 6 columns, but n_cells declares 5"):
        noise.measure(counts_of(3, n=6), cell_numbers(np.arange(6)), STREAM(), "dfg")
    open_domain = variant_noise(ONE, MILLIONTH, 3)
    assert open_domain.add(2, counts_of(1, n=6), cell_numbers(np.arange(6)), STREAM(), "v").shape
    assert open_domain.add(0, np.zeros((0, 6), np.int64), CELLS, STREAM(), "v").shape == (0, 6)


def test_noise_that_is_too_wide_for_finer_integers_is_drawn_on_the_others() -> None:
    """A unit of 2^26 scales would not be refused for the sake of 4 % less error."""
    wide = partial(continual_noise, ONE, MILLIONTH, 9, n_cells=1, length=None)
    assert wide(1 << 18).strategy == Strategy(9, None, COLUMN_UNITS)
    noise = wide(1 << 26)
    assert noise.strategy == Strategy(9, None)
    assert noise.errors(None)[-1] > 0
    with pytest.raises(UsageError, match="the noise would have a scale"):
        wide(1 << 34)

"""The exact privacy loss of streams of two and three steps, with a case in any of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import signal

from tests.support import privacy_loss
from tests.support.privacy_loss import Law, delta_between
from tracecloak.anonymizers.streams.continual import continual_noise, variant_noise
from tracecloak.anonymizers.streams.matrix_mechanism import Participation

ONE = Fraction(1)


def discrete_gaussian_law(sigma: float, reach: int) -> np.ndarray:
    law = np.exp(-((np.arange(-reach, reach + 1) / sigma) ** 2) / 2)
    return law / law.sum()


def delta_of_column(column: list[int], sigma: float, epsilon: float) -> float:
    """The exact delta between measured values and those that a case changes by a column.

    With noise Z on each the loss is (s^2 + 2 s Z) / (2 sigma^2), summed: a function of the integer
    sum of |s| Z, whose law is a convolution. What is cut off, and floats, are below 1e-12.
    """
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
    """A case in one of three steps keeps (epsilon, delta), in the first one only just.

    Controls: noise for a case that would be measured in its own step alone, or for a hundredth
    less, does not; nor does a column whose factor is one larger.
    """
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


@pytest.mark.parametrize(
    "participation", [Participation(), Participation(2), Participation(1, 2, True)]
)
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


@pytest.mark.parametrize("cases", [1, 2])
def test_exact_loss_of_variants_of_cases_that_count_twice(cases: int) -> None:
    """Each case counts in both steps, as a new variant or a known one: twice both hold.

    Control: once delta does not.
    """
    noise = variant_noise(ONE, Fraction(1, 50), 2, Participation(cases))
    epsilon, delta = noise.repeated_epsilon(2, 1)
    threshold, scale = noise.threshold, Fraction(*noise.scale)
    assert threshold is not None

    def fresh(shift: int) -> Law:
        if not shift:
            return Law({None: (privacy_loss.ONE, privacy_loss.ONE)}, 0)
        law = privacy_loss.discrete_laplace(scale, 45, shift)
        return law.map(lambda y: y if isinstance(y, int) and y >= threshold else None)

    def known(shift: int) -> Law:
        return privacy_loss.discrete_laplace(scale, 45, 20 + shift)

    # In the first step some of the cases have the known variant; all others a new one.
    without = laws_of_steps(fresh, (0, 0)).times(known(0))
    found = []
    for new in range(cases + 1):
        whole = laws_of_steps(fresh, (new, cases)).times(known(cases - new))
        found.append(delta_between(whole, without, epsilon)[1])
    assert noise.delta < max(found) <= delta

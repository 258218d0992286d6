"""What releases lose by coordinate, and whether three caps keep the promise against adversaries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.anonymizers.accounting.account_caps import Loss, caps_of, loss_of
from tracecloak.anonymizers.accounting.composed import composed_epsilon
from tracecloak.anonymizers.accounting.composition import (
    COORDINATES_LOSS,
    Block,
    Spend,
    Way,
    total,
)
from tracecloak.anonymizers.accounting.joint import gaussian_scale
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.schemas.errors import UsageError

NONE = Fraction(0)


def gaussian(epsilon: str, delta: str) -> Spend:
    """A count with Gaussian noise of this epsilon and delta."""
    numbers = Fraction(epsilon), Fraction(delta)
    return Spend(
        "edges", "discrete_gaussian", *numbers, gaussian_scale(*numbers, of_count()), Fraction(1)
    )


def pure(epsilon: str) -> Spend:
    """A choice of this epsilon."""
    return Spend("clip", "pure", Fraction(epsilon), NONE)


JOINT = Spend(
    "log", "joint", Fraction(1), Fraction(1, 10**6),
    blocks=(
        Block("variants", (10, 1), Fraction(1), delta=Fraction(1, 10**7)),
        Block("starts", (20, 1), Fraction(2)),
    ),
    choices=(("clip", Fraction(1, 50)), ("balance", Fraction(3, 100))),
    instead=(Way("a tree", (("tree", Fraction(9, 10)),), Fraction(1, 10**8)),),
)  # fmt: skip


def of_cases(part: Spend, t: Fraction) -> Spend:
    """What a share of the cases costs of a part whose noise is made for all of them."""
    if part.mechanism == "pure":
        return replace(part, epsilon=part.epsilon * t)
    if part.mechanism != "joint":
        return replace(part, sensitivity=Fraction(part.sensitivity or 1) * t)
    blocks = (replace(b, sensitivity=b.sensitivity * t, delta=b.delta * t) for b in part.blocks)
    ways = (
        replace(w, parts=tuple((n, e * t) for n, e in w.parts), delta=w.delta * t)
        for w in part.instead
    )
    choices = tuple((name, epsilon * t) for name, epsilon in part.choices)
    return replace(part, blocks=tuple(blocks), choices=choices, instead=tuple(ways))


def test_twenty_releases_cost_less_than_half_of_the_sum_of_their_epsilons_or_a_quarter() -> None:
    """The account of the ledger's page: 20 graphs at epsilon .1, with and without choices."""
    delta = Fraction(1, 10**6)
    assert total([gaussian("0.1", "5e-8")] * 20) == (2, delta)
    loss = loss_of([gaussian("0.1", "5e-8")] * 20)
    assert loss.epsilon(delta) == pytest.approx(0.4164, abs=1e-4)
    with_choices = loss_of([gaussian("0.1", "5e-8"), pure("0.004")] * 20)
    assert loss.epsilon(delta) < with_choices.epsilon(delta) <= loss.epsilon(delta) + 20 * 0.004


def test_a_loss_has_the_largest_of_all_ways_in_each_coordinate() -> None:
    """Choices add up with the dearest way; thresholds with each other."""
    squared = 1 / Fraction(96) + 4 / Fraction(396)
    loss = loss_of([JOINT])
    assert float(loss.squared_mu) == pytest.approx(float(squared), rel=1e-8)
    assert loss.squared_mu >= squared
    assert loss.pure_epsilon == Fraction(95, 100)
    dearer = replace(JOINT, instead=(replace(JOINT.instead[0], delta=Fraction(1, 10**6)),))
    for part, leaked in ((JOINT, Fraction(1, 10**7)), (dearer, Fraction(1, 10**6))):
        exact = leaked + COORDINATES_LOSS
        assert exact <= loss_of([part]).leaked_delta <= exact * (1 + Fraction(1, 10**8))


def test_what_has_no_gaussian_noise_counts_with_its_epsilon_and_delta() -> None:
    """Laplace noise with a threshold, and noise too narrow for the proof."""
    laplace = Spend(
        "variants", "discrete_laplace", Fraction(1, 2), Fraction(1, 10**6), (2, 1), 1
    )  # fmt: skip
    assert loss_of([laplace, pure("0.1")]) == Loss(NONE, Fraction(6, 10), Fraction(1, 10**6))
    narrow = Spend("n", "discrete_gaussian", Fraction(3), Fraction(1, 10), (1, 1), 1)
    assert loss_of([narrow]) == Loss(NONE, Fraction(3), Fraction(1, 10))
    assert loss_of([]) == Loss(NONE, NONE, NONE)
    assert loss_of([]).epsilon(NONE) == 0
    assert loss_of([pure("0.1")]).epsilon(NONE) == pytest.approx(0.1, rel=1e-8)
    assert loss_of([laplace]).epsilon(NONE) == math.inf


@pytest.mark.parametrize(("epsilon", "delta"), [("4", "1e-5"), ("1", "1e-6"), ("0.1", "1e-9")])
def test_caps_follow_the_rule_and_keep_the_promise(epsilon: str, delta: str) -> None:
    """A fifth of epsilon, half of delta, and as much mu as there is room for."""
    asked = Fraction(epsilon), Fraction(delta)
    caps = caps_of(*asked)
    assert caps[1:] == (asked[0] / 5, asked[1] / 2)
    assert float(asked[0]) * 0.9999 < caps.epsilon(asked[1]) <= asked[0] * (1 + 1e-9)
    more = caps._replace(squared_mu=caps.squared_mu * Fraction(1001, 1000))
    assert more.epsilon(asked[1]) > asked[0]


def test_an_account_without_a_delta_has_no_such_caps() -> None:
    """Gaussian noise needs one."""
    with pytest.raises(UsageError, match="delta must be"):
        caps_of(Fraction(1), NONE)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.lists(st.sampled_from((JOINT, gaussian("0.5", "1e-6"), pure("0.2"))), min_size=4),
)
def test_windows_that_divide_an_individuals_cases_cost_what_the_dearest_costs(
    n_cases: list[int], parts: list[Spend]
) -> None:
    """What j of m cases move is made for all m: blocks, choices and thresholds are divided."""
    m, of_windows = sum(n_cases), [loss_of([part]) for part in parts]
    losses = [loss_of([of_cases(p, Fraction(j, m))]) for p, j in zip(parts, n_cases, strict=False)]
    for together, all_of_them in zip(zip(*losses, strict=True), zip(*of_windows, strict=True),
                                     strict=True):  # fmt: skip
        rounding = len(losses) * COORDINATES_LOSS
        assert sum(together) <= max(all_of_them) * (1 + Fraction(1, 10**7)) + rounding


@pytest.mark.parametrize(
    ("parts", "is_of_blocks_alone"),
    [
        ([gaussian("0.3", "1e-7")] * 8, True),
        ([gaussian("0.3", "1e-7"), gaussian("0.05", "1e-8")] * 4, True),
        ([gaussian("0.3", "1e-7"), pure("0.02")] * 8, False),
        ([replace(JOINT, instead=())] * 3, False),
    ],
)
def test_distributions_of_losses_agree(parts: list[Spend], is_of_blocks_alone: bool) -> None:
    """dp-accounting on a whole account: at most this, and of blocks alone within 5 %."""
    delta = Fraction(1, 10**5)
    ours, theirs = loss_of(parts).epsilon(delta), composed_epsilon(parts, delta)
    assert theirs <= ours * 1.001
    if is_of_blocks_alone:
        assert theirs >= 0.95 * ours


# --- An adversary who asks by what was answered. --------------------------------------------------

EPSILON, DELTA = Fraction(1), Fraction(1, 20)
N_PLAYS = 100_000
Filter = Callable[[Loss], bool]


def three_caps(loss: Loss) -> bool:
    """The filter: each sum against a cap that was fixed before."""
    return all(one <= cap for one, cap in zip(loss, caps_of(EPSILON, DELTA), strict=True))


def exchanged(loss: Loss) -> bool:
    """A weak filter: what was spent keeps the promise, whatever it was spent on."""
    return loss.delta(EPSILON).is_at_most(DELTA) is True


def delta_of_the_adversary(admits: Filter) -> tuple[float, float]:
    """Plays on logs of three and of two cases; returns the delta at EPSILON, and its error.

    The first question counts the cases with wide noise. Where the answer speaks for three, the rest
    of the account goes into one pure question, else into one more count.
    """
    first = Loss(Fraction(1, 20), NONE, NONE)

    def most(unit: Loss) -> Loss:
        """The most that is admitted after the first question, to three digits."""
        steps = (Loss(*(n * one / 1000 for one in unit)) for n in range(1500, -1, -1))
        return next(s for s in steps if admits(Loss(*map(sum, zip(first, s, strict=True)))))

    count, choice = most(Loss(Fraction(1), NONE, NONE)), most(Loss(NONE, Fraction(1), NONE))
    rng = np.random.default_rng(7)
    mu = math.sqrt(first.squared_mu)
    answers = 3 + rng.standard_normal(N_PLAYS) / mu
    losses = mu**2 * (answers - 2.5)
    speaks = losses > 0.5 * float(first.squared_mu) + mu  # for three cases, more than usually
    mu = math.sqrt(count.squared_mu)
    counted = mu**2 * (0.5 + rng.standard_normal(N_PLAYS) / mu)
    e = float(choice.pure_epsilon)
    told = np.where(rng.random(N_PLAYS) < 1 / (1 + math.exp(-e)), e, -e)
    losses += np.where(speaks, told, counted)
    gains = np.maximum(-np.expm1(float(EPSILON) - losses), 0)
    return float(gains.mean()), float(gains.std() / math.sqrt(N_PLAYS))


def test_an_adversary_gets_no_more_than_the_promise_and_more_from_a_filter_that_exchanges() -> None:
    """100,000 plays against three caps, and the same against a filter of one number."""
    delta, error = delta_of_the_adversary(three_caps)
    assert delta - 4 * error <= DELTA
    delta, error = delta_of_the_adversary(exchanged)
    assert delta - 4 * error > DELTA

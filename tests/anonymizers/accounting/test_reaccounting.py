"""A joint mechanism with something in its place is accounted for anew, from its numbers alone.

What some of an individual's cases cost: exactly in small mechanisms, and over windows.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from tests.support.generators import spends_of
from tests.support.privacy_loss import (
    ONE,
    Law,
    delta_between,
    discrete_gaussian,
    response,
    together,
)
from tests.support.privacy_loss import (
    power_of_e as power,
)
from tracecloak.anonymizers.accounting import calibration, composed, joint
from tracecloak.anonymizers.accounting.composition import (
    Block,
    Spend,
    gaussian_delta,
)
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.variants.auto import AutoVariants


@cache
def divisions(m: int, largest: int | None = None) -> tuple[tuple[int, ...], ...]:
    """Every way to divide m cases among windows, largest first: (3,), (2, 1), (1, 1, 1)."""
    if not m:
        return ((),)
    return tuple(
        (j, *rest) for j in range(min(m, largest or m), 0, -1) for rest in divisions(m - j, j)
    )


def passing(scale: Fraction, threshold: int, count: int) -> Fraction:
    """An upper bound of P(count + X >= threshold), with discrete Laplace noise."""
    decay = power(-1 / scale)
    least = power(-(threshold - count) / scale)
    return Fraction(least[1], ONE + decay[0])


def threshold_for_all_cases_alone(epsilon: Fraction, delta: Fraction, m: int) -> int:
    """The broken control: what m cases of one variant reach with a chance of delta at most."""
    return next(t for t in itertools.count(m + 1) if passing(m / epsilon, t, m) <= delta)


BUDGETS = [("0.1", "0.001"), ("1", "0.01"), ("1", "1e-6"), ("4", "1e-5"), ("9", "1e-5")]


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("m", [2, 3, 7])
def test_j_new_cases_pass_a_threshold_with_j_shares_of_delta(
    epsilon: str, delta: str, m: int
) -> None:
    """However they are divided among variants; with a case less for the threshold they do not."""
    e, d = Fraction(epsilon), Fraction(delta)
    threshold = calibration.stability_threshold(e, d, m)

    def is_kept(t: int) -> bool:
        return all(
            sum(passing(m / e, t, own) for own in variants) <= d * j / m
            for j in range(1, m + 1)
            for variants in divisions(j)
        )

    assert is_kept(threshold)
    assert not is_kept(threshold - 1)


@pytest.mark.parametrize(("epsilon", "m"), [("0.1", 2), ("1", 2), ("1", 3), ("1", 7)])
def test_a_threshold_for_all_cases_alone_is_caught(epsilon: str, m: int) -> None:
    """Windows with a case each then show one of them too often: as often as m cases of one."""
    e, delta = Fraction(epsilon), Fraction("1e-6")
    wrong = threshold_for_all_cases_alone(e, delta, m)
    assert wrong < calibration.stability_threshold(e, delta, m)
    assert passing(m / e, wrong, m) <= delta
    assert m * passing(m / e, wrong, 1) > delta
    assert passing(m / e, wrong, 1) > delta / m


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("m", [2, 3, 7])
def test_truncated_noise_passes_with_shares_of_delta(epsilon: str, delta: str, m: int) -> None:
    e, d = Fraction(epsilon), Fraction(delta)
    k = calibration.truncated_noise_bound(e, d, m)
    weights = [power(-abs(x) * e / m) for x in range(-k, k + 1)]
    least = sum(low for low, _ in weights)

    def reached(count: int) -> Fraction:
        return Fraction(sum(high for _, high in weights[len(weights) - count :]), least)

    for j in range(1, m + 1):
        for variants in divisions(j):
            assert sum(map(reached, variants)) <= d * j / m


@pytest.mark.parametrize("choice", [Fraction(0), Fraction(1, 5)])
@pytest.mark.parametrize("windows", divisions(2))
def test_gaussian_sums_and_choices_in_windows_keep_what_is_paid(
    windows: tuple[int, ...], choice: Fraction
) -> None:
    """Each window by itself at its share of epsilon and delta, and all of them together."""
    epsilon, delta, m, steps = Fraction(2), Fraction("0.01"), 2, 3
    deviation = joint.joint_deviation(epsilon, delta, (choice,) if choice else ())
    sigma = Fraction(*joint.block_scale(deviation, Fraction(1), m * steps))
    worlds: list[list[Law]] = []
    for with_unit in (1, 0):
        worlds.append([])
        for j in windows:
            own = [discrete_gaussian(sigma, math.ceil(6 * sigma), j * steps * with_unit)]
            if choice:
                own.append(response(choice * j / m, bool(with_unit)))
            worlds[-1].append(together(own))
    for j, ours, theirs in zip(windows, *worlds, strict=True):
        t = Fraction(j, m)
        assert delta_between(ours, theirs, t * epsilon)[1] <= t * delta
    if len(windows) == 1 or not choice:
        assert delta_between(together(worlds[0]), together(worlds[1]), epsilon)[1] <= delta


def of_blocks(
    epsilon: str, delta: str, choices: tuple[str, ...] = (), unseen: tuple[joint.Unseen, ...] = ()
) -> Spend:
    e, d = Fraction(epsilon), Fraction(delta)
    own = tuple(map(Fraction, choices))
    deviation = joint.joint_deviation(e, d, own, unseen)
    sigma = joint.block_scale(deviation, Fraction(1), UNITS)
    block = Block("sums", sigma, Fraction(UNITS), UNITS)
    return Spend("all", "joint", e, d, blocks=(block,), choices=tuple(("c", c) for c in own))


def test_a_large_delta_beside_a_small_epsilon_does_not_divide() -> None:
    """And it does not: half of the cases then cost more than half of delta."""
    for epsilon, delta, divides in (("0.01", "0.2", False), ("0.01", "0.01", True)):
        part = of_blocks(epsilon, delta)
        alone = Spend(
            *("sums", "discrete_gaussian", part.epsilon, part.delta),
            *(joint.gaussian_scale(part.epsilon, part.delta, of_count(UNITS)), Fraction(UNITS)),
        )
        assert composed.divides_by_case([part]) == composed.divides_by_case([alone]) == divides
        deviation = joint.joint_deviation(part.epsilon, part.delta)
        half = gaussian_delta(2 * deviation, part.epsilon / 2)
        assert half.is_at_most(part.delta / 2) is divides


DELTA = Fraction(1, 10**6)


@pytest.fixture(scope="module")
def spend() -> Spend:
    [spend] = spends_of(AutoVariants(), Fraction(1), DELTA)
    return Spend.from_json(spend.to_json())


def with_threshold(spend: Spend, delta: Fraction) -> Spend:
    """The same with another delta of the histogram."""
    tree, histogram = spend.instead
    return replace(spend, instead=(tree, replace(histogram, delta=delta)))


@pytest.mark.parametrize("share", ["0.9", "1", "2"])
def test_a_threshold_that_needs_more_is_noticed(spend: Spend, share: str) -> None:
    """All of delta, whatever the choice was, is too much: the sums lose more after some of it."""
    assert composed.is_accounted_for(with_threshold(spend, DELTA * Fraction(share))) is False


def test_noise_that_is_one_percent_too_small_is_noticed(spend: Spend) -> None:
    blocks = tuple(
        replace(block, scale=(block.scale[0] * 99, block.scale[1] * 100)) for block in spend.blocks
    )
    assert composed.is_accounted_for(replace(spend, blocks=blocks)) is False

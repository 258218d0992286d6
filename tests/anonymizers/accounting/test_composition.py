"""What parts cost together: exact sums, and composition against exact laws and known figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from tests.support.privacy_loss import (
    Law,
    delta_between,
    discrete_gaussian,
    discrete_laplace,
    together,
)
from tests.support.tiers import at_night
from tracecloak.anonymizers.accounting.composed import composed_epsilon
from tracecloak.anonymizers.accounting.composition import (
    Block,
    Spend,
    total,
)
from tracecloak.anonymizers.accounting.joint import Unseen, block_scale, joint_deviation

MILLIONTH = Fraction("1e-6")


def laplace(scale: int, sensitivity: int = 1, delta: str = "0") -> Spend:
    epsilon = Fraction(sensitivity, scale)
    return Spend("counts", "discrete_laplace", epsilon, Fraction(delta), (scale, 1), sensitivity)


def clamped(law: Law, change: int) -> Law:
    """Laplace outcomes below 0 or above the change tell as much as 0 and the change do."""
    return law.map(lambda x: min(max(int(str(x)), 0), change))


def laplace_pair(scale: int, change: int) -> tuple[Law, Law]:
    """The laws of a count of 0 and of `change`, up to what tells them apart."""
    b = Fraction(scale)
    return (
        clamped(discrete_laplace(b, 40 * scale), change),
        clamped(discrete_laplace(b, 40 * scale, change), change),
    )


def gaussian_pair(sigma: int, change: int) -> tuple[Law, Law]:
    s = Fraction(sigma)
    return discrete_gaussian(s, 10 * sigma), discrete_gaussian(s, 10 * sigma, change)


def product(pairs: Iterable[tuple[Law, Law]]) -> tuple[Law, Law]:
    """The laws of several independent outcomes."""
    before, after = zip(*pairs, strict=True)
    return together(before), together(after)


def noisy_count(sigma: int, sensitivity: int) -> Spend:
    # The epsilon of these is only an upper limit here; their noise is what is composed.
    claim = Fraction(5), Fraction("0.0001")
    return Spend("n", "discrete_gaussian", *claim, (sigma, 1), sensitivity)


PARTS = {
    # The parts, the laws of two neighbours, and the share of the answer that is too little.
    "changes by 2": ([laplace(4, 2)] * 2, [laplace_pair(4, 2)] * 2, "0.95"),
    "unequal": ([laplace(2), laplace(5, 3)], [laplace_pair(2, 1), laplace_pair(5, 3)], "0.95"),
    # The part is accounted as one count that changes by 2, which is worse than these two.
    "two counts in a part": ([laplace(3, 2), laplace(3)], [laplace_pair(3, 1)] * 3, "0.4"),
    "one count": ([noisy_count(2, 1)] * 2, [gaussian_pair(2, 1)] * 2, "0.95"),
    # Here the rounding of the continuous Gaussian is paid: sqrt(36 - 4) of 6.
    "counts": ([noisy_count(6, 2)] * 2, [gaussian_pair(6, 2)] * 2, "0.85"),
    "both": ([laplace(3), noisy_count(3, 1)], [laplace_pair(3, 1), gaussian_pair(3, 1)], "0.95"),
}


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("delta", ["0.05", "0.001"])
def test_composed_epsilons_hold_for_the_exact_laws(name: str, delta: str) -> None:
    """Against the products of the laws; a given share of the epsilon, the control, does not."""
    parts, pairs, share = PARTS[name]
    before, after = product(pairs)
    found = composed_epsilon(parts, Fraction(delta))
    assert found < float(total(parts)[0])
    assert delta_between(before, after, Fraction(found))[1] <= Fraction(delta)
    assert delta_between(before, after, Fraction(found) * Fraction(share))[0] > Fraction(delta)


@pytest.mark.parametrize(
    "split_up", [(1, 1), (1, 2), (1, 1, 1), (2, 2), (1, 3), (1, 1, 2), (1, 1, 1, 1)]
)
def test_one_count_dominates_every_split_of_its_sensitivity(split_up: tuple[int, ...]) -> None:
    """The proof in `composed_epsilon`, by exact sums at orders on both sides of 0."""
    one = laplace_pair(2, sum(split_up))
    several = product(laplace_pair(2, change) for change in split_up)
    for eighths in range(-17, 18, 2):  # the losses are whole, so no order is one
        epsilon = Fraction(eighths, 8)
        assert delta_between(*several, epsilon)[0] <= delta_between(*one, epsilon)[1]
    half = Fraction(1, 2)
    assert delta_between(*several, half)[1] < delta_between(*one, half)[0]


def joint_part(
    epsilon: str, delta: str, n_blocks: int, choices: Sequence[str], opened: str | None = None
) -> Spend:
    """Equal shares on a fine lattice; the first block may be of cells that nobody declared."""
    e, d, own = Fraction(epsilon), Fraction(delta), tuple(map(Fraction, choices))
    share = Fraction(1, n_blocks)
    unseen = () if opened is None else (Unseen(share, Fraction(opened)),)
    scale = block_scale(joint_deviation(e, d, own, unseen), share, 10**6)
    passing = Fraction(0) if opened is None else Fraction(opened)
    blocks = tuple(
        Block(f"{i}", scale, Fraction(10**6), delta=passing * (not i)) for i in range(n_blocks)
    )
    chosen = tuple((f"choice {i}", each) for i, each in enumerate(own))
    return Spend("all", "joint", e, d, blocks=blocks, choices=chosen)


JOINT = [
    ("1", "1e-6", 1, ("0.02",)),
    ("1", "1e-6", 4, ("0.02", "0.02", "0.05")),
    ("0.1", "1e-9", 9, ("0.002",)),
    ("8", "1e-5", 3, ()),
]


def by_others(part: Spend, delta: float, interval: float = 1e-4) -> float:
    """Epsilon of a part whose cells are all declared, by distributions rounded up."""
    squared = sum(float(b.sensitivity / Fraction(*b.scale)) ** 2 for b in part.blocks)
    made = pld.from_gaussian_mechanism(
        1 / math.sqrt(squared), value_discretization_interval=interval
    )
    for _, epsilon in part.choices:
        p = 2 / (math.exp(epsilon) + 1)  # keeps the truth with chance 1 - p / 2
        made = made.compose(
            pld.from_randomized_response(p, 2, value_discretization_interval=interval)
        )
    return float(made.get_epsilon_for_delta(delta))


@pytest.mark.parametrize("times", [1, at_night(100)])
@pytest.mark.parametrize("given_", JOINT)
def test_a_joint_part_keeps_what_an_accountant_of_others_finds(
    given_: tuple[str, str, int, tuple[str, ...]], times: int
) -> None:
    """At its own delta and at another. Both round losses up, by 1e-4 a mechanism at most."""
    part = joint_part(*given_)
    slack = 1e-4 * (1 + len(part.choices))
    delta = times * part.delta
    fine = 1e-5 * float(max(1, part.epsilon))
    found, true = composed_epsilon([part], delta), by_others(part, float(delta), fine)
    assert true - fine * (1 + len(part.choices)) <= found <= true * 1.001 + slack
    if times == 1:
        assert 0.99 * part.epsilon - slack <= found <= part.epsilon * (1 + 1e-12)
    else:
        assert found < 0.9 * part.epsilon


def test_what_a_threshold_lets_pass_is_charged_beside_all_blocks() -> None:
    """An upper bound: as if a unit had new cells beside those that are known."""
    part, closed = (joint_part("1", "1e-6", 2, ("0.02",), opened) for opened in ("1e-7", None))
    assert by_others(part, 0.9e-6, 1e-5) > 1.001
    assert composed_epsilon([part], MILLIONTH) == 1
    found, true = composed_epsilon([part], 2 * MILLIONTH), by_others(part, 1.9e-6, 1e-5)
    assert true - 2e-5 <= found <= true + 3e-4
    assert composed_epsilon([closed], 2 * MILLIONTH) < found
    assert composed_epsilon([part], Fraction("1e-8")) == math.inf
    assert composed_epsilon([closed], Fraction("1e-8")) < 2

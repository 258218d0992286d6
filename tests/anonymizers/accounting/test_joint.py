"""One budget for all blocks: exact losses of small mechanisms, and an accountant of larger ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest

from tests.support.privacy_loss import (
    ONE,
    Law,
    delta_between,
    discrete_gaussian,
    power_of_e,
)
from tracecloak.anonymizers.accounting.calibration import exact
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.anonymizers.accounting.joint import (
    Unseen,
    block_scale,
    joint_delta,
    joint_deviation,
)
from tracecloak.schemas.errors import UsageError

HALF, FIFTH = Fraction(1, 2), Fraction(1, 5)


def response(epsilon: Fraction, truth: bool) -> Law:
    """Randomised response, the worst of all choices of an epsilon."""
    low, high = power_of_e(epsilon)
    up = low * ONE // (high + ONE), -(-high * ONE // (low + ONE))
    down = ONE - up[1], ONE - up[0]
    return Law({True: up if truth else down, False: down if truth else up}, 0)


def noisy(count: int, scale: tuple[int, int]) -> Law:
    sigma = Fraction(*scale)
    return discrete_gaussian(sigma, math.ceil(6 * sigma)).map(lambda y: y + count)


def joint(laws: Sequence[Law]) -> Law:
    made = laws[0]
    for law in laws[1:]:
        made = made.times(law)
    return made


EPSILON, DELTA = Fraction(2), Fraction(1, 1000)
STEPS = 4  # of the lattice, a unit


def of_blocks(
    scales: Sequence[tuple[int, int]], changes: Sequence[int], choices: Sequence[Fraction] = ()
) -> tuple[Fraction, Fraction]:
    """The exact delta at EPSILON of noisy sums that one unit changes, and of choices."""
    laws = [
        joint([
            *(noisy(d * with_unit, scale) for scale, d in zip(scales, changes, strict=True)),
            *(response(e, bool(with_unit)) for e in choices),
        ])
        for with_unit in (1, 0)
    ]  # fmt: skip
    return delta_between(laws[0], laws[1], EPSILON)


@pytest.mark.parametrize("choices", [(), (Fraction(1, 10),), (Fraction(1, 20), Fraction(1, 10))])
@pytest.mark.parametrize("shares", [(HALF, HALF), (FIFTH, 1 - FIFTH), (Fraction(1),)])
def test_blocks_and_choices_together_keep_the_claim_and_use_it(
    shares: tuple[Fraction, ...], choices: tuple[Fraction, ...]
) -> None:
    deviation = joint_deviation(EPSILON, DELTA, choices)
    scales = [block_scale(deviation, share, STEPS) for share in shares]
    low, high = of_blocks(scales, [STEPS] * len(shares), choices)
    assert high <= DELTA
    assert low >= DELTA / 2  # of a lattice as coarse as this one, which takes the rest


def test_controls_that_break_the_budget_are_caught() -> None:
    deviation = joint_deviation(EPSILON, DELTA)
    fair = [block_scale(deviation, HALF, STEPS)] * 2
    too_much = [block_scale(deviation, Fraction(7, 10), STEPS)] * 2
    assert of_blocks(fair, [STEPS, STEPS])[1] <= DELTA
    assert of_blocks(too_much, [STEPS, STEPS])[0] > DELTA  # shares of 1.4 together
    assert of_blocks(fair, [STEPS + 2, STEPS + 2])[0] > DELTA  # a sensitivity too small
    unpaid = block_scale(deviation, Fraction(1), 1)
    assert of_blocks([*fair, unpaid], [STEPS, STEPS, 2])[0] > DELTA  # a block that nobody pays
    assert of_blocks(fair, [STEPS, STEPS], [FIFTH])[0] > DELTA  # a choice that nobody pays


def threshold_of(scale: tuple[int, int], passing: Fraction) -> int:
    """The smallest noisy count that a cell of one unit reaches with at most that probability."""
    law = noisy(STEPS, scale)
    above, t = law.rest, max(law.chances)  # type: ignore[type-var]
    while Fraction(above + law.chance(t)[1], ONE) <= passing:
        above += law.chance(t)[1]
        t -= 1
    return t + 1


def of_unseen(
    scale: tuple[int, int],
    others: Sequence[tuple[int, int]],
    n_old: int,
    n_new: int,
    threshold: int,
) -> tuple[Fraction, Fraction]:
    """The same where a unit has old and new cells of a block, and a step of other blocks."""

    def published(y: object) -> object:
        return "published" if y >= threshold else None  # type: ignore[operator]

    laws = []
    for with_unit in (1, 0):
        new = noisy(STEPS, scale).map(published) if with_unit else Law({None: (ONE, ONE)}, 0)
        own = [noisy(STEPS * with_unit, scale)] * n_old + [new] * n_new
        laws.append(joint([*own, *(noisy(STEPS * with_unit, other) for other in others)]))
    return delta_between(laws[0], laws[1], EPSILON)


@pytest.mark.parametrize("share", [FIFTH, HALF, Fraction(1)])
def test_a_cell_that_only_one_unit_has_is_paid_by_its_threshold(share: Fraction) -> None:
    unseen = Unseen(share, DELTA / 2)
    deviation = joint_deviation(EPSILON, DELTA, (), (unseen,))
    scale = block_scale(deviation, share, STEPS)
    others = [block_scale(deviation, 1 - share, STEPS)] if share < 1 else []
    threshold = threshold_of(scale, DELTA / 2)
    for n_old, n_new in ((0, 1), (1, 0)):
        assert of_unseen(scale, others, n_old, n_new, threshold)[1] <= DELTA


@pytest.mark.parametrize("choices", [(), (FIFTH, FIFTH)])
@pytest.mark.parametrize("n_cells", [2, 7])
def test_the_corners_tell_of_any_number_of_new_cells(
    n_cells: int, choices: tuple[Fraction, ...]
) -> None:
    """Both directions, for each number of new cells of two blocks, in enclosures."""
    epsilon, delta = Fraction(1), exact("1e-5")
    unseen = (Unseen(FIFTH, delta / 4), Unseen(Fraction(3, 10), delta / 3))
    deviation = joint_deviation(epsilon, delta, choices, unseen)
    for i in range(n_cells + 1):
        for j in range(n_cells + 1):
            x, y = Fraction(i, n_cells), Fraction(j, n_cells)
            left = 1 - x * unseen[0].share - y * unseen[1].share
            q = x * unseen[0].delta + y * unseen[1].delta
            for shift, added in ((Interval.of(0), q), (Interval.of(1 - q).log(), Fraction(0))):
                found = joint_delta(deviation, left, Interval.of(epsilon) + shift, choices)
                assert (found + Interval.of(added)).is_at_most(delta) is True


def test_of_two_cells_of_a_unit_one_or_both_can_be_new() -> None:
    unseen = Unseen(Fraction(1), DELTA / 2)
    deviation = joint_deviation(EPSILON, DELTA, (), (unseen,))
    scale = block_scale(deviation, HALF, STEPS)  # D = sqrt(2) steps: of one cell half the square
    threshold = threshold_of(scale, DELTA / 4)
    for n_new in (0, 1, 2):
        assert of_unseen(scale, [], 2 - n_new, n_new, threshold)[1] <= DELTA


def test_a_threshold_whose_delta_nobody_pays_is_caught() -> None:
    deviation = joint_deviation(EPSILON, DELTA)
    scale, other = (block_scale(deviation, share, STEPS) for share in (Fraction(1, 100), 1 - FIFTH))
    threshold = threshold_of(scale, DELTA)
    assert of_unseen(scale, [other], 0, 1, threshold)[0] > DELTA


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"epsilon": 1.0}, "epsilon must be an exact number"),
        ({"epsilon": exact("9e-10")}, "must be at least 1e-9, got 9e-10"),
        ({"epsilon": exact("1e-6"), "unseen": (Unseen(FIFTH, DELTA / 9),)}, "raise epsilon"),
        ({"delta": Fraction(0)}, "delta must be above 0"),
        ({"choices": (HALF, HALF)}, "leave nothing of epsilon 1"),
        ({"unseen": (Unseen(FIFTH, DELTA),)}, "leaves nothing of delta"),
        ({"unseen": (Unseen(FIFTH, DELTA / 9),) * 6}, "add up to more than 1"),
    ],
)
def test_what_cannot_be_kept_is_refused(change: dict[str, object], told: str) -> None:
    given = {"epsilon": Fraction(1), "delta": DELTA, "choices": (), "unseen": ()}
    with pytest.raises(UsageError, match=told):
        joint_deviation(**{**given, **change})  # type: ignore[arg-type]

"""The claims of calibrated noise, alone and with one budget, against exact sums over neighbours."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import pytest

from tests.support.privacy_loss import (
    ONE,
    Law,
    delta_between,
    discrete_gaussian,
    discrete_laplace,
    response,
    together,
    truncated_laplace,
)
from tracecloak.anonymizers.accounting.calibration import (
    laplace_scale,
    stability_threshold,
    truncated_noise_bound,
)
from tracecloak.anonymizers.accounting.composed import is_accounted_for
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.anonymizers.accounting.joint import (
    Situation,
    Unseen,
    block_scale,
    gaussian_scale,
    joint_delta,
    joint_deviation,
    losses_of,
)
from tracecloak.anonymizers.accounting.sensitivity import of_count

ABSENT = "absent"
NOTHING = Law({ABSENT: (ONE, ONE)}, 0)
Noise = Callable[[int], Law]  # from a count to the law of the noisy count
Counts = tuple[int, ...]


def reach_of(scale: Fraction) -> int:
    """Where the tails of Laplace noise are below e^-35, which is 6e-16."""
    return int(35 * scale) + 1


def published(noise: Noise, threshold: int, count: int, is_new: bool) -> Law:
    """The law of what a histogram says of one key."""
    if count == 0:
        return NOTHING

    def say(noisy: object) -> object:
        assert isinstance(noisy, int)
        if noisy < threshold:
            return ABSENT
        return "published" if is_new else noisy

    return noise(count).map(say)


def histograms(noise: Noise, threshold: int, before: Counts, after: Counts) -> tuple[Law, Law]:
    """The laws of the whole histogram of two neighbours that agree on which key is which."""
    sides = []
    for counts in (before, after):
        laws = [
            published(noise, threshold, count, is_new=0 in (old, new))
            for count, old, new in zip(counts, before, after, strict=True)
        ]
        sides.append(together(laws))
    return sides[0], sides[1]


def neighbours(n_keys: int, largest: int, max_units: int) -> Iterator[tuple[Counts, Counts]]:
    """All counts 0..largest, each beside all that one unit of 1..max_units makes of them."""
    for before in itertools.product(range(largest + 1), repeat=n_keys):
        for added in itertools.product(range(max_units + 1), repeat=n_keys):
            if 0 < sum(added) <= max_units:
                yield before, tuple(b + a for b, a in zip(before, added, strict=True))


def worst(
    noise: Noise, threshold: int, epsilon: Fraction, pairs: Iterator[tuple[Counts, Counts]]
) -> tuple[Fraction, Fraction]:
    """Encloses the largest delta over pairs of neighbours."""
    remembered = functools.cache(noise)
    found = [
        delta_between(*histograms(remembered, threshold, before, after), epsilon)
        for before, after in pairs
    ]
    return max(low for low, _ in found), max(high for _, high in found)


def laplace_noise(epsilon: Fraction, sensitivity: int, factor: Fraction = Fraction(1)) -> Noise:
    scale = Fraction(*laplace_scale(epsilon, of_count(sensitivity))) * factor
    return lambda count: discrete_laplace(scale, reach_of(scale), count)


def truncated_noise(epsilon: Fraction, sensitivity: int, bound: int) -> Noise:
    scale = Fraction(*laplace_scale(epsilon, of_count(sensitivity)))
    return lambda count: truncated_laplace(scale, bound, count)


HISTOGRAMS = [
    # epsilon, delta: one where a key of many cases is the worst, one where many keys are.
    ("1", "0.01"),
    ("4", "0.01"),
    ("1", "0.000001"),
]


@pytest.mark.by_day(12)
@pytest.mark.parametrize("is_truncated", [False, True])
@pytest.mark.parametrize(("epsilon", "delta"), HISTOGRAMS)
@pytest.mark.parametrize("max_units", [1, 2, 3])
@pytest.mark.parametrize("n_keys", [1, 2])
def test_a_histogram_keeps_its_claim_on_all_tiny_neighbours(
    epsilon: str, delta: str, max_units: int, n_keys: int, is_truncated: bool
) -> None:
    e, d = Fraction(epsilon), Fraction(delta)
    noise, threshold = laplace_noise(e, max_units), stability_threshold(e, d, max_units)
    if is_truncated:
        bound = truncated_noise_bound(e, d, max_units)
        noise, threshold = truncated_noise(e, max_units, bound), bound + 1
    largest = 3 if n_keys == 1 or max_units == 1 else 1 + is_truncated
    assert worst(noise, threshold, e, neighbours(n_keys, largest, max_units))[1] <= d


@pytest.mark.parametrize(
    ("scaled_for", "cut_for", "before", "after"),
    [
        (1, 2, (30,), (32,)),  # the noise of one case: seen on counts that are published
        (2, 1, (0, 0), (1, 1)),  # the threshold of one case: seen on keys that nobody else has
        (2, 1, (0,), (2,)),
    ],
)
def test_a_histogram_for_fewer_cases_than_a_unit_has_is_caught(
    scaled_for: int, cut_for: int, before: Counts, after: Counts
) -> None:
    epsilon, delta = Fraction(1), Fraction("0.01")
    threshold = stability_threshold(epsilon, delta, cut_for)
    noise = laplace_noise(epsilon, scaled_for)
    assert worst(noise, threshold, epsilon, iter([(before, after)]))[0] > delta
    right = laplace_noise(epsilon, 2)
    threshold = stability_threshold(epsilon, delta, 2)
    assert worst(right, threshold, epsilon, iter([(before, after)]))[1] <= delta


def test_a_histogram_with_too_little_noise_is_caught() -> None:
    epsilon, delta = Fraction(1), Fraction("0.001")
    noise, threshold = (
        laplace_noise(epsilon, 1, Fraction(85, 100)),
        stability_threshold(epsilon, delta),
    )
    pairs = iter([((threshold + 5,), (threshold + 6,)), ((0,), (1,))])
    assert worst(noise, threshold, epsilon, pairs)[0] > delta


def gaussian_noise(sigma: tuple[int, int]) -> Noise:
    deviation = Fraction(*sigma)
    return lambda count: discrete_gaussian(deviation, int(9 * deviation) + 1, count)


@pytest.mark.parametrize(
    ("epsilon", "thousandths"),
    # Smallest by the sums below; at epsilon .5 and 2 the noise of 8.053 and 2.247 suffices.
    [("0.5", 8053), ("1", 4231), ("2", 2247)],
)
def test_one_count_needs_just_this_gaussian_noise(epsilon: str, thousandths: int) -> None:
    e, d = Fraction(epsilon), Fraction("0.000001")
    for scale, is_enough in (((thousandths, 1000), True), ((thousandths - 1, 1000), False)):
        assert is_accounted_for(Spend("n", "discrete_gaussian", e, d, scale, 1)) is is_enough
    enough, short = gaussian_noise((thousandths, 1000)), gaussian_noise((thousandths - 1, 1000))
    assert delta_between(enough(0), enough(1), e)[1] <= d
    assert delta_between(short(0), short(1), e)[0] > d


# Changes of two counts, and a rational bound above their L2 norm.
CHANGES = [
    ((1, 0), Fraction(1)),
    ((1, 1), Fraction(14143, 10000)),
    ((2, 1), Fraction(22361, 10000)),
]


@pytest.mark.parametrize(("change", "norm"), CHANGES)
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.001"), ("2.5", "0.00001")])
def test_gaussian_noise_in_two_dimensions(
    change: tuple[int, int], norm: Fraction, epsilon: str, delta: str
) -> None:
    """Summed over the whole grid; controls: a change longer by 2, and 0.6 of sigma."""
    e, d = Fraction(epsilon), Fraction(delta)
    sigma = gaussian_scale(e, d, of_count(norm))
    noise = gaussian_noise(sigma)
    none = noise(0).times(noise(0))
    assert delta_between(none, noise(change[0]).times(noise(change[1])), e)[1] <= d
    assert delta_between(none, noise(change[0] + 2).times(noise(change[1])), e)[0] > d
    small = gaussian_noise((3 * sigma[0], 5 * sigma[1]))
    short = delta_between(small(0).times(small(0)), small(change[0]).times(small(change[1])), e)
    assert short[0] > d


HALF, FIFTH = Fraction(1, 2), Fraction(1, 5)


def noisy(count: int, scale: tuple[int, int]) -> Law:
    sigma = Fraction(*scale)
    return discrete_gaussian(sigma, math.ceil(6 * sigma)).map(lambda y: y + count)


EPSILON, DELTA = Fraction(2), Fraction(1, 1000)
STEPS = 4  # of the lattice, a unit


def of_blocks(
    scales: Sequence[tuple[int, int]], changes: Sequence[int], choices: Sequence[Fraction] = ()
) -> tuple[Fraction, Fraction]:
    """The exact delta at EPSILON of noisy sums that one unit changes, and of choices."""
    laws = [
        together([
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
        laws.append(together([*own, *(noisy(STEPS * with_unit, other) for other in others)]))
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
    epsilon, delta = Fraction(1), Fraction("1e-5")
    unseen = (Unseen(FIFTH, delta / 4), Unseen(Fraction(3, 10), delta / 3))
    deviation = joint_deviation(epsilon, delta, choices, unseen)
    losses = losses_of(choices)
    for i in range(n_cells + 1):
        for j in range(n_cells + 1):
            x, y = Fraction(i, n_cells), Fraction(j, n_cells)
            left = 1 - x * unseen[0].share - y * unseen[1].share
            q = x * unseen[0].delta + y * unseen[1].delta
            for shift, added in ((Interval.of(0), q), (Interval.of(1 - q).log(), Fraction(0))):
                situation = Situation(left, Fraction(0))
                found = joint_delta(deviation, situation, Interval.of(epsilon) + shift, losses)
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

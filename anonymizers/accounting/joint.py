"""One Gaussian budget for all blocks of a release, beside choices and cells that nobody declared.

A *block* is a vector of sums over units whose change by one unit has an L2 norm of at most D. All
blocks of a release together are one Gaussian mechanism: block i has a share f_i, the shares add up
to at most 1, and its noise is sigma_i = s D_i / sqrt(f_i), with one deviation s for all of them.

Proof. Divide block i by sigma_i / s: one unit changes it by at most sqrt(f_i), so the blocks one
after another change by at most sqrt(sum f_i) <= 1 in L2, at deviation s in every coordinate. That
is the Gaussian mechanism of Balle and Wang 2018, Theorem 8. Where a block is chosen by what earlier
ones released, the same holds as long as every mu_i = sqrt(f_i) / s is fixed beforehand: the squares
add up (Dong, Roth, Su 2022, Corollary 3.3). Parts thus pay together what the sum of their epsilons
would pay several times over.

Choices are made by mechanisms that are e-DP each (permute-and-flip, say). The privacy loss of any
of them is dominated by that of randomised response, e with probability e^e / (1 + e^e) and -e
otherwise (Kairouz, Oh, Viswanath 2015), and dominating pairs compose, adaptively too (Zhu, Dong,
Wang 2022, Theorem 10). So the delta of everything at epsilon is the mean of the Gaussian's delta at
epsilon minus the sum of the choices' losses.

Cells that nobody declared, of which the noisy values from a threshold on are released, have a block
of their own. A unit that alone has some of them is seen if one of them passes, which the threshold
lets happen with probability q at most. What else is released has, whether one passed or not, the
law of the Gaussian pair G, G' in which only the part of the block is left that the unit has in
cells of others. With M the release with the unit and M' without it,
P(M in S) <= (1 - q) P(G in S) + q <= e^epsilon P(M' in S) + delta_left(epsilon) + q, and, as
P(M in S) >= (1 - q) P(G in S), P(M' in S) <= e^epsilon P(M in S) + delta_left(epsilon + ln(1 - q)).
Both must stay within delta for each number of new cells that a unit can have.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tracecloak.anonymizers.accounting.calibration import (
    check_epsilon,
    proven_deviation,
    rounded_root,
)
from tracecloak.anonymizers.accounting.gaussian_loss import (
    COORDINATES_LOSS,
    ROUNDING_DEVIATION,
    gaussian_delta,
    rough_gaussian_delta,
)
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.schemas.errors import UsageError


@dataclass(frozen=True)
class Unseen:
    """A block over cells that nobody declared.

    Attributes:
        share: f of the block.
        cases: What can hold of a unit that has new cells, as pairs: how much of the share is in
            cells that others have, too, and the probability that the threshold lets a new one pass.
    """

    share: Fraction
    cases: tuple[tuple[Fraction, Fraction], ...]

    def __post_init__(self) -> None:
        for left, passing in self.cases:
            if not (0 <= left <= self.share and 0 <= passing < 1):
                raise UsageError(
                    f"of a share of {self.share} a part must be left and a probability below 1 "
                    f"pass, got {left} and {passing}"
                )

    @classmethod
    def of_cells(cls, share: Fraction, delta: Fraction, n_cells: int = 1) -> Unseen:
        """Returns the block in which a unit has at most n cells, each changed by the same.

        Each new cell passes with probability delta / n at most: j of them with j delta / n.
        """
        of_new = range(1, n_cells + 1)
        return cls(
            share,
            tuple((share * (n_cells - j) / n_cells, delta * j / n_cells) for j in of_new),
        )


@dataclass(frozen=True)
class Situation:
    """What a pair of neighbours can differ in.

    Attributes:
        left: Share of the Gaussian blocks that the unit changes.
        passing: Probability that something is released that only the unit has.
    """

    left: Fraction
    passing: Fraction


def situations(unseen: Sequence[Unseen]) -> Iterator[Situation]:
    """Yields all, that in which the unit has nothing new first."""
    own = [((block.share, Fraction(0)), *block.cases) for block in unseen]
    whole = sum((block.share for block in unseen), Fraction(0))
    for found in itertools.product(*own):
        left = sum((share for share, _ in found), Fraction(0))
        yield Situation(1 - whole + left, sum((q for _, q in found), Fraction(0)))


@lru_cache(maxsize=1024)
def joint_deviation(
    epsilon: Fraction,
    delta: Fraction,
    choices: tuple[Fraction, ...] = (),
    unseen: tuple[Unseen, ...] = (),
) -> Fraction:
    """Returns the smallest deviation s with which everything together keeps (epsilon, delta).

    Args:
        epsilon: Of the whole, at least 10^-9.
        delta: Of the whole, in (0, 1/2].
        choices: Epsilons of the choices; they may come before, between and after the blocks.
        unseen: The blocks over cells that nobody declared; their shares are at most 1 together.

    Returns:
        s, at most 1e-9 of itself above what the proof needs.

    Raises:
        UsageError: A parameter is out of range, or choices and thresholds alone need more.
    """
    epsilon = check_epsilon(epsilon)
    if not 0 < delta <= Fraction(1, 2):
        raise UsageError(f"delta must be above 0 and at most 1/2 with Gaussian noise, got {delta}")
    if sum((block.share for block in unseen), Fraction(0)) > 1:
        raise UsageError("the shares of blocks add up to more than 1")
    if sum(choices, Fraction(0)) >= epsilon:
        raise UsageError(
            f"choices of epsilon {sum(choices, Fraction(0))} leave nothing of epsilon {epsilon}"
        )
    found = tuple(situations(unseen))
    if max(s.passing for s in found) >= delta:
        raise UsageError(f"what thresholds let pass leaves nothing of delta {delta}")
    # What `calibration.gaussian_scale` proves for discrete noise, of all coordinates together.
    epsilon, delta = epsilon - COORDINATES_LOSS, delta * (1 - COORDINATES_LOSS)
    losses = _losses(choices)
    rough = [(float(loss), float(weight.high)) for loss, weight in losses]

    def seems_enough(deviation: Fraction) -> bool:
        return all(
            _rough_delta(float(deviation), float(s.left), float(epsilon), rough) + float(s.passing)
            <= float(delta)
            for s in found
        )

    def is_enough(deviation: Fraction) -> bool:
        return all(_holds(deviation, s, epsilon, delta, losses) for s in found)

    return proven_deviation(is_enough, seems_enough)


def block_scale(deviation: Fraction, share: Fraction, l2: Fraction | int) -> tuple[int, int]:
    """Returns the parameter sigma of the discrete Gaussian noise of one block.

    Args:
        deviation: s, of all blocks.
        share: f of this one, in (0, 1].
        l2: D, in steps of the block's lattice.

    Returns:
        (numerator, denominator): sqrt(s^2 D^2 / f + 4), rounded up to 8 digits; the 4 are what
        `calibration.gaussian_scale` adds for noise on a lattice.

    Raises:
        UsageError: The share is none, or sigma would be 2^50 or more.
    """
    if not 0 < share <= 1:
        raise UsageError(f"the share of a block must be above 0 and at most 1, got {share}")
    return rounded_root((deviation * l2) ** 2 / share + ROUNDING_DEVIATION**2)


def joint_delta(
    deviation: Fraction, left: Fraction, epsilon: Interval, choices: tuple[Fraction, ...]
) -> Interval:
    """Encloses the smallest delta of choices and Gaussian blocks of which a share is changed.

    Args:
        deviation: s.
        left: The share, from 0 to 1.
        epsilon: At which it is asked for.
        choices: Epsilons of the choices.
    """
    return _mean_delta(deviation, left, epsilon, _losses(choices))


_Losses = list[tuple[Fraction, Interval]]


def _losses(choices: tuple[Fraction, ...]) -> _Losses:
    """The losses of randomised response in every choice, and their probabilities."""
    found: dict[Fraction, Interval] = {Fraction(0): Interval.of(1)}
    for epsilon in choices:
        grown = Interval.of(epsilon).exp()
        up = grown / (grown + 1)
        after: dict[Fraction, Interval] = defaultdict(lambda: Interval.of(0))
        for loss, weight in found.items():
            after[loss + epsilon] = after[loss + epsilon] + weight * up
            after[loss - epsilon] = after[loss - epsilon] + weight * (1 - up)
        found = dict(after)
    return sorted(found.items(), key=lambda item: item[0])


def _holds(
    deviation: Fraction, s: Situation, epsilon: Fraction, delta: Fraction, losses: _Losses
) -> bool:
    at = Interval.of(epsilon)
    with_unit = _mean_delta(deviation, s.left, at, losses) + Interval.of(s.passing)
    if with_unit.is_at_most(delta) is not True:
        return False
    if not s.passing:
        return True
    without = _mean_delta(deviation, s.left, at + Interval.of(1 - s.passing).log(), losses)
    return without.is_at_most(delta) is True


def _mean_delta(
    deviation: Fraction, left: Fraction, epsilon: Interval, losses: _Losses
) -> Interval:
    total = Interval.of(0)
    for loss, weight in losses:
        at = epsilon - Interval.of(loss)
        if left:
            total = total + weight * gaussian_delta(_as_if_whole(deviation, left), at)
        elif at.low < 0:  # nothing but the choices differ
            most = 1 - at.exp()
            total = total + weight * Interval(max(most.low, most.low * 0), most.high, most.digits)
    return total


def _as_if_whole(deviation: Fraction, left: Fraction) -> Fraction:
    """The deviation at which the blocks seem whole, rounded down: what is less noisy is worse."""
    unit = 10**24
    return Fraction(deviation * math.isqrt(math.floor(unit**2 / left)), unit)


def _rough_delta(
    deviation: float, left: float, epsilon: float, losses: Sequence[tuple[float, float]]
) -> float:
    """`_mean_delta` in floats."""
    if not left:
        return sum(weight * max(0.0, -math.expm1(epsilon - loss)) for loss, weight in losses)
    own = deviation / math.sqrt(left)
    return sum(weight * rough_gaussian_delta(own, epsilon - loss) for loss, weight in losses)

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

What is done may also be decided by the choices: the blocks, or in their place something that is
(epsilon - c, delta')-DP, where c is the sum of the choices' epsilons. All choices then come before
the first block, which `rigorous.parts_method.budget_of_parts` asserts. Given an outcome of the
choices of loss l, the delta at epsilon is that of what is then done at epsilon - l: that of the
blocks, or delta' at most, since l <= c. Let Q be the law of the choices without the unit and r the
factor e^l of an outcome. Then r max(delta of the blocks, delta') is a largest of sums that are
linear in r, each r P(S) - e^epsilon P'(S) of a set S of what is then done, and so is convex in r.
Its mean under Q, where r has the mean 1 and lies in [e^-e, e^e], is largest where r is at the ends,
which is randomised response again; several choices follow one by one. So the mean over the losses
of the larger of the two deltas is enough, and where delta' is below that of the blocks whatever
the loss, it costs nothing.

Cells that nobody declared, of which the noisy values from a threshold on are released, have a block
of their own. A unit that alone has some of them is seen if one of them passes, which the threshold
lets happen with probability q at most. What else is released has, whether one passed or not, the
law of the Gaussian pair G, G' in which only the part of the block is left that the unit has in
cells of others. With M the release with the unit and M' without it,
P(M in S) <= (1 - q) P(G in S) + q <= e^epsilon P(M' in S) + delta_left(epsilon) + q, and, as
P(M in S) >= (1 - q) P(G in S), P(M' in S) <= e^epsilon P(M in S) + delta_left(epsilon + ln(1 - q)).
Both must stay within delta whatever the unit has.

Where n of a unit's cells can be new and each passes with probability delta_t / n at most, x n new
ones pass with q = x delta_t and leave 1 - x of the block's share f. To look at x = 0 and x = 1 of
every such block is enough if, for every loss of the choices, the rest e of epsilon has
e^2 >= v + v^2 / 4 and e >= v / 2 + 2 q, with v = f / s^2, f the share of all. First sum: the
Gaussian's delta at e has d delta / dv = phi(sqrt(v) / 2 - e / sqrt(v)) / (2 sqrt(v)), which does
not fall with v while v + v^2 / 4 <= e^2, so the sum is convex in all x together and largest at a
corner. Second: for the best set S at e' = e + ln(1 - q), delta(e') <= delta(e) + (e^e - e^e') P'(S)
and (e^e - e^e') P'(S) <= q / (1 - q) P(S), which is at most q as P(S) <= 1/2 <= 1 - q where
e' >= v / 2, and ln(1 - q) >= -2 q for q <= 1/2. So the second follows from the first.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tracecloak.anonymizers.accounting import calibration
from tracecloak.anonymizers.accounting.composition import (
    COORDINATES_LOSS,
    ROUNDING_DEVIATION,
    gaussian_delta,
    rough_gaussian_delta,
)
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.schemas.errors import UsageError

# `delta_for_unseen` gives thresholds the first share of the delta that seems to be left over; the
# rest is a margin, so that rounding cannot raise the deviation. The thresholds of a block get at
# least the second share of delta.
_SURELY_UNUSED = 0.99
_LEAST_PASSING = 1e-3


@dataclass(frozen=True)
class Unseen:
    """A block over cells that nobody declared.

    Attributes:
        share: f of the block.
        delta: The probability, at most, that a cell passes which no other unit has. If n cells can
            be new, each of them passes with a probability of delta / n, and each has the same part
            of the square of D.
    """

    share: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not (0 < self.share <= 1 and 0 < self.delta <= Fraction(1, 2)):
            raise UsageError(
                "an unseen block has a share above 0 and at most 1 and a delta above 0 and at most "
                f"1/2, got {self.share} and {self.delta}"
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
    """Yields those to look at, that in which the unit has nothing new first.

    Args:
        unseen: The blocks over cells that nobody declared.
    """
    for are_new in itertools.product((False, True), repeat=len(unseen)):
        new = list(itertools.compress(unseen, are_new))
        yield Situation(
            1 - sum((block.share for block in new), Fraction(0)),
            sum((block.delta for block in new), Fraction(0)),
        )


@lru_cache(maxsize=1024)
def joint_deviation(
    epsilon: Fraction,
    delta: Fraction,
    choices: tuple[Fraction, ...] = (),
    unseen: tuple[Unseen, ...] = (),
    instead: Fraction = Fraction(0),
) -> Fraction:
    """Returns the smallest deviation s with which everything together keeps (epsilon, delta).

    Args:
        epsilon: For everything together, at least 10^-9.
        delta: For everything together, in (0, 1/2].
        choices: Epsilons of the choices; they may come before, between and after the blocks.
        unseen: The blocks over cells that nobody declared.
        instead: The largest delta of what may be done in place of the blocks, with the epsilon
            that the choices leave.

    Returns:
        s, at most 1e-9 of itself above what the proof needs.

    Raises:
        UsageError: A parameter is out of range, or choices and thresholds alone need more.
    """
    epsilon = calibration.check_epsilon(epsilon)
    if epsilon < calibration.LEAST_EPSILON:
        raise UsageError(f"epsilon of Gaussian noise must be at least 1e-9, got {float(epsilon)}")
    if not 0 < delta <= Fraction(1, 2):
        raise UsageError(f"delta must be above 0 and at most 1/2 with Gaussian noise, got {delta}")
    if sum((block.share for block in unseen), Fraction(0)) > 1:
        raise UsageError("the shares of blocks add up to more than 1")
    if sum(choices, Fraction(0)) >= epsilon:
        raise UsageError(
            f"choices of epsilon {sum(choices, Fraction(0))} leave nothing of epsilon {epsilon}; "
            "raise it"
        )
    all_situations = tuple(situations(unseen))
    passing = max(s.passing for s in all_situations)
    if max(passing, instead) >= delta:
        raise UsageError(
            f"thresholds spend {max(passing, instead)}, which leaves nothing of delta {delta}"
        )
    least = epsilon - sum(choices, Fraction(0)) - COORDINATES_LOSS
    if passing and least <= 2 * passing:
        raise UsageError(
            f"epsilon {float(epsilon)} is too small beside delta {float(delta)} for cells that "
            "nobody declared: raise epsilon"
        )
    # Discrete noise on all coordinates together loses so much more than continuous noise;
    # `gaussian_scale` has the proof.
    epsilon, delta = epsilon - COORDINATES_LOSS, delta * (1 - COORDINATES_LOSS)
    losses = losses_of(choices)
    rough = [(float(loss), float(weight.high)) for loss, weight in losses]

    def corners_tell(deviation: Fraction) -> bool:
        v = 1 / deviation**2
        return not passing or (v + v**2 / 4 <= least**2 and v / 2 + 2 * passing <= least)

    def seems_enough(deviation: Fraction) -> bool:
        return corners_tell(deviation) and all(
            _rough_delta(float(deviation), s, float(epsilon), rough, float(instead)) <= float(delta)
            for s in all_situations
        )

    def is_enough(deviation: Fraction) -> bool:
        return corners_tell(deviation) and all(
            joint_delta(deviation, s, Interval.of(epsilon), losses, instead).is_at_most(delta)
            is True
            for s in all_situations
        )

    return calibration.proven_deviation(is_enough, seems_enough)


def delta_for_unseen(
    epsilon: Fraction,
    delta: Fraction,
    choices: tuple[Fraction, ...],
    shares: tuple[Fraction, ...],
) -> tuple[Fraction, ...]:
    """Returns how much delta the thresholds can have at nearly the same noise, block by block.

    If the cells that a unit has in a block are new, the unit changes less in the Gaussian blocks,
    and these leave a part of delta unused. `Unseen` with this part raises the deviation by little
    or not at all; `joint_deviation` proves what the deviation is.

    Args:
        epsilon: For everything together.
        delta: For everything together.
        choices: Epsilons of the choices.
        shares: The shares of the unseen blocks.

    Returns:
        A number of two digits for each block, rounded down.
    """
    deviation = float(joint_deviation(epsilon, delta, choices))
    losses = [(float(loss), float(weight.high)) for loss, weight in losses_of(choices)]

    def unused(left: float) -> float:
        situation = Situation(Fraction(max(left, 0.0)), Fraction(0))
        needed = _rough_delta(deviation, situation, float(epsilon), losses)
        return max(float(delta) - needed, float(delta) * _LEAST_PASSING)

    alone = [unused(1 - float(share)) for share in shares]
    together = unused(1 - float(sum(shares)))
    rate = min(1.0, together / sum(alone)) if alone else 1.0
    values = [_SURELY_UNUSED * rate * unused_alone for unused_alone in alone]
    units = [Fraction(10) ** (math.floor(math.log10(value)) - 1) for value in values]
    return tuple(Fraction(value) // unit * unit for value, unit in zip(values, units, strict=True))


def block_scale(deviation: Fraction, share: Fraction, l2: Fraction | int) -> tuple[int, int]:
    """Returns the parameter sigma of the discrete Gaussian noise of one block.

    Args:
        deviation: s, of all blocks.
        share: f of this one, in (0, 1].
        l2: D, in steps of the block's lattice.

    Returns:
        (numerator, denominator): sqrt(s^2 D^2 / f + 4), rounded up to 8 digits; the 4 are what
        `gaussian_scale` adds for noise on a lattice.

    Raises:
        UsageError: The share is none, or sigma would be 2^50 or more.
    """
    if not 0 < share <= 1:
        raise UsageError(f"the share of a block must be above 0 and at most 1, got {share}")
    return calibration.rounded_root((deviation * l2) ** 2 / share + ROUNDING_DEVIATION**2)


def gaussian_scale(
    epsilon: Fraction | int, delta: Fraction | int, sensitivity: Sensitivity
) -> tuple[int, int]:
    """Returns the parameter sigma of discrete Gaussian noise on integers, in any dimension.

    The noise N_Z(sigma^2) has P(x) proportional to exp(-x^2 / (2 sigma^2)) on the integers and is
    drawn for each of at most 10^9 coordinates (Canonne, Kamath, Steinke 2020).

    Proof. Let rho_r(x) = exp(-x^2 / (2 r^2)), sigma^2 = s^2 + r^2 and r = 2. Post-process the
    continuous Gaussian mechanism of deviation s, coordinate by coordinate: from its output u draw
    the integer y with probability rho_r(y - u) / rho_r(Z - u). By Poisson's formula rho_r(Z - u) =
    r sqrt(2 pi) (1 + 2 sum_{i>=1} exp(-2 pi^2 r^2 i^2) cos(2 pi i u)), within a factor 1 +- h of
    r sqrt(2 pi), with h < 2.01 exp(-2 pi^2 r^2) < 1.1e-34 (regularity of discrete Gaussians:
    Micciancio and Regev 2007; Genise, Micciancio, Peikert, Walter 2020). The convolution of both
    densities is the Gaussian of variance sigma^2, so y has probability N(y - f; sigma^2) up to a
    factor in [1 / (1 + h), 1 / (1 - h)] around the exact value f, and the discrete Gaussian
    N(y - f; sigma^2) up to a factor in [1 / (1 + h), 1]. Their log ratio is at most eta =
    2 artanh(h) < 3e-34 per coordinate, d eta < 3e-25 in d <= 10^9 coordinates. If the continuous
    mechanism is (epsilon - 2 d eta, delta e^(-d eta))-DP, the discrete one is (epsilon, delta)-DP.
    s comes from `gaussian_delta`, evaluated in enclosures.

    Args:
        epsilon: At least 10^-9.
        delta: In (0, 1/2].
        sensitivity: Whose L2 norm bounds what one unit changes, in lattice units; the counts that
            it changes are whole numbers.

    Returns:
        (numerator, denominator): sigma, rounded up to 8 digits. It is sqrt(s^2 + 4): less than
        1.00001 times s from s = 500 on, but a third more than one count needs at sensitivity 1 and
        epsilon 2.

    Raises:
        UsageError: A parameter is out of range, or sigma would be 2^50 or more.
    """
    epsilon, delta = calibration.check_epsilon(epsilon), calibration.check_delta(delta)
    return block_scale(joint_deviation(epsilon, delta), Fraction(1), sensitivity.l2)


Losses = list[tuple[Fraction, Interval]]
"""What choices lose together, and with which probability."""


def losses_of(choices: tuple[Fraction, ...]) -> Losses:
    """Returns the losses of randomised response in every choice, by their epsilons."""
    weights: dict[Fraction, Interval] = {Fraction(0): Interval.of(1)}
    for epsilon in choices:
        grown = Interval.of(epsilon).exp()
        up = grown / (grown + 1)
        after: dict[Fraction, Interval] = defaultdict(lambda: Interval.of(0))
        for loss, weight in weights.items():
            after[loss + epsilon] = after[loss + epsilon] + weight * up
            after[loss - epsilon] = after[loss - epsilon] + weight * (1 - up)
        weights = dict(after)
    return sorted(weights.items(), key=lambda item: item[0])


def joint_delta(
    deviation: Fraction,
    s: Situation,
    epsilon: Interval,
    losses: Losses,
    instead: Fraction = Fraction(0),
) -> Interval:
    """Encloses a delta of choices and Gaussian blocks of which a share is changed.

    It is the smallest one where nothing passes and nothing can be done instead.

    Args:
        deviation: Of all blocks.
        s: What neighbours differ in.
        epsilon: At which it is asked for.
        losses: Of the choices.
        instead: The largest delta of what may be done in place of the blocks.
    """
    unit, total = 10**24, Interval.of(0)
    for loss, weight in losses:
        at, then = epsilon - Interval.of(loss), Interval.of(0)
        if s.left:
            # The deviation at which the blocks seem whole, rounded down: less noise is worse.
            whole = Fraction(deviation * math.isqrt(math.floor(unit**2 / s.left)), unit)
            then = gaussian_delta(whole, at)
        elif at.low < 0:  # only the choices differ
            then = (1 - at.exp()).at_least(0)
        total = total + weight * (then + Interval.of(s.passing)).at_least(instead)
    return total


def _rough_delta(
    deviation: float,
    s: Situation,
    epsilon: float,
    losses: Sequence[tuple[float, float]],
    instead: float = 0.0,
) -> float:
    """`joint_delta` in floats."""
    left, passing = float(s.left), float(s.passing)
    total = 0.0
    for loss, weight in losses:
        if left:
            then = rough_gaussian_delta(deviation / math.sqrt(left), epsilon - loss)
        else:
            then = -math.expm1(min(epsilon - loss, 0.0))
        total += weight * max(then + passing, instead)
    return total

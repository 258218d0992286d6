"""Three caps for an account whose releases may depend on what earlier ones released.

The *loss* of a release is bounded by three public numbers, known before anything is drawn:

* v, the sum of squared mu of its Gaussian blocks (`composition.Block.squared_loss`);
* e, the sum of its pure epsilons: choices, Laplace sums, ways taken in place of sums;
* d, the sum of its deltas: thresholds, and parts that are (epsilon, delta)-DP, whose epsilon is in
  e.

An account admits a release only if the sums stay within its caps V, E and D. Let f(epsilon; v, e)
be the delta of a Gaussian mechanism of mu sqrt(v) beside randomised response of epsilon e, which
`joint.joint_delta` computes.

**Theorem.** Whatever is asked and answered, and however questions depend on answers, everything
together is (epsilon, f(epsilon; V, E) + D)-DP for every epsilon.

*One release.* Let G(v) and R(e) be the pairs of laws of the Gaussian mechanism and of randomised
response. The laws of a release on two neighbours are dominated, in both directions, by a leak
beside G(v) and R(e): with probability d at most, by a coin whose law is the same for both
neighbours, everything is revealed. Blocks are dominated by G(v), adaptively for fixed squares
(Dong, Roth, Su 2022, Corollary 3.3); what is pure by R(e), and what is (e, d)-DP by R(e) and a leak
of d (Kairouz, Oh, Viswanath 2015, Theorem 3.4); what a threshold lets pass is a leak (`joint`). A
release whose way is chosen by noise is dominated by a leak, G(v) and R(e) with the largest v, e and
d of its ways, as each way is. Discrete noise is, but for a factor e^a, a = 3e-25, what is made of
continuous noise (`joint.gaussian_scale`): each law is e^-a times that of continuous noise beside
1 - e^-a of another one, which is a leak of a. `COORDINATES_LOSS` is charged for it, once a release.

*Without leaks.* Fix two neighbours, P and Q the laws of all answers, r the ratio dP/dQ of those so
far, and v, e what is left of V and E. Let

    F(r; v, e) = sup over S of r P0(S) - e^epsilon Q0(S), (P0, Q0) = G(v) beside R(e).

It is at least max(r - e^epsilon, 0), and F(1; V, E) = f(epsilon; V, E). Let the next release, which
may depend on all answers, have the loss (v', e'). Its mean of F(r dA/dB; v - v', e - e') under the
law B of its answer is the divergence r A0 - e^epsilon B0 of the release beside G(v - v') and
R(e - e'). Domination survives composition (Zhu, Dong, Wang 2022, Theorem 10), so this is at most
that of G(v') beside G(v - v'), which is G(v), and R(e') beside R(e - e'), which is e-DP and
dominated by R(e). So it is at most F(r; v, e): under Q the remaining divergence F is a
supermartingale. Its mean at the end, and so that of max(r - e^epsilon, 0), is at most
f(epsilon; V, E). The same holds with P and Q exchanged.

*With leaks.* Whether anything leaks is decided by coins whose chances add up to D at most along
every course of answers, so the probability that anything does is at most D. Where nothing does, P
and Q are as above times the same factors, at most 1, so F stays a supermartingale. Hence
P(S) <= P(S, no leak) + D <= e^epsilon Q(S) + f(epsilon; V, E) + D.

The squares against a fixed cap are those of Smith and Thakurta 2022. What does not hold: a cap of
one number for which v, e and d are exchanged, by what was answered (Honkela, Koskela, Tran, Raisa
2026); a test plays that game. Compare Feldman and Zrnic 2021, Whitehouse, Ramdas, Rogers, Wu 2023.

*Windows.* Of releases of windows in which an individual's at most m cases lie, j_w of them in
window w, each loses at most (j_w/m)^2 v_w, j_w/m e_w and j_w/m d_w if it divides by case
(`composed`: a share t of the cases moves each block by t, so its square by t^2 <= t, and divides
each pure epsilon and each threshold's delta). The j_w add up to m at most, so all windows together
lose no more than the largest v_w, the largest e_w and the largest d_w.

*Raising.* Caps that are raised by what was answered are within caps that were fixed when the
account was begun, and it is for these that the theorem holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from tracecloak.anonymizers.accounting.calibration import check_delta, least_epsilon
from tracecloak.anonymizers.accounting.composed import deviation_of
from tracecloak.anonymizers.accounting.composition import COORDINATES_LOSS, Spend, deviation_at
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.anonymizers.accounting.joint import (
    Situation,
    joint_delta,
    joint_deviation,
    losses_of,
)

# The share of an account's epsilon that is for pure parts, and that of its delta that is for the
# sum of deltas. The rest is for Gaussian blocks, by which most is released.
_PURE_SHARE, _LEAKED_SHARE = Fraction(1, 5), Fraction(1, 2)
# Significant digits of a loss, rounded up, and of a cap, rounded down.
_LOSS_DIGITS, _CAP_DIGITS = 9, 6


class Loss(NamedTuple):
    """What releases lose at most, or what they may lose: a sum or a cap by coordinate.

    Attributes:
        squared_mu: Of all Gaussian blocks.
        pure_epsilon: Of all that is pure.
        leaked_delta: The sum of deltas.
    """

    squared_mu: Fraction
    pure_epsilon: Fraction
    leaked_delta: Fraction

    def delta(self, epsilon: Fraction) -> Interval:
        """Encloses the delta at an epsilon, f + D of the theorem."""
        squared_mu, pure, leaked = self
        deviation = deviation_at(squared_mu) if squared_mu else Fraction(1)
        changed = Situation(Fraction(squared_mu > 0), Fraction(0))
        choices = (pure,) if pure else ()
        at = Interval.of(epsilon)
        return joint_delta(deviation, changed, at, losses_of(choices)) + Interval.of(leaked)

    def epsilon(self, delta: Fraction) -> float:
        """Returns the smallest epsilon at a delta, up to a relative 1e-9; infinity: there is none.

        It holds for what was released so far only if no choice of a release depended on an answer;
        for caps it holds whatever was asked.
        """
        if self.leaked_delta > delta or (self.leaked_delta == delta and self.squared_mu):
            return math.inf
        if not self.squared_mu and not self.pure_epsilon:
            return 0.0

        def is_enough(epsilon: Fraction) -> bool:
            return self.delta(epsilon).is_at_most(delta) is True

        return Interval.of(least_epsilon(is_enough)).float_above()


NO_LOSS = Loss(Fraction(0), Fraction(0), Fraction(0))


def loss_of(parts: Iterable[Spend]) -> Loss:
    """Returns what a release of these parts loses at most, each coordinate rounded up.

    Args:
        parts: All of them. Of a part that may be made in several ways, the largest of each
            coordinate counts.
    """
    losses = [NO_LOSS, *map(_loss, parts)]
    squared_mu, pure, leaked = (sum(one, Fraction(0)) for one in zip(*losses, strict=True))
    sums = squared_mu, pure, leaked + COORDINATES_LOSS * (squared_mu > 0)
    return Loss(*(_rounded(one, _LOSS_DIGITS, ROUND_CEILING) for one in sums))


def _loss(part: Spend) -> Loss:
    deviation = deviation_of(part)
    if deviation is None:  # pure, approximate, Laplace, or too narrow for the proof
        return Loss(Fraction(0), part.epsilon, part.delta)
    if part.mechanism != "joint":
        return Loss(1 / deviation**2, Fraction(0), Fraction(0))
    pure = sum((epsilon for _, epsilon in part.choices), Fraction(0))
    leaked = sum((block.delta for block in part.blocks), Fraction(0))
    return Loss(
        sum((block.squared_loss for block in part.blocks), Fraction(0)),
        pure + max((way.epsilon for way in part.instead), default=Fraction(0)),
        max([leaked, *(way.delta for way in part.instead)]),
    )


@lru_cache(maxsize=256)
def caps_of(epsilon: Fraction, delta: Fraction) -> Loss:
    """Returns the caps of an account by the one rule that there is.

    A fifth of epsilon is for pure parts and half of delta for the sum of deltas. The squares of mu
    have the most with which everything keeps epsilon and delta, rounded down to six digits.

    Args:
        epsilon: Of the whole account.
        delta: Of the whole account.

    Raises:
        UsageError: Epsilon is not above 0, or delta is not above 0 and at most 1/2.
    """
    leaked = check_delta(delta) * _LEAKED_SHARE
    pure = _rounded(epsilon * _PURE_SHARE, _CAP_DIGITS, ROUND_FLOOR)
    deviation = joint_deviation(epsilon, delta - leaked, (pure,))
    squared_mu = _rounded(1 / deviation**2, _CAP_DIGITS, ROUND_FLOOR)
    return Loss(squared_mu, pure, _rounded(leaked, _CAP_DIGITS, ROUND_FLOOR))


def _rounded(value: Fraction, digits: int, rounding: str) -> Fraction:
    context = Context(prec=digits, rounding=rounding)
    # Decimals of whole numbers are exact, so nothing is rounded but the quotient.
    return Fraction(context.divide(*map(Decimal, value.as_integer_ratio())))

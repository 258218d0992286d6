"""What some of an individual's cases cost, where noise was made for all that it may have.

Where an individual has at most m cases, a release pays (epsilon, delta) for m cases. It *divides by
case* if j of these cases cost at most (j/m epsilon, j/m delta), for every j from 0 to m.
Then releases of several windows cost an individual no more than the dearest of them, however its m
cases are divided among the windows: with j_w cases in window w basic composition gives sum_w j_w/m
(epsilon_w, delta_w), which is at most the largest epsilon and the largest delta, as the j_w add up
to m at most (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006). That holds whatever methods and
parameters the windows have, as long as m is the same, and adaptively.

What must hold of a method: its statistics are sums over cases, or follow from such sums so that one
case moves them by at most D, whatever the others are; its noise is made for m D. Then j cases,
added one after the other, move them by at most j D in every norm, j/m of what the noise is made
for. What is decided before and chosen by noisy numbers (a vocabulary, a clip, a question) is an
output of the same release, and does not matter here. It does not hold where an individual's cases
are bounded together: of a vector that is clipped for the individual as a whole, one case can move
as much as m.

*Pure parts.* Laplace noise of scale b on counts that j cases change by j D in total loses at most j
D / b, which is j/m of m D / b. A choice by scores which j cases move by j D, and anything else that
is e-DP for m cases because one case costs e / m of any log, loses at most j/m of e: epsilons of
pure mechanisms add along the cases.

*One Gaussian budget* (`accounting.joint`). Let v = 1 / s^2 be the square of mu for m cases, and S
the sum of the choices' losses, each -e_i or e_i by randomised response. With t = j/m, the blocks
have t mu and the choices t e_i. Let f(t) be the Gaussian's delta at t e with t mu. Then f(0) = 0,
and with phi(t mu / 2 - e / mu) = e^(t e) phi(t mu / 2 + e / mu)

    f'(t) = mu phi(t mu / 2 - e / mu) (1 - e / mu R(t mu / 2 + e / mu)), R(x) = Phi(-x) / phi(x).

R falls, and is less than 1/x, so the second factor is positive and grows; so does the first while t
mu / 2 <= e / mu. Hence f is convex on [0, 1] and f(t) <= t f(1) if e >= v / 2. In the mean over the
choices, e is epsilon less S; so let

    epsilon - sum e_i >= v / 2.

The deltas do not fall with S, and randomised response at t e_i has its upper loss with a chance
e^(t e_i) / (1 + e^(t e_i)) that grows with t. So the mean of f(t) over the signs with the chances
of t is at most that with the chances of 1, which is at most t times the delta of m cases.

Noise is discrete. What that loses, 2 d eta (see `gaussian_scale`), does not fall with t, so
at t epsilon the proof needs e - 2 d eta / t in place of e. `COORDINATES_LOSS`, which was taken from
epsilon, is more than 1,000 times 2 d eta, and m is 1,000 at most.

*Cells that nobody declared*, with noise of a Gaussian budget. Each of n = m l cells that a unit of
m cases can have passes with probability delta_t / n, when it has as much as m cases can bring. Of j
cases it has at most j l new ones, none of which has more: they pass with probability x t delta_t if
there are x j l of them, and leave 1 - x of the block's t^2 f, by the same count as for m cases with
j in place of m. So in every situation t times what m cases lose is enough, by the convexity above.
The other direction follows from the first where e >= v / 2 + 2 q (see `joint`); for t of a unit it
needs t e >= t^2 v / 2 + 2 t q, which is weaker.

*Thresholds of Laplace noise* are made for it: `thresholds.stability_threshold` and
`thresholds.truncated_noise_bound` prove j/m of delta for j of m cases, beside j/m of epsilon.

*Something in place of all blocks* (`composition.Way`) divides by case if both ways do: they make
the same choices, at t e_i, and what is done follows from these. The larger of their two deltas does
not fall with S, as neither does, and is t times as large at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.gaussian_loss import (
    COORDINATES_LOSS,
    ROUNDING_DEVIATION,
    continuous_deviation,
)


def divides_by_case(parts: Iterable[Spend]) -> bool:
    """Returns whether the arithmetic of a release's parts divides by case; see the module.

    That j cases move each count, score and sum by at most j/m of what its noise is made for is not
    looked at: a method that says so has proved it. Only a Gaussian budget with a delta far above
    1e-5 beside a small epsilon does not divide.

    Args:
        parts: All of them.
    """
    return all(_divides(part) for part in parts)


def _divides(part: Spend) -> bool:
    squared = Fraction(0)
    if part.mechanism == "joint":
        squared = sum((block.squared_loss for block in part.blocks), Fraction(0))
    elif part.mechanism == "discrete_gaussian" and part.scale and part.sensitivity:
        sigma = Fraction(*part.scale)
        if sigma <= ROUNDING_DEVIATION:
            return False
        squared = (Fraction(part.sensitivity) / continuous_deviation(sigma)) ** 2
    if not squared:  # pure but for thresholds, which are made for it
        return True
    left = part.epsilon - COORDINATES_LOSS - sum((e for _, e in part.choices), Fraction(0))
    return left >= squared / 2

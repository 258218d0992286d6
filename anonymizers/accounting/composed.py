"""An epsilon that the parts of a release keep together, smaller than the sum that is claimed.

It is computed from their privacy loss distributions; the sum is in `composition`. It is computed
anew for what a release says it spent, from its manifest alone; and so is what some of an
individual's cases cost, where noise was made for all that it may have.

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

*Thresholds of Laplace noise* are made for it: `calibration.stability_threshold` and
`calibration.truncated_noise_bound` prove j/m of delta for j of m cases, beside j/m of epsilon.

*Something in place of all blocks* (`composition.Way`) divides by case if both ways do: they make
the same choices, at t e_i, and what is done follows from these. The larger of their two deltas does
not fall with S, as neither does, and is t times as large at most.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

from tracecloak.anonymizers.accounting import composition
from tracecloak.anonymizers.accounting.calibration import least_epsilon
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.anonymizers.accounting.joint import Unseen, joint_delta, losses_of, situations
from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import (  # type: ignore[import-untyped]
        PrivacyLossDistribution,
    )


def divides_by_case(parts: Iterable[composition.Spend]) -> bool:
    """Returns whether the arithmetic of a release's parts divides by case; see the module.

    That j cases move each count, score and sum by at most j/m of what its noise is made for is not
    looked at: a method that says so has proved it. Only a Gaussian budget with a delta far above
    1e-5 beside a small epsilon does not divide.

    Args:
        parts: All of them.
    """
    return all(_divides(part) for part in parts)


def _divides(part: composition.Spend) -> bool:
    deviation = deviation_of(part)
    if deviation is None:  # pure but for thresholds, which are made for it
        return part.mechanism != "discrete_gaussian"
    left = (
        part.epsilon - composition.COORDINATES_LOSS - sum((e for _, e in part.choices), Fraction(0))
    )
    return left >= 1 / (2 * deviation**2)


def deviation_of(part: composition.Spend) -> Fraction | None:
    """Returns the deviation of the continuous Gaussian that a part is, at sensitivity 1.

    It is rounded down. None where there is none: the noise is another, unknown, or too narrow for
    the proof in `gaussian_scale`.
    """
    if part.mechanism == "joint":
        squared = sum((block.squared_loss for block in part.blocks), Fraction(0))
        return composition.deviation_at(squared)
    if part.mechanism != "discrete_gaussian" or part.scale is None or part.sensitivity is None:
        return None
    sigma = Fraction(*part.scale)
    if sigma <= composition.ROUNDING_DEVIATION:
        return None
    return composition.continuous_deviation(sigma) / Fraction(part.sensitivity)


# The part of delta by which a recomputed delta may be off: sensitivities are rounded up where they
# are written, so the numbers that are read prove a little less than the release did.
_SLACK = Fraction(1, 10**4)
# A joint mechanism's situations double with each threshold, and its losses with each choice.
_MOST_UNSEEN = _MOST_CHOICES = 8


def is_accounted_for(part: composition.Spend) -> bool | None:
    """Returns whether the noise of a part is enough for its epsilon and delta.

    Discrete Laplace noise is looked at when a `Spend` is made: its scale is at least sensitivity by
    epsilon. Gaussian noise is, by the exact delta of its epsilon (Balle and Wang 2018; Canonne,
    Kamath, Steinke 2020), and a joint mechanism in every situation that `accounting.joint` proves
    to be enough, every block with a threshold taken as new for the unit as a whole. That the
    sensitivities are those of the method is not looked at.

    Returns:
        None where nothing says what the noise was (`pure`, `approximate`), or where a joint
        mechanism has more choices or thresholds than can be gone through.
    """
    if part.mechanism == "discrete_laplace":
        return True
    if part.mechanism == "joint":
        return _is_joint_enough(part)
    if part.mechanism != "discrete_gaussian":
        return None
    most, deviation = part.delta * (1 + _SLACK), deviation_of(part)
    if deviation is not None:
        needed = composition.gaussian_delta(deviation, part.epsilon - composition.COORDINATES_LOSS)
        if needed.is_at_most(most):
            return True
    if part.sensitivity != 1 or not _FEWEST_SIGMA <= Fraction(*part.scale or (0, 1)) <= _MOST_SIGMA:
        return False
    interval = max(float(part.epsilon) * _FINE, _span(part) / _MAX_INTERVALS)
    count_losses = _losses(part, interval)
    return bool(count_losses.get_delta_for_epsilon(float(part.epsilon)) <= most)


def _is_joint_enough(part: composition.Spend) -> bool | None:
    squared = [block.squared_loss for block in part.blocks]
    whole = sum(squared, Fraction(0))
    unseen = [
        Unseen(squared_loss / whole, block.delta)
        for squared_loss, block in zip(squared, part.blocks, strict=True)
        if block.delta
    ]
    choices = tuple(epsilon for _, epsilon in part.choices)
    deviation = deviation_of(part)
    if len(unseen) > _MOST_UNSEEN or len(set(choices)) > _MOST_CHOICES or deviation is None:
        return None
    most, losses = part.delta * (1 + _SLACK), losses_of(choices)
    epsilon = Interval.of(part.epsilon - composition.COORDINATES_LOSS)
    instead = max((way.delta for way in part.instead), default=Fraction(0))
    return all(
        joint_delta(deviation, situation, epsilon, losses, instead).is_at_most(most) is True
        for situation in situations(unseen)
    )


# Losses are rounded up to multiples of an interval. It is at most the first of these, and so small
# that the smallest epsilon of a part is a thousand of it, unless all losses together would then
# have more than the second number of intervals.
_LARGEST_INTERVAL = 1e-4
# Deviations of the noise of one count whose losses are listed, so that no other takes any time.
_FEWEST_SIGMA, _MOST_SIGMA = Fraction(1, 10), 1000
# Where one count is looked at by itself, an interval is this share of its epsilon.
_FINE = 1e-6
_MAX_INTERVALS = 2_000_000
# The losses of a Gaussian are cut off this many deviations from its mean; the mass beyond is below
# 1e-30.
_GAUSSIAN_REACH = 24
# Above the first of these, e^loss is no float; above the second, a sensitivity gives a count too
# many losses to list.
_MAX_SPAN = 500
_MAX_LISTED_SENSITIVITY = 20_000
# Relative rounding error of a transform of n numbers: log2(n) times this (Higham 2002, 24.1).
_FFT_ERROR = 1e-15
# Covers the float errors of the losses themselves, each below 1e-15 times its size.
_LOSS_SLACK = 1e-12


def composed_epsilon(spends: Iterable[composition.Spend], delta: Fraction) -> float:
    """Returns an upper bound of the epsilon of all parts together at a given delta.

    The smallest of: the sum of epsilons, if the deltas sum to at most `delta`; for a single part,
    what its mechanism keeps in closed form; and the composition of pessimistic privacy loss
    distributions (Koskela, Jälkö, Honkela 2020; Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022,
    the package dp-accounting). Each part stands for the worst of its kind:

    `discrete_laplace` of scale b and L1 sensitivity k is dominated by one count that changes by k.
    With G = max(X, 0), one count that changes by j has loss (j - 2 min(G, j)) / b. Two counts that
    change by i >= j lose (i + j - 2 S) / b, S = min(G, i) + min(G', j), and for y <= i, so for
    every y <= (i + j + 1) / 2, P(S >= y) >= P(G >= y): their positive losses are stochastically
    smaller than those of one count that changes by i + j. Both pairs of laws are symmetric, so the
    hockey-stick divergences are smaller at every order, and domination survives composition (Zhu,
    Dong, Wang 2022). More counts follow by induction. What a threshold adds is (0, delta)-DP beside
    the counts that occur in both inputs.

    `discrete_gaussian` of sensitivity at most 1 changes one count by 1. Any other is a rounded
    continuous Gaussian (see `gaussian_scale`), if sigma exceeds 2, else its own (epsilon,
    delta).

    `joint` is one continuous Gaussian of all its blocks, a randomised response for each choice, and
    what its thresholds let pass, as if a unit had new cells beside all that it changes; where
    something else may be done in its place it counts as `approximate`.

    A part whose losses are too many to list counts as `approximate`. Parts may be chosen adaptively
    if their parameters are fixed beforehand.

    Args:
        spends: The parts.
        delta: At which the epsilon is asked for, in [0, 1).

    Returns:
        Infinity where the parts allow no epsilon at this delta.
    """
    parts = list(spends)
    if isinstance(delta, float) or not 0 <= delta < 1:
        raise UsageError(f"delta must be an exact number in [0, 1), got {delta!r}")
    if not parts:
        return 0.0
    epsilon, used = composition.total(parts)
    bounds = [Interval.of(epsilon).float_above()] if used <= delta else [math.inf]
    if len(parts) == 1:
        bounds.append(_one_part_epsilon(parts[0], delta))
    elif delta > 0:
        bounds.append(_epsilon_from_losses(parts, delta))
    return min(bounds)


def _one_part_epsilon(part: composition.Spend, delta: Fraction) -> float:
    """The closed form for one part."""
    deviation = deviation_of(part)
    if part.mechanism == "discrete_gaussian" and deviation is not None:
        return _gaussian_epsilon(deviation, delta)
    if _is_joint(part) and delta > 0:
        return _epsilon_from_losses([part], delta)
    if part.delta > delta:
        return math.inf
    # Theorem 3.2 of Kairouz, Oh, Viswanath 2015: (e, d)-DP is at worst a randomised response, with
    # delta' = d + (1 - d) (e^e - e^e') / (1 + e^e), solved for e'.
    slack = Interval.of((delta - part.delta) / (1 - part.delta))
    decay = (-Interval.of(part.epsilon)).exp()
    ratio = 1 - slack * (decay + 1)
    if ratio.low <= 0:
        return 0.0 if ratio.high <= decay.low else Interval.of(part.epsilon).float_above()
    return max((Interval.of(part.epsilon) + ratio.log()).float_above(), 0.0)


def _gaussian_epsilon(deviation: Fraction, delta: Fraction) -> float:
    """The smallest epsilon, up to a relative 1e-9, of a Gaussian at sensitivity 1."""
    if delta == 0:
        return math.inf

    def is_enough(epsilon: Fraction) -> bool:
        goal = delta * (1 - composition.COORDINATES_LOSS)
        return composition.gaussian_delta(deviation, epsilon).is_at_most(goal) is True

    return Interval.of(least_epsilon(is_enough) + composition.COORDINATES_LOSS).float_above()


def _is_joint(part: composition.Spend) -> bool:
    """Whether its losses can be listed: not where something else may be done in place of it."""
    return part.mechanism == "joint" and not part.instead


def _span(part: composition.Spend) -> float:
    """How far the losses of a part reach, roughly: it sizes the arrays and is no bound."""
    deviation = deviation_of(part)
    if deviation is None or part.instead:
        return 2 * float(part.epsilon)
    change = 1 / float(deviation)
    noise_reach = change**2 + _GAUSSIAN_REACH * change
    if part.mechanism == "joint":
        return 2 * float(sum(epsilon for _, epsilon in part.choices)) + noise_reach
    return max(2 * float(part.epsilon), noise_reach)


def _epsilon_from_losses(parts: list[composition.Spend], delta: Fraction) -> float:
    span = sum(_span(part) for part in parts)
    if span > _MAX_SPAN:
        return math.inf
    interval = min(_LARGEST_INTERVAL, float(min(part.epsilon for part in parts)) / 1000)
    interval = max(interval, span / _MAX_INTERVALS)
    n_points = 2 * span / interval
    # A transform errs by log2(n) u in the 2-norm, which is at most 1 for probabilities, so the sum
    # over n points errs by sqrt(n) as much; three transforms a part.
    error = 3 * len(parts) * math.sqrt(n_points) * math.log2(n_points) * _FFT_ERROR
    rest = math.nextafter(float(delta) - error, 0.0)
    if rest <= float(delta) / 2:
        return math.inf  # at so small a delta, rounding errors are as large as delta
    repeats = Counter(replace(part, what="") for part in parts)
    first, *others = (
        _losses(part, interval) if times == 1 else _losses(part, interval).self_compose(times)
        for part, times in repeats.items()
    )
    composed = reduce(lambda left, right: left.compose(right), others, first)
    epsilon = float(composed.get_epsilon_for_delta(rest))
    return epsilon + len(parts) * _LOSS_SLACK * (1 + span)


def _losses(part: composition.Spend, interval: float) -> PrivacyLossDistribution:
    """A pessimistic privacy loss distribution of one part."""
    # It is slow to import, and only needed where several parts are accounted for.
    from dp_accounting.pld import common, privacy_loss_distribution  # type: ignore[import-untyped]

    def generic(epsilon: Fraction | int, delta: Fraction) -> PrivacyLossDistribution:
        return privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(
                Interval.of(epsilon).float_above(), Interval.of(delta).float_above()
            ),
            value_discretization_interval=interval,
        )

    def gaussian(deviation: Fraction) -> PrivacyLossDistribution:
        return privacy_loss_distribution.from_gaussian_mechanism(
            Interval.of(deviation).float_below(), value_discretization_interval=interval
        )

    deviation = deviation_of(part)
    if _is_joint(part) and deviation is not None:
        passing = sum((block.delta for block in part.blocks), Fraction(0))
        others = [generic(epsilon, Fraction(0)) for _, epsilon in part.choices]
        if passing:
            others.append(generic(0, passing))
        return reduce(lambda left, right: left.compose(right), others, gaussian(deviation))
    listed = part.sensitivity is not None and part.sensitivity <= _MAX_LISTED_SENSITIVITY
    if part.mechanism == "discrete_laplace" and listed and part.scale and part.sensitivity:
        noise = privacy_loss_distribution.from_discrete_laplace_mechanism(
            Interval.of(Fraction(part.scale[1], part.scale[0])).float_above(),
            sensitivity=int(part.sensitivity),
            value_discretization_interval=interval,
        )
        return noise.compose(generic(0, part.delta)) if part.delta else noise
    if part.mechanism == "discrete_gaussian" and part.scale and part.sensitivity:
        if part.sensitivity <= 1:
            return privacy_loss_distribution.from_discrete_gaussian_mechanism(
                Interval.of(Fraction(*part.scale)).float_below(),
                sensitivity=1,
                value_discretization_interval=interval,
            )
        if deviation is not None:
            return gaussian(deviation)
    return generic(part.epsilon, part.delta)

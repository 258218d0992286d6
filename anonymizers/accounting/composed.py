"""An epsilon that the parts of a release keep together, smaller than the sum that is claimed.

It is computed from their privacy loss distributions; the sum is in `composition`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

from tracecloak.anonymizers.accounting.composition import Spend, total
from tracecloak.anonymizers.accounting.gaussian_loss import (
    COORDINATES_LOSS,
    ROUNDING_DEVIATION,
    continuous_deviation,
    gaussian_delta,
)
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import (  # type: ignore[import-untyped]
        PrivacyLossDistribution,
    )

# Losses are rounded up to multiples of an interval. It is at most the first of these, and so small
# that the smallest epsilon of a part is a thousand of it, unless all losses together would then
# have more than the second number of intervals.
_LARGEST_INTERVAL = 1e-4
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


def composed_epsilon(spends: Iterable[Spend], delta: Fraction) -> float:
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
    epsilon, used = total(parts)
    bounds = [Interval.of(epsilon).float_above()] if used <= delta else [math.inf]
    if len(parts) == 1:
        bounds.append(_of_one(parts[0], delta))
    elif delta > 0:
        bounds.append(_of_losses(parts, delta))
    return min(bounds)


def _of_one(part: Spend, delta: Fraction) -> float:
    """The closed form for one part."""
    deviation = _continuous(part)
    if deviation is not None:
        return _of_gaussian(deviation, delta)
    if _is_joint(part) and delta > 0:
        return _of_losses([part], delta)
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


def _of_gaussian(deviation: Fraction, delta: Fraction) -> float:
    """The smallest epsilon, up to a relative 1e-9, of a Gaussian at sensitivity 1."""
    if delta == 0:
        return math.inf

    def is_enough(epsilon: Fraction) -> bool:
        goal = delta * (1 - COORDINATES_LOSS)
        return gaussian_delta(deviation, epsilon).is_at_most(goal) is True

    high = Fraction(1)
    while not is_enough(high):
        high *= 2
    low = Fraction(0)
    while high - low > max(high / 10**9, Fraction(1, 10**12)):
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return Interval.of(high + COORDINATES_LOSS).float_above()


def _continuous(part: Spend) -> Fraction | None:
    """Deviation per sensitivity of the continuous Gaussian behind a part, rounded down."""
    if part.mechanism != "discrete_gaussian" or part.scale is None or part.sensitivity is None:
        return None
    sigma = Fraction(*part.scale)
    if sigma <= ROUNDING_DEVIATION:
        return None
    return continuous_deviation(sigma) / Fraction(part.sensitivity)


def _is_joint(part: Spend) -> bool:
    """Whether its losses can be listed: not where something else may be done in place of it."""
    return part.mechanism == "joint" and not part.instead


def _span(part: Spend) -> float:
    """How far the losses of a part reach, roughly: it sizes the arrays and is no bound."""
    if _is_joint(part):
        change = math.sqrt(sum(block.squared_loss for block in part.blocks))
        chosen = float(sum(epsilon for _, epsilon in part.choices))
        return 2 * chosen + change**2 + _GAUSSIAN_REACH * change
    if part.mechanism != "discrete_gaussian" or part.scale is None or part.sensitivity is None:
        return 2 * float(part.epsilon)
    change = float(part.sensitivity / Fraction(*part.scale))
    return max(2 * float(part.epsilon), change**2 + _GAUSSIAN_REACH * change)


def _of_losses(parts: list[Spend], delta: Fraction) -> float:
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


def _losses(part: Spend, interval: float) -> PrivacyLossDistribution:
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

    if _is_joint(part):
        squared = sum((block.squared_loss for block in part.blocks), Fraction(0))
        unit = 10**12
        of_all = Fraction(math.isqrt(math.floor(unit**2 / squared)), unit)
        gaussian = privacy_loss_distribution.from_gaussian_mechanism(
            Interval.of(of_all).float_below(), value_discretization_interval=interval
        )
        passing = sum((block.delta for block in part.blocks), Fraction(0))
        others = [generic(epsilon, Fraction(0)) for _, epsilon in part.choices]
        if passing:
            others.append(generic(0, passing))
        return reduce(lambda left, right: left.compose(right), others, gaussian)
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
        deviation = _continuous(part)
        if deviation is not None:
            return privacy_loss_distribution.from_gaussian_mechanism(
                Interval.of(deviation).float_below(), value_discretization_interval=interval
            )
    return generic(part.epsilon, part.delta)

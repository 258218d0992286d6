"""From a bound on an attacker's guessing advantage to epsilons (Amun, sections 3.3 to 3.5, A).

The guessing advantage `g` (the paper's delta) bounds how much a release may raise the probability
that an attacker guesses a value within a precision. What the paper derives from it is here as
printed; what it really bounds is said by the methods that use it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.statistics.durations import DurationTable


def epsilon_of_prior(prior: np.ndarray, guessing_advantage: float) -> np.ndarray:
    """Equation 3 with r = 1: the largest epsilon that keeps the advantage for each prior.

    Args:
        prior: float64[n], prior guessing probabilities P with 0 < P and P + g < 1.
        guessing_advantage: g in (0, 1).

    Returns:
        float64[n].
    """
    g = guessing_advantage
    return -elementary.log(prior / (1 - prior) * (1 / (g + prior) - 1))


def epsilon_of_counts(guessing_advantage: float) -> float:
    """The paper's epsilon_d: Equation 3 at the worst prior (1 - g) / 2 of Equation 2.

    Equals 2 ln((1 + g) / (1 - g)).
    """
    return 2 * float(elementary.log((1 + guessing_advantage) / (1 - guessing_advantage)))


def epsilon_of_oversampling(guessing_advantage: float) -> float:
    """Proposition A.6: the epsilon for counts that only grow.

    With u = exp(-epsilon / 2) it is the root of 2 u^3 - (1 - g) u - (1 - g) in (0, 1), which is
    what the closed form of Equation 9 evaluates to.
    """
    rest = 1 - guessing_advantage
    u = 1.0  # right of the root, where the cubic is convex: Newton's steps fall towards it
    for _ in range(64):
        u -= (2 * u * u * u - rest * u - rest) / (6 * u * u - rest)
    return -2 * float(elementary.log(u))


def advantage_of_oversampling(epsilon: float) -> float:
    """Equation 9: the guessing advantage that counts which only grow by |Laplace| noise allow.

    The inverse of `epsilon_of_oversampling`; tanh(epsilon / 4) is that of counts that also shrink.
    """
    unseen = math.exp(-epsilon)
    return unseen * math.tanh(epsilon / 4) + 1 - unseen


@dataclass(frozen=True)
class PriorRule:
    """How close a guess must be to count, per group of values, in the ticks of the values.

    A guess of x succeeds for values in (x - below, x + above], which is the difference of empirical
    distribution functions of Equation 1.

    Attributes:
        below: int64[n_groups].
        above: int64[n_groups].
        is_clamped: bool[n_groups], whether the lower end stops at the group's smallest value, which
            then does not count itself (the reading of the authors' code).
    """

    below: np.ndarray
    above: np.ndarray
    is_clamped: np.ndarray


@dataclass(frozen=True, eq=False)
class PriorKnowledge:
    """What an attacker can guess of each distinct (group, value) pair of a duration table.

    Attributes:
        inside: int64[n_pairs], values of the group within precision of this one.
        total: int64[n_pairs], values of the group.
        is_constant: bool[n_pairs], whether all values of the group are equal, so that Equation 2's
            worst case stands in for the prior.
        widths: int64[n_pairs], largest minus smallest value of the group, in ticks.
    """

    inside: np.ndarray
    total: np.ndarray
    is_constant: np.ndarray
    widths: np.ndarray

    @classmethod
    def of(cls, table: DurationTable, n_groups: int, rule: PriorRule) -> PriorKnowledge:
        """Evaluates Equation 1 on every distinct value; linear in their number, times a search."""
        index = table.index(n_groups)
        offsets = index.offsets
        smallest, largest = table.extremes(n_groups)
        group, value = table.groups, table.values
        lower = value - rule.below[group]
        lower = np.where(rule.is_clamped[group], np.maximum(lower, smallest[group]), lower)
        cumulative = np.concatenate([[0], np.cumsum(table.counts)])
        upto = cumulative[index.search(group, value + rule.above[group])]
        before = cumulative[index.search(group, lower)]
        total = (cumulative[offsets[1:]] - cumulative[offsets[:-1]])[group]
        widths = (largest - smallest)[group]
        return cls(upto - before, total, widths == 0, widths)

    def exceeds(self, guessing_advantage: float) -> np.ndarray:
        """Returns bool[n_pairs]: P + g >= 1 (section 3.4), decided in integers."""
        # A g with more than six decimals is compared as the nearest such fraction.
        g = Fraction(str(guessing_advantage)).limit_denominator(10**6)
        left, right = self.inside * g.denominator, self.total * (g.denominator - g.numerator)
        return ~self.is_constant & (left >= right)

    def epsilons(
        self, guessing_advantage: float, saturated: float, at_zero_prior: float
    ) -> np.ndarray:
        """Returns float64[n_pairs], Equation 3 of every pair.

        Args:
            guessing_advantage: g in (0, 1).
            saturated: Epsilon where P + g >= 1, for which the equation has no value.
            at_zero_prior: Epsilon where P = 0, for which it is infinite; a clamped rule meets it.
        """
        worst = (1 - guessing_advantage) / 2
        prior = np.where(self.is_constant, worst, self.inside / np.maximum(self.total, 1))
        over = self.exceeds(guessing_advantage)
        none = ~self.is_constant & (self.inside == 0)
        usable = np.where(over | none, worst, prior)
        epsilon = epsilon_of_prior(usable, guessing_advantage)
        return np.where(over, saturated, np.where(none, at_zero_prior, epsilon))

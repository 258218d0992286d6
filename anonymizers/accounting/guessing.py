"""What an attacker's guess can gain from a release, and the epsilon that a gain stands for."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from tracecloak.anonymizers.accounting.calibration import check_epsilon
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.guarantee import Adjacency


@dataclass(frozen=True)
class GuessingAdvantage:
    """What a release lets an attacker gain at most, both rounded up.

    Attributes:
        any_prior: Largest rise of the probability of a guess about one unit's value, over every
            prior: tanh(epsilon / 4) with epsilon of replace-one (Laud, Pankova, Pettai 2020).
            Delta, that of replace-one, comes on top: it is as if the guess were told with that
            probability.
        membership: Largest true minus false positive rate of telling two neighbouring inputs apart,
            (e^epsilon - 1 + 2 delta) / (e^epsilon + 1) (Kairouz, Oh, Viswanath 2015), for the
            adjacency that was asked about: with add/remove, whether a unit is in the input at all.
    """

    any_prior: float
    membership: float


def guessing_advantage_of(
    epsilon: Fraction | int, delta: Fraction | int, adjacency: Adjacency
) -> GuessingAdvantage:
    """Returns the guessing advantages that (epsilon, delta) leaves.

    Args:
        epsilon: Above 0.
        delta: In [0, 1).
        adjacency: What epsilon and delta are for. An add/remove epsilon is doubled for replace-one,
            as replacing is removing and adding.
    """
    epsilon = check_epsilon(epsilon)
    if isinstance(delta, float) or not 0 <= delta < 1:
        raise UsageError(f"delta must be an exact number in [0, 1), got {delta!r}")
    if adjacency not in ("add_remove", "replace_one"):
        raise UsageError(f"adjacency must be add_remove or replace_one, got {adjacency!r}")
    of_replacing = 2 * epsilon if adjacency == "add_remove" else epsilon
    # Written with e^-x, which is tiny where e^x would be huge.
    decay = (-Interval.of(of_replacing / 2)).exp()
    low = (-Interval.of(epsilon)).exp()
    any_prior = (1 - decay) / (decay + 1)
    # (1 - low) / (1 + low) is the same quotient, and 2 delta / (e^epsilon + 1) is what delta adds.
    membership = (1 - low + low * Interval.of(2 * Fraction(delta))) / (low + 1)
    return GuessingAdvantage(min(any_prior.float_above(), 1.0), min(membership.float_above(), 1.0))


# Epsilon is rounded down to so many decimals, so that it is one that can be written down.
_PLACES = Decimal("1e-6")


_MANY_DIGITS = Context(prec=60)


def epsilon_of_guessing_advantage(guessing_advantage: Decimal) -> Decimal:
    """Returns ln((1 + g) / (1 - g)), rounded down to six decimals.

    Args:
        guessing_advantage: g in (0, 1).
    """
    odds = _MANY_DIGITS.divide(1 + guessing_advantage, 1 - guessing_advantage)
    return _MANY_DIGITS.ln(odds).quantize(_PLACES, ROUND_FLOOR)

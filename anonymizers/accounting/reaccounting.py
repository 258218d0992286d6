"""Accounting anew for what a release says it spent, from its manifest alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tracecloak.anonymizers.accounting.composition import Block, Spend, Way
from tracecloak.anonymizers.accounting.gaussian_loss import (
    COORDINATES_LOSS,
    ROUNDING_DEVIATION,
    continuous_deviation,
    gaussian_delta,
)
from tracecloak.anonymizers.accounting.gaussian_scale import discrete_gaussian_delta
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.anonymizers.accounting.joint import Unseen, joint_delta, situations

# The part of delta by which a recomputed delta may be off: sensitivities are rounded up where they
# are written, so the numbers that are read prove a little less than the release did.
_SLACK = Fraction(1, 10**4)
# A joint mechanism's situations double with each threshold, and its losses with each choice.
_MOST_UNSEEN = _MOST_CHOICES = 8


def spend_of_json(body: Mapping[str, Any]) -> Spend:
    """Returns the part that `Spend.to_json` wrote.

    Raises:
        UsageError: The part is impossible: noise of its scale has a larger epsilon, for example.
        KeyError, TypeError, ValueError: The body is no such part.
    """
    sensitivity = body["sensitivity"]
    return Spend(
        body["what"],
        body["mechanism"],
        Fraction(body["epsilon"]),
        Fraction(body["delta"]),
        None if body["scale"] is None else _pair(body["scale"]),
        None if sensitivity is None else Fraction(sensitivity),
        tuple(
            Block(
                block["what"],
                _pair(block["scale"]),
                Fraction(block["sensitivity"]),
                block["units"],
                block["is_per_clip"],
                Fraction(block["delta"]),
            )
            for block in body.get("blocks", ())
        ),
        _named(body.get("choices", ())),
        tuple(
            Way(way["what"], _named(way["parts"]), Fraction(way["delta"]))
            for way in body.get("instead", ())
        ),
    )


def is_accounted_for(part: Spend) -> bool | None:
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
    if part.mechanism == "discrete_gaussian" and part.scale and part.sensitivity:
        sigma, sensitivity = Fraction(*part.scale), Fraction(part.sensitivity)
        if sigma > ROUNDING_DEVIATION:
            deviation = continuous_deviation(sigma) / sensitivity
            needed_delta = gaussian_delta(deviation, part.epsilon - COORDINATES_LOSS)
            if needed_delta.is_at_most(_with_slack(part.delta)):
                return True
        if sensitivity != 1:
            return False
        return discrete_gaussian_delta(part.scale, 1, part.epsilon) <= _with_slack(part.delta)
    if part.mechanism == "joint":
        return _is_joint_enough(part)
    return None


def _is_joint_enough(part: Spend) -> bool | None:
    squared = [block.squared_loss for block in part.blocks]
    whole = sum(squared, Fraction(0))
    unseen = [
        Unseen(squared_loss / whole, block.delta)
        for squared_loss, block in zip(squared, part.blocks, strict=True)
        if block.delta
    ]
    choices = tuple(epsilon for _, epsilon in part.choices)
    if len(unseen) > _MOST_UNSEEN or len(set(choices)) > _MOST_CHOICES:
        return None
    unit = 10**12
    deviation = Fraction(unit, _root_above(whole * unit**2))
    most = _with_slack(part.delta)
    epsilon = Interval.of(part.epsilon - COORDINATES_LOSS)
    instead = max((way.delta for way in part.instead), default=Fraction(0))
    return all(
        joint_delta(deviation, s.left, epsilon, choices, s.passing, instead).is_at_most(most)
        is True
        for s in situations(unseen)
    )


def _root_above(value: Fraction) -> int:
    return math.isqrt(math.ceil(value)) + 1


def _with_slack(delta: Fraction) -> Fraction:
    return delta * (1 + _SLACK)


def _pair(text: str) -> tuple[int, int]:
    value = Fraction(text)
    return value.numerator, value.denominator


def _named(parts: Any) -> tuple[tuple[str, Fraction], ...]:
    return tuple((part["what"], Fraction(part["epsilon"])) for part in parts)

"""Estimates with a standard deviation, and figures that show them beside a released number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tracecloak.schemas.published.figures import Figure

Z95 = 1.959963984540054
"""Standard deviations of normal noise to each side that hold 95 % of it."""

_LARGEST = 1 << 62


@dataclass(frozen=True)
class Estimate:
    """A number as far as noisy sums tell it.

    Attributes:
        value: The number.
        variance: Of its error.
    """

    value: float
    variance: float

    @classmethod
    def of_several(cls, estimates: Sequence[Estimate]) -> Estimate:
        """Returns the mean of independent estimates of one number, each weighed by its precision.

        Args:
            estimates: At least one; the variance of each is above 0.
        """
        weights = [1 / estimate.variance for estimate in estimates]
        total = sum(weights)
        pairs = zip(weights, estimates, strict=True)
        return cls(sum(weight * one.value for weight, one in pairs) / total, 1 / total)

    def figure(self, name: str, of: tuple[str, ...], released: float, kind: str) -> Figure:
        """Returns the figure of a released number.

        Its interval is that of the estimate, 95 % wide, and reaches to the released number where
        that lies outside.

        Args:
            name: See `ReleasedFigures.figures`.
            of: What it is of.
            released: What the released log says.
            kind: See `schemas.published.figure`.
        """
        half = Z95 * math.sqrt(self.variance)
        return figure_within(name, of, released, (self.value - half, self.value + half), kind)


def figure_within(
    name: str, of: tuple[str, ...], released: float, ends: tuple[float, float], kind: str
) -> Figure:
    """Returns a figure whose interval holds both ends and the released number.

    Args:
        name: See `ReleasedFigures.figures`.
        of: What it is of.
        released: What the released log says.
        ends: Of the interval; no end below 0 is shown.
        kind: See `schemas.published.figure`.
    """
    value = round(released)
    low, high = (min(max(end, 0.0), _LARGEST) for end in ends)
    return Figure(name, of, value, min(math.floor(low), value), max(math.ceil(high), value), kind)

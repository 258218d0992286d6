"""Estimates with a standard deviation, and figures that show them beside a released number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tracecloak.schemas.published.figures import Figure
from tracecloak.schemas.published.measures import CASES, Measure, ReleasedMeasures

Z95 = 1.959963984540054
"""Standard deviations of normal noise to each side that hold 95 % of it."""

OF_CORRECTION = 0.5
"""The standard deviation of a correction, as a share of it. It is that of the sum of many arcs as
well: where the released cases are longer than the original ones, all corrections are too large."""

OF_WIDTH = 0.125
"""The standard deviation of the place of a mean within its bin, as a share of the bin's width."""

# A count just above a threshold is rather one that noise has raised: its lower end is lower by as
# many deviations as it is nearer to the threshold than this.
_FAR_FROM_THRESHOLD = 2.0
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

    def ends_of_shown(self, above: float) -> tuple[float, float]:
        """Returns the ends of the interval of a sum that is shown because it is large.

        Args:
            above: By how many deviations of its noise the sum is above what it is shown from.
        """
        deviation, near = math.sqrt(self.variance), max(_FAR_FROM_THRESHOLD - max(above, 0.0), 0.0)
        return self.value - (Z95 + near) * deviation, self.value + Z95 * deviation

    def figure(self, name: str, of: tuple[str, ...], released: float, kind: str) -> Figure:
        """Returns the figure of a released number.

        Its interval is that of the estimate, 95 % wide, and reaches to the released number where
        that lies outside.

        Args:
            name: See `ReleasedFigures.figures`.
            of: What it is of.
            released: What the released log says.
            kind: See `schemas.published.figures`.
        """
        half = Z95 * math.sqrt(self.variance)
        # An estimate below 0 has the upper end of a 0: a lower one would say more than is known.
        ends = self.value - half, max(self.value, 0.0) + half
        return figure_within(name, of, released, ends, kind)


def surest(estimates: Sequence[Estimate]) -> Estimate:
    """Returns the most precise of several estimates that may all err to the same side.

    What clipping or noise hides of long cases makes all of them too small, so their mean is no
    surer than the best of them.

    Args:
        estimates: At least one.
    """
    return min(estimates, key=lambda one: one.variance)


def cases_of(measures: ReleasedMeasures) -> Estimate:
    """Returns how many cases there are, by all parts that counted them, and how precisely."""
    counted = [(row.value, 1 / row.deviation**2) for row in measures.rows(CASES)]
    total = sum(weight for _, weight in counted)
    return Estimate(sum(weight * value for value, weight in counted) / total, 1 / total)


def figure_within(
    name: str, of: tuple[str, ...], released: float, ends: tuple[float, float], kind: str
) -> Figure:
    """Returns a figure whose interval holds both ends and the released number.

    Args:
        name: See `ReleasedFigures.figures`.
        of: What it is of.
        released: What the released log says.
        ends: Of the interval; no end below 0 is shown.
        kind: See `schemas.published.figures`.
    """
    value = round(released)
    low, high = (min(max(end, 0.0), _LARGEST) for end in ends)
    return Figure(name, of, value, min(math.floor(low), value), max(math.ceil(high), value), kind)


def of_clipped(
    measure: Measure,
    whole: float,
    clipped: float,
    least: tuple[float, float] = (1.0, 1.0),
) -> Estimate:
    """Returns what a sum over clipped cases says of one over whole cases.

    Args:
        measure: The sum.
        whole: The same of the released log.
        clipped: The same of its clipped cases.
        least: By how much all sums together are raised at least, as far as the noise allows: the
            ratio that they say, and the largest that they do not exclude.
    """
    ratio, correction = whole / clipped if clipped > 0 else 1.0, whole - clipped
    if least[0] > ratio:
        ratio, correction = least[0], max(correction, (least[0] - 1) * measure.value)
    excess = max(least[1] - ratio, 0.0) / Z95 * measure.value
    variance = (measure.deviation * ratio) ** 2 + (OF_CORRECTION * correction) ** 2 + excess**2
    return Estimate(measure.value * ratio, variance)

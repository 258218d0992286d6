"""How far a figure will be off, as public numbers say it before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecloak.schemas.published.figures import Grade, grade_of, wider_ends
from tracecloak.schemas.published.indicators import SHARE


@dataclass(frozen=True)
class FigureError:
    """Half the width of the 95 % interval that a figure will have.

    Attributes:
        figure: Its name, as in the release.
        half_width: In `unit`; infinite where nothing bounds it.
        unit: As of `schemas.published.indicators`, or `ranks` for cases by which the rank of a
            quantile is off.
        likely: What the figure is taken to be, in the same unit.
        wanted: The half width that was asked for, in the figure's own unit; None: none was.
    """

    figure: str
    half_width: float
    unit: str
    likely: float
    wanted: float | None = None

    @property
    def grade(self) -> Grade:
        """The grade that the figure will have, if it is what it is taken to be."""
        ends = self.likely - self.half_width, self.likely + self.half_width
        if self.unit == SHARE:
            return grade_of(self.likely, *ends, "share")
        lows, highs = wider_ends(*np.array([self.likely, *ends])[:, None])
        return grade_of(self.likely, lows[0], highs[0])

"""How far a figure will be off, as public numbers say it before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FigureError:
    """Half the width of the 95 % interval that a figure will have.

    Attributes:
        figure: Its name, as in the release.
        half_width: In `unit`; infinite where nothing bounds it.
        unit: As of `schemas.published.indicators`, or `ranks` for cases by which the rank of a
            quantile is off.
        is_usable: Whether the figure would be of use, in a log of so many cases.
        wanted: The half width that was asked for, in the figure's own unit; None: none was.
    """

    figure: str
    half_width: float
    unit: str
    is_usable: bool
    wanted: float | None = None

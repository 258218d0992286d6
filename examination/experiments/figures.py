"""Figures of rows: which are known, their quartiles, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterable

from tracecloak.examination.comparison.compare import Row, quartiles

NOTHING = "-"


def values_of(rows: Iterable[Row], name: str, **wanted: str) -> list[float]:
    """Returns a figure of the rows that agree with what is wanted, where it is known."""
    return [
        row[name]
        for row in rows
        if row.get(name) is not None and all(row.get(key) == one for key, one in wanted.items())
    ]


def shown(value: float | None) -> str:
    """Returns a figure as a short text."""
    if value is None:
        return NOTHING
    if value == 0 or 0.001 <= abs(value) < 10:
        return f"{value:.3f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def quartiles_shown(values: Iterable[float | None]) -> str:
    """Returns the median and, in brackets, the quartiles where they differ."""
    spread = quartiles(values)
    if spread is None:
        return NOTHING
    median, low, high = map(shown, spread)
    return median if low == high else f"{median} ({low}-{high})"


def median_of(values: Iterable[float | None]) -> float | None:
    """Returns the median of what is known, or None."""
    spread = quartiles(values)
    return None if spread is None else spread[0]

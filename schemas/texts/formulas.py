"""Names that a spreadsheet computes when it opens them in a CSV, as if they were its formulas.

A released log has its names as they are, since others compare them with their own: none gets an
apostrophe in front. So whoever releases a log is told of them, and decides.
"""

from __future__ import annotations

from collections.abc import Iterable

_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "\n")

FORMULA_BEGINNINGS = "=, +, -, @, a tab or a line end"
"""The same in words."""


def formulas(names: Iterable[str]) -> list[str]:
    """Returns those names that begin as formulas of a spreadsheet do, in their order."""
    return [name for name in names if name.startswith(_BEGINNINGS)]

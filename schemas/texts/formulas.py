"""Names that a spreadsheet computes when it opens them in a CSV, as if they were its formulas.

A released log has its names as they are, since others compare them with their own. So whoever
releases one as CSV is warned of them, and may choose the format `spreadsheet`, which puts an
apostrophe in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

FORMULA = "[=+\\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]"
"""The characters with which a formula begins, as an expression: those that OWASP names for CSV
injection and in ASVS 1.2.10, of full width as well. Behind a space no spreadsheet computes one."""

FORMULA_BEGINNINGS = "=, +, -, @, also of full width, a tab or a line end"
"""The same in words."""


def formulas(names: Iterable[str]) -> list[str]:
    """Returns those names that begin as formulas of a spreadsheet do, in their order."""
    return [name for name in names if re.match(FORMULA, name)]

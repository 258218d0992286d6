"""Decimals as they are written: exact, and never binary floating point."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from tracecloak.schemas.errors import UsageError

# Short enough that no text stands for a number that fills the memory, like 1e999999999.
_DECIMAL = re.compile(r"(?:\d{1,400}(?:\.\d{0,1200})?|\.\d{1,1200})(?:[eE][+-]?\d{1,3})?", re.ASCII)


@lru_cache(maxsize=1024)
def parse_decimal(text: str) -> Fraction:
    """Returns the exact value of a decimal that is not negative, such as 10, 0.1 or 1e-5.

    Raises:
        UsageError: The text is no such decimal, or far too long for one.
    """
    if _DECIMAL.fullmatch(text) is None:
        raise UsageError(f"expected a decimal such as 0.1 or 1e-5, got {text[:80]!r}")
    return Fraction(text)

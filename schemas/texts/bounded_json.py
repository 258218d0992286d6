"""JSON that somebody else may have written, read within bounds and in one way only."""

from __future__ import annotations

import json
from typing import Any

MAX_DEPTH = 500
"""Lists and mappings within one another. A released tree of 200 operators has 400 of them."""
MAX_DIGITS = 400
"""Characters of a number; a floating-point number has no more than 309 digits before its point."""


def bounded_json(data: str | bytes) -> Any:
    """Returns what a JSON text says.

    Readers differ in what they make of a key that is given twice, of NaN and of Infinity, so none
    of them is allowed.

    Raises:
        ValueError: It is no JSON, has one of these, a whole number of more than 400 digits, or
            lists and mappings more than 500 deep.
    """
    try:
        parsed = json.loads(
            data, object_pairs_hook=_mapping, parse_int=_whole, parse_constant=_no_constant
        )
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level, depth = [parsed], 0
    while level := [value for value in level if isinstance(value, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(_TOO_DEEP)
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return parsed


def n_values(data: bytes) -> int:
    """Returns how many values a JSON text has at most, give or take one."""
    return sum(map(data.count, (b",", b"[", b"{")))


_TOO_DEEP = f"lists and mappings are more than {MAX_DEPTH} deep"


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"key given twice: {key[:80]}")
        values[key] = value
    return values


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS} digits")
    return int(digits)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")

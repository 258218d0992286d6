"""Durations and moments as people write them in a configuration: 90d, 6h, 2026-12-01."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction
from typing import Annotated, Any

import pydantic

_SECOND_US = 1_000_000
_UNITS_US = {
    "ms": 1_000,
    "s": _SECOND_US,
    "m": 60 * _SECOND_US,
    "h": 3_600 * _SECOND_US,
    "d": 86_400 * _SECOND_US,
    "w": 7 * 86_400 * _SECOND_US,
}
_DURATION = re.compile(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s|m|h|d|w)\s*")
# Texts for people show a week as seven days, since 13w is hard to compare with 90d.
_SPOKEN = {"d": "day", "h": "hour", "m": "minute", "s": "second"}


def duration_us(value: Any) -> int:
    """Returns the microseconds of a text such as 1h, 30m or 1.5s.

    Raises:
        ValueError: It is no number with a unit, or no whole number of milliseconds.
    """
    match = _DURATION.fullmatch(str(value))
    if match is None:
        raise ValueError("must be a number with a unit, such as 90s, 30m, 1h, 1d or 2w")
    micros = Fraction(match[1]) * _UNITS_US[match[2]]
    if micros % _UNITS_US["ms"]:
        raise ValueError("must be a whole number of milliseconds")
    return int(micros)


def duration_text(micros: int) -> str:
    """Returns a duration in words, in its largest units: 900 days, 1 day 6 hours, 0 seconds."""
    parts, rest = [], micros
    for unit, word in _SPOKEN.items():
        n, left = divmod(rest, _UNITS_US[unit])
        if unit == "s" and left:
            parts.append(f"{rest / _SECOND_US:g} seconds")
        elif n:
            parts.append(f"{n} {word}" if n == 1 else f"{n} {word}s")
        rest = left
    return " ".join(parts) or "0 seconds"


def short_duration(micros: int) -> str:
    """Returns a duration as `duration_us` reads it, in its largest unit below a week: 90d, 36h."""
    for unit in ("d", "h", "m", "s"):
        if micros % _UNITS_US[unit] == 0:
            return f"{micros // _UNITS_US[unit]}{unit}"
    return f"{micros // _UNITS_US['ms']}ms"


def moment_us(value: Any) -> int:
    """Returns microseconds since 1970 of an ISO 8601 date or time; UTC without an offset.

    Raises:
        ValueError: It is neither, or no whole number of milliseconds.
    """
    if not isinstance(value, datetime.date):
        try:
            value = datetime.datetime.fromisoformat(str(value))
        except ValueError:
            raise ValueError("must be like 2026-12-01 or 2026-12-01T08:00:00+01:00") from None
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    since = value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    micros = int(since / datetime.timedelta(microseconds=1))
    if micros % _UNITS_US["ms"]:
        raise ValueError("must be a whole number of milliseconds")
    return micros


# These are types of configuration keys: the file has a text, and the key holds microseconds.
Duration = Annotated[
    int,
    pydantic.BeforeValidator(duration_us),
    pydantic.WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$"}),
]
# YAML reads a date without quotes as a date.
Moment = Annotated[
    int,
    pydantic.BeforeValidator(moment_us),
    pydantic.WithJsonSchema({"type": "string", "format": "date-time"}),
]

"""What a method does and is given, in words of a line: for statements and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.schemas.published.manifest import SUPPRESSED_STARTS, Operation
from tracecloak.schemas.texts.escapes import escaped
from tracecloak.transforms.publish.promise import exact

_LONGEST_VALUE = 60


def printable(text: str) -> str:
    """One line; characters that steer become U+FFFD."""
    line = " ".join(text.split())
    return escaped(line, escape=lambda _: "\ufffd")


_DOES = {
    "suppression": "leaves out",
    "addition": "adds",
    "substitution": "replaces",
    "condensation": "sums up",
    "swapping": "swaps",
    "generalization": "makes coarser",
    "cryptography": "encrypts",
}
MECHANISMS = {
    "discrete_laplace": "discrete Laplace noise",
    "discrete_gaussian": "discrete Gaussian noise",
    "joint": "one Gaussian mechanism, with choices",
    "pure": "noise or a choice with this epsilon",
    "approximate": "noise or a choice with this epsilon and delta",
}
_TARGETS = {"concept:name": "activities", "time:timestamp": "times", "org:resource": "resources"}


def operations_in_words(operations: Sequence[Operation]) -> str:
    """What was done to the log in a sentence, or nothing."""
    done: dict[str, list[str]] = {}
    for operation in operations:
        what = f"{_TARGETS.get(operation.target, operation.target)} of {operation.level}s"
        if operation.target == operation.level:
            what = f"whole {operation.level}s"
        elif operation == SUPPRESSED_STARTS:
            what = "when cases begin"
        done.setdefault(_DOES.get(operation.type, operation.type), []).append(what)
    parts = [f"it {does} {_together(whats)}" for does, whats in done.items()]
    return f"Of the log, {'; '.join(parts)}." if parts else ""


def _together(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and its length."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def value_in_words(name: str, value: Any) -> str:
    """A parameter's value in a few words; long lists by their length."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and Decimal(str(value)).is_finite():
        return decimal_text(exact(value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        if name == "vocabulary":
            return f"{len(value):,} public activity name{'s' if len(value) != 1 else ''}"
        listed = ", ".join(value_in_words("", item) for item in value)
        return listed if 0 < len(listed) <= _LONGEST_VALUE else f"a list of {len(value):,}"
    if isinstance(value, Mapping):
        listed = ", ".join(f"{key}: {value_in_words('', item)}" for key, item in value.items())
        return listed if 0 < len(listed) <= _LONGEST_VALUE else f"{len(value):,} entries"
    return shortened(printable(str(value)), _LONGEST_VALUE)


def params_in_words(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, value) of each parameter that is not empty, was given and is not off."""
    return [
        (name, value_in_words(name, value))
        for name, value in params.items()
        if value not in (None, [], {}) and value is not False
    ]


def sum_of(spends: Sequence[Mapping[str, Any]], name: str) -> str:
    """The sum of `epsilon` or `delta` of all parts."""
    return decimal_text(sum((Fraction(part[name]) for part in spends), Fraction(0)))

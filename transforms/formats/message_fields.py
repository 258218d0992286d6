"""Fields of a message: what a path leads to, and what of it is a scalar.

Take `payload.after.case_id`. A message that has a field of just that name gives this one; in any
other, each dot leads into an object. Each message is read by itself, and no other has a say in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tracecloak.schemas.events.tally import NO_SCALAR
from tracecloak.schemas.streams.message_reasons import NO_UTF8

Field = Callable[[Mapping[str, Any]], Any]
"""Returns what a message has in a field; None where it has none."""

# How JSON names the branches of an Avro union that hold a scalar, and what a value of them is.
_BRANCHES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    **dict.fromkeys(("int", "long"), (int,)),
    **dict.fromkeys(("float", "double"), (int, float)),
}


class UnreadError(ValueError):
    """A message is no event, for one of MESSAGE_REASONS."""


class Stamp(int):
    """A number that its schema calls a time.

    Attributes:
        micros: Microseconds since 1970 UTC, of any size; None: `text` says when.
        text: ISO 8601 by the clock of the zone in which times are read; None: it is out of range.
    """

    micros: int | None = None
    text: str | None = None


def field_at(path: str) -> Field:
    """Returns what reads the field of a name, or of names within one another.

    Raises:
        UnreadError: On reading: a dot of the path leads into what is no object.
    """
    if "." not in path:
        return lambda body: body.get(path)
    head, _, rest = path.partition(".")
    inner = field_at(rest)

    def value(body: Mapping[str, Any]) -> Any:
        if path in body:
            return body[path]
        outer = body.get(head)
        if outer is not None and type(outer) is not dict:
            raise UnreadError(NO_SCALAR)
        return None if outer is None else inner(outer)

    return value


def scalar(value: Any) -> Any:
    """Returns a field as a scalar of Python; None where there is none.

    Raises:
        UnreadError: It is no scalar, no finite number, or no UTF-8.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise UnreadError(NO_UTF8) from None
        return value
    if value is None or kind is int or kind is bool:
        return value
    if kind is float and math.isfinite(value):
        return value
    if kind is Stamp:
        return int(value)
    if kind is dict and len(value) == 1:  # a branch of an Avro union, as JSON has it
        (branch,) = value.items()
        if type(branch[1]) in _BRANCHES.get(branch[0], ()):
            return scalar(branch[1])
    raise UnreadError(NO_SCALAR)

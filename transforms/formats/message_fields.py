"""Fields of a record or message: what a path leads to, and what of it is a scalar.

Take `payload.after.case_id`. A record that has a field of just that name gives this one; in any
other, each dot leads into an object, in which the same holds of the rest. Each record is read by
itself, and no other has a say in it. Where a file declares its fields, they decide alike for all
of its records. No path leads into a list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from operator import methodcaller
from typing import Any, TypeVar

from tracecloak.schemas.events.tally import NO_SCALAR
from tracecloak.schemas.streams.message_reasons import NO_UTF8

Field = Callable[[Mapping[str, Any]], Any]
"""Returns what a record has in a field; a default where it has none."""

NO_OBJECT: dict[str, Any] = {}
"""What a field is, which is no scalar, where a dot of its path leads into what is no object."""

# No more objects than these are looked into for a list of fields, and none within so many others.
_LISTED_OBJECTS = 1_000
_LISTED_DEPTH = 32

_T = TypeVar("_T")

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


def field_at(path: str, default: Any = None) -> Field:
    """Returns what reads the field of a name, or of names within one another.

    Args:
        path: The name, or the names with dots between them.
        default: What is read where there is no such field.
    """
    if "." not in path:
        return methodcaller("get", path, default)
    head, _, rest = path.partition(".")
    inner = field_at(rest, default)

    def value(body: Mapping[str, Any]) -> Any:
        if path in body:
            return body[path]
        outer = body.get(head)
        if type(outer) is dict:
            return inner(outer)
        return default if outer is None else NO_OBJECT

    return value


def declared_at(
    fields: Mapping[str, _T], path: str, within: Callable[[_T], Mapping[str, _T] | None]
) -> tuple[tuple[str, ...], _T] | None:
    """Returns the names that lead to a declared field as `field_at` reads it, and the field.

    Args:
        fields: Those of the file, by name.
        path: See `field_at`.
        within: Returns the fields of a field that is an object, and None of others.

    Returns:
        None if there is no such field.
    """
    if path in fields:
        return (path,), fields[path]
    head, _, rest = path.partition(".")
    inner = within(fields[head]) if head in fields else None
    found = None if inner is None else declared_at(inner, rest, within)
    return None if found is None else ((head, *found[0]), found[1])


def paths_of(
    fields: Mapping[str, _T], within: Callable[[_T], Mapping[str, _T] | None]
) -> Iterator[tuple[str, _T]]:
    """Yields fields by their paths: all at the top, then those within them, and so on.

    Looks into 1,000 objects, and none within 32 others.

    Args:
        fields: See `declared_at`.
        within: See `declared_at`.
    """
    objects = [("", fields)]
    for prefix, inner in objects:  # those that are found meanwhile, too
        for name, one in inner.items():
            yield prefix + name, one
            # A dot in the name of an object would be read as a path.
            is_entered = "." not in name and prefix.count(".") < _LISTED_DEPTH
            if is_entered and len(objects) < _LISTED_OBJECTS and (deeper := within(one)):
                objects.append((f"{prefix}{name}.", deeper))


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

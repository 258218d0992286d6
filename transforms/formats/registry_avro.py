"""Avro schemas of a registry, as far as they can be used: what somebody else wrote is judged first.

A schema may be of any kind that a sender can register, and fastavro follows it as far as it goes:
a type that holds itself takes the stack of the process with one message, and a list of values that
take no byte takes its memory. Such a schema is refused, whatever the message says.

Times keep their numbers: a logical type of time becomes a `Stamp`, since Python's own times end at
the year 9999, and one field that is later must not take its whole message along. A decimal is the
number of Python that has the same text, and stays bytes where there is none. A `uuid` is its text
as it was sent, and so are values of other logical types what they are without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast

import fastavro

from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.texts.bounded_json import bounded_json
from tracecloak.transforms.formats.message_fields import Stamp

_MAX_NODES = 20_000
_MAX_TYPE_DEPTH = 100
_MAX_DECIMAL_DIGITS = 76
_EPOCH = datetime(1970, 1, 1)

_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
# (microseconds of a unit, how many units a microsecond has, whether the time is of a wall clock).
_UNITS = {
    "timestamp-millis": (1_000, 1, False),
    "timestamp-micros": (1, 1, False),
    "timestamp-nanos": (1, 1_000, False),
    "local-timestamp-millis": (1_000, 1, True),
    "local-timestamp-micros": (1, 1, True),
    "local-timestamp-nanos": (1, 1_000, True),
    "date": (86_400_000_000, 1, True),
}
_OURS = "tracecloak-"
# What a type that is no record has beside its logical type.
_KEPT = ("type", "name", "namespace", "symbols", "size")

# What a type holds: 0, a value without bytes; 1, one with some; text, what the type of that name
# holds; a list, one of several; a tuple, any number of one.
_Content = int | str | list[Any] | tuple[Any]


class AvroSchemas:
    """A schema of a registry and those that it refers to, rewritten and judged together."""

    def __init__(self) -> None:
        """Begins with no schema."""
        _register()
        # By name what a record's fields hold; of other named types whether they take bytes.
        self._types: dict[str, list[_Content] | int] = {}
        self._texts: dict[str, str] = {}  # a schema can be referred to in several ways

    def rewritten(self, text: str) -> str:
        """Returns a schema that fastavro is to see.

        Raises:
            Exception: Of any kind; it is no schema.
        """
        if text not in self._texts:
            self._texts[text] = json.dumps(self._seen(bounded_json(text), "")[0])
        return self._texts[text]

    def judge(self) -> None:
        """Makes sure that no datum of these schemas takes more than its bytes are worth.

        Raises:
            ValueError: A type holds itself, is too large when it is written out, or has a
                value that takes no byte and is not one of several.
        """
        uses = {
            name: {name for content in _listed(fields) for name in _names(content)}
            for name, fields in self._types.items()
        }
        try:
            order = list(TopologicalSorter(uses).static_order())
        except CycleError:
            raise ValueError("a type holds itself") from None
        # By name: (whether its values take bytes, how many types it holds, how deep).
        sizes: dict[str, tuple[bool, int, int]] = {}
        for name in order:
            if name not in self._types:
                raise ValueError("a type is not there")
            fields = self._types[name]
            parts = [_size(content, sizes) for content in _listed(fields)]
            if isinstance(fields, list) and not all(has_bytes for has_bytes, _, _ in parts):
                raise ValueError("a field takes no byte")
            n_types = 1 + sum(n for _, n, _ in parts)
            depth = 1 + max((d for _, _, d in parts), default=0)
            if n_types > _MAX_NODES or depth > _MAX_TYPE_DEPTH:
                raise ValueError("a type is too large")
            sizes[name] = any(has_bytes for has_bytes, _, _ in parts), n_types, depth

    def _seen(self, node: Any, namespace: str) -> tuple[Any, _Content]:
        """(the node as fastavro is to see it, what it holds)."""
        if isinstance(node, str):
            if node in _PRIMITIVES:
                return node, int(node != "null")
            return node, _full_name(node, namespace)
        if isinstance(node, list):
            pairs = [self._seen(branch, namespace) for branch in node]
            return [branch for branch, _ in pairs], [content for _, content in pairs]
        kind = node["type"]
        if isinstance(kind, dict | list):
            return self._seen(kind, namespace)
        if kind in ("record", "error"):
            return self._record(node, namespace)
        if kind in ("enum", "fixed"):
            name = _full_name(node["name"], node.get("namespace", namespace))
            self._define(name, int(kind == "enum" or int(node["size"]) > 0))
            return _with_logical_type(node), name
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            inner, content = self._seen(node[key], namespace)
            return {"type": kind, key: inner}, (content,)
        if kind in _PRIMITIVES:
            return _with_logical_type(node), int(kind != "null")
        return self._seen(kind, namespace)

    def _record(self, node: dict[str, Any], namespace: str) -> tuple[Any, str]:
        name = _full_name(node["name"], node.get("namespace", namespace))
        fields: list[_Content] = []
        self._define(name, fields)
        anew = []
        for one in node["fields"]:
            kind, content = self._seen(one["type"], name.rpartition(".")[0])
            anew.append({"name": one["name"], "type": kind})
            fields.append(content)
        kept = {key: node[key] for key in ("name", "namespace") if key in node}
        return {"type": "record", **kept, "fields": anew}, name

    def _define(self, name: str, content: list[_Content] | int) -> None:
        if name in self._types and self._types[name] != content:
            raise ValueError("two types have one name")
        self._types[name] = content


def _full_name(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _with_logical_type(node: dict[str, Any]) -> dict[str, Any]:
    """Returns a type that is no record, with its logical type where that changes what is read."""
    kept: dict[str, Any] = {key: node[key] for key in _KEPT if key in node}
    logical = node.get("logicalType")
    if node.get("adjust-to-utc") is False and f"local-{logical}" in _UNITS:  # as Iceberg has it
        logical = f"local-{logical}"
    if logical in _UNITS and node["type"] == ("int" if logical == "date" else "long"):
        return {**kept, "logicalType": _OURS + logical}
    if logical == "decimal" and node["type"] in ("bytes", "fixed"):
        precision, scale = node.get("precision"), node.get("scale", 0)
        if type(precision) is int and type(scale) is int:
            if 0 <= scale <= precision <= _MAX_DECIMAL_DIGITS and precision:
                return {**kept, "logicalType": _OURS + logical, "scale": scale}
    return kept


def _listed(fields: list[_Content] | int) -> list[_Content]:
    return fields if isinstance(fields, list) else [fields]


def _names(content: _Content) -> Iterable[str]:
    """Yields the names of the types that are held."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | tuple):
        for inner in content:
            yield from _names(inner)


def _size(content: _Content, sizes: dict[str, tuple[bool, int, int]]) -> tuple[bool, int, int]:
    """(whether a value takes bytes, how many types it holds, how deep they are).

    Raises:
        ValueError: Any number of values can be held that take none.
    """
    if isinstance(content, str):
        return sizes[content]
    if isinstance(content, int):
        return bool(content), 1, 1
    parts = [_size(inner, sizes) for inner in content]
    if isinstance(content, tuple) and not parts[0][0]:
        raise ValueError("a list has values that take no byte")
    # Which of several it is, and how many there are, takes a byte.
    return True, 1 + sum(n for _, n, _ in parts), 1 + max((d for _, _, d in parts), default=0)


def _register() -> None:
    """Has fastavro read logical types under names that no schema but a rewritten one has."""
    readers = cast(dict[str, Any], fastavro.read.LOGICAL_READERS)
    for logical, unit in _UNITS.items():
        kind = "int" if logical == "date" else "long"
        readers[f"{kind}-{_OURS}{logical}"] = _stamp_reader(*unit)
    for kind in ("bytes", "fixed"):
        readers[f"{kind}-{_OURS}decimal"] = _decimal


def _stamp_reader(unit_us: int, parts: int, is_local: bool) -> Callable[..., Stamp]:
    """Returns what makes a time of a number, by its row of `_UNITS`."""

    def stamp(number: int, *_: Any) -> Stamp:
        micros, made = number * unit_us // parts, Stamp(number)
        if not is_local:
            made.micros = micros
        elif MIN_TIME_US <= micros <= MAX_TIME_US:
            made.text = (_EPOCH + timedelta(microseconds=micros)).isoformat()
        return made

    return stamp


def _decimal(data: bytes, schema: Any, *_: Any) -> int | float | bytes:
    """Returns a decimal as the number that has its text; its bytes where none of Python has it."""
    unscaled, unit = int.from_bytes(data, "big", signed=True), 10 ** schema["scale"]
    if abs(unscaled) >= 10**_MAX_DECIMAL_DIGITS:
        return data
    if unscaled % unit == 0:
        return unscaled // unit
    number = unscaled / unit
    return number if Decimal(repr(number)) * unit == unscaled else data

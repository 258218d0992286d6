"""The types of Avro: schemas without what does not decide on the bytes, and columns of Arrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import pyarrow as pa

TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
}
_TIME_TYPES = {
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "date": pa.date32(),
}
# Where a schema keeps its logical time type out of the sight of fastavro, whose datetime objects
# are slow and end at the year 9999.
_TIME = "tracecloak.time"
# fastavro reads a value as the first branch of the reader's union that it can be promoted to, so
# each type stands before those that it can be promoted to.
_PROMOTIONS = ["int", "long", "float", "double", "string", "bytes"]
_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
SCALARS = {*_PRIMITIVES, "enum", "fixed"}
_KINDS = {*SCALARS, "array", "map", "record", "error"}


class PlainSchemas:
    """Schemas without what does not decide on the bytes; all names in them are full.

    Attributes:
        types: The named types in them, by their names.
    """

    def __init__(self, logical: Callable[[Mapping[str, Any], str], Mapping[str, Any]]) -> None:
        """Begins with no schema.

        Args:
            logical: Returns what a type has in place of its logical type, `decimal` or one of
                times, where that is one of such a type.
        """
        self.types: dict[str, Any] = {}
        self._logical = logical

    def rewritten(self, node: Any, namespace: str = "") -> Any:
        """Returns a schema of a namespace so.

        Raises:
            ValueError: Two types have one name.
            Exception: Of any kind; it is no schema.
        """
        if isinstance(node, list):
            return [self.rewritten(branch, namespace) for branch in node]
        if isinstance(node, str):
            return node if node in _PRIMITIVES else _full_name(node, namespace)
        kind = node["type"]
        if not isinstance(kind, str) or kind not in _KINDS:
            return self.rewritten(kind, namespace)
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            return {"type": kind, key: self.rewritten(node[key], namespace)}
        if kind in _PRIMITIVES:
            logical = self._logical_of(node)
            return {"type": kind, **logical} if logical else kind
        name = _full_name(node["name"], node.get("namespace", namespace))
        outer, _, own = name.rpartition(".")
        plain: dict[str, Any] = {"type": kind, "name": own, "namespace": outer}
        if kind in ("record", "error"):
            plain["fields"] = [
                {"name": field["name"], "type": self.rewritten(field["type"], outer)}
                for field in node["fields"]
            ]
        else:
            key = "symbols" if kind == "enum" else "size"
            plain |= {key: node[key], **self._logical_of(node)}
        if self.types.setdefault(name, plain) != plain:
            raise ValueError("two types have one name")
        return plain

    def _logical_of(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        kind, logical = node["type"], str(node.get("logicalType"))
        # Iceberg has one logical type for instants and for local times.
        if node.get("adjust-to-utc") is False and f"local-{logical}" in _TIME_TYPES:
            logical = f"local-{logical}"
        physical_types = {"date": ("int",), "decimal": ("bytes", "fixed")}
        kinds = physical_types.get(logical, ("long",) if logical in _TIME_TYPES else ())
        return self._logical(node, logical) if kind in kinds else {}


def _full_name(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def times_apart(node: Mapping[str, Any], logical: str) -> Mapping[str, Any]:
    """Returns the logical type of a type, a time where fastavro does not look."""
    if logical != "decimal":
        return {_TIME: logical}
    return {key: node[key] for key in ("logicalType", "precision", "scale") if key in node}


def column_type(schema: Mapping[str, Any]) -> pa.DataType:
    """Returns the type of a column with the values of a scalar type of a file."""
    if _TIME in schema:
        return _TIME_TYPES[schema[_TIME]]
    if "logicalType" in schema:
        make = pa.decimal128 if schema["precision"] <= 38 else pa.decimal256
        return make(schema["precision"], schema.get("scale", 0))
    return TYPES[schema["type"]]


def promotion(branch: Any) -> int:
    """Returns the place of a branch of a union among those of the reader."""
    kind = branch["type"] if isinstance(branch, dict) else branch
    return _PROMOTIONS.index(kind) if kind in _PROMOTIONS else -1


def varint(read: Callable[[int], bytes], most_bytes: int = 10) -> int | None:
    """Returns the next number, its lowest seven bits first; None: nothing follows.

    Raises:
        ValueError: It is cut off, or has more bytes.
    """
    number = shift = 0
    while shift < 7 * most_bytes and (octet := read(1)):
        number |= (octet[0] & 0x7F) << shift
        if octet[0] < 0x80:
            return number
        shift += 7
    if shift:
        raise ValueError("a number is cut off or too long")
    return None


def signed(number: int) -> int:
    """Returns what a number stands for whose last bit is its sign, in zigzag."""
    return (number >> 1) ^ -(number & 1)


def event_file_schema() -> dict[str, Any]:
    """Returns the schema of released events, `schemas/files/event.avsc`."""
    text = files("tracecloak.schemas.files").joinpath("event.avsc").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema

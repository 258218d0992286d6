"""Messages of a registry's schemas: Confluent's frame, in it a datum of Avro, JSON or Protobuf."""

from __future__ import annotations

import base64
import functools
import importlib
import io
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import Any, Literal, cast

import fastavro

from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.events.tally import Unread
from tracecloak.schemas.texts import bounded_json
from tracecloak.transforms.formats.avro_schemas import SCALARS, PlainSchemas, signed, varint
from tracecloak.transforms.formats.base import Stamp, UnreadError
from tracecloak.transforms.services.schema_registry import (
    NotThereError,
    SchemaRegistry,
)

# ---
# Avro schemas of a registry, as far as they can be used: what somebody else wrote is judged first.
# A schema may be of any kind that a sender can register, and fastavro follows it as far as it goes:
# a type that holds itself takes the stack of the process with one message, and a list of values
# that take no byte takes its memory. Such a schema is refused, whatever the message says. Times
# keep their numbers: a logical type of time becomes a `Stamp`, since Python's own times end at the
# year 9999, and one field that is later must not take its whole message along. A decimal is the
# number of Python that has the same text, and stays bytes where there is none. A `uuid` is its text
# as it was sent, and so are values of other logical types what they are without them.


_MAX_NODES = 20_000
_MAX_TYPE_DEPTH = 100
_MAX_DECIMAL_DIGITS = 76

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


class AvroSchemas:
    """A schema of a registry and those that it refers to, rewritten and judged together."""

    def __init__(self) -> None:
        """Begins with no schema."""
        _register()
        self._plain = PlainSchemas(_logical)
        # By named type: (whether its values take bytes, how many types it holds, how deep).
        self._sizes: dict[str, tuple[bool, int, int]] = {}

    def rewritten(self, text: str) -> Any:
        """Returns a schema that fastavro is to see.

        Raises:
            Exception: Of any kind; it is no schema.
        """
        return self._plain.rewritten(bounded_json(text))

    def judge(self) -> None:
        """Makes sure that no datum of these schemas takes more than its bytes are worth.

        Raises:
            ValueError: A type holds itself, is too large when it is written out, or has a
                value that takes no byte and is not one of several.
        """
        for name in self._plain.types:
            self._size(name)

    def _size(self, node: Any, level: int = 0) -> tuple[bool, int, int]:
        """(whether a value takes bytes, how many types it holds, how deep they are)."""
        if level > _MAX_TYPE_DEPTH:
            raise ValueError("a type holds itself, or is too large")
        kind = node if isinstance(node, str) else "union"
        if isinstance(node, dict):
            kind = node["type"]
        if isinstance(node, str) and node in self._plain.types:
            if node not in self._sizes:
                self._sizes[node] = self._size(self._plain.types[node], level)
            return self._sizes[node]
        match kind:
            case "record" | "error":
                held = [field["type"] for field in node["fields"]]
            case "array" | "map":
                held = [node.get("items") or node["values"]]
            case "union":
                held = node
            case _:
                if kind not in SCALARS:
                    raise ValueError("a type is not there")
                return kind != "null" and (kind != "fixed" or int(node["size"]) > 0), 1, 1
        parts = [self._size(one, level + 1) for one in held]
        # Which of several it is, and how many there are, takes a byte.
        if kind != "union" and not all(has_bytes for has_bytes, _, _ in parts):
            raise ValueError("a field or a value of a list takes no byte")
        n_types = 1 + sum(n for _, n, _ in parts)
        depth = 1 + max((d for _, _, d in parts), default=0)
        if n_types > _MAX_NODES or depth > _MAX_TYPE_DEPTH:
            raise ValueError("a type holds itself, or is too large")
        return bool(parts) or kind == "union", n_types, depth


def _logical(node: Mapping[str, Any], logical: str) -> Mapping[str, Any]:
    """Returns how fastavro is told of a logical type, where that changes what is read."""
    if logical != "decimal":
        return {"logicalType": _OURS + logical}
    precision, scale = node.get("precision"), node.get("scale", 0)
    if type(precision) is int and type(scale) is int:
        if 0 <= scale <= precision <= _MAX_DECIMAL_DIGITS and precision:
            return {"logicalType": _OURS + logical, "scale": scale}
    return {}


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
        made = Stamp(number)
        made.micros, made.is_local = number * unit_us // parts, is_local
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


# --- Messages of a registry's schemas: Confluent's frame, in it a datum of Avro, JSON or Protobuf.
# Confluent's client asks the registry (confluent-kafka, extra `registry`), fastavro reads Avro, and
# Google's library Protobuf, by the descriptors that a registry gives of its schemas. The frame is
# the byte 0 and the number of the schema. A schema of a number never changes, so a message is read
# in the same way whenever it is read again: by its own schema alone, and by no later version of it.
# Rules of a schema are not run, and a schema with rules is refused.


_FRAME_BYTES = 5
# A registry has no schema beyond; one that is asked for it answers that it knows no such question.
_LAST_ID = (1 << 31) - 1
# Of a schema with all that it refers to.
_MAX_REFERENCES = 256
_MAX_SCHEMA_BYTES = 1 << 20
_MAX_SCHEMAS = 1_000
# A wrong sender must not make a registry answer for each of its messages. What is registered
# meanwhile is read after this time.
_UNKNOWN_SECONDS = 10.0

# Of a message of Protobuf: the fields that are looked at, and how deep its type is nested.
_MAX_FIELDS = 20_000
_MAX_DEPTH = 32
_SERIALIZED = re.compile(r"[A-Za-z0-9+/\s]*={0,2}\s*")
# What every registry has of Protobuf without a reference, each behind those that it imports.
_BUILTIN = (
    "any duration empty field_mask source_context struct timestamp type api wrappers descriptor"
)
_WRAPPERS = re.compile(r"google\.protobuf\.(Double|Float|U?Int64|U?Int32|Bool|String|Bytes)Value")

Kind = Literal["avro", "json", "protobuf"]
Reader = Callable[[bytes], Any]


@dataclass(frozen=True)
class RegistrySchemas:
    """The schemas of messages.

    Attributes:
        kind: What is in the frame.
        registry: Where the schemas are.
    """

    kind: Kind
    registry: SchemaRegistry

    def body(self, data: bytes) -> dict[str, Any]:
        """Returns the fields of a message.

        Raises:
            UnreadError: It has no frame, or is no record of its schema; or there is no such schema,
                or it cannot be used.
            UsageError: The registry refuses this client, or the library is not installed.
            RetryLater: The registry is away.
        """
        if data[0] or len(data) <= _FRAME_BYTES:
            raise UnreadError(Unread.NO_FRAME)
        reader = _reader(self.kind, self.registry, data[:_FRAME_BYTES])
        if reader is None:
            raise UnreadError(Unread.UNFIT_SCHEMA)
        try:
            body = reader(data)
        except Exception:  # whatever a datum leads to
            raise UnreadError(Unread.NOT_OF_SCHEMA) from None
        if type(body) is not dict:
            raise UnreadError(Unread.NOT_OF_SCHEMA)
        return body


_client = functools.cache(SchemaRegistry.client)
# By what was asked for: until when it is taken for unknown.
_unknown_until: dict[tuple[Any, ...], float] = {}


@functools.lru_cache(_MAX_SCHEMAS)
def _reader(kind: Kind, registry: SchemaRegistry, frame: bytes) -> Reader | None:
    """Returns what reads messages of the schema that a frame names; None: it cannot be used.

    What was found out of a schema is kept, as it never changes. That one is not there is kept for
    _UNKNOWN_SECONDS.
    """
    asked = kind, registry, frame
    if _unknown_until.get(asked, 0.0) > time.monotonic():
        raise UnreadError(Unread.UNKNOWN_SCHEMA)
    schemas = _Schemas(registry, _client(registry), kind)
    try:
        return _READERS[kind](schemas, schemas.of_frame(frame))
    except NotThereError:
        if len(_unknown_until) >= _MAX_SCHEMAS:
            _unknown_until.clear()
        _unknown_until[asked] = time.monotonic() + _UNKNOWN_SECONDS
        raise UnreadError(Unread.UNKNOWN_SCHEMA) from None
    except TracecloakError:
        raise
    except Exception:  # whatever somebody's schema leads to
        return None


class _Schemas:
    """A schema of a registry, and what it refers to, as far as they can be used."""

    def __init__(self, registry: SchemaRegistry, client: Any, kind: Kind) -> None:
        self._registry = registry
        self._client = client
        self._kind = kind
        self._n_asked = 0
        self._n_bytes = 0
        # Protobuf's schemas are texts that need a compiler, unless they are asked for compiled.
        self._form = {"fmt": "serialized"} if kind == "protobuf" else {}

    def of_frame(self, frame: bytes) -> Any:
        """Returns the schema that a frame names."""
        number = int.from_bytes(frame[1:], "big")
        if number > _LAST_ID:
            raise NotThereError
        raw = self._registry.asked(lambda: self._client.get_schema(number, **self._form))
        return self._usable(raw)

    def referred(self, reference: Any) -> Any:
        """Returns a version of a subject, also of one that was deleted."""
        self._n_asked += 1
        if self._n_asked > _MAX_REFERENCES:
            raise ValueError("a schema refers to too many")
        subject, version = reference.subject, reference.version
        answer = self._registry.asked(
            lambda: self._client.get_version(subject, version, True, **self._form)
        )
        return self._usable(answer.schema)

    def _usable(self, schema: Any) -> Any:
        """Returns a schema as it is to be read by.

        Raises:
            ValueError: It is of another kind, too long, or has rules, which would change what is
                read.
        """
        if schema.schema_type.lower() != self._kind:
            raise ValueError("a schema is of another kind")
        rules = schema.rule_set
        if rules is not None and (rules.domain_rules or getattr(rules, "encoding_rules", None)):
            raise ValueError("a schema has rules")
        self._n_bytes += len(schema.schema_str)
        if self._n_bytes > _MAX_SCHEMA_BYTES:
            raise ValueError("a schema is too long")
        if self._kind == "protobuf" and _SERIALIZED.fullmatch(schema.schema_str) is None:
            raise UsageError(
                f"schema_registry {self._registry.url} gives Protobuf schemas as text alone: name "
                "one that knows format=serialized, as Confluent's, Karapace or Redpanda 25.2"
            )
        return schema


def _avro_reader(schemas: _Schemas, schema: Any) -> Reader:
    judged = AvroSchemas()

    def parsed(schema: Any) -> tuple[Any, dict[str, Any]]:
        """Returns a schema as fastavro takes it, and the named types in it."""
        named: dict[str, Any] = {}
        for reference in schema.references or ():
            named |= parsed(schemas.referred(reference))[1]
        return fastavro.parse_schema(judged.rewritten(schema.schema_str), named), named

    taken, _ = parsed(schema)
    judged.judge()
    return lambda data: fastavro.schemaless_reader(io.BytesIO(data[_FRAME_BYTES:]), taken, None)


def _json_reader(schemas: _Schemas, schema: Any) -> Reader:
    """Returns a reader that also makes sure that a message is of its schema, and fetches nothing.

    It knows the schema and its references alone.
    """
    from jsonschema.validators import validator_for
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT7

    references = {
        name: Resource.from_contents(bounded_json(referred.schema_str), DRAFT7)
        for name, referred in _references(schemas, schema, set())
    }
    contents = bounded_json(schema.schema_str)
    kind = validator_for(contents)
    kind.check_schema(contents)
    validator = kind(contents, registry=Registry().with_resources(references.items()))

    def body(data: bytes) -> Any:
        read = json.loads(data[_FRAME_BYTES:])
        validator.validate(read)
        return read

    return body


def _protobuf_reader(schemas: _Schemas, schema: Any) -> Reader:
    """Returns a reader of the messages of a file of Protobuf, each by the index in its frame."""
    library = importlib.import_module("google.protobuf.message_factory")
    files = importlib.import_module("google.protobuf.descriptor_pb2")
    pool = importlib.import_module("google.protobuf.descriptor_pool").DescriptorPool()
    for name in _BUILTIN.split():
        compiled = importlib.import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR
        pool.AddSerializedFile(compiled.serialized_pb)
    own_name = "tracecloak.proto"
    for name, one in (*_references(schemas, schema, {own_name}), (own_name, schema)):
        own = files.FileDescriptorProto.FromString(base64.b64decode(one.schema_str))
        own.name = name
        pool.Add(own)

    @functools.cache
    def parser(index: tuple[int, ...]) -> Callable[[bytes], Any]:
        names, nested = [own.package] if own.package else [], own.message_type
        for place in index:
            names.append(nested[place].name)
            nested = nested[place].nested_type
        kind = pool.FindMessageTypeByName(".".join(names))
        return library.GetMessageClass(kind).FromString

    def body(data: bytes) -> Any:
        stream = io.BytesIO(data[_FRAME_BYTES:])
        size = _signed(stream)
        if not 0 <= size <= _MAX_DEPTH:
            raise ValueError("a message is of no type")
        index = tuple(_signed(stream) for _ in range(size)) or (0,)
        if min(index) < 0:
            raise ValueError("a message is of no type")
        return _fields(parser(index)(stream.read()), count())

    return body


def _signed(stream: io.BytesIO) -> int:
    """Returns the next number of the index of a message."""
    if (number := varint(stream.read, 5)) is None:
        raise ValueError("a message is of no type")
    return signed(number)


def _references(schemas: _Schemas, schema: Any, seen: set[str]) -> Iterator[tuple[str, Any]]:
    """Yields what a schema refers to by name, each behind all that it refers to itself."""
    for reference in schema.references or ():
        if reference.name not in seen:
            seen.add(reference.name)
            referred = schemas.referred(reference)
            yield from _references(schemas, referred, seen)
            yield reference.name, referred


def _fields(message: Any, seen: Iterator[int]) -> dict[str, Any]:
    """Returns the fields of a message of Protobuf by name; `seen` counts them.

    A list is what is repeated, and None what is not set.
    """
    return {field.name: _value(message, field, seen) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any, seen: Iterator[int]) -> Any:
    if next(seen) > _MAX_FIELDS:
        raise ValueError("a message has too many fields")
    if field.is_repeated if hasattr(field, "is_repeated") else field.label == 3:
        return []
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    kind = "" if field.message_type is None else field.message_type.full_name
    if kind == "google.protobuf.Timestamp":
        if not 0 <= value.nanos < 1_000_000_000:
            raise ValueError("a time is none")
        stamp = Stamp(value.seconds * 1_000_000 + value.nanos // 1_000)
        stamp.micros = int(stamp)
        return stamp
    if _WRAPPERS.fullmatch(kind):
        return value.value
    return _fields(value, seen) if kind else value


_READERS: dict[Kind, Callable[[_Schemas, Any], Reader]] = {
    "avro": _avro_reader,
    "json": _json_reader,
    "protobuf": _protobuf_reader,
}

"""One wire form for all columnar values: a dataclass of arrays as one Arrow IPC message.

Statistics, traces and decisions cross process borders many times. As Arrow buffers they decode
without copying and without running code from the wire, and a slice carries its own rows only (and
up to 63 bytes beside them, to which Arrow pads a buffer).

A value is a frozen dataclass whose fields are numpy arrays, Arrow arrays, other such dataclasses,
dicts of those by name, or plain scalars (str, int, float, bool, None). Its class has a name, which
stays when the class moves, as noise depends on digests, and as decisions and the states of streams
may be read by a later version: a `wire_name` of the class itself (`Columnar` gives it), and an
entry of the table by which `decode` finds the class (`transforms.columnar_names`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, dataclass_transform

import numpy as np
import pyarrow as pa

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.plugins import Plugins


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
class Columnar:
    """A columnar value: equal to one of its class with equal fields.

    A subclass that is given a name is a frozen dataclass of that name:
    `class Ends(Columnar, wire_name="ends")`.
    """

    wire_name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, wire_name: str | None = None) -> None:
        """Makes a class with a name a dataclass."""
        super().__init_subclass__()
        if wire_name is not None:
            cls.wire_name = wire_name
            dataclass(frozen=True, eq=False)(cls)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and all(
            _are_equal(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays


def _are_equal(one: Any, other: Any) -> bool:
    if isinstance(one, pa.Array):
        return one.equals(other)
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)


# The classes that were met, by their names, and the table of all; see `name_classes`.
_MET: dict[str, type[Any]] = {}
_TABLES: list[Plugins[type[Any]]] = []
_KEY = b"tracecloak"


def name_classes(table: Plugins[type[Any]]) -> None:
    """Gives the table of all columnar classes by their names; it is asked from then on.

    Without one, a class is known once a value of it was encoded or has got a digest.
    """
    _TABLES[:] = [table]


def wire_name(kind: type[Any]) -> str:
    """Returns the name of a columnar class, in messages and in digests.

    Raises:
        TypeError: It has no name of its own, or the table has none or another class under it.
    """
    name = vars(kind).get("wire_name")
    if isinstance(name, str) and _MET.get(name) is kind:
        return name
    place = _place(kind)
    if not isinstance(name, str):
        raise TypeError(f"{place} is not a columnar value, as it has no `wire_name`: give it one")
    for table in _TABLES:
        if name not in table:
            raise TypeError(f"{place}: {name!r} is in no table: add it to {table.group}")
    known = _class_named(name, kind)
    if known is not kind:
        raise TypeError(f"{name!r} names {_place(known)} and {place}; rename one of them")
    _MET[name] = kind
    return name


def _class_named(name: str, default: type[Any]) -> type[Any]:
    """Returns the class of a name that was met or that the table has.

    Raises:
        TypeError: Several distributions claim it, or it cannot be loaded.
    """
    if name in _MET:
        return _MET[name]
    try:
        classes = [table.named(name) for table in _TABLES if name in table]
    except UsageError as error:
        raise TypeError(str(error)) from error
    return classes[0] if classes else default


def _place(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def encode(value: Any) -> bytes:
    """Returns the value as one IPC stream; `decode` gives an equal value.

    A value that was decoded still has its message, and gives it back.

    Raises:
        TypeError: The value or one of its fields is of no supported type.
    """
    message = getattr(value, _MESSAGE, None)
    if message is not None:
        return message
    columns: dict[str, pa.Array] = {}
    layout = _flatten("", value, columns)
    schema = pa.schema(
        [(name, column.type) for name, column in columns.items()],
        metadata={_KEY: json.dumps(layout).encode()},
    )
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def decode(data: bytes) -> Any:
    """Returns the value; its numpy arrays share the memory of `data` and are read-only.

    Raises:
        UsageError: It has other parts than values of this version have.
    """
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        layout = json.loads(reader.schema.metadata[_KEY])
        batch = reader.read_next_batch()
    columns = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
    value = _build(layout, columns)
    object.__setattr__(value, _MESSAGE, data)  # the arrays lie in it: it is kept in any case
    return value


def digest(value: Any) -> str:
    """Returns 64 hex digits of what a value holds; equal values have equal ones, wherever made.

    Messages of `encode` are no good for that: Arrow pads its buffers with bytes that lie beside a
    slice.

    Raises:
        TypeError: The value or one of its fields is of no supported type.
    """
    known: str | None = getattr(value, _DIGEST, None)
    if known is None:
        columns: dict[str, pa.Array] = {}
        layout = _flatten("", value, columns)
        hasher = hashlib.sha256(json.dumps(layout, sort_keys=True).encode())
        for name in sorted(columns):
            _feed(hasher, name, columns[name].flatten())
        known = hasher.hexdigest()
        if is_dataclass(value):
            object.__setattr__(value, _DIGEST, known)
    return known


_MESSAGE, _DIGEST = "_ipc_message", "_digest"

# The runner owns the threads.
_OPTIONS = pa.ipc.IpcWriteOptions(use_threads=False)


def _flatten(path: str, value: Any, columns: dict[str, pa.Array]) -> dict[str, Any]:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.dtype.isnative:
        flat = np.ascontiguousarray(value).reshape(-1)
        plain = flat.view(np.uint8) if flat.dtype.kind == "b" else flat
        columns[path] = _one_row(pa.array(plain))
        return {"numpy": path, "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, pa.Array):
        columns[path] = _one_row(value)
        return {"arrow": path}
    if is_dataclass(value) and not isinstance(value, type):
        name = wire_name(type(value))
        parts = {
            f.name: _flatten(f"{path}.{f.name}", getattr(value, f.name), columns)
            for f in fields(value)
        }
        return {"class": name, "fields": parts}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": {k: _flatten(f"{path}.{k!r}", part, columns) for k, part in value.items()}}
    if value is None or isinstance(value, str | int | float | bool):
        return {"scalar": value}
    raise TypeError(f"field {path!r} has type {type(value).__name__}, which has no columnar form")


def _one_row(values: pa.Array) -> pa.Array:
    offsets = pa.array([0, len(values)], pa.int64())
    return pa.LargeListArray.from_arrays(offsets, values)


def _feed(digest: Any, name: str, values: pa.Array) -> None:
    """Adds an array's type, its length, which values are missing, and those that are there."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    digest.update(f"{len(name)}:{name} {values.type} {len(values)} {values.null_count}\n".encode())
    if values.null_count:
        digest.update(np.packbits(np.asarray(values.is_valid())))
        values = values.drop_null()
    if pa.types.is_null(values.type):
        return
    if isinstance(values, pa.ListArray | pa.LargeListArray):
        _feed(digest, name, values.value_lengths())
        _feed(digest, name, values.flatten())
        return
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_fixed_size_binary)
    if any(is_kind(values.type) for is_kind in kinds):
        values = values.cast(pa.large_binary())
    if pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type):
        _, ends, data = values.buffers()
        bounds = np.frombuffer(ends, np.int64, len(values) + 1, values.offset * 8)
        digest.update(np.diff(bounds))
        if data is not None:
            digest.update(memoryview(data)[int(bounds[0]) : int(bounds[-1])])
        return
    plain = np.ascontiguousarray(values.to_numpy(zero_copy_only=False))
    if plain.dtype.hasobject:  # addresses in memory, that is
        raise TypeError(f"{values.type} has no digest")
    digest.update(plain)


def _build(layout: dict[str, Any], columns: dict[str, pa.Array]) -> Any:
    if "scalar" in layout:
        return layout["scalar"]
    if "arrow" in layout:
        return columns[layout["arrow"]].flatten()
    if "numpy" in layout:
        dtype = np.dtype(layout["dtype"])
        flat = columns[layout["numpy"]].flatten().to_numpy(zero_copy_only=True)
        plain = flat.view(bool) if dtype.kind == "b" else flat
        return plain.reshape(layout["shape"])
    if "dict" in layout:
        return {name: _build(part, columns) for name, part in layout["dict"].items()}
    kind = _class_named(layout["class"], object)
    if not is_dataclass(kind):
        raise TypeError(
            f"{layout['class']} is not the name of a columnar value of this installation"
        )
    # What an earlier version kept may lack a field that has come since, if that has a default.
    known = {field.name for field in fields(kind)}
    needed = {field.name for field in fields(kind) if field.default is MISSING}
    if not needed <= layout["fields"].keys() <= known:
        raise UsageError(
            f"{layout['class']} was kept by another version of tracecloak: go on with that "
            "version, or begin another epoch, which is another spend"
        )
    build: Any = kind
    return build(**{name: _build(part, columns) for name, part in layout["fields"].items()})


# --- Batches of rows that travel: their integers in as few bytes as they need. --------------------


def narrowed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch whose columns are of smaller integers where they fit; see `widened`.

    Columns of int64 without nulls are counted from their least value, in their common unit;
    dictionaries have indices of as many bytes as their size asks for.
    """
    return _each_column(_narrow, batch)


def widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch that was `narrowed`."""
    return _each_column(_wide, batch)


def _each_column(change: Callable[..., tuple[pa.Field, pa.Array]], batch: Any) -> pa.RecordBatch:
    columns = [change(*one) for one in zip(batch.schema, batch.columns, strict=True)]
    schema = pa.schema([field for field, _ in columns], batch.schema.metadata)
    return pa.RecordBatch.from_arrays([column for _, column in columns], schema=schema)


_NARROW = b"narrow"
_INDICES = pa.int32()
# Of so many numbers tells the common divisor that of all, or there is none.
_FIRST = 64


def _narrow(field: pa.Field, column: pa.Array) -> tuple[pa.Field, pa.Array]:
    """Returns a column in smaller integers where it fits, with what `_wide` needs to undo that."""
    if pa.types.is_dictionary(field.type) and field.type.index_type == _INDICES:
        size = len(column.dictionary)
        if size > 1 << 16:
            return field, column
        indices = column.indices.cast(pa.uint8() if size <= 1 << 8 else pa.uint16())
        column = pa.DictionaryArray.from_arrays(indices, column.dictionary)
        return _field_of(field, column, b""), column
    if field.type != pa.int64() or column.null_count or not len(column):
        return field, column
    values = np.asarray(column)
    least, unit = int(values.min()), 1
    largest = int(values.max()) - least
    if largest >= 1 << 63:
        return field, column
    values = values - least
    if largest >= 1 << 32:
        unit = int(np.gcd.reduce(values[:_FIRST])) or 1
        if largest // unit >= 1 << 32 or (values % unit).any():
            return field, column
        values //= unit
    kind = np.uint16 if largest // unit < 1 << 16 else np.uint32
    column = pa.array(values.astype(kind))
    return _field_of(field, column, f"{least} {unit}".encode()), column


def _wide(field: pa.Field, column: pa.Array) -> tuple[pa.Field, pa.Array]:
    """Returns the column that was narrowed."""
    about = (field.metadata or {}).get(_NARROW)
    if about is None:
        return field, column
    if pa.types.is_dictionary(field.type):
        column = pa.DictionaryArray.from_arrays(column.indices.cast(_INDICES), column.dictionary)
    else:
        least, unit = map(int, about.split())
        column = pa.array(np.asarray(column).astype(np.int64) * unit + least)
    return _field_of(field, column), column


def _field_of(field: pa.Field, column: pa.Array, about: bytes | None = None) -> pa.Field:
    """Returns a field for a column of another type, which says how that was made narrow."""
    metadata = {key: text for key, text in (field.metadata or {}).items() if key != _NARROW}
    if about is not None:
        metadata[_NARROW] = about
    return pa.field(field.name, column.type, field.nullable, metadata or None)

"""Pages of JSON Schemas and of the Avro schema: what each key means, in tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docs.hooks.tables import code, plain, table

FILES = Path(__file__).parents[2] / "schemas" / "files"

_RELEASE = """# Configuration of a release

`tracecloak release claims.yaml` reads a file with these keys. Each key is a flag of the same
name as well, and the flag counts more than the key. An editor that knows JSON Schema completes
and checks the file with [release.schema.json](release.schema.json){ download }.

The keys under `params` are the parameters of the [method](methods/index.md)."""

_STREAM = """# Configuration of a stream

`tracecloak stream ward.yaml` reads a file with these keys. Each key is a flag of the same name
as well, and the flag counts more than the key. An editor that knows JSON Schema completes and
checks the file with [stream.schema.json](stream.schema.json){ download }."""

_MANIFEST = """# Manifest of a release

Every release has a `manifest.json`. It says what was released, by which method, and with which
promise. It holds nothing that was counted on the input, so it may be published with the
release. [manifest.schema.json](manifest.schema.json){ download } checks it."""

_EVENT = """# Messages of a stream

A message that `tracecloak stream` reads is one event. Messages are JSON, or Avro by this
schema, [event.avsc](event.avsc){ download }. In JSON the fields can have other names, and lie
within objects: the flags for columns, such as `--case_id`, say where. Messages of other schemas,
such as those that a registry has, are read
[as their senders have them](../how-to/messages.md)."""

# Pages by their file, with the schema that each shows.
PAGES = {
    "release-configuration.md": (_RELEASE, "release.schema.json"),
    "stream-configuration.md": (_STREAM, "stream.schema.json"),
    "manifest.md": (_MANIFEST, "manifest.schema.json"),
}


def pages() -> Iterator[tuple[str, str]]:
    """Yields the name of each page's file, and its text."""
    for name, (head, file) in PAGES.items():
        schema = json.loads((FILES / file).read_text(encoding="utf-8"))
        yield name, "\n".join(_schema(head, schema)) + "\n"
    schema = json.loads((FILES / "event.avsc").read_text(encoding="utf-8"))
    yield "event.md", "\n".join(_avro(_EVENT, schema)) + "\n"


def _schema(head: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield head
    parts = schema.get("$defs", {})
    yield from table(("Key", "Value", "Default", "What it says"), _rows(schema, parts))
    # Parameters of methods have pages of their own.
    for name, part in parts.items():
        if not name.endswith("Params") and "properties" in part:
            yield f"## {_title(name)} {{ #{name.lower()} }}"
            yield ""
            yield plain(part.get("description", ""))
            yield from table(("Key", "Value", "Default", "What it says"), _rows(part, parts))


def _rows(
    schema: Mapping[str, Any], parts: Mapping[str, Any], above: str = ""
) -> Iterator[list[str]]:
    required = schema.get("required", ())
    for name, part in schema["properties"].items():
        default = part.get("default")
        standing = "required" if name in required else ""
        if default not in (None, [], {}) and "$ref" not in part:  # which has defaults of its own
            standing = code(default if isinstance(default, str) else json.dumps(default))
        yield [code(above + name), _kind(part, parts), standing, plain(part.get("description", ""))]
        if "properties" in part:
            yield from _rows(part, parts, f"{above}{name}.")
        elif "properties" in part.get("items", {}):
            yield from _rows(part["items"], parts, f"{above}{name}[].")


def _kind(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    """What a value is, as a cell."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        if "properties" not in parts[name]:  # a plain value, which has no section
            return _kind(parts[name], parts)
        return f"[{_title(name)}](#{name.lower()})"
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        listed = [code(value) for value in schema["enum"]]
        return "[a method](methods/index.md)" if len(listed) > 15 else "one of " + ", ".join(listed)
    if "anyOf" in schema:
        kinds = [_kind(part, parts) for part in schema["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    kinds = schema.get("type", "object")
    names = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
    return " or ".join(_named(name, schema, parts) for name in names)


def _named(kind: str, schema: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}), parts)}"
    if kind == "object":
        return "mapping"
    words = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    limits = (("from", "minimum"), ("above", "exclusiveMinimum"), ("to", "maximum"))
    found = [f"{word} {schema[key]:g}" for word, key in limits if key in schema]
    return " ".join([words.get(kind, kind), *found])


def _avro(head: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield head
    rows = (
        [code(field["name"]), _avro_kind(field["type"]), plain(field.get("doc", ""))]
        for field in schema["fields"]
    )
    yield from table(("Field", "Type", "What it says"), rows)


def _avro_kind(kind: Any) -> str:
    if isinstance(kind, list):
        return " or ".join(map(_avro_kind, kind))
    if isinstance(kind, dict):
        return f"{kind['type']} ({code(kind['logicalType'])})"
    return str(kind)


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]

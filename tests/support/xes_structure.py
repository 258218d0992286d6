"""Checks a document against the structure that IEEE 1849-2016 gives to an XES log.

Written from the standard's schema, and independent of our reader and writer. It looks at the order
of elements, required attributes, the lexical form of values, global attributes, classifiers, keys,
and that only extensions of the standard are declared, whose files can be loaded.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import datetime
from typing import BinaryIO
from uuid import UUID

NAMESPACE = "http://www.xes-standard.org/"

_LOG_ORDER = {"extension": 0, "global": 1, "classifier": 2, "attribute": 3, "trace": 4, "event": 5}
_TRACE_ORDER = {"attribute": 0, "event": 1}
_VERSION = re.compile(r"\d+(\.\d+)?")
_STANDARD = ("concept", "cost", "identity", "lifecycle", "org", "semantic", "time")
_KEY = re.compile(r"[^\W\d][\w.:\-]*")
_NC_NAME = re.compile(r"[^\W\d][\w.\-]*")
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|-?INF|NaN")
_INT = re.compile(r"[+-]?\d+")


def _is_date(value: str) -> bool:
    if not _DATE.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value))
    except ValueError:
        return False
    return True


def _is_id(value: str) -> bool:
    try:
        return str(UUID(value)) == value.lower()
    except ValueError:
        return False


_LEXICAL = {
    "string": lambda value: True,
    "date": _is_date,
    "int": lambda value: bool(_INT.fullmatch(value)) and -(2**63) <= int(value) < 2**63,
    "float": lambda value: bool(_FLOAT.fullmatch(value)),
    "boolean": lambda value: value in ("true", "false"),
    "id": _is_id,
}


def check_xes(stream: BinaryIO) -> list[str]:
    """Returns what is wrong with the document, each with the place; nothing if it is a XES log."""
    try:
        root = ET.parse(stream).getroot()
    except ET.ParseError as error:
        return [f"not well-formed XML: {error}"]
    return list(_Checker(root).problems())


class _Checker:
    def __init__(self, root: ET.Element) -> None:
        self.root = root
        self.namespace = root.tag.rpartition("}")[0] + "}" if "}" in root.tag else ""
        self.prefixes: set[str] = set()
        self.globals: dict[str, dict[str, str]] = {}  # scope: key: type
        self.nested = False

    def problems(self) -> Iterator[str]:
        root = self.root
        if self.name(root) != "log" or self.namespace not in ("", "{" + NAMESPACE + "}"):
            yield "the root is not the <log> of XES"
            return
        if not _VERSION.fullmatch(root.get("xes.version", "")):
            yield "log: xes.version is missing or no version"
        if root.get("xes.features") is None:
            yield "log: xes.features is missing"
        for element in root.iter():
            if (element.text or "").strip() or (element.tail or "").strip():
                yield f"{self.name(element)}: has text"
        yield from self.order(root, "log", _LOG_ORDER)

        parts: dict[str, list[ET.Element]] = {part: [] for part in _LOG_ORDER}
        for element in root:
            parts.get(self.part(element), []).append(element)
        yield from self.extensions(parts["extension"])
        for element in parts["global"]:
            yield from self.global_attributes(element)
        for element in parts["classifier"]:
            yield from self.classifier(element)
        yield from self.attributes(root, "log")
        for number, trace in enumerate(parts["trace"]):
            yield from self.trace(trace, f"trace {number}")
        for number, event in enumerate(parts["event"]):
            yield from self.component(event, f"event {number}", "event", {"attribute": 0})
        if self.nested and "nested-attributes" not in root.get("xes.features", "").split():
            yield "log: xes.features does not say nested-attributes"

    def name(self, element: ET.Element) -> str:
        """Local name; of an element of another namespace the whole, which no rule knows."""
        return str(element.tag).removeprefix(self.namespace)

    def part(self, element: ET.Element) -> str:
        name = self.name(element)
        return "attribute" if name in _LEXICAL or name == "list" else name

    def order(self, parent: ET.Element, place: str, ranks: dict[str, int]) -> Iterator[str]:
        last = 0
        for child in parent:
            rank = ranks.get(self.part(child))
            if rank is None:
                yield f"{place}: <{self.name(child)}> is not allowed here"
            elif rank < last:
                yield f"{place}: <{self.name(child)}> comes too late"
            else:
                last = rank

    def extensions(self, elements: list[ET.Element]) -> Iterator[str]:
        for element in elements:
            for attribute in ("name", "prefix"):
                if not _NC_NAME.fullmatch(element.get(attribute, "")):
                    yield f"extension: {attribute} is missing or no XML name"
            prefix = element.get("prefix", "")
            if element.get("uri") != f"{NAMESPACE}{prefix}.xesext" or prefix not in _STANDARD:
                yield "extension: uri is missing or not one of the standard's"
            if len(element):
                yield "extension: has children"
        for attribute in ("name", "prefix", "uri"):
            values = [element.get(attribute) for element in elements]
            if len(set(values)) < len(values):
                yield f"extension: two share a {attribute}"
        self.prefixes = {element.get("prefix", "") for element in elements}

    def global_attributes(self, element: ET.Element) -> Iterator[str]:
        scope = element.get("scope", "")
        if scope not in ("trace", "event"):
            yield "global: scope is missing or neither trace nor event"
        if scope in self.globals:
            yield f"global: scope {scope} comes twice"
        yield from self.order(element, "global", {"attribute": 0})
        yield from self.attributes(element, f"global {scope}")
        self.globals[scope] = {child.get("key", ""): self.name(child) for child in element}

    def classifier(self, element: ET.Element) -> Iterator[str]:
        if not _NC_NAME.fullmatch(element.get("name", "")):
            yield "classifier: name is missing or no XML name"
        scope = element.get("scope", "event")
        if scope not in ("trace", "event"):
            yield "classifier: scope is neither trace nor event"
        keys = element.get("keys", "").split()
        if not keys:
            yield "classifier: keys are missing"
        for key in keys:
            if key not in self.globals.get(scope, {}):
                yield f"classifier: {key} is not global"

    def trace(self, element: ET.Element, place: str) -> Iterator[str]:
        yield from self.component(element, place, "trace", _TRACE_ORDER)
        for number, event in enumerate(child for child in element if self.part(child) == "event"):
            yield from self.component(event, f"{place} event {number}", "event", {"attribute": 0})

    def component(
        self, element: ET.Element, place: str, scope: str, ranks: dict[str, int]
    ) -> Iterator[str]:
        yield from self.order(element, place, ranks)
        yield from self.attributes(element, place)
        has = {child.get("key", ""): self.name(child) for child in element}
        for key, kind in self.globals.get(scope, {}).items():
            if has.get(key) != kind:
                yield f"{place}: lacks the global {kind} {key}"

    def attributes(self, parent: ET.Element, place: str, unique: bool = True) -> Iterator[str]:
        """Checks those children that are attributes."""
        keys = set()
        for element in parent:
            if self.part(element) != "attribute":
                continue
            key = element.get("key", "")
            here = f"{place} {key!r}"
            if not _KEY.fullmatch(key):
                yield f"{here}: the key is missing or no XML name"
            if unique and key in keys:
                yield f"{here}: the key comes twice"
            keys.add(key)
            prefix, colon, _ = key.partition(":")
            if colon and prefix in _STANDARD and prefix not in self.prefixes:
                yield f"{here}: no extension declares the prefix"
            yield from self.value(element, here)

    def value(self, element: ET.Element, place: str) -> Iterator[str]:
        kind, value = self.name(element), element.get("value")
        self.nested |= kind != "list" and len(element) > 0
        inner = list(element)
        if kind == "list":
            if value is not None:
                yield f"{place}: a list has no value"
            lists = [child for child in inner if self.name(child) == "values"]
            if len(lists) != 1:
                yield f"{place}: a list has one <values>"
            for values in lists:
                yield from self.order(values, place, {"attribute": 0})
                yield from self.attributes(values, place, unique=False)
            inner = [child for child in inner if child not in lists]
        elif value is None:
            yield f"{place}: the value is missing"
        elif not _LEXICAL[kind](value):
            yield f"{place}: the value is no {kind}"
        if any(self.part(child) != "attribute" for child in inner):
            yield f"{place}: holds what is no attribute"
        yield from self.attributes(element, place)

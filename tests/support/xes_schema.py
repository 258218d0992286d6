"""Validates a log by an XML schema, written from what IEEE 1849-2016 says of XES.

Names, orders and types are those of the standard, and keys side by side differ.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import pytest

NAMESPACE = "http://www.xes-standard.org/"

_VALUES = {
    "string": "xs:string", "date": "xs:dateTime", "int": "xs:long", "float": "xs:double",
    "boolean": "xs:boolean", "id": "xs:string",
}  # fmt: skip

_NUMBERS = itertools.count()


def _required(**types: str) -> str:
    return "".join(
        f'<xs:attribute name="{name}" type="{kind}" use="required"/>'
        for name, kind in types.items()
    )


def _type(name: str, content: str, attributes: str) -> str:
    return (
        f'<xs:complexType name="{name}"><xs:sequence>{content}</xs:sequence>{attributes}'
        "</xs:complexType>"
    )


def _element(name: str, kind: str, how_many: str = 'minOccurs="0" maxOccurs="unbounded"') -> str:
    """An element whose attributes have different keys."""
    attributes = "|".join(f"x:{value}" for value in (*_VALUES, "list"))
    return (
        f'<xs:element name="{name}" type="{kind}" {how_many}><xs:unique name="u{next(_NUMBERS)}">'
        f'<xs:selector xpath="{attributes}"/><xs:field xpath="@key"/></xs:unique></xs:element>'
    )


_SCOPE = '<xs:attribute name="scope" type="xs:NCName"/>'
_ATTRIBUTES = '<xs:group ref="attributes" minOccurs="0" maxOccurs="unbounded"/>'
_PARTS = (
    *(
        _type(f"of-{name}", _ATTRIBUTES, _required(key="xs:Name", value=kind))
        for name, kind in _VALUES.items()
    ),
    _type("values", _ATTRIBUTES, ""),
    _type(
        "of-list",
        f'{_ATTRIBUTES}<xs:element name="values" type="values"/>',
        _required(key="xs:Name"),
    ),
    _type("extension", "", _required(name="xs:NCName", prefix="xs:NCName", uri="xs:anyURI")),
    _type("global", _ATTRIBUTES, _SCOPE),
    _type("classifier", "", _required(name="xs:NCName", keys="xs:token") + _SCOPE),
    _type("event", _ATTRIBUTES, ""),
    _type("trace", _ATTRIBUTES + _element("event", "event"), ""),
    _type(
        "log",
        _element("extension", "extension")
        + _element("global", "global")
        + _element("classifier", "classifier")
        + _ATTRIBUTES
        + _element("trace", "trace")
        + _element("event", "event"),
        _required(**{"xes.version": "xs:decimal"})
        + '<xs:attribute name="xes.features" type="xs:token"/>',
    ),
    '<xs:group name="attributes"><xs:choice>'
    + "".join(f'<xs:element name="{n}" type="of-{n}"/>' for n in (*_VALUES, "list"))
    + "</xs:choice></xs:group>",
    _element("log", "log", ""),
)
SCHEMA = (
    f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="{NAMESPACE}" '
    f'xmlns:x="{NAMESPACE}" '
    f'targetNamespace="{NAMESPACE}" elementFormDefault="qualified">{"".join(_PARTS)}</xs:schema>'
)


@cache
def _compiled() -> Any:
    etree = pytest.importorskip("lxml.etree")
    return etree.XMLSchema(etree.fromstring(SCHEMA.encode()))


def schema_problems(log: bytes) -> list[str]:
    """Returns what the schema says against a log; nothing if it is valid."""
    etree = pytest.importorskip("lxml.etree")
    schema = _compiled()
    schema.validate(etree.fromstring(log))
    return [f"{error.line}: {error.message}" for error in schema.error_log]

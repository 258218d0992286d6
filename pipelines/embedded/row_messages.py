"""Rows and dicts of an unbounded collection as messages, which streams read."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracecloak.transforms.inputs.python_rows import EPOCH, UnreadError, kind_and_value

TIME = "time"
"""Attribute of a message with the time of its event, where that came as a time."""
# What no field of an event is, so that the message is rejected for that reason.
_NO_SCALAR: list[Any] = []


@dataclass(frozen=True)
class RowMessage:
    """A row as a `transforms.formats.messages.Message`: a JSON object of the fields that are read.

    Attributes:
        data: The JSON, in UTF-8.
        attributes: Its time, where that is no text and no number.
    """

    data: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ToMessage:
    """Makes messages of rows; it pickles.

    Attributes:
        names: The fields that are read.
        time: Which of them is the time.
        is_dict: Whether rows are dicts.
    """

    names: tuple[str, ...]
    time: str
    is_dict: bool

    def __call__(self, row: Any) -> RowMessage:
        """Returns a row as a message."""
        value_of: Callable[[str], Any]
        value_of = row.get if self.is_dict else lambda name: getattr(row, name, None)
        body: dict[str, Any] = {}
        attributes: dict[str, str] = {}
        for name in self.names:
            try:
                kind, value = kind_and_value(value_of(name))
            except UnreadError:
                body[name] = _NO_SCALAR
                continue
            read = _of_json(kind, value)
            if kind in ("instant", "local") and name == self.time:
                attributes[TIME] = read or ""
            else:
                body[name] = read
        return RowMessage(json.dumps(body).encode(), attributes)


def _of_json(kind: str, value: Any) -> Any:
    """Returns a value of `column_of_kinds` as JSON has it; what is no number is null.

    A time is its ISO 8601, or null out of the years 1 to 9999.
    """
    if kind == "text":
        return value
    if kind in ("instant", "local"):
        try:
            text = (EPOCH + datetime.timedelta(microseconds=value)).isoformat()
        except OverflowError:
            return None
        return f"{text}Z" if kind == "instant" else text
    if kind == "number" and "." not in value:
        return int(value)
    return float(value) if math.isfinite(float(value)) else None

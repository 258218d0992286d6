"""Rows and dicts of an unbounded collection as messages, which streams read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tracecloak.transforms.inputs.python_rows import UnreadError, iso_of, scalar_or_time

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
                kind, value = scalar_or_time(value_of(name))
            except UnreadError:
                body[name] = _NO_SCALAR
                continue
            if kind == "text":
                body[name] = _of_json(value)
            elif name == self.time:
                attributes[TIME] = iso_of(value, kind) or ""
            else:
                body[name] = _NO_SCALAR
        return RowMessage(json.dumps(body).encode(), attributes)


def _of_json(value: Any) -> Any:
    """Returns a scalar as JSON has it; what is not a number is null."""
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, Decimal) and value == int(value):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None

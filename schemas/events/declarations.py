"""What is declared of attributes: all their values, or bounds, before any value is read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import pydantic
from pydantic import Field

from tracecloak.schemas.events.events import is_case_attribute
from tracecloak.schemas.texts.bounded_json import bounded_json

MAX_ATTRIBUTES = 100

MAX_VALUES = 1000

MAX_CHARACTERS = 1000

# Whole numbers up to here are floats exactly, on the way in and in every file format.
_LARGEST_WHOLE = 2**53

_LARGEST_BOUND = 1e300  # the distance of two bounds stays finite

# Prefixes of the standard's extensions that an XES log can declare; others would be undefined.
KEY_PREFIXES = ("concept", "cost", "identity", "lifecycle", "org", "time")

TAKEN_NAMES = (
    "case:concept:name",
    "concept:name",
    "time:timestamp",
    "case_id",
    "activity",
    "timestamp",
    "start_timestamp",
    "event_index",
)

# What XML cannot hold, and what would be written differently in some format.
_NOT_TEXT = re.compile("[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


class Declaration(pydantic.BaseModel):
    """The domain of an attribute: `values` of a categorical one, or `bounds` of a number."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    values: tuple[str, ...] | None = Field(default=None, min_length=1, max_length=MAX_VALUES)
    """All values that are released, as texts; any other counts as no value."""
    bounds: tuple[int | float, int | float] | None = None
    """Smallest and largest number that is released; numbers beyond count as the nearer of them."""
    n_bins: int = Field(default=20, ge=1, le=MAX_VALUES)
    """Into how many parts of equal width the bounds are divided; whole numbers that are fewer have
    one each. More bins are finer and have more noise."""
    whole: bool = False
    """Whether the numbers are whole; others are rounded to the nearest."""
    column: str | None = Field(default=None, min_length=1)
    """Source column (or XES key); by default the attribute's name."""

    @pydantic.field_validator("values", mode="before")
    @classmethod
    def _whole_numbers_are_texts(cls, values: Any) -> Any:
        if not isinstance(values, list | tuple):
            return values
        return tuple(str(v) if type(v) is int else v for v in values)

    @pydantic.field_validator("bounds", mode="before")
    @classmethod
    def _truth_is_no_number(cls, bounds: Any) -> Any:
        if isinstance(bounds, list | tuple) and any(isinstance(b, bool) for b in bounds):
            raise ValueError("bounds must be two numbers")
        return bounds

    @pydantic.field_validator("bounds")
    @classmethod
    def _whole_bounds_are_integers(
        cls, bounds: tuple[int | float, int | float] | None
    ) -> tuple[int | float, int | float] | None:
        """Of two spellings of a number, 10 and 10.0, one is kept."""
        if bounds is None:
            return None
        low, high = (int(b) if abs(b) <= _LARGEST_WHOLE and b == int(b) else b for b in bounds)
        return low, high

    @pydantic.model_validator(mode="after")
    def _check(self) -> Declaration:
        if (self.values is None) == (self.bounds is None):
            raise ValueError("needs either values or bounds")
        if self.values is not None:
            if self.whole or "n_bins" in self.model_fields_set:
                raise ValueError("n_bins and whole go with bounds, not with values")
            _check_values(self.values)
        elif self.bounds is not None:
            _check_bounds(*self.bounds, self.whole)
        return self

    @pydantic.model_serializer(mode="wrap")
    def _of_its_kind(self, serialise: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out what does not apply."""
        others = ("bounds", "n_bins", "whole") if self.bounds is None else ("values",)
        return {
            name: value
            for name, value in serialise(self).items()
            if name not in others and (value or name not in ("column", "handovers"))
        }


class HandoverDeclaration(Declaration):
    """The domain of an attribute, and whether it is kept who hands over to whom."""

    handovers: bool = False
    """Whether the log keeps which value follows which: for each activity and value of the event
    before, how often the event has each value. For attributes of events with values; by default
    values are drawn by activity alone."""

    @pydantic.model_validator(mode="after")
    def _check_handovers(self) -> HandoverDeclaration:
        if self.handovers and self.values is None:
            raise ValueError("handovers goes with values, not with bounds")
        return self


def _check_values(values: tuple[str, ...]) -> None:
    if len(set(values)) < len(values):
        raise ValueError("values must be distinct")
    for value in values:
        if not value or len(value) > MAX_CHARACTERS or _NOT_TEXT.search(value):
            raise ValueError(
                f"values must have 1 to {MAX_CHARACTERS} characters and none for control"
            )


def _check_bounds(low: int | float, high: int | float, whole: bool) -> None:
    if not all(-_LARGEST_BOUND <= bound <= _LARGEST_BOUND for bound in (low, high)):
        raise ValueError(f"bounds must be finite, at most {_LARGEST_BOUND:g} in size")
    if not low < high:
        raise ValueError("bounds must be two different numbers, the smaller first")
    if whole and any(b != int(b) or abs(b) > _LARGEST_WHOLE for b in (low, high)):
        raise ValueError("bounds of whole numbers must be whole, at most 2^53 in size")


def _parsed(declared: Any) -> Any:
    """A flag or an environment variable gives JSON text."""
    if not isinstance(declared, str):
        return declared
    try:
        return bounded_json(declared)
    except json.JSONDecodeError:
        raise ValueError(
            'must be JSON if it is text, such as {"org:resource": {"values": ["R1", "R2"]}}'
        ) from None


_Declared = TypeVar("_Declared", bound=Mapping[str, Declaration])


def check_names(declared: _Declared) -> _Declared:
    """Returns what is declared of attributes.

    Raises:
        ValueError: One has a name that an attribute cannot have in a release.
    """
    for name in declared:
        key = name.removeprefix("case:")
        prefix, colon, rest = key.partition(":")
        if name in TAKEN_NAMES:
            raise ValueError(f"{name!r} is released in any case; leave it out")
        if not key or key.strip() != key or not key.isprintable() or len(key) > MAX_CHARACTERS:
            raise ValueError(
                f"{name!r} cannot name an attribute: it must have printable characters, and no "
                "blanks around them"
            )
        if colon and (prefix not in KEY_PREFIXES or not rest):
            raise ValueError(
                f"{name!r} begins with the prefix of an extension that XES does not have; the "
                f"prefixes are {', '.join(KEY_PREFIXES)}. Give it another name, and say its column"
            )
    return declared


def _check_handovers(declared: dict[str, HandoverDeclaration]) -> dict[str, HandoverDeclaration]:
    for name, declaration in declared.items():
        if declaration.handovers and is_case_attribute(name):
            raise ValueError(
                f"{name!r} belongs to the case, which hands nothing over; handovers is for "
                "attributes of events"
            )
    return declared


Declarations = Annotated[
    dict[str, Declaration],
    Field(max_length=MAX_ATTRIBUTES),
    pydantic.BeforeValidator(_parsed),
    pydantic.AfterValidator(check_names),
]

HandoverDeclarations = Annotated[
    dict[str, HandoverDeclaration],
    Field(max_length=MAX_ATTRIBUTES),
    pydantic.BeforeValidator(_parsed),
    pydantic.AfterValidator(check_names),
    pydantic.AfterValidator(_check_handovers),
]

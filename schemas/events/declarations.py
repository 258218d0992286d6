"""Attributes of cases and events: their declarations and their values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pydantic
from pydantic import Field

from tracecloak.schemas.events.events import is_case_attribute
from tracecloak.schemas.texts import bounded_json

# --- What is declared of attributes: all their values, or bounds, before any value is read. -------


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

    @pydantic.field_validator("bounds", mode="wrap")
    @classmethod
    def _whole_bounds_are_integers(
        cls, given: Any, validate: pydantic.ValidatorFunctionWrapHandler
    ) -> tuple[int | float, int | float] | None:
        """Of two spellings of a number, 10 and 10.0, one is kept; a truth is no number."""
        if isinstance(given, list | tuple) and any(isinstance(b, bool) for b in given):
            raise ValueError("bounds must be two numbers")
        bounds = validate(given)
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
            if len(set(self.values)) < len(self.values):
                raise ValueError("values must be distinct")
            if any(not 1 <= len(v) <= MAX_CHARACTERS or _NOT_TEXT.search(v) for v in self.values):
                raise ValueError(f"values must have 1 to {MAX_CHARACTERS} printable characters")
        low, high = self.bounds or (0, 1)
        if not all(-_LARGEST_BOUND <= bound <= _LARGEST_BOUND for bound in (low, high)):
            raise ValueError(f"bounds must be finite, at most {_LARGEST_BOUND:g} in size")
        if not low < high:
            raise ValueError("bounds must be two different numbers, the smaller first")
        if self.whole and any(b != int(b) or abs(b) > _LARGEST_WHOLE for b in (low, high)):
            raise ValueError("bounds of whole numbers must be whole, at most 2^53 in size")
        return self

    @pydantic.model_serializer(mode="wrap")
    def _own_fields(self, serialise: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
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


def _parsed(declared: Any) -> Any:
    """A flag or an environment variable gives JSON text."""
    if not isinstance(declared, str):
        return declared
    try:
        return bounded_json(declared)
    except json.JSONDecodeError:
        raise ValueError('must be JSON, such as {"cost": {"bounds": [0, 9]}}') from None


_Declared = TypeVar("_Declared", bound=Declaration)


def check_names(declared: dict[str, _Declared]) -> dict[str, _Declared]:
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
            raise ValueError(f"{name!r} cannot name an attribute: it is blank or unprintable")
        if colon and (prefix not in KEY_PREFIXES or not rest):
            raise ValueError(f"{name!r} has a prefix of an extension other than {KEY_PREFIXES}")
        if Attribute(name, declared[name]).has_handovers and is_case_attribute(name):
            raise ValueError(f"{name!r} belongs to the case; handovers is for attributes of events")
    return declared


_ByName = Annotated[
    dict[str, _Declared],
    Field(max_length=MAX_ATTRIBUTES),
    pydantic.BeforeValidator(_parsed),
    pydantic.AfterValidator(check_names),
]
Declarations = _ByName[Declaration]
HandoverDeclarations = _ByName[HandoverDeclaration]


# ---
# Declared attributes: the public domain that an attribute is coded into, and values drawn from it.
# An attribute leaves a release only if it is declared, with all values that it can take: a list of
# texts, or bounds and a number of bins. The declaration is public and does not come from the log.
# The name says the level, as pm4py names columns: `case:NAME` belongs to the case, any other to the
# event.


@dataclass(frozen=True)
class Attribute:
    """A declared attribute, coded into cells: 0 is no value, 1 to n are its values or its bins.

    Attributes:
        name: Its name, in the release and, unless the declaration says another, in the source.
        declaration: Its domain.
    """

    name: str
    declaration: Declaration

    @property
    def is_of_case(self) -> bool:
        """Whether it belongs to the case; else it belongs to the event."""
        return is_case_attribute(self.name)

    @property
    def has_handovers(self) -> bool:
        """Whether which value follows which is kept."""
        declaration = self.declaration
        return isinstance(declaration, HandoverDeclaration) and declaration.handovers

    @property
    def column(self) -> str:
        """The source column."""
        return self.declaration.column or self.name

    @property
    def n_cells(self) -> int:
        """Number of cells, that of no value included."""
        values = self.declaration.values
        return 1 + (len(self._edges) - 1 if values is None else len(values))

    @property
    def arrow_type(self) -> pa.DataType:
        """Type of the released values: string, int64 or float64."""
        if self.declaration.values is not None:
            return pa.string()
        return pa.int64() if self.declaration.whole else pa.float64()

    @cached_property
    def _edges(self) -> np.ndarray:
        """int64[n+1] or float64[n+1]: bin k is from edge k to before edge k + 1.

        Of whole numbers the last edge is one above the largest.
        """
        assert self.declaration.bounds is not None
        low, high = self.declaration.bounds
        if self.declaration.whole:
            first, n_numbers = int(low), int(high) - int(low) + 1
            n_bins = min(self.declaration.n_bins, n_numbers)
            return np.array([first + k * n_numbers // n_bins for k in range(n_bins + 1)], np.int64)
        return np.linspace(float(low), float(high), self.declaration.n_bins + 1)

    def cells(self, values: pa.Array) -> np.ndarray:
        """Codes source texts.

        What is missing, not declared, no number or not finite is no value. A number beyond the
        bounds counts as the nearer of them.

        Args:
            values: string[n], or a dictionary of them.

        Returns:
            int32[n], from 0 to `n_cells` - 1.
        """
        if pa.types.is_dictionary(values.type):
            of_texts = np.append(self.cells(values.dictionary), np.int32(0))
            return of_texts[np.asarray(pc.fill_null(values.indices, len(values.dictionary)))]
        declared = self.declaration.values
        if declared is not None:
            place = pc.index_in(values, value_set=pa.array(declared, pa.string()))
            return np.asarray(pc.fill_null(place, -1), np.int32) + np.int32(1)
        numbers = numbers_of(values)
        if self.declaration.whole:
            numbers = np.rint(numbers)
        with np.errstate(invalid="ignore"):
            cells = np.searchsorted(self._edges[1:-1], numbers, side="right") + 1
        return np.where(np.isfinite(numbers), cells, 0).astype(np.int32)

    def values_of(self, cells: np.ndarray, uniforms: np.ndarray) -> pa.Array:
        """Makes released values; null for no value.

        Args:
            cells: int[n], from 0 to `n_cells` - 1.
            uniforms: float64[n] in [0, 1): where in its bin a number lies; of no use to texts.

        Returns:
            An array of `arrow_type`; numbers are uniform in their bin and never out of the bounds.
        """
        missing = cells == 0
        declared = self.declaration.values
        if declared is not None:
            return pa.array(declared, pa.string()).take(pa.array(cells - 1, mask=missing))
        bins = np.maximum(cells - 1, 0)
        low, high = self._edges[bins], self._edges[bins + 1]
        if self.declaration.whole:
            steps = np.floor(uniforms * (high - low)).astype(np.int64)
            return pa.array(np.minimum(low + steps, high - 1), pa.int64(), mask=missing)
        # A sum may be rounded up to the edge, where the next bin begins.
        numbers = np.minimum(low + uniforms * (high - low), np.nextafter(high, low))
        return pa.array(numbers, pa.float64(), mask=missing)


def declared(declarations: Mapping[str, Declaration]) -> tuple[Attribute, ...]:
    """Returns the attributes of a method's parameter, in the order of their declaration."""
    return tuple(Attribute(name, declaration) for name, declaration in declarations.items())


_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"


def numbers_of(texts: pa.Array) -> np.ndarray:
    """Returns float64[n]: decimal numbers as they are, NaN for anything else.

    Args:
        texts: string[n], or a dictionary of them.
    """
    if pa.types.is_dictionary(texts.type):
        parsed = np.append(numbers_of(texts.dictionary), math.nan)
        return parsed[np.asarray(pc.fill_null(texts.indices, len(texts.dictionary)))]
    texts = pc.utf8_trim_whitespace(texts)
    is_number = pc.fill_null(pc.match_substring_regex(texts, _NUMBER), False)
    numbers = pc.if_else(is_number, texts, None).cast(pa.float64())
    return np.asarray(pc.fill_null(numbers, math.nan))

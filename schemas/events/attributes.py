"""Declared attributes: the public domain that an attribute is coded into, and values drawn from it.

An attribute leaves a release only if it is declared, with all values that it can take: a list of
texts, or bounds and a number of bins. The declaration is public and does not come from the log. The
name says the level, as pm4py names columns: `case:NAME` belongs to the case, any other to the
event.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.declarations import Declaration, HandoverDeclaration
from tracecloak.schemas.events.events import is_case_attribute


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
        of_texts = np.append(numbers_of(texts.dictionary), math.nan)
        return of_texts[np.asarray(pc.fill_null(texts.indices, len(texts.dictionary)))]
    texts = pc.utf8_trim_whitespace(texts)
    is_number = pc.fill_null(pc.match_substring_regex(texts, _NUMBER), False)
    numbers = pc.if_else(is_number, texts, None).cast(pa.float64())
    return np.asarray(pc.fill_null(numbers, math.nan))

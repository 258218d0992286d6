"""What a product of a release can do: become a table and JSON, and be looked at by an audit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from tracecloak.schemas.published.yields import Yield

Key = tuple[str, ...]
"""What a number of a release counts: ("variant", a, b, …), ("pair", a, b), ("total",), …"""


def columns_of(rows: Iterable[Sequence[Any]], kinds: Mapping[str, type[Any]]) -> list[Any]:
    """Returns rows as columns: string[n] of texts, and numpy arrays of numbers.

    Args:
        rows: The values of each row, in the order of the columns.
        kinds: Of each column by its name, `str` or the dtype of its numbers.
    """
    columns: Iterable[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(kinds)
    return [
        pa.array(column, pa.string()) if kind is str else np.array(column, kind)
        for column, kind in zip(columns, kinds.values(), strict=True)
    ]


class ReleasedProduct(Protocol):
    """A product: a columnar value (`schemas.arrays.columnar`) that is safe to publish.

    The table of kinds (`transforms.publish.products`) says in which further forms it is written.
    """

    def to_table(self) -> pa.Table:
        """Returns it as the rows of a table."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        ...

    @classmethod
    def from_json(cls, body: Any) -> Self:
        """Returns the product that `to_json` gave, so that all that is made of it is made again.

        Args:
            body: JSON values from anywhere. For values that `to_json` never gives, this may raise
                any error, or return a product whose `to_json` gives other values.
        """
        ...

    def came_out(self) -> Yield:
        """Returns how much of the log it holds, by its own numbers; by default nothing."""
        return Yield()

    def numbers(self, watched: Sequence[Key] | None = None) -> dict[Key, float]:
        """Returns its numbers by what they count, by which audits tell releases apart.

        Args:
            watched: Those that are wanted of what has too many to give them all; None for some of
                them. What has few gives all of them in any case; what follows from others gives
                none, as that has them.
        """
        return {}

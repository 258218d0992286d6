"""Sums over cases of the numbers that each adds to the cells of a public list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np


@dataclass(frozen=True, eq=False)
class CellSums:
    """The sum of each cell; cells and lattice are public and the same for all pieces.

    Attributes:
        values: int64[n_cells], in lattice steps.
    """

    wire_name: ClassVar[str] = "cell-sums"

    values: np.ndarray

    @classmethod
    def merge(cls, pieces: Sequence[CellSums]) -> CellSums:
        """Returns the sums over the cases of all pieces, of which there is at least one.

        Raises:
            ValueError: They have different numbers of cells.
        """
        if len({len(piece.values) for piece in pieces}) > 1:
            raise ValueError("sums of different cells cannot be added")
        return cls(np.stack([piece.values for piece in pieces]).sum(axis=0, dtype=np.int64))

    @property
    def weight(self) -> int:
        """Number of cells."""
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CellSums) and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]  # holds an array

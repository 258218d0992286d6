"""Sums over cases of the numbers that each adds to the cells of a public list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.schemas.arrays.merging import OfArrays


@dataclass(frozen=True, eq=False)
class CellSums(OfArrays):
    """The sum of each cell; cells and lattice are public and the same for all pieces.

    Attributes:
        values: int64[n_cells], in lattice steps; of a log without cases int64[0].
    """

    wire_name: ClassVar[str] = "cell-sums"

    values: np.ndarray

    @classmethod
    def merge(cls, pieces: Sequence[CellSums]) -> CellSums:
        """Returns the sums over the cases of all pieces.

        Raises:
            ValueError: They have different numbers of cells.
        """
        counted = [piece.values for piece in pieces if len(piece.values)]
        if len(set(map(len, counted))) > 1:
            raise ValueError("sums of different cells cannot be added")
        if not counted:
            return cls(np.zeros(0, np.int64))
        return cls(np.stack(counted).sum(axis=0, dtype=np.int64))

    def cells(self, n_cells: int) -> np.ndarray:
        """Returns int64[n_cells], the sum of each cell, which is 0 of a log without cases."""
        return self.values if len(self.values) else np.zeros(n_cells, np.int64)

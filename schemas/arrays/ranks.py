"""Cases by group in the order of keyed identities, so that choosing some of them is repeatable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.merging import OfArrays

_BYTES = pa.binary(16)


def case_bytes(identities: np.ndarray) -> pa.FixedSizeBinaryArray:
    """Returns fixed_size_binary(16)[n], the two words of each identity, to look them up."""
    data = np.ascontiguousarray(identities, "<u8")
    return pa.FixedSizeBinaryArray.from_buffers(_BYTES, len(data), [None, pa.py_buffer(data)])


@dataclass(frozen=True, eq=False)
class CaseRanks(OfArrays):
    """Some cases, sorted by group and, within it, by identity: a uniformly random keyed order.

    Attributes:
        groups: int64[n], for example variant numbers.
        cases: fixed_size_binary(16)[n], keyed identities.
    """

    wire_name: ClassVar[str] = "case-ranks"
    _types = (np.int64, _BYTES)

    groups: np.ndarray
    cases: pa.FixedSizeBinaryArray

    @classmethod
    def of(cls, groups: np.ndarray, identities: np.ndarray) -> CaseRanks:
        """Ranks cases given in any order.

        Args:
            groups: int64[n].
            identities: uint64[n, 2].
        """
        return cls._collapsed(groups, case_bytes(identities))

    @classmethod
    def _collapsed(cls, groups: np.ndarray, cases: pa.FixedSizeBinaryArray) -> CaseRanks:
        table = pa.table({"group": groups, "case": cases})
        order = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("case", "ascending")])
        return cls(groups[np.asarray(order)], cases.take(order))

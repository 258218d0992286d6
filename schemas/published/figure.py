"""What a released number is: measured, derived or modelled, and whether it says anything.

A release tells somebody that 1,234 cases took a path, between 1,200 and 1,268. That number is

* measured: a noisy count of its own. Its interval holds the count of the log in 95 of 100 releases;
* derived: computed from measured numbers alone, with an interval that follows from their noise;
* modelled: drawn so that all the rest agrees. Nothing says how far off it is: it has no interval.

A number whose interval is wider than the number to both sides is not usable: 12, between -20 and
44, tells nothing. All of this looks at released numbers only and costs no privacy.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pyarrow as pa

MEASURED = "measured"
DERIVED = "derived"
MODELLED = "modelled"


def is_usable(values: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
    """Returns bool[n]: whether half the width of each interval is at most its number.

    Args:
        values: int64[n], released numbers.
        lows: int64[n], lower ends of their intervals.
        highs: int64[n], upper ends.
    """
    # Large numbers are halved rather than doubled: twice a count may be no int64.
    return highs / 2 - lows / 2 <= values


def kind_columns(
    kind: str, values: np.ndarray, lows: np.ndarray, highs: np.ndarray
) -> dict[str, pa.Array]:
    """Returns the columns kind and usable of a table of numbers that are all of one kind.

    Args:
        kind: `MEASURED` or `DERIVED`.
        values: As of `is_usable`, and so are the others.
        lows: See there.
        highs: See there.
    """
    return {
        "kind": pa.array([kind] * len(values), pa.string()),
        "usable": pa.array(is_usable(values, lows, highs), pa.bool_()),
    }


def without_kinds(product: Any) -> Any:
    """Returns a product as version 0.1.0 released it: its table says nothing of kinds.

    Which version that was is no field of a product, as noise depends on the fields.

    Args:
        product: With a class attribute `has_kinds`.
    """
    old = copy.copy(product)
    object.__setattr__(old, "has_kinds", False)
    return old

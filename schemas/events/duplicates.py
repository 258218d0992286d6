"""Events that a case has more than once, as systems deliver them twice."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.traces import TraceBatch

DROPPED = "%d events were dropped, as they equal one of their case"
"""What the operator is told of them, with their number."""


def is_duplicate(traces: TraceBatch) -> np.ndarray:
    """bool[n_events]: which events equal an earlier one of their case.

    They are equal in their activity, their time and every attribute that the batch carries; what is
    missing equals what is missing. Each case is looked at alone.
    """
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)
    codes = [_codes(values) for values in traces.attributes.values()]
    keys = [*codes, traces.activities, traces.times, case]
    order = np.lexsort(keys)  # stable, so the earlier one stands first
    is_equal = np.ones(max(len(order) - 1, 0), bool)
    for key in keys:
        is_equal &= np.diff(key[order]) == 0
    duplicates = np.zeros(traces.n_events, bool)
    duplicates[order[1:][is_equal]] = True
    return duplicates


def without_duplicates(traces: TraceBatch) -> TraceBatch:
    """Returns the same cases without the events that equal an earlier one; see `is_duplicate`."""
    duplicates = is_duplicate(traces)
    if not duplicates.any():
        return traces
    return traces.events_where(~duplicates)


def _codes(values: pa.Array) -> np.ndarray:
    """int64[n]: equal for equal values, -1 for what is missing."""
    return np.asarray(pc.fill_null(values.dictionary_encode().indices, -1), np.int64)

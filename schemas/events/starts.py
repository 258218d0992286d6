"""When the events of records began: a column of times, or records that are starts themselves.

A record without a start, or without a transition, is a completion whose start is not known. One
whose start is no time, or is after its time, is malformed. Transitions beside `start` and
`complete`, such as `schedule`, are no events: their records are left out and counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.events import IS_START
from tracecloak.schemas.events.source_column import SourceColumn
from tracecloak.schemas.events.tally import LATE_START, NO_START, REJECT_REASONS


@dataclass(frozen=True)
class StartsOfRecords:
    """The starts of some records.

    Attributes:
        values: int64[n], microseconds since 1970 UTC; null where it is not known, and IS_START
            where the record is one of a start.
        is_other: bool[n], whether the record is of another transition.
    """

    values: pa.Array
    is_other: np.ndarray


def starts_of_records(
    written: pa.Array,
    column: SourceColumn | None,
    lifecycle: pa.Array | None,
    time: pa.Array,
    reason: np.ndarray,
) -> StartsOfRecords:
    """Returns the starts, and says of records that are malformed for theirs why.

    Args:
        written: int64[n], the starts as read; null for what is no time.
        column: Where they were read; None: there is no such column.
        lifecycle: string[n], the transitions; None where no record is one of a start.
        time: int64[n], the times of the records; null for what is no time.
        reason: int8[n], places in REJECT_REASONS, or -1; is written to where it is that.
    """
    n = len(written)
    if column is not None:
        unreadable = np.asarray(pc.is_null(written)) & ~column.is_empty()
        reason[unreadable & (reason < 0)] = REJECT_REASONS.index(NO_START)
        late = np.asarray(pc.fill_null(pc.greater(written, time), False))
        reason[late & (reason < 0)] = REJECT_REASONS.index(LATE_START)
    if lifecycle is None:
        return StartsOfRecords(written, np.zeros(n, bool))
    transition = pc.fill_null(pc.utf8_lower(lifecycle), "complete")
    is_start = np.asarray(pc.equal(transition, "start"))
    is_other = ~is_start & ~np.asarray(pc.equal(transition, "complete"))
    values = pc.if_else(pa.array(is_start), pa.scalar(IS_START, pa.int64()), written)
    return StartsOfRecords(values, is_other)

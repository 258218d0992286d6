"""When the events of records began: a column of times, or records that are starts themselves.

An event needs one time. A record without a start is a completion whose start is not known, and one
with nothing but a start an event whose completion is not known, which takes place at its start. One
whose start is not a time, or is after its time, is malformed.

Transitions other than starts and completions that the XES standard knows, such as `schedule`, are
no events: their records are left out by that rule, and counted. Those of any other transition are
lost, as they may be ends of events under a name that was not declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.events import IS_OPEN, IS_START
from tracecloak.schemas.events.source_column import SourceColumn
from tracecloak.schemas.events.tally import (
    LATE_START,
    NO_START,
    NO_TIME,
    OTHER_TRANSITION,
    REJECT_REASONS,
    UNKNOWN_TRANSITION,
)

STARTS = ("start", "started", "begin")
COMPLETIONS = ("complete", "completed", "end", "ended")
"""Transitions, in lower case, that are the two ends of an event without being declared."""
_OTHERS = (
    *("schedule", "assign", "reassign", "withdraw", "suspend", "resume", "pi_abort", "ate_abort"),
    *("autoskip", "manualskip", "unknown"),
)
TRANSITIONS = ("start", "complete", "not an event", "not known")
"""What a transition can be."""
START, COMPLETE, OTHER, UNKNOWN = range(len(TRANSITIONS))
LEFT_OUT = {OTHER: OTHER_TRANSITION, UNKNOWN: UNKNOWN_TRANSITION}
"""What is found of records of transitions that are no ends of events."""


def kinds_of_transitions(
    written: pa.Array, starts: Sequence[str] = (), completions: Sequence[str] = ()
) -> np.ndarray:
    """Returns int8[n], places in TRANSITIONS; case does not count, and nothing is a completion.

    Nor do blanks around a transition, such as those of columns of a fixed width.

    Args:
        written: string[n], the transitions.
        starts: Those that are declared to be starts.
        completions: Those that are declared to be completions.
    """
    text = pc.fill_null(_compared(written), COMPLETIONS[0])
    kinds = np.full(len(text), UNKNOWN, np.int8)
    of_kinds = {OTHER: _OTHERS, COMPLETE: (*COMPLETIONS, *completions), START: (*STARTS, *starts)}
    for kind, names in of_kinds.items():  # what is declared counts before the standard's
        kinds[np.asarray(pc.is_in(text, value_set=_compared(pa.array(names))))] = kind
    return kinds


def _compared(transitions: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_trim_whitespace(transitions))


@dataclass(frozen=True)
class TimesOfRecords:
    """The times of records, any of which may lack one of two.

    Attributes:
        time: int64[n], microseconds since 1970 UTC: the completion, or the start where no
            completion is written; null for what is not a time.
        starts: int64[n], likewise; null where none is known.
        lacks_end: bool[n], whether no completion is written.
        is_unreadable: bool[n], whether a start is written that is not a time.
    """

    time: pa.Array
    starts: pa.Array
    lacks_end: np.ndarray
    is_unreadable: np.ndarray

    @classmethod
    def of(
        cls, ends: SourceColumn | None, time: pa.Array, begun: SourceColumn | None, starts: pa.Array
    ) -> TimesOfRecords:
        """Joins two columns of times; None is one that there is not.

        Args:
            ends: Where completions are written.
            time: int64[n], as they were read.
            begun: Where starts are written.
            starts: int64[n], as they were read.
        """
        everywhere = np.ones(len(time), bool)
        lacks_end = everywhere if ends is None else ends.is_empty()
        lacks_start = everywhere if begun is None else begun.is_empty()
        is_unreadable = np.asarray(starts.is_null()) & ~lacks_start
        return cls(pc.if_else(pa.array(lacks_end), starts, time), starts, lacks_end, is_unreadable)

    def marked_starts(self, kinds: np.ndarray | None, reason: np.ndarray) -> pa.Array:
        """Returns int64[n], the starts, and writes of records that are malformed for theirs why.

        A record of a start is IS_START, and one without a completion IS_OPEN.

        Args:
            kinds: int8[n], places in TRANSITIONS; None: no record is one of a start.
            reason: int8[n], places in REJECT_REASONS, or -1 for none so far.
        """
        has_none = (reason < 0) | (self.lacks_end & (reason == REJECT_REASONS.index(NO_TIME)))
        reason[self.is_unreadable & has_none] = REJECT_REASONS.index(NO_START)
        late = np.asarray(pc.fill_null(pc.greater(self.starts, self.time), False))
        reason[late & (reason < 0)] = REJECT_REASONS.index(LATE_START)
        starts = pc.if_else(pa.array(self.lacks_end), pa.scalar(IS_OPEN, pa.int64()), self.starts)
        if kinds is None:
            return starts
        return pc.if_else(pa.array(kinds == START), pa.scalar(IS_START, pa.int64()), starts)

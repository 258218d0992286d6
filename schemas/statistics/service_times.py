"""Events that take time: when each began, pairs of start and complete, and what of a gap is work.

An event stands at its completion. In a source it has its start in a column of its own, or its start
is a record of its own: then the records of a case's activity are paired first in, first out, as in
pm4py. A record that has a completion and no start is an event whose start is not known. One that
has a start and no completion is an event as well, at the time of its start: its completion is not
known, and is not taken to be that time. So no record is lost.

What passes between two completions is divided: work on an event goes from its start, or from the
last known completion before if that is later, to its completion, and is its service time. What is
left is its waiting time. So both add up to the time between completions, whatever runs side by
side. An event without a completion has neither, and whoever comes right after it has no waiting
time, as nobody knows from when on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.events import IS_OPEN, START_TIMESTAMP
from tracecloak.schemas.events.traces import TraceBatch


@dataclass(frozen=True)
class IntervalTimes:
    """How long each event was worked on and waited for, in microseconds.

    Attributes:
        is_known: bool[n_events], whether the event's start and its completion are known.
        has_wait: bool[n_events], whether the event's waiting time is known: not of a first event.
        service_us: int64[n_events], 0 where the event is not known.
        waiting_us: int64[n_events], 0 where it is not known.
    """

    is_known: np.ndarray
    has_wait: np.ndarray
    service_us: np.ndarray
    waiting_us: np.ndarray

    @classmethod
    def of(cls, traces: TraceBatch) -> IntervalTimes:
        """Returns them; of traces without starts, none is known."""
        is_known, starts = starts_of(traces)
        has_wait = is_known & has_step(traces)
        # The last event before that is completed, which is in an earlier case if there is none.
        completed = np.where(is_open(traces), -1, np.arange(traces.n_events))
        last = np.roll(np.maximum.accumulate(completed), 1)
        is_there = last >= np.repeat(traces.offsets[:-1], traces.lengths)
        before = np.where(is_there & ~traces.is_first, traces.times[last], starts)
        begun = np.maximum(starts, before)
        service = np.where(is_known, traces.times - begun, 0)
        return cls(is_known, has_wait, service, np.where(has_wait, begun - before, 0))


def starts_of(traces: TraceBatch) -> tuple[np.ndarray, np.ndarray]:
    """Returns bool[n_events], whether a start and a completion are known, and int64[n_events].

    That is the start, or the event's time where they are not; microseconds since 1970 UTC. No start
    is after its event's time.
    """
    values = _values(traces)
    known = np.asarray(values.is_valid()) & ~is_open(traces)
    starts = np.asarray(pc.fill_null(values, 0))
    return known, np.where(known, np.minimum(starts, traces.times), traces.times)


def is_open(traces: TraceBatch) -> np.ndarray:
    """bool[n_events], whether an event's completion is not known, so that its time is its start."""
    return np.asarray(pc.fill_null(pc.equal(_values(traces), IS_OPEN), False))


def has_step(traces: TraceBatch) -> np.ndarray:
    """bool[n_events], whether the time from the completion before to that of an event is known."""
    lacks_end = is_open(traces)
    return ~(traces.is_first | lacks_end | np.roll(lacks_end, 1))


def _values(traces: TraceBatch) -> pa.Array:
    """int64[n_events], the starts as the traces carry them; all null where they carry none."""
    starts = traces.attributes.get(START_TIMESTAMP)
    return pa.nulls(traces.n_events, pa.int64()) if starts is None else starts.cast(pa.int64())

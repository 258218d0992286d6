"""Events that take time: when each began, pairs of start and complete, and what of a gap is work.

An event stands at its completion. In a source it has its start in a column of its own, or its start
is a record of its own: then the records of a case's activity are paired first in, first out, as in
pm4py. A record of a start that nothing completes is an event at that time, and one of a completion
that nothing began is an event as well; neither has a known start. So no record is lost.

What passes between two completions is divided: work on an event goes from its start, or from the
completion before if that is later, to its completion, and is its service time. What is left is its
waiting time. So both add up to the time between completions, whatever runs side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.events import START_TIMESTAMP
from tracecloak.schemas.events.traces import TraceBatch


@dataclass(frozen=True)
class IntervalTimes:
    """How long each event was worked on and waited for, in microseconds.

    Attributes:
        is_known: bool[n_events], whether the event's start is known.
        service_us: int64[n_events], 0 where it is not.
        waiting_us: int64[n_events], 0 of a case's first event, and where the start is not known.
    """

    is_known: np.ndarray
    service_us: np.ndarray
    waiting_us: np.ndarray

    @classmethod
    def of(cls, traces: TraceBatch) -> IntervalTimes:
        """Returns them; of traces without starts, none is known."""
        is_known, starts = starts_of(traces)
        before = np.where(traces.is_first, starts, np.roll(traces.times, 1))
        begun = np.maximum(starts, before)
        service = np.where(is_known, traces.times - begun, 0)
        waiting = np.where(is_known, begun - before, 0)
        return cls(is_known, service, waiting)


def starts_of(traces: TraceBatch) -> tuple[np.ndarray, np.ndarray]:
    """Returns bool[n_events], whether a start is known, and int64[n_events], it or the time.

    Microseconds since 1970 UTC. No start is after its event's time.
    """
    values = traces.attributes.get(START_TIMESTAMP)
    if values is None:
        return np.zeros(traces.n_events, bool), traces.times
    known = np.asarray(values.is_valid())
    starts = np.asarray(pc.fill_null(values.cast(pa.int64()), 0))
    return known, np.where(known, np.minimum(starts, traces.times), traces.times)

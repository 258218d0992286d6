"""Which cases belong to a window, and which of their events count there.

A schedule says which of two rules holds: a case belongs to the window in which it closes, or to the
one of its first event. Both rules are functions of the case's own events and of public numbers, so
every case belongs to at most one window.

The events of a window's reading span give the same answer as all events of the lake would, but for
one kind of case. A case that is silent for longer than its lifetime and then goes on is taken for a
case that begins there, since its earlier events are not read. It then counts in two windows. Late
events move a case as well, which one state of the lake cannot show. Whether a case was counted
before is not decided here.
"""

from __future__ import annotations

import numpy as np

from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams.closing_rule import closing
from tracecloak.schemas.windows.schedule import Schedule, Window


def members(traces: TraceBatch, schedule: Schedule, window: Window) -> TraceBatch:
    """Returns the cases of a window, in their order, with the events that count.

    Args:
        traces: All events of their cases within the window's reading span, with the activities of
            the source: a name that a vocabulary has replaced ends no case.
        schedule: What belongs where.
        window: One of its windows.

    Returns:
        Cases with at least one event. An attribute of the case may be from an event that does not
        count.
    """
    if traces.n_cases == 0:
        return traces
    if schedule.by == "close":
        moments, counted = _closes(traces, schedule)
    else:
        moments = traces.starts
        counted = traces.times < np.repeat(moments + schedule.max_lifetime_us, traces.lengths)
    inside = (window.begin_us <= moments) & (moments < window.end_us)
    return traces.events_where(counted & np.repeat(inside, traces.lengths))


def _closes(traces: TraceBatch, schedule: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """(int64[n_cases] moments at which they are over, bool[n_events] what came before)."""
    lifetime = schedule.max_lifetime_us
    # If no gap is given, a case ends by its age alone and never by a silence.
    gap = lifetime if schedule.gap_us is None else schedule.gap_us
    ends = np.isin(traces.vocabulary.names.to_pylist(), schedule.end_activities)
    return closing(traces.offsets, traces.times, ends[traces.activities], gap, lifetime)

"""A schedule to change for tests, and membership in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US
from tracecloak.schemas.windows import Schedule

MONTHS = Schedule(
    dataset="visits",
    origin="2026-01-01",
    period="month",
    time_zone="Europe/Amsterdam",
    by="close",
    max_lifetime_us=90 * DAY_US,
    gap_us=30 * DAY_US,
    end_activities=("discharge",),
    release_delay_us=2 * DAY_US,
    horizon=24,
)
# Windows of hours in the first days of 1970, so that times are small numbers.
HOURS = replace(
    MONTHS,
    origin="1970-01-01T00Z",
    period="3 hours",
    time_zone="UTC",
    max_lifetime_us=4 * HOUR_US,
    gap_us=2 * HOUR_US,
    end_activities=("END",),
    release_delay_us=0,
    horizon=6,
)


def schedule(base: Schedule = MONTHS, **changes: Any) -> Schedule:
    """Returns a schedule like another one; by first event it has neither gap nor end activity."""
    if changes.get("by") == "first_event":
        changes = {"gap_us": None, "end_activities": (), **changes}
    return replace(base, **changes)


Step = tuple[str, int]


def naive_end(steps: Sequence[Step], rule: Schedule) -> tuple[int, list[Step]]:
    """(moment that decides on its window, events that count) of a case, event by event."""
    first = steps[0][1]
    if rule.by == "first_event":
        return first, [step for step in steps if step[1] < first + rule.max_lifetime_us]
    taken: list[Step] = []
    ended = None
    moment = first
    for activity, time in steps:
        if taken and time >= moment:
            break
        taken.append((activity, time))
        if ended is None and activity in rule.end_activities:
            ended = time
        moment = first + rule.max_lifetime_us
        if rule.gap_us is not None:
            moment = min(moment, time + rule.gap_us)
        if ended is not None:
            moment = min(moment, ended)
    return moment, taken

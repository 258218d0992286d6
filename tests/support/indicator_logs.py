"""Logs whose events have resources and starts and whose cases have a kind and an amount.

With what indicators read of a case in plain Python, one case at a time, to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.logs import MINUTE, trace_batch
from tracecloak.schemas.events.events import OTHER
from tracecloak.schemas.events.traces import TraceBatch

KIND, AMOUNT, RESOURCE = "case:kind", "case:amount", "org:resource"


@dataclass(frozen=True)
class Event:
    """An event of a case.

    Attributes:
        activity: What was done.
        time_us: When.
        resource: By whom; None: nobody knows.
        start_us: When it began; None: nobody knows.
    """

    activity: str
    time_us: int
    resource: str | None = None
    start_us: int | None = None


@dataclass(frozen=True)
class Case:
    """A case, its events in the order of time.

    Attributes:
        events: One at least.
        kind: The attribute KIND.
        amount: The attribute AMOUNT, a text as in a source.
    """

    events: tuple[Event, ...]
    kind: str | None = None
    amount: str | None = None

    @property
    def names(self) -> list[str]:
        """The activities."""
        return [event.activity for event in self.events]

    @property
    def throughput_us(self) -> int:
        """From the first event to the last."""
        return self.events[-1].time_us - self.events[0].time_us

    @property
    def number(self) -> float | None:
        """The amount, if it is a number."""
        try:
            number = float(self.amount or "")
        except ValueError:
            return None
        return number if math.isfinite(number) else None

    @property
    def repeats(self) -> bool:
        """Whether an activity that has a name occurs twice."""
        return any(self.names.count(name) > 1 for name in set(self.names) - {OTHER})

    def wait_us(self, first: str, second: str) -> int | None:
        """The time of the first step from one activity to another."""
        for before, after in zip(self.events, self.events[1:], strict=False):
            if (before.activity, after.activity) == (first, second):
                return after.time_us - before.time_us
        return None

    def work_us(self, activity: str) -> int | None:
        """How long an activity was worked on, of events whose start is known."""
        worked = None
        for place, event in enumerate(self.events):
            if event.activity != activity or event.start_us is None:
                continue
            start = min(event.start_us, event.time_us)
            if place:
                start = max(start, self.events[place - 1].time_us)
            worked = (worked or 0) + event.time_us - start
        return worked

    def events_by(self, values: Sequence[str], at_most: int) -> list[int]:
        """Its events by resource, the first ones of some values."""
        meant = [event.resource for event in self.events if event.resource in values][:at_most]
        return [meant.count(value) for value in values]


def log_of(
    cases: Sequence[Case], names: Iterable[str] | None = None, is_plain: bool = False
) -> TraceBatch:
    """The traces of some cases.

    Args:
        cases: The cases.
        names: Of the vocabulary; by default those that occur.
        is_plain: Whether attributes are texts, and not dictionaries of them as in a source.
    """
    events = [
        (f"c{i}", event.activity, event.time_us)
        for i, case in enumerate(cases)
        for event in case.events
    ]
    traces = trace_batch(events, names)
    of_events = [(case, event) for case in cases for event in case.events]
    texts = {
        RESOURCE: [event.resource for _, event in of_events],
        KIND: [case.kind for case, _ in of_events],
        AMOUNT: [case.amount for case, _ in of_events],
    }
    arrays: dict[str, Any] = {name: pa.array(column, pa.string()) for name, column in texts.items()}
    if not is_plain:
        arrays = {name: column.dictionary_encode() for name, column in arrays.items()}
    starts = pa.array([event.start_us for _, event in of_events], pa.int64())
    return replace(traces, attributes={"start_timestamp": starts, **arrays})


_FIRST_US = 1_704_067_200_000_000  # 2024-01-01, a Monday
_GAPS = (0, MINUTE, 90 * MINUTE, 3 * 24 * 60 * MINUTE)


@st.composite
def _case(draw: st.DrawFn) -> Case:
    time = _FIRST_US + draw(st.integers(0, 40)) * 24 * 60 * MINUTE
    events = []
    for _ in range(draw(st.integers(1, 6))):
        time += draw(st.sampled_from(_GAPS))
        since = draw(st.sampled_from([None, -MINUTE, 0, MINUTE, 60 * MINUTE, 10**13]))
        events.append(
            Event(
                draw(st.sampled_from(["A", "B", "C", OTHER])),
                time,
                draw(st.sampled_from([None, "R1", "R2", "R3"])),
                None if since is None else time - since,
            )
        )
    kind = draw(st.sampled_from([None, "k1", "k2", "", "k1 "]))
    amount = draw(st.sampled_from([None, "0", "7.5", "-3", "1e400", "nan", "ten", "500", " 20 "]))
    return Case(tuple(events), kind, amount)


def case_lists(max_cases: int = 6) -> st.SearchStrategy[list[Case]]:
    """Some cases, or none."""
    return st.lists(_case(), max_size=max_cases)

"""Which cases keep a rule: templates of Declare, each also within a time.

A rule speaks of one activity or of two: "every order is followed by an invoice within 14 days". A
case in which what it speaks of never occurs keeps it. Events of a case are in their order, so of
two at the same time the one that stands first is the earlier one.

Pesic, Schonenberg, van der Aalst: DECLARE: Full Support for Loosely-Structured Processes (EDOC
2007); the names are those of Di Ciccio and Mecella, On the Discovery of Declarative Control Flows
for Artful Processes (ACM TMIS 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from tracecloak.schemas.events.traces import TraceBatch


@dataclass(frozen=True)
class _Events:
    """The events of a batch, and those of the two activities of a rule.

    Attributes:
        traces: The cases.
        is_first: bool[n_events], events of the activity that a rule names first.
        is_second: bool[n_events], those of the one that it names second.
        n: How often, of rules on one activity.
        within_us: The time, or None for any.
    """

    traces: TraceBatch
    is_first: np.ndarray
    is_second: np.ndarray
    n: int
    within_us: int | None

    def is_near(self, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """Whether events, by their places, are within the time of each other; no place is not."""
        times, n_events = self.traces.times, self.traces.n_events
        is_there = (earlier >= 0) & (later < n_events)
        if self.within_us is None or not n_events:
            return is_there
        since = times[np.minimum(later, n_events - 1)] - times[np.maximum(earlier, 0)]
        return is_there & (since <= self.within_us)

    def count(self, is_event: np.ndarray) -> np.ndarray:
        """int64[n_cases], events of each case that are such."""
        case = np.repeat(np.arange(self.traces.n_cases), self.traces.lengths)
        return np.bincount(case[is_event], minlength=self.traces.n_cases)

    def hold(self, is_meant: np.ndarray, is_kept: np.ndarray) -> np.ndarray:
        """bool[n_cases], whether all events that are meant keep something."""
        return self.count(is_meant & ~is_kept) == 0

    def soon(self, is_event: np.ndarray) -> np.ndarray:
        """Such events that are within the time of the start of their case."""
        starts = np.repeat(self.traces.offsets[:-1], self.traces.lengths)
        return is_event & self.is_near(starts, np.arange(self.traces.n_events))

    def next_of(self, is_event: np.ndarray) -> np.ndarray:
        """int64[n_events], the place of the next such event of the same case; n_events: none."""
        n_events = self.traces.n_events
        places = np.where(is_event, np.arange(n_events), n_events)
        after = np.append(np.minimum.accumulate(places[::-1])[::-1][1:], n_events)[:n_events]
        ends = np.repeat(self.traces.offsets[1:], self.traces.lengths)
        return np.where(after < ends, after, n_events)

    def last_of(self, is_event: np.ndarray) -> np.ndarray:
        """int64[n_events], the place of the last such event before in the same case; -1: none."""
        places = np.where(is_event, np.arange(self.traces.n_events), -1)
        before = np.append(-1, np.maximum.accumulate(places)[:-1])[: self.traces.n_events]
        begins = np.repeat(self.traces.offsets[:-1], self.traces.lengths)
        return np.where(before >= begins, before, -1)


def _last(events: _Events) -> np.ndarray:
    last = events.traces.offsets[1:] - 1
    return events.is_first[last] & events.is_near(events.traces.offsets[:-1], last)


def _response(events: _Events, is_chain: bool = False) -> np.ndarray:
    places, after = np.arange(events.traces.n_events), events.next_of(events.is_second)
    is_right = (after == places + 1) | (not is_chain)
    return events.hold(events.is_first, events.is_near(places, after) & is_right)


def _precedence(events: _Events, is_chain: bool = False) -> np.ndarray:
    places, before = np.arange(events.traces.n_events), events.last_of(events.is_first)
    is_right = (before == places - 1) | (not is_chain)
    return events.hold(events.is_second, events.is_near(before, places) & is_right)


def _succession(events: _Events, is_chain: bool = False) -> np.ndarray:
    return _response(events, is_chain) & _precedence(events, is_chain)


def _not_coexistence(events: _Events) -> np.ndarray:
    places = np.arange(events.traces.n_events)
    follows = events.is_near(places, events.next_of(events.is_second))
    precedes = events.is_near(events.last_of(events.is_second), places)
    return events.hold(events.is_first, ~(follows | precedes))


OF_ONE: Mapping[str, Callable[[_Events], np.ndarray]] = {
    "existence": lambda events: events.count(events.soon(events.is_first)) >= events.n,
    "absence": lambda events: events.count(events.soon(events.is_first)) < events.n,
    "first": lambda events: events.is_first[events.traces.offsets[:-1]],
    "last": _last,
}
"""Templates of one activity: it occurs at least n times, fewer than n times, first, or last; within
a time of the start of the case."""

OF_TWO: Mapping[str, Callable[[_Events], np.ndarray]] = {
    "response": _response,
    "precedence": _precedence,
    "succession": _succession,
    "chain_response": partial(_response, is_chain=True),
    "chain_precedence": partial(_precedence, is_chain=True),
    "chain_succession": partial(_succession, is_chain=True),
    "not_coexistence": _not_coexistence,
}
"""Templates of two activities: each first one is followed by a second one, each second one has a
first one before it, both, each time right after one another; or not both, within a time."""


def cases_that_keep(
    traces: TraceBatch,
    template: str,
    first: str,
    second: str | None = None,
    n: int = 1,
    within_us: int | None = None,
) -> np.ndarray:
    """Returns which cases keep a rule.

    Args:
        traces: Complete cases.
        template: A name of `OF_ONE` or `OF_TWO`.
        first: The activity that it names first, which need not occur.
        second: The other one, of a template of two.
        n: How often, of existence and absence.
        within_us: The longest time in microseconds between the two events, or since the start of
            the case; None: any.

    Returns:
        bool[n_cases].
    """
    names = traces.vocabulary.names.to_pylist()

    def events_of(name: str | None) -> np.ndarray:
        if name not in names:
            return np.zeros(traces.n_events, bool)
        return traces.activities == names.index(name)

    events = _Events(traces, events_of(first), events_of(second), n, within_us)
    kept: np.ndarray = {**OF_ONE, **OF_TWO}[template](events)
    return kept

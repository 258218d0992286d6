"""Open and closed cases of a stream: messages in, whole cases out, each in exactly one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.hashing import mix
from tracecloak.schemas.arrays.merging import (
    distinct_places,
    equal_to_previous,
    offsets_of,
    order_of_small,
    ranges,
    rows_in_order,
)
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams.closing_rule import ClosingRule

# --- Which cases of a stream have closed, so that what still comes of them is dropped. ------------
# A case must count once, so a closed one is remembered, by default until the horizon ends: 24
# bytes a case. There may be many millions, of which each step adds a few. So they are kept in
# runs, sorted ones that at least halve from one to the next: a run that is there is not touched
# again before as much as it holds has come, and who keeps runs on a disk writes each key a few
# times and not once a step (the log-structured merge of O'Neil, Cheng, Gawlick, O'Neil 1996, in
# memory).
#
# Keys of two words, uint64[n, 2], in the order of both: found by bisection, without any text.


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (distinct keys in order, a row of each, int64[n] the rank of each row's key)."""
    order = _order(keys)
    ordered = keys[order]
    is_new = np.ones(len(keys), bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.cumsum(is_new) - 1
    return ordered[is_new], order[is_new], rank


def _order(keys: np.ndarray) -> np.ndarray:
    return rows_in_order([keys[:, 0]], lambda rows: [keys[rows, 1]])


def find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Returns int64[n], the row of each wanted key among sorted ones, or -1."""
    place = np.searchsorted(keys[:, 0], wanted[:, 0])
    rows = np.full(len(wanted), -1, np.int64)
    search = np.arange(len(wanted))
    while len(search):  # once more for each key that shares its first word: hardly ever
        search = search[place[search] < len(keys)]
        at = place[search]
        same = keys[at, 0] == wanted[search, 0]
        equal = same & (keys[at, 1] == wanted[search, 1])
        rows[search[equal]] = at[equal]
        search = search[same & ~equal]
        place[search] += 1
    return rows


# No message is as late as this.
FOREVER_US = np.iinfo(np.int64).max
# The value for a case of which nothing is remembered, or of which no message has come.
NOT_YET_US = -FOREVER_US


class ClosedRun(Columnar, wire_name="closed-run"):
    """Some closed cases.

    Attributes:
        keys: uint64[n, 2], sorted and distinct.
        until: int64[n], messages of the case that are published before this moment are dropped.
    """

    keys: np.ndarray
    until: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, until: np.ndarray) -> ClosedRun:
        """Returns a run of keys in any order; a key that repeats has the latest of its moments."""
        unique, _, rank = distinct(keys)
        latest = np.full(len(unique), NOT_YET_US)
        np.maximum.at(latest, rank, until)
        return cls(unique, latest)


class ClosedKeys(Columnar, wire_name="closed-keys"):
    """All closed cases that are remembered; a value, `with_more` returns another.

    Attributes:
        runs: By their numbers, the oldest and largest first. A key may be in several: the latest
            moment holds.
    """

    runs: Mapping[str, ClosedRun]

    def until(self, keys: np.ndarray) -> np.ndarray:
        """Returns int64[n], up to when each case stays closed; NOT_YET_US where none is kept."""
        latest = np.full(len(keys), NOT_YET_US)
        for run in self.runs.values():
            row = find(run.keys, keys)
            known = row >= 0
            latest[known] = np.maximum(latest[known], run.until[row[known]])
        return latest

    def with_more(
        self, keys: np.ndarray, until: np.ndarray, over_us: int = NOT_YET_US
    ) -> ClosedKeys:
        """Returns these and further ones.

        Args:
            keys: uint64[n, 2], in any order; they may be there already.
            until: int64[n], for each.
            over_us: A case that is to be remembered until this moment or less may be forgotten; it
                is forgotten when its run is merged with another one.
        """
        if not len(keys):
            return self
        runs = list(self.runs.values())
        newest = ClosedRun.of(keys, until)
        while runs and len(runs[-1].keys) <= 2 * len(newest.keys):
            last = runs.pop()
            both = (
                np.concatenate([last.keys, newest.keys]),
                np.concatenate([last.until, newest.until]),
            )
            lasting = both[1] > over_us
            newest = ClosedRun.of(both[0][lasting], both[1][lasting])
        return ClosedKeys({str(number): run for number, run in enumerate([*runs, newest])})


# --- Open cases of a stream: messages in, whole cases out, each in exactly one step of time. ------
# A case that is never known to be complete must still be counted once. When it closes, and with
# which events, is a function of its own messages and of public numbers alone: never of the clock
# of the worker, of the order of arrival, or of other cases. So adding or removing a case changes
# one step and nothing else, and the epsilon of a step is that of the whole stream (parallel
# composition: McSherry, Privacy Integrated Queries, SIGMOD 2009).
#
# Two times are kept apart. The time of publishing, which the message service stamps, decides when
# a case closes. The time of the event, which is whatever a sender's clock says, orders the events
# within their case; a wrong clock concerns the case that it reports on. Events of one time are in
# the order of their publishing, and of one publishing in the source's own order, such as a
# partition's. Brokers stamp milliseconds, senders publish in batches, and clocks run ahead: an
# event can be said to be after its publishing. Its place among the others is that of its own
# time; the time that is released is cut to the publishing.
#
# The messages of a case are a set: of messages with one event id the first published counts, and
# of all the first `max_trace_length` published. Such sets merge in any order and grouping to the
# same set, so retries, redelivery and shuffled arrival change nothing, and a case cannot grow.
#
# A case that has closed is remembered (`schemas.streams.open_cases`), and what still comes of it
# is dropped and keeps it closed for longer. Where it is remembered for less than the horizon, a
# message after that begins another case of its name. When that is depends on which messages are
# known when a case closes: so whoever closes the cases of a step has added all messages that were
# published before its end, and none of a later one (`CaseEvents.before`). Then it is the same for
# every division of the messages into batches.
#
# Not here: how messages are read and keyed, what the steps publish, and caps on the cases of an
# individual.


class CaseEvents(Columnar, wire_name="case-events"):
    """Keyed messages of some cases, in any order.

    Attributes:
        keys: uint64[n_cases, 2], a keyed identity of each case, so that no text of any length meets
            the state; one may repeat.
        individuals: uint64[n_cases, 2], that of the individual whose case it is; uint64[n_cases, 0]
            where cases stand for themselves. A row of both need not have messages.
        case: int32[n_events], row of `keys`.
        publish: int64[n_events], microseconds since 1970-01-01 UTC at which it was published.
        times: int64[n_events], when the event was, by the sender's clock.
        orders: int64[n_events], the source's own order of what was published at one moment.
        event_ids: uint64[n_events], hash of what tells the events of a case apart.
        activities: int32[n_events], codes of the rule's vocabulary.
    """

    keys: np.ndarray
    individuals: np.ndarray
    case: np.ndarray
    publish: np.ndarray
    times: np.ndarray
    orders: np.ndarray
    event_ids: np.ndarray
    activities: np.ndarray

    @property
    def n_events(self) -> int:
        """Number of messages."""
        return len(self.case)

    @property
    def ahead_us(self) -> np.ndarray:
        """int64[n_events], by how much the time of each is later than its publishing, or 0."""
        return np.maximum(self.times - self.publish, 0)

    @classmethod
    def concat(cls, batches: Sequence[CaseEvents]) -> CaseEvents:
        """Returns the messages of all batches, of which there is at least one."""
        if len(batches) == 1:
            return batches[0]
        first = offsets_of(np.array([len(b.keys) for b in batches]))
        return cls(
            np.concatenate([b.keys for b in batches]),
            np.concatenate([b.individuals for b in batches]),
            np.concatenate([b.case + np.int32(o) for b, o in zip(batches, first, strict=False)]),
            *(np.concatenate([getattr(b, name) for b in batches]) for name in _COLUMNS),
        )

    def before(self, moment_us: int) -> tuple[CaseEvents, CaseEvents]:
        """Returns (the messages that were published before a moment, those from it on)."""
        is_early = self.publish < moment_us
        if is_early.all():
            return self, self._rows(np.zeros(0, np.int64))
        return self._rows(np.flatnonzero(is_early)), self._rows(np.flatnonzero(~is_early))

    def known(self) -> CaseEvents:
        """Returns the messages whose activity has a code."""
        return self._rows(np.flatnonzero(self.activities >= 0))

    def _rows(self, events: np.ndarray) -> CaseEvents:
        """Some of the messages, and the keys of their cases."""
        rows, case = distinct_places(self.case[events])
        return CaseEvents(
            self.keys[rows],
            self.individuals[rows],
            case.astype(np.int32),
            *(getattr(self, name)[events] for name in _COLUMNS),
        )

    def split(self, n_shards: int) -> Iterator[tuple[int, CaseEvents]]:
        """Yields (shard, its messages), so that all of a case, or an individual, meet in one."""
        unit = self.individuals if self.individuals.shape[1] else self.keys
        case_shard = (unit[:, 0] % np.uint64(n_shards)).astype(np.int64)
        event_shard = case_shard[self.case]
        order = order_of_small(event_shard, n_shards - 1)
        ends = np.searchsorted(event_shard[order], np.arange(n_shards + 1))
        for shard in np.flatnonzero(np.diff(ends)).tolist():
            yield shard, self._rows(order[ends[shard] : ends[shard + 1]])


# Columns of events and their types, in the order in which CaseEvents and OpenCases take them.
_COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("publish", "times", "orders"), np.int64),
    "event_ids": np.uint64,
    "activities": np.int32,
}
# Columns of cases that OpenCases takes first.
_OF_CASES = ("keys", "individuals", "closes", "latest")


class OpenCases(Columnar, wire_name="open-cases"):
    """The cases of a shard that are not closed yet, and the memory of those that are.

    A value: `add` and `close` return another. Bytes: 40 a case (56 with individuals) and 36 an
    event, of which a case has at most `max_trace_length`; 24 a closed case that is remembered.

    Attributes:
        keys: uint64[n_cases, 2], sorted and distinct.
        individuals: uint64[n_cases, 2], or uint64[n_cases, 0].
        closes: int64[n_cases], when the case closes if nothing more comes of it.
        latest: int64[n_cases], when the last message of the case was published, be it kept or not.
        offsets: int64[n_cases+1]; the events of a case are in the order of their publishing.
        closed: The cases that have closed. One of `keys` may be there as well, which then was
            closed until its first message here.
        publish: int64[n_events].
        times: int64[n_events].
        orders: int64[n_events].
        event_ids: uint64[n_events], distinct within a case.
        activities: int32[n_events].
    """

    keys: np.ndarray
    individuals: np.ndarray
    closes: np.ndarray
    latest: np.ndarray
    offsets: np.ndarray
    closed: ClosedKeys
    publish: np.ndarray
    times: np.ndarray
    orders: np.ndarray
    event_ids: np.ndarray
    activities: np.ndarray

    @classmethod
    def none(cls, by_individual: bool = False) -> OpenCases:
        """Returns the state before the first message."""
        keys, no_times = np.zeros((0, 2), np.uint64), np.zeros(0, np.int64)
        whose = keys if by_individual else np.zeros((0, 0), np.uint64)
        columns = (np.zeros(0, kind) for kind in _COLUMNS.values())
        no_cases = np.zeros(1, np.int64)
        return cls(keys, whose, no_times, no_times, no_cases, ClosedKeys({}), *columns)

    @property
    def n_cases(self) -> int:
        """Number of open cases."""
        return len(self.keys)

    @property
    def n_events(self) -> int:
        """Number of events that are kept."""
        return len(self.publish)

    @cached_property
    def lengths(self) -> np.ndarray:
        """int64[n_cases], events kept of each case."""
        return np.diff(self.offsets)

    def add(self, events: CaseEvents, rule: ClosingRule, first_step: int) -> OpenCases:
        """Takes in messages; one of a closed case is dropped, and keeps the case closed for longer.

        The result does not depend on the order in which messages come, as long as none comes after
        its case was closed; nor on how they are batched, where closed cases are remembered for
        ever. Else a message may be as late as to open its case again, and one that is older to keep
        it closed: then all that was published between two closings is to be added at once.

        Args:
            events: The messages.
            rule: When a case closes.
            first_step: Earlier steps are released.
        """
        is_dropped, closed = self._dropped(events, rule, first_step)
        rows = np.flatnonzero(~is_dropped)
        if not len(rows):
            return self if closed is self.closed else replace(self, closed=closed)
        fresh = events._rows(rows)
        place = find(self.keys, fresh.keys)
        is_known = np.zeros(self.n_cases, bool)
        is_known[place[place >= 0]] = True
        old = self._cases(np.flatnonzero(is_known))
        messages = CaseEvents.concat([old.messages, fresh])
        keys, first, code = distinct(messages.keys)
        case = code[messages.case]
        latest = np.full(len(keys), NOT_YET_US)
        latest[code[: old.n_cases]] = old.latest
        np.maximum.at(latest, case, messages.publish)

        columns = [getattr(messages, name) for name in _COLUMNS]
        chosen = _first_messages(case, columns, rule.max_trace_length)
        columns = [column[chosen] for column in columns]
        offsets = offsets_of(np.bincount(case[chosen], minlength=len(keys)))
        closes, _ = rule.closing(offsets, columns[0], rule.ends[columns[-1]])
        whose = messages.individuals[first]
        grown = OpenCases(keys, whose, closes, latest, offsets, closed, *columns)

        names = *_OF_CASES, *_COLUMNS
        both: dict[str, Any] = {
            n: np.concatenate([getattr(self, n), getattr(grown, n)]) for n in names
        }
        lengths = np.concatenate([self.lengths, grown.lengths])
        rows = np.append(np.flatnonzero(~is_known), self.n_cases + np.arange(grown.n_cases))
        rows = rows[_order(both["keys"][rows])]
        return replace(grown, **both, offsets=offsets_of(lengths))._cases(rows)

    @property
    def messages(self) -> CaseEvents:
        """The events of the cases as messages."""
        case = np.repeat(np.arange(self.n_cases, dtype=np.int32), self.lengths)
        columns = (getattr(self, name) for name in _COLUMNS)
        return CaseEvents(self.keys, self.individuals, case, *columns)

    def _cases(self, rows: np.ndarray) -> OpenCases:
        """Some of the cases."""
        lengths = self.lengths[rows]
        events = ranges(self.offsets[rows], lengths)
        taken: dict[str, Any] = {name: getattr(self, name)[rows] for name in _OF_CASES}
        taken |= {name: getattr(self, name)[events] for name in _COLUMNS}
        return replace(self, offsets=offsets_of(lengths), **taken)

    def _dropped(
        self, events: CaseEvents, rule: ClosingRule, first_step: int
    ) -> tuple[np.ndarray, ClosedKeys]:
        """Returns bool[n_events], which messages are of closed cases, and these after them."""
        is_dropped = np.zeros(events.n_events, bool)
        until = self.closed.until(events.keys)
        until[until <= rule.forgotten_until(first_step)] = NOT_YET_US
        until[find(self.keys, events.keys) >= 0] = NOT_YET_US  # it is open again
        rows = np.flatnonzero(until[events.case] > NOT_YET_US)
        if not len(rows):
            return is_dropped, self.closed
        if rule.tombstone_us is None:
            is_dropped[rows] = True
            return is_dropped, self.closed
        keys, first, code = distinct(events.keys)
        case = code[events.case[rows]]
        order = np.lexsort((events.publish[rows], case))
        rows, case = rows[order], case[order]
        publish = events.publish[rows]
        # A message that is dropped keeps its case closed for the ones behind it.
        opens = until[first][case]
        same = case[1:] == case[:-1]
        opens[1:][same] = np.maximum(opens[1:][same], publish[:-1][same] + rule.tombstone_us)
        is_open = publish >= opens
        n_opened = np.cumsum(is_open)
        heads = np.flatnonzero(np.diff(case, prepend=-1))
        lengths = np.diff(np.append(heads, len(case)))
        is_after = n_opened > np.repeat(n_opened[heads] - is_open[heads], lengths)
        is_dropped[rows[~is_after]] = True
        last = heads + lengths - 1
        extended = last[~is_after[last]]
        longer = np.maximum(opens[extended], publish[extended] + rule.tombstone_us)
        return is_dropped, self.closed.with_more(keys[case[extended]], longer)

    def close(
        self, complete_until: int, rule: ClosingRule, first_step: int
    ) -> tuple[OpenCases, list[tuple[int, TraceBatch]], int]:
        """Closes the cases of the steps that are complete.

        Args:
            complete_until: Moment before which every message has been added, such as a watermark of
                the times of publishing, and from which on none has. A step is complete if it ends
                by then.
            rule: When a case closes.
            first_step: Earlier steps are released, and take no more cases.

        Returns:
            What stays open; (step, cases) in the order of steps, each of them non-empty; and how
            many cases of earlier steps came too late for them: like those that closed before step
            0, these are closed and not returned. Cases are in the order of their keys and bear
            them, as 32 hex digits, for their ids; events are ordered by time, then by publishing,
            by the source's order, and by the hash of their ids; a time after the publishing is cut
            to it. Where messages were late, a step comes again, with other cases.
        """
        boundary = rule.step_end(complete_until) - rule.period_us
        is_over = self.closes < boundary
        over, stay = np.flatnonzero(is_over), np.flatnonzero(~is_over)
        step = rule.step_of(self.closes[over])
        n_late = int(((step >= 0) & (step < first_step)).sum())
        steps = self._steps(over[step >= first_step], rule)
        if rule.tombstone_us is None:
            until = np.full(len(over), FOREVER_US)
        else:
            # What was published after the closing is the case's too: it is known that it came.
            until = np.maximum(self.closes[over], self.latest[over]) + rule.tombstone_us
        closed = self.closed.with_more(self.keys[over], until, rule.forgotten_until(first_step))
        return replace(self._cases(stay), closed=closed), steps, n_late

    def _steps(self, cases: np.ndarray, rule: ClosingRule) -> list[tuple[int, TraceBatch]]:
        """The messages that belong to closing cases, as traces by step."""
        step = rule.step_of(self.closes[cases])
        order = np.argsort(step, kind="stable")
        if not len(order):
            return []
        step, over = step[order], self._cases(cases[order])
        _, accepted = rule.closing(over.offsets, over.publish, rule.ends[over.activities])
        rows = np.flatnonzero(accepted)
        case = np.repeat(np.arange(over.n_cases), over.lengths)[rows]
        ties = over.publish[rows], over.orders[rows], over.event_ids[rows]
        rows = rows[rows_in_order((case, over.times[rows]), lambda at: [c[at] for c in ties])]
        offsets = offsets_of(np.bincount(case, minlength=over.n_cases))
        traces = TraceBatch(
            hex_names(over.keys),
            offsets,
            over.activities[rows],
            _cut(over.times[rows], over.publish[rows], offsets),
            rule.codes,
            hex_names(over.individuals) if over.individuals.shape[1] else None,
        )
        heads = np.flatnonzero(np.diff(step, prepend=step[:1] - 1))
        stops = np.append(heads[1:], len(step))
        return [
            (int(step[head]), traces.take(np.arange(head, stop)))
            for head, stop in zip(heads, stops, strict=True)
        ]


def _cut(times: np.ndarray, publish: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """int64[n], times not after their publishing, nor before one of an earlier event of the case.

    Args:
        times: int64[n], ascending within a case.
        publish: int64[n].
        offsets: int64[n_cases+1], of the cases, each with at least one event.
    """
    cut = np.minimum(times, publish)
    values, rank = np.unique(cut, return_inverse=True)
    # Keys of a later case are larger than all before: their running maximum is that of each case.
    case = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return values[np.maximum.accumulate(case * len(values) + rank) - case * len(values)]


def hex_names(keys: np.ndarray) -> pa.StringArray:
    """Returns string[n], 32 hex digits of each key uint64[n, 2]."""
    text = np.ascontiguousarray(keys, ">u8").tobytes().hex().encode()
    offsets = pa.array(np.arange(len(keys) + 1, dtype=np.int32) * 32)
    return pa.StringArray.from_buffers(len(keys), offsets.buffers()[1], pa.py_buffer(text))


def _first_messages(case: np.ndarray, columns: Sequence[np.ndarray], limit: int) -> np.ndarray:
    """Rows of the first `limit` messages of each case, by case and publishing, each event once."""
    publish, times, orders, event_ids, activities = columns
    # Time and activity decide between messages that should be equal, so that the choice is one.
    ties = event_ids, times, activities
    order = rows_in_order((case, publish, orders), lambda rows: [c[rows] for c in ties])
    # To sort numbers takes far less time than to find their order: most have no other like them.
    mixed = event_ids ^ mix(case.astype(np.uint64))
    in_order = np.sort(mixed)
    again = order[np.isin(mixed[order], in_order[1:][in_order[1:] == in_order[:-1]])]
    by_event = again[np.lexsort((event_ids[again], case[again]))]
    repeats = np.zeros(len(order), bool)
    repeats[by_event[1:]], _ = equal_to_previous((case, event_ids), by_event)
    order = order[~repeats[order]]
    return order[ranges(0, np.bincount(case[order])) < limit]

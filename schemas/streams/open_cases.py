"""Open cases of a stream: messages in, whole cases out, each in exactly one step of time.

A case that is never known to be complete must still be counted once. When it closes, and with which
events, is a function of its own messages and of public numbers alone: never of the clock of the
worker, of the order of arrival, or of other cases. So adding or removing a case changes one step
and nothing else, and the epsilon of a step is that of the whole stream (parallel composition:
McSherry, Privacy Integrated Queries, SIGMOD 2009).

Two times are kept apart. The time of publishing, which the message service stamps, decides when a
case closes. The time of the event, which is whatever a sender's clock says, orders the events
within their case; a wrong clock concerns the case that it reports on. Events of one time are in the
order of their publishing, and of one publishing in the source's own order, such as a partition's.
Brokers stamp milliseconds, senders publish in batches, and clocks run ahead: an event can be said
to be after its publishing. Its place among the others is that of its own time; the time that is
released is cut to the publishing.

The messages of a case are a set: of messages with one event id the first published counts, and of
all the first `max_trace_length` published. Such sets merge in any order and grouping to the same
set, so retries, redelivery and shuffled arrival change nothing, and a case cannot grow.

Not here: how messages are read and keyed, what the steps publish, and caps on the cases of an
individual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from tracecloak.schemas.arrays.merging import offsets_of, order_of_small, ranges
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams.closing_rule import ClosingRule, closing

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class CaseEvents:
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
    def of(
        cls,
        keys: np.ndarray,
        individuals: np.ndarray,
        case: np.ndarray,
        publish: np.ndarray,
        times: np.ndarray,
        orders: np.ndarray,
        event_ids: np.ndarray,
        activities: np.ndarray,
    ) -> CaseEvents:
        """Makes a batch, with times within the calendar."""
        publish, times = (np.clip(t, MIN_TIME_US, MAX_TIME_US) for t in (publish, times))
        case = case.astype(np.int32)
        return cls(keys, individuals, case, publish, times, orders, event_ids, activities)

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

    def split(self, n_shards: int) -> Iterator[tuple[int, CaseEvents]]:
        """Yields (shard, its messages), so that all of a case, or an individual, meet in one."""
        unit = self.individuals if self.individuals.shape[1] else self.keys
        case_shard = (unit[:, 0] % np.uint64(n_shards)).astype(np.int64)
        event_shard = case_shard[self.case]
        case_order = order_of_small(case_shard, n_shards - 1)
        event_order = order_of_small(event_shard, n_shards - 1)
        row = np.empty(len(case_order), np.int32)
        row[case_order] = np.arange(len(case_order), dtype=np.int32)
        case_ends = np.searchsorted(case_shard[case_order], np.arange(n_shards + 1))
        event_ends = np.searchsorted(event_shard[event_order], np.arange(n_shards + 1))
        for shard in np.flatnonzero(np.diff(event_ends)).tolist():
            cases = case_order[case_ends[shard] : case_ends[shard + 1]]
            events = event_order[event_ends[shard] : event_ends[shard + 1]]
            yield (
                shard,
                CaseEvents(
                    self.keys[cases],
                    self.individuals[cases],
                    row[self.case[events]] - np.int32(case_ends[shard]),
                    *(getattr(self, name)[events] for name in _COLUMNS),
                ),
            )


# Columns of events, in the order in which CaseEvents and OpenCases take them.
_COLUMNS = ("publish", "times", "orders", "event_ids", "activities")


@dataclass(frozen=True, eq=False)
class OpenCases:
    """The cases of a shard that are not closed yet, and the memory of those that are.

    A value: `add` and `close` return another. Bytes: 24 a case (40 with individuals) and 36 an
    event, of which a case has at most `max_trace_length`; 24 a closed case that is remembered.

    Attributes:
        keys: uint64[n_cases, 2], sorted and distinct.
        individuals: uint64[n_cases, 2], or uint64[n_cases, 0].
        closes: int64[n_cases], when the case closes if nothing more comes of it.
        offsets: int64[n_cases+1]; the events of a case are in the order of their publishing.
        publish: int64[n_events].
        times: int64[n_events].
        orders: int64[n_events].
        event_ids: uint64[n_events], distinct within a case.
        activities: int32[n_events].
        closed_keys: uint64[n_closed, 2], sorted and distinct, none of them in `keys`.
        closed_until: int64[n_closed], up to when messages of the case are dropped.
        released_before: The steps before this moment are released: they take no more cases.
    """

    keys: np.ndarray
    individuals: np.ndarray
    closes: np.ndarray
    offsets: np.ndarray
    publish: np.ndarray
    times: np.ndarray
    orders: np.ndarray
    event_ids: np.ndarray
    activities: np.ndarray
    closed_keys: np.ndarray
    closed_until: np.ndarray
    released_before: int

    @classmethod
    def none(cls, by_individual: bool = False) -> OpenCases:
        """Returns the state before the first message."""
        no_keys, no_times = np.zeros((0, 2), np.uint64), np.zeros(0, np.int64)
        return cls(
            no_keys,
            no_keys if by_individual else np.zeros((0, 0), np.uint64),
            no_times,
            np.zeros(1, np.int64),
            no_times,
            no_times,
            no_times,
            np.zeros(0, np.uint64),
            np.zeros(0, np.int32),
            no_keys,
            no_times,
            -_NEVER,
        )

    @property
    def n_cases(self) -> int:
        """Number of open cases."""
        return len(self.keys)

    @property
    def n_events(self) -> int:
        """Number of events that are kept."""
        return len(self.publish)

    @property
    def next_close(self) -> int | None:
        """When the first case closes if nothing more comes; None if there is no case."""
        return int(self.closes.min()) if len(self.closes) else None

    @cached_property
    def lengths(self) -> np.ndarray:
        """int64[n_cases], events kept of each case."""
        return np.diff(self.offsets)

    def add(self, events: CaseEvents, rule: ClosingRule) -> OpenCases:
        """Takes in messages; those of closed cases are dropped, and keep these closed for longer.

        The result does not depend on the order in which messages come, nor on how they are batched,
        as long as none comes after its case was closed.
        """
        if events.n_events == 0:
            return self
        is_used = np.bincount(events.case, minlength=len(events.keys)) > 0
        individuals = events.individuals[is_used]
        keys, first, code = _distinct(events.keys[is_used])
        case = code[(np.cumsum(is_used) - 1)[events.case]]
        blocked, closed_keys, closed_until = self._blocked(keys, case, events.publish, rule)
        kept = np.flatnonzero(~blocked[case])
        touched = np.flatnonzero(~blocked)
        row = np.cumsum(~blocked) - 1
        place = _find(self.keys, keys[touched])
        known = np.flatnonzero(place >= 0)
        old = place[known]
        old_events = ranges(self.offsets[old], self.lengths[old])

        case = np.concatenate([np.repeat(known, self.lengths[old]), row[case[kept]]])
        columns = [
            np.concatenate([getattr(self, name)[old_events], getattr(events, name)[kept]])
            for name in _COLUMNS
        ]
        chosen = _first_messages(case, columns, rule.max_trace_length)
        columns = [column[chosen] for column in columns]
        offsets = offsets_of(np.bincount(case[chosen], minlength=len(touched)))
        closes, _ = closing(offsets, columns[0], rule.ends[columns[-1]], rule)

        is_other = np.ones(self.n_cases, bool)
        is_other[old] = False
        others = np.flatnonzero(is_other)
        merged = np.concatenate([self.keys[others], keys[touched]])
        order = np.lexsort((merged[:, 1], merged[:, 0]))
        starts = np.concatenate([self.offsets[others], self.n_events + offsets[:-1]])[order]
        lengths = np.concatenate([self.lengths[others], np.diff(offsets)])[order]
        gathered = ranges(starts, lengths)
        whose = np.concatenate([self.individuals[others], individuals[first[touched]]])
        publish, times, orders, event_ids, activities = (
            np.concatenate([getattr(self, name), column])[gathered]
            for name, column in zip(_COLUMNS, columns, strict=True)
        )
        return OpenCases(
            merged[order],
            whose[order],
            np.concatenate([self.closes[others], closes])[order],
            offsets_of(lengths),
            publish,
            times,
            orders,
            event_ids,
            activities,
            closed_keys,
            closed_until,
            self.released_before,
        )

    def _blocked(
        self, keys: np.ndarray, case: np.ndarray, publish: np.ndarray, rule: ClosingRule
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns bool[n_keys], which cases are closed, and the tombstones after these messages."""
        place = _find(self.closed_keys, keys)
        earliest = np.full(len(keys), _NEVER)
        latest = np.full(len(keys), -_NEVER)
        np.minimum.at(earliest, case, publish)
        np.maximum.at(latest, case, publish)
        found = np.flatnonzero(place >= 0)
        over = earliest[found] >= self.closed_until[place[found]]
        blocked = np.zeros(len(keys), bool)
        blocked[found[~over]] = True
        until = self.closed_until.copy()
        still = place[found[~over]]
        until[still] = np.maximum(until[still], latest[blocked] + rule.tombstone_us)
        remain = np.ones(len(until), bool)
        remain[place[found[over]]] = False
        return blocked, self.closed_keys[remain], until[remain]

    def close(
        self, complete_until: int, rule: ClosingRule
    ) -> tuple[OpenCases, list[tuple[int, TraceBatch]]]:
        """Closes the cases of the steps that are complete.

        Args:
            complete_until: Moment before which every message has been added, such as a watermark of
                the times of publishing. A step is complete if it ends by then, and released if its
                `release_time` is past.
            rule: When a case closes.

        Returns:
            What stays open, and (step, cases) in the order of steps, each of them non-empty. Cases
            are in the order of their keys and bear them, as 32 hex digits, for their ids; events
            are ordered by time, then by publishing, by the source's order, and by the hash of their
            ids; a time after the publishing is cut to it. Where messages were late, a step comes
            again, with other cases. A case of a step that was released
            before is outside what can be counted: it is closed and not returned.
        """
        boundary = rule.begun(complete_until)
        released = rule.begun(complete_until - rule.release_delay_us)
        is_over = self.closes < boundary
        over, stay = np.flatnonzero(is_over), np.flatnonzero(~is_over)
        lengths = self.lengths[over]
        rows = ranges(self.offsets[over], lengths)
        offsets = offsets_of(lengths)
        publish, ends = self.publish[rows], rule.ends[self.activities[rows]]
        _, accepted = closing(offsets, publish, ends, rule)
        steps = self._steps(over, lengths, rows, accepted, rule)

        # What was published after the closing is the case's too, and it is known that it came.
        last = publish[offsets[1:] - 1] if len(over) else publish
        until = np.maximum(self.closes[over], last) + rule.tombstone_us
        # A message that is late can make a case of its own that closes this much later.
        slack = rule.inactivity_gap_us + rule.max_disorder_us
        remember = self.closed_until + slack > released
        closed_keys = np.concatenate([self.closed_keys[remember], self.keys[over]])
        order = np.lexsort((closed_keys[:, 1], closed_keys[:, 0]))
        kept = ranges(self.offsets[stay], self.lengths[stay])
        state = OpenCases(
            self.keys[stay],
            self.individuals[stay],
            self.closes[stay],
            offsets_of(self.lengths[stay]),
            self.publish[kept],
            self.times[kept],
            self.orders[kept],
            self.event_ids[kept],
            self.activities[kept],
            closed_keys[order],
            np.concatenate([self.closed_until[remember], until])[order],
            max(self.released_before, released),
        )
        return state, steps

    def _steps(
        self,
        cases: np.ndarray,
        lengths: np.ndarray,
        rows: np.ndarray,
        accepted: np.ndarray,
        rule: ClosingRule,
    ) -> list[tuple[int, TraceBatch]]:
        """The accepted rows of closing cases as traces, by step."""
        step = rule.step_of(self.closes[cases])
        order = np.argsort(step, kind="stable")
        order = order[self.closes[cases[order]] >= self.released_before]
        if not len(order):
            return []
        place = np.full(len(cases), -1)
        place[order] = np.arange(len(order))
        case = np.repeat(place, lengths)
        counted = accepted & (case >= 0)
        case, rows = case[counted], rows[counted]
        keys = (self.event_ids, self.orders, self.publish, self.times)
        in_order = np.lexsort((*(key[rows] for key in keys), case))
        rows, cases, step = rows[in_order], cases[order], step[order]
        whose = self.individuals[cases]
        offsets = offsets_of(np.bincount(case, minlength=len(cases)))
        traces = TraceBatch(
            hex_names(self.keys[cases]),
            offsets,
            self.activities[rows],
            _cut(self.times[rows], self.publish[rows], offsets),
            rule.codes,
            hex_names(whose) if whose.shape[1] else None,
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


def _distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(distinct keys in order, a row of each, int64[n] the rank of each row's key)."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ordered = keys[order]
    is_new = np.ones(len(keys), bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.cumsum(is_new) - 1
    return ordered[is_new], order[is_new], rank


def _find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """int64[n], the row of each wanted key among sorted ones, or -1."""
    place = np.searchsorted(keys[:, 0], wanted[:, 0])
    found = np.full(len(wanted), -1, np.int64)
    search = np.arange(len(wanted))
    while len(search):  # once more for each key that shares its first word: hardly ever
        search = search[place[search] < len(keys)]
        at = place[search]
        same = keys[at, 0] == wanted[search, 0]
        equal = same & (keys[at, 1] == wanted[search, 1])
        found[search[equal]] = at[equal]
        search = search[same & ~equal]
        place[search] += 1
    return found


def _first_messages(case: np.ndarray, columns: Sequence[np.ndarray], limit: int) -> np.ndarray:
    """Rows of the first `limit` messages of each case, by case and publishing, each event once."""
    publish, times, orders, event_ids, activities = columns
    # Time and activity decide between messages that should be equal, so that the choice is one.
    order = np.lexsort((activities, times, event_ids, orders, publish, case))
    by_event = order[np.lexsort((event_ids[order], case[order]))]
    repeats = np.zeros(len(order), bool)
    repeats[by_event[1:]] = (case[by_event[1:]] == case[by_event[:-1]]) & (
        event_ids[by_event[1:]] == event_ids[by_event[:-1]]
    )
    order = order[~repeats[order]]
    of = case[order]
    is_first = np.ones(len(of), bool)
    is_first[1:] = of[1:] != of[:-1]
    heads = np.flatnonzero(is_first)
    rank = np.arange(len(of)) - heads[np.cumsum(is_first) - 1]
    return order[rank < limit]

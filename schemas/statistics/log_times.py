"""Times of a log: when cases begin, how long they and their steps take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import CountsByKey, distinct_counts, places_among
from tracecloak.schemas.events.events import IS_OPEN, MAX_TIME_US, MIN_TIME_US, START_TIMESTAMP
from tracecloak.schemas.events.traces import TraceBatch

# ---
# When the cases of a log begin, how long they and their steps take, and at which hours they work.
# What a page about a log shows of its times, in counts that merge exactly. Durations are counted in
# public bins of one ratio, so a quantile that is read from them is off by half a bin at most, which
# is less than 5 %. Events that take time: when each began, pairs of start and complete, and what of
# a gap is work.
#
# An event stands at its completion. In a source it has its start in a column of its own, or its
# start is a record of its own: then the records of a case's activity are paired first in, first
# out, as in pm4py. A record that has a completion and no start is an event whose start is not
# known. One that has a start and no completion is an event as well, at the time of its start: its
# completion is not known, and is not taken to be that time. So no record is lost.
#
# What passes between two completions is divided: work on an event goes from its start, or from the
# last known completion before if that is later, to its completion, and is its service time. What is
# left is its waiting time. So both add up to the time between completions, whatever runs side by
# side. An event without a completion has neither, and whoever comes right after it has no waiting
# time, as nobody knows from when on.


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


SECOND_US = 1_000_000
_HOUR_US = 3600 * SECOND_US
_DAY_US = 24 * _HOUR_US
_BINS_PER_OCTAVE = 8
_N_OCTAVES = 32  # from a second to 136 years

HOURS_OF_WEEK = 168
_MONDAY = 4  # days from 1970-01-01, a Thursday, to the first Monday


def _bin_edges() -> np.ndarray:
    # Twice each edge is the eighth root of a whole number, rounded down, which arithmetic of whole
    # numbers computes exactly.
    roots = (
        math.isqrt(math.isqrt(math.isqrt((2 * SECOND_US) ** _BINS_PER_OCTAVE << step)))
        for step in range(_BINS_PER_OCTAVE * _N_OCTAVES + 1)
    )
    return np.array([(root + 1) // 2 for root in roots], np.int64)


BIN_EDGES_US = _bin_edges()
"""int64[n_bins-1], inner borders of the bins of durations; the first bin is below a second."""

# A step is one number: the earlier activity, the later one and the bin, so that sums are by key.
_BIN_BITS, _CODE_BITS = 9, 27
_CODES = (1 << _CODE_BITS) - 1


class LogTimes(CountsByKey, wire_name="times-of-log"):
    """Counts of times and durations of cases; codes of activities are those of a vocabulary.

    Attributes:
        steps: int64[n_steps], ascending: earlier activity, later activity and bin of the time
            between them, where both are completed.
        step_counts: int64[n_steps], all positive.
        spans: int64[n_spans], ascending: bins of the time from a case's first event to its last.
        span_counts: int64[n_spans], cases, all positive.
        days: int64[n_days], ascending: days since 1970-01-01 UTC on which cases begin.
        day_counts: int64[n_days], cases, all positive.
        hours: int64[n_hours], ascending: hours of the week in UTC, 0 is Monday from midnight on.
        hour_counts: int64[n_hours], events, all positive.
    """

    steps: np.ndarray
    step_counts: np.ndarray
    spans: np.ndarray
    span_counts: np.ndarray
    days: np.ndarray
    day_counts: np.ndarray
    hours: np.ndarray
    hour_counts: np.ndarray

    @classmethod
    def from_traces(cls, traces: TraceBatch) -> LogTimes:
        """Counts the cases of a batch."""
        later = np.flatnonzero(has_step(traces))
        activities = traces.activities.astype(np.int64)
        ends = traces.times[traces.offsets[1:] - 1]
        # Close together, unlike the numbers of the steps, so that none need be sorted.
        n_codes, n_bins = int(activities.max(initial=0)) + 1, len(BIN_EDGES_US) + 1
        bins = places_among(BIN_EDGES_US, traces.durations[later])
        pairs = activities[later - 1] * n_codes + activities[later]
        keys, counts = distinct_counts(pairs * n_bins + bins)
        pairs, bins = np.divmod(keys, n_bins)
        sources, targets = np.divmod(pairs, n_codes)
        return cls(
            sources << (_CODE_BITS + _BIN_BITS) | targets << _BIN_BITS | bins,
            counts,
            *distinct_counts(np.searchsorted(BIN_EDGES_US, ends - traces.starts, side="right")),
            *distinct_counts(traces.starts // _DAY_US),
            *distinct_counts((traces.times // _HOUR_US - 24 * _MONDAY) % HOURS_OF_WEEK),
        )

    def split_steps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns int64[n_steps] thrice: of each the earlier activity, the later one, the bin."""
        pairs = self.steps >> _BIN_BITS
        return pairs >> _CODE_BITS, pairs & _CODES, self.steps & ((1 << _BIN_BITS) - 1)

    def medians_s(self) -> dict[tuple[int, int], float]:
        """Returns about the median time in seconds of each (source, target) that occurs."""
        rows = median_rows(self.steps >> _BIN_BITS, self.step_counts)
        sources, targets, bins = (of[rows] for of in self.split_steps())
        pairs = zip(sources.tolist(), targets.tolist(), strict=True)
        return dict(zip(pairs, middles(bins, SECOND_US).tolist(), strict=True))


def median_rows(groups: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns int64[n_groups], the row of each group up to which half of its count lies.

    Args:
        groups: int64[n], ascending, or equal numbers side by side.
        counts: int64[n], all positive.
    """
    begins = np.flatnonzero(np.diff(groups, prepend=groups[:1] - 1))
    ends = np.append(np.int64(0), np.cumsum(counts))
    halves = ends[begins] + ends[np.append(begins[1:], len(counts))[: len(begins)]]
    return np.searchsorted(2 * ends[1:], halves)


def middles(bins: np.ndarray, unit_us: int = 1) -> np.ndarray:
    """Returns float64[n], about the durations of some bins.

    That is the geometric middle of each, off by less than 5 %, and 0 of the first, below a second.

    Args:
        bins: int64[n].
        unit_us: In which they are, in microseconds.
    """
    low, high = (
        BIN_EDGES_US[np.clip(edges, 0, len(BIN_EDGES_US) - 1)].astype(np.float64) / unit_us
        for edges in (bins - 1, bins)
    )
    return np.where(bins == 0, 0.0, np.sqrt(low * high))


# --- When the cases begin: the first and the last start of a log. ---------------------------------


_NONE = (np.iinfo(np.int64).max, np.iinfo(np.int64).min)


class StartRange(Columnar, wire_name="start-range"):
    """Range of the case starts.

    Attributes:
        first_us: Earliest start, microseconds since 1970-01-01 UTC; int64's maximum if none.
        last_us: Latest start; int64's minimum if there is none.
    """

    first_us: int
    last_us: int

    @classmethod
    def of(cls, starts_us: np.ndarray) -> StartRange:
        """Returns the range of int64[n_cases] starts."""
        if len(starts_us) == 0:
            return cls.merge(())
        return cls(int(starts_us.min()), int(starts_us.max()))

    @classmethod
    def merge(cls, pieces: Sequence[StartRange]) -> StartRange:
        """Returns the range of the union of the pieces' cases."""
        return cls(
            min((p.first_us for p in pieces), default=_NONE[0]),
            max((p.last_us for p in pieces), default=_NONE[1]),
        )

    @property
    def is_empty(self) -> bool:
        """Whether there was no case."""
        return self.first_us > self.last_us

    @property
    def width_us(self) -> int:
        """Microseconds from the first to the last start, 0 if there is none."""
        return 0 if self.is_empty else self.last_us - self.first_us


def cumulated_stamps(starts: np.ndarray, durations: np.ndarray, traces: TraceBatch) -> np.ndarray:
    """Returns int64[n_events], starts and durations cumulated, within the years 1 to 9999."""
    if traces.n_cases == 0:
        return durations
    durations = np.where(traces.is_first, 0, durations)
    running = np.cumsum(durations)  # may wrap; differences within a case are right all the same
    row = np.repeat(np.arange(traces.n_cases), traces.lengths)
    since = running - running[traces.offsets[:-1]][row]
    stamps = np.clip(starts, MIN_TIME_US, MAX_TIME_US)[row] + since
    # A case that runs past int64 has passed the year 9999 on the way: from there on it stays at the
    # end of the calendar.
    past = np.zeros(traces.n_events, bool)
    total = np.add.reduceat(durations.astype(np.float64), traces.offsets[:-1])
    for case in np.flatnonzero(total > float(MAX_TIME_US)):
        events = slice(traces.offsets[case], traces.offsets[case + 1])
        past[events] = np.cumsum(durations[events].astype(np.float64)) > float(MAX_TIME_US)
    return np.where(past, MAX_TIME_US, np.minimum(stamps, MAX_TIME_US))

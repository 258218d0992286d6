"""Counts of what was read: accepted, rejected by reason, duplicates, starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.arrays.merging import ranges, stable_order
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import FILE_STRIDE, IS_OPEN, IS_START

# --- What was found while records and messages were read: which count, and why others do not. -----


# --- What was found while files were read: which records count, why others do not, what to know. --
# Small counts that merge in any order, for the operator: how many records, and where the first
# one is. A tally contains no value of the data; its numbers are private all the same.
#
# A record is used, lost, or set aside. It is lost for one of CAUSES, and set aside by a rule that
# somebody declared or that the XES standard has. The share of a log is that of the used records
# among those that are used or lost.


class Reject(StrEnum):
    """Why a record is malformed."""

    NO_CASE = "no case id"
    NO_ACTIVITY = "no activity"
    NO_TIME = "unparsable time"
    NO_RECORD = "malformed record"
    NO_INDIVIDUAL = "no individual"
    OTHER_ACTIVITY = "activity outside the closed vocabulary"
    FRACTION_CASE = "case id that is no whole number"
    FRACTION_INDIVIDUAL = "individual that is no whole number"
    NO_START = "unparsable start time"
    LATE_START = "start after the time"
    NO_SCALAR = "field that is no scalar"


class Noted(StrEnum):
    """Records that are read, but may mean something other than what was read."""

    SKIPPED_HOUR = "time in a skipped hour"
    REPEATED_HOUR = "time in a repeated hour"
    WHOLE_KEY = "case id like 5"
    POINT_KEY = "case id like 5.0"
    SAME_NAME = "trace with the name of an earlier one"


class SetAside(StrEnum):
    """Why a record is set aside."""

    FILTERED = "dropped by a filter"
    OUTSIDE = "outside the window"
    DUPLICATE = "equal to an earlier event of its case"
    OTHER_TRANSITION = "transition other than start and complete"


# A tally splits one reason into two, because each of them has another remedy.
EMPTY_TIME = "no time"
UNKNOWN_TRANSITION = "transition that is not known"
_MALFORMED = (*Reject, EMPTY_TIME)
_LOST = (*_MALFORMED, UNKNOWN_TRANSITION)
FINDINGS: tuple[str, ...] = (*_LOST, *Noted, *SetAside)
CODES = {what: code for code, what in enumerate(FINDINGS)}
CAUSES = {
    UNKNOWN_TRANSITION: "of an unknown lifecycle transition",
    Reject.OTHER_ACTIVITY: "of an activity that is not declared",
    Reject.NO_INDIVIDUAL: "without an individual",
}
"""Why records are lost, but for those that are malformed for any other reason."""


class ReadTally(Columnar, wire_name="read-tally"):
    """Counts of records by what was found of them; see the module.

    Attributes:
        n_events: Records that became events, or an end of one; duplicates are among them.
        counts: Records of each finding that there is, one of FINDINGS.
        first: The place of the first of them: the file's rank times FILE_STRIDE, plus the record's
            number in it.
    """

    n_events: int
    counts: dict[str, int]
    first: dict[str, int]

    @classmethod
    def merge(cls, pieces: Sequence[ReadTally]) -> ReadTally:
        """Returns the tally of all files."""
        counts, first = Counter[str](), dict[str, int]()
        for piece in pieces:
            counts.update(piece.counts)
            first |= {what: min(at, first.get(what, at)) for what, at in piece.first.items()}
        return cls(sum(piece.n_events for piece in pieces), dict(counts), first)

    def with_duplicates(self, n: int) -> ReadTally:
        """Returns the tally with the number of events that were dropped as duplicates."""
        counts = {**self.counts, SetAside.DUPLICATE: n}
        first = {**self.first, SetAside.DUPLICATE: 0}  # where is not known
        return replace(self, counts=counts, first=first)

    def n_of(self, *findings: str) -> int:
        """Returns how many records there are of some findings."""
        return sum(self.counts.get(what, 0) for what in findings)

    @property
    def n_rejects(self) -> int:
        """Records that are malformed."""
        return self.n_of(*_MALFORMED)

    @property
    def n_lost(self) -> int:
        """Records that are lost."""
        return self.n_of(*_LOST)

    @property
    def n_used(self) -> int:
        """Records that are used."""
        return self.n_events - self.n_of(SetAside.DUPLICATE)

    @property
    def n_records(self) -> int:
        """All records but those that are set aside."""
        return self.n_used + self.n_lost

    @property
    def share(self) -> float:
        """The share of the records that count; 1 where no record can count."""
        return self.n_used / self.n_records if self.n_records else 1.0

    def check(self, max_error_ratio: float, place: str) -> None:
        """Ends a run in which too many records were malformed.

        Raises:
            InputSchemaError: They are more than `max_error_ratio` of all records. Its text has no
                number of the data, as something may have been paid already.
        """
        if self.n_rejects > max_error_ratio * self.n_records:
            raise InputSchemaError(
                f"more than max_error_ratio={max_error_ratio:g} of the records are malformed; "
                f"{place}. Correct the source or its column mapping, or raise max_error_ratio"
            )

    @property
    def is_all_set_aside(self) -> bool:
        """Whether there are records, and all are set aside by filters or transitions."""
        others = self.n_of(SetAside.FILTERED, SetAside.OTHER_TRANSITION)
        return bool(others) and not self.n_records and not self.n_of(SetAside.OUTSIDE)

    def causes(self) -> dict[str, int]:
        """Returns how many records are lost for each cause, the most frequent first."""
        counts = {text: self.n_of(what) for what, text in CAUSES.items()}
        counts["malformed"] = self.n_lost - sum(counts.values())
        return {text: n for text, n in sorted(counts.items(), key=lambda c: -c[1]) if n}

    def set_aside(self) -> dict[str, int]:
        """Returns how many records are set aside by each rule."""
        return {what: n for what in SetAside if (n := self.n_of(what))}

    def found(self) -> list[Finding]:
        """Returns what was found at all, in the order of FINDINGS.

        Case ids of one form are nothing to tell: only both forms together are one thing in two.
        """
        keys = Noted.WHOLE_KEY, Noted.POINT_KEY
        is_one_form = not all(map(self.n_of, keys))
        return [
            Finding(what, self.counts[what], *divmod(self.first[what], FILE_STRIDE))
            for what in FINDINGS
            if self.n_of(what) and not (is_one_form and what in keys)
        ]

    def to_json(self) -> dict[str, Any]:
        """Returns the tally as JSON values, records numbered from 1."""
        findings = [
            {"what": f.what, "records": f.n_records, "file": f.file, "record": f.record + 1}
            for f in self.found()
        ]
        numbers = {"records": self.n_records, "used": self.n_used, "share": self.share}
        counts = {"lost": self.causes(), "set_aside": self.set_aside()}
        return {**numbers, **counts, "findings": findings}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ReadTally:
        """Returns the tally that `to_json` wrote, as far as it was found."""
        found = {one["what"]: one for one in body["findings"]}
        places = {n: f["file"] * FILE_STRIDE + f["record"] - 1 for n, f in found.items()}
        tally = cls(0, {name: one["records"] for name, one in found.items()}, places)
        n_events = body["records"] - tally.n_lost + tally.n_of(SetAside.DUPLICATE)
        return replace(tally, n_events=n_events)


@dataclass(frozen=True)
class Finding:
    """One line of a tally.

    Attributes:
        what: One of FINDINGS.
        n_records: How many records it is about.
        file: The rank of the file of the first one.
        record: Its number there, from 0.
    """

    what: str
    n_records: int
    file: int
    record: int

    @property
    def is_lost(self) -> bool:
        """Whether the records do not count, although no rule set them aside."""
        return self.what in _LOST


class FileTally:
    """Adds up the tally of one file while it is read.

    Args:
        file_rank: Of the file.
        transitions: Gets how often each lifecycle transition occurs, as it is written, set aside or
            not; None: nobody asks. For few records only, as these are texts of the data.
    """

    def __init__(self, file_rank: int, transitions: Counter[str | None] | None = None) -> None:
        self.transitions = transitions
        self._base = file_rank * FILE_STRIDE
        self._read = ReadTally.merge(())

    def add_events(self, n: int) -> None:
        """Takes in records that became events."""
        self.take(ReadTally(n, {}, {}))

    def add(self, what: str, records: np.ndarray) -> None:
        """Takes in the numbers of records of which something was found, int64[n]."""
        if len(records):
            first = self._base + int(records.min())
            self.take(ReadTally(0, {what: len(records)}, {what: first}))

    def take(self, tally: ReadTally) -> None:
        """Takes in what was counted of this file before."""
        self._read = ReadTally.merge([self._read, tally])

    def result(self) -> ReadTally:
        """Returns the tally so far."""
        return self._read


class TraceNames:
    """Finds traces of one file that have the name of an earlier one.

    Remembers 8 bytes of each name, a hash, so two names in 2^64 are taken for one.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._last = -1

    def repeated(self, traces: np.ndarray, names: pa.Array) -> np.ndarray:
        """Returns the rows with which such traces begin, int64[m].

        Args:
            traces: int64[n], ascending: the number of the trace of each row; a trace may go on in
                the next call.
            names: string[n], the name of the trace of each row; null: it has none.
        """
        starts = np.flatnonzero(np.diff(traces, prepend=self._last))
        self._last = int(traces[-1]) if len(traces) else self._last
        named = names.take(pa.array(starts))
        starts = starts[np.asarray(named.is_valid())]
        rows = []
        for row, name in zip(starts.tolist(), hash_text(named.drop_null()).tolist(), strict=True):
            if name in self._seen:
                rows.append(row)
            self._seen.add(name)
        return np.array(rows, np.int64)


# --- Why a message of a stream is no event, as its dead letter says it. ---------------------------
# What is wrong with fields is said as for records of files (`schemas.events.tally`); what only
# messages can have is here. The reference of release files has the remedy of each.


class Unread(StrEnum):
    """Why a message is no event; what is wrong with its fields is a `Reject`."""

    EMPTY = "empty message"
    TOMBSTONE = "tombstone"
    NO_OPERATION = "no operation"
    OTHER_OPERATION = "operation that is no event"
    NO_FRAME = "no frame of a schema registry"
    UNKNOWN_SCHEMA = "schema that the registry does not have"
    UNFIT_SCHEMA = "schema that cannot be used"
    NOT_OF_SCHEMA = "not a record of its schema"
    OTHER_KIND = "message of the other kind than schema asks for"
    NOT_JSON = "not a JSON object"
    NOT_AVRO = "not an Avro datum of the schema"
    NEITHER = "neither a JSON object nor an Avro datum of the schema"
    NO_UTF8 = "text that is not UTF-8"
    NO_UNIT = "time that is a number without a unit"
    FAR_TIME = "time out of range"


MESSAGE_REASONS: tuple[str, ...] = (
    *(*Unread, EMPTY_TIME),
    # A stream does not read when events began.
    *(reason for reason in Reject if reason not in (Reject.NO_START, Reject.LATE_START)),
)


# --- When the events of records began: a column of times, or records that are starts themselves. --


# --- Records of starts and of completions paired to events, first in, first out. ------------------


def pairs_of_records(groups: np.ndarray, is_start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns which start belongs to which completion.

    The k-th completion of a group that finds an open start takes the k-th start.

    Args:
        groups: int64[n], the activity and case of each record; the records of one are in order.
        is_start: bool[n], whether a record is one of a start; else it is one of a completion.

    Returns:
        Two int64[m]: places of starts, and of the completions that take them.
    """
    order = stable_order(groups)
    grouped, starts = groups[order], is_start[order]
    is_head = np.diff(grouped, prepend=grouped[:1] - 1) != 0
    number = np.cumsum(is_head) - 1
    change = np.where(starts, 1, -1)
    # Each group counts its open starts from a level below all that was reached before.
    reached = np.cumsum(change) - number * (2 * len(groups) + 2)
    level = (reached - change)[is_head][number]
    lowest = np.minimum(np.append(level[:1], np.minimum.accumulate(reached)[:-1]), level)
    is_paired = ~starts & (reached >= lowest)  # a completion that finds none reaches a new low
    n_groups = int(is_head.sum())
    n_pairs = np.bincount(number[is_paired], minlength=n_groups)
    n_starts = np.bincount(number[starts], minlength=n_groups)
    is_taken = ranges(0, n_starts) < np.repeat(n_pairs, n_starts)
    return order[np.flatnonzero(starts)[is_taken]], order[is_paired]


# --- When the events of records began: a column of times, or records that are starts themselves. --
# An event needs one time. A record without a start is a completion whose start is not known, and
# one with nothing but a start an event whose completion is not known, which takes place at its
# start. One whose start is not a time, or is after its time, is malformed.
#
# Transitions other than starts and completions that the XES standard knows, such as `schedule`,
# are no events: their records are left out by that rule, and counted. Those of any other
# transition are lost, as they may be ends of events under a name that was not declared.


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
LEFT_OUT = {OTHER: SetAside.OTHER_TRANSITION, UNKNOWN: UNKNOWN_TRANSITION}
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
    written_as = {OTHER: _OTHERS, COMPLETE: (*COMPLETIONS, *completions), START: (*STARTS, *starts)}
    for kind, names in written_as.items():  # what is declared counts before the standard's
        kinds[np.asarray(pc.is_in(text, value_set=_compared(pa.array(names))))] = kind
    return kinds


def _compared(transitions: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_trim_whitespace(transitions))


def marked_starts(
    time: pa.Array,
    starts: pa.Array,
    lacks_end: np.ndarray,
    lacks_start: np.ndarray,
    kinds: np.ndarray | None,
    reason: np.ndarray,
) -> pa.Array:
    """Returns int64[n], the starts; writes why records are malformed for theirs, or left out.

    A record of a start is IS_START, and one without a completion IS_OPEN.

    Args:
        time: int64[n], microseconds since 1970 UTC: the completion, or the start where no
            completion is written; null for what is not a time.
        starts: int64[n], likewise; null where none is known.
        lacks_end: bool[n], whether no completion is written.
        lacks_start: bool[n], whether no start is.
        kinds: int8[n], places in TRANSITIONS; None: no record is one of a start.
        reason: int8[n], places in FINDINGS, or -1 for none so far.
    """
    has_none = (reason < 0) | (lacks_end & (reason == CODES[Reject.NO_TIME]))
    is_unreadable = np.asarray(starts.is_null()) & ~lacks_start
    reason[is_unreadable & has_none] = CODES[Reject.NO_START]
    late = np.asarray(pc.fill_null(pc.greater(starts, time), False))
    reason[late & (reason < 0)] = CODES[Reject.LATE_START]
    starts = pc.if_else(pa.array(lacks_end), pa.scalar(IS_OPEN, pa.int64()), starts)
    if kinds is None:
        return starts
    for kind, what in LEFT_OUT.items():
        reason[kinds == kind] = CODES[what]
    return pc.if_else(pa.array(kinds == START), pa.scalar(IS_START, pa.int64()), starts)

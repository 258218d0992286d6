"""What was found while files were read: malformed records by reason, and what readers must know.

Small counts that merge in any order, for the operator: how many records, and where the first one
stands. A tally holds no value of the data; its numbers are private all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.events.events import FILE_STRIDE

NO_CASE = "no case id"
NO_ACTIVITY = "no activity"
NO_TIME = "unparsable time"
EMPTY_TIME = "no time"
NO_RECORD = "malformed record"
NO_INDIVIDUAL = "no individual"
OTHER_ACTIVITY = "activity outside the closed vocabulary"
FRACTION_CASE = "case id that is no whole number"
FRACTION_INDIVIDUAL = "individual that is no whole number"
NO_START = "unparsable start time"
LATE_START = "start after the time"
NO_SCALAR = "field that is no scalar"
REJECT_REASONS = (
    NO_CASE,
    NO_ACTIVITY,
    NO_TIME,
    NO_RECORD,
    NO_INDIVIDUAL,
    OTHER_ACTIVITY,
    FRACTION_CASE,
    FRACTION_INDIVIDUAL,
    NO_START,
    LATE_START,
    NO_SCALAR,
)
# A tally splits one reason into several, because each of them is mended in another way.
_MALFORMED = (*REJECT_REASONS, EMPTY_TIME)

# Records for these reasons are read, but they may mean something other than what was read.
SKIPPED_HOUR = "time in a skipped hour"
REPEATED_HOUR = "time in a repeated hour"
WHOLE_KEY = "case id like 5"
POINT_KEY = "case id like 5.0"
SAME_NAME = "trace with the name of an earlier one"
# Records that are no events by a declared rule: of transitions beside start and complete.
OTHER_TRANSITION = "transition other than start and complete"
FINDINGS = (
    *(*_MALFORMED, SKIPPED_HOUR, REPEATED_HOUR, WHOLE_KEY, POINT_KEY, SAME_NAME),
    OTHER_TRANSITION,
)

_NOWHERE = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class ReadTally:
    """Counts of records by what was found of them; see the module.

    Attributes:
        n_events: Records that became events.
        counts: int64[len(FINDINGS)], records of each finding.
        first: int64[len(FINDINGS)], the place of the first of them: the file's rank times
            FILE_STRIDE, plus the record's number in it; the largest int64 where there is none.
    """

    wire_name: ClassVar[str] = "read-tally"

    n_events: int
    counts: np.ndarray
    first: np.ndarray

    @property
    def weight(self) -> int:
        """Stored elements: as many whatever was read."""
        return 1

    @classmethod
    def merge(cls, pieces: Sequence[ReadTally]) -> ReadTally:
        """Returns the tally of all files."""
        none = np.zeros(len(FINDINGS), np.int64)
        return cls(
            sum(piece.n_events for piece in pieces),
            np.sum([none, *(piece.counts for piece in pieces)], axis=0),
            np.min([none + _NOWHERE, *(piece.first for piece in pieces)], axis=0),
        )

    @property
    def n_rejects(self) -> int:
        """Records that are malformed."""
        return int(self.counts[: len(_MALFORMED)].sum())

    @property
    def n_records(self) -> int:
        """All records but those that a filter drops."""
        return self.n_events + self.n_rejects

    def found(self) -> list[Finding]:
        """Returns what was found at all, in the order of FINDINGS.

        Case ids of one form are nothing to tell: only both forms together are one thing in two.
        """
        counts = dict(zip(FINDINGS, self.counts.tolist(), strict=True))
        if not (counts[WHOLE_KEY] and counts[POINT_KEY]):
            counts[WHOLE_KEY] = counts[POINT_KEY] = 0
        return [
            Finding(what, counts[what], *divmod(int(first), FILE_STRIDE))
            for what, first in zip(FINDINGS, self.first, strict=True)
            if counts[what]
        ]

    def to_json(self) -> dict[str, Any]:
        """Returns the tally as JSON values, records numbered from 1."""
        findings = [
            {"what": f.what, "records": f.n_records, "file": f.file, "record": f.record + 1}
            for f in self.found()
        ]
        return {"records": self.n_records, "findings": findings}


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
    def is_malformed(self) -> bool:
        """Whether the records were left out."""
        return self.what in _MALFORMED

    @classmethod
    def of_json(cls, body: Mapping[str, Any]) -> Finding:
        """Returns the finding that `ReadTally.to_json` wrote."""
        return cls(body["what"], body["records"], body["file"], body["record"] - 1)


class TallyOfFile:
    """Adds up the tally of one file while it is read."""

    def __init__(self, file_rank: int) -> None:
        self._base = file_rank * FILE_STRIDE
        self._counts = np.zeros(len(FINDINGS), np.int64)
        self._first = np.full(len(FINDINGS), _NOWHERE)
        self._n_events = 0

    def add_events(self, n: int) -> None:
        """Takes in records that became events."""
        self._n_events += n

    def add(self, what: str, records: np.ndarray) -> None:
        """Takes in the numbers of records of which something was found, int64[n]."""
        if len(records):
            i = FINDINGS.index(what)
            self._counts[i] += len(records)
            self._first[i] = min(self._first[i], self._base + records.min())

    def take(self, tally: ReadTally) -> None:
        """Takes in what was counted of this file before."""
        self._n_events += tally.n_events
        self._counts += tally.counts
        self._first = np.minimum(self._first, tally.first)

    def result(self) -> ReadTally:
        """Returns the tally so far."""
        return ReadTally(self._n_events, self._counts.copy(), self._first.copy())


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

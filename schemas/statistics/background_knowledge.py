"""What somebody may know of a case: elements of its events, and the patterns that they form.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, Definitions 8
to 13. An element is an event's activity, its resource, or both; of relative knowledge also its time
since the first event of the case. A piece of knowledge is a set, a multiset or a sequence of them.

All four kinds come down to one: a case matches a pattern if the pattern is a subsequence of the
case's canonical row. The row of sets is the sorted distinct elements, that of multisets the sorted
elements, that of sequences and of relative knowledge the elements as they stand. What is kept are
the distinct rows with their numbers of cases, never the cases.

For multisets an event's word also says how many equal elements the case has before it, so that the
second and later ones can be suppressed and the first one stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from tracecloak.schemas.arrays.merging import OfArrays, joined, offsets_of, ranges, sum_by_value
from tracecloak.schemas.arrays.sequences import word_bytes
from tracecloak.schemas.events.attributes import Attribute
from tracecloak.schemas.events.traces import TraceBatch

Kind = Literal["set", "multiset", "sequence", "relative"]
Perspective = Literal["activity", "resource", "activity_resource"]
TimeUnit = Literal["seconds", "minutes", "hours", "days"]

UNIT_US: dict[TimeUnit, int] = {
    "seconds": 1_000_000,
    "minutes": 60_000_000,
    "hours": 3_600_000_000,
    "days": 86_400_000_000,
}

# A word is an element: its code above, its relative time in units (or its number among equal
# elements) below. The seconds of ten thousand years fit.
TIME_BITS = 39
_TIME = (1 << TIME_BITS) - 1
MAX_CODE = (1 << 62 - TIME_BITS) - 1
# The code of an event of which nothing can be known: it has no resource, and only that counts.
NO_ELEMENT = 0


@dataclass(frozen=True)
class Knowledge:
    """A kind of background knowledge about certain attributes of events.

    Attributes:
        kind: How elements are put together.
        perspective: What of an event is its element.
        unit: How exactly times are known; a unit begins where it does in UTC.
        resource: The declared resource; needed where the perspective has it, of no use elsewhere.
    """

    kind: Kind
    perspective: Perspective
    unit: TimeUnit
    resource: Attribute | None = None

    def codes(self, traces: TraceBatch) -> np.ndarray:
        """Returns int64[n_events], the code of each event's element but for its time.

        NO_ELEMENT stands for an event without a resource where only that counts. A pair of an
        activity and no resource is an element like others.
        """
        activities = traces.activities.astype(np.int64)
        if self.perspective == "activity":
            return activities + 1
        assert self.resource is not None
        cells = cells_of(traces, self.resource).astype(np.int64)
        if self.perspective == "resource":
            return cells
        return activities * self.resource.n_cells + cells + 1

    def words(self, traces: TraceBatch) -> np.ndarray:
        """Returns int64[n_events], the elements: equal words are equal elements.

        In place of the time there is, of multisets, the number of equal elements before an event
        in its case, and of sets and sequences 0.
        """
        codes = self.codes(traces)
        words = codes << TIME_BITS
        if self.kind == "relative":
            return words + relative_units(traces, self.unit)
        return words + _equal_before(traces.offsets, codes) if self.kind == "multiset" else words


def cells_of(traces: TraceBatch, attribute: Attribute) -> np.ndarray:
    """Returns int32[n_events], an attribute's cells; 0 where traces do not have it."""
    values = traces.attributes.get(attribute.name)
    return np.zeros(traces.n_events, np.int32) if values is None else attribute.cells(values)


def relative_units(traces: TraceBatch, unit: TimeUnit) -> np.ndarray:
    """Returns int64[n_events], whole units since the unit in which each case begins.

    Definition 8 on a log whose times are cut to the unit first.
    """
    units = traces.times // UNIT_US[unit]
    return units - np.repeat(units[traces.offsets[:-1]], traces.lengths)


def _equal_before(offsets: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """int64[n_events], how many earlier events of the same case have the same code."""
    case = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((codes, case))
    is_first = np.ones(len(codes), bool)
    is_first[1:] = (case[order[1:]] != case[order[:-1]]) | (codes[order[1:]] != codes[order[:-1]])
    heads = np.flatnonzero(is_first)
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(codes)) - np.repeat(heads, np.diff(heads, append=len(codes)))
    return numbers


def times_of_words(words: np.ndarray) -> np.ndarray:
    """Returns int64[n], the relative times of elements in units; of multisets, their numbers."""
    return words & _TIME


def codes_of_words(words: np.ndarray) -> np.ndarray:
    """Returns int64[n], the codes of elements."""
    return words >> TIME_BITS


@dataclass(frozen=True, eq=False)
class KnownCases(OfArrays):
    """The distinct cases of a log as they can be known, with their sensitive cells: a statistic.

    Attributes:
        rows: large_binary[n], distinct and sorted: int64 words, the cells of the sensitive
            attributes and then the elements of the case in order.
        counts: int64[n], cases of each row, all positive.
        n_sensitive: Number of sensitive attributes; 0 in the statistic of an empty log.
    """

    wire_name: ClassVar[str] = "known-cases"

    rows: pa.LargeBinaryArray
    counts: np.ndarray
    n_sensitive: int

    @classmethod
    def from_cases(
        cls,
        offsets: np.ndarray,
        words: np.ndarray,
        sensitive: np.ndarray,
        counts: np.ndarray | None = None,
    ) -> KnownCases:
        """Counts cases.

        Args:
            offsets: int64[n+1].
            words: int64[n_positions], elements.
            sensitive: int[n, m], cells.
            counts: int64[n], how many cases each one stands for; None: for itself.
        """
        each = np.ones(len(sensitive), np.int64) if counts is None else counts
        return cls._collapsed(cls.rows_of(offsets, words, sensitive), each, sensitive.shape[1])

    @staticmethod
    def rows_of(
        offsets: np.ndarray, words: np.ndarray, sensitive: np.ndarray
    ) -> pa.LargeBinaryArray:
        """Returns large_binary[n], the row of each case; arguments as in `from_cases`."""
        n_sensitive = sensitive.shape[1]
        lengths = np.diff(offsets)
        places = offsets_of(lengths + n_sensitive)
        data = np.empty(int(places[-1]), np.int64)
        for k in range(n_sensitive):
            data[places[:-1] + k] = sensitive[:, k]
        data[ranges(places[:-1] + n_sensitive, lengths)] = words
        return word_bytes(places, data)

    @classmethod
    def _collapsed(
        cls, rows: pa.LargeBinaryArray, counts: np.ndarray, n_sensitive: int
    ) -> KnownCases:
        return cls(*sum_by_value(rows, counts), n_sensitive)

    @classmethod
    def merge(cls, pieces: Sequence[KnownCases]) -> KnownCases:
        """Returns the statistic of the union of the pieces' cases."""
        if len(pieces) == 1:
            return pieces[0]
        return cls._collapsed(
            joined((p.rows for p in pieces), pa.large_binary()),
            joined(p.counts for p in pieces),
            max((p.n_sensitive for p in pieces), default=0),
        )

    def decoded(self) -> CaseTable:
        """Returns the rows as arrays."""
        n = len(self.counts)
        if n == 0:
            none = np.zeros(0, np.int64)
            return CaseTable(
                np.zeros(1, np.int64), none, none, np.zeros((0, self.n_sensitive), np.int64)
            )
        _, raw_offsets, raw = self.rows.buffers()
        places = np.frombuffer(raw_offsets, np.int64, n + 1, self.rows.offset * 8) // 8
        data = np.frombuffer(raw, np.int64)
        starts, lengths = places[:-1] + self.n_sensitive, np.diff(places) - self.n_sensitive
        columns = [data[places[:-1] + k] for k in range(self.n_sensitive)]
        return CaseTable(
            offsets_of(lengths),
            data[ranges(starts, lengths)],
            self.counts,
            np.stack(columns, axis=1) if columns else np.zeros((n, 0), np.int64),
        )


@dataclass(frozen=True, eq=False)
class CaseTable:
    """Cases as they can be known, equal ones once or several times.

    Attributes:
        offsets: int64[n+1].
        words: int64[n_positions], elements in the order of the events.
        counts: int64[n], cases of each row.
        sensitive: int64[n, m], cells of the sensitive attributes; 0 is no value.
    """

    offsets: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    sensitive: np.ndarray

    @property
    def n_cases(self) -> int:
        """Number of cases."""
        return int(self.counts.sum())

    def without(self, suppressed: np.ndarray) -> CaseTable:
        """Returns the cases without some elements, times counted from the first event left.

        Cases of which nothing is left are left out.

        Args:
            suppressed: int64[k], words.
        """
        _, offsets, words = suppress(self.offsets, self.words, suppressed)
        return CaseTable(offsets, words, self.counts, self.sensitive).filled()

    def filled(self) -> CaseTable:
        """Returns the rows that have a word."""
        lengths = np.diff(self.offsets)
        is_filled = lengths > 0
        return CaseTable(
            offsets_of(lengths[is_filled]),
            self.words,
            self.counts[is_filled],
            self.sensitive[is_filled],
        )

    def canonical(self, kind: Kind, longest: int) -> tuple[CaseTable, np.ndarray]:
        """Returns the rows that patterns of a kind are subsequences of, and the elements.

        Args:
            kind: Of the patterns.
            longest: Length of the longest pattern; of a multiset's element no more copies count.

        Returns:
            Distinct rows, whose words are positions in int64[n_elements], the words of the elements
            that occur, ascending; of multisets, with the number 0. Events without an element are
            left out; rows can be empty.
        """
        lengths = np.diff(self.offsets)
        row = np.repeat(np.arange(len(lengths)), lengths)
        is_element = codes_of_words(self.words) != NO_ELEMENT
        row, words = row[is_element], self.words[is_element]
        if kind == "multiset":
            words = words & ~_TIME
        elements, items = np.unique(words, return_inverse=True)
        if kind in ("set", "multiset"):
            order = np.lexsort((items, row))
            row, items = row[order], items[order]
            copies = 1 if kind == "set" else longest
            repeats = np.zeros(len(row), bool)
            same = (row[copies:] == row[:-copies]) & (items[copies:] == items[:-copies])
            repeats[copies:] = same
            row, items = row[~repeats], items[~repeats]
        offsets = np.searchsorted(row, np.arange(len(lengths) + 1))
        known = KnownCases.from_cases(offsets, items, self.sensitive, self.counts)
        return known.decoded(), elements


def distinct(values: np.ndarray) -> np.ndarray:
    """Returns the distinct values, ascending; by sorting, which beats `np.unique` for millions."""
    values = np.sort(values)
    return values[np.flatnonzero(np.diff(values, prepend=values[:1] - 1))]


def suppress(
    offsets: np.ndarray, words: np.ndarray, suppressed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Removes elements from cases and counts times from the first event that is left.

    In a multiset, a later copy of an element may stay only if all earlier copies stay.

    Args:
        offsets: int64[n_cases+1].
        words: int64[n_events].
        suppressed: int64[k], the words to remove.

    Returns:
        bool[n_events], which events are left; int64[n_cases+1], the new offsets, where a case can
        be empty; int64, the new words of the events left.
    """
    sought = np.sort(suppressed)
    place = np.minimum(np.searchsorted(sought, words), max(len(sought) - 1, 0))
    is_kept = sought[place] != words if len(sought) else np.ones(len(words), bool)
    before = np.concatenate([[0], np.cumsum(is_kept)]).astype(np.int64)
    new_offsets = before[offsets]
    left = words[is_kept]
    lengths = np.diff(new_offsets)
    filled = lengths > 0
    first = times_of_words(left[new_offsets[:-1][filled]])
    return is_kept, new_offsets, left - np.repeat(first, lengths[filled])

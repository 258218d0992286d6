"""What an attacker may know of a case: elements of its events, and the patterns that they form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, TypeVar

import numpy as np
import pyarrow as pa

from tracecloak.schemas.arrays.merging import (
    OfArrays,
    joined,
    offsets_of,
    places_of,
    ranges,
    stable_order,
    sum_by_key,
    sum_by_value,
)
from tracecloak.schemas.arrays.sequences import word_bytes
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.events.traces import TraceBatch

# ---
# Patterns that are subsequences of rows, grown level by level: how many cases match each of them.
# The search keeps, of every pattern and row that matches it, where the leftmost match ends (as in
# PrefixSpan: Pei et al., ICDE 2001), and looks at a longer pattern only if all of its subpatterns
# that are shorter by one were taken up (Agrawal, Srikant, VLDB 1994). All rows and all patterns of
# a piece are looked at in one go, in arrays.


# At most about so many extended matches, and cells of counts, are looked at in one go.
_PIECE = 1 << 21

_T = TypeVar("_T")


@dataclass(frozen=True)
class PatternCriteria:
    """What a pattern must meet to be taken up.

    Attributes:
        min_cases: Cases that match it.
        confidence: Largest share of a label among them, of each label attribute.
    """

    min_cases: int
    confidence: Fraction = Fraction(1)

    def is_met(self, cases: np.ndarray, largest: np.ndarray) -> np.ndarray:
        """Returns bool[n]; exact.

        Args:
            cases: int64[n], cases that match.
            largest: int64[n, m], cases of the most frequent label among them.
        """
        numerator, denominator = self.confidence.numerator, self.confidence.denominator
        exact = cases
        if len(cases) and int(cases.max()) * numerator >= 1 << 62:
            exact = cases.astype(object)
        bound = (exact * numerator // denominator).astype(np.int64)
        return (cases >= self.min_cases) & (largest <= bound[:, None]).all(axis=1)


@dataclass(frozen=True, eq=False)
class Level:
    """The patterns of one length.

    Attributes:
        taken: int64[n, length], the patterns taken up, in lexicographic order.
        refused: int64[k, length], those that were looked at and refused: they occur, do not meet
            the demand, and all of their subpatterns do.
        shorter: int64[n, length], the place of each pattern without its i-th item in the `taken` of
            the level before.
        cases: int64[n], cases that match the patterns taken up.
    """

    taken: np.ndarray
    refused: np.ndarray
    shorter: np.ndarray
    cases: np.ndarray

    @property
    def length(self) -> int:
        """Items of each pattern."""
        return self.taken.shape[1]


def grow(
    rows: CaseTable,
    n_items: int,
    demand: PatternCriteria,
    max_length: int | None,
    max_positions: int | None = None,
) -> Iterator[Level]:
    """Yields the levels of the patterns that occur, from length 1 to where none is taken up.

    Args:
        rows: Where they are sought; their words are items, and their sensitive cells labels.
        n_items: Number of items, which are from 0 on.
        demand: What they must meet; the empty pattern is taken to meet it.
        max_length: Of the patterns; None for no bound.
        max_positions: No level is begun that would look at so many positions, together with those
            before it; so the last one yielded can have patterns that longer ones continue. A
            position counts once for each pattern and row whose match it could continue. None for
            no bound.
    """
    n_rows = len(rows.counts)
    if n_items == 0:
        return
    search = _Search.of(rows, n_items, demand)
    empty = Level(*(np.zeros(shape, np.int64) for shape in ((1, 0), (0, 0), (1, 0), (1,))))
    matches = _Matches(np.zeros(n_rows, np.int64), np.arange(n_rows), rows.offsets[:-1] - 1)
    is_last = max_length == 1
    level, matches = search.longer(empty, np.zeros(0, np.int64), matches, not is_last)
    yield level
    # From here on the items that are left are numbered without gaps.
    names = level.taken[:, 0]
    search, matches = search.compacted(names, matches)
    n = len(names)
    level = Level(np.arange(n)[:, None], level.refused[:0], level.shorter, level.cases)
    known = np.arange(n)
    left = math.inf if max_positions is None else max_positions
    while len(level.taken) and not is_last:
        left -= int((search.rows.offsets[1:][matches.rows] - matches.ends - 1).sum())
        if left < 0:
            return
        is_last = level.length + 1 == max_length
        level, matches = search.longer(level, known, matches, not is_last)
        known = level.shorter[:, -1] * search.n_items + level.taken[:, -1]
        yield Level(names[level.taken], names[level.refused], level.shorter, level.cases)


@dataclass(frozen=True, eq=False)
class _Matches:
    """Leftmost matches in the order of their patterns: int64[n] each; `ends` are positions."""

    patterns: np.ndarray
    rows: np.ndarray
    ends: np.ndarray


@dataclass(frozen=True, eq=False)
class _Search:
    """`previous`: int64[n_positions], where an item stood before in the same row, or -1."""

    rows: CaseTable
    n_items: int
    demand: PatternCriteria
    previous: np.ndarray

    @classmethod
    def of(cls, rows: CaseTable, n_items: int, demand: PatternCriteria) -> _Search:
        row = np.repeat(np.arange(len(rows.counts)), np.diff(rows.offsets))
        # Positions ascend within an item, and so do their rows.
        order = stable_order(rows.words)
        items, row = rows.words[order], row[order]
        same = (items[1:] == items[:-1]) & (row[1:] == row[:-1])
        previous = np.full(len(order), -1, np.int64)
        previous[order[1:][same]] = order[:-1][same]
        return cls(rows, n_items, demand, previous)

    def compacted(self, names: np.ndarray, matches: _Matches) -> tuple[_Search, _Matches]:
        """Leaves the other items out of the rows, and numbers the named ones by their places."""
        rows = self.rows
        number = np.full(self.n_items, -1, np.int64)
        number[names] = np.arange(len(names))
        items = number[rows.words]
        place = offsets_of(items >= 0)
        compact = CaseTable(place[rows.offsets], items[items >= 0], rows.counts, rows.sensitive)
        # A match ends at an item that was taken up.
        moved = _Matches(matches.patterns, matches.rows, place[matches.ends])
        return _Search.of(compact, max(len(names), 1), self.demand), moved

    def longer(
        self, level: Level, known: np.ndarray, matches: _Matches, wants_matches: bool
    ) -> tuple[Level, _Matches]:
        """Returns the level after one, and the matches of its patterns if they are wanted.

        Args:
            level: The patterns to extend.
            known: int64[n], ascending: their place without the last item, times the number of
                items, plus that item.
            matches: Of the level's patterns.
            wants_matches: Else none are returned.
        """
        n = len(level.taken)
        rest = self.rows.offsets[1:][matches.rows] - matches.ends - 1
        first_match = np.searchsorted(matches.patterns, np.arange(n + 1))
        work = np.concatenate([[0], np.cumsum(rest)])[first_match]
        levels, found = [], []
        n_taken = first = 0
        while first < n:
            last = int(np.searchsorted(work, work[first] + _PIECE, side="right")) - 1
            last = min(max(last, first + 1), first + max(1, _PIECE // self.n_items), n)
            piece = slice(first_match[first], first_match[last])
            part = _Matches(matches.patterns[piece], matches.rows[piece], matches.ends[piece])
            made, longer = self._extended(level, known, part, first, last, wants_matches)
            levels.append(made)
            found.append(_Matches(longer.patterns + n_taken, longer.rows, longer.ends))
            n_taken += len(made.taken)
            first = last
        return _one_after_the_other(levels), _one_after_the_other(found)

    def _extended(
        self,
        level: Level,
        known: np.ndarray,
        matches: _Matches,
        first: int,
        last: int,
        wants_matches: bool,
    ) -> tuple[Level, _Matches]:
        """The same of the patterns from one to another and their matches."""
        rows = self.rows
        rest = rows.offsets[1:][matches.rows] - matches.ends - 1
        position = ranges(matches.ends + 1, rest)
        source = np.repeat(np.arange(len(rest)), rest)
        # A leftmost match goes on at the first of equal items after it.
        is_leftmost = self.previous[position] <= matches.ends[source]
        position, source = position[is_leftmost], source[is_leftmost]
        row = matches.rows[source]
        key = (matches.patterns[source] - first) * self.n_items + rows.words[position]
        totals = np.bincount(key, rows.counts[row], (last - first) * self.n_items)
        occurring = np.flatnonzero(totals)
        prefix, item = occurring // self.n_items + first, occurring % self.n_items

        shorter = np.empty((len(occurring), level.length + 1), np.int64)
        shorter[:, -1] = prefix
        is_candidate = np.ones(len(occurring), bool)
        for i in range(level.length):
            sought = level.shorter[prefix, i] * self.n_items + item
            place = np.minimum(np.searchsorted(known, sought), len(known) - 1)
            is_candidate &= known[place] == sought
            shorter[:, i] = place
        # More cases are needed in any case, so the labels of the others need not be counted.
        is_frequent = totals[occurring] >= self.demand.min_cases
        counted = is_candidate & is_frequent
        number = np.full(len(totals), -1, np.int64)
        number[occurring[counted]] = np.arange(int(counted.sum()))
        group = number[key]
        largest = self._largest(group, row, int(counted.sum()))
        is_taken = np.zeros(len(occurring), bool)
        is_taken[counted] = self.demand.is_met(totals[occurring[counted]].astype(np.int64), largest)

        longer = np.concatenate([level.taken[prefix], item[:, None]], axis=1)
        part = Level(
            longer[is_taken],
            longer[is_candidate & ~is_taken],
            shorter[is_taken],
            totals[occurring[is_taken]].astype(np.int64),
        )
        if not wants_matches:
            none = np.zeros(0, np.int64)
            return part, _Matches(none, none, none)
        number[:] = -1
        number[occurring[is_taken]] = np.arange(len(part.taken))
        group = number[key]
        taken = np.flatnonzero(group >= 0)
        taken = taken[stable_order(group[taken])]
        return part, _Matches(group[taken], row[taken], position[taken])

    def _largest(self, group: np.ndarray, row: np.ndarray, n_groups: int) -> np.ndarray:
        """int64[n_groups, m], cases of the most frequent label; group -1 is left out."""
        labels = self.rows.sensitive
        largest = np.zeros((n_groups, labels.shape[1]), np.int64)
        for k in range(labels.shape[1]):
            label = labels[row, k]
            counted = np.flatnonzero((group >= 0) & (label > 0))
            if len(counted) == 0:
                continue
            n_labels = int(labels[:, k].max()) + 1
            key = group[counted] * n_labels + label[counted]
            keys, totals = sum_by_key(key, self.rows.counts[row[counted]])
            np.maximum.at(largest[:, k], keys // n_labels, totals)
        return largest


def _one_after_the_other(parts: Sequence[_T]) -> _T:
    """Returns values of one class, which are made of arrays, as one; there is at least one."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return type(parts[0])(*map(np.concatenate, columns))


def matching(offsets: np.ndarray, items: np.ndarray, pattern: np.ndarray) -> np.ndarray:
    """Returns bool[n_rows], which rows have a pattern as a subsequence.

    Args:
        offsets: int64[n_rows+1].
        items: int64[n_positions].
        pattern: int64[length].
    """
    position, ends = offsets[:-1].copy(), offsets[1:]
    matches = np.ones(len(position), bool)
    for item in pattern:
        places = np.append(np.flatnonzero(items == item), len(items))
        place = places[np.searchsorted(places, np.minimum(position, len(items)))]
        matches &= place < ends
        position = np.where(matches, place + 1, len(items))
    return matches


# --- What somebody may know of a case: elements of its events, and the patterns that they form. ---
# Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, Definitions
# 8
# to 13. An element is an event's activity, its resource, or both; of relative knowledge also its
# time since the first event of the case. A piece of knowledge is a set, a multiset or a sequence of
# them.
#
# All four kinds come down to one: a case matches a pattern if the pattern is a subsequence of the
# case's canonical row. The row of sets is the sorted distinct elements, that of multisets the
# sorted elements, that of sequences and of relative knowledge the elements as they stand. What is
# kept are the distinct rows with their numbers of cases, never the cases.
#
# For multisets an event's word also says how many equal elements the case has before it, so that
# the second and later ones can be suppressed and the first one stays.


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
    _keys = ("rows",)

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
    is_kept = places_of(sought, words) < 0
    before = np.concatenate([[0], np.cumsum(is_kept)]).astype(np.int64)
    new_offsets = before[offsets]
    left = words[is_kept]
    lengths = np.diff(new_offsets)
    filled = lengths > 0
    first = times_of_words(left[new_offsets[:-1][filled]])
    return is_kept, new_offsets, left - np.repeat(first, lengths[filled])

"""What an attacker may know of a case: elements of its events, and the patterns that they form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.merging import (
    OfArrays,
    joined,
    offsets_of,
    pair_keys,
    places_of,
    ranges,
    ranks_within,
    stable_order,
    sum_by_key,
    sum_by_pair,
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
    """

    taken: np.ndarray
    refused: np.ndarray
    shorter: np.ndarray


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
    if n_items == 0:
        return
    empty = Level(*(np.zeros(shape, np.int64) for shape in ((1, 0), (0, 0), (1, 0))))
    n = len(rows.counts)
    matches = np.stack([np.zeros(n, np.int64), np.arange(n), rows.offsets[:-1] - 1])
    level, matches = _Search(rows, n_items, demand).longer(empty, matches, max_length == 1)
    yield level
    # From here on the items that are left are numbered without gaps, and the others are left out.
    names = level.taken[:, 0]
    items = places_of(names, rows.words)
    place = offsets_of(items >= 0)
    rows = CaseTable(place[rows.offsets], items[items >= 0], rows.counts, rows.sensitive)
    search = _Search(rows, max(len(names), 1), demand)
    matches[2] = place[matches[2]]  # a match ends at an item that was taken up
    level = Level(np.arange(len(names))[:, None], level.refused[:0], level.shorter)
    left, length = math.inf if max_positions is None else max_positions, 1
    while len(level.taken) and length != max_length:
        left -= int(search.n_after(matches).sum())
        if left < 0:
            return
        length += 1
        level, matches = search.longer(level, matches, length == max_length)
        yield Level(names[level.taken], names[level.refused], level.shorter)


class _Search:
    """Patterns are extended by items of rows.

    Leftmost matches are int64[3, n], in the order of their patterns: the pattern, the row, and the
    position of its last item.
    """

    def __init__(self, rows: CaseTable, n_items: int, demand: PatternCriteria) -> None:
        self._rows, self._n_items, self._demand = rows, n_items, demand
        row = np.repeat(np.arange(len(rows.counts)), np.diff(rows.offsets))
        # Positions ascend within an item, and so do their rows.
        order = stable_order(rows.words)
        items, row = rows.words[order], row[order]
        same = (items[1:] == items[:-1]) & (row[1:] == row[:-1])
        # Where an item stood before in the same row, or -1.
        self._previous = np.full(len(order), -1, np.int64)
        self._previous[order[1:][same]] = order[:-1][same]

    def n_after(self, matches: np.ndarray) -> np.ndarray:
        """int64[n], how many positions of its row come after each match."""
        after: np.ndarray = self._rows.offsets[1:][matches[1]] - matches[2] - 1
        return after

    def longer(self, level: Level, matches: np.ndarray, is_last: bool) -> tuple[Level, np.ndarray]:
        """Returns the level after one, and the matches of its patterns, none if it is the last."""
        n = len(level.taken)
        first_match = np.searchsorted(matches[0], np.arange(n + 1))
        work = offsets_of(self.n_after(matches))[first_match]
        levels, found = [], []
        n_taken = first = 0
        while first < n:
            last = int(np.searchsorted(work, work[first] + _PIECE, side="right")) - 1
            last = min(max(last, first + 1), first + max(1, _PIECE // self._n_items), n)
            piece = matches[:, first_match[first] : first_match[last]]
            made, longer = self._extended(level, piece, first, last, is_last)
            longer[0] += n_taken
            levels.append(made)
            found.append(longer)
            n_taken += len(made.taken)
            first = last
        columns = zip(*(vars(made).values() for made in levels), strict=True)
        return Level(*map(np.concatenate, columns)), np.concatenate(found, axis=1)

    def _extended(
        self, level: Level, matches: np.ndarray, first: int, last: int, is_last: bool
    ) -> tuple[Level, np.ndarray]:
        """The same of the patterns from one to another and their matches."""
        patterns, rows, ends = matches
        after = self.n_after(matches)
        position = ranges(ends + 1, after)
        source = np.repeat(np.arange(len(after)), after)
        # A leftmost match goes on at the first of equal items after it.
        is_leftmost = self._previous[position] <= ends[source]
        position, source = position[is_leftmost], source[is_leftmost]
        row = rows[source]
        key = (patterns[source] - first) * self._n_items + self._rows.words[position]
        totals = np.bincount(key, self._rows.counts[row], (last - first) * self._n_items)
        occurring = np.flatnonzero(totals)
        prefix, item = occurring // self._n_items + first, occurring % self._n_items

        # The last items of the patterns that are extended, by what comes before these; ascending.
        known = (level.shorter * self._n_items + level.taken)[:, -1:].ravel()
        sought = level.shorter[prefix] * self._n_items + item[:, None]
        places = np.minimum(np.searchsorted(known, sought), len(known) - 1)
        is_candidate = (known[places] == sought).all(axis=1)
        shorter = np.concatenate([places, prefix[:, None]], axis=1)
        # More cases are needed in any case, so the labels of the others need not be counted.
        counted = np.flatnonzero(is_candidate & (totals[occurring] >= self._demand.min_cases))
        cases = totals[occurring[counted]].astype(np.int64)
        number = np.full(len(totals), -1, np.int64)
        number[occurring[counted]] = np.arange(len(counted))
        taken = counted[self._demand.is_met(cases, self._largest(number[key], row, len(counted)))]
        is_refused = is_candidate.copy()
        is_refused[taken] = False

        longer = np.concatenate([level.taken[prefix], item[:, None]], axis=1)
        made = Level(longer[taken], longer[is_refused], shorter[taken])
        if is_last:
            return made, np.zeros((3, 0), np.int64)
        number[:] = -1
        number[occurring[taken]] = np.arange(len(taken))
        group = number[key]
        going_on = np.flatnonzero(group >= 0)
        going_on = going_on[stable_order(group[going_on])]
        return made, np.stack([group[going_on], row[going_on], position[going_on]])

    def _largest(self, group: np.ndarray, row: np.ndarray, n_groups: int) -> np.ndarray:
        """int64[n_groups, m], cases of the most frequent label; group -1 is left out."""
        labels = self._rows.sensitive
        largest = np.zeros((n_groups, labels.shape[1]), np.int64)
        for k in range(labels.shape[1]):
            label = labels[row, k]
            counted = np.flatnonzero((group >= 0) & (label > 0))
            groups, _, totals = sum_by_pair(
                group[counted], label[counted], self._rows.counts[row[counted]]
            )
            np.maximum.at(largest[:, k], groups, totals)
        return largest


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
        if self.kind != "multiset":
            return words
        case = np.repeat(np.arange(traces.n_cases), traces.lengths)
        return words + ranks_within(pair_keys(case, codes)[0])


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


def times_of_words(words: np.ndarray) -> np.ndarray:
    """Returns int64[n], the relative times of elements in units; of multisets, their numbers."""
    return words & _TIME


def codes_of_words(words: np.ndarray) -> np.ndarray:
    """Returns int64[n], the codes of elements."""
    return words >> TIME_BITS


class KnownCases(OfArrays, wire_name="known-cases"):
    """The distinct cases of a log as they can be known, with their sensitive cells: a statistic.

    Attributes:
        rows: large_binary[n], distinct and sorted: int64 words, the cells of the sensitive
            attributes and then the elements of the case in order.
        counts: int64[n], cases of each row, all positive.
        n_sensitive: Number of sensitive attributes; 0 in the statistic of an empty log.
    """

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
        return cls.of(cls.rows_of(offsets, words, sensitive), each, sensitive.shape[1])

    @staticmethod
    def rows_of(
        offsets: np.ndarray, words: np.ndarray, sensitive: np.ndarray
    ) -> pa.LargeBinaryArray:
        """Returns large_binary[n], the row of each case; arguments as in `from_cases`."""
        n_sensitive = sensitive.shape[1]
        lengths = np.diff(offsets)
        places = offsets_of(lengths + n_sensitive)
        data = np.empty(int(places[-1]), np.int64)
        data[places[:-1, None] + np.arange(n_sensitive)] = sensitive
        data[ranges(places[:-1] + n_sensitive, lengths)] = words
        return word_bytes(places, data)

    @classmethod
    def of(cls, rows: pa.LargeBinaryArray, counts: np.ndarray, n_sensitive: int) -> KnownCases:
        """Adds up the counts of equal rows in any order."""
        return cls(*sum_by_key(rows, counts), n_sensitive)

    @classmethod
    def merge(cls, pieces: Sequence[KnownCases]) -> KnownCases:
        """Returns the statistic of the union of the pieces' cases."""
        if len(pieces) == 1:
            return pieces[0]
        return cls.of(
            joined((p.rows for p in pieces), pa.large_binary()),
            joined(p.counts for p in pieces),
            max((p.n_sensitive for p in pieces), default=0),
        )

    def decoded(self) -> CaseTable:
        """Returns the rows as arrays."""
        data = np.frombuffer(b"".join(self.rows.to_pylist()), np.int64)
        widths = np.asarray(pc.binary_length(self.rows)) // 8
        places, lengths = offsets_of(widths)[:-1], widths - self.n_sensitive
        words = data[ranges(places + self.n_sensitive, lengths)]
        sensitive = data[places[:, None] + np.arange(self.n_sensitive)]
        return CaseTable(offsets_of(lengths), words, self.counts, sensitive)


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

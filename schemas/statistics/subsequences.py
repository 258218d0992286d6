"""Patterns that are subsequences of rows, grown level by level: how many cases match each of them.

The search keeps, of every pattern and row that matches it, where the leftmost match ends (as in
PrefixSpan: Pei et al., ICDE 2001), and looks at a longer pattern only if all of its subpatterns
that are shorter by one were taken up (Agrawal, Srikant, VLDB 1994). All rows and all patterns of a
piece are looked at in one go, in arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tracecloak.schemas.arrays.merging import offsets_of, order_of_small, ranges

# At most about so many extended matches, and cells of counts, are looked at in one go.
_PIECE = 1 << 21


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in which patterns are sought.

    Attributes:
        offsets: int64[n+1].
        items: int64[n_positions], numbers from 0 to `n_items` - 1.
        n_items: Number of items.
        counts: int64[n], cases of each row.
        labels: int64[n, m], the label of each row by label attribute; 0 is none.
    """

    offsets: np.ndarray
    items: np.ndarray
    n_items: int
    counts: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Demand:
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
    rows: Rows, demand: Demand, max_length: int | None, max_positions: int | None = None
) -> Iterator[Level]:
    """Yields the levels of the patterns that occur, from length 1 to where none is taken up.

    Args:
        rows: Where they are sought.
        demand: What they must meet; the empty pattern is taken to meet it.
        max_length: Of the patterns; None for no bound.
        max_positions: No level is begun that would look at so many positions, together with those
            before it; so the last one yielded can have patterns that longer ones continue. A
            position counts once for each pattern and row whose match it could continue. None for
            no bound.
    """
    n_rows = len(rows.counts)
    if rows.n_items == 0:
        return
    search = _Search.of(rows, demand)
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
        known = level.shorter[:, -1] * search.rows.n_items + level.taken[:, -1]
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

    rows: Rows
    demand: Demand
    previous: np.ndarray

    @classmethod
    def of(cls, rows: Rows, demand: Demand) -> _Search:
        row = np.repeat(np.arange(len(rows.counts)), np.diff(rows.offsets))
        # Positions ascend within an item, and so do their rows.
        order = stable_order(rows.items, rows.n_items - 1)
        items, row = rows.items[order], row[order]
        same = (items[1:] == items[:-1]) & (row[1:] == row[:-1])
        previous = np.full(len(order), -1, np.int64)
        previous[order[1:][same]] = order[:-1][same]
        return cls(rows, demand, previous)

    def compacted(self, names: np.ndarray, matches: _Matches) -> tuple[_Search, _Matches]:
        """Leaves the other items out of the rows, and numbers the named ones by their places."""
        rows = self.rows
        number = np.full(rows.n_items, -1, np.int64)
        number[names] = np.arange(len(names))
        items = number[rows.items]
        place = offsets_of(items >= 0)
        compact = Rows(
            place[rows.offsets], items[items >= 0], max(len(names), 1), rows.counts, rows.labels
        )
        # A match ends at an item that was taken up.
        moved = _Matches(matches.patterns, matches.rows, place[matches.ends])
        return _Search.of(compact, self.demand), moved

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
        n, length = level.taken.shape
        ends = self.rows.offsets[1:][matches.rows]
        rest = ends - matches.ends - 1
        first_match = np.searchsorted(matches.patterns, np.arange(n + 1))
        work = np.concatenate([[0], np.cumsum(rest)])[first_match]
        taken, refused, shorter, cases, longer_matches = [], [], [], [], []
        n_taken = first = 0
        while first < n:
            last = int(np.searchsorted(work, work[first] + _PIECE, side="right")) - 1
            last = min(max(last, first + 1), first + max(1, _PIECE // self.rows.n_items), n)
            piece = slice(first_match[first], first_match[last])
            part = self._extended(
                level, known, matches, rest, piece, (first, last), (n_taken, wants_matches)
            )
            taken.append(part[0].taken)
            refused.append(part[0].refused)
            shorter.append(part[0].shorter)
            cases.append(part[0].cases)
            longer_matches.append(part[1])
            n_taken += len(part[0].taken)
            first = last
        none = np.zeros((0, length + 1), np.int64)
        flat = np.zeros(0, np.int64)
        return (
            Level(
                np.concatenate([none, *taken]),
                np.concatenate([none, *refused]),
                np.concatenate([none, *shorter]),
                np.concatenate([flat, *cases]),
            ),
            _Matches(
                np.concatenate([flat, *(m.patterns for m in longer_matches)]),
                np.concatenate([flat, *(m.rows for m in longer_matches)]),
                np.concatenate([flat, *(m.ends for m in longer_matches)]),
            ),
        )

    def _extended(
        self,
        level: Level,
        known: np.ndarray,
        matches: _Matches,
        rest: np.ndarray,
        piece: slice,
        patterns: tuple[int, int],
        numbering: tuple[int, bool],
    ) -> tuple[Level, _Matches]:
        """The same of some patterns and their matches, a piece of all of them."""
        rows, (first, last), (n_before, wants_matches) = self.rows, patterns, numbering
        position = ranges(matches.ends[piece] + 1, rest[piece])
        source = np.repeat(np.arange(piece.start, piece.stop), rest[piece])
        # A leftmost match goes on at the first of equal items after it.
        is_leftmost = self.previous[position] <= matches.ends[source]
        position, source = position[is_leftmost], source[is_leftmost]
        row = matches.rows[source]
        key = (matches.patterns[source] - first) * rows.n_items + rows.items[position]
        totals = np.bincount(key, rows.counts[row], (last - first) * rows.n_items)
        occurring = np.flatnonzero(totals)
        prefix, item = occurring // rows.n_items + first, occurring % rows.n_items

        shorter = np.empty((len(occurring), level.length + 1), np.int64)
        shorter[:, -1] = prefix
        is_candidate = np.ones(len(occurring), bool)
        for i in range(level.length):
            sought = level.shorter[prefix, i] * rows.n_items + item
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
        of_taken = np.flatnonzero(group >= 0)
        of_taken = of_taken[stable_order(group[of_taken], len(part.taken))]
        return part, _Matches(group[of_taken] + n_before, row[of_taken], position[of_taken])

    def _largest(self, group: np.ndarray, row: np.ndarray, n_groups: int) -> np.ndarray:
        """int64[n_groups, m], cases of the most frequent label; group -1 is left out."""
        labels = self.rows.labels
        largest = np.zeros((n_groups, labels.shape[1]), np.int64)
        for k in range(labels.shape[1]):
            label = labels[row, k]
            counted = np.flatnonzero((group >= 0) & (label > 0))
            if len(counted) == 0:
                continue
            n_labels = int(labels[:, k].max()) + 1
            key = group[counted] * n_labels + label[counted]
            if n_groups * n_labels <= _PIECE:
                totals = np.bincount(
                    key, self.rows.counts[row[counted]], n_groups * n_labels
                ).reshape(n_groups, n_labels)
                largest[:, k] = totals.max(axis=1).astype(np.int64)
                continue
            order = stable_order(key, n_groups * n_labels)
            key = key[order]
            heads = np.flatnonzero(np.diff(key, prepend=key[0] - 1))
            totals = np.add.reduceat(self.rows.counts[row[counted[order]]], heads)
            np.maximum.at(largest[:, k], key[heads] // n_labels, totals)
        return largest


def stable_order(values: np.ndarray, largest: int) -> np.ndarray:
    """Returns int64[n], the stable order of numbers from 0; linear up to 2^32."""
    if largest < 1 << 16 or largest >= 1 << 32:
        return order_of_small(values, largest)
    order = order_of_small(values & 0xFFFF, 0xFFFF)
    return order[order_of_small(values[order] >> 16, 0xFFFF)]


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

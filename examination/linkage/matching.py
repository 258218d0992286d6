"""Which cases match a piece of knowledge: subsequences of canonical rows, a piece at a time.

See `schemas.statistics.background_knowledge`: sets, multisets, sequences and relative knowledge all
come down to whether a piece is a subsequence of a case's canonical row. Rows are distinct with
their numbers of cases, so a log is as large here as it has variants. Exact counts of private data.
"""

from __future__ import annotations

import numpy as np

from tracecloak.schemas.statistics.background_knowledge import CaseTable
from tracecloak.schemas.statistics.subsequences import stable_order

# Of a common item the next place is kept for every position, as long as all of them fit so much.
_MAX_TABLE_BYTES = 1 << 28
_COMMON = 8  # an item is common if one of so many rows has it


class MatchIndex:
    """Finds the rows that have a piece as a subsequence.

    Args:
        table: Distinct canonical rows; words are numbers of items.
        n_items: Number of items.
    """

    def __init__(self, table: CaseTable, n_items: int) -> None:
        self._offsets, self._ends = table.offsets[:-1], table.offsets[1:]
        self._counts, self._labels = table.counts, table.sensitive
        items = table.words
        self._order = stable_order(items, max(n_items - 1, 0))
        self._borders = np.searchsorted(items[self._order], np.arange(n_items + 1))
        # The rows of each item, each once.
        row = np.repeat(np.arange(len(table.counts)), np.diff(table.offsets))[self._order]
        is_new = np.ones(len(row), bool)
        is_new[1:] = np.diff(row) != 0
        is_new[self._borders[:-1][np.diff(self._borders) > 0]] = True
        self._rows = row[is_new]
        self._row_borders = np.concatenate([[0], np.cumsum(is_new)])[self._borders]
        self._n_positions = len(items)
        self._next: dict[int, np.ndarray] = {}
        self._bytes_left = _MAX_TABLE_BYTES
        self._widths = table.sensitive.max(axis=0, initial=0) + 1

    def rows_with(self, piece: np.ndarray) -> np.ndarray:
        """Returns int64[n], the rows that have a piece as a subsequence, ascending.

        Args:
            piece: int64[length], numbers of items; -1 for one that no row has.
        """
        if not len(piece):
            return np.arange(len(self._counts))
        if piece.min() < 0:
            return np.zeros(0, np.int64)
        # Only the rows of the rarest item can match, and of these the piece is read from the left.
        borders = self._row_borders
        rarest = piece[(borders[piece + 1] - borders[piece]).argmin()]
        rows = self._rows[borders[rarest] : borders[rarest + 1]]
        position = self._offsets[rows]
        for item in piece.tolist():
            place = self._following(item, position)
            inside = (place < self._ends[rows]).nonzero()[0]
            if not len(inside):
                return rows[:0]
            rows, position = rows[inside], place[inside] + 1
        return rows

    def _places(self, item: int) -> np.ndarray:
        return self._order[self._borders[item] : self._borders[item + 1]]

    def _following(self, item: int, position: np.ndarray) -> np.ndarray:
        """int64[n], the first place of an item at or after each position; n_positions if none."""
        table = self._next.get(item)
        if table is None:
            places = self._places(item)
            n_bytes = 4 * (self._n_positions + 1)
            is_common = len(places) * _COMMON > len(self._counts)
            if not is_common or n_bytes > self._bytes_left or self._n_positions >= 1 << 31:
                next_place = places.searchsorted(position)
                place = places.take(next_place, mode="clip")
                place[next_place == len(places)] = self._n_positions
                return place
            self._bytes_left -= n_bytes
            gaps = np.diff(places, prepend=-1)
            rest = self._n_positions - (int(places[-1]) if len(places) else -1)
            filled = np.append(places, self._n_positions).astype(np.int32)
            table = self._next[item] = np.repeat(filled, np.append(gaps, rest))
        return table[position]

    def match(
        self, pieces: np.ndarray, borders: np.ndarray, victims: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Counts the cases that match each piece, and their sensitive values.

        Args:
            pieces: int64[n, longest], numbers of items from the left, then -2 up to the end.
            borders: int64[n+1], the victims of each piece.
            victims: int64[k, m], labels of the victims, those of one piece after the other; 0 for
                none, and one that no row has is allowed.

        Returns:
            int64[n], cases that match each piece; int64[n, m], of each sensitive attribute the
            cases with its most frequent value among them; and int64[k, m], of each victim the cases
            with the victim's own value among them, 0 for one without a value.
        """
        n, n_attributes = len(pieces), self._labels.shape[1]
        sizes = np.zeros(n, np.int64)
        largest = np.zeros((n, n_attributes), np.int64)
        of_victims = np.zeros((len(victims), n_attributes), np.int64)
        lengths = (pieces != PADDING).sum(axis=1)
        for i in range(n):
            rows = self.rows_with(pieces[i, : lengths[i]])
            if not len(rows):
                continue
            counts = self._counts[rows]
            sizes[i] = counts.sum()
            for k in range(n_attributes):
                width = int(self._widths[k])
                totals = np.bincount(self._labels[rows, k], counts, width)
                totals[0] = 0  # no value
                largest[i, k] = totals.max()
                sought = victims[borders[i] : borders[i + 1], k]
                known = np.where(sought < width, sought, 0)
                of_victims[borders[i] : borders[i + 1], k] = totals[known]
        return sizes, largest, of_victims


# Fills a piece that is shorter than others.
PADDING = -2

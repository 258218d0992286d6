"""Statistics that merge in any order, and distinct rows of arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.hashing import hash_text, mix

# --- The distinct ones, the order and the places of many integers, in less time than numpy takes. -


# ---
# The distinct ones and the order of many integers: what numpy returns, in less time and memory.
# Keys that lie close together are looked up in a table. Others are sorted as integers that hold a
# key and its place at once, which takes a fraction of the time of sorting places by their keys.


# Fewer keys than these are left to numpy: a call costs more than they do.
_FEW = 1 << 11
# A table may have so many cells for each key, so that it is no larger than what is returned.
_CELLS_OF_KEY = 2
# Edges are looked up in so many cells for each, or in as many for each power of two as bits tell.
_CELLS_OF_EDGE, _CELL_BITS = 8, 7


def distinct_places(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the distinct keys, ascending, and int64[n], which of them each key is.

    Args:
        keys: int[n].
    """
    shift = (len(keys) - 1).bit_length()
    above = _above(keys, 1 << 63 - shift)
    if above is None:
        distinct, places = np.unique(keys, return_inverse=True)
        return distinct, places
    cells, least, width = above
    if width <= _CELLS_OF_KEY * len(keys):
        is_there = np.zeros(width, bool)
        is_there[cells] = True
        used = np.flatnonzero(is_there)
        place_of = np.empty(width, np.int64)
        place_of[used] = np.arange(len(used))
        places = np.take(place_of, cells, out=cells, mode="clip")
    else:
        _sort_with_places(cells, shift)
        origin = cells & ((1 << shift) - 1)
        cells >>= shift
        is_first = np.append(True, cells[1:] != cells[:-1])
        used = cells[is_first]
        places = np.empty(len(cells), np.int64)
        np.cumsum(is_first, out=cells)
        cells -= 1
        places[origin] = cells
    return (used + least).astype(keys.dtype), places


def distinct_counts(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the distinct keys, ascending, and int64[n], how often each occurs.

    Args:
        keys: int[n].
    """
    above = _above(keys, _CELLS_OF_KEY * len(keys))
    if above is None:
        distinct, counts = np.unique(keys, return_counts=True)
        return distinct, counts
    cells, least, width = above
    counts = np.bincount(cells, minlength=width)
    used = np.flatnonzero(counts)
    return (used + least).astype(keys.dtype), counts[used]


def stable_order(keys: np.ndarray) -> np.ndarray:
    """Returns int64[n], what numpy's stable `argsort` of the keys returns.

    Args:
        keys: int[n].
    """
    if np.all(keys[1:] >= keys[:-1]):
        return np.arange(len(keys))
    shift = (len(keys) - 1).bit_length()
    above = _above(keys, 1 << 63 - shift)
    if above is None:
        return np.argsort(keys, kind="stable")
    cells, _, _ = above
    _sort_with_places(cells, shift)
    cells &= (1 << shift) - 1
    return cells


def _above(keys: np.ndarray, most: int) -> tuple[np.ndarray, int, int] | None:
    """Returns int64[n], how far each key lies above the least one, that one, and their range.

    None for few keys, and for such as have a range of more than `most`.
    """
    if len(keys) < _FEW:
        return None
    least, largest = int(keys.min()), int(keys.max())
    width = largest - least + 1
    if width > most or largest >= 1 << 63:
        return None
    return np.subtract(keys, least, dtype=np.int64), least, width


def _sort_with_places(cells: np.ndarray, shift: int) -> None:
    """Puts the place of each into its lowest bits, and sorts them."""
    cells <<= shift
    cells |= np.arange(len(cells))
    cells.sort()


def places_among(edges: np.ndarray, values: np.ndarray, n_of_unit: int | None = None) -> np.ndarray:
    """Returns int64[n], what numpy's `searchsorted` to the right returns.

    Values are looked up in cells of their range: most have no edge within, so all values of a cell
    have one place. The others are left to numpy.

    Args:
        edges: int64[m] or float64[m], ascending.
        values: [n], of the same type.
        n_of_unit: How many edges lie between two whole numbers, where none and no value is
            negative; None: the farther from 0 edges lie, the wider apart they are.
    """
    if len(values) >= max(_FEW, len(edges)) and len(edges):
        of_edges, cells = (_cells_of(numbers, n_of_unit) for numbers in (edges, values))
        n_cells = int(max(of_edges[-1], cells.max())) + 1
        if n_cells <= _CELLS_OF_KEY * len(values):
            begins = np.searchsorted(of_edges, np.arange(n_cells + 1))
            places = begins.take(cells)
            unclear = np.flatnonzero((np.diff(begins) > 0).take(cells))
            places[unclear] = np.searchsorted(edges, values[unclear], side="right")
            return places
    return np.searchsorted(edges, values, side="right")


def _cells_of(numbers: np.ndarray, n_of_unit: int | None) -> np.ndarray:
    """int64[n], from 0, the cell of each number; none is less than that of a smaller number."""
    if n_of_unit is not None:
        return (numbers * (_CELLS_OF_EDGE * n_of_unit)).astype(np.int64)
    # The exponent of the float, and so many bits of what follows it; 0 of what is below 1.
    cells = np.maximum(numbers, 0).astype(np.float64).view(np.int64)
    cells >>= 52 - _CELL_BITS
    cells -= 1023 << _CELL_BITS
    return np.maximum(cells, 0, out=cells)


# --- What makes a statistic combinable: exact merging of pieces, in any order and any grouping. ---
# A statistic is a value (frozen, its arrays are never written to after construction) that counts
# a part of the log exactly in integers. `merge` of the pieces of a partition is the statistic of
# the whole, so drivers may count batches wherever they lie; `merge(())` is the statistic of an
# empty log.


class Mergeable(Protocol):
    """A statistic; see the module."""

    @classmethod
    def merge(cls, pieces: Sequence[Self]) -> Self:
        """Returns the statistic of the union; never changes a piece."""
        ...


@dataclass(frozen=True, eq=False)
class OfArrays(Columnar):
    """A value whose fields are arrays.

    Merging joins the arrays of the pieces, of which `of` makes the value.
    """

    # Of each field, the dtype or the Arrow type; none: all are int64.
    _types: ClassVar[tuple[Any, ...]] = ()
    # The fields that are the keys of rows, by which it is split; none: it stays in one piece.
    _keys: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def merge(cls, pieces: Sequence[Self]) -> Self:
        """Returns the statistic of the union of the pieces' cases."""
        if len(pieces) == 1:
            return pieces[0]
        columns = [[getattr(piece, one.name) for piece in pieces] for one in fields(cls)]
        types = cls._types or (np.int64,) * len(columns)
        return cls.of(*map(joined, columns, types))

    @classmethod
    def of(cls, *columns: Any, **options: Any) -> Self:
        """Returns the value of columns in which what is counted may repeat, in any order."""
        raise NotImplementedError

    def split(self, n_parts: int) -> Iterator[tuple[int, Self]]:
        """Yields part 0, and the others that have rows, each with its number; see `merge`.

        Which part a row is in depends on its key alone, so that equal keys of several statistics
        meet in one part, wherever they are split. One without keys of rows is all in part 0.

        Args:
            n_parts: Number of parts, at least 1.
        """
        if n_parts == 1 or not self._keys:
            yield 0, self
            return
        part_of = (_hashes([getattr(self, key) for key in self._keys]) % n_parts).astype(np.int64)
        order, n_rows = order_of_small(part_of, n_parts), np.bincount(part_of, minlength=n_parts)
        for number, rows in enumerate(np.split(order, np.cumsum(n_rows)[:-1])):
            if len(rows) or not number:
                yield number, self.take(rows)

    def take(self, rows: np.ndarray) -> Self:
        """Returns some rows, of a statistic that has keys of rows.

        Args:
            rows: int64[n], their numbers, ascending.
        """
        return type(self)(*(_taken(getattr(self, field.name), rows) for field in fields(self)))


class CountsByKey(OfArrays):
    """Keys, ascending, with their counts, and so on: each field of keys is followed by counts."""

    @classmethod
    def of(cls, *columns: Any) -> Self:
        """Adds up the counts of equal keys in any order."""
        pairs = zip(columns[::2], columns[1::2], strict=True)
        return cls(*(array for pair in pairs for array in sum_by_key(*pair)))


class CountsByPair(OfArrays):
    """Pairs of keys, in order, with their counts."""

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray, counts: np.ndarray) -> Self:
        """Adds up the counts of equal pairs in any order."""
        return cls(*map(np.asarray, sum_by_pair(first, second, counts), cls._types))


def _hashes(keys: Iterable[np.ndarray | pa.Array]) -> np.ndarray:
    """uint64[n], a hash of each row of columns, the same in every process and version."""
    hashes: Any = 0
    for column in keys:
        if isinstance(column, pa.Array):
            words = hash_text(column.cast(pa.large_binary()))
        else:
            words = column.astype(np.int64).view(np.uint64)
        hashes = mix(words + hashes)
    found: np.ndarray = hashes
    return found


def _taken(column: Any, rows: np.ndarray) -> Any:
    """The rows of a column; what is no column is of all rows."""
    if isinstance(column, pa.Array):
        return column.take(pa.array(rows))
    return column[rows] if isinstance(column, np.ndarray) else column


def _weight(piece: Any) -> int:
    """Number of elements of its fields, by which merging pays."""
    values = (getattr(piece, field.name) for field in fields(piece))
    return sum(len(value) for value in values if hasattr(value, "__len__"))


class Totals:
    """Accumulates pieces of several statistics by name, of several threads side by side.

    The pieces of a thread are merged when the unmerged ones outweigh the merged one: memory stays
    within about twice the merged statistic of each thread, plus one batch. `add` and `absorb`
    change this accumulator only; the pieces themselves are shared freely.
    """

    # Below this many elements a merge costs more in calls than it saves in memory.
    _MERGE_ELEMENTS = 1 << 20

    def __init__(self, kinds: Mapping[str, type[Any]]) -> None:
        """Begins without a piece, of statistics of these kinds by name."""
        self._kinds = dict(kinds)
        self._pieces: dict[tuple[int, str], list[Any]] = {}  # by thread and name

    def add(self, by_name: Mapping[str, Any]) -> None:
        """Takes in one more piece of some of the statistics; others do not count."""
        for name in self._kinds.keys() & by_name.keys():
            pieces = self._pieces.setdefault((threading.get_ident(), name), [])
            pieces.append(by_name[name])
            merged, *pending = map(_weight, pieces)
            if sum(pending) > max(self._MERGE_ELEMENTS, merged):
                pieces[:] = [self._kinds[name].merge(pieces)]

    def absorb(self, other: Totals) -> None:
        """Takes in the pieces of another accumulator, which stays as it is."""
        for (_, name), pieces in other._pieces.items():
            for piece in pieces:
                self.add({name: piece})

    def result(self) -> dict[str, Any]:
        """Returns the merged statistics, by name, while no thread adds any; it can still grow."""
        pieces: dict[str, list[Any]] = {name: [] for name in self._kinds}
        while self._pieces:
            (_, name), of_thread = self._pieces.popitem()
            pieces[name] += of_thread
        for name, kind in self._kinds.items():
            if len(pieces[name]) != 1:
                pieces[name] = [kind.merge(pieces[name])]
        self._pieces = {(0, name): list(merged) for name, merged in pieces.items()}
        return {name: merged for name, (merged,) in pieces.items()}


class Statistics(Columnar, wire_name="statistics"):
    """The statistics that one round counts, by name.

    Attributes:
        by_name: Each of them, of a batch or of the whole log.
    """

    by_name: dict[str, Any]

    def split(self, n_parts: int) -> Iterator[tuple[int, Statistics]]:
        """Yields parts with their numbers, by the keys of rows; see `OfArrays.split`.

        A statistic of another class, which has no `split`, is all in part 0.
        """
        parts: dict[int, dict[str, Any]] = {}
        for name, statistic in self.by_name.items():
            has_rows = isinstance(statistic, OfArrays)
            for number, part in statistic.split(n_parts) if has_rows else [(0, statistic)]:
                parts.setdefault(number, {})[name] = part
        for number in sorted(parts):
            yield number, Statistics(parts.pop(number))


def sum_groups(groups: np.ndarray, values: np.ndarray, n_groups: int) -> np.ndarray:
    """Returns int64[n_groups], the exact sums of int64 `values` by group number."""
    totals = np.zeros(n_groups, np.int64)
    np.add.at(totals, groups, values)  # of another type it would take thirty times as long
    return totals


def sum_by_key(keys: Any, values: np.ndarray) -> tuple[Any, np.ndarray]:
    """Returns the distinct keys, ascending, and int64[n], the exact sums of the values of each.

    Args:
        keys: int[m], or string[m] or binary[m] without nulls.
        values: int64[m].
    """
    if not isinstance(keys, pa.Array):
        distinct, places = distinct_places(keys)
        return distinct, sum_groups(places, values, len(distinct))
    encoded = keys.dictionary_encode()
    totals = sum_groups(np.asarray(encoded.indices), values, len(encoded.dictionary))
    order = pc.sort_indices(encoded.dictionary)
    return encoded.dictionary.take(order), totals[np.asarray(order)]


def sum_by_pair(
    first: np.ndarray, second: np.ndarray, *values: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Returns the distinct pairs, in order, and for each values int64[n], their exact sums."""
    keys, pairs_of = pair_keys(first, second)
    distinct, places = distinct_places(keys)
    return *pairs_of(distinct), *(sum_groups(places, of, len(distinct)) for of in values)


def pair_keys(
    first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]]:
    """Returns int64[n], numbers in the order of pairs, and what makes pairs of such numbers again.

    Args:
        first: int[n].
        second: int[n].
    """
    least, names, places = int(second.min(initial=0)), None, second
    width = int(second.max(initial=0)) - least + 1
    if (int(first.max(initial=0)) + 1) * width >= 1 << 62:  # only those that occur are numbered
        names, places = np.unique(second, return_inverse=True)
        least, width = 0, len(names)

    def pairs_of(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        one, other = np.divmod(keys, width)
        return one, other + least if names is None else names[other]

    return first.astype(np.int64) * width + (places - least), pairs_of


def joined(columns: Iterable[Any], kind: Any = np.int64) -> Any:
    """Returns arrays of a dtype or an Arrow type one after the other; of none, an empty one."""
    if isinstance(kind, pa.DataType):
        return pa.concat_arrays([pa.array([], kind), *columns])
    return np.concatenate([np.zeros(0, kind), *columns])


def ranges(starts: np.ndarray | int, lengths: np.ndarray) -> np.ndarray:
    """Returns int64[sum(lengths)]: start, start+1, … for each range, one after the other.

    The index array that gathers CSR rows without a loop.
    """
    total = int(lengths.sum())
    offsets = np.cumsum(lengths) - lengths
    return np.arange(total, dtype=np.int64) + np.repeat(starts - offsets, lengths)


def beside(
    keys: np.ndarray, values: np.ndarray, other_keys: np.ndarray, other_values: np.ndarray
) -> np.ndarray:
    """Returns float64[2, n], values of distinct keys over the union of both, 0 of one that lacks.

    Args:
        keys: int64[k], distinct.
        values: float64[k] or int64[k].
        other_keys: int64[m], distinct.
        other_values: float64[m] or int64[m].
    """
    union, number = np.unique(np.concatenate([keys, other_keys]), return_inverse=True)
    both = np.zeros((2, len(union)))
    both[0, number[: len(keys)]] = values
    both[1, number[len(keys) :]] = other_values
    return both


def places_of(elements: np.ndarray, sought: np.ndarray) -> np.ndarray:
    """Returns int64[m], the place of each among int64[n] ascending elements; -1 for none."""
    place = np.minimum(np.searchsorted(elements, sought), max(len(elements) - 1, 0))
    has = elements[place] == sought if len(elements) else np.zeros(len(sought), bool)
    return np.where(has, place, -1)


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Returns int64[n+1], the CSR offsets of rows with these lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranks_within(groups: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
    """Returns int64[n], how many of its group come before each.

    Args:
        groups: int[n].
        order: int64[n], in which they come, by ascending groups; None: as they are.
    """
    order = stable_order(groups) if order is None else order
    ordered = groups[order]
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - np.searchsorted(ordered, ordered)
    return ranks


def order_of_small(values: np.ndarray, largest: int) -> np.ndarray:
    """Returns int64[n], the stable order of numbers from 0; linear if `largest` fits 16 bits."""
    return np.argsort(values.astype(np.uint16) if largest < 1 << 16 else values, kind="stable")


def rows_in_order(
    keys: Sequence[np.ndarray], ties: Callable[[np.ndarray], Sequence[np.ndarray]]
) -> np.ndarray:
    """Returns int64[n], the rows in the order of keys; only those that are tied are looked at more.

    Rows that come in the order of their keys within the first one take hardly any time.

    Args:
        keys: [n] each, the foremost first.
        ties: Returns the keys of some rows, likewise, which decide among those equal in all `keys`.
    """
    rows = stable_order(keys[0])
    is_equal, is_later = equal_to_previous(keys, rows)
    if not (is_later | is_equal).all():
        rows = np.lexsort(keys[::-1])
        is_equal, _ = equal_to_previous(keys, rows)
    if is_equal.any():
        places = np.flatnonzero(np.append(is_equal, False) | np.append(False, is_equal))
        runs = np.cumsum(np.append(True, ~is_equal))[places]
        tied = rows[places]
        rows[places] = tied[np.lexsort([*ties(tied)[::-1], runs])]
    return rows


def equal_to_previous(
    keys: Sequence[np.ndarray], rows: np.ndarray | slice = slice(None)
) -> tuple[np.ndarray, np.ndarray]:
    """Returns bool[n-1] twice: which rows have the keys of the one before, and which later ones."""
    n_rows = len(keys[0]) if isinstance(rows, slice) else len(rows)
    is_equal = np.ones(max(n_rows - 1, 0), bool)
    is_later = ~is_equal
    for key in keys:
        values = key[rows]
        is_later |= is_equal & (values[1:] > values[:-1])
        is_equal &= values[1:] == values[:-1]
    return is_equal, is_later

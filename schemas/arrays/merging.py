"""What makes a statistic combinable: exact merging of pieces, in any order and any grouping.

A statistic is a value (frozen, its arrays are never written to after construction) that counts a
part of the log exactly in integers. `merge` of the pieces of a partition is the statistic of the
whole, so drivers may count batches wherever they lie; `merge(())` is the statistic of an empty log.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.distinct import distinct_places


class Mergeable(Protocol):
    """A statistic; see the module."""

    @property
    def weight(self) -> int:
        """Number of stored elements, to decide when merging pays."""
        ...

    @classmethod
    def merge(cls, pieces: Sequence[Self]) -> Self:
        """Returns the statistic of the union; never changes a piece."""
        ...


@dataclass(frozen=True, eq=False)
class OfArrays:
    """A value whose fields are arrays: equal to one of its class with equal arrays.

    Merging joins the arrays of the pieces, of which `_collapsed` makes the value.
    """

    # Of each field, the dtype or the Arrow type; none: all are int64.
    _types: ClassVar[tuple[Any, ...]] = ()

    @property
    def weight(self) -> int:
        """Number of elements of its first array."""
        return len(getattr(self, fields(self)[0].name))

    @classmethod
    def merge(cls, pieces: Sequence[Self]) -> Self:
        """Returns the statistic of the union of the pieces' cases."""
        if len(pieces) == 1:
            return pieces[0]
        columns = [[getattr(piece, one.name) for piece in pieces] for one in fields(cls)]
        types = cls._types or (np.int64,) * len(columns)
        return cls._collapsed(*map(joined, columns, types))

    @classmethod
    def _collapsed(cls, *columns: Any, **options: Any) -> Self:
        """Returns the value of columns in which what is counted may repeat, in any order."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and all(
            _are_equal(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays


class CountsByKey(OfArrays):
    """Keys, ascending, with their counts, and so on: each field of keys is followed by counts."""

    @classmethod
    def _collapsed(cls, *columns: np.ndarray) -> Self:
        pairs = zip(columns[::2], columns[1::2], strict=True)
        return cls(*(array for pair in pairs for array in sum_by_key(*pair)))


def _are_equal(one: np.ndarray | pa.Array, other: np.ndarray | pa.Array) -> bool:
    return one.equals(other) if isinstance(one, pa.Array) else np.array_equal(one, other)


T = TypeVar("T", bound=Mergeable)


class Pieces(Generic[T]):
    """Accumulates pieces of one statistic, merging when the unmerged ones outweigh the merged one.

    Memory stays within about twice the merged statistic plus one batch. `add` and `absorb` change
    this accumulator only; the pieces themselves are shared freely.
    """

    __slots__ = ("_kind", "_pieces")

    # Below this many elements a merge costs more in calls than it saves in memory.
    _MERGE_ELEMENTS = 1 << 20

    def __init__(self, kind: type[T], pieces: Sequence[T] = ()) -> None:
        self._kind = kind
        self._pieces = list(pieces)

    def add(self, piece: T) -> None:
        """Takes in one more piece."""
        self._pieces.append(piece)
        if len(self._pieces) > 1:
            pending = sum(p.weight for p in self._pieces[1:])
            if pending > max(self._MERGE_ELEMENTS, self._pieces[0].weight):
                self.compact()

    def absorb(self, other: Pieces[T]) -> None:
        """Takes in the pieces of another accumulator, which stays as it is."""
        for piece in other._pieces:
            self.add(piece)

    def compact(self) -> None:
        """Merges what is pending, as before the accumulator travels."""
        if len(self._pieces) > 1:
            self._pieces = [self._kind.merge(self._pieces)]

    def result(self) -> T:
        """Returns the merged statistic; the accumulator can still grow."""
        self.compact()
        return self._pieces[0] if self._pieces else self._kind.merge(())

    def __getstate__(self) -> tuple[type[T], list[T]]:
        return self._kind, self._pieces

    def __setstate__(self, state: tuple[type[T], list[T]]) -> None:
        self._kind, self._pieces = state


class PiecesByThread:
    """Accumulates pieces of several statistics; every thread merges those that it adds.

    So what takes longest of merging is done side by side. There is one merged piece of each
    statistic for every thread that adds some.
    """

    def __init__(self, kinds: Mapping[str, type[Any]]) -> None:
        """Begins without a piece, of statistics of these kinds by name."""
        self._kinds = kinds
        self._of_threads: dict[int, dict[str, Pieces[Any]]] = {}

    def add(self, counts: Mapping[str, Any]) -> None:
        """Takes in one more piece of some of the statistics, by name."""
        of_thread = self._of_threads.setdefault(threading.get_ident(), {})
        for name, piece in counts.items():
            of_thread.setdefault(name, Pieces(self._kinds[name])).add(piece)

    def result(self) -> dict[str, Any]:
        """Returns the merged statistics, once no thread adds any more; nothing is held then."""
        of_threads = list(self._of_threads.values())
        self._of_threads = {}
        merged = {}
        for name, kind in self._kinds.items():
            pieces = [of_thread.pop(name).result() for of_thread in of_threads if name in of_thread]
            merged[name] = Pieces(kind, pieces).result()
        return merged


@dataclass(frozen=True)
class Statistics:
    """The statistics that one round counts, by name.

    Attributes:
        by_name: Each of them, of a batch or of the whole log.
    """

    wire_name: ClassVar[str] = "statistics"

    by_name: dict[str, Any]


# Sums of non-negative integers up to here are exact in floats, in any order.
_EXACT_IN_FLOATS = 2.0**53


def sum_groups(groups: np.ndarray, values: np.ndarray, n_groups: int) -> np.ndarray:
    """Returns int64[n_groups], the exact sums of int64 `values` by group number."""
    if len(values) and values.min() >= 0 and values.sum(dtype=np.float64) < _EXACT_IN_FLOATS:
        return np.bincount(groups, values, n_groups).astype(np.int64)  # many times faster
    totals = np.zeros(n_groups, np.int64)
    np.add.at(totals, groups, values)
    return totals


def sum_by_key(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns (int64[n] distinct keys, ascending; int64[n] exact sums of the values of each)."""
    distinct, places = distinct_places(keys)
    return distinct, sum_groups(places, values, len(distinct))


def sum_by_value(values: pa.Array, counts: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Returns the distinct values, ascending, and int64[n], the exact sums of the counts of each.

    Args:
        values: string[m] or binary[m], without nulls.
        counts: int64[m].
    """
    encoded = values.dictionary_encode()
    totals = sum_groups(np.asarray(encoded.indices), counts, len(encoded.dictionary))
    order = pc.sort_indices(encoded.dictionary)
    return encoded.dictionary.take(order), totals[np.asarray(order)]


def joined(columns: Iterable[Any], kind: Any = np.int64) -> Any:
    """Returns arrays of a dtype or an Arrow type one after the other; of none, an empty one."""
    if isinstance(kind, pa.DataType):
        return pa.concat_arrays([pa.array([], kind), *columns])
    return np.concatenate([np.zeros(0, kind), *columns])


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns int64[sum(lengths)]: start, start+1, … for each range, one after the other.

    The index array that gathers CSR rows without a loop.
    """
    total = int(lengths.sum())
    offsets = np.cumsum(lengths) - lengths
    return np.arange(total, dtype=np.int64) + np.repeat(starts - offsets, lengths)


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Returns int64[n+1], the CSR offsets of rows with these lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def order_of_small(values: np.ndarray, largest: int) -> np.ndarray:
    """Returns int64[n], the stable order of numbers from 0; linear if `largest` fits 16 bits."""
    return np.argsort(values.astype(np.uint16) if largest < 1 << 16 else values, kind="stable")

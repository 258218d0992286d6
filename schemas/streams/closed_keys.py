"""Which cases of a stream have closed, so that what still comes of them is dropped.

A case must count once, so a closed one is remembered, by default until the horizon ends: 24 bytes a
case. There may be many millions, of which each step adds a few. So they are kept in runs, sorted
ones that at least halve from one to the next: a run that is there is not touched again before as
much as it holds has come, and who keeps runs on a disk writes each key a few times and not once a
step (the log-structured merge of O'Neil, Cheng, Gawlick, O'Neil 1996, in memory).

Keys of two words, uint64[n, 2], in the order of both: found by bisection, without any text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np


def order_of_keys(keys: np.ndarray) -> np.ndarray:
    """Returns int64[n], the rows in the order of their keys."""
    return order_by([keys[:, 0]], [keys[:, 1]])


def order_by(first: Sequence[np.ndarray], then: Sequence[np.ndarray]) -> np.ndarray:
    """Returns int64[n], what `np.lexsort((*then, *first))` does, where `first` mostly decides.

    Rows that come in order, or in a few runs of it, take hardly any time. It would take much more
    to sort by the other columns before, as they put the rows in an order of their own.

    Args:
        first: Columns, the last one foremost.
        then: Columns that decide among rows that are equal in all of these.
    """
    order = np.lexsort(first)
    is_same = np.logical_and.reduce([(c := column[order])[1:] == c[:-1] for column in first])
    if is_same.any():
        is_tied = np.append(is_same, False) | np.append(False, is_same)
        rows = order[is_tied]
        order[is_tied] = rows[np.lexsort([column[rows] for column in (*then, *first)])]
    return order


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (distinct keys in order, a row of each, int64[n] the rank of each row's key)."""
    order = order_of_keys(keys)
    ordered = keys[order]
    is_new = np.ones(len(keys), bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.cumsum(is_new) - 1
    return ordered[is_new], order[is_new], rank


def find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Returns int64[n], the row of each wanted key among sorted ones, or -1."""
    place = np.searchsorted(keys[:, 0], wanted[:, 0])
    rows = np.full(len(wanted), -1, np.int64)
    search = np.arange(len(wanted))
    while len(search):  # once more for each key that shares its first word: hardly ever
        search = search[place[search] < len(keys)]
        at = place[search]
        same = keys[at, 0] == wanted[search, 0]
        equal = same & (keys[at, 1] == wanted[search, 1])
        rows[search[equal]] = at[equal]
        search = search[same & ~equal]
        place[search] += 1
    return rows


# No message is as late as this.
FOREVER_US = np.iinfo(np.int64).max
# The value for a case of which nothing is remembered, or of which no message has come.
NOT_YET_US = -FOREVER_US


@dataclass(frozen=True, eq=False)
class ClosedRun:
    """Some closed cases.

    Attributes:
        keys: uint64[n, 2], sorted and distinct.
        until: int64[n], messages of the case that are published before this moment are dropped.
    """

    wire_name: ClassVar[str] = "closed-run"

    keys: np.ndarray
    until: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, until: np.ndarray) -> ClosedRun:
        """Returns a run of keys in any order; a key that repeats has the latest of its moments."""
        unique, _, rank = distinct(keys)
        latest = np.full(len(unique), NOT_YET_US)
        np.maximum.at(latest, rank, until)
        return cls(unique, latest)


@dataclass(frozen=True, eq=False)
class ClosedKeys:
    """All closed cases that are remembered; a value, `with_more` returns another.

    Attributes:
        runs: By their numbers, the oldest and largest first. A key may be in several: the latest
            moment holds.
    """

    wire_name: ClassVar[str] = "closed-keys"

    runs: Mapping[str, ClosedRun]

    @classmethod
    def none(cls) -> ClosedKeys:
        """Returns that no case has closed."""
        return cls({})

    @property
    def n_kept(self) -> int:
        """Number of keys in all runs."""
        return sum(len(run.keys) for run in self.runs.values())

    def until(self, keys: np.ndarray) -> np.ndarray:
        """Returns int64[n], up to when each case stays closed; NOT_YET_US where none is kept."""
        latest = np.full(len(keys), NOT_YET_US)
        for run in self.runs.values():
            row = find(run.keys, keys)
            known = row >= 0
            latest[known] = np.maximum(latest[known], run.until[row[known]])
        return latest

    def with_more(
        self, keys: np.ndarray, until: np.ndarray, over_us: int = NOT_YET_US
    ) -> ClosedKeys:
        """Returns these and further ones.

        Args:
            keys: uint64[n, 2], in any order; they may be there already.
            until: int64[n], for each.
            over_us: A case that is to be remembered until this moment or less may be forgotten; it
                is forgotten when its run is merged with another one.
        """
        if not len(keys):
            return self
        runs = list(self.runs.values())
        newest = ClosedRun.of(keys, until)
        while runs and len(runs[-1].keys) <= 2 * len(newest.keys):
            last = runs.pop()
            both = (
                np.concatenate([last.keys, newest.keys]),
                np.concatenate([last.until, newest.until]),
            )
            lasting = both[1] > over_us
            newest = ClosedRun.of(both[0][lasting], both[1][lasting])
        return ClosedKeys({str(number): run for number, run in enumerate([*runs, newest])})

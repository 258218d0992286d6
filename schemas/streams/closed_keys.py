"""Which cases of a stream have closed, so that what still comes of them is dropped.

A case must count once, so a closed one is remembered, by default until the horizon ends: 24 bytes a
case. There may be many millions, of which each step adds a few. So they are kept in runs, sorted
ones that at least halve from one to the next: a run that is there is not touched again before as
much as it holds has come, and who keeps runs on a disk writes each key a few times and not once a
step (the log-structured merge of O'Neil, Cheng, Gawlick, O'Neil 1996, in memory).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.schemas.streams.sorted_keys import distinct, find

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

"""k-follows: how closely activities come after each other, the smallest distance over all cases.

Fahrenkrog-Petersen, Kabierski, van der Aa and Weidlich ("Semantics-aware mechanisms for
control-flow anonymization in process mining") score a directly-follows pair by it: a pair that was
only seen far apart is unlikely to be right next to each other. Says nothing of how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.schemas.arrays.merging import OfArrays
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary

# A table of all pairs is a list of those that occur, read off: up to here it is small.
_SMALL_TABLE = 1 << 16


@dataclass(frozen=True, eq=False)
class KFollows(OfArrays):
    """The pairs of which one comes after the other in some case, sorted by (source, target).

    A distance of 1 is that of neighbours, with START before a case's first activity and END after
    its last one: the pairs of distance 1 are the directly-follows pairs. Where distances are
    bounded, a pair that is always further apart is not here, as one that never occurs is not.

    Attributes:
        sources: int32[n_pairs], code of the earlier activity, or START.
        targets: int32[n_pairs], code of the later activity, or END; may be the earlier one again.
        distances: int32[n_pairs], smallest number of steps from one to the other, from 1.
    """

    wire_name: ClassVar[str] = "k-follows"

    sources: np.ndarray
    targets: np.ndarray
    distances: np.ndarray

    @classmethod
    def from_traces(cls, traces: TraceBatch, max_distance: int | None = None) -> KFollows:
        """Finds the smallest distances in the cases of a batch.

        Time is in proportion to the events times the distances that are looked at.

        Args:
            traces: Complete cases.
            max_distance: Largest distance that is looked at, at least 1; None for all.

        Raises:
            UsageError: `max_distance` is below 1.
        """
        if max_distance is not None and max_distance < 1:
            raise UsageError(f"max_distance must be at least 1, got {max_distance}")
        if traces.n_cases == 0:
            return cls.merge(())
        codes, left = _with_ends(traces)
        n_codes = traces.vocabulary.end + 1
        farthest = int(left.max())
        if max_distance is not None:
            farthest = min(farthest, max_distance)
        at = np.arange(len(codes))
        parts = []
        for distance in range(1, farthest + 1):
            at = at[left[at] >= distance]
            keys = _distinct(codes[at] * n_codes + codes[at + distance], n_codes**2)
            parts.append((keys, np.full(len(keys), distance, np.int32)))
        keys, distances = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return cls._nearest(keys // n_codes, keys % n_codes, distances)

    @classmethod
    def _nearest(cls, sources: np.ndarray, targets: np.ndarray, distances: np.ndarray) -> KFollows:
        order = np.lexsort((distances, targets, sources))
        sources, targets = sources[order], targets[order]
        is_first = np.ones(len(order), bool)
        is_first[1:] = (np.diff(sources) != 0) | (np.diff(targets) != 0)
        return cls(
            sources[is_first].astype(np.int32),
            targets[is_first].astype(np.int32),
            distances[order][is_first].astype(np.int32),
        )

    @classmethod
    def merge(cls, pieces: Sequence[KFollows]) -> KFollows:
        """Returns the smallest distances over the union of the pieces' cases."""
        if len(pieces) == 1:
            return pieces[0]
        none = np.zeros(0, np.int32)
        return cls._nearest(
            np.concatenate([none, *(p.sources for p in pieces)]),
            np.concatenate([none, *(p.targets for p in pieces)]),
            np.concatenate([none, *(p.distances for p in pieces)]),
        )

    def keys_within(self, vocabulary: ActivityVocabulary, max_distance: int) -> np.ndarray:
        """Returns int64[n], ascending `source * (end + 1) + target` of pairs at most so far apart.

        Args:
            vocabulary: What the codes mean.
            max_distance: At most the one that was looked for.
        """
        near = self.distances <= max_distance
        return self.sources[near].astype(np.int64) * (vocabulary.end + 1) + self.targets[near]


def _with_ends(traces: TraceBatch) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[n] codes with START and END around each case, and how many come after each."""
    lengths = traces.lengths + 2
    ends = np.cumsum(lengths)
    codes = np.empty(int(ends[-1]), np.int64)
    row = np.repeat(np.arange(traces.n_cases), traces.lengths)
    codes[np.arange(traces.n_events) + 2 * row + 1] = traces.activities
    codes[ends - lengths] = traces.vocabulary.start
    codes[ends - 1] = traces.vocabulary.end
    return codes, np.repeat(ends, lengths) - 1 - np.arange(len(codes))


def _distinct(keys: np.ndarray, n_keys: int) -> np.ndarray:
    """Returns the distinct ones of numbers below `n_keys`, ascending."""
    if n_keys > max(len(keys), _SMALL_TABLE):
        return np.unique(keys)
    is_there = np.zeros(n_keys, bool)
    is_there[keys] = True
    return np.flatnonzero(is_there)

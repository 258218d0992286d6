"""Which cases a log has, in a few kilobytes that tell them to nobody without a key.

The sketch of a log is the smallest of the keyed digests of its cases ("k minimum values":
Bar-Yossef et al., Counting distinct elements in a data stream, RANDOM 2002; for what sets share,
Beyer et al., On synopses for distinct-value estimation under multiset operations, SIGMOD 2007). A
case's digest is of its id, the time of its first event and its first activity, so that two logs
whose cases are merely numbered alike share next to none, and a copy in another file, order or
format shares all. Of events at the same first time any may come first; the one whose keyed name is
the smallest counts. A first time that is a whole half-hour, as dates are in every zone, tells
little: where cases are numbered as they arrive, those of two places have it in common. Then the
number of events and the time of the last one count, too.

Whoever has the key can ask of any case that he can describe whether it is in the sketch, and how
many cases there were. So neither key nor sketch belongs into a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.noise.randomness import KeyedBlocks
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.schemas.arrays.merging import OfArrays
from tracecloak.schemas.events.traces import TraceBatch

# The most digests that are kept: 8 KiB.
MAX_DIGESTS = 1024
# With fewer digests to compare, the share of common ones says too little.
_MIN_COMPARED = 20
_HALF_HOUR_US = 1_800_000_000
_LARGEST = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class CaseSketch(OfArrays):
    """The sketch of a log; pieces of a log that have different cases merge.

    Attributes:
        digests: uint64[n], ascending and distinct; with fewer than MAX_DIGESTS those of all cases.
    """

    wire_name: ClassVar[str] = "case-sketch"

    digests: np.ndarray

    @classmethod
    def from_traces(cls, traces: TraceBatch, key: ReleaseKey) -> CaseSketch:
        """Returns the sketch of complete cases under a key; a case without events does not count.

        Args:
            traces: The cases, as they were read.
            key: One for all logs that are to be compared.
        """
        has_events = np.flatnonzero(traces.lengths)
        begin, end = traces.offsets[:-1][has_events], traces.offsets[1:][has_events]
        start, last = traces.times[begin], traces.times[end - 1]
        names = KeyedBlocks(key.derive(b"sketch/activity")).of_text(traces.vocabulary.names)[:, 0]
        is_at_start = traces.times == np.repeat(start, traces.lengths[has_events])
        at_start = np.where(is_at_start, names[traces.activities], _LARGEST)
        blocks = KeyedBlocks(key.derive(b"sketch/case")).of_text(traces.case_ids)[has_events]
        if len(begin):
            blocks[:, 0] ^= np.minimum.reduceat(at_start, begin)
        blocks[:, 1] ^= start.astype(np.uint64)
        is_coarse = start % _HALF_HOUR_US == 0
        more = np.stack([end - begin, last], axis=1).astype(np.uint64)[is_coarse]
        blocks[is_coarse] ^= KeyedBlocks(key.derive(b"sketch/rest")).encrypt(more)
        digests = KeyedBlocks(key.derive(b"sketch")).encrypt(blocks)[:, 0]
        return cls(_smallest(digests))

    @classmethod
    def merge(cls, pieces: Sequence[CaseSketch]) -> CaseSketch:
        """Returns the sketch of all cases of the pieces."""
        parts = [np.zeros(0, np.uint64), *(piece.digests for piece in pieces)]
        return cls(_smallest(np.concatenate(parts)))

    @classmethod
    def from_bytes(cls, data: bytes) -> CaseSketch:
        """Returns a sketch as `to_bytes` wrote it.

        Raises:
            ValueError: The bytes are no sketch.
        """
        digests = np.frombuffer(data, "<u8").astype(np.uint64)
        if len(digests) > MAX_DIGESTS or np.any(digests[1:] <= digests[:-1]):
            raise ValueError("the bytes are no sketch of cases")
        return cls(digests)

    def to_bytes(self) -> bytes:
        """Returns the digests, eight bytes each, the least significant first."""
        return self.digests.astype("<u8").tobytes()

    @property
    def is_whole(self) -> bool:
        """Whether it has the digest of every case."""
        return len(self.digests) < MAX_DIGESTS

    @property
    def n_cases(self) -> int:
        """About how many cases there are; exact where the sketch is whole."""
        if self.is_whole:
            return len(self.digests)
        return round((MAX_DIGESTS - 1) / (float(self.digests[-1]) / 2.0**64))

    def shared_with(self, other: CaseSketch) -> float | None:
        """Returns about which share of the smaller log's cases both logs have, from 0 to 1.

        Below the largest digest that both are known to, each sketch is a sample of its log, and the
        same digests are the same cases. One log can be some fifty times as large as the other;
        where it is larger still, or one has fewer than 20 cases, too few are left to compare.

        Args:
            other: The sketch of the other log, under the same key.

        Returns:
            The share, or None where too little can be compared.
        """
        known = min(s.digests[-1] if not s.is_whole else _LARGEST for s in (self, other))
        ours, theirs = (s.digests[s.digests <= known] for s in (self, other))
        n_compared = min(len(ours), len(theirs))
        if n_compared < _MIN_COMPARED:
            return None
        return len(np.intersect1d(ours, theirs, assume_unique=True)) / n_compared


def _smallest(digests: np.ndarray) -> np.ndarray:
    if len(digests) > 2 * MAX_DIGESTS:
        few = np.unique(np.partition(digests, 2 * MAX_DIGESTS)[: 2 * MAX_DIGESTS])
        if len(few) >= MAX_DIGESTS:  # nearly always, since few cases are equal
            return few[:MAX_DIGESTS]
    return np.unique(digests)[:MAX_DIGESTS]

"""Which log went into a release, as a number that reveals nothing about it.

The digest is a sum of keyed hashes, one an event, over (case, individual if the log declares any,
place in the case, activity, time, declared attributes). So it depends on the events and not on
files, shards or their order, and pieces add up.

The digests by which releases are told apart: that of the configuration and that of the noise.

Which cases a log has, in a few kilobytes that tell them to nobody without a key.

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

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.noise.randomness import KeyedBlocks, text_digest
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


@dataclass(frozen=True, eq=False)
class InputDigest:
    """The sum over some events.

    Attributes:
        lanes: uint64[2], two sums modulo 2^64.
        n_events: Number of events summed.
    """

    wire_name: ClassVar[str] = "input-digest"

    lanes: np.ndarray
    n_events: int

    @classmethod
    def from_traces(cls, traces: TraceBatch, key: ReleaseKey) -> InputDigest:
        """Digests the events of complete cases under the release's key."""
        cases = KeyedBlocks(key.derive(b"digest/case")).of_text(traces.case_ids)
        if traces.individuals is not None:
            cases ^= KeyedBlocks(key.derive(b"digest/individual")).of_text(traces.individuals)
        names = KeyedBlocks(key.derive(b"digest/activity")).of_text(traces.vocabulary.names)
        row = np.repeat(np.arange(traces.n_cases), traces.lengths)
        # The two keyed words of the case and the activity hide the numbers they are combined with.
        blocks = cases[row] ^ names[traces.activities]
        blocks[:, 0] ^= (np.arange(traces.n_events) - traces.offsets[row]).astype(np.uint64)
        blocks[:, 1] ^= traces.times.astype(np.uint64)
        for name, values in traces.attributes.items():
            blocks ^= _keyed_texts(
                KeyedBlocks(key.derive(b"digest/attribute/" + name.encode())), values
            )
        events = KeyedBlocks(key.derive(b"digest/event")).encrypt(blocks)
        return cls(events.sum(axis=0, dtype=np.uint64), traces.n_events)

    @classmethod
    def merge(cls, pieces: Sequence[InputDigest]) -> InputDigest:
        """Returns the digest of the union of the pieces' events."""
        lanes = np.zeros(2, np.uint64)
        for piece in pieces:
            lanes = lanes + piece.lanes
        return cls(lanes, sum(p.n_events for p in pieces))

    @property
    def weight(self) -> int:
        """Stored elements."""
        return 1

    @property
    def hex(self) -> str:
        """48 hex digits."""
        return f"{int(self.lanes[0]):016x}{int(self.lanes[1]):016x}{self.n_events:016x}"


def _keyed_texts(keyed: KeyedBlocks, values: pa.DictionaryArray) -> np.ndarray:
    """uint64[n, 2]: a word of each text, zeros for a missing one."""
    coded = values.cast(pa.string()).dictionary_encode()
    words = np.append(keyed.of_text(coded.dictionary), np.zeros((1, 2), np.uint64), axis=0)
    return words[np.asarray(pc.fill_null(coded.indices, len(coded.dictionary)))]


def config_digest(given: Mapping[str, Any]) -> str:
    """Returns 64 hex digits of a configuration, by which a finished release is known.

    A key at its default must not be among those given. So a key that a later version adds leaves
    the digests of all configurations without it as they are. The order of keys does not matter.

    Args:
        given: JSON values by key, of all that changes a released byte and is not at its default.
    """
    return text_digest(json.dumps(given, sort_keys=True, allow_nan=False))


def noise_digest(config: str, version: int, inner: Mapping[str, int] | None = None) -> str:
    """Returns 64 hex digits of what noise is drawn for, beside the input, for `Randomness`.

    It has the version of the method, in which its defaults and its steps up to the noise are as
    they are: another version draws other noise, and never the same for other counts.

    Args:
        config: `config_digest` of the configuration.
        version: Of the method, or of the product of a stream.
        inner: `inner_versions` of the method or product; none are as if they were not named.
    """
    return text_digest(config, version, *(f"{n} {of}" for n, of in sorted((inner or {}).items())))

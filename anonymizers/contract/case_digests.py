"""Keyed digests of a log: the cases that a release counts, the log that it reads, and a sketch.

None of them discloses anything without the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.noise.randomness import KeyedBlocks, ReleaseKey, text_digest
from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import OfArrays, equal_to_previous, ranges
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import INDIVIDUAL_ID, TraceBatch

# --- Which units a release counts, as keyed digests, which tell nobody anything without the key. --
# A window's release counts a case only if no other window did, so it is written down which cases
# each of them counted. A digest is 128 bits of a pseudorandom function of the case's id. Of a
# million cases two agree with chance 2^-89, and one would then be taken for counted though it is
# not, which loses a case and no privacy.
#
# Where individuals are the units, one case id may belong to several of them. A unit is then a
# pair: the individual's digest, by which the cases of one are found, and the digest of individual
# and case id. Nothing but the ids enters, as the events of a case may change until it is counted,
# and after.
#
# Whoever has the key can ask of any id whether it is in the set. So neither key nor set belongs
# into a release.


_OF_CASES, _OF_INDIVIDUALS = 2, 4


class CountedUnits(OfArrays, wire_name="counted-units"):
    """A set of cases; see the module. Pieces of a log merge, and may share cases.

    Attributes:
        digests: uint64[n, 2] of cases, or uint64[n, 4] of individuals and their cases; distinct
            rows in ascending order of their words, the first one first. An empty set has two
            columns, whatever its units are.
    """

    digests: np.ndarray

    @classmethod
    def of(cls, digests: np.ndarray) -> Self:
        """Returns the set of the rows of an array, in any order and any number of times."""
        if len(digests) == 0:
            return cls(np.zeros((0, _OF_CASES), np.uint64))
        ordered = digests[np.lexsort(digests.T[::-1])]
        is_new = np.append(True, np.any(ordered[1:] != ordered[:-1], axis=1))
        return cls(np.ascontiguousarray(ordered[is_new]))

    @classmethod
    def from_traces(cls, traces: TraceBatch, key: ReleaseKey, by_individual: bool) -> Self:
        """Returns the cases of a batch.

        Args:
            traces: The cases.
            key: That of the book, one for all windows.
            by_individual: Whether the units are individuals.

        Raises:
            UsageError: They are, and the cases name none.
        """
        return cls.of(_digests(traces, key, by_individual))

    @classmethod
    def merge(cls, pieces: Sequence[Self]) -> Self:
        """Returns the cases of all pieces.

        Raises:
            UsageError: Some are of cases and some of individuals.
        """
        filled = [piece.digests for piece in pieces if len(piece.digests)]
        if len({part.shape[1] for part in filled}) > 1:
            raise UsageError("sets of counted cases and of counted individuals do not merge")
        return cls.of(np.concatenate(filled)) if filled else cls.of(np.zeros((0, 2), np.uint64))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Returns a set as `to_bytes` wrote it.

        Raises:
            ValueError: The bytes are no such set.
        """
        n_columns = data[0] if data else 0
        if n_columns not in (_OF_CASES, _OF_INDIVIDUALS) or (len(data) - 1) % (8 * n_columns):
            raise ValueError("the bytes are no set of counted units")
        digests = np.frombuffer(data, "<u8", offset=1).astype(np.uint64).reshape(-1, n_columns)
        _, is_later = equal_to_previous([*digests.T])
        if not is_later.all() or (len(digests) == 0 and n_columns != _OF_CASES):
            raise ValueError("the bytes are no set of counted units")
        return cls(digests)

    def to_bytes(self) -> bytes:
        """Returns the number of columns in one byte, then the words, the least byte first."""
        return bytes([self.digests.shape[1]]) + self.digests.astype("<u8").tobytes()

    @property
    def is_of_individuals(self) -> bool:
        """Whether the units are individuals; an empty set is of cases."""
        return self.digests.shape[1] == _OF_INDIVIDUALS

    def kept(self, traces: TraceBatch, key: ReleaseKey) -> TraceBatch:
        """Returns those cases of a batch that are in the set, in their order.

        Args:
            traces: The cases.
            key: The key of the set.

        Raises:
            UsageError: The set is of individuals, and the cases name none.
        """
        if len(self.digests) == 0:
            return traces.take(np.zeros(0, np.int64))
        is_in = self.holds(_digests(traces, key, self.is_of_individuals))
        return traces if is_in.all() else traces.take(np.flatnonzero(is_in))

    def holds(self, digests: np.ndarray) -> np.ndarray:
        """Returns bool[n], whether rows of digests are in the set.

        Args:
            digests: uint64[n, 2] or uint64[n, 4], as in the set.

        Raises:
            UsageError: They are of cases and the set is of individuals, or the other way round.
        """
        is_held = np.zeros(len(digests), bool)
        if len(self.digests) == 0 or len(digests) == 0:
            return is_held
        if digests.shape[1] != self.digests.shape[1]:
            raise UsageError("sets of counted cases and of counted individuals do not compare")
        # The last two words identify a case in either kind of set; the others follow from it.
        rows, places = _equal_words(digests[:, -2], self._case_words)
        places = self._case_order[places]
        is_held[rows[np.all(digests[rows] == self.digests[places], axis=1)]] = True
        return is_held

    def cases_of(self, individuals: np.ndarray) -> np.ndarray:
        """Returns int64[n], how many cases of each individual the set has.

        Args:
            individuals: uint64[n, 2], their digests.
        """
        if len(self.digests) == 0 or len(individuals) == 0:
            return np.zeros(len(individuals), np.int64)
        rows, places = _equal_words(individuals[:, 0], self.digests[:, 0])
        is_same = individuals[rows, 1] == self.digests[places, 1]
        return np.bincount(rows[is_same], minlength=len(individuals)).astype(np.int64)

    def take(self, is_in: np.ndarray) -> Self:
        """Returns the cases at which bool[n] is true."""
        rows = self.digests[is_in]  # in order, since all rows are
        return type(self)(rows) if len(rows) else self.merge(())

    @cached_property
    def _case_order(self) -> np.ndarray:
        """int64[n], the order of the first words of the cases' own digests."""
        if self.is_of_individuals:
            return np.argsort(self.digests[:, -2], kind="stable")
        return np.arange(len(self.digests))

    @cached_property
    def _case_words(self) -> np.ndarray:
        """uint64[n], these words in ascending order."""
        return np.ascontiguousarray(self.digests[self._case_order, -2])


def _equal_words(words: np.ndarray, ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns all pairs of equal words: (rows of `words`, places in `ordered`, which ascends)."""
    ordered = np.ascontiguousarray(ordered)
    begin = np.searchsorted(ordered, words, "left")
    rows = np.flatnonzero(ordered[np.minimum(begin, len(ordered) - 1)] == words)
    begin = begin[rows]
    n_equal = np.searchsorted(ordered, words[rows], "right") - begin
    return np.repeat(rows, n_equal), ranges(begin, n_equal)


def _digests(traces: TraceBatch, key: ReleaseKey, by_individual: bool) -> np.ndarray:
    """Returns uint64[n_cases, 2 or 4], the digests of cases in their order."""
    cases = key.blocks(b"book/case").text_blocks(traces.case_ids)
    if not by_individual:
        return cases
    if traces.individuals is None:
        raise UsageError(
            f"individuals are the units, and the cases name none: map a column to {INDIVIDUAL_ID}"
        )
    whose = traces.individuals.dictionary_encode()
    name_blocks = key.blocks(b"book/individual").text_blocks(whose.dictionary)
    individuals = name_blocks[np.asarray(whose.indices)]
    # The words of the two kinds are independent, so two pairs agree with chance 2^-128.
    pairs = key.blocks(b"book/case of individual").encrypt(cases ^ individuals)
    return np.concatenate([individuals, pairs], axis=1)


# --- Which log went into a release, as a number that reveals nothing about it. --------------------
# The digest is a sum of keyed hashes, one an event, over (case, individual if the log declares
# any, place in the case, activity, time, declared attributes). So it depends on the events and
# not on files, shards or their order, and pieces add up.
#
# The digests by which releases are told apart: that of the configuration and that of the noise.
#
# Which cases a log has, in a few kilobytes that tell them to nobody without a key.
#
# The sketch of a log is the smallest of the keyed digests of its cases ("k minimum values":
# Bar-Yossef et al., Counting distinct elements in a data stream, RANDOM 2002; for what sets
# share, Beyer et al., On synopses for distinct-value estimation under multiset operations, SIGMOD
# 2007). A case's digest is of its id, the time of its first event and its first activity, so that
# two logs whose cases are merely numbered alike share next to none, and a copy in another file,
# order or format shares all. Of events at the same first time any may come first; the one whose
# keyed name is the smallest counts. A first time that is a whole half-hour, as dates are in every
# zone, tells little: where cases are numbered as they arrive, those of two places have it in
# common. Then the number of events and the time of the last one count, too.
#
# Whoever has the key can ask of any case that he can describe whether it is in the sketch, and
# how many cases there were. So neither key nor sketch belongs into a release.


# The most digests that are kept: 8 KiB.
MAX_DIGESTS = 1024
# With fewer digests to compare, the share of common ones says too little.
_MIN_COMPARED = 20
_HALF_HOUR_US = 1_800_000_000
_LARGEST = np.uint64(2**64 - 1)


class CaseSketch(OfArrays, wire_name="case-sketch"):
    """The sketch of a log; pieces of a log that have different cases merge.

    Attributes:
        digests: uint64[n], ascending and distinct; with fewer than MAX_DIGESTS those of all cases.
    """

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
        names = key.blocks(b"sketch/activity").text_blocks(traces.vocabulary.names)[:, 0]
        is_at_start = traces.times == np.repeat(start, traces.lengths[has_events])
        at_start = np.where(is_at_start, names[traces.activities], _LARGEST)
        blocks = key.blocks(b"sketch/case").text_blocks(traces.case_ids)[has_events]
        if len(begin):
            blocks[:, 0] ^= np.minimum.reduceat(at_start, begin)
        blocks[:, 1] ^= start.astype(np.uint64)
        is_coarse = start % _HALF_HOUR_US == 0
        more = np.stack([end - begin, last], axis=1).astype(np.uint64)[is_coarse]
        blocks[is_coarse] ^= key.blocks(b"sketch/rest").encrypt(more)
        digests = key.blocks(b"sketch").encrypt(blocks)[:, 0]
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


class InputDigest(Columnar, wire_name="input-digest"):
    """The sum over some events.

    Attributes:
        lanes: uint64[2], two sums modulo 2^64.
        n_events: Number of events summed.
    """

    lanes: np.ndarray
    n_events: int

    @classmethod
    def from_traces(cls, traces: TraceBatch, key: ReleaseKey) -> InputDigest:
        """Digests the events of complete cases under the release's key."""
        cases = key.blocks(b"digest/case").text_blocks(traces.case_ids)
        if traces.individuals is not None:
            cases ^= key.blocks(b"digest/individual").text_blocks(traces.individuals)
        names = key.blocks(b"digest/activity").text_blocks(traces.vocabulary.names)
        row = np.repeat(np.arange(traces.n_cases), traces.lengths)
        # The two keyed words of the case and the activity hide the numbers they are combined with.
        blocks = cases[row] ^ names[traces.activities]
        blocks[:, 0] ^= (np.arange(traces.n_events) - traces.offsets[row]).astype(np.uint64)
        blocks[:, 1] ^= traces.times.astype(np.uint64)
        for name, values in traces.attributes.items():
            blocks ^= _keyed_texts(key.blocks(b"digest/attribute/" + name.encode()), values)
        events = key.blocks(b"digest/event").encrypt(blocks)
        return cls(events.sum(axis=0, dtype=np.uint64), traces.n_events)

    @classmethod
    def merge(cls, pieces: Sequence[InputDigest]) -> InputDigest:
        """Returns the digest of the union of the pieces' events."""
        lanes = np.zeros(2, np.uint64)
        for piece in pieces:
            lanes = lanes + piece.lanes
        return cls(lanes, sum(p.n_events for p in pieces))

    @property
    def hex(self) -> str:
        """48 hex digits."""
        return f"{int(self.lanes[0]):016x}{int(self.lanes[1]):016x}{self.n_events:016x}"


def _keyed_texts(keyed: KeyedBlocks, values: pa.DictionaryArray) -> np.ndarray:
    """uint64[n, 2]: a word of each text, zeros for a missing one."""
    coded = values.cast(pa.string()).dictionary_encode()
    words = np.append(keyed.text_blocks(coded.dictionary), np.zeros((1, 2), np.uint64), axis=0)
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

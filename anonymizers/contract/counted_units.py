"""Which units a release counts, as keyed digests, which tell nobody anything without the key.

A window's release counts a case only if no other window did, so it is written down which cases each
of them counted. A digest is 128 bits of a pseudorandom function of the case's id. Of a million
cases two agree with chance 2^-89, and one would then be taken for counted though it is not, which
loses a case and no privacy.

Where individuals are the units, one case id may belong to several of them. A unit is then a pair:
the individual's digest, by which the cases of one are found, and the digest of individual and case
id. Nothing but the ids enters, as the events of a case may change until it is counted, and after.

Whoever has the key can ask of any id whether it is in the set. So neither key nor set belongs into
a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from tracecloak.anonymizers.noise.randomness import KeyedBlocks
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.schemas.arrays.merging import OfArrays, ranges
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import INDIVIDUAL_ID, TraceBatch

_OF_CASES, _OF_INDIVIDUALS = 2, 4


@dataclass(frozen=True, eq=False)
class CountedUnits(OfArrays):
    """A set of cases; see the module. Pieces of a log merge, and may share cases.

    Attributes:
        digests: uint64[n, 2] of cases, or uint64[n, 4] of individuals and their cases; distinct
            rows in ascending order of their words, the first one first. An empty set has two
            columns, whatever its units are.
    """

    wire_name: ClassVar[str] = "counted-units"

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
        counted = cls(digests)
        if not counted._is_in_order or (len(digests) == 0 and n_columns != _OF_CASES):
            raise ValueError("the bytes are no set of counted units")
        return counted

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
        if self.weight == 0:
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
        if self.weight == 0 or len(digests) == 0:
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
        if self.weight == 0 or len(individuals) == 0:
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
        return np.arange(self.weight)

    @cached_property
    def _case_words(self) -> np.ndarray:
        """uint64[n], these words in ascending order."""
        return np.ascontiguousarray(self.digests[self._case_order, -2])

    @property
    def _is_in_order(self) -> bool:
        """Whether the rows ascend and are distinct."""
        is_below = np.zeros(max(self.weight - 1, 0), bool)
        is_same = ~is_below
        for column in self.digests.T:
            is_below |= is_same & (column[:-1] < column[1:])
            is_same &= column[:-1] == column[1:]
        return bool(is_below.all())


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
    cases = KeyedBlocks(key.derive(b"book/case")).of_text(traces.case_ids)
    if not by_individual:
        return cases
    if traces.individuals is None:
        raise UsageError(
            f"individuals are the units, and the cases name none: map a column to {INDIVIDUAL_ID}"
        )
    whose = traces.individuals.dictionary_encode()
    of_names = KeyedBlocks(key.derive(b"book/individual")).of_text(whose.dictionary)
    individuals = of_names[np.asarray(whose.indices)]
    # The words of the two kinds are independent, so two pairs agree with chance 2^-128.
    pairs = KeyedBlocks(key.derive(b"book/case of individual")).encrypt(cases ^ individuals)
    return np.concatenate([individuals, pairs], axis=1)

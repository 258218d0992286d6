"""Which knowledge violates TLKC privacy, and which subtraces are worth keeping.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, Definitions
14 to 17. All of it is mined on distinct cases (`background_knowledge`), by levels of the
patterns' length: the bound on confidence is not monotonic, so every length is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tracecloak.schemas.events.attributes import Attribute
from tracecloak.schemas.statistics.background_knowledge import (
    NO_ELEMENT,
    TIME_BITS,
    CaseTable,
    Kind,
    codes_of_words,
    distinct,
)
from tracecloak.schemas.statistics.subsequences import Demand, Level, Rows, grow

# Boxes of a number by the quartiles of all cases that have one.
LOW, MIDDLE, HIGH = 1, 2, 3

# Frequent subtraces are grown for some ten seconds and within a gigabyte, whatever the log: each
# event counts once for every subtrace of every distinct case that it could continue. Where few
# cases are distinct it is the subtraces themselves that are too many.
MAX_POSITIONS = 100_000_000
MAX_FREQUENT = 500_000


@dataclass(frozen=True, eq=False)
class Patterns:
    """Patterns over the elements of a log.

    Attributes:
        elements: int64[n_elements], words, ascending. Of a multiset, equal elements are numbered:
            one that is in a pattern three times is in it as the numbers 0, 1 and 2.
        of_length: By length, from 1: int64[n, length], positions in `elements`.
    """

    elements: np.ndarray
    of_length: tuple[np.ndarray, ...]

    @property
    def n(self) -> int:
        """Number of patterns."""
        return sum(len(patterns) for patterns in self.of_length)

    def words(self) -> list[tuple[int, ...]]:
        """Returns the patterns as words, the short ones first."""
        return [
            tuple(pattern)
            for patterns in self.of_length
            for pattern in self.elements[patterns].tolist()
        ]


def without_numbers(patterns: Patterns) -> Patterns:
    """Returns patterns of multisets whose elements are not numbered: the second is as the first.

    An element that a pattern has twice is in it twice.
    """
    codes, place = np.unique(codes_of_words(patterns.elements), return_inverse=True)
    of_length = tuple(place[matrix] for matrix in patterns.of_length)
    return Patterns(codes << TIME_BITS, of_length)


def labels_of(cases: CaseTable, attributes: Sequence[Attribute]) -> np.ndarray:
    """Returns int64[n, m], the sensitive values that confidence is counted by; 0 is none.

    A declared value is its cell. A number is in the box `low` below the lower quartile of the
    cases, `high` above the upper one, and `middle` in between (section 6.1 of the paper).
    """
    labels = np.array(cases.sensitive, np.int64)
    for k, attribute in enumerate(attributes):
        if attribute.declaration.values is None:
            labels[:, k] = _boxes(labels[:, k], cases.counts)
    return labels


def _boxes(cells: np.ndarray, counts: np.ndarray) -> np.ndarray:
    has_value = cells > 0
    if not has_value.any():
        return np.zeros(len(cells), np.int64)
    totals = np.bincount(cells[has_value], counts[has_value]).astype(np.int64)
    ends = np.cumsum(totals)
    lower, upper = _quartile(ends, 1), _quartile(ends, 3)
    boxes = np.full(len(cells), MIDDLE, np.int64)
    boxes[cells < lower] = LOW
    boxes[cells > upper] = HIGH
    boxes[~has_value] = 0
    return boxes


def _quartile(ends: np.ndarray, quarter: int) -> Fraction:
    """The quartile of cells by linear interpolation between the two nearest cases."""
    place, rest = divmod((int(ends[-1]) - 1) * quarter, 4)
    below, above = np.searchsorted(ends, [place, min(place + 1, int(ends[-1]) - 1)], side="right")
    return int(below) + Fraction(rest, 4) * (int(above) - int(below))


def minimal_violations(
    cases: CaseTable, labels: np.ndarray, kind: Kind, demand: Demand, length: int
) -> Patterns:
    """Returns the minimal violating traces (Definition 16).

    They match fewer cases than demanded, or a sensitive value is too frequent among those, and
    none of their proper subtraces violates. The caller checks whether knowing nothing violates.

    Args:
        cases: The log.
        labels: int64[n, m], see `labels_of`.
        kind: Of the knowledge.
        demand: K and C.
        length: L.
    """
    labelled = CaseTable(cases.offsets, cases.words, cases.counts, labels)
    rows, elements = labelled.canonical(kind, length)
    levels = grow(_rows(rows, elements), demand, length)
    patterns = Patterns(elements, tuple(level.refused for level in levels))
    return _with_numbers(patterns, cases.words) if kind == "multiset" else patterns


def maximal_frequent(
    cases: CaseTable, kind: Kind, theta: Fraction, max_positions: int = MAX_POSITIONS
) -> Patterns:
    """Returns the maximal frequent traces (Definition 17).

    The subsequences of elements that at least a share `theta` of the cases have, and of which no
    longer one is as frequent. Where there are so many frequent ones that a level of length cannot
    be looked at within the bounds, those that are shorter by one count as maximal: so this ends on
    every log.

    Args:
        cases: The log.
        kind: Of the knowledge, which says what the elements are.
        theta: The share.
        max_positions: See `subsequences.grow`.
    """
    words = codes_of_words(cases.words) << TIME_BITS if kind == "multiset" else cases.words
    unlabelled = CaseTable(
        cases.offsets, words, cases.counts, np.zeros((len(cases.counts), 0), np.int64)
    )
    rows, elements = unlabelled.canonical("sequence", 1)
    min_cases = -(-cases.n_cases * theta.numerator // theta.denominator)
    maximal: list[np.ndarray] = []
    before: Level | None = None
    n_frequent = 0
    for level in grow(_rows(rows, elements), Demand(min_cases), None, max_positions):
        if before is not None:
            is_maximal = np.ones(len(before.taken), bool)
            is_maximal[level.shorter] = False
            maximal.append(before.taken[is_maximal])
        before = level
        n_frequent += len(level.taken)
        if n_frequent > MAX_FREQUENT:
            break
    if before is not None and len(before.taken):
        maximal.append(before.taken)
    patterns = Patterns(elements, tuple(maximal))
    return _with_numbers(patterns, cases.words) if kind == "multiset" else patterns


def _with_numbers(unnumbered: Patterns, words: np.ndarray) -> Patterns:
    """Numbers equal elements within each pattern, so that it has no element twice."""
    elements = distinct(words[codes_of_words(words) != NO_ELEMENT])
    of_length = []
    for patterns in unnumbered.of_length:
        repeats = np.zeros(patterns.shape, np.int64)
        for i in range(1, patterns.shape[1]):
            repeats[:, i] = (patterns[:, :i] == patterns[:, i : i + 1]).sum(axis=1)
        of_length.append(np.searchsorted(elements, unnumbered.elements[patterns] + repeats))
    return Patterns(elements, tuple(of_length))


def _rows(cases: CaseTable, elements: np.ndarray) -> Rows:
    return Rows(cases.offsets, cases.words, len(elements), cases.counts, cases.sensitive)


def cases_with(cases: CaseTable, elements: np.ndarray) -> np.ndarray:
    """Returns int64[n_elements], how many cases have each element at least once."""
    row = np.repeat(np.arange(len(cases.counts)), np.diff(cases.offsets))
    place = np.searchsorted(elements, cases.words)
    place = np.minimum(place, max(len(elements) - 1, 0))
    known = elements[place] == cases.words if len(elements) else np.zeros(len(row), bool)
    pairs = distinct(row[known] * len(elements) + place[known])
    row, place = pairs // max(len(elements), 1), pairs % max(len(elements), 1)
    return np.bincount(place, cases.counts[row], len(elements)).astype(np.int64)

"""Which elements to suppress so that no minimal violating trace is left: two greedy choices.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining. Algorithm 1
weighs the minimal violating traces (MVT) that an element's suppression removes with the maximal
frequent traces (MFT) that it costs (Definition 18). Algorithm 2 weighs the share of those MVT with
the share of the cases that have the element (Definitions 19 and 20).

Where scores tie, the paper draws one, and what was chosen stays chosen: so it is with `draws`.
Without, fewer events go. An element that is a violating trace by itself has to go whatever it
scores, and is in no other MVT: all of these go first. Where scores tie it is the element that the
fewest cases have, of those the earliest in its case, and of those the first by its code. In the end
an element is given back if every MVT that has it has another one that goes.

Which knowledge violates TLKC privacy, and which subtraces are worth keeping.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, Definitions
14 to 17. All of it is mined on distinct cases (`background_knowledge`), by levels of the
patterns' length: the bound on confidence is not monotonic, so every length is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.tlkc.k_anonymous_variants import Suppressing
from tracecloak.anonymizers.tlkc.promise import TlkcParams
from tracecloak.schemas.arrays.merging import distinct_counts, offsets_of, ranges
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.statistics.background_knowledge import (
    NO_ELEMENT,
    TIME_BITS,
    CaseTable,
    Kind,
    KnownCases,
    Level,
    PatternCriteria,
    codes_of_words,
    grow,
    suppress,
    times_of_words,
)

# --- Which elements to suppress so that no minimal violating trace is left: two greedy choices. ---


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
    cases: CaseTable, labels: np.ndarray, kind: Kind, demand: PatternCriteria, length: int
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
    levels = grow(rows, len(elements), demand, length)
    patterns = Patterns(elements, tuple(level.refused for level in levels))
    return _with_numbers(patterns, cases.words) if kind == "multiset" else patterns


def maximal_frequent(cases: CaseTable, kind: Kind, theta: Fraction) -> Patterns:
    """Returns the maximal frequent traces (Definition 17).

    The subsequences of elements that at least a share `theta` of the cases have, and of which no
    longer one is as frequent. Where there are so many frequent ones that a level of length cannot
    be looked at within the bounds, those that are shorter by one count as maximal: so this ends on
    every log.

    Args:
        cases: The log.
        kind: Of the knowledge, which says what the elements are.
        theta: The share.
    """
    words = codes_of_words(cases.words) << TIME_BITS if kind == "multiset" else cases.words
    unlabelled = CaseTable(
        cases.offsets, words, cases.counts, np.zeros((len(cases.counts), 0), np.int64)
    )
    rows, elements = unlabelled.canonical("sequence", 1)
    demand = PatternCriteria(-(-cases.n_cases * theta.numerator // theta.denominator))
    maximal: list[np.ndarray] = []
    before: Level | None = None
    n_frequent = 0
    for level in grow(rows, len(elements), demand, None, MAX_POSITIONS):
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
    elements, _ = distinct_counts(words[codes_of_words(words) != NO_ELEMENT])
    of_length = []
    for patterns in unnumbered.of_length:
        repeats = np.zeros(patterns.shape, np.int64)
        for i in range(1, patterns.shape[1]):
            repeats[:, i] = (patterns[:, :i] == patterns[:, i : i + 1]).sum(axis=1)
        of_length.append(np.searchsorted(elements, unnumbered.elements[patterns] + repeats))
    return Patterns(elements, tuple(of_length))


def cases_with(cases: CaseTable, elements: np.ndarray) -> np.ndarray:
    """Returns int64[n_elements], how many cases have each element at least once."""
    row = np.repeat(np.arange(len(cases.counts)), np.diff(cases.offsets))
    place = np.searchsorted(elements, cases.words)
    place = np.minimum(place, max(len(elements) - 1, 0))
    known = elements[place] == cases.words if len(elements) else np.zeros(len(row), bool)
    pairs, _ = distinct_counts(row[known] * len(elements) + place[known])
    row, place = pairs // max(len(elements), 1), pairs % max(len(elements), 1)
    return np.bincount(place, cases.counts[row], len(elements)).astype(np.int64)


class _Alive:
    """The patterns that no suppressed element has, and how many of them have each element.

    Attributes:
        n: How many there are.
        with_element: int64[n_elements], how many of them have each.
    """

    def __init__(self, patterns: Patterns) -> None:
        n_elements = max(len(patterns.elements), 1)
        pairs, first = [np.zeros(0, np.int64)], 0
        for matrix in patterns.of_length:
            number = np.repeat(np.arange(first, first + len(matrix)), matrix.shape[1])
            pairs.append(number * n_elements + matrix.reshape(-1))
            first += len(matrix)
        # Each pair once: the elements of one pattern after the other, and the patterns of elements.
        pattern, element = np.divmod(distinct_counts(np.concatenate(pairs))[0], n_elements)
        self._elements, self._patterns = element, pattern[np.argsort(element, kind="stable")]
        self._of_pattern = offsets_of(np.bincount(pattern, minlength=first))
        self._of_element = offsets_of(np.bincount(element, minlength=len(patterns.elements)))
        self._is_alive = np.ones(first, bool)
        self.n, self.with_element = first, np.diff(self._of_element)

    def drop(self, elements: np.ndarray) -> None:
        """Drops the patterns with one of some elements."""
        first = self._of_element[elements]
        mine = self._patterns[ranges(first, self._of_element[elements + 1] - first)]
        dead = mine[self._is_alive[mine]]
        if len(elements) > 1:
            dead = np.unique(dead)
        self._is_alive[dead] = False
        self.n -= len(dead)
        first = self._of_pattern[dead]
        lost = self._elements[ranges(first, self._of_pattern[dead + 1] - first)]
        self.with_element = self.with_element - np.bincount(lost, minlength=len(self.with_element))

    def needed(self, chosen: np.ndarray, cases_with: np.ndarray) -> np.ndarray:
        """Returns the chosen elements, without those whose patterns all have another chosen one.

        Those that the most cases have are given back first.
        """
        is_chosen = np.zeros(len(cases_with), bool)
        is_chosen[chosen] = True
        row = np.repeat(np.arange(len(self._is_alive)), np.diff(self._of_pattern))
        n_chosen = np.bincount(row, is_chosen[self._elements]).astype(np.int64)
        for element in chosen[np.argsort(-cases_with[chosen], kind="stable")]:
            mine = self._patterns[slice(*self._of_element[element : element + 2])]
            if (n_chosen[mine] > 1).all():
                n_chosen[mine] -= 1
                is_chosen[element] = False
        return chosen[is_chosen[chosen]]


# --- TLKC privacy: whatever little is known of a case matches many, and tells no sensitive value. -
# Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section
# 5.2. Elements of events are suppressed in the whole log until every set, multiset, sequence or
# timed sequence of at most L elements that occurs matches at least K cases, in which no sensitive
# value has a share above C. No noise is drawn: this is no differential privacy.
#
# Fixed here, where the paper is silent or its example differs: knowing nothing counts as
# knowledge of length 0, so C holds for the log as a whole too. Times are cut to T and count from
# the first event left, for every kind of knowledge; where that makes new violations, the log is
# mined and suppressed again until it has none. A case of which nothing is left is not released. A
# missing value is no sensitive value; such a case counts among those that match. A multiset of at
# most L elements counts repetitions, as the cardinality of a multiset does, and where a
# repetition violates, the second and later ones can go while the first stays, which costs less
# than all of them. With the profile `paper` all go, as its algorithms have it; see
# `anonymizers.tlkc.method` for what else differs there.


class SuppressionDecision(contract.Decision, wire_name="tlkc-suppression"):
    """Which elements go, one pass over the log after the other.

    Attributes:
        offsets: int64[n_passes+1].
        words: int64[n], the elements of each pass, as they are after the passes before it.
    """

    offsets: np.ndarray
    words: np.ndarray

    @property
    def passes(self) -> list[np.ndarray]:
        """The elements by pass."""
        return np.split(self.words, self.offsets[1:-1])


class Tlkc(Suppressing, name="tlkc"):
    """The method; see the module."""

    Params: ClassVar[type[TlkcParams]] = TlkcParams

    def decided(
        self, known: KnownCases, params: TlkcParams, randomness: Randomness
    ) -> SuppressionDecision:
        """Returns the elements that go, pass by pass, until the log satisfies TLKC privacy.

        Raises:
            GuaranteeError: The log as a whole does not meet k or confidence, or nothing would be
                left of it.
        """
        cases, passes = known.decoded(), [np.zeros(0, np.int64)]
        demand, kind = PatternCriteria(params.k, params.exact_confidence), params.knowledge_kind
        while True:
            is_suppressed = len(passes) > 1
            _require_cases(cases, params.k, is_suppressed)
            labels = labels_of(cases, params.sensitive_attributes)
            _require_confidence(cases, labels, params, is_suppressed)
            violating = minimal_violations(cases, labels, kind, demand, params.length)
            if violating.n == 0:
                offsets = np.cumsum([len(words) for words in passes])
                return SuppressionDecision(offsets, np.concatenate(passes))
            suppressed = _chosen(cases, violating, params, randomness, len(passes) - 1)
            if kind == "multiset":
                suppressed = _with_later_ones(suppressed, violating.elements)
            passes.append(suppressed)
            cases = cases.without(suppressed)

    def is_kept(
        self, decided: SuppressionDecision, offsets: np.ndarray, words: np.ndarray
    ) -> np.ndarray:
        """Returns bool[n_events], which events of a batch stay."""
        is_left, left = np.zeros(len(words), bool), np.arange(len(words))
        for suppressed in decided.passes:
            is_kept, offsets, words = suppress(offsets, words, suppressed)
            left = left[is_kept]
        is_left[left] = True
        return is_left


def _chosen(
    cases: CaseTable,
    violating: Patterns,
    params: TlkcParams,
    randomness: Randomness,
    n_before: int,
) -> np.ndarray:
    """Returns int64[k], the words to suppress, in the order of the choice.

    With the profile `paper` equal scores are decided by random numbers, and nothing is given back.
    Otherwise as few events go as can easily be.

    Args:
        cases: What is left of the log.
        violating: The minimal violating traces.
        params: The method's.
        randomness: The release's.
        n_before: Passes before this one.
    """
    kind, as_printed = params.knowledge_kind, params.profile == "paper"
    has_numbers = not as_printed or kind != "multiset"
    violating = violating if has_numbers else without_numbers(violating)
    words, alive = violating.elements, [_Alive(violating)]
    cases_of = cases_with(cases, words)
    if params.algorithm == "frequent_traces":
        frequent = maximal_frequent(cases, kind, Fraction(str(params.theta)))
        alive.append(_Alive(frequent if has_numbers else without_numbers(frequent)))
    chosen = [np.zeros(0, np.int64)]

    def choose(elements: np.ndarray) -> None:
        for patterns in alive:
            patterns.drop(elements)
        chosen.append(elements)

    # Elements are looked at in the order that ties are broken by.
    if as_printed:
        draws = randomness.words("tlkc/ties", cell_numbers(words.astype(np.uint64)), n_before)
        order = np.argsort(draws[:, 0], kind="stable")
    else:
        order = np.lexsort((codes_of_words(words), times_of_words(words), cases_of))
        choose(order[np.isin(order, violating.of_length[0])])
    loss = (1 - params.alpha) * (1 - cases_of / cases.n_cases)
    while alive[0].n:
        gain = alive[0].with_element
        if params.algorithm == "n_score":
            scores = params.alpha * gain / alive[0].n + loss  # Definition 20
        else:
            scores = gain / (alive[1].with_element + 1)  # Definition 18
        choose(order[[np.argmax(np.where(gain > 0, scores, -1.0)[order])]])
    suppressed = np.concatenate(chosen)
    return words[suppressed if as_printed else alive[0].needed(suppressed, cases_of)]


def _with_later_ones(suppressed: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Elements of a multiset, and their equals with larger numbers."""
    codes, place = np.unique(codes_of_words(elements), return_inverse=True)
    smallest = np.full(len(codes), np.iinfo(np.int64).max)
    mine = np.searchsorted(codes, codes_of_words(suppressed))
    np.minimum.at(smallest, mine, times_of_words(suppressed))
    return elements[times_of_words(elements) >= smallest[place]]


def _require_cases(cases: CaseTable, k: int, is_suppressed: bool) -> None:
    """Checks that k cases match the knowledge of nothing, which every case matches."""
    if cases.n_cases == 0:
        raise GuaranteeError(
            "no case is left: every event takes part in a violation; lower k or length, raise "
            "confidence, or take a coarser time_unit"
            if is_suppressed
            else "the log has no events, so there is nothing to anonymise"
        )
    if cases.n_cases < k:
        left = "that suppression leaves " if is_suppressed else ""
        raise GuaranteeError(f"k={k} is more than the cases {left}in the log; lower it")


def _require_confidence(
    cases: CaseTable, labels: np.ndarray, params: TlkcParams, is_suppressed: bool
) -> None:
    """Checks the confidence in every sensitive value among all cases."""
    for k, attribute in enumerate(params.sensitive_attributes):
        totals = np.bincount(labels[:, k], cases.counts)
        totals[0] = 0
        if int(totals.max()) > params.exact_confidence * cases.n_cases:
            among = (
                "among the cases that suppression leaves"
                if is_suppressed
                else "even among all cases of the log"
            )
            raise GuaranteeError(
                f"confidence={params.confidence:g} cannot be met: {among}, the share of a "
                f"value of {attribute.name!r} is above it; raise confidence, or leave that "
                "out of sensitive"
            )

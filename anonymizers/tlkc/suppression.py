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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracecloak.anonymizers.tlkc.violations import Patterns
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.statistics.background_knowledge import (
    codes_of_words,
    distinct,
    times_of_words,
)


@dataclass(frozen=True, eq=False)
class _Members:
    """Which elements each pattern has, and which patterns have each element; each pair once.

    `of_pattern`: elements in CSR by `pattern_offsets`; `of_element`: patterns by `element_offsets`.
    """

    pattern_offsets: np.ndarray
    of_pattern: np.ndarray
    element_offsets: np.ndarray
    of_element: np.ndarray

    @classmethod
    def of(cls, patterns: Patterns) -> _Members:
        n_elements = max(len(patterns.elements), 1)
        pairs = [np.zeros(0, np.int64)]
        first = 0
        for matrix in patterns.of_length:
            number = np.repeat(np.arange(first, first + len(matrix)), matrix.shape[1])
            pairs.append(number * n_elements + matrix.reshape(-1))
            first += len(matrix)
        pattern, element = np.divmod(distinct(np.concatenate(pairs)), n_elements)
        by_element = np.argsort(element, kind="stable")
        return cls(
            offsets_of(np.bincount(pattern, minlength=first)),
            element,
            offsets_of(np.bincount(element, minlength=len(patterns.elements))),
            pattern[by_element],
        )

    @property
    def n(self) -> int:
        return len(self.pattern_offsets) - 1


class _Alive:
    """The patterns that no suppressed element has, and how many of them have each element."""

    def __init__(self, members: _Members) -> None:
        self._members = members
        self._is_alive = np.ones(members.n, bool)
        self.n = members.n
        self.with_element = np.diff(members.element_offsets)

    def drop(self, elements: np.ndarray) -> None:
        """Drops the patterns with one of some elements."""
        m = self._members
        first = m.element_offsets[elements]
        mine = m.of_element[ranges(first, m.element_offsets[elements + 1] - first)]
        dead = mine[self._is_alive[mine]]
        if len(elements) > 1:
            dead = np.unique(dead)
        self._is_alive[dead] = False
        self.n -= len(dead)
        first = m.pattern_offsets[dead]
        lost = m.of_pattern[ranges(first, m.pattern_offsets[dead + 1] - first)]
        self.with_element = self.with_element - np.bincount(lost, minlength=len(self.with_element))


def scores(violating: Patterns, frequent: Patterns) -> np.ndarray:
    """Returns float64[n_elements], PG / (UL + 1) of Definition 18.

    Args:
        violating: The minimal violating traces.
        frequent: The maximal frequent traces, over the same elements.
    """
    gain = np.diff(_Members.of(violating).element_offsets)
    loss = np.diff(_Members.of(frequent).element_offsets)
    return gain / (loss + 1)


def suppressed_by_frequent_traces(
    violating: Patterns,
    frequent: Patterns,
    cases_with: np.ndarray,
    draws: np.ndarray | None = None,
) -> np.ndarray:
    """Returns int64[k], the words to suppress by Algorithm 1, in the order of the choice.

    Args:
        violating: The minimal violating traces.
        frequent: The maximal frequent traces, over the same elements.
        cases_with: int64[n_elements], cases that have each element of `violating`.
        draws: uint64[n_elements], random numbers: of equal scores the smallest is chosen, and
            nothing is given back, as in the paper. None: as few events go as can easily be.
    """
    alive = _Alive(_Members.of(frequent))

    def score(gain: np.ndarray, n_alive: int) -> np.ndarray:
        return gain / (alive.with_element + 1)

    return _greedy(violating, cases_with, score, alive.drop, draws)


def suppressed_by_n_scores(
    violating: Patterns,
    cases_with: np.ndarray,
    n_cases: int,
    alpha: float,
    draws: np.ndarray | None = None,
) -> np.ndarray:
    """Returns int64[k], the words to suppress by Algorithm 2, in the order of the choice.

    Args:
        violating: The minimal violating traces.
        cases_with: int64[n_elements], cases that have each element of `violating`.
        n_cases: Number of cases.
        alpha: Weight of the gain; that of the loss is 1 - alpha.
        draws: As for Algorithm 1.
    """
    share_with = cases_with / n_cases

    def score(gain: np.ndarray, n_alive: int) -> np.ndarray:
        return alpha * gain / n_alive + (1 - alpha) * (1 - share_with)  # Definition 20

    return _greedy(violating, cases_with, score, lambda elements: None, draws)


def _greedy(
    violating: Patterns,
    cases_with: np.ndarray,
    score: Callable[[np.ndarray, int], np.ndarray],
    also_drop: Callable[[np.ndarray], None],
    draws: np.ndarray | None,
) -> np.ndarray:
    words = violating.elements
    # Elements are looked at in the order that ties are broken by.
    if draws is None:
        order = np.lexsort((codes_of_words(words), times_of_words(words), cases_with))
    else:
        order = np.argsort(draws, kind="stable")
    members = _Members.of(violating)
    alive = _Alive(members)
    chosen = [np.zeros(0, np.int64)]

    def choose(elements: np.ndarray) -> None:
        alive.drop(elements)
        also_drop(elements)
        chosen.append(elements)

    if violating.n and draws is None:
        alone = np.zeros(len(words), bool)
        alone[violating.of_length[0][:, 0]] = True
        choose(order[alone[order]])
    while alive.n:
        scores = np.where(alive.with_element > 0, score(alive.with_element, alive.n), -1.0)
        choose(order[[np.argmax(scores[order])]])
    suppressed = np.concatenate(chosen)
    return words[suppressed if draws is not None else _needed(members, suppressed, cases_with)]


def _needed(members: _Members, chosen: np.ndarray, cases_with: np.ndarray) -> np.ndarray:
    """The chosen elements, without those whose patterns all have another chosen one.

    Those that the most cases have are given back first.
    """
    is_chosen = np.zeros(len(cases_with), bool)
    is_chosen[chosen] = True
    row = np.repeat(np.arange(members.n), np.diff(members.pattern_offsets))
    n_chosen = np.bincount(row, is_chosen[members.of_pattern], members.n).astype(np.int64)
    for element in chosen[np.argsort(-cases_with[chosen], kind="stable")]:
        mine = members.of_element[slice(*members.element_offsets[element : element + 2])]
        if (n_chosen[mine] > 1).all():
            n_chosen[mine] -= 1
            is_chosen[element] = False
    return chosen[is_chosen[chosen]]

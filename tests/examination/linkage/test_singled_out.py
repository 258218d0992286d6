"""How many cases their events single out: against a search case by case, and where it is exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.examination.comparison.original import N_KNOWN, SingledOut
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.statistics.background_knowledge import TIME_BITS, CaseTable

# A case is codes of activities with the hours since it began.
Case = tuple[tuple[int, int], ...]
CASES = st.lists(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=5).map(tuple),
    min_size=1,
    max_size=6,
)


def table(cases: list[Case]) -> CaseTable:
    words = [(code << TIME_BITS) + hour for case in cases for code, hour in case]
    return CaseTable(
        offsets_of(np.array([len(case) for case in cases])),
        np.array(words, np.int64),
        np.ones(len(cases), np.int64),
        np.zeros((len(cases), 0), np.int64),
    )


def has(case: Case, piece: tuple[tuple[int, int], ...]) -> bool:
    events = iter(case)
    return all(one in events for one in piece)


def naive(original: list[Case], released: list[Case]) -> float:
    """The mean over cases, and over all ways to know so many of their events."""
    of_cases = []
    for case in original:
        pieces = list(itertools.combinations(case, min(N_KNOWN, len(case))))
        alone = [sum(has(one, piece) for one in released) == 1 for piece in pieces]
        of_cases.append(sum(alone) / len(alone))
    return sum(of_cases) / len(of_cases)


@given(CASES, CASES)
def test_the_share_is_that_of_a_search_case_by_case(
    original: list[Case], released: list[Case]
) -> None:
    known = SingledOut(table(original), "relative")
    assert known.share(table(released)) == pytest.approx(naive(original, released))
    assert known.share(table(original)) == pytest.approx(naive(original, original))


def test_ten_of_many_events_are_known_and_the_same_ten_each_time() -> None:
    """Two cases differ in the last of 40 events: who knows ten of them knows it in a quarter."""
    beginning = [(1 + i % 3, i) for i in range(39)]
    first, second = ((*beginning, (code, 40)) for code in (1, 2))
    known, again = (SingledOut(table([first, second]), "relative") for _ in range(2))
    share = known.share(table([first, second]))
    assert share == pytest.approx(0.25, abs=0.05)
    assert again.share(table([first, second])) == share
    assert known.share(table([first])) > share  # whoever is looked for, one case alone is there
    assert known.share(table([])) == 0


def test_without_times_the_order_alone_tells_cases_apart() -> None:
    a, b = ((1, 0), (2, 0)), ((2, 0), (1, 0))
    assert SingledOut(table([a, b]), "sequence").share(table([a, b])) == 1
    assert SingledOut(table([a, a, b]), "sequence").share(table([a, a, b])) == pytest.approx(1 / 3)

"""Patterns that are subsequences of rows: against plain Python, level by level."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.statistics.background_knowledge import (
    CaseTable,
    PatternCriteria,
    grow,
    matching,
)

Row = tuple[list[int], int, list[int]]  # items, cases, labels


def rows_of(found: list[Row]) -> CaseTable:
    return CaseTable(
        np.cumsum([0, *(len(items) for items, _, _ in found)]),
        np.array([item for items, _, _ in found for item in items], np.int64),
        np.array([n for _, n, _ in found], np.int64),
        np.array([labels for _, _, labels in found], np.int64).reshape(len(found), 2),
    )


tables = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2), max_size=5),
        st.integers(1, 4),
        st.lists(st.integers(0, 3), min_size=2, max_size=2),
    ),
    max_size=6,
)


def is_met(found: list[Row], demand: PatternCriteria) -> bool:
    n = sum(cases for _, cases, _ in found)
    for k in range(2):
        for label in range(1, 4):
            own = sum(cases for _, cases, labels in found if labels[k] == label)
            if own > demand.confidence * n:
                return False
    return n >= demand.min_cases


def plain_levels(
    found: list[Row], demand: PatternCriteria, longest: int
) -> list[tuple[dict[tuple[int, ...], int], set[tuple[int, ...]]]]:
    """By length: the patterns taken up with their cases, and those that are refused."""
    levels: list[tuple[dict[tuple[int, ...], int], set[tuple[int, ...]]]] = []
    before: set[tuple[int, ...]] = {()}
    for length in range(1, longest + 1):
        occurring = {
            pattern for items, _, _ in found for pattern in itertools.combinations(items, length)
        }
        taken, refused = {}, set()
        for pattern in occurring:
            if not set(itertools.combinations(pattern, length - 1)) <= before:
                continue
            matched = [r for r in found if pattern in set(itertools.combinations(r[0], length))]
            if is_met(matched, demand):
                taken[pattern] = sum(cases for _, cases, _ in matched)
            else:
                refused.add(pattern)
        levels.append((taken, refused))
        before = set(taken)
    return levels


@pytest.mark.parametrize("piece", [1, 7, 1 << 21])
@given(
    found=tables,
    min_cases=st.integers(1, 6),
    confidence=st.sampled_from([Fraction(1, 3), Fraction(1, 2), Fraction(1)]),
    longest=st.integers(1, 5),
)
@settings(max_examples=60, deadline=None)
def test_levels_are_those_of_plain_python(
    piece: int, found: list[Row], min_cases: int, confidence: Fraction, longest: int
) -> None:
    """However many matches are looked at in one go."""
    demand = PatternCriteria(min_cases, confidence)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracecloak.schemas.statistics.background_knowledge._PIECE", piece)
        levels = list(grow(rows_of(found), 3, demand, longest))
    expected = plain_levels(found, demand, longest)
    for i, level in enumerate(levels):
        taken, refused = expected[i]
        patterns = list(map(tuple, level.taken.tolist()))
        assert patterns == sorted(taken)
        assert sorted(map(tuple, level.refused.tolist())) == sorted(refused)
        if i:
            before = list(map(tuple, levels[i - 1].taken.tolist()))
            for pattern, places in zip(patterns, level.shorter, strict=True):
                for gone, place in enumerate(places):
                    assert before[place] == pattern[:gone] + pattern[gone + 1 :]
    assert not any(taken or refused for taken, refused in expected[len(levels) :])


def test_nothing_is_found_where_there_is_nothing() -> None:
    assert list(grow(rows_of([]), 0, PatternCriteria(1), 3)) == []
    [level] = grow(rows_of([([], 5, [1, 1])]), 3, PatternCriteria(1), 3)
    assert level.taken.shape == (0, 1)


def test_a_demand_is_exact_for_counts_that_no_float_has() -> None:
    large = (1 << 62) + 1
    met = PatternCriteria(1, Fraction(1, 3)).is_met(
        np.array([large, large]), np.array([[large // 3], [large // 3 + 1]])
    )
    assert met.tolist() == [True, False]
    tenths = PatternCriteria(1, Fraction("0.3")).is_met(np.array([10, 10]), np.array([[3], [4]]))
    assert tenths.tolist() == [True, False]


@given(found=tables, pattern=st.lists(st.integers(0, 3), max_size=3))
def test_rows_match_a_pattern_if_they_have_it_as_a_subsequence(
    found: list[Row], pattern: list[int]
) -> None:
    rows = rows_of(found)
    expected = [
        tuple(pattern) in set(itertools.combinations(items, len(pattern))) for items, _, _ in found
    ]
    assert matching(rows.offsets, rows.words, np.array(pattern, np.int64)).tolist() == expected

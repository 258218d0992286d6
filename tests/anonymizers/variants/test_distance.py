"""Distances between variants: by hand, in plain Python, and found with and without bounds.

What is expected of each way of `auto-variants`: a profile, what follows from it, and how well.

The shares at the end are of recorded releases of public logs, and of coefficients that were fitted
to all logs but the one that is judged.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import ways_by_cell
from tests.support.logs import Variant, histogram, variant_counts
from tracecloak.anonymizers.variants.auto import COEFFICIENTS, Profile
from tracecloak.anonymizers.variants.distance import (
    UNITS,
    EmbeddingDistance,
    LevenshteinDistance,
    Targets,
    VariantDistance,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.variants import VariantHistogram

NAMES = tuple("ABC")
VARIANTS = [("A",), ("B",), ("C",)]


def profile_of(counts: tuple[int, ...], threshold: int) -> Profile:
    log = {variant: n for variant, n in zip(VARIANTS, counts, strict=True) if n}
    return Profile.of(histogram(log, list(NAMES)), threshold)


def test_a_case_changes_one_number_by_one() -> None:
    """One case more of histograms of three variants, at and about each end of a bin."""
    logs = itertools.product((0, 1, 2, 3, 7, 8, 11, 12), (0, 2, 5), (0, 1))
    for threshold, counts in itertools.product((2, 3), logs):
        before = profile_of(counts, threshold).cases
        assert before.sum() == sum(counts)
        for i in range(3):
            more = tuple(n + (j == i) for j, n in enumerate(counts))
            change = profile_of(more, threshold).cases - before
            assert sorted(np.abs(change).tolist()) == [0, 0, 1]


@lru_cache
def cells() -> tuple[ways_by_cell.Cell, ...]:
    return tuple(ways_by_cell.recorded())


def test_the_coefficients_are_those_that_the_recorded_cells_give() -> None:
    for way, row in ways_by_cell.fitted(cells()).items():
        assert COEFFICIENTS[way] == pytest.approx(row, abs=2e-3)


LOAN = (
    ("check", "calculate", "contract", "mail"),
    ("check", "negotiate", "contract", "inform"),
    ("check", "fraud", "block", "inform"),
)


def of(variants: list[Variant]) -> tuple[VariantHistogram, list[Variant], list[str]]:
    """Variants as a histogram, in its order, and the names of all activities."""
    names = sorted({name for variant in variants for name in variant})
    return histogram(dict.fromkeys(variants, 1), names), sorted(set(variants)), names


def one(distance: VariantDistance, source: int, target: int) -> int:
    return int(distance.between(source, np.array([target]), None)[0])


def naive_edits(a: Variant, b: Variant) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y)))
    return row[-1]


def naive_embedding(
    source: Variant, target: Variant, events: np.ndarray, rhos: tuple[float, float], direction: str
) -> int:
    added, removed = rhos if direction != "paper_formula" else rhos[::-1]
    excess = len(target) - len(source)
    n_events = excess**2 if direction == "authors_code" else abs(excess)
    total = n_events * round((added if excess > 0 else removed) * UNITS)
    for a, b in zip(source, target, strict=False):
        total += round(events["ABCD".index(a), "ABCD".index(b)] * UNITS)
    return total


def test_the_papers_three_cases_are_not_equally_distant() -> None:
    """The paper says that cases 2 and 3 are; 2 and 3 edits are needed."""
    variants, order, _ = of(list(LOAN))
    distance = LevenshteinDistance(variants)
    first, second, third = (order.index(variant) for variant in LOAN)
    assert [one(distance, first, second), one(distance, first, third)] == [2, 3]
    targets = Targets(distance, 3)
    targets.remove(np.array([first]))
    assert targets.nearest(first) == second


@given(variant_counts("ABCD", max_length=7, max_variants=9))
def test_edits_are_those_of_the_textbook_and_bounds_are_below(counts: dict[Variant, int]) -> None:
    variants, order, _ = of(list(counts))
    distance = LevenshteinDistance(variants)
    everyone = np.arange(len(order))
    for i, source in enumerate(order):
        expected = [naive_edits(source, target) for target in order]
        assert distance.between(i, everyone, None).tolist() == expected
        assert (distance.bounds(i) <= expected).all()
        for cutoff in (0, 2):
            found = distance.between(i, everyone, cutoff)
            assert [f for f, e in zip(found, expected, strict=True) if e <= cutoff] == [
                e for e in expected if e <= cutoff
            ]
            assert all(f > cutoff for f, e in zip(found, expected, strict=True) if e > cutoff)


@given(
    variant_counts("ABCD", max_length=7, max_variants=9),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["text", "paper_formula", "authors_code"]),
)
def test_embedding_distances_are_those_of_the_formula_and_bounds_are_below(
    counts: dict[Variant, int], seed: int, direction: Any
) -> None:
    order = sorted(counts)
    variants = histogram(counts, "ABCD")
    events = np.random.default_rng(seed).uniform(0, 2, (4, 4))
    distance = EmbeddingDistance(variants, events, 1.5, 2.75, direction)
    everyone = np.arange(len(order))
    for i, source in enumerate(order):
        expected = [
            naive_embedding(source, target, events, (1.5, 2.75), direction) for target in order
        ]
        assert distance.between(i, everyone, None).tolist() == expected
        assert (distance.bounds(i) <= expected).all()


def test_more_activities_than_characters_are_refused() -> None:
    codes = np.arange(0x110000 - 0x800 + 1, dtype=np.int32)

    class Huge:
        offsets, n_variants = np.array([0, len(codes)]), 1

    Huge.codes = codes  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"1,112,064.*embedding"):
        LevenshteinDistance(Huge())  # type: ignore[arg-type]

"""Released variants with another number of cases: proportions, order, sizes beyond int64."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first

NAMES = pa.array(list("ABCDEFGH"), pa.string())

Rows = list[tuple[tuple[str, ...], int]]


def released(rows: Rows, half_width: int | None = 2) -> ReleasedVariants:
    """Variants with these counts; 0 is left out."""
    offsets = np.cumsum([0, *(len(variant) for variant, _ in rows)], dtype=np.int64)
    codes = np.array(["ABCDEFGH".index(a) for variant, _ in rows for a in variant], np.int32)
    counts = np.array([count for _, count in rows], np.int64)
    return most_frequent_first(NAMES, offsets, codes, counts, half_width)


def rows_of(variants: ReleasedVariants) -> Rows:
    table = variants.to_table()
    table.validate(full=True)
    return [(tuple(row["variant"]), row["count"]) for row in table.to_pylist()]


def spelled(number: int) -> tuple[str, ...]:
    """A variant of its own for each number."""
    return tuple("ABCDEFGH"[int(digit)] for digit in f"{number:o}")


@st.composite
def variants_of_any_size(draw: st.DrawFn) -> ReleasedVariants:
    """Up to 8 variants; the counts' sum fits int64, their products with others do not."""
    count = st.one_of(st.integers(0, 5), st.integers(1, 10**4), st.integers(1, 2**58))
    counts = draw(st.lists(count, max_size=8))
    return released([(spelled(i), n) for i, n in enumerate(counts)])


wanted = st.one_of(st.integers(0, 20), st.integers(0, 10**6), st.integers(0, 2**62))


def check(variants: ReleasedVariants, n_cases: int) -> None:
    before = dict(rows_of(variants))
    resized = variants.resized(n_cases)
    rows = rows_of(resized)
    total = sum(before.values())
    assert resized.n_cases == sum(count for _, count in rows) == (n_cases if total else 0)
    assert resized.counts.dtype == np.int64 and (resized.counts > 0).all()
    assert resized.lows is None and resized.highs is None
    counts = [count for _, count in rows]
    assert counts == sorted(counts, reverse=True)
    after = dict(rows)
    assert len(after) == len(rows) and set(after) <= set(before)
    for variant, count in before.items():  # those that are left out have 0
        assert abs(after.get(variant, 0) - Fraction(count * n_cases, total)) < 1
    # Of equal counts the variant that was more frequent stays in front.
    place = {variant: i for i, variant in enumerate(before)}
    for (variant, count), (following, next_count) in itertools.pairwise(rows):
        assert count > next_count or place[variant] < place[following]
    # Only names that are used are left.
    used = sorted({name for variant in after for name in variant})
    assert resized.names.to_pylist() == used
    assert rows_of(variants) == list(before.items())  # it stays as it was


@given(variants_of_any_size(), wanted)
def test_counts_are_in_proportion_and_sum_to_the_number(variants, n_cases):
    check(variants, n_cases)


def test_products_about_2_to_the_63_are_exact():
    for n_cases in [2**40 - 1, 2**40, 2**40 + 1]:
        for total in [2**22 - 1, 2**22, 2**22 + 1, 2**61]:
            check(
                released([(("A",), total // 2), (("B",), total - total // 2 - 1), (("C",), 1)]),
                n_cases,
            )

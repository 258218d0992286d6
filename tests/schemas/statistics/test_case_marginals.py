"""Partitions of the cases: a case is in one cell of each, however long it is."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import Variant, histogram
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.statistics.variant_flows import MarginalCells

NAMES = ("A", "B", "C")
SHORT, LONG = MarginalCells(3, 2), MarginalCells(3, 30)


def counts(cells: MarginalCells, variants: Mapping[Variant, int]) -> np.ndarray:
    counted = histogram(variants, NAMES)
    row, cell = cells.entries(counted)
    return sum_groups(cell, counted.counts[row], cells.size)


def described(variant: Variant) -> list[object]:
    """What a case of up to 30 events is told by, in plain Python."""
    begins = [1, 2, 3, 4, 6, 9, 13, 20]
    coarse = sorted({round(1.35**i) for i in range(20)})
    n = len(variant)
    return [
        ("length", n),
        ("coarse", sum(n >= begin for begin in coarse)),
        ("first", variant[:2]),
        ("last", variant[-2:]),
        *(
            (name, sum(variant.count(name) >= begin for begin in begins))
            for name in NAMES
        ),
    ]  # fmt: skip


variants = st.dictionaries(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=30).map(tuple), st.integers(1, 9)
)


@given(variants)
def test_cells_are_those_of_a_naive_description(found: dict[Variant, int]) -> None:
    """Equal descriptions share a cell, different ones do not, and counts are the same."""
    naive: Counter[object] = Counter()
    for variant, n in found.items():
        naive.update({told: n for told in described(variant)})
    cells = counts(LONG, found)
    assert sorted(cells[cells > 0].tolist()) == sorted(naive.values())
    for variant in found:
        _, cell = LONG.entries(histogram({variant: 1}, NAMES))
        assert len(set(cell.tolist())) == len(cell) == len(described(variant))
        assert [cells[c] for c in cell[:4]] == [naive[told] for told in described(variant)[:4]]


@pytest.mark.parametrize("cells", [SHORT, LONG, MarginalCells(3, 3)])
def test_a_case_more_changes_as_many_counts_as_is_said(cells: MarginalCells) -> None:
    """For every case of up to three events, which is all there are of two; it is attained."""
    most = 0
    for n in range(1, min(cells.max_length, 3) + 1):
        for variant in itertools.product(NAMES, repeat=n):
            before = {("A", "B"): 3, ("C",): 1}
            after = {**before, variant: before.get(variant, 0) + 1}
            change = counts(cells, after) - counts(cells, before)
            assert set(change.tolist()) <= {0, 1}
            most = max(most, int(change.sum()))
    assert most == cells.n_of_case

"""Cases as vectors over groups of activities: worked examples, a naive reference, and the norm."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.logs import Variant, histogram, variant_counts
from tracecloak.schemas.statistics.clipped_flows import CaseCells
from tracecloak.schemas.statistics.variant_flows import PARTS, GroupCells, group_vectors
from tracecloak.schemas.statistics.variants import VariantHistogram

# A and B are group 0, C is group 1; positions 0 and 1 have a bin each, and all others one.
GROUP_OF = {"A": 0, "B": 0, "C": 1}
CODES = np.array([0, 0, 1], np.int32)
CELLS = GroupCells(2, np.array([0, 1, 2, 2, 2, 2, 2]))
END = 2


def vectors_of(counts: dict[Variant, int]) -> tuple[VariantHistogram, CaseCells]:
    variants = histogram(counts)
    return variants, group_vectors(variants, CODES, CELLS)


def naive(variant: Variant) -> Counter[int]:
    """Sixteenths by cell."""
    groups = [GROUP_OF[name] for name in variant]
    found: Counter[int] = Counter()
    for source, target in zip(groups, [*groups[1:], END], strict=True):
        found[source * 3 + target] += 4 if source == target else 16
    for position, target in enumerate([*groups, END]):
        bin_of = min(position, 2)
        weight = int(16 / math.sqrt([1, 1, 5][bin_of]))
        found[6 + bin_of * 3 + target] += weight
    return found


def test_the_vector_of_a_case() -> None:
    """A B C: one step within the first group, one to the second, one to the end."""
    _, vectors = vectors_of({("A", "B", "C"): 4})
    assert dict(zip(vectors.keys.tolist(), vectors.counts.tolist(), strict=True)) == {
        0: 4,  # within the first group
        1: 16,  # to the second
        5: 16,  # from there to END
        6: 16,  # begins with the first group
        9: 16,  # goes on with it
        13: 7,  # one of five positions: 16 / sqrt(5)
        14: 7,
    }
    assert vectors.squares.tolist() == [16 + 4 * 256 + 2 * 49]
    assert CELLS.size == 15 and CELLS.widths.tolist() == [1, 1, 5]


@settings(max_examples=60, deadline=None)
@given(variant_counts(max_length=6))
def test_vectors_are_those_of_a_naive_count(counts: dict[Variant, int]) -> None:
    variants, vectors = vectors_of(counts)
    names, ends = "ABC", variants.offsets.tolist()
    for row in range(variants.n_variants):
        of_row = vectors.rows == row
        keys, values = vectors.keys[of_row], vectors.counts[of_row]
        variant = tuple(names[code] for code in variants.codes[ends[row] : ends[row + 1]])
        assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == naive(variant)
        assert vectors.squares[row] == (values**2).sum() and (np.diff(keys) > 0).all()


@pytest.mark.parametrize("units", [1, 3, 64])
@pytest.mark.parametrize("clip", [Fraction(1, 2), Fraction(2), Fraction(50)])
def test_no_clipped_vector_is_longer_than_the_clip(clip: Fraction, units: int) -> None:
    variants, vectors = vectors_of({("A",) * 6: 1, ("A", "C") * 3: 1, ("C",): 1})
    steps = int(clip * units * PARTS)
    norms = np.bincount(vectors.rows, vectors.clipped(steps, units) ** 2, variants.n_variants)
    assert (norms <= steps**2).all()
    if clip == 50:
        assert (norms == vectors.squares * units**2).all()

"""Noisy histograms and backing off: exact sums, the right noise, and a better estimate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.silence import MeasureRecorder
from tracecloak.anonymizers.noise.sums import SumNoise, backed_off, noisy_counts
from tracecloak.schemas.statistics.clipped_flows import CaseCells, ClippedCells

WIDE = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


def cells_of(counts: np.ndarray, units: int) -> ClippedCells:
    """One case an occurrence, so nothing is clipped."""
    keys = np.repeat(np.arange(len(counts)), counts)
    cells = CaseCells.of(np.arange(len(keys)), keys, len(keys), len(counts))
    return ClippedCells.of_cases(cells, units, units)


@pytest.mark.parametrize("units", [1, 1024])
def test_whole_counts_are_brought_onto_the_lattice_of_the_noise(units: int) -> None:
    counts = np.array([3, 0, 7, 0, 1])
    noise = SumNoise((5 * units, 1), units, False)
    noting = MeasureRecorder()
    keyed = randomness().with_noise(noting)
    found = noisy_counts(cells_of(counts, 1), 5, noise, "cells", keyed, is_whole=True)
    [(purpose, sums, told)] = noting.told
    assert (purpose, sums.tolist(), told) == ("cells", (counts * units).tolist(), noise)
    assert found.tolist() == counts.tolist()


@given(
    st.lists(st.lists(WIDE, min_size=3, max_size=3), max_size=6),
    st.floats(0, 1e6),
    st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any),
)
def test_rows_become_shares(rows: list[list[float]], variance: float, prior: list[int]) -> None:
    shares = np.array(prior) / sum(prior)
    made = backed_off(np.array(rows, np.float64).reshape(-1, 3), variance, shares)
    assert made.shape == (len(rows), 3)
    assert (made >= 0).all()
    assert np.allclose(made.sum(axis=1), 1)
    for row, own in zip(rows, made, strict=True):
        if sum(row) <= 0:
            assert np.allclose(own, shares)

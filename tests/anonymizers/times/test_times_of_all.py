"""Lengths of cases that agree with counts by bin and with the sum of all."""

from __future__ import annotations

import numpy as np
import pytest

from tracecloak.anonymizers.times.case_spans import SpansDecision, spans_at
from tracecloak.anonymizers.times.pair_times import PairTimesDecision
from tracecloak.anonymizers.times.times_of_all import agreeing_spans

BORDERS = np.array([1, 100, 1_000, 10_000])
COUNTS = np.array([0.0, 20.0, 60.0, 20.0, 0.0])
SPANS = SpansDecision(
    BORDERS, np.cumsum(COUNTS) / 100, 10**6, COUNTS, 1.0, np.array([0, 1, 2, 3, 3])
)
RANKS = (np.arange(20_000) + 0.5) / 20_000
CLIP = 5_000


def fitted_to(mean: float, n_cases: int = 100) -> np.ndarray:
    """Times at even ranks, where clipped times are measured to come to such a mean."""
    measured = PairTimesDecision(np.array([mean * n_cases / CLIP]), 1.0, CLIP, False)
    spans = agreeing_spans(SPANS, measured, n_cases)
    assert spans.counts.sum() == COUNTS.sum() and spans.n_wide == SPANS.n_wide
    assert np.bincount(spans.wide, spans.counts).tolist() == [0, 20, 60, 20]
    return spans_at(spans, RANKS)


@pytest.mark.parametrize("mean", [700.0, 900.0, 1_100.0])
def test_the_mean_is_the_measured_one_and_every_bin_keeps_its_cases(mean):
    times = fitted_to(mean)
    assert np.minimum(times, CLIP).mean() == pytest.approx(mean, rel=0.02)
    of_bins = np.bincount(np.searchsorted(BORDERS, times, side="right"), minlength=5) / len(times)
    assert of_bins == pytest.approx(COUNTS / 100, abs=0.001)
    assert (np.diff(times) >= 0).all()


def test_without_the_sum_the_mean_is_another_one():
    means = [np.minimum(spans_at(SPANS, RANKS), CLIP).mean(), fitted_to(900).mean()]
    assert abs(means[0] - 700) > 50 and abs(means[0] - 1_100) > 50


def test_a_sum_out_of_reach_moves_times_as_far_as_their_bins_go():
    for mean in (0.0, -500.0, 1e9):
        times = fitted_to(mean)
        of_bins = np.bincount(np.searchsorted(BORDERS, times, side="right"), minlength=5)
        assert of_bins / len(times) == pytest.approx(COUNTS / 100, abs=0.001)
    assert fitted_to(0.0).mean() < fitted_to(900.0).mean() < fitted_to(1e9).mean()

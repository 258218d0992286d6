"""Times of cases that are all alike, so that counts of lengths and the sum of all times agree.

Where times are not counted by activity (`case_classes`), cases begin and take as long as those of
the log do, whatever their variant, and those with more events rather take longer. All is computed
from noisy numbers.

A bin of times can reach from a week to a month, and where in it cases lie is not counted. What all
their times come to says it: within each bin longer times are made likelier, or shorter ones, by one
number for all bins, until the sum is met. How many cases each bin has stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.times.case_classes import Detail
from tracecloak.anonymizers.times.case_spans import SpansDecision, spans_at
from tracecloak.anonymizers.times.case_times import times_of_all, wide_bins_at
from tracecloak.anonymizers.times.fitted_times import (
    PairFactors,
    ranks_in,
    some_of,
    sums_of_steps,
    weights_of,
)
from tracecloak.anonymizers.times.pair_times import PairTimesDecision
from tracecloak.anonymizers.times.step_durations import Steps, sample_durations
from tracecloak.anonymizers.times.step_sums import sums_by_class_and_bin
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants

# So many times stand for all, and so many parts of a bin are told apart.
_TIMES, _PARTS = 1 << 13, 8
# A time of the clip gets likelier by at most e to this beside one of 0, found by so many halvings.
_MOST_TILT, _HALVINGS = 200.0, 40


def fitted_of_all(
    decisions: Mapping[str, Any],
    vocabulary: ActivityVocabulary,
    randomness: Randomness,
    detail: Detail,
) -> dict[str, Any]:
    """Returns what `fitted_times.fitted` does, of one class, and the lengths of cases as "spans".

    Args:
        decisions: What the parts decided, by their names.
        vocabulary: The activities, public or bought.
        randomness: The release's.
        detail: By what times were counted: all cases alike.
    """
    variants: ReleasedVariants = decisions["variants"]
    durations = decisions["durations"]
    classes = detail.classes(variants, vocabulary)
    some = detail.cases(some_of(variants, randomness).recode(vocabulary))
    numbers, alike = np.arange(some.n_cases), np.zeros(some.n_cases, np.int64)
    steps = Steps.of(some, numbers, classes, alike)
    factors = PairFactors(np.zeros(1), durations.is_idle)
    taken = sample_durations(durations, steps, randomness)
    sums = sums_of_steps(weights_of(taken, steps, factors), steps, some.n_cases)
    n_several = int(variants.counts[np.diff(variants.offsets) > 1].sum())
    spans = agreeing_spans(decisions["spans"], decisions["pair times"], n_several)
    is_several, times = some.lengths > 1, times_of_all(spans)
    bins = wide_bins_at(times, alike, alike, ranks_in(sums, is_several.astype(np.int64)))
    return {
        "spans": spans,
        "step sums": sums_by_class_and_bin(
            sums[is_several], alike[is_several], bins[is_several], (classes.size, spans.n_wide)
        ),
        "case times": times,
        "pair factors": factors,
    }


def agreeing_spans(
    spans: SpansDecision, measured: PairTimesDecision, n_cases: int
) -> SpansDecision:
    """Returns the spans in narrower bins, whose sum is the measured one as nearly as they permit.

    Looks at noisy numbers only. Times above the clip count as it, as they were added up.

    Args:
        spans: Noisy counts by bin.
        measured: The noisy sum of the times of cases, as that of the one pair of activities that
            there is; see `case_classes`.
        n_cases: Released cases of more than one event.
    """
    ranks = (np.arange(_TIMES) + 0.5) / _TIMES
    times = spans_at(spans, ranks)
    bins = np.searchsorted(spans.borders, times, side="right")
    clipped = np.minimum(times / measured.clip, 1.0)
    wanted = max(float(measured.sums[0]), 0.0) / max(n_cases, 1)
    of_bin = np.bincount(bins, minlength=len(spans.counts)) / _TIMES

    def tilted(tilt: float) -> np.ndarray:
        logs = tilt * clipped
        highest = np.full(len(of_bin), -np.inf)
        np.maximum.at(highest, bins, logs)
        weights = elementary.exp(logs - highest[bins])
        return (
            weights * (of_bin / np.maximum(np.bincount(bins, weights, len(of_bin)), 1e-300))[bins]
        )

    low, high = -_MOST_TILT, _MOST_TILT
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_less = float(np.cumsum(tilted(middle) * clipped)[-1]) < wanted
        low, high = (middle, high) if is_less else (low, middle)
    return _with_shares(spans, times, tilted((low + high) / 2))


def _with_shares(spans: SpansDecision, times: np.ndarray, weights: np.ndarray) -> SpansDecision:
    """The spans in parts of their bins, with the shares of weighted times.

    Args:
        spans: In bins.
        times: float64[n], in ticks.
        weights: float64[n], the share of each.
    """
    ends = np.concatenate([[1], spans.borders, [spans.n_ticks]])
    places = np.arange(_PARTS) / _PARTS
    ratios = ends[1:] / ends[:-1]
    borders = np.rint(ends[:-1, None] * elementary.power(ratios[:, None], places)).astype(np.int64)
    borders = np.union1d(borders[borders < spans.n_ticks], spans.borders)
    parent = np.searchsorted(spans.borders, np.append(0, borders), side="right")
    is_first = np.diff(parent, prepend=-1) > 0
    parts = np.searchsorted(borders, times, side="right")
    reached = np.cumsum(np.bincount(parts, weights, len(parent)))
    return replace(
        spans,
        borders=borders,
        reached=reached / reached[-1],
        counts=np.where(is_first, spans.counts[parent], 0.0),
        wide=spans.wide[parent],
    )

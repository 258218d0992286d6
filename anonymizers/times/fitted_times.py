"""What ties the times of steps, of cases and of variants: computed from noisy numbers, by made cases.

Some cases are made like those that will be released. What their drawn steps come to says how long
each class is expected to take compared with others, by which the noisy tables are completed. Then
the time of each case is divided among its steps, and the time that goes by at each pair of
activities is compared with the noisy sums: the factor of a pair that has too little is raised, that
of one with too much is lowered, again and again, as in iterative proportional fitting (Deming and
Stephan 1940).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.times.agreeing_tables import NoisySums, log_factors
from tracecloak.anonymizers.times.case_classes import CaseClasses
from tracecloak.anonymizers.times.case_spans import SpansDecision, spans_at
from tracecloak.anonymizers.times.case_times import (
    decide_times,
    ranks_among_all,
    sample_periods,
    wide_bins,
)
from tracecloak.anonymizers.times.pair_times import PairTimesDecision, clipped_times
from tracecloak.anonymizers.times.split_times import (
    LARGEST_LOG,
    PairFactors,
    divided,
    sums_of_steps,
    weights_of,
)
from tracecloak.anonymizers.times.step_durations import DurationsDecision, Steps, sample_durations
from tracecloak.anonymizers.times.step_sums import decide_step_sums
from tracecloak.anonymizers.variants.generator import log_of
from tracecloak.schemas.arrays.merging import ranges
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants

# About so many events are made.
_EVENTS = 50_000
# What the histograms of single steps say weighs as much as so many cases whose time is added up.
_WORTH = 60.0
_ROUNDS = 30
# The first is the share of the step that would meet the sum of one pair if the others stayed as
# they are. The second is the largest step.
_DAMPING, _LARGEST_STEP = 0.7, 1.0


def fitted(
    decisions: Mapping[str, Any], vocabulary: ActivityVocabulary, randomness: Randomness
) -> dict[str, Any]:
    """Returns the sums of steps, the times of cases and the factors of pairs, by these names.

    Args:
        decisions: What the parts decided, by their names.
        vocabulary: The activities, public or bought.
        randomness: The release's.
    """
    variants: ReleasedVariants = decisions["variants"]
    spans, durations = decisions["spans"], decisions["durations"]
    classes = CaseClasses.of(variants, vocabulary)
    some = _some_of(variants, randomness).recode(vocabulary)
    numbers = np.arange(some.n_cases)
    case_classes, is_single = classes.of_cases(some), some.lengths == 1
    steps = Steps.of(some, numbers, classes, case_classes)
    taken = sample_durations(durations, steps, randomness)
    sums = sums_of_steps(taken, steps, some.n_cases)
    ranks = _ranks(sums, is_single.astype(np.int64))
    wide = wide_bins(spans)
    expected = np.where(is_single, wide[-1] + 1, wide[_bins(spans, ranks)])
    tables, periods = decisions["tables"], decisions["periods"]
    times = decide_times(tables, spans, periods, classes, (case_classes, expected))

    begun = sample_periods(times, case_classes, is_single, numbers, randomness)
    several = np.flatnonzero(~is_single)

    def wanted(sums: np.ndarray) -> np.ndarray:
        ranks = _ranks(sums, case_classes * 2 + is_single)
        among_all = ranks_among_all(times, spans, case_classes, begun, ranks)
        return np.where(is_single, 0, spans_at(spans, among_all))

    share = variants.n_cases / max(some.n_cases, 1)
    measured = decisions["pair times"]
    factors = decide_factors(measured, durations, steps, taken, wanted, some.n_cases, share)
    sums = sums_of_steps(weights_of(taken, steps, durations, factors), steps, some.n_cases)
    by_class = decide_step_sums(sums[several], case_classes[several], classes.size)
    return {"step sums": by_class, "case times": times, "pair factors": factors}


def _ranks(sums: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """float64[n] in (0, 1), the rank of each sum within its class; the middle of its place."""
    order = np.lexsort((sums, classes))
    sizes = np.bincount(classes)
    places = np.empty(len(sums), np.int64)
    places[order] = ranges(np.zeros(len(sizes), np.int64), sizes)
    return (places + 0.5) / sizes[classes]


def decide_factors(
    measured: PairTimesDecision,
    durations: DurationsDecision,
    steps: Steps,
    taken: np.ndarray,
    wanted: Callable[[np.ndarray], np.ndarray],
    n_cases: int,
    share: float,
) -> PairFactors:
    """Finds the factors by which some cases like the released ones agree with the noisy sums.

    Args:
        measured: Noisy sums of the time of each pair.
        durations: How long steps take.
        steps: Of these cases.
        taken: int64[m], drawn times of the steps.
        wanted: How long cases take by what the weights of their steps come to.
        n_cases: Number of these cases.
        share: Number of released cases by the number of these.
    """
    n_pairs = len(measured.sums)
    # Most pairs of many activities never follow each other, and keep the factor of 1.
    there, places = np.unique(steps.pairs, return_inverse=True)
    logs, pulls = np.zeros(n_pairs), np.zeros(len(there))
    if not len(there):
        return PairFactors(logs)
    block = NoisySums((0,), measured.sums[there], measured.deviation)
    sizes = n_cases, len(there)
    for _ in range(_ROUNDS):
        weights = weights_of(taken, steps, durations, PairFactors(logs))
        split = divided(wanted(sums_of_steps(weights, steps, n_cases)), weights, steps)
        pairs, sums = clipped_times(
            split, steps.own, places, sizes, measured.clip, is_pure=measured.is_pure
        )
        expected = np.zeros(len(there))
        expected[pairs] = sums * (share / UNITS)
        total = float(expected.sum())
        if not total:
            break
        step = log_factors(expected, block, pulls, total, _WORTH)
        step = np.clip(step, -_LARGEST_STEP, _LARGEST_STEP) * _DAMPING
        pulls -= step * (_WORTH / total)
        logs[there] = np.clip(logs[there] + step, -LARGEST_LOG, LARGEST_LOG)
    return PairFactors(logs)


def _bins(spans: SpansDecision, ranks: np.ndarray) -> np.ndarray:
    """int64[n], the bins of times with these ranks among all."""
    return np.searchsorted(spans.borders, spans_at(spans, ranks), side="right")


def _some_of(variants: ReleasedVariants, randomness: Randomness) -> TraceBatch:
    """Evenly chosen cases of a large log; of a small one each several times."""
    n_events = int((variants.counts * np.diff(variants.offsets)).sum())
    some = log_of(variants, 0, max(n_events // _EVENTS, 1), randomness)
    return some.take(np.tile(np.arange(some.n_cases), max(_EVENTS // max(n_events, 1), 1)))

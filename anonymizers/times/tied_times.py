"""What ties the times of cases to their variants: computed from noisy numbers, by made cases.

Some cases are made like those that will be released. What their steps come to says how long each
class is expected to take compared with others, by which the noisy tables are completed, and which
steps are there to be the longest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.times.case_classes import CaseClasses
from tracecloak.anonymizers.times.case_spans import SpansDecision, spans_at
from tracecloak.anonymizers.times.case_times import decide_times, ranks_among_all, sample_periods
from tracecloak.anonymizers.times.generated_times import sums_of_cases
from tracecloak.anonymizers.times.longest_steps import decide_propensities
from tracecloak.anonymizers.times.step_durations import Steps, sample_durations
from tracecloak.anonymizers.times.step_sums import decide_step_sums, ranks_of
from tracecloak.anonymizers.variants.generator import log_of
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants

# About so many events are made.
_EVENTS = 50_000


def tied(
    decisions: Mapping[str, Any], vocabulary: ActivityVocabulary, randomness: Randomness
) -> dict[str, Any]:
    """Returns the sums of steps, the times of cases and the propensities, by these names.

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
    sums = sums_of_cases(sample_durations(durations, steps, randomness), some)
    several = np.flatnonzero(~is_single)

    together = np.zeros(some.n_cases, np.int64)
    of_all = decide_step_sums(sums[several], together[several], 1)
    ranks = ranks_of(of_all, sums, together, numbers, randomness)
    n_bins = len(spans.reached)
    expected = np.where(is_single, n_bins, _bins(spans, ranks))
    tables, periods = decisions["tables"], decisions["periods"]
    times = decide_times(tables, spans, periods, classes, (case_classes, expected))

    by_class = decide_step_sums(sums[several], case_classes[several], classes.size)
    ranks = ranks_of(by_class, sums, case_classes, numbers, randomness)
    begun = sample_periods(times, case_classes, is_single, numbers, randomness)
    bins = _bins(spans, ranks_among_all(times, spans, case_classes, begun, ranks))
    n_several = int(variants.counts[np.diff(variants.offsets) > 1].sum())
    longest = decisions["longest steps"]
    propensities = decide_propensities(longest, durations, spans, steps, bins, n_several)
    return {"step sums": by_class, "case times": times, "propensities": propensities}


def _bins(spans: SpansDecision, ranks: np.ndarray) -> np.ndarray:
    """int64[n], the bins of times with these ranks among all."""
    return np.searchsorted(spans.borders, spans_at(spans, ranks), side="right")


def _some_of(variants: ReleasedVariants, randomness: Randomness) -> TraceBatch:
    """Evenly chosen cases of a large log; of a small one each several times."""
    n_events = int((variants.counts * np.diff(variants.offsets)).sum())
    some = log_of(variants, 0, max(n_events // _EVENTS, 1), randomness)
    return some.take(np.tile(np.arange(some.n_cases), max(_EVENTS // max(n_events, 1), 1)))

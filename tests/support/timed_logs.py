"""What times are drawn from, as the real functions decide it on a log, with next to no noise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from tests.support.keys import randomness
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.times.case_classes import CaseClasses
from tracecloak.anonymizers.times.case_spans import (
    clip_of,
    count_pair_times,
    count_spans,
    decide_pair_times,
    decide_spans,
)
from tracecloak.anonymizers.times.case_starts import count_starts, decide_starts, periods_of
from tracecloak.anonymizers.times.case_times import count_tables, decide_tables
from tracecloak.anonymizers.times.fitted_times import Timing, fitted
from tracecloak.anonymizers.times.step_durations import count_durations, decide_durations
from tracecloak.anonymizers.times.time_bins import TimeBins
from tracecloak.anonymizers.times.time_range import LogTime
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

LITTLE = SumNoise((1, 10**6), 1, True)  # so narrow that 0 is drawn
EXACT = SumNoise((1, 2**40), UNITS, False)  # so narrow that 0 is drawn
BINS = TimeBins(100, 48)


def variants_of(traces: TraceBatch) -> ReleasedVariants:
    """Returns the variants as they are."""
    cases = np.split(traces.activities, traces.offsets[1:-1]) if traces.n_cases else []
    found = Counter(tuple(case.tolist()) for case in cases)
    offsets = np.append(0, np.cumsum([len(variant) for variant in found])).astype(np.int64)
    codes = np.array([code for variant in found for code in variant], np.int32)
    counts = np.array(list(found.values()), np.int64)
    return most_frequent_first(traces.vocabulary.names, offsets, codes, counts)


def decided_on(
    traces: TraceBatch, log_time: LogTime, n_periods: int, variants: ReleasedVariants | None = None
) -> dict[str, Any]:
    """Returns the decisions of all parts that `fitted` looks at, by their names.

    Args:
        traces: The log.
        log_time: When it takes place; public.
        n_periods: At most.
        variants: Those that were released; None: those of the log.
    """
    grid, words = log_time.grid({}), traces.vocabulary
    released = variants_of(traces) if variants is None else variants
    known: dict[str, Any] = {"variants": released, "bins": BINS}
    classes = CaseClasses.of(released, words)
    counts = Counted(ClippedCells, count_starts, (log_time,)).count(traces, {}, randomness())
    known["starts"] = decide_starts(counts, grid.time, traces.n_cases, LITTLE, randomness())
    known["periods"] = periods_of(known["starts"], n_periods)
    counts = Counted(ClippedCells, count_spans, (log_time, BINS.spans)).count(
        traces, {}, randomness()
    )
    known["spans"] = decide_spans(counts, BINS.spans, grid.n_ticks, LITTLE, randomness())
    counts = Counted(ClippedCells, count_durations, (log_time, BINS.steps, 10**9, UNITS)).count(
        traces, known, randomness()
    )
    known["durations"] = decide_durations(
        counts, words, classes, BINS.steps, grid.n_ticks, EXACT, randomness()
    )
    counts = Counted(ClippedCells, count_pair_times, (log_time, False)).count(
        traces, known, randomness()
    )
    clip = clip_of(known["spans"], len(words))
    known["pair times"] = decide_pair_times(
        counts, len(words), clip, EXACT, randomness(), is_pure=False
    )
    counts = Counted(ClippedCells, count_tables, (log_time,)).count(traces, known, randomness())
    sizes = classes.size, known["periods"].size, known["spans"].n_wide + 1
    known["tables"] = decide_tables(counts, sizes, LITTLE, randomness())
    return known


def timing_from(known: dict[str, Any], log_time: LogTime, words: ActivityVocabulary) -> Timing:
    """Returns what stamps are drawn from.

    Args:
        known: All decisions, those of `fitted` included.
        log_time: When the log takes place.
        words: Its vocabulary.
    """
    return Timing(
        log_time.grid({}),
        CaseClasses.of(known["variants"], words),
        known["starts"],
        known["periods"],
        known["spans"],
        known["case times"],
        known["durations"],
        known["step sums"],
        known["pair factors"],
    )


def timing_of_log(
    traces: TraceBatch, log_time: LogTime, n_periods: int, variants: ReleasedVariants | None = None
) -> Timing:
    """Returns what stamps are drawn from; see `decided_on`."""
    known = decided_on(traces, log_time, n_periods, variants)
    known |= fitted(known, traces.vocabulary, randomness(3))
    return timing_from(known, log_time, traces.vocabulary)

"""What times are drawn from, as the real functions decide it on a log, with next to no noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.support.keys import randomness
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.rigorous.parts_method import Given
from tracecloak.anonymizers.times.case_classes import BY_ACTIVITY, CaseClasses, Detail
from tracecloak.anonymizers.times.case_spans import (
    count_pair_times,
    count_spans,
    decide_pair_times,
    decide_spans,
)
from tracecloak.anonymizers.times.case_starts import count_starts, decide_starts, periods_of
from tracecloak.anonymizers.times.case_times import count_tables, decide_tables
from tracecloak.anonymizers.times.fitted_times import fitted
from tracecloak.anonymizers.times.step_durations import (
    cells_of_durations,
    clipped_sums,
    decide_durations,
)
from tracecloak.anonymizers.times.time_bins import TimeBins
from tracecloak.anonymizers.times.time_range import LogTime
from tracecloak.schemas.calendar.working_time import TimeGrid
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

LITTLE = SumNoise((1, 10**6), 1, True)  # so narrow that 0 is drawn
EXACT = SumNoise((1, 2**40), UNITS, False)  # so narrow that 0 is drawn
BINS = TimeBins(100, 48)


def asked(**given: Any) -> Any:
    """Returns parameters of which these alone are looked at."""
    return SimpleNamespace(**given)


def given_of(
    name: str, counted: Any, known: Mapping[str, Any], own: Randomness | None = None
) -> Given:
    """Returns what a part decides on: what was counted for it, and what was decided before."""
    return Given({name: counted}, known, {}, randomness() if own is None else own)


def counting_durations(
    time: LogTime, clip: int | None, units: int, detail: Detail = BY_ACTIVITY
) -> Counted:
    """Returns what counts steps by time, in vectors up to a clip."""
    return Counted(ClippedCells, clipped_sums, (cells_of_durations, (time, detail), clip, units))


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
    words = traces.vocabulary
    released = variants_of(traces) if variants is None else variants
    known: dict[str, Any] = {"variants": released, "bins": BINS}
    params = asked(log_time=log_time, words=words, detail=BY_ACTIVITY, delta=1)
    counts = Counted(ClippedCells, count_starts, (log_time,)).count(traces, {}, randomness())
    given = given_of("starts", counts, {"sizes": traces.n_cases})
    known["starts"] = decide_starts(given, LITTLE, log_time)
    known["periods"] = periods_of(known["starts"], n_periods)
    counts = Counted(ClippedCells, count_spans, (log_time,)).count(traces, known, randomness())
    known["spans"] = decide_spans(given_of("spans", counts, known), LITTLE, log_time)
    counts = counting_durations(log_time, 10**9, UNITS).count(traces, known, randomness())
    known["durations"] = decide_durations(given_of("durations", counts, known), EXACT, params)
    counts = Counted(ClippedCells, count_pair_times, (log_time, False)).count(
        traces, known, randomness()
    )
    known["pair times"] = decide_pair_times(given_of("pair times", counts, known), EXACT, params)
    counts = Counted(ClippedCells, count_tables, (log_time,)).count(traces, known, randomness())
    known["tables"] = decide_tables(given_of("tables", counts, known), LITTLE, params)
    return known


Timing = tuple[TimeGrid, CaseClasses, dict[str, Any]]


def timing_from(known: dict[str, Any], log_time: LogTime, words: ActivityVocabulary) -> Timing:
    """Returns what stamps are drawn from.

    Args:
        known: All decisions, those of `fitted` included.
        log_time: When the log takes place.
        words: Its vocabulary.
    """
    return log_time.grid({}), CaseClasses.of(known["variants"], words), known


def timing_of_log(
    traces: TraceBatch, log_time: LogTime, n_periods: int, variants: ReleasedVariants | None = None
) -> Timing:
    """Returns what stamps are drawn from; see `decided_on`."""
    known = decided_on(traces, log_time, n_periods, variants)
    known |= fitted(known, traces.vocabulary, randomness(3))
    return timing_from(known, log_time, traces.vocabulary)

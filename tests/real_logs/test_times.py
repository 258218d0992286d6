"""Private times on public research logs: epsilon for the release, of which they have a part.

Times have their shares of one Gaussian budget, as in a release with bought clip and public dates,
length and names. The true variants are timed anew, so that all of the error is that of the times.
Medians of 20 releases under fixed keys. With other keys such medians differ by a fifth (Sepsis at
epsilon 1000: 1.9 to 2.7 days), and the bounds are a fifth above the largest of several;
constants of the mechanisms were chosen on the same logs. The logs are not part of the project;
TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.real_logs import public_log
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.anonymizers.rigorous.parts_method import PartsDecision
from tracecloak.examination.measure.utility import (
    case_duration_distance_days,
    hour_of_week_distance,
)
from tracecloak.schemas.arrays.sequences import decode_sequences
from tracecloak.schemas.calendar.local_time import DAY_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import most_frequent_first
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.logs

COSELOG = "coselog_receipt.xes.gz"
SEPSIS = "sepsis.xes.gz"
ZONE = "Europe/Amsterdam"
OFFICE = {"working_days": "mon,tue,wed,thu,fri", "working_hours": "8-18"}
ALWAYS: dict[str, str] = {}
N_KEYS = 20


class OfTrueVariants(PrivateLog):
    """`private-log` with the variants as they are in place of those that were decided."""

    def __init__(self, traces: TraceBatch) -> None:
        found = VariantHistogram.from_traces(traces)
        offsets, codes = decode_sequences(found.sequences)
        names = traces.vocabulary.names
        self.variants = most_frequent_first(names, offsets, codes, found.counts)

    def decide(self, *given: Any) -> PartsDecision:
        found = super().decide(*given)
        if "variants" not in found.parts:
            return found
        return PartsDecision({**found.parts, "variants": self.variants})


def errors(traces: TraceBatch, calendar: dict[str, str], epsilon: str) -> np.ndarray:
    """Times the variants anew.

    Returns the medians of the 1-Wasserstein distance of the cases' durations in days, and of the
    total variation over the hours of the week.
    """
    first, last = (
        str(np.datetime64(int(end()) // DAY_US, "D"))
        for end in (traces.times.min, traces.times.max)
    )
    method = OfTrueVariants(traces)
    params = method.Params(
        epsilon=epsilon,
        vocabulary=tuple(traces.vocabulary.names.to_pylist()),
        max_trace_length=int(traces.lengths.max()),
        first_date=first,
        last_date=last,
        variants="variant-histogram",
        granularity="second",
        calendar_time_zone=ZONE,
        **calendar,
    )
    rows = []
    for number in range(N_KEYS):
        made = anonymise([traces], method, params, release_key(number), "release", "")
        [timed] = made.traces
        rows.append(
            (case_duration_distance_days(traces, timed), hour_of_week_distance(traces, timed))
        )
    return np.median(rows, axis=0)


@pytest.mark.parametrize(
    ("name", "calendar", "epsilon", "days", "hours"),
    [
        at_night(COSELOG, ALWAYS, "1000", 0.75, 0.23),
        at_night(COSELOG, ALWAYS, "1", 1.6, 0.32),
        at_night(COSELOG, OFFICE, "1000", 0.75, 0.12),
        (COSELOG, OFFICE, "1", 1.5, 0.18),
        at_night(SEPSIS, ALWAYS, "1000", 3.2, 0.29),
        (SEPSIS, ALWAYS, "1", 8, 0.3),
        at_night(SEPSIS, ALWAYS, "4", 3.2, 0.3),
    ],
)
def test_cases_last_as_long_and_fall_into_the_same_hours(
    logs_folder: Path, name: str, calendar: dict[str, str], epsilon: str, days: float, hours: float
) -> None:
    assert (errors(public_log(logs_folder, name), calendar, epsilon) < (days, hours)).all()

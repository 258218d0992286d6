"""The recorded distances of the ways of `auto-variants` are those that they have: at night."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.real_logs.ways_by_cell import distinct_samples, measured, samples
from tests.support.real_logs import each_event_once
from tests.support.ways_by_cell import WAYS, recorded

pytestmark = [pytest.mark.logs, pytest.mark.slow]


@pytest.mark.parametrize(
    ("file", "n_cases", "epsilon", "is_distinct"),
    [
        ("bpic2013_closed.xes.gz", 300, "1", False),
        ("unrineweginfectie.xes.gz", 1000, "2", False),
        ("purchasing_example.xes.gz", 608, "4", False),
        ("hospital_billing.parquet", 1000, "0.5", False),
        ("renting_log_high.xes.gz", 3000, "1", False),
        ("bpic15_1.xes.gz", 1000, "1", True),
    ],
)
def test_a_cell_is_as_it_was_recorded(
    logs_folder: Path, file: str, n_cases: int, epsilon: str, is_distinct: bool
) -> None:
    """Profile and activities exactly, and medians of 45 keys within 40 % of the recorded ones.

    Keys scatter a single distance by some 20 %; ways differ by up to a factor of 8.
    """
    key = file, n_cases, epsilon, is_distinct
    [cell] = [c for c in recorded() if (c.log, c.n_cases, c.epsilon, c.is_distinct) == key]
    sampled = distinct_samples if is_distinct else samples
    [traces] = [s for s in sampled(each_event_once(logs_folder, file)) if s.n_cases == n_cases]
    again = measured(file, traces, epsilon, 45, is_distinct=is_distinct)
    assert (again.cases, again.n_names) == (cell.cases, cell.n_names)
    for way in WAYS:
        assert np.median(again.distances[way]) == pytest.approx(cell.median(way), rel=0.4)

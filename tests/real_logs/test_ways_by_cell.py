"""The recorded distances of the ways of `auto-variants` are those that they have: at night."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.real_logs.ways_by_cell import measured, samples
from tests.support.real_logs import each_event_once
from tests.support.ways_by_cell import WAYS, recorded

pytestmark = [pytest.mark.logs, pytest.mark.slow]


@pytest.mark.parametrize(
    ("file", "n_cases", "epsilon"),
    [
        ("bpic2013_closed.xes.gz", 300, "1"),
        ("unrineweginfectie.xes.gz", 1000, "2"),
        ("purchasing_example.xes.gz", 608, "4"),
        ("hospital_billing.parquet", 1000, "0.5"),
        ("renting_log_high.xes.gz", 3000, "1"),
    ],
)
def test_a_cell_is_as_it_was_recorded(
    logs_folder: Path, file: str, n_cases: int, epsilon: str
) -> None:
    """Profile and activities exactly, and medians of 9 keys within 40 % of the recorded ones.

    Keys scatter a single distance by some 20 %; ways differ by up to a factor of 8.
    """
    [cell] = [c for c in recorded() if (c.log, c.n_cases, c.epsilon) == (file, n_cases, epsilon)]
    [traces] = [s for s in samples(each_event_once(logs_folder, file)) if s.n_cases == n_cases]
    again = measured(file, traces, epsilon, 9)
    assert (again.cases, again.n_names) == (cell.cases, cell.n_names)
    for way in WAYS:
        assert np.median(again.distances[way]) == pytest.approx(cell.median(way), rel=0.4)

"""What `plan` expects of a release has its result, on public logs to which nothing was fitted.

All cells are compared by `tests.benchmarks.forecasts`; this is a part of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.forecasts import EPSILONS, NAMES, is_inside, measured
from tests.support.real_logs import public_log

pytestmark = [pytest.mark.logs, pytest.mark.slow]


def test_nine_of_ten_results_are_in_their_ranges(logs_folder: Path) -> None:
    cells = [
        measured(public_log(logs_folder, f"{log}.xes.gz"), name, epsilon)
        for log, names in (
            ("sepsis", ["private-dfg"]),
            ("bpic20_prepaid", NAMES),
            ("coselog_receipt", ["private-dfg", "auto-variants"]),
            ("bpic2013_closed", ["private-dfg"]),
        )
        for name in names
        for epsilon in EPSILONS
    ]
    for cell in cells:
        low, high = cell["number"]
        assert high <= 3.001 * low
    for label in ("public", "number"):
        assert sum(is_inside(cell, label) for cell in cells) >= 0.9 * len(cells)

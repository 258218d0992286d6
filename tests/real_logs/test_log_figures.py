"""Intervals of `private-log` on public research logs: how often they hold what the log has.

Vocabulary and length are the logs' own, as if they were public; dates and clip are bought, and what
lies outside of the dates is cut from the truth as well. The logs are not part of the project;
TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.coverage import Truths, counted
from tests.support.keys import release_key
from tests.support.real_logs import public_log
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.logs.log_figures import figures_of_log
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import Figure

pytestmark = pytest.mark.logs

_LOGS = (
    "sepsis.xes.gz", "coselog_receipt.xes.gz", "bpic2013_incidents.xes.gz", "traffic_fines.parquet",
)  # fmt: skip


def figures_of(traces: TraceBatch, epsilon: str, key: int) -> list[Figure]:
    params = PrivateLog.Params(
        epsilon=epsilon,
        vocabulary=tuple(traces.vocabulary.names.to_pylist()),
        max_trace_length=int(traces.lengths.max()),
    )
    made = anonymise([traces], PrivateLog(), params, release_key(key), "figures", "d" * 8)
    [released] = made.traces
    return figures_of_log(made.products.by_name["measures"], counted(released))["figures"].rows()


@pytest.mark.parametrize("epsilon", [at_night("1"), at_night("4")])
@pytest.mark.parametrize("file", _LOGS)
def test_intervals_hold_what_the_log_has(logs_folder: Path, file: str, epsilon: str) -> None:
    """Of each kind of number 93 of 100, over 10 keys, less what 10 keys alone leave to chance."""
    truths = Truths(public_log(logs_folder, file))
    within: dict[str, list[bool]] = defaultdict(list)
    for key in range(10):
        rows = figures_of(truths.traces, epsilon, key)
        for row in rows:
            if not row.name.endswith("_us") and (truth := truths.of(row, rows)) is not None:
                within[row.name].append(row.low <= truth <= row.high)
    for name in ("path", "path_not_shown", "starts", "activity"):
        assert np.mean(within[name]) >= 0.93 - 0.03, name


@pytest.mark.parametrize(
    ("files", "n_keys"),
    [
        (("bpic2013_closed.xes.gz", "bpic20_prepaid.xes.gz", "bpic13_open.xes.gz"), 5),
        at_night((*_LOGS, "bpic2013_closed.xes.gz", "bpic20_prepaid.xes.gz",
                  "bpic13_open.xes.gz", "hospital_billing.parquet", "renting_log_high.xes.gz",
                  "academic_credentials.xes.gz", "purchasing_example.xes.gz"), 20),
    ],
)  # fmt: skip
def test_graded_waits_hold_what_the_log_has(
    logs_folder: Path, files: tuple[str, ...], n_keys: int
) -> None:
    """Of good and of rough mean waits 93 of 100, pooled, less what so many keys leave to chance."""
    within: dict[str, list[bool]] = defaultdict(list)
    for file in files:
        truths = Truths(public_log(logs_folder, file))
        for epsilon, key in ((e, k) for e in ("1", "4", "16") for k in range(n_keys)):
            rows = figures_of(truths.traces, epsilon, key)
            for row in rows:
                if row.name == "mean_wait_us":
                    within[row.grade].append(row.low <= (truths.of(row, rows) or 0) <= row.high)
    for grade in ("good", "rough"):
        assert len(within[grade]) > 50
        assert np.mean(within[grade]) >= 0.93 - 0.03, grade

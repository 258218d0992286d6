"""Intervals of `private-log` on public research logs: how often they hold what the log has.

Vocabulary and length are the logs' own, as if they were public; dates and clip are bought, and what
lies outside of the dates is cut from the truth as well. The logs are not part of the project;
TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.coverage import counted
from tests.support.keys import release_key
from tests.support.real_logs import public_log
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.logs.log_figures import figures_of_log
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.examination.measure.utility import PairWaits
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import Figure

pytestmark = pytest.mark.logs

DAY_US = 86_400_000_000
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


def truths_of(traces: TraceBatch) -> Counter[tuple[str, tuple[str, ...]]]:
    """What the log has of everything but its times."""
    whole, truths = counted(traces), Counter[tuple[str, tuple[str, ...]]]()
    labels, graph = traces.vocabulary.labels, whole.graph
    truths["cases", ()], truths["events", ()] = traces.n_cases, traces.n_events
    for source, target, n in zip(graph.sources, graph.targets, graph.counts, strict=True):
        truths["path", (labels[source], labels[target])] = int(n)
    for code in traces.activities.tolist():
        truths["activity", (labels[code],)] += 1
    ends = whole.variants.offsets.tolist()
    for i, n in enumerate(whole.variants.counts.tolist()):
        words = (labels[code] for code in whole.variants.codes[ends[i] : ends[i + 1]])
        truths["variant", (" → ".join(words),)] = n
    return truths


def starts_within(traces: TraceBatch, figure: Figure, all_of: list[Figure]) -> int:
    """Cases that start in the period; the first and the last one have what lies outside, too."""
    days = traces.starts // DAY_US
    dates = [[int(np.datetime64(date, "D").astype(int)) for date in of.of] for of in all_of]
    days = np.clip(days, min(first for first, _ in dates), max(last for _, last in dates))
    first, last = (int(np.datetime64(date, "D").astype(int)) for date in figure.of)
    return int(((days >= first) & (days <= last)).sum())


@pytest.mark.parametrize("epsilon", [at_night("1"), at_night("4")])
@pytest.mark.parametrize("file", _LOGS)
def test_intervals_hold_what_the_log_has(logs_folder: Path, file: str, epsilon: str) -> None:
    """Of each kind of number 93 of 100, over 10 keys, less what 10 keys alone leave to chance."""
    traces = public_log(logs_folder, file)
    truths = truths_of(traces)
    within: dict[str, list[bool]] = {}
    for key in range(10):
        rows = figures_of(traces, epsilon, key)
        shown = {row.of for row in rows if row.name == "path"}
        starts = [row for row in rows if row.name == "starts"]
        for row in rows:
            if row.name == "path_not_shown":
                hidden = [truths[at] for at in truths if at[0] == "path" and at[1] not in shown]
                within.setdefault("hidden", []).extend(n <= row.high for n in hidden)
            elif not row.name.endswith("_us"):
                is_start = row.name == "starts"
                of = starts_within(traces, row, starts) if is_start else truths[row.name, row.of]
                within.setdefault(row.name, []).append(row.low <= of <= row.high)
    for name in ("path", "hidden", "starts", "activity"):
        assert np.mean(within[name]) >= 0.93 - 0.03, name


def waits_within(traces: TraceBatch, rows: list[Figure]) -> dict[tuple[str, ...], float]:
    """The mean wait of each pair in microseconds, of the time within the released dates."""
    dates = [np.datetime64(of) for row in rows if row.name == "starts" for of in row.of]
    ends = min(dates), max(dates) + np.timedelta64(1, "D")
    within = np.clip(traces.times, *(int(end.astype("datetime64[us]").astype(int)) for end in ends))
    pairs, labels = PairWaits.of(replace(traces, times=within)), traces.vocabulary.labels
    names = ((labels[key >> 32], labels[key & 0x7FFFFFFF]) for key in pairs.keys.tolist())
    return dict(zip(names, pairs.means_us.tolist(), strict=True))


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
        traces = public_log(logs_folder, file)
        for epsilon, key in ((e, k) for e in ("1", "4", "16") for k in range(n_keys)):
            rows = figures_of(traces, epsilon, key)
            truth = waits_within(traces, rows)
            for row in rows:
                if row.name == "mean_wait_us":
                    within[row.grade].append(row.low <= truth.get(row.of, 0.0) <= row.high)
    for grade in ("good", "rough"):
        assert len(within[grade]) > 50
        assert np.mean(within[grade]) >= 0.93 - 0.03, grade

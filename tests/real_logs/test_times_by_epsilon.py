"""More budget makes nothing worse: errors of `private-log` at epsilon 1 and 16, on public logs.

Vocabulary and length are the logs' own, as if they were public; dates and clip are bought. The logs
are not part of the project; TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.real_logs import public_log
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.examination.measure.case_times import CaseTimes
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.logs

TIMES = (
    "case_duration_distance", "top_variant_duration_error", "big_pair_wait_error",
    "misplaced_waiting_time",
)  # fmt: skip
# At epsilon 1 most of the ten variants of these are not released, which counts as an error of 1;
# at 16 they are, with the times of a few cases each.
_MISSING = ("sepsis.xes.gz",)


def arcs_of(traces: TraceBatch) -> Counter[tuple[int, int]]:
    graph = DirectlyFollows.from_traces(traces)
    arcs = zip(graph.sources.tolist(), graph.targets.tolist(), graph.counts.tolist(), strict=True)
    return Counter({(a, b): n for a, b, n in arcs})


def variants_of(traces: TraceBatch) -> Counter[tuple[int, ...]]:
    found = VariantHistogram.from_traces(traces)
    ends = found.offsets.tolist()
    return Counter(
        {
            tuple(found.codes[first:last].tolist()): n
            for first, last, n in zip(ends, ends[1:], found.counts.tolist(), strict=False)
        }
    )


def distance(a: Counter, b: Counter) -> float:
    """Half the sum of the absolute differences of shares."""
    keys = a.keys() | b.keys()
    return sum(abs(a[key] / a.total() - b[key] / b.total()) for key in keys) / 2


def errors_of(traces: TraceBatch, measure: CaseTimes, epsilon: str, key: int) -> dict[str, float]:
    params = PrivateLog.Params(
        epsilon=epsilon,
        vocabulary=tuple(traces.vocabulary.names.to_pylist()),
        max_trace_length=int(traces.lengths.max()),
    )
    made = anonymise([traces], PrivateLog(), params, release_key(key), "errors", "d" * 8)
    released = made.traces[0].recode(traces.vocabulary)
    figures = measure.figures(released)
    ranks = np.linspace(0, 1, 101)
    starts, others = (np.quantile(log.starts, ranks) for log in (traces, released))
    return {
        **{name: float(figures[name] or 0.0) for name in TIMES},
        "starts": float(np.abs(starts - others).mean()),
        "graph": distance(arcs_of(traces), arcs_of(released)),
        "variants": distance(variants_of(traces), variants_of(released)),
    }


@pytest.mark.parametrize(
    ("file", "n_keys"),
    [
        ("bpic2013_closed.xes.gz", 5),
        *(at_night(file, 20) for file in (
            "bpic2013_closed.xes.gz", "bpic13_open.xes.gz", "bpic20_prepaid.xes.gz",
            "coselog_receipt.xes.gz", "sepsis.xes.gz", "traffic_fines.parquet",
            "hospital_billing.parquet", "academic_credentials.xes.gz",
            "purchasing_example.xes.gz", "renting_log_high.xes.gz", "bpic2013_incidents.xes.gz",
            "unrineweginfectie.xes.gz",
        )),
    ],
)  # fmt: skip
def test_no_error_is_larger_with_more_budget(logs_folder: Path, file: str, n_keys: int) -> None:
    """Medians over keys, beyond the distance of the quartiles of the smaller budget."""
    traces = public_log(logs_folder, file)
    measure = CaseTimes(traces)
    found = {
        epsilon: [errors_of(traces, measure, epsilon, key) for key in range(n_keys)]
        for epsilon in ("1", "16")
    }
    for name in found["1"][0]:
        if name == "top_variant_duration_error" and file in _MISSING:
            continue
        few, many = ([row[name] for row in found[epsilon]] for epsilon in ("1", "16"))
        spread = float(np.subtract(*np.quantile(few, [0.75, 0.25])))
        assert np.median(many) <= np.median(few) + spread, name

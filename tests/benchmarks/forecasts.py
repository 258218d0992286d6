"""Compares what `plan` expects with what is released: `python -m tests.benchmarks.forecasts FILE`.

A cell is a public log, a method and an epsilon. Its result is the median error of the counts of the
graph over five keys. It is compared with two ranges: the one of public numbers alone, and the one
with the number of variants declared. Nothing of a log but its declared
numbers enters a range: its activities, cases, variants, and as max_trace_length a round number that
is above the length of 95 % of its cases. FILE keeps what is measured, so that it goes on from
there; TRACECLOAK_LOGS names the folder of the logs.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.real_logs.ways_by_cell import LOGS
from tests.support.real_logs import public_log
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.planning.utility import ends_at, estimate_utility_of_log
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram

ALL_LOGS = (*LOGS, "bpic13_open.xes.gz", "bpic20_prepaid.xes.gz", "insurance_claims.csv.gz")
NAMES, EPSILONS = ("private-dfg", "auto-variants", "private-log"), ("0.5", "1", "4")
_LENGTHS = (2, 3, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200)
# Others than those of the synthetic logs.
_KEYS = [ReleaseKey(number.to_bytes(32, "big")) for number in range(100, 105)]
LABELS = ("public", "number")


def measured(traces: TraceBatch, name: str, epsilon: str) -> dict[str, Any]:
    """Returns the result of a cell, and the ranges that are expected of it by what is declared."""
    method: Any = METHODS[name]
    n_variants = VariantHistogram.from_traces(traces).n_variants
    used = np.unique(traces.activities)
    longest = np.quantile(traces.lengths, 0.95)
    params = method.Params(
        epsilon=epsilon,
        vocabulary=tuple(traces.vocabulary.names.take(used).to_pylist()),
        max_trace_length=next(length for length in _LENGTHS if length >= longest),
    )
    errors = [
        estimate_utility_of_log(method, params, traces, key).graph_error or 0.0 for key in _KEYS
    ]
    ranges = {
        label: [end.graph_error for end in ends_at(method, params, traces.n_cases, declared)]
        for label, declared in (("public", None), ("number", n_variants))
    }
    return {"result": statistics.median(errors), **ranges}


def main(kept: Path) -> None:
    """Measures the cells that are not kept yet, prints all of them, and how many are inside."""
    found: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
    n_inside = dict.fromkeys(LABELS, 0)
    for file in ALL_LOGS:
        traces = public_log(Path(os.environ["TRACECLOAK_LOGS"]), file)
        for name, epsilon in itertools.product(NAMES, EPSILONS):
            key = f"{file.split('.')[0]} {name} {epsilon}"
            if key not in found:
                found[key] = measured(traces, name, epsilon)
                kept.write_text(json.dumps(found, indent=1))
            print(key, found[key], flush=True)
            for label in LABELS:
                low, high = found[key][label]
                n_inside[label] += low <= found[key]["result"] <= high
    print(f"inside, of {len(found)}: {n_inside}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

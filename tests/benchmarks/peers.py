"""The same tasks by the code of others, as far as it is installed; each in a process of its own.

Two tasks: a directly-follows graph with epsilon 1 and delta 1e-6 over the pairs of public
activities, to which a case gives at most 12 pairs, by OpenDP, PipelineDP and, with no privacy,
pm4py; and the query of SaCoFa, as published, by pm4py. What they lack is written as their users
would, with polars. All are whole processes with their imports: ours is the command, with its ledger
and its page, and theirs a script that keeps nothing. PEERS_PYTHON names a Python that has
PipelineDP, which is not among this project's libraries.

`python -m tests.benchmarks.peers WAY LOG ACTIVITIES` runs such a script.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

N_CASES = 25_000
_N_SMALL = 1_000
_MAX_PAIRS = 12
_EPSILON, _DELTA = 1.0, 1e-6
_PREFIX, _PRUNING = 8, 20


def opendp(path: str, activities: list[str]) -> int:
    """Counts of pairs by OpenDP's half for polars, with keys that are public."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")

    pairs = _pairs(pl, path)
    keys = pl.DataFrame(
        [(a, b) for a in activities for b in activities], ["activity", "next"], orient="row"
    )
    context = dp.Context.compositor(
        data=pairs,
        privacy_unit=dp.unit_of(contributions=_MAX_PAIRS, identifier="case_id"),
        privacy_loss=dp.loss_of(epsilon=_EPSILON, delta=_DELTA),
        split_evenly_over=1,
    )
    query = (
        context.query()
        .truncate_per_group(_MAX_PAIRS)
        .group_by("activity", "next")
        .agg(dp.len())
        .with_keys(keys)
    )
    return len(query.release().collect())


def pipeline_dp(path: str, activities: list[str]) -> int:
    """Counts of pairs by PipelineDP, in one process without Beam or Spark."""
    import pipeline_dp as pdp
    import pyarrow.parquet as pq

    budget = pdp.NaiveBudgetAccountant(total_epsilon=_EPSILON, total_delta=_DELTA)
    engine = pdp.DPEngine(budget, pdp.LocalBackend())
    table = pq.read_table(path)
    rows = list(_rows(*(table.column(name).to_pylist() for name in ("case_id", "activity"))))
    result = engine.aggregate(
        rows,
        pdp.AggregateParams(
            metrics=[pdp.Metrics.COUNT],
            noise_kind=pdp.NoiseKind.GAUSSIAN,
            max_partitions_contributed=_MAX_PAIRS,
            max_contributions_per_partition=1,
        ),
        pdp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: 0,
        ),
        public_partitions=[(a, b) for a in activities for b in activities],
    )
    budget.compute_budgets()
    return len(list(result))


def pm4py_graph(path: str, activities: list[str]) -> int:
    """A graph without privacy by pm4py, from a frame of pandas."""
    import pandas as pd
    from pm4py.algo.discovery.dfg.adapters.pandas import df_statistics

    frame = pd.read_parquet(path)
    graph = df_statistics.get_dfg_graph(
        frame,
        activity_key="activity",
        timestamp_key="timestamp",
        case_id_glue="case_id",
        start_timestamp_key=None,
    )
    return len(graph)


def pm4py_sacofa(path: str, activities: list[str]) -> int:
    """The query of SaCoFa by pm4py, from XES."""
    from pm4py.algo.anonymization.trace_variant_query import algorithm
    from pm4py.objects.log.importer.xes import importer

    parameters: dict[str, Any] = {"epsilon": _EPSILON, "k": _PREFIX, "p": _PRUNING}
    variant = algorithm.Variants.SACOFA
    return len(algorithm.apply(importer.apply(path), variant, parameters))


def _pairs(pl: Any, path: str) -> Any:
    """Pairs that follow each other in a case, as a lazy frame of polars."""
    events = pl.scan_parquet(path).sort("case_id", "timestamp", maintain_order=True)
    following = pl.col("activity").shift(-1).over("case_id").alias("next")
    return events.select("case_id", "activity", following).drop_nulls()


def _rows(cases: list[str], activities: list[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Pairs of a log that has its cases one after the other, in order of time."""
    for i in range(len(cases) - 1):
        if cases[i] == cases[i + 1]:
            yield cases[i], (activities[i], activities[i + 1])


WAYS: dict[str, Callable[[str, list[str]], int]] = {
    "OpenDP": opendp,
    "PipelineDP": pipeline_dp,
    "pm4py, no privacy": pm4py_graph,
    "pm4py, SaCoFa": pm4py_sacofa,
}


def main() -> None:
    """Prints the measurements and their ratios."""
    # This module is also run by a Python without this project's libraries.
    from tests.benchmarks.harness import Work, in_turn, ratio
    from tests.benchmarks.logs import N_EVENTS, sample, vocabulary
    from tests.benchmarks.whole import flags_of, release

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        activities = vocabulary(folder)

        def of(way: str, log: Path, n_cases: int, python: str = sys.executable) -> Work:
            arguments = ("-m", "tests.benchmarks.peers", way, str(log), str(activities))
            return Work(way, arguments, N_EVENTS[n_cases], python=python)

        log = sample(folder, N_CASES)
        theirs = [of("OpenDP", log, N_CASES), of("pm4py, no privacy", log, N_CASES)]
        other = os.environ.get("PEERS_PYTHON", sys.executable)
        if _has_pipeline_dp(other):
            theirs.append(of("PipelineDP", log, N_CASES, other))
        else:
            print("PipelineDP is left out: it is not installed where PEERS_PYTHON points")
        ours = release(
            "private-dfg of 25,000 cases in memory", "private-dfg", "InMemory", log, N_CASES,
            *flags_of("private-dfg", activities),
        )  # fmt: skip
        runs = in_turn([ours, *theirs])
        for work in theirs:
            ratio(f"{ours.name} / {work.name}", runs[ours.name].over(runs[work.name]))

        small = sample(folder, _N_SMALL, "xes")
        peer = of("pm4py, SaCoFa", small, _N_SMALL)
        sacofa = release(
            "sacofa of 1,000 cases in memory", "sacofa", "InMemory", small, _N_SMALL,
            "--epsilon", str(_EPSILON), "--vocabulary", str(activities),
            "--max_prefix_length", str(_PREFIX), "--p_harmful", str(_PRUNING),
        )  # fmt: skip
        runs = in_turn([sacofa, peer])
        ratio(f"{sacofa.name} / {peer.name}", runs[sacofa.name].over(runs[peer.name]))


def _has_pipeline_dp(python: str) -> bool:
    code = "import pipeline_dp, pyarrow"
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        way, path, names = sys.argv[1:]
        print(WAYS[way](path, Path(names).read_text(encoding="utf-8").splitlines()))

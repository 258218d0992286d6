"""Counting of a log in several ways, which the benchmarks compare; each in a process of its own.

`python -m tests.benchmarks.work NAME LOG` prints what it took of the processor, and what
was counted. Imports are not timed; reading the Parquet file is.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam import pvalue

from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.pipelines.runners.memory import keep_freed_memory
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import Dafsa, DirectlyFollows, VariantHistogram
from tracecloak.transforms.batch.read import ReadFiles
from tracecloak.transforms.batch.traces import CountStatistics, GroupIntoTraces, total
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.sources import EventSource

Counts = dict[str, int]
_SHARDS = 16
# What a stage counted, in this process.
_found: Counts = {}


def source_of(path: str) -> EventSource:
    return EventSource(tuple(match_files([path])), SourceFormat(), ColumnMapping())


def finish(variants: VariantHistogram, graph: DirectlyFollows) -> Counts:
    """The DAFSA and its contingency table, and what tells that two ways counted the same."""
    dafsa = Dafsa.from_variants(variants)
    table = dafsa.contingency_table(dafsa.variants.counts)
    return {
        "cases": variants.n_cases,
        "variants": variants.n_variants,
        "pairs": len(graph.counts),
        "pair_occurrences": int(graph.counts.sum()),
        "transitions": dafsa.n_transitions,
        "table": int((table * (np.arange(len(table)) % 1009)).sum()),
    }


def bare_kernels(path: str) -> Counts:
    """No Beam: read, sort, variants, directly-follows, DAFSA, contingency table."""
    source = source_of(path)
    batches = [events for file in source.files for events, _ in source.read(file)]
    (traces,) = group_into_traces(batches, 1)
    return finish(VariantHistogram.from_traces(traces), DirectlyFollows.from_traces(traces))


def _count(traces: TraceBatch) -> dict[str, Any]:
    return {
        "variants": VariantHistogram.from_traces(traces),
        "graph": DirectlyFollows.from_traces(traces),
    }


_KINDS: dict[str, Any] = {"variants": VariantHistogram, "graph": DirectlyFollows}


def _finish(once: None, parts: Iterable[Statistics]) -> None:
    found = total(_KINDS, parts)
    _found.update(finish(found["variants"], found["graph"]))


def columnar_beam(path: str) -> Counts:
    """The same on Beam, as tracecloak does it."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        read = pipeline | ReadFiles(source_of(path))
        grouped = read["events"] | GroupIntoTraces(_SHARDS)
        totals = grouped | "Count" >> CountStatistics(_KINDS, _count)
        _ = (
            pipeline
            | "Once" >> beam.Create([None])
            | "Finish" >> beam.Map(_finish, pvalue.AsIter(totals))
        )
    return dict(_found)


# --- The per-event way: one element an event, one call a case, dictionaries of tuples -----------


def _rows(row_group: int, path: str) -> Iterator[tuple[str, tuple[Any, int, str]]]:
    table = pq.ParquetFile(path).read_row_group(row_group)
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    for index, (case, activity, stamp) in enumerate(rows):
        yield case, (stamp, row_group << 40 | index, activity)


def _variant(case: tuple[str, Iterable[tuple[Any, int, str]]]) -> tuple[str, ...]:
    return tuple(activity for _, _, activity in sorted(case[1]))


def _pairs(variant: tuple[str, ...]) -> Iterator[tuple[tuple[str, str], int]]:
    for pair in zip(("▶", *variant), (*variant, "■"), strict=True):
        yield pair, 1


def _with_one(variant: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    return variant, 1


def _finish_per_event(
    once: Any, variants: list[tuple[tuple[str, ...], int]], pairs: list[tuple[tuple[str, str], int]]
) -> None:
    """The automaton is the same kernel's in both ways: only the counting is compared."""
    names = {a: code for code, a in enumerate(sorted({a for v, _ in variants for a in v}))}
    lengths = np.array([len(v) for v, _ in variants])
    codes = np.array([names[a] for v, _ in variants for a in v], np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    histogram = VariantHistogram.of(
        encode_sequences(offsets, codes), np.array([n for _, n in variants])
    )
    counts = np.array([n for _, n in pairs])
    none = np.zeros(len(counts), np.int32)
    _found.update(finish(histogram, DirectlyFollows(none, none, counts)))


def per_event_beam(path: str) -> Counts:
    """The same counting per event on Beam."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        variants = (
            pipeline
            | beam.Create(range(pq.ParquetFile(path).num_row_groups))
            | beam.Reshuffle()
            | beam.FlatMap(_rows, path)
            | beam.GroupByKey()
            | beam.Map(_variant)
        )
        counted = variants | beam.Map(_with_one) | "Variants" >> beam.CombinePerKey(sum)
        pairs = variants | beam.FlatMap(_pairs) | "Pairs" >> beam.CombinePerKey(sum)
        _ = (
            pipeline
            | "Once" >> beam.Create([None])
            | beam.Map(_finish_per_event, beam.pvalue.AsList(counted), beam.pvalue.AsList(pairs))
        )
    return dict(_found)


# --- The same by other libraries --------------------------------------------------------------


def polars_counts(path: str) -> Counts:
    """Variants and directly-follows pairs by polars, from the same file."""
    import polars as pl

    events = pl.read_parquet(path).with_columns(pl.col(_ACTIVITY).cast(pl.Categorical))
    events = events.sort(_CASE, _STAMP, maintain_order=True)
    by_case = events.group_by(_CASE, maintain_order=True).agg(_ACTIVITY)
    variants = by_case.group_by(_ACTIVITY).len()
    follows = events.select(
        pl.col(_ACTIVITY),
        pl.col(_ACTIVITY).shift(-1).alias("next"),
        pl.col(_CASE).eq(pl.col(_CASE).shift(-1)).alias("is_pair"),
    )
    pairs = follows.filter("is_pair").group_by(_ACTIVITY, "next").len()
    return {
        "cases": len(by_case),
        "variants": len(variants),
        "pair_occurrences": int(pairs["len"].sum()) + 2 * len(by_case),
    }


def duckdb_counts(path: str) -> Counts:
    """Variants and directly-follows pairs by DuckDB, from the same file."""
    import duckdb

    database = duckdb.connect()
    database.execute(
        f"""CREATE TABLE event AS SELECT "{_CASE}" AS c, "{_ACTIVITY}" AS a, "{_STAMP}" AS t,
            file_row_number AS n FROM read_parquet(?, file_row_number = true)""",
        [path],
    )
    n_cases, n_variants = database.sql(
        """SELECT sum(k), count(*) FROM (SELECT v, count(*) AS k FROM
           (SELECT list(a ORDER BY t, n) AS v FROM event GROUP BY c) GROUP BY v)"""
    ).fetchall()[0]
    pairs = database.sql(
        """SELECT a, b, count(*) FROM (SELECT a, lead(a) OVER (PARTITION BY c ORDER BY t, n) AS b
           FROM event) WHERE b IS NOT NULL GROUP BY a, b"""
    ).fetchall()
    return {
        "cases": int(n_cases),
        "variants": n_variants,
        "pair_occurrences": sum(n for _, _, n in pairs) + 2 * int(n_cases),
    }


_CASE, _ACTIVITY, _STAMP = "case_id", "activity", "timestamp"


WORK: dict[str, Callable[[str], Counts]] = {
    "bare kernels": bare_kernels,
    "columnar Beam": columnar_beam,
    "per-event Beam": per_event_beam,
    "polars": polars_counts,
    "DuckDB": duckdb_counts,
}


if __name__ == "__main__":
    # Not as __main__, whose functions workers would get copies of.
    from tests.benchmarks import work

    name, path = sys.argv[1], sys.argv[2]
    sys.argv[1:] = []  # which Beam would read
    keep_freed_memory()  # as the command does
    pa.set_memory_pool(pa.system_memory_pool())  # which was loaded before
    began = time.process_time()
    counts = work.WORK[name](path)
    print(json.dumps({"seconds": time.process_time() - began, "counts": counts}))

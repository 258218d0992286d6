"""Reads a log in every format, beside other libraries; each in a process of its own.

`python -m tests.benchmarks.reading WAY LOG SMALL` prints what it took of the processor and how many
records there were; a small log was read before, so no import counts. A way of another library ends
with its own table, and checks nothing; ours ends with canonical events and rejects.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.harness import Work, in_turn, ratio
from tests.benchmarks.logs import N_EVENTS, sample

N_CASES = 50_000
_N_SMALL = 1_000
# Millions of events a second that one core should read.
GOALS = {"parquet": 3, "csv": 1.5, "jsonl": 1, "avro": 1, "xes": 0.22}


def _ours(path: str) -> int:
    from tracecloak.schemas.events.columns import ColumnMapping
    from tracecloak.transforms.formats.registry import SourceFormat
    from tracecloak.transforms.inputs.source_files import match_files
    from tracecloak.transforms.sources import EventSource

    source = EventSource(tuple(match_files([path])), SourceFormat(), ColumnMapping())
    return sum(events.num_rows for file in source.files for events, _ in source.read(file))


def _arrow(path: str) -> int:
    ending = Path(path).suffix
    name = {".csv": "csv", ".jsonl": "json", ".parquet": "parquet"}[ending]
    module = importlib.import_module(f"pyarrow.{name}")
    read = module.read_table if name == "parquet" else getattr(module, f"read_{name}")
    return int(read(path).num_rows)


def _polars(path: str) -> int:
    import polars as pl

    ways = {".csv": pl.read_csv, ".jsonl": pl.read_ndjson, ".avro": pl.read_avro}
    return len(ways.get(Path(path).suffix, pl.read_parquet)(path))


def _fastavro(path: str) -> int:
    import fastavro

    with open(path, "rb") as stream:
        return len(list(fastavro.reader(stream)))


def _r4pm(path: str) -> int:
    import r4pm

    events, _ = r4pm.df.import_xes(path)
    return len(events)


def _pm4py(path: str) -> int:
    from pm4py.objects.log.importer.xes import importer

    log = importer.apply(path, variant=importer.Variants.ITERPARSE)
    return sum(map(len, log))


WAYS: dict[str, Callable[[str], int]] = {
    "tracecloak": _ours,
    "Arrow": _arrow,
    "polars": _polars,
    "fastavro": _fastavro,
    "r4pm": _r4pm,
    "pm4py": _pm4py,
}
BESIDE = {
    "parquet": ("Arrow", "polars"),
    "csv": ("Arrow", "polars"),
    "jsonl": ("Arrow", "polars"),
    "avro": ("fastavro", "polars"),
    "xes": ("r4pm", "pm4py"),
}


def main() -> None:
    """Prints the rates and their ratios."""
    with tempfile.TemporaryDirectory() as name:
        for ending, goal in GOALS.items():
            log, small = (sample(Path(name), n_cases, ending) for n_cases in (N_CASES, _N_SMALL))
            n_events = N_EVENTS[N_CASES]
            works = {
                way: Work(
                    f"reading {ending} by {way}",
                    ("-m", "tests.benchmarks.reading", way, str(log), str(small)),
                    n_events,
                    says_seconds=True,
                )
                for way in ("tracecloak", *BESIDE[ending])
            }
            runs = in_turn(list(works.values()))
            ours = runs[works["tracecloak"].name]
            if ours.counts["events"] != n_events:
                raise SystemExit(f"{ending}: {ours.counts['events']} events, not {n_events}")
            for way in BESIDE[ending]:
                ratio(f"reading {ending} / {way}", ours.over(runs[works[way].name]))
            print(f"{ending}: {n_events / ours.seconds / 1e6:.2f} M events/s, goal {goal}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        way, path, small_path = sys.argv[1:]
        WAYS[way](small_path)
        began = time.process_time()
        n = WAYS[way](path)
        print(json.dumps({"seconds": time.process_time() - began, "counts": {"events": n}}))

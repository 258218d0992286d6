"""From decoded messages to closed cases, on Beam as tracecloak does it, and per event.

100,000 cases are open at once. Both count the same cases; a rate is events a second and core.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from tests.benchmarks.harness import Work, ratio, run
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.stream.beam_stages import AssembleCases

N_CASES = int(os.environ.get("BENCHMARK_CASES", 100_000))
STEPS_OF_A_CASE = ("Registration", "Triage", "CRP", "Discharge home")
PER_BATCH = 4_096
_S = 1_000_000
KEY = KeyReference("env:BENCHMARK_KEY")
RULE = ClosingRule(
    STEPS_OF_A_CASE,
    period_us=60 * _S,
    inactivity_gap_us=3_600 * _S,
    max_lifetime_us=36_000 * _S,
    max_disorder_us=_S,
    max_trace_length=50,
    tombstone_us=3_600 * _S,
    end_activities=STEPS_OF_A_CASE[-1:],
    release_delay_us=600 * _S,
)
# More than all rounds take: an event after the last step does not count.
N_STEPS = 1_000
_found = {"cases": 0, "events": 0}


def decoded() -> Iterator[pa.RecordBatch]:
    """Batches as `DecodeMessages` gives them; in each round every case has its next step."""
    schema = MessageFormat(ColumnMapping()).schema
    n_rounds = len(STEPS_OF_A_CASE)
    for first in range(0, n_rounds * N_CASES, PER_BATCH):
        row = np.arange(first, min(first + PER_BATCH, n_rounds * N_CASES))
        case = pa.array([f"case-{c:06d}" for c in (row * 7_919) % N_CASES])
        columns = {
            "case_id": case.dictionary_encode(),
            "activity": pa.array([STEPS_OF_A_CASE[r] for r in row // N_CASES]).dictionary_encode(),
            "timestamp": pa.array(row * 1_000, pa.int64()),
            "event_id": pa.array([f"event-{r}" for r in row]),
            "publish_time": pa.array(row * 1_000, pa.int64()),
        }
        yield pa.RecordBatch.from_arrays(
            [
                columns[field.name].cast(field.type)
                if field.name in columns
                else pa.nulls(len(row), field.type)
                for field in schema
            ],
            schema=schema,
        )


def _note(closed: tuple[int, TraceBatch]) -> None:
    _found["cases"] += closed[1].n_cases
    _found["events"] += closed[1].n_events


def _streamed(elements: Iterable[tuple[float, Any]], coder: Any = None) -> TestStream:
    """Elements at their seconds; the watermark follows them."""
    stream = TestStream(coder) if coder else TestStream()
    stream = stream.advance_watermark_to(-1)
    for second, values in elements:
        stream = stream.add_elements([TimestampedValue(value, second) for value in values])
        stream = stream.advance_watermark_to(second)
    for second in range(500, 10_000, 300):
        stream = stream.advance_watermark_to(second)
    return stream.advance_watermark_to_infinity()


def columnar() -> None:
    """AssembleCases on the local streaming runner, in one shard."""
    batches = [(float(b.column("publish_time")[0].as_py()) / _S, [b]) for b in decoded()]
    options = PipelineOptions(streaming=True, runner="BundleBasedDirectRunner")
    with beam.Pipeline(options=options) as pipeline:
        _ = pipeline | _streamed(batches) | AssembleCases(RULE, KEY, N_STEPS, 1) | beam.Map(_note)


class _PerCase(beam.DoFn):
    """The usual way: a state for each case, a call for each event."""

    EVENTS = beam.DoFn.StateParam(BagStateSpec("events", FastPrimitivesCoder()))
    CLOSING = TimerSpec("close", TimeDomain.WATERMARK)
    TIMER = beam.DoFn.TimerParam(CLOSING)

    def process(
        self, element: tuple[str, tuple[int, str, str]], events: Any = EVENTS, timer: Any = TIMER
    ) -> None:
        _, (publish, _, activity) = element
        events.add(element[1])
        wait = RULE.max_disorder_us if activity in RULE.end_activities else RULE.inactivity_gap_us
        timer.set(Timestamp(micros=publish + wait))

    @on_timer(CLOSING)  # type: ignore[untyped-decorator]
    def close(self, events: Any = EVENTS) -> Iterable[list[str]]:
        distinct = {event[1]: event for event in events.read()}
        yield [activity for _, _, activity in sorted(distinct.values())]
        events.clear()


def _note_case(activities: list[str]) -> None:
    _found["cases"] += 1
    _found["events"] += len(activities)


def per_event() -> None:
    """A state a case."""
    rows = [
        (
            float(b.column("publish_time")[0].as_py()) / _S,
            [
                (row["case_id"], (row["publish_time"], row["event_id"], row["activity"]))
                for row in b.to_pylist()
            ],
        )
        for b in decoded()
    ]
    options = PipelineOptions(streaming=True, runner="BundleBasedDirectRunner")
    with beam.Pipeline(options=options) as pipeline:
        _ = pipeline | _streamed(rows) | beam.ParDo(_PerCase()) | beam.Map(_note_case)


WORK: dict[str, Callable[[], None]] = {"columnar stream": columnar, "per-event stream": per_event}


def measure(name: str) -> dict[str, Any]:
    """Runs one piece of work in this process; making its messages is not timed."""
    begun = time.process_time()
    _ = list(decoded())
    made = time.process_time()
    WORK[name]()
    spent = (time.process_time() - made) - (made - begun)  # they are made again inside
    return {"seconds": spent, "counts": _found}


def main() -> None:
    """Prints the rates and their ratios."""
    os.environ["BENCHMARK_KEY"] = "5a" * 32
    rates = {}
    for name in WORK:
        # Per event the local runner slows down with the cases that are open: a tenth must do.
        n_cases = N_CASES // 10 if name == "per-event stream" else N_CASES
        n_events = n_cases * len(STEPS_OF_A_CASE)
        os.environ["BENCHMARK_CASES"] = str(n_cases)
        arguments = ("-m", "tests.benchmarks.streaming", name)
        found = run(Work(name, arguments, n_events, says_seconds=True))
        assert found.counts == {"cases": n_cases, "events": n_events}
        rates[name] = n_events / found.seconds
        print(
            f"{name:28s} {rates[name]:10,.0f} events a second and core   "
            f"peak {found.peak_mb:7.0f} MB"
        )
    rate = rates["columnar stream"]
    ratio("columnar stream, 20,000 events a second and core", rate / 20_000, 1, at_most=False)
    ratio("columnar / per-event stream", rate / rates["per-event stream"], 2.4, at_most=False)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        # Not as __main__, whose functions workers would get copies of.
        from tests.benchmarks import streaming

        name, sys.argv[1:] = sys.argv[1], []  # which Beam would read
        print(json.dumps(streaming.measure(name)))

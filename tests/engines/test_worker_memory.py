"""Counting on more workers of Flink divides what the largest of them holds in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.engines.fetching import or_skip
from tests.engines.flink import flink_cluster, flink_job_server, worker_pool
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import Dafsa, VariantHistogram
from tracecloak.transforms.batch.traces import CountStatistics, once, total

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1200)]

KINDS = {"variants": VariantHistogram}
N_BATCHES, N_MERGED, N_CASES, N_EVENTS = 64, 16, 10_000, 20
NAMES = ActivityVocabulary.public(tuple(f"a{number:02d}" for number in range(30)), True)
# Of the largest of 4 task managers, as a share of what one alone takes.
MAX_SHARE = 0.5
# What the automaton takes of an event of the variants; see `Dafsa.from_variants`.
MAX_EVENT_BYTES = 180
LOOK_SECONDS = 0.05


def batch(number: int) -> TraceBatch:
    """Returns cases of 20 events, of which hardly two are alike."""
    activities = np.random.default_rng(number).integers(0, len(NAMES), N_CASES * N_EVENTS)
    offsets = np.arange(0, len(activities) + 1, N_EVENTS)
    return TraceBatch(
        case_ids=pa.array([f"{number}-{case}" for case in range(N_CASES)]),
        vocabulary=NAMES,
        offsets=offsets,
        activities=activities.astype(np.int32),
        times=np.arange(len(activities)),
    )


def variants(traces: TraceBatch) -> dict[str, VariantHistogram]:
    """Counts the variants of a batch."""
    return {"variants": VariantHistogram.from_traces(traces)}


def idle(pipeline: beam.Pipeline) -> None:
    """Has each worker load what counting loads, and make batches."""
    batches = pipeline | beam.Create(range(8)) | beam.Reshuffle() | beam.Map(batch)
    _ = batches | "End" >> beam.Map(lambda traces: None)


def counted(pipeline: beam.Pipeline, n_batches: int) -> beam.PCollection[Statistics]:
    """Counts the variants of so many batches."""
    batches = pipeline | beam.Create(range(n_batches)) | beam.Reshuffle() | beam.Map(batch)
    return batches | CountStatistics(KINDS, variants)


def counting(pipeline: beam.Pipeline) -> None:
    """Counts the variants of all batches."""
    _ = counted(pipeline, N_BATCHES) | "End" >> beam.Map(lambda part: None)


def merging(pipeline: beam.Pipeline) -> None:
    """Brings the variants of some batches to one place."""
    parts = beam.pvalue.AsIter(counted(pipeline, N_MERGED))
    _ = once(pipeline, "Merge", lambda parts: [total(KINDS, parts)["variants"].n_variants], parts)


def automaton(pipeline: beam.Pipeline) -> None:
    """Builds the automaton of these variants there."""

    def build(parts: Iterable[Statistics]) -> list[int]:
        return [Dafsa.from_variants(total(KINDS, parts)["variants"]).n_transitions]

    parts = beam.pvalue.AsIter(counted(pipeline, N_MERGED))
    _ = once(pipeline, "Build", build, parts)


def below(pid: int) -> Iterator[int]:
    """Yields the processes that a process began, and theirs."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield child
            yield from below(child)


def peak_mb(pid: int) -> float:
    """Returns what a process held at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def largest_mb(folder: Path, n: int, job: Callable[[beam.Pipeline], None]) -> float:
    """Returns the peak of the largest Python worker of a job on so many task managers."""
    peaks: dict[int, float] = {}
    ended = threading.Event()
    with (
        or_skip(flink_cluster(folder / "cluster", n)) as cluster,
        worker_pool(folder / "pool") as pool,
        flink_job_server(folder / "server", cluster.address) as server,
    ):

        def watch() -> None:
            while not ended.wait(LOOK_SECONDS):
                for pid in below(pool.process.pid):
                    try:
                        peaks[pid] = max(peaks.get(pid, 0), peak_mb(pid))
                    except (OSError, IndexError):  # it ended meanwhile
                        continue

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            flags = [*server.flags(n, pool), "--environment_cache_millis=60000"]
            with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
                job(pipeline)
        finally:
            ended.set()
            watcher.join()
    return max(peaks.values())


def test_the_largest_worker_of_four_holds_at_most_half_of_what_one_would(tmp_path: Path) -> None:
    held = {
        n: largest_mb(tmp_path / f"counting-{n}", n, counting)
        - largest_mb(tmp_path / f"idle-{n}", n, idle)
        for n in (1, 4)
    }
    assert held[1] > 100, held  # otherwise it shows nothing
    assert held[4] <= MAX_SHARE * held[1], held


def test_the_automaton_takes_at_most_what_is_stated(tmp_path: Path) -> None:
    with_it = largest_mb(tmp_path / "automaton", 1, automaton)
    without = largest_mb(tmp_path / "merged", 1, merging)
    stated = MAX_EVENT_BYTES * N_MERGED * N_CASES * N_EVENTS / (1 << 20)
    assert 0 < with_it - without <= stated, (with_it, without, stated)

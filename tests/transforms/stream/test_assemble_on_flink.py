"""The streaming core on Apache Flink gives the cases and steps of the kernel without Beam.

Only what is called `flink` runs on it; `stand-in` is a rehearsal, see `tests.support.flink`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.windowed_value import PaneInfoTiming

from tests.support.flink import KIND_PARAMS, flags, job_server
from tests.support.replay import (
    Record,
    ReplayAtOnce,
    ReplayInSteps,
    WriteFound,
    cases_of,
    read_found,
    read_messages,
    write_messages,
)
from tests.support.tiers import at_night
from tracecloak.anonymizers.streams.identities import Identities
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.open_cases import OpenCases
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.stream.assemble import AssembleCases
from tracecloak.transforms.stream.messages import EVENTS, DecodeMessages

S = 1_000_000
RULE = ClosingRule(
    vocabulary=("A", "B", "C", "END"),
    period_us=10 * S,
    inactivity_gap_us=12 * S,
    max_lifetime_us=60 * S,
    max_disorder_us=3 * S,
    max_trace_length=5,
    tombstone_us=1_000 * S,
    end_activities=("END",),
    release_delay_us=10 * S,
)
LAYOUT = MessageFormat(ColumnMapping(timestamp_unit="us"))
N_CASES = 60
# What is published in so many microseconds is read before the watermark moves on.
STEP_US = 15 * S
LIMIT_MS = 60_000


@pytest.fixture(scope="module", params=KIND_PARAMS)
def endpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    with job_server(request.param, tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture
def key(tmp_path: Path) -> KeyReference:
    (tmp_path / "stream.key").write_text("5a" * 32)
    return KeyReference(f"file:{tmp_path / 'stream.key'}")


def hospital_messages() -> Iterator[Record]:
    """Messages of cases that end in every way, a tenth of them delivered twice."""
    rng = np.random.default_rng(8)
    for case in range(N_CASES):
        second = float(rng.integers(0, 90))
        for i in range(int(rng.integers(1, 9))):
            name = str(rng.choice(["A", "B", "C", "D", "END"], p=[0.3, 0.2, 0.2, 0.2, 0.1]))
            publish = int(second * S)
            body = {
                "case_id": f"c{case}",
                "activity": name,
                "timestamp": publish - int(rng.integers(0, 3 * S)),
                "event_id": f"{case}.{i}",
            }
            for _ in range(1 + (rng.random() < 0.1)):
                yield Record(publish, body)
            second += float(rng.exponential(5))


def without_beam(path: Path, key: KeyReference) -> list[Any]:
    """What a single addition and a single closing of the kernel give."""
    records = read_messages(str(path))
    events, rejects = LAYOUT.decode([r.message() for r in records], [r.publish for r in records])
    assert rejects.num_rows == 0
    keyed = Identities(key.resolve()).keyed(events, RULE, False)
    _, steps, _ = OpenCases.none().add(keyed, RULE, 0).close(2**62, RULE, 0)
    return sorted(case for step, traces in steps for case in cases_of(step, traces))


@pytest.mark.parametrize(
    "replay", [ReplayInSteps(STEP_US), at_night(ReplayAtOnce())], ids=["steps", "once"]
)
def test_a_replayed_file_gives_the_cases_of_the_kernel_and_each_step_once(
    tmp_path: Path, endpoint: str, key: KeyReference, replay: beam.DoFn
) -> None:
    """Catches a timer or a window that fires early, twice or never, and state that is mixed up."""
    path, folder = tmp_path / "messages.jsonl", tmp_path / "found"
    folder.mkdir()
    write_messages(path, hospital_messages())
    pipeline = beam.Pipeline(options=PipelineOptions([*flags(endpoint), "--streaming"]))
    messages = (
        pipeline
        | beam.Create([str(path)], reshuffle=False)
        | "Replay" >> beam.ParDo(replay).with_output_types(PubsubMessage)
    )
    closed = (messages | DecodeMessages(LAYOUT))[EVENTS] | AssembleCases(RULE, key, 100, n_shards=3)
    _ = (
        closed
        | "Closed" >> beam.Map(lambda element: ("closed", [element]))
        | "WriteClosed" >> beam.ParDo(WriteFound(str(folder)))
    )
    _ = (
        closed
        | beam.Map(lambda element: ("panes", element)).with_output_types(
            tuple[str, tuple[int, TraceBatch]]
        )
        | beam.GroupByKey()
        | "WritePanes" >> beam.ParDo(WriteFound(str(folder)))
    )
    result = pipeline.run()
    if result.wait_until_finish(duration=LIMIT_MS) != "DONE":
        result.cancel()
        pytest.fail(f"it did not end within {LIMIT_MS} ms")

    expected = without_beam(path, key)
    assert len(expected) == len({case for _, case, _, _ in expected}) == N_CASES
    assert read_found(folder, "closed").cases == expected
    panes = read_found(folder, "panes")
    assert panes.cases == expected
    steps = sorted({step for step, *_ in expected})
    assert len(steps) > 5
    once = [PaneInfoTiming.ON_TIME, 0, True]
    assert panes.panes == [(RULE.release_time(step), once) for step in steps]

"""Beam's own connector on its local runner, read and written for real.

Streams on other runners build on the connector. Those on one machine do not, for what follows.

The servers are those of the conformance tests. Times are real, so the expected steps are computed
from the times of publishing, which a second subscription tells.

How Beam 2.77 reads on BundleBasedDirectRunner, as found here and in its sources:

- It asks for ten messages at a time and acknowledges them before it hands them on. A pipeline that
  ends, however, loses those under way.
- Without a timestamp attribute the time of an element is that of its publishing, in microseconds.
- After each read the watermark is the clock on the wall, whether messages wait or not. What waits
  for longer than a stream's release delay is late and is dropped without a word. With a trivial
  pipeline it read 1,700 messages a second on one of two busy cores.
- A read that finds nothing moves the watermark on, too; while one waits, nothing does.
- A read waits for half a minute. If the service takes longer to say that there is nothing, it is
  tried again, and after four times the pipeline fails.
  While the service cannot be reached each of the four goes on for a minute.
- Writing waits until the service has taken the messages of the bundle.
"""

from __future__ import annotations

import io
import json
import time
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import apache_beam as beam
import fastavro
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage, ReadFromPubSub, WriteToPubSub
from apache_beam.runners.runner import PipelineState

pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub")

from tests.support.pubsub import KIND_PARAMS, Service, running, until
from tests.support.pubsub_double import PubSubDouble
from tests.support.streams import Keep, streaming
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import NO_CASE
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.message_reasons import NEITHER, NOT_JSON
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.stream.assemble import AssembleCases
from tracecloak.transforms.stream.messages import DecodeMessages

S = 1_000_000
NOW = time.time_ns() // 1000
RULE = ClosingRule(
    vocabulary=("A", "B", "END"),
    period_us=S,
    inactivity_gap_us=2 * S,
    max_lifetime_us=20 * S,
    max_disorder_us=S // 2,
    max_trace_length=5,
    tombstone_us=60 * S,
    end_activities=("END",),
    release_delay_us=30 * S,  # also for what waits while a runner starts, on a busy machine
    origin_us=NOW // S * S,
)
SCHEMA = fastavro.parse_schema(
    json.loads(files("tracecloak.schemas.files").joinpath("event.avsc").read_text())
)

_kept: dict[str, list[Any]] = {}


@pytest.fixture(scope="module", params=KIND_PARAMS)
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param) as its_address:
        yield its_address


@pytest.fixture
def service(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("TEST_KEY", "5a" * 32)
    _kept.clear()
    made = Service(address)
    yield made
    made.close()


def body(case: str, activity: str, event_id: str, is_avro: bool) -> bytes:
    event = {"case_id": case, "activity": activity, "timestamp": NOW, "event_id": event_id}
    if not is_avro:
        return json.dumps(event).encode()
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, SCHEMA, event)
    return stream.getvalue()


def keep_pane(grouped: tuple[int, list[Any]], window: Any, pane: Any) -> None:
    _kept.setdefault("panes", []).append((sorted(grouped[1]), window.end.micros, pane))


def keep_reject(rejects: pa.RecordBatch, window: Any, pane: Any) -> None:
    _kept.setdefault("rejects", []).extend(rejects.to_pylist())


def events_of(element: tuple[int, TraceBatch]) -> tuple[int, tuple[int, int]]:
    step, traces = element
    return 0, (step, traces.n_cases)


def count_cases(subscription: str) -> Any:
    def build(pipeline: beam.Pipeline) -> None:
        decoded = (
            pipeline
            | ReadFromPubSub(subscription=subscription, with_attributes=True)
            | DecodeMessages(MessageFormat(ColumnMapping(timestamp_unit="us")))
        )
        _ = decoded["rejects"] | "Rejects" >> beam.ParDo(Keep(keep_reject))
        _ = (
            decoded["events"]
            | AssembleCases(RULE, KeyReference("env:TEST_KEY"), 1_000, n_shards=3)
            | beam.Map(events_of).with_output_types(tuple[int, tuple[int, int]])
            | beam.GroupByKey()
            | "Panes" >> beam.ParDo(Keep(keep_pane))
        )

    return build


def step_of(published: dict[str, int]) -> int:
    """The closing step of a case with these times of publishing, told from the rule."""
    over = ended = 1 << 62  # when the case is over if nothing more comes of it
    for activity, at in sorted(published.items(), key=lambda item: item[1]):
        if at >= over + RULE.max_disorder_us:
            break
        ended = min(ended, at) if activity == "END" else ended
        over = min(at + RULE.inactivity_gap_us, ended)
    return int(RULE.step_of(np.array(over + RULE.max_disorder_us)))


@pytest.mark.slow
def test_cases_of_a_topic_are_counted_once_in_their_steps(service: Service) -> None:
    """Both formats, events published twice, messages that come late, and some that are broken."""
    witness = service.subscribe(service.topic)
    cases = [f"c{i}" for i in range(24)]
    sent: dict[str, tuple[str, str]] = {}

    def publish(activity: str, of: list[str]) -> None:
        for number, case in enumerate(of):
            event_id = f"{case}/{activity}"
            data = body(case, activity, event_id, is_avro=number % 2 == 0)
            # Every third is published twice: two messages, one event.
            for _ in range(2 if number % 3 == 0 else 1):
                (message_id,) = service.publish(data)
                sent[message_id] = (case, activity)

    publish("A", cases)
    # Somebody takes some messages and never acknowledges them.
    stolen = service.pull(most=7)
    service.subscriber.modify_ack_deadline(
        subscription=service.subscription,
        ack_ids=[one.ack_id for one in stolen],
        ack_deadline_seconds=1,
    )
    with streaming(service, count_cases(service.subscription)) as result:
        time.sleep(1.2)
        publish("B", cases[:16])
        broken = service.publish(b"\x00broken", b"{", b"{}")
        publish("END", cases[:8])
        published: dict[str, list[tuple[int, str]]] = {}
        for message in service.drain(witness, n=len(sent) + 3):
            if message.message_id in sent:
                case, activity = sent[message.message_id]
                at = int(message.publish_time.timestamp() * S)
                events = published.setdefault(case, {})
                events[activity] = min(at, events.get(activity, at))
        expected = Counter(step_of(events) for events in published.values())
        until(lambda: counted() == expected, seconds=180)
        time.sleep(RULE.period_us / S)  # nothing comes behind
        assert result.state == PipelineState.RUNNING
    assert result.state == PipelineState.CANCELLED
    assert counted() == expected
    assert sum(expected.values()) == len(cases)
    assert {row["message_id"]: row["reason"] for row in _kept["rejects"]} == {
        broken[0]: NEITHER, broken[1]: NOT_JSON, broken[2]: NO_CASE,
    }  # fmt: skip
    assert len(_kept["rejects"]) == 3
    panes = _kept["panes"]
    assert len({end for _, end, _ in panes}) == len(panes)  # one firing a window
    assert all(pane.index == 0 and pane.is_last for _, _, pane in panes)
    for batches, end, _ in panes:
        assert {RULE.release_time(step) for step, _ in batches} == {end}


def counted() -> Counter[int]:
    found: Counter[int] = Counter()
    for batches, _, _ in _kept.get("panes", []):
        for step, n_cases in batches:
            found[step] += n_cases
    return found


def fail(message: PubsubMessage) -> None:
    raise ValueError("a message that stops the pipeline")


def test_the_connector_acknowledges_before_anything_is_done_with_a_message() -> None:
    """So what its local runner has taken and not yet finished when it ends is lost."""
    with PubSubDouble(least_ack_seconds=1) as double:
        service = Service(double.address)
        taken = service.subscribe(service.topic, ack_seconds=1)
        held = service.subscribe(service.topic, ack_seconds=1)

        def build(pipeline: beam.Pipeline) -> None:
            messages = pipeline | ReadFromPubSub(subscription=taken, with_attributes=True)
            _ = messages | beam.Map(fail)

        service.publish(b"lost")
        with streaming(service, build) as result:
            with pytest.raises(ValueError, match="stops the pipeline"):
                result.wait_until_finish()
        service.pull(held)
        time.sleep(1.5)
        assert service.pull(taken) == []
        assert len(service.pull(held)) == 1  # this is how one comes again
        service.close()


def test_what_is_written_to_a_topic_comes_out_of_it(service: Service) -> None:
    """Empty pulls in between, and messages on both sides of them."""
    target = service.new_topic()
    reading = service.subscribe(target)

    def build(pipeline: beam.Pipeline) -> None:
        messages = pipeline | ReadFromPubSub(
            subscription=service.subscription, with_attributes=True
        )
        _ = messages | WriteToPubSub(target, with_attributes=True)

    with streaming(service, build):
        service.publish(b"first", n="1")
        found = service.drain(reading)
        time.sleep(1)  # pulls that find nothing
        service.publish(*[b"%d" % i for i in range(25)], n="2")  # more than a pull of Beam's takes
        found += service.drain(reading, n=25)
    expected = [(b"first", "1"), *((b"%d" % i, "2") for i in range(25))]
    assert sorted((m.data, m.attributes["n"]) for m in found) == sorted(expected)

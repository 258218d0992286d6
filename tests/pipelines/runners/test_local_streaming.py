"""Beam's local streaming runner over many reads, with its two faults mended; and that it has them.

The reads are of a server whose empty answers come fast, or later than the connector waits.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.gcp.pubsub import ReadFromPubSub
from apache_beam.runners.direct import transform_evaluator, watermark_manager
from apache_beam.runners.direct.bundle_factory import _Bundle

pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub")

from google.api_core.exceptions import DeadlineExceeded

from tests.support.pubsub import Service, until
from tests.support.pubsub_double import PubSubDouble
from tests.support.streams import Keep, streaming
from tracecloak.pipelines.runners import local_streaming
from tracecloak.pipelines.runners.local_streaming import mend_local_streaming

_kept: list[bytes] = []


def keep(message: Any, window: Any, pane: Any) -> None:
    _kept.append(message.data)


@pytest.fixture(autouse=True)
def beam_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test's mends end with it, and it begins without any."""
    _kept.clear()
    watermarks = watermark_manager._TransformWatermarks
    reader = transform_evaluator._PubSubReadEvaluator
    for owner, name in ((watermarks, "add_pending"), (reader, "_read_from_pubsub")):
        found = getattr(owner, name)
        monkeypatch.setattr(owner, name, getattr(found, "__wrapped__", found))
    monkeypatch.setattr(watermarks, local_streaming._MENDED, False, raising=False)


@pytest.fixture
def service() -> Iterator[Service]:
    with PubSubDouble(empty_pull_seconds=0.005) as double:
        made = Service(double.address)
        yield made
        made.close()


def bundles_after_reads(service: Service, seconds: float) -> int:
    def build(pipeline: beam.Pipeline) -> None:
        messages = pipeline | ReadFromPubSub(
            subscription=service.subscription, with_attributes=True
        )
        _ = messages | beam.ParDo(Keep(keep))

    service.publish(b"first")
    with streaming(service, build):
        until(lambda: _kept == [b"first"])
        time.sleep(seconds)
        service.publish(b"last")
        until(lambda: _kept == [b"first", b"last"])
        gc.collect()
        return sum(isinstance(found, _Bundle) for found in gc.get_objects())


@pytest.mark.slow
def test_reads_leave_nothing_behind(service: Service) -> None:
    left = bundles_after_reads(service, 2.0)
    mend_local_streaming()
    _kept.clear()
    gc.collect()
    before = sum(isinstance(found, _Bundle) for found in gc.get_objects())
    mended = bundles_after_reads(service, 2.0) - before
    assert left > 100  # Beam has the fault: one bundle a read
    assert mended < 20


def one_read(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the connector's read gives where the service answers too late."""
    reader = transform_evaluator._PubSubReadEvaluator

    class Client:
        def pull(self, **_: Any) -> Any:
            raise DeadlineExceeded("silent")

    monkeypatch.setattr(reader, "_get_subscriber_client", classmethod(lambda *_: Client()))
    evaluator = object.__new__(reader)
    evaluator._applied_ptransform = None
    evaluator._sub_name = "projects/p/subscriptions/s"
    return evaluator._read_from_pubsub(None)


def test_a_silent_topic_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeadlineExceeded):
        one_read(monkeypatch)
    mend_local_streaming()
    assert one_read(monkeypatch) == []


def test_mending_twice_is_mending_once() -> None:
    mend_local_streaming()
    once = watermark_manager._TransformWatermarks.add_pending
    mend_local_streaming()
    assert watermark_manager._TransformWatermarks.add_pending is once
    assert not hasattr(once.__wrapped__, "__wrapped__")


@pytest.mark.slow
def test_a_stream_outlives_a_silence_longer_than_the_connector_waits() -> None:
    """The connector waits half a minute a read, and four of these in a row end it."""
    mend_local_streaming()
    with PubSubDouble(empty_pull_seconds=40) as double:
        service = Service(double.address)

        def build(pipeline: beam.Pipeline) -> None:
            messages = pipeline | ReadFromPubSub(
                subscription=service.subscription, with_attributes=True
            )
            _ = messages | beam.ParDo(Keep(keep))

        with streaming(service, build):
            time.sleep(130)
            service.publish(b"after")
            until(lambda: _kept == [b"after"])
        service.close()

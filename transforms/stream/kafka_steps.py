"""PublishToKafka: the releases of a stream as messages of a topic of Kafka.

A message has the JSON of a step, with KEY_ATTRIBUTES as headers and as its key, so a compacted
topic keeps each step once. A step that is tried again is sent again with the same bytes, so
consumers keep the first message of each key, as `step_topic.FirstOfEach` does.
"""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam

from tracecloak.schemas.published.step import Step
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream.topic_sinks import KafkaSink


class PublishToKafka(beam.PTransform):
    """Sends releases to a topic; takes a PCollection of `Step`, and gives those that were sent."""

    def __init__(self, topic: KafkaTopic) -> None:
        """Keeps the topic."""
        super().__init__()
        self._topic = topic

    def expand(self, releases: beam.PCollection[Step]) -> beam.PCollection[Step]:
        """Sends each release; it is with the brokers before its bundle is done."""
        return releases | "Send" >> beam.ParDo(_Send(self._topic))


class _Send(beam.DoFn):
    def __init__(self, topic: KafkaTopic) -> None:
        self._topic = topic

    def setup(self) -> None:
        self._sink = KafkaSink(self._topic)

    def process(self, release: Step) -> Iterable[Step]:
        self._sink.send(release)
        yield release

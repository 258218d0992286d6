"""ReadKafka: the messages of a topic of Kafka, with a watermark that waits for unread messages.

There are two splittable functions. One looks at the topic again and again and gives each partition
once; the other reads one partition. A checkpoint holds a range of numbers for each: the partitions
that were not given yet, and the offsets that were not read yet.

The watermark is the lowest of their watermarks. That of a partition is the time of its oldest
unread message. A partition that was not found yet is newer than the last look at the topic, and so
are its messages. So the watermark never passes that look, less the difference that brokers' clocks
may have.

Where all partitions are read up to the end of the last step, by their watermarks, the ranges are
claimed to their ends. Then the watermark is that of a source that is over, and the job ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import apache_beam as beam
from apache_beam.coders import (
    BytesCoder,
    Coder,
    ListCoder,
    StrUtf8Coder,
    TimestampCoder,
    TupleCoder,
    VarIntCoder,
)
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider, WatermarkEstimatorProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp

from tracecloak.schemas.errors import RetryLater, TracecloakError
from tracecloak.transforms.services.kafka_clock import shared_clock
from tracecloak.transforms.services.kafka_identity import KnownLog, Place
from tracecloak.transforms.services.kafka_messages import KafkaMessage, KafkaMessages
from tracecloak.transforms.services.kafka_reader import PartitionReader
from tracecloak.transforms.services.kafka_topic import KafkaTopic, check_history, partitions_of
from tracecloak.transforms.services.service_clock import CLOCK_SKEW_US

_LOG = logging.getLogger("tracecloak")

# Past every offset and every partition: a topic does not end.
_NO_END = 1 << 62
# A turn of reading ends after this time, or this number of messages, as a runner cannot make a
# checkpoint meanwhile. It ends sooner if no message comes.
_TURN_SECONDS = 1.0
_TURN_MESSAGES = 50_000
_POLL_MESSAGES = 2_000
_POLL_SECONDS = 0.2
# What a turn took is taken off, and some runners wait whole seconds of what is left: 1 and 3.
_PAUSE = Duration(1.5)
_AWAY_PAUSE = Duration(3.5)
_COMMIT_SECONDS = 10.0
# A reader that no turn took for this long is closed, as another worker has its partition now.
_IDLE_SECONDS = 60.0


class ReadKafka(beam.PTransform):
    """Reads a topic from its oldest message on.

    Returns PCollection[KafkaMessage] in the global window; the time of an element is that at which
    a broker appended the message. Where a runner restores a checkpoint, reading goes on where it
    was then: the offsets that are committed are for those who watch the lag, and nothing reads
    them.
    """

    def __init__(
        self, topic: KafkaTopic, group: str, clock_topic: str, start_us: int, end_us: int
    ) -> None:
        """Keeps the topic.

        Args:
            topic: The topic.
            group: Name under which positions are committed.
            clock_topic: Name of the topic by which brokers tell their time; see `KafkaClock`.
            start_us: Where step 0 begins, microseconds since 1970 UTC.
            end_us: When the last step takes no more cases; what is published later is not read.
        """
        super().__init__()
        self._topic = topic
        self._group = group
        self._clock_topic = clock_topic
        self._start_us = start_us
        self._end_us = end_us

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[KafkaMessage]:
        """Finds the partitions, and reads them."""
        finding = _FindPartitions(self._topic, self._clock_topic, self._start_us, self._end_us)
        reading = _ReadPartition(self._topic, self._group, self._clock_topic, self._end_us)
        return (
            begin
            | "Begin" >> beam.Impulse()
            | "FindPartitions" >> beam.ParDo(finding).with_output_types(tuple[int, int])
            | "ReadPartition" >> beam.ParDo(reading).with_output_types(KafkaMessage)
        )


# By the form of a message, whether it is a tombstone. Earlier versions wrote 2, without data, for
# one that no broker had stamped.
_FORMS = {1: False, 2: False, 3: True}


class KafkaMessageCoder(Coder):
    """One `KafkaMessage`, beginning with the number of its form."""

    def __init__(self) -> None:
        """Makes the coder of the parts."""
        numbers = [VarIntCoder() for _ in range(4)]
        header = TupleCoder([StrUtf8Coder(), StrUtf8Coder()])
        self._parts = TupleCoder([*numbers, BytesCoder(), ListCoder(header)])

    def encode(self, value: KafkaMessage) -> bytes:
        """Returns the bytes of a message."""
        form = 3 if value.is_tombstone else 1
        numbers = (form, value.partition, value.offset, value.published_us)
        return self._parts.encode((*numbers, value.data, list(value.attributes.items())))

    def decode(self, encoded: bytes) -> KafkaMessage:
        """Returns the message.

        Raises:
            TracecloakError: It was encoded by a later version.
        """
        form, partition, offset, published_us, data, headers = self._parts.decode(encoded)
        if form not in _FORMS:
            raise TracecloakError(
                f"a message of Kafka is in form {form}, of a later version of tracecloak; "
                "restore that version"
            )
        place = (str(offset), partition, offset, published_us)
        return KafkaMessage(data, dict(headers), *place, _FORMS[form])

    def is_deterministic(self) -> bool:
        """Returns that equal messages need not have equal bytes: headers have an order."""
        return False

    def to_type_hint(self) -> type:
        """Returns the element type."""
        return KafkaMessage


beam.coders.registry.register_coder(KafkaMessage, KafkaMessageCoder)


class _RangeCoder(Coder):
    """An `OffsetRange` as two numbers: it is kept in checkpoints."""

    def encode(self, value: OffsetRange) -> bytes:
        return _PAIR.encode((value.start, value.stop))

    def decode(self, encoded: bytes) -> OffsetRange:
        return OffsetRange(*_PAIR.decode(encoded))

    def is_deterministic(self) -> bool:
        return True


_PAIR = TupleCoder([VarIntCoder(), VarIntCoder()])


class _Tracker(OffsetRestrictionTracker):
    """The claimed part of a range without an end, which can be cut only right behind it."""

    def try_split(self, fraction_of_remainder: float) -> Any:
        """Refuses to cut where no offset can be yet."""
        return super().try_split(0) if fraction_of_remainder == 0 else None

    def is_bounded(self) -> bool:
        return False


class _FromOffset(RestrictionProvider):
    """Ranges from an element's last number on: (partition, first offset) begins at the offset."""

    def create_tracker(self, restriction: OffsetRange) -> _Tracker:
        return _Tracker(restriction)

    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(element[1] if element else 0, _NO_END)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return 1  # nobody is asked for what is unread only to guess at the work

    def restriction_coder(self) -> Coder:
        return _RangeCoder()


class _FromTheBeginning(WatermarkEstimatorProvider):
    """A watermark that is before all messages until something is known."""

    def initial_estimator_state(self, element: Any, restriction: OffsetRange) -> Timestamp:
        return MIN_TIMESTAMP

    def create_watermark_estimator(self, estimator_state: Timestamp) -> ManualWatermarkEstimator:
        return ManualWatermarkEstimator(estimator_state)

    def estimator_state_coder(self) -> Coder:
        return TimestampCoder()


_RANGE = beam.DoFn.RestrictionParam(_FromOffset())
_WATERMARK = beam.DoFn.WatermarkEstimatorParam(_FromTheBeginning())


def _advance(watermark: Any, tracker: Any, moment_us: int, end_us: int, pause: Duration) -> None:
    """Advances a watermark; ends a range whose watermark is at the end of the stream."""
    moment = Timestamp(micros=moment_us)
    if moment > watermark.current_watermark():
        watermark.set_watermark(moment)
    # A claim behind its stop is how a range is ended: nothing of it is left for a later turn.
    if moment_us < end_us or tracker.try_claim(_NO_END):
        tracker.defer_remainder(pause)


class _FindPartitions(beam.DoFn):
    """Gives (partition, offset of its first message) of each partition, once."""

    def __init__(self, topic: KafkaTopic, clock_topic: str, start_us: int, end_us: int) -> None:
        self._topic = topic
        self._clock_topic = clock_topic
        self._start_us = start_us
        self._end_us = end_us

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self,
        _: bytes,
        tracker: Any = _RANGE,
        watermark: Any = _WATERMARK,
    ) -> Iterable[tuple[int, int]]:
        known = tracker.current_restriction().start
        try:
            # Partitions made after this moment may be missing in the list.
            passed_us = shared_clock(self._topic, self._clock_topic).passed_us()
            if known == 0:
                check_history(self._topic, self._start_us)
            oldest_offsets = partitions_of(self._topic)
        except RetryLater as error:
            _LOG.warning("%s; the stream waits", error)
            tracker.defer_remainder(_AWAY_PAUSE)
            return
        if len(oldest_offsets) < known:
            raise TracecloakError(
                f"topic {self._topic.name!r} has {len(oldest_offsets)} partitions and had "
                f"{known}: it was made anew, so cases cannot be counted as they were. Begin "
                "another epoch, which is another spend"
            )
        for partition in range(known, len(oldest_offsets)):
            if not tracker.try_claim(partition):
                return
            # One that was added while the stream ran is read from its first message on.
            yield partition, oldest_offsets[partition] if known == 0 else 0
        _advance(watermark, tracker, passed_us - CLOCK_SKEW_US, self._end_us, _PAUSE)


class _ReadPartition(beam.DoFn):
    def __init__(self, topic: KafkaTopic, group: str, clock_topic: str, end_us: int) -> None:
        self._topic = topic
        self._group = group
        self._clock_topic = clock_topic
        self._end_us = end_us

    def setup(self) -> None:
        _READERS.begin()

    def teardown(self) -> None:
        _READERS.end()

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self,
        element: tuple[int, int],
        finalizer: Any = beam.DoFn.BundleFinalizerParam,  # Beam gives it by its place
        tracker: Any = _RANGE,
        watermark: Any = _WATERMARK,
    ) -> Iterable[TimestampedValue]:
        partition, _ = element
        start = tracker.current_restriction().start
        deadline = time.monotonic() + _TURN_SECONDS
        with _READERS.taken(self._topic, self._group, partition, start) as reader:
            n_read, is_behind = 0, True
            while is_behind and n_read < _TURN_MESSAGES and time.monotonic() < deadline:
                messages = reader.poll(_POLL_MESSAGES, _POLL_SECONDS)
                for message in messages:
                    if not tracker.try_claim(message.offset):
                        return
                    yield TimestampedValue(message, Timestamp(micros=message.published_us))
                n_read += len(messages)
                is_behind = bool(messages)
            reader.is_right = True
            if reader.is_to_commit():
                finalizer.register(reader.committing())
            try:
                passed_us = shared_clock(self._topic, self._clock_topic).passed_us()
                complete_us = reader.watermark_us(passed_us)
            except RetryLater as error:
                _LOG.warning("%s; the stream waits", error)
                tracker.defer_remainder(_AWAY_PAUSE)
                return
        pause = Duration(0) if is_behind else _PAUSE
        _advance(watermark, tracker, complete_us, self._end_us, pause)


class _Reader:
    """Fetches one partition; it is kept between turns, as beginning to fetch takes a while."""

    def __init__(self, topic: KafkaTopic, group: str, partition: int, start: int) -> None:
        self._partition = partition
        self._reader = PartitionReader(topic, group, KnownLog({partition: Place(start)}))
        self._committed = self.used = time.monotonic()
        self._is_closed = False
        self.next = start  # where a turn begins that goes on after the last one
        self.is_right = False  # whether all that this turn fetched was claimed

    def poll(self, max_messages: int, timeout_seconds: float) -> KafkaMessages:
        messages = self._reader.poll(max_messages, timeout_seconds)
        if messages:
            self.next = messages[-1].offset + 1
        return messages

    def watermark_us(self, passed_us: int) -> int:
        return self._reader.watermark_us(self._partition, passed_us)

    def is_to_commit(self) -> bool:
        """Whether it is time to: a bundle that waits for its end costs a runner something."""
        return time.monotonic() - self._committed >= _COMMIT_SECONDS

    def committing(self) -> Callable[[], None]:
        """Returns what commits the position of now, once this is in a checkpoint."""
        position = {self._partition: self.next}
        self._committed = time.monotonic()
        return lambda: None if self._is_closed else self._reader.commit(position)

    def close(self) -> None:
        self._is_closed = True
        self._reader.close()


class _Readers:
    """The readers of this process that no turn has; bundles come on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[tuple[KafkaTopic, str, int], _Reader] = {}
        self._users = 0

    def begin(self) -> None:
        """Notes one more that takes readers."""
        with self._lock:
            self._users += 1

    def end(self) -> None:
        """Notes one less; the last one closes the readers."""
        with self._lock:
            self._users -= 1
            left = list(self._free.values()) if self._users == 0 else []
            if left:
                self._free.clear()
        for reader in left:
            reader.close()

    @contextmanager
    def taken(self, topic: KafkaTopic, group: str, partition: int, start: int) -> Iterator[_Reader]:
        """Lends the reader of a partition that goes on at an offset."""
        key = (topic, group, partition)
        with self._lock:
            reader = self._free.pop(key, None)
            idle = [
                other
                for other, free in self._free.items()
                if time.monotonic() - free.used > _IDLE_SECONDS
            ]
            closing = [self._free.pop(other) for other in idle]
        if reader is not None and reader.next != start:
            closing.append(reader)
            reader = None
        for other in closing:
            other.close()
        if reader is None:
            reader = _Reader(topic, group, partition, start)
        reader.is_right = False
        try:
            yield reader
        finally:
            reader.used = time.monotonic()
            with self._lock:
                is_kept = reader.is_right and self._users > 0 and key not in self._free
                if is_kept:
                    self._free[key] = reader
            if not is_kept:
                reader.close()


_READERS = _Readers()

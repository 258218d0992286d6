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

A range bears what tells that the topic is the log that was read (`kafka_identity`): the finding
function compares ids with each look, and a partition is compared where reading it begins. There it
goes on from elsewhere if a person has set positions since (`kept_steps.KeptLogs`).
"""

from __future__ import annotations

import functools
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider, WatermarkEstimatorProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp

from tracecloak.schemas.errors import RetryLater, TracecloakError
from tracecloak.transforms.services.kafka_clock import CLOCK_SKEW_US, shared_clock
from tracecloak.transforms.services.kafka_identity import (
    KnownLog,
    Place,
    check_history,
    check_log,
    compared,
    difference,
    look_at,
)
from tracecloak.transforms.services.kafka_reader import KafkaMessage, PartitionReader
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream.sources import DIGEST_PURPOSE
from tracecloak.transforms.stream.step_sinks import KeptLogs

_LOG = logging.getLogger("tracecloak")

# Past every offset and every partition: a topic does not end.
_NO_END = 1 << 62
_UNKNOWN = KnownLog({})
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


@dataclass(eq=False, repr=False)
class ReadKafka(beam.PTransform):
    """Reads a topic from its oldest message on.

    Returns PCollection[KafkaMessage] in the global window; the time of an element is that at which
    a broker appended the message. Where a runner restores a checkpoint, reading goes on where it
    was then: the offsets that are committed are for those who watch the lag, and nothing reads
    them.

    Attributes:
        topic: The topic.
        group: Name under which positions are committed.
        clock_topic: Name of the topic by which brokers tell their time; see `KafkaClock`.
        start_us: Where step 0 begins, microseconds since 1970 UTC.
        end_us: When the last step takes no more cases; what is published later is not read.
        logs: What an epoch keeps of its topics; None: no key is there, and nobody sets positions.
    """

    topic: KafkaTopic
    group: str
    clock_topic: str
    start_us: int
    end_us: int
    logs: KeptLogs | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[KafkaMessage]:
        """Finds the partitions, and reads them."""
        given = self.topic, self.clock_topic, self.end_us, self.logs
        finding = _FindPartitions(*given, self.start_us)
        reading = _ReadPartition(*given, self.group)
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
                f"a message of Kafka is in form {form}; restore the later version of tracecloak"
            )
        place = (str(offset), partition, offset, published_us)
        return KafkaMessage(data, dict(headers), *place, _FORMS[form])

    def to_type_hint(self) -> type:
        """Returns the element type."""
        return KafkaMessage


beam.coders.registry.register_coder(KafkaMessage, KafkaMessageCoder)


@dataclass(frozen=True)
class LogRange:
    """What is not read yet of a partition, or which partitions were not given yet.

    Attributes:
        start: The first offset, or the first number of a partition.
        log: What is known of the log: of the partition, or of those that were given.
        decision: How many decisions of a person on positions it follows.
        stop: Where it was cut.
    """

    start: int
    log: KnownLog = _UNKNOWN
    decision: int = 0
    stop: int = _NO_END


class _RangeCoder(Coder):
    """A `LogRange` as it is kept in checkpoints; earlier versions kept its two numbers alone."""

    def encode(self, value: LogRange) -> bytes:
        known = {**value.log.to_json(), "decision": value.decision}
        return _PARTS.encode((value.start, value.stop, json.dumps(known).encode()))

    def decode(self, encoded: bytes) -> LogRange:
        start, stop, kept = _PARTS.decode(encoded)
        known = json.loads(kept or b"{}")
        decision = known.pop("decision", 0)
        return LogRange(start, KnownLog.from_json(known), decision, stop)

    def is_deterministic(self) -> bool:
        return True


_PARTS = TupleCoder([VarIntCoder(), VarIntCoder(), BytesCoder()])


class _Tracker(RestrictionTracker):
    """The claimed part of a range without an end, which can be cut only right behind it."""

    def __init__(self, restriction: LogRange) -> None:
        self._range = restriction
        self._rest: LogRange | None = restriction

    def try_claim(self, position: LogRange | None) -> bool:
        """Claims all that a range leaves; None: all, so that nothing is left for a later turn.

        What is left may begin before what was claimed: where a person has set positions back.
        """
        if is_whole := self._range.stop == _NO_END:
            self._rest = position
        return is_whole

    def try_split(self, fraction_of_remainder: float) -> Any:
        """Refuses to cut where no offset can be yet."""
        if fraction_of_remainder or self._rest is None or self._range.stop < _NO_END:
            return None
        self._range = replace(self._range, stop=self._rest.start)
        return self._range, self._rest

    def check_done(self) -> None:
        assert self._rest is None or self._range.stop < _NO_END, "the rest was not deferred"

    def current_restriction(self) -> LogRange:
        return self._range

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(fraction=0.0)

    def is_bounded(self) -> bool:
        return False


class _FromOffset(RestrictionProvider):
    """Ranges from an element's last number on: (partition, first offset) begins at the offset."""

    def create_tracker(self, restriction: LogRange) -> _Tracker:
        return _Tracker(restriction)

    def initial_restriction(self, element: Any) -> LogRange:
        return LogRange(element[1] if element else 0)

    def restriction_size(self, element: Any, restriction: LogRange) -> int:
        return 1  # nobody is asked for what is unread only to guess at the work

    def restriction_coder(self) -> Coder:
        return _RangeCoder()


class _FromTheBeginning(WatermarkEstimatorProvider):
    """A watermark that is before all messages until something is known."""

    def initial_estimator_state(self, element: Any, restriction: LogRange) -> Timestamp:
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
    if moment_us >= end_us:
        tracker.try_claim(None)
    tracker.defer_remainder(pause)


@dataclass(eq=False)
class _OfTopic(beam.DoFn):
    """What both functions have of a topic."""

    topic: KafkaTopic
    clock_topic: str
    end_us: int
    logs: KeptLogs | None

    def _passed_us(self) -> int:
        return shared_clock(self.topic, self.clock_topic).passed_us()

    def _decided(self, at: LogRange) -> LogRange:
        """Returns a range with the whole log as it was where a person has set positions since."""
        number, logs = (0, {}) if self.logs is None else self.logs.last()
        if number <= at.decision:
            return at
        return replace(at, log=logs[self.topic.source_name], decision=number)


@dataclass(eq=False)
class _FindPartitions(_OfTopic):
    """Gives (partition, offset of its first message) of each partition, once."""

    start_us: int

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self,
        _: bytes,
        tracker: Any = _RANGE,
        watermark: Any = _WATERMARK,
    ) -> Iterable[tuple[int, int]]:
        at = tracker.current_restriction()
        if not at.log.places:  # earlier versions kept the number of partitions alone
            at = LogRange(at.start, KnownLog(dict.fromkeys(range(at.start), Place(0))))
        try:
            # Partitions made after this moment may be missing in the list.
            passed_us = self._passed_us()
            if at.start == 0:
                check_history(self.topic, self.start_us)
            now = look_at(self.topic)
            if not now.bounds:
                raise RetryLater(f"topic {self.topic.name!r} is not on its servers now")
            known = self._decided(at) if difference(at.log, now) else at
        except RetryLater as error:
            _LOG.warning("%s; the stream waits", error)
            tracker.defer_remainder(_AWAY_PAUSE)
            return
        log = compared(self.topic, known.log, now)
        if not tracker.try_claim(LogRange(len(now.bounds), log, known.decision)):
            return
        for partition in range(at.start, len(now.bounds)):
            # One that was added while the stream ran is read from its first message on.
            yield partition, now.bounds[partition].first if at.start == 0 else 0
        _advance(watermark, tracker, passed_us - CLOCK_SKEW_US, self.end_us, _PAUSE)


@dataclass(eq=False)
class _ReadPartition(_OfTopic):
    group: str

    def setup(self) -> None:
        self._key = b"" if self.logs is None else self.logs.key.resolve().derive(DIGEST_PURPOSE)
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
        at = tracker.current_restriction()
        deadline = time.monotonic() + _TURN_SECONDS
        begin = functools.partial(self._reader, partition, at)
        try:
            with _READERS.taken((self.topic, self.group, partition), at, begin) as reader:
                n_read, is_behind = 0, True
                while is_behind and n_read < _TURN_MESSAGES and time.monotonic() < deadline:
                    messages = reader.kafka.poll(_POLL_MESSAGES, _POLL_SECONDS)
                    if not tracker.try_claim(reader.rest) or reader.rest is None:
                        return
                    for message in messages:
                        yield TimestampedValue(message, Timestamp(micros=message.published_us))
                    n_read += len(messages)
                    is_behind = bool(messages)
                reader.is_right = True
                reader.commit_with(finalizer)
                complete_us = reader.kafka.watermark_us(partition, self._passed_us())
        except RetryLater as error:
            _LOG.warning("%s; the stream waits", error)
            tracker.defer_remainder(_AWAY_PAUSE)
            return
        pause = Duration(0) if is_behind else _PAUSE
        _advance(watermark, tracker, complete_us, self.end_us, pause)

    def _reader(self, partition: int, at: LogRange) -> _Reader:
        """Begins to fetch, behind what was read, or where a person had reading go on since."""
        if not at.log.places:
            at = LogRange(at.start, KnownLog({partition: Place(at.start)}), at.decision)
        known = self._decided(at)
        places = {n: place for n, place in known.log.places.items() if n == partition}
        log, now = check_log(self.topic, self._key, replace(known.log, places=places))
        if not places and partition in now.bounds:  # it was added since positions were set
            log = replace(log, places={partition: Place(0)})
        reader = PartitionReader(self.topic, self.group, log, self._key)
        return _Reader(reader, partition, known.decision)


class _Reader:
    """Fetches one partition; it is kept between turns, as beginning to fetch takes a while."""

    def __init__(self, reader: PartitionReader, partition: int, decision: int) -> None:
        self._partition = partition
        self.kafka = reader
        self.decision = decision
        self._committed = self.used = time.monotonic()
        self._is_closed = False
        self.is_right = False  # whether all that this turn fetched was claimed

    @property
    def rest(self) -> LogRange | None:
        """What is not read yet; None: a partition has no place any more."""
        place = self.kafka.known.places.get(self._partition)
        return None if place is None else LogRange(place.next, self.kafka.known, self.decision)

    def commit_with(self, finalizer: Any) -> None:
        """Has the position of now committed, once this is in a checkpoint, now and then.

        A bundle that waits for its end costs a runner something.
        """
        if time.monotonic() - self._committed < _COMMIT_SECONDS:
            return
        position = {self._partition: self.kafka.known.places[self._partition].next}
        self._committed = time.monotonic()
        finalizer.register(lambda: None if self._is_closed else self.kafka.commit(position))

    def close(self) -> None:
        self._is_closed = True
        self.kafka.close()


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
            left = [] if self._users else [self._free.pop(key) for key in [*self._free]]
        for reader in left:
            reader.close()

    @contextmanager
    def taken(
        self, key: tuple[KafkaTopic, str, int], at: LogRange, begin: Callable[[], _Reader]
    ) -> Iterator[_Reader]:
        """Lends the reader of a partition that goes on where a range begins; or makes one."""
        with self._lock:
            reader = self._free.pop(key, None)
            idle = [
                other
                for other, free in self._free.items()
                if time.monotonic() - free.used > _IDLE_SECONDS
            ]
            closing = [self._free.pop(other) for other in idle]
        if reader is not None and reader.rest != at:
            closing.append(reader)
            reader = None
        for other in closing:
            other.close()
        if reader is None:
            reader = begin()
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

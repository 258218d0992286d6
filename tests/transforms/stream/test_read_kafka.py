"""ReadKafka without a broker: what is claimed, cut, remembered and waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

from tests.support.kafka_double import BY_SENDER, Clock, Record, TopicDouble
from tracecloak.schemas.errors import SourceChanged, TracecloakError, UsageError
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.services.kafka_clock import CLOCK_SKEW_US
from tracecloak.transforms.services.kafka_identity import (
    KnownLog,
    Place,
    TopicIdentity,
    log_since,
    look_at,
)
from tracecloak.transforms.services.kafka_reader import KafkaMessage
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream import read_kafka
from tracecloak.transforms.stream.read_kafka import KafkaMessageCoder, LogRange
from tracecloak.transforms.stream.step_sinks import KeptLogs

TOPIC = KafkaTopic("broker:9092", "events")
NOW = 1_000_000.0
S = 1_000_000
END_US = 20_000_000 * 1_000_000  # of the stream


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(int(NOW * 1e6))
    monkeypatch.setattr(read_kafka, "_READERS", read_kafka._Readers())
    monkeypatch.setattr(read_kafka, "shared_clock", lambda *_: made)
    return made


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> TopicDouble:
    """Five messages in partition 3 of four."""
    made = TopicDouble(epoch=2)
    for number in range(4):
        made.add(number)
    made.add(3, *(b"%d" % n for n in range(5)), millis=int(NOW * 1e3))
    made.used_by(monkeypatch)
    return made


@pytest.fixture
def empty(topic: TopicDouble) -> TopicDouble:
    topic.records[3].clear()
    topic.ends[3] = 0
    return topic


def put(topic: TopicDouble, *offsets: int) -> None:
    """Messages of partition 3 that are stamped with as many seconds."""
    for at in offsets:
        topic.records[3].append(Record(3, at, b"{}", at * 1_000, epoch=topic.epoch))
        topic.ends[3] = at + 1


class Turn:
    """One call of a splittable function, as a runner makes it."""

    def __init__(self, restriction: LogRange, watermark: Timestamp = MIN_TIMESTAMP) -> None:
        provider = read_kafka._FromOffset()
        self.tracker = ThreadsafeRestrictionTracker(provider.create_tracker(restriction))
        self.watermark = ManualWatermarkEstimator(watermark)
        self.callbacks: list[Callable[[], None]] = []
        self.given: list[Any] = []

    def register(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def of(self, fn: beam.DoFn, element: Any, until: int | None = None) -> Turn:
        """Runs it; at so many elements the runner cuts it."""
        view = RestrictionTrackerView(self.tracker)
        given: Iterator[Any] = (
            fn.process(element, view, self.watermark)
            if isinstance(fn, read_kafka._FindPartitions)
            else fn.process(element, self, view, self.watermark)
        )
        self.cut: Any = None
        for one in given:
            self.given.append(one)
            if len(self.given) == until:
                self.cut = self.tracker.try_split(0)
        self.tracker.check_done() if self.cut else None
        return self

    @property
    def rest(self) -> LogRange:
        """What a checkpoint remembers."""
        found = self.tracker.deferred_status()
        assert found is not None
        residual, _ = found
        return residual

    @property
    def delay_seconds(self) -> float:
        found = self.tracker.deferred_status()
        assert found is not None
        return float(found[1].micros / 1e6)


def reader_fn(end_us: int = END_US, logs: KeptLogs | None = None) -> read_kafka._ReadPartition:
    fn = read_kafka._ReadPartition(TOPIC, "tracecloak-clock", end_us, logs, "tracecloak-ward")
    fn.setup()
    return fn


def offsets(turn: Turn) -> list[int]:
    assert all(one.timestamp.micros == one.value.published_us for one in turn.given)
    return [one.value.offset for one in turn.given]


def whole(start: int = 0) -> LogRange:
    return read_kafka._FromOffset().initial_restriction((3, start))


def test_turns_give_every_message_once_and_the_watermark_follows(
    empty: TopicDouble, clock: Clock
) -> None:
    put(empty, 5, 6, 9)  # offsets may be missing
    fn = reader_fn()
    first = Turn(whole(5)).of(fn, (3, 5))
    assert offsets(first) == [5, 6, 9]
    assert first.watermark.current_watermark().micros == clock.now_us - CLOCK_SKEW_US
    kept = dict(read_kafka._READERS._free)
    put(empty, 10, 11)
    clock.now_us += S
    assert offsets(Turn(first.rest).of(fn, (3, 5))) == [10, 11]
    assert len(kept) == 1 and read_kafka._READERS._free == kept  # the same reader goes on
    fn.teardown()


@pytest.mark.parametrize("until", [1, 2, 4])
def test_a_cut_by_the_runner_loses_no_message_and_gives_none_twice(
    empty: TopicDouble, monkeypatch: pytest.MonkeyPatch, until: int
) -> None:
    """It comes behind what was fetched together."""
    monkeypatch.setattr(read_kafka, "_POLL_MESSAGES", 3)
    put(empty, 0, 1, 2, 3)
    fn = reader_fn()
    first = Turn(whole()).of(fn, (3, 0), until=until)
    primary, residual = first.cut
    n_given = 3 if until <= 3 else 4
    assert (primary.stop, residual.start) == (n_given, n_given)
    assert residual.log.places[3].next == n_given
    assert offsets(first) == list(range(n_given))
    assert first.watermark.current_watermark() == MIN_TIMESTAMP or until == 4
    second = Turn(residual).of(fn, (3, 0))
    assert offsets(second) == list(range(n_given, 4))


def test_no_cut_is_made_where_no_offset_can_be_yet() -> None:
    tracker = read_kafka._FromOffset().create_tracker(whole())
    assert tracker.try_split(0.5) is None
    assert tracker.try_claim(LogRange(1))
    assert tracker.try_split(0.5) is None
    assert not tracker.is_bounded()


@pytest.mark.parametrize("end", [9, 10])
def test_a_partition_ends_once_it_is_read_to_the_end_of_the_last_step(
    empty: TopicDouble, clock: Clock, end: int
) -> None:
    """Catches a job that never ends, and one that ends while messages of a step may come."""
    put(empty, 5, 9)
    clock.now_us = 9 * S + CLOCK_SKEW_US
    turn = Turn(whole(5)).of(reader_fn(end * 1_000_000), (3, 5))
    assert offsets(turn) == [5, 9]
    is_over = end == 9
    assert (turn.tracker.deferred_status() is None) == is_over
    if is_over:
        turn.tracker.check_done()
        return
    put(empty, 10)
    clock.now_us += S
    again = Turn(turn.rest, turn.watermark.current_watermark()).of(reader_fn(10_000_000), (3, 5))
    assert (offsets(again), again.tracker.deferred_status()) == ([10], None)


def test_no_partition_is_looked_for_after_the_end_of_the_last_step(
    topic: TopicDouble, clock: Clock
) -> None:
    end_us = clock.now_us - CLOCK_SKEW_US
    assert Turn(begin()).of(finder(end_us + 1), b"").rest.start == 4
    last = Turn(begin()).of(finder(end_us), b"")
    assert (last.given, last.tracker.deferred_status()) == ([(n, 0) for n in range(4)], None)
    last.tracker.check_done()


def test_clocks_that_differ_hold_the_watermarks_of_reading_and_of_finding(
    empty: TopicDouble, clock: Clock
) -> None:
    """Catches a step of Flink that is decided early by a wrong clock."""
    clock.differs = True
    put(empty, 0)
    reading = Turn(whole()).of(reader_fn(), (3, 0))
    finding = Turn(begin()).of(finder(), b"")
    assert (offsets(reading), finding.given) == ([0], [])
    for turn in (reading, finding):
        assert turn.watermark.current_watermark() == MIN_TIMESTAMP
        assert 3 < turn.delay_seconds < 4
    clock.differs, clock.now_us = False, -5 * S  # a stamp is no proof that it is over
    reading = Turn(reading.rest).of(reader_fn(), (3, 0))
    assert reading.watermark.current_watermark().micros == -5 * S - CLOCK_SKEW_US


def test_positions_are_committed_when_a_checkpoint_has_them(
    empty: TopicDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(empty, 0, 1)
    monkeypatch.setattr(read_kafka, "_COMMIT_SECONDS", 0.0)
    fn = reader_fn()
    turn = Turn(whole()).of(fn, (3, 0))
    assert empty.committed == {}
    for callback in turn.callbacks:
        callback()
    assert empty.committed == {3: 2}
    fn.teardown()
    empty.committed.clear()
    for callback in turn.callbacks:  # a reader that is closed commits nothing
        callback()
    assert empty.committed == {}


# --- Partitions -------------------------------------------------------------------------------


def finder(end_us: int = END_US, logs: KeptLogs | None = None) -> read_kafka._FindPartitions:
    return read_kafka._FindPartitions(TOPIC, "tracecloak-clock", end_us, logs, 7)


def begin() -> LogRange:
    return read_kafka._FromOffset().initial_restriction(b"")


def test_each_partition_is_given_once_and_a_new_one_from_its_first_message(
    topic: TopicDouble, clock: Clock
) -> None:
    topic.firsts |= {0: 40, 3: 2}
    topic.ends[0] = 40
    with pytest.raises(UsageError, match="may be deleted"):
        Turn(begin()).of(finder(), b"")
    del topic.firsts[3]
    first = Turn(begin()).of(finder(), b"")
    assert first.given == [(0, 40), (1, 0), (2, 0), (3, 0)]
    # What is made after the look is newer than it, less what clocks differ.
    moment = Timestamp(micros=int(NOW * 1e6) - CLOCK_SKEW_US)
    assert first.watermark.current_watermark() == moment
    topic.ends[4] = 9
    topic.firsts |= {3: 2, 4: 9}  # where messages are gone by now, the reader says so
    second = Turn(first.rest, moment).of(finder(), b"")
    assert (second.given, second.rest.start) == ([(4, 0)], 5)


def test_a_topic_that_is_not_there_may_have_been_made_just_now(
    topic: TopicDouble, clock: Clock
) -> None:
    topic.ends.clear()
    turn = Turn(begin()).of(finder(), b"")
    assert (turn.given, turn.rest.start) == ([], 0)
    assert turn.watermark.current_watermark() == MIN_TIMESTAMP


def test_a_topic_that_was_made_anew_ends_the_stream(topic: TopicDouble, clock: Clock) -> None:
    with pytest.raises(SourceChanged, match="1 of its partitions are gone"):
        Turn(LogRange(5)).of(finder(), b"")  # of an earlier version, which kept their number
    first = Turn(begin()).of(finder(), b"")
    topic.topic_id = (9, 9)
    with pytest.raises(SourceChanged, match="deleted and made anew"):
        Turn(first.rest).of(finder(), b"")


# --- The log, by the double of a topic --------------------------------------------------------


@pytest.fixture
def logs(tmp_path: Path) -> KeptLogs:
    (tmp_path / "a.key").write_text("6b" * 32)
    return KeptLogs(str(tmp_path), KeyReference(f"file:{tmp_path / 'a.key'}"))


def restored(rest: LogRange) -> LogRange:
    """A range after a restart, by a process that has no reader yet."""
    read_kafka._READERS = read_kafka._Readers()
    coder = read_kafka._FromOffset().restriction_coder()
    kept: LogRange = coder.decode(coder.encode(rest))
    return kept


@pytest.mark.parametrize("has_ids", [True, False])
def test_a_restart_reads_nothing_of_a_topic_that_is_another_log(
    topic: TopicDouble, logs: KeptLogs, has_ids: bool
) -> None:
    """Without ids the last message tells it; a topic that is the same is read on."""
    first = Turn(whole()).of(reader_fn(logs=logs), (3, 0))
    assert [one.value.data for one in first.given] == [b"0", b"1", b"2", b"3", b"4"]
    rest = restored(first.rest)
    assert (rest.start, rest.log.places[3].last, rest.log.places[3].epoch) == (5, 4, 2)
    topic.add(3, b"5", millis=int(NOW * 1e3))
    assert len(Turn(rest).of(reader_fn(logs=logs), (3, 0)).given) == 1
    topic.topic_id = (9, 9) if has_ids else (0, 0)
    if not has_ids:
        topic.cluster_id, topic.records[3][4].content = None, b"another"
    with pytest.raises(SourceChanged):
        Turn(restored(rest)).of(reader_fn(logs=logs), (3, 0))


def test_a_person_passes_a_message_without_a_stamp_once(topic: TopicDouble, logs: KeptLogs) -> None:
    """The partition stands until then; afterwards the decision is not taken a second time."""
    topic.add(3, b"unstamped", kind=BY_SENDER, millis=2 * int(NOW * 1e3))
    topic.add(3, b"6", millis=int(NOW * 1e3) + 1)
    held = Turn(whole()).of(reader_fn(logs=logs), (3, 0))
    assert (len(held.given), held.rest.start) == (5, 5)
    assert held.watermark.current_watermark() == MIN_TIMESTAMP
    logs.keep(0, {TOPIC.source_name: held.rest.log})  # what the command notes is no decision
    assert Turn(restored(held.rest)).of(reader_fn(logs=logs), (3, 0)).rest.start == 5
    logs.keep(1, {TOPIC.source_name: log_since(TOPIC, int(NOW * 1e6) + 1_000)})
    moved = Turn(restored(held.rest)).of(reader_fn(logs=logs), (3, 0))
    assert [one.value.data for one in moved.given] == [b"6"]
    assert (moved.rest.start, moved.rest.decision) == (7, 1)
    assert moved.watermark.current_watermark() > MIN_TIMESTAMP
    assert Turn(restored(moved.rest)).of(reader_fn(logs=logs), (3, 0)).rest.start == 7


def test_positions_that_a_person_sets_take_another_topic_for_the_log(
    topic: TopicDouble, logs: KeptLogs
) -> None:
    """Back, too; and a partition that the other one lacks is over."""
    finding, reading = Turn(begin()).of(finder(logs=logs), b""), {}
    for number in (2, 3):
        reading[number] = Turn(whole()).of(reader_fn(logs=logs), (number, 0)).rest
    topic.topic_id = (9, 9)
    topic.ends[3] = 1
    for number in (2, 3):
        del topic.records[number][1:]
    del topic.ends[2]  # partitions 0, 1 and 3 are there
    logs.keep(1, {TOPIC.source_name: log_since(TOPIC, 0)})
    again = Turn(restored(finding.rest)).of(finder(logs=logs), b"")
    assert (again.given, again.rest.start, again.rest.decision) == ([], 3, 1)
    back = Turn(restored(reading[3])).of(reader_fn(logs=logs), (3, 0))
    assert (back.rest.start, back.rest.log.identity) == (1, look_at(TOPIC).identity)
    assert [one.value.data for one in back.given] == [b"0"]
    over = Turn(restored(reading[2])).of(reader_fn(logs=logs), (2, 0))
    assert (over.given, over.tracker.deferred_status()) == ([], None)
    over.tracker.check_done()


def test_a_partition_that_is_added_after_positions_were_set_is_read(
    topic: TopicDouble, logs: KeptLogs
) -> None:
    """From its first message on, and further; its watermark does not pass what is unread."""
    logs.keep(1, {TOPIC.source_name: log_since(TOPIC, 0)})
    topic.add(4, b"a", b"b", millis=int(NOW * 1e3))
    first = Turn(whole()).of(reader_fn(logs=logs), (4, 0))
    assert [one.value.data for one in first.given] == [b"a", b"b"]
    assert (first.rest.start, first.rest.decision) == (2, 1)
    assert first.watermark.current_watermark() <= Timestamp(NOW)
    topic.add(4, b"c", millis=int(NOW * 1e3))
    again = Turn(restored(first.rest)).of(reader_fn(logs=logs), (4, 0))
    assert [one.value.data for one in again.given] == [b"c"]


# --- What travels and is kept -----------------------------------------------------------------


def test_a_message_travels_whole_and_small() -> None:
    coder = beam.coders.registry.get_coder(KafkaMessage)
    assert isinstance(coder, KafkaMessageCoder)
    sent = KafkaMessage(b"\x00data", {"id": "ß", "b": ""}, "77", 2, 77, 1_800_000_000_123_000)
    encoded = coder.encode(sent)
    assert coder.decode(encoded) == sent
    assert len(encoded) < 40
    # One that no broker had stamped, in a checkpoint of an earlier version.
    assert coder.decode(b"\x02" + coder.encode(replace(sent, data=b""))[1:]) == replace(
        sent, data=b""
    )
    tombstone = replace(sent, data=b"", is_tombstone=True)
    assert coder.decode(coder.encode(tombstone)) == tombstone


def test_the_form_of_a_message_has_a_version() -> None:
    encoded = KafkaMessageCoder().encode(KafkaMessage(b"{}", {"a": "ä"}, "1", 3, 1, S))
    assert encoded.hex() == "010301c0843d" + "027b7d" + "00000001" + "0161" + "02c3a4"
    with pytest.raises(TracecloakError, match="form 4; restore the later version"):
        KafkaMessageCoder().decode(b"\x04" + encoded[1:])


def test_what_earlier_versions_kept_in_checkpoints_are_two_numbers() -> None:
    coder = read_kafka._FromOffset().restriction_coder()
    old = coder.decode(bytes.fromhex("ac02" + "808080808080808040"))
    assert (old.start, old.stop, old.log, old.decision) == (300, begin().stop, KnownLog({}), 0)
    log = KnownLog({3: Place(300, 2, 299, "ab")}, TopicIdentity("cluster", None))
    kept = coder.decode(coder.encode(LogRange(300, log, 4)))
    assert (kept.start, kept.stop, kept.log, kept.decision) == (300, begin().stop, log, 4)
    assert coder.is_deterministic()

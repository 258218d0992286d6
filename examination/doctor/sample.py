"""Messages from before the start of a stream, looked at before its horizon is charged.

What is found are numbers of the data, for a person on a terminal. No name, case or value is among
them. Messages since `start` are not read: what is published of them must not have been chosen by
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.examination.doctor.setting import Said, Setting, Status
from tracecloak.pipelines.screen.results import quantity
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.schemas.calendar.time_texts import duration_text
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import (
    ACTIVITY,
    CASE_ID,
    EVENT_INDEX,
    PUBLISH_TIME,
    TIMESTAMP,
)
from tracecloak.schemas.events.stamps import UNITS_US
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.services.kafka_reader import KafkaMessages

# Units of numbers lie a factor of 1,000 apart, so times of another one lie decades away.
_NEAR_US = 10 * 366 * 86_400 * 1_000_000


def check_sample(config: object, n_messages: int, is_private: bool) -> None:
    """Makes sure that messages can be looked at, and that only the operator sees the result.

    Args:
        config: Of what doctor looks at.
        n_messages: How many messages were requested.
        is_private: Whether the result is a table on a terminal.

    Raises:
        UsageError: They cannot, or others may see it.
    """
    if not isinstance(config, StreamConfig):
        raise UsageError("--sample is for streams; `tracecloak profile` looks at the log of a file")
    if any(source.input_kafka is None for source in config.sources):
        raise UsageError(
            "--sample is for topics of Kafka. Pub/Sub would lease the messages of a sample to this "
            "command, and the stream would wait for them; leave --sample out"
        )
    if n_messages < 1:
        raise UsageError(f"--sample must be at least 1, got {n_messages}")
    if not is_private:
        raise UsageError(
            "--sample shows numbers of the data, so it needs a terminal: run it there, without "
            "--json and without redirecting its output"
        )


def look_at_messages(setting: Setting) -> Iterator[Said]:
    """Decodes messages from before the start, if a sample was requested."""
    config = setting.stream
    if config is None or not setting.n_sampled:
        return
    from tracecloak.transforms.services.kafka_sample import messages_before

    now_us = int(setting.now() * 1e6)
    for source in config.sources:
        topic = source.input_kafka
        assert topic is not None
        messages = messages_before(topic, min(config.start, now_us), setting.n_sampled)
        if not len(messages):
            raise UsageError(
                f"topic {topic.name!r} has no messages from before start: send some first, or set "
                "a later start"
            )
        for status, text in findings(source, messages, now_us):
            yield status, f"{topic.name}: {text}" if len(config.sources) > 1 else text


def findings(config: StreamConfig, messages: KafkaMessages, now_us: int) -> Iterator[Said]:
    """Yields what messages say of a configuration.

    Args:
        config: Of the stream, for one of its topics.
        messages: From before its start.
        now_us: Microseconds since 1970 UTC.

    Raises:
        UsageError: No message is an event, or their times are of another unit.
    """
    n = len(messages)
    events, rejects = config.layout.decode(messages, messages.published_us)
    n_partitions = len(np.unique(messages.partitions))
    n_filtered = n - events.num_rows - rejects.num_rows
    text = (
        f"{n:,} messages of {n_partitions:,} partitions: {_share(events.num_rows, n)} are events, "
        f"{_share(n_filtered, n)} left out by where, {_share(rejects.num_rows, n)} rejects"
    )
    yield "ok", text
    if n_unstamped := int((~messages.is_stamped).sum()):
        text = f"{_share(n_unstamped, n)} have no stamp of a broker: a stream stops before such a"
        yield "warning", f"{text} message, until `tracecloak stream positions` passes it"
    for reason, count in Counter(rejects["reason"].to_pylist()).most_common():
        yield "warning", f"reject: {reason}: {_share(count, n)}"
    _check_unit(config.layout, messages)
    if not events.num_rows:
        raise UsageError("no message of the sample is an event: see the reasons, and correct them")
    yield _activities(config, events)
    yield _partitions(events, messages.partitions)
    yield _disorder(config, events)
    yield from _times(events, now_us)


def _check_unit(layout: MessageFormat, messages: KafkaMessages) -> None:
    """Makes sure that no other unit puts more times near those of publishing."""
    given = layout.mapping.timestamp_unit
    units = (given, *(unit for unit in UNITS_US if unit != given))
    n_near = {unit: _n_near(layout, unit, messages) for unit in units}
    best = max(units, key=n_near.__getitem__)  # the given one, where no other is better
    if best != given:
        raise UsageError(
            f"timestamp_unit {given or 'is not set, and'} does not fit: {n_near[given]:,} of "
            f"{len(messages):,} messages are timed near their publishing, and with "
            f"timestamp_unit {best} {n_near[best]:,} are; set it to {best}"
        )


def _n_near(layout: MessageFormat, unit: str | None, messages: KafkaMessages) -> int:
    read = replace(layout, mapping=replace(layout.mapping, timestamp_unit=unit))
    events, _ = read.decode(messages, messages.published_us)
    return int((np.abs(_late_us(events)) < _NEAR_US).sum())


def _activities(config: StreamConfig, events: pa.RecordBatch) -> Said:
    names = events[ACTIVITY].cast(pa.string())
    declared = pa.array(config.vocabulary, pa.string())
    is_known = pc.is_in(names, declared)
    unknown = names.filter(pc.invert(is_known)).unique()
    n_known, n = int(pc.sum(is_known).as_py()), len(names)
    text = f"{_share(n_known, n)} of the events have an activity of vocabulary"
    if not len(unknown):
        return "ok", text
    plain = [pc.utf8_lower(pc.utf8_trim_whitespace(one)) for one in (unknown, declared)]
    n_alike = int(pc.sum(pc.is_in(*plain)).as_py() or 0)
    alike = f"; {n_alike:,} of them differ by case or blanks alone" if n_alike else ""
    return "warning", f"{text}, and the others have {quantity(len(unknown), 'further name')}{alike}"


def _partitions(events: pa.RecordBatch, partitions: np.ndarray) -> Said:
    cases = _cases(events)
    pairs = np.unique(np.stack([cases, partitions[np.asarray(events[EVENT_INDEX])]]), axis=1)
    counts = np.unique(pairs[0], return_counts=True)[1]
    n_split = int((counts > 1).sum())
    if not n_split:
        return "ok", f"each of {len(counts):,} cases is in one partition"
    return "warning", (
        f"{_share(n_split, len(counts))} of the cases are in several partitions, up to "
        f"{counts.max():,}: their messages have no order; have senders key the topic by case"
    )


def _disorder(config: StreamConfig, events: pa.RecordBatch) -> Said:
    late = disorder_us(events)
    n_beyond = int((late > config.max_disorder).sum())
    limit = f"max_disorder is {duration_text(config.max_disorder)}"
    if not n_beyond or config.clock == "publishing":
        seen = f"largest disorder {duration_text(int(late.max(initial=0)))}"
        return "ok", f"{seen} within a case; {limit}"
    return "warning", (
        f"{_share(n_beyond, len(late))} of the events came later than a successor of their case by "
        f"more than that, up to {duration_text(int(late.max()))}; {limit}"
    )


def disorder_us(events: pa.RecordBatch) -> np.ndarray:
    """Returns int64[n], how much later than its first successor each event was published.

    A successor is an event of the same case with a later time; 0 where none was published before.
    """
    cases = _cases(events)
    publish, times = (
        np.asarray(events[name]).astype(np.int64) for name in (PUBLISH_TIME, TIMESTAMP)
    )
    order = np.lexsort((publish, -times, cases))
    late = np.zeros(len(order), np.int64)
    for rows in np.split(order, np.flatnonzero(np.diff(cases[order])) + 1):
        # By falling time; events of one time are no successors of each other.
        first = np.minimum.accumulate(publish[rows])
        group = np.searchsorted(-times[rows], -times[rows], side="left")
        before = np.where(group > 0, first[np.maximum(group - 1, 0)], publish[rows])
        late[rows] = np.maximum(publish[rows] - before, 0)
    return late


def _times(events: pa.RecordBatch, now_us: int) -> Iterator[Said]:
    late = _late_us(events)
    ago = now_us - int(np.asarray(events[TIMESTAMP]).astype(np.int64).max())
    status: Status = "ok" if ago >= 0 else "warning"
    side = "before" if ago >= 0 else "after"
    yield status, f"the newest event is timed {_rough(ago)} {side} now"
    n_ahead = int((late < 0).sum())
    middle = int(np.median(late))
    text = (
        f"half of the events are timed at least {_rough(middle)} "
        f"{'before' if middle >= 0 else 'after'} their publishing, "
        f"{_share(n_ahead, len(late))} after it"
    )
    hint = ": see time_zone, and the clocks of senders"
    yield ("warning", text + hint) if 2 * n_ahead > len(late) else ("ok", text)


def _cases(events: pa.RecordBatch) -> np.ndarray:
    """int32[n], a number for each case."""
    return np.asarray(pc.cast(events[CASE_ID], pa.string()).dictionary_encode().indices)


def _late_us(events: pa.RecordBatch) -> np.ndarray:
    """int64[n], how much later than its time each event was published."""
    publish, times = (
        np.asarray(events[name]).astype(np.int64) for name in (PUBLISH_TIME, TIMESTAMP)
    )
    return publish - times


def _rough(micros: int) -> str:
    return duration_text(abs(micros) // 1_000_000 * 1_000_000)


def _share(n: int, of: int) -> str:
    return f"{n:,} ({100 * n / of:.1f} %)"

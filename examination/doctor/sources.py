"""Checks of what is read: files and their columns, the database of a query, topics of a stream.

And where a stream is: its state, the logs that it reads, how its last run ended, and messages from
before its start. What is found in those are numbers of the data, for a person on a terminal; no
name, case or value is among them. Messages since `start` are not read: what is published of them
must not have been chosen by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.examination.doctor.setting import CheckResult, Setting, Status
from tracecloak.pipelines.configuration.plan import ReleasePlan, source_of
from tracecloak.pipelines.keys.key_store import BEING_MADE
from tracecloak.pipelines.keys.notes import NOT_ENDED, last_attempt, left_out_of
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.runners.flags import is_local
from tracecloak.pipelines.screen.results import quantity
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.plan import StreamInput, StreamPlan, check_registry, step_sinks
from tracecloak.schemas.calendar.durations import duration_text
from tracecloak.schemas.errors import (
    InputSchemaError,
    RetryLater,
    TracecloakError,
    UsageError,
    check_least,
)
from tracecloak.schemas.events.events import ACTIVITY, CASE_ID, EVENT_INDEX, PUBLISH_TIME, TIMESTAMP
from tracecloak.schemas.events.timestamps import UNITS_US
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.services.kafka_identity import check_history
from tracecloak.transforms.services.kafka_reader import KafkaMessages, messages_before

if TYPE_CHECKING:
    from tracecloak.pipelines.stream.epoch import Epoch
    from tracecloak.transforms.services.kafka_topic import KafkaTopic


# --- Messages from before the start of a stream, looked at before its horizon is charged. ---------
# What is found are numbers of the data, for a person on a terminal. No name, case or value is
# among them. Messages since `start` are not read: what is published of them must not have been
# chosen by them.


# Units of numbers lie a factor of 1,000 apart, so times of another one lie decades away.
_NEAR_US = 10 * 366 * 86_400 * 1_000_000


def check_sample(plan: object, n_messages: int, is_private: bool) -> None:
    """Makes sure that messages can be looked at, and that only the operator sees the result.

    Args:
        plan: Of what doctor looks at.
        n_messages: How many messages were requested.
        is_private: Whether the result is a table on a terminal.

    Raises:
        UsageError: They cannot, or others may see it.
    """
    if not isinstance(plan, StreamPlan):
        raise UsageError("sample is for streams; `tracecloak profile` looks at the log of a file")
    if any(one.topic is None for one in plan.inputs):
        raise UsageError(
            "sample is for topics of Kafka: Pub/Sub would lease the messages to this command"
        )
    check_least(1, sample=n_messages)
    if not is_private:
        raise UsageError(
            "sample shows numbers of the data: it needs a terminal, tables and no redirection"
        )


def check_messages(setting: Setting) -> Iterator[CheckResult]:
    """Decodes messages from before the start, if a sample was requested."""
    plan = setting.stream
    if plan is None or not setting.n_sampled:
        return
    now_us = int(setting.now() * 1e6)
    for one in plan.inputs:
        topic = one.topic
        assert topic is not None
        messages = messages_before(topic, min(plan.keys.start, now_us), setting.n_sampled)
        if not len(messages):
            raise UsageError(
                f"topic {topic.name!r} has no messages from before start; set a later start"
            )
        for status, text in findings(one, messages, now_us):
            yield status, f"{topic.name}: {text}" if len(plan.inputs) > 1 else text


def findings(one: StreamInput, messages: KafkaMessages, now_us: int) -> Iterator[CheckResult]:
    """Yields what messages say of a configuration.

    Args:
        one: A topic of the stream.
        messages: From before its start.
        now_us: Microseconds since 1970 UTC.

    Raises:
        UsageError: No message is an event, or their times are of another unit.
    """
    n = len(messages)
    events, rejects = one.layout.decode(messages, messages.published_us)
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
    _check_unit(one.layout, messages)
    if not events.num_rows:
        raise UsageError("no message of the sample is an event: see the reasons, and correct them")
    yield _activities(one.keys, events)
    yield _partitions(events, messages.partitions)
    yield _disorder(one.keys, events)
    yield from _times(events, now_us)


def _check_unit(layout: MessageFormat, messages: KafkaMessages) -> None:
    """Makes sure that no other unit puts more times near those of publishing."""
    given = layout.mapping.timestamp_unit
    units = (given, *(unit for unit in UNITS_US if unit != given))
    n_near = {unit: _n_near(layout, unit, messages) for unit in units}
    best = max(units, key=n_near.__getitem__)  # the given one, where no other is better
    if best != given:
        raise UsageError(
            f"timestamp_unit {given or 'is not set, and'} does not fit: of {len(messages):,} "
            f"messages it puts {n_near[given]:,} near their publishing, and {best} "
            f"{n_near[best]:,}; set it to {best}"
        )


def _n_near(layout: MessageFormat, unit: str | None, messages: KafkaMessages) -> int:
    read = replace(layout, mapping=replace(layout.mapping, timestamp_unit=unit))
    events, _ = read.decode(messages, messages.published_us)
    return int((np.abs(_late_us(events)) < _NEAR_US).sum())


def _activities(config: StreamConfig, events: pa.RecordBatch) -> CheckResult:
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


def _partitions(events: pa.RecordBatch, partitions: np.ndarray) -> CheckResult:
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


def _disorder(config: StreamConfig, events: pa.RecordBatch) -> CheckResult:
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
    cases, (publish, times) = _cases(events), _stamps(events)
    order = np.lexsort((publish, -times, cases))
    late = np.zeros(len(order), np.int64)
    for rows in np.split(order, np.flatnonzero(np.diff(cases[order])) + 1):
        # By falling time; events of one time are no successors of each other.
        first = np.minimum.accumulate(publish[rows])
        group = np.searchsorted(-times[rows], -times[rows], side="left")
        before = np.where(group > 0, first[np.maximum(group - 1, 0)], publish[rows])
        late[rows] = np.maximum(publish[rows] - before, 0)
    return late


def _times(events: pa.RecordBatch, now_us: int) -> Iterator[CheckResult]:
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
    publish, times = _stamps(events)
    return publish - times


def _stamps(events: pa.RecordBatch) -> Iterator[np.ndarray]:
    """When the events were published, and when they were, int64[n] each."""
    return (np.asarray(events[name]).astype(np.int64) for name in (PUBLISH_TIME, TIMESTAMP))


def _rough(micros: int) -> str:
    return duration_text(abs(micros) // 1_000_000 * 1_000_000)


def _share(n: int, of: int) -> str:
    return f"{n:,} ({100 * n / of:.1f} %)"


# --- What is read: files and their columns, the database of a query, topics of a stream. ----------
# And where a stream is: its state, the logs that it reads, and how its last run ended.


def check_input(setting: Setting) -> Iterator[CheckResult]:
    """Looks whether the source is there, and has what is mapped; reads no record."""
    release, stream = setting.release, setting.stream
    if stream is not None:
        yield from _check_stream(stream)
    elif release is not None and release.keys.query is not None:
        yield from _check_query(release)
    elif release is not None:
        yield from _check_files(setting, release)


def _check_files(setting: Setting, release: ReleasePlan) -> Iterator[CheckResult]:
    decided = left_out_of(setting.store, setting.output, str(release.keys.release_id))
    source = source_of(release, left_out=[one.path for one in decided], is_checked=False)
    source.check(source.files)
    # The same line whether there are files or not: an empty day is a log without cases.
    which = "every table and file" if release.keys.tables else "every file"
    yield "ok", f"{which} that is there can be opened, and those with a schema have what is mapped"
    if decided:
        yield "ok", "files are left out of the next window, as a person decided"


def _check_query(release: ReleasePlan) -> Iterator[CheckResult]:
    from tracecloak.transforms.inputs.databases import connected, query_text

    query_text(release.keys.query or "")
    try:
        connected(release.keys.database or "").close()
    except TracecloakError:
        raise
    except Exception as error:  # each driver has its own, which may quote the address
        raise InputSchemaError(
            f"the database does not answer ({type(error).__name__}); start it, or correct database"
        ) from None
    yield "ok", "the database answers; it is not asked the query, as that is asked once"


def _check_stream(plan: StreamPlan) -> Iterator[CheckResult]:
    config, begun = plan.keys, plan.is_begun
    if config.schema_registry is not None:
        check_registry(config)
        yield "ok", "the registry of schemas answers"
    for one in plan.inputs:
        if (topic := one.topic) is not None:
            topic.check(longest_us=plan.rule.longest_us, is_begun=begun)
            if not begun:
                check_history(topic, config.start)
            yield "ok", f"topic {topic.name} is set as it must be; a start compares its clock"
        elif not (begun and is_local(config.runner)):  # else with the state of the epoch
            yield from check_pubsub(one, None)
    step_sinks(config)
    for name in ("output_topic", "reject_topic"):
        if config.kafka(name) is not None:
            yield "ok", f"{name} is there"


def check_pubsub(one: StreamInput, known: Mapping[str, Any] | None) -> Iterator[CheckResult]:
    """Looks whether a subscription or a topic of Pub/Sub is there, and is what was read.

    Args:
        one: What is read.
        known: What the state of the epoch keeps of the subscription; None: there is no state.
    """
    from tracecloak.transforms.services import pubsub_service

    library, is_begun = pubsub_service.pubsub(), known is not None
    is_topic = one.keys.input_subscription is None and not is_begun
    client = library.PublisherClient() if is_topic else library.SubscriberClient()
    name = str(one.keys.input_topic if is_topic else one.subscription)
    ask = client.get_topic if is_topic else client.get_subscription
    with pubsub_service.reading(name, is_begun):
        found = ask(request={"topic" if is_topic else "subscription": name}, timeout=20.0)
    if not is_topic:
        pubsub_service.check_subscription(known or {}, found, is_begun)
        if short := pubsub_service.short_retention(found):
            yield "warning", f"{name} {short}"
    yield "ok", f"{name} is there"


def check_state(setting: Setting) -> Iterator[CheckResult]:
    """Looks how the last run of a stream ended, and whether the next one can begin or go on."""
    plan, ledger = setting.stream, setting.ledger
    if plan is None or ledger is None:
        return
    from tracecloak.pipelines.stream.epoch import begun_epoch

    place = plan.place
    is_running, last = setting.store.is_held(*place), last_attempt(setting.store, *place)
    if last is not None and not is_running:
        code = "" if last.exit_code == NOT_ENDED else f"exit code {last.exit_code}, "
        yield "warning" if last.exit_code else "ok", f"last run: {last.at}, {code}{last.reason}"
    epoch = begun_epoch(plan, setting.store, ledger)
    yield "ok", "the epoch begins" if epoch is None else "the epoch goes on with what it has"
    if epoch is not None:
        runner_state = _local_state if is_local(plan.keys.runner) else _remote_state
        yield from runner_state(setting, epoch, ledger)
    if is_running:
        raise RetryLater(BEING_MADE.format(*place))


def _remote_state(_: Setting, epoch: Epoch, ledger: Ledger) -> Iterator[CheckResult]:
    from tracecloak.pipelines.stream.epoch import spent_error
    from tracecloak.pipelines.stream.run import check_kept

    if epoch.is_spent:
        raise spent_error(epoch.plan)
    check_kept(epoch, ledger)
    yield "ok", f"what runner {epoch.plan.keys.runner} has read is unknown until it starts"


def _local_state(setting: Setting, epoch: Epoch, ledger: Ledger) -> Iterator[CheckResult]:
    from tracecloak.pipelines.stream.local_run import opened_state
    from tracecloak.transforms.stream.sources import DIGEST_PURPOSE

    plan = epoch.plan
    with opened_state(epoch, plan.source_name, ledger=ledger) as (_, kept):
        if kept is None:
            yield "ok", "the epoch has no state yet"
        else:
            yield "ok", f"the state is sound, and goes on with step {kept.state.next_step}"
    key = epoch.keys[0].resolve().derive(DIGEST_PURPOSE)
    known = plan.by_input({} if kept is None else kept.positions)
    for one in plan.inputs:
        positions = known.get(one.name, {})
        if one.topic is not None:
            yield from _check_topic(setting, one.topic, key, positions, plan.keys.start)
        else:
            yield from check_pubsub(one, None if kept is None else positions)


def _check_topic(
    setting: Setting, topic: KafkaTopic, key: bytes, positions: Mapping[str, Any], start_us: int
) -> Iterator[CheckResult]:
    from tracecloak.transforms.services import kafka_identity
    from tracecloak.transforms.stream.sources import log_to_read

    known, now = log_to_read(topic, key, positions, start_us)
    yield "ok", f"topic {topic.name} is the log that was read, and no unread message is gone"
    at = {n: one.first for n, one in now.bounds.items()}
    at |= {n: place.next for n, place in known.places.items()}
    if setting.is_private:
        behind = {n: one.stable - at[n] for n, one in now.bounds.items() if one.stable > at[n]}
        where = ", ".join(f"{most:,} in partition {n}" for n, most in behind.items())
        yield "ok", f"messages of topic {topic.name} not read yet: {where or 'none'}"
    for n in kafka_identity.open_transactions(now, at):
        text = f"a transaction in partition {n} of topic {topic.name!r} is open, and steps wait"
        remedy = kafka_identity.transaction_remedy(topic, n)
        yield "warning", f"{text}. If it does not end soon: {remedy}"

"""What each runner reads and gives the promise of a stream, and waiting for services."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tracecloak.anonymizers.noise.randomness import text_digest
from tracecloak.pipelines.budget.opening import open_store
from tracecloak.pipelines.runners.flags import FED, FLINK, LOCAL
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.lakes.tables import address_of
from tracecloak.transforms.operator_log import operator_log
from tracecloak.transforms.services.kafka_clock import shared_clock
from tracecloak.transforms.services.schema_registry import SchemaRegistry
from tracecloak.transforms.stream.step_sinks import LineSink, StepSink, TableSink
from tracecloak.transforms.stream.stream_status import RateLimiter

if TYPE_CHECKING:
    from tracecloak.transforms.stream.local_stream import Sink
    from tracecloak.transforms.stream.stream_status import StreamStatus


# --- What each runner gives the promise of a stream, and what it does not, for the manifest. ------


# The message services that each reads.
READ_BY: dict[str, tuple[str, ...]] = {
    LOCAL: ("Kafka", "Pub/Sub"),
    FLINK: ("Kafka",),
    "DataflowRunner": ("Pub/Sub",),
}

_ELSEWHERE = (
    "What workers with keys of their own decide is noted in the ledger by the command that started "
    "them, once a minute: if what they keep of a step is lost with its files before that, the step "
    "could be drawn again."
)

RUNNERS: dict[str, tuple[str, ...]] = {
    LOCAL: (
        "It runs in one process and keeps open cases, closed ones, counts, sums and positions on "
        "the disk of its machine: it goes on with the same epoch however it ended, and spends "
        "nothing for that. Without that state the epoch cannot go on.",
        "Counts, and what a step releases, are durable before a byte of it is seen, and the ledger "
        "has noted the step by then. A step that is sent again is the same bytes, and is never "
        "computed again.",
        "Messages are acknowledged when they are on that disk, and steps wait for what is unread: "
        "of Kafka up to each partition's oldest unread message; of Pub/Sub, which does not say how "
        "old that is, until for as long as its deadline of acknowledgement nothing older came.",
    ),
    FED: (
        "It runs in one process and keeps everything in its memory: when the process ends, open "
        "cases, closed ones and counts are forgotten. A case that goes on afterwards could count "
        "twice, so once a step is published a restart needs another epoch, which is another spend.",
        "Its watermark is that of the messages that it is given: what they leave behind is late.",
        "Counts are not kept durably before noise is added (unsafe_barrier). What a step releases "
        "is, before it is shown, and the ledger has noted the step by then: a bundle that is tried "
        "again gives the same bytes, and a restart with other counts publishes again what was "
        "decided, and nothing new.",
    ),
    FLINK: (
        "Open cases, closed ones, counts, sums and positions are in Flink's checkpoints. A job "
        "that fails goes on from the last one and reads again what was read after it: the same "
        "cases close in the same steps. So it does where it is started from a checkpoint or "
        "savepoint that was kept, also with other parallelism.",
        "A step is decided when everything that was published before its release time is read, of "
        "each partition, and when its release time is over by the clock of the worker. What it "
        "releases is kept before it is shown: a step that is tried again is the same bytes, or it "
        "is not published again (unsafe_barrier).",
        "A job that is started without its state reads the topic again from its oldest message, "
        "and publishes nothing new unless the same cases close in the steps that are published: "
        "where messages are gone meanwhile, another epoch must begin, which is another spend.",
        "The ledger notes a step before it is shown if workers read the key store of whoever "
        "starts them. " + _ELSEWHERE,
    ),
    "DataflowRunner": (
        "State and counts are durable: a bundle that is tried again has the same input.",
        "Messages are acknowledged after they are processed, and the watermark waits for the "
        "oldest unread one.",
        "An update of the job keeps its state. A drain ends the watermark: with publish_on_drain "
        "all steps that are left are published at once, and the epoch is over; without it steps "
        "that are not over are not decided. A job that is cancelled loses its state: "
        "start another epoch, which is another spend.",
        _ELSEWHERE,
    ),
}


# --- Waits for the services of a stream, so that nothing is paid before they answer. --------------


_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")
_AGAIN_SECONDS = 5.0

Answer = TypeVar("Answer")


def wait_for_answer(
    ask: Callable[[], Answer], stop: threading.Event, standing: StreamStatus
) -> Answer | None:
    """Asks until there is an answer, and says once a minute that it waits.

    Args:
        ask: Raises RetryLater if waiting may help; any other error ends the waiting.
        stop: Set when the waiting is to end.
        standing: Where else it says so.

    Returns:
        The answer; None: `stop` was set before there was one.
    """
    said = RateLimiter()
    while not stop.is_set():
        try:
            answer = ask()
        except RetryLater as error:
            standing.turn()
            standing.source_away = str(error)
            if said.is_due():
                _LOG.warning("%s; the stream waits, and goes on when that is over", error)
            stop.wait(_AGAIN_SECONDS)
        else:
            standing.source_away = None
            return answer
    return None


def is_begun(config: StreamConfig) -> bool:
    """Returns whether the epoch of a configuration was begun, on this key store.

    Raises:
        TracecloakError: The key store cannot be used.
    """
    return open_store(config).receipt(*config.place) is not None


def check_registry(config: StreamConfig) -> None:
    """Makes sure that the registry of the schemas of messages answers, if there is one.

    Raises:
        UsageError: It refuses this client, or it is none.
        RetryLater: It is away.
    """
    if config.schema_registry is not None:
        SchemaRegistry(config.schema_registry, config.schema_registry_properties).check()


def check_sources(config: StreamConfig, is_new: bool) -> None:
    """Makes sure that topics of Kafka can be read, and that their brokers and a registry answer.

    Args:
        config: What is published, of what.
        is_new: Whether its epoch has not begun, so that no message of it may be deleted.

    Raises:
        SourceChanged: An epoch that has begun has lost its topic.
        UsageError: A topic is not there, or messages since the start of the epoch are not, or
            brokers tell no time; or the registry refuses this client.
        RetryLater: No broker or registry answers, or clocks differ.
    """
    from tracecloak.transforms.services.kafka_identity import check_history

    check_registry(config)
    for one in config.sources:
        if (topic := one.input_kafka) is None:
            continue
        topic.check(longest_us=one.rule.longest_us, is_begun=not is_new)
        shared_clock(topic, one.clock_topic).passed_us()
        if is_new:
            folder = config.dead_letter or open_store(config).operator_folder(*config.place)
            with operator_log(folder):
                check_history(topic, one.start, _OPERATOR.warning)


def subscription_of(config: StreamConfig) -> str:
    """Returns the subscription to read; of a topic each epoch has its own, always the same one."""
    if config.input_topic is None:
        assert config.input_subscription is not None
        return config.input_subscription
    project, _, _ = config.input_topic.partition("/topics/")
    digest = text_digest(f"{config.input_topic} {config.name.both}")[:16]
    return f"{project}/subscriptions/tracecloak-{digest}"


def source_names(config: StreamConfig) -> list[str]:
    """Returns the names of the sources of a stream, under which its state keeps positions."""
    topics = [(one, one.input_kafka) for one in config.sources]
    return [
        f"subscription {subscription_of(one)}" if topic is None else topic.source_name
        for one, topic in topics
    ]


def by_source(config: StreamConfig, kept: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the positions that a state keeps, of each source of its stream."""
    names = source_names(config)
    return [kept] if len(names) == 1 else [kept.get(name, {}) for name in names]


def step_sinks(config: StreamConfig) -> list[Sink]:
    """Returns the sink of the topic that gets the steps, if one does; it pickles.

    Topics of Kafka are known to exist then, and what else is written to has a name that can be one.

    Raises:
        UsageError: A topic is not there, or the table is of a kind that is not written.
        RetryLater: No broker of Kafka answers.
    """
    for topic in (config.output_kafka, config.reject_kafka):
        if topic is not None:
            topic.check(is_read=False)
    table_sinks(config, "")
    if config.reject_topic is not None:
        LineSink(config.reject_kafka or config.reject_topic)
    if config.output_topic is None:
        return []
    return [StepSink(config.output_kafka or config.output_topic)]


def table_sinks(config: StreamConfig, key_fingerprint: str) -> list[Sink]:
    """Returns the sink of the table that gets the steps, if one does; it pickles.

    Raises:
        UsageError: The table is of a kind that is not written.
    """
    if config.output_table is None:
        return []
    return [TableSink(address_of(config.output_table), key_fingerprint)]

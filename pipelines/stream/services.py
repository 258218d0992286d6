"""What each runner reads of a stream, and waiting for services."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tracecloak.anonymizers.noise.randomness import text_digest
from tracecloak.pipelines.budget.opening import open_store
from tracecloak.pipelines.runners.flags import FLINK, LOCAL
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


# The message services that each reads.
READ_BY: dict[str, tuple[str, ...]] = {
    LOCAL: ("Kafka", "Pub/Sub"),
    FLINK: ("Kafka",),
    "DataflowRunner": ("Pub/Sub",),
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

"""What is read: files and their columns, the database of a query, topics of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tracecloak.examination.doctor.setting import Said, Setting
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.runners.names import is_local
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.schemas.errors import InputSchemaError, TracecloakError


def look_at_input(setting: Setting) -> Iterator[Said]:
    """Looks whether the source is there, and has what is mapped; reads no record."""
    release, stream = setting.release, setting.stream
    if stream is not None:
        yield from _of_stream(stream)
    elif release is not None and release.query is not None:
        yield from _of_query(release)
    elif release is not None:
        yield from _of_files(setting, release)


def _of_files(setting: Setting, release: ReleaseConfig) -> Iterator[Said]:
    from tracecloak.pipelines.configuration.source import source_of
    from tracecloak.pipelines.keys.left_out import left_out_of

    decided = left_out_of(setting.store, setting.output, str(release.release_id))
    source = source_of(release, left_out=[one.path for one in decided], is_checked=False)
    source.check(source.files)
    # The same line whether there are files or not: an empty day is a log without cases.
    which = "every table and file" if release.tables else "every file"
    yield "ok", f"{which} that is there can be opened, and those with a schema have what is mapped"
    if decided:
        yield "ok", "files are left out of the next window, as a person decided"


def _of_query(release: ReleaseConfig) -> Iterator[Said]:
    from tracecloak.transforms.inputs.databases import connected
    from tracecloak.transforms.inputs.query_result import query_text

    query_text(release.query or "")
    try:
        connected(release.database or "").close()
    except TracecloakError:
        raise
    except Exception as error:  # each driver has its own, which may quote the address
        raise InputSchemaError(
            f"the database does not answer ({type(error).__name__}); start it, or correct database"
        ) from None
    yield "ok", "the database answers; it is not asked the query, as that is asked once"


def _of_stream(config: StreamConfig) -> Iterator[Said]:
    from tracecloak.pipelines.stream.services import check_registry, is_begun, step_sinks

    if config.schema_registry is not None:
        check_registry(config)
        yield "ok", "the registry of schemas answers"
    begun = is_begun(config)
    for one in config.sources:
        if (topic := one.input_kafka) is not None:
            from tracecloak.transforms.services.kafka_identity import check_history

            topic.check(longest_us=one.rule.longest_us, is_begun=begun)
            if not begun:
                check_history(topic, one.start)
            yield "ok", f"topic {topic.name} is set as it must be; a start compares its clock"
        elif not (begun and is_local(config.runner)):  # else with the state of the epoch
            yield from of_pubsub(one, None)
    step_sinks(config)
    for name in ("output", "reject"):
        if getattr(config, f"{name}_kafka") is not None:
            yield "ok", f"{name}_topic is there"


def of_pubsub(config: StreamConfig, known: Mapping[str, Any] | None) -> Iterator[Said]:
    """Looks whether a subscription or a topic of Pub/Sub is there, and is what was read.

    Args:
        config: Of the stream, for one of its sources.
        known: What the state of the epoch keeps of the subscription; None: there is no state.
    """
    from tracecloak.pipelines.stream.services import subscription_of
    from tracecloak.transforms.services.pubsub_service import (
        asking,
        check_subscription,
        pubsub,
        short_retention,
    )

    library, is_begun = pubsub(), known is not None
    is_topic = config.input_subscription is None and not is_begun
    client = library.PublisherClient() if is_topic else library.SubscriberClient()
    name = str(config.input_topic if is_topic else subscription_of(config))
    ask = client.get_topic if is_topic else client.get_subscription
    with asking(name, is_begun):
        found = ask(request={"topic" if is_topic else "subscription": name}, timeout=20.0)
    if not is_topic:
        check_subscription(known or {}, found, is_begun)
        if short := short_retention(found):
            yield "warning", f"{name} {short}"
    yield "ok", f"{name} is there"

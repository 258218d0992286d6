"""What is read: files and their columns, the database of a query, topics of a stream."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from tracecloak.examination.doctor.setting import Said, Setting
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.schemas.errors import InputSchemaError, RetryLater, TracecloakError, UsageError


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
    from tracecloak.pipelines.stream.services import check_registry, step_sinks

    if config.schema_registry is not None:
        check_registry(config)
        yield "ok", "the registry of schemas answers"
    for one in config.sources:
        yield from _of_input(one)
    step_sinks(config)
    for name in ("output", "reject"):
        if getattr(config, f"{name}_kafka") is not None:
            yield "ok", f"{name}_topic is there"


def _of_input(config: StreamConfig) -> Iterator[Said]:
    from tracecloak.pipelines.stream.services import is_begun

    topic = config.input_kafka
    if topic is not None:
        from tracecloak.transforms.services.kafka_identity import check_history

        topic.check(longest_us=config.rule.longest_us)
        if not is_begun(config):
            check_history(topic, config.start)
        yield (
            "ok",
            f"topic {topic.name} can be read and its brokers stamp messages; a stream that starts "
            "compares their clock, as it takes a message of clock_topic to ask for it",
        )
    else:
        yield from _of_pubsub(config)


def _of_pubsub(config: StreamConfig) -> Iterator[Said]:
    from tracecloak.pipelines.stream.services import kept_positions, subscription_of
    from tracecloak.transforms.services.pubsub_service import (
        check_subscription,
        pubsub,
        short_retention,
        subscription_error,
    )

    library = pubsub()
    errors = importlib.import_module("google.api_core.exceptions")
    kept = kept_positions(config)  # of all inputs by name, if there are several
    is_begun = kept is not None
    is_topic = config.input_subscription is None and not is_begun
    client = library.PublisherClient() if is_topic else library.SubscriberClient()
    name = config.input_topic if is_topic else subscription_of(config)
    key = "input_topic" if config.input_subscription is None else "input_subscription"
    ask = client.get_topic if is_topic else client.get_subscription
    try:
        found = ask(request={"topic" if is_topic else "subscription": name}, timeout=20.0)
    except (errors.NotFound, errors.PermissionDenied, errors.InvalidArgument) as error:
        if is_begun and isinstance(error, errors.NotFound):
            raise subscription_error(str(name), error.message, is_begun) from None
        raise UsageError(
            f"{key} {name!r} cannot be read: {type(error).__name__}; make it, let this account "
            f"read it, or correct {key}"
        ) from None
    except errors.GoogleAPIError as error:
        raise RetryLater(f"Pub/Sub does not answer: {type(error).__name__}") from None
    if not is_topic:
        known = (kept or {}).get(f"subscription {name}", kept or {})
        check_subscription(known, found, is_begun)
        if short := short_retention(found):
            yield "warning", f"{name} {short}"
    yield "ok", f"{key} is there"

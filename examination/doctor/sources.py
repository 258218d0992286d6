"""What is read: files and their columns, the database of a query, topics of a stream.

And where a stream is: its state, the logs that it reads, and how its last run ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tracecloak.examination.doctor.setting import Said, Setting
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.keys.key_store import BEING_MADE
from tracecloak.pipelines.keys.notes import NOT_ENDED, last_attempt
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.runners.names import is_local
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.schemas.errors import InputSchemaError, RetryLater, TracecloakError

if TYPE_CHECKING:
    from tracecloak.pipelines.stream.epoch import Epoch
    from tracecloak.transforms.services.kafka_topic import KafkaTopic


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
    from tracecloak.pipelines.keys.notes import left_out_of

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


def look_at_state(setting: Setting) -> Iterator[Said]:
    """Looks how the last run of a stream ended, and whether the next one can begin or go on."""
    config, ledger = setting.stream, setting.ledger
    if config is None or ledger is None:
        return
    from tracecloak.pipelines.stream.epoch import begun_epoch

    place = setting.output, config.name.both
    is_running, last = setting.store.is_held(*place), last_attempt(setting.store, *place)
    if last is not None and not is_running:
        code = "" if last.exit_code == NOT_ENDED else f"exit code {last.exit_code}, "
        yield "warning" if last.exit_code else "ok", f"last run: {last.at}, {code}{last.reason}"
    epoch = begun_epoch(config, setting.store, ledger)
    yield "ok", "the epoch begins" if epoch is None else "the epoch goes on with what it has"
    if epoch is not None:
        of_runner = _of_local if is_local(config.runner) else _elsewhere
        yield from of_runner(setting, epoch, ledger)
    if is_running:
        raise RetryLater(BEING_MADE.format(*place))


def _elsewhere(_: Setting, epoch: Epoch, ledger: Ledger) -> Iterator[Said]:
    from tracecloak.pipelines.stream.epoch import spent_error
    from tracecloak.pipelines.stream.run import check_kept

    if epoch.is_spent:
        raise spent_error(epoch.config)
    check_kept(epoch, ledger)
    yield "ok", f"what runner {epoch.config.runner} has read is unknown until it starts"


def _of_local(setting: Setting, epoch: Epoch, ledger: Ledger) -> Iterator[Said]:
    from tracecloak.pipelines.stream.local_run import opened_state
    from tracecloak.pipelines.stream.services import by_source, source_names
    from tracecloak.transforms.stream.sources import DIGEST_PURPOSE

    config = epoch.config
    with opened_state(epoch, ", ".join(source_names(config)), ledger=ledger) as (_, kept):
        if kept is None:
            yield "ok", "the epoch has no state yet"
        else:
            yield "ok", f"the state is sound, and goes on with step {kept.state.next_step}"
    key = epoch.keys[0].resolve().derive(DIGEST_PURPOSE)
    known = by_source(config, {} if kept is None else kept.positions)
    for one, positions in zip(config.sources, known, strict=True):
        if (topic := one.input_kafka) is not None:
            yield from _of_topic(setting, topic, key, positions, config.start)
        else:
            yield from of_pubsub(one, None if kept is None else positions)


def _of_topic(
    setting: Setting, topic: KafkaTopic, key: bytes, positions: Mapping[str, Any], start_us: int
) -> Iterator[Said]:
    from tracecloak.transforms.services import kafka_identity
    from tracecloak.transforms.stream.kafka_source import log_to_read

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

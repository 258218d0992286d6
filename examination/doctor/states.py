"""Where a stream stands: its state, the logs that it reads, and how its last run ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tracecloak.examination.doctor.setting import Said, Setting
from tracecloak.examination.doctor.sources import of_pubsub
from tracecloak.pipelines.keys.attempts import NOT_ENDED, last_attempt
from tracecloak.pipelines.keys.key_store import BEING_MADE
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.runners.names import is_local
from tracecloak.schemas.errors import RetryLater

if TYPE_CHECKING:
    from tracecloak.pipelines.stream.epoch import Epoch
    from tracecloak.transforms.services.kafka_topic import KafkaTopic


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

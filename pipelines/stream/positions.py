"""`tracecloak stream positions`: where a stream on this machine reads on, shown or set by a person.

To set positions is a decision: messages that are passed never count, and the log that is there is
taken for the one that was read. The ledger notes who decided it and why, and no position.
"""

from __future__ import annotations

from tracecloak.pipelines.budget.opening import officers_ledger, open_store
from tracecloak.pipelines.runners.names import LOCAL
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import paid_epoch
from tracecloak.pipelines.stream.services import is_begun
from tracecloak.schemas.calendar.time_texts import moment_us
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import absolute
from tracecloak.transforms.services.kafka_identity import (
    KnownLog,
    LogNow,
    Place,
    log_since,
    look_at,
)
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream.local_state import LocalState


def positions(
    config: StreamConfig,
    is_private: bool,
    to_time: str | None,
    by: str | None,
    reason: str | None,
) -> list[tuple[str, str]]:
    """Shows the positions of an epoch that does not run, or sets them.

    Args:
        config: Of the stream.
        is_private: Whether only the operator sees what is returned.
        to_time: From which moment on messages are read; None: positions are shown.
        by: Who decides it.
        reason: Why.

    Returns:
        Names and texts: what was done, or the positions with what the topic has.

    Raises:
        UsageError: The epoch has not begun, runs, is not of Kafka or not on this machine; or
            positions would be shown elsewhere than on a terminal; or nobody or no reason is named.
        RetryLater: No broker answers.
    """
    topics = {f"Kafka topic {one.name}": one for one in _topics_of(config)}
    if not topics or config.runner not in (LOCAL, "DirectRunner"):
        raise UsageError(
            f"positions are those of topics of Kafka on runner {LOCAL}; another runner has them "
            "in its own state, so begin another epoch there, which is another spend"
        )
    if not is_begun(config):
        raise UsageError("this epoch has not begun, so it has no positions")
    if to_time is None and not is_private:
        raise UsageError("positions are shown on a terminal alone, as they count messages")
    with paid_epoch(config) as epoch:
        key, _ = (reference.resolve() for reference in epoch.keys)
        store = LocalState(epoch.state_path, key, epoch.product.released)
        if not store.exists:
            raise UsageError("this epoch has no state on this machine, so it has no positions")
        with store.opened(", ".join(topics)) as kept:
            if to_time is None:
                known = {next(iter(topics)): kept.positions} if len(topics) == 1 else kept.positions
                return [
                    row
                    for name, topic in topics.items()
                    for row in _shown(name, KnownLog.from_json(known.get(name, {})), look_at(topic))
                ]
            try:
                since_us = moment_us(to_time)
            except ValueError as error:
                raise UsageError(f"to_time {error}, got {to_time!r}") from None
            target = {name: log_since(one, since_us).to_json() for name, one in topics.items()}
            ledger = officers_ledger(open_store(config), config.ledger)
            place = absolute(config.output), config.name.both
            ledger.note_positions(*place, by or "", reason or "")
            (first, *others) = target.values()
            store.append(None, target if others else first)
    return [("positions set", f"{', '.join(topics)}, to {to_time}")]


def _topics_of(config: StreamConfig) -> list[KafkaTopic]:
    return [topic for one in config.sources if (topic := one.input_kafka) is not None]


def _shown(name: str, known: KnownLog, now: LogNow) -> list[tuple[str, str]]:
    before, after = known.identity, now.identity
    rows = [
        ("source", name),
        ("cluster", f"known {before.cluster_id}, now {after.cluster_id}"),
        ("topic", f"known {before.topic_id}, now {after.topic_id}"),
    ]
    for number in sorted(known.places.keys() | now.bounds.keys()):
        place, there = known.places.get(number, Place(0)), now.bounds.get(number)
        bounds = "not in the topic" if there is None else (
            f"the topic has {there.first:,} to {there.end:,}, stable to {there.stable:,} "
            f"(epoch {there.epoch})"
        )  # fmt: skip
        rows.append((f"partition {number}", f"next {place.next:,} (epoch {place.epoch}); {bounds}"))
    return rows

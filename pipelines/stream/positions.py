"""`tracecloak stream positions`: where a stream of Kafka reads on, shown or set by a person.

To set positions is a decision: messages that are passed never count, and the log that is there is
taken for the one that was read. The ledger notes who decided it and why, and no position.

A stream on this machine has them in its state. On Flink they are in the checkpoints: what is set is
kept for the readers, who follow it once they begin again, whatever checkpoint they begin with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from tracecloak.pipelines.budget.opening import officers_ledger, open_ledger, open_store
from tracecloak.pipelines.runners.flags import FLINK
from tracecloak.pipelines.stream.epoch import Epoch, begun_epoch
from tracecloak.pipelines.stream.plan import StreamPlan
from tracecloak.schemas.calendar.durations import moment_us
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.services.kafka_identity import (
    KnownLog,
    LogNow,
    Place,
    log_since,
    look_at,
)
from tracecloak.transforms.stream.local_stream import LocalState


def positions(
    plan: StreamPlan,
    is_private: bool,
    to_time: str | None,
    by: str | None,
    reason: str | None,
) -> list[tuple[str, str]]:
    """Shows the positions of an epoch that does not run, or sets them.

    On Flink those that are shown are the ones that were set last: the job has its own.

    Args:
        plan: Of the stream.
        is_private: Whether only the operator sees what is returned.
        to_time: From which moment on messages are read; None: positions are shown.
        by: Who decides it.
        reason: Why.

    Returns:
        Names and texts: what was done, or the positions with what the topic has.

    Raises:
        UsageError: The epoch has not begun, runs, or is not of Kafka; or positions would be shown
            elsewhere than on a terminal; or nobody or no reason is named.
        RetryLater: No broker answers.
    """
    topics = {one.name: one.topic for one in plan.inputs if one.topic is not None}
    if not topics:
        raise UsageError("positions are those of topics of Kafka, and this stream reads none")
    if to_time is None and not is_private:
        raise UsageError("positions are shown on a terminal alone, as they count messages")
    with _begun(plan) as epoch, _kept(epoch, list(topics)) as (known, set_to):
        is_flink = plan.keys.runner == FLINK
        if to_time is None:
            word = "last set to" if is_flink else "next"
            return [
                row
                for name, topic in topics.items()
                for row in _shown(name, known.get(name, KnownLog({})), look_at(topic), word)
            ]
        try:
            since_us = moment_us(to_time)
        except ValueError as error:
            raise UsageError(f"to_time {error}, got {to_time!r}") from None
        target = {name: log_since(one, since_us) for name, one in topics.items()}
        ledger = officers_ledger(open_store(plan.keys), plan.keys.ledger)
        named = dict(zip(("output", "release_id"), plan.place, strict=True))
        ledger.declare("positions", named, {}, by or "", reason or "")
        set_to(target)
    said = [("positions set", f"{', '.join(topics)}, to {to_time}")]
    if is_flink:
        said.append(("next", "start the stream with --savepoint_path, its last savepoint"))
    return said


@contextlib.contextmanager
def _begun(plan: StreamPlan) -> Iterator[Epoch]:
    """Gives an epoch that goes on; nobody runs it in the block, and nothing is noted of it."""
    store = open_store(plan.keys)
    if plan.is_begun:
        with store.alone(*plan.place):
            if (epoch := begun_epoch(plan, store, open_ledger(plan.keys, store))) is not None:
                yield epoch
                return
    raise UsageError("this epoch has not begun, so it has no positions")


@contextlib.contextmanager
def _kept(
    epoch: Epoch, names: list[str]
) -> Iterator[tuple[dict[str, KnownLog], Callable[[Mapping[str, KnownLog]], None]]]:
    """Gives what is kept of the logs, by the names of sources, and what sets it."""
    if epoch.plan.keys.runner == FLINK:
        number, logs = epoch.logs.last()
        yield logs, lambda target: epoch.logs.keep(number + 1, target)
        return
    key, _ = (reference.resolve() for reference in epoch.keys)
    store = LocalState(epoch.state_path, key, epoch.plan.product.released)
    if not store.exists:
        raise UsageError("this epoch has no state on this machine, so it has no positions")
    with store.opened(epoch.plan.source_name) as state:
        known = epoch.plan.by_input(state.positions)

        def set_to(target: Mapping[str, KnownLog]) -> None:
            made = {name: log.to_json() for name, log in target.items()}
            store.write(state.state, made[names[0]] if len(names) == 1 else made)

        yield {name: KnownLog.from_json(known[name]) for name in names if name in known}, set_to


def _shown(name: str, known: KnownLog, now: LogNow, word: str) -> list[tuple[str, str]]:
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
        rows.append(
            (f"partition {number}", f"{word} {place.next:,} (epoch {place.epoch}); {bounds}")
        )
    return rows

"""A stream on this machine, without Beam: it goes on where it was, however it ended."""

from __future__ import annotations

import contextlib
import functools
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tracecloak.anonymizers.streams.steps import Identities, RunningStream
from tracecloak.pipelines.budget.opening import open_store
from tracecloak.pipelines.keys.notes import end_noted
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.runners.failures import STAYS, redact_foreign_errors
from tracecloak.pipelines.runners.flags import LOCAL
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import Epoch, StreamOutcome, paid_epoch
from tracecloak.pipelines.stream.plan import (
    StreamInput,
    StreamPlan,
    check_sources,
    step_sinks,
)
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.transforms.services.kafka_clock import shared_clock
from tracecloak.transforms.services.pubsub_service import PubSubClock
from tracecloak.transforms.stream.local_stream import (
    Kept,
    LocalState,
    LocalStream,
    Sink,
    check_has_decided,
)
from tracecloak.transforms.stream.sources import (
    DIGEST_PURPOSE,
    KafkaSource,
    PubSubSource,
    SeveralSources,
    Source,
    delete_subscription,
)
from tracecloak.transforms.stream.step_sinks import RejectSink, add_up
from tracecloak.transforms.stream.stream_status import RateLimiter, StreamStatus

_LOG = logging.getLogger("tracecloak")

_AGAIN_SECONDS = 5.0

Answer = TypeVar("Answer")
# Opens the source behind the positions that were kept, with a key for what it keeps of messages.
Opening = Callable[[Mapping[str, Any], bytes], Source]


def run_local(plan: StreamPlan) -> StreamOutcome:
    """Pays for a stream and runs it until it is interrupted, or its last step is published.

    It goes on where this epoch was, however it ended, without another spend. It waits for a service
    that does not answer, also before anything is paid.

    Args:
        plan: What is published, of what.

    Raises:
        TracecloakError: It could not begin, or it failed, for the reason that the error gives.
    """
    standing = StreamStatus()
    noted = end_noted(open_store(plan.keys), *plan.place)
    with noted as note_begin, stop_on_signal() as stop, watched(plan, standing, stop):
        check_no_workers(plan.keys)
        is_new = not plan.is_begun
        connected = wait_for_answer(
            lambda: (_source_of(plan, is_new), step_sinks(plan.keys)), stop, standing
        )
        if connected is None:
            return StreamOutcome(plan.folder, False)
        opening, sinks = connected
        with paid_epoch(plan) as epoch, redact_foreign_errors(STAYS):
            note_begin()
            run_epoch(epoch, opening, plan.source_name, sinks, stop, standing=standing)
    if epoch.is_spent:
        for one in plan.inputs:
            if one.subscription and one.keys.input_topic is not None:
                delete_subscription(one.subscription)
            if one.clock_subscription:
                delete_subscription(one.clock_subscription)
    return StreamOutcome(plan.folder, epoch.is_spent)


def check_no_workers(keys: StreamConfig) -> None:
    """Makes sure that a stream of this runner is given nothing for workers.

    Raises:
        UsageError: It is.
    """
    if keys.worker_keys is not None:
        raise UsageError(
            f"worker_keys are for workers elsewhere, and runner {LOCAL} has none: leave it out"
        )


def run_epoch(
    epoch: Epoch,
    opening: Opening,
    source_name: str,
    sinks: Sequence[Sink],
    stop: threading.Event,
    clock: Callable[[], float] = time.time,
    standing: StreamStatus | None = None,
) -> None:
    """Runs an epoch that is paid for, from where its state is on the disk.

    Args:
        epoch: What is published, and where.
        opening: Opens the source.
        source_name: Name under which the state keeps the positions of the source.
        sinks: Take the steps once they are noted and their files are there.
        stop: Set when the stream is to end.
        clock: Seconds since 1970 UTC.
        standing: Where it says how it stands; None: nobody looks.

    Raises:
        TracecloakError: It cannot go on.
    """
    plan, config, standing = epoch.plan, epoch.plan.keys, standing or StreamStatus()
    key, whose = (reference.resolve() for reference in epoch.keys)
    stream = RunningStream(plan.product, plan.name, key, plan.rule, Identities(whose))
    with opened_state(epoch, source_name, stream) as (store, state_file):
        if state_file is None:  # nothing is left to draw or to write
            epoch.end()
            return
        known = state_file.names or plan.begun.vocabulary
        if set(known) != set(config.vocabulary):
            before = ActivityVocabulary.public(known, config.closed_vocabulary)
            grown = stream.grown(state_file.state, before)
            state_file = store.grow(state_file, grown, config.vocabulary)
        kept, digest_key = state_file, key.derive(DIGEST_PURPOSE)
        source = wait_for_answer(lambda: opening(kept.positions, digest_key), stop, standing)
        if source is None:
            return
        loop = LocalStream(
            stream,
            [one.layout for one in plan.inputs],
            store,
            [epoch.noted, *epoch.sinks, *sinks],
            RejectSink(epoch.rejected, config.kafka("reject_topic") or config.reject_topic).send,
            clock,
            standing,
        )
        with contextlib.closing(source):
            is_done = loop.run(source, kept, stop)
        add_up(epoch.rejected)
    if is_done:
        _LOG.warning("%s", plan.name.exhausted_message(config.horizon - 1))
        epoch.end()


@contextlib.contextmanager
def opened_state(
    epoch: Epoch, source: str, stream: RunningStream | None = None, ledger: Ledger | None = None
) -> Iterator[tuple[LocalState, Kept | None]]:
    """Opens the state of an epoch in the block, once it is known to have all decided steps.

    Args:
        epoch: What is published, and where.
        source: Name of the source, see `run_epoch`.
        stream: Begins the state of an epoch that has none; None: none is made.
        ledger: The ledger that pays, where nothing is to be written; None: as the epoch finds it.

    Returns:
        The state, and its content; None: there is none.

    Raises:
        TracecloakError: The state is gone, older than what was decided, damaged, of another version
            or of another source.
    """
    store = LocalState(epoch.state_path, epoch.keys[0].resolve(), epoch.plan.product.released)
    decided = epoch.last_decided(ledger)
    if not store.exists:
        is_over = epoch.last_published == epoch.plan.keys.horizon - 1
        check_has_decided(str(epoch.state_path), -1 if is_over else decided, None)
        if stream is None or is_over:
            yield store, None
            return
        store.create(stream.begin(), source)
    with store.opened(source, is_read_only=ledger is not None) as kept:
        check_has_decided(str(epoch.state_path), decided, kept.state.next_step)
        yield store, kept


@contextlib.contextmanager
def stop_on_signal(
    said: str = "stopping; the same command goes on from here, and spends nothing twice",
) -> Iterator[threading.Event]:
    """Gives an event that is set at the first signal to end; the second signal ends at once.

    Args:
        said: What is logged at the first signal.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(number: int, _: object) -> None:
        stop.set()
        restore()
        _LOG.warning("%s", said)

    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, ask)
    try:
        yield stop
    finally:
        restore()


def watched(
    plan: StreamPlan, standing: StreamStatus, stop: threading.Event
) -> contextlib.AbstractContextManager[Callable[[Epoch], contextlib.AbstractContextManager[None]]]:
    """Returns what tells the operator how the stream stands, if anybody asks for it.

    It gives `operator_side.following`, which follows a job of Beam.
    """
    if not plan.keys.is_watched:
        return contextlib.nullcontext(lambda epoch: contextlib.nullcontext())
    from tracecloak.pipelines.stream.operator_side import operator_side

    return operator_side(plan, standing, stop)


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


def _source_of(plan: StreamPlan, is_new: bool) -> Opening:
    """Returns the configured source's opening function, once the source is known to exist."""
    check_sources(plan, is_new)
    openings = {one.name: _opening_of(plan, one, is_new) for one in plan.inputs}
    if len(openings) == 1:
        return openings[plan.inputs[0].name]
    return functools.partial(SeveralSources, openings)


def _opening_of(plan: StreamPlan, one: StreamInput, is_new: bool) -> Opening:
    """Returns what opens one of the inputs."""
    keys = one.keys
    if one.topic is not None:
        clock = shared_clock(one.topic, keys.clock_topic)
        given = one.topic, plan.consumer_group, clock, keys.start
        return functools.partial(KafkaSource, *given, longest_us=plan.rule.longest_us)

    def opened(positions: Mapping[str, Any] | None, _: bytes) -> PubSubSource:
        project = one.subscription.partition("/subscriptions/")[0]
        clock = PubSubClock(f"{project}/topics/{keys.clock_topic}", one.clock_subscription)
        return PubSubSource(
            one.subscription, clock, keys.input_topic, positions=positions, is_begun=not is_new
        )

    opened(None, b"").close()
    return opened

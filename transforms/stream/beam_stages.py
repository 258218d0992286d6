"""The stages of a stream on Beam: messages to events, events to whole cases, cases to steps.

DecodeMessages makes events of messages; what cannot be read is a reject. State and timers of
AssembleCases hold open cases by shard. PublishSteps is the release stage, one release a step.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.coders import BytesCoder, TupleCoder, VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.trigger import AccumulationMode, AfterWatermark
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    TimestampedValue,
)
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming, WindowedValue

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.anonymizers.streams.steps import (
    Identities,
    StepCounts,
    StepDecider,
    StepProduct,
    StreamName,
    kinds_of,
)
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.step import Step
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.open_cases import FOREVER_US, OpenCases
from tracecloak.schemas.streams.stream_caps import CountedCases, PlacedCases, is_merge_due
from tracecloak.transforms.batch.traces import MergeStatisticsFn
from tracecloak.transforms.formats.messages import Message, MessageFormat
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.stream.step_sinks import KeptSteps
from tracecloak.transforms.stream.stream_status import warn_of_times_ahead

# --- DecodeMessages: a stream of messages to batches of events and of unreadable messages. --------
# Messages are gathered and decoded together, because all later stages work on batches. No message
# makes the pipeline fail (`transforms.formats.messages`). Which messages count is not decided
# here: a message that is delivered twice becomes two events with one id.


EVENTS = "events"
REJECTS = "rejects"

# A batch ends at this number of messages, or of bytes.
_BATCH_MESSAGES = 1 << 14
_BATCH_BYTES = 16 << 20


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def DecodeMessages(  # noqa: N802  # runners know it by this name
    messages: beam.PCollection[Message], layout: MessageFormat
) -> dict[str, beam.PCollection[pa.RecordBatch]]:
    """Decodes the messages of a bundle together; returns PCollections of record batches.

    Takes messages in the global window whose element time is the time of their publishing, as
    `ReadFromPubSub(with_attributes=True)` gives them where it is told no timestamp attribute.
    `events` holds batches of `MessageFormat.schema`, `rejects` those of MESSAGE_REJECT_SCHEMA; the
    element time of a batch is that of its first published message.
    """
    outputs = messages | "Decode" >> beam.ParDo(_Decode(layout)).with_outputs(REJECTS, main=EVENTS)
    return {EVENTS: outputs[EVENTS], REJECTS: outputs[REJECTS]}


@dataclass(eq=False, repr=False)
class _Decode(beam.DoFn):
    layout: MessageFormat

    def start_bundle(self) -> None:
        self._messages: list[Message] = []
        self._publish: list[int] = []
        self._bytes = 0

    def process(
        self, message: Message, published: Timestamp = beam.DoFn.TimestampParam
    ) -> Iterable[Any]:
        self._messages.append(message)
        self._publish.append(published.micros)
        data = getattr(message, "data", None)
        self._bytes += len(data) if isinstance(data, bytes) else 0
        if len(self._messages) >= _BATCH_MESSAGES or self._bytes >= _BATCH_BYTES:
            yield from self._flush(lambda batch, time: TimestampedValue(batch, time))

    def finish_bundle(self) -> Iterable[Any]:
        yield from self._flush(lambda batch, time: WindowedValue(batch, time, (GlobalWindow(),)))

    def _flush(self, stamped: Callable[[pa.RecordBatch, Timestamp], Any]) -> Iterable[Any]:
        if not self._messages:
            return
        first = Timestamp(micros=min(self._publish))
        events, rejects = self.layout.decode(self._messages, self._publish)
        self.start_bundle()
        if events.num_rows:
            yield stamped(events, first)
        if rejects.num_rows:
            yield pvalue.TaggedOutput(REJECTS, stamped(rejects, first))

    def infer_output_type(self, input_type: Any) -> Any:
        return pa.RecordBatch


# --- AssembleCases: keyed messages meet the open cases of their shard. ---------------------------
# Closed cases come out by step. The arithmetic is that of `schemas.streams.open_cases`. Here are
# the keys, the state and the clock. The open cases of a shard are one columnar value. New
# messages are put beside it unread, and merged with it when they are many or a step is over, so
# that the cost of a message does not grow with the number of open cases. Two timers a shard and
# step are on the watermark of the times of publishing. One decides when a closed case is handed
# on, never to which step it belongs. The other, which no message sets, notes that a step takes no
# more cases. So whether a case is late does not depend on other cases, and a late case is dropped
# before it uses up any cap.


DEFAULT_SHARDS = 16
METRICS = "tracecloak"
TOO_LATE = "cases too late for their step"
TIMES_AHEAD = "events timed after their publishing"

# The shortest time that a runner's timers and windows can tell apart.
_GRAIN_US = 1_000


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def AssembleCases(  # noqa: N802  # runners know it by this name
    events: beam.PCollection[pa.RecordBatch],
    rule: ClosingRule,
    key: KeyReference,
    horizon: int,
    n_shards: int = DEFAULT_SHARDS,
) -> beam.PCollection[tuple[int, TraceBatch]]:
    """Assembles the events of `DecodeMessages` into whole cases.

    Returns PCollection[tuple[int, TraceBatch]] of (closing step, cases that close in it), at most
    one batch a shard and step where no message is late, in the window of the step: it has the
    step's length, ends at `ClosingRule.release_time`, fires once, at the watermark, and takes
    nothing that is late for it. Every case comes out once; its id is a keyed identity, and no text
    of a message but the names of public activities meets state or output. When the last step is
    over the state is empty, and stays so.

    A runner holds the watermark back for a timer that is due, so that the cases of a step come
    before its window fires. The local BundleBasedDirectRunner does not: there the watermark must
    not jump by more than the rule's `release_delay_us`, and the cases that it passes over are lost.
    Lost cases are not counted later, on any runner.

    Args:
        events: Batches of events.
        rule: When a case closes.
        key: The key of identities. It must stay the same as long as closed cases are remembered,
            over restarts and renewed keys of noise.
        horizon: Number of steps.
        n_shards: Number of shards, each with a state of its own. A change forgets the state.

    Raises:
        UsageError: The rule's period, delay of release or origin is no whole number of
            milliseconds, or there is no delay.
    """
    for name in ("period_us", "release_delay_us", "origin_us"):
        value = getattr(rule, name)
        if value % _GRAIN_US or (name == "release_delay_us" and value == 0):
            raise UsageError(
                f"{name} must be a multiple of {_GRAIN_US}, got {value}: runners' clocks know "
                "milliseconds"
            )
    keyed = events | "Key" >> beam.ParDo(_Key(rule, key, horizon, n_shards)).with_output_types(
        _KEYED
    )
    shards = events.pipeline | "Shards" >> beam.Create(range(n_shards))
    # An element without messages wakes a shard, so that its steps end if none comes.
    wake = beam.Map(lambda shard: (shard, (0, 0, b""))).with_output_types(_KEYED)
    together = (keyed, shards | "Awake" >> wake) | "Together" >> beam.Flatten()
    assemble = beam.ParDo(_Assemble(rule, horizon)).with_output_types(tuple[int, TraceBatch])
    begin = Timestamp(micros=rule.release_time(0) % rule.period_us)
    windows = beam.WindowInto(
        FixedWindows(Duration(micros=rule.period_us), begin),
        trigger=AfterWatermark(),
        accumulation_mode=AccumulationMode.DISCARDING,
        allowed_lateness=0,
    )
    return together | "Assemble" >> assemble | "ByStep" >> windows


_KEYED = tuple[int, tuple[int, int, bytes]]


@dataclass(eq=False, repr=False)
class _Key(beam.DoFn):
    rule: ClosingRule
    key: KeyReference
    horizon: int
    n_shards: int

    """Gives (shard, (number of messages, first time of publishing, messages))."""

    def setup(self) -> None:
        self._identities = Identities(self.key.resolve())

    def process(self, events: pa.RecordBatch) -> Iterable[tuple[int, tuple[int, int, bytes]]]:
        within = self._identities.keyed(events, self.rule, self.horizon)
        ahead_us = within.ahead_us
        Metrics.counter(METRICS, TIMES_AHEAD).inc(int(np.count_nonzero(ahead_us)))
        warn_of_times_ahead(ahead_us)
        for shard, part in within.split(self.n_shards):
            yield shard, (part.n_events, int(part.publish.min()), encode(part))


@dataclass(eq=False, repr=False)
class _Assemble(beam.DoFn):
    rule: ClosingRule
    horizon: int

    OPENED = beam.DoFn.StateParam(ReadModifyWriteStateSpec("open", BytesCoder()))
    WAITING = beam.DoFn.StateParam(BagStateSpec("waiting", BytesCoder()))
    # Messages that came since the last merging, events that were there then, and the moment at
    # which cases close next.
    BOOK = beam.DoFn.StateParam(
        ReadModifyWriteStateSpec("book", TupleCoder([VarIntCoder() for _ in range(3)]))
    )
    COUNTED = beam.DoFn.StateParam(ReadModifyWriteStateSpec("counted", BytesCoder()))
    # The first step that is not released.
    NEXT = beam.DoFn.StateParam(ReadModifyWriteStateSpec("next", VarIntCoder()))
    TICK = TimerSpec("tick", TimeDomain.WATERMARK)
    TIMER = beam.DoFn.TimerParam(TICK)
    OVER = TimerSpec("over", TimeDomain.WATERMARK)
    OVER_TIMER = beam.DoFn.TimerParam(OVER)

    def process(
        self,
        element: tuple[int, tuple[int, int, bytes]],
        opened: Any = OPENED,
        waiting: Any = WAITING,
        book: Any = BOOK,
        timer: Any = TIMER,
        following: Any = NEXT,
        over: Any = OVER_TIMER,
    ) -> Iterable[tuple[int, TraceBatch]]:
        n_events, first, data = element[1]
        next_step = following.read()
        if next_step is None:
            next_step = 0
            following.write(next_step)
            over.set(Timestamp(micros=self._over_us(next_step)))
        if not n_events or next_step >= self.horizon:
            return ()
        n_waiting, n_open, due = book.read() or (0, 0, FOREVER_US)
        waiting.add(data)
        n_waiting += n_events
        # For these messages no case closes any earlier. If they are late that moment is past, and
        # the timer fires at once: whether a late case still counts must not depend on others.
        tick = self.rule.earliest_end(first)
        if tick < due:
            timer.set(Timestamp(micros=tick))
            due = tick
        if is_merge_due(self.rule, n_waiting, n_open):
            before = self._cases(opened, waiting)
            after = before.merged(due, self.rule, next_step)
            _keep(before, after, opened, waiting)
            n_waiting, n_open = 0, after.opened.n_events + after.n_pending
        book.write((n_waiting, n_open, due))
        return ()

    @on_timer(TICK)  # type: ignore[untyped-decorator]
    def close_step(
        self,
        opened: Any = OPENED,
        waiting: Any = WAITING,
        book: Any = BOOK,
        timer: Any = TIMER,
        fired: Timestamp = beam.DoFn.TimestampParam,
        counted: Any = COUNTED,
        following: Any = NEXT,
    ) -> Iterable[TimestampedValue]:
        # The timer was set to the end of a step, before which all messages have come. It need not
        # be the one in the book: a message may have set that while this one was under way.
        next_step = following.read() or 0
        if next_step < self.horizon:
            state = opened, waiting, book, timer, counted
            yield from self._closed(fired.micros, next_step, *state)

    @on_timer(OVER)  # type: ignore[untyped-decorator]
    def end_step(
        self,
        opened: Any = OPENED,
        waiting: Any = WAITING,
        book: Any = BOOK,
        timer: Any = TIMER,
        counted: Any = COUNTED,
        following: Any = NEXT,
        over: Any = OVER_TIMER,
    ) -> Iterable[TimestampedValue]:
        step = following.read() or 0
        end_us = self.rule.step_start(step + 1)
        _, _, due = book.read() or (0, 0, FOREVER_US)
        if due <= end_us:  # where the watermark passes both, a runner may fire this one first
            yield from self._closed(end_us, step, opened, waiting, book, timer, counted)
        following.write(step + 1)
        if step + 1 < self.horizon:
            over.set(Timestamp(micros=self._over_us(step + 1)))
            return
        for state in (opened, waiting, book, counted):
            state.clear()

    def _closed(self, moment_us: int, next_step: int, *state: Any) -> Iterable[TimestampedValue]:
        """The cases of the steps that end by a moment; what of them is too late is dropped."""
        opened, waiting, book, timer, counted = state
        before = self._cases(opened, waiting, counted if self.rule.cap is not None else None)
        after, steps, n_late = before.close(moment_us, self.rule, next_step)
        Metrics.counter(METRICS, TOO_LATE).inc(n_late)
        _keep(before, after, opened, waiting)
        if after.counted is not before.counted:
            counted.write(encode(after.counted))
        tick = after.closing_us(self.rule)
        if tick < FOREVER_US:
            timer.set(Timestamp(micros=tick))
        book.write((0, after.opened.n_events + after.n_pending, tick))
        for step, traces in steps:
            last = self.rule.release_time(step) - _GRAIN_US  # of the step's window
            yield TimestampedValue((step, traces), Timestamp(micros=last))

    def _over_us(self, step: int) -> int:
        """When a step takes no more cases here: the last moment at which its window takes some.

        A runner holds the watermark back to a timer that is due, and the window fires a grain of
        time before it ends.
        """
        last = self.rule.release_time(step) - 2 * _GRAIN_US
        return max(last, self.rule.step_start(step + 1))

    def _cases(self, opened: Any, waiting: Any, counted: Any = None) -> PlacedCases:
        data, counts = opened.read(), None if counted is None else counted.read()
        return PlacedCases(
            OpenCases.none(self.rule.cap is not None) if data is None else decode(data),
            tuple(decode(part) for part in waiting.read()),
            CountedCases.none() if counts is None else decode(counts),
        )


def _keep(before: PlacedCases, after: PlacedCases, opened: Any, waiting: Any) -> None:
    """Writes what has changed of the cases of a shard."""
    if after.opened is not before.opened:
        opened.write(encode(after.opened))
    if after.pending is not before.pending:
        waiting.clear()
        for events in after.pending:
            waiting.add(encode(events))


# --- PublishSteps: the release stage of a stream, one release a step. -----------------------------
# The cases of a step are counted exactly, in the step's window, which fires once. The counts go
# to one place, where a timer of the watermark says of each step of the horizon, in their order,
# that it is over. Then noise is added and the step is released, even if no case closed in it, as
# silence would show that. Exact counts, and noisy numbers of them, are kept from step to step:
# nothing for windows; for sums over steps 16 bytes a cell and step, and for variants those that
# closed in each step, which are no more than the cases.
#
# Noise must be drawn only once, and this does not depend on the runner. Noise is a function of
# the key and of all cases so far, so a bundle that is tried again gives the same bytes, and the
# release of a step is kept before it is handed on (`transforms.stream.step_sinks`). A run that
# comes to such a step with other cases has lost its state, and does not know any more which cases
# have closed: they could count again in later steps. So it publishes the kept release once more,
# as it may not have been seen yet, and then the epoch ends.
#
# A watermark can run ahead, as it leaps to the end of time when a source ends or a runner is
# drained. So a step is decided only when it is over by the clock of the worker, too, unless the
# operator asked for an earlier end.


_LOG = logging.getLogger("tracecloak")
NOT_PUBLISHED = "cases outside the horizon"
LATE_STEPS = "steps with cases after they were published"

# The state of a stream is in one place, under this key.
_ONE = 0
_NO_COUNTS = b""
_COUNTS = tuple[int, tuple[int, bytes]]
# How far the watermark may be ahead of the worker's clock, as clocks differ; a step waits then.
_MAX_WAIT_SECONDS = 10.0
_STEP_CODER = TupleCoder([VarIntCoder(), BytesCoder()])


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def PublishSteps(  # noqa: N802  # runners know it by this name
    closed: beam.PCollection[tuple[int, TraceBatch]],
    release: ReleaseSteps,
    awake: beam.PCollection[Any],
) -> beam.PCollection[Any]:
    """Makes one `Step` of every step of the horizon, in the order of steps.

    Takes what `AssembleCases` returns, and gives PCollection[Step] in the global
    window. Cases of steps outside the horizon are not published; a metric counts them, for the
    operator alone.

    Args:
        closed: Cases by step.
        release: Releases each step.
        awake: Its element shows that the stream has begun: from then on steps are published as they
            end.
    """
    count = beam.ParDo(_Count(release.product, release.name, release.key))
    counted = (
        closed
        | "Count" >> count.with_output_types(tuple[int, Statistics])
        | "Merge" >> beam.CombinePerKey(MergeStatisticsFn(kinds_of(release.product)))
        | "Gate" >> beam.ParDo(_Gate()).with_output_types(_COUNTS)
        | "AllSteps" >> beam.WindowInto(GlobalWindows())
    )
    begin = beam.Map(lambda _: (_ONE, (0, _NO_COUNTS))).with_output_types(_COUNTS)
    together = (counted, awake | "Awake0" >> begin) | "Flatten" >> beam.Flatten()
    return together | "Release" >> beam.ParDo(release)


@dataclass(eq=False, repr=False)
class _Count(beam.DoFn):
    product: StepProduct
    name: StreamName
    key: KeyReference

    def setup(self) -> None:
        self._decider = StepDecider(self.product, self.name, self.key.resolve())

    def process(self, element: tuple[int, TraceBatch]) -> Iterable[tuple[int, Statistics]]:
        step, traces = element
        if 0 <= step < self.product.horizon:
            yield step, self._decider.count(traces)
        else:
            Metrics.counter(METRICS, NOT_PUBLISHED).inc(traces.n_cases)


class _Gate(beam.DoFn):
    """Lets each step pass once, and fails if a runner or a trigger fires a second pane."""

    def process(
        self, element: tuple[int, Statistics], pane: Any = beam.DoFn.PaneInfoParam
    ) -> Iterable[tuple[int, tuple[int, bytes]]]:
        step, counted = element
        if not pane.is_last or pane.index != 0 or pane.timing != PaneInfoTiming.ON_TIME:
            raise GuaranteeError(
                f"the window of step {step} fired early, late or again, which would be a second "
                "release of its cases; use a runner that fires a window once, at the watermark"
            )
        yield _ONE, (step, encode(counted))


@dataclass(eq=False, repr=False)
class ReleaseSteps(beam.DoFn):
    """Releases one step after the other; its state is in one place.

    Attributes:
        product: What is published.
        rule: When a case closes, with step 0 where the horizon begins.
        name: The stream's.
        key: Where the epoch's key is.
        steps: Where the release of each step is kept.
        may_be_early: Whether a step is published before it is over by the clock, if the watermark
            says that no more messages come.
        note: Takes the release of a step once it is kept, before it is handed on; it may take the
            same step twice. None: workers cannot reach the ledger.
    """

    product: StepProduct
    rule: ClosingRule
    name: StreamName
    key: KeyReference
    steps: KeptSteps
    may_be_early: bool = False
    note: Callable[[Step], None] | None = None

    # (step, exact counts) of steps that are not over.
    WAITING = beam.DoFn.StateParam(BagStateSpec("waiting", _STEP_CODER))
    # (step, what the product keeps) of steps that are published.
    PAST = beam.DoFn.StateParam(BagStateSpec("past", _STEP_CODER))
    NEXT = beam.DoFn.StateParam(ReadModifyWriteStateSpec("next", VarIntCoder()))
    # Stands for the cases and counts of all steps that are published.
    COUNTS = beam.DoFn.StateParam(ReadModifyWriteStateSpec("counts", BytesCoder()))
    TICK = TimerSpec("tick", TimeDomain.WATERMARK)
    TIMER = beam.DoFn.TimerParam(TICK)

    def setup(self) -> None:
        """Reads the key."""
        self._decider = StepDecider(self.product, self.name, self.key.resolve())

    def process(
        self,
        element: tuple[int, tuple[int, bytes]],
        waiting: Any = WAITING,
        following: Any = NEXT,
        timer: Any = TIMER,
    ) -> Iterable[Any]:
        """Keeps the counts of a step until it is over."""
        step, counted = element[1]
        next_step = following.read()
        if next_step is None:
            next_step = 0
            following.write(next_step)
            self._set(timer, next_step)
        if counted != _NO_COUNTS:
            if step >= next_step:
                waiting.add((step, counted))
            else:  # on a runner whose watermark passes its windows; no case may end an epoch
                Metrics.counter(METRICS, LATE_STEPS).inc()
        return ()

    @on_timer(TICK)  # type: ignore[untyped-decorator]
    def publish(
        self,
        waiting: Any = WAITING,
        past: Any = PAST,
        following: Any = NEXT,
        timer: Any = TIMER,
        counts: Any = COUNTS,
    ) -> Iterable[Any]:
        """Releases the next step, which is over by the watermark."""
        step = following.read() or 0
        if step >= self.product.horizon:
            return
        parts = list(waiting.read())
        state = StepCounts(
            {at: decode(counted) for at, counted in parts if at == step},
            tuple(decode(kept) for _, kept in sorted(past.read())),
            step,
            counts.read() or b"",
        )
        after, decided = self._decider.decide_once(state, self.steps, self._wait_until_over)
        if self.note is not None:
            self.note(decided.released)
        for kept in after.past[len(state.past) :]:
            past.add((step, encode(kept)))
        counts.write(after.digest)
        waiting.clear()
        for at, others in parts:
            if at != step:
                waiting.add((at, others))
        following.write(step + 1)
        if step + 1 < self.product.horizon:
            # A step that was decided before need not wait for its end once more.
            self._set(timer, step + (decided.counts_digest == after.digest))
        else:
            waiting.clear()
            past.clear()
            _LOG.warning("%s", self.name.exhausted_message(step))
        yield decided.released

    def _wait_until_over(self, step: int) -> None:
        """Waits where the watermark is a little ahead of this clock.

        Raises:
            GuaranteeError: It is far ahead.
        """
        left_seconds = self.rule.release_time(step) / 1e6 - time.time()
        if left_seconds <= 0 or self.may_be_early:
            return
        if left_seconds > _MAX_WAIT_SECONDS:
            raise GuaranteeError(
                f"step {step} is over only in {left_seconds:.0f} s: the source ended, or a clock "
                "is wrong. Start again from the last checkpoint; publish_on_drain publishes all now"
            )
        time.sleep(left_seconds)

    def _set(self, timer: Any, step: int) -> None:
        timer.set(Timestamp(micros=self.rule.release_time(step)))

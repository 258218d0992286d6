"""AssembleCases: the events of messages become whole cases, each in the step in which it closes.

DecodeMessages makes events of messages; what cannot be read is a reject. State and timers of
AssembleCases hold open cases by shard.
"""

from __future__ import annotations

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
from apache_beam.transforms.window import FixedWindows, GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.anonymizers.streams.steps import Identities
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.open_cases import CaseEvents, OpenCases
from tracecloak.schemas.streams.stream_caps import CaseCap, CountedCases
from tracecloak.transforms.formats.messages import Message, MessageFormat
from tracecloak.transforms.keys.wrapping import KeyReference
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


class DecodeMessages(beam.PTransform):
    """Decodes messages; returns a dict of PCollections of record batches.

    Takes messages in the global window whose element time is the time of their publishing, as
    `ReadFromPubSub(with_attributes=True)` gives them where it is told no timestamp attribute.
    `events` holds batches of `MessageFormat.schema`, `rejects` those of MESSAGE_REJECT_SCHEMA; the
    element time of a batch is that of its first published message.
    """

    def __init__(self, layout: MessageFormat) -> None:
        super().__init__()
        self._layout = layout

    def expand(
        self, messages: beam.PCollection[Message]
    ) -> dict[str, beam.PCollection[pa.RecordBatch]]:
        """Decodes the messages of a bundle together."""
        outputs = messages | "Decode" >> beam.ParDo(_Decode(self._layout)).with_outputs(
            REJECTS, main=EVENTS
        )
        return {EVENTS: outputs[EVENTS], REJECTS: outputs[REJECTS]}


class _Decode(beam.DoFn):
    def __init__(self, layout: MessageFormat) -> None:
        self._layout = layout

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
        events, rejects = self._layout.decode(self._messages, self._publish)
        self.start_bundle()
        if events.num_rows:
            yield stamped(events, first)
        if rejects.num_rows:
            yield pvalue.TaggedOutput(REJECTS, stamped(rejects, first))

    def infer_output_type(self, input_type: Any) -> Any:
        return pa.RecordBatch


# ---
# AssembleCases: keyed messages meet the open cases of their shard; closed cases come out by step.
# The arithmetic is that of `schemas.streams.open_cases`. Here are the keys, the state and the
# clock.
# The open cases of a shard are one columnar value. New messages are put beside it unread, and
# merged
# with it when they are many or a step is over, so that the cost of a message does not grow with the
# number of open cases. Two timers a shard and step are on the watermark of the times of publishing.
# One decides when a closed case is handed on, never to which step it belongs. The other, which no
# message sets, notes that a step takes no more cases. So whether a case is late does not depend on
# other cases, and a late case is dropped before it uses up any cap.


DEFAULT_SHARDS = 16
METRICS = "tracecloak"
TOO_LATE = "cases too late for their step"
TIMES_AHEAD = "events timed after their publishing"

# Waiting messages are merged once there are this many, or half as many as the open cases have.
_MERGE_EVENTS = 1 << 16
# The shortest time that a runner's timers and windows can tell apart.
_GRAIN_US = 1_000
_NO_TICK = np.iinfo(np.int64).max
# An element that wakes a shard, so that its steps end even if no message comes.
_AWAKE = 0, 0, b""


@dataclass(eq=False, repr=False)
class AssembleCases(beam.PTransform):
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

    Attributes:
        rule: When a case closes.
        key: The key of identities. It must stay the same as long as closed cases are remembered,
            over restarts and renewed keys of noise.
        horizon: Number of steps.
        n_shards: Number of shards, each with a state of its own. A change forgets the state.
        by_individual: The unit is the individual: all cases of one meet in one shard, and a case is
            the pair of an individual and a case id. Every event must have one.
        cap: How many cases of an individual come out; None: all.
    """

    rule: ClosingRule
    key: KeyReference
    horizon: int
    n_shards: int = DEFAULT_SHARDS
    by_individual: bool = False
    cap: CaseCap | None = None

    def __post_init__(self) -> None:
        """Checks the options.

        Raises:
            UsageError: `n_shards` is below 1, the rule's period, delay of release or origin is no
                whole number of milliseconds, or there is a cap and the unit is the case.
        """
        super().__init__()
        rule = self.rule
        if self.n_shards < 1:
            raise UsageError(f"n_shards must be at least 1, got {self.n_shards}")
        for name in ("period_us", "release_delay_us"):
            value = getattr(rule, name)
            if value < _GRAIN_US or value % _GRAIN_US:
                raise UsageError(
                    f"{name} must be a positive multiple of {_GRAIN_US}, got {value}: runners' "
                    "clocks know milliseconds"
                )
        if rule.origin_us % _GRAIN_US:
            raise UsageError(f"origin_us must be a multiple of {_GRAIN_US}, got {rule.origin_us}")
        if self.cap is not None and not self.by_individual:
            raise UsageError("cap is on the cases of an individual: set by_individual as well")

    def expand(
        self, events: beam.PCollection[pa.RecordBatch]
    ) -> beam.PCollection[tuple[int, TraceBatch]]:
        """Keys the events, assembles them by shard, and puts the cases into windows."""
        rule = self.rule
        keyed = events | "Key" >> beam.ParDo(
            _Key(rule, self.key, self.horizon, self.n_shards, self.by_individual)
        ).with_output_types(_KEYED)
        awake = (
            events.pipeline
            | "Shards" >> beam.Create(range(self.n_shards))
            | "Awake" >> beam.Map(_awake).with_output_types(_KEYED)
        )
        closed = (
            (keyed, awake)
            | "Together" >> beam.Flatten()
            | "Assemble"
            >> beam.ParDo(
                _Assemble(rule, self.horizon, self.by_individual, self.cap)
            ).with_output_types(tuple[int, TraceBatch])
        )
        return closed | "ByStep" >> beam.WindowInto(
            FixedWindows(
                Duration(micros=rule.period_us),
                Timestamp(micros=rule.release_time(0) % rule.period_us),
            ),
            trigger=AfterWatermark(),
            accumulation_mode=AccumulationMode.DISCARDING,
            allowed_lateness=0,
        )


_KEYED = tuple[int, tuple[int, int, bytes]]


def _awake(shard: int) -> tuple[int, tuple[int, int, bytes]]:
    return shard, _AWAKE


@dataclass(eq=False, repr=False)
class _Key(beam.DoFn):
    rule: ClosingRule
    key: KeyReference
    horizon: int
    n_shards: int
    by_individual: bool

    """Gives (shard, (number of messages, first time of publishing, messages))."""

    def __post_init__(self) -> None:
        self._ahead = Metrics.counter(METRICS, TIMES_AHEAD)

    def setup(self) -> None:
        self._identities = Identities(self.key.resolve())

    def process(self, events: pa.RecordBatch) -> Iterable[tuple[int, tuple[int, int, bytes]]]:
        keyed = self._identities.keyed(events, self.rule, self.by_individual)
        ahead_us = keyed.ahead_us
        self._ahead.inc(int(np.count_nonzero(ahead_us)))
        warn_of_times_ahead(ahead_us)
        within, _ = keyed.before(self.rule.step_start(self.horizon))  # no later one changes a step
        for shard, part in within.split(self.n_shards):
            yield shard, (part.n_events, int(part.publish.min()), encode(part))


@dataclass(eq=False, repr=False)
class _Assemble(beam.DoFn):
    rule: ClosingRule
    horizon: int
    by_individual: bool
    cap: CaseCap | None = None

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

    def __post_init__(self) -> None:
        self._late = Metrics.counter(METRICS, TOO_LATE)

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
        n_waiting, n_open, due = book.read() or (0, 0, _NO_TICK)
        waiting.add(data)
        n_waiting += n_events
        # For these messages no case closes any earlier. If they are late that moment is past, and
        # the timer fires at once: whether a late case still counts must not depend on others.
        tick = self.rule.step_end(self.rule.earliest_close(first))
        if tick < due:
            timer.set(Timestamp(micros=tick))
            due = tick
        # Where a case may open again its messages go in together, as in `RunningStream.take`.
        if self.rule.tombstone_us is None and n_waiting >= max(_MERGE_EVENTS, n_open // 2):
            state, later = self._merged(opened, waiting, due, next_step)
            opened.write(encode(state))
            n_waiting, n_open = 0, state.n_events + later.n_events
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
        _, _, due = book.read() or (0, 0, _NO_TICK)
        if due <= end_us:  # where the watermark passes both, a runner may fire this one first
            yield from self._closed(end_us, step, opened, waiting, book, timer, counted)
        following.write(step + 1)
        if step + 1 < self.horizon:
            over.set(Timestamp(micros=self._over_us(step + 1)))
            return
        for state in (opened, waiting, book, counted):
            state.clear()

    def _closed(
        self,
        moment_us: int,
        next_step: int,
        opened: Any,
        waiting: Any,
        book: Any,
        timer: Any,
        counted: Any,
    ) -> Iterable[TimestampedValue]:
        """The cases of the steps that end by a moment; what of them is too late is dropped."""
        before, later = self._merged(opened, waiting, moment_us, next_step)
        state, steps, n_late = before.close(moment_us, self.rule, next_step)
        self._late.inc(n_late)
        opened.write(encode(state))
        moments = [] if state.next_close is None else [state.next_close]
        if later.n_events:
            moments.append(self.rule.earliest_close(int(later.publish.min())))
        tick = self.rule.step_end(min(moments)) if moments else _NO_TICK
        if moments:
            timer.set(Timestamp(micros=tick))
        book.write((0, state.n_events + later.n_events, tick))
        if self.cap is not None and steps:
            data = counted.read()
            counts = CountedCases.none() if data is None else decode(data)
            counts, steps = counts.within(steps, self.cap, next_step)
            counted.write(encode(counts))
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

    def _merged(
        self, opened: Any, waiting: Any, moment_us: int, next_step: int
    ) -> tuple[OpenCases, CaseEvents]:
        """Returns (open cases with what was published before a moment, what still waits)."""
        data = opened.read()
        state = OpenCases.none(self.by_individual) if data is None else decode(data)
        batches = [decode(part) for part in waiting.read()]
        if not batches:
            return state, CaseEvents.none(self.by_individual)
        early, later = CaseEvents.concat(batches).before(moment_us)
        waiting.clear()
        if later.n_events:
            waiting.add(encode(later))
        return state.add(early, self.rule, next_step), later

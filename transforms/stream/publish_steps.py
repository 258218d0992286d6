"""PublishSteps: the release stage of a stream, one release a step.

The cases of a step are counted exactly, in the step's window, which fires once. The counts go to
one place, where a timer of the watermark says of each step of the horizon, in their order, that it
is over. Then noise is added and the step is released, even if no case closed in it, as silence
would show that. Exact counts, and noisy numbers of them, are kept from step to step: nothing for
windows; for sums over steps 16 bytes a cell and step, and for variants those that closed in each
step, which are no more than the cases.

Noise must be drawn only once, and this does not depend on the runner. Noise is a function of the
key and of all cases so far, so a bundle that is tried again gives the same bytes, and the release
of a step is kept before it is handed on (`transforms.stream.step_files`). A run that comes to such
a step with other cases has lost its state, and does not know any more which cases have closed: they
could count again in later steps. So it publishes the kept release once more, as it may not have
been seen yet, and then the epoch ends.

A watermark can run ahead, as it leaps to the end of time when a source ends or a runner is drained.
So a step is decided only when it is over by the clock of the worker, too, unless the operator asked
for an earlier end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder, TupleCoder, VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.anonymizers.streams.steps import (
    StepProduct,
    StreamName,
    counted_of,
    counts_digest,
    drawn_step,
    kinds_of,
)
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.step import Step
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.transforms.batch.traces import MergeStatisticsFn
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.stream.assemble import METRICS
from tracecloak.transforms.stream.step_files import KeptSteps

_LOG = logging.getLogger("tracecloak")
NOT_PUBLISHED = "cases outside the horizon"

# The state of a stream is in one place, under this key.
_ONE = 0
_NO_COUNTS = b""
# How far the watermark may be ahead of the worker's clock, as clocks differ; a step waits then.
_MAX_WAIT_SECONDS = 10.0
_STEP_CODER = TupleCoder([VarIntCoder(), BytesCoder()])


class PublishSteps(beam.PTransform):
    """Makes one `Step` of every step of the horizon, in the order of steps.

    Takes what `AssembleCases` returns, and gives PCollection[Step] in the global
    window. Cases of steps outside the horizon are not published; a metric counts them, for the
    operator alone.
    """

    def __init__(
        self,
        product: StepProduct,
        rule: ClosingRule,
        name: StreamName,
        key: KeyReference,
        steps: KeptSteps,
        awake: Sequence[beam.PCollection[Any]],
        may_be_early: bool = False,
        note: Callable[[Step], None] | None = None,
    ) -> None:
        """Keeps the options.

        Args:
            product: What is published.
            rule: When a case closes, with step 0 where the horizon begins.
            name: The stream's.
            key: Where the epoch's key is.
            steps: Where the release of each step is kept.
            awake: Collections whose elements show that the stream has begun, such as its batches of
                messages. From the first element, or the first case that closes, on, steps are
                published as they end.
            may_be_early: Whether a step is published before it is over by the clock, if the
                watermark says that no more messages come.
            note: Takes the release of a step once it is kept, before it is handed on; it may take
                the same step twice. None: workers cannot reach the ledger.
        """
        super().__init__()
        self._product = product
        self._key = key
        self._awake = awake
        self._release = _Release(product, rule, name, key, steps, may_be_early, note)

    def expand(self, closed: beam.PCollection[tuple[int, TraceBatch]]) -> beam.PCollection[Any]:
        """Wires counting, the gate and the release."""
        kinds = kinds_of(self._product)
        counted = (
            closed
            | "Count"
            >> beam.ParDo(_Count(self._product, self._key)).with_output_types(
                tuple[int, Statistics]
            )
            | "Merge" >> beam.CombinePerKey(MergeStatisticsFn(kinds))
            | "Gate" >> beam.ParDo(_Gate()).with_output_types(tuple[int, tuple[int, bytes]])
            | "AllSteps" >> beam.WindowInto(GlobalWindows())
        )
        ticks = [
            source | f"Awake{i}" >> beam.Map(_tick).with_output_types(tuple[int, tuple[int, bytes]])
            for i, source in enumerate(self._awake)
        ]
        return (
            (counted, *ticks) | "Flatten" >> beam.Flatten() | "Release" >> beam.ParDo(self._release)
        )


def _tick(_: Any) -> tuple[int, tuple[int, bytes]]:
    return _ONE, (0, _NO_COUNTS)


class _Count(beam.DoFn):
    def __init__(self, product: StepProduct, key: KeyReference) -> None:
        self._product = product
        self._key = key
        self._outside = Metrics.counter(METRICS, NOT_PUBLISHED)

    def setup(self) -> None:
        self._resolved = self._key.resolve()

    def process(self, element: tuple[int, TraceBatch]) -> Iterable[tuple[int, Statistics]]:
        step, traces = element
        if 0 <= step < self._product.horizon:
            yield step, counted_of(self._product, traces, self._resolved)
        else:
            self._outside.inc(traces.n_cases)


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
class _Release(beam.DoFn):
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

    def __post_init__(self) -> None:
        self._late = Metrics.counter(METRICS, "steps with cases after they were published")

    def setup(self) -> None:
        self._resolved = self.key.resolve()

    def process(
        self,
        element: tuple[int, tuple[int, bytes]],
        waiting: Any = WAITING,
        following: Any = NEXT,
        timer: Any = TIMER,
    ) -> Iterable[Any]:
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
                self._late.inc()
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
        step = following.read() or 0
        if step >= self.product.horizon:
            return
        parts = list(waiting.read())
        of_step = [decode(counted) for at, counted in parts if at == step]
        combine = MergeStatisticsFn(kinds_of(self.product))
        counted = of_step[0] if of_step else combine.extract_output(combine.create_accumulator())
        so_far = counts_digest(counts.read() or b"", step, counted, self._resolved)
        decided = self.steps.of(step, self._resolved)
        if decided is None:
            self._require_going_on(step, counts)
            self._wait_until_over(step)
        if decided is None or decided.counts_digest == so_far:
            before = [decode(state) for _, state in sorted(past.read())]
            drawn, to_keep = drawn_step(
                self.product, step, counted, before, so_far, self.name, self._resolved
            )
            decided = decided or self.steps.keep(drawn, self._resolved)
            if decided.counts_digest == so_far and not _is_same(decided.released, drawn.released):
                raise GuaranteeError(
                    f"step {step} differs from what was decided on the same cases, as with another "
                    "version of tracecloak or of a library. Restore that version, or begin another "
                    "epoch, which is another spend"
                )
            if to_keep is not None:
                past.add((step, encode(to_keep)))
        if self.note is not None:
            self.note(decided.released)
        goes_on = decided.counts_digest == so_far
        if not goes_on and self._goes_on(step, counts):
            _LOG.warning(
                "the cases of step %d are not those that it was decided on, as after a restart "
                "that lost the stream's state; its release is published again, and nothing new",
                step,
            )
        counts.write(so_far)
        waiting.clear()
        for at, others in parts:
            if at != step:
                waiting.add((at, others))
        following.write(step + 1)
        if step + 1 < self.product.horizon:
            # A step that was decided before need not wait for its end once more.
            self._set(timer, step + 1 if goes_on else step)
        else:
            waiting.clear()
            past.clear()
            _LOG.warning("%s", self.name.spent_words(step))
        yield decided.released

    def _goes_on(self, step: int, counts: Any) -> bool:
        """Whether all earlier steps have the same cases as when they were decided."""
        before = self.steps.of(step - 1, self._resolved) if step else None
        return step == 0 or (before is not None and before.counts_digest == counts.read())

    def _require_going_on(self, step: int, counts: Any) -> None:
        if not self._goes_on(step, counts):
            raise GuaranteeError(
                f"step {step} cannot be published: an earlier step was decided on other cases "
                "than there are now, as where a restart forgot what was there, or what was kept "
                "of it is gone. Cases could count twice. Begin another epoch, which is another "
                "spend"
            )

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
                f"step {step} is not published, as it is over only in {left_seconds:.0f} s: the "
                "source ended, or the runner was drained, or a clock is wrong. Start the stream "
                "again from its last checkpoint; if it is to end now, and to publish all steps of "
                "its horizon with what is there, with publish_on_drain"
            )
        time.sleep(left_seconds)

    def _set(self, timer: Any, step: int) -> None:
        timer.set(Timestamp(micros=self.rule.release_time(step)))


def _is_same(kept: Step, drawn: Step) -> bool:
    drawn = drawn.in_form_of(kept)
    return kept.to_json() == drawn.to_json() and kept.to_rows().equals(drawn.to_rows())

"""PublishDirectlyFollows: an unbounded stream of events in, a directly-follows graph a period.

Rows and dicts of an unbounded collection as messages, which streams read.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Optional

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

from tracecloak.pipelines.embedded.elements import (
    ROWS,
    columns_of,
    kind_of,
    require_fields,
    runner_of,
)
from tracecloak.pipelines.runners.flags import FED, FLINK
from tracecloak.pipelines.runners.on_beam import given_options
from tracecloak.pipelines.stream import run
from tracecloak.pipelines.stream.config import read_stream
from tracecloak.pipelines.stream.epoch import paid_epoch
from tracecloak.pipelines.stream.plan import StreamPlan, resolve
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import TIMESTAMP
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.formats.base import UnreadError
from tracecloak.transforms.inputs.python_rows import EPOCH, kind_and_value

TIME = "time"
"""Attribute of a message with the time of its event, where that came as a time."""
# What no field of an event is, so that the message is rejected for that reason.
_NO_SCALAR: list[Any] = []


@dataclass(frozen=True)
class ToMessage:
    """Makes messages of rows, JSON objects of the fields that are read; it pickles.

    Attributes:
        names: The fields that are read.
        time: Which of them is the time.
        is_dict: Whether rows are dicts.
    """

    names: tuple[str, ...]
    time: str
    is_dict: bool

    def __call__(self, row: Any) -> PubsubMessage:
        """Returns a row as a message."""
        value_of: Callable[[str], Any]
        value_of = row.get if self.is_dict else lambda name: getattr(row, name, None)
        body: dict[str, Any] = {}
        attributes: dict[str, str] = {}
        for name in self.names:
            try:
                kind, value = kind_and_value(value_of(name))
            except UnreadError:
                body[name] = _NO_SCALAR
                continue
            read = _json_value(kind, value)
            if kind in ("instant", "local") and name == self.time:
                attributes[TIME] = read or ""
            else:
                body[name] = read
        return PubsubMessage(json.dumps(body).encode(), attributes)


def _json_value(kind: str, value: Any) -> Any:
    """Returns a value of `column_of_kinds` as JSON has it; what is no number is null.

    A time is its ISO 8601, or null out of the years 1 to 9999.
    """
    if kind == "text":
        return value
    if kind in ("instant", "local"):
        try:
            text = (EPOCH + datetime.timedelta(microseconds=value)).isoformat()
        except OverflowError:
            return None
        return f"{text}Z" if kind == "instant" else text
    if kind == "number" and "." not in value:
        return int(value)
    return float(value) if math.isfinite(float(value)) else None


NO_KEYS = (
    *("product", "log_params", "runner", "output_topic", "reject_topic", "input_subscription"),
    *("inputs", "message_schema", "schema", "time_attribute", "id_attribute"),
)
"""Keys of a stream that a pipeline of one's own decides."""
# Runners of Beam on this machine, which run a stream whose messages the pipeline gives.
_HERE = ("DirectRunner", FED)
_FIELDS: list[tuple[str, Any]] = [
    *(("release_id", str), ("epoch", str), ("step", int), ("view", str)),
    *(("start", Timestamp), ("end", Timestamp), ("source", str), ("target", str)),
    *(("count", int), ("low", Optional[int]), ("high", Optional[int])),  # noqa: UP045
    ("standard_error", float),
]
_ROW = RowTypeConstraint.from_fields(_FIELDS)


class PublishDirectlyFollows(beam.PTransform):
    """Publishes a directly-follows graph with a true epsilon of every period of a stream.

    Takes an unbounded PCollection in the global window of rows with a schema, of dicts or of
    messages (PubsubMessage), each with the time of its publishing for its element time; or begins a
    pipeline and reads `input_topic`, a topic of Kafka. Returns rows, one an edge and step, and
    writes the files that the command `tracecloak stream` does.

    The cost of the whole horizon is charged when the pipeline is built, once an epoch. The same
    epoch built again goes on and pays nothing.

    Example:
        events | PublishDirectlyFollows(
            output="released", release_id="ward", epoch="2026", epsilon=1, period="1h",
            horizon=24, start="2026-11-01", gap="2h", max_lifetime="2d",
            vocabulary="activities.txt", case_id="patient", activity="step", timestamp="at")
    """

    def __init__(
        self,
        *,
        columns: ColumnMapping | Mapping[str, Any] | None = None,
        output_steps: Literal["rows", "steps"] = "rows",
        **keys: Any,
    ) -> None:
        """Checks what is asked for; nothing is paid before the pipeline is built.

        Args:
            columns: Which field plays which part; the keys can be keywords as well.
            output_steps: `rows`, or `steps`: the releases themselves, each with its JSON.
            keys: Keys of the configuration of a stream, such as `output`, `release_id`, `epoch`,
                `epsilon`, `vocabulary`, `period`, `horizon`, `start`, `gap`, `max_lifetime`, and
                who pays.

        Raises:
            UsageError: A key is unknown, missing or wrong.
        """
        super().__init__()
        if output_steps not in ("rows", "steps"):
            raise UsageError(f"output_steps must be rows or steps, got {output_steps!r}")
        self._has_rows = output_steps == "rows"
        given = {n: v for n, v in {**columns_of(columns), **keys}.items() if v is not None}
        for name in NO_KEYS:
            if name in given:
                raise UsageError(
                    f"{name} is a key of a stream that a command runs, and has no meaning here: "
                    "leave it out"
                )
        self._reads = "input_topic" in given
        if not self._reads:
            given |= {"input_subscription": ROWS, "time_attribute": TIME}
        self._plan = resolve(read_stream(None, given))

    def expand(self, events: Any) -> beam.PCollection[Any]:
        """Pays, and wires all of the stream up to its steps."""
        plan = self._plan_for_runner(events.pipeline)
        messages = self._messages(events, plan)
        with paid_epoch(plan) as epoch:
            steps = run.build_stream(events.pipeline, messages, epoch)
        if not self._has_rows:
            return steps
        return steps | "ToRows" >> beam.FlatMap(_rows_of).with_output_types(_ROW)

    def display_data(self) -> dict[str, Any]:
        """Returns what a runner shows of the transform: no value of a filter, and no key."""
        config = self._plan.keys
        return {
            "release_id": config.release_id,
            "epoch": config.epoch,
            "epsilon": str(config.epsilon),
            "horizon": config.horizon,
            "account": config.account,
        }

    def _plan_for_runner(self, pipeline: beam.Pipeline) -> StreamPlan:
        """Returns the plan for the runner of a pipeline.

        Raises:
            UsageError: It runs no streams, or would lose the state of this one.
        """
        runner, options = runner_of(pipeline), pipeline.options
        if runner in _HERE:
            return self._plan.with_keys(runner=FED)
        run.set_streaming(runner, options)
        given = given_options(options)
        missing = [flag for flag in run.OF_FLINK if not hasattr(given, flag.removeprefix("--"))]
        if runner == FLINK and missing:
            raise UsageError(
                f"runner {runner} loses messages of a stream between checkpoints without "
                f"`{' '.join(run.OF_FLINK)}`: give the pipeline these flags"
            )
        return self._plan.with_keys(runner=runner)

    def _messages(self, events: Any, plan: StreamPlan) -> Any:
        """Returns the messages of the collection, or what reads them.

        Raises:
            UsageError: It is windowed, or its type is none that can be read.
            InputSchemaError: Its rows lack a field that is mapped.
        """
        if isinstance(events, pvalue.PBegin):
            if not self._reads:
                raise UsageError(
                    "there are no events: apply the transform to a collection, or name the topic "
                    "of Kafka that it reads with input_topic"
                )
            run.require_reads(plan)
            return run.source_of(plan, not plan.is_begun)[0]
        if self._reads:
            raise UsageError(
                "input_topic is for a transform that begins a pipeline: leave it out, or apply "
                "the transform to the pipeline itself"
            )
        if not events.windowing.is_default():
            raise UsageError(
                "the events are windowed, and this transform cuts time into steps itself: leave "
                "the windows out, and say the length of a step with period"
            )
        if events.element_type is PubsubMessage:
            return events
        kind, fields = kind_of(events.element_type)
        if kind == "batches":
            raise UsageError(
                "the events have the type RecordBatch, and a stream takes rows with a schema, "
                "dicts or messages, each with a time of its own"
            )
        resolved = plan.inputs[0].layout.mapping.resolve(
            None if fields is None else list(fields), False
        )
        if fields is not None:
            require_fields(resolved, fields)
        event_id = plan.keys.event_id
        names = resolved.wanted + ((event_id,) if fields is None or event_id in fields else ())
        to_message = ToMessage(names, resolved.names[TIMESTAMP], kind == "dicts")
        return events | "ToMessages" >> beam.Map(to_message).with_output_types(PubsubMessage)


def _rows_of(step: Step) -> Iterator[beam.Row]:
    for row in step.to_rows().to_pylist():
        source, target = row["cell"]
        start, end = (Timestamp(micros=row[name]) for name in ("start_us", "end_us"))
        known = {"start": start, "end": end, "source": source, "target": target, **row}
        yield beam.Row(**{name: known.get(name) for name, _ in _FIELDS})

"""DecodeMessages: a stream of messages to batches of events and of unreadable messages.

Messages are gathered and decoded together, because all later stages work on batches. No message
makes the pipeline fail (`transforms.formats.messages`). Which messages count is not decided here: a
message that is delivered twice becomes two events with one id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.transforms.formats.messages import Message, MessageFormat

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

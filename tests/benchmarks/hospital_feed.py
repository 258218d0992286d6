"""The synthetic hospital of `sample` in fast motion, as messages of a topic: for demos and tests.

Cases begin at a steady rate, and what takes a day in the hospital takes a second here. The messages
are what a real topic has: Avro data and JSON objects, some sent twice, some that nobody can read,
and cases that never end. What becomes of a case and of a message is a hash of its number, so the
feed is the same every time, but for the clock.

It is no privacy mechanism, and no part of a release.
"""

from __future__ import annotations

import bisect
import io
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa

from tracecloak.examination.demo.hospital import hospital_log
from tracecloak.schemas.arrays.hashing import mix
from tracecloak.schemas.events.events import ACTIVITY, CASE_ID, TIMESTAMP

_BATCH_CASES = 256
_FOREVER = 10_000_000  # cases; more than anybody waits for
_SECOND_US = 1_000_000
_SLICE_SECONDS = 0.05  # messages that are due within are sent together
_RANKS = np.uint64(1 << 10)  # more than a case has events, so that numbers of events differ
_LATER_US = 500_000  # within which a message is sent again

# What the hash of an event is drawn for.
_DUPLICATE, _MALFORMED, _FORMAT, _LATER, _CASE = range(5)

_BROKEN = (
    b"\x00\xff\x00",  # no datum of the schema
    b'{"case_id": "P1", "activity": ',  # half of an object
    b'{"activity": "Triage", "timestamp": "2026-01-01T00:00:00Z"}',  # nobody's
    b'{"case_id": "P1", "activity": "Triage", "timestamp": "yesterday"}',
)


class Sending(NamedTuple):
    """One message: when it is due, in microseconds from the beginning, and what it is."""

    due_us: int
    data: bytes
    kind: str  # event, duplicate or malformed


@dataclass(frozen=True)
class HospitalFeed:
    """What the hospital sends."""

    cases_per_second: float = 20.0
    speed: float = 86_400.0
    endless: float = 0.05
    duplicated: float = 0.05
    malformed: float = 0.01

    def sendings(self, begin_us: int, n_cases: int = _FOREVER) -> Iterator[Sending]:
        """Yields the messages in the order in which they are due."""
        held: list[Sending] = []
        done = 0
        for batch in hospital_log(n_cases, _BATCH_CASES):
            held = sorted([*held, *self._messages(batch, done, begin_us)])
            done += _BATCH_CASES
            # Nothing of the next batch is due before its first case begins.
            n = bisect.bisect_left(held, (self._begins_us(done),))
            yield from held[:n]
            del held[:n]
        yield from held

    def _begins_us(self, number: int) -> int:
        return int(number * _SECOND_US / self.cases_per_second)

    def _messages(self, batch: pa.RecordBatch, first: int, begin_us: int) -> Iterator[Sending]:
        """Messages of a batch of cases, with those that come again or are broken."""
        case_ids = batch.column(CASE_ID).dictionary_encode()
        case = np.asarray(case_ids.indices).astype(np.int64)
        time_us = np.asarray(batch.column(TIMESTAMP).cast(pa.int64()))
        heads = np.flatnonzero(np.diff(case, prepend=-1))
        since = (time_us - time_us[heads[case]]) / self.speed
        due = ((first + case) * _SECOND_US / self.cases_per_second + since).astype(np.int64)
        number = (first + case).astype(np.uint64)
        rank = np.arange(len(case)) - heads[case]
        due += rank  # tests of one sample of blood have one stamp, and messages have no order
        ids = number * _RANKS + rank.astype(np.uint64)
        is_last = np.append(np.diff(case), 1) == 1
        is_never = is_last & (_share(number, _CASE) < self.endless)
        is_again = _share(ids, _DUPLICATE) < self.duplicated
        is_broken = _share(ids, _MALFORMED) < self.malformed
        is_avro = _share(ids, _FORMAT) < 0.5
        later = (_share(ids, _LATER) * _LATER_US).astype(np.int64)
        case_names, activities = (batch.column(n).to_pylist() for n in (CASE_ID, ACTIVITY))
        for row in np.flatnonzero(~is_never).tolist():
            at, event = int(due[row]), int(ids[row])
            named = case_names[row], activities[row], begin_us + at, f"E{event}"
            data = _encoded(*named, bool(is_avro[row]))
            yield Sending(at, data, "event")
            if is_again[row]:
                yield Sending(at + int(later[row]), data, "duplicate")
            if is_broken[row]:
                yield Sending(at, _BROKEN[event % len(_BROKEN)], "malformed")


def _share(numbers: np.ndarray, purpose: int) -> np.ndarray:
    """Returns float64[n] in [0, 1), a hash of each number for a purpose."""
    words = mix(mix(numbers + np.uint64(1)) + np.uint64(purpose + 1))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


_SCHEMA = fastavro.parse_schema(
    json.loads(files("tracecloak.schemas.files").joinpath("event.avsc").read_text())
)


def _encoded(case: str, activity: str, time_us: int, event_id: str, is_avro: bool) -> bytes:
    event = {CASE_ID: case, ACTIVITY: activity, "event_id": event_id}
    if is_avro:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, _SCHEMA, {**event, TIMESTAMP: time_us})
        return stream.getvalue()
    moment = datetime.fromtimestamp(time_us / _SECOND_US, UTC).isoformat()
    return json.dumps({**event, TIMESTAMP: moment}).encode()


# --- Sending --------------------------------------------------------------------------------------


@dataclass
class Sent:
    """How many messages have been sent."""

    counts: dict[str, int] = field(
        default_factory=lambda: {"event": 0, "duplicate": 0, "malformed": 0}
    )
    behind_seconds: float = 0.0


def send(
    feed: HospitalFeed,
    publisher: Any,
    topic: str,
    seconds: float,
    stop: threading.Event,
    sent: Sent,
) -> None:
    """Sends what is due, as the clock goes, for some time or until it is stopped."""
    begin = time.monotonic()
    pending: list[Any] = []
    for sending in feed.sendings(time.time_ns() // 1000):
        due = sending.due_us / _SECOND_US
        if due >= seconds:
            break
        now = time.monotonic() - begin
        if due > now + _SLICE_SECONDS:
            for future in pending:
                future.result()
            pending.clear()
            if stop.wait(max(0.0, due - (time.monotonic() - begin))):
                return
        sent.behind_seconds = max(sent.behind_seconds, now - due)
        pending.append(publisher.publish(topic, sending.data))
        sent.counts[sending.kind] += 1
    for future in pending:
        future.result()
    stop.wait(max(0.0, seconds - (time.monotonic() - begin)))

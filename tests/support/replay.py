"""Messages of a stream in a file, replayed in the order of their publishing, and what came of them.

Everything passes through files, so that workers may be other processes than the test.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from tracecloak.schemas.events.traces import TraceBatch


@dataclass(frozen=True)
class Record:
    """One message: when it was published, in microseconds since 1970 UTC, and its JSON body."""

    publish: int
    body: dict[str, Any]

    def message(self) -> PubsubMessage:
        """As a message service delivers it."""
        return PubsubMessage(json.dumps(self.body).encode(), {})


def write_messages(path: Path, records: Iterable[Record]) -> None:
    """Writes messages to a file, a line each, by their times of publishing."""
    ordered = sorted(records, key=lambda record: record.publish)
    path.write_text("".join(json.dumps([r.publish, r.body]) + "\n" for r in ordered))


def read_messages(path: str) -> list[Record]:
    """The messages of a file."""
    return [Record(*json.loads(line)) for line in Path(path).read_text().splitlines()]


class ReplayAtOnce(beam.DoFn):
    """Gives the messages of a file. The watermark stands still until the file is read."""

    def process(self, path: str) -> Iterator[TimestampedValue]:
        for record in read_messages(path):
            yield TimestampedValue(record.message(), Timestamp(micros=record.publish))


class _Lines(RestrictionProvider):
    def initial_restriction(self, path: str) -> OffsetRange:
        return OffsetRange(0, len(read_messages(path)))

    def create_tracker(self, lines: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(lines)

    def restriction_size(self, path: str, lines: OffsetRange) -> int:
        return lines.size()

    def split(self, path: str, lines: OffsetRange) -> Iterator[OffsetRange]:
        yield lines


class ReplayInSteps(beam.DoFn):
    """Gives the messages of a file, and hands back the rest of it after each step of time.

    The watermark goes to the next message every time, as that of a service which knows its oldest
    message does.
    """

    LINES = beam.DoFn.RestrictionParam(_Lines())
    WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())

    def __init__(self, step_us: int) -> None:
        self._step_us = step_us

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        path: str,
        lines: Any = LINES,
        watermark: Any = WATERMARK,
    ) -> Iterator[TimestampedValue]:
        records = read_messages(path)
        place = lines.current_restriction().start
        until = records[place].publish + self._step_us if place < len(records) else 0
        while lines.try_claim(place):
            now = Timestamp(micros=records[place].publish)
            yield TimestampedValue(records[place].message(), now)
            place += 1
            if place < len(records) and records[place].publish >= until:
                watermark.set_watermark(Timestamp(micros=records[place].publish))
                lines.defer_remainder()
                return


class WriteFound(beam.DoFn):
    """Writes what it is given as JSON, a file each, with the window and the firing it came in.

    Takes (label, list of (step, cases)).
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(
        self,
        element: tuple[str, Iterable[tuple[int, TraceBatch]]],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> None:
        label, steps = element
        found = {
            "label": label,
            "cases": [case for step, traces in steps for case in cases_of(step, traces)],
            "window_end": window.end.micros,
            "pane": [pane.timing, pane.index, pane.is_last],
        }
        # Another name each time: what is written twice must be seen twice.
        Path(self._folder, f"{uuid.uuid4().hex}.json").write_text(json.dumps(found))


@dataclass
class Found:
    """What a pipeline wrote.

    Attributes:
        cases: (step, case, activities, times) in order.
        panes: (end of the window, [timing, index, whether last]) of every firing.
    """

    cases: list[Any] = field(default_factory=list)
    panes: list[tuple[int, list[Any]]] = field(default_factory=list)


def read_found(folder: Path, label: str) -> Found:
    """Reads what was written under a label."""
    found = Found()
    for path in folder.glob("*.json"):
        written = json.loads(path.read_text())
        if written["label"] == label:
            found.cases += written["cases"]
            found.panes.append((written["window_end"], written["pane"]))
    found.cases.sort()
    found.panes.sort()
    return found


def cases_of(step: int, traces: TraceBatch) -> list[Any]:
    """[step, case, activities, times] of every case of a batch."""
    names = traces.vocabulary.names.to_pylist()
    return [
        [
            step,
            case,
            [names[code] for code in traces.activities[first:last]],
            traces.times[first:last].tolist(),
        ]
        for case, first, last in zip(
            traces.case_ids.to_pylist(), traces.offsets[:-1], traces.offsets[1:], strict=True
        )
    ]

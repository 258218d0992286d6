"""Streams in tests: messages at given moments, through the whole of `tracecloak stream`."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue

from tests.support.logs import trace_batch
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.anonymizers.streams import continual
from tracecloak.pipelines.budget.opening import officers_ledger, store_at
from tracecloak.pipelines.budget.unfinished import withdraw
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.plan import load_stream, resolve
from tracecloak.pipelines.stream.run import StreamOutcome, run_stream
from tracecloak.schemas.events.events import EVENT_SCHEMA, ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.step import StepRelease
from tracecloak.schemas.statistics.variants import DirectlyFollows
from tracecloak.transforms.stream.step_sinks import epoch_folder

S = 1_000_000
VOCABULARY = ("A", "B", "C", "END")
PERIOD = 10  # seconds of a step
STRIDE = 10  # seconds, as often as the watermark moves on


LOG = {
    "product": "log", "epsilon": "40", "first_date": "1970-01-01", "last_date": "1970-01-02",
    "n_duration_bins": 4, "l2_clip": "4",
}  # fmt: skip
INDICATORS = {
    "product": "indicators",
    "indicators": ["cases", "throughput of=0.5 at_most=30s", "rework", "frequency activity=A"],
}
INDIVIDUALS = {"individual_id": "person", "max_cases_per_individual": 2}
STREAMS: dict[str, dict[str, Any]] = {
    "dfg": {},
    "dfg totals": {"view": "total"},
    "dfg sliding": {"view": "sliding", "sliding_steps": 3},
    "dfg of individuals": {"view": "total", **INDIVIDUALS},
    "dfg w_event": {**INDIVIDUALS, "guarantee": "w_event", "w_event_steps": 2},
    "variants": {"product": "variants", "epsilon": "40"},
    "variants totals": {"product": "variants", "view": "total", "epsilon": "40"},
    "variants of individuals": {
        "product": "variants", "view": "total", "epsilon": "40", "individual_id": "person",
    },
    "indicators": INDICATORS,
    "indicators totals": {**INDICATORS, "view": "total", **INDIVIDUALS},
    "log": LOG,
    "log of individuals": {**LOG, "individual_id": "person"},
}  # fmt: skip
"""The products of streams, by name, as changes of the keys of `stream_keys`."""


class Sent(NamedTuple):
    """One message, published at a second; its event is as old as it says."""

    publish: float
    case: str
    activity: str
    event_id: str | None = None
    age: float = 0
    individual: str | None = None

    def message(self) -> TimestampedValue:
        """As a message service delivers it."""
        body = {
            "case_id": self.case,
            "activity": self.activity,
            "timestamp": int((self.publish - self.age) * S),
            "event_id": self.event_id,
            "person": self.individual,
        }
        data = json.dumps({k: v for k, v in body.items() if v is not None}).encode()
        return TimestampedValue(PubsubMessage(data, {}), self.publish)


# Messages arrive together, or the watermark moves to a second.
Happening = Sequence[Sent | TimestampedValue] | float


def in_time(sent: Iterable[Sent], until: int) -> list[Happening]:
    """Messages that come before the watermark passes them."""
    ordered = sorted(sent, key=lambda s: (s.publish, s.case, s.activity))
    happenings: list[Happening] = []
    for second in range(0, until, STRIDE):
        happenings.append([s for s in ordered if second <= s.publish < second + STRIDE])
        happenings.append(float(second + STRIDE))
    return [happening for happening in happenings if happening != []]


def ticking(after: int, until: int) -> list[Happening]:
    """A watermark that goes on."""
    return [float(second) for second in range(after + STRIDE, until + STRIDE, STRIDE)]


def stream_of(happenings: Iterable[Happening]) -> TestStream:
    """Returns a source in which this happens, and that ends then."""
    stream = TestStream().advance_watermark_to(0)
    for happening in happenings:
        if isinstance(happening, float | int):
            stream = stream.advance_watermark_to(happening)
        else:
            stream = stream.add_elements(
                [sent.message() if isinstance(sent, Sent) else sent for sent in happening]
            )
    return stream.advance_watermark_to_infinity()


def stream_config(folder: Path, **changes: Any) -> StreamConfig:
    """Returns the configuration of a stream of steps of ten seconds from 1970 on."""
    return load_stream(None, stream_keys(folder, **changes))


def stream_keys(folder: Path, **changes: Any) -> dict[str, Any]:
    """Returns the keys of that configuration."""
    vocabulary = folder / "vocabulary.txt"
    vocabulary.write_text("\n".join(VOCABULARY))
    given: dict[str, Any] = {
        "release_id": "ward", "epoch": "1", "input_subscription": "projects/p/subscriptions/s",
        "output": str(folder / "out"), "key_store": str(folder / "keys"), "new_ledger": True,
        "epsilon": "1", "vocabulary": str(vocabulary), "max_trace_length": 5, "shards": 2,
        "period": f"{PERIOD}s", "horizon": 6, "start": "1970-01-01", "gap": "12s",
        "max_lifetime": "60s", "max_disorder": "3s", "end_activity": ["END"],
        "release_delay": "10s",  # the local runner holds no watermark, which may jump this far
        "timestamp_unit": "us",
    }  # fmt: skip
    if changes.get("product", "dfg") == "dfg" and changes.get("delta") != "0":
        given["l2_clip"] = "5"  # as large as a case: loops count in full
    given |= changes
    return {key: value for key, value in given.items() if value is not None}


def run(config: StreamConfig, happenings: Iterable[Happening]) -> StreamOutcome:
    """Runs a stream until its source ends."""
    return run_stream(config, messages=stream_of(happenings))


def published(config: StreamConfig) -> list[StepRelease]:
    """The releases of counts in the files, by step."""
    folder = Path(epoch_folder(config.output, config.release_id, config.epoch))
    files = folder.glob(f"product={config.product}/view={config.view}/step-*.json")
    return [StepRelease.from_json(path.read_bytes()) for path in sorted(files)]


def files_of(config: StreamConfig) -> dict[str, bytes]:
    """All files of an epoch, by their paths in it."""
    folder = Path(epoch_folder(config.output, config.release_id, config.epoch))
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def steps_of(config: StreamConfig) -> dict[str, bytes]:
    """The files of the steps of an epoch, by their paths in it."""
    return {name: data for name, data in files_of(config).items() if name.startswith("product")}


def counts_of(release: StepRelease) -> dict[tuple[str, ...], int]:
    """The cells of a release that are not 0."""
    pairs = zip(release.cells, release.counts.tolist(), strict=True)
    return {cell: count for cell, count in pairs if count}


def batch_of(*variants: str) -> TraceBatch:
    """Cases of these variants, an activity a letter."""
    return trace_batch({f"c{i}": " ".join(variant) for i, variant in enumerate(variants)})


@contextmanager
def no_noise() -> Iterator[None]:
    """Draws zeros for noise, in this process."""

    def zeros(stream: Any, *scale: int) -> np.ndarray:
        return np.zeros(len(stream), np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(continual, "draw_gaussian", zeros)
        patch.setattr(continual, "draw_laplace", zeros)
        yield


def random_messages(n_cases: int = 40, until: int = 60) -> list[Sent]:
    """Messages of cases of one to six events, in the order of their publishing."""
    rng = np.random.default_rng(4)
    sent = []
    for case in range(n_cases):
        second = int(rng.integers(0, until))
        for i in range(int(rng.integers(1, 7))):
            name = str(rng.choice(["A", "B", "C", "END"], p=[0.3, 0.3, 0.2, 0.2]))
            sent.append(Sent(second, f"c{case}", name, f"{case}.{i}", float(rng.integers(0, 3))))
            second += int(rng.integers(1, 9))
    return sorted(sent)


def script() -> list[Happening]:
    """Messages of cases of nine individuals, and a watermark that goes on behind them."""
    sent = [s._replace(individual=f"p{int(s.case[1:]) % 9}") for s in random_messages(30, 30)]
    return [*in_time(sent, 60), *ticking(60, 90)]


# --- What a batch release would count ---------------------------------------------------------

Pairs = dict[tuple[str, ...], int]


def accepted(sent: Iterable[Sent]) -> dict[int, list[Sent]]:
    """The events that count, by step: the rule of closing, one case and message at a time."""
    cases: dict[str, list[Sent]] = defaultdict(list)
    for message in sorted(sent, key=lambda s: s.publish):
        if all(message.event_id != other.event_id for other in cases[message.case]):
            cases[message.case].append(message)
    steps: dict[int, list[Sent]] = defaultdict(list)
    for messages in (messages[:5] for messages in cases.values()):
        closes = ended = messages[0].publish + 60
        kept: list[Sent] = []
        for message in messages:
            if kept and message.publish >= closes + 3:
                break
            kept.append(message)
            if message.activity == "END":
                ended = min(ended, message.publish)
            closes = min(ended, message.publish + 12)
        steps[int((closes + 3) // PERIOD)] += kept
    return steps


def batch_pairs(sent: list[Sent]) -> Pairs:
    """The directly-follows graph of these events as the code for whole logs counts it."""
    rows = [
        {
            "case_id": s.case,
            "activity": s.activity,
            "timestamp": int((s.publish - s.age) * S),
            "event_index": i,
        }
        for i, s in enumerate(sent)
    ]
    events = pa.RecordBatch.from_pylist(rows, EVENT_SCHEMA)
    words = ActivityVocabulary.public(VOCABULARY)
    counted = DirectlyFollows.merge(
        [DirectlyFollows.from_traces(t.recode(words)) for t in group_into_traces([events])]
    )
    return {
        (words.labels[a], words.labels[b]): int(n)
        for a, b, n in zip(counted.sources, counted.targets, counted.counts, strict=True)
    }


def made(folder: Path, *names: str) -> tuple[str, ...]:
    """Makes folders."""
    for name in names:
        (folder / name).mkdir()
    return names


def taken_back(config: StreamConfig, keys: Path) -> None:
    """Takes the epoch of a stream back, as its officer does."""
    store = store_at(str(keys))
    signed = ("A. Officer", "a name was in it")
    withdraw(store, officers_ledger(store), *resolve(config).place, *signed)


def rejected(keys: Path) -> list[dict[str, Any]]:
    """The messages that are listed as unreadable in a key store."""
    files = [*keys.rglob("rejects.jsonl"), *keys.rglob("messages-*.jsonl")]
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    return [row for row in rows if "counts" not in row]


def reject_counts(keys: Path) -> Counter[str]:
    """How many messages a key store counts as unreadable, by reason."""
    found: Counter[str] = Counter()
    for path in keys.rglob("rejects.jsonl"):
        for of in json.loads(path.read_text().splitlines()[0])["counts"].values():
            found.update(of)
    return found

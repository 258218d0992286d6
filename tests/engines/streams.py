"""A stream from Kafka on Flink in processes of its own, what it is sent, and what it must say."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.engines.flink import FlinkCluster
from tests.engines.kafka import KafkaBroker
from tests.engines.processes import Process, running, wait_until
from tests.support.releasing import ROOT
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.streams.steps import Identities, RunningStream
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.plan import load_stream, resolve
from tracecloak.transforms.services.kafka_identity import KnownLog, Place, look_at
from tracecloak.transforms.services.kafka_reader import PartitionReader
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream.step_sinks import epoch_folder

EVENTS, STEPS = "events", "steps"
NO_EVENT = b"no event"
CHECKPOINT_MILLIS = 1_000
PERIOD_SECONDS, DELAY_SECONDS = 2, 1
_STEP_SECONDS = 400.0
_CASES_PER_SECOND = 5


class StreamOnFlink:
    """A stream whose epoch begins now, and that is started as often as a test wants."""

    client: Process

    def __init__(
        self,
        folder: Path,
        broker: KafkaBroker,
        ledger: str,
        horizon: int,
        n_topics: int = 1,
        **changes: str,
    ) -> None:
        """Makes its topics."""
        self._folder = folder
        self._n_starts = 0
        name = folder.name
        self._topics = [f"{name}-{EVENTS}{number or ''}" for number in range(n_topics)]
        for topic in self._topics:
            broker.new_topic(topic, 2)
        broker.new_topic(f"{name}-{STEPS}")
        vocabulary = folder / "vocabulary.txt"
        vocabulary.write_text("A\nB\nC\nEND\n")
        self._given = {
            "release_id": "ward", "epoch": "1", "ledger": ledger, "new_ledger": "true",
            "input_topic": f"kafka://{broker.servers}/{name}-{EVENTS}",
            "output_topic": f"kafka://{broker.servers}/{name}-{STEPS}",
            "output": str(folder / "out"), "key_store": str(folder / "keys"),
            "worker_keys": str(folder / "worker-keys"), "vocabulary": str(vocabulary),
            "epsilon": "1", "l2_clip": "6", "max_trace_length": "5", "horizon": str(horizon),
            "start": datetime.fromtimestamp(int(time.time()), UTC).isoformat(),
            "period": f"{PERIOD_SECONDS}s", "gap": "3s", "max_lifetime": "20s",
            "max_disorder": "1s", "end_activity": "END", "release_delay": f"{DELAY_SECONDS}s",
            "timestamp_unit": "us", "shards": "4", "runner": "FlinkRunner", **changes,
        }  # fmt: skip
        self._file: Path | None = None
        if n_topics > 1:  # a list that is no flag
            del self._given["input_topic"]
            inputs = [{"input_topic": f"kafka://{broker.servers}/{one}"} for one in self._topics]
            self._file = folder / "inputs.yaml"
            self._file.write_text(json.dumps({"inputs": inputs}))
        file = None if self._file is None else str(self._file)
        self.config: StreamConfig = load_stream(file, self._given)

    @property
    def keys(self) -> dict[str, str]:
        """What it is given, as a pipeline of somebody's own gives it: workers are threads of it."""
        apart = ("runner", "output_topic", "worker_keys")
        return {name: value for name, value in self._given.items() if name not in apart}

    @property
    def topic(self) -> KafkaTopic:
        """That of the events."""
        return self.topics[0]

    @property
    def topics(self) -> list[KafkaTopic]:
        """Those of the events."""
        return [one.topic for one in resolve(self.config).inputs if one.topic]

    @contextmanager
    def started(self, flags: Sequence[str], build: Path = ROOT) -> Iterator[Process]:
        """Hands it to Flink for the block."""
        self._n_starts += 1
        given = [f"--{key}={value}" for key, value in self._given.items()]
        beam = [flag for flag in flags if not flag.startswith("--runner")]
        process = Process(
            f"stream-{self._n_starts}",
            [
                sys.executable, "-m", "tests.engines.client", "stream",
                *filter(None, [self._file]), *given, *beam,
                f"--checkpointing_interval={CHECKPOINT_MILLIS}", "--traceback",
            ],
            self._folder,
            lambda: True,
            {"PYTHONPATH": str(build)},
        )  # fmt: skip
        self.client = process
        with running(process):
            yield process

    def published(self) -> dict[int, bytes]:
        """Returns the bytes of the steps in the output, by their numbers."""
        folder = Path(epoch_folder(self.config.output, "ward", "1"))
        return {
            int(path.stem.removeprefix("step-")): path.read_bytes()
            for path in folder.rglob("step-*.json")
        }

    def wait_for_steps(self, n_more: int, *alive: Process) -> None:
        """Waits until so many further steps are published."""
        wanted = len(self.published()) + n_more
        wait_until(
            lambda: len(self.published()) >= wanted,
            _STEP_SECONDS,
            lambda: f"{len(self.published())} of {wanted} steps are published",
            *alive,
        )

    def n_seconds_early(self) -> float:
        """Returns by how much the step came too early that came earliest, by the clock; 0: none."""
        folder = Path(epoch_folder(self.config.output, "ward", "1"))
        due = resolve(self.config).rule.release_time
        early = [
            due(int(path.stem.removeprefix("step-"))) / 1e6 - path.stat().st_mtime
            for path in folder.rglob("step-*.json")
        ]
        return max(0.0, *early)

    def sent_steps(self) -> dict[int, set[bytes]]:
        """Returns what the topic of steps holds, by step."""
        topic = self.config.kafka("output_topic")
        assert topic is not None
        found: dict[int, set[bytes]] = {}
        for message in all_messages(topic):
            found.setdefault(int(message.attributes["step"]), set()).add(message.data)
        return found

    def set_positions(self, since_us: int) -> str:
        """Has a person set positions to a moment; returns what the command says."""
        since = datetime.fromtimestamp(since_us / 1e6, UTC).isoformat()
        said = ["--to_time", since, "--by", "A. Operator", "--reason", "a drill"]
        given = [f"--{key}={value}" for key, value in self._given.items()]
        command = [sys.executable, "-m", "tests.engines.client", "stream", "positions"]
        ended = subprocess.run(
            [*command, *given, *said], capture_output=True, text=True, timeout=120, cwd=ROOT
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def undisturbed(self, earlier: Sequence[Any] = ()) -> dict[int, bytes]:
        """Returns what all steps must be, by the messages of the topic alone: there is no Beam."""
        plan, key = resolve(self.config), ReleaseKey(SECRET)
        stream = RunningStream(plan.product, plan.name, key, plan.rule, Identities(key))
        state = stream.begin()
        for topic, one in zip(self.topics, plan.inputs, strict=True):
            messages = [*earlier, *all_messages(topic)]
            events, rejects = one.layout.decode(messages, [m.published_us for m in messages])
            assert rejects.num_rows == sum(message.data == NO_EVENT for message in messages)
            state = stream.take(state, stream.keyed(events))
        _, decided = stream.advance(state, stream.rule.release_time(plan.keys.horizon))
        return {made.step: made.released.to_json() for made in decided}


# The key of tests.engines.client.
SECRET = b"k" * 32


def all_messages(topic: KafkaTopic) -> list[Any]:
    """Returns all messages of a topic to which nobody writes any more, or those from places on."""
    first = look_at(topic).bounds
    known = KnownLog({n: Place(one.first) for n, one in first.items()})
    reader = PartitionReader(topic, "all messages", known)
    found = []
    try:
        now_us = int(1e6 * time.time())
        while any(reader.watermark_us(number, now_us) < now_us - 3_000_000 for number in first):
            found += reader.poll(10_000, 0.2)
        return found + list(reader.poll(10_000, 0.2))
    finally:
        reader.close()


class Feed:
    """Sends messages of cases at a steady rate, in a thread, until it is ended."""

    def __init__(self, *topics: KafkaTopic, frame: bytes = b"") -> None:
        """Begins."""
        self._names = [topic.name for topic in topics]
        self._producer = Producer(
            {"bootstrap.servers": topics[0].servers, "enable.idempotence": True, "log_level": 0}
        )
        self._frame = frame
        self._ended = threading.Event()
        self.n_cases = 0
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends it, and waits until the brokers have everything."""
        self._ended.set()
        self._thread.join()
        left = self._producer.flush(60)
        assert left == 0, f"{left} messages were not taken"

    def _send(self) -> None:
        chosen = random.Random(4)
        due: list[tuple[float, str, str, str]] = []
        begin = time.monotonic()
        while not self._ended.wait(0.05):
            now = time.monotonic() - begin
            while self.n_cases < now * _CASES_PER_SECOND:
                at = self.n_cases / _CASES_PER_SECOND
                for number in range(chosen.randint(1, 6)):
                    name = chosen.choice(["A", "B", "C", "END"])
                    due.append((at, f"c{self.n_cases}", name, f"{self.n_cases}.{number}"))
                    at += 2 * chosen.random()
                self.n_cases += 1
            due.sort()
            while due and due[0][0] <= now:
                _, case, activity, event = due.pop(0)
                micros = time.time_ns() // 1_000
                body = {"case_id": case, "activity": activity, "timestamp": micros,
                        "event_id": event}  # fmt: skip
                data = self._frame + json.dumps(body).encode()
                name = self._names[int(event.rpartition(".")[2]) % len(self._names)]
                self._producer.produce(name, data, case.encode())
            self._producer.poll(0)


def send_no_events(n: int, *topics: KafkaTopic) -> None:
    """Sends each topic so many messages that cannot be read."""
    producer = Producer({"bootstrap.servers": topics[0].servers, "log_level": 0})
    for topic in n * topics:
        producer.produce(topic.name, NO_EVENT)
    assert producer.flush(60) == 0


def jobs_of(cluster: FlinkCluster) -> list[dict[str, Any]]:
    """Returns the jobs of a cluster, those that ended as well."""
    jobs: Any = cluster.ask("/jobs/overview")["jobs"]
    return list(jobs)


def job_of(cluster: FlinkCluster) -> str:
    """Returns the id of the only job that runs on a cluster."""
    running = ("RUNNING", "RESTARTING")
    [job] = [job["jid"] for job in jobs_of(cluster) if job["state"] in running]
    return str(job)


def stop_with_savepoint(cluster: FlinkCluster, folder: Path) -> str:
    """Stops the job of a cluster; returns where its state is."""
    job = job_of(cluster)
    asked = cluster.ask(f"/jobs/{job}/stop", {"targetDirectory": folder.as_uri(), "drain": False})
    path = f"/jobs/{job}/savepoints/{asked['request-id']}"
    status: dict[str, Any] = {}

    def is_done() -> bool:
        status.update(cluster.ask(path))
        return bool(status["status"]["id"] == "COMPLETED")

    wait_until(is_done, _STEP_SECONDS, lambda: f"no savepoint: {status}")
    operation = status["operation"]
    if "location" not in operation:
        raise RuntimeError(f"the job was not stopped: {operation}")
    return str(operation["location"])


def last_checkpoint(folder: Path) -> str:
    """Returns the newest whole checkpoint below a folder."""
    whole = folder.glob("*/chk-*/_metadata")
    return max(whole, key=lambda path: path.stat().st_mtime).parent.as_uri()

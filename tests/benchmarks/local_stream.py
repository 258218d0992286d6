"""A backlog of Kafka through `tracecloak stream` on one machine, and a stream that is killed.

BENCHMARK_MESSAGES (default 1,000,000) are in a topic of two partitions before the stream begins,
and its total must have every case. What is compared is the time of a processor, from the first
messages to the end of the command: with `json.loads` alone of the same messages, which is the same
share on every machine. Then BENCHMARK_OPEN_CASES (default 1,000,000) are open when a stream is
killed, and it is measured how long the next one takes before it reads on. The broker runs on the
same machine.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import ratio
from tests.engines.fetching import UnavailableError
from tests.engines.kafka import KafkaBroker, kafka_broker
from tracecloak.schemas.published.step import StepRelease

N_MESSAGES = int(os.environ.get("BENCHMARK_MESSAGES", 1_000_000))
ACTIVITIES = ("Registration", "Triage", "CRP", "Discharge home")
N_OPEN = int(os.environ.get("BENCHMARK_OPEN_CASES", 1_000_000))
N_CASES = N_MESSAGES // len(ACTIVITIES)
_PERIOD_SECONDS = 20
_MOST_SECONDS = 600


def message(case: int, number: int, activity: str) -> bytes:
    """One event of a case."""
    body = {
        "case_id": f"case-{case}",
        "activity": activity,
        "timestamp": 1_700_000_000_000 + number,
        "event_id": f"{case}.{number}",
        "ward": "none of the columns that are read",
    }
    return json.dumps(body).encode()


def fill(
    servers: str, topic: str, n_cases: int = N_CASES, activities: Sequence[str] = ACTIVITIES
) -> None:
    """Sends the messages of cases, of which some ten thousand are open at any time."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20})
    n_open = min(10_000, n_cases)
    for first in range(0, n_cases, n_open):
        cases = range(first, min(first + n_open, n_cases))
        for number, activity in enumerate(activities):
            for case in cases:
                while True:
                    try:
                        producer.produce(topic, message(case, number, activity), str(case).encode())
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
    producer.flush()


def flags(folder: Path, servers: str, topic: str, began: float, further_steps: int) -> list[str]:
    """Of a stream whose horizon is over after so many further steps."""
    start = began // _PERIOD_SECONDS * _PERIOD_SECONDS
    (folder / "activities.txt").write_text("\n".join(ACTIVITIES) + "\n")
    values: dict[str, Any] = {
        "input_topic": f"kafka://{servers}/{topic}",
        "output": folder / "out",
        "key_store": folder / "keys",
        "new_ledger": "true",
        "release_id": "benchmark",
        "epoch": "1",
        "view": "total",
        "epsilon": 10,
        "delta": "1e-6",
        "vocabulary": folder / "activities.txt",
        "max_trace_length": 8,
        "l2_clip": 4,
        "period": f"{_PERIOD_SECONDS}s",
        "horizon": math.ceil((time.time() - start) / _PERIOD_SECONDS) + further_steps,
        "start": datetime.fromtimestamp(start, UTC).isoformat(),
        "gap": "1h",
        "max_lifetime": "1d",
        "tombstone": "1h",
        "end_activity": ACTIVITIES[-1],
        "release_delay": "1s",
        "timestamp_unit": "ms",
    }
    return [f"--{name}={value}" for name, value in values.items()]


class Reading:
    """A stream in a process of its own, and how far it has read."""

    def __init__(self, folder: Path, servers: str, topic: str, given: list[str]) -> None:
        from confluent_kafka import Consumer

        self._said = folder / "stream.log"
        self._topic = topic
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "tracecloak-benchmark@1"}
        )
        self.began = time.monotonic()
        with self._said.open("a") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tracecloak", "stream", *given], stdout=said, stderr=said
            )

    def n_read(self) -> int:
        """How many messages it has on its disk, by what it notes on the brokers."""
        from confluent_kafka import TopicPartition

        partitions = [TopicPartition(self._topic, n) for n in (0, 1)]
        noted = self._consumer.committed(partitions, timeout=20)
        return sum(max(one.offset, 0) for one in noted)

    def processor_seconds(self) -> float:
        """What its process has taken so far; only Linux says it of another process."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self) -> float:
        """The most memory that it has had; only Linux says it."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024

    def wait_for(self, n_messages: int) -> int:
        """Waits until it has read so many, or has ended; returns how many it has."""
        while (n := self.n_read()) < n_messages and self.process.poll() is None:
            if time.monotonic() - self.began > _MOST_SECONDS:
                raise RuntimeError(f"{n} of {n_messages} were read: {self._said.read_text()}")
            time.sleep(0.1)
        return n

    def end(self) -> None:
        """Kills it, if it has not ended."""
        self.process.kill()
        self.process.wait()
        self._consumer.close()


def measure(folder: Path, broker: KafkaBroker) -> tuple[float, float, int]:
    """Returns (messages a second, and a second of a processor, cases in the total)."""
    topic = "events"
    broker.new_topic(topic, 2)
    began = time.time()
    fill(broker.servers, topic)
    given = flags(folder, broker.servers, topic, began, further_steps=3)
    stream = Reading(folder, broker.servers, topic, given)
    try:
        n_before = stream.wait_for(1)  # what it takes to import is not of the rate
        began, before = time.monotonic(), stream.processor_seconds()
        stream.wait_for(N_MESSAGES)
        seconds = time.monotonic() - began
        _, status, usage = os.wait4(stream.process.pid, 0)
        stream.process.returncode = os.waitstatus_to_exitcode(status)
        if stream.process.returncode:
            raise RuntimeError((folder / "stream.log").read_text())
    finally:
        stream.end()
    spent = usage.ru_utime + usage.ru_stime - before
    n = N_MESSAGES - n_before
    steps = sorted((folder / "out").rglob("step-*.json"))
    total = StepRelease.from_json(steps[-1].read_bytes())
    cells = dict(zip(total.cells, total.counts.tolist(), strict=True))
    cases = next(
        n for cell, n in cells.items() if cell[0] == ACTIVITIES[0] and cell[1] == ACTIVITIES[1]
    )
    return n / seconds, n / spent, cases


def restart(folder: Path, broker: KafkaBroker) -> tuple[float, float, float]:
    """Returns (seconds, of these of a processor, peak MB) until a killed stream reads on."""
    topic = "open"
    folder.mkdir()
    broker.new_topic(topic, 2)
    began = time.time()
    fill(broker.servers, topic, N_OPEN, ACTIVITIES[:1])
    given = flags(folder, broker.servers, topic, began, further_steps=1_000)
    stream = Reading(folder, broker.servers, topic, given)
    try:
        stream.wait_for(N_OPEN)
        while not any((folder / "out").rglob("step-*.json")):
            time.sleep(0.2)
    finally:
        stream.end()
    fill(broker.servers, topic, 1, ACTIVITIES[:1])
    stream = Reading(folder, broker.servers, topic, given)
    try:
        if stream.wait_for(N_OPEN + 1) <= N_OPEN:
            raise RuntimeError((folder / "stream.log").read_text())
        seconds = time.monotonic() - stream.began
        return seconds, stream.processor_seconds(), stream.peak_mb()
    finally:
        stream.end()


def loads_per_second() -> float:
    """How many messages `json.loads` alone reads in a second of a processor."""
    data = [message(case, 1, ACTIVITIES[1]) for case in range(100_000)]
    begun = time.process_time()
    for one in data:
        json.loads(one)
    return len(data) / (time.process_time() - begun)


def main() -> None:
    """Prints the rates and their ratios."""
    with tempfile.TemporaryDirectory() as name:
        try:
            with kafka_broker(Path(name) / "kafka") as broker:
                rate, of_processor, cases = measure(Path(name), broker)
                loads = loads_per_second()
                seconds, spent, peak_mb = restart(Path(name) / "restart", broker)
        except UnavailableError as reason:
            print(f"Kafka cannot be had: {reason}")
            return
    print(
        f"{N_MESSAGES:,} messages of a backlog: {rate:,.0f} a second, {of_processor:,.0f} a second "
        f"of a processor; {cases:,} of {N_CASES:,} cases are in the noisy total\n"
        f"a restart with {N_OPEN:,} open cases: {seconds:.1f} s, {spent:.1f} of a processor, "
        f"peak {peak_mb:.0f} MB",
        flush=True,
    )
    ratio("Local from Kafka, 80,000 messages a second and core", of_processor / 80_000, 1, False)
    ratio("Local from Kafka / json.loads alone", of_processor / loads, 0.2, False)
    ratio("restart with open cases / 30 s", spent / 30, 1)


if __name__ == "__main__":
    main()

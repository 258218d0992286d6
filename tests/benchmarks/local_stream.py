"""A backlog of Kafka through `tracecloak stream` on one machine: messages a second, all counted.

BENCHMARK_MESSAGES (default 1,000,000) are in a topic of two partitions before the stream begins. It
has read them when their positions are on its disk; then its total must have every case. The broker
runs on the same machine.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.engines.fetching import UnavailableError
from tests.engines.kafka import KafkaBroker, kafka_broker
from tracecloak.schemas.published.step import StepRelease

N_MESSAGES = int(os.environ.get("BENCHMARK_MESSAGES", 1_000_000))
ACTIVITIES = ("Registration", "Triage", "CRP", "Discharge home")
N_CASES = N_MESSAGES // len(ACTIVITIES)
_PERIOD_SECONDS = 20
_MOST_SECONDS = 600


def fill(servers: str, topic: str, n_cases: int = N_CASES) -> None:
    """Sends the messages of cases, of which some ten thousand are open at any time."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20})
    n_open = min(10_000, n_cases)
    for first in range(0, n_cases, n_open):
        cases = range(first, min(first + n_open, n_cases))
        for number, activity in enumerate(ACTIVITIES):
            for case in cases:
                body = {
                    "case_id": f"case-{case}",
                    "activity": activity,
                    "timestamp": 1_700_000_000_000 + number,
                    "event_id": f"{case}.{number}",
                    "ward": "none of the columns that are read",
                }
                while True:
                    try:
                        producer.produce(topic, json.dumps(body).encode(), str(case).encode())
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
    producer.flush()


def flags(folder: Path, servers: str, topic: str, began: float) -> list[str]:
    """Of a stream whose horizon is over soon."""
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
        "horizon": math.ceil((time.time() - start) / _PERIOD_SECONDS) + 1,
        "start": datetime.fromtimestamp(start, UTC).isoformat(),
        "gap": "1h",
        "max_lifetime": "1d",
        "tombstone": "1h",
        "end_activity": ACTIVITIES[-1],
        "release_delay": "1s",
        "timestamp_unit": "ms",
    }
    return [f"--{name}={value}" for name, value in values.items()]


def n_read(servers: str, topic: str, group: str) -> int:
    """How many messages the stream has on its disk, by what it notes on the brokers."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        noted = consumer.committed([TopicPartition(topic, n) for n in (0, 1)], timeout=20)
        return sum(max(one.offset, 0) for one in noted)
    finally:
        consumer.close()


def measure(folder: Path, broker: KafkaBroker) -> tuple[float, float, int]:
    """Returns (messages a second, seconds of a processor for a million, cases in the total)."""
    topic = "events"
    broker.new_topic(topic, 2)
    began = time.time()
    fill(broker.servers, topic)
    command = [sys.executable, "-m", "tracecloak", "stream"]
    started = time.monotonic()
    with (folder / "stream.log").open("w") as said:
        stream = subprocess.Popen(
            [*command, *flags(folder, broker.servers, topic, began)], stdout=said, stderr=said
        )
    try:
        while (n := n_read(broker.servers, topic, "benchmark@1")) < N_MESSAGES:
            if stream.poll() is not None or time.monotonic() - started > _MOST_SECONDS:
                raise RuntimeError(f"{n} of {N_MESSAGES} were read: {(folder / 'stream.log')}")
            if n == 0:
                started = time.monotonic()  # what it takes to import is not of the rate
            time.sleep(0.2)
        seconds = time.monotonic() - started
        _, status, usage = os.wait4(stream.pid, 0)
        stream.returncode = os.waitstatus_to_exitcode(status)
        if stream.returncode:
            raise RuntimeError((folder / "stream.log").read_text())
    finally:
        if stream.returncode is None:
            stream.kill()
            stream.wait()
    steps = sorted((folder / "out").rglob("step-*.json"))
    total = StepRelease.from_json(steps[-1].read_bytes())
    cells = dict(zip(total.cells, total.counts.tolist(), strict=True))
    cases = next(
        n for cell, n in cells.items() if cell[0] == ACTIVITIES[0] and cell[1] == ACTIVITIES[1]
    )
    return N_MESSAGES / seconds, usage.ru_utime + usage.ru_stime, cases


def main() -> None:
    """Prints the rate."""
    with tempfile.TemporaryDirectory() as name:
        try:
            with kafka_broker(Path(name) / "kafka") as broker:
                rate, processor_seconds, cases = measure(Path(name), broker)
        except UnavailableError as reason:
            print(f"Kafka cannot be had: {reason}")
            return
    print(
        f"{N_MESSAGES:,} messages of a backlog: {rate:,.0f} a second, {processor_seconds:.0f} s of "
        f"a processor; {cases:,} of {N_CASES:,} cases are in the noisy total",
        flush=True,
    )


if __name__ == "__main__":
    main()

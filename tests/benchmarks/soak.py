"""The stream under a steady rate for a long time: its memory must not grow.

`make soak` runs it, for SOAK_SECONDS (3,600). The hospital of the demo sends SOAK_CASES_PER_SECOND
(10, of 13 messages each, half of them Avro) to a service on this machine, which SOAK_SOURCE names:
`pubsub`, a double of it, or `kafka`, a broker. `tracecloak stream` publishes, and its resident
memory is measured about every second. A warm-up of a fifth of the time is left out, at most five
minutes and until the closed cases that the stream remembers are as many as they will be. Of the
rest the median of the last fifth may be above that of the first by MARGIN, which is what the
allocator's own noise was measured to be. Only Linux tells the memory of another process.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.hospital_feed import HospitalFeed, send
from tests.benchmarks.stream_demo import (
    Demo,
    StreamProcess,
    Summary,
    run,
    stream_flags,
)
from tracecloak.examination.demo.hospital import ACTIVITIES

# Totals keep the counts of all steps, 12 KiB a step with the demo's vocabulary: with steps of ten
# seconds that is four MiB in an hour, within the margin.
PERIOD_SECONDS = 10
MARGIN = (24 << 20, 0.05)  # bytes, and share of what it was

_SAID_EVERY_SECONDS = 60.0


def growth(rss_bytes: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Returns (median of the first fifth, median of the last fifth) after the warm-up.

    Raises:
        ValueError: There are too few measurements.
    """
    end = rss_bytes[-1][0] if rss_bytes else 0.0
    warm = min(300.0, end / 5)
    after = [size for at, size in rss_bytes if at >= warm]
    fifth = len(after) // 5
    if fifth < 3:
        raise ValueError("too few measurements of memory; run it for longer")
    return statistics.median(after[:fifth]), statistics.median(after[-fifth:])


def allowed(first: float) -> float:
    """Returns how much memory there may be at the end."""
    return first * (1 + MARGIN[1]) + MARGIN[0]


def slope(rss_bytes: Sequence[tuple[float, int]]) -> float:
    """Returns by how many bytes an hour the memory grows after the warm-up, by least squares."""
    end = rss_bytes[-1][0]
    after = [(at, size) for at, size in rss_bytes if at >= min(300.0, end / 5)]
    return statistics.linear_regression(*zip(*after, strict=True)).slope * 3_600


class _ToKafka:
    """What `send` asks of a client of Pub/Sub, with a topic of Kafka."""

    def __init__(self, servers: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": servers})

    def publish(self, topic: str, data: bytes) -> _ToKafka:
        self._producer.produce(topic, data)
        self._producer.poll(0)
        return self

    def result(self) -> None:
        self._producer.flush()


def from_kafka(demo: Demo, say: Callable[[str], None], look: Callable[[Summary], None]) -> Summary:
    """Does what `stream_demo.run` does, with a broker and without a page or a topic of steps."""
    from tests.engines.kafka import kafka_broker

    demo.output.mkdir(parents=True, exist_ok=True)
    (demo.output / "activities.txt").write_text("\n".join(ACTIVITIES) + "\n", "utf-8")
    summary, stop = Summary(), threading.Event()
    with kafka_broker(demo.output.absolute() / "kafka") as broker, ExitStack() as open_things:
        broker.new_topic("events", 2)
        begin = time.time() // demo.period_seconds * demo.period_seconds
        flags = [
            flag
            for flag in stream_flags(demo, "", "", begin)
            if not flag.startswith(("--input_subscription", "--output_topic"))
        ]
        flags.append(f"--input_topic=kafka://{broker.servers}/events")
        stream = StreamProcess(flags, demo.output / "stream.log", demo.output / "key-store")
        open_things.callback(stream.stop)
        to = _ToKafka(broker.servers)
        given = (demo.feed, to, "events", demo.seconds, stop, summary.sent)
        feeding = threading.Thread(target=send, args=given, daemon=True)
        open_things.callback(feeding.join)
        open_things.callback(stop.set)
        feeding.start()
        summary.began, began = time.time(), time.monotonic()
        say(f"broker      {broker.servers}")
        while feeding.is_alive():
            stream.check()
            if (size := stream.rss_bytes()) is not None:
                summary.rss_bytes.append((time.monotonic() - began, size))
            summary.steps = sorted(
                int(path.stem.partition("-")[2])
                for path in (demo.output / "releases").rglob("step-*.json")
            )
            look(summary)
            time.sleep(1.0)
        summary.exit_code = stream.stop()
    return summary


SOURCES: dict[str, Callable[..., Summary]] = {"pubsub": run, "kafka": from_kafka}


def main() -> int:
    """Runs the soak; returns 0 if the memory stayed."""
    seconds = float(os.environ.get("SOAK_SECONDS", "3600"))
    rate = float(os.environ.get("SOAK_CASES_PER_SECOND", "10"))
    source = os.environ.get("SOAK_SOURCE", "pubsub")
    said = [0.0]

    def look(summary: Summary) -> None:
        if not summary.rss_bytes or summary.rss_bytes[-1][0] < said[0]:
            return
        at, size = summary.rss_bytes[-1]
        said[0] += _SAID_EVERY_SECONDS
        sent = sum(summary.sent.counts.values())
        print(f"{at:7.0f} s  {size >> 20:5d} MiB  {sent:8d} messages  {len(summary.steps)} steps")
        sys.stdout.flush()

    demo = Demo(Path("build/soak"), seconds, HospitalFeed(rate), PERIOD_SECONDS)
    summary = SOURCES[source](demo, print, look)
    print(summary.text())
    print(f"rate        {sum(summary.sent.counts.values()) / seconds:.0f} messages a second")
    first, last = growth(summary.rss_bytes)
    print(
        f"memory      {first / 2**20:.1f} MiB after the warm-up, {last / 2**20:.1f} MiB at the "
        f"end, {slope(summary.rss_bytes) / 2**20:+.1f} MiB an hour"
    )
    if last > allowed(first):
        print(f"memory      grew by more than {MARGIN[0] >> 20} MiB and {MARGIN[1]:.0%}")
        return 1
    return 0 if summary.exit_code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

"""A demo of the stream: a hospital in fast motion, `tracecloak stream`, and the live page.

It needs a Pub/Sub server that PUBSUB_EMULATOR_HOST names; `make stream-demo` starts one. The
hospital sends its events to a topic, the command reads them and publishes step by step to files and
to a second topic, the page draws the files, and a consumer of the topic takes every release once.
After some time all of it is stopped, and what happened is summed up.

The same run, longer and watched, is the soak test.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.hospital_feed import HospitalFeed, Sent, send
from tracecloak.examination.demo.hospital import ACTIVITIES, END_ACTIVITIES
from tracecloak.examination.demo.live_page import LivePage, PublishedSteps, command_of, total_of
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.published.figures import Figure
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.services.pubsub_service import pubsub

EMULATOR = "PUBSUB_EMULATOR_HOST"
RELEASE_ID, EPOCH = "stream-demo", "1"

_PROJECT = "tracecloak-demo"
_STOP_SECONDS = 60  # and to end once it is asked to
_LOOK_SECONDS = 1.0  # between two looks at the stream
_PULL_MESSAGES = 100
_ACK_SECONDS = 10  # the least; by it the stream knows how far it has read
# A case that never ends is over after a while.
_CLOSING = {"gap": "8s", "max_lifetime": "20s", "max_disorder": "500ms"}


@dataclass(frozen=True)
class Demo:
    """What is run."""

    output: Path
    seconds: float = 180.0
    feed: HospitalFeed = field(default_factory=lambda: HospitalFeed(10.0))
    period_seconds: int = 2
    epsilon: str = "2"
    release_delay_seconds: int = 1

    @property
    def horizon(self) -> int:
        """Steps that the budget is for; more than the demo lasts."""
        return int(self.seconds / self.period_seconds * 1.5) + 10


@dataclass
class Summary:
    """What happened."""

    began: float = 0.0
    sent: Sent = field(default_factory=Sent)
    steps: list[int] = field(default_factory=list)
    repeated: int = 0
    total: Figure | None = None
    n_steps_left: int | None = None
    rss_bytes: list[tuple[float, int]] = field(default_factory=list)
    exit_code: int | None = None

    def text(self) -> str:
        """Returns the summary in words."""
        counts = self.sent.counts
        lines = [
            f"sent        {counts['event']} events; {counts['duplicate']} of them twice, and "
            f"{counts['malformed']} messages that nobody can read",
            f"published   {len(self.steps)} steps; {self.repeated} messages came again and were "
            "dropped",
        ]
        if self.total is not None:
            lines.append(
                f"total       {self.total.value:,} cases, 95 % interval {self.total.low:,} to "
                f"{self.total.high:,}"
            )
            lines.append(f"budget      {self.n_steps_left} steps are left")
        if self.rss_bytes:
            largest = max(size for _, size in self.rss_bytes)
            lines.append(f"memory      {largest >> 20} MiB at most")
        return "\n".join([*lines, f"exit code   {self.exit_code}"])


class StreamProcess:
    """`tracecloak stream` in a process of its own; what it says goes to a file."""

    def __init__(self, flags: Sequence[str], log: Path, key_store: Path) -> None:
        """Starts it."""
        self._log = log
        command = [sys.executable, "-m", "tracecloak", "stream", *flags]
        environment = {**os.environ, "TRACECLOAK_KEY_STORE": str(key_store)}
        # It can be interrupted, also where a shell runs this in the background.
        heard = signal.signal(signal.SIGINT, signal.default_int_handler)
        with log.open("w") as said:
            self._process = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
        signal.signal(signal.SIGINT, heard)

    def check(self) -> None:
        """Raises an error if the stream has ended, with what it said last."""
        code = self._process.poll()
        if code is not None:
            last = self._log.read_text().strip().splitlines()[-5:]
            raise TracecloakError(
                f"the stream ended with {code}; the end of {self._log}:\n" + "\n".join(last)
            )

    def rss_bytes(self) -> int | None:
        """Returns its resident memory, or None where the system has no report of it."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return None
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")] or [""]
        return int(line.split()[1]) << 10 if line else None

    def stop(self) -> int:
        """Asks it to end as a user does, waits until it has, and returns its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def stream_flags(demo: Demo, subscription: str, topic: str, begin: float) -> list[str]:
    """Returns the flags of `tracecloak stream` for a demo; its vocabulary file must be there."""
    values = {
        "input_subscription": subscription,
        "output": demo.output / "releases",
        "output_topic": topic,
        "release_id": RELEASE_ID,
        "epoch": EPOCH,
        "new_ledger": "true",
        "product": "dfg",
        "view": "total",
        "epsilon": demo.epsilon,
        "delta": "1e-6",
        "vocabulary": demo.output / "activities.txt",
        "period": f"{demo.period_seconds}s",
        "horizon": demo.horizon,
        "start": datetime.fromtimestamp(begin, UTC).isoformat(),
        "max_trace_length": 30,
        "release_delay": f"{demo.release_delay_seconds}s",
        "l2_clip": 5,  # that of most cases is less: together they keep 97 % of their pairs
        "end_activity": ",".join(END_ACTIVITIES),
        **_CLOSING,
    }
    return [f"--{name}={value}" for name, value in values.items()]


def run(demo: Demo, say: Callable[[str], None], look: Callable[[Summary], None]) -> Summary:
    """Runs the demo and returns what happened; looks at it about every second."""
    if EMULATOR not in os.environ:
        raise UsageError(
            f"{EMULATOR} names no Pub/Sub server; start one with tests/pubsub_server.sh and set "
            "it to the address that it writes"
        )
    demo.output.mkdir(parents=True, exist_ok=True)
    (demo.output / "activities.txt").write_text("\n".join(ACTIVITIES) + "\n", "utf-8")
    summary = Summary()
    stop = threading.Event()
    with ExitStack() as open_things:
        topics = _Topics(open_things)
        begin = time.time() // demo.period_seconds * demo.period_seconds
        flags = stream_flags(demo, topics.event_subscription, topics.steps, begin)
        stream = StreamProcess(flags, demo.output / "stream.log", demo.output / "key-store")
        open_things.callback(stream.stop)
        steps = PublishedSteps(demo.output / "releases", RELEASE_ID, EPOCH)
        again = command_of(demo.output / "releases", RELEASE_ID, EPOCH)
        live = open_things.enter_context(LivePage(steps, "A hospital in fast motion", 0, again))
        say(f"live page   {live.address}")
        feeding = open_things.enter_context(ThreadPoolExecutor(1))
        open_things.callback(stop.set)
        summary.began = time.time()
        fed = feeding.submit(
            send, demo.feed, topics.publisher, topics.events, demo.seconds, stop, summary.sent
        )
        consumer: set[bytes] = set()
        began = time.monotonic()
        while not fed.done():
            stream.check()
            topics.take_steps(consumer, summary)
            size = stream.rss_bytes()
            if size is not None:
                summary.rss_bytes.append((time.monotonic() - began, size))
            look(summary)
            time.sleep(_LOOK_SECONDS)
        summary.exit_code = stream.stop()
        topics.take_steps(consumer, summary)
        fed.result()
    return summary


class _Topics:
    """The topic of events and that of steps, each with a subscription, until the stack is left."""

    def __init__(self, open_things: ExitStack) -> None:
        library = pubsub()
        self.publisher, self._subscriber = library.PublisherClient(), library.SubscriberClient()
        open_things.callback(self._subscriber.close)
        open_things.callback(self.publisher.transport.close)
        open_things.callback(self.publisher.stop)
        run_id = uuid.uuid4().hex[:8]
        self.events, self.event_subscription = self._made(f"events-{run_id}")
        self.steps, self._step_subscription = self._made(f"steps-{run_id}")

    def _made(self, name: str) -> tuple[str, str]:
        topic = f"projects/{_PROJECT}/topics/{name}"
        subscription = f"projects/{_PROJECT}/subscriptions/{name}"
        self.publisher.create_topic(name=topic)
        self._subscriber.create_subscription(
            name=subscription, topic=topic, ack_deadline_seconds=_ACK_SECONDS
        )
        return topic, subscription

    def take_steps(self, consumer: set[bytes], summary: Summary) -> None:
        """Takes what has been published, as somebody with a dashboard would."""
        answer = self._subscriber.pull(
            subscription=self._step_subscription, max_messages=_PULL_MESSAGES, timeout=30
        )
        for received in answer.received_messages:
            data = received.message.data
            if data in consumer:
                summary.repeated += 1
                continue
            consumer.add(data)
            release = StepRelease.from_json(data)
            summary.steps.append(release.step)
            if release.step == max(summary.steps):
                summary.total = total_of(release)
                summary.n_steps_left = release.n_steps_left
        if answer.received_messages:
            self._subscriber.acknowledge(
                subscription=self._step_subscription,
                ack_ids=[received.ack_id for received in answer.received_messages],
            )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--output", type=Path, default=Path("build/stream-demo"), help="folder to write"
    )
    parser.add_argument("--seconds", type=float, default=180.0, help="how long (default 180)")
    flags = parser.parse_args(arguments)
    try:
        summary = run(Demo(flags.output, flags.seconds), _say, lambda _: None)
    except TracecloakError as error:
        sys.stderr.write(f"stream-demo: {error}\n")
        return error.exit_code
    _say(summary.text())
    return 0 if summary.exit_code == 0 and summary.steps else TracecloakError.exit_code


if __name__ == "__main__":
    sys.exit(main())

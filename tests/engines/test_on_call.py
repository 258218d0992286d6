"""What is seen on call of a stream within a minute, each with the sentence that mends."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.engines.fetching import or_skip
from tests.engines.kafka import KafkaBroker
from tests.engines.postgresql import PostgreSql, postgresql
from tests.engines.processes import free_port
from tests.support.killed_streams import PERIOD_SECONDS, body, flags
from tests.support.rights import drop_overrides
from tests.support.small_disk import small_disk

__all__ = ["small_disk"]  # a fixture

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
SEEN_SECONDS = 60.0


@pytest.fixture(scope="module")
def own_database(place: Path) -> Iterator[PostgreSql]:
    """One that a test may stop."""
    with or_skip(postgresql(place / "postgresql")) as started:
        yield started


class Watched:
    """A stream of a topic of its own, in a process, and what its port and its end say."""

    def __init__(self, folder: Path, broker: KafkaBroker, *more: str, ahead_seconds: int = 0):
        self.topic = f"events-{time.monotonic_ns()}"
        broker.new_topic(self.topic, message_timestamp_type="LogAppendTime")
        self.port = free_port()
        self.producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
        self.send(0)
        begin = time.time() // PERIOD_SECONDS * PERIOD_SECONDS
        self.given = flags(
            folder, begin, 10_000, operator_port=self.port,
            input_topic=f"kafka://{broker.servers}/{self.topic}",
        )  # fmt: skip
        wrong = (
            "import sys, time; t, n = time.time, time.time_ns; "
            f"time.time = lambda: t() + {ahead_seconds}; "
            f"time.time_ns = lambda: n() + {ahead_seconds} * 10**9; "
            "from tests.engines.client import main; raise SystemExit(main(sys.argv[1:]))"
        )
        start = ["-c", wrong] if ahead_seconds else ["-m", "tests.engines.client"]
        self.said = folder / "said"
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, *start, "stream", *self.given, *more],
                stdout=said,
                stderr=said,
                preexec_fn=drop_overrides,  # so that rights of folders count for root, too
            )

    def send(self, case: int, partition: int = 0) -> None:
        for number in (0, 1, 2):
            self.producer.produce(self.topic, body(case, number), partition=partition)
        assert self.producer.flush(30) == 0

    def reasons(self) -> list[str] | None:
        """Why it is not ready; empty: it is; None: nobody answers."""
        try:
            answer = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5)
            return list(json.load(answer)["reasons"])
        except urllib.error.HTTPError as error:
            return list(json.load(error)["reasons"])
        except OSError:
            return None

    def until_ready(self, seconds: float = 90.0) -> None:
        deadline = time.monotonic() + seconds
        while self.reasons() != []:
            assert time.monotonic() < deadline, (self.reasons(), self.said.read_text()[-2000:])
            assert self.process.poll() is None, self.said.read_text()[-2000:]
            time.sleep(0.5)

    def until_told(self, *words: str) -> None:
        """Waits until the port, or the last line of a stream that ended, has words."""
        deadline = time.monotonic() + SEEN_SECONDS
        said = ""
        while not all(word in said for word in words):
            assert time.monotonic() < deadline, (words, said)
            time.sleep(0.5)
            ended = self.process.poll()
            lines = self.said.read_text().strip().splitlines()
            said = lines[-1] if ended else " ".join(self.reasons() or [])
            assert ended != 0, said


@contextmanager
def watched(
    folder: Path, broker: KafkaBroker, *more: str, ahead_seconds: int = 0
) -> Iterator[Watched]:
    stream = Watched(folder, broker, *more, ahead_seconds=ahead_seconds)
    try:
        yield stream
    finally:
        stream.process.kill()
        stream.process.wait()


def test_a_broker_that_stops_and_comes_back(tmp_path: Path, broker: KafkaBroker) -> None:
    with watched(tmp_path, broker) as stream:
        stream.until_ready()
        broker.process.kill_9()
        try:
            stream.until_told(f"kafka://{broker.servers}")
        finally:
            broker.process.start()
        stream.until_ready()


def test_a_database_that_is_gone_and_comes_back(
    tmp_path: Path, broker: KafkaBroker, own_database: PostgreSql
) -> None:
    with watched(tmp_path, broker, f"--ledger={own_database.new_database()}") as stream:
        stream.until_ready()
        own_database.process.kill_9()
        try:
            stream.until_told("ledger", "start the server")
        finally:
            own_database.process.start()
        stream.until_ready()


def test_a_clock_that_is_wrong(tmp_path: Path, broker: KafkaBroker) -> None:
    with watched(tmp_path, broker, ahead_seconds=90) as stream:
        stream.until_told("ahead of that of kafka://", "synchronise their time")


def test_a_disk_that_is_full(tmp_path: Path, broker: KafkaBroker, small_disk: Path) -> None:
    with watched(tmp_path, broker, f"--output={small_disk / 'out'}") as stream:
        stream.until_ready()
        with (small_disk / "ballast").open("wb", buffering=0) as ballast:
            with contextlib.suppress(OSError):
                while ballast.write(b"\0" * 4096):
                    pass
        stream.until_told("The disk is full")


def test_a_key_store_that_can_only_be_read(tmp_path: Path, broker: KafkaBroker) -> None:
    with watched(tmp_path, broker) as stream:
        stream.until_ready()
        folders = [path for path in (tmp_path / "keys").rglob("*") if path.is_dir()]
        for folder in (tmp_path / "keys", *folders):
            folder.chmod(0o500)
        try:
            stream.send(1)
            stream.until_told("keys", "give this user write permission")
        finally:
            for folder in (tmp_path / "keys", *folders):
                folder.chmod(0o700)


def test_what_a_start_would_end_with_is_told_before(tmp_path: Path, broker: KafkaBroker) -> None:
    with watched(tmp_path, broker) as stream:
        stream.until_ready()
        stream.process.kill()
    path = tmp_path / "stream.yaml"
    path.write_text(f"input_topic: kafka://{broker.servers}/{stream.topic}\n")

    def ended(*command: str) -> tuple[int, str]:
        run = [sys.executable, "-m", "tests.engines.client", *command, *stream.given]
        done = subprocess.run(run, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    code, text = ended("doctor", str(path))
    assert code == 0 and "did not end by itself" in text and "is the log that was read" in text
    client = AdminClient({"bootstrap.servers": broker.servers})
    client.delete_topics([stream.topic])[stream.topic].result(30)
    for command in (["doctor", str(path)], ["stream"]):
        code, text = ended(*command)
        assert code == 6 and "is not the log that this epoch has read: it was deleted" in text

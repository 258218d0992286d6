"""An unclean election takes messages back that were read: each stream of them ends with 6."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.engines.fetching import or_skip
from tests.engines.kafka import kafka_cluster
from tests.engines.processes import wait_until
from tests.support.killed_streams import Runs, body, flags, n_cases, steps, until
from tracecloak.pipelines.stream.plan import load_stream, resolve
from tracecloak.schemas.errors import RetryLater, SourceChanged
from tracecloak.transforms.services.kafka_clock import KafkaClock
from tracecloak.transforms.services.kafka_identity import KnownLog, log_since
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream.sources import KafkaSource

pytestmark = [pytest.mark.engines, pytest.mark.timeout(300)]
_SECONDS = 60.0
_KEY = b"k" * 32
# Of a partition whose messages were read, and are taken back: a stream that runs and one that is
# stopped, with more messages afterwards than before; a source with no message afterwards; one that
# has a place and read no message. And one of which nothing is taken back.
_RUNS, _STOPPED, _SHORTER, _PLACED, _SOUND = "runs", "stopped", "shorter", "placed", "sound"
_CUT = (_RUNS, _STOPPED, _SHORTER, _PLACED)
_ALL = (*_CUT, _SOUND)


class Cluster:
    """Topics of one partition on the brokers 2 and 3, of which the latter leads at first."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        settings = {"unclean.leader.election.enable": "true"}
        made = [NewTopic(name, 1, replica_assignment=[[3, 2]], config=settings) for name in _ALL]
        for answer in self._client.create_topics(made).values():
            answer.result(_SECONDS)
        self.until_led_by(3, [2, 3])

    def until_led_by(self, leader: int, in_sync: list[int]) -> None:
        """Waits until a broker leads all partitions, and these are in sync."""

        def is_so() -> bool:
            try:
                topics = self._client.list_topics(timeout=5).topics
            except KafkaException:
                return False
            found = [topics[name].partitions[0] for name in _ALL if name in topics]
            states = [(one.leader, sorted(one.isrs)) for one in found]
            return states == [(leader, in_sync)] * len(_ALL)

        wait_until(is_so, _SECONDS, lambda: f"{leader} does not lead with {in_sync}")

    def send(self, names: Sequence[str], cases: Sequence[int]) -> None:
        """Sends the three messages of each case, and waits until those in sync have them."""
        made = Producer({"bootstrap.servers": self.servers, "log_level": 0, "acks": "all"})
        for name in names:
            for case in cases:
                for number in range(3):
                    made.produce(name, body(case, number))
        assert made.flush(_SECONDS) == 0

    def source(self, name: str, known: KnownLog) -> KafkaSource:
        topic = KafkaTopic(self.servers, name)
        clock = KafkaClock(topic, "tracecloak-clock")
        return KafkaSource(topic, name, clock, 0, known.to_json(), _KEY)


def pull(source: KafkaSource, n_messages: int = 1) -> None:
    """Pulls until so many messages came."""
    found: list[object] = []

    def came() -> bool:
        with contextlib.suppress(RetryLater):  # a broker is gone
            found.extend(source.pull(100, 0.2).messages)
        return len(found) >= n_messages

    wait_until(came, _SECONDS, lambda: f"{len(found)} of {n_messages} messages came")
    assert len(found) == n_messages


def committed(config_flags: Sequence[str], servers: str, name: str) -> int:
    """The offset that a stream has committed."""
    keys = dict(flag.removeprefix("--").split("=", 1) for flag in config_flags)
    group = resolve(load_stream(None, keys)).consumer_group
    seen = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    [found] = seen.committed([TopicPartition(name, 0)], _SECONDS)
    seen.close()
    return int(found.offset)


def test_messages_that_an_unclean_election_takes_back_end_each_stream(tmp_path: Path) -> None:
    with or_skip(kafka_cluster(tmp_path / "kafka", 3)) as (_, follower, leader):
        servers = f"{follower.servers},{leader.servers}"
        cluster = Cluster(servers)
        given = {
            name: flags(
                tmp_path / name, int(time.time()), 1_000, input_topic=f"kafka://{servers}/{name}"
            )
            for name in (_RUNS, _STOPPED)
        }
        runs = {name: Runs(tmp_path / name, keys) for name, keys in given.items()}
        for one in runs.values():
            one.start()
        cluster.send(_ALL, range(2))
        sources = {
            name: cluster.source(name, log_since(KafkaTopic(servers, name), 0))
            for name in (_SHORTER, _SOUND)
        }
        for source in sources.values():
            pull(source, 6)
        follower.process.kill_9()
        cluster.until_led_by(3, [3])
        cluster.send(_CUT, range(2, 4))
        pull(sources[_SHORTER], 6)
        placed = log_since(KafkaTopic(servers, _PLACED), time.time_ns() // 1_000)
        sources[_PLACED] = cluster.source(_PLACED, placed)
        assert not sources[_PLACED].pull(1, 1.0).messages  # it fetches
        for name, one in runs.items():
            folder = tmp_path / name
            until(lambda of=folder: bool(steps(of)) and n_cases(of) == 4, _SECONDS, one)
        assert runs[_STOPPED].stop(signal.SIGTERM) == 0

        leader.process.kill_9()
        follower.process.start()
        cluster.until_led_by(2, [2])
        cluster.send((_RUNS, _STOPPED, _PLACED), range(10, 16))
        cluster.send([_SOUND], range(2, 3))

        assert runs[_RUNS].stop(None) == 6
        pull(sources[_SOUND], 3)
        for name in (_SHORTER, _PLACED):
            with pytest.raises(SourceChanged, match="partition 0 was truncated"):
                pull(sources[name])
        leader.process.start()
        cluster.until_led_by(2, [2, 3])
        runs[_STOPPED].start()
        assert runs[_STOPPED].stop(None) == 6
        with pytest.raises(SourceChanged, match="partition 0 was truncated"):
            pull(cluster.source(_PLACED, placed))
        for name, one in runs.items():
            assert "[exit code 6: The topic is another log]" in one.said()
            assert n_cases(tmp_path / name) == 4
            assert committed(given[name], servers, name) == 12

"""A Kafka broker, which keeps its data in a folder and can be killed and started again."""

from __future__ import annotations

import secrets
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.engines import fetching
from tests.engines.processes import Process, free_port, running, wait_until

_JAVA = ("java", "-Xmx512m")
_ASK_SECONDS = 10.0
PASSWORD = "hunter2-of-a-test"
_QUICK = """\
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"""


@dataclass(frozen=True)
class KafkaBroker:
    """A broker that runs."""

    servers: str
    process: Process

    def new_topic(self, name: str, n_partitions: int = 1, **configuration: str) -> None:
        """Makes a topic."""
        from confluent_kafka.admin import AdminClient, NewTopic

        keys = {key.replace("_", "."): value for key, value in configuration.items()}
        topic = NewTopic(name, n_partitions, 1, config=keys)
        client = AdminClient({"bootstrap.servers": self.servers})  # the answer ends with it
        made = client.create_topics([topic])
        made[name].result(_ASK_SECONDS)

    def make_anew(self, name: str, n_partitions: int = 1) -> None:
        """Deletes a topic and makes another one of its name, which takes a moment."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        client = AdminClient({"bootstrap.servers": self.servers})
        client.delete_topics([name])[name].result(_ASK_SECONDS)

        def is_made() -> bool:
            try:
                self.new_topic(name, n_partitions)
            except KafkaException:
                return False
            return True

        wait_until(is_made, 3 * _ASK_SECONDS, lambda: f"{name} is not made anew")

    def alter(self, name: str, setting: str, value: str) -> None:
        """Sets one setting of a topic."""
        from confluent_kafka.admin import (
            AdminClient,
            AlterConfigOpType,
            ConfigEntry,
            ConfigResource,
        )  # fmt: skip

        entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
        client = AdminClient({"bootstrap.servers": self.servers})
        client.incremental_alter_configs([resource])[resource].result(_ASK_SECONDS)


@contextmanager
def kafka_broker(folder: Path, secured: str = "") -> Iterator[KafkaBroker]:
    """Runs a broker whose messages bear the time at which it got them."""
    with kafka_cluster(folder, 1, secured) as (started,):
        yield started


@contextmanager
def kafka_cluster(
    folder: Path, n_brokers: int, secured: str = ""
) -> Iterator[tuple[KafkaBroker, ...]]:
    """Runs brokers of one cluster, numbered from 1 on; see `kafka_broker`."""
    class_path = fetching.class_path("kafka")
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise fetching.UnavailableError("there is no confluent-kafka in this Python") from None
    cluster = urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
    controller = free_port()
    made = []
    for node in range(1, n_brokers + 1):
        own = folder if n_brokers == 1 else folder / str(node)
        own.mkdir(parents=True, exist_ok=True)
        servers = f"localhost:{free_port()}"
        listeners = f"PLAINTEXT://{servers}" + (f",SASL_SSL://{secured}" if secured else "")
        controls = f",CONTROLLER://localhost:{controller}" if node == 1 else ""
        properties = own / "server.properties"
        properties.write_text(f"""\
process.roles=broker{",controller" if node == 1 else ""}
node.id={node}
controller.quorum.voters=1@localhost:{controller}
controller.listener.names=CONTROLLER
listeners={listeners}{controls}
advertised.listeners={listeners}
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs={own / "data"}
log.message.timestamp.type=LogAppendTime
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
{_of_secured(folder) if secured else ""}
{_QUICK if n_brokers > 1 else ""}""")
        if not (own / "data").exists():
            subprocess.run(
                [*_JAVA, "-cp", class_path, "kafka.tools.StorageTool", "format",
                 f"--cluster-id={cluster}", f"--config={properties}"],
                check=True, capture_output=True, timeout=120,
            )  # fmt: skip
        command = [*_JAVA, "-cp", class_path, "kafka.Kafka", properties]
        process = Process("kafka", command, own, partial(_answers, servers))
        made.append(KafkaBroker(servers, process))
    with running(*(broker.process for broker in made)):
        yield tuple(made)


def _of_secured(folder: Path) -> str:
    """Settings of the listener of SASL: users of two kinds, and tokens that nobody has signed."""
    listener = "listener.name.sasl_ssl"
    modules = "org.apache.kafka.common.security"
    return f"""\
ssl.keystore.type=PEM
ssl.keystore.location={folder / "tls.pem"}
{listener}.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER
{listener}.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required \\
  user_plain="{PASSWORD}";
{listener}.scram-sha-512.sasl.jaas.config={modules}.scram.ScramLoginModule required;
{listener}.oauthbearer.sasl.jaas.config={modules}.oauthbearer.OAuthBearerLoginModule required \\
  unsecuredLoginStringClaim_sub="broker";
"""


def _answers(servers: str) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    try:
        return bool(client.list_topics(timeout=2).brokers)
    except KafkaException:
        return False

"""A broker that asks who a client is, over TLS: who is known reads, others are told the mend."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.engines.kafka import PASSWORD, KafkaBroker, kafka_broker
from tests.engines.processes import free_port, wait_until
from tests.engines.skipping import or_skip
from tests.support.certificates import certificate
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.schemas.plugins import Plugins
from tracecloak.transforms.services import kafka_topic
from tracecloak.transforms.services.kafka_clock import KafkaClock
from tracecloak.transforms.services.kafka_identity import KnownLog
from tracecloak.transforms.services.kafka_reader import PartitionReader
from tracecloak.transforms.services.kafka_topic import KafkaTopic, TopicWriter

pytestmark = pytest.mark.engines
_SECONDS = 30.0


@dataclass(frozen=True)
class Secured:
    """A broker that is secured."""

    broker: KafkaBroker
    servers: str
    folder: Path

    def topic(
        self, token: str | None = None, ca: str = "ca.pem", name: str = "events", **settings: str
    ) -> KafkaTopic:
        """A topic, and how a client says who it is."""
        path = self.folder / f"{len(list(self.folder.iterdir()))}.properties"
        lines = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.folder / ca)}
        lines |= {name.replace("_", "."): value for name, value in settings.items()}
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return KafkaTopic(self.servers, name, str(path), token)


@pytest.fixture(scope="module")
def secured(place: Path) -> Iterator[Secured]:
    folder = place / "secured-kafka"
    folder.mkdir()
    private, public = certificate("broker")
    (folder / "tls.pem").write_text(private + public)
    (folder / "ca.pem").write_text(public)
    (folder / "other.pem").write_text(certificate("somebody else")[1])
    servers = f"localhost:{free_port()}"
    with or_skip(kafka_broker(folder, servers)) as broker:
        broker.new_topic("events")
        client = AdminClient({"bootstrap.servers": broker.servers})
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
        user = UserScramCredentialUpsertion("scram", credential, PASSWORD.encode())
        for answer in client.alter_user_scram_credentials([user]).values():
            answer.result(_SECONDS)
        yield Secured(broker, servers, folder)


def unsigned(servers: str, configuration: str) -> tuple[str, float]:
    """A token that a broker takes which is set to trust anybody."""
    ends = time.time() + 3_600
    parts = [{"alg": "none"}, {"sub": configuration, "iat": time.time() - 1, "exp": ends}]
    encoded = [urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join([*encoded, ""]), ends


def read_back(topic: KafkaTopic, text: bytes) -> None:
    """Checks a topic, asks its brokers for the time, sends a message and reads it."""
    topic.check()
    assert abs(KafkaClock(topic, "tracecloak-clock").passed_us() - time.time_ns() // 1_000) < 5e6
    TopicWriter(topic).send([(b"key", text)], {})
    reader = PartitionReader(topic, "g", KnownLog.from_json({0: 0}))
    contents: list[bytes] = []

    def came() -> bool:
        contents.extend(message.data for message in reader.poll(100, 0.2))
        return text in contents

    wait_until(came, _SECONDS, lambda: f"{len(contents)} messages came")
    reader.close()


@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "plain"), ("SCRAM-SHA-512", "scram")])
def test_who_is_known_reads_and_writes(secured: Secured, mechanism: str, user: str) -> None:
    known = {"sasl_mechanisms": mechanism, "sasl_username": user, "sasl_password": PASSWORD}
    read_back(secured.topic(**known), mechanism.encode())


def test_a_token_of_an_entry_says_who_reads(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: Plugins[kafka_topic.TokenSource] = Plugins("token", "none", {"unsigned": unsigned})
    monkeypatch.setattr(kafka_topic, "TOKENS", tokens)
    read_back(secured.topic("unsigned", sasl_oauthbearer_config="ward"), b"by token")


@pytest.mark.parametrize(
    ("ca", "settings", "told"),
    [
        ("ca.pem", {"sasl_mechanisms": "PLAIN", "sasl_username": "plain"},
         "refuses to be asked for 'events': .*[Aa]uthentication.*see kafka_properties"),
        ("ca.pem", {"sasl_mechanisms": "SCRAM-SHA-512", "sasl_username": "nobody"},
         "refuses to be asked for 'events': .*[Aa]uthentication.*see kafka_properties"),
        ("other.pem", {"sasl_mechanisms": "PLAIN", "sasl_username": "plain"},
         "refuses to be asked for 'events': .*certificate verify failed.*see kafka_properties"),
        ("none.pem", {"sasl_mechanisms": "PLAIN", "sasl_username": "plain"},
         r"kafka_properties: .*ssl\.ca\.location"),
        ("ca.pem", {"sasl_mechanism": "PLAIN", "sasl_username": "plain", "no_such": "x"},
         r"kafka_properties: .*no\.such"),
    ],
)  # fmt: skip
def test_who_is_not_known_is_told_the_mend_and_no_secret(
    secured: Secured, monkeypatch: pytest.MonkeyPatch, ca: str, settings: dict[str, str], told: str
) -> None:
    monkeypatch.setattr(kafka_topic, "ASK_SECONDS", 6.0)
    topic = secured.topic(ca=ca, **settings, sasl_password="wrong-hunter2")
    with pytest.raises(UsageError, match=told) as caught:
        topic.check()
    assert "hunter2" not in str(caught.value)


def test_a_client_without_tls_is_told_why_it_waits(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_topic, "ASK_SECONDS", 6.0)
    with pytest.raises(RetryLater, match=r"security\.protocol"):
        KafkaTopic(secured.servers, "events").check()

"""Topics of Kafka: addresses, settings and tokens of clients, and what a topic must be."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError, import_extra
from tracecloak.schemas.plugins import Plugins

# --- How addresses of services begin, or end. -----------------------------------------------------


KAFKA = "kafka://"
EVENT_HUBS = tuple(
    f".servicebus.{cloud}" for cloud in ("windows.net", "usgovcloudapi.net", "chinacloudapi.cn")
)


# --- Files of settings that clients of services are given, secrets among them, a line each. -------


def read_properties(key: str, path: str | None) -> dict[str, str]:
    """Returns the settings of a file of lines `name=value`; `#` begins a remark.

    Args:
        key: The key of the configuration that names the file.
        path: The file; None: there is none.

    Raises:
        UsageError: It cannot be read, or a line is none; the value is not shown.
    """
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{key}: {path!r} cannot be read: {error}") from None
    settings = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"{key}: line {number} of {path!r} is not name=value")
        settings[name.strip()] = value.strip()
    return settings


# --- The token of Amazon MSK: AWS's own signer signs it with the credentials of this machine. -----
# They are found as AWS's programs find them: in the environment, a profile, or the role of a
# machine. The region is in the brokers' addresses, or `sasl.oauthbearer.config` names it as
# `region=REGION`.


_OF_MSK = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")
_SAID = re.compile(r"\bregion=([a-z0-9-]+)")


def msk_token(servers: str, configuration: str) -> tuple[str, float]:
    """Returns a token and when it ends, seconds since 1970 UTC; see `kafka_tokens.TOKENS`.

    Raises:
        UsageError: AWS's signer is not installed, no region is named, or there are no credentials.
    """
    library = "aws-msk-iam-sasl-signer-python"
    module = "aws_msk_iam_sasl_signer.MSKAuthTokenProvider"
    signer = import_extra(module, "kafka_token msk", library, "msk")
    region = _SAID.search(configuration) or _OF_MSK.search(servers)
    if region is None:
        raise UsageError(
            "no AWS region in the brokers' addresses: set sasl.oauthbearer.config=region=REGION in "
            "the file of kafka_properties"
        )
    try:
        token, ends_ms = signer.generate_auth_token(region[1])
    except Exception as error:  # of AWS's libraries
        raise UsageError(
            f"AWS's signer gives no token ({type(error).__name__}): give this machine credentials: "
            "a role, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from None
    return str(token), ends_ms / 1_000


# --- TOKENS: where a client of Kafka gets the token by which brokers know it (SASL OAUTHBEARER). --
# An entry is a function of the brokers' addresses and of what the setting
# `sasl.oauthbearer.config` says. It returns a token and when that ends, in seconds since 1970
# UTC; the client asks for the next one before. It raises a `TracecloakError` whose text is for
# the operator.


TokenSource = Callable[[str, str], tuple[str, float]]

TOKENS: Plugins[TokenSource] = Plugins(
    "token of Kafka",
    "tracecloak.kafka_tokens",
    {"msk": "tracecloak.transforms.services.kafka_topic:msk_token"},
)


def token_of(name: str, servers: str, configuration: str) -> tuple[str, float]:
    """Returns a token and when it ends, as the client library asks for it.

    Raises:
        TracecloakError: There is none. The text has nothing of what others raise, as that may be a
            secret.
    """
    try:
        return TOKENS.named(name)(servers, configuration)
    except TracecloakError as error:
        raise type(error)(f"kafka_token {name}: {error}") from None
    except Exception as error:
        raise UsageError(f"kafka_token {name} failed ({type(error).__name__})") from None


# --- A topic of Kafka: its address, what its brokers must do with it, and what is sent to it. -----


_LOG = logging.getLogger("tracecloak")

ASK_OFTEN_SECONDS = 5.0
ASK_SECONDS = 20.0
_FORM = "kafka://HOST:PORT[,HOST:PORT ...]/TOPIC"
# What the reader keeps track of by itself, and what would lose messages without a word.
READING = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,  # says where the end is behind offsets that hold no message
    "isolation.level": "read_committed",
}
# What the settings of a client may be that is to ask for a token, the default first.
_BESIDE_TOKEN = {
    "security.protocol": ("SASL_SSL", "SASL_PLAINTEXT"),
    "sasl.mechanisms": ("OAUTHBEARER",),
    "sasl.mechanism": ("OAUTHBEARER",),
    "sasl.oauthbearer.method": ("default",),
}


@dataclass(frozen=True)
class KafkaTopic:
    """A topic and how its brokers are reached.

    Attributes:
        servers: HOST:PORT of brokers, separated by commas.
        name: The topic's.
        properties: File of settings of librdkafka, a line `name=value` each, such as those of
            security; None: none. It is read where the topic is, so workers elsewhere need it too.
        token: Entry of `kafka_tokens.TOKENS` that says who this client is; None: none is needed.
    """

    servers: str
    name: str
    properties: str | None = None
    token: str | None = None

    @classmethod
    def parse(
        cls, text: str, properties: str | None = None, token: str | None = None
    ) -> KafkaTopic:
        """Returns the topic that an address such as `kafka://broker:9092/events` names.

        Raises:
            UsageError: It is no such address.
        """
        servers, slash, name = text.removeprefix(KAFKA).partition("/")
        is_named = text.startswith(KAFKA) and slash and name and "/" not in name
        if not is_named or not all(server.strip() for server in servers.split(",")):
            raise UsageError(f"a topic of Kafka is {_FORM}, got {text!r}")
        return cls(servers, name, properties, token)

    @property
    def source_name(self) -> str:
        """By what name a state keeps what is known of it."""
        return f"Kafka topic {self.name}"

    def settings(self) -> dict[str, Any]:
        """Returns the settings of a client of these brokers.

        Raises:
            UsageError: The file of properties cannot be read, a line of it is none, or it says that
                no token is to be used where there is to be one.
        """
        given = read_properties("kafka_properties", self.properties)
        return {
            **self._token_settings(given),
            **given,
            "bootstrap.servers": self.servers,
            "logger": _Demoted(),
        }

    def _token_settings(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The settings of a client that is known by a token; others may be given beside them."""
        if self.token is None:
            return {}
        for name, allowed in _BESIDE_TOKEN.items():
            # The library would wait for a token that it never asks for, or use another one.
            if given.get(name, allowed[0]).lower() not in map(str.lower, allowed):
                raise UsageError(
                    f"kafka_properties: {name} with kafka_token must be {' or '.join(allowed)}"
                )

        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "OAUTHBEARER",
            "oauth_cb": functools.partial(token_of, self.token, self.servers),
        }

    def client(
        self, kind: Callable[[dict[str, Any]], Any], further: Mapping[str, Any] | None = None
    ) -> Any:
        """Returns a client of these brokers.

        Args:
            kind: Class of the library.
            further: Settings that come before those of the file.

        Raises:
            UsageError: A setting is wrong.
            RetryLater: There is no token now.
        """
        settings, library = self.settings(), confluent_kafka()
        try:
            return kind({**settings, **(further or {})})
        except library.KafkaException as error:
            code, why = error.args[0].code(), error.args[0].str()
            if code == library.KafkaError.SASL_AUTHENTICATION_FAILED:
                raise RetryLater(f"kafka_token {self.token} gives no token: {why}") from None
        except TypeError as error:  # such as of what must be a function
            why = str(error)
        # The text has the value as well, which may be a secret.
        names = [name for name in settings if name in why] or [n for n in settings if "." in n]
        raise UsageError(
            f"kafka_properties: {', '.join(names)}: no such setting of librdkafka, or a wrong value"
        )

    def admin(self, further: Mapping[str, Any] | None = None) -> Any:
        """Returns a client that asks these brokers about themselves; see `client`."""
        return self.client(confluent_kafka().admin.AdminClient, further)

    def check(self, is_read: bool = True, longest_us: int = 0, is_begun: bool = False) -> None:
        """Makes sure that the topic is there, and is what a topic must be that is read.

        Args:
            is_read: Whether it is read from; what is only written to may be set in any way.
            longest_us: See `problems`.
            is_begun: Whether it was read before: if it is not there, the log is compared later.

        Raises:
            UsageError: It is not there, or is not set so; or the client library is not installed,
                or the brokers refuse this client, or there is no token for it.
            RetryLater: No broker answers.
        """
        library = confluent_kafka()
        if self.token is not None:  # the library says after a while, without why, if there is none
            given = read_properties("kafka_properties", self.properties)
            token_of(self.token, self.servers, given.get("sasl.oauthbearer.config", ""))
        reasons: list[Any] = []  # why a connection failed, which the error of a question leaves out
        logger = _Demoted()
        further = {"error_cb": reasons.append, "logger": logger}
        client = self.admin(further)
        try:
            # Of all topics: a question for one makes brokers that are set so create it.
            topics = client.list_topics(timeout=ASK_SECONDS).topics
        except library.KafkaException as error:
            client.poll(0)
            raise self.unreached(error, *reasons, said=logger.last) from None
        if self.name not in topics and not is_begun:
            raise UsageError(f"{KAFKA}{self.servers} has no topic {self.name!r}")
        is_read &= self.name in topics
        if is_read and (problems := self.problems(longest_us)):
            raise UsageError("; ".join(problems))

    def problems(self, longest_us: int) -> list[str]:
        """Returns what the settings of the topic are that make it unfit to be read, a clause each.

        Args:
            longest_us: How long after its first message a case can change what is published,
                microseconds; retention must be longer.

        Raises:
            UsageError: Brokers refuse to tell.
            RetryLater: No broker answers.
        """
        library = confluent_kafka()
        kind = library.admin.ConfigResource
        resource = kind(kind.Type.TOPIC, self.name)
        client = self.admin()  # the answer ends with it
        asked = client.describe_configs([resource], request_timeout=ASK_SECONDS)
        try:
            settings = {name: one.value for name, one in asked[resource].result().items()}
        except library.KafkaException as error:
            raise self.unreached(error) from None
        kept_ms, longest_ms = int(settings.get("retention.ms") or -1), longest_us // 1_000
        is_of_senders = settings.get("message.timestamp.type") != "LogAppendTime"
        is_compacted = "compact" in (settings.get("cleanup.policy") or "")
        problems = (
            (is_of_senders, "takes the times of messages from its senders: set "
             "message.timestamp.type=LogAppendTime"),
            (is_compacted, "is compacted, so unread messages are lost: set cleanup.policy=delete"),
            (0 <= kept_ms <= longest_ms, f"keeps messages for {kept_ms} ms, and a case can take "
             f"{longest_ms} ms (max_lifetime, max_disorder, period and release_delay): set a "
             "longer retention.ms"),
        )  # fmt: skip
        return [f"topic {self.name!r} {problem}" for is_so, problem in problems if is_so]

    def unreached(self, error: Exception, *reasons: Any, said: str = "") -> TracecloakError:
        """Returns whether an error of the client ends by waiting, or needs a person.

        Args:
            error: What the client raised.
            reasons: What it called back with.
            said: What it logged last, which can say more.
        """
        codes = confluent_kafka().KafkaError
        refusals = (
            codes._AUTHENTICATION,
            codes._SSL,
            codes.SASL_AUTHENTICATION_FAILED,
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.CLUSTER_AUTHORIZATION_FAILED,
        )
        for one in (*reasons, error.args[0]):
            if one.code() in refusals:
                return UsageError(
                    f"{KAFKA}{self.servers} refuses {self.name!r} (kafka_properties): {one.str()}"
                )
        hint = "brokers that ask for TLS do so: see security.protocol in kafka_properties"
        is_closed = "closed by peer" in said
        why = "; ".join(filter(None, (error.args[0].str(), said, hint if is_closed else "")))
        return RetryLater(f"{KAFKA}{self.servers} cannot be asked for {self.name!r}: {why}")


class TopicWriter:
    """Sends messages to a topic; each is with the brokers when `send` returns."""

    def __init__(self, topic: KafkaTopic) -> None:
        self._library = confluent_kafka()
        self._topic = topic
        # A message that is tried again by the client itself is one message.
        self._producer = topic.client(self._library.Producer, {"enable.idempotence": True})

    def send(self, messages: Sequence[tuple[bytes, bytes]], attributes: Mapping[str, str]) -> None:
        """Sends messages and waits until the brokers have them.

        Args:
            messages: (Key, value) of each; those of one key go to one partition, in their order.
            attributes: Their headers.

        Raises:
            RetryLater: They did not take one.
            UsageError: One is larger than they take.
        """
        ends: list[Any] = []
        headers = [(name, text.encode()) for name, text in attributes.items()]
        data = b""
        for key, data in messages:
            try:
                self._producer.produce(
                    self._topic.name,
                    data,
                    key,
                    headers=headers,
                    on_delivery=lambda error, _: ends.append(error),
                )
            except self._library.KafkaException as error:
                raise self._not_taken(error.args[0], data) from None
        left = self._producer.flush(ASK_SECONDS)
        errors = [error for error in ends if error is not None]
        if left or errors or len(ends) != len(messages):
            raise self._not_taken(errors[0] if errors else None, data)

    def _not_taken(self, error: Any, data: bytes) -> TracecloakError:
        said = f"no answer within {ASK_SECONDS:.0f} s" if error is None else error.str()
        text = f"topic {self._topic.name!r} did not take a message: {said}"
        if error is not None and error.code() == self._library.KafkaError.MSG_SIZE_TOO_LARGE:
            return UsageError(
                f"{text}. It has {len(data)} bytes: raise max.message.bytes and message.max.bytes"
            )
        return RetryLater(text)


def confluent_kafka() -> Any:
    """Returns the client library, with its part `admin`.

    Raises:
        UsageError: It is not installed.
    """
    import_extra("confluent_kafka.admin", "Kafka", "confluent-kafka", "kafka")
    return importlib.import_module("confluent_kafka")


@contextlib.contextmanager
def looking(topic: KafkaTopic, further: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Gives a consumer that looks at a topic and keeps no place in it.

    Args:
        topic: The topic.
        further: What else the consumer is set to.

    Raises:
        UsageError: Brokers refuse.
        RetryLater: No broker answers.
    """
    library = confluent_kafka()
    consumer = topic.client(
        library.Consumer, {**READING, "group.id": "tracecloak", **(further or {})}
    )
    try:
        yield consumer
    except library.KafkaException as error:
        raise topic.unreached(error) from None
    finally:
        consumer.close()


class _Demoted:
    """What the client library logs, which repeats itself, for those who debug.

    What matters of it comes as an error, and is raised.

    Attributes:
        last: The last line.
    """

    def __init__(self) -> None:
        self.last = ""

    def log(self, _: int, text: str, *values: object) -> None:
        """Takes a line."""
        self.last = text % values
        _LOG.debug(text, *values)

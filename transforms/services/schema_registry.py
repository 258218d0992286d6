"""SchemaRegistry: Confluent's schema registry, or another one that speaks its language.

Confluent's own client asks it (confluent-kafka, extra `registry`). Here is what a stream needs
beside it: which answers end by waiting, which need a person, and which concern one message
alone. A schema of an id never changes, so what is answered once is not asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tracecloak.schemas.errors import RetryLater, UsageError, import_extra
from tracecloak.transforms.services.kafka_topic import read_properties

Answer = TypeVar("Answer")

# The client's own defaults are to wait for ever, and to try for a minute.
_SETTINGS = {"timeout": 20.0, "max.retries": 2, "retries.wait.ms": 500}
_NUMBERS = {*_SETTINGS, "cache.capacity", "cache.latest.ttl.sec", "retries.max.wait.ms"}
# Subject, version and schema that are not there; another 404 is of no registry.
_NOT_THERE = (40401, 40402, 40403)
_PASSING = (408, 429)


class NotThereError(Exception):
    """The registry says that it has no such schema."""


@dataclass(frozen=True)
class SchemaRegistry:
    """A schema registry and how it is reached.

    Attributes:
        url: Where it answers, or several addresses of one registry, separated by commas.
        properties: File of settings of confluent-kafka's SchemaRegistryClient, a line `name=value`
            each, such as `basic.auth.user.info`; None: none. It is read where messages are, so
            workers elsewhere need it too.

    Raises:
        UsageError: An address is none, or has a user or a secret in it.
    """

    url: str
    properties: str | None = None

    def __post_init__(self) -> None:
        for url in self.url.split(","):
            parts = urlsplit(url.strip())
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise UsageError(
                    "schema_registry must be https://HOST:PORT, or several of them with commas"
                )
            if parts.username is not None or parts.query:
                raise UsageError(
                    "schema_registry must not hold a user or a secret, as a release names it: put "
                    "basic.auth.user.info=USER:PASSWORD into the file of schema_registry_properties"
                )

    def client(self) -> Any:
        """Returns a client of the library.

        Raises:
            UsageError: The library is not installed, or a setting is wrong.
        """
        library = confluent_registry("")
        settings: dict[str, Any] = {**_SETTINGS, "url": self.url}
        for name, text in read_properties("schema_registry_properties", self.properties).items():
            settings[name] = _number(name, text) if name in _NUMBERS else text
        try:
            return library.SchemaRegistryClient(settings)
        except OSError as error:  # also of TLS
            why = error.strerror or type(error).__name__
        except ValueError as error:
            why = str(error)
        raise UsageError(f"schema_registry_properties: a certificate or setting is wrong: {why}")

    def check(self) -> None:
        """Makes sure that it answers, and lets this client ask.

        Raises:
            UsageError: It does not let it, or it is no registry; or as `client`.
            RetryLater: It is away.
        """
        self.asked(self.client().get_schema_types)

    def asked(self, ask: Callable[[], Answer]) -> Answer:
        """Returns what the registry answers.

        Args:
            ask: Calls the client.

        Raises:
            NotThereError: It says that it has no such schema.
            UsageError: It refuses this client, is not trusted, or does not answer as a registry
                does.
            RetryLater: It does not answer, or says that it cannot now.
        """
        error_type = confluent_registry(".error").SchemaRegistryError
        try:
            return ask()
        except error_type as error:
            status, code = error.http_status_code, error.error_code
        except Exception as error:  # of the client's own client, whose name its versions change
            if "certificate verify failed" in str(error):
                raise UsageError(
                    f"schema_registry {self.url} is not trusted (certificate verify failed): set "
                    "ssl.ca.location in the file of schema_registry_properties"
                ) from None
            kind = type(error).__name__
            raise RetryLater(f"schema_registry {self.url} does not answer ({kind})") from None
        if status in _PASSING or status >= 500:
            raise RetryLater(f"schema_registry {self.url} cannot answer now (HTTP {status})")
        if code in _NOT_THERE:
            raise NotThereError
        if status in (401, 403):
            raise UsageError(
                f"schema_registry {self.url} refuses this client (HTTP {status}): see "
                "basic.auth.user.info in the file of schema_registry_properties"
            )
        raise UsageError(
            f"schema_registry {self.url} is not one (HTTP {status}): name what has /schemas/ids/"
        )


def confluent_registry(part: str) -> Any:
    """Returns a module of the client library, such as `.avro` of its folder `schema_registry`.

    Raises:
        UsageError: It is not installed.
    """
    module = f"confluent_kafka.schema_registry{part}"
    library = "confluent-kafka with its parts avro and json"
    return import_extra(module, "A schema registry", library, "registry")


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"schema_registry_properties: {name} must be a number") from None

"""The keys of a stream that say what its messages are like, beyond names of fields.

Each of them needs others: a schema of a registry needs the registry, and values of an operation
need the field that has them. Azure's Event Hubs is refused here, before anything is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.formats.messages import Operations
from tracecloak.transforms.services.schemes import EVENT_HUBS, KAFKA

if TYPE_CHECKING:
    from tracecloak.pipelines.stream.config import StreamConfig
    from tracecloak.transforms.formats.registry_messages import RegistrySchemas

MessageSchema = Literal["avro", "json", "confluent-avro", "confluent-json"]
_CONFLUENT = "confluent-"


def check_message_keys(config: StreamConfig) -> None:
    """Makes sure that the keys go together.

    Raises:
        ValueError: One lacks another.
    """
    is_framed = (config.message_schema or "").startswith(_CONFLUENT)
    if is_framed and config.schema_registry is None:
        raise ValueError(
            f"schema {config.message_schema} needs the registry that has the schemas: name it "
            "with schema_registry, such as http://localhost:8081"
        )
    if config.schema_registry is not None and not is_framed:
        raise ValueError(
            "schema_registry is for messages in Confluent's frame: give schema confluent-avro or "
            "confluent-json"
        )
    if config.schema_registry_properties is not None and config.schema_registry is None:
        raise ValueError("schema_registry_properties are for a schema_registry, and there is none")
    if (config.operation is None) != (not config.operation_events):
        raise ValueError(
            "operation names a field, and operation_events its values that are events: give both "
            "or neither"
        )
    if config.operation is not None and config.message_schema == "avro":
        raise ValueError("operation: an event of schemas/files/event.avsc has no such field")


def check_brokers(config: StreamConfig) -> None:
    """Makes sure that what is read is no service whose clock nobody has seen, and tokens are known.

    Raises:
        ValueError: It is, or a token is for no topic, or there is none of that name.
    """
    topics = (config.input_kafka, config.output_kafka)
    servers = "" if topics[0] is None else topics[0].servers
    hosts = [server.strip().rpartition(":")[0].lower() for server in servers.split(",")]
    if any(host.endswith(EVENT_HUBS) for host in hosts):
        raise ValueError(
            "input_topic: Azure Event Hubs is not read. A stream asks the brokers, in Kafka's "
            "language, whether they stamp messages and what time it is, and nobody has seen that "
            "Event Hubs answers that. Copy the messages to a topic of Kafka with "
            "message.timestamp.type=LogAppendTime, or to Pub/Sub, and name this one"
        )
    if config.kafka_token is None:
        return
    if topics == (None, None):
        raise ValueError(
            f"kafka_token is for topics of Kafka, and there is none: name one as {KAFKA}"
            "HOST:PORT/NAME in input_topic or output_topic"
        )
    from tracecloak.transforms.services.kafka_tokens import TOKENS

    try:
        TOKENS.named(config.kafka_token)
    except UsageError as error:
        raise ValueError(f"kafka_token: {error}") from None


def kind_of(config: StreamConfig) -> Literal["avro", "json"] | RegistrySchemas | None:
    """Returns what messages are, as `MessageFormat` is told.

    Raises:
        UsageError: The address of the registry is none.
    """
    kind = config.message_schema
    if kind is None or kind == "avro" or kind == "json":
        return kind
    from tracecloak.transforms.formats.registry_messages import RegistrySchemas
    from tracecloak.transforms.services.schema_registry import SchemaRegistry

    registry = SchemaRegistry(config.schema_registry or "", config.schema_registry_properties)
    return RegistrySchemas("avro" if kind == "confluent-avro" else "json", registry)


def operations_of(config: StreamConfig) -> Operations | None:
    """Returns which messages are events, if a field of theirs says it."""
    if config.operation is None:
        return None
    return Operations(config.operation, config.operation_events)

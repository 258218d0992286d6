"""The keys of a stream that say what its messages are like, beyond names of fields.

Each of them needs others: a schema of a registry needs the registry, and values of an operation
need the field that has them. Azure's Event Hubs is refused here, before anything is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

from tracecloak.pipelines.stream.input_keys import Input, MessageKeys, MessageSchema
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.formats.messages import MessageInput, Operations
from tracecloak.transforms.services.schemes import EVENT_HUBS, KAFKA

if TYPE_CHECKING:
    from tracecloak.transforms.formats.registry_messages import Kind, RegistrySchemas
    from tracecloak.transforms.services.kafka_topic import KafkaTopic

_OF_REGISTRY: dict[str, Kind] = {
    "confluent-avro": "avro",
    "confluent-json": "json",
    "confluent-protobuf": "protobuf",
}
_NO_FRAME = (
    "schema_registry and its properties are for messages in Confluent's frame: give schema "
    f"{', '.join(list(_OF_REGISTRY)[:-1])} or {list(_OF_REGISTRY)[-1]}"
)


def kind_of(
    schema: MessageSchema | None, registry: str | None, properties: str | None
) -> Literal["avro", "json"] | RegistrySchemas | None:
    """Returns what messages are, as `MessageFormat` is told.

    Args:
        schema: The key of that name.
        registry: `schema_registry`.
        properties: `schema_registry_properties`.

    Raises:
        UsageError: One lacks another, or the address of the registry is none.
    """
    if schema is None or schema == "avro" or schema == "json":
        if registry is not None or properties is not None:
            raise UsageError(_NO_FRAME)
        return schema
    if registry is None:
        raise UsageError(
            f"schema {schema} needs the registry that has the schemas: name it with "
            "schema_registry, such as http://localhost:8081"
        )
    from tracecloak.transforms.formats.registry_messages import RegistrySchemas
    from tracecloak.transforms.services.schema_registry import SchemaRegistry

    return RegistrySchemas(_OF_REGISTRY[schema], SchemaRegistry(registry, properties))


def operations_of(
    schema: MessageSchema | None, operation: str | None, events: tuple[str, ...]
) -> Operations | None:
    """Returns which messages are events, if a field of theirs says it.

    Args:
        schema: The key of that name.
        operation: The key of that name.
        events: `operation_events`.

    Raises:
        UsageError: One lacks another, or messages have no such field.
    """
    if operation is None and not events:
        return None
    if operation is None or not events:
        raise UsageError(
            "operation names a field, and operation_events its values that are events: give both "
            "or neither"
        )
    if schema == "avro":
        raise UsageError("operation: an event of schemas/files/event.avsc has no such field")
    return Operations(operation, events)


def check_brokers(read: KafkaTopic | None, token: str | None) -> None:
    """Makes sure that what is read is no service whose clock nobody has seen, and tokens are known.

    Args:
        read: The topic of Kafka that is read, if one is.
        token: `kafka_token`.

    Raises:
        ValueError: It is, or there is no token of that name.
    """
    servers = [] if read is None else read.servers.lower().split(",")
    hosts = [server.strip().partition(":")[0].rstrip(".") for server in servers]
    if any(host.endswith(EVENT_HUBS) for host in hosts):
        raise ValueError(
            "input_topic: Azure Event Hubs is not read. A stream asks the brokers, in Kafka's "
            "language, whether they stamp messages and what time it is, and nobody has seen that "
            "Event Hubs answers that. Copy the messages to a topic of Kafka with "
            "message.timestamp.type=LogAppendTime, or to Pub/Sub, and name this one"
        )
    if token is None:
        return
    from tracecloak.transforms.services.kafka_tokens import TOKENS

    try:
        TOKENS.named(token)
    except UsageError as error:
        raise ValueError(f"kafka_token: {error}") from None


def input_of(one: Input, place: int) -> MessageInput:
    """Returns what tells the events of an input from those of the others.

    Args:
        one: Its keys.
        place: Its place in the list.
    """
    name = one.input_topic or one.input_subscription or ""
    return MessageInput(place, name.rpartition("/")[2], one.constant_activity, one.activity_prefix)


def check_inputs(
    beside: MessageKeys,
    inputs: Sequence[Input],
    sources: Sequence[MessageKeys],
    vocabulary: Collection[str],
    registry: str | None,
) -> None:
    """Makes sure that several inputs can be read together, and what they call activities.

    Args:
        beside: The keys beside the list.
        inputs: The list.
        sources: The keys that hold for each of them.
        vocabulary: The public activities.
        registry: `schema_registry`.

    Raises:
        ValueError: They cannot.
    """
    if beside.input_topic is not None or beside.input_subscription is not None:
        raise ValueError(
            "inputs name what is read: move input_topic or input_subscription into that list"
        )
    names = [one.input_topic or one.input_subscription or "" for one in inputs]
    services = {name.rpartition("/")[0] if name.startswith(KAFKA) else "" for name in names}
    if len(set(names)) < len(names) or len(services) > 1:
        raise ValueError(
            "inputs must be different topics of one service, and those of Kafka of the same "
            "brokers, written alike: a step is over by the clock of that service alone. Make "
            "another stream of the others"
        )
    if registry and not any(source.message_schema in _OF_REGISTRY for source in sources):
        raise ValueError(_NO_FRAME)
    has_individuals = beside.columns.individual_id is not None
    if any((source.columns.individual_id is not None) != has_individuals for source in sources):
        raise ValueError(
            "individual_id: name the field of the individual in columns beside inputs, and in an "
            "input where its field has another name"
        )
    for one, source in zip(inputs, sources, strict=True):
        constant = one.constant_activity
        name = one.activity_prefix + (constant or "")
        if not any(known.startswith(name) for known in vocabulary) or (
            constant is not None and name not in vocabulary
        ):
            raise ValueError(
                f"no activity of the vocabulary is {name!r}, or begins so: correct "
                "constant_activity or activity_prefix of the input"
            )
        if constant is not None and any(
            where.column in ("activity", source.columns.activity) for where in source.where
        ):
            raise ValueError("where: an input with a constant_activity has no other to filter by")

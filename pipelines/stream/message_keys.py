"""Keys of a stream"s configuration: steps, promises, messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import pydantic
from pydantic import Field

from tracecloak.pipelines.configuration.config import MappedConfig, listed
from tracecloak.pipelines.runners.flags import LOCAL
from tracecloak.schemas.calendar.durations import Duration
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import EVENT_ID
from tracecloak.transforms.formats.messages import Operations
from tracecloak.transforms.services.kafka_topic import KAFKA

if TYPE_CHECKING:
    from tracecloak.pipelines.stream.config import StreamConfig
    from tracecloak.transforms.formats.registry_messages import Kind, RegistrySchemas


# --- Keys of a stream's configuration: what it reads, and what whoever is on call is told. --------


# --- The keys of what a stream reads: where messages are and what is in them, of each input. ------


MessageSchema = Literal["avro", "json", "confluent-avro", "confluent-json", "confluent-protobuf"]

_OF_REGISTRY: dict[str, Kind] = {
    "confluent-avro": "avro",
    "confluent-json": "json",
    "confluent-protobuf": "protobuf",
}
_NO_FRAME = (
    "schema_registry and its properties are for messages in Confluent's frame: give schema "
    "confluent-avro, confluent-json or confluent-protobuf"
)

MESSAGE_KEYS = (
    *("message_schema", "columns", "where", "event_id", "id_attribute", "time_attribute"),
    *("operation", "operation_events"),
)
"""Fields that change which events messages are; each input can have its own."""


LIST_OR_TEXT = pydantic.WithJsonSchema(
    {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}
)
"""Of a list that as text is separated by commas, or has one member."""


class MessageKeys(MappedConfig):
    """Where the messages of an input are, and what is in them."""

    input_subscription: str | None = None
    """Pub/Sub subscription, projects/PROJECT/subscriptions/NAME. Without it, input_topic is needed.
    """
    input_topic: str | None = None
    """Topic of Kafka, kafka://HOST:PORT/NAME, which is read from its oldest message on, or Pub/Sub
    topic, for which a new subscription is made, which sees what comes then. Without it,
    input_subscription is needed."""
    message_schema: MessageSchema | None = Field(default=None, alias="schema")
    """Kind of the messages: avro, of schemas/files/event.avsc; json, objects; confluent-avro,
    confluent-json and confluent-protobuf, of schemas of a registry, in Confluent's frame. By
    default avro or json."""
    event_id: str = EVENT_ID
    """Field with the id of the event, by which one that is delivered twice is known."""
    operation: str | None = None
    """Field that says what was done to a record, such as payload.op of Debezium; by default none.
    """
    operation_events: Annotated[
        tuple[str, ...], pydantic.BeforeValidator(listed), LIST_OR_TEXT
    ] = ()
    """Values of operation that are events, such as c,r, separated by commas as a flag; a message
    with another one is a reject. By default none, needed with operation."""
    id_attribute: str | None = None
    """Attribute of the message with that id, before the field; by default none."""
    time_attribute: str | None = None
    """Attribute of the message with the time of the event, before the field; by default none."""

    @property
    def operations(self) -> Operations | None:
        """Which messages are events, if a field of theirs says it.

        Raises:
            UsageError: One key lacks another, or messages have no such field.
        """
        if self.operation is None and not self.operation_events:
            return None
        if self.operation is None or not self.operation_events:
            raise UsageError(
                "operation names a field, and operation_events its values that are events: give "
                "both or neither"
            )
        if self.message_schema == "avro":
            raise UsageError("operation: an event of schemas/files/event.avsc has no such field")
        return Operations(self.operation, self.operation_events)

    def kind_of(
        self, registry: str | None, properties: str | None
    ) -> Literal["avro", "json"] | RegistrySchemas | None:
        """Returns what messages are, as `MessageFormat` is told.

        Args:
            registry: `schema_registry`.
            properties: `schema_registry_properties`.

        Raises:
            UsageError: One lacks another, or the address of the registry is none.
        """
        schema = self.message_schema
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


class Input(MessageKeys):
    """One of several topics or subscriptions of a stream."""

    constant_activity: str | None = None
    """Activity of every message, which then needs no field of an activity; by default none."""
    activity_prefix: str = ""
    """Text before each activity, such as "payment " to keep apart what several topics call alike;
    by default none."""

    @property
    def source(self) -> str:
        """The topic or subscription."""
        return self.input_topic or self.input_subscription or ""


# --- What whoever is on call for a stream is told: keys of a stream that change no released byte. -


_HERE = ("127.0.0.1", "localhost", "::1")


class OperatorConfig(pydantic.BaseModel):
    """Where the health and the metrics of a stream are, and when it ends by itself."""

    model_config = pydantic.ConfigDict(use_attribute_docstrings=True)

    operator_port: int | None = Field(default=None, ge=1, le=65535)
    """Port that serves /healthz, /readyz and /metrics over HTTP; by default none."""
    operator_address: str = "127.0.0.1"
    """Address of that port. Probes from outside the machine or the pod need 0.0.0.0."""
    operator_names: Annotated[tuple[str, ...], pydantic.BeforeValidator(listed), LIST_OR_TEXT] = ()
    """Names of hosts by which programs reach that port, such as ward.monitoring.svc, separated by
    commas as a flag; by default none. Requests by other names than these and localhost are refused,
    so that no page of the web reads the port; IP addresses, as of probes, are always accepted."""
    health_file: str | None = None
    """File of JSON with the same health, written anew every 5 seconds; by default none."""
    metrics: str | None = None
    """File ending in .prom with the metrics, for the textfile collector of Prometheus's node
    exporter, written anew every 15 seconds; by default none."""
    metrics_for: Literal["public", "operator"] = "public"
    """public: metrics have no number of the data. operator: they also have lag, open cases, size of
    the state, messages and rejects, on 127.0.0.1 alone and in a file that only its owner reads."""
    stuck_after: Duration | None = None
    """How long a step may be due, with no more messages read on, before the stream ends with exit
    code 10, so that it is started again; after three starts stuck at one step it stays down. By
    default it waits for as long as it takes."""

    @property
    def is_watched(self) -> bool:
        """Whether anybody is told anything."""
        named = (self.operator_port, self.health_file, self.metrics)
        return any(value is not None for value in (*named, self.stuck_after))

    @pydantic.model_validator(mode="after")
    def _check_operator(self) -> OperatorConfig:
        if not all(re.fullmatch(r"[\w.-]+", name, re.ASCII) for name in self.operator_names):
            raise ValueError(
                f"operator_names must be names of hosts without ports, such as "
                f"ward.monitoring.svc, got {', '.join(self.operator_names)!r}"
            )
        is_local = getattr(self, "runner", LOCAL) == LOCAL
        if not is_local and (self.stuck_after is not None or self.metrics_for == "operator"):
            raise ValueError(
                f"stuck_after and metrics_for operator are of runner {LOCAL}: what runs a job "
                "starts it again, and shows how much it reads; leave them out"
            )
        if (
            self.metrics_for == "operator"
            and self.operator_port is not None
            and self.operator_address not in _HERE
        ):
            raise ValueError(
                "metrics_for operator shows numbers of the data to other machines at "
                f"operator_address {self.operator_address!r}: leave out one of them"
            )
        return self


# --- Checks of what a stream reads, before anything is asked. -------------------------------------


def check_inputs(config: StreamConfig) -> None:
    """Makes sure that several inputs can be read together, and what they call activities.

    Raises:
        ValueError: They cannot.
    """
    inputs, sources = config.inputs, config.sources
    if config.input_topic is not None or config.input_subscription is not None:
        raise ValueError(
            "inputs name what is read: move input_topic or input_subscription into that list"
        )
    names = [one.source for one in inputs]
    services = {name.rpartition("/")[0] if name.startswith(KAFKA) else "" for name in names}
    if len(set(names)) < len(names) or len(services) > 1:
        raise ValueError(
            "inputs must be different topics of one service, and those of Kafka of the same "
            "brokers, written alike, whose clock ends the steps: make another stream of the others"
        )
    if config.schema_registry and not any(
        source.message_schema in _OF_REGISTRY for source in sources
    ):
        raise ValueError(_NO_FRAME)
    has_individuals = config.columns.individual_id is not None
    if any((source.columns.individual_id is not None) != has_individuals for source in sources):
        raise ValueError(
            "individual_id: name the field of the individual in columns beside inputs, and in an "
            "input where its field has another name"
        )
    for one, source in zip(inputs, sources, strict=True):
        constant = one.constant_activity
        name = one.activity_prefix + (constant or "")
        if not any(known.startswith(name) for known in config.vocabulary) or (
            constant is not None and name not in config.vocabulary
        ):
            raise ValueError(
                f"no activity of the vocabulary is {name!r}, or begins so: correct "
                "constant_activity or activity_prefix of the input"
            )
        if constant is not None and any(
            where.column in ("activity", source.columns.activity) for where in source.where
        ):
            raise ValueError("where: an input with a constant_activity has no other to filter by")

"""The keys of what a stream reads: where messages are and what is in them, of each input."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic
from pydantic import Field

from tracecloak.pipelines.configuration.config import MappedConfig, listed
from tracecloak.schemas.events.events import EVENT_ID

MessageSchema = Literal["avro", "json", "confluent-avro", "confluent-json", "confluent-protobuf"]

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


class Input(MessageKeys):
    """One of several topics or subscriptions of a stream."""

    constant_activity: str | None = None
    """Activity of every message, which then needs no field of an activity; by default none."""
    activity_prefix: str = ""
    """Text before each activity, such as "payment " to keep apart what several topics call alike;
    by default none."""

"""The configuration of a stream: one YAML file or the same keys as flags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field
from pydantic.fields import FieldInfo

from tracecloak.anonymizers.rigorous.params import LONGEST_TRACE, Exact, RigorousParams
from tracecloak.anonymizers.streams.steps import STREAM_PRODUCTS, StepProduct
from tracecloak.pipelines.configuration.config import (
    Columns,
    Listed,
    MappedConfig,
    keys_of,
    one_of,
    read_yaml,
)
from tracecloak.pipelines.configuration.flags import (
    bytes_of,
    form_of,
    given_value,
    read_vocabulary,
    standing,
)
from tracecloak.pipelines.configuration.shared_keys import LIST_OR_TEXT, AccountConfig, as_list
from tracecloak.pipelines.runners.flags import LOCAL
from tracecloak.schemas.calendar.durations import Duration, Moment, duration_us
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import EVENT_ID
from tracecloak.schemas.plugins import load
from tracecloak.schemas.published.step import View
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.formats.registry import formats_of_releases
from tracecloak.transforms.services.kafka_topic import EVENT_HUBS, KAFKA, TOKENS, KafkaTopic
from tracecloak.transforms.stream.step_sinks import possible_forms

_RESOLVE = "tracecloak.pipelines.stream.plan:resolve"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


# The defaults of durations, as they are written; fields have them in microseconds.
_DURATIONS = {"max_disorder": "0s", "release_delay": "60s"}
# Parameters of private-log that are no flags: no stream carries attributes, and the vocabulary of
# every stream is declared.
_REFUSED = "attributes"
_NOT_IN_STREAMS = (
    *(_REFUSED, "buy_vocabulary", "max_activities", "service_times"),
    *("groups", "group_separator", "group_depth"),
)


def _named(value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise ValueError("must be 1 to 100 ASCII letters, digits, '_', '-' and '.', no '.' first")
    return value


def _vocabulary(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return read_vocabulary(bytes_of("vocabulary", value))
    except UsageError as error:
        raise ValueError(str(error)) from None


# --- The keys of what a stream reads: where messages are and what is in them, of each input. ------


MessageSchema = Literal["avro", "json", "confluent-avro", "confluent-json", "confluent-protobuf"]

FRAMED = "confluent-"
"""Begins the schemas of messages in Confluent's frame."""
NO_FRAME = (
    "schema_registry and its properties are for messages in Confluent's frame: give schema "
    "confluent-avro, confluent-json or confluent-protobuf"
)

MESSAGE_KEYS = (
    *("message_schema", "columns", "where", "event_id", "id_attribute", "time_attribute"),
    *("operation", "operation_events"),
)
"""Fields that change which events messages are; each input can have its own."""


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
    operation_events: Listed[str] = ()
    """Values of operation that are events, such as c,r; a message with another one is a reject. By
    default none, needed with operation."""
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
    operator_names: Listed[str] = ()
    """Names of hosts by which programs reach that port, such as ward.monitoring.svc; by default
    none. Requests by other names than these and localhost are refused, so that no page of the web
    reads the port; IP addresses, as of probes, are always accepted."""
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


# --- The configuration of a stream. ---------------------------------------------------------------


Name = Annotated[str, pydantic.AfterValidator(_named)]
StepForm = Annotated[str, one_of(lambda: chain(["json"], formats_of_releases()))]

OF_INPUTS = Input.model_fields.keys() - MessageKeys.model_fields.keys()

IN_DIGEST = (
    *(*MESSAGE_KEYS, "inputs", "clock"),
    *("product", "view", "sliding_steps", "epsilon", "delta", "allow_large_delta", "max_cases"),
    *("vocabulary", "closed_vocabulary", "max_trace_length", "l2_clip", "guarantee"),
    *("w_event_steps", "max_cases_per_individual", "log_params", "period", "horizon", "start"),
    *("gap", "max_lifetime", "max_disorder", "end_activity", "tombstone", "release_delay"),
    "formats",
)
"""Fields that change what is published. Others say where it goes, who pays, and what runs it."""


class StreamConfig(OperatorConfig, AccountConfig, MessageKeys):
    """Everything that a stream depends on, and where it goes. Its JSON goes to the output, too."""

    release_id: Name
    """Name of the stream; its files go to run_id=<release_id>/epoch=<epoch> in the output."""
    epoch: Name
    """Name of the epoch. Each has a noise key and a budget of its own: the same one again spends
    nothing and publishes the same numbers, another one is another spend."""
    inputs: tuple[Input, ...] = ()
    """Several topics, or several subscriptions, in place of input_topic and input_subscription,
    each with keys of its own for its messages; what one leaves out is as beside the list. All are
    of Pub/Sub, or of the same brokers of Kafka."""
    kafka_properties: str | None = None
    """File of settings of librdkafka, a line NAME=VALUE each, such as those of security, for the
    topics of Kafka; workers elsewhere need it under the same name. By default there is none."""
    kafka_token: Annotated[str, one_of(lambda: TOKENS)] | None = None
    """Where a client of Kafka gets the token by which brokers know it: msk, AWS's own signer, or an
    entry of another distribution. By default it needs none."""
    clock_topic: Name = "tracecloak-clock"
    """Name of a topic beside that of the input, which gets a message without content every few
    seconds: the time at which it arrives is that by which steps are over. It is made if it is not
    there; on Kafka with message.timestamp.type=LogAppendTime, and a partition for each broker."""
    schema_registry: str | None = None
    """Address of the registry that has the schemas, such as https://HOST:PORT; needed with schema
    confluent-avro, confluent-json and confluent-protobuf, by default none."""
    schema_registry_properties: str | None = None
    """File of settings of confluent-kafka's SchemaRegistryClient, a line NAME=VALUE each, such as
    basic.auth.user.info; workers elsewhere need it under the same name. By default there is none.
    """
    clock: Literal["event", "publishing"] = "event"
    """Whose clock times the events of a case and orders them: event, their senders'; publishing,
    the message service's. Events of one time are in the order of their publishing in either case.
    """

    product: Annotated[str, one_of(lambda: STREAM_PRODUCTS)] = "dfg"
    """What is published of every step."""
    view: View = "window"
    """window: of each step. total: of all steps so far. sliding: of the last sliding_steps
    steps."""
    sliding_steps: int | None = None
    """Steps of a sliding sum, needed with view sliding; by default not set."""
    epsilon: Exact
    """Privacy loss of all steps of the horizon together, or with guarantee w_event of any
    w_event_steps of them, a decimal above 0."""
    delta: Exact = RigorousParams.model_fields["delta"].default
    """It is as if, with this probability, all steps together told everything, and kept to epsilon
    otherwise; at most 1e-5, and at most 1 / max_cases where that is declared."""
    allow_large_delta: bool = False
    """Permit a delta above 1e-5, up to 1 / max_cases, which must be declared. The statement says
    what such a delta allows."""
    max_cases: int | None = None
    """Public upper bound on the number of cases of all steps, which bounds delta. It is believed,
    not enforced: a sample of so many cases would double what one case changes. By default there
    is none."""
    vocabulary: Annotated[tuple[str, ...], pydantic.BeforeValidator(_vocabulary), LIST_OR_TEXT]
    """Public file of activity names, one a line; any other activity counts as __other__."""
    closed_vocabulary: bool = False
    """Declare that the vocabulary has all activities: no number is spent on __other__ then, and a
    message with another activity is a reject."""
    max_trace_length: int = Field(default=50, ge=1, le=LONGEST_TRACE)
    """Events of a case that count, public; those published after so many are dropped."""
    l2_clip: Exact | None = None
    """Largest L2 norm of one case's directly-follows counts, public: a case beyond it is scaled
    down, and noise is proportional to it. By default that of a case of max_trace_length events
    which repeats pairs as little as it can, such as 7.2 for 50 events: loops are scaled down. One
    as large as max_trace_length leaves every case whole. With product log one is bought then."""
    guarantee: Literal["case", "w_event"] = "case"
    """case: epsilon holds for all steps together. w_event: for what an individual does within any
    w_event_steps steps, where individuals have no bound on their cases over the whole horizon."""
    w_event_steps: int | None = None
    """Steps within which w_event protects an individual, needed with it; by default not set."""
    max_cases_per_individual: int | None = None
    """Cases of one individual that count, over the whole horizon or, with w_event, in each step. By
    default 1 if individual_id is mapped; if it is not, the unit is the case. Noise grows in
    proportion."""
    log_params: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of the product: those of private-log for product log."""

    period: Duration
    """Length of a step, such as 1h or 1d."""
    horizon: int
    """Steps that are published, public; then the budget is spent and nothing more is."""
    start: Moment
    """Where step 0 begins, ISO 8601, UTC without an offset; fixed, so that a restart has the same
    steps."""
    gap: Duration
    """Silence after which a case is over."""
    max_lifetime: Duration
    """Age at which a case is over, whatever still comes of it."""
    max_disorder: Duration = 0
    """How much later than its successors a message may be published."""
    end_activity: Annotated[tuple[str, ...], pydantic.BeforeValidator(as_list), LIST_OR_TEXT] = ()
    """Public activity that ends a case, or a list of some; by default none does."""
    tombstone: Duration | None = None
    """How long a closed case is remembered after its last message, so that what still comes of it
    is dropped; at least as long as the subscription can redeliver. A case that goes on after that
    counts again, and the stream says what this costs in epsilon. By default until the horizon
    ends, which takes 24 bytes a case."""
    release_delay: Duration = duration_us(_DURATIONS["release_delay"])
    """How long after its end a step waits for messages that are late."""
    publish_on_drain: bool = False
    """Where the source ends, or the operator drains the stream, publish all steps of the horizon at
    once, before they are over, with what is there. The epoch is spent then. Without it a step that
    is not over is not published."""

    formats: Listed[StepForm] | None = None
    """Forms of the files beside JSON: parquet, and for product log every format of a release
    (default parquet, and xes for product log)."""
    output_topic: str | None = None
    """Topic of Kafka, kafka://HOST:PORT/NAME, or Pub/Sub topic that gets the JSON of every step as
    well; by default none does."""
    output_table: str | None = None
    """Table of Delta or Iceberg, delta:PATH or iceberg:CATALOG.TABLE, that gets the rows of every
    step as well, once each; by default none does."""
    reject_topic: str | None = None
    """Topic of Kafka, kafka://HOST:PORT/NAME, or Pub/Sub topic that gets the places of these as
    well; by default none does."""
    runner: str = LOCAL
    """Local, for one machine, which keeps its state on disk, or a runner of Beam: FlinkRunner reads
    topics of Kafka, DataflowRunner reads Pub/Sub."""
    shards: int | None = Field(default=None, ge=1, le=1 << 16)
    """Shards of open cases on a runner of Beam, by default 16; a change forgets the open cases.
    Local has one, whatever is given."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> StreamConfig:
        if self.inputs:
            self._check_inputs()
        for one in self.sources:
            if one.columns.order is not None:
                raise ValueError(
                    "a stream orders events of one time by their publishing: leave out order"
                )
            if (one.input_subscription is None) == (one.input_topic is None):
                raise ValueError("give input_subscription or input_topic, one of them")
            one._check_kafka()
        self._check_product()
        if self.columns.individual_id is None and self.max_cases_per_individual is not None:
            raise ValueError(
                "max_cases_per_individual needs to know the individuals: name their field with "
                "individual_id"
            )
        return self

    def _check_inputs(self) -> None:
        """Makes sure that several inputs can be read together, and what they call activities.

        Raises:
            ValueError: They cannot.
        """
        inputs, sources = self.inputs, self.sources
        if self.input_topic is not None or self.input_subscription is not None:
            raise ValueError(
                "inputs name what is read: move input_topic or input_subscription into that list"
            )
        names = [one.source for one in inputs]
        services = {name.rpartition("/")[0] if name.startswith(KAFKA) else "" for name in names}
        if len(set(names)) < len(names) or len(services) > 1:
            raise ValueError(
                "inputs must be different topics of one service, and those of Kafka of the same "
                "brokers, written alike: make another stream of the others"
            )
        kinds = [source.message_schema or "" for source in sources]
        if self.schema_registry and not any(FRAMED in kind for kind in kinds):
            raise ValueError(NO_FRAME)
        has_individuals = self.columns.individual_id is not None
        if any((source.columns.individual_id is not None) != has_individuals for source in sources):
            raise ValueError(
                "individual_id: name the field of the individual in columns beside inputs, and in "
                "an input where its field has another name"
            )
        for one, source in zip(inputs, sources, strict=True):
            constant = one.constant_activity
            name = one.activity_prefix + (constant or "")
            if not any(known.startswith(name) for known in self.vocabulary) or (
                constant is not None and name not in self.vocabulary
            ):
                raise ValueError(
                    f"no activity of the vocabulary is {name!r}, or begins so: correct "
                    "constant_activity or activity_prefix of the input"
                )
            if constant is not None and any(
                where.column in ("activity", source.columns.activity) for where in source.where
            ):
                raise ValueError(
                    "where: an input with a constant_activity has no other to filter by"
                )

    def _check_kafka(self) -> None:
        """Makes sure that topics of Kafka are well-formed, and named only by keys that take them.

        Raises:
            ValueError: One is not.
        """
        if (self.input_subscription or "").startswith(KAFKA):
            raise ValueError("input_subscription is Pub/Sub's; input_topic can be Kafka's")
        topics = {}
        for name in ("input_topic", "output_topic", "reject_topic"):
            try:
                topics[name] = self.kafka(name)
            except UsageError as error:
                raise ValueError(f"{name}: {error}") from None
        for name in ("kafka_properties", "kafka_token"):
            if getattr(self, name) is not None and not any(topics.values()):
                raise ValueError(
                    f"{name} is for topics of Kafka, and there is none: name one as {KAFKA}"
                    "HOST:PORT/NAME in input_topic, output_topic or reject_topic"
                )
        if self.reject_topic in {self.input_topic, self.output_topic} - {None}:
            raise ValueError(
                "reject_topic must be a topic of its own: what it gets is for you alone"
            )
        topic = topics["input_topic"]
        servers = "" if topic is None else topic.servers.lower()
        hosts = (server.strip().partition(":")[0].rstrip(".") for server in servers.split(","))
        if any(host.endswith(EVENT_HUBS) for host in hosts):
            raise ValueError(
                "input_topic: Azure Event Hubs is not read, as nobody tried its stamps. Copy the "
                "messages to a topic of Kafka with message.timestamp.type=LogAppendTime, or Pub/Sub"
            )

    def _check_product(self) -> None:
        """Makes sure that the product has the view, guarantee, forms and parameters asked for.

        Raises:
            ValueError: It lacks one.
        """
        kind = STREAM_PRODUCTS[self.product]
        if doubled := self.log_params.keys() & StreamConfig.model_fields.keys():
            raise ValueError(f"log_params: {min(doubled)} is a key beside it, not in it")
        # Every parameter of a product changes what is published.
        optional = (n for n in IN_DIGEST if StreamConfig.model_fields[n].default is None)
        given = {*self.log_params, *(n for n in optional if getattr(self, n) is not None)}
        for name in sorted(given - kind.Params.model_fields.keys()):
            if takers := [n for n, k in STREAM_PRODUCTS.items() if name in k.Params.model_fields]:
                raise ValueError(f"unknown key {name}: it is for product {' or '.join(takers)}")
        if self.view not in kind.views or self.guarantee not in kind.guarantees:
            raise ValueError(
                f"product {self.product} has view {' or '.join(kind.views)} and guarantee "
                f"{' or '.join(kind.guarantees)}"
            )
        for form in self.formats or ():
            if form != "json" and form not in possible_forms(kind.released):
                logs = [n for n, k in STREAM_PRODUCTS.items() if form in possible_forms(k.released)]
                raise ValueError(f"formats: {form} is for product {' or '.join(logs)}")

    @property
    def sources(self) -> tuple[StreamConfig, ...]:
        """This configuration for each topic or subscription that it reads, with the keys of it."""
        return tuple(self._config_for_input(one) for one in self.inputs) or (self,)

    def _config_for_input(self, one: Input) -> StreamConfig:
        own = {
            name: getattr(one, name)
            for name in one.model_fields_set & MessageKeys.model_fields.keys()
        }
        if "columns" in own:
            columns = {name: getattr(one.columns, name) for name in one.columns.model_fields_set}
            own["columns"] = self.columns.model_copy(update=columns)
        return self.model_copy(update={**own, "inputs": (one,)})

    def made_product(self) -> StepProduct:
        """Returns what is published.

        Raises:
            UsageError: A parameter is unknown or out of range.
        """
        product: StepProduct = load(_RESOLVE)(self).product
        return product

    @property
    def layouts(self) -> tuple[MessageFormat, ...]:
        """Where a message of each of `sources` says what.

        Raises:
            UsageError: Keys do not go together.
        """
        return tuple(one.layout for one in load(_RESOLVE)(self).inputs)

    def kafka(self, key: str) -> KafkaTopic | None:
        """Returns the topic of Kafka that a key names, if it names one.

        Raises:
            UsageError: It is no address of a topic.
        """
        topic = getattr(self, key)
        if topic is None or not topic.startswith(KAFKA):
            return None
        return KafkaTopic.parse(topic, self.kafka_properties, self.kafka_token)


def read_stream(path: str | None, flags: Mapping[str, object]) -> StreamConfig:
    """Returns the configuration of a file with flags in place of its keys; see `load_stream`."""
    body = {} if path is None else read_yaml(path)
    fields = _product_fields() | own_fields()
    given = {n: given_value(n, v, fields[n]) if n in fields else v for n, v in flags.items()}
    # What is no key is one of the product's; a later check refuses what is neither.
    keys = {*own_fields(), *Columns.model_fields, "where"}
    if of_product := {name: given.pop(name) for name in flags if name not in keys}:
        body["log_params"] = {**(body.get("log_params") or {}), **of_product}
    return keys_of(StreamConfig, body, given)


def stream_json_schema() -> dict[str, Any]:
    """Returns the JSON Schema of the configuration file of a stream."""
    schema = StreamConfig.model_json_schema()
    schema["properties"]["log_params"] |= {
        "propertyNames": {"enum": [*further_fields(), _REFUSED]},
    }
    schema["properties"]["product"]["description"] = _product_text()
    for name, text in _DURATIONS.items():
        schema["properties"][name]["default"] = text
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def own_fields() -> dict[str, FieldInfo]:
    """Returns the keys of the configuration that are flags."""
    return {
        field.alias or name: field
        for name, field in StreamConfig.model_fields.items()
        if name not in ("columns", "where", "log_params", "inputs")
    }


def stream_help(name: str, field: FieldInfo) -> str:
    """Returns the help of a flag of `own_fields` or of `further_fields`."""
    own = own_fields()
    default = f"(default {_DURATIONS[name]})" if name in _DURATIONS else standing(field)
    if name not in own:
        default = default.replace("(required)", "(by default none; its product needs it)")
    text = _product_text() if name == "product" else field.description
    return " ".join(f"{text} {form_of(name, field)} {default}".split())


def _product_text() -> str:
    kinds = (f"{name}: {kind.summary}." for name, kind in STREAM_PRODUCTS.items())
    return " ".join([StreamConfig.model_fields["product"].description or "", *kinds])


def _product_fields() -> dict[str, FieldInfo]:
    kinds = STREAM_PRODUCTS.values()
    return {name: field for kind in kinds for name, field in kind.Params.model_fields.items()}


def further_fields() -> dict[str, FieldInfo]:
    """Returns the further parameters of products, which are keys of `log_params` and flags."""
    known = {*StreamConfig.model_fields, *_NOT_IN_STREAMS}
    return {name: field for name, field in _product_fields().items() if name not in known}

"""The plan of a stream: its configuration resolved once, and the services that it names."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pydantic

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text, total
from tracecloak.anonymizers.contract.case_digests import config_digest, noise_digest
from tracecloak.anonymizers.contract.method import Params
from tracecloak.anonymizers.contract.wrong_values import usage_error
from tracecloak.anonymizers.noise.randomness import text_digest
from tracecloak.anonymizers.streams.dfg_steps import DfgParams
from tracecloak.anonymizers.streams.steps import STREAM_PRODUCTS, StepProduct, StreamName
from tracecloak.pipelines.budget.opening import open_store
from tracecloak.pipelines.configuration.config import without_filters
from tracecloak.pipelines.stream.config import (
    FRAMED,
    IN_DIGEST,
    MESSAGE_KEYS,
    NO_FRAME,
    OF_INPUTS,
    StreamConfig,
    read_stream,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import CASE_ID
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.stream_caps import CaseCap
from tracecloak.transforms.files import absolute
from tracecloak.transforms.formats.messages import MessageFormat, MessageInput, Operations
from tracecloak.transforms.lakes.tables import address_of
from tracecloak.transforms.operator_log import operator_log
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.services.kafka_clock import shared_clock
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.services.schema_registry import SchemaRegistry
from tracecloak.transforms.stream.step_sinks import (
    StepSink,
    TableSink,
    Topic,
    default_forms,
    epoch_folder,
)

if TYPE_CHECKING:
    from tracecloak.transforms.stream.local_stream import Sink

_OPERATOR = logging.getLogger("tracecloak.operator")


@dataclass(frozen=True)
class StreamInput:
    """One of the topics or subscriptions that a stream reads.

    Attributes:
        keys: The configuration, with the keys of this input.
        topic: The topic of Kafka; None: Pub/Sub is read.
        subscription: The subscription of Pub/Sub; of a topic each epoch has its own, always the
            same one. Empty: Kafka is read.
        clock_subscription: The epoch's own subscription of the topic that tells the time.
        layout: Where a message says what.
    """

    keys: StreamConfig
    topic: KafkaTopic | None
    subscription: str
    clock_subscription: str
    layout: MessageFormat

    @property
    def name(self) -> str:
        """By what name a state keeps its positions."""
        return f"subscription {self.subscription}" if self.topic is None else self.topic.source_name


@dataclass(frozen=True)
class StreamPlan:
    """Everything that a stream depends on, resolved.

    Attributes:
        keys: The keys of the configuration, for those that are only passed on.
        product: What is published.
        spends: What the account is charged for all steps together, part by part.
        epsilon: Of all parts together.
        delta: Likewise.
        rule: When a case closes.
        inputs: What is read.
        name: What the stream is called, and where its steps lie.
        digest: Of all that determines what is published beside input, key and versions: that of
            the configuration with which the epoch began.
        begun: That configuration, with the clip that holds; its vocabulary may be smaller.
        since: The first step of each name that came to the vocabulary of the epoch later.
        place: By what key store and ledger know the epoch: the folder of all releases, and its
            name.
        method_name: What ledger and manifest call what is released.
        source_name: By what name a state keeps its positions.
        consumer_group: Under which the brokers of Kafka note what was read, for those who watch the
            lag.
    """

    keys: StreamConfig
    product: StepProduct
    spends: tuple[Spend, ...]
    epsilon: Fraction
    delta: Fraction
    rule: ClosingRule
    inputs: tuple[StreamInput, ...]
    name: StreamName
    digest: str
    begun: StreamConfig
    since: Mapping[str, int]
    place: tuple[str, str]
    method_name: str
    source_name: str
    consumer_group: str

    def with_keys(self, **values: Any) -> StreamPlan:
        """Returns it with other keys, from which nothing else follows."""
        return replace(self, keys=self.keys.model_copy(update=values))

    @property
    def whole_cost(self) -> tuple[Fraction, Fraction]:
        """The epsilon and delta of all steps together."""
        return self.epsilon, self.delta

    @property
    def release_folder(self) -> ReleaseFolder:
        """That of the stream, in whose workplace its epochs are built."""
        area = self.keys.staging_area
        area = None if area is None else absolute(area)
        return ReleaseFolder(self.place[0], self.keys.release_id, area)

    @property
    def folder(self) -> str:
        """Where the epoch publishes; its file system is asked."""
        return epoch_folder(self.place[0], self.keys.release_id, self.keys.epoch)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What holds for the whole horizon."""
        return self.product.guarantee()

    @cached_property
    def published_digest(self) -> str:
        """The digest without filters, see `without_filters`."""
        return digest_of(without_filters(self.begun))

    def by_input(self, positions: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the positions that a state keeps, by the names of inputs."""
        return {self.source_name: positions} if len(self.inputs) == 1 else positions

    @property
    def is_begun(self) -> bool:
        """Whether the epoch was begun, on this key store.

        Raises:
            TracecloakError: The key store cannot be used.
        """
        return open_store(self.keys).receipt(*self.place) is not None


# --- From a configuration to a plan. --------------------------------------------------------------


def load_stream(path: str | None, flags: Mapping[str, object]) -> StreamConfig:
    """Returns the configuration of a YAML file with flags in place of its keys.

    Args:
        path: The file, or None.
        flags: Given flags by name: keys of the configuration, of `columns`, or of `log_params`.

    Raises:
        UsageError: The file is no YAML mapping, or a key is unknown, missing or wrong.
    """
    return resolve(read_stream(path, flags)).keys


def resolve(
    keys: StreamConfig, begun: StreamConfig | None = None, since: Mapping[str, int] | None = None
) -> StreamPlan:
    """Returns the plan of a configuration.

    Args:
        keys: The configuration.
        begun: The one with which the epoch began, whose clip holds; None: it is the same.
        since: See `StreamPlan`.

    Raises:
        UsageError: A parameter of the product is unknown or out of range, or a key is wrong or does
            not go with another.
    """
    whole = _with_clip(begun or keys)
    if whole.l2_clip != _with_clip(keys).l2_clip:
        keys = keys.model_copy(update={"l2_clip": whole.l2_clip})
    kind: Any = STREAM_PRODUCTS.named(keys.product)
    params, since = params_of(keys), since or {}
    product = kind(params, since) if since else kind(params)
    spends, digest = product.spends(), digest_of(begun or keys)
    epsilon, delta = total(spends)
    noise = noise_digest(digest, kind.version, since)
    name = StreamName(keys.release_id, keys.epoch, noise, keys.start, keys.period)
    rule = ClosingRule(
        vocabulary=keys.vocabulary,
        period_us=keys.period,
        inactivity_gap_us=keys.gap,
        max_lifetime_us=keys.max_lifetime,
        max_disorder_us=keys.max_disorder,
        max_trace_length=keys.max_trace_length,
        tombstone_us=keys.tombstone,
        end_activities=keys.end_activity,
        release_delay_us=keys.release_delay,
        origin_us=keys.start,
        by_publishing=keys.clock == "publishing",
        closed=keys.closed_vocabulary,
        since=tuple(since.items()),
        cap=_cap(keys),
    )
    inputs = tuple(_input(one, place, name.both) for place, one in enumerate(keys.sources))
    return StreamPlan(
        *(keys, product, spends, epsilon, delta, rule, inputs, name, digest, whole, since),
        place=(absolute(keys.output), name.both),
        method_name=f"stream of {keys.product}",
        source_name=", ".join(one.name for one in inputs),
        consumer_group=f"tracecloak-{name.both}",
    )


def params_of(keys: StreamConfig) -> Params:
    """Returns the checked parameters of what is published.

    Raises:
        UsageError: One is unknown or out of range.
    """
    kind = STREAM_PRODUCTS[keys.product].Params
    known = kind.model_fields.keys() & StreamConfig.model_fields.keys()
    given = {name: getattr(keys, name) for name in sorted(known)}
    cap = _cap(keys)
    given["max_cases_per_individual"] = None if cap is None else cap.cases
    try:
        return kind(**{**keys.log_params, **given})
    except pydantic.ValidationError as error:
        raise usage_error(error, f"product {keys.product}", kind.model_fields) from None


def digest_of(keys: StreamConfig) -> str:
    """Returns the digest of all that determines what is published beside input, key and versions.

    A key that is left out and one that is given as it is by default are one, so that a key that a
    later version adds changes no digest.
    """
    given = keys.model_dump(mode="json", include=set(IN_DIGEST), exclude_defaults=True)
    params = params_of(keys).given()
    if keys.inputs:
        given = {name: value for name, value in given.items() if name not in MESSAGE_KEYS}
        given["inputs"] = [
            one.model_dump(mode="json", include=set(MESSAGE_KEYS), exclude_defaults=True)
            | one.inputs[0].model_dump(include=OF_INPUTS, exclude_defaults=True)
            for one in keys.sources
        ]
    given["log_params"] = {name: params[name] for name in keys.log_params if name in params}
    # These values are the default of some configurations only.
    usual = keys.model_copy(
        update={"l2_clip": None, "max_cases_per_individual": None, "formats": None}
    )
    for name, of in {
        "l2_clip": lambda one: _with_clip(one).l2_clip,
        "max_cases_per_individual": _cap,
        "formats": forms_of,
    }.items():
        if of(keys) == of(usual):
            given.pop(name, None)
    return config_digest(given)


def _with_clip(keys: StreamConfig) -> StreamConfig:
    """The configuration with the clip that holds, whether it is given or not."""
    if keys.l2_clip is not None or keys.product != "dfg":
        return keys
    params = params_of(keys)
    if not isinstance(params, DfgParams) or params.clip is None:
        return keys
    return keys.model_copy(update={"l2_clip": Decimal(decimal_text(params.clip))})


def _cap(keys: StreamConfig) -> CaseCap | None:
    """How many cases of an individual count, who is the unit then; None: the case is."""
    if keys.columns.individual_id is None:
        return None
    return CaseCap(keys.max_cases_per_individual or 1, keys.guarantee == "w_event")


def forms_of(keys: StreamConfig) -> tuple[str, ...]:
    """Returns the forms of the files beside JSON."""
    if keys.formats is None:
        return default_forms(STREAM_PRODUCTS[keys.product].released)
    return tuple(form for form in keys.formats if form != "json")


def _input(keys: StreamConfig, place: int, name: str) -> StreamInput:
    """One of `StreamConfig.sources`, of a stream of a name."""
    filters = tuple(where.row_filter for where in keys.where)
    closed = keys.vocabulary if keys.closed_vocabulary else None
    columns, source = keys.columns.model_dump(), None
    if keys.inputs:
        one = keys.inputs[0]
        source = MessageInput(
            place, one.source.rpartition("/")[2], one.constant_activity, one.activity_prefix
        )
        closed = source.unprefixed(closed)
        if source.constant_activity is not None:  # any field that every event has
            columns["activity"] = columns["case_id"] or CASE_ID
    mapping = ColumnMapping(**columns, filters=filters, activities=closed)
    given = keys.columns.start_timestamp, keys.columns.lifecycle
    if given != (None, None) and mapping.has_starts:
        raise UsageError(
            "a stream does not release when events began: leave out start_timestamp, and of a "
            "lifecycle read one transition with where lifecycle=complete"
        )
    attributes = keys.id_attribute, keys.time_attribute
    kind, operations = _kind_of(keys), _operations(keys)
    layout = MessageFormat(mapping, keys.event_id, *attributes, kind, operations, source)
    if (topic := keys.kafka("input_topic")) is not None:
        return StreamInput(keys, topic, "", "", layout)
    subscription = keys.input_subscription or ""
    if keys.input_topic is not None:
        project, _, _ = keys.input_topic.partition("/topics/")
        digest = text_digest(f"{keys.input_topic} {name}")[:16]
        subscription = f"{project}/subscriptions/tracecloak-{digest}"
    project, _, _ = subscription.partition("/subscriptions/")
    digest = text_digest(f"{subscription} {name}")[:16]
    clock = f"{project}/subscriptions/{keys.clock_topic}-{digest}"
    return StreamInput(keys, None, subscription, clock, layout)


def _kind_of(keys: StreamConfig) -> Any:
    """What messages are, as `MessageFormat` is told."""
    schema, registry = keys.message_schema, keys.schema_registry
    properties = keys.schema_registry_properties
    if schema is None or not schema.startswith(FRAMED):
        # Of several inputs some may have no schema of the registry.
        if not keys.inputs and (registry is not None or properties is not None):
            raise UsageError(NO_FRAME)
        return schema
    if registry is None:
        raise UsageError(
            f"schema {schema} needs the registry that has the schemas: name it with "
            "schema_registry, such as http://localhost:8081"
        )
    from tracecloak.transforms.formats.registry_messages import RegistrySchemas

    kind: Any = schema.removeprefix(FRAMED)
    return RegistrySchemas(kind, SchemaRegistry(registry, properties))


def _operations(keys: StreamConfig) -> Operations | None:
    """Which messages are events, if a field of theirs says it."""
    if keys.operation is None and not keys.operation_events:
        return None
    if keys.operation is None or not keys.operation_events:
        raise UsageError(
            "operation names a field, and operation_events its values that are events: give both "
            "or neither"
        )
    if keys.message_schema == "avro":
        raise UsageError("operation: an event of schemas/files/event.avsc has no such field")
    return Operations(keys.operation, keys.operation_events)


# --- The services of a stream, looked at before anything is paid. ---------------------------------


def check_registry(keys: StreamConfig) -> None:
    """Makes sure that the registry of the schemas of messages answers, if there is one.

    Raises:
        UsageError: It refuses this client, or it is none.
        RetryLater: It is away.
    """
    if keys.schema_registry is not None:
        SchemaRegistry(keys.schema_registry, keys.schema_registry_properties).check()


def check_sources(plan: StreamPlan, is_new: bool) -> None:
    """Makes sure that topics of Kafka can be read, and that their brokers and a registry answer.

    Args:
        plan: What is published, of what.
        is_new: Whether its epoch has not begun, so that no message of it may be deleted.

    Raises:
        SourceChanged: An epoch that has begun has lost its topic.
        UsageError: A topic is not there, or messages since the start of the epoch are not, or
            brokers tell no time; or the registry refuses this client.
        RetryLater: No broker or registry answers, or clocks differ.
    """
    from tracecloak.transforms.services.kafka_identity import check_history

    keys = plan.keys
    check_registry(keys)
    for topic in (one.topic for one in plan.inputs if one.topic is not None):
        topic.check(longest_us=plan.rule.longest_us, is_begun=not is_new)
        shared_clock(topic, keys.clock_topic).passed_us()
        if is_new:
            folder = keys.dead_letter or open_store(keys).operator_folder(*plan.place)
            with operator_log(folder):
                check_history(topic, keys.start, _OPERATOR.warning)


def step_sinks(keys: StreamConfig) -> list[Sink]:
    """Returns the sink of the topic that gets the steps, if one does; it pickles.

    Topics of Kafka are known to exist then, and what else is written to has a name that can be one.

    Raises:
        UsageError: A topic is not there, or the table is of a kind that is not written.
        RetryLater: No broker of Kafka answers.
    """
    output, rejects = keys.kafka("output_topic"), keys.kafka("reject_topic")
    for topic in (output, rejects):
        if topic is not None:
            topic.check(is_read=False)
    table_sinks(keys, "")
    if keys.reject_topic is not None:
        Topic(rejects or keys.reject_topic)
    return [] if keys.output_topic is None else [StepSink(output or keys.output_topic)]


def table_sinks(keys: StreamConfig, key_fingerprint: str) -> list[Sink]:
    """Returns the sink of the table that gets the steps, if one does; it pickles.

    Raises:
        UsageError: The table is of a kind that is not written.
    """
    if keys.output_table is None:
        return []
    return [TableSink(address_of(keys.output_table), key_fingerprint)]

"""The command `tracecloak stream`: flags and files of configuration, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from apache_beam.io.gcp.pubsub import ReadFromPubSub

from tests.support.releasing import tracecloak
from tracecloak.pipelines.runners.flags import beam_flags
from tracecloak.pipelines.stream import run as stream
from tracecloak.pipelines.stream.config import (
    StreamConfig,
    further_fields,
    own_fields,
    stream_json_schema,
)
from tracecloak.pipelines.stream.epoch import manifest_of
from tracecloak.pipelines.stream.plan import StreamPlan, digest_of, load_stream, resolve
from tracecloak.pipelines.stream.run import StreamOutcome, stream_options
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.streams.stream_caps import CaseCap
from tracecloak.transforms.formats.messages import Operations
from tracecloak.transforms.formats.registry_messages import RegistrySchemas
from tracecloak.transforms.services.schema_registry import SchemaRegistry

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "schemas" / "files" / "stream.schema.json").read_text())


def given(folder: Path, **changes: Any) -> dict[str, Any]:
    """The flags that are required."""
    vocabulary = folder / "vocabulary.txt"
    vocabulary.write_text("A\nB\n")
    flags = {
        "release_id": "ward", "epoch": "1", "input_subscription": "projects/p/subscriptions/s",
        "output": str(folder / "out"), "key_store": str(folder / "keys"), "epsilon": "1",
        "vocabulary": str(vocabulary), "period": "1h", "horizon": "24", "start": "2026-11-22",
        "gap": "30m", "max_lifetime": "1d",
    }  # fmt: skip
    return {k: v for k, v in {**flags, **changes}.items() if v is not None}


def as_flags(values: dict[str, Any]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[StreamConfig, list[str]]]:
    """What the command would run."""
    seen: list[tuple[StreamConfig, list[str]]] = []

    def noted(config: StreamConfig, rest: list[str]) -> StreamOutcome:
        seen.append((config, list(rest)))
        return StreamOutcome("folder", False)

    monkeypatch.setattr(stream, "run_stream", noted)
    return seen


def test_flags_and_a_file_say_the_same(
    tmp_path: Path, asked: list[tuple[StreamConfig, list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    values = given(tmp_path, individual_id="person", schema="json", end_activity="B")
    assert tracecloak("stream", *as_flags(values), "--where", "ward = north") == 0
    assert capsys.readouterr().out == "stopped  folder\n"
    body = {k: v for k, v in values.items() if k != "individual_id"}
    body |= {"columns": {"individual_id": "person"}, "where": [
        {"column": "ward", "equals": ["north"]}
    ]}  # fmt: skip
    path = tmp_path / "stream.yaml"
    path.write_text(yaml.safe_dump({**body, "horizon": 24}))
    assert tracecloak("stream", path) == 0
    assert tracecloak("stream", path, "--epoch", "2", "--num_workers=3") == 0
    (first, _), (same, _), (other, rest) = asked
    assert first == same
    assert rest == ["--num_workers=3"]
    assert (other.epoch, digest_of(other)) == ("2", digest_of(first))
    assert resolve(first).rule.cap == CaseCap(1)
    assert first.end_activity == ("B",)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": None}, "epsilon: required"),
    ({"vocabulary": None}, "vocabulary: required"),
    ({"vocabulary": "/nowhere/at/all"}, "vocabulary: .*cannot be read"),
    ({"input_subscription": None}, "input_subscription or input_topic, one of them"),
    ({"input_topic": "projects/p/topics/t"}, "one of them"),
    ({"gap": "30"}, "gap: .*with a unit"),
    ({"period": "0.5ms"}, "period: .*whole number of milliseconds"),
    ({"start": "tomorrow"}, "start: "),
    ({"epoch": "../1"}, "epoch: .*ASCII letters"),
    ({"epoch": "a@b"}, "epoch: .*ASCII letters"),
    ({"view": "sliding"}, "sliding_steps goes with view sliding"),
    ({"product": "log", "view": "total"}, "product log has view window"),
    ({"product": "log", "w_event_steps": "3"}, "w_event_steps"),
    ({"first_date": "2026-01-01"}, "first_date: it is for product log"),
    ({"max_cases_per_individual": "2"}, "name their field with individual_id"),
    (
        {"product": "log", "individual_id": "p", "max_cases_per_individual": "2"},
        "must be 1 for product log",
    ),
    ({"end_activity": "Z"}, "end_activities must be in the vocabulary"),
    ({"formats": "xes"}, "xes is for product log"),
    ({"formats": "png"}, "must be one of json, xes, csv, parquet"),
    (
        {"product": "graph"},
        "product: must be one of dfg, variants, indicators, log, got 'graph'",
    ),
    ({"product": "variants", "l2_clip": "3"}, "l2_clip: it is for product dfg or log"),
    ({"horizon": "0"}, "horizon"),
    ({"no_such_flag": "1"}, "unknown flag --no_such_flag"),
    ({"input_subscription": "kafka://b:9092/t"}, "input_subscription is Pub/Sub's"),
    ({"reject_topic": "kafka://b:9092"}, "reject_topic: a topic of Kafka is kafka://HOST"),
    (dict.fromkeys(["reject_topic", "output_topic"], "kafka://b:9092/t"), "of its own"),
    ({"output_topic": "kafka://b:9092"}, "output_topic: a topic of Kafka is kafka://HOST"),
    ({"output_topic": "kafka:///t"}, "output_topic: a topic of Kafka is kafka://HOST"),
    ({"kafka_properties": "client.properties"}, "there is none: name one as kafka://"),
    ({"kafka_token": "msk"}, "kafka_token is for topics of Kafka, and there is none"),
    (
        {"output_topic": "kafka://a:1/t", "kafka_token": "no"},
        "kafka_token: .* one of msk, got 'no'",
    ),
    *(
        (
            {"input_subscription": None, "input_topic": f"kafka://{servers}/t"},
            "input_topic: Azure Event Hubs is not read.*Copy the messages to a topic of Kafka",
        )
        for servers in (
            "b:1, Ward.ServiceBus.Windows.net:9093",
            "WARD.SERVICEBUS.WINDOWS.NET",
            "ward.servicebus.usgovcloudapi.net.:9093,b",
            "ward.servicebus.chinacloudapi.cn.",
        )
    ),
    ({"schema": "confluent-avro"}, "schema confluent-avro needs the registry.*schema_registry"),
    ({"schema": "protobuf"}, "schema: .*'confluent-json' or 'confluent-protobuf'"),
    ({"schema_registry": "http://a:1"}, "give schema confluent-avro, .* or confluent-protobuf"),
    ({"schema_registry_properties": "x"}, "schema_registry and its properties are for"),
    ({"schema_registry": "http://me:secret@a:1"}, "--schema_registry has a password in it"),
    ({"operation": "op"}, "operation_events its values that are events: give both"),
    ({"operation_events": "c"}, "operation_events its values that are events: give both"),
    (
        {"operation": "op", "operation_events": "c", "schema": "avro"},
        "operation: an event of schemas/files/event.avsc has no such field",
    ),
]


def test_what_cannot_be_is_refused_with_the_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for changes, said in REFUSED:
        assert tracecloak("stream", *as_flags(given(tmp_path, **changes))) == 2, changes
        error = capsys.readouterr().err
        assert re.search(said, error), (changes, error)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(
    "schema", [SCHEMA, stream_json_schema()], ids=["in the tree", "of the code"]
)
def test_the_schema_of_the_file_takes_what_the_code_takes(
    tmp_path: Path, schema: dict[str, Any]
) -> None:
    validator = jsonschema.Draft202012Validator(schema)
    body = {**given(tmp_path), "horizon": 24, "epsilon": 1, "columns": {"individual_id": "who"}}
    for more in (
        {},
        {"schema": "avro", "end_activity": ["A"], "where": [{"column": "x", "equals": "y"}]},
        {"view": "sliding", "sliding_steps": 7, "delta": 1e-6, "max_disorder": "1.5s"},
        {"product": "log", "log_params": {"variants": "privtree"}, "formats": "xes"},
    ):
        validator.validate({**body, **more})
        path = tmp_path / "stream.yaml"
        path.write_text(yaml.safe_dump({**body, **more}))
        load_stream(str(path), {})
    for wrong in ({"period": "1 fortnight"}, {"view": "week"}, {"colums": {}}, {"horizon": "many"}):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({**body, **wrong})


def test_a_default_clip_is_in_the_manifest_where_it_holds(tmp_path: Path) -> None:
    default = load_stream(None, given(tmp_path, max_trace_length="12"))
    manifest = manifest_of(resolve(default), "k")
    assert manifest.params["l2_clip"] == "4.2"
    for changes in ({"delta": "0"}, {"product": "variants"}, {"product": "log"}):
        if changes.get("product") == "log":
            changes |= {"first_date": "2026-01-01", "last_date": "2026-12-31"}
        config = load_stream(None, given(tmp_path, **changes))
        assert resolve(config).begun == config and config.l2_clip is None


def test_a_feed_of_changes_is_read_as_its_keys_say(tmp_path: Path) -> None:
    changes = {"schema": "confluent-avro", "schema_registry": "https://a:1", "operation": "op"}
    config = load_stream(None, given(tmp_path, **changes, operation_events="c, r"))
    [layout] = [one.layout for one in resolve(config).inputs]
    assert layout.operations == Operations("op", ("c", "r"))
    assert layout.kind == RegistrySchemas("avro", SchemaRegistry("https://a:1"))
    plain = load_stream(None, given(tmp_path))
    layout = resolve(plain).inputs[0].layout
    assert (layout.kind, layout.operations) == (None, None)
    # A name that only has the words is somebody else's.
    for server in ("servicebus.windows.net.ward.example:9", "a-servicebus.windows.net"):
        there = {"input_subscription": None, "input_topic": f"kafka://{server}/t"}
        assert load_stream(None, given(tmp_path, **there)).kafka("input_topic") is not None
    # Steps may be sent to Event Hubs, as nobody asks those who take them for the time.
    hub = {"output_topic": "kafka://ward.servicebus.windows.net:9093/steps"}
    assert load_stream(None, given(tmp_path, **hub)).kafka("output_topic") is not None


def test_no_flag_is_one_of_beam() -> None:
    ours = {f"--{name}" for name in (*own_fields(), *further_fields()) if name != "runner"}
    assert not ours & beam_flags()


def test_an_epoch_continues_on_dataflow_only_by_an_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before a service is reached or a key is made, so nothing is charged."""
    begun = False
    monkeypatch.setattr(StreamPlan, "is_begun", property(lambda _: begun))
    config = load_stream(
        None, {**given(tmp_path), "runner": "DataflowRunner", "worker_keys": "gs://bucket/keys"}
    )
    of_beam = ["--project=p", "--region=r", "--temp_location=gs://b/t", "--job_name=ward"]
    with pytest.raises(UsageError, match=r"--update continues a job.*key_store"):
        stream.run_stream(config, [*of_beam, "--update"])
    options = stream_options("DataflowRunner", of_beam)
    stream.require_update(config, options, is_new=True)
    begun = True
    with pytest.raises(UsageError, match=r"was begun before.*Give --update with"):
        stream.run_stream(config, of_beam)
    options = stream_options("DataflowRunner", [*of_beam, "--update"])
    stream.require_update(config, options, is_new=False)
    flink = config.model_copy(update={"runner": "FlinkRunner"})
    stream.require_update(flink, stream_options("DataflowRunner", of_beam), is_new=False)
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({}, None),
        ({"input_subscription": None, "input_topic": "projects/hospital/topics/t"}, None),
        ({"input_subscription": "s"}, "input_subscription or input_topic: .*projects/"),
    ],
)
def test_the_source_is_beams_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, Any], said: str | None
) -> None:
    monkeypatch.setattr(stream, "import_extra", lambda *_: None)
    named = {"input_subscription": "projects/hospital/subscriptions/s", **source}
    config = load_stream(None, given(tmp_path, **named))
    if said is None:
        (made,) = stream.source_of(resolve(config))
        assert isinstance(made, ReadFromPubSub)
        # Elements then have the time of their publishing, which no sender sets.
        assert made._source.timestamp_attribute is None
        assert made.with_attributes
    else:
        with pytest.raises(UsageError, match=said):
            stream.source_of(resolve(config))


def test_what_keys_are_wrong_together_is_said_without_all_that_was_given(tmp_path: Path) -> None:
    """A ledger's URL can hold a password."""
    both = given(tmp_path, input_topic="projects/p/topics/t", ledger="postgresql://u:secret@h/d")
    with pytest.raises(UsageError) as caught:
        load_stream(None, both)
    assert str(caught.value) == "give input_subscription or input_topic, one of them"

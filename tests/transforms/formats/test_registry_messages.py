"""Messages of schemas of a registry: one identity in every schema, and none that does harm."""

from __future__ import annotations

import base64
import gc
import io
import json
import pickle
import resource
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import fastavro
import pytest
from confluent_kafka import schema_registry as confluent
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    json_format,
    message_factory,
    text_format,
    timestamp_pb2,
    wrappers_pb2,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.certificates import certificate
from tests.support.registry_double import RegistryDouble, registry_double
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import MESSAGE_REASONS, Unread
from tracecloak.transforms.formats import registry_messages
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.formats.registry_messages import Kind, RegistrySchemas
from tracecloak.transforms.services import schema_registry
from tracecloak.transforms.services.schema_registry import SchemaRegistry

NEW_YEAR = 1_767_225_600_000_000  # 2026-01-01 in microseconds UTC


class Sent(NamedTuple):
    data: bytes
    attributes: dict[str, str] = {}  # noqa: RUF012 - never written to


@pytest.fixture(scope="module")
def running() -> Iterator[RegistryDouble]:
    with registry_double() as double:
        yield double


@pytest.fixture
def registry(running: RegistryDouble, monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryDouble]:
    """An empty registry, which clients ask without patience."""
    fast = {**schema_registry._SETTINGS, "max.retries": 0}
    monkeypatch.setattr(schema_registry, "_SETTINGS", fast)
    running.schemas, running.versions, running.asked = {}, {}, []
    running.away = running.authorization = None
    forget()
    yield running
    forget()


def forget() -> None:
    """Forgets what was asked of registries."""
    registry_messages._reader.cache_clear()
    registry_messages._client.cache_clear()
    registry_messages._unknown_until.clear()


def framed(number: int, data: bytes) -> Sent:
    return Sent(b"\0" + number.to_bytes(4, "big") + data)


def datum(schema: Any, number: int, body: Any) -> Sent:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), body)
    return framed(number, stream.getvalue())


def event_schema(case_id: Any = "string", timestamp: Any = "string", *more: Any) -> dict[str, Any]:
    fields = [("case_id", case_id), ("activity", "string"), ("timestamp", timestamp), *more]
    return {
        "type": "record",
        "name": "Event",
        "namespace": "ward",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }


def layout(registry: RegistryDouble, kind: Kind = "avro", **more: Any) -> Any:
    mapping = ColumnMapping(**more.pop("columns", {}))
    schemas = RegistrySchemas(kind, SchemaRegistry(registry.url))
    return MessageFormat(mapping, kind=schemas, **more)


def decoded(
    sent: Sequence[Any], message_format: MessageFormat
) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
    """Events, and (message, reason) of the rejects."""
    events, rejects = message_format.decode(sent, range(len(sent)))
    reasons = [(row["publish_time"], row["reason"]) for row in rejects.to_pylist()]
    assert {reason for _, reason in reasons} <= set(MESSAGE_REASONS)
    return events.to_pylist(), reasons


AT = "2026-01-01T00:00:00Z"
BODY = {"case_id": "c", "activity": "A", "timestamp": AT}


def test_a_schema_that_changes_the_type_of_a_field_changes_no_identity(
    registry: RegistryDouble,
) -> None:
    """Catches a case that falls into several when its sender's schema evolves."""
    ways: list[tuple[Any, Any]] = [
        ("string", "5"), ("int", 5), ("long", 5), ("float", 5.0), ("double", 5.0),
        (["null", "long", "string"], "5"), (["null", "string", "long"], 5),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("5.00")),
        ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9,
          "scale": 0}, Decimal(5)),
        ({"type": "long", "logicalType": "time-micros"}, 5),
    ]  # fmt: skip
    sent = []
    for kind, value in ways:
        plain = kind["type"] if isinstance(kind, dict) and "time" in kind["logicalType"] else kind
        schema = event_schema(kind)
        body = {"case_id": value, "activity": "A", "timestamp": AT}
        sent.append(datum(event_schema(plain), registry.add(schema), body))
    rows, rejects = decoded(sent, layout(registry))
    assert rejects == []
    assert [row["case_id"] for row in rows] == ["5"] * len(ways)
    assert {row["timestamp"] for row in rows} == {NEW_YEAR}
    text = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"  # as it was sent, and not as a UUID is written
    body = {"case_id": text, "activity": "A", "timestamp": AT}
    uuids = registry.add(event_schema({"type": "string", "logicalType": "uuid"}))
    rows, _ = decoded([datum(event_schema(), uuids, body)], layout(registry))
    assert rows[0]["case_id"] == text


NAMELESS: list[tuple[Any, Any, str]] = [
    ("double", 5.5, "case id that is no whole number"),
    ("double", float("inf"), "field that is no scalar"),
    ("bytes", b"5", "field that is no scalar"),
    ({"type": "array", "items": "string"}, ["5"], "field that is no scalar"),
    ({"type": "map", "values": "string"}, {"a": "5"}, "field that is no scalar"),
    (["null", "string"], None, "no case id"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 9},
     Decimal("123456789012345678.123456789"), "field that is no scalar"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("5.25"),
     "case id that is no whole number"),
]  # fmt: skip


def test_what_names_nobody_is_a_reject(registry: RegistryDouble) -> None:
    well = datum(event_schema(), registry.add(event_schema()), BODY)
    sent = [well]
    for kind, value, _ in NAMELESS:
        schema = event_schema(kind)
        sent.append(datum(schema, registry.add(schema), {**BODY, "case_id": value}))
    rows, rejects = decoded([*sent, well], layout(registry))
    assert [row["case_id"] for row in rows] == ["c", "c"]
    assert rejects == [(i, reason) for i, (*_, reason) in enumerate(NAMELESS, 1)]


def test_a_time_is_of_the_unit_of_its_schema(registry: RegistryDouble) -> None:
    """Whatever unit is declared for numbers without one, and for a wall clock in the zone."""
    micros, hour_us = NEW_YEAR + 1_234_567, 3_600_000_000
    millis_us = micros // 1_000 * 1_000
    ways = [
        ("long", "timestamp-millis", True, millis_us // 1_000, millis_us),
        ("long", "timestamp-micros", True, micros, micros),
        ("long", "timestamp-nanos", True, micros * 1_000 + 999, micros),
        ("long", "local-timestamp-millis", True, millis_us // 1_000, millis_us - hour_us),
        ("long", "local-timestamp-micros", True, micros, micros - hour_us),
        ("long", "timestamp-micros", False, micros, micros - hour_us),  # as Iceberg says it
        ("int", "date", True, NEW_YEAR // 86_400_000_000, NEW_YEAR - hour_us),
    ]
    sent = []
    for kind, logical, is_utc, number, _ in ways:
        declared = {"type": kind, "logicalType": logical, "adjust-to-utc": is_utc}
        written = registry.add(event_schema("string", declared))
        sent.append(datum(event_schema("string", kind), written, {**BODY, "timestamp": number}))
    plain = registry.add(event_schema("string", "long"))
    sent.append(datum(event_schema("string", "long"), plain, {**BODY, "timestamp": 7}))
    columns = {"timestamp_unit": "s", "time_zone": "Europe/Berlin", "timestamp_format": "%d.%m.%Y"}
    rows, rejects = decoded(sent, layout(registry, columns=columns))
    assert rejects == []
    assert [row["timestamp"] for row in rows] == [*(way[-1] for way in ways), 7_000_000]
    _, rejects = decoded(sent[-1:], layout(registry))
    assert rejects == [(0, "time that is a number without a unit")]


@pytest.mark.parametrize("logical", ["timestamp-millis", "local-timestamp-micros"])
def test_a_time_after_the_year_9999_rejects_no_more_than_it_must(
    registry: RegistryDouble, logical: str
) -> None:
    """Catches a field that nobody asks for, with `never` in it, that takes its message along."""
    kind = {"type": "long", "logicalType": logical}
    schema = event_schema("string", kind, ("until", kind))
    plain = event_schema("string", "long", ("until", "long"))
    number = registry.add(schema)
    body = {"case_id": "c", "activity": "A", "timestamp": 0, "until": (1 << 63) - 1}
    sent = [datum(plain, number, body), datum(plain, number, {**body, "timestamp": 1 << 62})]
    rows, rejects = decoded(sent, layout(registry))
    assert [row["timestamp"] for row in rows] == [0]
    assert rejects == [(1, "time out of range")]


def test_a_schema_refers_to_others(registry: RegistryDouble) -> None:
    """Types of other subjects, one of them by two ways, and of JSON Schema too."""
    unit = {"type": "record", "name": "ward.Unit", "fields": [{"name": "name", "type": "string"}]}
    registry.add(unit, subject="unit")
    to_unit = {"name": "ward.Unit", "subject": "unit", "version": 1}
    place = {"type": "record", "name": "ward.Place",
             "fields": [{"name": "unit", "type": "ward.Unit"}]}  # fmt: skip
    registry.add(place, subject="place", references=[to_unit])
    to_place = {"name": "ward.Place", "subject": "place", "version": 1}
    schema = event_schema("string", "string", ("place", "ward.Place"), ("unit", "Unit"))
    number = registry.add(schema, references=[to_unit, to_place])
    whole = event_schema("string", "string", ("place", {**place, "fields": [
        {"name": "unit", "type": unit}]}), ("unit", "ward.Unit"))  # fmt: skip
    there = {"name": "ICU"}
    body = {"case_id": "c", "activity": "A", "timestamp": AT, "place": {"unit": there},
            "unit": there}  # fmt: skip
    columns = {"individual_id": "place.unit.name"}
    rows, rejects = decoded([datum(whole, number, body)], layout(registry, columns=columns))
    assert (rejects, rows[0]["individual_id"]) == ([], "ICU")

    registry.add({"type": "string", "maxLength": 3}, "JSON", "text")
    to_text = {"name": "text.json", "subject": "text", "version": 1}
    registry.add({"$ref": "text.json"}, "JSON", "case", references=[to_text])
    other = registry.add(
        {"type": "object", "properties": {"case_id": {"$ref": "case.json"}}},
        "JSON",
        references=[{"name": "case.json", "subject": "case", "version": 1}],
    )
    bodies = [{**body, "case_id": name} for name in ("c-1", "c-12")]
    sent = [framed(other, json.dumps(one).encode()) for one in bodies]
    rows, rejects = decoded(sent, layout(registry, "json"))
    assert ([row["case_id"] for row in rows], rejects) == (["c-1"], [(1, Unread.NOT_OF_SCHEMA)])


def test_a_message_of_json_is_of_its_schema_or_a_reject(registry: RegistryDouble) -> None:
    number = registry.add({"type": "object", "required": ["activity"]}, "JSON")
    anything = registry.add({}, "JSON")
    text = json.dumps({"case_id": 5.0, "activity": "A", "timestamp": AT}).encode()
    sent = [
        framed(number, text), framed(number, b'{"case_id": "5"}'), framed(number, b"[1]"),
        framed(number, b"{"), framed(number, b'{"activity": "\xff"}'), framed(number, b"{" * 9_999),
        framed(99, text), framed(1 << 31, text), Sent(text), Sent(b"\0\0\0\0\1"),
        Sent(b"\1" + b"0" * 16 + text), Sent(b"\2" + text), framed(anything, b"[1]"),
    ]  # fmt: skip
    rows, rejects = decoded(sent, layout(registry, "json"))
    assert [row["case_id"] for row in rows] == ["5"]
    assert rejects == [
        *((i, Unread.NOT_OF_SCHEMA) for i in (1, 2, 3, 4, 5)),
        *((i, Unread.UNKNOWN_SCHEMA) for i in (6, 7)),
        *((i, Unread.NO_FRAME) for i in (8, 9, 10, 11)),
        (12, Unread.NOT_OF_SCHEMA),
    ]
    # A number that no registry has is not asked for: what answers to it is no schema.
    assert f"/schemas/ids/{1 << 31}" not in registry.asked


def test_what_confluents_serialiser_sends_is_read(registry: RegistryDouble) -> None:
    client = confluent.SchemaRegistryClient({"url": registry.url})
    serialise = AvroSerializer(client, json.dumps(event_schema()))
    sent = serialise(BODY, SerializationContext("topic", MessageField.VALUE))
    assert decoded([Sent(sent)], layout(registry))[0][0]["timestamp"] == NEW_YEAR


def test_a_schema_is_asked_for_once(registry: RegistryDouble) -> None:
    number = registry.add(event_schema())
    sent = [datum(event_schema(), number, BODY)] * 50
    travelled = pickle.loads(pickle.dumps(layout(registry)))  # noqa: S301 - it is our own
    both = layout(registry), travelled
    for one in both:
        assert len(decoded(sent, one)[0]) == 50
    assert registry.asked == [f"/schemas/ids/{number}"]


def test_a_schema_that_is_not_there_is_asked_for_again_after_a_while(
    registry: RegistryDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a wrong sender each of whose messages is a question, and a memory without a bound."""
    monkeypatch.setattr(registry_messages, "_MAX_SCHEMAS", 2)
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(registry_messages, "time", clock)
    sent = [datum(event_schema(), 1, BODY)] * 3
    assert decoded(sent, layout(registry))[1] == [(i, Unread.UNKNOWN_SCHEMA) for i in range(3)]
    assert registry.asked == ["/schemas/ids/1"]
    registry.add(event_schema())
    now[0] += 9.9
    assert decoded(sent, layout(registry))[1] == [(i, Unread.UNKNOWN_SCHEMA) for i in range(3)]
    assert registry.asked == ["/schemas/ids/1"]
    now[0] += 0.2
    assert len(decoded(sent, layout(registry))[0]) == 3
    others = [framed(number, b"\2c") for number in (7, 8, 9)]
    assert len(decoded(others, layout(registry))[1]) == 3
    assert len(registry_messages._unknown_until) <= 2
    assert registry_messages._reader.cache_info().maxsize == 1_000


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
DEEP = [{"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}, *(
    {"type": "record", "name": f"R{i}", "fields": [{"name": "a", "type": f"R{i - 1}"}]}
    for i in range(1, 2_000)
)]  # fmt: skip
WIDE = [{"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}, *(
    {"type": "record", "name": f"R{i}",
     "fields": [{"name": name, "type": f"R{i - 1}"} for name in "ab"]}
    for i in range(1, 60)
)]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (event_schema("string", "string", ("more", NODE)), b"\2c\2A\2t" + b"\2" * 200_000),
        (event_schema("string", "string", ("more", {"type": "array", "items": "null"})),
         b"\2c\2A\2t" + b"\xfe\xff\xff\xff\xff\xff\xff\x7f"),
        (event_schema("string", "string", ("more", {"type": "array", "items": {
            "type": "record", "name": "E", "fields": []}})), b"\2c\2A\2t" + b"\xff" * 7 + b"\x7f"),
        (event_schema("string", "string", ("more", {"type": "array", "items": {
            "type": "fixed", "name": "E", "size": 0}})), b"\2c\2A\2t" + b"\xff" * 7 + b"\x7f"),
        (event_schema("string", "string", ("more", "null")), b"\2c\2A\2t"),
        (DEEP, b"\xfe\x1f\2"),
        (WIDE, b"\x76" + b"\2" * 1_000),
        ("[" * 100_000, b"\2c"),
        ("{}", b"\2c"),
        ('"nothing"', b"\2c"),
        (event_schema("string", "string", ("more", "Nowhere")), b"\2c\2A\2t\0"),
        (event_schema("string", "string", *((f"f{i}", "int") for i in range(30_000))), b"\2c\2A"),
        (event_schema("string", "string", ("x", {"type": "record", "name": "Event",
                                                  "fields": []})), b"\2c\2A\2t"),
    ],
)  # fmt: skip
def test_a_hostile_schema_harms_nobody(registry: RegistryDouble, schema: Any, data: bytes) -> None:
    """Catches a message that takes the stack, the memory or the time of the process."""
    good, bad = registry.add(event_schema()), registry.add(schema)
    sent = [datum(event_schema(), good, BODY), framed(bad, data), framed(bad, data)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows, rejects = decoded(sent, layout(registry))
    assert (len(rows), rejects) == (1, [(1, Unread.UNFIT_SCHEMA), (2, Unread.UNFIT_SCHEMA)])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # kilobytes
    assert registry.asked.count(f"/schemas/ids/{bad}") == 1
    gc.collect()


def test_a_schema_that_cannot_be_used_is_refused(registry: RegistryDouble) -> None:
    """Rules would change what is read; other kinds, loops of references and long ones too."""
    rule = {"name": "r", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT"}
    loop = [{"name": "ward.Event", "subject": "loop", "version": 1}]
    numbers = [
        registry.add(event_schema(), ruleSet={"domainRules": [rule]}),
        registry.add({"type": "object"}, "JSON"),
        registry.add("message Event {}", "PROTOBUF"),
        registry.add(event_schema(), subject="loop", references=loop),
        registry.add({**event_schema(), "doc": "x" * (2 << 20)}),
    ]
    sent = [datum(event_schema(), number, BODY) for number in numbers]
    _, rejects = decoded(sent, layout(registry))
    assert rejects == [(i, Unread.UNFIT_SCHEMA) for i in range(len(numbers))]
    missing = registry.add(
        event_schema(), references=[{"name": "x", "subject": "none", "version": 1}]
    )
    _, rejects = decoded([datum(event_schema(), missing, BODY)], layout(registry))
    assert rejects == [(0, Unread.UNKNOWN_SCHEMA)]


def test_a_schema_of_json_fetches_nothing(registry: RegistryDouble) -> None:
    """Catches a schema that has this machine ask whatever address its writer likes."""
    there = f"{registry.url}/elsewhere"
    number = registry.add({"type": "object", "allOf": [{"$ref": there}]}, "JSON")
    based = registry.add({"$id": f"{there}/a", "type": "object", "allOf": [{"$ref": "b"}]}, "JSON")
    endless = registry.add({"$ref": "#"}, "JSON")
    wrong = registry.add({"type": 5}, "JSON")
    text = json.dumps({"case_id": "c", "activity": "A", "timestamp": AT}).encode()
    sent = [framed(one, text) for one in (number, based, endless, wrong)]
    rows, rejects = decoded(sent, layout(registry, "json"))
    assert rows == []
    assert rejects == [*((i, Unread.NOT_OF_SCHEMA) for i in range(3)), (3, Unread.UNFIT_SCHEMA)]
    assert not [path for path in registry.asked if path.startswith("/elsewhere")]


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_registry_that_is_away_rejects_nothing(registry: RegistryDouble, status: int) -> None:
    sent = [datum(event_schema(), registry.add(event_schema()), BODY)]
    registry.away = status
    with pytest.raises(RetryLater, match=rf"cannot answer now \(HTTP {status}\)"):
        decoded(sent, layout(registry))
    with pytest.raises(RetryLater):
        SchemaRegistry(registry.url).check()
    registry.away = None
    assert len(decoded(sent, layout(registry))[0]) == 1


def test_a_registry_that_refuses_is_told_without_the_secret(
    registry: RegistryDouble, tmp_path: Any
) -> None:
    registry.authorization = "Basic dXNlcjpzZWNyZXQ="  # user:secret
    with pytest.raises(UsageError, match=r"refuses this client"):
        SchemaRegistry(registry.url).check()
    path = tmp_path / "registry.properties"
    path.write_text("# who we are\nbasic.auth.user.info = user:secret\ntimeout=5\n")
    known = SchemaRegistry(registry.url, str(path))
    known.check()
    sent = [datum(event_schema(), registry.add(event_schema()), BODY)]
    assert len(decoded(sent, MessageFormat(kind=RegistrySchemas("avro", known)))[0]) == 1
    for text, told in (
        ("basic.auth.user.info=secret", "must be in the form"),
        ("no.such.setting=secret", "Unrecognized properties: no.such.setting"),
        ("timeout=secret", "timeout must be a number"),
        ("ssl.ca.location=/secret", "No such file"),
        ("secret", "line 1 of"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=told) as caught:
            known.check()
        assert "secret" not in str(caught.value)
    registry.authorization = None
    with pytest.raises(UsageError, match=r"is not one \(HTTP 404\)"):
        SchemaRegistry(f"{registry.url}/nowhere").check()


def test_a_registry_is_known_by_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_registry, "_SETTINGS", {"timeout": 20.0, "max.retries": 0})
    private, public = certificate("registry")
    for name, text in (("tls", private + public), ("ca", public), ("other", certificate("x")[1])):
        (tmp_path / f"{name}.pem").write_text(text)
    path = tmp_path / "registry.properties"
    with registry_double(tmp_path / "tls.pem") as secured:
        known = SchemaRegistry(secured.url, str(path))
        path.write_text(f"ssl.ca.location={tmp_path / 'ca.pem'}\n")
        known.check()
        path.write_text(f"ssl.ca.location={tmp_path / 'other.pem'}\n")
        with pytest.raises(UsageError, match=r"certificate verify"):
            known.check()


@pytest.mark.parametrize(
    "url", ["", "registry:8081", "ftp://a", "http://user:pw@a:1", "https://a?key=pw", "http://"]
)
def test_an_address_of_a_registry_is_one_and_holds_no_secret(url: str) -> None:
    with pytest.raises(UsageError, match="schema_registry") as caught:
        SchemaRegistry(url)
    assert "pw" not in str(caught.value)


# --- Protobuf ----------------------------------------------------------------------------------


def field(name: str, number: int, kind: str, more: str = "", label: str = "OPTIONAL") -> str:
    """A field in the text of a descriptor; a kind with a point is a message."""
    of = f'TYPE_MESSAGE type_name: "{kind}"' if "." in kind else f"TYPE_{kind}"
    return f'field {{ name: "{name}" number: {number} type: {of} label: LABEL_{label} {more} }}'


_FIELDS = [
    field("case_id", 1, "INT64"), field("activity", 2, "ENUM", 'type_name: ".ward.Step"'),
    field("timestamp", 3, ".google.protobuf.Timestamp"), field("patient", 4, ".shared.Patient"),
    field("note", 5, ".google.protobuf.StringValue"), field("ward", 6, "STRING", "oneof_index: 0"),
    field("bed", 7, "UINT64", "oneof_index: 0"), field("tags", 8, "STRING", label="REPEATED"),
    field("raw", 9, "BYTES"), field("within", 10, ".ward.Visits.Visit"),
]  # fmt: skip
# Of `syntax = "proto3"`: a file as its compiler leaves it, with a type in a type, and one before.
_FILE = f"""
package: "ward" syntax: "proto3" dependency: "google/protobuf/timestamp.proto"
dependency: "google/protobuf/wrappers.proto" dependency: "shared/patient.proto"
enum_type {{ name: "Step" value {{ name: "NONE" number: 0 }} value {{ name: "TRIAGE" number: 1 }} }}
message_type {{ name: "Other" }} message_type {{ name: "Visits"
  nested_type {{ name: "Visit" {" ".join(_FIELDS)} oneof_decl {{ name: "where" }} }} }}
"""
_NAME = field("name", 1, "STRING")
_PATIENT = f'package: "shared" syntax: "proto3" message_type {{ name: "Patient" {_NAME} }}'


def compiled(text: str) -> str:
    """A file of Protobuf in the form of a registry."""
    file = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    return base64.b64encode(file.SerializeToString()).decode()


def visits(registry: RegistryDouble, text: str = _FILE) -> int:
    registry.add(compiled(_PATIENT), "PROTOBUF", subject="patients")
    versions = len(registry.versions["patients"])
    named = {"name": "shared/patient.proto", "subject": "patients", "version": versions}
    return registry.add(compiled(text), "PROTOBUF", references=[named])


def visit(number: int, index: bytes = b"\4\2\0", **fields: Any) -> Sent:
    """A message of the type in the second type of `_FILE`, or of another index."""
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for name, text in (("shared/patient.proto", _PATIENT), ("v", _FILE)):
        file = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
        file.name = name
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("ward.Visits.Visit"))
    return framed(number, index + json_format.ParseDict(fields, kind()).SerializeToString())


def test_a_message_of_protobuf_is_read_by_its_own_schema(registry: RegistryDouble) -> None:
    """Enums are their names, a Timestamp is a time, and what is not set is empty or 0."""
    number = visits(registry)
    well = {"case_id": 2**62, "activity": "TRIAGE", "timestamp": "2026-01-01T00:00:00.000001Z"}
    older = visits(registry, _FILE.replace('"case_id" number: 1', '"case_id" number: 11'))
    sent = [
        visit(number, **well, note="x", bed=7, patient={"name": "Jo"}),
        visit(number, activity=5, timestamp=AT, ward="B"),
        visit(older, **well),  # whose case is a field that this one lacks
    ]
    where = {"columns": {"filters": ()}}
    rows, rejects = decoded(sent, layout(registry, "protobuf", event_id="note", **where))
    assert [(r["case_id"], r["activity"], r["timestamp"], r["event_id"]) for r in rows] == [
        (str(2**62), "TRIAGE", NEW_YEAR + 1, "x"), ("0", "5", NEW_YEAR, None),
        ("0", "TRIAGE", NEW_YEAR + 1, None),
    ]  # fmt: skip
    assert rejects == []
    within = {"case_id": "patient.name", "activity": "bed"}
    rows, rejects = decoded(sent[:2], layout(registry, "protobuf", columns=within))
    assert [(r["case_id"], r["activity"]) for r in rows] == [("Jo", "7")]
    assert rejects == [(1, "no case id")]
    for name in ("tags", "raw", "within"):
        deep = visit(number, **well, within=well, raw="eA==", tags=["x"])
        _, rejects = decoded([deep], layout(registry, "protobuf", columns={"case_id": name}))
        assert rejects == [(0, "field that is no scalar")]


def test_bytes_that_are_none_of_protobuf_are_rejects(registry: RegistryDouble) -> None:
    number = visits(registry)
    well = visit(number, case_id=1, activity="TRIAGE", timestamp=AT)
    wrong = [
        well.data[:5] + b"\xff" * 200_000,  # an index without an end
        well.data[:5] + b"\xfe\xff\xff\xff\x0f",  # of two thousand million parts
        well.data[:5] + b"\2\1",  # negative
        well.data[:5] + b"\2\x10",  # of the ninth type of two
        well.data[:5] + b"\4\2",  # without its end
        well.data[:8] + b"\x08" + b"\xff" * 11,
        well.data[:-1],
        well.data[:8] + nested(150),
        well.data[:8] + b"\x1a\x06\x10\x80\x94\xeb\xdc\x03",  # 1,000,000,000 nanoseconds
    ]
    rows, rejects = decoded([well, *map(Sent, wrong)], layout(registry, "protobuf"))
    assert len(rows) == 1
    assert rejects == [(i + 1, Unread.NOT_OF_SCHEMA) for i in range(len(wrong))]
    # The first type of the file has no field that is mapped.
    for index in (b"\0", b"\2\0"):
        _, rejects = decoded([framed(number, index)], layout(registry, "protobuf"))
        assert rejects == [(0, "no case id")]


def test_a_schema_of_protobuf_that_cannot_be_used_is_refused(registry: RegistryDouble) -> None:
    loop = [{"name": "a.proto", "subject": "loop", "version": 1}]
    nowhere = field("x", 1, ".B")
    texts = [
        'package: "ward" dependency: "os/path.proto"', f'message_type {{ name: "A" {nowhere} }}',
    ]  # fmt: skip
    numbers = [registry.add(compiled(text), "PROTOBUF") for text in texts]
    numbers.append(registry.add("AAAA", "PROTOBUF"))
    numbers.append(
        registry.add(compiled('dependency: "a.proto"'), "PROTOBUF", "loop", references=loop)
    )
    sent = [framed(number, b"\0") for number in [*numbers, registry.add(event_schema())]]
    _, rejects = decoded(sent, layout(registry, "protobuf"))
    assert [reason for _, reason in rejects[:3]] == [Unread.UNFIT_SCHEMA] * 3
    assert rejects[3][1] in (Unread.UNFIT_SCHEMA, Unread.NOT_OF_SCHEMA)
    assert rejects[4][1] == Unread.UNFIT_SCHEMA
    fields = " ".join(field(f"f{i}", i, "STRING") for i in range(11, 1_011))
    itself = field("a", 10, ".A")
    wide = registry.add(compiled(f'message_type {{ name: "A" {fields} {itself} }}'), "PROTOBUF")
    sent = [framed(wide, b"\0" + nested(depth)) for depth in (3, 90)]
    _, rejects = decoded(sent, layout(registry, "protobuf"))
    assert rejects == [(0, "no case id"), (1, Unread.NOT_OF_SCHEMA)]  # 90,000 fields of 180 bytes
    registry.serializes = False
    forget()
    with pytest.raises(UsageError, match="format=serialized"):
        decoded([visit(visits(registry))], layout(registry, "protobuf"))
    registry.serializes = True


def nested(depth: int) -> bytes:
    """Field 10 within itself."""
    data = b""
    for _ in range(depth):
        size = len(data)
        length = bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])
        data = b"\x52" + length + data
    return data


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=80), index=st.binary(max_size=4), cut=st.integers(0, 60))
def test_no_bytes_make_a_stream_of_protobuf_fail(
    registry: RegistryDouble, data: bytes, index: bytes, cut: int
) -> None:
    number = visits(registry)
    well = visit(number, case_id=1, activity="TRIAGE", timestamp=AT, patient={"name": "Jo"})
    sent = [well, framed(number, index + data), Sent(well.data[:cut] + data), well]
    rows, rejects = decoded(sent, layout(registry, "protobuf"))
    assert len(rows) + len(rejects) == 4
    assert {0, 3} <= {row["publish_time"] for row in rows}


_NAMES = st.sampled_from(["case_id", "activity", "timestamp", "x"])
_KINDS = st.recursive(
    st.sampled_from(
        ["null", "boolean", "int", "long", "float", "double", "bytes", "string", "Event"]
    )
    | st.builds(
        lambda kind, logical: {"type": kind, "logicalType": logical, "precision": 5, "scale": 1},
        st.sampled_from(["int", "long", "bytes", "string"]),
        st.sampled_from(["timestamp-millis", "date", "decimal", "uuid", "duration", "?"]),
    ),
    lambda inner: st.lists(inner, max_size=3)
    | st.builds(lambda kind: {"type": "array", "items": kind}, inner)
    | st.builds(lambda kind: {"type": "map", "values": kind}, inner),
    max_leaves=4,
)  # fmt: skip
_SCHEMAS = st.builds(
    lambda fields: {"type": "record", "name": "Event", "fields": [
        {"name": name, "type": kind} for name, kind in fields]},
    st.lists(st.tuples(_NAMES, _KINDS), max_size=4),
)  # fmt: skip


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(schema=_SCHEMAS | _KINDS, data=st.binary(min_size=1, max_size=60), kind=st.booleans())
def test_no_schema_and_no_bytes_make_a_stream_fail(
    registry: RegistryDouble, schema: Any, data: bytes, kind: bool
) -> None:
    """Of schemas that may be none, with bytes that may be of them: an event, or one reject."""
    name: Literal["avro", "json"] = "avro" if kind else "json"
    # Of numbers that were none when other bytes named them.
    registry_messages._unknown_until.clear()
    number = registry.add(schema, "AVRO" if kind else "JSON")
    good = registry.add(event_schema() if kind else {}, "AVRO" if kind else "JSON")
    well = datum(event_schema(), good, BODY) if kind else framed(good, json.dumps(BODY).encode())
    sent = [well, framed(number, data), Sent(data), well]
    rows, rejects = decoded(sent, layout(registry, name))
    assert len(rows) + len(rejects) == 4
    assert {0, 3} <= {row["publish_time"] for row in rows}

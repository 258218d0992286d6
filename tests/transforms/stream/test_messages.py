"""Messages: the same event however it is written, alone or with others; none ends a pipeline."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import apache_beam as beam
import fastavro
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.kafka_double import BY_SENDER, STAMPED, Record
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.events.row_masks import RowFilter
from tracecloak.schemas.events.tally import MESSAGE_REASONS, Reject, Unread
from tracecloak.transforms.formats import messages
from tracecloak.transforms.formats.jsonl_regular import parsed
from tracecloak.transforms.formats.messages import MessageFormat, Operations
from tracecloak.transforms.services.kafka_reader import KafkaMessage as OfKafka
from tracecloak.transforms.services.kafka_reader import KafkaMessages
from tracecloak.transforms.stream import beam_stages
from tracecloak.transforms.stream.beam_stages import DecodeMessages

NEW_YEAR = 1_767_225_600_000_000  # 2026-01-01 in microseconds UTC
SCHEMA = json.loads(files("tracecloak.schemas.files").joinpath("event.avsc").read_text("utf-8"))


class Sent(NamedTuple):
    """A message of a service that is not Beam's own."""

    data: bytes
    attributes: Mapping[str, str] | None = {}  # never written to


def as_json(body: Any, **attributes: str) -> Sent:
    return Sent(json.dumps(body).encode(), attributes)


def as_avro(**body: Any) -> Sent:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, SCHEMA, body)
    return Sent(stream.getvalue(), {})


def decoded(
    sent: Sequence[Any], layout: MessageFormat | None = None
) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
    """Events, and (message, reason) of the rejects; message i was published at i."""
    events, rejects = (layout or MessageFormat()).decode(sent, range(len(sent)))
    assert events.schema.equals((layout or MessageFormat()).schema)
    rows = events.to_pylist()
    assert all(row["event_index"] == row["publish_time"] for row in rows)
    return rows, [(row["publish_time"], row["reason"]) for row in rejects.to_pylist()]


def outcomes(sent: Sequence[Any], layout: MessageFormat, *columns: str) -> list[Any]:
    """Of each message these columns, the reason of its reject, or None if it is filtered out."""
    rows, rejects = decoded(sent, layout)
    found = dict(rejects) | {row["publish_time"]: tuple(map(row.get, columns)) for row in rows}
    return [found.get(i) for i in range(len(sent))]


GOOD = {"case_id": "c1", "activity": "A", "timestamp": "2026-01-01T00:00:00Z", "event_id": "e1"}


def test_an_event_is_the_same_however_it_is_written() -> None:
    in_micros = {**GOOD, "timestamp": NEW_YEAR}
    rows, rejects = decoded(
        [
            as_json(GOOD),
            as_avro(case_id="c1", activity="A", timestamp=NEW_YEAR, event_id="e1"),
            as_json({**GOOD, "timestamp": "2026-01-01 01:00:00.000000+01:00"}),
            # As Pub/Sub hands on JSON of a topic with this Avro schema.
            as_json({**in_micros, "event_id": {"string": "e1"}}, googclient_schemaencoding="JSON"),
        ]
    )
    assert rejects == []
    expected = {"case_id": "c1", "activity": "A", "timestamp": NEW_YEAR, "event_id": "e1"}
    assert rows == [
        {**expected, "event_index": i, "publish_time": i, "source_order": 0} for i in range(4)
    ]


UNREADABLE: list[tuple[Any, str]] = [
    (Sent(b""), "empty message"),
    (Sent(None, None), "empty message"),  # type: ignore[arg-type]
    (OfKafka(b"", is_tombstone=True), "tombstone"),
    (Sent(b"{"), "not a JSON object"),
    (Sent(b"{" * 100_000), "not a JSON object"),
    (Sent(b'{"case_id":' * 100_000), "not a JSON object"),
    (Sent(b'{"case_id": ' + b"9" * 5_000 + b"}"), "not a JSON object"),
    (Sent(b"[1]"), "neither a JSON object nor an Avro datum of the schema"),
    (Sent(b"\xff\xfe"), "neither a JSON object nor an Avro datum of the schema"),
    (Sent(as_avro(case_id="c", activity="A", timestamp=1).data + b"\x00"), Unread.NEITHER),
    (Sent(as_avro(case_id="c", activity="A", timestamp=1).data[:-1]), Unread.NEITHER),
    (
        Sent(as_avro(case_id="c", activity="A", timestamp=1).data.replace(b"c", b"\xff")),
        Unread.NEITHER,
    ),
    (Sent(json.dumps(GOOD).encode().replace(b"c1", b"\xff")), "text that is not UTF-8"),
    (as_json({**GOOD, "activity": "\ud800"}), "text that is not UTF-8"),
    (as_json({**GOOD, "case_id": ["c"]}), "field that is no scalar"),
    (as_json({**GOOD, "case_id": {"string": "c", "long": 1}}), "field that is no scalar"),
    (as_json({**GOOD, "case_id": float("inf")}), "field that is no scalar"),
    (as_json({**GOOD, "event_id": []}), "field that is no scalar"),
    (as_json({**GOOD, "timestamp": {}}), "field that is no scalar"),
    (as_json({**GOOD, "case_id": 1.5}), "case id that is no whole number"),
    (as_json({**GOOD, "case_id": 2.0**53 + 2}), "case id that is no whole number"),
    (as_json({**GOOD, "case_id": ""}), "no case id"),
    (as_json({"activity": "A"}), "no case id"),
    (as_json({**GOOD, "activity": None}), "no activity"),
    (as_json({"case_id": "c", "activity": "A"}), "no time"),
    (as_json({**GOOD, "timestamp": ""}), "no time"),
    (as_json({**GOOD, "timestamp": {"string": ""}}), "no time"),
    (as_json({**GOOD, "timestamp": "soon"}), "unparsable time"),
    (as_json({**GOOD, "timestamp": True}), "unparsable time"),
    (as_json({**GOOD, "timestamp": ["2026"]}), "unparsable time"),
    (as_json({**GOOD, "timestamp": 1.0}), "time that is a number without a unit"),
    (as_avro(case_id="c", activity="A", timestamp=MAX_TIME_US + 1), "time out of range"),
    (as_avro(case_id="c", activity="A", timestamp=-(2**63)), "time out of range"),
]


def test_messages_that_cannot_be_read_are_rejected_alone() -> None:
    messages = [message for message, _ in UNREADABLE]
    rows, rejects = decoded([as_json(GOOD), *messages, as_json({**GOOD, "case_id": 7})])
    last = len(UNREADABLE) + 1
    assert [(row["case_id"], row["publish_time"]) for row in rows] == [("c1", 0), ("7", last)]
    assert rejects == [(i, reason) for i, (_, reason) in enumerate(UNREADABLE, 1)]
    assert {reason for _, reason in rejects} <= set(MESSAGE_REASONS)


def test_numbers_are_read_in_the_unit_that_was_said() -> None:
    layout = MessageFormat(ColumnMapping(timestamp_unit="ms"))
    times = [1_500, 1.5, -1, 10**30, float("inf"), float("nan"), MIN_TIME_US // 1_000]
    rows, rejects = decoded([as_json({**GOOD, "timestamp": t}) for t in times], layout)
    assert [row["timestamp"] for row in rows] == [1_500_000, 1_500, -1_000, MIN_TIME_US]
    assert rejects == [(3, "time out of range"), (4, "unparsable time"), (5, "unparsable time")]
    # A datum is in the unit of its schema, whatever that of JSON.
    rows, _ = decoded([as_avro(case_id="c", activity="A", timestamp=5)], layout)
    assert rows[0]["timestamp"] == 5


def test_texts_are_read_by_the_format_and_in_the_zone_that_were_said() -> None:
    layout = MessageFormat(
        ColumnMapping(timestamp_format="%d.%m.%Y %H:%M", time_zone="Europe/Berlin"),
        time_attribute="at",
    )
    of_format = as_json({**GOOD, "timestamp": "01.01.2026 01:00"})
    sent = [of_format, as_json(GOOD, at="2026-01-01T01:00:00"), as_json(GOOD)]
    assert outcomes(sent, layout, "timestamp") == [(NEW_YEAR,), (NEW_YEAR,), "unparsable time"]


ATTRIBUTED: list[tuple[dict[str, Any], dict[str, str], Any]] = [
    (GOOD, {"id": "of the message", "at": "1000"}, ("of the message", 1_000_000)),
    (GOOD, {"id": "", "at": "1970-01-01T00:00:02Z"}, ("e1", 2_000_000)),
    (GOOD, {}, ("e1", NEW_YEAR)),
    ({**GOOD, "event_id": None}, {}, (None, NEW_YEAR)),
    (GOOD, {"at": "later"}, "unparsable time"),
    (GOOD, {"at": ""}, "no time"),
    (GOOD, {"at": "-5"}, ("e1", -5_000)),
    (GOOD, {"at": "9" * 5_000}, "time out of range"),
    (GOOD, {"at": "9" * 30}, "time out of range"),
]


def test_attributes_of_the_message_come_before_its_fields() -> None:
    layout = MessageFormat(id_attribute="id", time_attribute="at")
    sent = [as_json(body, **attributes) for body, attributes, _ in ATTRIBUTED]
    expected = [outcome for *_, outcome in ATTRIBUTED]
    assert outcomes(sent, layout, "event_id", "timestamp") == expected


def test_fields_have_the_names_of_the_mapping() -> None:
    filters = RowFilter("lifecycle", equals=("complete",)), RowFilter("land", ("de",))
    mapping = ColumnMapping(
        case_id="claim", activity="step", timestamp="when", individual_id="who",
        lifecycle="phase", filters=filters,
    )  # fmt: skip
    body = {"claim": "c", "step": "A", "when": GOOD["timestamp"], "who": "w", "uuid": "u"}
    ends = {"phase": "complete", "land": "de"}
    changes = {"phase": "COMPLETE"}, {"phase": "start"}, {"land": "fr"}, {"who": None}
    sent = [as_json({**body, **ends, **change}) for change in changes]
    found = outcomes(sent, MessageFormat(mapping, event_id="uuid"), "individual_id", "event_id")
    assert found == [("w", "u"), None, None, "no individual"]


AFTER, MORE = {"case_id": 7, "act": "A"}, {"source": {"table": "visits"}, "id": "e"}
AT, NESTED = {"at": {"ms": 1}}, "field that is no scalar"
PATHS: list[tuple[dict[str, Any], Any]] = [
    ({"payload": {"after": AFTER, **MORE}, **AT}, ("7", 1_000, "e")),
    ({"payload.after.case_id": "literal", "payload": {"after": AFTER, **MORE}, **AT},
     ("literal", 1_000, "e")),
    ({"payload": {"after.case_id": "inner", "after": AFTER, **MORE}, "at.ms": 2},
     ("inner", 2_000, "e")),
    ({"payload": {"after": None, **MORE}, **AT}, "no case id"),
    ({"payload": {"after": {**AFTER, "case_id": {"a": 1}}, **MORE}, **AT}, NESTED),
    ({"payload": {"after": [AFTER], **MORE}, **AT}, NESTED),
    ({"payload": "after", **AT}, NESTED),
    ({"payload": {"after": AFTER, "source": {"table": "beds"}}, **AT}, None),
    ({"payload": {"after": AFTER}, **AT}, None),
    ({"payload": {"after": AFTER, **MORE}, "at": {"ms": [1]}}, "unparsable time"),
]  # fmt: skip


def test_a_path_leads_into_objects() -> None:
    """By the whole name first, in each message and at each of its objects by itself."""
    mapping = ColumnMapping(
        case_id="payload.after.case_id", activity="payload.after.act", timestamp="at.ms",
        timestamp_unit="ms", filters=(RowFilter("payload.source.table", equals=("visits",)),),
    )  # fmt: skip
    found = outcomes(
        [as_json(body) for body, _ in PATHS], MessageFormat(mapping, event_id="payload.id"),
        "case_id", "timestamp", "event_id",
    )  # fmt: skip
    assert found == [expected for _, expected in PATHS]


def test_a_change_that_is_no_event_is_a_reject() -> None:
    """A deletion takes nothing back: what was counted of the case stays counted."""
    layout = MessageFormat(
        ColumnMapping(
            **{name: f"payload.after.{name}" for name in ("case_id", "activity", "timestamp")},
            filters=(RowFilter("payload.after.activity", equals=("A",)),),
        ),
        operations=Operations("payload.op", ("c", "1")),
    )

    def change(operation: Any, after: Any = GOOD) -> Sent:
        return as_json({"payload": {"op": operation, "after": after}})

    sent = [
        change("c"), change("d", None), change("u"), change(None), as_json({"payload": {}}),
        as_json(GOOD), change(["c"]), change(1), change("c", {**GOOD, "activity": "B"}),
        as_avro(case_id="c", activity="A", timestamp=1), change("C"),
    ]  # fmt: skip
    rows, rejects = decoded(sent, layout)
    assert [row["publish_time"] for row in rows] == [0, 7]
    other, none = "operation that is no event", "no operation"
    assert rejects == [
        (1, other), (2, other), (3, none), (4, none), (5, none), (6, "field that is no scalar"),
        (9, none), (10, other),
    ]  # fmt: skip
    assert {other, none} <= set(MESSAGE_REASONS)


@pytest.mark.parametrize("column", ["lifecycle", "phase"])
def test_a_filter_holds_for_a_datum_too(column: str) -> None:
    """By the column's own name, or by that of the JSON field that the mapping gives it."""
    mapping = ColumnMapping(lifecycle="phase", filters=(RowFilter(column, ("complete",)),))
    sent = [
        as_avro(case_id=name, activity="A", timestamp=1, lifecycle=name)
        for name in ("complete", "start")
    ]
    rows, rejects = decoded(sent, MessageFormat(mapping))
    assert [row["case_id"] for row in rows] == ["complete"]
    assert rejects == []


def test_the_dead_letter_holds_nothing_of_a_message_but_where_the_service_has_it() -> None:
    """Kafka by partition and offset, whose id would be the offset; Pub/Sub by the id."""
    sent = [
        OfKafka(b'{"case_id": "patient-7", "activity": "secret"', {}, "17", 0, 0, 5),
        PubsubMessage(b"{", {}, message_id="6061"),
        as_json({"case_id": "patient-7"}),
        OfKafka(as_json({**GOOD, "timestamp": "soon"}).data, {}, "18", 3, 18, 7),
    ]
    _, rejects = MessageFormat().decode(sent, [5, 6, 8, 7])
    names = ("publish_time", "topic", "partition", "offset", "message_id", "reason")
    assert tuple(rejects.schema.names) == names
    written = rejects.serialize().to_pybytes()
    assert b"patient" not in written and b"secret" not in written
    assert [(r[names[0]], *map(r.get, names[2:5])) for r in rejects.to_pylist()] == [
        (5, 0, 0, None), (6, None, None, "6061"), (8, None, None, None), (7, 3, 18, None),
    ]  # fmt: skip


def _sizes(batch: pa.RecordBatch, published: Any = beam.DoFn.TimestampParam) -> list[Any]:
    return [(batch.num_rows, int(published))]


@pytest.mark.parametrize(("limit", "sizes"), [(1 << 14, [(4, 3)]), (2, [(2, 8), (2, 3)])])
def test_messages_of_a_bundle_are_decoded_together(
    monkeypatch: pytest.MonkeyPatch, limit: int, sizes: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(beam_stages, "_BATCH_MESSAGES", limit)
    good = json.dumps(GOOD).encode()
    sent = [TimestampedValue(PubsubMessage(good, None), at) for at in (9, 8, 3, 7)]
    poison = [TimestampedValue(PubsubMessage(b"{", {}), 20), TimestampedValue(None, 21)]
    stream = test_stream.TestStream().add_elements(sent).add_elements(poison)
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline("BundleBasedDirectRunner", options=options) as pipeline:
        found = pipeline | stream.advance_watermark_to_infinity() | DecodeMessages(MessageFormat())
        events = found["events"] | "Sizes" >> beam.FlatMap(_sizes)
        assert_that(events, equal_to(sizes), "Events")
        reasons = found["rejects"] | beam.FlatMap(lambda batch: batch["reason"].to_pylist())
        assert_that(reasons, equal_to(["not a JSON object", "malformed record"]), "Rejects")


@pytest.mark.parametrize(
    "mapping",
    [
        ColumnMapping(attributes=(("amount", "amount"),)),
        ColumnMapping(filters=(RowFilter("timestamp", ("now",)),)),
    ],
)
def test_what_a_stream_cannot_do_is_refused(mapping: ColumnMapping) -> None:
    with pytest.raises(UsageError, match="leave"):
        MessageFormat(mapping)


@pytest.mark.parametrize(("kind", "kept"), [("json", 0), ("avro", 1)])
def test_only_one_kind_is_read_where_one_is_asked_for(
    kind: Literal["json", "avro"], kept: int
) -> None:
    sent = [as_json(GOOD), as_avro(case_id="c1", activity="A", timestamp=1, event_id="e1")]
    rows, rejects = decoded(sent, MessageFormat(kind=kind))
    assert [row["publish_time"] for row in rows] == [kept]
    assert rejects == [(1 - kept, "message of the other kind than schema asks for")]


# --- messages that are read together --------------------------------------------------------------


LAYOUTS = {
    "defaults": MessageFormat(),
    "milliseconds": MessageFormat(ColumnMapping(timestamp_unit="ms")),
    "seconds": MessageFormat(ColumnMapping(timestamp_unit="s"), kind="json"),
    "filtered": MessageFormat(
        ColumnMapping(
            individual_id="who",
            timestamp_unit="us",
            whole_numbers=("case_id",),
            filters=(RowFilter("who", equals=("1", "w")),),
        ),
        event_id="case_id",
        id_attribute="id",
        operations=Operations("op", ("c", "1")),
    ),
    "one field": MessageFormat(
        ColumnMapping(case_id="timestamp", timestamp_unit="s"), event_id="timestamp"
    ),
    "avro": MessageFormat(kind="avro"),
    "nested": MessageFormat(
        ColumnMapping(case_id="o.id", activity="o.i.name", timestamp_unit="ms"), event_id="o.i.e"
    ),
    "of a zone": MessageFormat(ColumnMapping(timestamp_unit="us", time_zone="Asia/Kolkata")),
    "of a format": MessageFormat(ColumnMapping(timestamp_format="%Y-%m-%dT%H"), id_attribute="id"),
    "of an attribute": MessageFormat(
        ColumnMapping(timestamp_format="%Y-%m-%d %f", time_zone="Europe/Berlin"),
        time_attribute="at",
    ),
}
WELL = {
    **{"case_id": "c", "activity": "A", "timestamp": 5, "event_id": "e", "who": "w", "op": "c"},
    "o": {"id": "c", "i": {"name": "A"}},
}
# Texts of JSON that libraries read in ways of their own, or that only one of them takes.
VALUES = (
    *('"c"', '""', "1", "-0", "0", "1.0", "1.5", "1e3", "1E400", "-1e-400", "01", "1.", ".5", "+1"),
    *("NaN", "Inf", "Infinity", "-Inf", "-Infinity", "-NaN", "nan", "true", "null", "{}", "[]"),
    *('{"string": "x"}', '{"long": 5}', "[[1]]", '"\\ud800"', '"\\udc00"', '"\\ud83d\\ude00"'),
    *('"\\u0000"', '"\\u00e9"', '"\t"', '"\\x"', '"é"', '"5.0"', '"2026-01-01"', '" a, Inf"'),
    *("9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *('"0001-01-01T00:00:00+14:00"', '"9999-12-31T23:59:59-14:00"', '"2026-01-01T05"'),
    *("1700000000.123456", "1700000000123", "253402300799", "253402300800", "1e16", "9e15"),
    *('{"id": null, "i": {"name": "B"}}', '{"i.name": "B", "id": 1}', '{"id": "o.id", "i": null}'),
    *("1" * 641, "1" * 5000, "[" * 210 + "]" * 210, "[" * 2000 + "]" * 2000, "'c'", "tru", "-"),
)
FIELDS = (*WELL, "o.id", "o.i.name", "other", "case\\u005fid", "")


def objects() -> st.SearchStrategy[str]:
    pairs = st.tuples(st.sampled_from(FIELDS), st.sampled_from(VALUES))
    usual = st.sampled_from(tuple((name, json.dumps(value)) for name, value in WELL.items()))
    others = st.lists(st.one_of(usual, usual, usual, pairs), max_size=9)
    return others.map(lambda many: "{" + ", ".join(f'"{n}": {v}' for n, v in many) + "}")


JOINTS = (
    b"\n", b"\0", b"}", b"{", b"[", b"]", b",", b'"', b"\\", b"\xff", b" ", b"{}", b"NaN", b"1",
)  # fmt: skip


DATUM = as_avro(case_id="c", activity="A", timestamp=5, event_id="e", lifecycle="x").data


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A message of which some bytes are others, are missing or come twice."""
    usual = st.sampled_from((json.dumps(WELL).encode(), DATUM))
    objects_ = objects().map(lambda text: text.encode("utf-8", "replace"))
    whole = draw(st.one_of(usual, objects_, st.binary(max_size=40)))
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        at = draw(st.integers(0, len(whole)))
        joint = draw(st.sampled_from(JOINTS) | st.binary(max_size=3))
        whole = whole[:at] + joint + whole[at + draw(st.integers(0, 2)) :]
    return whole


ATTRIBUTES = st.sampled_from((None, {}, {"id": "x"})) | st.dictionaries(
    st.sampled_from(["id", "at", "googclient_schemaencoding"]),
    st.text() | st.sampled_from(["JSON", "12", "2026-01-01"]),
)


def singly(data: Sequence[bytes], *_: Any) -> Iterator[Any]:
    """In place of `parsed`: nothing is read together."""
    return iter(())


def rows_of(layout: MessageFormat, sent: Any, first: int = 0) -> tuple[Any, Any]:
    events, rejects = layout.decode(sent, np.arange(first, first + len(sent)))
    assert events.schema.equals(layout.schema)
    assert set(rejects["reason"].to_pylist()) <= set(MESSAGE_REASONS) - {Reject.NO_RECORD}
    rows, letters = events.to_pylist(), rejects.to_pylist()
    assert all(row.pop("event_index") + first == row["publish_time"] for row in rows)
    if not layout.mapping.filters:
        numbers = [row["publish_time"] for row in [*rows, *letters]]
        assert sorted(numbers) == list(range(first, first + len(sent)))
    return rows, letters


@given(
    name=st.sampled_from(tuple(LAYOUTS)),
    sent=st.lists(st.builds(Sent, bodies(), ATTRIBUTES), max_size=9),
)
@example(name="defaults", sent=[Sent(b'{"a":1}{"a":2}'), Sent(b'{"a":[{}'), Sent(b"{}]}")])
@example(
    name="defaults",
    sent=[Sent(b'{"a":1}{"a":2}'), Sent(b"{}\0{}"), Sent(json.dumps(WELL).encode())],
)
@example(name="defaults", sent=[Sent(b'{"a":"}'), Sent(b'{":1}')])
@example(name="defaults", sent=[Sent(b'{"a":\n"x"}')])
def test_no_message_is_another_for_being_read_with_others(name: str, sent: list[Sent]) -> None:
    """Each is an event or a reject, whatever it is, and the same as it would be alone."""
    together = rows_of(LAYOUTS[name], sent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "parsed", singly)
        alone = [rows_of(LAYOUTS[name], [one], first=i) for i, one in enumerate(sent)]
        assert together == rows_of(LAYOUTS[name], sent)
    assert list(together) == [[row for one in alone for row in one[kind]] for kind in (0, 1)]


def test_all_but_the_odd_ones_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many messages the few that Arrow refuses take only their neighbours with them."""
    sent = [Sent(json.dumps({**WELL, "case_id": f"c{n}"}).encode()) for n in range(4_096)]
    sent[1_000] = Sent(b'{"case_id": 1, "activity": "A", "timestamp": 5}')
    sent[2_000] = Sent(b"{")
    n_together = []

    def noting(*given: Any) -> Iterator[Any]:
        for rows, columns in parsed(*given):
            n_together.append(len(rows))
            yield rows, columns

    monkeypatch.setattr(messages, "parsed", noting)
    events, rejects = rows_of(LAYOUTS["milliseconds"], sent)
    assert sum(n_together) >= 4_096 - 65
    assert [row["case_id"] for row in events] == [
        "1" if n == 1_000 else f"c{n}" for n in range(4_096) if n != 2_000
    ]
    assert [row["publish_time"] for row in rejects] == [2_000]


def test_columns_of_kafka_are_its_messages() -> None:
    good = json.dumps(WELL).encode()

    class WithHeaders(Record):
        def headers(self) -> Any:
            return [("id", b"h"), ("bad", b"\xff"), ("empty", None)]

    fetched = [
        Record(0, 7, good, 1_000),
        Record(1, 10**18 + 5, good, 2_000, BY_SENDER),
        Record(1, 8, None, 3_000),
        WithHeaders(0, 9, good, -1),
        Record(0, 10, b"{", 4_000),
    ]
    columns = KafkaMessages(fetched, STAMPED)
    singles = list(columns)
    assert singles == columns[:] and columns[-1] == singles[4]
    assert dict(singles[3].attributes) == {"id": "h", "empty": ""}
    for layout in LAYOUTS.values():
        assert rows_of(layout, columns) == rows_of(layout, singles)
    assert columns.published_us.tolist() == [m.published_us for m in singles]

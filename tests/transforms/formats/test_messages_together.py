"""Messages that are read together: what comes out is what comes of each by itself."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.kafka_double import BY_SENDER, STAMPED, Record
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.row_masks import RowFilter
from tracecloak.schemas.events.tally import MESSAGE_REASONS, NO_RECORD
from tracecloak.transforms.formats import messages
from tracecloak.transforms.formats.jsonl_regular import parsed
from tracecloak.transforms.formats.messages import MessageFormat, Operations
from tracecloak.transforms.services.kafka_reader import KafkaMessages


class Sent(NamedTuple):
    data: bytes
    attributes: dict[str, str] | None = None


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
GOOD = {
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
FIELDS = (*GOOD, "o.id", "o.i.name", "other", "case\\u005fid", "")


def objects() -> st.SearchStrategy[str]:
    pairs = st.tuples(st.sampled_from(FIELDS), st.sampled_from(VALUES))
    usual = st.sampled_from(tuple((name, json.dumps(value)) for name, value in GOOD.items()))
    others = st.lists(st.one_of(usual, usual, usual, pairs), max_size=9)
    return others.map(lambda many: "{" + ", ".join(f'"{n}": {v}' for n, v in many) + "}")


JOINTS = (
    b"\n", b"\0", b"}", b"{", b"[", b"]", b",", b'"', b"\\", b"\xff", b" ", b"{}", b"NaN", b"1",
)  # fmt: skip


DATUM = io.BytesIO()
fastavro.schemaless_writer(
    DATUM,
    json.loads(files("tracecloak.schemas.files").joinpath("event.avsc").read_text("utf-8")),
    {"case_id": "c", "activity": "A", "timestamp": 5, "event_id": "e", "lifecycle": "x"},
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A message of which some bytes are others, are missing or come twice."""
    usual = st.sampled_from((json.dumps(GOOD).encode(), DATUM.getvalue()))
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
    assert set(rejects["reason"].to_pylist()) <= set(MESSAGE_REASONS) - {NO_RECORD}
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
    sent=[Sent(b'{"a":1}{"a":2}'), Sent(b"{}\0{}"), Sent(json.dumps(GOOD).encode())],
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
    sent = [Sent(json.dumps({**GOOD, "case_id": f"c{n}"}).encode()) for n in range(4_096)]
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
    good = json.dumps(GOOD).encode()

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

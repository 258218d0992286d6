from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.format_streams import rows_of
from tests.support.xes_schema import schema_problems
from tracecloak.schemas.events.events import RELEASED_SCHEMA, released_schema
from tracecloak.transforms.formats.xes import XesReader
from tracecloak.transforms.formats.xes_writer import (
    XesWriter,
    sanitise,
    xes_columns,
)

Row = tuple[str, str, int]  # case, activity, microseconds since 1970

FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999  # years 1 to 9999

ABOUT = {
    "release_id": 'released "log"', "method": "a\n\"b\"\x00", "method_version": 20,
    "config_digest": "c0f1",
    "guarantee": {
        "kind": "rigorous", "sentence": "", "unit": "case", "adjacency": "add_remove",
        "not_covered": ("A.", "B."), "epsilon": 1, "delta": 1e-9,
    },
    "operations": [{"type": "suppression", "level": "event", "target": "concept:name"}],
}  # fmt: skip

TYPES = {
    "org:resource": pa.string(),
    "case:age": pa.int64(),
    "amount": pa.float64(),
    "case:org:group": pa.string(),
    'a "key"': pa.string(),
}
ROWS: list[tuple[Row, dict[str, Any]]] = [
    (("1", "register", 1_772_352_000_000_000), {"org:resource": "R&1", "case:age": 44}),
    (("1", "pay & <close>", 1_772_352_000_123_000), {"amount": 2.5, "case:age": 44}),
    (("2", "register", -1), {"amount": -1e300, "case:org:group": "<g>"}),
    (("zwei\n\t\"Zeilen\"\r & 'mehr'", "日本 𝄞\x85\u2028", 0), {'a "key"': "v"}),
]
EXPECTED = """\
<?xml version="1.0" encoding="UTF-8"?>
<log xes.version="1849.2016" xes.features="nested-attributes" xmlns="http://www.xes-standard.org/">
	<extension name="Concept" prefix="concept" uri="http://www.xes-standard.org/concept.xesext"/>
	<extension name="Time" prefix="time" uri="http://www.xes-standard.org/time.xesext"/>
	<extension name="Organizational" prefix="org" uri="http://www.xes-standard.org/org.xesext"/>
	<global scope="trace">
		<string key="concept:name" value="UNKNOWN"/>
	</global>
	<global scope="event">
		<string key="concept:name" value="UNKNOWN"/>
		<date key="time:timestamp" value="1970-01-01T00:00:00.000+00:00"/>
	</global>
	<classifier name="Activity" keys="concept:name"/>
	<string key="concept:name" value="released &quot;log&quot;"/>
	<string key="privacy:anonymizations" value="METHOD">
		<string key="privacy:anonymizer1" value="METHOD">
			<string key="privacy:operation_type" value="suppression"/>
			<string key="privacy:level" value="event"/>
			<string key="privacy:target" value="concept:name"/>
		</string>
	</string>
	<int key="tracecloak:method_version" value="20"/>
	<string key="tracecloak:release_id" value="released &quot;log&quot;"/>
	<string key="tracecloak:method" value="METHOD"/>
	<string key="tracecloak:guarantee" value="rigorous"/>
	<string key="tracecloak:statement" value=""/>
	<string key="tracecloak:unit" value="case"/>
	<string key="tracecloak:adjacency" value="add_remove"/>
	<string key="tracecloak:not_covered" value="A. B."/>
	<string key="tracecloak:config_digest" value="c0f1"/>
	<float key="tracecloak:epsilon" value="1.0"/>
	<float key="tracecloak:delta" value="1e-09"/>
	<trace>
		<string key="concept:name" value="1"/>
		<int key="age" value="44"/>
		<event>
			<string key="concept:name" value="register"/>
			<date key="time:timestamp" value="2026-03-01T08:00:00.000+00:00"/>
			<string key="org:resource" value="R&amp;1"/>
		</event>
		<event>
			<string key="concept:name" value="pay &amp; &lt;close&gt;"/>
			<date key="time:timestamp" value="2026-03-01T08:00:00.123+00:00"/>
			<float key="amount" value="2.5"/>
		</event>
	</trace>
	<trace>
		<string key="concept:name" value="2"/>
		<string key="org:group" value="&lt;g&gt;"/>
		<event>
			<string key="concept:name" value="register"/>
			<date key="time:timestamp" value="1969-12-31T23:59:59.999999+00:00"/>
			<float key="amount" value="-1e+300"/>
		</event>
	</trace>
	<trace>
		<string key="concept:name" value="zwei&#10;&#9;&quot;Zeilen&quot;&#13; &amp; 'mehr'"/>
		<event>
			<string key="concept:name" value="日本 𝄞\x85\u2028"/>
			<date key="time:timestamp" value="1970-01-01T00:00:00.000+00:00"/>
			<string key="a__key_" value="v"/>
		</event>
	</trace>
</log>
""".replace("METHOD", "a&#10;&quot;b&quot;\ufffd0000")


def written(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema = RELEASED_SCHEMA,
    about: Mapping[str, Any] | None = ABOUT,
) -> bytes:
    stream = io.BytesIO()
    writer = XesWriter(stream, schema, about)
    for rows in batches:
        writer.write(rows)
    writer.close()
    assert schema_problems(stream.getvalue()) == []
    return stream.getvalue()


def micros(stamp: str) -> int:
    return (datetime.fromisoformat(stamp) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def read_back(data: bytes) -> list[Row]:
    names = ["case:concept:name", "concept:name", "time:timestamp"]
    columns = [b.columns for b in XesReader().read(io.BytesIO(data), names, names, 1_000)]
    return [
        (case, activity, micros(stamp))
        for batch in columns
        for case, activity, stamp in zip(*batch.to_pydict().values(), strict=True)
    ]


# --- the writer ---


def test_worked_example():
    """Attributes stand where they belong and nowhere if missing, in whatever batches they come."""
    schema = released_schema(TYPES)
    named = [dict(zip(RELEASED_SCHEMA.names, row, strict=True)) | more for row, more in ROWS]
    rows = pa.RecordBatch.from_pylist(named, schema)
    for cut in range(5):
        batches = [rows.slice(0, cut), rows.slice(cut)]
        assert written(batches, schema).decode() == EXPECTED
    assert read_back(EXPECTED.encode()) == [row for row, _ in ROWS]


def test_a_log_without_times_has_the_numbers_of_its_events():
    """Catches a date that nobody released, in an event or as what events have in general."""
    schema = released_schema({"event_index": pa.int64()})
    rows = [("1", "register", 1), ("1", "pay & <close>", 2), ("2", "register", 1)]
    columns = [pa.array(list(column)) for column in zip(*rows, strict=True)]
    data = written([pa.RecordBatch.from_arrays(columns, schema=schema)], schema, None)
    assert b"date" not in data and b"time" not in data
    assert data.count(b'<int key="event_index" value="1"/>') == 2
    names = ["case:concept:name", "concept:name", "event_index"]
    batches = XesReader().read(io.BytesIO(data), names, names, 1_000)
    found = [row.values() for batch in batches for row in batch.columns.to_pylist()]
    assert [(case, name, int(number)) for case, name, number in found] == rows


@pytest.mark.parametrize("us", [FIRST_US - 1, LAST_US + 1, -(2**63), 2**63 - 1])
def test_times_that_a_date_cannot_hold_are_refused(us):
    with pytest.raises(ValueError, match="years 1 to 9999") as caught:
        written([rows_of(("1", "a", us))])
    assert str(us) not in str(caught.value)


@pytest.mark.parametrize("column", range(3))
def test_missing_values_are_refused(column):
    columns = rows_of(*(row for row, _ in ROWS)).columns
    columns[column] = pa.nulls(len(ROWS), columns[column].type)
    rows = pa.RecordBatch.from_arrays(columns, RELEASED_SCHEMA.names)
    with pytest.raises(ValueError, match="must have a case id, an activity and a"):
        XesWriter(io.BytesIO()).write(rows)


def test_a_type_that_xes_has_not_is_refused():
    with pytest.raises(ValueError, match="attribute 'x' has type bool"):
        XesWriter(io.BytesIO(), released_schema({"x": pa.bool_()}))


# --- text ---


def test_what_xml_cannot_hold_becomes_a_replacement_character_and_its_number():
    bad = [chr(c) for c in (*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF)]
    text = "a".join(bad)
    assert sanitise(text) == "a".join(f"\ufffd{ord(c):04X}" for c in bad)
    assert len({sanitise(c) for c in bad}) == len(bad)
    assert sanitise("\ud800x\udfff") == "\ufffdD800x\ufffdDFFF"
    assert sanitise("\t\n\r é\x7f\x85\ufffd\U0001fffe") == "\t\n\r é\x7f\x85\ufffd\U0001fffe"
    data = written([rows_of((text, text, 0))])
    assert read_back(data) == [(sanitise(text), sanitise(text), 0)]


TEXT = st.text(max_size=8)
EVENTS = st.lists(st.tuples(TEXT, st.integers(FIRST_US, LAST_US)), min_size=1, max_size=5)


@given(cases=st.dictionaries(TEXT, EVENTS, max_size=5), cuts=st.lists(st.integers(0, 25)))
def test_round_trip(cases, cuts):
    rows = [(case, activity, us) for case, events in cases.items() for activity, us in events]
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    data = written([rows_of(*rows[a:b]) for a, b in itertools.pairwise(edges)])
    assert data == written([rows_of(*rows)])
    assert read_back(data) == [(sanitise(case), sanitise(act), us) for case, act, us in rows]


# --- attributes of cases and events ---


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.booleans(), NAMES), unique=True, max_size=5))
@example(
    [(False, name) for name in ("a b", "a_b", "a.b", "a b_2", "a\u00b2b", "1", "\u00fc\U00020000")]
)
@example(
    [(True, "a b"), (False, "a b"), (True, "a_b"), (False, ":x"), (False, "case"), (True, "-")]
)
def test_every_attribute_has_a_key_of_its_own_that_the_schema_allows(owners):
    columns = ["case:" + name if is_of_case else name for is_of_case, name in owners]
    columns = [c for c in dict.fromkeys(columns) if c != "case:"]
    schema = pa.schema([*RELEASED_SCHEMA, *(pa.field(name, pa.string()) for name in columns)])
    names = xes_columns(columns)
    row = dict(
        zip(RELEASED_SCHEMA.names, ("c", "A", datetime(2026, 1, 1, tzinfo=UTC)), strict=True)
    )
    rows = pa.RecordBatch.from_pylist([row | {n: f"{i}" for i, n in enumerate(columns)}], schema)
    data = written([rows], schema)
    wanted = [names[name] for name in columns]
    [batch] = XesReader().read(io.BytesIO(data), wanted, wanted, 10)
    assert [batch.columns.column(n).to_pylist() for n in wanted] == [
        [str(i)] for i in range(len(columns))
    ]
    unchanged = ("a_b", "a.b", "case:a_b", "org:resource")
    assert all(names[name] == name for name in unchanged if name in names)


def test_the_schema_finds_what_was_wrong_before():
    """The control: the version, a key with a blank, the order of elements, and a key twice."""
    assert schema_problems(EXPECTED.encode()) == []
    for old, new in (
        ("1849.2016", "1849-2016"),
        ("privacy:operation_type", "privacy:operation type"),
        ('"Activity" keys', '"The activity" keys'),
        ('value="20"', 'value="20.0"'),
        ("</log>", '<string key="late" value=""/></log>'),
        ("tracecloak:delta", "tracecloak:epsilon"),
    ):
        assert old in EXPECTED
        assert len(schema_problems(EXPECTED.replace(old, new).encode())) >= 1, new

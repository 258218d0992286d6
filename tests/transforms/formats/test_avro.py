"""Avro containers: schemas that evolve, types, damage, bounded reads, and released files."""

from __future__ import annotations

import io
import json
import math
import random
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from unittest import mock
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from tests.support.format_streams import Trickle, share_read_together, table_of
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats import avro, avro_regular
from tracecloak.transforms.formats.avro import AvroReader
from tracecloak.transforms.formats.avro_regular import Step


def avro_of(
    fields: dict[str, Any], rows: Sequence[Any], codec: str = "null", **options: Any
) -> bytes:
    schema = {
        "type": "record",
        "name": "log.Event",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }
    return container_of(schema, rows, codec, **options)


def container_of(schema: Any, rows: Sequence[Any], codec: str = "null", **options: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, schema, rows, codec=codec, **options)
    return stream.getvalue()


def read(data: bytes) -> pa.Table:
    return table_of(AvroReader(), data, ("c", "a", "t"), ("c",))


def long(logical: str, **more: Any) -> dict[str, Any]:
    return {"type": "long", "logicalType": logical, **more}


ENUM = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
LATE, EARLY = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)
US_LATE, US_EARLY = 253402300799000000, -62135596800000000
INSTANT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")

UUIDS = {"type": "string", "logicalType": "uuid"}
DATE = {"type": "int", "logicalType": "date"}
ICEBERG = "adjust-to-utc"
TYPES: dict[str, tuple[Any, list[Any], pa.DataType, list[Any]]] = {
    "string": ("string", ["a", "é\0", ""], pa.string(), ["a", "é\0", ""]),
    "java string": ({"type": "string", "avro.java.string": "String"}, ["a"], pa.string(), ["a"]),
    "nullable string": (["null", "string"], ["a", None], pa.string(), ["a", None]),
    "enum": (ENUM, ["B", "A"], pa.string(), ["B", "A"]),
    "nullable enum": (["null", ENUM], ["B", None], pa.string(), ["B", None]),
    "string or enum": (["string", ENUM], ["B", "x"], pa.string(), ["B", "x"]),
    "null": ("null", [None, None], pa.string(), [None, None]),
    "int": ("int", [1, -(2**31)], pa.int64(), [1, -(2**31)]),
    "long": ("long", [2**63 - 1, -(2**63)], pa.int64(), [2**63 - 1, -(2**63)]),
    "int or long": (["int", "null", "long"], [1, 2**40, None], pa.int64(), [1, 2**40, None]),
    "double": (["double", "null"], [1.5, None], pa.float64(), [1.5, None]),
    "double or int": (["double", "int"], [1, 2.0, 2.5], pa.string(), ["1", "2", "2.5"]),
    "boolean": ("boolean", [True, False], pa.bool_(), [True, False]),
    "bytes": ("bytes", [b"\xff"], pa.binary(), [b"\xff"]),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, [b"ab"], pa.binary(), [b"ab"]),
    "bytes or string": (["bytes", "string"], [b"a", "b"], pa.string(), ["a", "b"]),
    "int or string": (["long", "string", "null"], [7, "7", None], pa.string(), ["7", "7", None]),
    "three": (["string", "boolean", "double"], ["x", True, 1.5], pa.string(), ["x", "true", "1.5"]),
    "double, long or string": (  # as a double the integer would lose its last digit
        ["double", "long", "string"], [("long", 2**62 + 1), 1.5, "x"],
        pa.string(), ["4611686018427387905", "1.5", "x"],
    ),
    "decimal": (DECIMAL, [Decimal("1.25"), Decimal("-3.00")], pa.decimal128(5, 2), []),
    "uuid": (UUIDS, [UUID(int=1)], pa.string(), ["00000000-0000-0000-0000-000000000001"]),
    "date": (DATE, [date(1, 1, 1), date(9999, 12, 31)], pa.date32(), []),
    "millis": (long("timestamp-millis"), [LATE, EARLY, -1], INSTANT, [US_LATE, US_EARLY, -1000]),
    "micros": (long("timestamp-micros"), [LATE, EARLY, -1], INSTANT, [US_LATE, US_EARLY, -1]),
    "beyond the year 9999": (
        ["null", long("timestamp-micros")], [US_LATE + 10**6, None],
        INSTANT, [US_LATE + 10**6, None],
    ),
    "millis that overflow": (
        long("timestamp-millis"), [2**63 - 1, 0, -(2**63)], INSTANT, [None, 0, None],
    ),
    "nanos": (long("timestamp-nanos"), [5], pa.timestamp("ns", "UTC"), [5]),
    "local millis": (long("local-timestamp-millis"), [5], LOCAL, [5000]),
    "local micros": (["null", long("local-timestamp-micros")], [5, None], LOCAL, [5, None]),
    "local time of Iceberg": (long("timestamp-micros", **{ICEBERG: False}), [5], LOCAL, [5]),
    "instant of Iceberg": (
        ["null", long("timestamp-micros", **{ICEBERG: True})], [5, None], INSTANT, [5, None],
    ),
    "string or stamp": (
        ["string", long("timestamp-millis")], ["x", datetime(2010, 1, 1, tzinfo=UTC)],
        pa.string(), ["x", "2010-01-01 00:00:00.000000Z"],
    ),
    "unknown logical type": (long("no-such"), [5], pa.int64(), [5]),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str) -> None:
    for alone in [True, False]:
        kind, values, arrow_type, expected = TYPES[name]
        rows = [{"c": value, "z": {"x": [1]}, "o": None, "k": 1} for value in values]
        fields: dict[str, Any] = {"c": kind, "k": "int"}
        if not alone:
            inner = [{"name": "x", "type": {"type": "array", "items": "int"}}]
            nested = {"type": "record", "name": "N", "fields": inner}
            fields = {"o": ["null", "string"], "z": nested, "c": kind}
        column = read(avro_of(fields, rows))["c"]
        assert column.type == arrow_type, alone
        if pa.types.is_timestamp(arrow_type):
            column = column.cast(pa.int64())
        assert column.to_pylist() == (expected or values), alone


def test_type_within_a_type() -> None:
    """Some writers wrap a type once more, which fastavro takes for a mistake."""
    source, rewritten = io.BytesIO(avro_of(FIELDS, ROWS)), io.BytesIO()
    rewritten.write(source.read(4))
    meta = fastavro.schemaless_reader(source, avro._META, None)
    schema = json.loads(meta["avro.schema"])
    schema["fields"][0]["type"] = {"type": {"type": "string"}}
    schema["fields"][2]["type"] = {"type": schema["fields"][2]["type"]}
    meta["avro.schema"] = json.dumps(schema).encode()
    fastavro.schemaless_writer(rewritten, avro._META, meta)
    data = rewritten.getvalue() + source.read()
    got = read(data)
    assert got["c"].to_pylist() == [row["c"] for row in ROWS]
    assert got["t"].type == INSTANT and got["t"].cast(pa.int64()).to_pylist() == list(range(300))


def test_a_path_leads_into_records_and_past_null() -> None:
    stamp = {"type": "record", "name": "Stamp", "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "who", "type": ["null", "long", "string", "double"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["x", "y"]}},
        {"name": "before", "type": ["null", "log.Stamp"]},
    ]}  # fmt: skip
    case = {"type": "record", "name": "Case", "fields": [{"name": "id", "type": "string"}]}
    schema = {"type": "record", "name": "log.Event", "fields": [
        {"name": "begin", "type": ["null", stamp]}, {"name": "case", "type": case},
        {"name": "tags", "type": {"type": "array", "items": "log.Stamp"}},
        {"name": "end", "type": "log.Stamp"},
    ]}  # fmt: skip
    first = {"at": 5, "who": 7, "kind": "x", "before": None}
    rows = [
        {"begin": None, "case": {"id": "1"}, "tags": [first], "end": first},
        {"begin": first, "case": {"id": "2"}, "tags": [], "end": {
            "at": 6, "who": "w", "kind": "y", "before": {**first, "who": 1.5}}},
    ]  # fmt: skip
    data, reader = container_of(schema, rows), AvroReader()
    wanted = ["end.at", "begin.who", "case.id", "begin.kind", "end.kind", "end.before.who"]
    (batch,) = reader.read(io.BytesIO(data), wanted, wanted, 9)
    assert batch.columns.schema.names == wanted
    got = batch.columns.to_pydict()
    assert [stamp.microsecond for stamp in got.pop("end.at")] == [5000, 6000]
    assert got == {
        "begin.who": [None, "7"], "case.id": ["1", "2"], "begin.kind": [None, "x"],
        "end.kind": ["x", "y"], "end.before.who": [None, "1.5"],
    }  # fmt: skip
    names = reader.column_names(io.BytesIO(data)) or []
    assert names[:9] == [
        *("begin", "case", "tags", "end"),
        *("begin.at", "begin.who", "begin.kind", "begin.before", "case.id"),
    ]
    assert len(names) < 300  # of a type without end
    for path in ("begin", "tags", "end.before"):
        with pytest.raises(InputSchemaError, match="is nested"):
            reader.empty(io.BytesIO(data), [path])
    for path in ("tags.at", "case.id.x"):
        assert not reader.empty(io.BytesIO(data), [path]).num_columns


def test_unions_that_values_do_not_tell_apart() -> None:
    with pytest.raises(InputSchemaError, match=r"'c' is a union.*int64, timestamp"):
        read(avro_of({"c": ["int", long("timestamp-millis")]}, []))


def test_missing_and_duplicate_fields() -> None:
    data = avro_of({"x": "string", "case:concept:name": "string"}, [])
    with pytest.raises(InputSchemaError, match="no column 'c'; its columns are 'x',"):
        read(data)
    assert AvroReader().column_names(io.BytesIO(data)) == ["x", "case:concept:name"]
    twice = data.replace(b'"case:concept:name"', b'"x"' + b" " * 16)
    for reading in (read, lambda d: AvroReader().column_names(io.BytesIO(d))):
        with pytest.raises(InputSchemaError, match="2 fields 'x'"):
            reading(twice)


@pytest.mark.parametrize("kind", ["string", ["null", "string"], {"type": "array", "items": "int"}])
def test_containers_of_no_records(kind: Any) -> None:
    with pytest.raises(InputSchemaError, match="not one of records"):
        read(container_of(kind, []))


ROWS = [{"c": f"case {n}", "a": "A" * (n % 5), "t": n} for n in range(300)]
FIELDS = {"c": "string", "a": ["null", "string"], "t": long("timestamp-micros")}


@pytest.mark.parametrize("codec", ["bzip2", "xz", "zstandard", "snappy", "lz4"])
def test_every_codec_is_read(codec: str) -> None:
    expected, mark = read(avro_of(FIELDS, ROWS)), b"0123456789abcdef"
    data = avro_of(FIELDS, ROWS, codec.replace("lz4", "null"), sync_marker=mark)
    if codec == "lz4":  # for which fastavro needs another package
        head, block, _ = data.split(mark)
        source, out = io.BytesIO(block), io.BytesIO()
        size, content = (fastavro.schemaless_reader(source, t, None) for t in ("long", "bytes"))
        packed = len(content).to_bytes(4, "little") + bytes(pa.compress(content, "lz4_raw"))
        fastavro.schemaless_writer(out, "long", size)
        fastavro.schemaless_writer(out, "bytes", packed)
        data = mark.join([head.replace(b"\x08null", b"\x06lz4"), out.getvalue(), b""])
    assert read(data).equals(expected)
    with pytest.raises(InputSchemaError, match="damaged"):
        read(data.replace(codec.encode(), b"x" * len(codec)))


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_cut_off_anywhere_but_between_blocks(codec: str) -> None:
    rows = ROWS[:40]
    data = avro_of(FIELDS, rows, codec, sync_interval=300, sync_marker=b"0123456789abcdef")
    ends = {n + 16 for n in range(len(data)) if data[n:].startswith(b"0123456789abcdef")}
    assert len(ends) >= 3 and len(data) in ends
    for cut in range(len(data)):
        if cut in ends:  # which is a shorter file without any fault
            assert read(data[:cut]).num_rows < len(rows)
        else:
            with pytest.raises(InputSchemaError, match="cut off"):
                read(data[:cut])


def test_damage_is_reported_without_the_data() -> None:
    data = avro_of({"c": "string"}, [{"c": "secret"}])
    for broken in (
        data.replace(b"secret", b"secre\xff"),  # no UTF-8
        data[:-1] + b"!",  # another sync marker
        data.replace(b"\x0csecret", b"\x0asecret"),  # a block longer than its records
        data.replace(b"\x02\x0e\x0csecret", b"\x04\x0e\x0csecret"),  # fewer records than claimed
        data.replace(b"\x02\x0e\x0csecret", b"\x01\x0e\x0csecret"),  # a negative number of records
        data.replace(b"\x02\x0e\x0csecret", b"\x02\x0d\x0csecret"),  # a negative length
        data.replace(b"\x02\x0e\x0csecret", b"\x02\xff\xff\xff\xff\xff\x0f\x0csecret"),  # endless
    ):
        assert broken != data
        with pytest.raises(InputSchemaError, match="damaged") as caught:
            read(broken)
        assert "secre" not in str(caught.value) and caught.value.__suppress_context__


def test_memory_is_bounded() -> None:
    header = avro_of(FIELDS, [], sync_marker=b"0123456789abcdef")
    block = avro_of(FIELDS, ROWS, sync_marker=b"0123456789abcdef")[len(header) :]
    endless = Trickle(header, lambda: block)
    batches = AvroReader().read(endless, ["c"], ["c"], 250)
    assert [next(batches).records[-1] for _ in range(4)] == [249, 499, 749, 999]
    assert endless.taken <= len(header) + 4 * len(block)
    with mock.patch.object(avro, "BATCH_BYTES", 1000):
        batches = AvroReader().read(Trickle(header, lambda: block), ["c"], ["c"], 10_000)
        assert [len(next(batches).records) for _ in range(3)] == [300, 300, 300]
    with mock.patch.object(avro, "BLOCK_BYTES", 1000), pytest.raises(InputSchemaError):
        read(header + block)


# --- regular blocks -------------------------------------------------------------------------------


TEXTS = ["", "A", "x" * 70, "é😀", "@@", "case 1"]
LONGS = [0, -1, 63, 64, -64, -65, 2**31, 1_700_000_000_000_000, 2**62, -(2**63), 2**63 - 1]
# A type and some of its values.
DRAWN: list[tuple[Any, list[Any]]] = [
    ("string", TEXTS),
    ("long", LONGS),
    ("int", [0, -1, 5, 2**31 - 1, -(2**31)]),
    ("double", [0.0, -1.5, math.inf, 1e300]),
    ("float", [0.5, -2.0]),
    ("boolean", [True, False]),
    ("bytes", [b"", b"\0\xff"]),
    ({"type": "long", "logicalType": "timestamp-millis"}, [0, 5, 1_700_000_000_000]),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, [0, 1_700_000_000_000_000]),
    ({"type": "int", "logicalType": "date"}, [0, 20_000]),
    ({"type": "fixed", "name": "Fixed", "size": 3}, [b"abc"]),
    ({"type": "enum", "name": "Enum", "symbols": ["a", "b"]}, ["a", "b"]),
    ({"type": "array", "items": "int"}, [[], [1, 2]]),
]
WANTED = ("c", "a", "n", "o.c", "o.i.n", "p.n")


def container(draw: random.Random) -> bytes:
    """A file of some blocks, of which some bytes may be others."""
    fields, values = [], []
    for name, (kind, each) in zip(
        draw.sample("canxyz", draw.randrange(1, 6)), draw.sample(DRAWN, 5), strict=False
    ):
        wide = draw.random() < 0.2 and kind == "long"
        branches = draw.choice([[kind], ["null", kind], [kind, "null"]]) + ["string"] * wide
        fields.append({"name": name, "type": kind if branches == [kind] else branches})
        values.append(
            [*each, *([None] if "null" in branches else []), *(TEXTS if wide else [])]
            if draw.random() < 0.8 or "null" not in branches
            else [None]
        )
    n_rows = draw.randrange(1, 60)
    rows: list[Any] = [
        {field["name"]: draw.choice(each) for field, each in zip(fields, values, strict=True)}
        for _ in range(n_rows)
    ]
    if draw.random() < 0.6:
        nest(draw, fields, rows)
    stream = io.BytesIO()
    schema: Any = {"type": "record", "name": "log.Event", "fields": fields}
    codec = draw.choice(["null", "null", "null", "deflate"])
    fastavro.writer(
        stream, schema, rows, codec, sync_interval=draw.choice([1, 50, 300]),
        strict_allow_default=False,
    )  # fmt: skip
    data = bytearray(stream.getvalue())
    head = data.index(b"}") + 40
    for _ in range(draw.choice([0, 0, 1, 2])):
        if head < len(data):
            data[draw.randrange(head, len(data))] = draw.choice([0, 1, 2, 3, 64, 127, 128, 255])
    return bytes(data)


def nest(draw: random.Random, fields: list[Any], rows: list[Any]) -> None:
    """Adds fields within records, of which one type is met twice, and any may be missing."""
    more = [
        {"name": "again", "type": ["null", "log.Inner"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a"]}},
    ]
    inner: Any = {"type": "record", "name": "Inner", "fields": [
        {"name": "z", "type": "string"},
        {"name": "n", "type": draw.choice(["long", ["null", "int"]])},
        *draw.choice([[], more[1:], more]),
    ]}  # fmt: skip
    union = draw.choice([["null"], ["null"], []])
    outer = [{"name": "i", "type": [*union, inner] if union else inner}]
    outer.insert(
        draw.randrange(2), {"name": "c", "type": draw.choice(["string", ["string", "null"]])}
    )
    o = {"type": "record", "name": "Outer", "fields": outer}
    fields.append({"name": "o", "type": draw.choice([o, [o, "null"]])})
    fields.insert(
        len(fields), {"name": "p", "type": draw.choice(["log.Inner", ["null", "log.Inner"]])}
    )
    inside = [
        {"z": "é", "n": 5, "again": None, "kind": "a"},
        {"z": "", "n": 2**31 - 1, "kind": "a"},
    ]
    inside.append({**inside[0], "again": inside[1]})
    for row in rows:
        i = None if union and draw.random() < 0.3 else draw.choice(inside)
        row["o"] = {"c": draw.choice(TEXTS), "i": i}
        row["p"] = draw.choice(inside)
        if isinstance(fields[-2]["type"], list) and draw.random() < 0.3:
            row["o"] = None
        if isinstance(fields[-1]["type"], list) and draw.random() < 0.3:
            row["p"] = None


def test_blocks_are_read_alike_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches any difference of what is damaged, malformed, null or typed."""
    monkeypatch.setattr(avro_regular, "_BLOCKS", 1)
    bounds = {"BLOCK_BYTES": [100, 5_000, 256 << 20], "_GROUP_BYTES": [1, 200, 16 << 20]}
    share = share_read_together(
        avro, bounds, lambda draw: AvroReader(draw.random() < 0.5), container, WANTED, [()], 150, 5
    )
    assert share > 0.1


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("double", b"\0" * 4),  # the record ends behind its block
        ("double", b"\0" * 12),  # and before the end of it
        ("string", b"\x80" * 12),  # a length without an end
        ("string", b"\x02\xff"),  # no UTF-8
        ("boolean", b"\x02"),
    ],
)
def test_a_block_that_is_not_as_it_must_be_is_left_to_who_reads_record_by_record(
    kind: str, data: bytes
) -> None:
    steps = [Step("a", (kind,), False, kind)]
    with pytest.raises(avro_regular._Irregular):
        avro_regular._columns(steps, data, np.array([len(data)]), np.array([1]))

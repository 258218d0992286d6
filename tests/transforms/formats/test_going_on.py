"""Readers that go on: what one record can cause is that record's end, and never the file's.

Where a release promises a true epsilon, no case may decide by its text whether there is one.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Sequence
from typing import Any, BinaryIO, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.format_streams import Trickle, read_all
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats import avro as avro_format
from tracecloak.transforms.formats import csv as csv_format
from tracecloak.transforms.formats import xes as xes_format
from tracecloak.transforms.formats.avro import AvroReader
from tracecloak.transforms.formats.base import Reader
from tracecloak.transforms.formats.csv import CsvReader
from tracecloak.transforms.formats.parquet import ParquetReader
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.formats.xes import XesReader

Read = tuple[list[tuple[str | None, ...]], list[int], list[int]]


def read(
    reader: Reader, data: bytes, wanted: Sequence[str], size: int = 1 << 20, batch_rows: int = 1000
) -> Read:
    """(rows, their record numbers, those of malformed records), of a stream of so few bytes."""
    stream = cast(BinaryIO, Trickle(data, bytes, size))
    batches, records, malformed = read_all(reader, stream, wanted, (), batch_rows)
    assert all(b.schema.names == list(wanted) or not b.num_rows for b in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [tuple(row.values()) for row in rows], records, malformed


def test_every_format_of_ours_goes_on_where_it_is_told_to() -> None:
    for name in ("xes", "csv", "parquet", "avro", "jsonl"):
        for goes_on in (False, True):
            made: Any = SourceFormat(name, goes_on=goes_on).reader_of(f"a.{name}")
            assert made.goes_on is goes_on


# --- XES ------------------------------------------------------------------------------------------

KEYS = ("case:concept:name", "concept:name")


def trace(case: str, *activities: str, prefix: str = "") -> str:
    events = "".join(
        f'<{prefix}event><string key="concept:name" value="{name}"/></{prefix}event>'
        for name in activities
    )
    name = f'<string key="concept:name" value="{case}"/>'
    return f"<{prefix}trace>{name}{events}</{prefix}trace>"


FAULTS = {
    "token": '<trace><event><string key="' + "x" * 5_000 + '" value=""/></event></trace>',
    "tokens": '<trace a="' + "x" * 9_000 + '"><event></event></trace>',
    "trace": "<trace>" + "<event><string/></event>" * 800 + "</trace>",
    "control": '<trace><event><string key="concept:name" value="\x01"/></event></trace>',
    "ampersand": "<trace><event>a & b</event><event></event></trace>",
    "bracket": '<trace><event><string key="concept:name" value="<"/></event></trace>',
    "same attribute": '<trace a="1" a="2"><event></event></trace>',
    "open event": "<trace><event></trace>",
    "event in event": "<trace><event><event></event></event></trace>",
    "event in list": "<trace><list><event></event></list></trace>",
    "deep": "<trace>" + "<list>" * 300 + "</list>" * 300 + "</trace>",
    "names": "<trace>" + "".join(f"<{'n' * 90}{i}/>" for i in range(50)) + "</trace>",
    "doctype": "<trace><!DOCTYPE log [<!ENTITY a 'b'>]><event></event></trace>",
    "entity": "<trace><event>&a;</event></trace>",
    "second declaration": '<trace><?xml version="1.0"?><event></event></trace>',
    "comment": "<trace><!-- a -- b --></trace>",
}  # fmt: skip


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xes_format, "_TOKEN_BYTES", 4_000)
    monkeypatch.setattr(xes_format, "_TRACE_BYTES", 10_000)
    monkeypatch.setattr(xes_format, "_NAME_CHARACTERS", 2_000)
    monkeypatch.setattr(xes_format, "_PIECE_BYTES", 700)


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize("size", [1, 97, 1 << 20])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_trace_with_a_fault_is_left_out_and_no_other(fault: str, size: int) -> None:
    """Wherever it stands; and without going on it is an error, so that nobody overlooks it."""
    sound = [trace("a", "A", "B"), trace("b", "C"), trace("c", "A")]
    rows = [[("a", "A"), ("a", "B")], [("b", "C")], [("c", "A")]]
    for place in range(4):
        text = "".join(["<log>", *sound[:place], fault, *sound[place:], "</log>"])
        found = read(XesReader(True), text.encode(), KEYS, size)
        before = sum(map(len, rows[:place]))
        after = [before + 1 + i for i in range(sum(map(len, rows[place:])))]
        assert found[0] == [row for each in rows for row in each]
        assert found[1] == [*range(before), *after]
        assert found[2] == [before]
        with pytest.raises(InputSchemaError):
            read(XesReader(), text.encode(), KEYS, size)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_bytes_of_no_character_cost_the_trace_that_has_them(encoding: str) -> None:
    bad = {"utf-8": b"\xff", "utf-16-le": b"\x00\xdc"}[encoding]
    head = f"<?xml version='1.0' encoding='{encoding[:6]}'?><log>" + trace("a", "A")
    data = (head + '<trace><event><string key="').encode(encoding) + bad
    data += ('"/></event></trace>' + trace("b", "B") + "</log>").encode(encoding)
    assert read(XesReader(True), data, KEYS) == ([("a", "A"), ("b", "B")], [0, 2], [1])


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize("size", [1, 97, 1 << 20])
@pytest.mark.parametrize("prefix", ["", "x:"])
def test_names_and_length_of_a_trace_count_for_that_trace_alone(size: int, prefix: str) -> None:
    def named(case: str, n: int) -> str:
        return trace(case, "A", prefix=prefix).replace(
            f"<{prefix}event>",
            "".join(f"<{case}{'n' * 90}{i}/>" for i in range(n)) + f"<{prefix}event>",
        )

    def long(case: str, n: int) -> str:
        return trace(case, *["A"] * n, prefix=prefix)

    few, many = named("a", 15), named("b", 30)
    assert len(long("l", 100)) < 10_000 < len(long("m", 300))
    parts = [
        few, named("c", 15), many, trace("d", "B", prefix=prefix), named("e", 15), many,
        long("l", 100), long("l", 100), long("m", 300), trace("f", "B", prefix=prefix),
    ]  # fmt: skip
    whole = f"<{prefix}log><odd{'n' * 500}/>{''.join(parts)}</{prefix}log>".encode()
    rows, _, malformed = read(XesReader(goes_on=True), whole, KEYS, size)
    assert [case for case, _ in rows if case != "l"] == ["a", "c", "d", "e", "f"]
    assert len(rows) == 205 and len(malformed) == 3
    # Each is read, or not, as it is alone.
    for part in parts:
        alone = read(
            XesReader(goes_on=True), f"<{prefix}log>{part}</{prefix}log>".encode(), KEYS, size
        )
        assert len(alone[2]) == (part == many or '"m"' in part)


# --- CSV ------------------------------------------------------------------------------------------

FIELDS = ("case", "step")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", 100)
    monkeypatch.setattr(csv_format, "RECORD_BYTES", 400)
    monkeypatch.setattr(csv_format, "_CHUNK_BYTES", 30)


LONG = {
    "plain": "x" * 2_000,
    "quoted": '"' + "x" * 2_000 + '"',
    "lines": '"' + "a,b\r\n" * 500 + '"',
    "quotes": '"' + 'a""\nb,"",""' * 300 + '"',
    "goes on behind its quote": '"' + "x\n" * 500 + '"x"' + "y" * 300,
}


@pytest.mark.by_day(9)
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("long", LONG.values(), ids=LONG.keys())
def test_a_record_that_is_too_long_is_passed_over_to_its_end(long: str, line_break: str) -> None:
    """What stands in its quotes is never read for records."""
    sound = [(f"c{i}", f"s{i % 3}") for i in range(60)]
    for place in (0, 30, 60):
        lines = [f"{case},{step}" for case, step in sound]
        lines.insert(place, f"{long},s")
        data = line_break.join(["case,step", *lines, ""]).encode()
        numbers = [n for n in range(61) if n != place]
        assert read(CsvReader(goes_on=True), data, FIELDS) == (sound, numbers, [place])
        with pytest.raises(InputSchemaError):
            read(CsvReader(), data, FIELDS)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("n_after", [0, 3, 500])
def test_a_quote_that_is_never_closed_takes_the_rest_and_that_is_told(
    n_after: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("tracecloak"), "propagate", True)
    lines = ["case,step", *(f"c{i},s" for i in range(50)), '"d,s', *["e,s"] * n_after]
    found = read(CsvReader(goes_on=True), "\n".join(lines).encode(), FIELDS)
    assert found == ([(f"c{i}", "s") for i in range(50)], list(range(50)), [50])
    assert "a quote is never closed" in caplog.text


@pytest.mark.parametrize(
    ("encoding", "bad"), [("utf-8", b"\xff\xfe"), ("ascii", b"\xc3"), ("utf-16-le", b"\x00\xdc")]
)
def test_what_the_encoding_does_not_have_costs_the_record_that_asks_for_it(
    encoding: str, bad: bytes
) -> None:
    parts = ["case,other,step\na,", ",A\nb,", "x,B\nc,", ",", "x\nd,,D\n"]
    data = b"".join([
        parts[0].encode(encoding), parts[1].encode(encoding), bad, parts[2].encode(encoding),
        parts[3].encode(encoding), bad, parts[4].encode(encoding),
    ])  # fmt: skip
    reader = CsvReader(encoding=encoding, goes_on=True)
    assert read(reader, data, FIELDS) == ([("a", "A"), ("b", "B"), ("d", "D")], [0, 1, 3], [2])
    assert read(reader, data, ("case", "other"))[1:] == ([0, 2, 3], [1])


# --- Parquet and Avro -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "dictionary", "large"])
def test_text_of_parquet_that_is_no_utf_8_costs_its_record(kind: str) -> None:
    values = [b"A", b"\xff", b"C", None, b"\xc3", b"F"]
    table = pa.table({"case": pa.array(list("abcdef")), "step": pa.array(values, pa.binary())})
    plain, large = pa.array(values, pa.binary()), pa.array(values, pa.large_binary())
    text = large.view(pa.large_string()) if kind == "large" else plain.view(pa.string())
    as_text = table.set_column(1, "step", text)  # as writers do that do not look
    stream = io.BytesIO()
    pq.write_table(as_text, stream, use_dictionary=kind == "dictionary")
    data = stream.getvalue()
    rows = [("a", "A"), ("c", "C"), ("d", None), ("f", "F")]
    batches, records, malformed = read_all(ParquetReader(True), data, FIELDS, (), 4)
    assert [tuple(row.values()) for batch in batches for row in batch.to_pylist()] == rows
    assert (records, malformed) == ([0, 2, 3, 5], [1, 4])
    with pytest.raises(InputSchemaError):
        list(ParquetReader().read(io.BytesIO(data), FIELDS, (), 4))


KINDS = {"case": "string", "step": ["null", "string"], "other": "string"}
AVRO_FIELDS = [{"name": name, "type": kind} for name, kind in KINDS.items()]
SCHEMA: Any = {"type": "record", "name": "Event", "fields": AVRO_FIELDS}


def avro(rows: Sequence[tuple[str, str | None, str]], sync_interval: int) -> bytes:
    stream = io.BytesIO()
    records = [dict(zip(KINDS, row, strict=True)) for row in rows]
    fastavro.writer(stream, SCHEMA, records, sync_interval=sync_interval)
    return stream.getvalue()


def test_text_of_avro_that_is_no_utf_8_costs_its_record() -> None:
    rows = [("a", "A", "x"), ("b", "@@@", "x"), ("c", None, "###"), ("d", "@@@", "x")]
    data = avro(rows, 1 << 20).replace(b"@@@", b"\xff\xfe\xfd").replace(b"###", b"\xff\xfe\xfd")
    found = read(AvroReader(True), data, FIELDS)
    assert found == ([("a", "A"), ("c", None)], [0, 2], [1, 3])
    with pytest.raises(InputSchemaError):
        read(AvroReader(), data, FIELDS)


def test_a_block_of_avro_that_is_too_long_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_format, "BLOCK_BYTES", 3_000)
    monkeypatch.setattr(avro_format, "_SKIPPED_BYTES", 100)
    long = ("long", "x" * 5_000, "")
    for place in (0, 2, 4):
        rows = [(case, case.upper(), "") for case in "abcd"]
        data = avro([*rows[:place], long, *rows[place:]], 1)
        found = read(AvroReader(True), data, FIELDS)
        numbers = [n for n in range(5) if n != place]
        assert found == ([row[:2] for row in rows], numbers, [place])
        with pytest.raises(InputSchemaError):
            read(AvroReader(), data, FIELDS)
        with pytest.raises(InputSchemaError):  # what ends within it is cut off all the same
            read(AvroReader(True), data[: data.index(b"xxx") + 9], FIELDS)

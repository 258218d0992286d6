"""A file that is read in pieces is the file: records, numbers, rejects, findings and errors."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from tests.support.format_streams import records_of, records_of_pieces
from tracecloak.schemas.errors import InputSchemaError, LacksColumn, RetryLater
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import FileTally, ReadTally
from tracecloak.transforms.batch.read import ReadFiles
from tracecloak.transforms.formats import csv, jsonl, pieces
from tracecloak.transforms.formats.csv import CsvReader
from tracecloak.transforms.formats.jsonl import JsonLinesReader
from tracecloak.transforms.formats.pieces import QuotedScanner
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import SourceFile, match_files
from tracecloak.transforms.sources import EventSource, check_pieces
from tracecloak.transforms.sources import pieces as pieces_of

_OPEN = '"open,x'
_LONG = ["x" * 70 + ",y", '"' + "ab\n" * 30 + '",y']
_QUOTING = [
    "p,q", '5" pipe,x', 'a"b"c,"x"', '"two\nlines",5"', '"a""\n""b",y', '"x"y",z',
    '"' + 'a""\n' * 10 + '",y', _OPEN, *_LONG,
]  # fmt: skip
_JSON_LINES = st.lists(
    st.sampled_from([
        b'{"a":1}', b'{"b":"x"}', b"{", b"", b" \t", b" " * 9, b"\r", b"\xef\xbb\xbf",
        b'{"a":null}\r', b"\xff", b"[", b" ] ", b"],", b"[ ]", b"[]", b'[{"a":2},', b'{"a":3} ,',
        b',{"a":{"b":4}}]',
    ]),
    max_size=12,
)  # fmt: skip


@given(
    st.lists(st.sampled_from(_QUOTING) | st.just('5" pipe,x'), max_size=80),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(1, 300),
    st.sampled_from([16, 100, 1 << 20]),
    st.booleans(),
)
def test_csv_of_any_quotes_is_the_same_in_pieces_and_in_blocks(
    lines: list[str], line_break: str, n: int, block: int, goes_on: bool
) -> None:
    """Quotes that open no field mislead about where a block ends; a record can be too long."""
    data = line_break.join(["a,b", *lines, ""]).encode()
    reader = CsvReader(goes_on=goes_on)
    with mock.patch.multiple(csv, RECORD_BYTES=64, BLOCK_BYTES=block, _CHUNK_BYTES=block // 2):
        whole = records_of(reader, data, "ab")
        assert records_of_pieces(reader, data, "ab", n) == whole
    if not {_OPEN, *_LONG} & set(lines):
        assert len(whole) == len(lines)


@given(st.text('a",\n\r', max_size=40), st.booleans(), st.lists(st.integers(0, 40)))
def test_a_scanner_is_the_automaton_of_its_signs(text: str, starts: bool, cuts: list[int]) -> None:
    data, scanner = text.encode(), QuotedScanner(b",", b'"', starts)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    found = [int(at) for a, b in pairwise(edges) for at in scanner.feed(data[a:b])]
    is_quoted, before, ends = starts, "\n", []
    for run in re.finditer(r'"+|[^"]', text):
        if run[0][0] == '"':
            if len(run[0]) % 2:
                is_quoted = not is_quoted and before in "\n\r,"
        elif run[0] in "\n\r" and not is_quoted:
            ends.append(run.end())
        before = run[0][-1]
    assert found == ends
    begins = [0] if not starts else [at for at in ends if text[at - 1] == "\n"]
    assert scanner.begin is None or scanner.begin[0] == begins[0]
    assert (scanner.begin is None) == (not begins)


@given(_JSON_LINES, st.integers(1, 30), st.booleans(), st.sampled_from([8, 1 << 20]))
def test_json_lines_are_the_same_in_pieces(
    lines: list[bytes], n: int, ends: bool, longest: int
) -> None:
    data = b"\n".join(lines) + (b"\n" if ends else b"")
    bounds = mock.patch.multiple(jsonl, LINE_BYTES=longest, _CHUNK_BYTES=4)
    if data:
        reader = JsonLinesReader(goes_on=True)
        with bounds, mock.patch.object(pieces, "_READ_BYTES", 4):
            assert records_of_pieces(reader, data, "ab", n) == records_of(reader, data, "ab")


def _write_logs(folder: Path) -> None:
    """Writes a log in each format, with records of every kind of reject, and a short one."""
    times = ["2026-01-02T03:04:05Z", "never", "2026-01-02T03:04:05+01:00", ""]
    rows = [
        (f"case {i % 7}" if i % 11 else "", 'a,\n"b"' if i % 3 else "c", times[i % 9 % 4])
        for i in range(200)
    ]
    quoted = [",".join('"' + text.replace('"', '""') + '"' for text in row) for row in rows]
    for i in (20, 21, 77, 199):
        quoted[i] = "too,few" if i % 2 else 'one 5" pipe,without,2026-01-02T03:04:05Z'
    (folder / "a.csv").write_bytes(
        ("\ufeff" + "\r\n".join(["case_id,activity,timestamp", *quoted])).encode()
    )
    lines = [json.dumps(dict(zip(_NAMES, row, strict=True))) for row in rows]
    lines[5:5] = ["", "{", "  "]
    (folder / "b.jsonl").write_text("\n".join(lines))
    (folder / "c.jsonl.gz").write_bytes(gzip.compress((folder / "b.jsonl").read_bytes()))
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = pa.table(columns, names=list(_NAMES))
    pq.write_table(table, folder / "d.parquet", row_group_size=30)
    pq.write_table(table.slice(0, 2), folder / "e.parquet")


def _source(folder: Path, **keys: Any) -> EventSource:
    return EventSource(tuple(match_files([str(folder)])), SourceFormat(**keys), ColumnMapping())


_NAMES = ("case_id", "activity", "timestamp")


def _rows(batches: Sequence[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("max_bytes", [120, 4096])
def test_a_source_gives_the_same_in_pieces(tmp_path: Path, max_bytes: int) -> None:
    _write_logs(tmp_path)
    source = _source(tmp_path)
    n_pieces = []
    for file in source.files:
        whole, tally = list(source.read(file, one := FileTally(file.rank))), one.result()
        parts = pieces_of(source, file, max_bytes)
        n_pieces.append(len(parts))
        tallies, lacking, read = [], [], []
        for piece in parts:
            of_piece = FileTally(file.rank)
            read += list(source.read(piece, of_piece, lacking))
            tallies.append(of_piece.result())
        check_pieces(source, lacking)
        events = [row for pair in whole for row in pair[0].to_pylist()]
        assert [row for pair in read for row in pair[0].to_pylist()] == events
        assert _rows([pair[1] for pair in read]) == _rows([pair[1] for pair in whole])
        merged = ReadTally.merge(tallies)
        assert (merged.n_events, merged.to_json()) == (tally.n_events, tally.to_json())
    # Nothing divides what is compressed, and row groups are what they are.
    assert n_pieces[2] == 1 and (n_pieces[3] == 7 or max_bytes > 120)
    assert min(n_pieces[0], n_pieces[1]) > (30 if max_bytes == 120 else 1)


def test_the_pipeline_reads_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_logs(tmp_path)
    source = _source(tmp_path)
    tallies = [FileTally(file.rank) for file in source.files]
    read = [p for f, t in zip(source.files, tallies, strict=True) for p in source.read(f, t)]
    monkeypatch.setattr("tracecloak.transforms.batch.read.PIECE_BYTES", 500)
    with beam.Pipeline("FnApiRunner") as pipeline:
        given = pipeline | ReadFiles(source)
        for i, name in enumerate(("events", "rejects")):
            rows = given[name] | name >> beam.FlatMap(lambda batch: _rows([batch]))
            assert_that(rows, equal_to(_rows([pair[i] for pair in read])), label=f"{name} equal")
        tally = given["tallies"] | beam.combiners.ToList() | beam.Map(_merged)
        assert_that(tally, equal_to([_merged([one.result() for one in tallies])]))


def _merged(tallies: Sequence[ReadTally]) -> str:
    merged = ReadTally.merge(list(tallies))
    return f"{merged.n_events} {merged.to_json()}"


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_column_that_no_piece_has_is_missed_once(
    tmp_path: Path, goes_on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """One that some piece has is not, though others lack it."""
    row = {"case_id": "1", "activity": "A"}
    lines = [json.dumps({**row, f"x{i}": 1}) for i in range(4)] + ["{", ""]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    source = _source(tmp_path, goes_on=goes_on)
    (file,) = source.files

    def in_pieces() -> None:
        lacking: list[tuple[SourceFile, LacksColumn]] = []
        for piece in pieces_of(source, file, 20):
            list(source.read(piece, None, lacking))
        check_pieces(source, reversed(lacking))

    texts = []
    for reads in (in_pieces, lambda: list(source.read(file))):
        if goes_on:
            reads()
            texts += caplog.messages
            caplog.clear()
        else:
            with pytest.raises(InputSchemaError) as raised:
                reads()
            texts.append(str(raised.value))
    assert len(texts) == 2 and texts[0] == texts[1]
    assert "no column 'timestamp'; its columns are 'case_id'" in texts[0]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, json.dumps({"timestamp": "x"})]))
    source = _source(tmp_path, goes_on=goes_on)
    (file,) = source.files
    in_pieces()
    assert not caplog.messages


@pytest.mark.parametrize("is_same_size", [False, True])
def test_a_file_that_changes_after_it_was_divided_is_noticed(
    tmp_path: Path, is_same_size: bool
) -> None:
    _write_logs(tmp_path)
    source = _source(tmp_path)
    parts = pieces_of(source, source.files[0], 500)
    path = tmp_path / "a.csv"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\n", b" ") if is_same_size else data + b"\n")
    with pytest.raises(RetryLater, match=r"a\.csv: the input was changed after it"):
        list(source.read(parts[1], None, []))

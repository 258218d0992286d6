"""Values are the same identities in every format, and the same events in any pieces.

Whatever record is put in, anywhere, the canonical events of all others stay the same: no value has
a say in how another one is read.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.format_streams import records_of, records_of_pieces
from tests.support.record_files import COLUMNS, STAMP, WRITERS, Record, parquet, record
from tracecloak.schemas.errors import InputSchemaError, LacksColumn, RetryLater
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import FileTally, ReadTally, Reject
from tracecloak.transforms import sources
from tracecloak.transforms.batch.read import ReadFiles
from tracecloak.transforms.formats import csv, jsonl, pieces
from tracecloak.transforms.formats.csv import CsvReader
from tracecloak.transforms.formats.jsonl import JsonLinesReader
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.formats.pieces import QuotedScanner
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import SourceFile, match_files
from tracecloak.transforms.sources import EventSource, check_pieces
from tracecloak.transforms.sources import pieces as pieces_of

Event = tuple[str | None, ...]

MAPPING = ColumnMapping(
    case_id="case", activity="activity", timestamp="stamp", individual_id="who",
    attributes=(("kind", "kind"),),
)  # fmt: skip
XES_MAPPING = ColumnMapping(
    case_id="case:concept:name", activity="concept:name", timestamp="time:timestamp",
    individual_id="case:who", attributes=(("kind", "kind"),),
)  # fmt: skip


def source_of(folder: Path, files: dict[str, bytes], **mapping: Any) -> EventSource:
    ranked = []
    for rank, (name, data) in enumerate(files.items()):
        (folder / name).write_bytes(data)
        ranked.append(SourceFile(rank, str(folder / name), len(data)))
    names = {path.rpartition(".")[2] for path in files}
    base = XES_MAPPING if names == {"xes"} else MAPPING
    made = ColumnMapping(**{**base.__dict__, **mapping})
    return EventSource(tuple(ranked), SourceFormat(goes_on=True), made)


def events_of(source: EventSource) -> dict[tuple[int, int], Event]:
    """The canonical events by file and record; of a reject its reason alone."""
    found: dict[tuple[int, int], Event] = {}
    for file in source.files:
        for events, rejects in source.read(file, FileTally(file.rank)):
            for row in events.to_pylist():
                place = divmod(row.pop("event_index"), 1 << 40)
                found[place] = tuple(row.values())
            for row in rejects.to_pylist():
                found[row["file"], row["record"]] = (row["reason"],)
    return found


def in_order(source: EventSource) -> list[Event]:
    return [event for _, event in sorted(events_of(source).items())]


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=5)
VALUES = (
    st.sampled_from([5, 5.0, "5", "5.0", "005", 0.5, 202600001000, 1.5e300, -0.0, True, None, ""])
    | TEXT
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
RECORDS = st.builds(record, VALUES, VALUES, VALUES, VALUES)


@pytest.mark.parametrize("kind", WRITERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    records=st.lists(RECORDS, max_size=7),
    intruder=RECORDS,
    place=st.integers(0, 7),
    batch_rows=st.integers(1, 8),
)
def test_no_record_changes_the_event_of_another(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    records: list[Record],
    intruder: Record,
    place: int,
    batch_rows: int,
) -> None:
    folder = tmp_path_factory.mktemp("identities")
    write = WRITERS[kind]
    place = min(place, len(records))

    def read(given: Sequence[Record]) -> list[Event]:
        return in_order(source_of(folder, {f"log.{kind}": write(given)}))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sources, "_BATCH_ROWS", batch_rows)
        alone = [event for each in records for event in read([each])]
        assert read(records) == alone
        with_it = read([*records[:place], intruder, *records[place:]])
        assert with_it[:place] == alone[:place] and with_it[place + 1 :] == alone[place:]
        # In a file of its own, too.
        files = {f"a.{kind}": write([intruder]), f"b.{kind}": write(records)}
        found = events_of(source_of(folder, files))
        assert [event for (file, _), event in sorted(found.items()) if file == 1] == alone


FLOATS = pa.float64()
TYPED = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": FLOATS,
    "decimal": pa.decimal128(20, 2),
    "dictionary": pa.dictionary(pa.int8(), pa.int64()),
    "dictionary of floats": pa.dictionary(pa.int8(), FLOATS),
}


def test_the_same_values_are_the_same_identities_in_every_type(tmp_path: Path) -> None:
    numbers = [7, 0, -3, 2026000]
    expected = [(str(n), str(n), 1767607200000000, str(n), str(n)) for n in numbers]
    found: dict[str, list[Event]] = {}
    for name, kind in TYPED.items():
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        values = [Decimal(n) if pa.types.is_decimal(plain) else plain.to_pandas_dtype()(n)
                  for n in numbers]  # fmt: skip
        column = pa.array(values, plain)
        column = column.dictionary_encode().cast(kind) if plain != kind else column
        made = io.BytesIO()
        stamps = pa.array([STAMP] * len(numbers))
        pq.write_table(pa.table([column, column, stamps, column, column], COLUMNS), made)
        found[f"Parquet, {name}"] = in_order(source_of(tmp_path, {"log.parquet": made.getvalue()}))
    for kind, write in WRITERS.items():
        for cast in (int, float, str) if kind != "csv" else (int, str):
            records = [record(cast(n), cast(n), cast(n), cast(n)) for n in numbers]
            if cast is str:
                records = [record(*[str(n)] * 4) for n in numbers]
            name = f"{kind}, {cast.__name__}"
            found[name] = in_order(source_of(tmp_path, {f"log.{kind}": write(records)}))
    for name, events in found.items():
        assert sorted(e[0] or "" for e in events) == sorted(e[0] for e in expected), name
        assert {tuple(map(str, e)) for e in events} == {tuple(map(str, e)) for e in expected}, name


@pytest.mark.parametrize("kind", ["jsonl", "avro", "xes", "parquet"])
def test_a_number_that_names_nobody_is_a_reject_with_its_place(tmp_path: Path, kind: str) -> None:
    names = [
        (1.0, 2.0), (0.5, 2.0), (2.0**53, 2.0), (2.0**53 + 2, 2.0), (1.0, 0.5), (-0.0, -0.0),
    ]  # fmt: skip
    records = [record(case, who=who) for case, who in names]
    typed = [FLOATS, pa.string(), pa.string(), FLOATS, pa.string()]
    data = parquet(records, kinds=typed) if kind == "parquet" else WRITERS[kind](records)
    assert [event[0] for event in in_order(source_of(tmp_path, {f"log.{kind}": data}))] == [
        "1", Reject.FRACTION_CASE, "9007199254740992", Reject.FRACTION_CASE,
        Reject.FRACTION_INDIVIDUAL, "0",
    ]  # fmt: skip


def test_messages_have_the_same_identities() -> None:
    given = [5, 5.0, "5", {"long": 5}, {"double": 5.0}, {"string": "5"}, "5.0", 0.5, 2.0**60, -0.0]
    names = ("case_id", "activity", "who")
    bodies = [dict.fromkeys(names, value) | {"timestamp": STAMP} for value in given]
    bodies.append({"case_id": "c", "activity": 0.5, "who": 1.5, "timestamp": STAMP})
    sent = [SimpleNamespace(data=json.dumps(b).encode(), attributes={}) for b in bodies]
    layout = MessageFormat(ColumnMapping(individual_id="who"))
    events, rejects = layout.decode(sent, range(len(sent)))
    assert [row["case_id"] for row in events.to_pylist()] == [*["5"] * 6, "5.0", "0"]
    told = [(row["publish_time"], row["reason"]) for row in rejects.to_pylist()]
    assert told == [
        (7, Reject.FRACTION_CASE), (8, Reject.FRACTION_CASE), (10, Reject.FRACTION_INDIVIDUAL),
    ]  # fmt: skip
    declared = MessageFormat(ColumnMapping(individual_id="who", whole_numbers=("case_id", "who")))
    rows = declared.decode(sent, range(len(sent)))[0].to_pylist()
    assert [(row["case_id"], row["activity"], row["individual_id"]) for row in rows[-2:]] == [
        ("5", "5.0", "5"), ("0", "0", "0"),
    ]  # fmt: skip


# --- Pieces of files ------------------------------------------------------------------------------


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

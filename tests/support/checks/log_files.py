"""Made-up records as files of the formats that tracecloak reads: text in every column."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.checks.made_up_log import Record
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import CASE_PREFIX
from tracecloak.transforms.formats.registry import FORMATS, SourceFormat, unpacked

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NOT_UTF8 = re.compile("[\ud800-\udfff]")


def format_of(patterns: Sequence[str], how: SourceFormat) -> tuple[str, str]:
    """Returns the format that logs are made in, and the ending of their files' names.

    That of a configuration's inputs, where it is one that is written here. JSON lines otherwise; of
    a folder, in which nobody looks, CSV.
    """
    try:
        name = how.name_of(patterns[0])
    except UsageError:
        name = "csv"
    if name not in _WRITERS:
        name = "jsonl"
    plain, codec = unpacked(patterns[0])
    endings = [ending for ending in FORMATS.named(name).endings if plain.endswith(ending)]
    ending = (endings or FORMATS.named(name).endings)[0]
    return name, ending + (".gz" if codec and not FORMATS.named(name).is_packed else "")


def write_log(
    path: Path,
    name: str,
    how: SourceFormat,
    columns: Sequence[str],
    records: Sequence[Record],
    case_id: str,
    broken: Sequence[str] = (),
) -> None:
    """Writes a log.

    Args:
        path: Where to; an ending .gz compresses it.
        name: Its format, see `format_of`.
        how: How the configuration reads it.
        columns: Its columns.
        records: Its events, those of a case one after the other.
        case_id: The column of the case id.
        broken: Lines that are no records, in which U+DC80 to U+DCFF stand for single bytes; for
            formats of text, others go without.
    """
    data = _WRITERS[name](how, path, columns, records, case_id, broken)
    path.write_bytes(gzip.compress(data, 1, mtime=0) if path.suffix == ".gz" else data)


def _csv(
    how: SourceFormat,
    path: Path,
    columns: Sequence[str],
    records: Sequence[Record],
    _: str,
    broken: Sequence[str],
) -> bytes:
    is_tabs = unpacked(path.name)[0].endswith(".tsv")
    names = how.header or columns
    text = io.StringIO()
    writer = csv.writer(text, delimiter=how.delimiter or ("\t" if is_tabs else ","))
    writer.writerows([names] if how.header is None else [])
    writer.writerows([record[name] for name in names] for record in records)
    text.writelines(f"{line}\r\n" for line in broken)
    is_utf8 = codecs.lookup(how.encoding).name == "utf-8"
    return text.getvalue().encode(how.encoding, "surrogateescape" if is_utf8 else "replace")


def _jsonl(
    how: SourceFormat,
    path: Path,
    columns: Sequence[str],
    records: Sequence[Record],
    _: str,
    broken: Sequence[str],
) -> bytes:
    lines = [*(json.dumps(record) for record in records), *broken]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _parquet(
    how: SourceFormat, path: Path, columns: Sequence[str], records: Sequence[Record], *_: object
) -> bytes:
    sink = io.BytesIO()
    rows = [{name: _utf8(value) for name, value in record.items()} for record in records]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema([(n, pa.string()) for n in columns])), sink)
    return sink.getvalue()


def _avro(
    how: SourceFormat, path: Path, columns: Sequence[str], records: Sequence[Record], *_: object
) -> bytes:
    # Avro's names have no colons, so a column that is called otherwise cannot be in a file of it.
    schema = {
        "type": "record",
        "name": "event",
        "fields": [{"name": name, "type": "string"} for name in columns],
    }
    sink = io.BytesIO()
    rows = [{name: _utf8(value) for name, value in record.items()} for record in records]
    fastavro.writer(sink, schema, rows)
    return sink.getvalue()


def _xes(
    how: SourceFormat,
    path: Path,
    columns: Sequence[str],
    records: Sequence[Record],
    case_id: str,
    broken: Sequence[str],
) -> bytes:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<log>"]
    last: object = None
    for record in records:
        of_case = {n: v for n, v in record.items() if n.startswith(CASE_PREFIX)}
        if record[case_id] != last:
            lines += ["</trace>"] if last is not None else []
            lines += [
                "<trace>",
                *_tags({n.removeprefix(CASE_PREFIX): v for n, v in of_case.items()}),
            ]
            last = record[case_id]
        of_event = {n: v for n, v in record.items() if n not in of_case}
        lines += ["<event>", *_tags(of_event), "</event>"]
    lines += ["</trace>"] if last is not None else []
    return "\n".join([*lines, *broken, "</log>", ""]).encode()


def _tags(values: Mapping[str, str]) -> list[str]:
    return [
        f"<string key={quoteattr(name)} value={quoteattr(_NOT_XML.sub('?', value))}/>"
        for name, value in values.items()
    ]


def _utf8(value: str) -> str:
    return _NOT_UTF8.sub("?", value)


_Writer = Callable[[SourceFormat, Path, Sequence[str], Sequence[Record], str, Sequence[str]], bytes]
_WRITERS: Mapping[str, _Writer] = {
    "csv": _csv, "jsonl": _jsonl, "parquet": _parquet, "avro": _avro, "xes": _xes,
}  # fmt: skip

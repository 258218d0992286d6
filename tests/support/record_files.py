"""Records of a value for each of some columns, written in every format that is read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

STAMP = "2026-01-05T10:00:00Z"
COLUMNS = ("case", "activity", "stamp", "who", "kind")
Record = tuple[Any, ...]  # a value for each of COLUMNS


def record(
    case: Any, activity: Any = "A", who: Any = "p", kind: Any = "k", stamp: str = STAMP
) -> Record:
    """Returns one record."""
    return case, activity, stamp, who, kind


def jsonl(records: Sequence[Record]) -> bytes:
    lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in records]
    return "".join(lines).encode()


def as_csv(records: Sequence[Record]) -> bytes:
    """As pandas writes columns that hold objects."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(records)
    return text.getvalue().encode()


def avro(records: Sequence[Record]) -> bytes:
    kinds = ["null", "boolean", "long", "double", "string"]
    fields = [{"name": name, "type": kinds} for name in COLUMNS]
    made = io.BytesIO()
    schema = {"type": "record", "name": "R", "fields": fields}
    fastavro.writer(made, schema, [dict(zip(COLUMNS, row, strict=True)) for row in records])
    return made.getvalue()


def xes_value(key: str, value: Any) -> str:
    if value is None:
        return ""
    tag = {bool: "boolean", int: "int", float: "float"}.get(type(value), "string")
    text = value if type(value) is str else str(value).lower()
    return f"<{tag} key={quoteattr(key)} value={quoteattr(text)}/>"


def xes(records: Sequence[Record]) -> bytes:
    """Each event in a trace of its own."""
    traces = [
        f"<trace>{xes_value('concept:name', case)}{xes_value('who', who)}<event>"
        f"{xes_value('concept:name', activity)}{xes_value('kind', kind)}"
        f'<date key="time:timestamp" value="{stamp}"/></event></trace>'
        for case, activity, stamp, who, kind in records
    ]
    return f"<log>{''.join(traces)}</log>".encode()


def parquet(records: Sequence[Record], *kinds: pa.DataType) -> bytes:
    types = kinds or [pa.string()] * len(COLUMNS)
    columns = [pa.array([row[i] for row in records], kind) for i, kind in enumerate(types)]
    made = io.BytesIO()
    pq.write_table(pa.table(dict(zip(COLUMNS, columns, strict=True))), made)
    return made.getvalue()


WRITERS: dict[str, Callable[[Sequence[Record]], bytes]] = {
    "jsonl": jsonl, "csv": as_csv, "avro": avro, "xes": xes
}  # fmt: skip

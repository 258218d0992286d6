"""Records of a value for each of some columns, written in every format that is read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import FileTally

STAMP = "2026-01-05T10:00:00Z"
COLUMNS = ("case", "activity", "stamp", "who", "kind")
Record = tuple[Any, ...]  # a value for each of COLUMNS


def record(
    case: Any, activity: Any = "A", who: Any = "p", kind: Any = "k", stamp: str = STAMP
) -> Record:
    """Returns one record."""
    return case, activity, stamp, who, kind


def jsonl(records: Sequence[Record], names: Sequence[str] = COLUMNS) -> bytes:
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in records]
    return "".join(lines).encode()


def as_csv(records: Sequence[Record], names: Sequence[str] = COLUMNS) -> bytes:
    """As pandas writes columns that hold objects."""
    text = io.StringIO()
    csv.writer(text).writerows([names, *records])
    return text.getvalue().encode()


def avro(records: Sequence[Record], names: Sequence[str] = COLUMNS) -> bytes:
    kinds = ["null", "boolean", "long", "double", "string"]
    fields = [{"name": name, "type": kinds} for name in names]
    made = io.BytesIO()
    schema = {"type": "record", "name": "R", "fields": fields}
    fastavro.writer(made, schema, [dict(zip(names, row, strict=True)) for row in records])
    return made.getvalue()


def xes_value(key: str, value: Any) -> str:
    if value is None:
        return ""
    tag = {bool: "boolean", int: "int", float: "float"}.get(type(value), "string")
    text = value if type(value) is str else str(value).lower()
    return f"<{tag} key={quoteattr(key)} value={quoteattr(text)}/>"


XES_KEYS = {"activity": "concept:name", "stamp": "time:timestamp", "timestamp": "time:timestamp"}


def xes(records: Sequence[Record], names: Sequence[str] = COLUMNS) -> bytes:
    """A trace for each case; for each event, if traces say who they are of."""
    traces: dict[Any, str] = {}
    for number, (case, *values) in enumerate(records):
        texts = {
            name: xes_value(XES_KEYS.get(name, name), value)
            for name, value in zip(names[1:], values, strict=True)
        }
        trace = number if "who" in texts else case
        head = xes_value("concept:name", case) + texts.pop("who", "")
        traces[trace] = traces.get(trace, head) + f"<event>{''.join(texts.values())}</event>"
    return f"<log>{''.join(f'<trace>{text}</trace>' for text in traces.values())}</log>".encode()


def parquet(
    records: Sequence[Record],
    names: Sequence[str] = COLUMNS,
    kinds: Sequence[pa.DataType] | None = None,
) -> bytes:
    types = kinds or [pa.string()] * len(names)
    columns = [pa.array([row[i] for row in records], kind) for i, kind in enumerate(types)]
    made = io.BytesIO()
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), made)
    return made.getvalue()


# Those in which a value keeps the type that it has in Python, and all.
WRITERS: dict[str, Callable[..., bytes]] = {
    "jsonl": jsonl, "csv": as_csv, "avro": avro, "xes": xes
}  # fmt: skip
ALL_WRITERS = {**WRITERS, "parquet": parquet}


def canonical(
    columns: Mapping[str, Any],
    mapping: ColumnMapping,
    records: Sequence[int] | None = None,
    malformed: Sequence[int] = (),
    rank: int = 0,
    tally: FileTally | None = None,
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The canonical events of columns, lists or Arrow arrays, and the rejects; checks both."""
    arrays = {
        name: values if isinstance(values, pa.Array) else pa.array(values)
        for name, values in columns.items()
    }
    source = pa.RecordBatch.from_pydict(arrays)
    resolved = mapping.resolve(source.schema.names, xes_names=False)
    numbers = np.arange(source.num_rows) if records is None else np.array(records, np.int64)
    both = resolved.canonicalise(source, numbers, np.array(malformed, np.int64), rank, tally)
    for batch in both:
        batch.validate(full=True)
    return both

"""Tables of Delta and Iceberg for tests, with what the libraries that we use can read, not write.

Deletion vectors and mapped columns of Delta, and lists of deleted rows of Iceberg, are put into the
tables by hand, as the specifications of both have them.
"""

from __future__ import annotations

import base64
import datetime
import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.plan import source_of
from tracecloak.transforms.sources import EventSource

COLUMNS = ("case_id", "activity", "timestamp")
_TO_Z85 = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)

_MOMENT = datetime.datetime(2026, 11, 1, 10, 30)
TYPED_VALUES = {
    "double": pa.array([1.0, 1.5, None]),
    "decimal": pa.array([Decimal("5.00"), Decimal("5.10"), None]),
    "date": pa.array([_MOMENT.date(), None, None]),
    "stamp": pa.array([_MOMENT, None, None], pa.timestamp("us", "UTC")),
    "number": pa.array([7, -1, None]),
}
"""Columns of three values each, of the types that a table can be partitioned by."""


def log_rows(n_cases: int, day: str = "2026-11-01", prefix: str = "case") -> pa.Table:
    """A log of cases of A, B and perhaps C on one day, one event an hour."""
    rows = [
        {"case_id": f"{prefix}-{case}", "activity": activity, "timestamp": f"{day}T0{hour}:00:00Z"}
        for case in range(n_cases)
        for hour, activity in enumerate("ABC"[: 2 + case % 2])
    ]
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in COLUMNS]))


def source(address: str, **flags: object) -> EventSource:
    """The source of a table, as a configuration gives it."""
    return source_of(load_log({"log": address, **flags}))


def pairs(rows: list[dict[str, str]]) -> list[tuple[str, str]]:
    """(case, activity) of rows."""
    return [(row["case_id"], row["activity"]) for row in rows]


def events_of(source: EventSource, *columns: str) -> list[tuple[Any, ...]]:
    """(case, activity, …) of all events of a source, in their order."""
    names = ("case_id", "activity", *columns)
    return [
        tuple(row[name] for name in names)
        for file in source.files
        for batch, _ in source.read(file)
        for row in batch.to_pylist()
    ]


# --- Delta ------------------------------------------------------------------------------------


def actions_of(table: Path, version: int) -> list[dict[str, Any]]:
    """The actions of one commit."""
    text = (table / "_delta_log" / f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def commit(table: Path, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
    """Writes the actions of one commit."""
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")


def protocol(*features: str) -> dict[str, Any]:
    """The action that asks readers for features."""
    asked = {"readerFeatures": features, "writerFeatures": features}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **asked}}


def deletion_vector(places: Sequence[int]) -> dict[str, Any]:
    """An inline deletion vector, by the section "Deletion Vector Format" of Delta's protocol."""
    from pyroaring import BitMap

    bitmap = BitMap(places).serialize()
    whole = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    text = base64.b85encode(whole + b"\0" * (-len(whole) % 4)).translate(_TO_Z85).decode()
    about = {"sizeInBytes": len(whole), "cardinality": len(places)}
    return {"storageType": "i", "pathOrInlineDv": text, **about}


def delete_by_vector(table: Path, version: int, path_part: str, places: Sequence[int]) -> None:
    """Commits, as that version, a deletion vector of the file whose path has a part."""
    added = [
        action["add"]
        for earlier in range(version)
        for action in actions_of(table, earlier)
        if path_part in action.get("add", {}).get("path", "")
    ]
    file = added[-1]
    removed = {"path": file["path"], "deletionTimestamp": 0, "dataChange": True}
    if "deletionVector" in file:
        removed["deletionVector"] = file["deletionVector"]
    again = {**file, "deletionVector": deletion_vector(places), "dataChange": True}
    features = [] if version > 1 else [protocol("deletionVectors")]
    commit(table, version, [*features, {"remove": removed}, {"add": again}])


def mapped_table(table: Path, rows: pa.Table, mode: str, day: str | None = None) -> None:
    """Writes a table whose columns have other names in its file, by names or by ids of fields."""
    names = [*rows.schema.names, *([] if day is None else ["day"])]
    fields = [
        {
            "name": name,
            "type": "date" if name == "day" else "string",
            "nullable": True,
            "metadata": {
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": f"col-{number}",
            },
        }
        for number, name in enumerate(names, 1)
    ]
    physical = pa.schema(
        [
            # By ids the names in the file say nothing, not even of other columns.
            pa.field(
                f"col-{number}" if mode == "name" else f"col-{number % 3 + 1}",
                pa.string(),
                metadata={"PARQUET:field_id": str(number)} if mode == "id" else None,
            )
            for number in range(1, len(rows.schema) + 1)
        ]
    )
    table.mkdir(parents=True)
    pq.write_table(pa.Table.from_arrays(rows.columns, schema=physical), table / "part-0.parquet")
    values = {} if day is None else {f"col-{len(names)}": day}
    about = {
        "id": "mapped", "format": {"provider": "parquet", "options": {}}, "createdTime": 0,
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [] if day is None else ["day"],
        "configuration": {"delta.columnMapping.mode": mode},
    }  # fmt: skip
    add = {
        "path": "part-0.parquet", "partitionValues": values, "dataChange": True,
        "size": (table / "part-0.parquet").stat().st_size, "modificationTime": 0,
    }  # fmt: skip
    commit(table, 0, [protocol("columnMapping"), {"metaData": about}, {"add": add}])


# --- Iceberg ----------------------------------------------------------------------------------


def iceberg_settings(folder: Path, name: str = "lake") -> dict[str, str]:
    """The environment in which a catalogue of SQLite lies in a folder."""
    prefix = f"PYICEBERG_CATALOG__{name.upper()}__"
    return {
        f"{prefix}TYPE": "sql",
        f"{prefix}URI": f"sqlite:///{folder}/catalogue.db",
        f"{prefix}WAREHOUSE": f"file://{folder}/warehouse",
    }


def use_catalogue(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str = "lake") -> None:
    """Has pyiceberg find a catalogue of SQLite in a folder; it reads its environment once."""
    from pyiceberg.utils.config import Config

    for variable, value in iceberg_settings(folder, name).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())


def iceberg_table(name: str, rows: pa.Table, partitioned_by: str | None = None) -> Any:
    """Makes a table of a catalogue of the environment, and appends rows."""
    from pyiceberg.catalog import load_catalog

    catalogue, _, table = name.partition(".")
    catalog = load_catalog(catalogue)
    catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
    made = catalog.create_table(table, rows.schema)
    if partitioned_by is not None:
        column, _, transform = partitioned_by.partition("|")
        with made.update_spec() as update:
            if transform:
                update.add_field(column, transform, f"{column}_{transform}")
            else:
                update.add_identity(column)
    made.append(rows)
    return made


def data_files(table: Any) -> list[Any]:
    """The data files of a table as it is."""
    return sorted(
        (task.file for task in table.refresh().scan().plan_files()), key=lambda f: str(f.file_path)
    )


def delete_by_list(table: Any, file: Any, places: Sequence[int], form: str = "parquet") -> None:
    """Commits a list of deleted rows of a data file, of Parquet, a deletion vector, or equality."""
    from pyiceberg import manifest

    path = Path(table.location().removeprefix("file://")) / "data" / f"deletes-{len(places)}.{form}"
    if form == "puffin":
        path.write_bytes(_puffin(file.file_path, places))
    else:
        rows = {"file_path": [file.file_path] * len(places), "pos": places}
        pq.write_table(pa.table(rows), path)
    kind = manifest.DataFileContent
    deletes = manifest.DataFile.from_args(
        content=kind.EQUALITY_DELETES if form == "equality" else kind.POSITION_DELETES,
        file_path=f"file://{path}",
        file_format=manifest.FileFormat.PUFFIN if form == "puffin" else "PARQUET",
        partition=file.partition,
        record_count=len(places),
        file_size_in_bytes=path.stat().st_size,
        equality_ids=[1] if form == "equality" else None,
    )
    deletes.spec_id = file.spec_id
    with (
        mock.patch.object(
            manifest.ManifestWriterV2, "content", lambda _: manifest.ManifestContent.DELETES
        ),
        table.refresh().transaction() as transaction,
        transaction.update_snapshot().fast_append() as append,
    ):
        append.append_data_file(deletes)


def _puffin(data_file: str, places: Sequence[int]) -> bytes:
    """A file of one deletion vector, by Iceberg's specification of Puffin."""
    from pyroaring import BitMap

    vector = b"\xd1\xd3\x39\x64" + struct.pack("<QI", 1, 0) + BitMap(places).serialize()
    blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    about = {
        "type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1,
        "offset": 4, "length": len(blob),
        "properties": {"referenced-data-file": data_file, "cardinality": str(len(places))},
    }  # fmt: skip
    footer = json.dumps({"blobs": [about], "properties": {}}).encode()
    end = b"PFA1" + footer + struct.pack("<I", len(footer)) + b"\0\0\0\0" + b"PFA1"
    return b"PFA1" + blob + end


def rows_without(rows: pa.Table, places: Sequence[int]) -> list[dict[str, Any]]:
    """The rows that are left when some are deleted."""
    return [row for place, row in enumerate(rows.to_pylist()) if place not in set(places)]


def files_below(folder: Path) -> Iterator[Path]:
    """All files in a folder, at any depth."""
    return (path for path in folder.rglob("*") if path.is_file())


def opened(table: str) -> Any:
    """A table that is addressed as in a configuration, as its library has it."""
    kind, _, place = table.partition(":")
    if kind == "delta":
        import deltalake

        return deltalake.DeltaTable(place)
    from pyiceberg.catalog import load_catalog

    catalogue, _, name = place.partition(".")
    return load_catalog(catalogue).load_table(name)


def all_rows(table: str) -> pa.Table:
    """All rows of such a table."""
    found = opened(table)
    return pa.table(found.scan()) if table.startswith("delta") else found.scan().to_arrow()


def in_order(rows: pa.Table) -> list[tuple[str, ...]]:
    """Rows as texts, in an order of their own."""
    return sorted(tuple(map(str, row.values())) for row in rows.to_pylist())

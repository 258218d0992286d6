"""Tables of Delta Lake: the files of one version, by the library deltalake.

The library reads the log of the table, and says which files a version has, which of their records
are deleted (deletion vectors) and what its columns are called in them (column mapping). The files
themselves are read like any other Parquet.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError, missing_extra
from tracecloak.transforms.files import is_on_this_machine
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.lakes.seen import Seen, SeenColumn, deleted_bits
from tracecloak.transforms.lakes.tables import Snapshot, VersionGoneError

if TYPE_CHECKING:
    from deltalake import DeltaTable

# What a table may ask of its readers. `v2Checkpoint` and `vacuumProtocolCheck` are the library's
# affair, and a stamp without a zone is one of Parquet.
_HONOURED = frozenset(
    (
        *("columnMapping", "deletionVectors", "timestampNtz", "typeWidening"),
        *("typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"),
    )
)
_MEND = (
    "have the engine that keeps the table write its current rows into a folder of Parquet, and "
    "name that folder as log"
)
_MAPPING = "delta.columnMapping."


def snapshot(place: str, version: int | None) -> Snapshot:
    """Returns the files of one version of the table in a folder; see `TableKind`.

    Args:
        place: The folder, on this machine or an object store that the library knows, whose
            credentials it takes from the environment.
        version: Its number; None: the last one.

    Raises:
        UsageError: deltalake is not installed.
        VersionGoneError: The version, or a file of it, is not there any more.
        InputSchemaError: There is no table of Delta, or it has a feature that is not honoured.
    """
    table = _table(place, version)
    _check_features(table, place)
    files = tuple(_files(table, place))
    gone = [file.path for file in files if is_on_this_machine(file.path) and not _is_there(file)]
    if gone:
        raise VersionGoneError(
            f"version {table.version()} of the table delta:{place} cannot be read any more: "
            f"{len(gone):,} of its {len(files):,} files are not there, as after VACUUM. Restore "
            "them, or name a version whose files are there"
        )
    return Snapshot(table.version(), files)


def _table(place: str, version: int | None) -> DeltaTable:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError:
        raise missing_extra("a table of Delta", "deltalake", "delta") from None
    # The texts of its errors can have values of partitions.
    try:
        table = DeltaTable(place)
    except (TableNotFoundError, OSError) as error:
        raise InputSchemaError(
            f"there is no table of Delta at {place} that can be read ({type(error).__name__}); "
            "correct the path, or let this user read its folder _delta_log"
        ) from None
    except (DeltaError, ValueError):
        raise InputSchemaError(
            f"the table delta:{place} cannot be read: its log is damaged, or asks for a feature "
            f"that deltalake does not know; {_MEND}"
        ) from None
    if version is None or version == table.version():
        return table
    if version > table.version():
        raise VersionGoneError(
            f"the table delta:{place} has no version {version}: its last one is "
            f"{table.version()}; correct the number"
        )
    try:
        table.load_as_version(version)
    except (DeltaError, OSError, ValueError):
        raise VersionGoneError(
            f"version {version} of the table delta:{place} cannot be read any more: its log was "
            "cleaned up. Restore it, or name a version that is there"
        ) from None
    return table


def _check_features(table: DeltaTable, place: str) -> None:
    unknown = sorted(set(table.protocol().reader_features or ()) - _HONOURED)
    if unknown:
        raise InputSchemaError(
            f"the table delta:{place} has {', '.join(unknown)}, which is not honoured, so it is "
            f"not read; {_MEND}"
        )


def _files(table: DeltaTable, place: str) -> Iterator[SourceFile]:
    """Yields the files of a table as it is open.

    Raises:
        InputSchemaError: Records are deleted of a file that the table does not have.
    """
    actions = pa.table(table.get_add_actions())
    partitioned_by = table.metadata().partition_columns
    columns = tuple(_columns(table, partitioned_by))
    deleted = _deleted(table)
    partitions = actions["partition"].to_pylist() if partitioned_by else [{}] * len(actions)
    sizes = actions["size_bytes"].to_pylist()
    for path, n_bytes, values in zip(actions["path"].to_pylist(), sizes, partitions, strict=True):
        uri = unquote(path)  # paths of the log are written as in URIs
        if ":" not in uri.partition("/")[0] and not uri.startswith("/"):
            uri = f"{place}/{uri}"
        uri = _without_scheme(uri)
        given = tuple(sorted((name, _text(values[name], name)) for name in partitioned_by))
        yield SourceFile(0, uri, n_bytes, given, seen=Seen(columns, deleted.pop(uri, b"")))
    if deleted:
        raise InputSchemaError(
            f"the table delta:{place} has lists of deleted rows for {len(deleted):,} files that "
            f"are not among its files, so it is not known what is deleted; {_MEND}"
        )


def _deleted(table: DeltaTable) -> dict[str, bytes]:
    """Returns which records are deleted, by the paths of the files that have some."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    deleted = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        masks = batch.column("selection_vector")
        for uri, mask in zip(batch.column("filepath").to_pylist(), masks, strict=True):
            is_kept = mask.values.to_numpy(zero_copy_only=False)
            deleted[_without_scheme(unquote(uri))] = deleted_bits(~is_kept.astype(bool))
    return deleted


def _columns(table: DeltaTable, partitioned_by: Sequence[str]) -> Iterator[SeenColumn]:
    schema = table.schema()
    types = pa.schema(schema.to_arrow())
    mode = table.metadata().configuration.get(f"{_MAPPING}mode", "none")
    for field in json.loads(schema.to_json())["fields"]:
        name, about = field["name"], field["metadata"]
        if name in partitioned_by:
            continue
        kind = types.field(name).type
        if mode == "none":
            yield SeenColumn(name, kind, (name,))
        elif mode == "name":
            yield SeenColumn(name, kind, (str(about[f"{_MAPPING}physicalName"]),))
        else:
            yield SeenColumn(name, kind, field_id=int(about[f"{_MAPPING}id"]))


def _text(value: Any, name: str) -> str | None:
    """Returns the value of a partition as folders of a lake have it; None: it is null.

    Raises:
        InputSchemaError: Its type has no such text.
    """
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.date):  # so is a time on a date
        return value.isoformat()
    if isinstance(value, bytes):
        raise InputSchemaError(
            f"the table is partitioned by {name!r}, whose values are bytes and not read; {_MEND}"
        )
    return str(value)


def _without_scheme(uri: str) -> str:
    """Returns the path of a file of this machine, or the URI of another as Beam has it."""
    if uri.startswith("file:"):
        return "/" + uri.removeprefix("file:").lstrip("/")
    return uri.replace("s3a://", "s3://", 1) if uri.startswith("s3a://") else uri


def _is_there(file: SourceFile) -> bool:
    return os.path.exists(file.path)

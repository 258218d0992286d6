"""Delta tables: the files of a version, and a release appended once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError, missing_extra
from tracecloak.schemas.events.source_column import texts
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.lakes.seen import Seen, SeenColumn, deleted_bits
from tracecloak.transforms.lakes.tables import (
    COMMIT_PROPERTY,
    AppendedRelease,
    Snapshot,
    VersionGoneError,
    appended,
    path_of,
    version_gone,
)

try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import (
        CommitFailedError,
        DeltaError,
        SchemaMismatchError,
        TableNotFoundError,
    )
except ImportError:
    raise missing_extra("a table of Delta", "deltalake", "delta") from None


# --- Tables of Delta Lake: the files of one version, by the library deltalake. --------------------
# The library reads the log of the table, and says which files a version has, which of their
# records are deleted (deletion vectors) and what its columns are called in them (column mapping).
# The files themselves are read like any other Parquet.


# What a table may ask of its readers. `v2Checkpoint` and `vacuumProtocolCheck` are the library's
# affair, and a stamp without a zone is one of Parquet.
_HONOURED = frozenset(
    (
        *("columnMapping", "deletionVectors", "timestampNtz", "typeWidening"),
        *("typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"),
    )
)
_REMEDY = "have its engine write the current rows into a folder of Parquet, and name that as log"
_MAPPING = "delta.columnMapping."


def snapshot(place: str, version: int | None) -> Snapshot:
    """Returns the files of one version of the table in a folder; see `TableKind`.

    Args:
        place: The folder, on this machine or an object store that the library knows, whose
            credentials it takes from the environment.
        version: Its number; None: the last one.

    Raises:
        UsageError: deltalake is not installed.
        VersionGoneError: The version, or what lists its deleted rows, is not there any more.
        InputSchemaError: There is no table of Delta, or it has a feature that is not honoured.
    """
    table = _table(place, version)
    if unknown := sorted(set(table.protocol().reader_features or ()) - _HONOURED):
        raise InputSchemaError(f"delta:{place} has unsupported {', '.join(unknown)}; {_REMEDY}")
    return Snapshot(table.version(), tuple(_files(table, place)))


def _table(place: str, version: int | None) -> DeltaTable:
    # The texts of its errors can have values of partitions.
    try:
        table = DeltaTable(place)
    except (TableNotFoundError, OSError) as error:
        if version is not None and isinstance(error, TableNotFoundError):
            raise version_gone("delta", place, version, "the table is not there") from None
        reason = type(error).__name__
        raise InputSchemaError(f"no table of Delta at {place} ({reason}); correct it") from None
    except (DeltaError, ValueError):
        raise InputSchemaError(
            f"the log of delta:{place} is damaged or has an unknown feature; {_REMEDY}"
        ) from None
    if version is None or version == table.version():
        return table
    if version > table.version():
        raise VersionGoneError(
            f"delta:{place} has no version {version}; the last is {table.version()}"
        )
    try:
        table.load_as_version(version)
    except (DeltaError, OSError, ValueError):
        raise version_gone("delta", place, version, "its log was cleaned up") from None
    return table


def _files(table: DeltaTable, place: str) -> Iterator[SourceFile]:
    """Yields the files of a table as it is open.

    Raises:
        VersionGoneError: What lists its deleted rows cannot be read.
        InputSchemaError: Records are deleted of a file that the table does not have.
    """
    actions = pa.table(table.get_add_actions())
    partitioned_by = table.metadata().partition_columns
    columns = tuple(_columns(table, partitioned_by))
    deleted = _deleted(table, place)
    partitions = _partitions(actions) if partitioned_by else [()] * len(actions)
    sizes = actions["size_bytes"].to_pylist()
    for path, n_bytes, given in zip(actions["path"].to_pylist(), sizes, partitions, strict=True):
        uri = unquote(path)  # paths of the log are written as in URIs
        if ":" not in uri.partition("/")[0] and not uri.startswith("/"):
            uri = f"{place}/{uri}"
        uri = path_of(uri)
        yield SourceFile(0, uri, n_bytes, given, seen=Seen(columns, deleted.pop(uri, b"")))
    if deleted:
        raise InputSchemaError(
            f"delta:{place} lists deleted rows of {len(deleted):,} unknown files; {_REMEDY}"
        )


def _partitions(actions: pa.Table) -> list[tuple[tuple[str, str | None], ...]]:
    """Returns the columns that the partition of each file gives, with the text of a value in files.

    Empty text is null in a partition, as in one of Hive.
    """
    values = pa.RecordBatch.from_struct_array(actions["partition"].combine_chunks())
    given = {name: texts(values[name]).to_pylist() for name in sorted(values.schema.names)}
    return [
        tuple((name, text or None) for name, text in zip(given, row, strict=True))
        for row in zip(*given.values(), strict=True)
    ]


def _deleted(table: DeltaTable, place: str) -> dict[str, bytes]:
    """Returns which records are deleted, by the paths of the files that have some.

    Raises:
        VersionGoneError: It cannot be read.
    """
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    try:
        batches = list(pa.RecordBatchReader.from_stream(table.deletion_vectors()))
    except (DeltaError, pa.ArrowException, OSError):  # the library's, or its stream's
        reason = "what lists its deleted rows cannot be read"
        raise version_gone("delta", place, table.version(), reason) from None
    deleted = {}
    for batch in batches:
        masks = batch.column("selection_vector")
        for uri, mask in zip(batch.column("filepath").to_pylist(), masks, strict=True):
            is_kept = mask.values.to_numpy(zero_copy_only=False)
            deleted[path_of(unquote(uri))] = deleted_bits(~is_kept.astype(bool))
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


# --- Appends a release to a table of Delta, once: one commit with an application transaction. -----
# The log of a table keeps the last transaction of every application, in its checkpoints, too
# (Delta's protocol, "Transaction Identifiers"), so a release is found there however old its
# commit is. A commit of somebody else in between makes ours fail, and the log is looked at again.


def append(place: str, release: AppendedRelease) -> bool:
    """Appends a release to the table in a folder, which is made where there is none; see `Append`.

    Raises:
        TracecloakError: See `appended`.
    """
    commit = CommitProperties(
        custom_metadata={COMMIT_PROPERTY: release.release_id},
        max_commit_retries=0,  # a commit that is tried again would not look whether it is there
        app_transactions=[Transaction(release.key, release.number)],
    )

    def attempt() -> bool:
        if not DeltaTable.is_deltatable(place):
            try:
                write_deltalake(place, release.rows(), mode="error", commit_properties=commit)
            except DeltaError:
                if DeltaTable.is_deltatable(place):  # somebody else made it meanwhile
                    raise CommitFailedError from None
                raise
            return True
        table = DeltaTable(place)
        if (table.transaction_version(release.key) or 0) >= release.number:
            return False
        theirs, ours = pa.schema(table.schema()), release.rows().schema  # none is cast
        if {f.name: _kind(f.type) for f in theirs} != {f.name: _kind(f.type) for f in ours}:
            raise SchemaMismatchError
        write_deltalake(table, release.rows(), mode="append", commit_properties=commit)
        return True

    return appended(f"delta:{place}", attempt, (CommitFailedError,), (SchemaMismatchError,))


def _kind(of: pa.DataType) -> str:
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return f"list of {_kind(of.value_type)}"
    is_text = pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of)
    return "text" if is_text else str(of)

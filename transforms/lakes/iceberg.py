"""Iceberg tables: the files of a version, and a release appended once."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracecloak.schemas.errors import InputSchemaError, UsageError, missing_extra
from tracecloak.schemas.events.source_column import texts
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.lakes.seen import Seen, SeenColumn, deleted_bits
from tracecloak.transforms.lakes.tables import (
    COMMIT_PROPERTY,
    AppendedRelease,
    Snapshot,
    appended,
    path_of,
    version_gone,
)

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        CommitStateUnknownException,
        NoSuchTableError,
        TableAlreadyExistsError,
    )
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table, TableProperties
except ImportError:
    raise missing_extra("a table of Iceberg", "pyiceberg", "iceberg") from None


# --- Tables of Iceberg: the files of one snapshot, by the library pyiceberg. ----------------------
# The library asks the catalogue, and says which files a snapshot has and which files list deleted
# records for each. Columns are found by the ids of their fields, as the table's columns may be
# called otherwise in older files. The files themselves are read like any other Parquet.


_REMEDY = (
    "have the engine that keeps the table rewrite its files, as Spark does with rewrite_data_files"
)
# Hidden partitions whose values are periods of time, by the names of their transforms.
_PERIODS = ("year", "month", "day", "hour")


def snapshot(place: str, version: int | None) -> Snapshot:
    """Returns the files of one snapshot of a table; see `TableKind`.

    The columns are those that the table had at this snapshot.

    Args:
        place: `CATALOG.NAMESPACE.TABLE`; where the catalogue is, pyiceberg's configuration says.
        version: The number of the snapshot; None: the table's current one.

    Raises:
        UsageError: pyiceberg finds no such catalogue.
        VersionGoneError: The snapshot, or what lists its files, is not there any more.
        InputSchemaError: There is no such table, or it has what is not honoured.
    """
    table = opened_table(place, version)
    current = table.current_snapshot() if version is None else table.snapshot_by_id(version)
    if version is None and current is None:
        raise InputSchemaError(f"the table iceberg:{place} has no snapshot yet; write to it first")
    if current is None:
        raise version_gone(
            "iceberg", place, version, "it has expired, or there never was such a one"
        )
    try:
        files = tuple(_files(table, place, current.snapshot_id))
    except OSError:
        reason = "what lists its files or its deleted rows is not there"
        raise version_gone("iceberg", place, current.snapshot_id, reason) from None
    return Snapshot(current.snapshot_id, files)


def opened_catalog(place: str) -> tuple[Catalog, str]:
    """Returns the catalogue of a table, and what the table is called there.

    Raises:
        UsageError: pyiceberg finds no such catalogue.
    """
    name, _, table = place.partition(".")
    if not name or "." not in table.strip("."):
        raise UsageError(f"iceberg:{place} is not iceberg:CATALOG.NAMESPACE.TABLE")
    try:
        return load_catalog(name), table
    except Exception as error:  # whatever the client of a catalogue raises
        raise UsageError(
            f"the catalogue {name!r} of iceberg:{place} cannot be opened ({type(error).__name__}): "
            f"configure it in ~/.pyiceberg.yaml or by PYICEBERG_CATALOG__{name.upper()}__URI"
        ) from None


def opened_table(place: str, version: int | None = None) -> Table:
    """Returns a table as it is now.

    Args:
        place: See `snapshot`.
        version: A snapshot that it had; None: none is known.

    Raises:
        UsageError: As `opened_catalog`.
        VersionGoneError: There is no such table any more.
        InputSchemaError: There is no such table.
    """
    catalog, name = opened_catalog(place)
    try:
        with catalog:
            return catalog.load_table(name)
    except Exception as error:  # whatever the client of a catalogue raises
        if version is not None and isinstance(error, NoSuchTableError | FileNotFoundError):
            raise version_gone("iceberg", place, version, "the table is not there") from None
        reason = type(error).__name__
        raise InputSchemaError(f"no table iceberg:{place} ({reason}); correct it") from None


def _files(table: Table, place: str, version: int) -> Iterator[SourceFile]:
    """Yields the files of a snapshot.

    Raises:
        InputSchemaError: The snapshot has what is not honoured.
    """
    scan = table.scan(snapshot_id=version)
    schema = scan.projection()
    try:
        tasks = list(scan.plan_files())
    except (ValueError, NotImplementedError):
        raise _unsupported(place, "unsupported lists, as equality deletes") from None
    for task in tasks:
        _check_file(task.file, place)
    columns = tuple(_columns(table, schema, place))
    given = [_partitions(table, task, schema) for task in tasks]
    # A column that some files have by their partition, and others among their columns, is read.
    others = {name for name in schema.column_names if not all(name in one for one in given)}
    for task, values in zip(tasks, given, strict=True):
        left = tuple(sorted((n, v) for n, v in values.items() if n not in others))
        seen = Seen(columns, _deleted(table, task, place))
        yield SourceFile(
            0, path_of(task.file.file_path), task.file.file_size_in_bytes, left, seen=seen
        )


def _unsupported(place: str, what: str) -> InputSchemaError:
    return InputSchemaError(f"the table iceberg:{place} has {what}; {_REMEDY}")


def _check_file(file: DataFile, place: str) -> None:
    """Makes sure that a file is Parquet in clear.

    Raises:
        InputSchemaError: It is not.
    """
    kind = file.file_format.value.upper()
    if kind != "PARQUET" or file.key_metadata is not None:
        what = f"files of {kind}" if kind != "PARQUET" else "encrypted files"
        raise _unsupported(place, f"{what}, not Parquet in clear")


def _columns(table: Table, schema: Schema, place: str) -> Iterator[SeenColumn]:
    mapping = table.name_mapping()
    names = {} if mapping is None else {f.field_id: tuple(f.names) for f in mapping.root}
    types = schema_to_pyarrow(schema, include_field_ids=False)
    for field in schema.fields:
        if field.initial_default is not None:
            what = f"a default of column {field.name!r} for old files, which is not supported"
            raise _unsupported(place, what)
        kind = types.field(field.name).type
        yield SeenColumn(field.name, kind, names.get(field.field_id, ()), field.field_id)


def _partitions(table: Table, task: FileScanTask, schema: Schema) -> dict[str, str | None]:
    """Returns the columns that the partition of a file gives, and the periods of hidden ones.

    A column that a table is partitioned by as it is has one value in a file. Of one that the table
    derives from another, such as the day of a stamp, the name is that of the partition's field.
    """
    values: dict[str, str | None] = {}
    for place, field in enumerate(table.specs()[task.file.spec_id].fields):
        kind, value = field.transform, task.file.partition[place]
        column = schema.find_column_name(field.source_id)
        if column is None:  # dropped since
            continue
        source = schema.find_field(field.source_id).field_type
        if str(kind) == "identity" and not isinstance(value, bytes | UUID):
            arrow = schema_to_pyarrow(source)
            values[column] = texts(pa.array([value], arrow))[0].as_py() or None
        elif str(kind) in _PERIODS and field.name not in schema.column_names:
            # Periods of stamps with a zone are those of UTC, and others of the wall clock.
            is_utc = str(source).startswith("timestamptz")
            text = None if value is None else kind.to_human_string(source, value)
            values[field.name] = f"{text}Z" if is_utc and text is not None else text
    return values


def _deleted(table: Table, task: FileScanTask, place: str) -> bytes:
    """Returns which records of a file are deleted, by the lists that apply to it.

    Raises:
        InputSchemaError: A list is of a form that is not read.
    """
    if not task.delete_files:
        return b""
    try:
        lists = [_places(table, file, task.file.file_path) for file in task.delete_files]
    except ValueError:
        raise _unsupported(place, "an unsupported list of deleted rows") from None
    places = np.concatenate(lists)
    is_deleted = np.zeros(int(places.max(initial=-1)) + 1, bool)
    is_deleted[places] = True
    return deleted_bits(is_deleted)


def _places(table: Table, deletes: DataFile, path: str) -> np.ndarray:
    """int64[n]: the numbers of the records of a data file that one list says are deleted.

    Raises:
        ValueError: It is no list of Parquet or of deletion vectors.
    """
    with table.io.new_input(deletes.file_path).open() as stream:
        if deletes.file_format.value.upper() == "PARQUET":
            rows = pq.read_table(stream, columns=["file_path", "pos"])
            rows_of_file = rows.filter(pc.equal(rows["file_path"], path))
            return rows_of_file["pos"].to_numpy().astype(np.int64)
        from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
        from pyiceberg.table.puffin import PuffinFile

        vectors = deletion_vectors_from_puffin_file(PuffinFile(stream.read()))
    ours = [v.to_vector().to_numpy() for v in vectors if v.referenced_data_file == path]
    if not ours:  # a list that is said to be of this file, and is not
        raise ValueError("no deletion vector")
    return np.concatenate(ours).astype(np.int64)


# ---
# Appends a release to a table of Iceberg, once: one commit that sets a property of the table, too.
# Snapshots expire and properties of a table stay, so a release is found by its property however old
# its snapshot is. Both are set by one commit, which fails if somebody else committed in between.


def append(place: str, release: AppendedRelease) -> bool:
    """Appends a release to a table, which is made where there is none; see `Append`.

    The library takes all rows at once, so memory holds the released log.

    Raises:
        UsageError: pyiceberg knows no such catalogue.
        TracecloakError: See `appended`.
    """
    catalog, name = opened_catalog(place)

    def attempt() -> bool:
        table = _table(catalog, name, release)
        there = table.properties.get(release.key, "0")
        # Earlier versions appended no parts, and wrote a word for the number.
        if there == "appended" or int(there) >= release.number:
            return False
        with table.transaction() as transaction:
            transaction.set_properties({release.key: str(release.number)})
            transaction.append(release.rows().read_all(), {COMMIT_PROPERTY: release.release_id})
        return True

    faster = (CommitFailedException, CommitStateUnknownException)
    with catalog:
        return appended(f"iceberg:{place}", attempt, faster, (ValueError,))


def _table(catalog: Catalog, name: str, release: AppendedRelease) -> Table:
    """Returns the table, whose commits are tried once alone; makes it where there is none."""
    try:
        table = catalog.load_table(name)
    except NoSuchTableError:
        namespace = name.rpartition(".")[0]
        try:
            catalog.create_namespace_if_not_exists(namespace)
        except Exception:
            # Another process may have been faster, which a catalogue in SQL calls an error of its
            # database.
            if not catalog.namespace_exists(namespace):
                raise
        try:
            table = catalog.create_table(name, release.rows().schema)
        except TableAlreadyExistsError:  # another process was faster
            table = catalog.load_table(name)
    # The library tries a commit again that somebody else was faster with, and would not look
    # whether that was this release. What is set here is set in this process alone.
    once = {**table.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": once})
    return table

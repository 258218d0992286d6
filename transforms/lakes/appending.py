"""Rows of a release appended to a Delta or Iceberg table, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from tracecloak.schemas.errors import (
    InputSchemaError,
    RetryLater,
    TracecloakError,
    UsageError,
    missing_extra,
)
from tracecloak.transforms.lakes.iceberg import opened_catalog

# --- A finished release, or a step of a stream, on its way into a table. --------------------------


COMMIT_PROPERTY = "tracecloak.release"
"""The property of the commit that has the release's name."""
# How often a commit is tried that others were faster with.
_TRIES = 20
_Errors = tuple[type[Exception], ...]


@dataclass(frozen=True)
class AppendedRelease:
    """What is appended, and by what it is known in the table.

    Attributes:
        release_id: The release's name.
        key_fingerprint: Tells releases apart that have one name: of other outputs, or begun anew.
        rows: Returns the rows from the first on.
        number: Of its parts, which are appended in their order; a table that has one has those
            before it.
    """

    release_id: str
    key_fingerprint: str
    rows: Callable[[], pa.RecordBatchReader]
    number: int = 1

    @property
    def key(self) -> str:
        """By what the table knows that it has this release; both parts of it are published."""
        return f"{COMMIT_PROPERTY}.{self.release_id}.{self.key_fingerprint}"


def appended(table: str, attempt: Callable[[], bool], faster: _Errors, unfit: _Errors) -> bool:
    """Appends what a table does not have yet; returns whether it was appended now.

    Args:
        table: The kind of the table and its place, as errors name it.
        attempt: Looks whether it is there, and else appends it in one commit.
        faster: What it raises if somebody else committed in between; it is tried again.
        unfit: What it raises if the table has other columns.

    Raises:
        UsageError: The table has other columns.
        InputSchemaError: The table cannot be read or written.
        RetryLater: Others write to it all the time.
    """
    for _ in range(_TRIES):
        try:
            return attempt()
        except faster:
            continue
        except unfit:
            raise UsageError(
                f"the table {table} has other columns than the log of the release, or of other "
                "types; name a table of releases of this configuration, or one that is not there "
                "yet"
            ) from None
        except TracecloakError:
            raise
        except Exception as error:  # some of the libraries' are of no class of their own
            raise InputSchemaError(
                f"the table {table} cannot be read or written ({type(error).__name__}); nothing is "
                "appended unless it was before. Correct the path, or let this user write there, "
                "and run the same command again"
            ) from None
    raise RetryLater(
        f"others write to the table {table} all the time; run the same command again later"
    )


def plain(schema: pa.Schema) -> pa.Schema:
    """Returns a schema as a table has it: dictionaries are written out, and metadata is left."""
    is_coded = pa.types.is_dictionary
    return pa.schema([(f.name, f.type.value_type if is_coded(f.type) else f.type) for f in schema])


# --- Appends a release to a table of Delta, once: one commit with an application transaction. -----
# The log of a table keeps the last transaction of every application, in its checkpoints, too
# (Delta's
# protocol, "Transaction Identifiers"), so a release is found there however old its commit is. A
# commit of somebody else in between makes ours fail, and the log is looked at again.


try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, SchemaMismatchError, TableNotFoundError
except ImportError:
    raise missing_extra("a table of Delta", "deltalake", "delta") from None


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
        try:
            table = DeltaTable(place)
        except TableNotFoundError:
            table = None
        if table is not None:
            if (table.transaction_version(release.key) or 0) >= release.number:
                return False
            if not _fits(table, release):
                raise SchemaMismatchError
        write_deltalake(
            place if table is None else table,
            release.rows(),
            mode="append",
            commit_properties=commit,
        )
        return True

    return appended(f"delta:{place}", attempt, (CommitFailedError,), (SchemaMismatchError,))


def _fits(table: DeltaTable, release: AppendedRelease) -> bool:
    """Returns whether a table has the columns of a release, by name and type: none is cast."""
    theirs, ours = pa.schema(table.schema()), release.rows().schema
    return {f.name: _kind(f.type) for f in theirs} == {f.name: _kind(f.type) for f in ours}


def _kind(of: pa.DataType) -> str:
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return f"list of {_kind(of.value_type)}"
    is_text = pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of)
    return "text" if is_text else str(of)


# ---
# Appends a release to a table of Iceberg, once: one commit that sets a property of the table, too.
# Snapshots expire and properties of a table stay, so a release is found by its property however old
# its snapshot is. Both are set by one commit, which fails if somebody else committed in between.


try:
    from pyiceberg.catalog import Catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        CommitStateUnknownException,
        NoSuchTableError,
        TableAlreadyExistsError,
    )
    from pyiceberg.table import Table, TableProperties
except ImportError:
    raise missing_extra("a table of Iceberg", "pyiceberg", "iceberg") from None


def iceberg_append_append(place: str, release: AppendedRelease) -> bool:
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

"""Appends a release to a table of Delta, once: one commit with an application transaction.

The log of a table keeps the last transaction of every application, in its checkpoints, too (Delta's
protocol, "Transaction Identifiers"), so a release is found there however old its commit is. A
commit of somebody else in between makes ours fail, and the log is looked at again.
"""

from __future__ import annotations

import pyarrow as pa

from tracecloak.schemas.errors import missing_extra
from tracecloak.transforms.lakes.appending import COMMIT_PROPERTY, AppendedRelease, appended

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

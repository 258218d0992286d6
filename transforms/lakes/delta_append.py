"""Appends a release to a table of Delta, once: one commit with an application transaction.

The log of a table keeps the last transaction of every application, in its checkpoints, too (Delta's
protocol, "Transaction Identifiers"), so a release is found there however old its commit is. A
commit of somebody else in between makes ours fail, and the log is looked at again.
"""

from __future__ import annotations

from tracecloak.schemas.errors import InputSchemaError, RetryLater, UsageError, missing_extra
from tracecloak.transforms.lakes.appending import COMMIT_PROPERTY, TRIES, AppendedRelease


def append(place: str, release: AppendedRelease) -> bool:
    """Appends a release to the table in a folder, which is made where there is none; see `Append`.

    Raises:
        UsageError: deltalake is not installed, or the table has other columns.
        InputSchemaError: The table cannot be read or written.
        RetryLater: Others write to it all the time.
    """
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
    commit = CommitProperties(
        custom_metadata={COMMIT_PROPERTY: release.release_id},
        max_commit_retries=0,  # a commit that is tried again would not look whether it is there
        app_transactions=[Transaction(release.key, 1)],
    )
    for _ in range(TRIES):
        try:
            try:
                table = DeltaTable(place)
            except TableNotFoundError:
                table = None
            if table is not None and table.transaction_version(release.key) is not None:
                return False
            write_deltalake(
                place if table is None else table,
                release.rows(),
                mode="append",
                commit_properties=commit,
            )
            return True
        except CommitFailedError:
            continue
        except SchemaMismatchError:
            raise UsageError(
                f"the table delta:{place} has other columns than the log of the release; name a "
                "table of releases of this configuration, or one that is not there yet"
            ) from None
        except (DeltaError, OSError, ValueError) as error:
            raise InputSchemaError(
                f"the table delta:{place} cannot be read or written ({type(error).__name__}); "
                "nothing is appended unless it was before. Correct the path, or let this user "
                "write there, and run the same command again"
            ) from None
    raise RetryLater(
        f"others write to the table delta:{place} all the time; run the same command again later"
    )

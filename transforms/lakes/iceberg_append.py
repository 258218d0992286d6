"""Appends a release to a table of Iceberg, once: one commit that sets a property of the table, too.

Snapshots expire and properties of a table stay, so a release is found by its property however old
its snapshot is. Both are set by one commit, which fails if somebody else committed in between.
"""

from __future__ import annotations

from tracecloak.schemas.errors import missing_extra
from tracecloak.transforms.lakes.appending import COMMIT_PROPERTY, AppendedRelease, appended
from tracecloak.transforms.lakes.iceberg import opened_catalog

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

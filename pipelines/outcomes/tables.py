"""A finished release as rows of a table: its log is appended in one commit, once."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tracecloak.pipelines.verification.log_forms import LogForm, forms_of
from tracecloak.pipelines.verification.verify import verify
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.transforms.lakes.appending import AppendedRelease
from tracecloak.transforms.lakes.tables import address_of


@dataclass(frozen=True)
class Appended:
    """What became of an append.

    Attributes:
        release_id: The release's name.
        table: The address of the table.
        was_there: Whether the table had the release already, so that nothing was done.
    """

    release_id: str
    table: str
    was_there: bool


def append_release(folder: str, table: str) -> Appended:
    """Appends the log of a release to a table, unless the table has it.

    Args:
        folder: Of the release, which is verified first.
        table: Address of a table, without a version; it is made where there is none.

    Raises:
        InputSchemaError: There is no release.
        UsageError: It has no log in Parquet, or the address is of no table
            that can be written.
        GuaranteeError: The release does not pass `verify`.
        TracecloakError: As the kind of table raises.
    """
    address = address_of(table)
    append = address.append
    verified = verify(folder)
    received = verified.received
    if received is None or not verified.holds:
        raise GuaranteeError(f"{folder!r} does not pass `tracecloak verify`, which says why")
    logs = forms_of(received.folder, received.paths)
    if not logs or logs[0].kind != "parquet":
        raise UsageError(
            f"{folder!r} has no log in Parquet to append; release one with --formats parquet"
        )
    release_id = received.body["release_id"]
    fingerprint = received.body["randomness"]["key_fingerprint"]
    release = AppendedRelease(release_id, fingerprint, lambda: _rows(logs[0]))
    return Appended(release_id, str(address), not append(address.place, release))


def _rows(log: LogForm) -> pa.RecordBatchReader:
    """Returns the rows of a log in Parquet, in the order of the release."""
    schema = log.schema()
    return pa.RecordBatchReader.from_batches(schema, log.rows(schema))

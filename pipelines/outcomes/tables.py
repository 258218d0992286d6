"""A finished release as rows of a table: its log is appended in one commit, once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.pipelines.verification.verify import verify
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.transforms.files import open_raw, read_if_there
from tracecloak.transforms.lakes.appending import AppendedRelease, plain
from tracecloak.transforms.lakes.tables import address_of

_BATCH_ROWS = 1 << 16


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
        UsageError: There is no release, it has no log in Parquet, or the address is of no table
            that can be written.
        GuaranteeError: The release does not pass `verify`.
        TracecloakError: As the kind of table raises.
    """
    address = address_of(table)
    append = address.append
    manifest = read_if_there(f"{folder}/{MANIFEST_NAME}")
    if manifest is None:
        raise UsageError(
            f"{folder!r} is no folder of a release: it has no {MANIFEST_NAME}; name a folder such "
            "as releases/run_id=NAME"
        )
    if verify(folder).verdict != "ok":
        raise GuaranteeError(
            f"{folder!r} does not pass `tracecloak verify`, which says why, so nothing of it is "
            "appended"
        )
    body = json.loads(manifest)
    paths = [
        f"{folder}/{output['path']}"
        for output in body["outputs"]
        if output["path"].startswith("log/") and output["path"].endswith(".parquet")
    ]
    if not paths:
        raise UsageError(
            f"{folder!r} has no log in Parquet to append; release a log with --formats parquet, by "
            "a method that makes one"
        )
    release_id, fingerprint = body["release_id"], body["randomness"]["key_fingerprint"]
    release = AppendedRelease(release_id, fingerprint, lambda: _rows(sorted(paths)))
    return Appended(release_id, str(address), not append(address.place, release))


def _rows(paths: Sequence[str]) -> pa.RecordBatchReader:
    """Returns the rows of files of Parquet, whose dictionaries are written out."""
    with open_raw(paths[0]) as stream:
        whole = pq.ParquetFile(stream).schema_arrow
    schema = plain(whole)
    return pa.RecordBatchReader.from_batches(schema, _batches(paths, schema))


def _batches(paths: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with open_raw(path) as stream:
            for batch in pq.ParquetFile(stream).iter_batches(_BATCH_ROWS, use_threads=False):
                yield from pa.Table.from_batches([batch]).cast(schema).to_batches()

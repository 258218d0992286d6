"""Parquet of released rows; equal rows give equal bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.schemas.events.events import RELEASED_SCHEMA

ROW_GROUP_ROWS = 1_000_000

METADATA_PREFIX = "tracecloak."


class ParquetWriter:
    """Writes released rows as Parquet, the same bytes however they are batched.

    Row groups hold 1,000,000 rows, and so many are buffered. Text is written from plain strings: a
    dictionary would carry the names that were filtered out of it.
    """

    def __init__(
        self, stream: BinaryIO, metadata: Mapping[str, str], schema: pa.Schema = RELEASED_SCHEMA
    ) -> None:
        """Begins a file.

        Args:
            stream: Where the bytes go; stays open.
            metadata: Public facts on the release; each becomes a key-value pair of the file, its
                key prefixed with `tracecloak.`.
            schema: Of the rows: RELEASED_SCHEMA, or that with attributes.
        """
        self._schema = schema
        self._writer = pq.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            store_schema=False,
            write_page_checksum=True,
        )
        self._writer.add_key_value_metadata(
            {METADATA_PREFIX + key: value for key, value in sorted(metadata.items())}
        )
        self._rows: list[pa.RecordBatch] = []
        self._buffered = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows of the schema."""
        self._rows.append(rows.cast(self._schema))
        self._buffered += rows.num_rows
        while self._buffered >= ROW_GROUP_ROWS:
            self._flush(ROW_GROUP_ROWS)

    def close(self) -> None:
        """Writes the last row group and the footer."""
        if self._buffered:
            self._flush(self._buffered)
        self._writer.close()

    def _flush(self, rows: int) -> None:
        table = pa.Table.from_batches(self._rows, self._schema)
        # Pages end where chunks end, so chunks would let the batching show in the bytes.
        self._writer.write_table(table.slice(0, rows).combine_chunks(), row_group_size=rows)
        self._rows = table.slice(rows).to_batches()
        self._buffered -= rows


def writer(stream: BinaryIO, schema: pa.Schema, about: Mapping[str, Any] | None) -> ParquetWriter:
    """Returns what writes rows of the schema, with what is said of the release as metadata."""
    metadata = {} if about is None else {"release": json.dumps(about, ensure_ascii=False)}
    return ParquetWriter(stream, metadata, schema)

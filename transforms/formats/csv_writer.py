"""Released rows as delimited text, as RFC 4180 has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.events import RELEASED_SCHEMA

_WRITTEN_ROWS = 1 << 16

_YEAR_1 = pa.scalar(-62135596800000000, pa.timestamp("us", "UTC"))

_YEAR_9999 = pa.scalar(253402300799999999, pa.timestamp("us", "UTC"))


def iso_utc(stamps: pa.Array) -> pa.Array:
    """Formats instants as ISO 8601 in UTC with microseconds, as 2010-01-01T00:00:00.000000+00:00.

    Args:
        stamps: timestamp('us', 'UTC').

    Returns:
        string array of the same length.

    Raises:
        ValueError: A stamp lies outside the years 1 to 9999, which ISO 8601 cannot write.
    """
    if pc.any(pc.less(stamps, _YEAR_1)).as_py() or pc.any(pc.greater(stamps, _YEAR_9999)).as_py():
        raise ValueError("a time stamp lies outside the years 1 to 9999")
    # Without the zone the cast needs no time-zone database, which slim images lack.
    text = stamps.cast(pa.timestamp("us")).cast(pa.string())
    return pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "+00:00", "")


class CsvWriter:
    """Writes released rows as RFC 4180 text in UTF-8 with a header line.

    Lines end with a line feed; fields are quoted only where they must be. An attribute without a
    value is an empty field.

    Args:
        stream: Where the bytes go.
        schema: Of the rows: RELEASED_SCHEMA, or that with attributes.
    """

    def __init__(self, stream: BinaryIO, schema: pa.Schema = RELEASED_SCHEMA) -> None:
        self._stream = stream
        self._schema = schema
        names = _quoted(pa.array(schema.names, pa.string())).to_pylist()
        stream.write((",".join(names) + "\n").encode())

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows of the schema."""
        rows = rows.cast(self._schema)
        for start in range(0, rows.num_rows, _WRITTEN_ROWS):
            columns = rows.slice(start, _WRITTEN_ROWS).columns
            lines = pc.binary_join_element_wise(
                *(_quoted(pc.fill_null(_text(values), "")) for values in columns), ","
            )
            self._stream.write(("\n".join(lines.to_pylist()) + "\n").encode())

    def close(self) -> None:
        """Does nothing more: every row is written by then."""


def _text(values: pa.Array) -> pa.Array:
    return iso_utc(values) if pa.types.is_timestamp(values.type) else values.cast(pa.string())


def _quoted(text: pa.Array) -> pa.Array:
    doubled = pc.replace_substring(text, '"', '""')
    return pc.if_else(
        pc.match_substring_regex(text, '[",\r\n]'),
        pc.binary_join_element_wise('"', doubled, '"', ""),
        text,
    )


def writer(stream: BinaryIO, schema: pa.Schema, about: Mapping[str, Any] | None) -> CsvWriter:
    """Returns what writes rows of the schema; the file says nothing of a release."""
    return CsvWriter(stream, schema)

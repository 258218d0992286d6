"""Released rows as delimited text, as RFC 4180 has it."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US, RELEASED_SCHEMA
from tracecloak.schemas.texts import FORMULA, FORMULA_BEGINNINGS

_LOG = logging.getLogger("tracecloak")

_WRITTEN_ROWS = 1 << 16


def check_years(stamps: pa.Array) -> None:
    """Makes sure that instants lie in the years that files of text can hold.

    Raises:
        ValueError: One does not.
    """
    least, most = pc.min_max(stamps.cast(pa.int64())).as_py().values()
    if least is not None and not MIN_TIME_US <= least <= most <= MAX_TIME_US:
        raise ValueError("a time stamp lies outside the years 1 to 9999")


def iso_utc(stamps: pa.Array) -> pa.Array:
    """Formats instants as ISO 8601 in UTC with microseconds, as 2010-01-01T00:00:00.000000+00:00.

    Args:
        stamps: timestamp('us', 'UTC').

    Returns:
        string array of the same length.

    Raises:
        ValueError: A stamp lies outside the years 1 to 9999, which ISO 8601 cannot write.
    """
    check_years(stamps)
    # Without the zone the cast needs no time-zone database, which slim images lack.
    text = stamps.cast(pa.timestamp("us")).cast(pa.string())
    return pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "+00:00", "")


def with_apostrophes(texts: pa.Array) -> pa.Array:
    """Puts an apostrophe in front of texts that are formulas to a spreadsheet, see `FORMULA`.

    One that has some in front of a formula gets another, so that `without_apostrophes` returns the
    same texts again.
    """
    return pc.replace_substring_regex(texts, f"^('*{FORMULA})", r"'\1")


def without_apostrophes(texts: pa.Array) -> pa.Array:
    """Returns the texts of which `with_apostrophes` made these."""
    return pc.replace_substring_regex(texts, f"^'('*{FORMULA})", r"\1")


class CsvWriter:
    """Writes released rows as RFC 4180 text in UTF-8 with a header line.

    Lines end with a line feed; fields are quoted only where they must be. An attribute without a
    value is an empty field. Names and values of text that are formulas to a spreadsheet are counted
    for a warning, or get an apostrophe; numbers do not, whatever their sign.

    Args:
        stream: Where the bytes go.
        schema: Of the rows: RELEASED_SCHEMA, or that with attributes.
        about: The manifest of the release that it is of, for the warning; None: it is of none.
        has_apostrophes: Whether they get one.
    """

    def __init__(
        self,
        stream: BinaryIO,
        schema: pa.Schema = RELEASED_SCHEMA,
        about: Mapping[str, Any] | None = None,
        has_apostrophes: bool = False,
    ) -> None:
        self._stream = stream
        self._schema = schema
        self._about = about or {}
        self._has_apostrophes = has_apostrophes
        self._n_formulas = Counter[str]()
        names = self._field("the header", pa.array(schema.names, pa.string())).to_pylist()
        stream.write((",".join(names) + "\n").encode())

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows of the schema."""
        rows = rows.cast(self._schema)
        for start in range(0, rows.num_rows, _WRITTEN_ROWS):
            columns = rows.slice(start, _WRITTEN_ROWS).columns
            fields = map(self._field, self._schema.names, columns)
            lines = pc.binary_join_element_wise(*fields, ",")
            self._stream.write(("\n".join(lines.to_pylist()) + "\n").encode())

    def close(self) -> None:
        """Warns of formulas; every row is written by then."""
        if self._n_formulas:
            counts = [f"{n:,} of {name!r}" for name, n in self._n_formulas.items()]
            _LOG.warning(
                "a spreadsheet computes fields of the CSV of release %s that begin with %s: %s; "
                "choose the format spreadsheet in the place of csv, which puts an apostrophe in "
                "front, or let every column be imported as text",
                *(self._about.get("release_id"), FORMULA_BEGINNINGS, ", ".join(counts)),
            )

    def _field(self, name: str, values: pa.Array) -> pa.Array:
        is_text, is_time = pa.types.is_string(values.type), pa.types.is_timestamp(values.type)
        text = pc.fill_null(iso_utc(values) if is_time else values.cast(pa.string()), "")
        if is_text and self._has_apostrophes:
            text = with_apostrophes(text)
        elif is_text and (n := pc.sum(pc.match_substring_regex(text, f"^{FORMULA}")).as_py()):
            self._n_formulas[name] += n
        return _quoted(text)


def _quoted(text: pa.Array) -> pa.Array:
    doubled = pc.replace_substring(text, '"', '""')
    return pc.if_else(
        pc.match_substring_regex(text, '[",\r\n]'),
        pc.binary_join_element_wise('"', doubled, '"', ""),
        text,
    )


spreadsheet = functools.partial(CsvWriter, has_apostrophes=True)
"""Returns the same with apostrophes in front of formulas."""

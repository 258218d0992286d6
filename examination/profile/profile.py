"""`tracecloak profile`: what a log holds, as far as it was read. For the operator only.

By which formats the stamps of a log can be read, where they are no ISO 8601.

All columns of a file, as they lie there, whether or not anything is mapped to them.

A profile as rows of a screen: what is most to the point, and what to paste.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.contract.in_memory import whole_log
from tracecloak.examination.profile.suggestions import (
    NOT_COVERED,
    ColumnFacts,
    add_batch,
    as_yaml,
    facts_of,
    suggest_formats,
    suggestions_of,
)
from tracecloak.pipelines.planning.findings import finding_lines, refuse_unread, share_text
from tracecloak.pipelines.planning.names import misspellings, normalized_id, spellings
from tracecloak.pipelines.screen.results import quantity
from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.errors import InputSchemaError, OtherFormat
from tracecloak.schemas.events.events import ACTIVITY, CASE_ID
from tracecloak.schemas.events.source_column import SourceColumn
from tracecloak.schemas.events.tally import FileTally, ReadTally
from tracecloak.schemas.events.traces import INDIVIDUAL_ID
from tracecloak.transforms.formats.base import RawBatch, Reader, TypedReader
from tracecloak.transforms.inputs.source_files import SourceFile, open_source
from tracecloak.transforms.pages.page import from_template
from tracecloak.transforms.sources import EventSource, named

_IDS = {CASE_ID: "case id", INDIVIDUAL_ID: "individual"}
_SHOWN = 10
WARNING = "computed on the unprotected log: for the operator, not for publication"


def profile(
    source: EventSource, max_records: int, names_ids: bool
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Reads a log twice, its columns and its events, and says what it holds.

    Args:
        source: The log.
        max_records: As many records are read, from the first file on, and the rest of their batch.
        names_ids: Whether the rows show ids of cases and individuals, as on a terminal.

    Returns:
        JSON values, with names of activities and of columns, which are the log's own; and rows for
        a screen, each of what, and a text.

    Raises:
        OtherFormat: No record can be read, as a file is not of its format.
        InputSchemaError: A file cannot be read.
    """
    columns, names, formats = _columns(source, max_records)
    # Where individuals are mapped they are protected, and a record without one does not count.
    mapping = replace(source.mapping, needs_individual=source.mapping.individual_id is not None)
    read = replace(source, drops_duplicates=False, mapping=mapping)
    events, tally, is_whole = events_of(read, max_records)
    if not tally.n_events:
        refuse_unread(tally.found(), read, OtherFormat)
    counts = _counts(events, ACTIVITY)
    other = spellings(counts)
    cases = facts_of(events, whole_log(events), source.mapping.time_zone)
    if source.drops_duplicates:
        tally = tally.with_duplicates(cases["n_duplicates"])
    # Ids that differ from a more frequent one in case, blanks and forms of letters alone.
    near = {what: spellings(_counts(events, ids), normalized_id) for ids, what in _IDS.items()}
    suggestions = [*suggest_formats(formats), *suggestions_of(columns, cases, other, names)]
    body = {
        "publishable": False,
        "warning": WARNING,
        "is_whole": is_whole,
        "records": tally.to_json(),
        "columns": [one.to_json() for one in columns.values()],
        "activities": dict(counts.most_common()),
        "spellings": other,
        "misspellings": misspellings([name for name in counts if name not in other]),
        "near_ids": {what: len(ids) for what, ids in near.items()},
        "cases": cases,
        "tied_events_are_ordered_by": source.rule,
        "suggestions": list(map(asdict, suggestions)),
        "to_paste": as_yaml(suggestions),
        "note": NOT_COVERED,
    }
    reasons = list(finding_lines(tally, read))
    given = {"profile": body, "columns": columns, "tally": tally, "reasons": reasons, "near": near}
    words = {"quantity": quantity, "repr": repr, "ascii": ascii, "share": share_text(tally)}
    how = {"names_ids": names_ids, "shown": _SHOWN}
    lines = from_template(__package__, "rows.txt.j2", **given, **words, **how)
    parts = (line.partition(": ") for line in lines)
    return body, [(what, text) for what, _, text in parts]


def _counts(events: list[pa.RecordBatch], column: str) -> Counter[str]:
    """Returns how often each text of a column occurs; of one that is not there, nothing."""
    counts: Counter[str] = Counter()
    for batch in events:
        if column in batch.schema.names:
            counted = pc.value_counts(batch.column(column).cast(pa.string()).drop_null())
            counts.update({one["values"]: one["counts"] for one in counted.to_pylist()})
    return counts


def _columns(
    source: EventSource, max_records: int
) -> tuple[dict[str, ColumnFacts], dict[str, str], list[dict[str, str]]]:
    """Returns what columns hold, those by what they are read as, and keys that read the stamps."""
    facts: dict[str, ColumnFacts] = {}
    names: dict[str, str] = {}
    formats: list[dict[str, str]] | None = None
    mapping = source.mapping
    n_left = max_records
    for file in source.files:
        if n_left <= 0:
            break
        names = source.names_of(file, source.columns_of(file))
        for raw in all_columns(source, file, n_left):
            add_batch(facts, raw.columns, names, mapping)
            n_left -= len(raw.records) + len(raw.malformed)
            stamps = mapping.time_column(raw.columns, names["timestamp"])
            is_open = formats is None and not (mapping.timestamp_format or mapping.timestamp_unit)
            if is_open and stamps is not None:
                formats = keys_that_read(stamps)
    parts = {part: part for parts in mapping.parts.values() for part in parts}
    return facts, {**names, **parts}, formats or []


def events_of(
    source: EventSource, max_records: float = math.inf
) -> tuple[list[pa.RecordBatch], ReadTally, bool]:
    """Returns events of a log, what was found of their records, and whether these are all.

    Args:
        source: The log.
        max_records: As many records are read, and the rest of their batch.

    Raises:
        InputSchemaError: A file cannot be read.
    """
    events: list[pa.RecordBatch] = []
    tallies: list[ReadTally] = []
    n_left = max_records
    for file in source.files:
        tally = FileTally(file.rank)
        read = tally.result()
        for batch, rejects in source.read(file, tally):
            if n_left <= 0:
                return events, ReadTally.merge([*tallies, read]), False
            events.append(batch)
            read = tally.result()
            n_left -= batch.num_rows + rejects.num_rows
        tallies.append(tally.result())
    return events, ReadTally.merge(tallies), True


_DAYS = ("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y",
         "%m-%d-%Y", "%Y.%m.%d", "%Y%m%d", "%d-%b-%Y", "%d %b %Y")  # fmt: skip
_HOURS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H%M%S", "%H%M%S", " %H%M%S")
# With a blank before the offset, as SQL Server and Ruby write it, which is not ISO 8601.
_ZONED = ("%Y-%m-%d %H:%M:%S %z", "%Y-%m-%d %H:%M:%S.%f %z")
_UNIT_OF_DIGITS = {10: "s", 13: "ms", 16: "us", 19: "ns"}  # of a time of our days
_SAMPLE = 1_000
_UTC = LocalClock.of("UTC").to_utc  # what is readable does not depend on the zone


def keys_that_read(stamps: SourceColumn) -> list[dict[str, str]]:
    """Returns each key of a mapping that reads nine in ten of the first thousand stamps.

    It is `timestamp_unit` where these are digits alone, and else a `timestamp_format`; none is
    where ISO 8601 reads them, or where the column's type says that they are times or numbers.
    """
    if stamps.is_of_times or stamps.is_of_numbers:
        return []
    sample = SourceColumn(stamps.name, stamps.text().drop_null()[:_SAMPLE])

    def is_read(layout: str | None) -> bool:
        return _most(sample.times(_UTC, layout, None).is_valid())

    if is_read(None):
        return []
    for n_digits, unit in _UNIT_OF_DIGITS.items():
        if _most(pc.match_substring_regex(sample.values, f"^[0-9]{{{n_digits}}}$")):
            return [{"timestamp_unit": unit}]
    layouts = [*_ZONED, *(day + hour for day, hour in product(_DAYS, _HOURS))]
    return [{"timestamp_format": layout} for layout in layouts if is_read(layout)]


def _most(flags: pa.Array) -> bool:
    return flags.true_count >= 0.9 * len(flags)


# Of files that declare no columns, so many records are looked at for them.
_LISTED_RECORDS = 10_000
_BATCH_ROWS = 1 << 16


def all_columns(source: EventSource, file: SourceFile, max_records: int) -> Iterator[RawBatch]:
    """Yields all columns of the first records of a file, nested ones aside.

    Where only records tell which columns there are, these are those of the first 10,000.

    Raises:
        InputSchemaError: The file cannot be read; names it.
    """
    reader = source.format.reader_of(file.path, file.seen)
    n_left = max_records
    with named(file, source.format):
        names = [name for name in _names(reader, file) if _is_plain(reader, file, name)]
        with contextlib.closing(open_source(file)) as stream:
            for raw in reader.read(stream, names, (), min(_BATCH_ROWS, max_records)):
                yield raw
                n_left -= len(raw.records)
                if n_left <= 0:
                    return


def _names(reader: Reader, file: SourceFile) -> list[str]:
    with contextlib.closing(open_source(file)) as stream:
        declared = reader.column_names(stream)
    names_in = getattr(reader, "names_in", None)  # where only records tell the columns
    if declared is not None or names_in is None:
        return declared or []
    with contextlib.closing(open_source(file)) as stream:
        return list(names_in(stream, _LISTED_RECORDS))


def _is_plain(reader: Reader, file: SourceFile, name: str) -> bool:
    """Returns whether a column can be read: of files that declare types, one that is not nested."""
    if not isinstance(reader, TypedReader):
        return True
    with contextlib.closing(open_source(file)) as stream:
        try:
            return bool(reader.empty(stream, (name,)).num_columns)
        except InputSchemaError:
            return False

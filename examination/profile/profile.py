"""`tracecloak profile`: what a log holds, as far as it was read. For the operator only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.examination.profile.cases import CaseFacts, facts_of
from tracecloak.examination.profile.columns import ColumnFacts, add_batch
from tracecloak.examination.profile.reading import all_columns
from tracecloak.examination.profile.stamp_formats import keys_that_read
from tracecloak.examination.profile.suggestions import (
    NOT_COVERED,
    Suggestion,
    as_yaml,
    of_formats,
    suggestions_of,
)
from tracecloak.pipelines.planning.finding_words import finding_lines, refuse_unread
from tracecloak.schemas.errors import OtherFormat
from tracecloak.schemas.events.events import ACTIVITY, CASE_ID
from tracecloak.schemas.events.near_equal import misspellings, spellings, without_form
from tracecloak.schemas.events.source_column import SourceColumn
from tracecloak.schemas.events.tally import ReadTally, TallyOfFile
from tracecloak.schemas.events.traces import INDIVIDUAL_ID, TraceBatch
from tracecloak.transforms.sources import EventSource

_IDS = {CASE_ID: "case id", INDIVIDUAL_ID: "individual"}
WARNING = "computed on the unprotected log: for the operator, not for publication"


@dataclass(frozen=True)
class Profile:
    """What a log holds.

    Attributes:
        is_whole: Whether all of it was read.
        columns: What its columns hold, by their names.
        reasons: A line for each finding in its records, with the first place and the mend.
        tally: The same as numbers.
        activities: How often each activity occurs.
        spellings: Names of activities that are another spelling of a more frequent one.
        misspellings: Pairs of names that differ in one letter.
        near_ids: By what they identify, ids that differ from a more frequent one in case, blanks
            and forms of letters alone, with that one. They are the log's own and go to a terminal.
        cases: What its cases are like.
        rule: What orders events of a case with equal timestamps.
        suggestions: Keys of a configuration that it suggests.
    """

    is_whole: bool
    columns: dict[str, ColumnFacts]
    reasons: list[str]
    tally: ReadTally
    activities: dict[str, int]
    spellings: dict[str, str]
    misspellings: list[tuple[str, str]]
    near_ids: dict[str, dict[str, str]]
    cases: CaseFacts
    rule: str
    suggestions: list[Suggestion]

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values; names of activities and of columns are the log's own."""
        return {
            "publishable": False,
            "warning": WARNING,
            "is_whole": self.is_whole,
            "records": self.tally.to_json(),
            "columns": [one.to_json() for one in self.columns.values()],
            "activities": self.activities,
            "spellings": self.spellings,
            "misspellings": self.misspellings,
            "near_ids": {what: len(near) for what, near in self.near_ids.items()},
            "cases": self.cases.to_json(),
            "tied_events_are_ordered_by": self.rule,
            "suggestions": [
                {"keys": dict(one.keys), "reason": one.reason} for one in self.suggestions
            ],
            "to_paste": as_yaml(self.suggestions),
            "note": NOT_COVERED,
        }


def profile(source: EventSource, max_records: int) -> Profile:
    """Reads a log twice, its columns and its events, and says what it holds.

    Args:
        source: The log.
        max_records: As many records are read, from the first file on, and the rest of their batch.

    Raises:
        OtherFormat: No record can be read, as a file is not of its format.
        InputSchemaError: A file cannot be read.
    """
    columns, names, formats = _columns(source, max_records)
    # Where individuals are mapped they are protected, and a record without one does not count.
    mapping = replace(source.mapping, needs_individual=source.mapping.individual_id is not None)
    read = replace(source, drops_duplicates=False, mapping=mapping)
    events, tally, is_whole = _events(read, max_records)
    if not tally.n_events:
        refuse_unread(tally.found(), read, OtherFormat)
    batches = group_into_traces(events)
    traces = batches[0] if batches else TraceBatch.from_events([])
    counts = _counts(events, ACTIVITY)
    other = spellings(counts)
    cases = facts_of(events, traces, source.mapping.time_zone)
    return Profile(
        is_whole,
        columns,
        list(finding_lines(tally.n_records, tally.found(), read)),
        tally,
        dict(counts.most_common()),
        other,
        misspellings([name for name in counts if name not in other]),
        {what: spellings(_counts(events, ids), without_form) for ids, what in _IDS.items()},
        cases,
        source.rule,
        [*of_formats(formats), *suggestions_of(columns, cases, other, names)],
    )


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
            at = names["timestamp"]
            is_open = formats is None and not (mapping.timestamp_format or mapping.timestamp_unit)
            if is_open and at in raw.columns.schema.names:
                formats = keys_that_read(SourceColumn(at, raw.columns.column(at)))
    return facts, names, formats or []


def _events(source: EventSource, max_records: int) -> tuple[list[pa.RecordBatch], ReadTally, bool]:
    """Returns events, what was found of their records, and whether these are all.

    The last batch is taken whole, so there can be more than `max_records`.
    """
    events: list[pa.RecordBatch] = []
    tallies: list[ReadTally] = []
    n_left = max_records
    for file in source.files:
        tally = TallyOfFile(file.rank)
        read = tally.result()
        for batch, rejects in source.read(file, tally):
            if n_left <= 0:
                return events, ReadTally.merge([*tallies, read]), False
            events.append(batch)
            read = tally.result()
            n_left -= batch.num_rows + rejects.num_rows
        tallies.append(tally.result())
    return events, ReadTally.merge(tallies), True

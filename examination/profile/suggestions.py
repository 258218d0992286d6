"""What a profile suggests: keys of a configuration, each with its reason, as text to paste.

They follow from what the columns of a source contain (how much, of which kind, and what they could
be) and what its cases are like: order, duplicates, gaps, and how fine their timestamps are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from tracecloak.pipelines.screen.results import quantity
from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.calendar.working_time import GRID_US
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import CASE_ID, EVENT_INDEX, TIMESTAMP
from tracecloak.schemas.events.source_column import SourceColumn
from tracecloak.schemas.events.tally import COMPLETIONS, STARTS
from tracecloak.schemas.events.traces import TraceBatch, is_duplicate

# So many different values of a column, and of a column with a case, are told apart.
MAX_DISTINCT = 200_000
# A column is one of times if so many of its values are, and begins or ends an event if so many of
# its times lie on that side of the event's own.
_MOSTLY = 0.9
_WRITTEN = {
    "point_zero": r"^-?(?:0|[1-9][0-9]*)\.0+$",
    "whole": r"^-?[0-9]+$",
    "email": r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
    "full_name": r"^\p{Lu}\p{Ll}+[ ,]+\p{Lu}[\p{L}.'-]+$",
}
_PERSON = re.compile(
    r"person|patient|client|customer|citizen|applicant|employee|member|user|resource|nurse|doctor|"
    r"physician|teacher|student|pupil|driver|owner|insured|holder|agent|clerk|operator|e-?mail|phone|"
    r"birth|ssn|bsn|iban|passport|kunde|kundin|bürger|antragstell|mitarbeit|versichert|klient|"
    r"(?:^|[^a-z])(?:first|last|full|sur|family)_?name",
    re.IGNORECASE,
)
_MOST_TRANSITIONS = 16

# What the cases of a log are like; see `facts_of`.
CaseFacts = dict[str, Any]


@dataclass
class ColumnFacts:
    """What one column holds, added up over batches.

    Attributes:
        name: Of the column.
        type: As the source declares it; `text` where only records tell.
        n: How many `records` there are, and how many are `empty`; how many values are `times`, and
            no later (`before`) or no earlier (`after`) than the event's; and how many are written
            as a whole number with `.0`, as one without, as an e-mail address, and as a first and a
            last name.
    """

    name: str
    type: str
    n: Counter[str] = field(default_factory=Counter)
    _values: set[int] = field(default_factory=set)
    _cases: set[int] = field(default_factory=set)
    _case_hashes: set[int] = field(default_factory=set)
    _transitions: set[str] = field(default_factory=set)

    def add(
        self, values: pa.Array, cases: np.ndarray | None, times: pa.Array, mapping: ColumnMapping
    ) -> None:
        """Takes in values.

        Args:
            values: [n].
            cases: uint64[n], a hash of the case of each, 0 where it has none; None: not known.
            times: int64[n], when the events were; null where that cannot be read.
            mapping: How times are read.
        """
        column = SourceColumn(self.name, values)
        is_empty = column.is_empty()
        self.n["records"] += len(values)
        self.n["empty"] += int(is_empty.sum())
        self._add_times(column, times, mapping)
        try:
            text = column.text(of_attribute=True)
        except InputSchemaError:
            return
        is_there = np.asarray(pc.is_valid(text))
        text = text.drop_null().cast(pa.string())
        for what, pattern in _WRITTEN.items():
            self.n[what] += _n_true(pc.match_substring_regex(text, pattern))
        hashes = hash_text(text)
        _add(self._values, hashes)
        if len(self._transitions) <= _MOST_TRANSITIONS:
            self._transitions.update(v.casefold() for v in pc.unique(text).to_pylist()[:20])
        if cases is not None:
            of = cases[is_there]
            _add(self._cases, of)
            _add(self._case_hashes, (of * np.uint64(0x9E3779B97F4A7C15)) ^ hashes)

    def _add_times(self, column: SourceColumn, events: pa.Array, mapping: ColumnMapping) -> None:
        try:
            # Numbers are times in the columns of times alone: ids are numbers, too.
            times = column.times(mapping.clock.to_utc, mapping.timestamp_format, None)
        except InputSchemaError:
            return
        self.n["times"] += len(times) - times.null_count
        self.n["before"] += _n_true(pc.less_equal(times, events))
        self.n["after"] += _n_true(pc.greater_equal(times, events))

    @property
    def n_distinct(self) -> int | None:
        """How many different values there are; None: more than are told apart."""
        return None if len(self._values) > MAX_DISTINCT else len(self._values)

    @property
    def n_values(self) -> int:
        """Records with a value."""
        return self.n["records"] - self.n["empty"]

    @property
    def is_of_case(self) -> bool:
        """Whether each case has one value at most; not known of very many."""
        is_known = len(self._case_hashes) <= MAX_DISTINCT and bool(self._cases)
        return is_known and len(self._case_hashes) == len(self._cases)

    @property
    def has_numbers_of_two_forms(self) -> bool:
        """Whether whole numbers are written with `.0`, as tables with empty cells are."""
        n_point_zero = self.n["point_zero"]
        return n_point_zero > 0 and n_point_zero + self.n["whole"] == self.n_values

    @property
    def place_of_time(self) -> str:
        """`start` or `end` of a column of times that begin or end the events; else empty."""
        most = _MOSTLY * self.n["times"]
        begins, ends = self.n["before"] >= most, self.n["after"] >= most
        if not most or self.n["times"] < _MOSTLY * self.n_values or begins == ends:
            return ""
        return "start" if begins else "end"

    @property
    def has_transitions(self) -> bool:
        """Whether it says of events that they start or are complete."""
        ends = (STARTS, COMPLETIONS)
        return not any(self._transitions.isdisjoint(transitions) for transitions in ends)

    @property
    def is_shared_by_cases(self) -> bool:
        """Whether a value of a case is that of others, too."""
        return self.is_of_case and bool(self._values) and len(self._values) < len(self._cases)

    @property
    def person(self) -> str:
        """Why its values look like persons; else empty."""
        most = _MOSTLY * self.n_values
        if self.n["times"] == self.n_values:
            return ""
        if self.n["email"] >= most:
            return "its values are written as e-mail addresses"
        if self.n["full_name"] >= most and (self.n_distinct or 99) > 5:
            return "its values are written as first and last names"
        return "its name says so" if _PERSON.search(self.name) else ""

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values; none of them is a value of the column."""
        return {
            "column": self.name,
            "type": self.type,
            "records": self.n["records"],
            "empty": self.n["empty"],
            "distinct": self.n_distinct,
            "times": self.n["times"],
            "place_of_time": self.place_of_time or None,
            "one_value_for_each_case": self.is_of_case,
            "looks_like_persons": self.person or None,
            "written_with_point_zero": self.n["point_zero"],
        }


def add_batch(
    facts: dict[str, ColumnFacts],
    columns: pa.RecordBatch,
    names: Mapping[str, str],
    mapping: ColumnMapping,
) -> None:
    """Adds the columns of a batch of records to what is known of them.

    Args:
        facts: By column; new ones are added.
        columns: The records.
        names: The source column of `case_id` and of `timestamp`.
        mapping: How times are read.
    """
    present = columns.schema.names
    cases = None
    if names["case_id"] in present:
        text = SourceColumn("", columns.column(names["case_id"])).text()
        cases = hash_text(pc.fill_null(text.cast(pa.string()), ""))
        cases[np.asarray(pc.is_null(text))] = 0
    times = pa.nulls(columns.num_rows, pa.int64())
    stamps = mapping.time_column(columns, names["timestamp"])
    if stamps is not None:
        times = stamps.times(mapping.clock.to_utc, mapping.timestamp_format, mapping.timestamp_unit)
    for name in present:
        values = columns.column(name)
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        one = facts.setdefault(name, ColumnFacts(name, str(kind).replace("string", "text")))
        one.add(values, cases, times, mapping)


def _n_true(flags: pa.Array) -> int:
    return int(pc.sum(flags).as_py() or 0)


def _add(hashes: set[int], more: np.ndarray) -> None:
    if len(hashes) <= MAX_DISTINCT:
        hashes.update(np.unique(more).tolist())


NOT_COVERED = "A setting that is chosen after looking at the data is not covered by epsilon."


@dataclass(frozen=True)
class Suggestion:
    """One key and why.

    Attributes:
        keys: The keys of a configuration, as it would have them; none where not every method takes
            them, and the reason names them.
        reason: A sentence with numbers of the log.
    """

    keys: Mapping[str, Any]
    reason: str


def suggest_formats(formats: Sequence[Mapping[str, str]]) -> Iterator[Suggestion]:
    """Yields the key by which the stamps can be read, or what to choose from where there are more.

    Args:
        formats: Each key, with its value; see `profile.keys_that_read`.
    """
    named = " or ".join(f"{key}: {value}" for one in formats for key, value in one.items())
    if len(formats) == 1:
        yield Suggestion({"columns": dict(formats[0])}, f"The stamps can be read by {named}.")
    elif formats:
        yield Suggestion(
            {},
            f"The stamps can be read by {named}: ask who wrote the log which comes first, the day "
            "or the month.",
        )


def suggestions_of(
    columns: Mapping[str, ColumnFacts],
    cases: CaseFacts,
    spellings: Mapping[str, str],
    mapped: Mapping[str, str],
) -> Iterator[Suggestion]:
    """Yields what a log suggests.

    Args:
        columns: What its columns hold.
        cases: What its cases are like.
        spellings: Names of activities that are another spelling of one.
        mapped: The source columns that are read already, by what they are read as.
    """
    if spellings:
        yield Suggestion(
            {"rename": dict(sorted(spellings.items()))},
            f"Other spellings of more frequent activities: {quantity(len(spellings), 'name')}.",
        )
    if cases["n_duplicates"]:
        yield Suggestion(
            {"drop_duplicates": True},
            f"{cases['n_duplicates']:,} of {cases['n_events']:,} events equal an earlier one of "
            f"their case, in {cases['n_cases_with_duplicates']:,} cases.",
        )
    id_columns = [one.name for one in columns.values() if one.has_numbers_of_two_forms]
    named = [n for n in id_columns if n in mapped.values()]
    if named:
        yield Suggestion(
            {"columns": {"whole_numbers": named}},
            f"In {', '.join(named)} whole numbers are written with .0 at their end.",
        )
    free = [one for name, one in columns.items() if name not in mapped.values()]
    yield from _suggest_times(free)
    yield from _suggest_persons(free, mapped)


def _suggest_times(free: list[ColumnFacts]) -> Iterator[Suggestion]:
    starts = [one for one in free if one.place_of_time == "start"]
    if len(starts) == 1:
        yield Suggestion(
            {},
            f"The times of {starts[0].name} are no later than those of the events. Where they are "
            f"when events began, method private-log releases them: start_timestamp: "
            f"{starts[0].name}.",
        )
    transitions = [one for one in free if one.has_transitions]
    if transitions and not starts:
        yield Suggestion(
            {},
            f"{transitions[0].name} tells starts of events from completions, which count as two "
            f"events each. Read one of them with where: {transitions[0].name} = complete; or have "
            f"method private-log release both with lifecycle: {transitions[0].name}.",
        )


def _suggest_persons(free: list[ColumnFacts], mapped: Mapping[str, str]) -> Iterator[Suggestion]:
    if "individual_id" in mapped:
        return
    for one in free:
        if one.person and one.is_shared_by_cases:
            yield Suggestion(
                {"columns": {"individual_id": one.name}},
                f"{one.name} looks like persons who have several cases each ({one.person}): "
                "protect them, and not single cases.",
            )
            return


def as_yaml(suggestions: list[Suggestion]) -> str:
    """Returns the keys of all, as a configuration file has them, with a comment above."""
    body: dict[str, Any] = {}
    for one in suggestions:
        for key, value in one.keys.items():
            body[key] = {**body.get(key, {}), **value} if isinstance(value, dict) else value
    if not body:
        return ""
    return f"# {NOT_COVERED}\n" + yaml.safe_dump(body, allow_unicode=True, sort_keys=False)


_DAY_US = 24 * 3_600_000_000


def facts_of(events: Sequence[pa.RecordBatch], traces: TraceBatch, time_zone: str) -> CaseFacts:
    """Returns what the cases of a log are like, as JSON values.

    Args:
        events: Canonical events, as they were read.
        traces: The same as cases.
        time_zone: Of the log.

    Returns:
        How many cases and events there are; events that equal an earlier one of their case, in all
        that is read (`n_duplicates`), and cases that have such; events with the time of the event
        before in their case (`n_equal_stamps`), or with case and timestamp in common with one of
        another activity (`n_tied`); and records that are earlier than the one before of their case
        (`n_out_of_order`). `granularity`: the coarsest of `GRID_US` of which all stamps are whole
        multiples, by the clock of the log's time zone, or None. The first and the last day with an
        event, as dates; the most days after each other without an event between these, the first of
        them, or None, and what half of all such stretches do not exceed.
    """
    duplicates = is_duplicate(traces)
    case_numbers = np.repeat(np.arange(traces.n_cases), traces.lengths)
    local_us = LocalClock.of(time_zone).local_us(traces.times)
    whole = [name for name, length in GRID_US.items() if not (local_us % length).any()]
    days = np.unique(local_us // _DAY_US)
    gaps = np.diff(days) - 1
    longest = int(gaps.argmax()) if len(gaps) and gaps.max() else None
    return {
        "n_cases": traces.n_cases,
        "n_events": traces.n_events,
        "n_duplicates": int(duplicates.sum()),
        "n_cases_with_duplicates": len(np.unique(case_numbers[duplicates])),
        "n_equal_stamps": int(((traces.durations == 0) & ~traces.is_first).sum()),
        "n_tied": int(traces.is_tied.sum()),
        "n_out_of_order": _out_of_order(events),
        "granularity": max(whole, key=GRID_US.__getitem__, default=None) if len(days) else None,
        "first_day": _date(days[0]) if len(days) else None,
        "last_day": _date(days[-1]) if len(days) else None,
        "longest_gap_days": 0 if longest is None else int(gaps[longest]),
        "gap_begins": None if longest is None else _date(days[longest] + 1),
        "median_gap_days": float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 0.0,
    }


def _out_of_order(events: Sequence[pa.RecordBatch]) -> int:
    """Returns how many records are earlier than the one before of their case."""
    if not events:
        return 0
    table = pa.Table.from_batches([b.select([CASE_ID, TIMESTAMP, EVENT_INDEX]) for b in events])
    ids = table.column(CASE_ID).cast(pa.string()).combine_chunks()
    case = np.asarray(pc.rank(ids, tiebreaker="dense"))
    time, index = np.asarray(table.column(TIMESTAMP)), np.asarray(table.column(EVENT_INDEX))
    order = np.lexsort((index, case))
    steps = np.diff(time[order])
    return int(((steps < 0) & (np.diff(case[order]) == 0)).sum())


def _date(day: np.int64) -> str:
    return str(np.datetime64(int(day), "D"))

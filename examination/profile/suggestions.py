"""What a profile suggests: keys of a configuration, each with its reason, as text to paste.

What the cases of a log are like: order, duplicates, gaps, and how fine their stamps are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from tracecloak.examination.profile.columns import ColumnFacts
from tracecloak.pipelines.screen.results import quantity
from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.calendar.time_grid import GRID_US
from tracecloak.schemas.events.duplicates import is_duplicate
from tracecloak.schemas.events.events import CASE_ID, EVENT_INDEX, TIMESTAMP
from tracecloak.schemas.events.traces import TraceBatch

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


def of_formats(formats: Sequence[Mapping[str, str]]) -> Iterator[Suggestion]:
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
    if cases.n_duplicates:
        yield Suggestion(
            {"drop_duplicates": True},
            f"{cases.n_duplicates:,} of {cases.n_events:,} events equal an earlier one of their "
            f"case, in {cases.n_cases_with_duplicates:,} cases.",
        )
    of_ids = [one.name for one in columns.values() if one.has_numbers_of_two_forms]
    named = [n for n in of_ids if n in mapped.values()]
    if named:
        yield Suggestion(
            {"columns": {"whole_numbers": named}},
            f"In {', '.join(named)} whole numbers are written with .0 at their end.",
        )
    free = [one for name, one in columns.items() if name not in mapped.values()]
    yield from _of_times(free)
    yield from _of_persons(free, mapped)


def _of_times(free: list[ColumnFacts]) -> Iterator[Suggestion]:
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


def _of_persons(free: list[ColumnFacts], mapped: Mapping[str, str]) -> Iterator[Suggestion]:
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


@dataclass(frozen=True)
class CaseFacts:
    """What the cases of a log are like.

    Attributes:
        n_cases: Cases.
        n_events: Events.
        n_duplicates: Events that equal an earlier one of their case, in all that is read.
        n_cases_with_duplicates: Cases that have such events.
        n_equal_stamps: Events with the time of the event before in their case.
        n_tied: Events that have case and timestamp in common with one of another activity.
        n_out_of_order: Records of a case that are earlier than the record before of this case.
        granularity: The coarsest of `GRID_US` of which all stamps are whole multiples, by the clock
            of the log's time zone; None: there is none.
        first_day: The first day with an event, as a date; None: there is none.
        last_day: The last one.
        longest_gap_days: The most days after each other without an event, between these.
        gap_begins: The first of them; None: there is none.
        median_gap_days: Half of all stretches without an event are no longer.
    """

    n_cases: int
    n_events: int
    n_duplicates: int
    n_cases_with_duplicates: int
    n_equal_stamps: int
    n_tied: int
    n_out_of_order: int
    granularity: str | None
    first_day: str | None
    last_day: str | None
    longest_gap_days: int
    gap_begins: str | None
    median_gap_days: float

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return asdict(self)


def facts_of(events: Sequence[pa.RecordBatch], traces: TraceBatch, time_zone: str) -> CaseFacts:
    """Returns what the cases are like.

    Args:
        events: Canonical events, as they were read.
        traces: The same as cases.
        time_zone: Of the log.
    """
    duplicates = is_duplicate(traces)
    of_case = np.repeat(np.arange(traces.n_cases), traces.lengths)
    days = np.unique(LocalClock.of(time_zone).local_us(traces.times) // _DAY_US)
    gaps = np.diff(days) - 1
    longest = int(gaps.argmax()) if len(gaps) and gaps.max() else None
    return CaseFacts(
        traces.n_cases,
        traces.n_events,
        int(duplicates.sum()),
        len(np.unique(of_case[duplicates])),
        int(((traces.durations == 0) & ~traces.is_first).sum()),
        int(traces.is_tied.sum()),
        _out_of_order(events),
        _granularity(traces.times, time_zone),
        _date(days[0]) if len(days) else None,
        _date(days[-1]) if len(days) else None,
        0 if longest is None else int(gaps[longest]),
        None if longest is None else _date(days[longest] + 1),
        float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 0.0,
    )


def _granularity(times: np.ndarray, time_zone: str) -> str | None:
    if not len(times):
        return None
    local = LocalClock.of(time_zone).local_us(times)
    whole = [name for name, length in GRID_US.items() if not (local % length).any()]
    return max(whole, key=lambda name: GRID_US[name]) if whole else None


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

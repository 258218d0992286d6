"""What a profile suggests: keys of a configuration, each with its reason, as text to paste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tracecloak.examination.profile.cases import CaseFacts
from tracecloak.examination.profile.columns import ColumnFacts
from tracecloak.pipelines.screen.results import quantity

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
        formats: Each key, with its value; see `stamp_formats.keys_that_read`.
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

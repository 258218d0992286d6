"""A profile as rows of a screen: what is most to the point, and what to paste."""

from __future__ import annotations

from collections.abc import Iterator

from tracecloak.examination.profile.columns import ColumnFacts
from tracecloak.examination.profile.profile import Profile
from tracecloak.examination.profile.suggestions import as_yaml
from tracecloak.pipelines.planning.finding_words import share_text
from tracecloak.pipelines.screen.results import quantity

_SHOWN = 10
_LONGEST = 80


def rows_of(profile: Profile, names_ids: bool) -> Iterator[tuple[str, str]]:
    """Yields rows: of what, and the text.

    Args:
        profile: The profile.
        names_ids: Whether ids of cases and individuals are shown, as on a terminal.
    """
    cases, tally = profile.cases, profile.tally
    read = "all" if profile.is_whole else "the first"
    yield (
        "read",
        f"{read} {quantity(tally.n_records, 'record')}, of which {tally.n_events:,} are events of "
        f"{quantity(cases.n_cases, 'case')}",
    )
    yield "share", share_text(tally)
    for reason in profile.reasons:
        yield "records", reason
    for one in profile.columns.values():
        yield "column", _column(one)
    yield "activities", f"{len(profile.activities):,} names"
    for other, name in list(profile.spellings.items())[:_SHOWN]:
        yield "spelling", f"{other!r} ({profile.activities[other]:,} times) is like {name!r}"
    for first, second in profile.misspellings[:_SHOWN]:
        yield "one letter", f"{first!r} and {second!r} differ in one letter: are they one?"
    for what, near in profile.near_ids.items():
        if near:
            text = (
                f"{quantity(len(near), what)} like another one but for case, blanks or Unicode form"
            )
            yield "ids", text if names_ids else f"{text}; a terminal shows which"
        for other, like in list(near.items())[: _SHOWN if names_ids else 0]:
            # In ASCII, as two forms of a letter look alike.
            yield "ids", f"{other[:_LONGEST]!a} is like {like[:_LONGEST]!a}: are they one?"
    yield "duplicates", _duplicates(profile)
    yield (
        "order",
        f"{quantity(cases.n_out_of_order, 'record')} earlier than the one before of the same case; "
        f"{quantity(cases.n_equal_stamps, 'event')} with the same time as the one before; "
        f"{100 * cases.n_tied / max(cases.n_events, 1):.1f} % of the events have case and "
        f"timestamp in common with an event of another activity, and {profile.rule} order them",
    )
    if cases.first_day is not None:
        yield "days", f"from {cases.first_day} to {cases.last_day}{_gap(profile)}"
        grid = cases.granularity
        yield "stamps", f"all are whole {grid}s" if grid else "some have parts of a microsecond"
    for suggestion in profile.suggestions:
        yield "suggestion", suggestion.reason


def lines_to_paste(profile: Profile) -> list[str]:
    """Returns the suggested keys as lines of a configuration file; none where there are none."""
    return as_yaml(profile.suggestions).splitlines()


def _column(one: ColumnFacts) -> str:
    share = one.n_empty / one.n if one.n else 0.0
    distinct = "very many" if one.n_distinct is None else f"{one.n_distinct:,}"
    parts = [
        f"{one.name} ({one.type}): {share:.1%} empty, {distinct} different values",
        "one for each case" if one.is_of_case else "",
        "times, which begin the events" if one.place_of_time == "start" else "",
        "times, which end the events" if one.place_of_time == "end" else "",
        f"looks like persons, as {one.person}" if one.person else "",
        f"{one.n_point_zero:,} written with .0" if one.has_numbers_of_two_forms else "",
        "starts and completions" if one.has_transitions else "",
    ]
    return "; ".join(part for part in parts if part)


def _duplicates(profile: Profile) -> str:
    cases = profile.cases
    return (
        f"{quantity(cases.n_duplicates, 'event')} equal to an earlier one of the case, in "
        f"{quantity(cases.n_cases_with_duplicates, 'case')}"
    )


def _gap(profile: Profile) -> str:
    cases = profile.cases
    if not cases.longest_gap_days:
        return "; no day is without an event"
    return (
        f"; the longest stretch without an event is {quantity(cases.longest_gap_days, 'day')} from "
        f"{cases.gap_begins} on, and half of all such stretches have "
        f"{cases.median_gap_days:g} days at most"
    )

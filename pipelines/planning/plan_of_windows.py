"""What a plan says of the windows of a schedule: what one is, when it is due, what all cost.

Of public numbers alone; the data is not looked at.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text, total
from tracecloak.pipelines.configuration.schedule_config import ScheduleConfig
from tracecloak.schemas.calendar.local_time import DAY_US, zone_of
from tracecloak.schemas.calendar.time_texts import duration_text
from tracecloak.schemas.windows.schedule import Schedule
from tracecloak.transforms.pages.text_templates import from_template

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NUMBERS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_YEAR_DAYS = 365.25
# From when on days are hard to picture.
_MANY_DAYS = 60


def window_lines(config: ScheduleConfig, schedule: Schedule, is_noisy: bool) -> list[str]:
    """Returns what the windows are, with the first as the example.

    Args:
        config: What the configuration says of them.
        schedule: The windows.
        is_noisy: Whether noise hides that a window is empty; a syntactic method refuses it.
    """
    first, last = schedule.numbered(0), schedule.numbered(schedule.horizon - 1)
    ends = [f"at its first {' or '.join(schedule.end_activities)}"] * bool(schedule.end_activities)
    if schedule.gap_us is not None:
        ends.append(f"{duration_text(schedule.gap_us)} after its last event")
    return from_template(
        __package__,
        "windows.txt.j2",
        config=config,
        schedule=schedule,
        first=first,
        last=last,
        ends=[*ends, f"{duration_text(schedule.max_lifetime_us)} after its first event"],
        waits=first.due_us - first.end_us,
        longest=lambda: max(window.end_us - window.begin_us for window in schedule.windows()),
        is_noisy=is_noisy,
        at=_at,
        spoken=_spoken,
        duration=duration_text,
    )


def composition_lines(
    schedule: Schedule,
    spends: Sequence[Spend],
    max_cases_per_individual: int | None,
    shares_by_case: bool,
) -> list[str]:
    """Returns what all windows of the horizon cost together.

    Args:
        schedule: The windows.
        spends: What one of them is charged; empty: nothing.
        max_cases_per_individual: Cases of an individual that count over the whole horizon; None:
            the unit is the case.
        shares_by_case: Whether j of so many cases cost at most j of so many parts of the charge.
    """
    epsilon, delta = total(spends)
    return from_template(
        __package__,
        "composition.txt.j2",
        n=schedule.horizon,
        spends=spends,
        epsilon=epsilon,
        delta=delta,
        cases=max_cases_per_individual,
        shares_by_case=shares_by_case,
        decimal=decimal_text,
    )


def _spoken(micros: int) -> str:
    """A duration, and about what it is where it has many days."""
    days = micros / DAY_US
    text = duration_text(micros)
    if days < _MANY_DAYS:
        return text
    halves = round(2 * days / _YEAR_DAYS)
    if halves < 2:
        return f"{text} (about {_NUMBERS[round(12 * days / _YEAR_DAYS)]} months)"
    return f"{text} (about {_years(halves)})"


def _years(halves: int) -> str:
    n, half = divmod(halves, 2)
    number = _NUMBERS[n] if n < len(_NUMBERS) else str(n)
    if half:
        return f"{number} and a half years"
    return "a year" if n == 1 else f"{number} years"


def _at(time_us: int, schedule: Schedule) -> str:
    """A moment by the clock of the zone, in which days and longer are meant; of hours in UTC."""
    zone = datetime.UTC if schedule.length.unit == "hour" else zone_of(schedule.time_zone)
    moment = (_EPOCH + datetime.timedelta(microseconds=time_us)).astimezone(zone)
    return moment.isoformat(" ", "minutes")

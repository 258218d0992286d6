"""What a plan says of the windows of a schedule: what one is, when it is due, what all cost.

Of public numbers alone; the data is not looked at.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text, total
from tracecloak.pipelines.configuration.schedule_config import ScheduleConfig
from tracecloak.schemas.calendar.local_time import DAY_US, zone_of
from tracecloak.schemas.calendar.time_texts import duration_text
from tracecloak.schemas.windows.schedule import Schedule, Window

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NUMBERS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_YEAR_DAYS = 365.25
# From when on days are hard to picture.
_MANY_DAYS = 60


def window_lines(config: ScheduleConfig, schedule: Schedule, is_noisy: bool) -> Iterator[str]:
    """Yields what the windows are, with the first as the example.

    Args:
        config: What the configuration says of them.
        schedule: The windows.
        is_noisy: Whether noise hides that a window is empty; a syntactic method refuses it.
    """
    first, last = schedule.numbered(0), schedule.numbered(schedule.horizon - 1)
    yield (
        f"Windows ({schedule.horizon:,} of a {schedule.length.text} each, {first.label} to "
        f"{last.label}, of data set {schedule.dataset}; schedule {schedule.digest})"
    )
    yield from (f"  {sentence}" for sentence in _belonging(schedule))
    yield (
        f"  Window {first.label} is from {_at(first.begin_us, schedule)} until "
        f"{_at(first.end_us, schedule)}."
    )
    yield (
        f"  It reads the events from {_at(first.reads_from_us, schedule)} until "
        f"{_at(first.reads_until_us, schedule)}, and is due at {_at(first.due_us, schedule)}."
    )
    if config.partition is not None:
        yield (
            f"  Files are opened whose {config.partition} is within "
            f"{duration_text(config.partition_spread)} of that, and no others."
        )
    yield from (f"  {sentence}" for sentence in _lateness(schedule, first))
    if is_noisy:
        yield "  A window without a case is released like any other, with noise."
    else:
        yield (
            "  A window with fewer cases than are to be alike is refused, which tells that it has "
            "so few: take a period that always has many more."
        )
    yield (
        "  What a window holds depends on the order of releases: who counted in a window that was "
        "released before is left out, also where late events have moved a case. No window that "
        "was released is corrected."
    )
    yield (
        "  The verdict below is about one window: say with --expected_cases how many cases one of "
        "yours has."
    )
    yield ""


def composition_lines(
    schedule: Schedule,
    spends: Sequence[Spend],
    max_cases_per_individual: int | None,
    shares_by_case: bool,
) -> Iterator[str]:
    """Yields what all windows of the horizon cost together.

    Args:
        schedule: The windows.
        spends: What one of them is charged; empty: nothing.
        max_cases_per_individual: Cases of an individual that count over the whole horizon; None:
            the unit is the case.
        shares_by_case: Whether j of so many cases cost at most j of so many parts of the charge.
    """
    if not spends:
        yield "No window is charged anything, as this method has no epsilon."
        return
    n = schedule.horizon
    epsilon, delta = total(spends)
    yield "This is for one window; a second release of the same window is charged once more."
    together = (
        f"all {n:,} windows together cost what the dearest one costs, epsilon "
        f"{decimal_text(epsilon)}, delta {decimal_text(delta)}, if each is released once and like "
        "this one"
    )
    cases = max_cases_per_individual
    if n == 1:
        yield "There is one window, so that is what all windows cost."
    elif cases is None:
        yield f"The book of counted units lets a case count in one window only: {together}."
    elif cases == 1:
        yield (
            "The book of counted units lets an individual count with one case, and so in one "
            f"window only: {together}."
        )
    elif shares_by_case:
        yield (
            f"An individual counts with at most {cases} cases in all windows, and with j of them "
            f"costs at most j/{cases} of what is charged for a window: {together}."
        )
    else:
        yield (
            f"An individual counts with at most {cases} cases in all windows, and can cost as much "
            f"with one of them as with all. So windows add up: all {n:,} of them cost epsilon "
            f"{decimal_text(epsilon * n)}, delta {decimal_text(delta * n)}. With "
            "max_cases_per_individual: 1 they would cost what the dearest one costs."
        )
    yield (
        "Another schedule adds to that, and so does one with another number in it, and every "
        "release without a window."
    )


def overlap_sentences(has_schedule: bool) -> Iterator[str]:
    """Yields what becomes of a syntactic promise if there are several releases.

    Args:
        has_schedule: Whether the release is of a window.
    """
    if not has_schedule:
        yield (
            "Of several releases: the promise is about this one alone. If the log grows and is "
            "released again, both side by side can single out who is safe in each: `tracecloak "
            "attack linkage --growing` says how far. Windows of a schedule share no case."
        )
        return
    yield (
        "Of several releases: the book of counted units lets a case count in one window only, so "
        "no window adds to what another one tells of a case, and the promise holds in each. A "
        "second release of the same window, another schedule, and a release without one have the "
        "same cases again: `tracecloak attack linkage --growing` says what these tell together."
    )


def _belonging(schedule: Schedule) -> Iterator[str]:
    lifetime = duration_text(schedule.max_lifetime_us)
    if schedule.by == "first_event":
        yield (
            "A case counts in the window of its first event, with its events of the "
            f"{lifetime} from then on."
        )
        return
    ends = [f"at its first {' or '.join(schedule.end_activities)}"] * bool(schedule.end_activities)
    if schedule.gap_us is not None:
        ends.append(f"{duration_text(schedule.gap_us)} after its last event")
    ends.append(f"{lifetime} after its first event")
    yield "A case counts in the window in which it is over, with its events until then."
    yield f"It is over {', or '.join(ends)}{', whichever comes first' * (len(ends) > 1)}."


def _lateness(schedule: Schedule, first: Window) -> Iterator[str]:
    """Yields how long after it happened a case is in a figure."""
    waits = first.due_us - first.end_us
    if schedule.by == "close" and schedule.gap_us is None and not schedule.end_activities:
        yield (
            f"FIGURES COME {_spoken(schedule.max_lifetime_us + waits).upper()} LATE, OR LATER: "
            "neither a gap nor an end activity is given, so every case is over by its age alone."
        )
    elif schedule.by == "close":
        longest = max(window.end_us - window.begin_us for window in schedule.windows())
        yield (
            f"A case is in a window that is due at most {_spoken(longest + waits)} after it is "
            f"over, and it is over at most {_spoken(schedule.max_lifetime_us)} after it begins."
        )
    else:
        yield (
            f"FIGURES COME {_spoken(waits).upper()} LATE: a window is due so long after it ends, "
            "as its youngest cases must be over by then. By close it would be due "
            f"{duration_text(schedule.release_delay_us)} after it ends."
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

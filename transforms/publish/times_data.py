"""What a page shows of the times of a log, as JSON values: how long cases take, when they begin."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np

from tracecloak.schemas.arrays.merging import sum_by_key
from tracecloak.schemas.statistics.log_times import BIN_EDGES_US, LogTimes, middle_of

NO_TIMES = (
    "Times are not part of this release. Its log has the order of the events of each case in "
    "event_index, and contains neither when a case begins nor how long anything takes."
)
"""What a page says in the place of times, see `manifest.has_times`."""
NO_STARTS = "All cases begin at one public time: when they began is not part of this release."
_MAX_BARS = 48

_EPOCH = datetime.date(1970, 1, 1)
_MICROSECONDS = 1e-6


def times_data(
    times: LogTimes, original: LogTimes | None = None, *, has_starts: bool = True
) -> dict[str, Any]:
    """Returns durations of cases, beginnings by a fitting period, and hours of the week.

    Hours are None where all stamps are dates.

    Args:
        times: Of the released log.
        has_starts: Whether it tells when cases begin; else there are no beginnings and no hours.
        original: Of the log that it was made of, to stand beside it for its operator; None: no
            other numbers stand there.
    """
    both = times if original is None else LogTimes.merge([times, original])
    period, starts = _by_period(times, original, both)
    week = np.zeros(168, np.int64)
    week[times.hours] = times.hour_counts
    has_hours = has_starts and bool((times.hours % 24).any())
    return {
        "spans": _spans(times, original, both),
        "period": period,
        "starts": starts if has_starts else [],
        "week": week.tolist() if has_hours else None,
        "median_s": middle_of(times.spans, times.span_counts) if len(times.spans) else None,
    }


def _spans(times: LogTimes, original: LogTimes | None, both: LogTimes) -> list[dict[str, Any]]:
    """Durations by bins of one ratio, so wide that they are not too many."""
    bins = both.spans
    if len(bins) == 0:
        return []
    borders = np.concatenate([[0], BIN_EDGES_US]) * _MICROSECONDS
    # The first bin, below a second, stays by itself.
    width = max(1, -(-int(bins[-1] - max(bins[0], 1) + 1) // _MAX_BARS))

    def grouped(of: LogTimes) -> dict[int, int]:
        of_each = np.where(of.spans == 0, -1, (of.spans - 1) // width)
        groups, sums = sum_by_key(of_each, of.span_counts)
        return dict(zip(groups.tolist(), sums.tolist(), strict=True))

    rows = []
    for group, counts in _side_by_side(grouped, times, original):
        first = 0 if group < 0 else 1 + group * width
        last = 1 if group < 0 else min(first + width, len(borders) - 1)
        ends = {"from_s": float(f"{borders[first]:.6g}"), "to_s": float(f"{borders[last]:.6g}")}
        rows.append({**ends, **counts})
    return rows


def _by_period(
    times: LogTimes, original: LogTimes | None, both: LogTimes
) -> tuple[str, list[dict[str, Any]]]:
    """Cases by day, week, month or year, by the range of the days."""
    all_days = both.days
    if len(all_days) == 0:
        return "day", []
    n_days = int(all_days[-1] - all_days[0]) + 1
    period = next(
        (name for name, limit in (("day", 62), ("week", 400), ("month", 4000)) if n_days <= limit),
        "year",
    )
    periods = {day: _period(day, period) for day in all_days.tolist()}
    named = {first: (last, name) for first, last, name in periods.values()}

    def grouped(of: LogTimes) -> dict[int, int]:
        firsts = np.array([periods[day][0] for day in of.days.tolist()], np.int64)
        days, sums = sum_by_key(firsts, of.day_counts)
        return dict(zip(days.tolist(), sums.tolist(), strict=True))

    return period, [
        {"first_day": first, "last_day": named[first][0], "name": named[first][1], **counts}
        for first, counts in _side_by_side(grouped, times, original)
    ]


def _side_by_side(
    grouped: Callable[[LogTimes], dict[int, int]], times: LogTimes, original: LogTimes | None
) -> list[tuple[int, dict[str, int]]]:
    """The groups in order, each with its count and, where there is an original, that one's."""
    counts = grouped(times)
    if original is None:
        return [(group, {"count": counts[group]}) for group in sorted(counts)]
    others = grouped(original)
    return [
        (group, {"count": counts.get(group, 0), "original": others.get(group, 0)})
        for group in sorted(counts.keys() | others.keys())
    ]


def _period(day: int, period: str) -> tuple[int, int, str]:
    """The first day of a day's period, the first one after it, and its name."""
    try:
        date = _EPOCH + datetime.timedelta(days=day)
        if period == "day":
            return day, day + 1, date.isoformat()
        if period == "week":
            monday = day - date.weekday()
            year, week, _ = date.isocalendar()
            return monday, monday + 7, f"{year}-W{week:02d}"
        if period == "month":
            first = date.replace(day=1)
            following = (first + datetime.timedelta(days=32)).replace(day=1)
            return (first - _EPOCH).days, (following - _EPOCH).days, f"{first:%Y-%m}"
        first = date.replace(month=1, day=1)
        return (
            (first - _EPOCH).days,
            (date.replace(month=12, day=31) - _EPOCH).days + 1,
            str(date.year),
        )
    except (OverflowError, ValueError):  # beyond the calendar of dates
        return day, day + 1, f"day {day} of 1970"

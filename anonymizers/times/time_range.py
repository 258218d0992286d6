"""The range of time of a log: public, or chosen on the log and paid for, and its working time.

The end points of a log cannot be bought as quantiles near 0 and 1: before the first case nothing is
counted, so every month from 1970 on lacks just a few cases to such a quantile, and a choice with a
budget that is worth giving falls on any of them. What can be bought is where most cases are. So a
window is chosen that holds two thirds of the cases, first its length, of which there are few, then
its place, where a wrong one lacks nearly all cases; and it is widened to twice its length. If cases
arrive evenly, two thirds of them take two thirds of the time. Where the budget distinguishes
lengths with more cases, of a large log or at a large epsilon, the window has all cases but few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import from_traces
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.budget import Choice
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, choose_quantile
from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import CountsByKey, distinct_counts, sum_groups
from tracecloak.schemas.calendar.local_time import DAY_US, LocalClock, date_of, day_start_us
from tracecloak.schemas.calendar.working_time import Granularity, TimeGrid
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch

if TYPE_CHECKING:
    from tracecloak.schemas.calendar.working_time import WorkingCalendar, WorkingTime

TIME_RANGE = "time_range"
"""The name of the round that buys the range."""

_FIRST_YEAR, _LAST_YEAR = 1970, 2100
# Months of the public grid that a range is bought on.
N_MONTHS = 12 * (_LAST_YEAR - _FIRST_YEAR)
# The share of epsilon for the range. It is larger than that of other choices, because two choices
# are made, of a length and of a window, and all times depend on them.
_EPSILON_SHARE = Fraction(5, 100)
# The first is the share of the cases that the chosen window must have, the second is how many times
# as long the range is as the window. If nearly all cases were asked for, every longer window would
# do as well.
_SHARE = Fraction(2, 3)
_WIDENED = 2
# A choice among all lengths with epsilon misses its goal by more than so many cases over epsilon in
# one of twenty releases: 2 ln(18 / .05), as of permute-and-flip (McKenna and Sheldon, 2020).
_MOST_LOST = 12
# A window begins at every eighth of its length.
_PLACES = 8
# Its length in months: 1, 2, 3, 4, 6, 8, 12, …, 384, the grid.
_LENGTHS = (1, *sorted(m << k for m in (2, 3) for k in range(8)), N_MONTHS)
# The share of epsilon for the length: the next longer ones hold hardly more cases than the right
# one, and a wrong place holds hardly any.
_OF_LENGTH = Fraction(2, 3)


class TimeRange(Columnar, wire_name="time-range"):
    """A range of time.

    Attributes:
        first_us: Where it begins, microseconds since 1970-01-01 UTC.
        last_us: Where it ends, exclusive.
    """

    first_us: int
    last_us: int

    @classmethod
    def from_dates(cls, first: str, last: str, time_zone: str) -> TimeRange:
        """Returns the range from the begin of one date to the end of another, both included.

        Args:
            first: ISO date.
            last: ISO date, not before `first`.
            time_zone: IANA name of the place whose dates they are.

        Raises:
            UsageError: They are no dates from 1970 to 2099, or in the wrong order.
        """
        begin, end = date_of("first_date", first), date_of("last_date", last)
        for name, date in (("first_date", begin), ("last_date", end)):
            if not _FIRST_YEAR <= date.year < _LAST_YEAR:
                raise UsageError(f"{name}: expected a date from 1970 to 2099, got {date}")
        if begin > end:
            raise UsageError(f"first_date {first} is after last_date {last}; swap them")
        following = end.fromordinal(end.toordinal() + 1)
        return cls(day_start_us(begin, time_zone), day_start_us(following, time_zone))


class TimeRangeDecision(contract.Decision, wire_name="bought-time-range"):
    """The range that was bought.

    Attributes:
        time_range: The range.
    """

    time_range: TimeRange


@dataclass(frozen=True)
class LogTime:
    """When a log takes place and when work is done: public parameters, without data.

    Attributes:
        calendar: The working hours; a calendar of all hours where there is none.
        time_range: The public range; None if it is bought in the round TIME_RANGE.
        granularity: Of released stamps; None if it is bought in the round of that name.

    Raises:
        UsageError: The public range has no working hour, or none of the years from 1970 to 2099 if
            it is bought.
    """

    calendar: WorkingCalendar
    time_range: TimeRange | None
    granularity: Granularity | None = "second"

    def __post_init__(self) -> None:
        if self.time_range is not None:
            self.calendar.over(self.time_range.first_us, self.time_range.last_us)
        elif self.calendar.holidays:  # every other calendar is open in each week
            zone = self.calendar.time_zone
            self.calendar.over(_month_start_us(0, zone), _month_start_us(N_MONTHS, zone))

    def working_time(self, decisions: contract.Decisions) -> WorkingTime:
        """Returns the working time of the range, public or bought."""
        span = self.time_range
        if span is None:
            span = decisions[TIME_RANGE].time_range
        return self.calendar.over(span.first_us, span.last_us)

    def grid(self, decisions: contract.Decisions) -> TimeGrid:
        """Returns the grid of stamps in that working time, its granularity public or bought."""
        granularity = self.granularity
        if granularity is None:
            granularity = decisions["granularity"].granularity
        return TimeGrid(self.working_time(decisions), granularity)


class CaseMonths(CountsByKey, wire_name="case-months"):
    """How many cases begin in which month and end in which.

    Attributes:
        keys: int64[n], ascending: month of the begin times N_MONTHS, plus that of the end; months
            of the grid, from 0.
        counts: int64[n], cases, all positive.
    """

    keys: np.ndarray
    counts: np.ndarray

    @classmethod
    def from_traces(cls, traces: TraceBatch, time_zone: str) -> CaseMonths:
        """Counts the cases of a batch, each once; what is beyond the grid counts at its end."""
        first = _months(traces.starts, time_zone)
        last = _months(traces.times[traces.offsets[1:] - 1], time_zone)
        keys, counts = distinct_counts(first * N_MONTHS + last)
        return cls(keys.astype(np.int64), counts.astype(np.int64))

    def within(self, length: int) -> np.ndarray:
        """Returns int64[n_windows], the cases wholly within each window of some months.

        Windows begin at every multiple of an eighth of their length, rounded up to months, and the
        last ones reach beyond the grid.

        Args:
            length: In months, at least 1.
        """
        step = -(-length // _PLACES)
        first, last = np.divmod(self.keys, N_MONTHS)
        # Windows that begin at low * step up to high * step have both months.
        low = np.maximum(-((length - 1 - last) // step), 0)
        high = first // step
        held = low <= high
        n_windows = (N_MONTHS - 1) // step + 1
        change = sum_groups(low[held], self.counts[held], n_windows + 1)
        change -= sum_groups(high[held] + 1, self.counts[held], n_windows + 1)
        return np.cumsum(change)[:n_windows]


def choose_time_range(
    counted: CaseMonths,
    epsilon: Fraction,
    max_units: int,
    calendar: WorkingCalendar,
    randomness: Randomness,
) -> TimeRangeDecision:
    """Chooses a range of whole months about where the cases are; see the module.

    Two thirds of epsilon choose the length, with the largest number of cases that any window of
    each length holds: it does not fall with the length, and one case more raises it by 0 or 1,
    which is what `choose_quantile` asks of its cumulative counts. The rest chooses the place by
    permute-and-flip on the numbers of cases, all of which one case more raises by 0 or 1. Spends
    epsilon and no delta.

    The range has whole months of the calendar's time zone, at least two, and working time: if the
    calendar leaves none in it, it is all of 1970 to 2099.

    Args:
        batch: Complete cases, and what was decided before.
        counted: Cases by months.
        epsilon: What the choice spends.
        max_units: Cases of one unit.
        calendar: The working hours, of which there are some from 1970 to 2099, and the time zone.
        randomness: The release's.
    """
    # Windows begin so often that each lies within a window of the next length, so these maxima
    # ascend.
    most = [counted.within(length).max() for length in _LENGTHS]
    cases = np.diff(most, prepend=0, append=counted.counts.sum())
    purpose = f"{TIME_RANGE} length"
    own = epsilon * _OF_LENGTH
    lost = math.ceil(_MOST_LOST * max_units / own)
    chosen = choose_quantile(cases, own, _SHARE, max_units, randomness, purpose, most_lost=lost)
    length = _LENGTHS[chosen]
    scores = counted.within(length)
    stream = CellStream(randomness, f"{TIME_RANGE} place", cell_numbers(np.arange(len(scores))))
    changed = Fraction(of_one_cell(max_units).linf)  # of the cases in a window
    place = stream.noise.select(stream, scores, epsilon - own, changed, monotone=True)
    begin = place * -(-length // _PLACES)
    margin = -(-length * (_WIDENED - 1) // 2)
    first, last = max(begin - margin, 0), min(begin + length + margin, N_MONTHS)
    span = TimeRange(*(_month_start_us(month, calendar.time_zone) for month in (first, last)))
    if not calendar.is_open_within(span.first_us, span.last_us):
        span = TimeRange(*(_month_start_us(month, calendar.time_zone) for month in (0, N_MONTHS)))
    return TimeRangeDecision(span)


def _months(times_us: np.ndarray, time_zone: str) -> np.ndarray:
    """int64[n], months of the grid; times beyond it have its first or last."""
    bounds = [_month_start_us(month, time_zone) for month in (0, N_MONTHS)]
    within = np.clip(times_us, bounds[0], bounds[1] - 1)
    local = grid_clock(time_zone).local_us(within)
    return (local // DAY_US).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def grid_clock(time_zone: str) -> LocalClock:
    """Returns what the clocks of a time zone show over all months of the grid."""
    bounds = (_month_start_us(month, time_zone) for month in (0, N_MONTHS))
    return LocalClock.of(time_zone).within(*bounds)


def _month_start_us(month: int, time_zone: str) -> int:
    year, month_of_year = divmod(month, 12)
    date = date_of("month", f"{_FIRST_YEAR + year}-{month_of_year + 1:02}-01")
    return day_start_us(date, time_zone)


def time_range_part(
    calendar: WorkingCalendar, time_zone: str, max_units: int, round_name: str
) -> Part:
    """Returns the part of `private-log` that buys the range.

    Args:
        calendar: The working hours.
        time_zone: IANA time zone of the months.
        max_units: Cases of one unit.
        round_name: In which it is bought.
    """

    def decide(given: Given) -> TimeRangeDecision:
        counted = given.statistics["months"]
        epsilon = given.means[TIME_RANGE].epsilon
        return choose_time_range(counted, epsilon, max_units, calendar, given.randomness)

    return Part(
        TIME_RANGE,
        (Choice(TIME_RANGE, _EPSILON_SHARE),),
        lambda means: "chooses a range of months around most cases, and half of it more",
        decide,
        {"months": from_traces(CaseMonths, time_zone)},
        round_name,
        chosen="time range",
    )

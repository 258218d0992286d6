"""When cases start: noisy histograms over dates and over hours of the week, and draws from them.

Each case counts once by the local date of its first event and once by the local hour of the week. A
start out of the range or out of working hours counts as the next working moment in it, or the last.
So one case changes two counts by 1 each, whatever they are added up to: exact discrete noise on
each covers it. Which counts are added up depends on the noisy number of cases and on the noise
only.

A start is drawn as if each hour had a rate of its own that date and hour of the week multiply up
to: what the two histograms say of each other, and no more, is not kept.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_distinct_cells
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.contract.sentences import told
from tracecloak.anonymizers.noise.randomness import Randomness, below, cell_numbers, uniform
from tracecloak.anonymizers.noise.sums import SumNoise, backed_off, noisy_sums, note, variance_of
from tracecloak.anonymizers.rigorous.budget import Sums
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, noisy_part
from tracecloak.anonymizers.times.time_range import LogTime
from tracecloak.schemas.arrays.merging import distinct_counts
from tracecloak.schemas.calendar.working_time import HOURS_OF_WEEK, WorkingTime
from tracecloak.schemas.published.figures import START
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams

_HOURS_OF_DAY = 24
_HOURS_OF_BLOCK = 6
_WORKDAYS = 5
# The lengths of the histograms' buckets in days: a day, and 1, 4, 13 and 52 weeks.
_BUCKET_DAYS = (1, 7, 28, 91, 364)
# A histogram is fine enough if it has so many noisy cases a cell, in mean sizes of the noise. Noise
# of mean size b on n cells moves shares of N cases by up to n b / 2N in total variation. That is
# 1/8 for dates. It is 1/4 for hours, many of which are empty and are soon recognised as such. Both
# numbers were chosen among powers of 2 by the distance of drawn starts from those of the Sepsis and
# CoSeLoG logs.
_LEAST_CASES_BY_DATE = 4
_LEAST_CASES_BY_HOUR = 2
# A case is counted in one cell by date and in one cell by hour.
_CELLS_OF_CASE = 2


def count_starts(batch: Batch, log_time: LogTime) -> ClippedCells:
    """Counts starts by day of the range and by hour of the week: cells of `ClippedCells`.

    Cell d < n_days is day d since the Monday before the range; the hours follow.
    """
    traces = batch.traces
    time = log_time.working_time(batch.decisions)
    days, hours = time.days_and_hours(time.at_us(time.elapsed_us(traces.starts)))
    return ClippedCells(*distinct_counts(np.concatenate([days, time.n_days + hours])))


class StartsDecision(contract.Decision, wire_name="case-starts"):
    """What starts are drawn from.

    Attributes:
        time: The range and its working time.
        bucket_days: Days of the buckets of dates that noise was added to; the first begins on the
            Monday before the range.
        buckets: float64[n_buckets], chance of each; they sum to 1, and those without working time
            have 0.
        n_hours: Cells of the week that noise was added to: 168 hours; 24 of workdays and 24 of
            weekends; 24 of workdays and 4 quarters of days of weekends; or 4 of either.
        rates: float64[168], starts in a microsecond of working time by hour of the week, relative
            to each other.
    """

    time: WorkingTime
    bucket_days: int
    buckets: np.ndarray
    n_hours: int
    rates: np.ndarray


def changed_starts(max_units: int) -> Sensitivity:
    """Returns what one unit changes of the counts of both histograms."""
    return of_distinct_cells(_CELLS_OF_CASE, max_units)


def decide_starts(given: Given, noise: SumNoise, log_time: LogTime) -> StartsDecision:
    """Adds noise to the counts of buckets and hours that are large enough, and makes shares.

    The buckets are the shortest, and the cells of the week the finest, of which the noisy number of
    cases gives each at least 4 and 2 times the mean size of the noise; else the coarsest. So of a
    typical count the noise leaves something. Of what it does not, the coarser counts decide: of
    dates those that stand out of it, of hours by as much as it explains (`backed_off`). Without
    any, cases start evenly over the working time.
    Cells without working time are not counted.

    Args:
        given: With what `count_starts` counts, exactly, and the noisy number of cases.
        noise: Of each count; made for `changed_starts`.
        log_time: When the log takes place.
    """
    time, randomness = log_time.working_time(given.decisions), given.randomness
    cases = given.decisions["sizes"] / noise.mean_size
    counts = given.statistics["starts"].dense(np.arange(time.n_days + HOURS_OF_WEEK))
    begins, ends = time.slots_us
    slot_day, slot_hour = time.days_and_hours(begins)
    open_days = np.bincount(slot_day, ends - begins, time.n_days)
    open_hours = np.bincount(slot_hour, ends - begins, HOURS_OF_WEEK)

    days = np.arange(time.n_days)
    by_date = [days // length for length in _BUCKET_DAYS]
    level = _finest(by_date, open_days, cases / _LEAST_CASES_BY_DATE)
    cells = _Cells(
        counts[: time.n_days], open_days, by_date[level:], noise, "starts by date", randomness
    )
    buckets = np.zeros(int(by_date[level].max()) + 1)
    domain = cells.labels[0]
    buckets[domain] = cells.visible_shares()

    def dates() -> list[tuple[str, ...]]:
        ends = time.dates_of(domain * _BUCKET_DAYS[level], _BUCKET_DAYS[level])
        return list(zip(*ends, strict=True))

    note(randomness, START, dates, cells.noisy, noise.deviation)
    by_hour = _labels_of_hours()
    fineness = _finest(by_hour, open_hours, cases / _LEAST_CASES_BY_HOUR)
    hours = _Cells(
        counts[time.n_days :], open_hours, by_hour[fineness:], noise, "starts by hour", randomness
    )
    n_hours = int(by_hour[fineness].max()) + 1
    rates = np.zeros(n_hours)
    rates[hours.labels[0]] = hours.smoothed() / hours.open_us
    return StartsDecision(time, _BUCKET_DAYS[level], buckets, n_hours, rates[by_hour[fineness]])


def _labels_of_hours() -> list[np.ndarray]:
    """int64[168] each: cells of the hours of the week, from fine to coarse."""
    hours = np.arange(HOURS_OF_WEEK)
    hour_of_day = hours % _HOURS_OF_DAY
    is_weekend = hours >= _WORKDAYS * _HOURS_OF_DAY
    block = hour_of_day // _HOURS_OF_BLOCK
    n_blocks = _HOURS_OF_DAY // _HOURS_OF_BLOCK
    return [
        hours,
        hour_of_day + _HOURS_OF_DAY * is_weekend,
        np.where(is_weekend, _HOURS_OF_DAY + block, hour_of_day),
        block + n_blocks * is_weekend,
    ]


def _finest(labels: list[np.ndarray], open_us: np.ndarray, worth: float) -> int:
    """The place of the first labelling, from fine to coarse, with so few cells; else of the last.

    Args:
        labels: int64[n] each, cells of the n finest ones.
        open_us: float64[n], working time of the finest; cells without any do not count.
        worth: Number of cells that there may be.
    """
    for place, cells in enumerate(labels[:-1]):
        if len(np.unique(cells[open_us > 0])) <= worth:
            return place
    return len(labels) - 1


class _Cells:
    """The cells of a histogram that have working time, with noise.

    Attributes:
        noisy: float64[n], their noisy counts.
        open_us: float64[n], their working time.
        labels: int64[k, n], themselves in the first row, then coarser cells that they lie in.
        noise: On each count.
    """

    def __init__(
        self,
        counts: np.ndarray,
        open_us: np.ndarray,
        labels: list[np.ndarray],
        noise: SumNoise,
        purpose: str,
        randomness: Randomness,
    ) -> None:
        """Adds noise.

        Args:
            counts: int64[m], exact counts of the finest cells.
            open_us: float64[m], their working time.
            labels: int64[m] each, cells of the finest ones, the wanted labelling first.
            noise: On each wanted cell that has working time.
            purpose: What the noise is for.
            randomness: The release's.
        """
        wanted = labels[0]
        n_cells = int(wanted.max()) + 1
        open_cells = np.bincount(wanted, open_us, n_cells)
        domain = np.flatnonzero(open_cells)
        sums = np.bincount(wanted, counts, n_cells)[domain].astype(np.int64) * noise.units
        self.noisy = noisy_sums(sums, noise, purpose, domain, randomness) / noise.units
        within = np.zeros((len(labels), n_cells), np.int64)
        within[:, wanted] = labels  # cells of a labelling lie within those of the coarser ones
        self.open_us, self.labels, self.noise = open_cells[domain], within[:, domain], noise

    def smoothed(self) -> np.ndarray:
        """Returns float64[n], shares that are drawn to those of coarser cells (`backed_off`)."""
        shares = self.open_us / self.open_us.sum()
        for coarser in self.labels[::-1]:
            _, group = np.unique(coarser, return_inverse=True)
            expected = np.bincount(group, shares)
            variance = variance_of(self.noise) * len(shares) / len(expected)
            sums = np.bincount(group, self.noisy)[None]
            group_shares = backed_off(sums, variance, expected)[0]
            # Where the coarser counts left nothing, it is divided by working time.
            shares = np.where(expected[group] > 0, shares, self.open_us)
            shares = shares / np.bincount(group, shares)[group] * group_shares[group]
        return shares

    def visible_shares(self) -> np.ndarray:
        """Returns float64[n], shares of the cells, each as fine as it stands out of the noise.

        What cells of one labelling leave of a coarser one is divided by working time, if together
        it is more than noise makes of that many; what even the coarsest leave counts as noise. So
        no case begins in years that have none, and where cases are few, as many begin as do.
        """
        groups = [np.unique(row, return_inverse=True)[1] for row in self.labels]
        n_groups = sum(int(group.max()) + 1 for group in groups)
        rates, is_left = np.zeros(len(self.noisy)), np.ones(len(self.noisy), np.bool_)
        for group in groups:
            left, open_us = (np.bincount(group, x * is_left) for x in (self.noisy, self.open_us))
            is_large = left > self.noise.largest(n_groups, np.bincount(group, is_left))
            stands_out = is_left & is_large[group]
            rates[stands_out] = (left / np.maximum(open_us, 1))[group[stands_out]]
            is_left &= ~stands_out
        shares = rates * self.open_us if rates.any() else self.open_us
        return shares / shares.sum()


def sample_starts(
    decision: StartsDecision,
    case_numbers: np.ndarray,
    randomness: Randomness,
    within: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Draws when cases start: the bucket, then an hour of it by the rates, then a moment of it.

    Args:
        decision: What from.
        case_numbers: int64[n], distinct over the release; the number decides the start.
        randomness: The release's.
        within: float64[n] each, the ranks among all starts that each case's lies between, from 0 to
            1; None: anywhere.

    Returns:
        int64[n], microseconds since 1970-01-01 UTC, in the range and in working time.
    """
    begins, ends = decision.time.slots_us
    reached = _reached(decision)
    words = randomness.words("case start", cell_numbers(case_numbers))
    ranks = uniform(words[:, 0])
    if within is not None:
        low, high = within
        ranks = low + (high - low) * ranks
    slot = np.searchsorted(reached, ranks * reached[-1], side="right")
    slot = np.minimum(slot, len(begins) - 1)
    return begins[slot] + below(words[:, 1], (ends - begins)[slot])


def _reached(decision: StartsDecision) -> np.ndarray:
    """float64[n_slots], the chance of each slot of working time or an earlier one."""
    begins, ends = decision.time.slots_us
    lengths = ends - begins
    days, hours = decision.time.days_and_hours(begins)
    bucket = days // decision.bucket_days
    n_buckets = len(decision.buckets)
    weights = decision.rates[hours] * lengths
    sums = np.bincount(bucket, weights, n_buckets)
    # If nothing starts in any hour of a bucket, the bucket's cases are spread evenly over its
    # working time.
    weights = np.where(sums[bucket] > 0, weights, lengths)
    sums = np.bincount(bucket, weights, n_buckets)
    return np.cumsum(weights * (decision.buckets / np.where(sums > 0, sums, 1))[bucket])


class Periods(contract.Decision, wire_name="periods"):
    """The range, cut where about equally many cases start in each part.

    Attributes:
        borders_us: int64[n-1], ascending, microseconds since 1970-01-01 UTC.
        ranks: float64[n+1], from 0 to 1, the share of the starts before each period.
    """

    borders_us: np.ndarray
    ranks: np.ndarray

    @property
    def size(self) -> int:
        """Number of periods."""
        return len(self.ranks) - 1

    def of(self, starts_us: np.ndarray) -> np.ndarray:
        """Returns int64[n], the period of each start."""
        return np.searchsorted(self.borders_us, starts_us, side="right")


def periods_of(decision: StartsDecision, n: int) -> Periods:
    """Returns at most so many periods, with borders between hours of working time."""
    _, ends = decision.time.slots_us
    reached = _reached(decision)
    slots = np.searchsorted(reached, np.arange(1, n) / n * reached[-1])
    slots = np.unique(np.minimum(slots, len(ends) - 1))
    slots = slots[slots < len(ends) - 1]
    ranks = np.concatenate([[0.0], reached[slots] / reached[-1], [1.0]])
    return Periods(ends[slots], ranks)


def starts_part(params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log`."""
    return noisy_part(
        Sums("starts", share, changed_starts(params.max_units)),
        {"starts": Counted(ClippedCells, count_starts, (params.log_time,))},
        told("private-log", "starts", params),
        partial(decide_starts, log_time=params.log_time),
    )

"""How long events are worked on: noisy histograms and sums by activity, and draws of starts.

For logs whose events have starts. The time between two completions of a case is divided into
waiting and service (`schemas.statistics.log_times`). Each event counts by its activity and by
what its service time is: not known; none, as no time has passed; or a coarse bin of it, in ticks of
the grid of stamps. Where it is a bin, the event counts once more, by the bin of its gap, and adds
to a sum how far within its bin its time is, from 0 to 1 in sixteenths. So means are kept although
bins are coarse, and long times go where there is room for them.

A case is the vector of all three, with 1 for an event, 1 for its gap and at most 1 for its place.
With delta it is scaled down to the L2 norm of attributes of events (`vectors_part`), on a lattice
of 1/1024 and exactly, and gets discrete Gaussian noise. Without, a case of at most n events changes
the sums by at most 3 n in L1, and they get discrete Laplace noise.

A generated event has a service time by its activity, of those that its gap has room for. These are
weighted such that all together agree with the counts. All else that service times depend on, such
as who works or what came before, is not kept.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.logs.attributes import SQUARE
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, uniform
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_counts
from tracecloak.anonymizers.rigorous.bought import vocabulary_in_effect
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.times import time_bins
from tracecloak.anonymizers.times.step_durations import vectors_part
from tracecloak.anonymizers.times.time_range import LogTime
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.calendar.working_time import TimeGrid
from tracecloak.schemas.events.events import START_TIMESTAMP, START_TYPE
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import CaseCells
from tracecloak.schemas.statistics.log_times import IntervalTimes

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams

NAME = "service times"
_BINS = 12
_PARTS = 16  # of an occurrence, in which places are counted
_UNKNOWN, _NO_GAP, _FIRST_BIN = range(3)
# A kind of the whole log counts as empty if it is fewer deviations of its noise above 0 than this.
_LEAST_DEVIATIONS = 3
_ROUNDS, _LEAST_WEIGHT = 60, 1e-6
# No place of a bin is taken for all of its times.
_ENDS = 1 / 64


def borders_of(grid: TimeGrid) -> np.ndarray:
    """Returns int64[k-1], borders of the bins of service times, in ticks; see `time_borders`."""
    return time_bins.time_borders(_BINS, grid.n_ticks, grid.second)


def _ends(borders: np.ndarray, n_ticks: int) -> tuple[np.ndarray, np.ndarray]:
    """Two int64[k], where bins begin and end; bin 0 has what takes no time."""
    return np.append(0, borders), np.append(borders, n_ticks)


def cells_of_service(traces: TraceBatch, decisions: contract.Decisions, time: LogTime) -> CaseCells:
    """Returns each case's vector over activities and kinds of service time, gaps and places.

    In sixteenths. With n names and k bins the cell of activity a and kind c is `a (3 k + 2) + c`.
    Behind these k + 2 lie the k bins of gaps, and then the k of places.

    Args:
        traces: Complete cases.
        decisions: What was decided before.
        time: When the log takes place.
    """
    grid = time.grid(decisions)
    borders = borders_of(grid)
    k, n = len(borders) + 1, len(traces.vocabulary)
    work, stamps = IntervalTimes.of(traces), grid.ticks(traces.times)
    service = stamps - grid.ticks(traces.times - work.service_us)
    kinds = _FIRST_BIN + np.searchsorted(borders, service, side="right")
    kinds[~traces.is_first & (stamps == np.roll(stamps, 1))] = _NO_GAP
    kinds[~work.is_known] = _UNKNOWN
    gap_bins = _bins_of_gaps(traces, stamps, borders)
    begins, ends = _ends(borders, grid.n_ticks)
    bins = np.maximum(kinds - _FIRST_BIN, 0)
    places = (service - begins[bins]) * _PARTS // np.maximum(ends[bins] - begins[bins], 1)
    activity = traces.activities.astype(np.int64)
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)
    width, timed = 3 * k + _FIRST_BIN, np.flatnonzero(kinds >= _FIRST_BIN)
    after_kinds = (activity * width + k + _FIRST_BIN)[timed]
    keys = (activity * width + kinds, after_kinds + gap_bins[timed], after_kinds + k + bins[timed])
    ones = np.full(traces.n_events, _PARTS)
    weights = np.concatenate([ones, ones[timed], places[timed]])
    n_keys = n * width
    cases = np.concatenate([case, case[timed], case[timed]])
    entries, which = np.unique(cases * n_keys + np.concatenate(keys), return_inverse=True)
    counts = sum_groups(which, weights, len(entries))
    entries, counts = entries[counts > 0], counts[counts > 0]
    cases, cells = np.divmod(entries, n_keys)
    return CaseCells(cases, cells, counts, sum_groups(cases, counts**2, traces.n_cases), n_keys)


def _bins_of_gaps(traces: TraceBatch, ends: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """int64[n_events], the bin of the time since the event before; the last of a first event."""
    bins = np.searchsorted(borders, ends - np.roll(ends, 1), side="right")
    bins[traces.is_first] = len(borders)
    return bins


class ServiceDecision(contract.Decision, wire_name="service-times"):
    """What service times are drawn from.

    Attributes:
        borders: int64[k-1], of the bins, in ticks.
        unknown: float64[n], for each activity the share of events whose start is not known.
        reached: float64[n, k], the weight of each bin of service times or a lower one, for those
            that are known and have a gap; the last is 1.
        places: float64[n, k], the mean place of times in each bin, above 0 and below 1.
    """

    borders: np.ndarray
    unknown: np.ndarray
    reached: np.ndarray
    places: np.ndarray


def decide_service(given: Given, noise: SumNoise, params: PrivateLogParams) -> ServiceDecision:
    """Adds noise to all sums, and estimates kinds and places for each activity.

    Kinds of the whole log that do not stand out of the noise are taken for empty, because a stray
    share of years would outweigh all other times; an activity's kinds are estimated from these and
    its own sums (`estimated_shares`). Its mean place in a bin is drawn towards that of all
    activities, which weighs as many events as two deviations of the noise.

    Args:
        given: With what `cells_of_service` says, of all cases.
        noise: Of each sum; made for `clipped_estimate`.
        params: The method's.
    """
    borders = borders_of(params.log_time.grid(given.decisions))
    n_names = len(vocabulary_in_effect(params.words, given.decisions))
    k, counted = len(borders) + 1, given.statistics[NAME]
    n_cells = n_names * (3 * k + _FIRST_BIN)
    noisy = noisy_counts(counted, n_cells, noise, NAME, given.randomness).reshape(n_names, -1)
    kinds, gaps, sums = np.split(noisy, [k + _FIRST_BIN, 2 * k + _FIRST_BIN], axis=1)
    deviation = noise.deviation
    shares, gap_shares = (_estimated(rows, deviation) for rows in (kinds, gaps))
    law = shares[:, _FIRST_BIN:]
    law[law.sum(axis=1) == 0, 0] = 1.0  # where nothing is known of times, they are taken to be none
    reached = np.cumsum(weights_of(law / law.sum(axis=1, keepdims=True), gap_shares), axis=1)
    counts = np.maximum(kinds[:, _FIRST_BIN:], 0)
    weight = 2 * deviation
    bin_shares = (sums.sum(axis=0) + weight / 2) / np.maximum(counts.sum(axis=0) + weight, 1e-9)
    places = (sums + weight * np.clip(bin_shares, 0, 1)) / np.maximum(counts + weight, 1e-9)
    places = np.clip(places, _ENDS, 1 - _ENDS)
    return ServiceDecision(borders, shares[:, _UNKNOWN], reached / reached[:, -1:], places)


def weights_of(law: np.ndarray, of_gaps: np.ndarray) -> np.ndarray:
    """Returns weights of bins by which drawing among those that gaps have room for gives a law.

    A time of a gap's bin or a lower one has room in it. By iterative proportional fitting, the gaps
    first; where gaps are too short for the law, as near as it comes.

    Args:
        law: float64[n, k], the shares of bins that are wanted, in rows that sum to 1.
        of_gaps: float64[n, k], the shares of the bins of gaps, likewise.

    Returns:
        float64[n, k], in rows that sum to 1; 0 where the law is.
    """
    weights = law.copy()
    for _ in range(_ROUNDS):
        room = np.cumsum(weights, axis=1)
        per_weight = np.where(room > 0, of_gaps / np.where(room > 0, room, 1), 0)
        # A time is drawn for all gaps of its bin or a higher one.
        drawn = np.cumsum(per_weight[:, ::-1], axis=1)[:, ::-1]
        weights = np.where(drawn > 0, law / np.where(drawn > 0, drawn, 1), weights)
        weights = np.maximum(weights / weights.sum(axis=1, keepdims=True), law * _LEAST_WEIGHT)
    return weights / weights.sum(axis=1, keepdims=True)


def _estimated(rows: np.ndarray, deviation: float) -> np.ndarray:
    """float64[n, m], shares of noisy rows, of which what noise can be is drawn to the log's.

    Those are all of the first kind or bin if none stands out.
    """
    is_large = rows > time_bins.largest_noise(rows.size) * deviation
    sums = rows.sum(axis=0)
    is_kept = sums > _LEAST_DEVIATIONS * deviation * math.sqrt(len(rows))
    total = np.where(is_kept, sums, np.where(is_large, rows, 0).sum(axis=0))
    if not total.any():
        total[0] = 1.0
    return time_bins.estimated_shares(rows, deviation, total / total.sum(), is_large)


def with_starts(
    traces: TraceBatch,
    case_numbers: np.ndarray,
    decision: ServiceDecision,
    grid: TimeGrid,
    randomness: Randomness,
) -> TraceBatch:
    """Returns the same cases with starts of their events, which come before all attributes.

    An event's start depends on its case's number, its position, its activity, its time and that of
    the event before. It is not before the latter.

    Args:
        traces: Generated cases with times on the grid, in the vocabulary of the decision.
        case_numbers: int64[n_cases], distinct over the release.
        decision: What from.
        grid: The grid.
        randomness: The release's.
    """
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)
    positions = np.arange(traces.n_events) - traces.offsets[case]
    words = randomness.words(
        "service time of an event", cell_numbers(case_numbers[case]), positions
    )
    chance, place = uniform(words[:, 0]), uniform(words[:, 1])
    ends = grid.ticks(traces.times)
    gaps = np.where(traces.is_first, ends, ends - np.roll(ends, 1))
    gap_bins = _bins_of_gaps(traces, ends, decision.borders)
    rows = traces.activities.astype(np.int64)
    unknown = decision.unknown[rows]
    is_known = chance >= unknown
    rank = np.clip((chance - unknown) / np.maximum(1 - unknown, 1e-9), 0, 1 - 1e-9)
    # Service times are of those in no higher bin than the gap.
    bins = time_bins.bins_at(decision.reached, rows, rank * decision.reached[rows, gap_bins])
    begin, end = (borders[bins] for borders in _ends(decision.borders, grid.n_ticks))
    # The mean of u^(1/m - 1) is m.
    powers = 1 / decision.places[rows, bins] - 1
    within = elementary.power(np.maximum(place, 2.0**-64), powers)
    service = begin + np.floor((end - begin) * within).astype(np.int64)
    service = np.where(bins == 0, 0, np.clip(service, begin, end - 1))
    starts = np.minimum(grid.at_us(ends - np.minimum(service, gaps)), traces.times)
    column = pa.array(starts, mask=~is_known).cast(START_TYPE)
    return replace(traces, attributes={START_TIMESTAMP: column, **traces.attributes})


def service_part(params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log`."""
    sentence = (
        "counts events by activity and service time, and by activity and time since the event "
        f"before, each in {_BINS} bins, and sums the places of service times in these"
    )
    cells, most = (cells_of_service, params.log_time), 3 * (params.max_trace_length or 1)
    decide = partial(decide_service, params=params)
    return vectors_part(NAME, params, share, cells, sentence, decide, most, _PARTS, SQUARE)

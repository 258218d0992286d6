"""How fine the stamps of a log are, from microseconds to dates; public, or chosen and paid.

A log of dates in which cases start at any hour is wrong for whoever reads it. So the stamps of a
release are whole multiples of one granularity on the local clock, and it is the log's own. Where it
is not public, each case counts once, by the coarsest grid that has all of its stamps, and noise is
added to these six counts. That errs less than a choice by permute-and-flip at the same price: it
tells logs of seconds from logs of dates with a third of the cases.

Stamps finer than a microsecond are cut to it where they are read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_counts, variance_of
from tracecloak.anonymizers.rigorous.budget import Means, Sums
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.times.time_range import grid_clock
from tracecloak.schemas.calendar.time_grid import GRANULARITIES, GRID_US, Granularity
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_cells import CaseCells, ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.times.timed_params import TimedParams

# A number must be so many deviations of its noise above 0 to count. Then about one in a hundred
# logs of dates is taken for a log of hours or minutes, and one in a hundred tiny logs for a log of
# dates.
_DEVIATIONS = 2.5
# At most this share of the cases may have stamps off a grid that is kept, for in most logs a few
# stamps are unlike all others.
_OFF = 1 / 50
_N_CELLS = len(GRANULARITIES)
# What is kept where noise hides how fine the stamps are.
_SECOND = GRANULARITIES.index("second")


@dataclass(frozen=True)
class GranularityOfCases:
    """Cases by the coarsest grid that all their stamps are on.

    Cell i of `ClippedCells` is `GRANULARITIES[i]`.

    Attributes:
        time_zone: Of the clock that the grids are of.
    """

    time_zone: str
    kind: ClassVar[type[ClippedCells]] = ClippedCells

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> ClippedCells:
        """Counts a batch, each case once."""
        clock = grid_clock(self.time_zone)
        local = clock.local_us(traces.times)
        # Where the clock leaps over midnight, a date is the first moment after: when the clock was
        # changed, and at no other time.
        place = np.maximum(np.searchsorted(clock.since_us, traces.times, side="right") - 1, 0)
        changed = np.flatnonzero(clock.since_us[place] == traces.times)
        coarsest = np.zeros(traces.n_events, np.int64)
        for rank, granularity in enumerate(GRANULARITIES):
            over = local % GRID_US[granularity]
            is_on = over == 0
            begins = clock.first_us(local[changed] - over[changed])
            is_on[changed] |= begins == traces.times[changed]
            coarsest[is_on] = rank
        n = traces.n_cases
        of_cases = np.full(n, _N_CELLS - 1)
        np.minimum.at(of_cases, np.repeat(np.arange(n), traces.lengths), coarsest)
        cells = CaseCells.of(np.arange(n), of_cases, n, _N_CELLS)
        return ClippedCells.of_cases(cells, 1, 1)  # norm 1: never clipped


@dataclass(frozen=True)
class GranularityDecision(contract.Decision):
    """The granularity that was chosen.

    Attributes:
        granularity: Of the stamps that are released.
    """

    wire_name: ClassVar[str] = "granularity"

    granularity: Granularity


def changed_granularities(max_units: int) -> Sensitivity:
    """Returns what one unit changes of the counts."""
    return of_one_cell(max_units)


def decide_granularity(
    counted: ClippedCells, noise: SumNoise, randomness: Randomness
) -> GranularityDecision:
    """Adds noise to the counts and chooses the coarsest grid that the log seems to be on.

    A grid above seconds is one that no noise could make of a finer log: the cases on it outnumber
    those off it by 2.5 deviations of the difference. And one that is nearly all: those off it are
    no more than 2.5 deviations of their number, or than a fiftieth of all. A grid below seconds is
    one that cases clearly need: those off the next coarser one are more than that. Where no grid is
    either, seconds are kept.

    Args:
        counted: What `GranularityOfCases` counts, exactly.
        noise: Of each count; made for `changed_granularities`.
        randomness: The release's.
    """
    noisy = noisy_counts(counted, _N_CELLS, noise, "granularity", randomness, is_whole=True)
    margin = _DEVIATIONS * math.sqrt(variance_of(noise))
    off = np.cumsum(noisy) - noisy  # cases off each grid: their stamps are finer
    tolerated = np.maximum(margin * np.sqrt(np.arange(_N_CELLS)), _OFF * noisy.sum())
    for place in reversed(range(_SECOND + 1, _N_CELLS)):
        is_clear = noisy.sum() - 2 * off[place] >= margin * math.sqrt(_N_CELLS)
        if is_clear and off[place] <= tolerated[place]:
            return GranularityDecision(GRANULARITIES[place])
    needed = np.flatnonzero(off[: _SECOND + 1] <= tolerated[: _SECOND + 1])
    return GranularityDecision(GRANULARITIES[needed[-1]])


def granularity_part(params: TimedParams, share: Fraction, round_name: str) -> Part:
    """Returns the part of `private-log` that buys the granularity."""
    changed = changed_granularities(params.max_units)

    def sentence(means: Means) -> str:
        within = means["granularity"].noise(changed).half_width
        return (
            "counts cases by how fine their stamps are (microseconds, milliseconds, seconds, "
            f"minutes, hours, dates), each within {within:,} (95 %), and keeps that in what is "
            "released"
        )

    def decide(given: Given) -> GranularityDecision:
        noise = given.means["granularity"].noise(changed)
        return decide_granularity(given.statistics["granularity"], noise, given.randomness)

    needs = (Sums("granularity", share, changed),)
    counters = {"granularity": GranularityOfCases(params.calendar_time_zone)}
    return Part("granularity", needs, sentence, decide, counters, round_name, chosen="granularity")

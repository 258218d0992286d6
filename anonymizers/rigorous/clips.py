"""The norm to which cases are scaled down: public, or chosen on the log and paid for.

How it is chosen is in `bought`; here are the grid of norms, what is counted for it, and what
it has to spend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import (
    Sensitivity,
    of_clipped_cells,
    of_directly_follows,
    of_one_cell,
)
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous import bought
from tracecloak.anonymizers.rigorous.bought import recode_to_selected
from tracecloak.anonymizers.rigorous.budget import UNITS, Allowance, Sums
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.clipped_flows import CaseNorms, cells_of_flows

# --- The norm to which cases are scaled down: public, or chosen on the log and paid for. ----------


RANKS_SHARE = Fraction(1, 20)
"""The share that the choice of a clip takes of the budget that it shares with the sums."""

_GRID_RATIO = 1.1
_LARGEST_NORM = 1000


class ClipDecision(contract.Decision, wire_name="bought-clip"):
    """The clip that was bought.

    Attributes:
        clip_units: In lattice steps.
    """

    clip_units: int


def norms_of_cases(n_bins: int | None) -> contract.Counter:
    """Returns the counter of cases by the norm of their directly-follows pairs, on the public grid.

    Args:
        n_bins: Bins of the time between two events that count as pairs of their own; None: no time.
    """
    return Counted(CaseNorms, _norms_of_cases, (n_bins,))


def _norms_of_cases(batch: Batch, n_bins: int | None) -> CaseNorms:
    borders = None
    if n_bins is not None:
        from tracecloak.schemas.statistics.durations import duration_borders

        borders = duration_borders(n_bins)
    traces = recode_to_selected(batch.traces, batch.decisions)
    return CaseNorms.from_squares(cells_of_flows(traces, borders).squares, norm_grid())


@cache
def norm_grid() -> np.ndarray:
    """Returns int64[n], ascending squares of the norms that a clip is chosen from.

    From the norm of a case of one event, the root of 2, in steps of a tenth up to 1000. The squares
    are whole numbers. They are the same array each time, which is not to be changed.
    """
    n_steps = math.ceil(math.log(_LARGEST_NORM / math.sqrt(2)) / math.log(_GRID_RATIO)) + 1
    norms = math.sqrt(2) * elementary.power(_GRID_RATIO, np.arange(n_steps))
    squares = np.unique(np.rint(norms**2).astype(np.int64))
    squares.flags.writeable = False
    return squares


def choose_clip(
    cases: np.ndarray,
    allowance: Allowance,
    rank: float,
    max_units: int,
    randomness: Randomness,
    purpose: str,
    margin: float = 1.0,
) -> int:
    """Returns the square of the norm of `norm_grid` that about `rank` cases exceed.

    See `bought.place_of_rank`.

    Args:
        cases: int64[n_grid+1], cases in each bucket of the grid; the last lie above it.
        allowance: What the choice may spend.
        rank: See `bought.rank_of_clip`.
        max_units: Cases of one unit.
        randomness: The release's.
        purpose: What the choice is for; one of its own for each.
        margin: How far above the rank it may be, in deviations of the noise of one number alone.
    """
    noise = allowance.noise(bought.changed_ranks(len(cases), max_units), bought.RANK_UNITS)
    longer = bought.noisy_cases_from(cases, noise, randomness, purpose)
    width_of_case = noise.width / float(bought.changed_ranks(len(cases)).l2)
    return int(norm_grid()[bought.place_of_rank(longer, rank, margin * width_of_case)])


def ranks_need(name: str, share: Fraction, max_units: int) -> Sums:
    """Returns what the choice of a clip needs.

    Args:
        name: See `Sums`.
        share: See `Sums`.
        max_units: Cases of one unit.
    """
    changed = bought.changed_ranks(len(norm_grid()) + 1, max_units)
    return Sums(name, share, changed, bought.RANK_UNITS, is_l2=True)


def clip_part(
    norms: contract.Counter,
    share: Fraction,
    rank: Callable[[Given], float],
    max_units: int,
) -> Part:
    """Returns the part that buys the norm to which cases are scaled down.

    Args:
        norms: Counts cases by norm.
        share: See `Sums`.
        rank: How many cases shall exceed it, see `bought.rank_of_clip`.
        max_units: Cases of one unit.
    """

    def decide(given: Given) -> ClipDecision:
        counted: CaseNorms = given.statistics["norms"]
        cases = counted.histogram(len(norm_grid()))
        allowance = given.means["clip"]
        square = choose_clip(cases, allowance, rank(given), max_units, given.randomness, "clip")
        return ClipDecision(math.isqrt(square * UNITS**2))

    needs, counters = (ranks_need("clip", share, max_units),), {"norms": norms}
    return Part("clip", needs, lambda means: CLIP_SENTENCE, decide, counters, "clip", chosen="clip")


CLIP_SENTENCE = (
    "chooses the norm to which longer cases are scaled down, so that it takes about as much from "
    "the sums as their noise adds"
)


def clipped_need(
    name: str,
    share: Fraction,
    clip_units: int | None,
    changed: Callable[[int], Sensitivity],
    units: int = UNITS,
) -> Sums:
    """Returns what sums of clipped vectors need.

    Args:
        name: See `Sums`.
        share: See `Sums`.
        clip_units: The public clip, in lattice steps; None where it is bought.
        changed: What one unit changes at a clip.
        units: Lattice steps of one occurrence.
    """
    if clip_units is not None:
        return Sums(name, share, changed(clip_units), units)
    # A whole number that no norm of the grid exceeds, in occurrences.
    largest = changed((math.isqrt(int(norm_grid()[-1]) - 1) + 1) * units)
    return Sums(name, share, changed(units), units, is_any_clip=True, largest=largest)


def least_events(clipped: float, clip: float, times_counted: int = 1) -> float:
    """Returns how many events a case has on average at least, by what clipping leaves of them.

    A case of k events has k + 1 arcs, of which the first counts once and the others t times. If all
    differ, its norm is the root of 1 + t k, and clipping leaves h(k) = k min(1, clip / norm) of its
    events; where arcs repeat it leaves less. As h is concave and grows, cases of any lengths have a
    mean of h below h of their mean (Jensen), so that mean is at least the inverse of h.

    Args:
        clipped: Events of a case on average, after cases were scaled down to the clip.
        clip: The norm.
        times_counted: t.
    """
    if times_counted * clipped <= clip * clip - 1:
        return clipped
    square = (clipped / clip) ** 2
    return (times_counted * square + math.sqrt((times_counted * square) ** 2 + 4 * square)) / 2


# --- What one unit changes of the sums that a Markov chain is made of. ----------------------------


# Lattice steps of one occurrence, fewer where the noise could not be drawn on so fine a lattice.
_MOST_UNITS = 1024


def sums_sensitivity(clip_squared: int, units: int, max_units: int) -> Sensitivity:
    """Returns that of the clipped vectors and the cases, in lattice steps.

    The norm of a case's vector and its 1 is rounded up to a whole step.
    """
    norm = math.isqrt((clip_squared + 1) * units**2 - 1) + 1
    return of_clipped_cells(norm, max_units)


def whole_sums_sensitivity(max_length: int, max_units: int) -> Sensitivity:
    """Returns that of directly-follows pairs and the cases, none of them clipped."""
    return of_directly_follows(max_length).beside(of_one_cell()).of_cases(max_units)


def lattice_units(allowance: Allowance, max_units: int) -> int:
    """Returns the lattice steps of one occurrence, a power of two: public, whatever the clip.

    Raises:
        UsageError: Even on the coarsest lattice the noise would be too wide to be drawn.
    """
    units = _MOST_UNITS
    while units > 1:
        try:
            allowance.noise(largest_sums(units, max_units), units)
        except UsageError:
            units //= 2
        else:
            break
    return units


def largest_sums(units: int, max_units: int) -> Sensitivity:
    """Returns that of the sums at the largest clip, in lattice steps."""
    return sums_sensitivity(int(norm_grid()[-1]), units, max_units)

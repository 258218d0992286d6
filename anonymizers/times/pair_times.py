"""How much time cases spend between which two activities: noisy sums of clipped times.

Where the time of a log goes is what the histograms of single steps say least of: most of it lies in
a few long steps, and a histogram's noise does not know that these weigh more. So the time itself is
added up. A case is the vector of its times by directly-follows pair: all that it spends on steps
from a to b. Where the vector's norm is above a clip, it is scaled down to it, so that a case of
years changes the sums by no more than one of weeks. The clip is a time that follows from the noisy
lengths of cases: about as many cases take longer as the noise of the sums is worth, so it costs
nothing, and rises as noise falls.

With delta the norm is L2, and the sums get discrete Gaussian noise; without, it is L1, and they get
discrete Laplace noise. Vectors are whole numbers on a lattice of UNITS steps of the clip, so the
norm holds exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.sensitivity import (
    Sensitivity,
    of_clipped_cells,
    of_count,
)
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.noise.noting import note
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_counts, variance_of
from tracecloak.anonymizers.rigorous.bought import in_vocabulary, known_vocabulary, within_length
from tracecloak.anonymizers.rigorous.budget import UNITS, Means, Sums
from tracecloak.anonymizers.rigorous.clip_by_rank import rank_of_clip
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.times.case_classes import BY_ACTIVITY, Detail
from tracecloak.anonymizers.times.case_spans import SpansDecision, spans_at
from tracecloak.anonymizers.times.time_range import LogTime
from tracecloak.schemas.arrays.merging import sum_by_key, sum_groups
from tracecloak.schemas.calendar.time_grid import GRID_US
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.measures import TIME_OF_PAIR
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.clipped_flows import ClippedCells, clipped_counts
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams

# Of a case the time on one pair is cut at so many clips, so that squares fit 64 bits.
_MOST_CLIPS = 1 << 10
# Of the sum of all times, that of one pair, so many times as many cases are scaled down: what is
# beyond the clip the counts of lengths tell, and noise is in proportion to it.
_MORE_OF_ONE = 4.0
# No more than this share of the cases is scaled down, however much noise there is.
_LARGEST_SHARE = 0.25


def changed_times(max_units: int, *, is_pure: bool) -> Sensitivity:
    """Returns what one unit changes of the sums, in lattice steps of which UNITS are the clip.

    Args:
        max_units: Cases of one unit.
        is_pure: Whether delta is 0, and the norm L1.
    """
    return of_count(UNITS).of_cases(max_units) if is_pure else of_clipped_cells(UNITS, max_units)


def clip_of(spans: SpansDecision, n_names: int) -> int:
    """Returns the clip, in ticks, at least 1: a time that a share of the cases exceeds.

    The share is that of `clip_by_rank` for noise as wide as that of the lengths, up to a quarter;
    of a single activity it is four times that.

    Args:
        spans: How long cases take.
        n_names: Activities.
    """
    n_cases = max(float(np.cumsum(spans.counts)[-1]), 1.0)
    weight = _MORE_OF_ONE if n_names == 1 else 1.0
    rank = rank_of_clip(spans.deviation, n_names * n_names, n_names, weight)
    share = min(rank / n_cases, _LARGEST_SHARE)
    return max(int(spans_at(spans, np.array([1 - share]))[0]), 1)


def clipped_times(
    ticks: np.ndarray,
    case_of: np.ndarray,
    pairs: np.ndarray,
    sizes: tuple[int, int],
    clip: int,
    *,
    is_pure: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Adds up the clipped vectors of cases.

    Args:
        ticks: int64[n], the times of steps, not negative.
        case_of: int64[n], the case of each.
        pairs: int64[n], the pair of each.
        sizes: Number of cases and of pairs.
        clip: Largest norm of a case, in ticks.
        is_pure: Whether it is the L1 norm; else it is the L2 norm.

    Returns:
        The pairs of which there is a sum, int64[m], ascending; and the sums, int64[m], in lattice
        steps of which UNITS are the clip.
    """
    n_cases, n_pairs = sizes
    keys, times = sum_by_key(case_of * n_pairs + pairs, ticks)
    case, pair = np.divmod(keys, max(n_pairs, 1))
    # The quotient and the rest apart, so that no product overflows.
    whole, rest = np.divmod(np.minimum(times, clip * _MOST_CLIPS), clip)
    steps = whole * UNITS + rest * UNITS // clip
    if is_pure:
        norms = sum_groups(case, steps, n_cases)
        values = steps * UNITS // np.maximum(norms, UNITS)[case]
    else:
        squares = sum_groups(case, steps**2, n_cases)
        values = clipped_counts(steps, squares[case], UNITS, 1)
    return sum_by_key(pair[values > 0], values[values > 0])


def count_pair_times(
    batch: Batch, time: LogTime, is_pure: bool, detail: Detail = BY_ACTIVITY
) -> ClippedCells:
    """Adds up clipped times of cases by directly-follows pair: a n + b is from a to b.

    Args:
        batch: Complete cases, and what was decided before.
        time: When the log takes place.
        is_pure: Whether a case's norm is L1.
        detail: By what time is added up: where all events are of one activity, by case.
    """
    traces, decisions = batch.traces, batch.decisions
    traces = detail.cases(within_length(in_vocabulary(traces, decisions), decisions))
    n = len(traces.vocabulary)
    ticks = time.grid(decisions).ticks(traces.times)
    step = np.flatnonzero(~traces.is_first)
    case_of = np.repeat(np.arange(traces.n_cases), traces.lengths)[step]
    pairs = traces.activities[step - 1].astype(np.int64) * n + traces.activities[step]
    times, clip = ticks[step] - ticks[step - 1], clip_of(decisions["spans"], n)
    sizes = traces.n_cases, n * n
    return ClippedCells(*clipped_times(times, case_of, pairs, sizes, clip, is_pure=is_pure))


@dataclass(frozen=True)
class PairTimesDecision(contract.Decision):
    """Noisy sums.

    Attributes:
        sums: float64[n n], in clips, of any sign.
        deviation: Of the noise of each.
        clip: Largest norm of a case, in ticks.
        is_pure: Whether that is the L1 norm.
    """

    wire_name: ClassVar[str] = "pair-times"

    sums: np.ndarray
    deviation: float
    clip: int
    is_pure: bool


def decide_pair_times(
    counted: ClippedCells,
    n_names: int,
    clip: int,
    noise: SumNoise,
    randomness: Randomness,
    *,
    is_pure: bool,
) -> PairTimesDecision:
    """Adds noise to all sums.

    Args:
        counted: What `count_pair_times` counts, exactly.
        n_names: Activities.
        clip: See `clip_of`.
        noise: Of each sum, in lattice steps; made for `changed_times`.
        randomness: The release's.
        is_pure: Whether a case's norm is L1.
    """
    noisy = noisy_counts(counted, n_names * n_names, noise, "time of a pair", randomness)
    return PairTimesDecision(noisy, math.sqrt(variance_of(noise)), clip, is_pure)


def _note(
    decision: PairTimesDecision,
    variants: ReleasedVariants,
    names: ActivityVocabulary,
    tick_us: int,
    randomness: Randomness,
) -> None:
    """Notes the sums of pairs that the released variants have, which are far fewer than all."""
    codes = names.codes(variants.names.take(pa.array(variants.codes)))
    arcs = DirectlyFollows.from_rows(variants.offsets, codes, variants.counts, names).inner(names)
    pairs = arcs.sources.astype(np.int64) * len(names) + arcs.targets

    def of() -> list[tuple[str, ...]]:
        labels = names.labels
        return [(labels[a], labels[b]) for a, b in (divmod(p, len(names)) for p in pairs.tolist())]

    unit = float(decision.clip) * tick_us
    note(randomness, TIME_OF_PAIR, of, decision.sums[pairs] * unit, decision.deviation * unit)


def pair_times_part(params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log`; its round comes after that of spans."""
    is_pure, detail = params.delta == 0, params.detail
    changed = changed_times(params.max_units, is_pure=is_pure)

    def sentence(means: Means) -> str:
        noise = means["pair times"].noise(changed, UNITS)
        by_what = "" if detail.is_of_all else " by pair of activities"
        return (
            f"adds up the time of cases{by_what}, each case up to a length that few "
            f"cases exceed, with noise of {noise.width / UNITS:.1f} times that length"
        )

    def decide(given: Given) -> PairTimesDecision:
        names = detail.names(known_vocabulary(params.words, given.decisions))
        decision = decide_pair_times(
            given.statistics["pair times"],
            len(names),
            clip_of(given.decisions["spans"], len(names)),
            given.means["pair times"].noise(changed, UNITS),
            given.randomness,
            is_pure=is_pure,
        )
        is_always = params.log_time.calendar.is_always  # else stamps are further apart
        if is_always and not detail.is_of_all:
            tick_us = GRID_US[params.log_time.grid(given.decisions).granularity]
            _note(decision, given.decisions["variants"], names, tick_us, given.randomness)
        return decision

    needs = (Sums("pair times", share, changed, UNITS),)
    counters = {
        "pair times": Counted(ClippedCells, count_pair_times, (params.log_time, is_pure, detail))
    }
    return Part("pair times", needs, sentence, decide, counters)

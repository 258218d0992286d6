"""The vocabulary and the length that a method selects privately on the log, and ranks under noise.

How each is selected is in the notes of its section; later rounds count by what was selected.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.composition import decimal_text, square_root
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.bounding import distinct_activities
from tracecloak.anonymizers.contract.counters import Batch, Counted, from_traces
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums
from tracecloak.anonymizers.rigorous.budget import Allowance, Allowances, Sums
from tracecloak.anonymizers.rigorous.params import LENGTH_SHARE, LONGEST_CASE, VOCABULARY_SHARE
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import ActivityCounts, TraceLengths, VariantHistogram

if TYPE_CHECKING:
    from tracecloak.anonymizers.rigorous.names import ListedParams

# ---
# The norm at which cases are clipped, chosen by how many cases are longer; paid as Gaussian noise.
# Noise of every cell is in proportion to the clip g: with n cells of deviation r g each, its L2
# norm is about r g sqrt(n). Clipping takes at most the sum of the cases' norms beyond g. The sum of
# the two, r g sqrt(n) + sum max(norm - g, 0), is convex in g, and least where the number of cases
# longer than g falls to K = r sqrt(n). So the rank K of the clip is known beforehand, and only the
# numbers of longer cases are asked of the log. No clip is below the noisy median: where K is more
# than half of the cases, everything is noise, and a clip that scales all cases down gains nothing.
# What is measured is a block of the release's joint Gaussian mechanism (`accounting.joint`): the
# cases by norm, in buckets of a public grid, from the longest downwards, multiplied by the square
# root C of the matrix that adds them up. With noise z on C x, C (C x + z) has the numbers of longer
# cases at all grid points at once, each with a deviation that grows with the logarithm of the
# number of buckets (Fichtenberger, Henzinger, Upadhyay 2023). One case more changes C x by one
# column of C, of which the first is the longest; its coefficients are rounded to whole numbers of
# steps, and C is the rounded matrix throughout, so the bound is exact and nothing is biased.
#
# A choice by permute-and-flip with score -|longer cases - K| would do as well with exact numbers.
# At a price of 5 % of epsilon, though, every clip above the longest case lacks only K to the best
# one, and K is a few multiples of what such a choice errs by: the clip would often be the largest
# of the grid. With Gaussian noise of the same price a grid point far above all cases is not chosen.


RANK_UNITS = 1 << 10
"""Lattice steps of one case."""

# Of a large vocabulary most pairs never occur, and thresholds take their noise away: about so many
# pairs of each activity are left.
_PAIRS_OF_NAME = 24


def changed_ranks(n_buckets: int, max_units: int = 1) -> Sensitivity:
    """Returns by how much a unit changes `measured_ranks`, in lattice steps.

    The first column of C is the longest, in every norm, and all cases of a unit may have it.

    Args:
        n_buckets: Of the cases' norms: the grid's points and one more.
        max_units: Cases of one unit.
    """
    steps = _coefficients(n_buckets).tolist()
    squared = sum(step * step for step in steps)
    return Sensitivity(n_buckets, sum(steps), squared, steps[0]).of_cases(max_units)


def measured_ranks(cases: np.ndarray) -> np.ndarray:
    """Returns int64[n_buckets], C x in lattice steps: what gets the noise.

    Args:
        cases: int64[n_buckets], the cases in each bucket of the grid, the longest in the last.
    """
    steps, downwards = _coefficients(len(cases)), cases[::-1]
    return np.array([(steps[i::-1] * downwards[: i + 1]).sum() for i in range(len(cases))])


def cases_from(measured: np.ndarray) -> np.ndarray:
    """Returns float64[n_buckets], the number of cases in each bucket or a longer one.

    The first is the number of all cases; entry j + 1 the number beyond grid point j.

    Args:
        measured: int64[n_buckets], what `measured_ranks` returns, with noise.
    """
    steps = _coefficients(len(measured)).astype(np.float64)
    downwards = np.zeros(len(measured))
    for i, value in enumerate(measured.tolist()):
        downwards[i] = (value - (steps[i:0:-1] * downwards[:i]).sum()) / steps[0]
    return np.cumsum(downwards)[::-1]


def noisy_cases_from(
    cases: np.ndarray, noise: SumNoise, randomness: Randomness, purpose: str
) -> np.ndarray:
    """Returns what `cases_from` does, of the exact cases with discrete Gaussian noise.

    Args:
        cases: As for `measured_ranks`.
        noise: In lattice steps, made for `changed_ranks`.
        randomness: The release's.
        purpose: What the noise is for; one of its own for each clip.
    """
    places = np.arange(len(cases))
    return cases_from(noisy_sums(measured_ranks(cases), noise, purpose, places, randomness))


def rank_of_clip(
    noise_of_clip: float, n_cells: int, n_names: int, weight: float, n_bins: int = 1
) -> float:
    """Returns K, how many cases are scaled down; public.

    Args:
        noise_of_clip: Deviation of one cell's noise, in clips: s max_units / sqrt(share).
        n_cells: Cells that get noise.
        n_names: Activities, OTHER included.
        weight: What noise counts for beside what clipping takes: 3/2 where counts or a chain are
            made of the sums, 1 or less where intervals of them are published, and 8 where only
            shares within each pair are, which clipping hardly biases.
        n_bins: Cells of each pair of activities, of positions or durations.
    """
    return weight * noise_of_clip * math.sqrt(min(n_cells, _PAIRS_OF_NAME * n_names * n_bins))


def place_of_rank(longer: np.ndarray, rank: float, margin: float = 0.0) -> int:
    """Returns the place on the grid of the smallest clip that few enough cases exceed.

    Args:
        longer: float64[n_grid+1], noisy, from `noisy_cases_from`.
        rank: K, from `rank_of_clip`.
        margin: Cases that K may be exceeded by, such as the deviation that the noise would have on
            one number: where noise hides which of two clips is right, the smaller one errs less.

    Returns:
        The place, the last one of the grid where more cases exceed all of it.
    """
    most = min(rank, max(float(longer[0]), 0.0) / 2) + margin
    places = np.flatnonzero(longer[1:] <= most)
    return int(places[0]) if len(places) else len(longer) - 2


def _coefficients(n_buckets: int) -> np.ndarray:
    """int64[n_buckets], the first column of C, in steps."""
    return np.rint(square_root(n_buckets, None) * RANK_UNITS).astype(np.int64)


# --- The vocabulary and the length that a method chose on the log, as later rounds count by them. -
# How they are chosen is in `bought_vocabulary` and `bought_length`; the clip is one more
# (`clips`).


def recode_to_selected(traces: TraceBatch, decisions: contract.Decisions) -> TraceBatch:
    """Returns the traces in the vocabulary that was bought, if one was; else as they are."""
    if "vocabulary" not in decisions:
        return traces
    return traces.recode_public(decisions["vocabulary"].vocabulary)


def vocabulary_in_effect(
    public: ActivityVocabulary | None, decisions: contract.Decisions
) -> ActivityVocabulary:
    """Returns the activities, public or bought."""
    if public is not None:
        return public
    bought: VocabularyDecision = decisions["vocabulary"]
    return bought.vocabulary


def traces_in_domain(batch: Batch) -> TraceBatch:
    """Returns the traces over the vocabulary and within the length that were bought, if any was."""
    traces = recode_to_selected(batch.traces, batch.decisions)
    length: LengthDecision | None = batch.decisions.get("length")
    return traces if length is None else traces.truncate(length.max_trace_length)


def _variants_within(batch: Batch) -> VariantHistogram:
    return VariantHistogram.from_traces(traces_in_domain(batch))


VARIANTS_IN_DOMAIN = Counted(VariantHistogram, _variants_within)
"""Cases by variant, over the vocabulary and within the length that were bought, if any were."""


# --- The length at which cases are cut, chosen on the log and paid for with a part of the budget. -


_GRID_RATIO = 1.1


class LengthDecision(contract.Decision, wire_name="bought-length"):
    """The length that was bought.

    Attributes:
        max_trace_length: In events.
    """

    max_trace_length: int


LENGTHS_OF_CASES = from_traces(TraceLengths)
"""Cases by number of events."""


def length_grid() -> np.ndarray:
    """Returns int64[n], ascending lengths that a cut is chosen from.

    From 1 to `LONGEST_CASE` in steps of about a tenth, each whole.
    """
    n_steps = math.ceil(math.log(LONGEST_CASE) / math.log(_GRID_RATIO)) + 1
    return np.unique(np.rint(elementary.power(_GRID_RATIO, np.arange(n_steps))).astype(np.int64))


def length_part(quantile: Fraction, max_units: int, verb: str, round_name: str = "length") -> Part:
    """Returns the part that buys the length at which cases are cut.

    It is the shortest of the grid that no more than the rest of the noisy number of cases exceeds;
    how many exceed each is known with noise as for a clip.

    Args:
        quantile: Share of the cases that it shall not cut.
        max_units: Cases of one unit.
        verb: What the cases of that share do, in words.
        round_name: Where it is bought.
    """

    def decide(given: Given) -> LengthDecision:
        lengths: TraceLengths = given.statistics["lengths"]
        noise = given.means["length"].noise(changed, RANK_UNITS)
        longer = noisy_cases_from(lengths.histogram(grid), noise, given.randomness, "length")
        rest = float(1 - quantile) * max(float(longer[0]), 0.0)
        places = np.flatnonzero(longer[1:] <= rest)
        return LengthDecision(int(grid[places[0]] if len(places) else grid[-1]))

    grid, share = length_grid(), decimal_text(quantile)
    does = f"chooses the length that about a share of {share} of the cases {verb}"
    counters = {"lengths": LENGTHS_OF_CASES}
    changed = changed_ranks(len(grid) + 1, max_units)
    needs = (Sums("length", LENGTH_SHARE, changed, RANK_UNITS, is_l2=True),)
    return Part("length", needs, lambda means: does, decide, counters, round_name, chosen="length")


# --- The activities that a method chooses on the log, and pays for with a part of the budget. -----
# A case of j distinct activities, at most k, adds sqrt(k / j) to each of them: a vector of norm
# sqrt(k) whatever j is, where to count each once would leave the norm of most cases far below
# what the noise covers. An activity of cases with few others stands out of the noise as if k were
# their number of activities, so k can be generous.
#
# The threshold for an activity that one unit alone has is hardly higher than with counts. With m
# cases a unit adds m sqrt(k) to a name at most, and has m k names at most; so each of its new
# names passes with probability delta / (m k) at most. The rest of the unit has no more of the
# block's norm than `joint.Unseen` says of m k cells: if a_c of the j_c names of its case c are
# new, what is left of the case's vector has a squared norm of k (1 - a_c / j_c) <= k - a_c, what
# is left of all has one of at most m sum (k - a_c) by Cauchy and Schwarz, and that is at most (m
# k - a) / (m k) of m^2 k, since the number a of all new names is at most sum a_c.


NAME_UNITS = 1 << 10
"""Lattice steps of a weight of 1."""


def weights_of_names(cases: np.ndarray, max_activities: int) -> np.ndarray:
    """Returns int64[n], what each name of a case adds to its sum, in lattice steps, rounded down.

    Args:
        cases: int64[n], sorted, the case of each of its distinct names; of no case more than
            `max_activities` (see `contract.bounding.distinct_activities`).
        max_activities: k.
    """
    n_names = np.bincount(cases, minlength=1)[cases]
    squared = NAME_UNITS**2 * max_activities
    norm_by_number = [0, *(math.isqrt(squared // j) for j in range(1, max_activities + 1))]
    return np.array(norm_by_number, np.int64)[n_names]


def changed_names(max_activities: int, max_units: int) -> Sensitivity:
    """Returns by how much a unit changes the sums, in lattice steps.

    In total most where a case has k activities, of norm sqrt(k) whatever it has, and in one of them
    most where it has no other.

    Args:
        max_activities: k.
        max_units: Cases of one unit.
    """
    k = max_activities
    alone = math.isqrt(NAME_UNITS**2 * k)
    return Sensitivity(k, NAME_UNITS * k, NAME_UNITS**2 * k, alone, NAME_UNITS).of_cases(max_units)


def likely_names(allowance: Allowance, max_activities: int, max_units: int) -> str:
    """Returns which activities are likely to be chosen, in words.

    Args:
        allowance: What the choice may spend.
        max_activities: Distinct activities of a case that count.
        max_units: Cases of one unit.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    changed = changed_names(max_activities, max_units)
    least = allowance.threshold(changed, NAME_UNITS) / NAME_UNITS
    few = max(max_activities // 4, 1)
    fewer = math.ceil(least * math.sqrt(few / max_activities))
    given = {"least": math.ceil(least), "most": max_activities, "few": few, "fewer": fewer}
    return sentence("rigorous", "names", None, **given)


class VocabularyDecision(contract.Decision, wire_name="bought-vocabulary"):
    """The vocabulary that was bought.

    Attributes:
        vocabulary: The chosen names, and OTHER for all others.
    """

    vocabulary: ActivityVocabulary


def activities_of_cases(batch: Batch, max_activities: int) -> ActivityCounts:
    """Counts the weights of cases by activity, each case for at most so many of its activities.

    In lattice steps, see `weights_of_names`.
    """
    traces = batch.traces
    cases, codes = distinct_activities(traces, max_activities, batch.randomness.unit_stream)
    weights = weights_of_names(cases, max_activities)
    # Floats hold whole numbers up to 2^53 exactly.
    sums = np.bincount(codes, weights, minlength=len(traces.vocabulary)).astype(np.int64)
    used = np.flatnonzero(sums)
    return ActivityCounts.of(traces.vocabulary.names.take(pa.array(used)), sums[used])


def choose_vocabulary(
    counted: ActivityCounts,
    allowance: Allowance,
    changed: Sensitivity,
    randomness: Randomness,
    most_names: int | None = None,
    purpose: str = "activity",
) -> VocabularyDecision:
    """Chooses the activities whose noisy sum of weights reaches the threshold.

    Args:
        counted: What `activities_of_cases` counts, exactly.
        allowance: What the choice may spend.
        changed: What one unit changes of the sums.
        randomness: The release's.
        most_names: Of more, OTHER included, those with the largest noisy sums are kept, and of
            equal ones the first by name: what comes after could not be refused without telling of
            the log. None: all are kept.
        purpose: What the noise is for; one of its own for each list.
    """
    stream = CellStream(randomness, purpose, randomness.identify("activity", counted.names))
    noisy = counted.counts + allowance.noise(changed, NAME_UNITS).draw(stream)
    chosen = noisy >= allowance.threshold(changed, NAME_UNITS)
    named = sorted(
        (-number, name)
        for name, number in zip(
            counted.names.filter(pa.array(chosen)).to_pylist(), noisy[chosen].tolist(), strict=True
        )
        if name != OTHER
    )
    names = [name for _, name in named[: None if most_names is None else most_names - 1]]
    return VocabularyDecision(ActivityVocabulary.public(names))


def vocabulary_part(
    params: ListedParams,
    what_else: str = "",
    share: Fraction = VOCABULARY_SHARE,
    round_name: str = "vocabulary",
    most_names: int | None = None,
) -> Part:
    """Returns the part that buys the vocabulary.

    Args:
        params: How many activities of a case count, and how many cases of a unit.
        what_else: Said after the sentence.
        share: See `Sums`.
        round_name: Where it is bought.
        most_names: That can be counted by, OTHER included; None: any number.
    """
    max_activities, max_units = params.max_activities, params.max_units
    changed = changed_names(max_activities, max_units)

    def does(means: Allowances) -> str:
        at_most = "" if most_names is None else f", the {most_names - 1:,} most frequent at most"
        names = likely_names(means["vocabulary"], max_activities, max_units)
        return f"chooses {names}{at_most}{what_else}"

    def decide(given: Given) -> VocabularyDecision:
        counted, allowance = given.statistics["activities"], given.means["vocabulary"]
        return choose_vocabulary(counted, allowance, changed, given.randomness, most_names)

    needs = (Sums("vocabulary", share, changed, NAME_UNITS, is_open=True, is_l2=True),)
    counters = {"activities": Counted(ActivityCounts, activities_of_cases, (max_activities,))}
    return Part("vocabulary", needs, does, decide, counters, round_name, chosen="vocabulary")

"""How long cases take from first event to last: noisy histograms, and draws from them.

Of all steps of a case the one that takes longest decides how long it takes, and such steps are few:
in the histograms of steps (anonymizers.logs.step_durations) they are lost in the noise. But a case
takes one time from first to last, so the histogram of these has little noise. Each case of two
events or more counts twice, among all and among those of its last activity, by public bins of the
time. So one case changes the counts by 2 in total, and discrete Laplace noise of scale 2 / epsilon
covers it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tracecloak.anonymizers import contract
from tracecloak.anonymizers.accounting.calibration import laplace_interval
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.sensitivity import of_distinct_cells
from tracecloak.anonymizers.logs.time_bins import (
    estimated_shares,
    largest_noise,
    step_borders,
    times_in_bins,
)
from tracecloak.anonymizers.logs.time_range import LogTime
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, uniform
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_counts, variance_of
from tracecloak.anonymizers.rigorous.bought import in_vocabulary, known_vocabulary, within_length
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.rigorous.sum_noise import laplace_sums, spend_of
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.statistics.clipped_cells import CaseCells, ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams

# A case counts among all and among those of its last activity.
_CELLS_OF_CASE = 2

# Chosen among a few, as the next, by the times of whole cases of three public logs at epsilon 1.
N_SPAN_BINS = 16
# Below so many deviations of its noise a bin of all cases is taken for empty.
_LEAST_DEVIATIONS = 1.5


@dataclass(frozen=True)
class CaseSpans:
    """Cases by time from first to last event, over all and by last activity.

    With k bins, bin d of all cases is cell d, and that of cases that end with activity b is
    `(b + 1) k + d`.

    Attributes:
        time: When the log takes place; times are working time in its range.
    """

    time: LogTime
    kind: ClassVar[type[ClippedCells]] = ClippedCells

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> ClippedCells:
        """Counts a batch."""
        traces = within_length(in_vocabulary(traces, decisions), decisions)
        traces = traces.take(np.flatnonzero(traces.lengths > 1))
        elapsed = self.time.working_time(decisions).elapsed_us(traces.times)
        last = traces.offsets[1:] - 1
        spans = elapsed[last] - elapsed[traces.offsets[:-1]]
        bins = np.searchsorted(step_borders(N_SPAN_BINS), spans, side="right")
        rows = traces.activities[last].astype(np.int64) + 1
        case = np.arange(traces.n_cases)
        cells = CaseCells.of(
            np.concatenate([case, case]),
            np.concatenate([bins, rows * N_SPAN_BINS + bins]),
            traces.n_cases,
            (len(traces.vocabulary) + 1) * N_SPAN_BINS,
        )
        return ClippedCells.of_cases(cells, _CELLS_OF_CASE, 1)  # norm root 2: never clipped


@dataclass(frozen=True)
class SpansDecision(contract.Decision):
    """What times of cases are drawn from.

    Attributes:
        borders_us: int64[k-1], borders of the bins.
        reached: float64[n, k], by last activity, the chance of each bin or a lower one; the last is
            1.
        longest_us: No case takes longer: the working time of the range.
    """

    borders_us: np.ndarray
    reached: np.ndarray
    longest_us: int


def spans_noise(epsilon: Fraction, max_units: int) -> SumNoise:
    """Returns the discrete Laplace noise on each count.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    return laplace_sums(epsilon, of_distinct_cells(_CELLS_OF_CASE, max_units))


def decide_spans(
    counted: ClippedCells,
    vocabulary: ActivityVocabulary,
    longest_us: int,
    epsilon: Fraction,
    max_units: int,
    randomness: Randomness,
) -> SpansDecision:
    """Adds noise to all counts, and makes shares of the bins for each last activity.

    As for steps (`step_durations.decide_durations`): what stands out of the noise among all cases
    is what a last activity's own counts are drawn towards. In bins of few cases they would still
    come to too many, because what is below 0 is cut off, so that bins of months would gain most. So
    each bin of all activities together is brought to its share among all cases. Spends epsilon and
    no delta.

    Args:
        counted: What `CaseSpans` counts, exactly.
        vocabulary: The public activities.
        longest_us: Working time of the public range.
        epsilon: What all counts spend together.
        max_units: Cases of one unit.
        randomness: The release's.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    n, k = len(vocabulary), N_SPAN_BINS
    borders = step_borders(k)
    noise = spans_noise(epsilon, max_units)
    noisy = noisy_counts(counted, (n + 1) * k, noise, "case span", randomness).reshape(n + 1, k)
    deviation = math.sqrt(variance_of(noise))
    is_possible = np.concatenate([[0], borders]) <= longest_us
    everywhere = np.where(is_possible & (noisy[0] > _LEAST_DEVIATIONS * deviation), noisy[0], 0.0)
    if not everywhere.any():
        everywhere = is_possible.astype(np.float64)
    everywhere = everywhere / everywhere.sum()
    is_large = (noisy[1:] > largest_noise(noisy.size) * deviation) & is_possible
    shares = estimated_shares(noisy[1:], deviation, everywhere, is_large)
    together = np.maximum(noisy[1:].sum(axis=1), 0) @ shares
    fitting = shares * np.divide(everywhere, together, out=np.ones(k), where=together > 0)
    shares = np.where(fitting.any(axis=1, keepdims=True), fitting, everywhere)
    reached = np.cumsum(shares, axis=1)
    return SpansDecision(borders, reached / reached[:, -1:], longest_us)


def sample_spans(
    decision: SpansDecision, last: np.ndarray, case_numbers: np.ndarray, randomness: Randomness
) -> np.ndarray:
    """Draws how long cases of two events or more take.

    Args:
        decision: What from.
        last: int[m], codes of their last activities.
        case_numbers: int64[m], distinct over the release.
        randomness: The release's.

    Returns:
        int64[m], microseconds; never more than the longest.
    """
    words = randomness.words("span of a case", cell_numbers(case_numbers))
    # The rows lie one after the other, each ending at a whole number.
    ends = (decision.reached + np.arange(len(decision.reached))[:, None]).ravel()
    chance = np.minimum(uniform(words[:, 0]), 1 - 1e-9)
    bins = np.searchsorted(ends, last + chance, side="right") - last.astype(np.int64) * N_SPAN_BINS
    return times_in_bins(bins, decision.borders_us, decision.longest_us, uniform(words[:, 1]))


def spans_part(params: PrivateLogParams, weight: Fraction) -> Part:
    """Returns the part of `private-log`."""
    units = params.max_units

    def spends(epsilon: Fraction, delta: Fraction) -> tuple[Spend, ...]:
        return (spend_of("spans", epsilon, delta, spans_noise(epsilon, units)),)

    def sentence(epsilon: Fraction, delta: Fraction) -> str:
        within = laplace_interval(Fraction(*spans_noise(epsilon, units).scale))
        return f"counts cases by time from first to last event, each within {within:,} (95 %)"

    def decide(given: Given) -> SpansDecision:
        return decide_spans(
            given.statistics["spans"],
            known_vocabulary(params.words, given.decisions),
            params.log_time.working_time(given.decisions).total_us,
            given.epsilon,
            units,
            given.randomness,
        )

    return Part("spans", weight, spends, sentence, decide, {"spans": CaseSpans(params.log_time)})

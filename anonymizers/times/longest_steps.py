"""Which step of a case takes longest: noisy counts, and for each pair of activities a propensity.

Most of the time that a case takes goes by in one of its steps. In the histograms of all steps that
one is lost in the noise, as each case counts there as often as it has steps. So it counts once
more, alone: by the pair of activities of its longest step, the first of equally long ones, and the
bin of the time from first to last event. A case of two events or more changes one count by 1: exact
discrete noise on each covers it.

Of the steps of a generated case one is drawn to be the longest, each with a chance in proportion to
its pair's propensity in the bin of the case's time. Propensities are such that the expected numbers
agree with the noisy ones (as of Bradley and Terry 1952, for more than two at a time).
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
from tracecloak.anonymizers.rigorous.bought import in_vocabulary, known_vocabulary, within_length
from tracecloak.anonymizers.rigorous.budget import Means, Sums
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.times.agreeing_tables import NoisySums, log_factors
from tracecloak.anonymizers.times.case_spans import SpansDecision, bins_of_spans
from tracecloak.anonymizers.times.step_durations import DurationsDecision, Steps
from tracecloak.anonymizers.times.time_range import LogTime
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_cells import CaseCells, ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.times.timed_params import TimedParams

# What the histograms of all steps say weighs as much as so many counted cases.
_WORTH = 60.0
_ROUNDS = 40
# The first is the share of the step that would meet the number of one pair if the others stayed as
# they are. The second is the largest step.
_DAMPING, _LARGEST_STEP = 0.7, 1.0
# The weights of the bin of the case's time, of the next lower bin, and of the one below that.
_NEAR = (1.0, 1.0, 0.5)
_LEAST = 1e-3


def changed_longest(max_units: int) -> Sensitivity:
    """Returns what one unit changes of the counts."""
    return of_one_cell(max_units)


@dataclass(frozen=True)
class LongestSteps:
    """Cases by the pair of their longest step and the bin of their time: cell `pair k + bin`.

    Attributes:
        time: When the log takes place.
    """

    time: LogTime
    kind: ClassVar[type[ClippedCells]] = ClippedCells

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> ClippedCells:
        """Counts a batch."""
        traces = within_length(in_vocabulary(traces, decisions), decisions)
        traces = traces.take(np.flatnonzero(traces.lengths > 1))
        bins, k = bins_of_spans(traces, self.time, None, decisions)
        ticks = self.time.grid(decisions).ticks(traces.times)
        events = np.flatnonzero(~traces.is_first)
        case_of = np.repeat(np.arange(traces.n_cases), traces.lengths)[events]
        longest = events[longest_of_cases(ticks[events] - ticks[events - 1], case_of)]
        n, n_cases = len(traces.vocabulary), traces.n_cases
        sources = traces.activities[longest - 1].astype(np.int64)
        keys = (sources * n + traces.activities[longest]) * k + bins
        cells = CaseCells.of(np.arange(n_cases), keys, n_cases, n * n * k)
        return ClippedCells.of_cases(cells, 1, 1)  # norm 1: never clipped


def longest_of_cases(values: np.ndarray, case_of: np.ndarray) -> np.ndarray:
    """Returns int64[n_cases], the place of each case's largest value, the first of equal ones.

    Args:
        values: Of some steps.
        case_of: int64[m], the case of each, ascending.
    """
    order = np.lexsort((-values, case_of))  # stable: the first of equal ones stays first
    return order[np.flatnonzero(np.diff(case_of, prepend=-1))]


@dataclass(frozen=True)
class Propensities(contract.Decision):
    """How much each pair tends to be the longest step, in each bin of the time of cases.

    Attributes:
        logs: float64[n n, k], the logarithm; only differences within a bin matter.
    """

    wire_name: ClassVar[str] = "propensities"

    logs: np.ndarray


@dataclass(frozen=True)
class LongestDecision(contract.Decision):
    """Noisy counts.

    Attributes:
        counts: float64[n n, k], with noise.
        deviation: Of the noise of each.
    """

    wire_name: ClassVar[str] = "longest-steps"

    counts: np.ndarray
    deviation: float


def decide_longest(
    counted: ClippedCells, n_names: int, n_bins: int, noise: SumNoise, randomness: Randomness
) -> LongestDecision:
    """Adds noise to all counts.

    Args:
        counted: What `LongestSteps` counts, exactly.
        n_names: Activities.
        n_bins: Of the time of cases.
        noise: Of each count; made for `changed_longest`.
        randomness: The release's.
    """
    n_cells = n_names * n_names * n_bins
    noisy = noisy_counts(counted, n_cells, noise, "longest step", randomness, is_whole=True)
    return LongestDecision(noisy.reshape(-1, n_bins), math.sqrt(variance_of(noise)))


def decide_propensities(
    decision: LongestDecision,
    durations: DurationsDecision,
    spans: SpansDecision,
    steps: Steps,
    bins: np.ndarray,
    n_cases: int,
) -> Propensities:
    """Finds the propensities by which some cases like the released ones agree with the counts.

    Before they are counted, a step is expected to be the longest by how often such steps take about
    as long as the case does.

    Args:
        decision: Noisy counts.
        durations: How long steps take.
        spans: How long cases take; says what the bins are.
        steps: Of these cases.
        bins: int64[n], the bin of each of these cases' time.
        n_cases: Number of released cases of two events or more; these stand for them.
    """
    n_pairs, k = decision.counts.shape
    logs = elementary.log(_about_as_long(durations, spans, n_pairs) + _LEAST).ravel()
    # If there are many activities, most pairs never follow each other, and keep their weights. One
    # cell for each count stands for all of them in the search for weights.
    there, cells = np.unique(steps.pairs * k + bins[steps.own], return_inverse=True)
    counts = decision.counts.ravel()
    counts = np.append(counts[there], np.unique(np.delete(counts, there)))
    n_made = len(np.unique(steps.own))
    if not n_made or not n_cases:
        return Propensities(logs.reshape(n_pairs, k))
    block = NoisySums((0,), counts, decision.deviation)
    cell_logs, pulls = np.resize(logs[there], len(counts)), np.zeros(len(counts))
    for _ in range(_ROUNDS):
        weights = elementary.exp(cell_logs)[cells]
        sums = np.bincount(steps.own, weights, len(bins))
        expected = np.bincount(cells, weights / sums[steps.own], len(counts)) * (n_cases / n_made)
        step = log_factors(expected, block, pulls, float(n_cases), _WORTH)
        step = np.clip(step, -_LARGEST_STEP, _LARGEST_STEP) * _DAMPING
        pulls -= step * (_WORTH / n_cases)
        cell_logs += step
    logs[there] = cell_logs[: len(there)]
    return Propensities(logs.reshape(n_pairs, k))


def _about_as_long(durations: DurationsDecision, spans: SpansDecision, n_pairs: int) -> np.ndarray:
    """float64[n_pairs, k], how often steps of each pair take about as long as cases of each bin."""
    shares = np.diff(durations.reached[:n_pairs], axis=1, prepend=0)
    begins = np.concatenate([[0], durations.borders])
    to = np.searchsorted(spans.borders, begins, side="right")
    in_bins = np.zeros((n_pairs, len(spans.reached)))
    for row, bin_ in enumerate(to.tolist()):
        in_bins[:, bin_] += shares[:, row]
    near = np.zeros_like(in_bins)
    for below, weight in enumerate(_NEAR):
        near[:, below:] += weight * in_bins[:, : in_bins.shape[1] - below]
    return near


def sample_longest(
    decision: Propensities, steps: Steps, bins: np.ndarray, randomness: Randomness
) -> np.ndarray:
    """Draws which step of each case is the longest.

    Args:
        decision: The propensities.
        steps: Of the cases.
        bins: int64[n_cases], the bin of each case's time.
        randomness: The release's.

    Returns:
        int64[n], places in `steps`, one for each case that has a step.
    """
    logs = decision.logs[steps.pairs, bins[steps.own]]
    uniforms = np.maximum(steps.uniforms("longest step of a case", randomness), 2.0**-64)
    # Gumbel's trick, which is the exponential race on a scale of logarithms: the largest sum of a
    # case belongs to each of its steps with a probability in proportion to its weight.
    return longest_of_cases(logs - elementary.log(-elementary.log(uniforms)), steps.own)


def longest_part(params: TimedParams, share: Fraction) -> Part:
    """Returns the part of `private-log`."""
    changed = changed_longest(params.max_units)

    def sentence(means: Means) -> str:
        within = means["longest steps"].noise(changed).half_width
        return (
            "counts cases by the pair of activities of their longest step and by time from first "
            f"to last event, each within {within:,} (95 %)"
        )

    def decide(given: Given) -> LongestDecision:
        return decide_longest(
            given.statistics["longest steps"],
            len(known_vocabulary(params.words, given.decisions)),
            len(given.decisions["spans"].reached),
            given.means["longest steps"].noise(changed),
            given.randomness,
        )

    needs = (Sums("longest steps", share, changed),)
    counters = {"longest steps": LongestSteps(params.log_time)}
    return Part("longest steps", needs, sentence, decide, counters)

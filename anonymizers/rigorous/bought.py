"""What a method chooses on the log and pays for: the vocabulary, the length and the clip.

Each choice is a part with its own share of epsilon and delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers import contract
from tracecloak.anonymizers.accounting.calibration import gaussian_scale
from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.accounting.sensitivity import of_count, of_distinct_cells
from tracecloak.anonymizers.contract.bounding import distinct_activities
from tracecloak.anonymizers.noise.drawing import draw_gaussian, select
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.params import BOUGHT_SHARE, drawable
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.statistics.activity_counts import ActivityCounts
from tracecloak.schemas.statistics.clipped_flows import CaseNorms
from tracecloak.schemas.statistics.durations import duration_borders
from tracecloak.schemas.statistics.lengths import TraceLengths

_GRID_RATIO = 1.1
_LARGEST_NORM = 100


@dataclass(frozen=True)
class VocabularyDecision(contract.Decision):
    """The vocabulary that was bought.

    Attributes:
        vocabulary: The chosen names, and OTHER for all others.
    """

    vocabulary: ActivityVocabulary


def in_vocabulary(traces: TraceBatch, decisions: contract.Decisions) -> TraceBatch:
    """Returns the traces in the vocabulary that was bought, if one was; else as they are."""
    if "vocabulary" not in decisions:
        return traces
    return traces.recode_public(decisions["vocabulary"].vocabulary)


def known_vocabulary(
    public: ActivityVocabulary | None, decisions: contract.Decisions
) -> ActivityVocabulary:
    """Returns the activities, public or bought."""
    if public is not None:
        return public
    bought: VocabularyDecision = decisions["vocabulary"]
    return bought.vocabulary


@dataclass(frozen=True)
class ClipDecision(contract.Decision):
    """The clip that was bought.

    Attributes:
        clip_units: In lattice steps.
    """

    clip_units: int


@dataclass(frozen=True)
class ActivitiesOfCases:
    """Cases by activity, each case counting for at most so many of its activities."""

    max_activities: int
    kind: ClassVar[type[ActivityCounts]] = ActivityCounts

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> ActivityCounts:
        """Counts a batch."""
        _, codes = distinct_activities(traces, self.max_activities, randomness.of_units)
        counts = np.bincount(codes, minlength=len(traces.vocabulary))
        used = np.flatnonzero(counts)
        return ActivityCounts.of(traces.vocabulary.names.take(pa.array(used)), counts[used])


@dataclass(frozen=True)
class NormsOfCases:
    """How many cases have which norm, on a public grid."""

    n_bins: int | None
    kind: ClassVar[type[CaseNorms]] = CaseNorms

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> CaseNorms:
        """Counts a batch."""
        borders = None if self.n_bins is None else duration_borders(self.n_bins)
        return CaseNorms.from_traces(in_vocabulary(traces, decisions), norm_grid(), borders)


def norm_grid() -> np.ndarray:
    """Returns int64[n], ascending squares of the norms that a clip is chosen from.

    From the norm of a case of one event, the root of 2, in steps of a tenth up to 100.
    """
    n_steps = math.ceil(math.log(_LARGEST_NORM / math.sqrt(2)) / math.log(_GRID_RATIO)) + 1
    norms = math.sqrt(2) * _GRID_RATIO ** np.arange(n_steps)
    return np.unique(np.rint(norms**2).astype(np.int64))


def largest_clip() -> int:
    """Returns a whole number that no norm of the grid exceeds, in occurrences."""
    return math.isqrt(int(norm_grid()[-1]) - 1) + 1


def choose_clip(
    norms: CaseNorms,
    epsilon: Fraction,
    quantile: Fraction,
    max_units: int,
    randomness: Randomness,
) -> float:
    """Returns a norm of `norm_grid` that about a share `quantile` of the cases does not exceed.

    See `choose_quantile`.
    """
    grid = norm_grid()
    cases = norms.histogram(len(grid))
    return math.sqrt(grid[choose_quantile(cases, epsilon, quantile, max_units, randomness, "clip")])


def choose_quantile(
    cases: np.ndarray,
    epsilon: Fraction,
    quantile: Fraction,
    max_units: int,
    randomness: Randomness,
    purpose: str,
) -> int:
    """Returns the place on a public grid that about a share `quantile` of the cases reaches.

    Permute-and-flip. The score of g is 0 if #{values below g's bucket} <= quantile n <=
    #{values <= g}, and else minus the number of cases that it lacks to that. With
    -|#{values <= g} - quantile n| in its place, every g above a value that most cases share would
    be as good as any other, up to the largest of the grid. One case more changes each of the two
    differences, and so their maximum with 0, by at most max(quantile, 1 - quantile). Spends epsilon
    and no delta.

    Args:
        cases: int64[n_grid+1], cases in each bucket of the grid; the last lie above it.
        epsilon: What the choice spends.
        quantile: The share; its denominator times the number of cases is below 2^63.
        max_units: Cases of one unit.
        randomness: The release's.
        purpose: What the choice is for; one of its own for each.
    """
    q, scale = quantile.numerator, quantile.denominator
    reached = scale * np.cumsum(cases[:-1])
    before = np.concatenate([[0], reached[:-1]])
    goal = q * int(cases.sum())
    scores = -np.maximum(np.maximum(before - goal, goal - reached), 0)
    stream = CellStream(randomness, purpose, cell_numbers(np.arange(len(scores))))
    changed = of_count(max(q, scale - q)).of_cases(max_units)
    return select(stream, scores, epsilon, Fraction(changed.linf))


def vocabulary_scale(
    epsilon: Fraction, delta: Fraction, max_activities: int, max_units: int
) -> tuple[int, int]:
    """Returns the scale of the discrete Gaussian noise on the activities' numbers of cases.

    Half of delta is for it. A unit adds at most `max_units` to each of `max_activities` counts, or
    less to more of them.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    changed = of_distinct_cells(max_activities, max_units)
    return drawable(gaussian_scale(epsilon, delta / 2, changed))


def vocabulary_threshold(
    epsilon: Fraction, delta: Fraction, max_activities: int, max_units: int
) -> int:
    """Returns the noisy number of cases from which on an activity is chosen.

    Half of delta is for the noise. The other half is for activities that one unit alone has: at
    most `max_activities * max_units` of them, each of at most `max_units` cases, and discrete
    Gaussian noise of scale s exceeds t with probability at most e^(-t²/2s²) (Canonne, Kamath and
    Steinke 2020, Proposition 25 on tails).
    """
    numerator, denominator = vocabulary_scale(epsilon, delta, max_activities, max_units)
    n_alone = of_distinct_cells(max_activities, max_units).l0
    width = numerator / denominator
    return max_units + math.ceil(width * math.sqrt(2 * math.log(2 * n_alone / delta)) * (1 + 1e-9))


def choose_vocabulary(
    counted: ActivityCounts,
    epsilon: Fraction,
    delta: Fraction,
    max_activities: int,
    max_units: int,
    randomness: Randomness,
    most_names: int | None = None,
) -> VocabularyDecision:
    """Chooses the activities whose noisy number of cases reaches the threshold.

    Args:
        counted: Cases by activity, exactly.
        epsilon: What the choice spends.
        delta: Likewise.
        max_activities: Distinct activities of a case that count.
        max_units: Cases of one unit.
        randomness: The release's.
        most_names: Of more, OTHER included, those with the largest noisy numbers are kept, and of
            equal ones the first by name: what comes after could not be refused without telling of
            the log. None: all are kept.
    """
    stream = CellStream(randomness, "activity", randomness.identify("activity", counted.names))
    scale = vocabulary_scale(epsilon, delta, max_activities, max_units)
    noisy = counted.counts + draw_gaussian(stream, *scale)
    chosen = noisy >= vocabulary_threshold(epsilon, delta, max_activities, max_units)
    named = sorted(
        (-number, name)
        for name, number in zip(
            counted.names.filter(pa.array(chosen)).to_pylist(), noisy[chosen].tolist(), strict=True
        )
        if name != OTHER
    )
    names = [name for _, name in named[: None if most_names is None else most_names - 1]]
    return VocabularyDecision(ActivityVocabulary.public(names))


# From 1 to 10,000 in steps of about a tenth, each whole.
_LONGEST_TRACE = 10_000


@dataclass(frozen=True)
class LengthDecision(contract.Decision):
    """The length that was bought.

    Attributes:
        max_trace_length: In events.
    """

    max_trace_length: int


@dataclass(frozen=True)
class LengthsOfCases:
    """Cases by number of events."""

    kind: ClassVar[type[TraceLengths]] = TraceLengths

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> TraceLengths:
        """Counts a batch."""
        return TraceLengths.from_traces(traces)


def length_grid() -> np.ndarray:
    """Returns int64[n], ascending lengths that a cut is chosen from."""
    n_steps = math.ceil(math.log(_LONGEST_TRACE) / math.log(_GRID_RATIO)) + 1
    return np.unique(np.rint(_GRID_RATIO ** np.arange(n_steps)).astype(np.int64))


def choose_length(
    lengths: TraceLengths,
    epsilon: Fraction,
    quantile: Fraction,
    max_units: int,
    randomness: Randomness,
) -> LengthDecision:
    """Chooses a length that about a share `quantile` of the cases does not exceed.

    See `choose_quantile`.
    """
    grid = length_grid()
    cases = lengths.histogram(grid)
    place = choose_quantile(cases, epsilon, quantile, max_units, randomness, "length")
    return LengthDecision(int(grid[place]))


def within_length(traces: TraceBatch, decisions: contract.Decisions) -> TraceBatch:
    """Returns the traces cut at the length that was bought, if one was; else as they are."""
    if "length" not in decisions:
        return traces
    return traces.truncate(decisions["length"].max_trace_length)


def bought_part(
    name: str,
    sentence: str,
    decide: Callable[[Given], Any],
    counters: Mapping[str, contract.Counter],
    weight: Fraction = BOUGHT_SHARE,
    round_name: str = "",
) -> Part:
    """Returns a part that chooses something without a delta.

    Args:
        name: What is chosen; the name of its round too, unless one is given.
        sentence: What it does.
        decide: Chooses.
        counters: What is counted for it.
        weight: See `Part`.
        round_name: Where it is chosen.
    """

    def spends(epsilon: Fraction, delta: Fraction) -> tuple[Spend, ...]:
        return (Spend(name, "pure", epsilon, delta),)

    return Part(
        name, weight, spends, lambda epsilon, delta: sentence, decide, counters, round_name or name
    )


def chosen_text(least: int, most_names: int | None) -> str:
    """Returns which activities are chosen, in words.

    Args:
        least: Smallest noisy number of cases.
        most_names: See `choose_vocabulary`.
    """
    at_most = "" if most_names is None else f", the {most_names - 1:,} most frequent at most"
    return f"chooses activities of about {least:,} cases or more{at_most}"


def vocabulary_part(
    max_activities: int,
    max_units: int,
    what_else: str = "",
    weight: Fraction = BOUGHT_SHARE,
    round_name: str = "vocabulary",
    most_names: int | None = None,
) -> Part:
    """Returns the part that buys the vocabulary.

    Args:
        max_activities: Distinct activities of a case that count.
        max_units: Cases of one unit.
        what_else: Said after the sentence.
        weight: See `Part`.
        round_name: Where it is bought.
        most_names: That can be counted by, OTHER included; None: any number.
    """

    def spends(epsilon: Fraction, delta: Fraction) -> tuple[Spend, ...]:
        vocabulary_scale(epsilon, delta, max_activities, max_units)  # or is refused
        return (Spend("vocabulary", "approximate", epsilon, delta),)

    def sentence(epsilon: Fraction, delta: Fraction) -> str:
        least = vocabulary_threshold(epsilon, delta, max_activities, max_units)
        return chosen_text(least, most_names) + what_else

    def decide(given: Given) -> VocabularyDecision:
        counted, budget = given.statistics["activities"], (given.epsilon, given.delta)
        of_unit = max_activities, max_units
        return choose_vocabulary(counted, *budget, *of_unit, given.randomness, most_names)

    counters = {"activities": ActivitiesOfCases(max_activities)}
    return Part("vocabulary", weight, spends, sentence, decide, counters, round_name, True)


def length_part(
    quantile: Fraction,
    max_units: int,
    verb: str,
    weight: Fraction = BOUGHT_SHARE,
    round_name: str = "length",
) -> Part:
    """Returns the part that buys the length at which cases are cut.

    Args:
        quantile: Share of the cases that it shall not cut.
        max_units: Cases of one unit.
        verb: What the cases of that share do, in words.
        weight: See `Part`.
        round_name: Where it is bought.
    """

    def decide(given: Given) -> LengthDecision:
        lengths: TraceLengths = given.statistics["lengths"]
        return choose_length(lengths, given.epsilon, quantile, max_units, given.randomness)

    share = decimal_text(quantile)
    sentence = f"chooses the length that about a share of {share} of the cases {verb}"
    return bought_part(
        "length", sentence, decide, {"lengths": LengthsOfCases()}, weight, round_name
    )


def clip_part(
    norms: contract.Counter,
    units: int,
    quantile: Fraction,
    max_units: int,
    weight: Fraction = BOUGHT_SHARE,
) -> Part:
    """Returns the part that buys the norm to which cases are scaled down.

    Args:
        norms: Counts cases by norm.
        units: Lattice steps of one occurrence.
        quantile: Share of the cases whose norm it shall reach.
        max_units: Cases of one unit.
        weight: See `Part`.
    """

    def decide(given: Given) -> ClipDecision:
        counted: CaseNorms = given.statistics["norms"]
        clip = choose_clip(counted, given.epsilon, quantile, max_units, given.randomness)
        return ClipDecision(math.floor(clip * units))

    share = decimal_text(quantile)
    sentence = f"chooses the norm that about a share of {share} of the cases reaches"
    return bought_part("clip", sentence, decide, {"norms": norms}, weight)

"""What a method chooses on the log and pays for: the vocabulary and the length.

Each is a part with its own share of the budget. The clip is one more (`clips`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.accounting.sensitivity import (
    Sensitivity,
    of_count,
)
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.bounding import distinct_activities
from tracecloak.anonymizers.noise.drawing import select
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.budget import Allowance, Choice, Means, Sums
from tracecloak.anonymizers.rigorous.clip_by_rank import (
    RANK_UNITS,
    changed_ranks,
    noisy_cases_from,
)
from tracecloak.anonymizers.rigorous.params import LENGTH_SHARE, VOCABULARY_SHARE
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.rigorous.weighted_names import (
    NAME_UNITS,
    changed_names,
    names_found,
    weights_of_names,
)
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.statistics.activity_counts import ActivityCounts
from tracecloak.schemas.statistics.lengths import TraceLengths

_GRID_RATIO = 1.1


@dataclass(frozen=True)
class VocabularyDecision(contract.Decision):
    """The vocabulary that was bought.

    Attributes:
        vocabulary: The chosen names, and OTHER for all others.
    """

    wire_name: ClassVar[str] = "bought-vocabulary"

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
class ActivitiesOfCases:
    """The weights of cases by activity, each case counting for at most so many of its activities.

    In lattice steps, see `weighted_names`.
    """

    max_activities: int
    kind: ClassVar[type[ActivityCounts]] = ActivityCounts

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> ActivityCounts:
        """Counts a batch."""
        cases, codes = distinct_activities(traces, self.max_activities, randomness.of_units)
        weights = weights_of_names(cases, self.max_activities)
        # Floats hold whole numbers up to 2^53 exactly.
        sums = np.bincount(codes, weights, minlength=len(traces.vocabulary)).astype(np.int64)
        used = np.flatnonzero(sums)
        return ActivityCounts.of(traces.vocabulary.names.take(pa.array(used)), sums[used])


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


def choose_vocabulary(
    counted: ActivityCounts,
    allowance: Allowance,
    changed: Sensitivity,
    randomness: Randomness,
    most_names: int | None = None,
) -> VocabularyDecision:
    """Chooses the activities whose noisy sum of weights reaches the threshold.

    Args:
        counted: What `ActivitiesOfCases` counts, exactly.
        allowance: What the choice may spend.
        changed: What one unit changes of the sums.
        randomness: The release's.
        most_names: Of more, OTHER included, those with the largest noisy sums are kept, and of
            equal ones the first by name: what comes after could not be refused without telling of
            the log. None: all are kept.
    """
    stream = CellStream(randomness, "activity", randomness.identify("activity", counted.names))
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


# From 1 to 10,000 in steps of about a tenth, each whole.
_LONGEST_TRACE = 10_000


@dataclass(frozen=True)
class LengthDecision(contract.Decision):
    """The length that was bought.

    Attributes:
        max_trace_length: In events.
    """

    wire_name: ClassVar[str] = "bought-length"

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
    return np.unique(np.rint(elementary.power(_GRID_RATIO, np.arange(n_steps))).astype(np.int64))


def choose_length(
    lengths: TraceLengths,
    allowance: Allowance,
    quantile: Fraction,
    max_units: int,
    randomness: Randomness,
) -> LengthDecision:
    """Chooses a length that about a share `quantile` of the cases does not exceed.

    The shortest of the grid that no more than the rest of the noisy number of cases exceeds; how
    many exceed each is known with noise as in `clip_by_rank`.
    """
    grid = length_grid()
    noise = allowance.noise(changed_ranks(len(grid) + 1, max_units), RANK_UNITS)
    longer = noisy_cases_from(lengths.histogram(grid), noise, randomness, "length")
    rest = float(1 - quantile) * max(float(longer[0]), 0.0)
    places = np.flatnonzero(longer[1:] <= rest)
    return LengthDecision(int(grid[places[0]] if len(places) else grid[-1]))


def within_length(traces: TraceBatch, decisions: contract.Decisions) -> TraceBatch:
    """Returns the traces cut at the length that was bought, if one was; else as they are."""
    if "length" not in decisions:
        return traces
    return traces.truncate(decisions["length"].max_trace_length)


def choice_part(
    name: str,
    sentence: str,
    decide: Callable[[Given], Any],
    counters: Mapping[str, contract.Counter],
    share: Fraction,
    round_name: str = "",
) -> Part:
    """Returns a part that chooses something without a delta.

    Args:
        name: What is chosen; the name of its round too, unless one is given.
        sentence: What it does.
        decide: Chooses.
        counters: What is counted for it.
        share: Of epsilon.
        round_name: Where it is chosen.
    """
    needs, chosen = (Choice(name, share),), name.replace("_", " ")
    return Part(
        name, needs, lambda means: sentence, decide, counters, round_name or name, chosen=chosen
    )


def vocabulary_part(
    max_activities: int,
    max_units: int,
    what_else: str = "",
    share: Fraction = VOCABULARY_SHARE,
    round_name: str = "vocabulary",
    most_names: int | None = None,
) -> Part:
    """Returns the part that buys the vocabulary.

    Args:
        max_activities: Distinct activities of a case that count.
        max_units: Cases of one unit.
        what_else: Said after the sentence.
        share: See `Sums`.
        round_name: Where it is bought.
        most_names: That can be counted by, OTHER included; None: any number.
    """
    changed = changed_names(max_activities, max_units)

    def sentence(means: Means) -> str:
        at_most = "" if most_names is None else f", the {most_names - 1:,} most frequent at most"
        found = names_found(means["vocabulary"], max_activities, max_units)
        return f"chooses {found}{at_most}{what_else}"

    def decide(given: Given) -> VocabularyDecision:
        counted, own = given.statistics["activities"], given.means["vocabulary"]
        return choose_vocabulary(counted, own, changed, given.randomness, most_names)

    needs = (Sums("vocabulary", share, changed, NAME_UNITS, is_open=True, is_l2=True),)
    counters = {"activities": ActivitiesOfCases(max_activities)}
    return Part("vocabulary", needs, sentence, decide, counters, round_name, chosen="vocabulary")


def least_cases(allowance: Allowance, changed: Sensitivity) -> int:
    """Returns from how many cases on what nobody declared is about to be released."""
    return math.ceil(allowance.threshold(changed) / allowance.noise(changed).units)


def length_part(quantile: Fraction, max_units: int, verb: str, round_name: str = "length") -> Part:
    """Returns the part that buys the length at which cases are cut.

    Args:
        quantile: Share of the cases that it shall not cut.
        max_units: Cases of one unit.
        verb: What the cases of that share do, in words.
        round_name: Where it is bought.
    """

    def decide(given: Given) -> LengthDecision:
        lengths: TraceLengths = given.statistics["lengths"]
        return choose_length(lengths, given.means["length"], quantile, max_units, given.randomness)

    share = decimal_text(quantile)
    sentence = f"chooses the length that about a share of {share} of the cases {verb}"
    counters = {"lengths": LengthsOfCases()}
    changed = changed_ranks(len(length_grid()) + 1, max_units)
    needs = (Sums("length", LENGTH_SHARE, changed, RANK_UNITS, is_l2=True),)
    return Part(
        "length", needs, lambda means: sentence, decide, counters, round_name, chosen="length"
    )

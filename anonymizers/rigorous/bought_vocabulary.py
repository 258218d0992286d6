"""The activities that a method chooses on the log, and pays for with a part of the budget.

A case of j distinct activities, at most k, adds sqrt(k / j) to each of them: a vector of norm
sqrt(k) whatever j is, where to count each once would leave the norm of most cases far below what
the noise covers. An activity of cases with few others stands out of the noise as if k were their
number of activities, so k can be generous.

The threshold for an activity that one unit alone has is hardly higher than with counts. With m
cases a unit adds m sqrt(k) to a name at most, and has m k names at most; so each of its new names
passes with probability delta / (m k) at most. The rest of the unit has no more of the block's norm
than `joint.Unseen` says of m k cells: if a_c of the j_c names of its case c are new, what
is left of the case's vector has a squared norm of k (1 - a_c / j_c) <= k - a_c, what is left of all
has one of at most m sum (k - a_c) by Cauchy and Schwarz, and that is at most (m k - a) / (m k) of
m^2 k, since the number a of all new names is at most sum a_c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.bounding import distinct_activities
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.budget import Allowance, Means, Sums
from tracecloak.anonymizers.rigorous.params import VOCABULARY_SHARE
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.statistics.variants import ActivityCounts

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
    of_number = [0, *(math.isqrt(squared // j) for j in range(1, max_activities + 1))]
    return np.array(of_number, np.int64)[n_names]


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
    text = f"activities of about {math.ceil(least):,} cases or more"
    if few == max_activities:
        return text
    fewer = math.ceil(least * math.sqrt(few / max_activities))
    return (
        f"{text} where a case has {max_activities} distinct ones, and of {fewer:,} where it has "
        f"{few}"
    )


@dataclass(frozen=True)
class VocabularyDecision(contract.Decision):
    """The vocabulary that was bought.

    Attributes:
        vocabulary: The chosen names, and OTHER for all others.
    """

    wire_name: ClassVar[str] = "bought-vocabulary"

    vocabulary: ActivityVocabulary


def activities_of_cases(batch: Batch, max_activities: int) -> ActivityCounts:
    """Counts the weights of cases by activity, each case for at most so many of its activities.

    In lattice steps, see `weights_of_names`.
    """
    traces = batch.traces
    cases, codes = distinct_activities(traces, max_activities, batch.randomness.of_units)
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
        names = likely_names(means["vocabulary"], max_activities, max_units)
        return f"chooses {names}{at_most}{what_else}"

    def decide(given: Given) -> VocabularyDecision:
        counted, allowance = given.statistics["activities"], given.means["vocabulary"]
        return choose_vocabulary(counted, allowance, changed, given.randomness, most_names)

    needs = (Sums("vocabulary", share, changed, NAME_UNITS, is_open=True, is_l2=True),)
    counters = {"activities": Counted(ActivityCounts, activities_of_cases, (max_activities,))}
    return Part("vocabulary", needs, sentence, decide, counters, round_name, chosen="vocabulary")

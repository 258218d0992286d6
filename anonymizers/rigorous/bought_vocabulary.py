"""The activities that a method chooses on the log, and pays for with a part of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.sensitivity import (
    Sensitivity,
)
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.bounding import distinct_activities
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.budget import Allowance, Means, Sums
from tracecloak.anonymizers.rigorous.params import VOCABULARY_SHARE
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.rigorous.weighted_names import (
    NAME_UNITS,
    changed_names,
    likely_names,
    weights_of_names,
)
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.statistics.activity_counts import ActivityCounts


@dataclass(frozen=True)
class VocabularyDecision(contract.Decision):
    """The vocabulary that was bought.

    Attributes:
        vocabulary: The chosen names, and OTHER for all others.
    """

    wire_name: ClassVar[str] = "bought-vocabulary"

    vocabulary: ActivityVocabulary


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
        counted: What `ActivitiesOfCases` counts, exactly.
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
    counters = {"activities": ActivitiesOfCases(max_activities)}
    return Part("vocabulary", needs, sentence, decide, counters, round_name, chosen="vocabulary")

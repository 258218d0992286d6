"""By what times are counted: by activity and variant, or of all cases alike.

Suppose that a log has 400 activities and 1,000 cases. It has 160,000 pairs of activities, and at
epsilon 1 the noise on the times of each is larger than what any pair has. Counted by pair, times
would take most of the budget and say nothing. Of all cases alike, a twentieth of it says how long
steps take, and the variants have what is left.

Which of the two it is follows from public numbers alone, so what a release spends is known before
anything is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.joint import joint_deviation
from tracecloak.anonymizers.times.case_classes import NO_CLASSES, CaseClasses
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants

TimesBy = Literal["activity", "case"]

_ONE = ActivityVocabulary(pa.array(["any"]))
# As many cases are taken for usual where no number is declared, and with so few names times are
# then counted by activity whatever the noise: a log of few names can be of any size.
_USUAL_CASES, _FEW_NAMES = 3_000, 100
# A case is taken to have at most so many events, and about three pairs for each activity to be not
# rare; the times of a pair lie in about four bins.
_USUAL_EVENTS, _PAIRS_OF_NAME, _BINS_OF_PAIR = 50, 3, 4
# What the times of steps have of the budget where they are counted by activity, and in how many
# cells a step counts.
_SHARE, _CELLS_OF_STEP = 0.2, 3


def times_by(
    n_names: int,
    n_cases: int | None,
    max_length: int | None,
    budget: tuple[Fraction, Fraction],
    max_units: int,
) -> TimesBy:
    """Returns by what times are counted: by case where noise would hide those of most pairs.

    N cases of l events have each of 3 n pairs about N l / 3n times, in four bins. Their vectors
    have a norm of about the root of 3 l, and noise is in proportion to it. Where the count of a bin
    is below one deviation of the noise, times by pair are lost.

    Args:
        n_names: n, declared activities.
        n_cases: N, as it was declared; None: it was not.
        max_length: Declared events of a case; None: any number.
        budget: Epsilon and delta, the latter above 0.
        max_units: Cases of one unit.
    """
    if n_cases is None and n_names <= _FEW_NAMES:
        return "activity"
    try:
        deviation = float(joint_deviation(*budget))
    except UsageError:  # so little that nothing is drawn anyhow
        return "activity"
    n_steps = min(_USUAL_EVENTS, n_names, max_length or _USUAL_EVENTS)
    of_pair = (n_cases or _USUAL_CASES) * n_steps / (_PAIRS_OF_NAME * n_names)
    noise = deviation * max_units * math.sqrt(_CELLS_OF_STEP * n_steps / _SHARE)
    return "activity" if of_pair / _BINS_OF_PAIR >= noise else "case"


@dataclass(frozen=True)
class Detail:
    """How cases are looked at where their times are counted and drawn.

    Attributes:
        by: "activity": as they are. "case": as if all events were of one activity, and all cases of
            one class.
    """

    by: TimesBy

    @property
    def is_of_all(self) -> bool:
        """Whether all cases are alike."""
        return self.by == "case"

    def cases(self, traces: TraceBatch) -> TraceBatch:
        """Returns the cases, with one activity in place of all where these are alike."""
        if not self.is_of_all:
            return traces
        return replace(traces, activities=np.zeros_like(traces.activities), vocabulary=_ONE)

    def names(self, vocabulary: ActivityVocabulary) -> ActivityVocabulary:
        """Returns the activities that times are counted by."""
        return _ONE if self.is_of_all else vocabulary

    def classes(self, released: ReleasedVariants, vocabulary: ActivityVocabulary) -> CaseClasses:
        """Returns the classes that cases are counted by.

        Args:
            released: The released variants, the most frequent first.
            vocabulary: The activities of the release.
        """
        if not self.is_of_all:
            return CaseClasses.of(released, vocabulary)
        return replace(NO_CLASSES, sizes=np.array([released.n_cases], np.int64))


BY_ACTIVITY = Detail("activity")
"""As they are."""

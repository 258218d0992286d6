"""What class a case is of: its variant, if that is a frequent one, else its last activity.

Which steps a case takes says much of when it begins and how long it takes: a fine that is paid at
once takes a day, one that goes to court takes years. Classes follow from the released variants, so
they are known before anything is counted by them.

By what times are counted: by activity and variant, or of all cases alike.

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
import pyarrow.compute as pc

from tracecloak.anonymizers.accounting.joint import joint_deviation
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.arrays.sequences import decode_sequences, encode_sequences
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants

MOST_VARIANTS = 40
"""So many variants are classes of their own, the most frequent ones."""

LONGEST_VARIANT = 100
"""Events of such a variant at most; so what is counted by its places has a bounded size."""


@dataclass(frozen=True, eq=False)
class CaseClasses:
    """The classes: c < n_variants is that of a variant, n_variants + a of cases that end with a.

    Attributes:
        variants: The variants that are classes, encoded by the vocabulary.
        offsets: int64[n_variants+1], where their events begin, one variant after the other.
        sizes: int64[n_classes], how many released cases are of each.
    """

    variants: pa.Array
    offsets: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, released: ReleasedVariants, vocabulary: ActivityVocabulary) -> CaseClasses:
        """Takes the most frequent of the released variants that are short enough.

        Args:
            released: The variants, the most frequent first.
            vocabulary: The activities.
        """
        short = np.flatnonzero(np.diff(released.offsets) <= LONGEST_VARIANT)[:MOST_VARIANTS]
        few, code_of_name = released.take(short), vocabulary.codes(released.names)
        last = code_of_name[released.codes[released.offsets[1:] - 1]].astype(np.int64)
        classes = len(short) + last
        classes[short] = np.arange(len(short))
        sizes = sum_groups(classes, released.counts.astype(np.int64), len(short) + len(vocabulary))
        return cls(encode_sequences(few.offsets, code_of_name[few.codes]), few.offsets, sizes)

    @property
    def n_variants(self) -> int:
        """Number of classes that are a variant."""
        return len(self.variants)

    @property
    def size(self) -> int:
        """Number of classes."""
        return len(self.sizes)

    @property
    def n_places(self) -> int:
        """Number of places in the variants that are classes; see `places`."""
        return int(self.offsets[-1])

    def of_cases(self, traces: TraceBatch) -> np.ndarray:
        """Returns int64[n_cases], the class of each case; all are over the vocabulary."""
        sequences = encode_sequences(traces.offsets, traces.activities)
        places = pc.index_in(sequences, value_set=self.variants)
        last = traces.activities[traces.offsets[1:] - 1].astype(np.int64)
        return np.where(
            np.asarray(pc.is_valid(places)),
            np.asarray(pc.fill_null(places, 0)).astype(np.int64),
            self.n_variants + last,
        )

    def pairs(self, n_names: int) -> np.ndarray:
        """Returns int64[n_places], of the step to each place n times its source plus its target.

        A first place, to which no step leads, has 0.

        Args:
            n_names: n, number of activities.
        """
        codes = decode_sequences(self.variants)[1].astype(np.int64)
        pairs = np.append(0, codes[:-1])[: len(codes)] * n_names + codes
        pairs[self.offsets[:-1]] = 0
        return pairs

    def places(self, classes: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns int64[n], the place of each event in the variants that are classes, or -1.

        Args:
            classes: int64[n], of its case.
            positions: int64[n], of the event in its case.
        """
        is_variant = classes < self.n_variants
        begins = self.offsets[np.where(is_variant, classes, 0)]
        return np.where(is_variant, begins + positions, -1)


NO_CLASSES = CaseClasses(
    pa.array([], pa.large_binary()), np.zeros(1, np.int64), np.zeros(0, np.int64)
)
"""None; all cases are of the class of their last activity."""


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
    cases_of_pair = (n_cases or _USUAL_CASES) * n_steps / (_PAIRS_OF_NAME * n_names)
    noise = deviation * max_units * math.sqrt(_CELLS_OF_STEP * n_steps / _SHARE)
    return "activity" if cases_of_pair / _BINS_OF_PAIR >= noise else "case"


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

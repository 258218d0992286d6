"""What class a case is of: its variant, if that is a frequent one, else its last activity.

Which steps a case takes says much of when it begins and how long it takes: a fine that is paid at
once takes a day, one that goes to court takes years. Classes follow from the released variants, so
they are known before anything is counted by them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.arrays.sequences import decode_sequences, encode_sequences
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
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

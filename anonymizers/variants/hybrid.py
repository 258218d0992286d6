"""`hybrid-log`: frequent variants from a stability histogram, the other cases from a Markov chain.

Half of the budget publishes the variants whose noisy number of cases reaches a threshold. The other
half is for a Markov chain of all cases, as of `markov-log`; its walks stand for the cases of
variants that were not published.

The chain is one of all cases and not of those of unpublished variants, which would be as private:
these are few where the histogram published most, too few to be seen through the noise, and then
walks through a chain of noise took their places. What frequent and rare variants have in common is
seen among all cases, and a walk that comes out as a published variant is left out.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.budget import Means, Need, Sums, least_cases, scaled
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.markov import MarkovVariants
from tracecloak.anonymizers.variants.stable_variants import released, stable_variants
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

_HALF = Fraction(1, 2)


def joined(
    published: VariantHistogram, drawn: ReleasedVariants, vocabulary: ActivityVocabulary
) -> ReleasedVariants:
    """Returns published variants, and drawn ones in place of all cases that are not of these.

    Drawn variants that were published are left out; the counts of the others are scaled to what
    the published ones lack to the number of drawn cases.

    Args:
        published: Variants in the codes of the vocabulary, counts noisy.
        drawn: Variants drawn for all cases.
        vocabulary: What the codes mean.
    """
    codes = vocabulary.codes(drawn.names)[drawn.codes]
    sequences = encode_sequences(drawn.offsets, codes)
    is_new = ~np.asarray(pc.is_in(sequences, value_set=published.sequences), bool)
    ends = np.cumsum(drawn.counts[is_new])
    missing = max(0, drawn.n_cases - published.n_cases)
    if len(ends):  # differences of rounded sums, which add up to what is missing
        ends = np.floor(ends * (missing / ends[-1]) + 0.5).astype(np.int64)
    counts = np.diff(ends, prepend=0)
    both = VariantHistogram.from_sequences(
        pa.concat_arrays([published.sequences, sequences.filter(pa.array(is_new))]),
        np.concatenate([published.counts, counts]),
    )
    return released(both, vocabulary)


class HybridVariants:
    """The generator `hybrid-log`; see the module."""

    name: ClassVar[str] = "hybrid-log"
    summary: ClassVar[str] = "frequent variants with noisy counts, other cases from a Markov chain"
    version: ClassVar[int] = 2
    is_pure: ClassVar[bool] = False
    takes_whole_cases: ClassVar[bool] = True
    shares_by_case: ClassVar[bool] = True
    most_names: ClassVar[int | None] = MarkovVariants.most_names
    reality: ClassVar[str] = (
        "The variants are released whose number of cases with exact discrete noise reaches a "
        "threshold, which one unit's own variants pass with a probability that delta covers. All "
        "cases are counted once more as by markov-log; which of the cases drawn from the chain are "
        "kept follows from what was released."
    )

    def __init__(self) -> None:
        """Has a Markov generator for its second half."""
        self._markov = MarkovVariants(f"{self.name}/chain")

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what the histogram and the chain need."""
        one = of_one_cell(max_units)
        return (
            Sums(f"{self.name} histogram", _HALF, one, is_open=True),
            *scaled(self._markov.needs(max_units, max_length), 1 - _HALF),
        )

    def explain(self, means: Means, max_units: int) -> str:
        """Returns what it does and the error to expect."""
        least = least_cases(means[f"{self.name} histogram"], of_one_cell(max_units))
        return (
            f"releases variants of at least {least:,} noisy cases; for the others, "
            f"{self._markov.explain(means, max_units)}"
        )

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Means, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns published variants with noisy counts and drawn ones."""
        allowance, prefix = means[f"{self.name} histogram"], f"{self.name}/histogram"
        published = stable_variants(counted, allowance, domain.max_units, randomness, prefix)
        drawn = self._markov.answer(counted, domain, means, randomness)
        return joined(published, drawn, domain.vocabulary)

"""A stability histogram as a generator: variants frequent enough, with noisy counts.

What `variant-histogram` releases, for methods that make more of it; see there.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.budget import Allowance, Means, Need, Sums, least_cases
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.variants import VariantHistogram

_MAX_COUNT = 1 << 40
CLEARLY_SHOWN = 4
"""At so many thresholds the last of `numbered_cases` begins."""


def numbered_cases(counted: VariantHistogram, threshold: int) -> np.ndarray:
    """Returns int64[3], cases by their number among those of their variant.

    Below the threshold, from it on, and from four times the threshold on. One case more adds 1 to
    one of them.
    """
    begins = np.array([1, threshold, CLEARLY_SHOWN * threshold])
    beyond = np.maximum(counted.counts[:, None] - (begins - 1), 0).sum(axis=0)
    return -np.diff(beyond, append=0)


def stable_variants(
    counted: VariantHistogram,
    allowance: Allowance,
    max_units: int,
    randomness: Randomness,
    prefix: str,
) -> VariantHistogram:
    """Returns the variants whose noisy counts reach a threshold, with these counts.

    See `budget.Allowance.threshold`.

    Args:
        counted: Exact counts.
        allowance: What the histogram may spend.
        max_units: Cases of one unit.
        randomness: The release's.
        prefix: What the purposes begin with.
    """
    cells = randomness.identify(f"{prefix}/variant", counted.sequences)
    changed = of_one_cell(max_units)
    noise = allowance.noise(changed)
    noisy = counted.counts * noise.units + noise.draw(
        CellStream(randomness, f"{prefix}/count", cells)
    )
    is_kept = noisy >= allowance.threshold(changed)
    counts = np.rint(noisy[is_kept] / noise.units).astype(np.int64)
    return VariantHistogram(
        counted.sequences.filter(pa.array(is_kept)), np.clip(counts, 1, _MAX_COUNT)
    )


def released(variants: VariantHistogram, vocabulary: ActivityVocabulary) -> ReleasedVariants:
    """Returns noisy variants in the form of a release, without intervals."""
    return most_frequent_first(vocabulary.names, variants.offsets, variants.codes, variants.counts)


class StableVariants:
    """The generator `variant-histogram`; see the module."""

    name: ClassVar[str] = "variant-histogram"
    summary: ClassVar[str] = "variants with noisy counts above a threshold"
    is_pure: ClassVar[bool] = False
    takes_whole_cases: ClassVar[bool] = True
    shares_by_case: ClassVar[bool] = True
    most_names: ClassVar[int | None] = None
    reality: ClassVar[str] = (
        "Exact discrete noise on the number of cases of each variant; the variants of one unit "
        "alone reach the threshold with a probability that delta covers. No variant is invented."
    )

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what the counts need."""
        return (Sums("variants", Fraction(1), of_one_cell(max_units), is_open=True),)

    def explain(self, means: Means, max_units: int) -> str:
        """Returns what it does and what is lost."""
        least = least_cases(means["variants"], of_one_cell(max_units))
        return f"releases variants of at least {least:,} noisy cases"

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Means, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns the variants above the threshold, without intervals."""
        stable = stable_variants(
            counted, means["variants"], domain.max_units, randomness, self.name
        )
        return released(stable, domain.vocabulary)

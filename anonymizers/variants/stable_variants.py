"""A stability histogram as a generator: variants frequent enough, with noisy counts.

What `variant-histogram` releases, for methods that make more of it; see there.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.calibration import laplace_scale, stability_threshold
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.params import drawable
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.variants import VariantHistogram

_MAX_COUNT = 1 << 40


def stable_variants(
    counted: VariantHistogram,
    epsilon: Fraction,
    delta: Fraction,
    max_units: int,
    randomness: Randomness,
    prefix: str,
) -> VariantHistogram:
    """Returns the variants of a stability histogram with noisy counts; (epsilon, delta)-DP.

    See `anonymizers.accounting.calibration.stability_threshold`.

    Args:
        counted: Exact counts.
        epsilon: Of the histogram.
        delta: Of the histogram, above 0.
        max_units: Cases of one unit.
        randomness: The release's.
        prefix: What the purposes begin with.
    """
    cells = randomness.identify(f"{prefix}/variant", counted.sequences)
    stream = CellStream(randomness, f"{prefix}/count", cells)
    scale = drawable(laplace_scale(epsilon, of_one_cell(max_units)))
    noisy = counted.counts + draw_laplace(stream, *scale)
    kept = noisy >= stability_threshold(epsilon, delta, max_units)
    return VariantHistogram(
        counted.sequences.filter(pa.array(kept)), np.minimum(noisy[kept], _MAX_COUNT)
    )


def released(variants: VariantHistogram, vocabulary: ActivityVocabulary) -> ReleasedVariants:
    """Returns noisy variants in the form of a release, without intervals."""
    return most_frequent_first(vocabulary.names, variants.offsets, variants.codes, variants.counts)


class StableVariants:
    """The generator `variant-histogram`; see the module."""

    name: ClassVar[str] = "variant-histogram"
    summary: ClassVar[str] = "variants with noisy counts above a threshold"
    is_pure: ClassVar[bool] = False
    most_names: ClassVar[int | None] = None
    reality: ClassVar[str] = (
        "Exact discrete Laplace noise on the number of cases of each variant; a variant of one "
        "unit alone reaches the threshold with probability at most delta. No variant is invented."
    )

    def spends(self, epsilon: Fraction, delta: Fraction, max_units: int) -> tuple[Spend, ...]:
        """Returns the one part.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        scale = drawable(laplace_scale(epsilon, of_one_cell(max_units)))
        return (Spend("variants", "discrete_laplace", epsilon, delta, scale, max_units),)

    def explain(self, epsilon: Fraction, delta: Fraction, max_units: int) -> str:
        """Returns what it does and what is lost."""
        least = stability_threshold(epsilon, delta, max_units)
        return f"releases variants of at least {least:,} noisy cases"

    def answer(
        self,
        counted: VariantHistogram,
        domain: Domain,
        epsilon: Fraction,
        delta: Fraction,
        randomness: Randomness,
    ) -> ReleasedVariants:
        """Returns the variants above the threshold, without intervals."""
        units = domain.max_units
        kept = stable_variants(counted, epsilon, delta, units, randomness, self.name)
        return released(kept, domain.vocabulary)

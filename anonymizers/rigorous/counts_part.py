"""A part that counts the cells of a public list, each with noise and an interval.

The cells are known beforehand, such as the activities of a public vocabulary, and each of them gets
noise, also those that nothing is counted of: that one is missing would tell of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.sums import noisy_sums
from tracecloak.anonymizers.rigorous.budget import Means, Sums
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first

# Larger noisy counts are lowered to this, so that the sum of all fits 64 bits.
_LARGEST_COUNT = 1 << 40


@dataclass(frozen=True)
class NoisyCounts(contract.Decision):
    """Counts of known cells with noise.

    Attributes:
        counts: int64[n], in occurrences; negative ones too.
        half_width: Half the interval around each that holds what was counted with probability
            0.95, in occurrences.
    """

    wire_name: ClassVar[str] = "noisy-counts"

    counts: np.ndarray
    half_width: int

    def of_activities(self, names: pa.Array) -> ReleasedVariants:
        """Returns those above 0 as variants of one activity each, with intervals.

        Args:
            names: string[n], the activity of each cell.
        """
        n = len(names)
        offsets, codes = np.arange(n + 1), np.arange(n, dtype=np.int32)
        counts = np.clip(self.counts, 0, _LARGEST_COUNT)
        return most_frequent_first(names, offsets, codes, counts, self.half_width)


def counts_part(
    need: Sums,
    counters: Mapping[str, contract.Counter],
    exact: Callable[[Mapping[str, Any]], np.ndarray],
    counted: str,
    reality: str,
) -> Part:
    """Returns a part, in a round of its own, that decides `NoisyCounts`.

    Args:
        need: What one unit changes of the counts, and their share of the budget. Its name is that
            of the part, of its round and of its noise.
        counters: What is counted of the log, by name.
        exact: From the totals of these to int64[n], the exact count of each cell.
        counted: What is counted, in words, such as "cases by last activity".
        reality: By how much one unit changes the counts at most, and why, in a sentence.
    """

    def sentence(means: Means) -> str:
        noise = means[need.name].noise(need.changed, need.units)
        kind = "Laplace" if noise.is_laplace else "Gaussian"
        return (
            f"counts {counted}, and adds discrete {kind} noise to each number; expect each within "
            f"{noise.half_width:,} of what is counted (95 %)"
        )

    def decide(given: Given) -> NoisyCounts:
        noise = given.means[need.name].noise(need.changed, need.units)
        sums = exact(given.statistics) * noise.units
        noisy = noisy_sums(sums, noise, need.name, np.arange(len(sums)), given.randomness)
        counts = (2 * noisy + noise.units) // (2 * noise.units)  # to the nearest
        return NoisyCounts(counts, noise.half_width)

    covered = f"{reality} Exact discrete noise on every number covers that."
    return Part(need.name, (need,), sentence, decide, counters, need.name, covered)

"""Methods that claim what they do not keep, each for one reason. An audit must catch all of them.

They are the registered methods with other noise, or with a threshold that is too low; whatever else
they do is right. Their noise is keyed like the right one, but for the one that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support import broken_noise
from tests.support.trees import exact_ends
from tracecloak.anonymizers.contract.method import Anonymizer, Decision
from tracecloak.anonymizers.noise.samplers import CellStream, Noise
from tracecloak.anonymizers.rigorous.parts_method import Given
from tracecloak.anonymizers.trees.cuts import Relation, TreeBuilder, cases_with_pair
from tracecloak.anonymizers.trees.process_tree import (
    ProcessTreeMiner,
    ProcessTreeParams,
    TreeDecision,
)
from tracecloak.anonymizers.variants.method import VariantHistogramMethod, VariantHistogramParams
from tracecloak.examination.attack.releases import SumRecorder
from tracecloak.schemas.published.graph import ReleasedTree

# (stream, numerator, denominator of the scale that the guarantee demands) -> noise of each row.
Sampler = Callable[[CellStream, int, int], np.ndarray]


def keyed(sampler: broken_noise.Sampler) -> Sampler:
    """Draws what a sampler draws, from the words of the stream."""

    def draw(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
        words = stream.words(np.arange(len(stream)))
        return sampler(np.random.default_rng(words.ravel()), numerator / denominator, len(stream))

    return draw


def reused(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
    """The same numbers under every key."""
    return broken_noise.right(np.random.default_rng(0), numerator / denominator, len(stream))


NOISES: Mapping[str, Sampler] = {
    **{name: keyed(sampler) for name, sampler in broken_noise.BROKEN.items()},
    "reused": reused,
}


@dataclass(frozen=True)
class LaplaceBy(Noise):
    """Draws Laplace noise by a sampler, and tells another of the sums."""

    given: SumRecorder
    sampler: Sampler

    def laplace(self, stream: CellStream, *scale: Any) -> np.ndarray:
        return self.sampler(stream, *scale)

    def made(self, *given: Any) -> None:
        self.given.made(*given)


def variant_histogram_with(sampler: Sampler) -> Anonymizer:
    """Returns `variant-histogram` with this noise on its counts."""

    class Broken(VariantHistogramMethod):
        def decide(self, *given: Any) -> Any:
            noise = LaplaceBy(given[-1].noise, sampler)
            return super().decide(*given[:-1], given[-1].with_noise(noise))

    return Broken()


class MinerOfTheExactLog(ProcessTreeMiner):
    """`process-tree` that mines what is in the log, and claims epsilon all the same."""

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: ProcessTreeParams
    ) -> Decision:
        decision = super().combined(round_name, decided, given, params)
        if not isinstance(decision, TreeDecision):
            return decision
        names, variants = decision.tree.names, given.statistics["variants"]
        counts = cases_with_pair(variants, len(names))
        relation = Relation(counts, counts > 0)
        ends = exact_ends(variants, len(names))
        # The counts are exact, so one that is larger by any number of cases is taken as larger.
        exact = TreeBuilder(relation, names.to_pylist(), 0.5, ends, "structural").tree()
        return TreeDecision(ReleasedTree(names, str(exact), True, None))


class LowThresholdParams(VariantHistogramParams):
    """The same parameters with a threshold that lone cases pass."""

    @property
    def threshold(self) -> int:
        return 2


class LowThreshold(VariantHistogramMethod):
    """A variant of one case is released with probability e^-epsilon / (1 + e^-epsilon)."""

    Params = LowThresholdParams

"""What begins and ends the parts of parallel and loop cuts, asked of the log from one budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.trees.counts import Part
from tracecloak.anonymizers.trees.cuts import PartEnds, Relation
from tracecloak.anonymizers.trees.questions import (
    HalvedBudget,
    NoisyEnds,
    clearly_above_zero,
    noisy_ends,
    scale_of,
)
from tracecloak.schemas.models.process_tree import Operator
from tracecloak.schemas.statistics.variants import VariantHistogram

# A question is asked only if the least number that is clearly above its noise is at most this share
# of the cases.
_MOST_NOISE = 0.25


class AskedEnds:
    """Answers the questions of all candidates from one budget; what was asked once is kept."""

    def __init__(
        self,
        variants: VariantHistogram,
        budget: HalvedBudget | None,
        max_units: int,
        randomness: Randomness,
    ) -> None:
        """Has the log, which is looked at with noise alone.

        Args:
            variants: Of the log, exact.
            budget: What all questions together may spend; None: none is asked.
            max_units: Cases of one unit.
            randomness: The release's.
        """
        self._variants = variants
        self._budget = budget
        self._max_units = max_units
        self._randomness = randomness
        self._known: dict[tuple[Part, ...], tuple[NoisyEnds, float]] = {}

    def of(
        self, relation: Relation
    ) -> Callable[[Operator, Sequence[Part], int], Sequence[PartEnds]]:
        """Returns what the miner of a relation asks."""
        n = relation.n_activities
        starts, ends = relation.holds[n, :n], relation.holds[:n, n]
        n_cases = int(relation.counts[n, :n][starts].sum())

        def answer(operator: Operator, parts: Sequence[Part], depth: int) -> list[PartEnds]:
            known = self._asked(tuple(part for part in parts if len(part) > 1), n, n_cases)
            return [
                PartEnds(
                    _clear(part, starts, known and (known[0].starts, known[1])),
                    _clear(part, ends, known and (known[0].ends, known[1])),
                )
                for part in parts
            ]

        return answer

    def _asked(
        self, parts: tuple[Part, ...], n: int, n_cases: int
    ) -> tuple[NoisyEnds, float] | None:
        """The noisy counts and what is clearly above 0; None where it is not worth asking."""
        if parts in self._known or not parts or self._budget is None:
            return self._known.get(parts)
        scale = scale_of(self._budget.peek(), len(parts), self._max_units)
        if clearly_above_zero(scale) > _MOST_NOISE * n_cases:
            return None
        self._budget.draw()
        purpose = f"process-tree/ends/{len(self._known)}"
        counts = noisy_ends(self._variants, n, parts, scale, self._randomness, purpose)
        self._known[parts] = counts, clearly_above_zero(scale)
        return self._known[parts]


def _clear(
    part: Part, in_relation: np.ndarray, known: tuple[np.ndarray, float] | None
) -> frozenset[int]:
    """Activities of a part that clearly begin or end it, or those of the relation if none does."""
    if known is not None:
        counts, threshold = known
        clear = frozenset(code for code in part if counts[code] >= threshold)
        if clear:
            return clear
    return frozenset(code for code in part if in_relation[code])

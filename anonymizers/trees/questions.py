"""Noisy answers to which activities begin and end the parts of a cut, and what all answers cost.

A miner that works on a directly-follows relation does not know which activities come first and last
within a part of a parallel or loop cut. DetectS_E of DPIM (Schulze, Zisgen, Kirschke, Mohammadi and
Koschmider, "Differentially Private Inductive Miner", algorithm 5) counts it on the log projected to
the parts, with Laplace noise, and takes what is clearly above 0.

The cost of a question is halved from one to the next, so that any number of them stays within a
budget. In the paper it is halved along each path of the tree: cuts beside each other each spend as
much, and together more than the budget. Here the halving goes over all questions that are asked.

What begins and ends the parts of parallel and loop cuts, asked of the log from one budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import of_distinct_cells
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.trees.counts import Part, cases_by_ends
from tracecloak.anonymizers.trees.cuts import EndsOfParts, PartEnds, Relation
from tracecloak.schemas.models.process_tree import Operator
from tracecloak.schemas.statistics.variants import VariantHistogram


def noisy_ends(
    variants: VariantHistogram,
    n_activities: int,
    parts: Sequence[Part],
    scale: tuple[int, int],
    randomness: Randomness,
    purpose: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[n] twice, noisy numbers of cases by the first and last event of a part.

    Every activity of the parts has noise; those of no part stay 0.

    Args:
        variants: Of the log.
        n_activities: n.
        parts: Disjoint, of codes.
        scale: Of discrete Laplace noise; `scale_of` gives it.
        randomness: The release's.
        purpose: One of its own for each question.
    """
    asked = np.array(sorted(code for part in parts for code in part), np.int64)
    starts, ends = (np.zeros(n_activities, np.int64) for _ in range(2))
    counted = cases_by_ends(variants, n_activities, parts)
    for noisy, exact, which in zip((starts, ends), counted, ("start", "end"), strict=True):
        stream = CellStream(randomness, f"{purpose}/{which}", cell_numbers(asked))
        noisy[asked] = exact[asked] + draw_laplace(stream, *scale)
    return starts, ends


def scale_of(epsilon: Fraction, n_parts: int, max_units: int) -> tuple[int, int]:
    """Returns the scale of the noise of a question that costs epsilon.

    A case more counts once among the starts and once among the ends of each part.

    Args:
        epsilon: Above 0; neighbours differ by one unit more or less.
        n_parts: Parts that are asked about.
        max_units: Cases of one unit.
    """
    return laplace_scale(epsilon, of_distinct_cells(2 * n_parts, max_units))


def clearly_above_zero(scale: tuple[int, int]) -> float:
    """Returns two standard deviations of Laplace noise, sqrt(8) scales: DPIM's threshold."""
    return math.sqrt(8) * scale[0] / scale[1]


def exact_ends(variants: VariantHistogram, n_activities: int) -> EndsOfParts:
    """Answers questions by counting without noise, which is for released logs, and for attacks.

    Args:
        variants: Of the log.
        n_activities: Names of its vocabulary.
    """

    def answer(operator: Operator, parts: Sequence[Part], depth: int) -> list[PartEnds]:
        starts, ends = cases_by_ends(variants, n_activities, parts)
        n_cases = [int(starts[list(part)].sum()) for part in parts]
        return [
            PartEnds(
                frozenset(code for code in part if starts[code]),
                frozenset(code for code in part if ends[code]),
                n_of_part < max(n_cases),
            )
            for part, n_of_part in zip(parts, n_cases, strict=True)
        ]

    return answer


# A question is asked only if the least number that is clearly above its noise is at most this share
# of the cases.
_MOST_NOISE = 0.25


class AskedEnds:
    """Answers the questions of all candidates from one budget; what was asked once is kept."""

    def __init__(
        self,
        variants: VariantHistogram,
        epsilon: Fraction | None,
        max_units: int,
        randomness: Randomness,
    ) -> None:
        """Has the log, which is looked at with noise alone.

        Args:
            variants: Of the log, exact.
            epsilon: What all questions together may spend, of which every one has half of what is
                left, so that they never add up to it; None: none is asked.
            max_units: Cases of one unit.
            randomness: The release's.
        """
        self._variants = variants
        self._epsilon = epsilon
        self._max_units = max_units
        self._randomness = randomness
        self._known: dict[tuple[Part, ...], tuple[np.ndarray, np.ndarray, float]] = {}

    def of(
        self, relation: Relation
    ) -> Callable[[Operator, Sequence[Part], int], Sequence[PartEnds]]:
        """Returns what the miner of a relation asks."""
        n = relation.n_activities
        starts, ends = relation.holds[n, :n], relation.holds[:n, n]
        n_cases = int(relation.counts[n, :n][starts].sum())

        def answer(operator: Operator, parts: Sequence[Part], depth: int) -> list[PartEnds]:
            known = self._asked(tuple(part for part in parts if len(part) > 1), n, n_cases)
            first, last = ((known[0], known[2]), (known[1], known[2])) if known else (None, None)
            return [PartEnds(_clear(p, starts, first), _clear(p, ends, last)) for p in parts]

        return answer

    def _asked(
        self, parts: tuple[Part, ...], n: int, n_cases: int
    ) -> tuple[np.ndarray, np.ndarray, float] | None:
        """The noisy counts and what is clearly above 0; None where it is not worth asking."""
        if parts in self._known or not parts or self._epsilon is None:
            return self._known.get(parts)
        epsilon = self._epsilon / 2 ** (len(self._known) + 1)
        scale = scale_of(epsilon, len(parts), self._max_units)
        if clearly_above_zero(scale) > _MOST_NOISE * n_cases:
            return None
        purpose = f"process-tree/ends/{len(self._known)}"
        counts = noisy_ends(self._variants, n, parts, scale, self._randomness, purpose)
        self._known[parts] = *counts, clearly_above_zero(scale)
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

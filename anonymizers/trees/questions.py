"""Noisy answers to which activities begin and end the parts of a cut, and what all answers cost.

A miner that works on a directly-follows relation does not know which activities come first and last
within a part of a parallel or loop cut. DetectS_E of DPIM (Schulze, Zisgen, Kirschke, Mohammadi and
Koschmider, "Differentially Private Inductive Miner", algorithm 5) counts it on the log projected to
the parts, with Laplace noise, and takes what is clearly above 0.

The cost of a question is halved from one to the next, so that any number of them stays within a
budget. In the paper it is halved along each path of the tree: cuts beside each other each spend as
much, and together more than the budget. Here the halving goes over all questions that are asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import of_distinct_cells
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.trees.counts import Part, cases_by_ends
from tracecloak.anonymizers.trees.cuts import EndsOfParts, PartEnds
from tracecloak.schemas.models.process_tree import Operator
from tracecloak.schemas.statistics.variants import VariantHistogram


@dataclass
class HalvedBudget:
    """A budget of which every draw takes half of what is left: they never add up to all of it.

    Attributes:
        total: Epsilon of all draws together.
        drawn: The draws so far.
    """

    total: Fraction
    drawn: list[Fraction] = field(default_factory=list)

    def peek(self) -> Fraction:
        """Returns what the next draw gives."""
        return self.total / 2 ** (len(self.drawn) + 1)

    def draw(self) -> Fraction:
        """Takes half of what is left."""
        epsilon = self.peek()
        self.drawn.append(epsilon)
        return epsilon


@dataclass(frozen=True)
class NoisyEnds:
    """Noisy numbers of cases.

    Attributes:
        starts: int64[n], by the first of their events of a part.
        ends: int64[n], by the last.
    """

    starts: np.ndarray
    ends: np.ndarray


def noisy_ends(
    variants: VariantHistogram,
    n_activities: int,
    parts: Sequence[Part],
    scale: tuple[int, int],
    randomness: Randomness,
    purpose: str,
) -> NoisyEnds:
    """Counts and adds noise to every activity of the parts; those of no part stay 0.

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
    return NoisyEnds(starts, ends)


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

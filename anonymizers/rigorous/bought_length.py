"""The length at which cases are cut, chosen on the log and paid for with a part of the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.budget import Allowance, Sums
from tracecloak.anonymizers.rigorous.clip_by_rank import (
    RANK_UNITS,
    changed_ranks,
    noisy_cases_from,
)
from tracecloak.anonymizers.rigorous.params import LENGTH_SHARE, LONGEST_CASE
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.statistics.variants import TraceLengths

_GRID_RATIO = 1.1


@dataclass(frozen=True)
class LengthDecision(contract.Decision):
    """The length that was bought.

    Attributes:
        max_trace_length: In events.
    """

    wire_name: ClassVar[str] = "bought-length"

    max_trace_length: int


def _lengths_of_cases(batch: Batch) -> TraceLengths:
    return TraceLengths.from_traces(batch.traces)


LENGTHS_OF_CASES = Counted(TraceLengths, _lengths_of_cases)
"""Cases by number of events."""


def length_grid() -> np.ndarray:
    """Returns int64[n], ascending lengths that a cut is chosen from.

    From 1 to `LONGEST_CASE` in steps of about a tenth, each whole.
    """
    n_steps = math.ceil(math.log(LONGEST_CASE) / math.log(_GRID_RATIO)) + 1
    return np.unique(np.rint(elementary.power(_GRID_RATIO, np.arange(n_steps))).astype(np.int64))


def choose_length(
    lengths: TraceLengths,
    allowance: Allowance,
    quantile: Fraction,
    max_units: int,
    randomness: Randomness,
) -> LengthDecision:
    """Chooses a length that about a share `quantile` of the cases does not exceed.

    The shortest of the grid that no more than the rest of the noisy number of cases exceeds; how
    many exceed each is known with noise as in `clip_by_rank`.
    """
    grid = length_grid()
    noise = allowance.noise(changed_ranks(len(grid) + 1, max_units), RANK_UNITS)
    longer = noisy_cases_from(lengths.histogram(grid), noise, randomness, "length")
    rest = float(1 - quantile) * max(float(longer[0]), 0.0)
    places = np.flatnonzero(longer[1:] <= rest)
    return LengthDecision(int(grid[places[0]] if len(places) else grid[-1]))


def length_part(quantile: Fraction, max_units: int, verb: str, round_name: str = "length") -> Part:
    """Returns the part that buys the length at which cases are cut.

    Args:
        quantile: Share of the cases that it shall not cut.
        max_units: Cases of one unit.
        verb: What the cases of that share do, in words.
        round_name: Where it is bought.
    """

    def decide(given: Given) -> LengthDecision:
        lengths: TraceLengths = given.statistics["lengths"]
        return choose_length(lengths, given.means["length"], quantile, max_units, given.randomness)

    share = decimal_text(quantile)
    sentence = f"chooses the length that about a share of {share} of the cases {verb}"
    counters = {"lengths": LENGTHS_OF_CASES}
    changed = changed_ranks(len(length_grid()) + 1, max_units)
    needs = (Sums("length", LENGTH_SHARE, changed, RANK_UNITS, is_l2=True),)
    return Part(
        "length", needs, lambda means: sentence, decide, counters, round_name, chosen="length"
    )

"""How many cases are released: about as many as the log has, with noise.

A case adds 1, so discrete Laplace noise of scale 1 / epsilon covers it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_interval
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums
from tracecloak.anonymizers.rigorous.bought import LengthsOfCases
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.rigorous.sum_noise import laplace_sums, spend_of

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams


def sizes_part(params: PrivateLogParams, weight: Fraction, round_name: str) -> Part:
    """Returns the part of `private-log`; it decides a whole number of cases, at least 0."""
    units = params.max_units

    def noise(epsilon: Fraction) -> SumNoise:
        return laplace_sums(epsilon, of_one_cell(units))

    def spends(epsilon: Fraction, delta: Fraction) -> tuple[Spend, ...]:
        return (spend_of("sizes", epsilon, delta, noise(epsilon)),)

    def sentence(epsilon: Fraction, delta: Fraction) -> str:
        within = laplace_interval(Fraction(*noise(epsilon).scale))
        return f"releases as many cases as the log has, within {within:,} (95 %)"

    def decide(given: Given) -> int:
        exact = np.array([given.statistics["lengths"].n_cases], np.int64)
        cell = np.zeros(1, np.int64)
        of_cell = noise(given.epsilon)
        found = noisy_sums(exact, of_cell, "number of cases", cell, given.randomness)
        return max(int(found[0]), 0)

    counters = {"lengths": LengthsOfCases()}
    return Part("sizes", weight, spends, sentence, decide, counters, round_name)

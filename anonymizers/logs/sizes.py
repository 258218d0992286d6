"""How many cases are released: about as many as the log has, with noise.

A case adds 1.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.noting import note
from tracecloak.anonymizers.noise.sums import noisy_sums
from tracecloak.anonymizers.rigorous.bought_length import LENGTHS_OF_CASES
from tracecloak.anonymizers.rigorous.budget import Means, Sums
from tracecloak.anonymizers.rigorous.params import RigorousParams
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.schemas.published.measures import CASES


def sizes_part(params: RigorousParams, share: Fraction, round_name: str) -> Part:
    """Returns the part of `private-log`; it decides a whole number of cases, at least 0."""
    changed = of_one_cell(params.max_units)

    def sentence(means: Means) -> str:
        within = means["sizes"].noise(changed).half_width
        counted = "the log has" if params.max_cases_per_individual is None else "count"
        return f"releases as many cases as {counted}, within {within:,} (95 %)"

    def decide(given: Given) -> int:
        noise = given.means["sizes"].noise(changed)
        exact = np.array([given.statistics["lengths"].n_cases * noise.units], np.int64)
        cell = np.zeros(1, np.int64)
        noisy = noisy_sums(exact, noise, "number of cases", cell, given.randomness)
        number = noisy / noise.units
        note(given.randomness, CASES, lambda: [("sizes",)], number, noise.deviation)
        return max(round(float(number[0])), 0)

    needs = (Sums("sizes", share, changed),)
    return Part("sizes", needs, sentence, decide, {"lengths": LENGTHS_OF_CASES}, round_name)

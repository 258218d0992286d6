"""Names of a case by weight: the norm that a unit has, and a new name's chance to pass."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tracecloak.anonymizers.rigorous.bought_vocabulary import (
    NAME_UNITS,
    changed_names,
    likely_names,
    weights_of_names,
)
from tracecloak.anonymizers.rigorous.budget import Allowance


def sums(log: list[tuple[int, ...]], n_names: int, max_activities: int) -> np.ndarray:
    """int64[n_names]: the sums of a log of cases, each a tuple of distinct names."""
    cases = np.repeat(np.arange(len(log)), [len(case) for case in log])
    names = np.concatenate([np.array(case, np.int64) for case in log])
    found = np.zeros(n_names, np.int64)
    np.add.at(found, names, weights_of_names(cases, max_activities))
    return found


def cases_of(n_names: int, max_activities: int) -> list[tuple[int, ...]]:
    return [
        case
        for size in range(1, max_activities + 1)
        for case in itertools.combinations(range(n_names), size)
    ]


def test_the_fewer_names_the_more_each_weighs() -> None:
    found = weights_of_names(np.array([0, 1, 1, 1, 1, 2, 2]), 4)
    assert found.tolist() == [2048, 1024, 1024, 1024, 1024, 1448, 1448]


@pytest.mark.parametrize("max_units", [1, 2])
def test_no_unit_has_more_than_the_norm_and_one_does(max_units: int) -> None:
    """Every unit of up to two cases over four names, of which a case has at most three."""
    norms = {
        int((sums(list(unit), 4, 3) ** 2).sum())
        for unit in itertools.combinations_with_replacement(cases_of(4, 3), max_units)
    }
    bound = changed_names(3, max_units)
    assert bound.l2_squared == max(norms)
    units = itertools.combinations_with_replacement(cases_of(4, 3), max_units)
    moved = [sums(list(unit), 4, 3) for unit in units]
    assert bound.linf == max(found.max() for found in moved)
    assert bound.l1 == max(found.sum() for found in moved)


@pytest.mark.parametrize("max_units", [1, 2])
def test_what_is_left_of_a_unit_is_no_more_than_of_equal_cells(max_units: int) -> None:
    """Every such unit, and every set of names that only it has; see `joint.Unseen`."""
    k, n_names = 3, 4
    largest: dict[int, Fraction] = {}
    for unit in itertools.combinations_with_replacement(cases_of(n_names, k), max_units):
        found = sums(list(unit), n_names, k)
        names = np.flatnonzero(found).tolist()
        for n_new in range(1, len(names) + 1):
            for new in itertools.combinations(names, n_new):
                old = [name for name in names if name not in new]
                left = Fraction(
                    int((found[old] ** 2).sum()), changed_names(k, max_units).l2_squared
                )
                largest[n_new] = max(largest.get(n_new, Fraction(0)), left)
    assert set(largest) <= set(range(1, max_units * k + 1))
    for n_new, left in largest.items():
        assert left <= 1 - Fraction(n_new, max_units * k)
    if max_units == 1:  # then it is attained
        assert largest[1] > Fraction(2, 3) * Fraction(99, 100)


@pytest.mark.parametrize(("max_activities", "max_units"), [(1, 1), (16, 1), (3, 2)])
def test_a_new_name_passes_with_its_part_of_delta_at_most(
    max_activities: int, max_units: int
) -> None:
    """The exact law of the discrete Gaussian, at a scale small enough to add it up."""
    delta = Fraction(1, 10**6)
    changed = changed_names(max_activities, max_units)
    own = Allowance(Fraction(0), delta, Fraction(1), 20 / changed.l2)
    numerator, denominator = own.noise(changed, NAME_UNITS).scale
    least = own.threshold(changed, NAME_UNITS)
    alone = sums([(0,)] * max_units, 1, max_activities)[0]
    mpmath.mp.dps = 40

    def tail(start: int) -> mpmath.mpf:
        sigma = mpmath.mpf(numerator) / denominator
        weights = [mpmath.exp(-(x**2) / (2 * sigma**2)) for x in range(600)]
        return sum(weights[start:]) / (2 * sum(weights) - 1)

    allowed = float(delta / (max_activities * max_units))
    assert tail(least - alone) <= allowed
    assert tail(least - alone - 5) > allowed


@pytest.mark.parametrize("max_activities", [1, 2, 16])
def test_what_is_said_to_be_found_is_found_by_half(max_activities: int) -> None:
    """Of as many cases as the words say, noise aside, the sum just reaches the threshold."""
    own = Allowance(Fraction(0), Fraction(1, 10**6), Fraction(3, 20), Fraction(4))
    least = own.threshold(changed_names(max_activities, 1), NAME_UNITS)
    text = likely_names(own, max_activities, 1).replace(",", "")
    found = re.findall(r"of (?:about )?(\d+)", text)
    sizes = re.findall(r"(\d+) distinct ones|where it has (\d+)", text)
    named = [int(a or b) for a, b in sizes] or [max_activities]
    assert len(found) == len(named) == (1 if max_activities == 1 else 2)
    for n_cases, size in zip(map(int, found), named, strict=True):
        weight = int(weights_of_names(np.zeros(size, np.int64), max_activities)[0])
        assert (n_cases - 1) * weight < least <= n_cases * weight * (1 + 1e-3)

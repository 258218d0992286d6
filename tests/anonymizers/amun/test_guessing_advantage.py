"""From guessing advantage to epsilons: the Amun paper's numbers, its closed forms, naive priors."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.anonymizers.amun.params import (
    PriorKnowledge,
    PriorRule,
    epsilon_of_counts,
    epsilon_of_oversampling,
    epsilon_of_prior,
)
from tracecloak.schemas.statistics.durations import DurationTable

advantages = st.floats(0.001, 0.999)


def equation_3(prior: float, g: float) -> float:
    return float(epsilon_of_prior(np.array([prior]), g)[0])


@pytest.mark.parametrize(("g", "epsilon"), [(0.2, 0.810930), (0.3, 1.238078), (0.4, 1.694596)])
def test_epsilon_of_counts_is_that_of_table_4(g: float, epsilon: float) -> None:
    """The paper prints .81, 1.238 and 1.7."""
    assert epsilon_of_counts(g) == pytest.approx(epsilon, abs=5e-7)


@given(advantages, st.floats(0.001, 0.999))
def test_equation_3_inverts_the_posterior_of_proposition_a_1(g: float, share: float) -> None:
    prior = share * (1 - g)
    posterior = 1 / (1 + math.exp(-equation_3(prior, g)) * (1 - prior) / prior)
    assert posterior - prior == pytest.approx(g, rel=1e-9, abs=1e-12)


@given(advantages)
def test_epsilon_of_oversampling_is_the_closed_form_below_equation_9(g: float) -> None:
    """With the root of the paper's `b` over the whole polynomial, which the print has lost."""
    root = math.sqrt(2 * g**3 + 21 * g**2 - 48 * g + 25)
    b = (math.sqrt(3) * root - 9 * g + 9) ** (1 / 3)
    c = 6 ** (1 / 3)
    closed = -2 * math.log(b / c**2 - (g - 1) / (c * b))
    assert epsilon_of_oversampling(g) == pytest.approx(closed, rel=1e-6, abs=1e-9)


@st.composite
def groups_and_rules(draw: st.DrawFn) -> tuple[list[list[int]], PriorRule]:
    """Values by group, some empty, and a rule for each group."""
    value = st.integers(-20, 20)
    groups = draw(st.lists(st.lists(value, max_size=12), min_size=1, max_size=5))
    n = len(groups)
    reach = st.lists(st.integers(0, 15), min_size=n, max_size=n)
    flags = st.lists(st.booleans(), min_size=n, max_size=n)
    return groups, PriorRule(
        np.array(draw(reach)), np.array(draw(reach)), np.array(draw(flags), bool)
    )


def table_of(groups: list[list[int]]) -> DurationTable:
    pairs = [(group, value) for group, values in enumerate(groups) for value in values]
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return DurationTable.from_events(columns[:, 0], columns[:, 1])


def naive_prior(values: list[int], x: int, below: int, above: int, is_clamped: bool) -> int:
    lower = x - below
    if is_clamped:
        lower = max(lower, min(values))
    return sum(lower < value <= x + above for value in values)


@given(groups_and_rules())
def test_priors_count_the_values_within_precision(given: tuple[list[list[int]], PriorRule]) -> None:
    groups, rule = given
    table = table_of(groups)
    prior = PriorKnowledge.of(table, len(groups), rule)
    assert len(prior.inside) == len(table.values)
    for i, (group, x) in enumerate(zip(table.groups, table.values, strict=True)):
        values = groups[group]
        expected = naive_prior(
            values, x, rule.below[group], rule.above[group], bool(rule.is_clamped[group])
        )
        assert prior.inside[i] == expected
        assert prior.total[i] == len(values)
        assert prior.widths[i] == max(values) - min(values)
        assert prior.is_constant[i] == (len(set(values)) == 1)


def knowledge(inside: list[int], total: list[int], constant: list[bool]) -> PriorKnowledge:
    widths = np.where(constant, 0, 7)
    return PriorKnowledge(np.array(inside), np.array(total), np.array(constant), widths)


@given(st.integers(1, 999_999), st.integers(1, 10**6), st.data())
def test_the_comparison_is_that_of_fractions(
    millionths: int, total: int, data: st.DataObject
) -> None:
    inside = data.draw(st.integers(0, total))
    expected = Fraction(inside, total) + Fraction(millionths, 10**6) >= 1
    found = knowledge([inside], [total], [False]).exceeds(millionths / 10**6)
    assert found.tolist() == [expected]

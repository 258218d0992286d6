"""Bounds on right guesses: against the best mechanism there is, and inverted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from tracecloak.examination.audit.attacks import epsilon_of_guesses, largest_success
from tracecloak.schemas.errors import UsageError


def best_success(epsilon: float, delta: float, k: int, are_neighbours: bool) -> float:
    """The best any mechanism and attacker can do: a linear programme over all laws of k guesses.

    For each ordered pair of neighbours the amounts by which the first law exceeds e^epsilon times
    the second are variables of their own, which add up to at most delta. By post-processing no
    more than k releases need to be looked at.
    """
    n_logs = k if are_neighbours else k + 1  # the last is the one without a candidate
    pairs = [
        (a, b) for a, b in itertools.permutations(range(n_logs), 2) if are_neighbours or k in (a, b)
    ]
    n_laws = n_logs * k
    n = n_laws + len(pairs) * k
    upper, limits = [], []
    for number, (a, b) in enumerate(pairs):
        first = n_laws + number * k
        for release in range(k):
            row = np.zeros(n)
            row[a * k + release], row[b * k + release] = 1, -math.exp(epsilon)
            row[first + release] = -1
            upper.append(row)
            limits.append(0.0)
        row = np.zeros(n)
        row[first : first + k] = 1
        upper.append(row)
        limits.append(delta)
    sums = np.zeros((n_logs, n))
    for log in range(n_logs):
        sums[log, log * k : (log + 1) * k] = 1
    wins = np.zeros(n)
    wins[[j * k + j for j in range(k)]] = -1 / k
    found = optimize.linprog(wins, np.array(upper), limits, sums, np.ones(n_logs))
    return float(-found.fun)


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
def test_no_mechanism_allows_more_and_one_allows_as_much(epsilon: float, delta: float) -> None:
    for k, are_neighbours in itertools.product([2, 3, 4], [True, False]):
        bound = largest_success(epsilon, delta, k, are_neighbours=are_neighbours)
        assert bound == pytest.approx(best_success(epsilon, delta, k, are_neighbours), abs=1e-7), (
            k,
            are_neighbours,
        )


def test_the_bound_of_two_neighbours_is_the_known_one() -> None:
    for epsilon in (0.0, 0.5, 2.0):
        for delta in (0.0, 0.1):
            e = math.exp(epsilon)
            assert largest_success(epsilon, delta, 2, are_neighbours=True) == pytest.approx(
                (e + delta) / (1 + e)
            )
    assert largest_success(5000, 0, 4, are_neighbours=False) == 1
    assert largest_success(math.inf, 0, 4, are_neighbours=True) == 1
    assert largest_success(0, 1, 2, are_neighbours=False) == 1


@pytest.mark.parametrize("are_neighbours", [True, False])
@pytest.mark.parametrize(("k", "delta"), [(2, 0.0), (4, 0.0), (4, 0.05)])
@pytest.mark.parametrize("n_right", [40, 70, 99, 100])
def test_an_epsilon_of_guesses_is_the_one_that_allows_the_proved_share(
    k: int, delta: float, n_right: int, are_neighbours: bool
) -> None:
    found = epsilon_of_guesses(n_right, 100, k, delta, 0.999, are_neighbours=are_neighbours)
    share = stats.binomtest(n_right, 100).proportion_ci(0.998, "exact").low
    if share <= largest_success(0.0, delta, k, are_neighbours=are_neighbours):
        assert found == 0
    else:
        allowed = largest_success(found, delta, k, are_neighbours=are_neighbours)
        assert allowed == pytest.approx(share, rel=1e-9)
        assert found > 0


@pytest.mark.parametrize("are_neighbours", [True, False])
@pytest.mark.parametrize("k", [2, 4])
def test_a_mechanism_that_uses_up_its_epsilon_is_seldom_accused(
    k: int, are_neighbours: bool
) -> None:
    """Summed over all outcomes of 60 games, not drawn; a tenth of the chance is used at least."""
    p = largest_success(1.0, 0.0, k, are_neighbours=are_neighbours)
    accused = [
        epsilon_of_guesses(n, 60, k, 0.0, 0.95, are_neighbours=are_neighbours) > 1.0
        for n in range(61)
    ]
    chance = stats.binom.pmf(np.arange(61), 60, p)[accused].sum()
    assert 0.005 < chance <= 0.05


def test_luck_proves_nothing() -> None:
    for n_right in (0, 10, 50):
        assert epsilon_of_guesses(n_right, 100, 2, 0.0, 0.999, are_neighbours=True) == 0
    assert epsilon_of_guesses(1, 1, 2, 0.0, 0.999, are_neighbours=True) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((1.0, -0.1, 2), "delta must lie between 0 and 1, got -0.1"),
        ((1.0, 0.0, 1), "at least 2 candidates, got 1"),
        ((-1.0, 0.0, 2), "epsilon must be at least 0, got -1.0"),
        ((math.nan, 0.0, 2), "epsilon must be at least 0, got nan"),
    ],
)
def test_impossible_promises_are_refused(arguments: tuple[float, float, int], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        largest_success(*arguments, are_neighbours=True)


@pytest.mark.parametrize(
    ("n_right", "n_games", "k", "delta", "confidence", "told"),
    [
        (2, 1, 2, 0.0, 0.9, "between 0 and trials"),
        (0, 0, 2, 0.0, 0.9, "trials be at least 1"),
        (1, 1, 1, 0.0, 0.9, "at least 2 candidates"),
        (1, 1, 2, 2.0, 0.9, "delta must lie"),
        (1, 1, 2, 0.0, 0.5, "strictly between 0.5 and 1, got 0.5"),
        (1, 1, 2, 0.0, 1.0, "strictly between 0.5 and 1, got 1.0"),
    ],
)
def test_impossible_guesses_are_refused(
    n_right: int, n_games: int, k: int, delta: float, confidence: float, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        epsilon_of_guesses(n_right, n_games, k, delta, confidence, are_neighbours=True)

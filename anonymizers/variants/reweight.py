"""Weights of proposed cases that agree with all noisy counts at once.

Looks at noisy numbers and public ones only, so it costs no privacy, and floats may be used. Cases
are drawn by the weights, so these must have the same bits on every processor. scipy's solvers add
up by BLAS, which has other code for each, and after some dozen rounds weights differ in the fourth
digit. So the solver is here. Sums are numpy's own, and products those of scipy's sparse matrices:
both add in an order that follows from the shapes alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from scipy import sparse

from tracecloak.schemas.arrays import elementary

# How much a nat of distance from the prior weighs, as a share of the number of cases, against half
# a squared deviation. It is so small that counts decide where they are known, and the prior
# elsewhere.
_PRIOR_WEIGHT = 0.1
_MAX_ROUNDS = 200
_MEMORY = 20
# A step is long enough if the slope falls to the first share of itself. It is short enough if the
# value falls by the second share of what the slope at its beginning promised.
_SLOPE_LEFT, _VALUE_WON = 0.9, 1e-4
_MAX_TRIES = 30
# Fitting ends if a round lowers the value by less than the first number, or if no slope is above
# the second.
_LEAST_WON, _LEAST_SLOPE = 2e-9, 1e-5

# Its slopes are asked for where a place is taken, and not where its value alone turns it down.
Function = Callable[[np.ndarray], tuple[float, Callable[[], np.ndarray]]]


def agreeing_weights(
    rows: sparse.csr_matrix,
    measured: np.ndarray,
    deviations: np.ndarray,
    prior: np.ndarray,
    n_cases: float,
) -> np.ndarray:
    """Returns float64[n], weights that sum to 1.

    They minimise k KL(w || prior) + sum over cells j of (N (w rows)_j - y_j)^2 / (2 s_j^2), with N
    cases and k = N / 10: the entropic projection of a maximum-entropy fit, with noisy counts.
    Solved in the dual, w proportional to prior exp(-(N / k) rows l), where k log Z(l) + y l +
    sum (s l)^2 / 2 is convex and smooth.

    Args:
        rows: float64[n, m], what one case of each proposal adds to each cell.
        measured: float64[m], y.
        deviations: float64[m], s, of the noise of each cell, positive.
        prior: float64[n], positive.
        n_cases: N, positive.
    """
    weight = _PRIOR_WEIGHT * n_cases
    log_prior = elementary.log(prior / prior.sum())
    columns = rows.T  # which adds up each cell row by row, as a copy by columns would

    def weights_of(scaled: np.ndarray) -> tuple[np.ndarray, float]:
        logs = log_prior - (n_cases / weight) * (rows @ (scaled / deviations))
        highest = float(logs.max())
        weights = elementary.exp(logs - highest)
        total = float(weights.sum())
        return weights / total, highest + float(elementary.log(total))

    def dual(scaled: np.ndarray) -> tuple[float, Callable[[], np.ndarray]]:
        weights, log_total = weights_of(scaled)
        value = weight * log_total + _inner(scaled, measured / deviations + scaled / 2)
        return value, lambda: (measured - n_cases * (columns @ weights)) / deviations + scaled

    return weights_of(_least(dual, np.zeros(len(measured))))[0]


def _inner(a: np.ndarray, b: np.ndarray) -> float:
    return float((a * b).sum())


def _least(function: Function, start: np.ndarray) -> np.ndarray:
    """Where a convex function is least, by L-BFGS (Liu and Nocedal 1989).

    Args:
        function: Returns the value at a place, and what returns the slopes there.
        start: Where to begin.
    """
    value, slopes = function(start)
    place, slope = start, slopes()
    moves: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=_MEMORY)
    for _ in range(_MAX_ROUNDS):
        if np.abs(slope).max(initial=0) <= _LEAST_SLOPE:
            break
        direction = _direction(slope, moves)
        next_step = _step(function, place, direction, value, slope)
        if next_step is None:
            break
        further, lower, next_slope = next_step
        moves.append((further - place, next_slope - slope))
        won = value - lower
        place, value, slope = further, lower, next_slope
        if won <= _LEAST_WON * max(abs(value), abs(value + won), 1.0):
            break
    return place


def _direction(slope: np.ndarray, moves: deque[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Downwards, by what the last moves changed of the slopes: the two loops of L-BFGS."""
    if not moves:
        return -slope / np.sqrt(_inner(slope, slope))
    rest, shares = slope, []
    for moved, changed in reversed(moves):
        share = _inner(moved, rest) / _inner(moved, changed)
        rest = rest - share * changed
        shares.append(share)
    moved, changed = moves[-1]
    rest = rest * (_inner(moved, changed) / _inner(changed, changed))
    for (moved, changed), share in zip(moves, reversed(shares), strict=True):
        rest = rest + (share - _inner(changed, rest) / _inner(moved, changed)) * moved
    return -rest


def _step(
    function: Function, place: np.ndarray, direction: np.ndarray, value: float, slope: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """The next place, its value and slopes; None if rounding leaves nothing to win.

    Neither too long nor too short (the conditions of Wolfe 1969), so the slope along it has risen.
    """
    downwards = _inner(slope, direction)
    if not downwards < 0:
        return None
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(_MAX_TRIES):
        further = place + length * direction
        reached, slopes = function(further)
        if not reached <= value + _VALUE_WON * length * downwards:
            high = length
        elif _inner(next_slope := slopes(), direction) < _SLOPE_LEFT * downwards:
            low = length
        else:
            return further, reached, next_slope
        length = (low + high) / 2 if high < np.inf else 2 * length
    return None

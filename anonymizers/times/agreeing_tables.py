"""Tables of cases that agree with several noisy sums of theirs at once.

Looks at noisy numbers and public ones only, so it costs no privacy, and floats may be used. As
`anonymizers.variants.reweight` does for cases, but the sums are over whole axes of a table, so one
after the other is met exactly, again and again, as in iterative proportional fitting (Deming and
Stephan 1940), and what is met is weighed against what was expected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracecloak.schemas.arrays import elementary

_MAX_ROUNDS = 60
_MAX_STEPS = 25
_NO_STEP = 1e-9
# Fitting stops when a round moves less than this share of all cases.
_SETTLED = 1e-4
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class NoisySums:
    """What a table comes to over all its axes but some.

    Attributes:
        axes: Those that are left, ascending.
        sums: float64, with these axes; of any sign. Where the last axis of the table is left and it
            has fewer, they are those of its first cells.
        deviation: Of the noise on each; 0 where they are exact, and then not negative.
    """

    axes: tuple[int, ...]
    sums: np.ndarray
    deviation: float


def agreeing_table(prior: np.ndarray, measured: Sequence[NoisySums], worth: float) -> np.ndarray:
    """Returns float64, a table like the prior that agrees with noisy sums.

    Of all tables t it has the least (worth / N) sum over the cells of t ln(t / prior) - t + prior,
    plus, over all sums y with deviation s, (t's sum - y)^2 / (2 s^2): what the prior says counts
    like `worth` cases that were drawn from it, of the N that it has. In the dual one block of sums
    after the other is met as well as it can be, until nothing moves. Cells where the prior is 0
    stay 0, and sums of nothing but such cells are not looked at.

    Args:
        prior: float64, not negative, in cases; the same axes as the result.
        measured: The sums.
        worth: In cases, above 0.
    """
    table = prior.copy()
    total = float(prior.sum())
    if not total:
        return table
    pulls = [np.zeros_like(block.sums) for block in measured]
    for _ in range(_MAX_ROUNDS):
        moved = 0.0
        for number, block in enumerate(measured):
            others = tuple(axis for axis in range(prior.ndim) if axis not in block.axes)
            is_last = prior.ndim - 1 in block.axes
            part = table[..., : block.sums.shape[-1]] if is_last else table
            expected = part.sum(axis=others)
            logs = log_factors(expected, block, pulls[number], total, worth)
            pulls[number] = pulls[number] - logs * (worth / total)
            part *= np.expand_dims(elementary.exp(logs), others)
            moved = max(moved, float(np.abs(elementary.expm1(logs) * expected).max()))
        if moved < _SETTLED * total:
            break
    return table


def log_factors(
    expected: np.ndarray, block: NoisySums, pulls: np.ndarray, total: float, worth: float
) -> np.ndarray:
    """Returns by what to multiply sums, in the logarithm, so that one block is met best.

    With d the deviation squared and a = total / worth, the new sum x solves
    x + (d / a) ln x = y + d pull + (d / a) ln(expected): a convex equation in ln x (Newton).

    Args:
        expected: float64, the sums of the table as it is.
        block: What they should be.
        pulls: float64, the block's dual numbers so far.
        total: Of the table.
        worth: Of the prior, in cases.

    Returns:
        float64; 0 where nothing is expected.
    """
    is_there = expected > _LEAST
    known = np.where(is_there, expected, 1.0)
    if not block.deviation:
        return np.where(is_there, elementary.log(np.maximum(block.sums, _LEAST) / known), 0.0)
    before = elementary.log(known)
    variance = block.deviation * block.deviation
    slope = variance * worth / total
    wanted = block.sums + variance * pulls + slope * before
    highest = math.ceil(math.log(max(total, 1.0))) + 3
    logs = elementary.log(np.maximum(np.maximum(known, block.sums), 1e-3))
    for _ in range(_MAX_STEPS):
        powers = elementary.exp(logs)
        nearer = np.minimum(logs - (powers + slope * logs - wanted) / (powers + slope), highest)
        step, logs = float(np.abs(nearer - logs).max(initial=0)), nearer
        if step < _NO_STEP:
            break
    return np.where(is_there, logs - before, 0.0)

"""Tables that agree with noisy sums: against a general solver, and what they must keep."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from tracecloak.anonymizers.times.case_times import NoisySums, agreeing_table

SHAPE = (2, 3, 4)
WORTH = 40.0


def summed(table: np.ndarray, block: NoisySums) -> np.ndarray:
    """What a block is about, by hand."""
    others = tuple(axis for axis in range(table.ndim) if axis not in block.axes)
    sums = table.sum(axis=others)
    return sums[..., : block.sums.shape[-1]] if table.ndim - 1 in block.axes else sums


def cost(table: np.ndarray, prior: np.ndarray, blocks: list[NoisySums]) -> float:
    """What the table shall have the least of."""
    distance = (table * np.log(table / prior) - table + prior).sum() * WORTH / prior.sum()
    rests = (summed(table, block) - block.sums for block in blocks)
    misfits = ((rest / b.deviation) ** 2 for rest, b in zip(rests, blocks, strict=True))
    return float(distance + sum(misfit.sum() for misfit in misfits) / 2)


def some_blocks(generator: np.random.Generator, truth: np.ndarray) -> list[NoisySums]:
    blocks = []
    for axes, most in (((0, 2), 3), ((0, 1), 9), ((1, 2), 4), ((2,), 3), ((1,), 9)):
        exact = summed(truth, NoisySums(axes, np.zeros(most), 1.0))
        deviation = float(generator.uniform(2, 15))
        blocks.append(
            NoisySums(axes, exact + generator.normal(0, deviation, exact.shape), deviation)
        )
    return blocks


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_what_a_solver_of_the_primal_finds(seed: int) -> None:
    generator = np.random.default_rng(seed)
    prior, truth = (300 * generator.dirichlet(np.ones(24)).reshape(SHAPE) for _ in range(2))
    prior += 0.01
    blocks = some_blocks(generator, truth)
    found = agreeing_table(prior, blocks, WORTH)

    def of_logs(logs: np.ndarray) -> float:
        return cost(np.exp(logs).reshape(SHAPE), prior, blocks)

    other = minimize(of_logs, np.log(prior.ravel()), method="L-BFGS-B")
    assert cost(found, prior, blocks) <= other.fun * (1 + 1e-3)
    for _ in range(50):  # and nowhere nearby is better
        nearby = found * np.exp(generator.normal(0, 0.1, SHAPE))
        assert cost(nearby, prior, blocks) > cost(found, prior, blocks) - 1e-3 * other.fun


def test_what_is_expected_nowhere_stays_so_whatever_the_noise_says() -> None:
    prior = np.array([[0.0, 10.0], [0.0, 30.0]])
    blocks = [
        NoisySums((0,), np.array([-50.0, 500.0]), 5.0),
        NoisySums((1,), np.array([90.0, -3.0]), 5.0),
    ]
    found = agreeing_table(prior, blocks, WORTH)
    assert (found[:, 0] == 0).all() and (found[:, 1] > 0).all() and np.isfinite(found).all()
    assert not agreeing_table(np.zeros((2, 2)), blocks, WORTH).any()

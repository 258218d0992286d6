"""Draws a second of the exact samplers on one core, and of opendp's on vectors, side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import opendp.prelude as dp

from tests.benchmarks.harness import ratio
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey, cell_numbers
from tracecloak.anonymizers.noise.samplers import (
    CellStream,
    discrete_gaussian,
    discrete_laplace,
    truncated_discrete_laplace,
)

N = 1_000_000
OPENDP_N = 50_000
ROUNDS = 5


def per_second(n: int, draw: Callable[[], object]) -> float:
    """Returns draws a second of one call that draws n."""
    begun = time.perf_counter()
    draw()
    return n / (time.perf_counter() - begun)


def main() -> None:
    """Prints the measurements and their ratios."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64"))
    their_laplace = dp.m.make_laplace(space, dp.l1_distance(T="i64"), scale=10 / 3)
    their_gaussian = dp.m.make_gaussian(space, dp.l2_distance(T="f64"), scale=10 / 3)
    keyed = Randomness(ReleaseKey.generate(), "benchmark", "input", "configuration")
    cells = cell_numbers(np.arange(N, dtype=np.uint64))
    zeros = [0] * OPENDP_N

    def ours() -> CellStream:
        return CellStream(keyed, "benchmark", cells)

    samplers: dict[str, tuple[int, Callable[[], object]]] = {
        "Laplace, one scale": (N, lambda: discrete_laplace(ours(), 10, 3)),
        "Laplace, truncated": (N, lambda: truncated_discrete_laplace(ours(), 10, 3, 40)),
        "Gaussian, one sigma": (N, lambda: discrete_gaussian(ours(), 10, 3)),
        "Laplace of opendp": (OPENDP_N, lambda: their_laplace(zeros)),
        "Gaussian of opendp": (OPENDP_N, lambda: their_gaussian(zeros)),
    }
    rounds: dict[str, list[float]] = {name: [] for name in samplers}
    for _ in range(ROUNDS):  # in turn, so that a slow spell of the machine hits all
        for name, (n, draw) in samplers.items():
            rounds[name].append(per_second(n, draw) / 1e6)
    found = {name: statistics.median(values) for name, values in rounds.items()}
    for name, millions in found.items():
        print(f"{name:28s} {millions:8.2f} M draws/s")
    for name in ("Laplace", "Gaussian"):
        one = f"{name}, one {'scale' if name == 'Laplace' else 'sigma'}"
        ratio(f"{one} / opendp", found[one] / found[f"{name} of opendp"], 5, at_most=False)


if __name__ == "__main__":
    main()

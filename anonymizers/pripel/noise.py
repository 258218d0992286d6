"""Noise on single values that stay within their bounds: what PRIPEL calls local mechanisms.

Numbers get bounded Laplace noise (Holohan, Antonatos, Braghin, Mac Aonghusa, "The Bounded Laplace
Mechanism in Differential Privacy", 2020): Laplace noise on condition that the result lies within
the bounds, of scale width / epsilon. Whatever two values lie within the bounds, the probability of
a result differs by at most a factor of e^epsilon between them, and by that factor for the two
bounds themselves: there the two normalising constants are equal. Numbers that are declared by bins
get the discrete form of it, on the numbers of their bins.

Texts get randomised response (Warner, 1965): the exponential mechanism whose utility is 1 for the
value itself and 0 for all others, which are told apart by a factor of e^epsilon.

All draws are made of floats by inversion, so no epsilon is claimed from their last digits.
"""

from __future__ import annotations

import numpy as np

from tracecloak.anonymizers.noise.randomness import below, uniform
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.events.attributes import Attribute


def bounded_laplace(
    words: np.ndarray, values: np.ndarray, lows: np.ndarray, highs: np.ndarray, epsilon: float
) -> np.ndarray:
    """Returns int64[n], values with Laplace noise on condition that they stay within the bounds.

    Args:
        words: uint64[n], random bits of each draw.
        values: int64[n]; those beyond the bounds count as the nearer of them.
        lows: int64[n], smallest results.
        highs: int64[n], largest results, not below the smallest. Where both are equal there is no
            other result.
        epsilon: The scale is (high - low) / epsilon.
    """
    widths = (highs - lows).astype(np.float64)
    scales = np.maximum(widths, 1.0) / epsilon
    values = np.clip(values, lows, highs)
    # The probability of the law below the value and above it; each is at most a half.
    under = -0.5 * elementary.expm1(-(values - lows) / scales)
    over = -0.5 * elementary.expm1(-(highs - values) / scales)
    place = uniform(words) * (under + over) - under
    # log1p keeps the digits where the law is nearly uniform, at a small epsilon.
    sizes = scales * -elementary.log1p(-np.minimum(2 * np.abs(place), 1 - 2.0**-53))
    noise = np.rint(np.copysign(np.minimum(sizes, widths), place)).astype(np.int64)
    return np.clip(values + noise, lows, highs)


def perturbed_cells(
    attribute: Attribute, cells: np.ndarray, words: np.ndarray, epsilon: float
) -> np.ndarray:
    """Returns int64[n], cells of other values or bins of an attribute, or the same by chance.

    A text stays with probability e^epsilon / (e^epsilon + n - 1) of n values and is otherwise any
    other with equal chances. A number moves from bin k to bin j with probability proportional to
    e^(-epsilon |j - k| / (n - 1)). No value stays no value.

    Args:
        attribute: The attribute.
        cells: int[n], from 0, no value, to `attribute.n_cells` - 1.
        words: uint64[n, 2], random bits of each draw.
        epsilon: See above.
    """
    n = attribute.n_cells - 1
    if attribute.declaration.values is not None:
        stays = uniform(words[:, 0]) * (1 + (n - 1) * elementary.exp(-epsilon)) < 1
        others = (cells + below(words[:, 1], max(n - 1, 1))) % n + 1
        perturbed = np.where(stays | (n == 1), cells, others)
    else:
        used, row = np.unique(cells, return_inverse=True)
        steps = np.abs(np.arange(1, n + 1) - used[:, None])
        sums = np.cumsum(elementary.exp(-epsilon * steps / max(n - 1, 1)), axis=1)
        sums /= sums[:, -1:]
        sought = uniform(words[:, 0]) + row  # each bin's own law, one after the other
        laws = (sums + np.arange(len(used))[:, None]).ravel()
        perturbed = np.searchsorted(laws, sought, side="right") - row * n + 1
        perturbed = np.clip(perturbed, 1, n)
    return np.where(cells == 0, 0, perturbed)

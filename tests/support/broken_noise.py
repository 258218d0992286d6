"""Noise that is right, and noise that is wrong in ways that were published or are easily made.

Each sampler takes a generator, the scale that the guarantee demands (sensitivity / epsilon) and how
many numbers to draw. An audit that does not condemn the wrong ones is worth nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

# (generator, scale, n) -> int64[n].
Sampler = Callable[[np.random.Generator, float, int], np.ndarray]


def right(rng: np.random.Generator, scale: float, n: int) -> np.ndarray:
    """Discrete Laplace noise, P(x) proportional to exp(-|x| / scale): two geometrics' difference.

    Its law is exact but for the last bits of the geometric's inversion.
    """
    p = -np.expm1(-1 / scale)
    return rng.geometric(p, n) - rng.geometric(p, n)


def truncated_float(rng: np.random.Generator, scale: float, n: int) -> np.ndarray:
    """`int(Laplace)`: 0 is as likely as all of (-1, 1), which costs ln 2 more at every count."""
    return np.trunc(rng.laplace(scale=scale, size=n)).astype(np.int64)


def one_sided(rng: np.random.Generator, scale: float, n: int) -> np.ndarray:
    """`ceil(|Laplace|)`: never lowers a count, so no epsilon is finite."""
    return np.ceil(np.abs(rng.laplace(scale=scale, size=n))).astype(np.int64)


def scale_085(rng: np.random.Generator, scale: float, n: int) -> np.ndarray:
    """The right law at 85 % of the scale: the true epsilon is 1 / 0.85 of the claim."""
    return right(rng, 0.85 * scale, n)


def understated_sensitivity(rng: np.random.Generator, scale: float, n: int) -> np.ndarray:
    """Made for a sensitivity of 1 where it is 2: half the scale that the guarantee demands."""
    return right(rng, scale / 2, n)


def reused(rng: np.random.Generator, scale: float, n: int) -> np.ndarray:
    """The second half repeats the first, as when two queries share a label; n is even."""
    return np.tile(right(rng, scale, n // 2), 2)


# What a count alone gives away; the reused ones need a second count or run.
BROKEN: Mapping[str, Sampler] = {
    "truncated float": truncated_float,
    "one-sided": one_sided,
    "scale x 0.85": scale_085,
    "understated sensitivity": understated_sensitivity,
}

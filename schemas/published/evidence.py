"""Which of many noisy counts stand for something, decided for all of them together.

If a thousand counts are nothing but noise, twenty-five of them lie above a 95 % interval around
zero. A reader who tests each cell by itself would take these for real. Here the mean number of such
mistakes is bounded over all cells at once, however the cells depend on each other.

All of it follows from published counts and from the public scale of their noise, so it costs
nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.published.step import StepRelease

# How many cells that hold nothing but noise a release is expected to show as certain: one such cell
# in a hundred releases. The same holds for those that a reader of a stream sees.
EXPECTED_FALSE = 0.01

_ROUNDING = 0.5  # by which a count can be above the number that it was rounded from


@dataclass(frozen=True, eq=False)
class Evidence:
    """What counts with noise say about what is there.

    Attributes:
        is_sure: bool[n], counts that noise alone hardly reaches, see `EXPECTED_FALSE`.
        is_doubtful: bool[n], the other counts whose own 95 % interval is above zero: each for
            itself looks as if it stood for something, and of many that are noise alone one in
            forty does.
    """

    is_sure: np.ndarray
    is_doubtful: np.ndarray


def evidence_of(release: StepRelease) -> Evidence:
    """Decides for all cells of a step of a public domain, which has intervals.

    A product that publishes only cells above a threshold of its own has decided already and is not
    meant.
    """
    assert release.lows is not None
    return evidence(
        release.counts,
        release.standard_errors,
        release.lows,
        is_laplace=is_noise_laplace(release),
    )


def is_noise_laplace(release: StepRelease) -> bool:
    """Whether the noise of a step of a public domain is Laplace, as with delta 0; else Gaussian."""
    return Fraction(release.delta) == 0


def evidence(
    counts: np.ndarray, standard_errors: np.ndarray, lows: np.ndarray, *, is_laplace: bool
) -> Evidence:
    """Decides for all cells together.

    Of `n` cells, each of noise alone is taken for sure with probability `EXPECTED_FALSE` / n at
    most, so that all together are `EXPECTED_FALSE` on average at most (Bonferroni). That holds for
    noises that depend on each other, too.

    Args:
        counts: int64[n], rounded sums with unbiased noise.
        standard_errors: float64[n], standard deviations of the noise; they must be public.
        lows: int64[n], lower ends of their 95 % intervals.
        is_laplace: Whether the noise is discrete Laplace; else it is taken to be Gaussian.
    """
    share = EXPECTED_FALSE / max(len(counts), 1)
    is_above = lows > 0
    is_beyond = counts - _ROUNDING >= _reached(share, standard_errors, is_laplace)
    return Evidence(is_above & is_beyond, is_above & ~is_beyond)


def _reached(share: float, standard_errors: np.ndarray, is_laplace: bool) -> np.ndarray:
    """float64[n], what each noise exceeds with probability `share`, which is a half at most."""
    if not is_laplace:
        return -NormalDist().inv_cdf(share) * standard_errors
    return -math.log(2 * share) * laplace_scales(standard_errors)


def laplace_scales(standard_errors: np.ndarray) -> np.ndarray:
    """Returns float64[n], the scales b of discrete Laplace noise of these standard deviations.

    Its variance is 1 / (2 sinh(1 / 2b)^2).

    Args:
        standard_errors: float64[n], not negative.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        x = 1 / (math.sqrt(2) * standard_errors)
        # The inverse of sinh, which loses no digit of a small x.
        inverse = elementary.log1p(x + x * x / (1 + np.sqrt(1 + x * x)))
        return np.where(standard_errors > 0, 0.5 / inverse, 0.0)

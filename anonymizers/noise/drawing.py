"""What draws the noise of a release: exactly, unless an audit or a test gives it something else.

Every draw of noise goes through the `Noise` that the release's `Randomness` carries. So an audit
sees the sums that all else is made of, a test puts wrong noise in one place and looks whether it is
found, and what a method draws can be compared with what it says that it spends.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.noise import samplers
from tracecloak.anonymizers.noise.samplers import CellStream

if TYPE_CHECKING:
    from tracecloak.anonymizers.noise.sums import SumNoise


Scale = tuple[int, int]
"""A scale of noise as (numerator, denominator)."""


class Noise:
    """Draws exactly; others override what they want to be otherwise. Holds nothing of a release."""

    def laplace(self, stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
        """Returns what `samplers.discrete_laplace` does."""
        return samplers.discrete_laplace(stream, numerator, denominator)

    def gaussian(self, stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
        """Returns what `samplers.discrete_gaussian` does."""
        return samplers.discrete_gaussian(stream, numerator, denominator)

    def truncated_laplace(
        self, stream: CellStream, numerator: int, denominator: int, bound: int
    ) -> np.ndarray:
        """Returns what `samplers.truncated_discrete_laplace` does."""
        return samplers.truncated_discrete_laplace(stream, numerator, denominator, bound)

    def select(
        self,
        stream: CellStream,
        scores: np.ndarray,
        epsilon: Fraction,
        sensitivity: Fraction,
        *,
        monotone: bool = False,
    ) -> int:
        """Returns what `samplers.permute_and_flip` does."""
        return samplers.permute_and_flip(stream, scores, epsilon, sensitivity, monotone=monotone)

    def made(
        self,
        purpose: str,
        domain: np.ndarray,
        noisy: np.ndarray,
        noise: SumNoise,
        names: pa.Array | None = None,
    ) -> None:
        """Receives sums with noise, before anything is computed from them.

        Args:
            purpose: What the noise is for.
            domain: int64[n], their cells.
            noisy: int64[n], the sums with noise in lattice steps.
            noise: What was added.
            names: Of pairs of activities, what their codes mean, if what is released does not say.
        """


EXACT = Noise()


def draw_laplace(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
    """Returns int64[n], discrete Laplace noise of a scale; see `samplers.discrete_laplace`."""
    return stream.noise.laplace(stream, numerator, denominator)


def draw_gaussian(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
    """Returns int64[n], discrete Gaussian noise of a sigma; see `samplers.discrete_gaussian`."""
    return stream.noise.gaussian(stream, numerator, denominator)

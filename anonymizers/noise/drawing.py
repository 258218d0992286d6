"""What draws the noise of a release: exactly, unless an audit or a test gives it something else.

Every draw of noise goes through the `Noise` that the release's `Randomness` carries. So an audit
sees the sums that all else is made of, a test puts wrong noise in one place and looks whether it is
found, and what a method draws can be compared with what it says that it spends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.noise import samplers
from tracecloak.anonymizers.noise.samplers import CellStream, Whole

if TYPE_CHECKING:
    from tracecloak.anonymizers.noise.sums import SumNoise

Law = Literal["discrete_laplace", "discrete_gaussian", "truncated_laplace", "selection"]


class Noise:
    """Draws exactly; others override what they want to be otherwise. Holds nothing of a release."""

    def laplace(self, stream: CellStream, numerators: Whole, denominators: Whole) -> np.ndarray:
        """Returns what `samplers.discrete_laplace` does."""
        return samplers.discrete_laplace(stream, numerators, denominators)

    def gaussian(self, stream: CellStream, numerators: Whole, denominators: Whole) -> np.ndarray:
        """Returns what `samplers.discrete_gaussian` does."""
        return samplers.discrete_gaussian(stream, numerators, denominators)

    def truncated_laplace(
        self, stream: CellStream, numerators: Whole, denominators: Whole, bounds: Whole
    ) -> np.ndarray:
        """Returns what `samplers.truncated_discrete_laplace` does."""
        return samplers.truncated_discrete_laplace(stream, numerators, denominators, bounds)

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


@dataclass(frozen=True)
class Drawn:
    """One call for noise.

    Attributes:
        purpose: What the noise was for.
        law: Which.
        n: How many numbers were drawn, or chosen from.
        scale: Of the noise; of a selection its sensitivity divided by epsilon.
        sensitivity: What the noise was made to cover, in the units of the scale, where it is known.
    """

    purpose: str
    law: Law
    n: int
    scale: Fraction
    sensitivity: Fraction | None = None


@dataclass
class Recording(Noise):
    """Draws as another does, and notes what was asked for.

    Attributes:
        inner: What draws.
        drawn: What was asked for so far.
    """

    inner: Noise = EXACT
    drawn: list[Drawn] = field(default_factory=list)

    def _note(self, stream: CellStream, law: Law, above: Whole, under: Whole) -> None:
        pairs = zip(*np.broadcast_arrays(np.atleast_1d(above), np.atleast_1d(under)), strict=True)
        for scale in sorted({Fraction(int(a), int(b)) for a, b in pairs}):
            self.drawn.append(Drawn(stream.purpose, law, len(stream), scale))

    def laplace(self, stream: CellStream, numerators: Whole, denominators: Whole) -> np.ndarray:
        """Notes a call and draws."""
        self._note(stream, "discrete_laplace", numerators, denominators)
        return self.inner.laplace(stream, numerators, denominators)

    def gaussian(self, stream: CellStream, numerators: Whole, denominators: Whole) -> np.ndarray:
        """Notes a call and draws."""
        self._note(stream, "discrete_gaussian", numerators, denominators)
        return self.inner.gaussian(stream, numerators, denominators)

    def truncated_laplace(
        self, stream: CellStream, numerators: Whole, denominators: Whole, bounds: Whole
    ) -> np.ndarray:
        """Notes a call and draws."""
        self._note(stream, "truncated_laplace", numerators, denominators)
        return self.inner.truncated_laplace(stream, numerators, denominators, bounds)

    def select(
        self,
        stream: CellStream,
        scores: np.ndarray,
        epsilon: Fraction,
        sensitivity: Fraction,
        *,
        monotone: bool = False,
    ) -> int:
        """Notes a choice and makes it."""
        scale = sensitivity / epsilon
        self.drawn.append(Drawn(stream.purpose, "selection", len(stream), scale, sensitivity))
        return self.inner.select(stream, scores, epsilon, sensitivity, monotone=monotone)

    def made(
        self,
        purpose: str,
        domain: np.ndarray,
        noisy: np.ndarray,
        noise: SumNoise,
        names: pa.Array | None = None,
    ) -> None:
        """Notes what the last call was made to cover, and passes it on."""
        last = self.drawn[-1]
        if last.purpose == purpose and noise.sensitivity is not None:
            self.drawn[-1] = replace(last, sensitivity=noise.sensitivity)
        self.inner.made(purpose, domain, noisy, noise, names)


def draw_laplace(stream: CellStream, numerators: Whole, denominators: Whole) -> np.ndarray:
    """Returns int64[n], discrete Laplace noise of a scale; see `samplers.discrete_laplace`."""
    return stream.noise.laplace(stream, numerators, denominators)


def draw_gaussian(stream: CellStream, numerators: Whole, denominators: Whole) -> np.ndarray:
    """Returns int64[n], discrete Gaussian noise of a sigma; see `samplers.discrete_gaussian`."""
    return stream.noise.gaussian(stream, numerators, denominators)


def select(
    stream: CellStream,
    scores: np.ndarray,
    epsilon: Fraction,
    sensitivity: Fraction,
    *,
    monotone: bool = False,
) -> int:
    """Returns a position of nearly the highest score; see `samplers.permute_and_flip`."""
    return stream.noise.select(stream, scores, epsilon, sensitivity, monotone=monotone)

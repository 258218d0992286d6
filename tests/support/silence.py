"""Noise of nothing but zeros, which notes what was asked for: what noise would be added to."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tracecloak.anonymizers.noise.samplers import CellStream, Noise
from tracecloak.anonymizers.noise.sums import SumNoise


@dataclass
class Silence(Noise):
    """Adds nothing, and takes the best of what there is to choose from.

    Attributes:
        draws: (law, how many numbers, scale) of every draw.
        chosen: (scores, epsilon, sensitivity, monotone) of every choice.
    """

    draws: list[tuple[str, int, Fraction]] = field(default_factory=list)
    chosen: list[tuple[np.ndarray, Fraction, Fraction, bool]] = field(default_factory=list)

    def _zeros(self, law: str, stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
        self.draws.append((law, len(stream), Fraction(numerator, denominator)))
        return np.zeros(len(stream), np.int64)

    def laplace(self, stream: CellStream, *scale: Any) -> np.ndarray:
        return self._zeros("laplace", stream, *scale)

    def gaussian(self, stream: CellStream, *scale: Any) -> np.ndarray:
        return self._zeros("gaussian", stream, *scale)

    def select(
        self,
        stream: CellStream,
        scores: np.ndarray,
        epsilon: Fraction,
        sensitivity: Fraction,
        *,
        monotone: bool = False,
    ) -> int:
        self.chosen.append((scores, epsilon, sensitivity, monotone))
        return int(np.argmax(scores))


@dataclass
class MeasureRecorder(Silence):
    """Keeps the sums that it is told of, which are exact.

    Attributes:
        told: (purpose, sums in lattice steps, what noise they would have), in the order of the
            rounds.
    """

    told: list[tuple[str, np.ndarray, SumNoise]] = field(default_factory=list)

    def made(
        self, purpose: str, domain: np.ndarray, noisy: np.ndarray, noise: SumNoise, *_: Any
    ) -> None:
        self.told.append((purpose, noisy, noise))

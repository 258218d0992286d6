"""Exact noise, with a note of each call for it: what a release draws beside what it spends."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tracecloak.anonymizers.noise.samplers import EXACT, CellStream, Noise


class Drawn(NamedTuple):
    """One call for noise.

    Attributes:
        purpose: What the noise was for.
        law: Which.
        n: How many numbers were drawn, or chosen from.
        scale: Of the noise; of a selection its sensitivity divided by epsilon.
        sensitivity: What the noise was made to cover, in the units of the scale, where it is known.
    """

    purpose: str
    law: str
    n: int
    scale: Fraction
    sensitivity: Fraction | None = None


@dataclass
class Recording(Noise):
    """Draws exactly, and notes what was asked for."""

    drawn: list[Drawn] = field(default_factory=list)

    def _note(self, stream: CellStream, law: str, *scale: int) -> None:
        self.drawn.append(Drawn(stream.purpose, law, len(stream), Fraction(*scale)))

    def laplace(self, stream: CellStream, *scale: Any) -> np.ndarray:
        self._note(stream, "discrete_laplace", *scale)
        return EXACT.laplace(stream, *scale)

    def gaussian(self, stream: CellStream, *scale: Any) -> np.ndarray:
        self._note(stream, "discrete_gaussian", *scale)
        return EXACT.gaussian(stream, *scale)

    def truncated_laplace(self, stream: CellStream, *given: Any) -> np.ndarray:
        self._note(stream, "truncated_laplace", *given[:2])
        return EXACT.truncated_laplace(stream, *given)

    def select(
        self,
        stream: CellStream,
        scores: np.ndarray,
        epsilon: Fraction,
        sensitivity: Fraction,
        **named: Any,
    ) -> int:
        scale = sensitivity / epsilon
        self.drawn.append(Drawn(stream.purpose, "selection", len(stream), scale, sensitivity))
        return EXACT.select(stream, scores, epsilon, sensitivity, **named)

    def made(self, purpose: str, *given: Any) -> None:
        """Notes what the last call was made to cover."""
        noise = given[2]
        if self.drawn[-1].purpose == purpose and noise.sensitivity is not None:
            self.drawn[-1] = self.drawn[-1]._replace(sensitivity=noise.sensitivity)

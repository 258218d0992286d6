"""Noisy sums that a release publishes beside what it makes of them.

A log is drawn so that it agrees with many noisy sums. Who reads that 1,020 cases took a path wants
to know what was measured: 1,034, with a standard deviation of 20. Such a sum is private already, so
to publish it costs nothing. A part of a method says so with `note` where it has drawn the noise,
and says nothing of sums that must not be seen, such as counts below a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from tracecloak.anonymizers.noise.drawing import EXACT, Noise
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.schemas.published.measures import Measure, ReleasedMeasures


@dataclass
class Noting(Noise):
    """Draws as another does, and keeps what parts note.

    Attributes:
        inner: What draws.
        noted: The noted sums, in their order.
    """

    inner: Noise = EXACT
    noted: list[Measure] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Takes over how the other draws and chooses, and whom it tells."""
        for name in ("laplace", "gaussian", "truncated_laplace", "select", "made"):
            setattr(self, name, getattr(self.inner, name))

    @property
    def measures(self) -> ReleasedMeasures:
        """What was noted, as a product of the release."""
        return ReleasedMeasures.of(self.noted)


def note(
    randomness: Randomness,
    what: str,
    of: Callable[[], Iterable[tuple[str, ...]]],
    sums: np.ndarray,
    deviation: float,
) -> None:
    """Notes noisy sums, if anything listens.

    Args:
        randomness: The release's.
        what: What they are sums of; see `schemas.published.measures`.
        of: Returns what each is of; it is called only if somebody listens.
        sums: float64[n], with their noise, in the unit of `what`.
        deviation: Standard deviation of the noise of each; 0 of a public number.
    """
    noting = randomness.noise
    if not isinstance(noting, Noting):
        return
    values = np.asarray(sums, np.float64).tolist()
    noting.noted.extend(
        Measure(what, one, value, float(deviation)) for one, value in zip(of(), values, strict=True)
    )

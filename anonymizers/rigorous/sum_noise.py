"""The noise of sums for a budget and a sensitivity, and what it costs: one value for both."""

from __future__ import annotations

from fractions import Fraction

from tracecloak.anonymizers.accounting.calibration import gaussian_scale, laplace_scale
from tracecloak.anonymizers.accounting.composition import Mechanism, Spend
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.params import drawable

# `gaussian_scale` rounds up to 8 digits, by at most 1e-7; twice that covers what is rounded.
_SCALE_ROUNDING = Fraction(2, 10**7)


def laplace_sums(epsilon: Fraction, changed: Sensitivity, units: int = 1) -> SumNoise:
    """Returns discrete Laplace noise that covers sums with epsilon.

    Args:
        epsilon: Of all sums together.
        changed: What one unit changes, in lattice steps.
        units: Lattice steps of one occurrence.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    scale = drawable(laplace_scale(epsilon, changed))
    return SumNoise(scale, units, True, Fraction(changed.l1))


def gaussian_sums(
    epsilon: Fraction, delta: Fraction, changed: Sensitivity, units: int = 1
) -> SumNoise:
    """Returns discrete Gaussian noise that covers sums with epsilon and delta.

    Args:
        epsilon: Of all sums together.
        delta: Of all sums together, above 0.
        changed: What one unit changes, in lattice steps.
        units: Lattice steps of one occurrence.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    scale = drawable(gaussian_scale(epsilon, delta, changed))
    return SumNoise(scale, units, False, changed.l2)


def spend_of(
    what: str, epsilon: Fraction, delta: Fraction, noise: SumNoise, *, is_any_clip: bool = False
) -> Spend:
    """Returns what sums with this noise cost.

    Args:
        what: The part.
        epsilon: That the noise was made for.
        delta: Likewise.
        noise: From `laplace_sums` or `gaussian_sums`.
        is_any_clip: Whether it stands for that of every clip that may be bought: the ratio of scale
            to sensitivity is known beforehand, but for how much the scale is rounded up.
    """
    assert noise.sensitivity is not None  # or it was made elsewhere
    kind: Mechanism = "discrete_laplace" if noise.is_laplace else "discrete_gaussian"
    sensitivity = noise.sensitivity * (1 + _SCALE_ROUNDING if is_any_clip else 1)
    return Spend(what, kind, epsilon, delta, noise.scale, sensitivity)

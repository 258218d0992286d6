"""What one unit changes of the sums that a Markov chain is made of."""

from __future__ import annotations

import math

from tracecloak.anonymizers.accounting.sensitivity import (
    Sensitivity,
    of_clipped_cells,
    of_directly_follows,
    of_one_cell,
)
from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.anonymizers.rigorous.clips import norm_grid
from tracecloak.schemas.errors import UsageError

# Lattice steps of one occurrence, fewer where the noise could not be drawn on so fine a lattice.
_MOST_UNITS = 1024


def sums_sensitivity(clip_squared: int, units: int, max_units: int) -> Sensitivity:
    """Returns that of the clipped vectors and the cases, in lattice steps.

    The norm of a case's vector and its 1 is rounded up to a whole step.
    """
    norm = math.isqrt((clip_squared + 1) * units**2 - 1) + 1
    return of_clipped_cells(norm, max_units)


def whole_sums_sensitivity(max_length: int, max_units: int) -> Sensitivity:
    """Returns that of directly-follows pairs and the cases, none of them clipped."""
    return of_directly_follows(max_length).beside(of_one_cell()).of_cases(max_units)


def lattice_units(allowance: Allowance, max_units: int) -> int:
    """Returns the lattice steps of one occurrence, a power of two: public, whatever the clip.

    Raises:
        UsageError: Even on the coarsest lattice the noise would be too wide to be drawn.
    """
    units = _MOST_UNITS
    while units > 1:
        try:
            allowance.noise(largest_sums(units, max_units), units)
        except UsageError:
            units //= 2
        else:
            break
    return units


def largest_sums(units: int, max_units: int) -> Sensitivity:
    """Returns that of the sums at the largest clip, in lattice steps."""
    return sums_sensitivity(int(norm_grid()[-1]), units, max_units)

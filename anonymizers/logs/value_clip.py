"""To what norm the values of a case's events are scaled down: a public clip, or a bought one.

The clip that is bought is one for steps (`times.step_durations`): it was chosen as if each of the
m - 1 steps of a case of m events counted in three cells, so a case whose cells are all distinct has
the norm root(3 (m - 1)) there. Its values count in one cell an event, or one a step: the norm is at
most root(m). So the clip of values is the bought one divided by the root of 2, because
3 (m - 1) / 2 >= m for m >= 3: such a case that keeps its steps keeps its values, but for what is
rounded down. Noise is in proportion to the clip, and with it smaller by the root of 2.

The clip is a number that was decided before and may be any: what follows from it is private as it
is. A public clip is meant for values, too, and stays as it was given.
"""

from __future__ import annotations

import math

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.times.step_durations import noise_text

_SQUARE = 2  # the bought clip is divided by the root of this


def clip_of_values(public_units: int | None, decisions: contract.Decisions) -> int:
    """Returns the clip of attributes of events and of handovers, in lattice steps.

    Args:
        public_units: The public one; None: it follows from `decisions["clip"].clip_units`, rounded
            down, and is at least one occurrence.
        decisions: What was decided before.
    """
    if public_units is not None:
        return public_units
    bought: int = decisions["clip"].clip_units
    return max(UNITS, math.isqrt(bought**2 // _SQUARE))


def noise_of_values(noise: SumNoise, public_units: int | None) -> str:
    """Returns what noise means for a sum, in words.

    Args:
        noise: Of one sum; of a clip of one occurrence where none is public.
        public_units: See `clip_of_values`.
    """
    return noise_text(noise, public_units, 1 / math.sqrt(_SQUARE))

"""How far to trust the numbers of cases that a step publishes by variant.

Intervals are those of the noise, as of `variant-histogram`: for any one variant, chosen without
looking. A window shows a variant because its noisy count reaches the threshold, so of counts just
above it fewer intervals hold. Sums over steps have noise of their own, which does not decide what
is shown. What is not shown has a limit as well: it stayed below the threshold in every step that is
summed up, but for noise.

All of it follows from released numbers and public parameters, so it costs nothing. The counts are
of cases as the stream counts them, ended at max_trace_length.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_interval
from tracecloak.anonymizers.graphs.count_intervals import intervals_of_all, reach_of_noise
from tracecloak.anonymizers.streams.continual import ContinualNoise
from tracecloak.schemas.published.figure import DERIVED
from tracecloak.schemas.published.figures import Figure, ReleasedFigures
from tracecloak.schemas.published.step import StepRelease


def window_with_limits(release: StepRelease, chosen: ContinualNoise) -> StepRelease:
    """Returns the variants of a window with 95 % intervals, and the limit of all others.

    Args:
        release: The variants that reach the threshold.
        chosen: Their noise, which is Laplace, on whole counts.
    """
    assert chosen.threshold is not None
    half_width = laplace_interval(Fraction(*chosen.scale))
    lows, highs = np.maximum(release.counts - half_width, 0), release.counts + half_width
    reach = reach_of_noise(max(len(release.counts), 1), is_laplace=True)
    limit = math.ceil(chosen.threshold + chosen.scale[0] / chosen.scale[1] * reach)
    return replace(release, lows=lows, highs=highs, figures=_of_others(limit))


def sums_with_limits(
    release: StepRelease, chosen: ContinualNoise, n_steps: int, *, is_full: bool
) -> StepRelease:
    """Returns the variants of a sum over steps with 95 % intervals, and the limit of all others.

    Args:
        release: The variants that were chosen so far.
        chosen: The noise of the counts that chose them, which is Gaussian.
        n_steps: Steps that are summed up.
        is_full: Whether there is no place for another variant: nothing is known of the others then.
    """
    assert chosen.threshold is not None
    lows, highs = intervals_of_all(release.counts, release.standard_errors)
    reach = reach_of_noise(max(len(release.counts), 1), is_laplace=False)
    noise = chosen.deviation * math.sqrt(n_steps) * reach
    limit = math.ceil((n_steps * chosen.threshold + noise) / chosen.units)
    figures = ReleasedFigures.of([]) if is_full else _of_others(limit)
    return replace(release, lows=lows, highs=highs, figures=figures)


def _of_others(limit: int) -> ReleasedFigures:
    return ReleasedFigures.of([Figure("variant_not_shown", (), 0, 0, limit, DERIVED)])

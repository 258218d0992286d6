"""Whether published intervals contain the truth as often as they say, and how wide they are.

An interval of 95 % shall contain the exact value 95 times in a hundred (Neyman, 1937). Coverage
alone can be had by wide intervals, so the width stands beside it, over that of an interval that
covers nothing but the noise.

Pure functions of arrays. Every figure is exact about private data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_interval

_Z95 = 1.96


def interval_coverage(truth: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> float | None:
    """Returns the share of intervals with low <= truth <= high; None without an interval.

    Args:
        truth: int64[n], exact values.
        lows: int64[n].
        highs: int64[n].
    """
    return float(((lows <= truth) & (truth <= highs)).mean()) if len(truth) else None


def interval_width(lows: np.ndarray, highs: np.ndarray, noise_half_width: float) -> float | None:
    """Returns the mean of high - low over the width of the noise; None without an interval.

    Intervals that are cut off at 0 make it smaller.

    Args:
        lows: int64[n].
        highs: int64[n].
        noise_half_width: Half the interval that holds the noise alone, above 0.
    """
    return float((highs - lows).mean() / (2 * noise_half_width)) if len(lows) else None


def noise_half_width(manifest: Mapping[str, Any]) -> float | None:
    """Returns half the 95 % interval of the noise of a released graph, in occurrences.

    Args:
        manifest: Of the release.

    Returns:
        None where the manifest does not tell: without such noise, or where its scale followed from
        a norm that was bought.
    """
    params = manifest.get("params", {})
    for part in _parts(manifest.get("spends", ())):
        if part.get("what") != "edges" or not part.get("scale") or not part.get("sensitivity"):
            continue
        scale, sensitivity = Fraction(part["scale"]), Fraction(part["sensitivity"])
        if part.get("mechanism") == "discrete_laplace":  # counts of whole occurrences
            return float(laplace_interval(scale)) or None
        if params.get("l2_clip") is None:
            return None
        # What one unit can change, in occurrences and in steps of the lattice.
        norm = Fraction(str(params["l2_clip"])) * int(params.get("max_cases_per_individual") or 1)
        return float(_Z95 * scale / sensitivity * norm)
    return None


def _parts(spends: Any) -> Iterator[Mapping[str, Any]]:
    """Every part, those within others too."""
    if isinstance(spends, Mapping):
        yield spends
        spends = list(spends.values())
    if isinstance(spends, list | tuple):
        for one in spends:
            yield from _parts(one)

"""Whether published intervals contain the truth as often as they say, and how wide they are.

An interval of 95 % shall contain the exact value 95 times in a hundred (Neyman, 1937). Coverage
alone can be had by wide intervals, so the width stands beside it, over that of an interval that
covers nothing but the noise.

Pure functions of arrays. Every figure is exact about private data.

A bootstrap of a log: as many of its cases, drawn with replacement.

What it differs from the log by is what another log of the same process would (Efron, 1979), so it
is the line beside a measure that no release need pass: who is nearer repeats the log's accidents.

It is no protection, and its draws are no noise: they are public and always the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_interval
from tracecloak.schemas.arrays.hashing import mix
from tracecloak.schemas.events.traces import TraceBatch

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


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def public_words(n: int, draw: int) -> np.ndarray:
    """Returns uint64[n], words that look random and that everybody can compute (splitmix64).

    Args:
        n: How many.
        draw: Different numbers from 0 on give different words.
    """
    start = mix(np.array([draw + 1], np.uint64))
    return mix(start + np.arange(1, n + 1, dtype=np.uint64) * _GOLDEN)


def bootstrap(traces: TraceBatch, draw: int = 0) -> TraceBatch:
    """Returns a bootstrap of a log; a case that is drawn again has the same id again.

    Args:
        traces: The log.
        draw: Which of its bootstraps, from 0.
    """
    n = traces.n_cases
    drawn = public_words(n, draw) % np.uint64(max(n, 1))
    return traces.take(np.sort(drawn.astype(np.int64)))

"""Whether a release that is made is mostly noise, by public numbers alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tracecloak.anonymizers.contract.method import Anonymizer

# Noise is looked at more closely if it is as large as what this share of the cases of a course
# changes. No release with less noise was found to be less than worth it.
_WATCHED_NOISE = Fraction(1, 50)
LARGEST_TRIED = 100_000
"""Cases of the largest log that is made up to try a configuration on."""
LONGEST_CASE = 30
"""Events of a case of such a log, at most."""


def may_be_noise(method: Anonymizer, params: Any, n_cases: int) -> bool:
    """Returns whether a log of so many cases is to be made up before something is said of it.

    That is if noise is large beside them, or where no noise has a scale.

    Args:
        method: A rigorous method.
        params: Its parameters.
        n_cases: Cases of the release.
    """
    if n_cases > LARGEST_TRIED:
        return False
    return not _least_noise(method, params) or is_mostly_noise(method, params, n_cases)


def is_mostly_noise(method: Anonymizer, params: Any, n_cases: int) -> bool:
    """Returns whether noise is large beside what was released, so that `advice_on` is worth asking.

    Args:
        method: A rigorous method.
        params: Its parameters.
        n_cases: Cases of what was released, noise included.
    """
    if n_cases > LARGEST_TRIED:
        return False
    bounds = method.bounds(params)
    length = min(bounds.max_trace_length or LONGEST_CASE, LONGEST_CASE)
    n_courses = max(1, -(-len(bounds.vocabulary or ()) // length))
    n_on_course = Fraction(n_cases, n_courses)
    return _least_noise(method, params) >= _WATCHED_NOISE * n_on_course


def _least_noise(method: Anonymizer, params: Any) -> Fraction:
    """Returns how many cases change a number by as much as its noise; the least of all numbers.

    It is 0 where no noise has a scale, as with choices.
    """
    scales = []
    for part in method.spends(params):
        if part.scale is not None and part.sensitivity:
            scales.append(Fraction(*part.scale) / part.sensitivity)
        scales += [Fraction(*block.scale) / block.sensitivity for block in part.blocks]
    return min(scales, default=Fraction(0))

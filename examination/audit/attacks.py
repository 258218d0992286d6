"""Attacks on releases that count: lone cases that came out, and the crowds of the others.

Each compares releases with what a mechanism that keeps its promise may show, or counts whom a
release singles out. The lower bounds of epsilon are in `examination.audit.bounds`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from tracecloak.schemas.errors import UsageError


@dataclass(frozen=True)
class SupportFinding:
    """How many variants of a single case came out; see `support_attack`.

    Attributes:
        n_singletons_in_input: Variants that one case alone follows.
        n_released_singletons: Those of them that were released, whatever their count.
        expected_at_most: delta times the number of singletons.
        p_value: Probability of at least as many if each comes out with probability delta.
    """

    n_singletons_in_input: int
    n_released_singletons: int
    expected_at_most: float
    p_value: float


def support_attack(
    counts: Mapping[Any, int], released: Iterable[Hashable], delta: float
) -> SupportFinding:
    """Looks for the variants of one case in a release.

    A mechanism that never releases a variant that is not in its input must keep a variant of one
    case back with probability 1 - delta, whatever its epsilon: without the case it cannot come out
    at all. The p-value is exact for a mechanism that decides on each variant by itself; it says
    nothing about one that invents variants.

    Args:
        counts: Cases of each variant in the input; the keys may be anything that compares equal
            to the released ones, such as tuples of activities.
        released: The variants that were released.
        delta: In [0, 1].

    Raises:
        UsageError: Delta is outside its range.
    """
    if not 0 <= delta <= 1:
        raise UsageError(f"delta must lie between 0 and 1, got {delta!r}")
    singletons = {variant for variant, count in counts.items() if count == 1}
    n_released = len(singletons.intersection(released))
    return SupportFinding(
        n_singletons_in_input=len(singletons),
        n_released_singletons=n_released,
        expected_at_most=delta * len(singletons),
        p_value=float(stats.binom.sf(n_released - 1, len(singletons), delta)),
    )


@dataclass(frozen=True)
class CrowdSizes:
    """Released variants by how many cases they say share them."""

    of_1: int
    of_2_to_4: int
    of_5_to_9: int
    of_10_or_more: int


def singled_out(counts: np.ndarray) -> CrowdSizes:
    """Sorts released variants by the size of the crowd that a case of theirs hides in.

    Args:
        counts: int64[n_variants], released cases of each; variants without a case are left out.
    """
    ends = np.searchsorted(np.sort(np.asarray(counts)), [1, 2, 5, 10])
    sizes = np.diff(np.append(ends, len(counts)))
    return CrowdSizes(*(int(size) for size in sizes))

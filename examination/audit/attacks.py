"""Attacks on releases that count: noise used twice, lone cases that came out, bits of floats.

Each compares releases with what a mechanism that keeps its promise may show, or counts whom a
release singles out. The lower bounds of epsilon are in `examination.audit.bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from tracecloak.schemas.errors import UsageError


@dataclass(frozen=True)
class AveragingGain:
    """What comparing several noises tells; see `averaging_gain`.

    Attributes:
        n_releases: Noise vectors compared.
        n_values: Values of each that were compared.
        n_equal_pairs: Pairs of vectors that are equal throughout.
        largest_correlation: The largest absolute correlation of a pair.
        bound: 6 / sqrt(n_values): a correlation beyond it is none of chance.
        remaining_error: Deviation of the vectors' average, as a share of a single one's:
            1 / sqrt(n_releases) if they are independent, 1 if they are the same.
    """

    n_releases: int
    n_values: int
    n_equal_pairs: int
    largest_correlation: float
    bound: float
    remaining_error: float

    @property
    def is_independent(self) -> bool:
        """Whether nothing is shared, as between release ids; averaging then wears noise off."""
        return self.n_equal_pairs == 0 and self.largest_correlation <= self.bound

    @property
    def is_identical(self) -> bool:
        """Whether all are the same, as between runs of one release id."""
        return self.n_equal_pairs == self.n_releases * (self.n_releases - 1) // 2


def averaging_gain(releases: np.ndarray) -> AveragingGain:
    """Compares the noises of several releases of the same log.

    Runs of one release id must be identical, or averaging them removes the noise unpaid. Different
    release ids, and different queries of one release, must be independent, or their difference is
    free of noise. Two independent vectors exceed the bound with probability about 2e-9 if there
    are a thousand values or more; with 36 or fewer only equality can be found, and short vectors of
    small noise may be equal by chance.

    Args:
        releases: float64[n_releases, n_values], the noises; a value that is NaN in some release is
            left out of all.

    Raises:
        UsageError: There are fewer than two releases, or no value is in all of them.
    """
    noise = np.asarray(releases, float)
    if noise.ndim != 2 or len(noise) < 2:
        raise UsageError(
            f"releases must be [n_releases, n_values] with at least 2, got shape {noise.shape}"
        )
    noise = noise[:, np.isfinite(noise).all(axis=0)]
    n_releases, n_values = noise.shape
    if n_values == 0:
        raise UsageError("no value is in all releases; compare releases that share some")
    _, repeats = np.unique(noise, axis=0, return_counts=True)
    centred = noise - noise.mean(axis=1, keepdims=True)
    size = np.sqrt((centred**2).sum(axis=1))
    # A vector that does not vary counts as correlated with every other, since it hides nothing.
    unit = np.where(size[:, None] > 0, centred / np.maximum(size, 1e-300)[:, None], np.nan)
    correlations = np.abs(np.nan_to_num(unit @ unit.T, nan=1.0))[np.triu_indices(n_releases, 1)]
    single = math.sqrt(float((centred**2).mean()))
    averaged = math.sqrt(float((centred.mean(axis=0) ** 2).mean()))
    return AveragingGain(
        n_releases=n_releases,
        n_values=n_values,
        n_equal_pairs=int((repeats * (repeats - 1) // 2).sum()),
        largest_correlation=float(correlations.max()),
        bound=6 / math.sqrt(n_values),
        remaining_error=averaged / single if single > 0 else 1.0,
    )


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

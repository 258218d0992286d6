"""Attacks on releases that count: noise used twice, lone cases that came out, bits of floats.

Each compares releases with what a mechanism that keeps its promise may show, or counts whom a
release singles out. The lower bounds of epsilon are in `examination.audit.bounds`.

How often an attacker can guess rightly which of several cases a release was made with.

One of k logs is drawn with equal chances, and the attacker sees a release of it and guesses which
it was. What differential privacy promises bounds the chance of a right guess, whatever the
attacker computes and knows; and so the guesses that were right bound epsilon from below.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tracecloak.examination.audit.bounds import clopper_pearson
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
    counts: Mapping[Hashable, int], released: Iterable[Hashable], delta: float
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


def largest_success(
    epsilon: float, delta: float, n_candidates: int, *, are_neighbours: bool
) -> float:
    """Returns the largest probability of a right guess under (epsilon, delta)-privacy.

    Let p_j be the probability of guessing j where j is in, S_j the releases for which j is guessed,
    and k the candidates. The sets S_j share nothing. If any two candidates make neighbours,
    P_j(S_j) <= e^epsilon P_i(S_j) + delta for all i but j; added up over i and j it is
    (k - 1) p <= e^epsilon (1 - p) + (k - 1) delta for the mean p of the p_j. For two it is
    (e^epsilon + delta) / (1 + e^epsilon) (Kairouz, Oh and Viswanath, "The Composition Theorem for
    Differential Privacy", 2015). If each makes a neighbour of one log that is none of theirs, with
    probabilities P_0, then P_j(S_j) <= e^epsilon P_0(S_j) + delta, and the same of what is not in
    S_j with the logs exchanged: p <= e^epsilon / k + delta, and
    p <= 1 - e^-epsilon (1 - 1 / k - delta). What else the attacker knows does not matter, nor a
    release of the log without the case, as neither depends on the draw.

    Args:
        epsilon: Not negative.
        delta: In [0, 1].
        n_candidates: At least 2, equally likely.
        are_neighbours: Whether the logs of any two candidates are neighbours; otherwise each is
            one of the log without a candidate.

    Raises:
        UsageError: An argument is outside its range.
    """
    _check(delta, n_candidates)
    if not epsilon >= 0:
        raise UsageError(f"epsilon must be at least 0, got {epsilon!r}")
    shrunk = math.exp(-epsilon)
    if are_neighbours:
        others = (n_candidates - 1) * shrunk
        return min(1.0, (1 + others * delta) / (1 + others))
    above = 1 - shrunk * (1 - 1 / n_candidates - delta)
    at_most = math.exp(min(epsilon, 700.0)) / n_candidates + delta  # e^700 is still a float
    return min(1.0, at_most, above)


def epsilon_of_guesses(
    n_right: int,
    n_games: int,
    n_candidates: int,
    delta: float,
    confidence: float,
    *,
    are_neighbours: bool,
) -> float:
    """Bounds epsilon from below by right guesses of independent games: `largest_success` inverted.

    At the one-sided bound of Clopper and Pearson (1934): games that are each won with at most that
    probability are together won no more often than as many coins of it, whatever their logs.

    Args:
        n_right: Games that were won.
        n_games: Games that were played, at least 1; fixed beforehand.
        n_candidates: At least 2, the same in all games.
        delta: In [0, 1].
        confidence: In (0.5, 1): probability at least that the bound is right.
        are_neighbours: As of `largest_success`.

    Returns:
        Epsilon, or 0 if so many right guesses may be luck.

    Raises:
        UsageError: An argument is outside its range.
    """
    _check(delta, n_candidates)
    if not 0.5 < confidence < 1:
        raise UsageError(f"confidence must lie strictly between 0.5 and 1, got {confidence!r}")
    share = clopper_pearson(n_right, n_games, 2 * (1 - confidence))[0]
    if are_neighbours:
        ratios = [(n_candidates - 1) * (share - delta) / (1 - share)]
    else:
        ratios = [
            n_candidates * (share - delta),
            (1 - 1 / n_candidates - delta) / (1 - share),
        ]
    return math.log(max(1.0, *ratios))


def _check(delta: float, n_candidates: int) -> None:
    if not 0 <= delta <= 1:
        raise UsageError(f"delta must lie between 0 and 1, got {delta!r}")
    if n_candidates < 2:
        raise UsageError(f"a game needs at least 2 candidates, got {n_candidates}")

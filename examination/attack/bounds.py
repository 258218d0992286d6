"""Lower bounds of epsilon from releases: events that tell two sets of them apart, and canaries.

A lower bound here is a fact about the code that ran, with a stated confidence, and needs no trust
in how the code reasons: if it exceeds the epsilon that is claimed, the claim is false. The converse
does not hold. A small bound proves nothing, because another pair of logs or another event may tell
the releases apart better.

Everything here is computed from raw data or from releases of logs made for the audit. It draws no
randomness of its own, and its results are for the operator: they are not private. Whatever is
chosen or learnt is chosen and learnt on releases that are not measured, so nothing of it can make a
bound wrong, only weak.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from scipy import special, stats

# A score weighs at most so many columns: solving for 512 weights takes milliseconds.
_MAX_LINEAR_COLUMNS = 512
# Bins of a feature in the likelihood score: finer ones hold too few releases to compare.
_MAX_BINS = 32
# A feature enters the likelihood score if chance alone would differ as much once in a thousand.
_MAX_CHANCE = 1e-3


@dataclass(frozen=True)
class Column:
    """A number of each release: a feature, or a score of all of them."""

    name: str
    of: Callable[[np.ndarray], np.ndarray]  # float64[n, n_features] -> float64[n], NaN where absent


_COMPARISONS = {"≥": np.greater_equal, "≤": np.less_equal, "=": np.equal}


@dataclass(frozen=True)
class Event:
    """What a release does or does not: compare a column with a value, or lack it."""

    column: Column
    kind: str  # "≥", "≤", "=", "is absent" or "is present"
    value: float  # what "≥", "≤" and "=" compare with

    def count(self, releases: np.ndarray) -> int:
        """Returns in how many releases, float64[n, n_features], it happens."""
        numbers = self.column.of(releases)
        if self.kind in _COMPARISONS:
            return int(_COMPARISONS[self.kind](numbers, self.value).sum())
        return int((np.isnan(numbers) == (self.kind == "is absent")).sum())

    def __str__(self) -> str:
        value = f" {self.value:.12g}" if self.kind in _COMPARISONS else ""
        return f"{self.column.name} {self.kind}{value}"


def chosen_events(
    columns: Iterable[Column],
    with_unit: np.ndarray,
    without_unit: np.ndarray,
    n_measured: int,
    alpha: float,
    delta: float,
) -> list[Event]:
    """Returns the best event that is likelier with the unit, and the best that is likelier without.

    Args:
        columns: What events may ask for.
        with_unit: float64[n, n_features].
        without_unit: float64[n, n_features].
        n_measured: Releases of each log that the event will be measured on.
        alpha: Of the Clopper-Pearson intervals that it will be measured by. The best event is the
            one of which they would prove most if the shares seen here came again, so a tight
            interval counts as much as a large ratio.
        delta: The claimed one.
    """
    n = len(with_unit)
    # Lower ends of the intervals for every count seen here; the upper ends mirror them.
    again = np.arange(1, n + 1) * (n_measured / n)
    low = np.concatenate([[0.0], special.betaincinv(again, n_measured - again + 1, alpha / 2)])
    high = 1 - low[::-1]
    best: list[tuple[float, Event | None]] = [(-math.inf, None), (-math.inf, None)]
    for column in columns:
        a, b = column.of(with_unit), column.of(without_unit)
        kinds, values, n_with, n_without = _candidates(a, b)
        for side, (likelier, other) in enumerate(((n_with, n_without), (n_without, n_with))):
            worth = _log_ratio(low[likelier], high[other], delta)
            k = int(np.argmax(worth))
            if worth[k] > best[side][0]:
                best[side] = (float(worth[k]), Event(column, str(kinds[k]), float(values[k])))
    return [event for _, event in best if event is not None]


def _log_ratio(low: np.ndarray, high: np.ndarray, delta: float) -> np.ndarray:
    """The epsilon that intervals prove: from the lower end of one and the upper one of another."""
    over = low - delta
    # Where delta alone explains the event there is no logarithm to take. Such events are ranked
    # behind all others, in their own order.
    return np.where(over > 0, np.log(np.maximum(over, 1e-300) / high), over - 1e3)


def _candidates(
    a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns the kind, the value and both sides' counts of every event of a column."""
    present = [np.sort(x[~np.isnan(x)]) for x in (a, b)]
    values = np.unique(np.concatenate(present))
    k = len(values)
    # Of events that are equally good the first is taken, so the plainest comes first.
    kinds = np.repeat(["is present", "is absent", "≥", "≤", "="], [1, 1, k, k, k])
    counts = []
    for x, ordered in zip((a, b), present, strict=True):
        below, upto = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
        n = len(ordered)
        counts.append(np.concatenate([[n, len(x) - n], n - below, upto, upto - below]))
    return kinds, np.concatenate([[0.0, 0.0], values, values, values]), counts[0], counts[1]


def learnt_columns(with_unit: np.ndarray, without_unit: np.ndarray) -> list[Column]:
    """Returns the scores that these releases suggest, none where they suggest none."""
    columns = [_linear(with_unit, without_unit), _likelihood(with_unit, without_unit)]
    return [column for column in columns if column is not None]


def _linear(with_unit: np.ndarray, without_unit: np.ndarray) -> Column | None:
    """Fisher's linear discriminant of the features, and of which are absent, with a ridge."""
    pooled = np.concatenate([with_unit, without_unit])
    absent = np.isnan(pooled)
    mean = np.where(absent, 0.0, pooled).sum(axis=0) / np.maximum((~absent).sum(axis=0), 1)
    partly = np.flatnonzero(absent.any(axis=0))

    def numbers(releases: np.ndarray) -> np.ndarray:
        lacking = np.isnan(releases)
        return np.hstack([np.where(lacking, 0.0, releases - mean), lacking[:, partly]])

    a, b = numbers(with_unit), numbers(without_unit)
    deviation = np.concatenate([a, b]).std(axis=0)
    varying = np.flatnonzero(deviation > 0)
    if len(varying) < 2:  # a threshold of the one column says as much
        return None
    distance = np.abs(a.mean(axis=0) - b.mean(axis=0))[varying] / deviation[varying]
    chosen = varying[np.sort(np.argsort(-distance, kind="stable")[:_MAX_LINEAR_COLUMNS])]
    a, b = a[:, chosen] / deviation[chosen], b[:, chosen] / deviation[chosen]
    within = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)])
    # The ridge stands for the error of a covariance estimated from so few releases.
    ridge = len(chosen) / len(within) * np.eye(len(chosen))
    weights = np.linalg.solve(within.T @ within / len(within) + ridge, a.mean(0) - b.mean(0))
    weights = weights / deviation[chosen]

    def score(releases: np.ndarray) -> np.ndarray:
        columns = numbers(releases)
        # Column by column: a product of matrices may round equal rows differently.
        total = np.zeros(len(releases))
        for j, weight in zip(chosen, weights, strict=True):
            total += weight * columns[:, j]
        return total

    return Column(f"linear score of {len(chosen)} columns", score)


def _likelihood(with_unit: np.ndarray, without_unit: np.ndarray) -> Column | None:
    """Sum over features of ln(share with the unit / share without it) of the bin it falls into."""
    tables: list[tuple[int, np.ndarray, np.ndarray]] = []  # feature, edges, log ratio of each bin
    for j in range(with_unit.shape[1]):
        pooled = np.concatenate([with_unit[:, j], without_unit[:, j]])
        distinct = np.unique(pooled[~np.isnan(pooled)])
        edges = distinct
        if len(distinct) > _MAX_BINS:  # the edges have about as many releases between them
            shares = np.linspace(0, 1, _MAX_BINS)
            edges = np.unique(np.nanquantile(pooled, shares, method="lower"))
        a, b = (
            np.bincount(_bins(x[:, j], edges), minlength=len(edges) + 2)
            for x in (with_unit, without_unit)
        )
        used = a + b > 0
        chi_square = ((a - b)[used] ** 2 / (a + b)[used]).sum()
        if stats.chi2.sf(chi_square, max(used.sum() - 1, 1)) < _MAX_CHANCE:
            tables.append((j, edges, np.log((a + 0.5) / (b + 0.5))))
    if not tables:
        return None

    def score(releases: np.ndarray) -> np.ndarray:
        total = np.zeros(len(releases))
        for j, edges, ratios in tables:
            total += ratios[_bins(releases[:, j], edges)]
        return total

    return Column(f"likelihood score of {len(tables)} features", score)


def _bins(numbers: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Returns int64[n]: how many edges are not above each number; one more than all if absent."""
    return np.where(
        np.isnan(numbers), len(edges) + 1, np.searchsorted(edges, numbers, side="right")
    )


# One bound for each side of the ratio, in each of its two directions.
_N_BOUNDS = 4


@dataclass(frozen=True)
class AuditedEpsilon:
    """A lower bound and the event that proves it.

    Attributes:
        epsilon: What the event proves, or 0.
        event: Which event of which feature was measured, such as "cases of a,b ≥ 3".
        p_with: Clopper-Pearson interval of the event's probability with the unit in the log.
        p_without: The same without the unit. Each end of both is missed with probability at most
            (1 - confidence) / 4; the bound uses the lower end of one and the upper of the other.
    """

    epsilon: float
    event: str
    p_with: tuple[float, float]
    p_without: tuple[float, float]


def clopper_pearson(successes: int, trials: int, alpha: float) -> tuple[float, float]:
    """Returns the exact interval of a binomial's probability (Clopper and Pearson, 1934).

    Args:
        successes: Between 0 and `trials`.
        trials: At least 1.
        alpha: In (0, 1); each end is missed with probability at most alpha / 2.
    """
    low, high = 0.0, 1.0
    if successes > 0:
        low = float(special.betaincinv(successes, trials - successes + 1, alpha / 2))
    if successes < trials:
        high = float(special.betainccinv(successes + 1, trials - successes, alpha / 2))
    return low, high


def epsilon_lower_bound(
    with_unit: np.ndarray,
    without_unit: np.ndarray,
    delta: float = 0.0,
    confidence: float = 1 - 1e-9,
    names: Sequence[str] | None = None,
) -> AuditedEpsilon:
    """Bounds from below the epsilon at which the mechanism is (epsilon, delta)-private.

    An event is chosen on the first half of the releases: a feature is at least, at most or exactly
    a value, absent or present, or a score of all features passes a threshold. The scores are learnt
    on the first quarter: a linear discriminant, which sees noise shared between features, and a sum
    of each feature's log-likelihood ratio, which adds up small differences. On the second half the
    event is counted, and ln((p - delta) / q) is bounded by exact binomial intervals, for an event
    more likely with the unit and for one more likely without it. No correction for the number of
    events tried is needed, as none was tried on the half that is counted. (Jagielski, Ullman and
    Oprea, 2020; Bichsel, Steffen, Bogunovic and Vechev, 2021.)

    Where the largest of several bounds is taken, 1 - confidence must be divided by their number.

    Args:
        with_unit: float64[n_releases, n_features], features of at least 8 independent releases of a
            log; NaN where a release lacks the feature.
        without_unit: float64[n_releases, n_features], the same of the log that lacks one unit.
        delta: In [0, 1), the delta that is claimed beside epsilon.
        confidence: In (0, 1).
        names: What the features are called in the event; by default "feature 0" and so on.
    """
    if names is None:
        names = [f"feature {j}" for j in range(with_unit.shape[1])]
    n = len(with_unit)
    learn, choose, measure = slice(n // 4), slice(n // 4, n // 2), slice(n // 2, n)
    columns = [
        *(Column(name, itemgetter((slice(None), j))) for j, name in enumerate(names)),
        *learnt_columns(with_unit[learn], without_unit[learn]),
    ]
    alpha = 2 * (1 - confidence) / _N_BOUNDS  # of an interval, both ends together
    n_measured = n - n // 2
    events = chosen_events(
        columns, with_unit[choose], without_unit[choose], n_measured, alpha, delta
    )
    findings = []
    for event, is_likelier_with in zip(events, (True, False), strict=True):
        p_with = clopper_pearson(event.count(with_unit[measure]), n_measured, alpha)
        p_without = clopper_pearson(event.count(without_unit[measure]), n_measured, alpha)
        likelier, other = (p_with, p_without) if is_likelier_with else (p_without, p_with)
        bound = float(_log_ratio(np.array(likelier[0]), np.array(other[1]), delta))
        findings.append((bound, AuditedEpsilon(max(0.0, bound), str(event), p_with, p_without)))
    return max(findings, key=itemgetter(0))[1]


# --- epsilon from one run -------------------------------------------------------------------------


# Of an epsilon from one run.
_PRECISION = 2.0**-50


def one_run_epsilon(
    n_canaries: int, n_guesses: int, n_right: int, delta: float, confidence: float
) -> float:
    """Bounds epsilon from below by guesses about canaries of a single release.

    Each canary is a unit put into the log by a fair coin of its own; the auditor sees the release
    and guesses some coins, abstaining on the rest. An (epsilon, delta)-private release (adding or
    removing a unit) lets no more be right than coins of bias e^epsilon / (1 + e^epsilon), but for
    a term in delta: Steinke, Nasr and Jagielski, "Privacy Auditing with One (1) Training Run",
    2023, Theorem 5.2.

    Args:
        n_canaries: Canaries that had a coin, at least 1.
        n_guesses: Coins guessed, fixed beforehand if delta is not 0.
        n_right: Guesses that were right.
        delta: In [0, 1].
        confidence: In (0, 1).

    Returns:
        Epsilon, or 0 if so many right guesses may be luck.
    """

    def is_refuted(epsilon: float) -> bool:
        bias = 1 / (1 + math.exp(-epsilon))
        chance = float(stats.binom.sf(n_right - 1, n_guesses, bias))
        if delta > 0 and n_right > 0:
            missed = np.arange(1, n_right + 1)
            close = np.cumsum(stats.binom.pmf(n_right - missed, n_guesses, bias))
            chance += 2 * n_canaries * delta * float((close / missed).max())
        return chance < 1 - confidence

    # By halving, the last that is refuted; none from 1,024 on is, where the bias is 1.
    n_refuted = bisect_left(range(1 << 60), True, key=lambda n: not is_refuted(n * _PRECISION))
    return max(n_refuted - 1, 0) * _PRECISION

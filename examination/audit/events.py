"""Events that tell two sets of releases apart, and the scores that are learnt for them.

An event is a question to one release: is this column at least, at most or exactly a value, or is it
absent? A column is a feature, or a score of all features. Whatever is chosen or learnt here is
chosen and learnt on releases that `examination.audit.bounds` does not measure, so nothing here can
make a bound wrong, only weak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

# A score weighs at most so many columns: solving for 512 weights takes milliseconds.
_MAX_LINEAR_COLUMNS = 512
# Bins of a feature in the likelihood score: finer ones hold too few releases to compare.
_MAX_BINS = 32
# A feature enters the likelihood score if chance alone would differ as much once in a thousand.
_MAX_CHANCE = 1e-3

# A function of the lower ends of intervals of one probability and of the upper ends of another one,
# which returns the epsilon that they prove.
Objective = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Column:
    """A number of each release: a feature, or a score of all of them."""

    name: str
    of: Callable[[np.ndarray], np.ndarray]  # float64[n, n_features] -> float64[n], NaN where absent


@dataclass(frozen=True)
class Event:
    """What a release does or does not: compare a column with a value, or lack it."""

    column: Column
    kind: str  # "≥", "≤", "=", "is absent" or "is present"
    value: float  # what "≥", "≤" and "=" compare with

    def count(self, releases: np.ndarray) -> int:
        """Returns in how many releases, float64[n, n_features], it happens."""
        numbers = self.column.of(releases)
        if self.kind == "≥":
            return int((numbers >= self.value).sum())
        if self.kind == "≤":
            return int((numbers <= self.value).sum())
        if self.kind == "=":
            return int((numbers == self.value).sum())
        absent = int(np.isnan(numbers).sum())
        return absent if self.kind == "is absent" else len(numbers) - absent

    def __str__(self) -> str:
        value = f" {self.value:.12g}" if self.kind in ("≥", "≤", "=") else ""
        return f"{self.column.name} {self.kind}{value}"


def chosen_events(
    columns: Iterable[Column],
    with_unit: np.ndarray,
    without_unit: np.ndarray,
    n_measured: int,
    alpha: float,
    objective: Objective,
) -> list[Event]:
    """Returns the best event that is likelier with the unit, and the best that is likelier without.

    Args:
        columns: What events may ask for.
        with_unit: float64[n, n_features].
        without_unit: float64[n, n_features].
        n_measured: Releases of each log that the event will be measured on.
        alpha: Of the Clopper-Pearson intervals that it will be measured by.
        objective: What to maximise: what the intervals would prove if the shares seen here came
            again. A tight interval thus counts as much as a large ratio.
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
            worth = objective(low[likelier], high[other])
            k = int(np.argmax(worth))
            if worth[k] > best[side][0]:
                best[side] = (float(worth[k]), Event(column, str(kinds[k]), float(values[k])))
    return [event for _, event in best if event is not None]


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

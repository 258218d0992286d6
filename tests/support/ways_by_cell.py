"""How far each way of `auto-variants` was from public logs, as recorded, and what follows from it.

A cell is a log, or a sample of its cases, at an epsilon; or one case of each of its variants, where
hardly a variant repeats in any case. `tests/real_logs/ways_by_cell.py` measures
them; what is recorded of a cell is its exact profile (three numbers of cases), how many activities
it has, and the distances of releases under numbered keys. Nothing else of a log is kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np

from tests.support.generators import budget
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.anonymizers.rigorous.params import LONGEST_CASE
from tracecloak.anonymizers.variants import auto as expected
from tracecloak.anonymizers.variants.auto import AutoVariants
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.joint_variants import REPEATED
from tracecloak.schemas.events.events import ActivityVocabulary

RECORDED = Path(__file__).parents[1] / "real_logs" / "ways_by_cell.json"
DELTA = Fraction(1, 10**6)
WAYS = (expected.HISTOGRAM, expected.JOINT, expected.TREE)
AUTO = AutoVariants()

# Ridge on standardised columns, so that no coefficient follows from a log or two; any from 1 to 10
# does alike.
_RIDGE = 0.03
# Noisy profiles of each cell that coefficients are fitted to, and others that they are judged by,
# and how often the keys are resampled.
_PROFILES, _JUDGED_PROFILES, _RESAMPLED = 16, 40, 200
_WITHIN, _FACTOR = 1.10, 1.5
# Columns of `Profile.features`: how large distances are, in common for all ways; and how the other
# ways differ from a histogram.
_LEVEL = (0, 1, 2, 3, 4)
_DIFFERENCES = {expected.JOINT: (0, 5, 6), expected.TREE: (0, 6)}


@dataclass(frozen=True)
class Cell:
    """A cell, see the module; `distances` has one number for each key, by way.

    `is_distinct` says that each variant has one case.
    """

    log: str
    n_cases: int
    epsilon: str
    n_names: int
    cases: tuple[int, int, int]
    distances: Mapping[str, tuple[float, ...]]
    is_distinct: bool = False

    @property
    def n_keys(self) -> int:
        return min(map(len, self.distances.values()))

    def median(self, way: str) -> float:
        return float(np.median(self.distances[way]))


def recorded() -> list[Cell]:
    return [
        Cell(**{**cell, "cases": tuple(cell["cases"])})
        for cell in json.loads(RECORDED.read_text())["cells"]
    ]


@lru_cache
def public_of(epsilon: str) -> tuple[int, float, Allowance]:
    """A histogram's threshold, the scale of a profile's noise, and what the chain may spend."""
    means = budget(AUTO, epsilon, DELTA).means
    scale = 1 / float(means[f"{AUTO.name} choice"].epsilon)
    threshold = means[f"{AUTO.name}/histogram"].threshold(of_one_cell())
    return threshold, scale, means[AUTO.name].part(REPEATED.chain)


@lru_cache
def domain_of(n_names: int) -> Domain:
    names = tuple(str(i) for i in range(n_names - 1))  # and OTHER
    return Domain(ActivityVocabulary.public(names), LONGEST_CASE, 1)


def noisy_features(cell: Cell, n: int, seed: int) -> np.ndarray:
    """float64[n, 7], features of the cell's profile with noise, drawn anew each time."""
    threshold, scale, for_chain = public_of(cell.epsilon)
    generator = np.random.default_rng([seed, *cell.cases, int(10 * float(cell.epsilon))])
    rows = []
    for noise in np.rint(generator.laplace(0, scale, (n, 3))).astype(np.int64):
        profile = expected.Profile(threshold, np.array(cell.cases) + noise)
        rows.append(profile.features(scale, domain_of(cell.n_names), for_chain))
    return np.array(rows)


Coefficients = Mapping[str, Sequence[float]]


def fitted(cells: Iterable[Cell]) -> dict[str, tuple[float, ...]]:
    """Fits the coefficients; each log weighs as much as any other, however many cells it has."""
    cells = list(cells)
    rows = [noisy_features(cell, _PROFILES, seed=1) for cell in cells]
    logs = [cell.log for cell in cells]
    weights = np.repeat([1 / math.sqrt(logs.count(log)) for log in logs], _PROFILES)
    features = np.concatenate(rows)
    logs_of = np.log([[max(cell.median(way), 1e-4) for way in WAYS] for cell in cells])
    logs_of = np.repeat(logs_of, _PROFILES, axis=0)
    level = _ridge(features, logs_of.mean(axis=1), weights, _LEVEL)
    differences = {expected.HISTOGRAM: np.zeros(features.shape[1])}
    for way, columns in _DIFFERENCES.items():
        target = logs_of[:, WAYS.index(way)] - logs_of[:, 0]
        differences[way] = _ridge(features, target, weights, columns)
    mean = sum(differences.values()) / len(WAYS)
    return {way: tuple((level + differences[way] - mean).round(3).tolist()) for way in WAYS}


def _ridge(
    features: np.ndarray, target: np.ndarray, weights: np.ndarray, columns: tuple[int, ...]
) -> np.ndarray:
    used = features[:, columns]
    mean, deviation = used.mean(axis=0), used.std(axis=0)
    mean[0], deviation[0] = 0, 1
    rows = (used - mean) / deviation * weights[:, None]
    ridge = _RIDGE * (weights**2).sum() * np.eye(len(columns))
    ridge[0, 0] = 0
    solved = np.linalg.solve(rows.T @ rows + ridge, rows.T @ (target * weights)) / deviation
    solved[0] -= (solved[1:] * mean[1:]).sum()
    all_columns = np.zeros(features.shape[1])
    all_columns[list(columns)] = solved
    return all_columns

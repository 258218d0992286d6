"""Merging with the nearest variants as they are found, beside all bounds sorted one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.tiers import at_night
from tracecloak.anonymizers.pretsa import tree
from tracecloak.anonymizers.pretsa.tree import MergedTree
from tracecloak.anonymizers.variants.distance import (
    EmbeddingDistance,
    LevenshteinDistance,
    Targets,
    VariantDistance,
    targets_of,
)
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.variants import VariantHistogram


class NaiveTargets:
    """All that are left, sorted by a bound of their multisets of activities."""

    def __init__(self, distance: VariantDistance, variants: VariantHistogram) -> None:
        self._distance = distance
        self._is_left = np.ones(variants.n_variants, bool)
        self._lengths = np.diff(variants.offsets)
        row = np.repeat(np.arange(variants.n_variants), self._lengths)
        self._bags = np.zeros((variants.n_variants, int(variants.codes.max()) + 1), np.int64)
        np.add.at(self._bags, (row, variants.codes), 1)

    def remove(self, variants: np.ndarray) -> None:
        self._is_left[variants] = False

    def nearest(self, variant: int) -> int:
        candidates = np.flatnonzero(self._is_left)
        surplus = np.maximum(self._bags[candidates] - self._bags[variant], 0).sum(axis=1)
        missing = surplus - self._lengths[candidates] + self._lengths[variant]
        bounds = np.maximum(surplus, missing)
        best: tuple[int, int] | None = None
        order = np.argsort(bounds, kind="stable")
        for first in range(0, len(order), 32):
            look = order[first : first + 32]
            if best is not None and bounds[look[0]] > best[0]:
                break
            distances = self._distance.between(variant, candidates[look], None)
            pairs = zip(distances.tolist(), candidates[look].tolist(), strict=True)
            best = min([*pairs, *([best] if best else [])])
        assert best is not None
        return best[1]


def _merged(
    variants: VariantHistogram, durations: DurationTable, k: int, t: float | None, ends: bool
) -> list[int] | None:
    try:
        merged = MergedTree(variants, durations, LevenshteinDistance(variants), k, t, ends)
        merged.merge()
    except GuaranteeError:
        return None
    return merged.target.tolist()


def _compare(
    variants: VariantHistogram, durations: DurationTable, k: int, t: float | None, ends: bool
) -> None:
    quick = _merged(variants, durations, k, t, ends)

    def naive(distance: VariantDistance, n_variants: int) -> Targets:
        return NaiveTargets(distance, variants)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "targets_of", naive)
        assert quick == _merged(variants, durations, k, t, ends)


@pytest.mark.parametrize("seeds", [range(8), at_night(range(8, 500))], ids=["few", "many"])
def test_merges_are_the_same_on_logs_that_were_made_up(seeds: range) -> None:
    for seed in seeds:
        draw = np.random.default_rng(seed)
        n, n_names = int(draw.integers(2, 160)), int(draw.integers(1, 9))
        lengths = draw.integers(1, draw.integers(2, 16), n)
        codes = np.minimum(draw.geometric(0.3, lengths.sum()) - 1, n_names - 1).astype(np.int32)
        sequences = encode_sequences(offsets_of(lengths), codes)
        variants = VariantHistogram.from_sequences(sequences, draw.geometric(0.5, n))
        cases = np.repeat(np.arange(variants.n_variants), variants.counts)
        sizes = np.diff(variants.offsets)[cases]
        positions = ranges(variants.offsets[cases], sizes)
        durations = DurationTable.from_events(positions, draw.integers(0, 9, len(positions)))
        t = None if seed % 3 == 0 else float(draw.uniform(0.2, 1))
        _compare(variants, durations, int(draw.integers(1, 6)), t, bool(seed % 2))


@pytest.mark.parametrize("direction", ["edits", "text", "authors_code"])
def test_whoever_is_left_the_nearest_is_the_first_of_those_at_the_smallest_distance(
    direction: Any,
) -> None:
    """Asked again and again, as goals are merged away: also of those that were as near before."""
    for seed in range(12):
        draw = np.random.default_rng(seed)
        lengths = draw.integers(1, 24, 60)
        codes = draw.integers(0, 3, lengths.sum()).astype(np.int32)
        sequences = encode_sequences(offsets_of(lengths), codes)
        variants = VariantHistogram.from_sequences(sequences, np.ones(60, np.int64))
        apart = draw.integers(0, 3, (3, 3)) * (1 - np.eye(3)) / 2  # with many ties
        distance: VariantDistance = LevenshteinDistance(variants)
        if direction != "edits":
            distance = EmbeddingDistance(variants, apart, 0.5, 0.25, direction)
        targets = targets_of(distance, variants.n_variants)
        left = np.arange(variants.n_variants)
        for _ in range(40):
            gone = draw.choice(left, min(2, len(left) - 1), replace=False)
            left = np.setdiff1d(left, gone)
            targets.remove(gone)
            for variant in draw.integers(0, 6, 3).tolist():
                expected = left[np.argmin(distance.between(variant, left, None))]
                assert targets.nearest(variant) == expected
            if len(left) == 1:
                break

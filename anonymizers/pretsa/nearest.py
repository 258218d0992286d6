"""The nearest variant of those that are left, while variants are merged away one after the other.

A lower bound of the distance tells which of them are compared at all: one whose bound exceeds the
best distance so far cannot be nearer. Of edits there are bounds by the length alone, and by how
often each activity occurs. Both are whole numbers, and few, so that nothing need be sorted by them.
"""

from __future__ import annotations

import sys
from typing import Protocol

import numpy as np

from tracecloak.anonymizers.variants.distance import LevenshteinDistance, VariantDistance

_FIRST_LOOK = 32  # variants that are compared before the first bound is used
# Variants that are gone are dropped when they are more than this share of those that are held.
_MOST_GONE = 0.2


class Targets(Protocol):
    """The variants that are left."""

    def remove(self, variants: np.ndarray) -> None:
        """Leaves out variants, int64[n], from now on."""
        ...

    def nearest(self, variant: int) -> int:
        """Returns the one at the smallest distance from a variant; of several, the first.

        At least one is left.
        """
        ...


def targets_of(distance: VariantDistance, n_variants: int) -> Targets:
    """Returns all variants of a histogram as targets."""
    if isinstance(distance, LevenshteinDistance):
        return _ByEdits(distance)
    return _ByBounds(distance, n_variants)


class _ByBounds:
    """Of any distance: all variants in the order of their bounds."""

    def __init__(self, distance: VariantDistance, n_variants: int) -> None:
        self._distance = distance
        self._is_left = np.ones(n_variants, bool)

    def remove(self, variants: np.ndarray) -> None:
        self._is_left[variants] = False

    def nearest(self, variant: int) -> int:
        candidates = np.flatnonzero(self._is_left)
        bounds = self._distance.bounds(variant, candidates)
        order = np.argsort(bounds, kind="stable")
        best, target = sys.maxsize, -1
        first, size = 0, _FIRST_LOOK
        while first < len(order):
            look = order[first : first + size]
            look = look[bounds[look] <= best]
            if not len(look):
                break
            best, target = _nearer(self._distance, variant, candidates[look], best, target)
            first, size = first + size, 2 * size
        return target


class _ByEdits:
    """Of edits: by length, and of each length by the activities that are in common."""

    def __init__(self, distance: LevenshteinDistance) -> None:
        self._distance = distance
        self._is_left = np.ones(len(distance.lengths), bool)
        # Held in the order of their lengths, so that those of like length are neighbours.
        self._variants = np.argsort(distance.lengths, kind="stable")
        self._bags = np.take(distance.bags, self._variants, axis=1)
        self._n_gone = 0
        self._usual = 1  # the last distance: those that differ more in length are left for later
        self._index()

    def _index(self) -> None:
        lengths = self._distance.lengths[self._variants]
        self._lengths = lengths.astype(self._bags.dtype)
        # Where the variants of each length begin.
        self._first = np.searchsorted(lengths, np.arange(int(lengths.max(initial=0)) + 2)).tolist()

    def remove(self, variants: np.ndarray) -> None:
        self._is_left[variants] = False
        self._n_gone += len(variants)
        if self._n_gone > _MOST_GONE * len(self._variants):
            held = self._is_left[self._variants]
            self._variants, self._bags = self._variants[held], self._bags[:, held]
            self._n_gone = 0
            self._index()

    def nearest(self, variant: int) -> int:
        length, longest = int(self._distance.lengths[variant]), len(self._first) - 2
        best, target = sys.maxsize, -1
        radius, begin, end = self._usual, -1, -1
        while True:
            low = self._first[min(max(length - radius, 0), longest)]
            high = self._first[min(length + radius, longest) + 1]
            sides = [(low, high)] if begin < 0 else [(low, begin), (end, high)]
            for side in sides:
                best, target = self._nearest_of(side, variant, best, target)
            begin, end = low, high
            # All others differ in length by more than the radius.
            if best <= radius or (begin == 0 and end == len(self._variants)):
                self._usual = best
                return target
            radius = best if target >= 0 else 4 * radius + 1

    def _nearest_of(
        self, side: tuple[int, int], variant: int, best: int, target: int
    ) -> tuple[int, int]:
        """The smallest distance so far and its variant, after those from a place to another."""
        held = slice(*side)
        if not len(self._variants[held]):
            return best, target
        bag = self._distance.bags[:, variant]
        common = np.zeros(side[1] - side[0], self._bags.dtype)
        for code in np.flatnonzero(bag).tolist():
            common += np.minimum(self._bags[code, held], bag[code])
        length = self._lengths.dtype.type(self._distance.lengths[variant])
        bounds = np.maximum(self._lengths[held], length)
        bounds -= common
        highest, looked_at, size = int(bounds.max()), int(bounds.min()) - 1, _FIRST_LOOK
        while looked_at < min(best, highest):
            # Few at first, whose distances tell how many of the others may be nearer.
            level = looked_at + 1
            is_next = bounds <= level
            while np.count_nonzero(is_next) < size and level < min(best, highest):
                level += 1
                is_next = bounds <= level
            rows = np.flatnonzero(is_next & (bounds > looked_at))
            candidates = self._variants[held][rows]
            # Of equal distances only a smaller number is better.
            is_wanted = self._is_left[candidates] & ((bounds[rows] < best) | (candidates < target))
            candidates = candidates[is_wanted]
            if len(candidates):
                best, target = _nearer(self._distance, variant, candidates, best, target)
            looked_at, size = level, 4 * size
        return best, target


def _nearer(
    distance: VariantDistance, variant: int, candidates: np.ndarray, best: int, target: int
) -> tuple[int, int]:
    """The smallest distance and its variant, the first of several, with further candidates."""
    cutoff = None if target < 0 else best
    distances = distance.between(variant, candidates, cutoff)
    smallest = int(distances.min())
    nearest = int(candidates[distances == smallest].min())
    return (smallest, nearest) if target < 0 else min((best, target), (smallest, nearest))

"""The nearest variant of those that are left, while variants are merged away one after the other.

A lower bound of the distance tells which of them are compared at all: one whose bound exceeds the
best distance so far cannot be nearer. Of edits there are bounds by the length alone, and by how
often each activity occurs. Both are whole numbers, and few, so that nothing need be sorted by them.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tracecloak.anonymizers.variants.distance import LevenshteinDistance, VariantDistance

_FIRST_LOOK = 32  # variants that are compared before the first bound is used
# Variants that are gone are dropped when they are more than this share of those that are held.
_MOST_GONE = 0.05
# Minima with so many numbers are held for each activity, on average.
_MOST_CAPPED = 8


class Targets:
    """The variants that are left, and who else was as near to a variant as the one that it got.

    As none is ever added, the next of them is the nearest when that one is gone, and nothing need
    be compared again.
    """

    def __init__(self, n_variants: int) -> None:
        self._is_left = np.ones(n_variants, bool)
        self._nearest: dict[int, np.ndarray] = {}

    def remove(self, variants: np.ndarray) -> None:
        """Leaves out variants, int64[n], from now on."""
        self._is_left[variants] = False

    def nearest(self, variant: int) -> int:
        """Returns the one at the smallest distance from a variant; of several, the first.

        At least one is left.
        """
        nearest = self._nearest.get(variant, np.zeros(0, np.int64))
        nearest = nearest[self._is_left[nearest]]
        if not len(nearest):
            nearest = self._all_nearest(variant)
        self._nearest[variant] = nearest
        return int(nearest[0])

    def _all_nearest(self, variant: int) -> np.ndarray:
        """int64[n], all at the smallest distance, in increasing order."""
        raise NotImplementedError


class _ByBounds(Targets):
    """Of any distance: all variants in the order of their bounds."""

    def __init__(self, distance: VariantDistance, n_variants: int) -> None:
        super().__init__(n_variants)
        self._distance = distance

    def _all_nearest(self, variant: int) -> np.ndarray:
        candidates = np.flatnonzero(self._is_left)
        bounds = self._distance.bounds(variant, candidates)
        search = _Search(self._distance, variant)
        is_first = bounds == bounds.min()
        search.look_at(candidates[is_first])
        # Few of the others are left to be sorted.
        is_next = ~is_first & (bounds <= search.best)
        candidates, bounds = candidates[is_next], bounds[is_next]
        order = np.argsort(bounds, kind="stable")
        first, size = 0, _FIRST_LOOK
        while first < len(order):
            look = order[first : first + size]
            look = look[bounds[look] <= search.best]
            if not len(look):
                break
            search.look_at(candidates[look])
            first, size = first + size, 2 * size
        return search.nearest


class _ByEdits(Targets):
    """Of edits: by length, and of each length by the activities that are in common."""

    def __init__(self, distance: LevenshteinDistance) -> None:
        super().__init__(len(distance.lengths))
        self._distance = distance
        # Held in the order of their lengths, so that those of like length are neighbours.
        self._variants = np.argsort(distance.lengths, kind="stable")
        self._bags = np.take(distance.bags, self._variants, axis=1)
        self._n_gone = 0
        self._usual = 1  # the last distance: those that differ more in length are left for later
        self._index()

    def _index(self) -> None:
        lengths = self._distance.lengths[self._variants]
        self._lengths = lengths.astype(self._bags.dtype)
        # Minima of the bags with the few numbers that are asked for again and again.
        self._capped: dict[tuple[int, int], np.ndarray] = {}
        # Where the variants of each length begin.
        self._first = np.searchsorted(lengths, np.arange(int(lengths.max(initial=0)) + 2)).tolist()

    def remove(self, variants: np.ndarray) -> None:
        super().remove(variants)
        self._n_gone += len(variants)
        if self._n_gone > _MOST_GONE * len(self._variants):
            held = self._is_left[self._variants]
            self._variants, self._bags = self._variants[held], self._bags[:, held]
            self._n_gone = 0
            self._index()

    def _all_nearest(self, variant: int) -> np.ndarray:
        length, longest = int(self._distance.lengths[variant]), len(self._first) - 2
        search = _Search(self._distance, variant)
        radius, begin, end = self._usual, -1, -1
        while True:
            low = self._first[min(max(length - radius, 0), longest)]
            high = self._first[min(length + radius, longest) + 1]
            sides = [(low, high)] if begin < 0 else [(low, begin), (end, high)]
            for side in sides:
                self._look_at(side, variant, search)
            begin, end = low, high
            # All others differ in length by more than the radius.
            if search.best <= radius or (begin == 0 and end == len(self._variants)):
                self._usual = search.best
                return search.nearest
            radius = search.best if search.has_any else 4 * radius + 1

    def _at_most(self, code: int, count: np.unsignedinteger[Any]) -> np.ndarray:
        """How often an activity occurs in each variant that is held, but at most so often."""
        key = code, int(count)
        if key not in self._capped:
            if len(self._capped) >= _MOST_CAPPED * len(self._bags):
                self._capped.clear()
            self._capped[key] = np.minimum(self._bags[code], count)
        return self._capped[key]

    def _look_at(self, side: tuple[int, int], variant: int, search: _Search) -> None:
        """Compares those from a place to another, as far as they may be as near as the nearest."""
        held = slice(*side)
        if not len(self._variants[held]):
            return
        bag = self._distance.bags[:, variant]
        common = np.zeros(side[1] - side[0], self._bags.dtype)
        for code in np.flatnonzero(bag).tolist():
            common += self._at_most(code, bag[code])[held]
        length = np.full(len(common), self._distance.lengths[variant], common.dtype)
        bounds = np.maximum(self._lengths[held], length)
        bounds -= common
        highest, looked_at, size = int(bounds.max()), int(bounds.min()) - 1, _FIRST_LOOK
        while looked_at < min(search.best, highest):
            # Few at first, whose distances tell how many of the others may be nearer.
            level = looked_at + 1
            is_next = bounds <= level
            while np.count_nonzero(is_next) < size and level < min(search.best, highest):
                level += 1
                is_next = bounds <= level
            candidates = self._variants[held][is_next & (bounds > looked_at)]
            search.look_at(candidates[self._is_left[candidates]])
            looked_at, size = level, 4 * size


def targets_of(distance: VariantDistance, n_variants: int) -> Targets:
    """Returns all variants of a histogram as targets."""
    if isinstance(distance, LevenshteinDistance):
        return _ByEdits(distance)
    return _ByBounds(distance, n_variants)


class _Search:
    """Who is nearest to a variant of those that were compared so far.

    Attributes:
        best: Their distance.
    """

    def __init__(self, distance: VariantDistance, variant: int) -> None:
        self.best = sys.maxsize
        self._distance, self._variant = distance, variant
        self._nearest: list[np.ndarray] = []

    @property
    def has_any(self) -> bool:
        """Whether any was compared."""
        return bool(self._nearest)

    @property
    def nearest(self) -> np.ndarray:
        """int64[n], all at the smallest distance, in increasing order."""
        return np.sort(np.concatenate(self._nearest))

    def look_at(self, candidates: np.ndarray) -> None:
        """Compares further ones, int64[n]."""
        if not len(candidates):
            return
        cutoff = self.best if self._nearest else None
        distances = self._distance.between(self._variant, candidates, cutoff)
        smallest = int(distances.min())
        if smallest < self.best:
            self.best, self._nearest = smallest, []
        if smallest == self.best:
            self._nearest.append(candidates[distances == smallest])

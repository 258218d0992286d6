"""How far variants are from one that is merged, by edits or by activities, and the nearest.

A lower bound of the distance decides which variants are compared at all.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np

from tracecloak.schemas.arrays.merging import distinct_places, offsets_of, ranges
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- How far variants are from one that is merged: by edits, or by where activities occur. --------
# Levenshtein's distance counts the fewest insertions, deletions and substitutions of activities.
# The embedding distance (Rösel, Fahrenkrog-Petersen, van der Aa, Weidlich: A Distance Measure for
# Privacy-preserving Process Mining based on Feature Learning, section 3.2) compares the
# activities place by place, each pair by how alike their contexts are, and has a penalty for the
# places that only one of the two has. It has a direction: one variant is merged into the other.
#
# Neither need be computed for all pairs: each has a lower bound that numpy gives for all
# candidates at once.


PenaltyDirection = Literal["text", "paper_formula", "authors_code"]

# Distances are multiples of this, so sums are exact and ties are ties whatever the order of adding.
UNITS = 1 << 20

# Places that are compared at first, which tell of most variants that they are too far away.
_PLACES = 8

_SURROGATES = 0xD800, 0x800  # characters that no text may have: the first, and how many
_CHARACTERS = 0x110000 - _SURROGATES[1]


class VariantDistance(Protocol):
    """A distance from one variant of a histogram to others of it."""

    def bounds(self, variant: int, candidates: np.ndarray) -> np.ndarray:
        """Returns int64[n]; the distance to a candidate is at least this."""
        ...

    def between(self, variant: int, candidates: np.ndarray, cutoff: int | None) -> np.ndarray:
        """Returns int64[n], the distances; any larger number where one exceeds the cutoff."""
        ...


class LevenshteinDistance:
    """Edits between variants, bounded from below by what their multisets of activities differ in.

    Attributes:
        lengths: int64[n_variants], events of each variant.
        bags: uint[n_used, n_variants], how often each activity that is used occurs in each variant;
            as wide as the largest length asks for.

    Args:
        variants: The variants.

    Raises:
        UsageError: They have more distinct activities than there are characters.
    """

    def __init__(self, variants: VariantHistogram) -> None:
        # Loaded on use: the catalogue only describes.
        from rapidfuzz.distance import Levenshtein
        from rapidfuzz.process import cdist

        self._edits = partial(cdist, scorer=Levenshtein.distance, dtype=np.int64)
        used, codes = distinct_places(variants.codes)
        if len(used) > _CHARACTERS:
            raise UsageError(
                f"the distance levenshtein compares at most {_CHARACTERS:,} distinct activities; "
                "use distance embedding, or map activities to fewer names"
            )
        first, number = _SURROGATES
        points = (codes + np.where(codes >= first, number, 0)).astype("<u4")
        text = points.tobytes().decode("utf-32-le")
        offsets = variants.offsets.tolist()
        self.lengths = np.diff(variants.offsets)
        # An array, as one look-up takes many of them. Those of like length are asked for together,
        # so they lie together in memory.
        order = np.argsort(self.lengths, kind="stable").tolist()
        self._texts = np.empty(len(order), object)
        self._texts[order] = [text[offsets[row] : offsets[row + 1]] for row in order]
        n = variants.n_variants
        cells = codes * n + np.repeat(np.arange(n), self.lengths)
        bags = np.bincount(cells, minlength=n * len(used))
        dtype = np.min_scalar_type(int(self.lengths.max(initial=0)))
        self.bags = bags.astype(dtype).reshape(len(used), n)

    def bounds(self, variant: int, candidates: np.ndarray) -> np.ndarray:
        """Returns int64[n]: what of the longer one has no equal in the other takes an edit each."""
        codes = np.flatnonzero(self.bags[:, variant])
        common = np.minimum(self.bags[np.ix_(codes, candidates)], self.bags[codes, variant, None])
        longer = np.maximum(self.lengths[candidates], self.lengths[variant])
        return longer - common.sum(axis=0, dtype=np.int64)

    def between(self, variant: int, candidates: np.ndarray, cutoff: int | None) -> np.ndarray:
        """Returns int64[n], the numbers of edits."""
        texts = self._texts[candidates].tolist()
        # In this order several are compared at once.
        return self._edits(texts, [self._texts[variant]], score_cutoff=cutoff)[:, 0]


class EmbeddingDistance:
    """Distances of activities place by place and a penalty for excess events, in 1 / UNITS.

    Args:
        variants: The variants.
        event_distances: float64[n_codes, n_codes], from 0 to 2.
        rho_addition: Penalty of an event that the merged variant gains, in the reading `text`.
        rho_removal: Penalty of an event that it loses.
        direction: `text`: gaining events costs `rho_addition` each, so that merging the shorter
            into the longer variant is preferred, as section 3.2 says. `paper_formula`: as the
            formula there is printed, the two exchanged. `authors_code`: as `text`, with the square
            of the number of events.
    """

    def __init__(
        self,
        variants: VariantHistogram,
        event_distances: np.ndarray,
        rho_addition: float,
        rho_removal: float,
        direction: PenaltyDirection = "text",
    ) -> None:
        self._offsets, self._codes = variants.offsets, variants.codes
        self._lengths = np.diff(variants.offsets)
        # The last of them is no activity, and at no distance from any.
        self._events = np.pad(np.rint(event_distances * UNITS).astype(np.int64), (0, 1))
        is_there = np.arange(_PLACES)[:, None] < self._lengths
        places = np.minimum(self._offsets[:-1] + np.arange(_PLACES)[:, None], len(self._codes) - 1)
        self._beginnings = np.where(is_there, self._codes[places], len(event_distances))
        if direction == "paper_formula":
            rho_addition, rho_removal = rho_removal, rho_addition
        self._gained, self._lost = round(rho_addition * UNITS), round(rho_removal * UNITS)
        self._is_squared = direction == "authors_code"

    def bounds(self, variant: int, candidates: np.ndarray) -> np.ndarray:
        """Returns int64[n], the penalties."""
        excess = self._lengths[candidates] - self._lengths[variant]
        n_events = excess**2 if self._is_squared else np.abs(excess)
        return n_events * np.where(excess > 0, self._gained, self._lost)

    def between(self, variant: int, candidates: np.ndarray, cutoff: int | None) -> np.ndarray:
        """Returns int64[n], the distances in 1 / UNITS, or of the first places what exceeds it."""
        distances = self.bounds(variant, candidates)
        for ours, theirs in zip(
            self._beginnings[:, variant].tolist(), self._beginnings, strict=True
        ):
            distances += self._events[ours].take(theirs[candidates])
        common = np.minimum(self._lengths[candidates], self._lengths[variant])
        is_longer = common > _PLACES
        if cutoff is not None:
            is_longer &= distances <= cutoff
        rows = np.flatnonzero(is_longer)
        if len(rows):
            n_places = common[rows] - _PLACES  # at least one of each
            theirs = ranges(self._offsets[candidates[rows]] + _PLACES, n_places)
            ours = ranges(np.full(len(rows), self._offsets[variant] + _PLACES), n_places)
            alike = self._events[self._codes[ours], self._codes[theirs]]
            distances[rows] += np.add.reduceat(alike, offsets_of(n_places)[:-1])
        return distances


# ---
# The nearest variant of those that are left, while variants are merged away one after the other.
# A lower bound of the distance tells which of them are compared at all: one whose bound exceeds the
# best distance so far cannot be nearer. Of edits there are bounds by the length alone, and by how
# often each activity occurs. Both are whole numbers, and few, so that nothing need be sorted by
# them.


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

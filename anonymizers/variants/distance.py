"""How far variants are from one that is merged, by edits or by activities, and the nearest.

A lower bound of the distance decides which variants are compared at all.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from tracecloak.schemas.arrays.merging import distinct_places, offsets_of, ranges
from tracecloak.schemas.arrays.sequences import N_CHARACTERS, characters_of
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


class LevenshteinDistance:
    """Edits between variants, bounded from below by what their multisets of activities differ in.

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
        if len(used) > N_CHARACTERS:
            raise UsageError(
                f"the distance levenshtein compares at most {N_CHARACTERS:,} distinct activities; "
                "use distance embedding, or map activities to fewer names"
            )
        text = characters_of(codes)
        offsets = variants.offsets.tolist()
        lengths = np.diff(variants.offsets)
        # An array, as one look-up takes many of them. Those of like length are compared together,
        # so they lie together in memory.
        order = np.argsort(lengths, kind="stable").tolist()
        self._texts = np.empty(len(order), object)
        self._texts[order] = [text[offsets[row] : offsets[row + 1]] for row in order]
        # How often each used activity occurs in each variant, and how long these are: in numbers
        # as narrow as the largest length allows, because many are compared at once.
        n = variants.n_variants
        narrow = np.min_scalar_type(int(lengths.max(initial=0)))
        bags = np.bincount(codes * n + np.repeat(np.arange(n), lengths), minlength=n * len(used))
        self._bags, self._lengths = (
            bags.astype(narrow).reshape(len(used), n),
            lengths.astype(narrow),
        )

    def bounds(self, variant: int) -> np.ndarray:
        """Returns uint[n_variants], at most the edits to each variant.

        What of the longer one has no equal in the other takes an edit each.
        """
        codes = np.flatnonzero(self._bags[:, variant])
        common = np.minimum(self._bags[codes], self._bags[codes, variant, None])
        longer = np.maximum(self._lengths, self._lengths[variant])
        return longer - common.sum(axis=0, dtype=common.dtype)

    def between(self, variant: int, candidates: np.ndarray, cutoff: int | None) -> np.ndarray:
        """Returns int64[n], the edits to candidates; any larger number where beyond the cutoff."""
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

    def bounds(self, variant: int) -> np.ndarray:
        """Returns int64[n_variants], the penalties, which are at most the distances."""
        excess = self._lengths - self._lengths[variant]
        n_events = excess**2 if self._is_squared else np.abs(excess)
        return n_events * np.where(excess > 0, self._gained, self._lost)

    def between(self, variant: int, candidates: np.ndarray, cutoff: int | None) -> np.ndarray:
        """Returns int64[n], the distances in 1 / UNITS, or of the first places what exceeds it."""
        distances = self.bounds(variant)[candidates]
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


VariantDistance = LevenshteinDistance | EmbeddingDistance

_FIRST_LOOK = 32  # variants that are compared first, those of the lowest bounds


class Targets:
    """The variants that are left while variants are merged away one after the other.

    A lower bound of the distance decides which of them are compared at all: one whose bound exceeds
    the best distance so far cannot be nearer. Who else was as near to a variant as the one that it
    got is held: as none is ever added, the next of them is the nearest when that one is gone, and
    nothing need be compared again.
    """

    def __init__(self, distance: VariantDistance, n_variants: int) -> None:
        self._distance = distance
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
        candidates = np.flatnonzero(self._is_left)
        bounds = self._distance.bounds(variant)[candidates]
        order = np.argsort(bounds, kind="stable")
        candidates, bounds = candidates[order], bounds[order]
        best, nearest, first, size = None, [candidates[:0]], 0, _FIRST_LOOK
        while first < len(candidates):
            compared = candidates[first : first + size]
            distances = self._distance.between(variant, compared, best)
            smallest = int(distances.min())
            if best is None or smallest < best:
                best, nearest = smallest, []
                candidates = candidates[: np.searchsorted(bounds, best, side="right")]
            if smallest == best:
                nearest.append(compared[distances == best])
            first, size = first + size, 2 * size
        return np.sort(np.concatenate(nearest))

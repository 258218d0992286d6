"""The nearest of some variants to one that is merged: by edits, or by where activities occur.

Levenshtein's distance counts the fewest insertions, deletions and substitutions of activities. The
embedding distance (Rösel, Fahrenkrog-Petersen, van der Aa, Weidlich: A Distance Measure for
Privacy-preserving Process Mining based on Feature Learning, section 3.2) compares the activities
place by place, each pair by how alike their contexts are, and has a penalty for the places that
only one of the two has. It has a direction: one variant is merged into the other.

Neither is computed for all pairs. A lower bound that numpy gives for all candidates at once tells
in which order to look at them and when to stop: a candidate whose bound exceeds the best distance
so far cannot be nearer.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.variants import VariantHistogram

PenaltyDirection = Literal["text", "paper_formula", "authors_code"]

# Distances are multiples of this, so sums are exact and ties are ties whatever the order of adding.
UNITS = 1 << 20

_FIRST_LOOK = 32  # candidates that are compared before the first bound is used
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


def nearest(distance: VariantDistance, variant: int, candidates: np.ndarray) -> int:
    """Returns the candidate at the smallest distance; of several, the first of the histogram.

    Args:
        distance: The distance.
        variant: Number of the variant that is merged.
        candidates: int64[n], numbers of variants in increasing order, at least one.
    """
    bounds = distance.bounds(variant, candidates)
    order = np.argsort(bounds, kind="stable")
    best: tuple[int, int] | None = None
    first, size = 0, _FIRST_LOOK
    while first < len(order):
        look = order[first : first + size]
        if best is not None:
            look = look[bounds[look] <= best[0]]
            if not len(look):
                break
        distances = distance.between(variant, candidates[look], None if best is None else best[0])
        smallest = int(distances.min())
        hit = smallest, int(candidates[look[distances == smallest]].min())
        best = hit if best is None else min(best, hit)
        first, size = first + size, 2 * size
    assert best is not None
    return best[1]


class LevenshteinDistance:
    """Edits between variants, bounded from below by what their multisets of activities differ in.

    Args:
        variants: The variants.

    Raises:
        UsageError: They have more distinct activities than there are characters.
    """

    def __init__(self, variants: VariantHistogram) -> None:
        used, codes = np.unique(variants.codes, return_inverse=True)
        if len(used) > _CHARACTERS:
            raise UsageError(
                f"the distance levenshtein compares at most {_CHARACTERS:,} distinct activities; "
                "use distance embedding, or map activities to fewer names"
            )
        first, number = _SURROGATES
        points = (codes + np.where(codes >= first, number, 0)).astype("<u4")
        text = points.tobytes().decode("utf-32-le")
        offsets = variants.offsets.tolist()
        self._texts = [text[a:b] for a, b in pairwise(offsets)]
        self._lengths = np.diff(variants.offsets)
        row = np.repeat(np.arange(variants.n_variants), self._lengths)
        cells = row * len(used) + codes
        bags = np.bincount(cells, minlength=variants.n_variants * len(used))
        self._bags = bags.astype(np.int32).reshape(variants.n_variants, len(used))

    def bounds(self, variant: int, candidates: np.ndarray) -> np.ndarray:
        """Returns int64[n]: each edit mends at most one surplus and one missing activity."""
        surplus = np.maximum(self._bags[candidates] - self._bags[variant], 0).sum(axis=1)
        missing = surplus - self._lengths[candidates] + self._lengths[variant]
        return np.maximum(surplus, missing)

    def between(self, variant: int, candidates: np.ndarray, cutoff: int | None) -> np.ndarray:
        """Returns int64[n], the numbers of edits."""
        # Loaded on use: the catalogue only describes.
        from rapidfuzz.distance import Levenshtein
        from rapidfuzz.process import cdist

        texts = [self._texts[candidate] for candidate in candidates.tolist()]
        distances = cdist(
            [self._texts[variant]],
            texts,
            scorer=Levenshtein.distance,
            score_cutoff=cutoff,
            dtype=np.int64,
        )
        return distances[0]


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
        self._events = np.rint(event_distances * UNITS).astype(np.int64)
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
        """Returns int64[n], the distances in 1 / UNITS; the cutoff saves nothing here."""
        begin, end = self._offsets[variant : variant + 2]
        common = np.minimum(self._lengths[candidates], end - begin)
        theirs = self._codes[ranges(self._offsets[candidates], common)]
        ours = self._codes[ranges(np.full(len(candidates), begin), common)]
        alike = self._events[ours, theirs]
        sums = np.add.reduceat(alike, offsets_of(common)[:-1])  # no variant is empty
        return sums + self.bounds(variant, candidates)

"""Counts from which a process tree is mined: by case, and from the variants alone.

All of them are linear in the events of the variants, and none looks at a case twice for one cell,
so that one case more or less changes each cell by at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.statistics.variants import VariantHistogram

Part = tuple[int, ...]


# Lattice steps of one case: a case that is scaled down loses less than a step in each pair.
PAIR_UNITS = 1024


def cases_with_pair(variants: VariantHistogram, n_activities: int) -> np.ndarray:
    """Returns int64[n+1, n+1]: the cases in which an activity comes right after another.

    The binary directly-follows relation of DPIM: however often a pair occurs in a case, the case
    counts once. Row n is the artificial start, column n the artificial end; a case without events,
    which there is not, would be (n, n).

    Args:
        variants: Of the log.
        n_activities: n; codes are 0 … n - 1.
    """
    row, pair = _distinct_pairs(variants, n_activities)
    width = n_activities + 1
    return sum_groups(pair, variants.counts[row], width * width).reshape(width, width)


def clipped_pairs(
    variants: VariantHistogram, n_activities: int, max_pairs: int, norm: Literal[1, 2]
) -> np.ndarray:
    """Returns int64[n+1, n+1]: the cases with each pair, in PAIR_UNITS, those of many scaled down.

    A case of k distinct pairs counts for PAIR_UNITS in each of them if k is at most `max_pairs`,
    and for less, the same in each, if it is more. So a case more changes all sums by a vector of
    length at most PAIR_UNITS max_pairs (norm 1) or PAIR_UNITS sqrt(max_pairs) (norm 2), exactly.

    Args:
        variants: Of the log.
        n_activities: n; codes are 0 … n - 1, and n is the start and the end.
        max_pairs: Distinct pairs of a case that count fully.
        norm: Which length is bounded.
    """
    row, pair = _distinct_pairs(variants, n_activities)
    n_pairs = np.bincount(row, minlength=variants.n_variants)
    if norm == 1:
        weights = np.array([PAIR_UNITS * max_pairs // max(k, max_pairs) for k in n_pairs.tolist()])
    else:
        weights = np.array(
            [
                math.isqrt(PAIR_UNITS * PAIR_UNITS * max_pairs // max(k, max_pairs))
                for k in n_pairs.tolist()
            ]
        )
    width = n_activities + 1
    values = (weights.astype(np.int64) * variants.counts)[row]
    return sum_groups(pair, values, width * width).reshape(width, width)


def numbers_of_pairs(variants: VariantHistogram, n_activities: int) -> np.ndarray:
    """Returns int64[n_variants], how many distinct pairs a case of each variant has.

    Args:
        variants: Of the log.
        n_activities: n; codes are 0 … n - 1.
    """
    row, _ = _distinct_pairs(variants, n_activities)
    return np.bincount(row, minlength=variants.n_variants)


def _distinct_pairs(variants: VariantHistogram, n_activities: int) -> tuple[np.ndarray, np.ndarray]:
    """int64[m] twice: each variant's number with each of its pairs, once."""
    width = n_activities + 1
    lengths = np.diff(variants.offsets)
    n_rows = variants.n_variants
    row = np.repeat(np.arange(n_rows), lengths + 1)
    place = np.arange(len(variants.codes)) + np.repeat(np.arange(n_rows), lengths)
    source = np.full(len(row), n_activities, np.int64)
    target = np.full(len(row), n_activities, np.int64)
    target[place] = variants.codes
    source[place + 1] = variants.codes
    keys = np.sort((row * width + source) * width + target)
    distinct = keys[np.diff(keys, prepend=-1) > 0]
    row, pair = np.divmod(distinct, width * width)
    return row, pair


def cases_by_ends(
    variants: VariantHistogram, n_activities: int, parts: Sequence[Part]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[n] twice: the cases by the first and by the last of their events of a part.

    The activities of each part are looked at apart from all others. A case counts once for each
    part of which it has an event: one case more changes either array by at most the number of
    parts in total, and replacing one by at most twice as much.

    Args:
        variants: Of the log.
        n_activities: n; codes are 0 … n - 1.
        parts: Disjoint sets of codes; activities of none count nowhere.
    """
    part_of = np.full(n_activities, -1, np.int64)
    for number, part in enumerate(parts):
        part_of[list(part)] = number
    n_parts = max(len(parts), 1)
    part_of_event = part_of[variants.codes]
    places = np.flatnonzero(part_of_event >= 0)
    row = np.repeat(np.arange(variants.n_variants), np.diff(variants.offsets))[places]
    group = row * n_parts + part_of_event[places]
    first = np.full(variants.n_variants * n_parts, -1, np.int64)
    last = first.copy()
    # If several values are for one place, numpy keeps the last one, which is the first in this
    # order.
    first[group[::-1]] = places[::-1]
    last[group] = places
    ends = []
    for place in (first, last):
        group = np.flatnonzero(place >= 0)
        codes = variants.codes[place[group]]
        ends.append(sum_groups(codes, variants.counts[group // n_parts], n_activities))
    return ends[0], ends[1]

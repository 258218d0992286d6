"""Distances between an original log and a released one, on variants and on directly-follows edges.

The definitions are those of the Amun paper and of its published code, so that figures can be set
beside the paper's tables, and, where those are blind, a measure beside them that is not. Every
figure is exact about private data: for the operator, not for publication.

Pure functions of arrays; they neither read logs nor count variants, edges or durations. Both sides
of a comparison are coded by one vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from tracecloak.schemas.arrays.sequences import characters_of
from tracecloak.schemas.errors import import_extra
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram


def _shared_prefixes(
    a: VariantHistogram, b: VariantHistogram
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Walks the prefixes that begin variants on both sides, by length from 0.

    Yields:
        For each length two arrays int64[n_prefixes, 2], of a and of b: how many variants begin with
        the prefix, and how many of those end there.
    """
    codes = np.concatenate([a.codes, b.codes]).astype(np.int64)
    width = int(codes.max(initial=0)) + 1
    begins = np.concatenate([a.offsets[:-1], b.offsets[:-1] + a.codes.size])
    lengths = np.concatenate([np.diff(side.offsets) for side in (a, b)])
    side = np.repeat(np.arange(2), [a.counts.size, b.counts.size])
    prefix = np.zeros(lengths.size, dtype=np.int64)  # of each variant that is still walked
    n_prefixes, depth = 1, 0
    while prefix.size:
        cells = prefix * 2 + side
        having = np.bincount(cells, minlength=2 * n_prefixes).reshape(-1, 2)
        shared = having.min(axis=1) > 0
        ending = np.bincount(cells[lengths == depth], minlength=2 * n_prefixes).reshape(-1, 2)
        yield having[shared], ending[shared]
        # A prefix of one side only matches nothing deeper, so its variants are dropped here.
        walked = shared[prefix] & (lengths > depth)
        begins, lengths, side = begins[walked], lengths[walked], side[walked]
        extended = prefix[walked] * width + codes[begins + depth]
        longer, prefix = np.unique(extended, return_inverse=True)
        n_prefixes, depth = longer.size, depth + 1


def jaccard_distance(a: VariantHistogram, b: VariantHistogram) -> float:
    """Returns 1 - |A ∩ B| / |A ∪ B| of the sets of variants.

    The share of variants that only one log has, from 0 (the same variants) to 1 (none in common, or
    one log is empty); two empty logs are at distance 0. The measure that the Amun paper defines,
    but not the one that its tables hold: see `prefix_jaccard_distance`.

    Blind to how many cases follow a variant and to how alike two different variants are. Where most
    variants occur once, a small distance says that individual traces were released as they are.
    """
    common = sum(int(ending.min(axis=1).sum()) for _, ending in _shared_prefixes(a, b))
    union = a.counts.size + b.counts.size - common
    return 1.0 - common / union if union else 0.0


def prefix_jaccard_distance(a: VariantHistogram, b: VariantHistogram) -> float:
    """Returns the Jaccard distance in which variants match as far as they begin alike.

    The measure behind Table 6 of the Amun paper, after its published code: the similarity of two
    variants is the length of their common prefix, at least 1; pairs are matched greedily by
    descending similarity, each variant once; with S the sum over the matched pairs and Σ the total
    length of the variants of a side, the distance is 1 - S / (ΣA + ΣB - S). From 0 (equal sets) to
    1 (reached only when one log is empty); two empty logs are at distance 0.

    Which of equally similar pairs go first does not matter: prefixes of length d split the variants
    into groups within which everything is similar by at least d, so any greedy matching has
    min(a, b) pairs inside a group of a and b variants, and S is 1 for each of the min(|A|, |B|)
    pairs and these minima over all prefixes of length 2 and more. That takes one sort per length of
    the variants that still share a prefix, not |A| · |B| pairs.

    Blind to how many cases follow a variant and to everything after the first difference; variants
    of one event are all alike, as a pair has similarity 1 even when it shares nothing. An empty
    variant counts as one event, which is what the code makes of it.
    """
    total = sum(int(np.maximum(np.diff(side.offsets), 1).sum()) for side in (a, b))
    # Every pair counts 1, whether or not it shares the first event.
    similarity = min(a.counts.size, b.counts.size)
    for depth, (having, _) in enumerate(_shared_prefixes(a, b)):
        if depth >= 2:
            similarity += int(having.min(axis=1).sum())
    return 1.0 - similarity / (total - similarity) if total else 0.0


def edge_frequency_emd(a: DirectlyFollows, b: DirectlyFollows) -> float:
    """Returns the earth mover's distance of the edge frequencies, in events per edge.

    "EMD Freq" in Table 7 of the Amun paper: the Wasserstein distance of the two lists of edge
    frequencies over the union of edges, an edge that a log lacks counting 0. From 0 upwards; it
    grows with the size of the logs. Two logs without edges are at distance 0.

    Blind to which edge has which frequency: exchange the counts of two edges and it stays 0. It
    compares how the frequencies are distributed; `edge_mean_absolute_error` compares the edges.
    """
    weights = np.sort(a.beside(b), axis=1)
    # Between samples of one size it pairs the sorted values (scipy.stats.wasserstein_distance).
    return float(np.abs(np.diff(weights, axis=0)).mean()) if weights.size else 0.0


def edge_mean_absolute_error(a: DirectlyFollows, b: DirectlyFollows) -> float:
    """Returns the mean of |a - b| over the union of edges, in events per edge.

    From 0 (the same frequency on every edge) upwards; never less than `edge_frequency_emd`, and it
    sees which edge has which frequency. An edge that a log lacks counts 0 there; two logs without
    edges are at distance 0. Blind to anything longer than an edge.
    """
    weights = a.beside(b)
    return float(np.abs(np.diff(weights, axis=0)).mean()) if weights.size else 0.0


def _texts(variants: VariantHistogram) -> list[str]:
    """Returns each variant as a string of one character per event."""
    text = characters_of(variants.codes)
    return [text[begin:end] for begin, end in pairwise(variants.offsets.tolist())]


def require_pot() -> Any:
    """Imports POT, which solves transport problems; it takes a second.

    scipy's linear programming finds the same in a hundred times the time.

    Raises:
        UsageError: It is not installed.
    """
    return import_extra("ot", "the distance of variants", "POT", "measures")


def variant_emd(
    a: VariantHistogram, b: VariantHistogram, max_cells: int = 6_000_000
) -> float | None:
    """Returns the earth mover's distance of the distributions of cases over variants.

    The least average share of a trace that must be edited to turn the cases of one log into those
    of the other, both logs scaled to the same size: the cost between two variants is their
    Levenshtein distance divided by the longer length. From 0 (the same distribution) to 1 (nothing
    in common, or exactly one log is empty); two empty logs are at distance 0. With the normalised
    cost it is no metric: going through a third log can be shorter.

    Blind to the number of cases and to time.

    Args:
        a: One log.
        b: The other.
        max_cells: The cost table has a cell of 8 bytes for each pair of variants that have cases;
            beyond this many, None is returned instead. Time grows faster than the table: 6 million
            cells take seconds.

    Raises:
        UsageError: The extra measures is not installed.
    """
    ot = require_pot()
    a, b = (side.take(np.flatnonzero(side.counts)) for side in (a, b))
    if not (a.n_variants and b.n_variants):
        return float(bool(a.n_variants or b.n_variants))
    if a.n_variants * b.n_variants > max_cells:
        return None
    scorer = Levenshtein.normalized_distance
    cost = cdist(_texts(a), _texts(b), scorer=scorer, dtype=np.float64)
    masses = (side.counts / side.n_cases for side in (a, b))
    # The default number of iterations ends with a warning and a wrong value on such tables.
    return float(ot.emd2(*masses, cost, numItermax=100_000_000))

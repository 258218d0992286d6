"""Variants that were seen, and cases that go other ways through what was seen.

What a threshold hides is mostly what cases rarely do between two things that many do. A chain of
the published variants has some of that: it skips, repeats or leaves where only other variants did,
and at other positions. It looks at nothing but released numbers, so it costs no privacy.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.markov_chain import (
    KnownEnds,
    chain_of,
    drawn_cases,
    walks_beside,
)
from tracecloak.schemas.statistics.variant_flows import FlowCells, VariantFlows
from tracecloak.schemas.statistics.variants import VariantHistogram

_CELLS = 2_000_000
# The share of the missing cases that are made up. The others are like nothing that is shown, and it
# costs more to put them in a wrong place than to leave them out.
_MADE_UP = 0.75
# The root of 12, in thousandths: see `completed`.
_ROOT_OF_12 = 3464


def completed(
    seen: VariantHistogram,
    threshold: int,
    n_missing: float,
    domain: Domain,
    randomness: Randomness,
    prefix: str,
) -> VariantHistogram:
    """Returns the variants that were seen, and three quarters of the missing cases in others.

    What each arc has at each position is known but for the variants below the threshold, which may
    have anything up to it: a deviation of the threshold by the root of 12. So where the seen
    variants have few cases at a position, the chain goes on as elsewhere. Nothing is made up where
    it has no other walks.

    Args:
        seen: Noisy counts, as they are released.
        threshold: Smallest noisy count that is released.
        n_missing: About how many cases are of no variant among them; may be negative.
        domain: What is public.
        randomness: The release's.
        prefix: What the purposes begin with.
    """
    if n_missing <= 0 or not seen.n_variants:
        return seen
    cells = FlowCells.of(len(domain.vocabulary), domain.max_length, _CELLS)
    sums = VariantFlows.of(seen, cells).whole_sums(cells)
    hidden = SumNoise((1000 * threshold, _ROOT_OF_12), 1, is_laplace=False)
    chain = chain_of(sums, cells, hidden, _known(sums, cells))
    if chain is None:
        return seen
    walks = walks_beside(seen, chain, domain.vocabulary, randomness, f"{prefix}/walk")
    if not walks.n_variants:
        return seen
    weights, n_made = walks.counts / walks.counts.sum(), _MADE_UP * n_missing
    drawn = drawn_cases(walks.sequences, weights, n_made, randomness, f"{prefix}/draw")
    return VariantHistogram(
        pa.concat_arrays([seen.sequences, drawn.sequences]),
        np.concatenate([seen.counts, drawn.counts]),
    )


def _known(sums: np.ndarray, cells: FlowCells) -> KnownEnds:
    """All arcs of what was seen, whatever the position: none of them is noise."""
    dense = np.zeros(cells.size)
    dense[cells.possible] = sums
    n = cells.n_names
    blocks = dense.reshape(cells.n_blocks, cells.side, cells.side)
    return KnownEnds(blocks[1, n, :n], blocks[2:, :n].sum(axis=0))

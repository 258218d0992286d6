"""Which clip, or which kind of graph, `private-dfg` releases: chosen by public numbers or by noise.

Three ways compete. Gaussian noise on pairs that are clipped in L2 is the usual one. Where there are
very few activities, cases repeat their pairs, and Laplace noise on pairs that are clipped in L1 is
less: that is a matter of public numbers. Where nearly all cases are of a few variants, the graph
of a histogram of variants is nearer than both (`variant_graph`): three noisy numbers say so, which
are drawn before anything else of the release, so that the choice costs its epsilon and no delta
(`accounting.joint`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.sums import noisy_sums
from tracecloak.anonymizers.rigorous.bought import known_vocabulary
from tracecloak.anonymizers.rigorous.bought_length import LengthsOfCases
from tracecloak.anonymizers.rigorous.budget import (
    UNITS,
    Choice,
    Instead,
    Means,
    Need,
    least_cases,
)
from tracecloak.anonymizers.rigorous.clip_by_rank import rank_of_clip
from tracecloak.anonymizers.rigorous.clips import (
    CLIP_SENTENCE,
    NormsOfCases,
    choose_clip,
    norm_grid,
    ranks_need,
)
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.schemas.arrays import elementary

if TYPE_CHECKING:
    from tracecloak.schemas.published.durations import ReleasedDurations
    from tracecloak.schemas.published.figures import ReleasedFigures
    from tracecloak.schemas.published.graph import ReleasedGraph

# About how many pairs of each activity are shown: most lead on, some come back or leave.
SHOWN_PAIRS_OF_NAME = 2
# Shares of epsilon: for the numbers of cases by length from which a clip in L1 is chosen, and for
# those from which it follows whether a histogram of variants is nearer.
_OF_LENGTHS, _OF_KIND = Fraction(1, 10), Fraction(1, 20)
# By how many clips a case is longer in the middle of the next two buckets of lengths, each wider by
# the root of 2; and the deviation of what they lose, in those of a bucket.
_LONGER = (0.2, 0.7)
OF_LOST = 0.73
# The histogram's share of delta, as in `auto-variants`: at 1e-6 it costs the other noise nothing.
_OF_DELTA = Fraction(1, 4)


@dataclass(frozen=True)
class GraphDecision(contract.Decision):
    """What is released.

    Attributes:
        graph: The directly-follows graph.
        durations: Its counts by duration, or None.
        figures: Totals, and the limit of what is not shown; None in a release that began before
            there were any.
    """

    wire_name: ClassVar[str] = "graph"

    graph: ReleasedGraph
    durations: ReleasedDurations | None
    figures: ReleasedFigures | None = None


@dataclass(frozen=True)
class ClipsDecision(contract.Decision):
    """The clips that were bought, or what is released without.

    Attributes:
        edges: Of the vectors of pairs, in lattice steps.
        durations: Of those of pairs and durations, or None.
        released: The graph of the variants, where that is released in place of all sums.
        lost: About how many occurrences a clip in L1 takes; of the others this is counted later.
    """

    wire_name: ClassVar[str] = "graph-clips"

    edges: int
    durations: int | None = None
    released: GraphDecision | None = None
    lost: int = 0


def clips_part(params: Any) -> Part:
    """Returns the part that buys the clips, or releases the graph of the variants instead.

    Args:
        params: `PrivateDfgParams`, which lead here and so are not imported.
    """
    if params.is_short:
        return _lengths_part(params)
    counters: dict[str, contract.Counter] = {"edges": NormsOfCases(None)}
    if params.durations:
        counters["durations"] = NormsOfCases(params.n_duration_bins)

    def chosen(name: str, given: Given) -> int:
        n_names = len(known_vocabulary(params.words, given.decisions))
        n_bins = params.n_duration_bins if name == "durations" else 1
        noise = given.means[name].noise(params.sensitivity(UNITS), UNITS)
        n_cells = n_names * (n_names + 2) * n_bins
        # One occurrence more of the clip moves the counts of all pairs that are shown by so much,
        # and as many cases by one occurrence. Half as many, since an interval must allow for what
        # clipping takes from many cells at once.
        rank = noise.mean_size * min(n_cells, SHOWN_PAIRS_OF_NAME * n_names) / 2
        if name == "durations":
            rank = rank_of_clip(noise.width / noise.units, n_cells, n_names, 1.0, n_bins)
        cases = given.statistics[name].histogram(len(norm_grid()))
        allowance, purpose = given.means[f"{name} clip"], f"{name} clip"
        square = choose_clip(
            cases, allowance, rank, params.max_units, given.randomness, purpose, 0.0
        )
        return math.isqrt(square * UNITS**2)

    def decide(given: Given) -> ClipsDecision:
        if params.may_choose:
            released = _graph_of_variants(params, given)
            if released is not None:
                return ClipsDecision(UNITS, None, released)
        edges = chosen("edges", given)
        return ClipsDecision(edges, chosen("durations", given) if params.durations else None)

    needs: tuple[Need, ...] = tuple(
        ranks_need(f"{name} clip", params.shares[f"{name} clip"], params.max_units)
        for name in counters
    )
    if params.may_choose:
        from tracecloak.anonymizers.variants.generator import VariantsWithin

        counters["variants"] = VariantsWithin()
        histogram = Instead(
            "variants", "variant-histogram", Fraction(1), tuple(params.shares), None, _OF_DELTA
        )
        needs = (Choice("kind", _OF_KIND), *needs, histogram)

    def sentence(means: Means) -> str:
        if not params.may_choose:
            return CLIP_SENTENCE
        least = least_cases(means["variants"], of_one_cell(params.max_units))
        return (
            f"{CLIP_SENTENCE}; or, where about all cases are of variants of at least {least:,} "
            "cases, counts these with Laplace noise, and releases their graph"
        )

    return Part("clip", needs, sentence, decide, counters, "clip", chosen="clip")


def _lengths_part(params: Any) -> Part:
    """The part that buys a clip in L1: the pairs of cases in the last bucket that stands out."""
    grid = np.unique(np.rint(elementary.power(math.sqrt(2), np.arange(1, 21))).astype(np.int64))

    def decide(given: Given) -> ClipsDecision:
        cases = given.statistics["lengths"].histogram(grid)[:-1]
        noise = given.means["edges clip"].noise(of_one_cell(params.max_units))
        noisy = noisy_sums(cases, noise, "edges clip", np.arange(len(grid)), given.randomness)
        # Of empty buckets one or more are as large with a probability of 1/20.
        clear = np.flatnonzero(noisy >= noise.width * math.log(10 * len(grid)))
        last = int(clear[-1] if len(clear) else noisy.argmax())
        n_pairs = int(grid[last]) + 1
        longer = np.append(noisy[last + 1 :], [0, 0])[:2]
        lost = max(_LONGER[0] * int(longer[0]) + _LONGER[1] * int(longer[1]), 0.0)
        return ClipsDecision(n_pairs * UNITS, lost=round(lost * n_pairs))

    needs, counters = (Choice("edges clip", _OF_LENGTHS),), {"lengths": LengthsOfCases()}
    return Part("clip", needs, lambda means: CLIP_SENTENCE, decide, counters, "clip", chosen="clip")


def _graph_of_variants(params: Any, given: Given) -> GraphDecision | None:
    """The graph of the variants that are frequent, where hardly a case is of another; else None."""
    allowance, changed = given.means["variants"], of_one_cell(params.max_units)
    vocabulary = params.words
    if not allowance.epsilon or vocabulary is None:
        return None
    from tracecloak.anonymizers.graphs.variant_graph import (
        VariantGraph,
        missing_cases,
        numbered_cases,
    )
    from tracecloak.anonymizers.variants.stable_variants import stable_variants
    from tracecloak.schemas.published.figures import ReleasedFigures

    counted, threshold = given.statistics["variants"], allowance.threshold(changed)
    noise = given.means["kind"].noise(changed)
    numbered = noisy_sums(
        numbered_cases(counted, threshold), noise, "kind", np.arange(3), given.randomness
    )
    missing = missing_cases(numbered, threshold)
    # A case of n pairs has a norm of the root of n at least: noise for it costs each pair that is
    # shown as much, and leaving it out costs n occurrences. The root is taken to be 2.
    sums = given.means["edges"].noise(params.sensitivity(UNITS), UNITS)
    most = sums.mean_size * SHOWN_PAIRS_OF_NAME * len(vocabulary) / 2
    if missing > min(most, float(numbered[1:].sum())):
        return None
    seen = stable_variants(counted, allowance, params.max_units, given.randomness, "variants")
    made = VariantGraph(seen, allowance.noise(changed), missing, noise, vocabulary)
    return GraphDecision(made.graph(), None, ReleasedFigures.of(made.figures()))

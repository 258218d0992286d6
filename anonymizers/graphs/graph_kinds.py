"""Which clip, and which kind of graph, `private-dfg` releases: chosen by noisy numbers.

Three kinds compete. Gaussian noise on pairs that are clipped in L2 is the usual one. Where cases
repeat their pairs, the L2 norm of a case is not much less than its L1 norm, and Laplace noise on
pairs that are clipped in L1 is less: of each activity about one pair as large as the threshold of
the noise is lost or wrong, so the two kinds err equally where the norms have the ratio of these
thresholds at a clip of one, and the longer cases vote. Where nearly all cases are of a few
variants, the graph of a histogram of variants is nearer than both. The numbers that choose are
drawn before anything else of the release, so that the choice costs its epsilon and no delta
(`accounting.joint`).

Of that histogram one case moves the count of one variant by 1, however long it is, so its pairs
together get as much noise as one number. What is lost are the cases of variants below a threshold,
and whether they are few is known from three numbers with noise, of which a case counts in one (as
in `auto-variants`).

A count is that of the variants that are seen. Its upper limit is what it would be if every missing
case had the pair as often as the others have it, and once at least: as few are missing, that is
little more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.graphs.graph_figures import LAPLACE_QUANTILE
from tracecloak.anonymizers.graphs.noisy_graph import ONE_SIDED, shown_from
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums, variance_of
from tracecloak.anonymizers.rigorous import bought, budget
from tracecloak.anonymizers.rigorous.clips import (
    CLIP_SENTENCE,
    choose_clip,
    norm_grid,
    norms_of_cases,
    ranks_need,
)
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.variants.generator import CLEARLY_SHOWN, numbered_cases, stable_variants
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published.figures import DERIVED, Figure, ReleasedFigures, wider_ends
from tracecloak.schemas.published.graph import ReleasedDurations, ReleasedGraph
from tracecloak.schemas.statistics.variants import VariantHistogram


def missing_cases(numbered: np.ndarray, threshold: int) -> float:
    """Returns about how many cases a histogram does not show, of noisy `numbered_cases`."""
    n_shown = numbered[1] / ((CLEARLY_SHOWN - 1) * threshold)
    return float(numbered[0] - n_shown * (threshold - 1))


def votes(
    counted: VariantHistogram, vocabulary: ActivityVocabulary, ratio: float, n_buckets: int
) -> np.ndarray:
    """Returns int64[n_buckets], how many more cases have an L2 norm above a part of their L1 norm.

    Than below; the norms are of a case's numbers of each pair. In the first are cases of up to 2
    pairs, in each other one those of up to twice as many, and in the last all longer ones as well.

    Args:
        counted: Cases by variant.
        vocabulary: What the codes mean.
        ratio: The part.
        n_buckets: See above.
    """
    variants, sources, targets = _steps(counted, vocabulary)
    side = vocabulary.end + 1
    rows, times = np.unique((variants * side + sources) * side + targets, return_counts=True)
    squares = np.bincount(rows // side**2, times**2, counted.n_variants)
    pairs = np.bincount(variants, minlength=counted.n_variants)
    signs = np.where(squares > (ratio * pairs) ** 2, 1, -1)
    buckets = np.searchsorted(1 << np.arange(1, n_buckets), pairs)
    return sum_groups(buckets, signs * counted.counts, n_buckets)


def _steps(
    seen: VariantHistogram, vocabulary: ActivityVocabulary
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """int64[n] three times: variants with their pairs, START and END included."""
    offsets, codes = seen.offsets, seen.codes.astype(np.int64)
    lengths = np.diff(offsets)
    sources = np.insert(codes, offsets[:-1], vocabulary.start)
    targets = np.insert(codes, offsets[1:], vocabulary.end)
    return np.repeat(np.arange(len(lengths)), lengths + 1), sources, targets


@dataclass(frozen=True)
class VariantGraph:
    """What is released of noisy variants.

    Attributes:
        seen: Noisy variants, of codes of the vocabulary.
        noise: Of each count.
        missing: About how many cases are of no variant among them; may be negative.
        of_missing: The noise of that number.
        vocabulary: What the codes mean.
    """

    seen: VariantHistogram
    noise: SumNoise
    missing: float
    of_missing: SumNoise
    vocabulary: ActivityVocabulary

    def graph(self) -> ReleasedGraph:
        """Returns the graph, of the pairs that the variants have."""
        variants, sources, targets = _steps(self.seen, self.vocabulary)
        side = self.vocabulary.end + 1
        cells, numbers = np.unique(sources * side + targets, return_inverse=True)
        starts, ends = (codes.astype(np.int32) for codes in np.divmod(cells, side))
        columns = self._summed(variants, numbers, len(cells))
        return ReleasedGraph(self.vocabulary.names, starts, ends, *columns)

    def figures(self) -> list[Figure]:
        """Returns the figures of `graph_figures.figures_of_graph`."""
        variants, _, targets = _steps(self.seen, self.vocabulary)
        start, names = self.vocabulary.start, self.vocabulary.names.to_pylist()
        is_event = targets < start
        every = np.zeros(len(variants), np.int64)

        def figures(
            name: str, of: list[tuple[str, ...]], chosen: np.ndarray, numbers: np.ndarray
        ) -> list[Figure]:
            columns = self._summed(variants[chosen], numbers[chosen], len(of))
            rows = zip(of, *(column.tolist() for column in columns), strict=True)
            return [Figure(name, what, n, low, high, DERIVED) for what, n, low, high in rows]

        return [
            *figures("cases", [()], ~is_event, every),
            *figures("events", [()], is_event, every),
            *figures("activity", [(name,) for name in names], is_event, targets),
            Figure("path_not_shown", (), 0, 0, self._most_missing, DERIVED),
        ]

    @property
    def _most_missing(self) -> int:
        # Two noisy numbers are in it, the second one divided, see `missing_cases`.
        noise = self.of_missing.half_width * math.sqrt(1 + (CLEARLY_SHOWN - 1) ** -2)
        return int(np.ceil(max(self.missing, 0.0) + noise))

    def _summed(
        self, variants: np.ndarray, numbers: np.ndarray, n: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """int64[n] three times: occurrences of what has these numbers in variants, and limits."""
        pairs, times = np.unique(variants * n + numbers, return_counts=True)
        rows, at = np.divmod(pairs, n)
        counts = self.seen.counts
        sums = np.bincount(at, times * counts[rows], n)
        deviations = np.sqrt(np.bincount(at, times**2 * variance_of(self.noise), n))
        low = np.maximum(sums - LAPLACE_QUANTILE * deviations, 0)
        # Of what a case has several times, so have the missing ones.
        often = np.maximum(sums / max(int(counts.sum()), 1), 1.0)
        high = sums + LAPLACE_QUANTILE * deviations + self._most_missing * often
        columns = sums, np.floor(low), np.ceil(high)
        counts, lows, highs = (column.astype(np.int64) for column in columns)
        return counts, *wider_ends(counts, lows, highs)


# Shares of epsilon: for the numbers of cases from which it follows whether a histogram of variants
# is nearer, and for the votes of cases, which are many or do not matter.
_OF_KIND, _OF_VOTES = Fraction(1, 20), Fraction(1, 40)
# Of what they leave: for the numbers of cases by length from which a clip in L1 is chosen.
_OF_LENGTHS = Fraction(1, 8)
# Lengths are counted in buckets of which so many double the length, up to 2 to this power.
_BUCKETS, _LARGEST_POWER = 3, 10
# The histogram's share of delta, as in `auto-variants`: at 1e-6 it costs the other noise nothing.
_OF_DELTA = Fraction(1, 4)


class GraphDecision(contract.Decision, wire_name="graph"):
    """What is released.

    Attributes:
        graph: The directly-follows graph.
        durations: Its counts by duration, or None.
        figures: Totals, and the limit of what is not shown; None in a release that began before
            there were any.
    """

    graph: ReleasedGraph
    durations: ReleasedDurations | None
    figures: ReleasedFigures | None = None

    @property
    def dfg(self) -> ReleasedGraph:
        """The graph, as the product is named."""
        return self.graph


class ClipsDecision(contract.Decision, wire_name="graph-kind"):
    """The clips that were bought, or what is released without.

    Attributes:
        edges: Of the vectors of pairs, in lattice steps.
        durations: Of those of pairs and durations, or None.
        released: The graph of the variants, where that is released in place of all sums.
        lost: About how many occurrences a clip in L1 takes; of the others this is counted later.
        most_lost: A likely upper limit of that; None where the clip is not in L1.
    """

    edges: int
    durations: int | None = None
    released: GraphDecision | None = None
    lost: int = 0
    most_lost: int | None = None


def clips_part(params: Any) -> Part:
    """Returns the part that buys the clips, or releases the graph of the variants instead.

    Args:
        params: `PrivateDfgParams`, which lead here and so are not imported.
    """
    counters: dict[str, contract.Counter] = {"edges": norms_of_cases(None)}
    if params.durations:
        counters["durations"] = norms_of_cases(params.n_duration_bins)

    def chosen(name: str, given: Given) -> int:
        n_names = len(bought.vocabulary_in_effect(params.words, given.decisions))
        n_bins = params.n_duration_bins if name == "durations" else 1
        noise = given.means[name].noise(params.sensitivity(budget.UNITS), budget.UNITS)
        n_cells = n_names * (n_names + 2) * n_bins
        # Half as many as for the counts alone, since an interval must allow for what clipping takes
        # from many cells at once.
        rank = n_names * shown_from(noise, n_cells) / 2
        if name == "durations":
            rank = bought.rank_of_clip(noise.width / noise.units, n_cells, n_names, 1.0, n_bins)
        cases = given.statistics[name].histogram(len(norm_grid()))
        allowance, own = given.means[f"{name} clip"], (given.randomness, f"{name} clip")
        square = choose_clip(cases, allowance, rank, params.max_units, *own, 0.0)
        return math.isqrt(square * budget.UNITS**2)

    def decide(given: Given) -> ClipsDecision:
        instead = _alternative_graph(params, given) if params.may_choose else None
        durations = chosen("durations", given) if params.durations else None
        return instead or ClipsDecision(chosen("edges", given), durations)

    needs: tuple[budget.Need, ...] = tuple(
        ranks_need(f"{name} clip", params.shares[f"{name} clip"], params.max_units)
        for name in counters
    )
    if params.may_choose:
        counters |= {"variants": bought.VARIANTS_IN_DOMAIN, "lengths": bought.LENGTHS_OF_CASES}
        blocks = tuple(params.shares)
        largest = params.sensitivity_beyond((2**_LARGEST_POWER + 1) * budget.UNITS)
        needs = (
            *(budget.Choice("kind", _OF_KIND), budget.Choice("votes", _OF_VOTES), *needs),
            budget.Instead("variants", "variant-histogram", Fraction(1), blocks, None, _OF_DELTA),
            budget.Instead("lengths", "laplace", _OF_LENGTHS, blocks),
            budget.Instead("pairs", "laplace", 1 - _OF_LENGTHS, blocks, largest),
        )

    def does(means: budget.Allowances) -> str:
        if not params.may_choose:
            return CLIP_SENTENCE
        least = budget.least_cases(means["variants"], of_one_cell(params.max_units))
        return sentence("private-dfg", "kinds", params, clip=CLIP_SENTENCE, least=least)

    return Part("clip", needs, does, decide, counters, "clip", chosen="clip")


def _alternative_graph(params: Any, given: Given) -> ClipsDecision | None:
    """What errs by less than Gaussian noise on pairs that are clipped in L2, if anything does."""
    means, n_names = given.means, params.words.start
    sum_noise, pair_noise = (
        shown_from(means[name].noise(changed(budget.UNITS), budget.UNITS), n_names * (n_names + 2))
        for name, changed in (("edges", params.sensitivity), ("pairs", params.sensitivity_beyond))
    )
    noise, places = means["votes"].noise(of_one_cell(params.max_units)), np.arange(_LARGEST_POWER)
    ratio = params.words, pair_noise / sum_noise, _LARGEST_POWER
    cast = votes(given.statistics["variants"], *ratio)
    noisy = noisy_sums(cast, noise, "votes", places, given.randomness)
    clear = np.flatnonzero(np.abs(noisy) >= _clear_of(noise, _LARGEST_POWER))
    most = int(np.abs(noisy).argmax())
    # A case of n pairs has a norm of the root of n at least: noise for it costs each activity as
    # much as the threshold for that, and leaving it out costs n occurrences.
    released = _graph_of_variants(params, given, n_names * sum_noise / math.sqrt(2**most))
    if released is not None:
        return ClipsDecision(budget.UNITS, None, released)
    # Votes that may be noise leave the usual kind, whose threshold no noise of lengths raises.
    is_l1 = len(clear) > 0 and noisy[clear[-1]] > 0
    return _l1_clip(params, given, n_names * pair_noise) if is_l1 else None


def _clear_of(noise: SumNoise, n: int) -> float:
    """The size that one or more of so many Laplace noises have with a probability of 1/20."""
    return noise.width * math.log(20 * n)


def _l1_clip(params: Any, given: Given, rank: float) -> ClipsDecision:
    """A clip in L1 of which noise costs about as much as what it takes.

    Args:
        params: `PrivateDfgParams`.
        given: What is given.
        rank: What noise costs, by pair of the clip.
    """
    powers = np.arange(_BUCKETS * _LARGEST_POWER + 1) / _BUCKETS
    lengths = np.rint(elementary.power(2.0, powers)).astype(np.int64)
    grid = np.unique(np.minimum(lengths, params.max_trace_length or 2**_LARGEST_POWER))
    cases = given.statistics["lengths"].histogram(grid)
    cases = np.append(cases[:-2], cases[-2:].sum())  # the longest are of the last length at least
    noise = given.means["lengths"].noise(of_one_cell(params.max_units))
    noisy = noisy_sums(cases, noise, "lengths", np.arange(len(grid)), given.randomness)
    # Beyond the last that is clear of the noise, those of up to twice its length count.
    clear = np.flatnonzero(noisy >= _clear_of(noise, len(grid)))
    n_counted = int(clear[-1] if len(clear) else noisy.argmax()) + 1 + _BUCKETS
    counted = np.maximum(noisy, 0) * (np.arange(len(grid)) < n_counted)
    clips = grid + 1
    usual = (clips + np.append(2, clips[:-1] + 1)) / 2
    taken = np.maximum(usual - clips[:, None], 0)
    losses = (taken * counted).sum(axis=1)
    best = int((rank * clips + losses).argmin())
    unknown = taken[best, : max(n_counted, best + 1 + _BUCKETS)]
    lost, doubt = losses[best], noise.deviation * math.sqrt((unknown**2).sum())
    most_lost = round(lost + ONE_SIDED * doubt)
    return ClipsDecision(int(clips[best]) * budget.UNITS, None, None, round(lost), most_lost)


def _graph_of_variants(params: Any, given: Given, most_missing: float) -> GraphDecision | None:
    """The graph of the frequent variants, where no more cases are of others; else None."""
    allowance, changed = given.means["variants"], of_one_cell(params.max_units)
    counted, threshold = given.statistics["variants"], allowance.threshold(changed)
    noise = given.means["kind"].noise(changed)
    exact = numbered_cases(counted, threshold)
    numbered = noisy_sums(exact, noise, "kind", np.arange(3), given.randomness)
    missing, shown = missing_cases(numbered, threshold), float(numbered[1:].sum())
    if shown < 2 * _clear_of(noise, 1) or missing > min(most_missing, shown):
        return None
    seen = stable_variants(counted, allowance, params.max_units, given.randomness, "variants")
    count_noise = allowance.noise(changed)
    made = VariantGraph(seen, count_noise, missing, noise, params.words)
    return GraphDecision(made.graph(), None, ReleasedFigures.of(made.figures()))

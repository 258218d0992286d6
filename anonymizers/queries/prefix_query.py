"""The Laplace trace-variant query, level by level, and `laplace-levels`, charged by level.

Mannhardt, Koschmider, Baracaldo, Weidlich and Michael ("Privacy-Preserving Process Mining", 2019)
ask level by level how many cases begin with each prefix that may go on. Candidates of a level are
the surviving prefixes of the level before, each continued by every activity and by the end. Noise
is added to every candidate's count, what is negative becomes 0, candidates below a threshold are
dropped, and what ended is released, beside the unended prefixes of the last level. It is the
baseline of Fahrenkrog-Petersen et al., "SaCoFa: Semantics-aware Control-flow Anonymization for
Process Mining" (2021).

What is pruned is a parameter, since the published forms differ: one never prunes what ended nor
what is on the last level, the other prunes everything. It can be given a judge that tells the
candidates that make sense from those that do not, and leaves some of the latter out: SaCoFa is
this query with such a judge. Its guarantee is that of its levels added up: a case is in one
candidate of every level.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.calibration import laplace_interval
from tracecloak.anonymizers.accounting.sensitivity import of_distinct_cells
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.published import positive_laplace
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM, CellStream, draw_laplace
from tracecloak.anonymizers.rigorous.bought import length_grid
from tracecloak.anonymizers.rigorous.budget import Allowance, Allowances, Need, Pure
from tracecloak.anonymizers.variants.generator import Domain, VariantGenerator, released
from tracecloak.schemas.arrays.merging import offsets_of, ranges, sum_groups
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

# ---
# The Laplace trace-variant query, level by level, and `laplace-levels`, which pays for its levels.


# Candidates of one level, at most: it bounds time and memory.
MAX_CANDIDATES = 1 << 22

Sampler = Callable[[CellStream, int, int], np.ndarray]

Judge = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Judges the candidates of a level.

Of each prefix that goes on, int32[n_survivors, depth], the candidates are its continuations by
every activity in the order of their codes, and by the end. It is given what keys them, uint64[n,
2], and which are not out of the question, bool[n]. It returns which are harmful, bool[n], and which
are counted, bool[n]: what is not counted gets no noisy count, so it is not released and does not go
on.
"""


@dataclass(frozen=True)
class LevelQuery:
    """What is public of a query.

    Attributes:
        max_prefix_length: Levels, at least 1. An end counts as a symbol, so only variants of fewer
            events are seen to end.
        scale: (numerator, denominator) of the noise of each count, in cases.
        threshold: Smallest noisy count that survives, after negative ones became 0. With 0 all do.
        prunes_last: Whether the threshold holds for ended prefixes and on the last level too.
        max_candidates: Of one level.
        when_full: What happens where the surviving prefixes have more continuations than that:
            `refuse` raises an error; `keep largest` drops those of the smallest noisy counts.
        draw: The noise.
        is_positive: Whether a noisy count is made to be above 0, as if drawn until it is; this
            takes discrete Laplace noise in place of `draw`.
        harmful_threshold: That of the candidates that a judge calls harmful.
        keeps_uncounted: Whether what a judge does not let count is kept with its exact count, and
            pruned by it, as the authors of SaCoFa do; no epsilon is finite then.
        named: What the thresholds are called where there are too many candidates.
    """

    max_prefix_length: int
    scale: tuple[int, int]
    threshold: int
    prunes_last: bool = True
    max_candidates: int = MAX_CANDIDATES
    when_full: Literal["refuse", "keep largest"] = "refuse"
    draw: Sampler = draw_laplace
    is_positive: bool = False
    harmful_threshold: int = 0
    keeps_uncounted: bool = False
    named: str = "threshold"


def trace_variant_query(
    counted: VariantHistogram,
    n_activities: int,
    query: LevelQuery,
    randomness: Randomness,
    name: str,
    judge: Judge | None = None,
) -> VariantHistogram:
    """Asks for the noisy counts of prefixes, level by level.

    If a unit adds or removes at most m cases, it changes the counts of each level by at most m in
    total (L1), and which candidates a level has follows from the noisy counts of the levels before.
    So the levels compose: with exact discrete Laplace noise of scale b on each count the answer is
    (levels m / b)-differentially private, and no better, as a case of as many events changes a
    count of every level. This takes the alphabet to be public. The end is no candidate of the first
    level, since no case is without events.

    Args:
        counted: Exact counts; variants may be longer than the levels reach.
        n_activities: Size of the alphabet, whose codes are 0 … n_activities - 1.
        query: What is public.
        randomness: The release's.
        name: What every purpose begins with.
        judge: Judges the candidates. If all that it knows is public, the guarantee is the same.

    Returns:
        The prefixes with noisy counts, not negative: of `max_prefix_length` activities the cases
        that begin with it, of fewer those that are the prefix.

    Raises:
        UsageError: A level has too many candidates, which follows from noisy counts alone.
    """
    end = n_activities
    n_symbols = end + 1
    lengths = np.diff(counted.offsets)
    # The variants that begin with surviving prefixes, and the number of that prefix in the level.
    rows, inside = np.arange(counted.n_variants), np.zeros(counted.n_variants, np.int64)
    # Survivors: their activities, and what their noise is keyed by. A candidate's cell is the image
    # of its parent's and of its last symbol, so a CBC-MAC of its prefix.
    prefixes, cells = np.zeros((1, 0), np.int32), cell_numbers(np.arange(1))
    sequences: list[pa.LargeBinaryArray] = []
    counts: list[np.ndarray] = []
    for depth in range(query.max_prefix_length):
        n_survivors = len(prefixes)
        if not n_survivors:
            break
        is_last = depth == query.max_prefix_length - 1
        symbols = np.full(len(rows), end)
        goes_on = lengths[rows] > depth
        symbols[goes_on] = counted.codes[counted.offsets[rows[goes_on]] + depth]
        places = inside * n_symbols + symbols
        noisy = sum_groups(places, counted.counts[rows], n_survivors * n_symbols)

        symbol = np.tile(np.arange(n_symbols), n_survivors)
        parents = np.repeat(np.arange(n_survivors), n_symbols)
        children = randomness.words(f"{name}/prefix", cells[parents], symbol)
        is_end = symbol == end
        is_candidate = ~is_end if depth == 0 else np.ones(len(symbol), bool)
        is_harmful = np.zeros(len(symbol), bool)
        if judge is not None:
            is_harmful, is_counted = judge(prefixes, children, is_candidate)
            drawn = np.flatnonzero(is_candidate & is_counted)
            if not query.keeps_uncounted:
                is_candidate &= is_counted
        else:
            drawn = np.flatnonzero(is_candidate)
        noisy[drawn] = _with_noise(noisy[drawn], children[drawn], query, randomness, name)

        # From here on only noisy counts are read.
        noisy = np.clip(noisy, 0, LARGEST_TERM)
        is_spared = np.zeros(len(symbol), bool)
        if not query.prunes_last:
            is_spared |= is_end | is_last
        thresholds = np.where(is_harmful, query.harmful_threshold, query.threshold)
        survives = is_candidate & ((noisy >= thresholds) | is_spared)
        out = np.flatnonzero(survives & (is_end | is_last))
        whole = np.column_stack([prefixes[parents[out]], symbol[out].astype(np.int32)])
        lengths_out = depth + 1 - is_end[out]
        codes = whole.ravel()[ranges(np.arange(len(out)) * (depth + 1), lengths_out)]
        sequences.append(encode_sequences(offsets_of(lengths_out), codes))
        counts.append(noisy[out])
        if is_last:
            break
        growing = _within_bounds(np.flatnonzero(survives & ~is_end), noisy, n_symbols, query)

        number = np.full(len(symbol), -1)
        number[growing] = np.arange(len(growing))
        inside = number[places]
        rows, inside = rows[inside >= 0], inside[inside >= 0]
        prefixes = np.column_stack([prefixes[parents[growing]], symbol[growing].astype(np.int32)])
        cells = children[growing]
    return VariantHistogram.of(pa.concat_arrays(sequences), np.concatenate(counts))


def _with_noise(
    counts: np.ndarray, cells: np.ndarray, query: LevelQuery, randomness: Randomness, name: str
) -> np.ndarray:
    purpose = f"{name}/count"
    if query.is_positive:
        return positive_laplace(randomness, purpose, cells, counts, query.scale)
    return counts + query.draw(CellStream(randomness, purpose, cells), *query.scale)


def _within_bounds(
    growing: np.ndarray, noisy: np.ndarray, n_symbols: int, query: LevelQuery
) -> np.ndarray:
    """Returns those of the prefixes that are continued, in their order."""
    if len(growing) * n_symbols <= query.max_candidates:
        return growing
    if query.when_full == "refuse":
        raise UsageError(
            f"{query.named} {query.threshold} leaves prefixes that have more than "
            f"{query.max_candidates:,} continuations, which is the most that is asked for: raise "
            f"{query.named} or epsilon, or lower max_prefix_length"
        )
    n_kept = query.max_candidates // n_symbols
    return np.sort(growing[np.argsort(-noisy[growing], kind="stable")[:n_kept]])


# ---
# The Laplace trace-variant query as a generator, with an epsilon that holds for all its levels.


class LaplaceLevels(VariantGenerator, name="laplace-levels"):
    """The generator `laplace-levels`: the query with the epsilon of all of its levels together.

    It has `max_length` levels, on which every case of the domain is seen to its end: one of fewer
    events by its end, one of `max_length` by its last prefix. A unit has at most `max_units` cases
    m, so it changes the counts of each level by at most m in total, and what is asked on a level
    follows from noisy counts of the levels before. Discrete Laplace noise of scale
    m max_length / epsilon makes every level (epsilon / max_length)-DP (Dwork, McSherry, Nissim,
    Smith 2006), and max_length of them in sequence epsilon-DP. What is done with the noisy counts
    afterwards costs nothing.

    A candidate survives, on the last level and at its end too, if its noisy count reaches
    b ln(|A| + 1), for noise of scale b and the |A| + 1 continuations of a prefix: half a candidate
    without cases does so for each prefix that is continued. The threshold follows from public
    numbers alone. Where the survivors have more than MAX_CANDIDATES continuations, those of the
    largest noisy counts go on. Counts are released as they are; they need not add up.

    It is what the published query costs and gives when all of it is accounted for: the method to
    compare others with.
    """

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what all levels together need."""
        n_levels = int(length_grid()[-1]) if max_length is None else max_length
        return (Pure("levels", Fraction(1), largest=of_distinct_cells(n_levels, max_units)),)

    def explain(self, means: Allowances, max_units: int) -> str:
        """Returns what is done and the error to expect."""
        scale = float(max_units / means["levels"].epsilon)
        return sentence("generators", "levels", None, scale=scale)

    def query(self, domain: Domain, allowance: Allowance) -> LevelQuery:
        """Returns the query of a domain, of public numbers.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        n_levels, n_symbols = domain.max_length, len(domain.vocabulary) + 1
        scale = allowance.noise(of_distinct_cells(n_levels, domain.max_units)).scale
        threshold = max(1, math.ceil(scale[0] / scale[1] * math.log(n_symbols)))
        return LevelQuery(n_levels, scale, threshold, when_full="keep largest")

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns the variants whose noisy counts survived.

        The intervals are those of the noise: for any one variant, chosen without looking, its holds
        the true number with probability 0.95.
        """
        query = self.query(domain, means["levels"])
        n = len(domain.vocabulary)
        variants = trace_variant_query(counted, n, query, randomness, self.name)
        return released(variants, domain.vocabulary, laplace_interval(Fraction(*query.scale)))

"""`sapa`: a log played out from a directly-follows graph with noise, as published.

Fahrenkrog-Petersen, Kabierski, van der Aa and Weidlich, "Semantics-aware mechanisms for
control-flow anonymization in process mining": a directly-follows query (Algorithm 3, or the one of
`laplace-dfg`) and a play-out of its counts (Algorithm 2, `play_out`).

The exponential query keeps the pairs of which one activity comes after the other within
`k_follows` steps in some case, START and END included, and a few others that the exponential
mechanism lets in; each gets a positive noisy count, all others none. How it is made positive the
paper leaves open: with the profile `paper` it is the count with discrete Laplace noise on condition
that it is positive; with `reference`, as in the authors' code, noise that is cut off towards 0 is
added again and again until it is. START is never followed by END, as that would be a case without
events. The authors' code ends for good when a case has made 500 steps; this one does not.

Which pairs the exponential query keeps is seen on the unprotected log, so it has no honest form.
The Laplace query has: a play-out of counts that are epsilon-differentially private is, too.

Play-out: cases from a directly-follows graph, each arc taken as often as its count says.

Algorithm 2 of Fahrenkrog-Petersen, Kabierski, van der Aa and Weidlich ("Semantics-aware mechanisms
for control-flow anonymization in process mining"): a case begins at START and goes on to an
activity drawn by the counts that its last one has left, which fall by one. Where nothing is left,
no case comes to that activity any more: the arcs into it are removed and the case goes a step back.

To draw by the counts that are left and to take one off is to draw without replacement. So the
order in which an activity's arcs are taken is a uniformly random order of its arcs, however its
cases and those of others take turns, and removing an activity from a random order leaves a random
order. All orders are drawn beforehand, in columns, and the cases only follow them: one pass over
the arcs.

That some path leads from START to END is not asked before each case, as the algorithm has it: of
what has no path no case comes, and START is soon used up. A trace goes on while it has not ended
and is not empty; the printed algorithm says "or".
"""

from __future__ import annotations

import math
from array import array
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract.counters import from_traces
from tracecloak.anonymizers.contract.sentences import told
from tracecloak.anonymizers.noise import published
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream, Scale, draw_laplace
from tracecloak.anonymizers.queries import pair_query
from tracecloak.anonymizers.rigorous.params import drawable
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.variants.generator import VariantsDecision, released
from tracecloak.anonymizers.variants.method import CasesOfVariants
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.relations import KFollows
from tracecloak.schemas.statistics.variants import VariantHistogram

# Arcs in all: it bounds time, to about 20 s, and memory, to about 2 GB.
MAX_ARCS = 1 << 26
_TOO_MANY = (
    f"the noisy counts would add up to more than {MAX_ARCS:,} directly-follows pairs, which is the "
    "most that is played out: raise epsilon, or give a smaller vocabulary or max_trace_length"
)
# Arcs whose random words are drawn in one go.
_BLOCK = 1 << 20


def play_out(
    pairs: pair_query.PairCounts, counts: np.ndarray, randomness: Randomness, purpose: str
) -> tuple[np.ndarray, np.ndarray]:
    """Plays a graph out until START has nothing left; post-processing of its counts.

    No arc is taken more often than its count says. Arcs that are left over are lost.

    Args:
        pairs: The arcs; from START to END there is none.
        counts: int64[n_arcs], how often each may be taken, at least 0.
        randomness: The release's.
        purpose: What the random numbers are for.

    Returns:
        int64[n_cases+1] offsets and int32[n_positions] codes of the cases, in the order in which
        they were made.

    Raises:
        UsageError: The arcs are more than MAX_ARCS.
    """
    refuse_excess(float(counts.sum(dtype=np.float64)))
    sources, targets = pairs.sources, pairs.targets
    start, end = pairs.vocabulary.start, pairs.vocabulary.end
    # Of each code the targets of its arcs, as often as counted, in random order.
    stacks = [array("i") for _ in range(end + 1)]
    cells = cell_numbers(pairs.domain)
    for source in np.unique(sources[counts > 0]).tolist():
        arcs = np.flatnonzero(sources == source)
        order = np.argsort(_words(randomness, purpose, cells[arcs], counts[arcs]), kind="stable")
        taken = np.repeat(targets[arcs].astype(np.int32), counts[arcs])[order]
        stacks[source].frombytes(taken.view(np.uint8))
    is_open = [True] * (end + 1)
    codes, lengths = array("i"), array("q")
    path: list[int] = []
    at = start
    while True:
        left = stacks[at]
        while left:
            to = left.pop()
            if is_open[to]:
                break
        else:  # no arc is left to go on by
            if at == start:
                break
            is_open[at] = False
            path.pop()
            at = path[-1] if path else start
            continue
        if to == end:
            codes.extend(path)
            lengths.append(len(path))
            path.clear()
            at = start
        else:
            path.append(to)
            at = to
    return offsets_of(np.array(lengths, np.int64)), np.array(codes, np.int32)


def playable(counts: np.ndarray) -> np.ndarray:
    """Returns int64[n_arcs], counts of which no more than can be played out are left.

    For releases that may not be refused on what the noise came to: all counts are made smaller in
    proportion.

    Args:
        counts: int64[n_arcs], at least 0.
    """
    total = float(counts.sum(dtype=np.float64))
    if total <= MAX_ARCS:
        return counts
    return np.floor(counts * (MAX_ARCS / total * (1 - 1e-9))).astype(np.int64)


def refuse_excess(n_arcs: float) -> None:
    """Refuses what is too much to be played out, or is expected to be.

    Args:
        n_arcs: The sum of the counts, or what is expected of it, from public numbers.

    Raises:
        UsageError: They are more than MAX_ARCS.
    """
    if n_arcs > MAX_ARCS:
        raise UsageError(_TOO_MANY)


def _words(
    randomness: Randomness, purpose: str, cells: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Returns uint64[sum of counts], a random word for each time that each cell is counted."""
    ends = np.cumsum(counts)
    words = np.empty(int(ends[-1]), np.uint64)
    for first in range(0, len(words), _BLOCK):
        place = np.arange(first, min(first + _BLOCK, len(words)))
        cell = np.searchsorted(ends, place, side="right")
        number = place - (ends - counts)[cell]
        words[place] = randomness.words(purpose, cells[cell], number)[:, 0]
    return words


class SapaParams(pair_query.PairQueryParams):
    """Parameters of `sapa`."""

    query: Literal["exponential", "laplace"] = "exponential"
    """exponential keeps few pairs that are never close in the log; laplace puts noise on every
    pair, so that many are played out that never occur."""
    k_follows: int = Field(default=1, ge=1, le=10_000)
    """Largest distance, in steps, at which a pair of activities was seen that the exponential query
    keeps; 1 for neighbours. More lets more pairs in that are not."""

    @pydantic.model_validator(mode="after")
    def _check_query(self) -> SapaParams:
        if self.is_honest and self.query == "exponential":
            raise ValueError(
                "budget honest needs query laplace: the exponential query chooses pairs on the "
                "unprotected log, and no share of epsilon covers that"
            )
        return self

    @property
    def spends_as_published(self) -> tuple[Spend, ...]:
        """What holds as published; no finite epsilon does where pairs are chosen on the log."""
        return () if self.query == "exponential" else super().spends_as_published

    @property
    def steps_text(self) -> str:
        """The largest distance in words."""
        return "1 step" if self.k_follows == 1 else f"{self.k_follows} steps"

    @property
    def positive_excess(self) -> float:
        """What making counts positive costs at most beyond the noise, for each occurrence."""
        return published.positive_excess(float(self.epsilon) / self.max_units)

    @property
    def choice_scale(self) -> tuple[int, int]:
        """(numerator, denominator) of 2 / epsilon, by which harmful pairs are let in.

        Raises:
            UsageError: A choice so wide cannot be drawn.
        """
        return drawable(laplace_scale(Fraction(self.epsilon) / 2, of_one_cell(self.max_units)))


def exponential_query(
    pairs: pair_query.PairCounts,
    distances: KFollows,
    params: SapaParams,
    randomness: Randomness,
    name: str,
) -> np.ndarray:
    """Returns int64[n_pairs], positive noisy counts of the pairs that are kept, 0 for all others.

    Algorithm 3: kept are the pairs at most `k_follows` apart, and of the other n as many as the
    exponential mechanism says, which is about 1 / (exp(epsilon / 2) - 1), whichever they are.

    Args:
        pairs: The counts.
        distances: Smallest distances, at least up to `k_follows`.
        params: The method's parameters.
        randomness: The release's.
        name: What the purposes begin with.
    """
    is_kept = np.isin(pairs.domain, distances.keys_within(pairs.vocabulary, params.k_follows))
    harmful = np.flatnonzero(~is_kept)
    cells = cell_numbers(pairs.domain)
    number = CellStream(randomness, f"{name}/harmful/number", np.zeros((1, 2), np.uint64))
    words = randomness.words(f"{name}/harmful/which", cells[harmful])
    ones = np.ones(len(harmful), np.int64)
    chosen = published.choose_harmful(number, words, ones, 1, params.choice_scale)
    is_kept[harmful[chosen]] = True
    kept_pairs = np.flatnonzero(is_kept)
    noisy = np.zeros(len(pairs.domain), np.int64)
    make_positive = walked_laplace if params.is_cut_off else published.positive_laplace
    noisy[kept_pairs] = make_positive(
        randomness, f"{name}/pair", cells[kept_pairs], pairs.counts[kept_pairs], params.scale
    )
    names = pairs.vocabulary.names
    randomness.noise.made(f"{name}/pair", pairs.domain, noisy, pair_query.noise_of(params), names)
    return noisy


def walked_laplace(
    randomness: Randomness, purpose: str, cells: np.ndarray, counts: np.ndarray, scale: Scale
) -> np.ndarray:
    """Returns int64[n], counts to which truncated Laplace noise is added until they are positive.

    At least once. Such a walk gets above 0 for sure, though after any number of steps; the step
    that does has no memory of where it set out from, so it ends at 1 + j with probability
    (1 - a) a^j, a = exp(-1 / scale), wherever that was. So two draws are enough. A count that
    changes by k costs up to k / scale + ln 2.

    Args:
        randomness: The release's.
        purpose: What the noise is for.
        cells: uint64[n, 2], what it is keyed by.
        counts: int64[n], not negative.
        scale: Of the noise.
    """
    first, last = (CellStream(randomness, f"{purpose}/{n}", cells) for n in ("first", "last"))
    noisy = counts + published.truncated_laplace(first, *scale)
    return np.where(noisy > 0, noisy, 1 + published.sizes_of(draw_laplace(last, *scale)))


class Sapa(CasesOfVariants, pair_query.PairQueryMethod, name="sapa"):
    """The method; see the module."""

    Params: ClassVar[type[SapaParams]] = SapaParams

    def parts(self, params: SapaParams) -> tuple[Part, ...]:
        """Returns the one part: the counts of pairs, from which cases are played out."""
        counters, others = pair_query.pairs_and_names(), 0.0
        if params.query == "exponential":
            counters["distances"] = from_traces(KFollows, params.k_follows)
            numerator, denominator = params.choice_scale
            others = 1 / math.expm1(denominator / numerator)
        does = told("pair-query", "played", params, others=others)

        def decide(given: Given) -> VariantsDecision:
            counted, randomness = given.statistics, given.randomness
            pairs = pair_query.PairCounts(counted["pairs"], counted["names"], params)
            if params.query == "laplace":
                noisy = pair_query.laplace_query(pairs, params, randomness, self.name)
            else:
                noisy = exponential_query(
                    pairs, counted["distances"], params, randomness, self.name
                )
            words = pairs.vocabulary
            counts = np.maximum(noisy, 0)
            played = playable(counts) if params.is_honest else counts
            offsets, codes = play_out(pairs, played, randomness, f"{self.name}/step")
            ones = np.ones(len(offsets) - 1, np.int64)
            variants = VariantHistogram.of(encode_sequences(offsets, codes), ones)
            return VariantsDecision(released(variants, words))

        reality = pair_query.honest_reality(params)
        return (Part("variants", params.needs, does, decide, counters, "variants", reality),)

    def spends(self, params: SapaParams) -> tuple[Spend, ...]:
        """Returns the one part, the counts, if a finite epsilon holds.

        Raises:
            UsageError: Noise so wide cannot be drawn, or would be too much to be played out.
        """
        spends, scale = super().spends(params), params.scale
        if params.query == "exponential":
            _ = params.choice_scale  # raises if it cannot be drawn
        elif params.n_words is not None:
            # Half of the noisy counts of 0 are positive, and about as large as the scale.
            n_names = params.n_words
            refuse_excess((n_names**2 + 2 * n_names) * scale[0] / scale[1] / 2)
        return spends

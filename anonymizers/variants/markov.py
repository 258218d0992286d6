"""From noisy sums of directly-follows pairs by position to a chain, and walks through it.

Looks at noisy sums and public numbers only, so it costs no privacy, and floats may be used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.accounting.sensitivity import of_clipped_cells
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.randomness import CellLaws, Randomness, cell_numbers, uniform
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous import clips
from tracecloak.anonymizers.rigorous.bought import rank_of_clip
from tracecloak.anonymizers.rigorous.budget import Allowances, Need, Pure, Sums
from tracecloak.anonymizers.rigorous.names import MAX_CELLS
from tracecloak.anonymizers.rigorous.params import LONGEST_TRACE
from tracecloak.anonymizers.variants.generator import Domain, VariantGenerator, released
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import offsets_of, ranges, sum_groups
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.variant_flows import FlowCells, VariantFlows
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- From noisy sums of directly-follows pairs by position to a chain, and walks through it. ------


# Walks that are drawn at most, and events of all of them; more cases share a walk.
_MAX_WALKS = 1 << 20
_MAX_STEPS = 1 << 24
# So many walks are drawn to find what a chain can produce beside the variants that are known.
_WALKS_BESIDE = 1 << 17
# A noisy number of cases above this one is noise, and is cut to it.
_MAX_CASES = 1 << 40
_RAKING_ROUNDS = 3
_MOST_RAKED = 2.0
# Of walks that go on through a chain no more are followed than this share of all: what so few take
# is less than what rounding the sums of the others takes.
GOES_ON = 2.0**-40
# If walks lack more than this share of the events that surely occur, noise hides where they go, and
# what lacks is made up from how often activities occur. To tell it, walks are followed for so many
# times as many events as a case has of these.
_MOST_LACKING, _FOLLOWED = 0.3, 8


@dataclass(frozen=True)
class Chain:
    """A Markov chain whose steps depend on the activity and on the bin of the position.

    Attributes:
        starts: float64[n_names], chances of the first activity; they sum to 1.
        steps: float64[n_blocks-2, n_names, n_names+1], chances of the next activity, or of END as
            the last, in each bin of positions after each activity; every row sums to 1.
        cells: What the bins are.
    """

    starts: np.ndarray
    steps: np.ndarray
    cells: FlowCells


@dataclass(frozen=True)
class KnownEnds:
    """What else is known than the sums of arcs: where cases begin and end, how often what occurs.

    Attributes:
        starts: float64[n_names], cases that begin with each activity, in lattice steps of the sums;
            0 where nothing is known.
        arcs: float64[n_names, n_names+1], how often they are taken at least, of whole cases, END as
            the last column.
        occurrences: float64[n_names], how often each activity surely occurs, in lattice steps, 0
            where noise hides it; None: nothing else is known of that.
        n_cases: How many cases there are, in lattice steps; for `occurrences` only.
    """

    starts: np.ndarray
    arcs: np.ndarray
    occurrences: np.ndarray | None = None
    n_cases: float = 1.0


def chain_of(
    noisy: np.ndarray, cells: FlowCells, noise: SumNoise, known: KnownEnds | None = None
) -> Chain | None:
    """Estimates the chain.

    Counts over whole cases give one chain for all positions: those below a threshold are left out,
    and so are activities from which END is not reached. In each bin its counts are expected from
    how often walks come to an activity there, and moved towards the noisy ones by m² / (m² +
    s²), where m is what is expected and s the noise: as for a normal prior of that mean and that
    deviation. An arc that is not expected at all must pass the threshold of its own bin. What the
    bins then say of whole cases is brought near the counts of these.

    Args:
        noisy: int64[n_possible], sums with noise in lattice steps.
        cells: What they are sums of.
        noise: What was added to each.
        known: Arcs that no noise may hide: where cases are long and repeat themselves, the arcs
            that each of them has once are lost in the noise of those that it has a hundred times.
            And how often activities occur: where there are hundreds of these, most arcs are lost,
            and walks would end after a few events, or never (`_completed`).

    Returns:
        None where no first activity has a positive sum.
    """
    n, n_bins = cells.n_names, cells.n_blocks - 2
    starts, whole, bins = clear_sums(noisy, cells, noise, known)
    if not starts.any():
        return None
    starts, overall, alive = ending(starts, whole)
    if known is not None and _is_lost(starts, overall, known):
        starts, overall, alive = ending(*_completed(starts, whole, known))
    if n_bins == 1:
        return Chain(starts / starts.sum(), overall[None], cells)

    steps = np.empty((n_bins, n, n + 1))
    least = noise.threshold(bins.size)
    widths = np.bincount(cells.blocks)[2:]
    come, fewest = starts, starts.sum() * GOES_ON
    for i, width in enumerate(widths.tolist()):
        expected = visits_of(come, overall, width, fewest)[0][:, None] * overall
        # The quotient is squared, and not its parts, because squares of the sums can be too large
        # for a float.
        trust = 1 / (1 + (noise.width / np.maximum(expected, 1e-9 * noise.width)) ** 2)
        moved = expected + (bins[i] - expected) * trust
        moved = np.where(bins[i] >= least, np.maximum(moved, bins[i]), moved)
        steps[i] = rows_of(np.maximum(moved, 0) * alive, overall)
        _, come = visits_of(come, steps[i], width, fewest)
    return Chain(starts / starts.sum(), _raked(steps, starts, overall, widths), cells)


def clear_sums(
    noisy: np.ndarray, cells: FlowCells, noise: SumNoise, known: KnownEnds | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns what stands out of the noise: first activities and arcs of whole cases; and the bins.

    Args:
        noisy: As for `chain_of`, and so are all others.
        cells: What they are sums of.
        noise: What was added to each.
        known: What else is known.

    Returns:
        float64[n], positive sums where none stands out, and float64[n, n+1], 0 where noise hides
        it; and float64[n_bins, n, n+1], all sums by bin of positions.
    """
    n, n_bins = cells.n_names, cells.n_blocks - 2
    sums = cells.by_block(noisy)
    first, bins = sums[1, n, :n], sums[2:, :n]
    starts = np.where(first >= noise.threshold(n), first, 0)
    if known is not None:
        starts = np.maximum(starts, known.starts)
    if not starts.any():
        starts = np.maximum(first, 0)
    # Sums over the bins have n_bins times the variance of those of whole cases.
    whole, shrink = bins.sum(axis=0), math.sqrt(n_bins)
    if cells.has_whole:
        whole = (sums[0, :n] + whole / n_bins) / (1 + 1 / n_bins)
        shrink = math.sqrt(n_bins / (n_bins + 1))
    whole = np.where(whole >= noise.threshold(n * cells.side) * shrink, whole, 0)
    if known is not None:
        whole = np.maximum(whole, known.arcs)
    return starts, whole, bins


def ending(starts: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the starts, and rows of arcs that sum to 1, without activities that lead nowhere.

    Args:
        starts: float64[n], of which one is above 0.
        whole: float64[n, n+1].

    Returns:
        float64[n] and float64[n, n+1]; and bool[n+1], the activities from which END is reached.
    """
    n = len(starts)
    alive = _reach_end(whole)
    if not starts[alive[:n]].any():  # no walk would end: then every activity may
        alive[:] = True
    return starts * alive[:n], rows_of(whole * alive, np.eye(n + 1)[n]), alive


def _is_lost(starts: np.ndarray, overall: np.ndarray, known: KnownEnds) -> bool:
    """Whether walks lack many of the events that surely occur.

    They end too early, or go round in a circle and never see the other activities.

    Args:
        starts: float64[n], not all 0.
        overall: float64[n, n+1], rows that sum to 1.
        known: What else is known.
    """
    if known.occurrences is None or not known.occurrences.any():
        return False
    occur = known.occurrences / known.n_cases
    wanted = float(occur.sum())
    begun = starts / starts.sum()
    visits, _ = visits_of(begun, overall, math.ceil(_FOLLOWED * wanted), GOES_ON)
    return float(np.maximum(occur - visits, 0).sum()) > _MOST_LACKING * wanted


def _completed(
    starts: np.ndarray, whole: np.ndarray, known: KnownEnds
) -> tuple[np.ndarray, np.ndarray]:
    """The starts and arcs, with what lacks of how often activities occur.

    What leaves an activity unseen is divided among the activities that are come to unseen, and END,
    in proportion to how often: as if one had nothing to do with the other. Nothing else is known of
    arcs that noise hides.

    Args:
        starts: float64[n], cases that begin with each activity, as far as noise leaves them.
        whole: float64[n, n+1], arcs, likewise.
        known: What else is known.
    """
    occur = known.occurrences
    assert occur is not None
    leave = np.maximum(occur - whole.sum(axis=1), 0)
    come = np.append(occur - starts, known.n_cases) - whole.sum(axis=0)
    come = np.maximum(come, 0)
    begin = max(known.n_cases - float(starts.sum()), 0.0) * come[:-1]
    starts = starts + begin / max(float(come[:-1].sum()), 1.0)
    return starts, np.maximum(whole, leave[:, None] * (come / max(float(come.sum()), 1.0)))


def _raked(
    steps: np.ndarray, starts: np.ndarray, overall: np.ndarray, widths: np.ndarray
) -> np.ndarray:
    """The steps, scaled until walks take the arcs of whole cases about as often as those say.

    Iterative proportional fitting (Deming and Stephan 1940) with few rounds and bounded factors:
    the sums over whole cases have the least noise, and what the bins say is kept where it does not
    contradict them.

    Args:
        steps: float64[n_bins, n, n+1], rows that sum to 1.
        starts: float64[n], how often walks begin with each activity.
        overall: float64[n, n+1], rows of whole cases that sum to 1.
        widths: int64[n_bins], positions of each bin.
    """
    fewest = starts.sum() * GOES_ON
    for _ in range(_RAKING_ROUNDS):
        come, taken = starts, np.zeros_like(overall)
        for rows, width in zip(steps, widths.tolist(), strict=True):
            visits, come = visits_of(come, rows, width, fewest)
            taken += visits[:, None] * rows
        walked = rows_of(taken, overall)
        is_known = (walked > 0) & (overall > 0)
        factors = np.divide(overall, walked, out=np.ones_like(overall), where=is_known)
        steps = steps * np.clip(factors, 1 / _MOST_RAKED, _MOST_RAKED)
        steps /= steps.sum(axis=2, keepdims=True)
    return steps


def _reach_end(counts: np.ndarray) -> np.ndarray:
    """bool[n+1], the activities from which END is reached, and END itself."""
    is_arc = counts > 0
    alive = np.zeros(counts.shape[1], bool)
    alive[-1] = True
    while True:
        more = alive.copy()
        more[:-1] |= (is_arc & alive).any(axis=1)
        if (more == alive).all():
            return alive
        alive = more


def rows_of(counts: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns rows scaled to sum to 1; an empty one is that of `others`."""
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1), others)


def visits_of(
    come: np.ndarray, steps: np.ndarray, width: int, fewest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns how often walks are at each activity in some positions, and after these.

    Args:
        come: float64[n], walks at each activity in the first of the positions.
        steps: float64[n, n+1], the chances of the next activity, END as the last.
        width: Number of positions.
        fewest: If no more walks go on, none do.

    Returns:
        float64[n] twice.
    """
    total = np.zeros(len(come))
    for _ in range(width):
        if come.sum() <= fewest:
            return total, np.zeros(len(come))
        total += come
        # Rows that are taken 0 times, which are most where noise hides them, change no bit of it.
        at = slice(None) if come.all() else np.flatnonzero(come)
        come = elementary.product(come[at], steps[at])[: len(come)]
    return total, come


def mean_events(chain: Chain) -> float:
    """Returns how many events a walk through a chain has on average, cut at the largest length."""
    total, come = 0.0, chain.starts
    for rows, width in zip(chain.steps, np.bincount(chain.cells.blocks)[2:].tolist(), strict=True):
        visits, come = visits_of(come, rows, width, GOES_ON)
        total += float(visits.sum())
    return total


def draw_walks(
    chain: Chain, n_cases: int, names: pa.StringArray, randomness: Randomness, purpose: str
) -> ReleasedVariants:
    """Draws walks from START to END and counts equal ones.

    Each walk has exactly the law of the chain, cut at the largest length. They are drawn together:
    k walks with a beginning in common go on to each next activity as often as k times its chance
    says, rounded up or down by one uniform number for all (systematic sampling), so their counts
    are closer to what is expected than those of independent walks. Time and memory are bounded by
    2^20 walks, and by as many as have 2^24 events on average; where there are more cases, a walk
    stands for several.

    Args:
        chain: The chain.
        n_cases: How many cases; none if it is not positive.
        names: What the codes mean.
        randomness: The release's.
        purpose: What the numbers are for.
    """
    length, end = len(chain.cells.blocks) - 1, chain.cells.n_names
    n_cases = min(max(n_cases, 0), _MAX_CASES)
    n = min(n_cases, _MAX_WALKS)
    if n * (length + 1) > _MAX_STEPS:
        n = min(n, max(1, int(_MAX_STEPS / (mean_events(chain) + 1))))
    # Walks are kept in lexicographic order, so those with a beginning in common are neighbours.
    is_first = np.zeros(n, bool)
    is_first[:1] = True
    lengths = np.zeros(n, np.int64)
    at, come = np.arange(n), np.zeros(n, np.int64)
    taken: list[tuple[np.ndarray, np.ndarray]] = []
    block, laws = 0, CellLaws.of(np.append(chain.starts, 0.0)[None])
    for position in range(length):
        if not len(at):
            break
        heads = np.flatnonzero(is_first[at])
        group = np.cumsum(is_first[at]) - 1
        sizes = np.diff(heads, append=len(at))
        words = randomness.words(purpose, cell_numbers(at[heads]), position)
        ranks = np.arange(len(at)) - heads[group] + uniform(words[:, 0])[group]
        if position > 0 and chain.cells.blocks[position] != block:
            block = int(chain.cells.blocks[position])
            laws = CellLaws.of(chain.steps[block - 2])
        went = laws.draw(come, ranks / sizes[group])
        is_first[at[1:]] |= went[1:] != went[:-1]
        goes_on = went != end
        at, come = at[goes_on], went[goes_on]
        taken.append((at.astype(np.int32), come.astype(np.int32)))
        lengths[at] += 1
    offsets = offsets_of(lengths)
    codes = np.empty(offsets[-1], np.int32)
    for position, (walks, activities) in enumerate(taken):
        codes[offsets[walks] + position] = activities
    first = np.flatnonzero(is_first)
    # Python's integers, as the product may leave int64.
    shares = [int(i) * n_cases // n for i in [*first.tolist(), n]] if n else [0]
    walk_lengths = lengths[first]
    return most_frequent_first(
        names,
        offsets_of(walk_lengths),
        codes[ranges(offsets[first], walk_lengths)],
        np.diff(np.array(shares, np.int64)),
    )


def walks_beside(
    seen: VariantHistogram,
    chain: Chain,
    vocabulary: ActivityVocabulary,
    randomness: Randomness,
    purpose: str,
) -> VariantHistogram:
    """Draws walks and returns those that are none of some variants, the most frequent first.

    Args:
        seen: The variants.
        chain: The chain.
        vocabulary: What the codes of both mean.
        randomness: The release's.
        purpose: What the numbers are for.
    """
    walks = draw_walks(chain, _WALKS_BESIDE, vocabulary.names, randomness, purpose)
    sequences = encode_sequences(walks.offsets, vocabulary.codes(walks.names)[walks.codes])
    is_new = ~np.asarray(pc.is_in(sequences, value_set=seen.sequences), bool)
    return VariantHistogram(sequences.filter(pa.array(is_new)), walks.counts[is_new])


def drawn_cases(
    sequences: pa.Array, weights: np.ndarray, n_cases: float, randomness: Randomness, purpose: str
) -> VariantHistogram:
    """Returns variants with whole numbers of cases: each by its weight, rounded up or down.

    By systematic sampling: one uniform number for all, so all together are rounded once.

    Args:
        sequences: The variants.
        weights: float64[n], that sum to 1.
        n_cases: How many cases are wanted.
        randomness: The release's.
        purpose: What the number is for.
    """
    word = randomness.words(purpose, cell_numbers(np.zeros(1, np.int64)))
    ends = np.floor(np.cumsum(weights) * n_cases + uniform(word[:, 0]))
    counts = np.diff(ends, prepend=0).astype(np.int64)
    is_drawn = counts > 0
    return VariantHistogram(sequences.filter(pa.array(is_drawn)), counts[is_drawn])


# --- `markov-log`: a noisy Markov chain of the log, and cases drawn from it. ----------------------
# What is counted of a case is a vector: its directly-follows pairs, START and END included, once
# over the whole case and once by a public bin of the position. It is scaled down to a privately
# chosen L2 norm on an integer lattice, and a 1 for the case itself, which is not scaled, is put
# beside it; the sums over the cases get discrete Gaussian noise in every possible cell. The chain
# and the walks, as many as the noisy number of cases, follow from the noisy sums.
#
# By position, because most activities of most processes occur once: a chain that only knows the
# last activity comes back to them. That costs little, since a case has each arc of a bin once or
# twice and the norm of the vector is about twice the root of the case's length. The clip is
# exceeded by so few cases that what it takes is about what the noise is in all cells
# (`rigorous.clips`): longer cases weigh less in the chain, but the noise is less for all.
#
# Markov models of sequences with differential privacy: Chen, Acs and Castelluccia (CCS 2012).
# Noise: Canonne, Kamath and Steinke (NeurIPS 2020); its scale: Balle and Wang (ICML 2018).
# Clipping on a lattice: Casacuberta, Shoemate, Vadhan and Wagaman (CCS 2022).


# How much an error by noise weighs against one by clipping when the clip is chosen.
_WEIGHT_OF_NOISE = 1.5
# A fine lattice that stands for any other where only the ratio of noise and clip matters.
_FINE = 1 << 20
# Cells that noise is drawn for, in about a second, unless the vocabulary alone needs more.
_CELLS = 2_000_000


class MarkovVariants(VariantGenerator, name="markov-log"):
    """The generator `markov-log`; see the module."""

    most_names: ClassVar[int | None] = FlowCells.most_names(MAX_CELLS)

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what the clip and the sums need."""
        sums = Sums(
            f"{self.name} sums",
            1 - clips.RANKS_SHARE,
            of_clipped_cells(_FINE, max_units),
            _FINE,
            is_any_clip=True,
            largest=clips.largest_sums(1, max_units),
        )
        return (clips.ranks_need(f"{self.name} clip", clips.RANKS_SHARE, max_units), sums)

    def explain(self, means: Allowances, max_units: int) -> str:
        """Returns what it does and the noise to expect."""
        clips_of_noise = self._noise_of_clip(means, max_units)
        return sentence("generators", "markov", None, clips=clips_of_noise)

    def _noise_of_clip(self, means: Allowances, max_units: int) -> float:
        """The deviation of one cell's noise, in clips."""
        noise = means[f"{self.name} sums"].noise(of_clipped_cells(_FINE, max_units), _FINE)
        return noise.width / noise.units

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns cases drawn from the chain."""
        cells = self.cells_of(domain)
        noisy, noise = self._noisy_sums(counted, domain, means, randomness)
        place = int(np.searchsorted(cells.possible, cells.cases))
        n_cases = int(noisy[place]) // noise.units
        chain = chain_of(noisy, cells, noise) if n_cases > 0 else None
        if chain is None:
            return released(VariantHistogram.merge(()), domain.vocabulary)
        names, purpose = domain.vocabulary.names, f"{self.name}/walk"
        return draw_walks(chain, n_cases, names, randomness, purpose)

    def cells_of(self, domain: Domain) -> FlowCells:
        """Returns what is counted, public."""
        return FlowCells.of(len(domain.vocabulary), domain.max_length, _CELLS)

    def _noisy_sums(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> tuple[np.ndarray, SumNoise]:
        allowance, cells = means[f"{self.name} sums"], self.cells_of(domain)
        flows = VariantFlows.from_variants(counted, cells)
        buckets = np.searchsorted(clips.norm_grid(), flows.squares)
        cases = sum_groups(buckets, flows.cases, len(clips.norm_grid()) + 1)
        noise_of_clip = self._noise_of_clip(means, domain.max_units)
        public = cells.n_possible, cells.n_names, _WEIGHT_OF_NOISE, cells.n_blocks - 1
        rank, share = rank_of_clip(noise_of_clip, *public), means[f"{self.name} clip"]
        m, purpose = domain.max_units, f"{self.name}/clip"
        clip = clips.choose_clip(cases, share, rank, m, randomness, purpose)
        units = clips.lattice_units(allowance, m)
        noise = allowance.noise(clips.sums_sensitivity(clip, units, m), units)
        stream = CellStream(randomness, f"{self.name}/sum", cell_numbers(cells.possible))
        return flows.sums(cells, math.isqrt(clip * units**2), units) + noise.draw(stream), noise


class MarkovVariantsPure(MarkovVariants, name="markov-log-pure"):
    """The generator `markov-log-pure`: a chain of the last activity alone, with Laplace noise.

    Without a clip. A case of n events has n + 1 arcs, and 1 for itself, so the noise has a scale of
    (max_length + 2) max_units / epsilon; to count arcs by position as well would double it.
    """

    most_names: ClassVar[int | None] = FlowCells.most_names(MAX_CELLS, has_whole=False)

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what the sums need."""
        length = LONGEST_TRACE if max_length is None else max_length
        largest = clips.whole_sums_sensitivity(length, max_units)
        return (Pure(f"{self.name} sums", Fraction(1), largest=largest),)

    def explain(self, means: Allowances, max_units: int) -> str:
        """Returns what it does and the noise to expect."""
        per_event = float(max_units / means[f"{self.name} sums"].epsilon)
        return sentence("generators", "markov_pure", None, per_event=per_event)

    def cells_of(self, domain: Domain) -> FlowCells:
        """Returns what is counted, public: arcs whatever their position."""
        return FlowCells.without_positions(len(domain.vocabulary), domain.max_length)

    def _noisy_sums(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> tuple[np.ndarray, SumNoise]:
        cells = self.cells_of(domain)
        flows = VariantFlows.from_variants(counted, cells)
        changed = clips.whole_sums_sensitivity(domain.max_length, domain.max_units)
        noise = means[f"{self.name} sums"].noise(changed)
        stream = CellStream(randomness, f"{self.name}/sum", cell_numbers(cells.possible))
        return flows.unclipped_sums(cells) + noise.draw(stream), noise

"""`joint-variants`: a chain, variants and marginals measured together, and cases that fit them all.

Three vectors of each case are counted with Gaussian noise: its directly-follows pairs by position,
scaled down to a norm as in `markov-log`; its variant, of which those that enough cases have are
seen; and a few partitions of the cases, by length, by their ends and by how often each activity
occurs (`schemas.statistics.variant_flows`). Proposals are the variants that were seen and walks of
the noisy chain. Each gets the weight with which all proposals together agree best with all that was
measured (`anonymizers.variants.reweight`), and cases are drawn by these weights. As proposals are
clipped like cases before they are compared with the noisy chain, the clip biases nothing.

Where variants repeat, most of the budget is for them; where they hardly do, for the chain. Which it
is follows from two noisy numbers: that of the cases, and that of those of variants which would be
sure to be seen. The share of all three together is fixed beforehand, so dividing it by what was
released before is accounted for by their sum (Dong, Roth, Su 2022, Corollary 3.3).

By the same two numbers pairs are counted by position, or once whatever their position. To count
them by position as well makes a case's vector longer by the root of 2, and the noise with it, and
tells something only where the other cases stand out of the noise (`unseen_stand_out`).

To measure many views of a log and to fit one that agrees with them: McKenna, Sheldon and Miklau,
"Graphical-model based estimation and inference for differential privacy" (ICML 2019), for tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.sensitivity import of_distinct_cells, of_one_cell
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums, note, variance_of
from tracecloak.anonymizers.rigorous import budget, clips
from tracecloak.anonymizers.rigorous.bought import rank_of_clip
from tracecloak.anonymizers.rigorous.budget import UNITS, Allowance, Allowances, Need, Sums
from tracecloak.anonymizers.rigorous.names import MAX_CELLS
from tracecloak.anonymizers.variants import markov
from tracecloak.anonymizers.variants.generator import (
    Domain,
    VariantGenerator,
    released,
    stable_variants,
)
from tracecloak.anonymizers.variants.noted_sums import note_arcs, note_occurrences, note_variants
from tracecloak.schemas.arrays.merging import distinct_places, sum_groups
from tracecloak.schemas.published.figures import CASES
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variant_flows import FlowCells, MarginalCells, VariantFlows
from tracecloak.schemas.statistics.variants import VariantHistogram

if TYPE_CHECKING:
    from scipy import sparse

# Cells of the chain that noise is drawn for, unless the vocabulary alone needs more.
_CELLS = 2_000_000
# Events of all walks that are proposed.
_EVENTS = 1 << 21
# How much an error by noise weighs against one by clipping when the clip is chosen.
_RANK_WEIGHT = 1.5
# If the chain's noise is so many times that of a partition, it hides how cases begin and end, and
# the partitions say so instead. If it is less, chain and partitions together say more than the
# larger count of the two.
_LOST = 4
# What so many thresholds leave is none of the largest noises.
_SURELY = math.sqrt(2)
# Before fitting, all variants that were not seen together get at least this many deviations of the
# number of cases.
_LEAST_UNSEEN = 0.5


Block = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, SumNoise]
"""What cases of proposals add to sums, and the sums.

int64[n] twice and float64[n], row, column and value of each entry; int64[m], the sum of each
column, in lattice steps; and the noise of these.
"""


class Division(NamedTuple):
    """Shares of the three vectors, of what they have together; they add up to 1."""

    chain: Fraction
    variants: Fraction
    marginals: Fraction


REPEATED = Division(Fraction(30, 100), Fraction(50, 100), Fraction(20, 100))
"""Where variants repeat."""
SCATTERED = Division(Fraction(65, 100), Fraction(5, 100), Fraction(30, 100))
"""Where they hardly do."""

# Shares of the generator's budget: for the ranks of norms by which the clip is chosen, for the
# number by which the vectors' shares are chosen, and for the number of cases. The three vectors get
# the rest.
_RANKS, _BALANCE, _CASES = Fraction(2, 100), Fraction(1, 100), Fraction(3, 100)
# A log repeats its variants if those that are surely seen have this share of its cases.
_REPEATED_FROM = 0.25
# How many pairs of each activity are taken to be frequent.
_PAIRS_OF_NAME = 3
# At how many positions each of these is taken to be frequent.
_POSITIONS_OF_PAIR = 4
# Events that a case is taken to have at most where no declared length says less.
_USUAL_EVENTS = 50


class JointVariants(VariantGenerator, name="joint-variants"):
    """The generator; see the module."""

    most_names: ClassVar[int | None] = FlowCells.most_names(MAX_CELLS)

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what the three numbers, and the three vectors together, need."""
        one = of_one_cell(max_units)
        return (
            clips.ranks_need(f"{self.name} ranks", _RANKS, max_units),
            Sums(f"{self.name} balance", _BALANCE, one, is_l2=True),
            Sums(f"{self.name} cases", _CASES, one, is_l2=True),
            Sums(
                self.name,
                1 - _RANKS - _BALANCE - _CASES,
                one.times(UNITS),
                UNITS,
                is_l2=True,
                is_open=True,
                open_share=min(REPEATED.variants, SCATTERED.variants),
                # The largest sums are those of the chain, on its coarsest lattice and at the
                # smaller of its shares.
                largest=clips.largest_sums(2, max_units),
            ),
        )

    def explain(self, means: Allowances, max_units: int) -> str:
        """Returns what it does and the noise to expect."""
        whole, one = means[self.name], of_one_cell(max_units)
        noises = (whole.part(share).noise(one) for share in REPEATED)
        widths = (noise.width / noise.units for noise in noises)
        said = dict(zip(Division._fields, widths, strict=True))
        least = budget.least_cases(whole.part(REPEATED.variants), one)
        return sentence("generators", "joint", None, **said, least=least)

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns cases by the weights that were fitted."""
        number = noisy_number(counted, means, domain.max_units, self.name, randomness)
        measured = Measured(self.name, counted, number, domain, means, randomness)
        return released(measured.drawn(measured.chain_alone()), domain.vocabulary)


class Measured:
    """What is known of the log: noisy numbers.

    Attributes:
        name: Of the generator, with which all purposes of noise begin.
        domain: What is public.
        randomness: The release's.
        seen: Variants that passed the threshold, with noisy counts.
        seen_noise: Of these counts.
        cells: Of the chain.
        clip_units: Of the chain, in lattice steps.
        chain: int64[n_possible], noisy sums of the chain, in lattice steps of its noise.
        chain_noise: Of these sums.
        marginals: Cells of the partitions.
        counts: int64[size], noisy cases in each of these cells, in lattice steps of their noise.
        marginals_noise: Of these counts.
        n_cases: About how many cases there are, at least 1.
        n_cases_deviation: Of the noise of that number.
    """

    def __init__(
        self,
        name: str,
        counted: VariantHistogram,
        number: tuple[float, SumNoise],
        domain: Domain,
        means: Allowances,
        randomness: Randomness,
    ) -> None:
        """Measures variants, chain and marginals, where about how many cases there are is known."""
        self.name, self.domain, self.randomness = name, domain, randomness
        m, whole = domain.max_units, means[name]
        about, balance_share = max(number[0], 1.0), means[f"{name} balance"]
        # About which share of the cases is of variants that would be sure to be seen.
        one = of_one_cell(m)
        least = budget.least_cases(whole.part(REPEATED.variants), one)
        noise = balance_share.noise(one)
        stream = CellStream(randomness, f"{name}/balance", cell_numbers(np.zeros(1, np.int64)))
        twice = int(balance(counted, least) * noise.units + noise.draw(stream)[0])
        share = min(max((twice / noise.units / about + 1) / 2, 0.0), 1.0)
        division = REPEATED if share >= _REPEATED_FROM else SCATTERED
        for_variants = whole.part(division.variants)
        self.seen = stable_variants(counted, for_variants, m, randomness, f"{name}/variants")
        self.seen_noise = for_variants.noise(one)
        shown_from = for_variants.threshold(one) / self.seen_noise.units
        note_variants(self.seen, self.seen_noise, shown_from, domain.vocabulary, randomness)

        for_chain = whole.part(division.chain)
        n_names = len(domain.vocabulary)
        cells = FlowCells.without_positions(n_names, domain.max_length)
        if unseen_stand_out((1 - share) * about, about, domain, for_chain):
            cells = FlowCells.of(n_names, domain.max_length, _CELLS)
        flows = VariantFlows.from_variants(counted, cells)
        n_bins = cells.n_blocks - 2 + cells.has_whole
        noise_of_clip = for_chain.relative_width * m
        rank = rank_of_clip(noise_of_clip, cells.n_possible, n_names, _RANK_WEIGHT, n_bins)
        buckets = np.searchsorted(clips.norm_grid(), flows.squares)
        longer = sum_groups(buckets, flows.cases, len(clips.norm_grid()) + 1)
        clip = clips.choose_clip(
            longer, means[f"{name} ranks"], rank, m, randomness, f"{name}/ranks"
        )
        units = clips.lattice_units(for_chain, m)
        self.cells, self.clip_units = cells, math.isqrt(clip * units**2)
        self.chain_noise = for_chain.noise(clips.sums_sensitivity(clip, units, m), units)
        exact = flows.sums(cells, self.clip_units, units)
        purpose = f"{name}/chain"
        self.chain = noisy_sums(exact, self.chain_noise, purpose, cells.possible, randomness)

        self.marginals = marginals = MarginalCells(n_names, domain.max_length)
        row, cell = marginals.entries(counted)
        changed = of_distinct_cells(marginals.n_of_case, m)
        self.marginals_noise = noise = whole.part(division.marginals).noise(changed)
        exact = sum_groups(cell, counted.counts[row], marginals.size) * noise.units
        places = np.arange(marginals.size)
        self.counts = noisy_sums(exact, noise, f"{name}/marginals", places, randomness)
        # About how many cases there are: of two noisy numbers together.
        chain_cases = self.chain[np.searchsorted(cells.possible, cells.cases)] / units
        weights = 1 / np.array([variance_of(number[1]), variance_of(self.chain_noise)])
        together = float((np.array([number[0], chain_cases]) * weights).sum() / weights.sum())
        self.n_cases, self.n_cases_deviation = max(round(together), 1), 1 / math.sqrt(weights.sum())

    def drawn(
        self,
        chain: markov.Chain | None,
        beside: Sequence[Callable[[VariantHistogram], Block]] = (),
    ) -> VariantHistogram:
        """Returns cases that agree with what was measured, drawn from walks and seen variants.

        Args:
            chain: Whose walks are proposed; None: there are none.
            beside: What else proposals are compared with.
        """
        proposals, prior = self.proposals(chain)
        if not len(prior):
            return VariantHistogram.merge(())
        # It loads scipy, which takes as long as all else that a plan or a catalogue loads.
        from tracecloak.anonymizers.variants.reweight import agreeing_weights

        rows, sums, deviations = self.compared(proposals, beside)
        weights = agreeing_weights(rows, sums, deviations, prior, self.n_cases)
        purpose = f"{self.name}/draw"
        drawn = markov.drawn_cases(
            proposals.sequences, weights, self.n_cases, self.randomness, purpose
        )
        note_arcs(drawn, self)
        return drawn

    def chain_alone(self) -> markov.Chain | None:
        """Returns the chain by what was measured of activities; None where no case begins."""
        return markov.chain_of(self.chain, self.cells, self.chain_noise, self.known_ends())

    def proposals(self, chain: markov.Chain | None) -> tuple[VariantHistogram, np.ndarray]:
        """Returns distinct variants, those seen first, and how many cases each has beforehand."""
        sequences = [self.seen.sequences]
        prior = [self.seen.counts.astype(np.float64)]
        if chain is not None:
            own = self.domain.vocabulary, self.randomness, f"{self.name}/walk"
            walks = markov.walks_beside(self.seen, chain, *own)
            is_within = np.cumsum(np.diff(walks.offsets)) <= _EVENTS
            drawn = walks.counts[is_within].astype(np.float64)
            least = _LEAST_UNSEEN * self.n_cases_deviation
            rest = max(self.n_cases - self.seen.n_cases, least)
            sequences.append(walks.sequences.filter(pa.array(is_within)))
            prior.append(drawn * (rest / max(drawn.sum(), 1.0)))
        merged = pa.concat_arrays(sequences)
        return VariantHistogram(merged, np.ones(len(merged), np.int64)), np.concatenate(prior)

    def known_ends(self) -> markov.KnownEnds:
        """Returns how often activities occur by the partitions, and if needed the arcs."""
        n, units = self.marginals.n_names, self.chain_noise.units
        cells = self.marginals.cells_of_activities
        noisy = self.counts[cells]
        # What noise alone reaches would be multiplied by the occurrences, and so would its error.
        surely = _SURELY * self.marginals_noise.threshold(len(cells))
        noisy = np.where(noisy >= surely, noisy, 0)
        activity, least, most = self.marginals.occurrences(cells)
        times = noisy * (least + np.maximum(most, least)) / 2
        occur = np.bincount(activity, times, n) * (units / self.marginals_noise.units)
        n_cases, width = self.n_cases * float(units), self.chain_noise.width / units
        if width < _LOST * self.marginals_noise.width / self.marginals_noise.units:
            return markov.KnownEnds(np.zeros(n), np.zeros((n, n + 1)), occur, n_cases)
        clear = self.marginals_noise.threshold(n * (n + 1))
        first, last = (
            np.where(noisy >= clear, noisy * (units / self.marginals_noise.units), 0.0)
            for noisy in (
                self.counts[cells]
                for cells in (self.marginals.first_cells, self.marginals.last_cells)
            )
        )
        arcs = first.copy()
        arcs[:, :n] = np.maximum(arcs[:, :n], last[:, :n].T)
        arcs[:, n] = np.maximum(arcs[:, n], last.sum(axis=1))
        return markov.KnownEnds(first.sum(axis=1), arcs, occur, n_cases)

    def compared(
        self, proposals: VariantHistogram, beside: Sequence[Callable[[VariantHistogram], Block]]
    ) -> tuple[sparse.csr_matrix, np.ndarray, np.ndarray]:
        """Returns what proposals add to the cells that any of them reaches, and what is known.

        Returns:
            float64[n, m] sparse, float64[m] noisy sums and float64[m] deviations of their noise, in
            occurrences. Of cells that no proposal reaches nothing can be fitted.
        """
        from scipy import sparse

        matrices, sums, deviations = [], [], []
        for rows, columns, values, known, noise in self._blocks(proposals, beside):
            shape = proposals.n_variants, len(known)
            matrices.append(sparse.csr_matrix((values, (rows, columns)), shape=shape))
            # Each block takes several times what is kept of it.
            del rows, columns, values
            sums.append(known)
            deviations.append(np.full(len(known), noise.width / noise.units))
        # The entries of a row are in the order of their columns, in which products add them up.
        matrix = sparse.hstack(matrices, "csr")
        return matrix, np.concatenate(sums), np.concatenate(deviations)

    def _blocks(
        self, proposals: VariantHistogram, beside: Sequence[Callable[[VariantHistogram], Block]]
    ) -> Iterator[Block]:
        """Yields blocks of columns: rows, columns and values of entries, the sums, their noise."""
        flows, units = VariantFlows.from_variants(proposals, self.cells), self.chain_noise.units
        values = flows.clipped(self.clip_units, units) / units
        reached, column = distinct_places(flows.keys)
        sums = self.chain[np.searchsorted(self.cells.possible, reached)] / units
        yield flows.rows, column, values, sums, self.chain_noise
        del flows, column, values
        noise = self.marginals_noise
        row, cell = self.marginals.entries(proposals)
        used, place = distinct_places(cell)
        noisy = self.counts[used]
        note_occurrences(self, used, noisy)
        del cell
        yield row, place, np.ones(len(row)), noisy / noise.units, noise
        del row, place
        seen = np.arange(self.seen.n_variants)
        yield seen, seen, np.ones(len(seen)), self.seen.counts.astype(float), self.seen_noise
        for of in beside:
            rows, columns, values, measured, noise = of(proposals)
            yield rows, columns, values, measured / noise.units, noise


def pair_deviations(n_cases: float, domain: Domain, for_chain: Allowance) -> float:
    """Returns by how many deviations of a chain's noise usual pairs of so many cases stand out.

    A case of l events has l + 1 directly-follows pairs. Where they are counted twice over, in all
    and by position, its norm is about sqrt(2 (l + 1)), and the noise on each pair has a deviation
    of that times what a norm of 1 needs. Processes have about three pairs for each activity that
    are not rare, so U cases of n activities have each of these about U (l + 1) / 3n times. For l
    half of the length is taken at which cases are cut, but at most 50 and as many events as
    activities.

    Args:
        n_cases: U.
        domain: What is public.
        for_chain: What the chain may spend.
    """
    n_names = len(domain.vocabulary)
    n_steps = min(domain.max_length / 2, n_names, _USUAL_EVENTS) + 1
    occurrences = n_cases * n_steps / (_PAIRS_OF_NAME * n_names)
    return occurrences / (for_chain.relative_width * domain.max_units * math.sqrt(2 * n_steps))


def unseen_stand_out(n_unseen: float, n_cases: float, domain: Domain, for_chain: Allowance) -> bool:
    """Returns whether cases of variants that are not seen stand out where positions count.

    By how many deviations they do is how much better these cases come out than noise; they do if
    the share of the cases that they are, times these deviations, is 1 or more at each position of a
    pair.

    Args:
        n_unseen: A noisy number.
        n_cases: Of all, likewise.
        domain: What is public.
        for_chain: What the chain may spend.
    """
    deviations = pair_deviations(n_unseen, domain, for_chain)
    return n_unseen * deviations >= _POSITIONS_OF_PAIR * n_cases


def noisy_number(
    counted: VariantHistogram, means: Allowances, max_units: int, name: str, randomness: Randomness
) -> tuple[float, SumNoise]:
    """Returns about how many cases there are, and the noise of that."""
    noise = means[f"{name} cases"].noise(of_one_cell(max_units))
    exact = np.array([counted.n_cases * noise.units])
    [noisy] = noisy_sums(exact, noise, f"{name}/cases", np.zeros(1, np.int64), randomness)
    number = np.array([noisy / noise.units])
    note(randomness, CASES, lambda: [("variants",)], number, noise.deviation)
    return float(number[0]), noise


def balance(counted: VariantHistogram, threshold: int) -> int:
    """Returns 2 sum of max(0, count - threshold + 1) over the variants, less the number of cases.

    One case more adds 1, or takes 1 away where its variant stays below the threshold: so it is a
    number of sensitivity 1, which the number of cases in variants above the threshold is not.
    """
    above = np.maximum(counted.counts - (threshold - 1), 0).sum()
    return 2 * int(above) - counted.n_cases

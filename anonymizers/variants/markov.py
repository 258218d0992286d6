"""`markov-log`: a noisy Markov chain of the log, and cases drawn from it.

What is counted of a case is a vector: its directly-follows pairs, START and END included, once over
the whole case and once by a public bin of the position. It is scaled down to a privately chosen L2
norm on an integer lattice, and a 1 for the case itself, which is not scaled, is put beside it; the
sums over the cases get discrete Gaussian noise in every possible cell. The chain and the walks, as
many as the noisy number of cases, follow from the noisy sums.

By position, because most activities of most processes occur once: a chain that only knows the last
activity comes back to them. That costs little, since a case has each arc of a bin once or twice and
the norm of the vector is about twice the root of the case's length. The clip is exceeded by so few
cases that what it takes is about what the noise is in all cells (`rigorous.clip_by_rank`): longer
cases weigh less in the chain, but the noise is less for all.

Markov models of sequences with differential privacy: Chen, Acs and Castelluccia (CCS 2012). Noise:
Canonne, Kamath and Steinke (NeurIPS 2020); its scale: Balle and Wang (ICML 2018). Clipping on a
lattice: Casacuberta, Shoemate, Vadhan and Wagaman (CCS 2022).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import (
    of_clipped_cells,
)
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous import markov_sums
from tracecloak.anonymizers.rigorous.budget import Means, Need, Pure, Sums
from tracecloak.anonymizers.rigorous.cells import MAX_CELLS
from tracecloak.anonymizers.rigorous.clip_by_rank import rank_of_clip
from tracecloak.anonymizers.rigorous.clips import RANKS_SHARE, choose_clip, norm_grid, ranks_need
from tracecloak.anonymizers.rigorous.params import LONGEST_TRACE
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.markov_chain import chain_of, draw_walks
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.variant_flows import FlowCells, VariantFlows
from tracecloak.schemas.statistics.variants import VariantHistogram

# How much an error by noise weighs against one by clipping when the clip is chosen.
_WEIGHT_OF_NOISE = 1.5
# A fine lattice that stands for any other where only the ratio of noise and clip matters.
_FINE = 1 << 20
# Cells that noise is drawn for, in about a second, unless the vocabulary alone needs more.
_CELLS = 2_000_000


class MarkovVariants:
    """The generator `markov-log`; see the module."""

    name: ClassVar[str] = "markov-log"
    summary: ClassVar[str] = "cases drawn from a noisy Markov chain of activities by position"
    version: ClassVar[int] = 2
    is_pure: ClassVar[bool] = False
    takes_whole_cases: ClassVar[bool] = True
    shares_by_case: ClassVar[bool] = True
    most_names: ClassVar[int | None] = FlowCells.most_names(MAX_CELLS)
    reality: ClassVar[str] = (
        "One case changes the sums of directly-follows pairs, of pairs by position and of cases by "
        "a vector whose joint L2 norm is clipped, exactly and in integers; exact discrete Gaussian "
        "noise on every possible cell covers it with delta. The clip is chosen on the log and paid "
        "for. The chain and all cases drawn from it follow from the noisy sums; every released "
        "case is invented."
    )

    def __init__(self, prefix: str | None = None) -> None:
        """Takes what its parts and purposes begin with, if it is part of another generator."""
        self._prefix = prefix or self.name

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what the clip and the sums need."""
        sums = Sums(
            self._sums,
            1 - RANKS_SHARE,
            of_clipped_cells(_FINE, max_units),
            _FINE,
            is_any_clip=True,
            largest=markov_sums.largest_sums(1, max_units),
        )
        return (ranks_need(self._clip, RANKS_SHARE, max_units), sums)

    def explain(self, means: Means, max_units: int) -> str:
        """Returns what it does and the noise to expect."""
        return (
            "chooses a clip, counts pairs of activities by position, adds discrete Gaussian noise "
            f"of scale {self._noise_of_clip(means, max_units):.1f} times the clip, and draws cases "
            "from the chain; pairs of fewer cases than a few times that are lost"
        )

    def _noise_of_clip(self, means: Means, max_units: int) -> float:
        """The deviation of one cell's noise, in clips."""
        noise = means[self._sums].noise(of_clipped_cells(_FINE, max_units), _FINE)
        return noise.width / noise.units

    @property
    def _clip(self) -> str:
        return f"{self._prefix} clip"

    @property
    def _sums(self) -> str:
        return f"{self._prefix} sums"

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Means, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns cases drawn from the chain."""
        cells = self.cells_of(domain)
        flows = VariantFlows.of(counted, cells)
        noisy, noise = self._noisy_sums(flows, cells, domain, means, randomness)
        place = int(np.searchsorted(cells.possible, cells.cases))
        n_cases = int(noisy[place]) // noise.units
        chain = chain_of(noisy, cells, noise) if n_cases > 0 else None
        names = domain.vocabulary.names
        if chain is None:
            nothing = np.zeros(0, np.int64)
            return most_frequent_first(
                names, np.zeros(1, np.int64), nothing.astype(np.int32), nothing
            )
        return draw_walks(chain, n_cases, names, randomness, f"{self._prefix}/walk")

    def cells_of(self, domain: Domain) -> FlowCells:
        """Returns what is counted, public."""
        return FlowCells.of(len(domain.vocabulary), domain.max_length, _CELLS)

    def _noisy_sums(
        self,
        flows: VariantFlows,
        cells: FlowCells,
        domain: Domain,
        means: Means,
        randomness: Randomness,
    ) -> tuple[np.ndarray, SumNoise]:
        allowance = means[self._sums]
        units = markov_sums.lattice_units(allowance, domain.max_units)
        clip = self._choose_clip(flows, cells, domain, means, randomness)
        noise = allowance.noise(markov_sums.sums_sensitivity(clip, units, domain.max_units), units)
        stream = CellStream(randomness, f"{self._prefix}/sum", cell_numbers(cells.possible))
        return flows.sums(cells, math.isqrt(clip * units**2), units) + noise.draw(stream), noise

    def _choose_clip(
        self,
        flows: VariantFlows,
        cells: FlowCells,
        domain: Domain,
        means: Means,
        randomness: Randomness,
    ) -> int:
        """The square of the chosen norm."""
        grid = norm_grid()
        bucket = np.searchsorted(grid, flows.squares)
        cases = sum_groups(bucket, flows.cases, len(grid) + 1)
        rank = rank_of_clip(
            self._noise_of_clip(means, domain.max_units),
            *(cells.n_possible, cells.n_names, _WEIGHT_OF_NOISE),
            n_bins=cells.n_blocks - 1,
        )
        of_ranks, purpose = means[self._clip], f"{self._prefix}/clip"
        return choose_clip(cases, of_ranks, rank, domain.max_units, randomness, purpose)


class MarkovVariantsPure(MarkovVariants):
    """The generator `markov-log-pure`: a chain of the last activity alone, with Laplace noise.

    Without a clip. A case of n events has n + 1 arcs, and 1 for itself, so the noise has a scale of
    (max_length + 2) max_units / epsilon; to count arcs by position as well would double it.
    """

    name: ClassVar[str] = "markov-log-pure"
    summary: ClassVar[str] = "cases drawn from a noisy Markov chain of activities, without delta"
    is_pure: ClassVar[bool] = True
    takes_whole_cases: ClassVar[bool] = False
    shares_by_case: ClassVar[bool] = True
    most_names: ClassVar[int | None] = FlowCells.most_names(MAX_CELLS, has_whole=False)
    reality: ClassVar[str] = (
        "One case of at most max_trace_length events changes the sums of directly-follows pairs "
        "and of cases by 2 more than that in total; exact discrete Laplace noise on every possible "
        "cell covers it. The chain and all cases drawn from it follow from the noisy sums; every "
        "released case is invented."
    )

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what the sums need."""
        length = LONGEST_TRACE if max_length is None else max_length
        largest = markov_sums.whole_sums_sensitivity(length, max_units)
        return (Pure(self._sums, Fraction(1), largest=largest),)

    def explain(self, means: Means, max_units: int) -> str:
        """Returns what it does and the noise to expect."""
        return (
            "counts pairs of activities, adds discrete Laplace noise of scale "
            f"{float(max_units / means[self._sums].epsilon):.3g} times (max_trace_length + 2), and "
            "draws cases from the chain"
        )

    def cells_of(self, domain: Domain) -> FlowCells:
        """Returns what is counted, public: arcs whatever their position."""
        return FlowCells.without_positions(len(domain.vocabulary), domain.max_length)

    def _noisy_sums(
        self,
        flows: VariantFlows,
        cells: FlowCells,
        domain: Domain,
        means: Means,
        randomness: Randomness,
    ) -> tuple[np.ndarray, SumNoise]:
        changed = markov_sums.whole_sums_sensitivity(domain.max_length, domain.max_units)
        noise = means[self._sums].noise(changed)
        stream = CellStream(randomness, f"{self._prefix}/sum", cell_numbers(cells.possible))
        return flows.whole_sums(cells) + noise.draw(stream), noise

"""What gets noise: sums over cases, each with what one case adds to it at most.

A term is a table of sums over the cases of a population, by their groups and, for activities and
pairs, by step. A case is in one group. It changes

* the number of cases of a group by 1. Where cases are only told apart into those that count and all
  others, 1/2 is added for the one and taken off for the other, and half of all cases added again;
* a centred sum by half the distance of the bounds, one for each step that is told apart;
* a histogram by 1 in one bin, and its running sums as `rigorous.bought` says;
* the events by who does them by as many as count of a case.

So what a unit changes of all terms together is bounded by the sum of these over its cases, whatever
they have in common, and `rigorous.budget` adds up what that costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, TypeGuard

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_count, of_one_cell
from tracecloak.anonymizers.indicators import summands
from tracecloak.anonymizers.indicators.declared import Indicator, Measured, Workload
from tracecloak.anonymizers.rigorous import bought
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.events.traces import TraceBatch

if TYPE_CHECKING:
    from tracecloak.anonymizers.indicators.params import Known

# The grid of quantiles: each point lies a 64th further from one before 0 than the last.
_RATIO = 65, 64
# How far that is before 0, as a share of the range.
_BEFORE = 16_000


@dataclass(frozen=True)
class CasesOf:
    """The number of cases of a population, by group.

    Attributes:
        population: Which they are.
        name: One of its own in the release, and so has every other term.
        changed: What one case changes, in lattice steps.
        units: Lattice steps of one.
    """

    population: summands.Population
    units = UNITS

    @property
    def is_centred(self) -> bool:
        """Whether half of all cases was taken off."""
        return self.population.where is not None and self.population.by is None

    @property
    def name(self) -> str:
        """See `CasesOf`."""
        return f"number of cases{self.population.words}"

    @property
    def changed(self) -> Sensitivity:
        """See `CasesOf`."""
        return of_one_cell().times(UNITS // 2 if self.is_centred else UNITS)

    def n_cells(self, known: Known) -> int:
        """Returns the number of sums."""
        return len(known.groups(self.population).labels)

    def count(self, traces: TraceBatch, known: Known) -> np.ndarray:
        """Returns int64[n_cells], the sums over cases."""
        places = self.population.places(traces, known.groups(self.population))
        if self.is_centred:
            return np.array([UNITS * int((places >= 0).sum()) - UNITS // 2 * len(places)])
        counts = np.bincount(places[places >= 0], minlength=self.n_cells(known))
        return counts.astype(np.int64) * UNITS


@dataclass(frozen=True)
class _OfIndicator:
    """Sums of an indicator, by group and by step.

    Attributes:
        indicator: What it is.
        n_steps: Steps that are told apart at most; 1 of an indicator without steps.
        what: What the sums are of, in a word.
    """

    what: ClassVar[str]
    indicator: Indicator
    n_steps: int

    @property
    def name(self) -> str:
        """See `CasesOf`."""
        return f"{self.indicator.title}, {self.what}"

    @property
    def population(self) -> summands.Population:
        return summands.Population.of(self.indicator)

    def shape(self, known: Known) -> tuple[int, int]:
        """(n_groups, n_steps) of its sums."""
        n_groups = len(known.groups(self.population).labels)
        return n_groups, max(len(known.steps(self.indicator)), 1)

    def summand(self, known: Known) -> summands.Summand:
        """Between which bounds the numbers of cases count."""
        return summands.bounds_of(self.indicator, known.selected_us(self.indicator))

    def numbers(self, traces: TraceBatch, known: Known) -> summands.Numbers:
        """What cases add."""
        return summands.numbers_added(self.indicator, known.steps(self.indicator), traces)

    def places(self, traces: TraceBatch, known: Known) -> np.ndarray:
        """int64[n_cases], the group of each case, or -1."""
        return self.population.places(traces, known.groups(self.population))

    def n_cells(self, known: Known) -> int:
        n_groups, n_steps = self.shape(known)
        return n_groups * n_steps


def _beside(changed: Sensitivity, n_steps: int) -> Sensitivity:
    """What a case changes that changes each of some steps so far."""
    n = n_steps
    return Sensitivity(n * changed.l0, n * changed.l1, n * changed.l2_squared, changed.linf)


@dataclass(frozen=True)
class SumOf(_OfIndicator):
    """The sum of an indicator's numbers, each less the middle of its bounds.

    Attributes:
        units: Lattice steps between the bounds, an even number.
    """

    what = "sum"
    units: int = summands.RANGE

    @property
    def changed(self) -> Sensitivity:
        """See `CasesOf`."""
        return _beside(of_count(self.units // 2), self.n_steps)

    def count(self, traces: TraceBatch, known: Known) -> np.ndarray:
        """See `CasesOf`."""
        numbers, places = self.numbers(traces, known), self.places(traces, known)
        places_of = self.summand(known).places(numbers.values, self.units)
        steps = np.where(numbers.is_there, places_of - self.units // 2, 0)
        return _by_group(places, steps, self.shape(known))


@dataclass(frozen=True)
class CasesWith(_OfIndicator):
    """How many cases have a number of an indicator.

    Half of the cases of the population is taken off, unless these are told apart by groups.
    """

    what = "cases"
    units = UNITS

    @property
    def is_centred(self) -> bool:
        """Whether half of the cases of the population was taken off."""
        return self.population.by is None

    @property
    def changed(self) -> Sensitivity:
        """See `CasesOf`."""
        return _beside(of_one_cell().times(UNITS // 2 if self.is_centred else UNITS), self.n_steps)

    def count(self, traces: TraceBatch, known: Known) -> np.ndarray:
        """See `CasesOf`."""
        numbers = self.numbers(traces, known)
        steps = numbers.is_there * UNITS - UNITS // 2 * self.is_centred
        return _by_group(self.places(traces, known), steps, self.shape(known))


def _by_group(places: np.ndarray, steps: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """int64[n_groups * n_steps], the sums over the cases of groups; 0 where no step was bought.

    Args:
        places: int64[n_cases], the group of each case, or -1.
        steps: int64[n_cases, n_steps], or [n_cases, 0].
        shape: (n_groups, n_steps), n_steps at least 1.
    """
    is_meant = places >= 0
    keys = (places[is_meant] * shape[1])[:, None] + np.arange(steps.shape[1])
    return sum_groups(keys.ravel(), steps[is_meant].ravel(), shape[0] * shape[1])


@dataclass(frozen=True)
class BinsOf(_OfIndicator):
    """How many cases have which number, in bins: of equal width, or of the grid of quantiles.

    Attributes:
        is_running: Whether what gets noise are running sums over the bins, from which quantiles
            are read; else the bins themselves.
    """

    what = "bins"
    is_running: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether the bins get noise; else they are what a choice is made on, which has its own."""
        return self.is_running or self.indicator.of == "histogram"  # type: ignore[attr-defined]

    @property
    def units(self) -> int:
        """See `CasesOf`."""
        if not self.is_measured:
            return 1
        return bought.RANK_UNITS if self.is_running else UNITS

    @property
    def n_bins(self) -> int:
        """Bins of a group and a step."""
        assert isinstance(self.indicator, Measured)
        if self.indicator.of == "histogram":
            return self.indicator.n_bins
        return len(coarse_grid() if self.is_running else grid())

    @property
    def changed(self) -> Sensitivity:
        """See `CasesOf`."""
        if self.is_running:
            return _beside(bought.changed_ranks(self.n_bins), self.n_steps)
        return _beside(of_one_cell().times(self.units), self.n_steps)

    def n_cells(self, known: Known) -> int:
        """See `CasesOf`."""
        return super().n_cells(known) * self.n_bins

    def count(self, traces: TraceBatch, known: Known) -> np.ndarray:
        """See `CasesOf`."""
        counts = self.bins(traces, known)
        if not self.is_running:
            return counts.ravel() * self.units
        # From the longest downwards, as of clips; `cases_from` reads it the same way.
        return np.array([bought.measured_ranks(row) for row in counts], np.int64).ravel()

    def bins(self, traces: TraceBatch, known: Known) -> np.ndarray:
        """Returns int64[n_groups * n_steps, n_bins], cases by bin."""
        numbers = self.numbers(traces, known)
        bins = self.bin_of(self.summand(known).places(numbers.values))
        places, (n_groups, n_steps) = self.places(traces, known), self.shape(known)
        rows = (places * n_steps)[:, None] + np.arange(n_steps)
        is_meant = numbers.is_there & (places >= 0)[:, None]
        keys = (rows * self.n_bins + bins)[is_meant]
        n_rows = n_groups * n_steps
        return np.bincount(keys, minlength=n_rows * self.n_bins).reshape(n_rows, self.n_bins)

    def bin_of(self, places: np.ndarray) -> np.ndarray:
        """Returns the bin of lattice places from 0 to RANGE."""
        if self.indicator.of == "histogram":  # type: ignore[attr-defined]
            # What lies on a border is in the bin that begins there.
            borders = np.rint(np.arange(1, self.n_bins) * (summands.RANGE / self.n_bins))
            return np.searchsorted(borders, places, side="right")
        return np.searchsorted(coarse_grid() if self.is_running else grid(), places)


@dataclass(frozen=True)
class EventsOf(_OfIndicator):
    """Events by who does them."""

    what = "events"
    units = UNITS

    @property
    def changed(self) -> Sensitivity:
        """See `CasesOf`."""
        assert isinstance(self.indicator, Workload)
        return of_count(self.indicator.at_most * UNITS)

    def count(self, traces: TraceBatch, known: Known) -> np.ndarray:
        """See `CasesOf`."""
        assert isinstance(self.indicator, Workload)
        names = [str(step) for step in known.steps(self.indicator)]
        is_meant = self.places(traces, known) >= 0
        most, by = self.indicator.at_most, self.indicator.by
        return summands.events_by(traces, by, names, is_meant, most) * UNITS


Term = CasesOf | SumOf | CasesWith | BinsOf | EventsOf
"""Sums that get noise; see the module."""


@lru_cache(maxsize=1)
def grid() -> np.ndarray:
    """Returns int64[n], lattice places that quantiles can take, from 0 to RANGE, ascending.

    Near 0 they are evenly spaced, further on by a 64th, so that a short time is as precise as a
    long one. Whole numbers alone make them, so they are the same everywhere.
    """
    points, at, one = [0], 1 << 80, 1 << 80
    while (place := (at - one) * summands.RANGE // (one * _BEFORE)) < summands.RANGE:
        points.append(place)
        at = at * _RATIO[0] // _RATIO[1]
    return np.unique(np.array([*points, summands.RANGE], np.int64))


@lru_cache(maxsize=1)
def coarse_grid() -> np.ndarray:
    """Returns int64[n], every fifth place of `grid` and its last, for running sums."""
    fine = grid()
    return np.unique(np.append(fine[::5], fine[-1]))


def is_chosen(term: Term) -> TypeGuard[BinsOf]:
    """Returns whether no noise is added to a term, as quantiles are chosen on it."""
    return isinstance(term, BinsOf) and not term.is_measured


def weight_of(shares: Sequence[Fraction]) -> Fraction:
    """Returns the share of a number of cases by which means are divided, from the shares of these.

    With n sums of one share and another one of the number, whose noise counts about half in each
    mean, the product of the errors is least where that grows as the third root of n.
    """
    if not shares:
        return Fraction(0)
    n = len(shares)
    root = Fraction(round(100 * (n / 4) ** (1 / 3)), 100)
    return sum(shares, Fraction(0)) / n * root

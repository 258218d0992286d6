"""The product `indicators` of a stream: declared figures of every step, or of sums over steps.

What a case adds to all sums is one vector, in which each term is multiplied by a whole number: then
one noise for all cells divides the budget among the terms as their weights say, and whatever view a
stream has, the noise of sums over steps is that of any other product. Quantiles are read from
running sums, which can be added up over steps, where choices cannot.

A stream carries no attributes and no starts, so indicators of these are for releases of files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tracecloak.anonymizers.contract.sentences import sentences
from tracecloak.anonymizers.indicators.declared import PERIODS, Timed, Working, Workload
from tracecloak.anonymizers.indicators.figures import released_indicators
from tracecloak.anonymizers.indicators.params import Known, RequestedParams, weighed_terms
from tracecloak.anonymizers.indicators.quantiles import NoisyNumber
from tracecloak.anonymizers.indicators.summands import CellSums
from tracecloak.anonymizers.indicators.terms import SumOf, Term
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.streams.continual import ContinualNoise
from tracecloak.anonymizers.streams.count_steps import CountSteps, KeptCounts, StreamParams
from tracecloak.anonymizers.streams.steps import StreamName
from tracecloak.schemas.arrays.merging import Mergeable, Statistics
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.step import StepIndicators

# Numbers that are summed up have so many lattice steps between their bounds.
_RANGE = 1 << 10
# The smallest factor of a term: the others are rounded to whole numbers, by a thirtieth at most.
_FINENESS = 16


class IndicatorStepParams(RequestedParams, StreamParams):
    """Parameters of the indicators that a stream publishes."""

    chooses_quantiles: ClassVar[bool] = False

    def check_product(self) -> None:
        """See `StreamParams`."""
        for place, indicator in enumerate(self.indicators):
            at = f"indicators.{place}: "
            if indicator.attributes or isinstance(indicator, Working | Workload):
                raise ValueError(f"{at}a stream carries no attributes and no starts of events")
            if indicator.by in PERIODS:
                raise ValueError(f"{at}by {indicator.by}: the steps of a stream are its periods")
            if isinstance(indicator, Timed) and indicator.at_most is None:
                raise ValueError(f"{at}at_most must be declared, as a stream chooses nothing")
        if self.selected_groups:
            by = ", ".join(self.selected_groups)
            raise ValueError(f"groups by {by} must be declared, as a stream chooses nothing")

    @cached_property
    def terms(self) -> tuple[tuple[Term, int], ...]:
        """The sums, and the whole number that each is multiplied by."""
        weighed, wanted = weighed_terms(self), dict[Term, float]()
        whole = sum(weighed.values(), Fraction(0))
        for term_of, weight in weighed.items():
            term = replace(term_of, units=_RANGE) if isinstance(term_of, SumOf) else term_of
            share, changed = float(weight / whole), term.changed
            # A share of the budget is one of the squared L2 norm, or of the L1 norm.
            by_noise = math.sqrt(share) / float(changed.l2)
            wanted[term] = share / float(changed.l1) if self.delta == 0 else by_noise
        least = min(wanted.values())
        return tuple((term, round(_FINENESS * one / least)) for term, one in wanted.items())

    @cached_property
    def case_norm(self) -> int:
        """The largest norm of what a case adds to all sums: L1 with delta 0, else L2."""
        if self.delta == 0:
            return math.ceil(sum(factor * term.changed.l1 for term, factor in self.terms))
        squared = sum(factor**2 * term.changed.l2_squared for term, factor in self.terms)
        return math.isqrt(math.ceil(squared) - 1) + 1

    @cached_property
    def n_cells(self) -> int:
        """Sums of a step."""
        known = Known(self, {})
        return sum(term.n_cells(known) for term, _ in self.terms)

    @cached_property
    def noises(self) -> dict[str, ContinualNoise]:
        """See `StreamParams`; all `indicators` have one noise."""
        return {"indicators": self.noise_of_all(self.case_norm)}


class IndicatorSteps(CountSteps):
    """Declared indicators of every step."""

    name = "indicators"
    version: ClassVar[int] = 2
    summary = "performance indicators and rules"
    Params: ClassVar[type[IndicatorStepParams]] = IndicatorStepParams
    kinds: ClassVar[Mapping[str, type[Mergeable]]] = {"sums": CellSums}
    released: ClassVar[type[StepIndicators]] = StepIndicators
    params: IndicatorStepParams

    def __init__(self, params: IndicatorStepParams) -> None:
        super().__init__(params)
        self._known = Known(params, {})
        self._noise = params.noises["indicators"]

    def count(self, traces: TraceBatch) -> Statistics:
        """Adds up what cases add to all terms, each times its factor."""
        bounded = self.bounded(traces)
        sums = [factor * term.count(bounded, self._known) for term, factor in self.params.terms]
        return Statistics({"sums": CellSums(np.concatenate(sums))})

    def publish(
        self, step: int, counted: Statistics, past: Sequence[Any], name: StreamName, key: ReleaseKey
    ) -> tuple[StepIndicators, KeptCounts | None]:
        """Publishes every indicator, whatever it was counted of."""
        noise, row = self._noise, counted.by_name["sums"].cells(self.params.n_cells)
        cells = np.arange(len(row))
        sums, kept_counts = self.sums_of(step, row, cells, past, name.randomness(key))
        width = noise.errors(self.params.length)[step] / (math.sqrt(2) if noise.is_laplace else 1.0)
        values, noises, begin = {}, {}, 0
        for term, factor in self.params.terms:
            end, units = begin + term.n_cells(self._known), factor * term.units
            own = {term.name: float(width / units)}
            noises[term.name] = NoisyNumber(0.0, own, noise.is_laplace)
            values[term.name], begin = sums[begin:end] / units, end
        released = released_indicators(self._known, (values, noises, {}))
        return StepIndicators(indicators=released, **self.common(step, name)), kept_counts

    def explain(self) -> tuple[str, ...]:
        """Returns a sentence on what is published, and the errors of each kind of sum."""
        params, length = self.params, self.params.length
        first, last = self._noise.errors(length)[[0, -1]]
        units = {term: factor * term.units for term, factor in params.terms}
        return (
            *sentences("streams", "indicators", params, noise=self._noise),
            *(
                f"{term.name}: standard deviation {first / n:.1f} "
                f"{'ranges' if isinstance(term, SumOf) else 'cases'} in the first step, "
                f"{last / n:.1f} in step {params.horizon:,}"
                for term, n in units.items()
            ),
        )

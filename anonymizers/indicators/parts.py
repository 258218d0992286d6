"""The parts of a release of indicators: what each counts, gets of the budget, says and decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.indicators.bought import bought_parts
from tracecloak.anonymizers.indicators.cell_sums import CellSums
from tracecloak.anonymizers.indicators.declared import (
    Frequency,
    Measured,
)
from tracecloak.anonymizers.indicators.params import IndicatorParams, Known
from tracecloak.anonymizers.indicators.quantiles import (
    PointsDecision,
    choose_points,
    rank_half_width,
)
from tracecloak.anonymizers.indicators.terms import (
    BinsOf,
    EventsOf,
    SumOf,
    Term,
    of_unit,
)
from tracecloak.anonymizers.indicators.weights import (
    QUANTILE_SHARE,
    Weighed,
    quantile_bins,
    weighed_terms,
)
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums
from tracecloak.anonymizers.rigorous.budget import Means, Need, Pure, Sums
from tracecloak.anonymizers.rigorous.parts import Given, Part, PartsDecision
from tracecloak.schemas.events.traces import TraceBatch

SUMS = "sums"
"""The round of all sums, and of the quantiles."""


@dataclass(frozen=True)
class NoisySums(contract.Decision):
    """Sums with noise.

    Attributes:
        values: int64[n], in lattice steps.
    """

    wire_name: ClassVar[str] = "noisy-cell-sums"

    values: np.ndarray


def unfolded(decisions: contract.Decisions) -> dict[str, Any]:
    """Returns what the parts decided, by their names."""
    decided: dict[str, Any] = {}
    for decision in decisions.values():
        assert isinstance(decision, PartsDecision)
        decided |= decision.parts
    return decided


def need_of(weighed: Weighed, params: IndicatorParams) -> Sums:
    """Returns what a term needs to spend."""
    term = weighed.term
    return Sums(term.name, weighed.weight, of_unit(term, params.max_units), term.units)


def noise_of(term: Term, means: Means, params: IndicatorParams) -> SumNoise:
    """Returns the noise of a term's sums.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    return means[term.name].noise(of_unit(term, params.max_units), term.units)


@dataclass(frozen=True)
class SumsOfCases:
    """All sums of a round, one term after the other; and the exact bins that choices are made on.

    Attributes:
        params: What is asked for.
    """

    params: IndicatorParams
    kind: ClassVar[type[CellSums]] = CellSums

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> CellSums:
        """Counts a batch."""
        known = Known(self.params, unfolded(decisions))
        counted = [term.count(traces, known) for term in counted_terms(self.params)]
        return CellSums(np.concatenate([np.zeros(0, np.int64), *counted]))


def chosen_bins(params: IndicatorParams) -> list[BinsOf]:
    """Returns the bins of all indicators whose quantiles are chosen."""
    bins = (quantile_bins(indicator, params) for indicator in params.indicators)
    return [one for one in bins if one is not None]


def counted_terms(params: IndicatorParams) -> list[Term]:
    """Returns what is counted in the round of sums, in the order of the totals."""
    return [*(weighed.term for weighed in weighed_terms(params)), *chosen_bins(params)]


def cells_of(term: Term, totals: CellSums, params: IndicatorParams, known: Known) -> np.ndarray:
    """Returns int64[n_cells], what of all totals is a term's."""
    begin = 0
    for other in counted_terms(params):
        n_cells = other.n_cells(known)
        if other == term:
            return totals.cells(begin + n_cells)[begin : begin + n_cells]
        begin += n_cells
    raise KeyError(term.name)


def parts_of(params: IndicatorParams) -> tuple[Part, ...]:
    """Returns the parts in the order in which they are decided."""
    parts = list(bought_parts(params))
    parts += [_sums_part(weighed, params) for weighed in weighed_terms(params)]
    return (*parts, *(_quantiles_part(bins, params) for bins in chosen_bins(params)))


def _reality(terms: Iterable[Term]) -> str:
    changes = "; ".join(dict.fromkeys(map(_change, terms)))
    return (
        f"One case is in one group of an indicator, and changes at most: {changes}. Exact discrete "
        "noise on all of these, also of groups that no case is in, covers that. Means, shares and "
        "intervals are computed from the noisy numbers only."
    )


def _change(term: Term) -> str:
    """What one case changes of a term at most, in words: its `changed`."""
    if isinstance(term, SumOf):
        return "each sum by half of the distance of its bounds, since their middle is taken off"
    if isinstance(term, EventsOf):
        return f"numbers of events by {term.changed.l1 // term.units} in all"
    if isinstance(term, BinsOf):
        running = "the running sums that quantiles are read from by 1 each, where they have its bin"
        return running if term.is_running else "one bin of each histogram by 1"
    if term.changed.linf < term.units:
        return "each number of cases with a property by 1/2, since half of all cases is taken off"
    return "each number of cases by 1"


def _sums_part(weighed: Weighed, params: IndicatorParams) -> Part:
    term = weighed.term
    need = need_of(weighed, params)

    def sentence(means: Means) -> str:
        noise = noise_of(term, means, params)
        kind = "Laplace" if noise.is_laplace else "Gaussian"
        return f"discrete {kind} noise of {_half_width(term, noise)} (95 %) on each number"

    def decide(given: Given) -> NoisySums:
        known = Known(params, given.decisions)
        sums = cells_of(term, given.statistics[SUMS], params, known)
        noise = noise_of(term, given.means, params)
        places = np.arange(len(sums))
        return NoisySums(noisy_sums(sums, noise, term.name, places, given.randomness))

    counters: Mapping[str, contract.Counter] = {SUMS: SumsOfCases(params)}
    terms = [weighed.term for weighed in weighed_terms(params)]
    reality = _reality(terms) if term == terms[0] else ""
    return Part(term.name, (need,), sentence, decide, counters, SUMS, reality)


def _half_width(term: Term, noise: SumNoise) -> str:
    cases = noise.half_width
    if isinstance(term, SumOf):
        of = "occurrences" if isinstance(term.indicator, Frequency) else "times the range"
        return f"{cases:,} {of}"
    return f"{cases:,} events" if isinstance(term, EventsOf) else f"{cases:,} cases"


def _quantiles_part(bins: BinsOf, params: IndicatorParams) -> Part:
    indicator = bins.indicator
    assert isinstance(indicator, Measured)
    name, quantiles = indicator.title, indicator.quantiles
    n_choices = 2 * len(quantiles) * bins.n_steps

    def sentence(means: Means) -> str:
        epsilon = means[name].epsilon / n_choices
        ranks = max(rank_half_width(epsilon, quantile, params.max_units) for quantile in quantiles)
        each = "each quantile" if len(quantiles) > 1 else "the quantile"
        return (
            f"chooses two values around {each}, {math.ceil(ranks):,} cases below its rank and "
            "above it, by which a choice errs at most (95 %)"
        )

    def decide(given: Given) -> PointsDecision:
        known = Known(params, given.decisions)
        cells = cells_of(bins, given.statistics[SUMS], params, known)
        epsilon = given.means[name].epsilon / n_choices
        rows = cells.reshape(-1, bins.n_bins)
        randomness = given.randomness
        return choose_points(rows, quantiles, epsilon, params.max_units, randomness, name)

    needs: tuple[Need, ...] = (Pure(name, Fraction(indicator.priority) * QUANTILE_SHARE),)
    counters: Mapping[str, contract.Counter] = {SUMS: SumsOfCases(params)}
    reality = f"Chosen by permute-and-flip on ranks, which one case moves by at most one: {name}."
    return Part(name, needs, sentence, decide, counters, SUMS, reality)

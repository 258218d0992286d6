"""Which sums a list of indicators needs, each once, and their shares of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tracecloak.anonymizers.indicators.declared import (
    Cases,
    Frequency,
    Indicator,
    Measured,
    Throughput,
    Workload,
)
from tracecloak.anonymizers.indicators.params import AskedParams
from tracecloak.anonymizers.indicators.quantiles import rank_half_width
from tracecloak.anonymizers.indicators.summands import Population
from tracecloak.anonymizers.indicators.terms import (
    BinsOf,
    CasesOf,
    CasesWith,
    EventsOf,
    SumOf,
    Term,
    weight_of,
)
from tracecloak.anonymizers.rigorous.budget import Sums, budget_of
from tracecloak.schemas.errors import UsageError

# The share of numbers of cases, which nothing halves, beside 1 for a centred sum: of six figures
# the product of the errors is the same then, and none errs more than it would with a sixth of
# epsilon to itself.
WHOLE_SHARE = Fraction(3, 2)
QUANTILE_SHARE = Fraction(5, 2)
"""The share of the two choices around a quantile."""

# What the number of cases that have a number has, beside the sum of these.
_WITH_SHARE = Fraction(3, 4)
# What the sum of a frequency has: the noise of half of the number of cases is added to its own.
_FREQUENCY_SHARE = Fraction(5, 4)


@dataclass(frozen=True)
class Weighed:
    """A term and its share of the budget beside others.

    Attributes:
        term: The sums.
        weight: The share.
    """

    term: Term
    weight: Fraction


def quantile_bins(indicator: Indicator, params: AskedParams) -> BinsOf | None:
    """Returns the bins on which quantiles are chosen; None: none are, or all from running sums."""
    if not isinstance(indicator, Measured) or not indicator.quantiles:
        return None
    if is_running(indicator, params):
        return None
    return BinsOf(indicator, params.n_steps_of(indicator), is_measured=False)


def is_running(indicator: Measured, params: AskedParams) -> bool:
    """Returns whether an indicator's quantiles are read from running sums; public.

    That is where they would err less, by the ranks that half an interval has, if the indicator were
    alone.
    """
    n_choices = len(indicator.quantiles)
    if not params.chooses_quantiles:
        return True
    if n_choices < 2 or params.delta == 0:  # one is always better chosen
        return False
    return _running_errs_less(indicator, n_choices, params.budget)


@lru_cache(maxsize=256)
def _running_errs_less(
    indicator: Measured, n_choices: int, budget: tuple[Fraction, Fraction]
) -> bool:
    term = BinsOf(indicator, 1, is_running=True)
    epsilon, delta = budget
    try:
        alone = budget_of(epsilon, delta, (Sums("bins", Fraction(1), term.changed, term.units),))
        noise = alone.means["bins"].noise(term.changed, term.units)
    except UsageError:
        return False
    norm = float(term.changed.l2) / term.units
    return noise.half_width * norm < rank_half_width(epsilon / (2 * n_choices), Fraction(1, 2), 1)


def weighed_terms(params: AskedParams) -> tuple[Weighed, ...]:
    """Returns all sums that get noise in the round of sums, each once, in a fixed order."""
    of_indicators: list[Weighed] = []
    dependents: dict[Population, list[Fraction]] = {}
    asked: dict[Population, Fraction] = {}
    for indicator in params.indicators:
        population, weight = Population.of(indicator), Fraction(indicator.priority)
        if isinstance(indicator, Cases):
            asked[population] = max(weight * WHOLE_SHARE, asked.get(population, Fraction(0)))
        elif needs_cases(indicator, params):
            dependents.setdefault(population, []).append(weight)
        of_indicators += _terms_of(indicator, weight, params)
    for population in {**asked, **dependents}:
        if CasesOf(population).is_centred:  # half of all cases is added again
            others = dependents.get(population, []) or [asked[population]]
            dependents.setdefault(Population(), []).extend(others)
    populations = sorted({**asked, **dependents}, key=lambda p: not p.is_whole)
    counts = [
        Weighed(
            CasesOf(population),
            max(asked.get(population, Fraction(0)), weight_of(dependents.get(population, []))),
        )
        for population in populations
    ]
    return (*counts, *of_indicators)


def needs_cases(indicator: Indicator, params: AskedParams) -> bool:
    """Returns whether the number of cases of its population is used for it."""
    if not isinstance(indicator, Measured):
        return not isinstance(indicator, Cases | Workload)
    if indicator.quantiles or indicator.of == "histogram":
        return False
    of_all = isinstance(indicator, Throughput)
    return of_all or CasesWith(indicator, params.n_steps_of(indicator)).is_centred


def _terms_of(indicator: Indicator, weight: Fraction, params: AskedParams) -> list[Weighed]:
    n_steps = params.n_steps_of(indicator)
    if isinstance(indicator, Cases):
        return []
    if isinstance(indicator, Workload):
        return [Weighed(EventsOf(indicator, n_steps), weight)]
    if isinstance(indicator, Frequency):
        return [Weighed(SumOf(indicator, n_steps), weight * _FREQUENCY_SHARE)]
    if not isinstance(indicator, Measured):
        return [Weighed(SumOf(indicator, n_steps), weight)]
    if indicator.quantiles:
        if not is_running(indicator, params):
            return []
        return [Weighed(BinsOf(indicator, n_steps, is_running=True), weight)]
    if indicator.of == "histogram":
        return [Weighed(BinsOf(indicator, n_steps), weight)]
    terms = [Weighed(SumOf(indicator, n_steps), weight)]
    if not isinstance(indicator, Throughput):
        terms.append(Weighed(CasesWith(indicator, n_steps), weight * _WITH_SHARE))
    return terms

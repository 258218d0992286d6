"""`private-indicators`: the method, and the errors of its figures."""

from __future__ import annotations

import math
from decimal import Decimal
from statistics import median
from typing import Any, ClassVar

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.method import FigureError
from tracecloak.anonymizers.contract.sentences import sentences
from tracecloak.anonymizers.indicators import declared, figures
from tracecloak.anonymizers.indicators.declared import Working, Workload
from tracecloak.anonymizers.indicators.params import IndicatorParams, Known, is_running
from tracecloak.anonymizers.indicators.quantiles import rank_half_width
from tracecloak.anonymizers.indicators.summands import Population, bounds_of
from tracecloak.anonymizers.indicators.terms import BinsOf, EventsOf, SumOf
from tracecloak.anonymizers.rigorous.parts_method import (
    Given,
    Part,
    PartsMethod,
    budget_of_parts,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.declarations import Attribute

# --- How far each indicator will be off, and the least epsilon for errors that are wanted. --------
# Nothing is known of the log but how many cases are expected, so the errors are those of the
# worst value that there can be, such as a share of 0 or 1. Groups are taken to be of one size,
# and a filter, an activity or a pair to be of half of the cases. Where less is known of a figure,
# as of a quantile, the error is that of its rank. For its grade, a share is taken to be a
# quarter, as half of all shares are nearer to 0 or 1, and a mean to be a fifth of its range.


_SECOND_US = 1_000_000
_HALF = 0.5
_LIKELY_SHARE = 0.25
# A longest time is usually so many means. And a time whose rank is off by 1 % of the cases is off
# by so many per cent, where the logarithms of times have a deviation of 2.
_MEANS_OF_RANGE = 5
# Periods where the range of dates is bought.
_USUAL_PERIODS = 24
_STEPS, _CLOSE = 60, 0.002
_LARGEST_EPSILON = 1_000.0


def figure_errors(params: IndicatorParams, n_cases: int) -> tuple[FigureError, ...]:
    """Returns the error of each indicator in a log of so many cases.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    estimates = _ErrorEstimates(params, n_cases)
    return tuple(estimates.error(indicator) for indicator in params.indicators)


class _ErrorEstimates(figures.NumbersOfCases):
    def __init__(self, params: IndicatorParams, n_cases: int) -> None:
        self.params, self.n_cases = params, n_cases
        self.budget = budget_of_parts(figures.parts_of(params), *params.budget)
        self.noises = figures.noises_of(params, self.budget.means)

    def error(self, indicator: declared.Indicator) -> FigureError:
        """The error of one indicator, of each of its groups alike."""
        half, unit, likely = self._half_width(indicator)
        wanted = None if indicator.wanted_error is None else float(indicator.wanted_error)
        return FigureError(indicator.title, half, unit, likely, wanted)

    def _n_cases(self, indicator: declared.Indicator) -> float:
        """How many cases a figure is taken to be of."""
        population, n_groups = Population.of(indicator), 1
        if population.by in declared.PERIODS and self.params.public_range is None:
            n_groups = _USUAL_PERIODS
        elif population.by in declared.PERIODS or population.groups is not None:
            n_groups = len(Known(self.params, {}).groups(population).labels)
        elif population.by is not None:
            n_groups = indicator.n_groups
        n_cases = self.n_cases / n_groups
        if indicator.where is not None:
            n_cases *= _HALF
        if not indicator.is_of_all:
            n_cases *= _HALF
        return max(n_cases, 1.0)

    def _half_width(self, indicator: declared.Indicator) -> tuple[float, str, float]:
        """Half the width of the interval, its unit, and a likely value of the figure."""
        n_cases, n_steps = self._n_cases(indicator), self.params.n_steps_of(indicator)
        if isinstance(indicator, declared.Cases):
            cases = self.cases(Population.of(indicator))
            return cases.half_width, indicator.unit, n_cases
        if isinstance(indicator, declared.Workload):
            events = EventsOf(indicator, n_steps)
            return self.noises[events.name].half_width, indicator.unit, self.n_cases / n_steps
        if isinstance(indicator, declared.Measured) and indicator.quantiles:
            return self._ranks(indicator, n_steps), "ranks", n_cases / _MEANS_OF_RANGE
        if isinstance(indicator, declared.Measured) and indicator.of == "histogram":
            bins = BinsOf(indicator, n_steps)
            return self.noises[bins.name].half_width, "cases", n_cases / bins.n_bins
        total = self.number(SumOf(indicator, n_steps), 0)
        relative = total.plus(_HALF, self.cases_of(indicator)).half_width  # in ranges
        if isinstance(indicator, declared.Frequency):
            return relative * indicator.at_most, indicator.unit, n_cases
        if not isinstance(indicator, declared.Measured):
            return min(relative / n_cases, 1.0), indicator.unit, _LIKELY_SHARE
        if isinstance(indicator, declared.Timed) and indicator.at_most is None:
            return relative / n_cases, "ranges", 1 / _MEANS_OF_RANGE
        low, high = bounds_of(indicator)
        width = (high - low) / (_SECOND_US if isinstance(indicator, declared.Timed) else 1)
        half, likely = relative * width, n_cases * width / _MEANS_OF_RANGE
        if indicator.of == "mean":
            half, likely = min(half / n_cases, width), likely / n_cases
        return half, indicator.unit, likely

    def _ranks(self, indicator: declared.Measured, n_steps: int) -> float:
        if is_running(indicator, self.params):
            term = BinsOf(indicator, n_steps, is_running=True)
            noise = figures.noise_of(term, self.budget.means, self.params)
            return noise.half_width * math.sqrt(math.log(term.n_bins) / math.pi + 1)
        n_choices = 2 * len(indicator.quantiles) * n_steps
        epsilon = self.budget.means[indicator.title].epsilon / n_choices
        m = self.params.max_units
        return max(rank_half_width(epsilon, quantile, m) for quantile in indicator.quantiles)


def least_epsilon(
    params: IndicatorParams, n_cases: int
) -> tuple[Decimal, tuple[Decimal, ...]] | None:
    """Returns the least epsilon for the wanted errors in a log of so many cases; one is wanted.

    Priorities and epsilon are moved until each wanted error is met and none is met by more than the
    others. An indicator of which nothing is wanted has the median of their priorities.

    Returns:
        Epsilon, rounded up to three digits, and the priority of each indicator that the errors
        need; None where no epsilon up to 1,000 is enough.
    """
    epsilon, weights = float(params.epsilon), [1.0 for _ in params.indicators]
    for _ in range(_STEPS):
        tried = _with(params, epsilon, weights)
        try:
            estimates = _ErrorEstimates(tried, n_cases)
            errors = [estimates.error(indicator) for indicator in tried.indicators]
        except UsageError:
            epsilon *= 4
            if epsilon > _LARGEST_EPSILON:
                return None
            continue
        # How many times as large as it is wanted each error is.
        ratios = [None if one.wanted is None else one.half_width / one.wanted for one in errors]
        known = [ratio for ratio in ratios if ratio is not None]
        if max(known) <= 1 and max(known) >= 1 - 5 * _CLOSE and min(known) >= 1 - 10 * _CLOSE:
            break
        power = 1.0 if estimates.budget.deviation is None else 2.0
        middle = math.exp(sum(math.log(ratio) for ratio in known) / len(known))
        moved = [
            weight if ratio is None else weight * (ratio / middle) ** (power / 2)
            for weight, ratio in zip(weights, ratios, strict=True)
        ]
        usual = median(w for w, ratio in zip(moved, ratios, strict=True) if ratio is not None)
        weights = [
            usual if ratio is None else weight for weight, ratio in zip(moved, ratios, strict=True)
        ]
        epsilon *= math.exp(0.7 * math.log(max(max(known), 1e-3))) * (1 + _CLOSE)
        if epsilon > _LARGEST_EPSILON:
            return None
    shares = tuple(Decimal(f"{weight:.3g}") for weight in _scaled(weights))
    while epsilon <= _LARGEST_EPSILON:
        digits = 2 - math.floor(math.log10(epsilon))
        up = Decimal(math.ceil(epsilon * 10**digits)) / Decimal(10) ** digits
        # Rounded shares, or a search that has not come to its end, may need a little more.
        found = figure_errors(_with(params, float(up), list(map(float, shares))), n_cases)
        if all(error.wanted is None or error.half_width <= error.wanted for error in found):
            return up, shares
        epsilon = float(up) * (1 + 5 * _CLOSE)
    return None


def _with(params: IndicatorParams, epsilon: float, weights: list[float]) -> IndicatorParams:
    indicators = tuple(
        indicator.model_copy(update={"priority": Decimal(f"{weight:.6g}")})
        for indicator, weight in zip(params.indicators, _scaled(weights), strict=True)
    )
    given = {name: getattr(params, name) for name in type(params).model_fields}
    return type(params)(**{**given, "indicators": indicators, "epsilon": Decimal(f"{epsilon:.6g}")})


def _scaled(weights: list[float]) -> list[float]:
    """The weights with 100 for the largest; none is too small to be a priority."""
    top = max(weights)
    return [max(100 * weight / top, 0.01) for weight in weights]


# ---
# `private-indicators`: declared figures of a process, (epsilon, delta) for all of them together.
# What is asked for is a list: cases, times, shares in time, rework, rules, amounts, each with its
# public bounds (`declared`). Every figure is a count, a sum or a mean of bounded numbers of cases
# (`summands`), or a quantile of them; the sums of all are one vector, of which one case changes
# each part by a known amount (`terms`), and get Laplace or Gaussian noise, whichever errs less. No
# figure is computed from a log that was released or drawn. Kabierski, Fahrenkrog-Petersen and
# Weidlich ("Privacy-Aware Process Performance Indicators: Framework and Release Mechanisms", CAiSE
# 2021) for the question; means of centred sums and permute-and-flip for the answer.


class PrivateIndicators(PartsMethod, name="private-indicators"):
    """The method; see the module."""

    Params: ClassVar[type[IndicatorParams]] = IndicatorParams
    between_chosen: ClassVar[str] = ", "

    def parts(self, params: IndicatorParams) -> tuple[Part, ...]:
        """Returns the parts."""
        return figures.parts_of(params)

    def attributes(self, params: IndicatorParams) -> tuple[Attribute, ...]:
        """Returns the attributes that indicators read."""
        return params.declared_attributes

    def releases_starts(self, params: IndicatorParams) -> bool:
        """Returns whether an indicator reads when events began."""
        return any(isinstance(indicator, Working) for indicator in params.indicators)

    def moves_by_case(self, params: IndicatorParams) -> bool:
        """Returns that they do: all are sums over cases, or chosen by ranks of cases."""
        return True

    def not_covered(self, params: IndicatorParams) -> tuple[str, ...]:
        """Returns what the release shows or allows beyond the promise."""
        staff = tuple(
            f"Who is counted by {by} is not protected: the promise is for those whose cases they "
            "are."
            for by in dict.fromkeys(i.by for i in params.indicators if isinstance(i, Workload))
        )
        return (*super().not_covered(params), *staff)

    def figure_errors(self, params: IndicatorParams, n_cases: int) -> tuple[FigureError, ...]:
        """Returns the error of each indicator."""
        return figure_errors(params, n_cases)

    def costs(self, params: IndicatorParams) -> tuple[str, ...]:
        """Returns the least epsilon for the errors that are wanted, if any are."""
        n_cases = params.n_cases_expected
        if all(indicator.wanted_error is None for indicator in params.indicators):
            return ()
        if n_cases is None:
            return (
                "Which epsilon the wanted errors need depends on the number of cases: give "
                "expected_cases.",
            )
        missed = [
            error.figure
            for error in figure_errors(params, n_cases)
            if error.wanted is not None and error.half_width > error.wanted
        ]
        least = least_epsilon(params, n_cases)
        return sentences(self.name, "targets", params, missed=missed, least=least)

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: IndicatorParams
    ) -> contract.PartsDecision:
        """Returns what the parts of a round decided."""
        return contract.PartsDecision(decided)

    def products(self, decisions: contract.Decisions, params: IndicatorParams) -> contract.Products:
        """Returns the indicators."""
        decided = self.known(decisions)
        measured = figures.measurements_of(params, decided, self.budget(params).means)
        released = figures.released_indicators(Known(params, decided), measured)
        return contract.Products({"indicators": released})

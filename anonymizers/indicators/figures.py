"""What is released of noisy sums and chosen quantiles: numbers with intervals, in long form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.indicators.asked import AskedParams
from tracecloak.anonymizers.indicators.declared import (
    Amount,
    Cases,
    Frequency,
    Group,
    Indicator,
    Measured,
    Throughput,
    Timed,
    Workload,
)
from tracecloak.anonymizers.indicators.params import IndicatorParams, Known
from tracecloak.anonymizers.indicators.parts import (
    chosen_bins,
    noise_of,
)
from tracecloak.anonymizers.indicators.populations import Population
from tracecloak.anonymizers.indicators.quantiles import (
    interval_between,
    quantiles_of_running,
    value_at,
)
from tracecloak.anonymizers.indicators.ratios import (
    Interval95,
    Measuring,
    NoisyNumber,
    count_within,
    mean_of,
    number_of,
)
from tracecloak.anonymizers.indicators.summands import RANGE, bounds_of
from tracecloak.anonymizers.indicators.terms import (
    BinsOf,
    CasesOf,
    CasesWith,
    EventsOf,
    SumOf,
    Term,
    coarse_grid,
    grid,
)
from tracecloak.anonymizers.indicators.weights import quantile_bins, weighed_terms
from tracecloak.anonymizers.noise.sums import onto_simplex
from tracecloak.anonymizers.rigorous.budget import Means
from tracecloak.schemas.calendar.time_texts import duration_text
from tracecloak.schemas.published.figure import DERIVED, MEASURED, Scale, grade_of, wider_ends
from tracecloak.schemas.published.indicators import SHARE, IndicatorRow, ReleasedIndicators

_SECOND_US = 1_000_000
_NO_BOUNDS = (0.0, 0.0)


@dataclass(frozen=True)
class Measurements:
    """All that was measured of the terms: what figures are made of.

    Attributes:
        values: float64[n_cells] of each term, by its name: numbers of cases and of events, sums in
            ranges of the numbers that are summed up, and running sums.
        measuring: The noise of each, in the same.
        chosen: Of indicators whose quantiles were chosen, by title, int64[n, 2]: bins of
            `terms.grid` between which they lie, by group, step and quantile, the last fastest.
    """

    values: Mapping[str, np.ndarray]
    measuring: Measuring
    chosen: Mapping[str, np.ndarray]


def measurements_of(
    params: IndicatorParams, decided: Mapping[str, Any], means: Means
) -> Measurements:
    """Returns what a release measured.

    Args:
        params: What was asked for.
        decided: What the parts decided, by their names.
        means: What each need spent, from which its noise follows.
    """
    values, widths, is_laplace = {}, {}, True
    for weighed in weighed_terms(params):
        term = weighed.term
        noise = noise_of(term, means, params)
        is_laplace = noise.is_laplace
        values[term.name] = decided[term.name].values / term.units
        widths[term.name] = noise.width / term.units
    titles = [bins.indicator.title for bins in chosen_bins(params)]
    chosen = {title: decided[title].points.reshape(-1, 2) for title in titles}
    return Measurements(values, Measuring(widths, is_laplace), chosen)


def released_indicators(known: Known, measured: Measurements) -> ReleasedIndicators:
    """Returns the indicators, from what was measured alone.

    Args:
        known: What was asked for, and what was bought.
        measured: What was measured.
    """
    made = _Figures(known, measured)
    return ReleasedIndicators.of(
        [row for indicator in known.params.indicators for row in made.rows(indicator)]
    )


@dataclass(frozen=True)
class _Figures:
    known: Known
    measured: Measurements

    @property
    def params(self) -> AskedParams:
        return self.known.params

    @property
    def measuring(self) -> Measuring:
        return self.measured.measuring

    def number(self, term: Term, place: int) -> NoisyNumber:
        """A measured number by its place; its noise is independent of that of any other term."""
        return NoisyNumber(float(self.measured.values[term.name][place]), {term.name: 1.0})

    def cases(self, population: Population, group: int) -> NoisyNumber:
        """The number of cases of a group of a population."""
        term = CasesOf(population)
        number = self.number(term, group)
        return number.plus(0.5, self.cases(Population(), 0)) if term.is_centred else number

    def cases_with(self, indicator: Measured, n_steps: int, group: int, step: int) -> NoisyNumber:
        """The cases of a group that have a number of an indicator."""
        term, population = CasesWith(indicator, n_steps), Population.of(indicator)
        number = self.number(term, group * term.shape(self.known)[1] + step)
        return number.plus(0.5, self.cases(population, group)) if term.is_centred else number

    def rows(self, indicator: Indicator) -> Iterator[IndicatorRow]:
        """The rows of an indicator, by group and step."""
        groups = self.known.groups(Population.of(indicator)).labels
        names = [""]
        if indicator.is_by_steps or isinstance(indicator, Workload):
            names = [step_text(step) for step in self.known.steps(indicator)]
        for group, label in enumerate(groups):
            for step, name in enumerate(names):
                yield from self._of_group(indicator, group, step, label or name)

    def _of_group(
        self, indicator: Indicator, group: int, step: int, label: str
    ) -> Iterator[IndicatorRow]:
        n_steps = self.params.n_steps_of(indicator)
        if isinstance(indicator, Measured) and (indicator.quantiles or indicator.of == "histogram"):
            if indicator.quantiles:
                yield from self._quantiles(indicator, n_steps, group, step, label)
            else:
                yield from self._histogram(indicator, n_steps, group, step, label)
            return
        yield _row(indicator, label, *self._figure(indicator, n_steps, group, step))

    def _figure(
        self, indicator: Indicator, n_steps: int, group: int, step: int
    ) -> tuple[Interval95, str, str, tuple[float, float]]:
        """The number with its unit and kind, and between which bounds each case has one."""
        population = Population.of(indicator)
        if isinstance(indicator, Cases):
            number = self.cases(population, group)
            kind = DERIVED if CasesOf(population).is_centred else MEASURED
            return number_of(number, self.measuring), "cases", kind, _NO_BOUNDS
        if isinstance(indicator, Workload):
            number = self.number(EventsOf(indicator, n_steps), step)
            return number_of(number, self.measuring), "events", MEASURED, _NO_BOUNDS
        term = SumOf(indicator, n_steps)
        summand = term.summand(self.known)
        of_range = self.number(term, group * term.shape(self.known)[1] + step)
        total = NoisyNumber(0.0, {}).plus(summand.high - summand.low, of_range)
        if isinstance(indicator, Measured) and not isinstance(indicator, Throughput):
            cases = self.cases_with(indicator, n_steps, group, step)
        else:
            cases = self.cases(population, group)
        if isinstance(indicator, Frequency):
            number = total.plus(summand.middle, cases)
            unit = "cases" if indicator.at_most == 1 else "occurrences"
            return number_of(number, self.measuring), unit, DERIVED, _NO_BOUNDS
        bounds = summand.low, summand.high
        if isinstance(indicator, Measured) and indicator.of == "sum":
            number = total.plus(summand.middle, cases)
            interval = number_of(number, self.measuring, is_count=False)
            if summand.low >= 0:
                interval = Interval95(*(max(n, 0.0) for n in _ends(interval)))
            bounds = summand.low * max(cases.value, 1.0), summand.high * max(cases.value, 1.0)
        else:
            interval = mean_of(total, cases, summand.low, summand.high, self.measuring)
        return interval, _unit_of(indicator), DERIVED, bounds

    def _quantiles(
        self, indicator: Measured, n_steps: int, group: int, step: int, label: str
    ) -> Iterator[IndicatorRow]:
        low, high = bounds_of(indicator, self.known.bought_us(indicator))
        n = len(indicator.quantiles)
        bins = quantile_bins(indicator, self.params)
        term = bins or BinsOf(indicator, n_steps, is_running=True)
        row = group * term.shape(self.known)[1] + step
        if bins is None:
            values = self.measured.values[term.name]
            running = values[row * term.n_bins : (row + 1) * term.n_bins]
            noise = self.measuring.noise(self.number(term, row * term.n_bins))
            places = quantiles_of_running(running, indicator.quantiles, noise.half_width)
            points = coarse_grid()
        else:
            ends = self.measured.chosen[indicator.title][row * n : (row + 1) * n]
            places = [interval_between(*of_one) for of_one in ends.tolist()]
            points = grid()
        for quantile, place in zip(indicator.quantiles, places, strict=True):
            value, least, most = (value_at(end, low, high, points) for end in _ends(place))
            rounding = (high - low) / (2 * RANGE)
            interval = Interval95(value, max(least - rounding, low), min(most + rounding, high))
            of = decimal_text(quantile) if n > 1 else ""
            unit = _unit_of(indicator)
            yield _row(indicator, _joined(label, of), interval, unit, MEASURED, (low, high))

    def _histogram(
        self, indicator: Measured, n_steps: int, group: int, step: int, label: str
    ) -> Iterator[IndicatorRow]:
        """The bins, none negative and together as many as cases were measured, by them or apart."""
        term = BinsOf(indicator, n_steps)
        first = (group * term.shape(self.known)[1] + step) * term.n_bins
        counts = np.array([self.number(term, first + b).value for b in range(term.n_bins)])
        half = self.measuring.noise(self.number(term, first)).half_width
        total, population = counts.sum(), Population.of(indicator)
        if isinstance(indicator, Throughput) and CasesOf(population).name in self.measured.values:
            total = self.cases(population, group).value
        fitted = onto_simplex(counts[None, :], np.array([max(total, 1.0)]))[0]
        low, high = bounds_of(indicator, self.known.bought_us(indicator))
        edges = [low + (high - low) * b / term.n_bins for b in range(term.n_bins + 1)]
        for b, (count, value) in enumerate(zip(counts, fitted, strict=True)):
            ends = count_within(float(count), half)
            interval = Interval95(round(value), min(ends[0], value), max(ends[1], value))
            of = _edges_text(indicator, edges[b], edges[b + 1])
            yield _row(indicator, _joined(label, of), interval, "cases", DERIVED)


def step_text(step: Group) -> str:
    """Returns an activity as it is, and a pair with an arrow."""
    return step if isinstance(step, str) else f"{step[0]} → {step[1]}"


def _edges_text(indicator: Measured, low: float, high: float) -> str:
    if isinstance(indicator, Timed):
        return f"{duration_text(round(low))} to {duration_text(round(high))}"
    return f"{low:g} to {high:g}"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _ends(interval: Interval95) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


def _unit_of(indicator: Indicator) -> str:
    """The unit of means, quantiles and shares."""
    if isinstance(indicator, Timed):
        return "s"
    return "" if isinstance(indicator, Amount) else SHARE


def _row(
    indicator: Indicator,
    group: str,
    interval: Interval95,
    unit: str,
    kind: str,
    bounds: tuple[float, float] = _NO_BOUNDS,
) -> IndicatorRow:
    """The row of a number; of what can be negative, or is 0, the grade is by its bounds."""
    one = _SECOND_US if unit == "s" else 1
    scale: Scale = "share" if unit == SHARE else "position" if bounds[0] < 0 else "amount"
    ends = _ends(interval)
    most = 0 if getattr(indicator, "of", "") == "sum" else bounds[1]
    # The interval of a quantile reaches to chosen points, which is wide enough.
    if scale == "amount" and not getattr(indicator, "quantiles", ()):
        lows, highs = wider_ends(*np.array(ends)[:, None])
        ends = ends[0], lows[0], min(highs[0], most or np.inf)
    value, low, high = (float(f"{number / one:.9g}") for number in ends)
    ends = value, min(low, value), max(high, value)
    grade = grade_of(*ends, scale, (bounds[1] - bounds[0]) / one)
    return IndicatorRow(indicator.title, group or None, *ends, unit, kind, grade)

"""The budget of indicators divided among sums, private selections, and values with intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.indicators import declared, quantiles, summands, terms
from tracecloak.anonymizers.indicators.params import (
    IndicatorParams,
    Known,
    RequestedParams,
    counted_terms,
    is_running,
    longest_time_name,
    selection_name,
    weighed_terms,
)
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums, onto_simplex
from tracecloak.anonymizers.rigorous import bought
from tracecloak.anonymizers.rigorous.budget import Allowances, Choice, Need, Pure, Sums
from tracecloak.anonymizers.rigorous.params import VOCABULARY_SHARE
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, choose_quantile, noisy_part
from tracecloak.anonymizers.times.time_range import time_range_part
from tracecloak.schemas.calendar.durations import duration_text
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary, is_case_attribute
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import (
    DERIVED,
    MEASURED,
    SHARE,
    IndicatorRow,
    ReleasedIndicators,
    Scale,
    grade_of,
    wider_ends,
)
from tracecloak.schemas.statistics.variants import ActivityCounts

# --- What is chosen on the log where it is not declared: groups, dates and longest times. ---------
# Groups are activities, pairs of them, or values of an attribute: labels that a case has several
# of. They are chosen as a vocabulary is (`rigorous.bought_vocabulary`), and the most frequent
# ones are kept. A longest time is chosen as a quantile on a grid, and doubled.


BOUGHT = "bought"
"""The round in which all of it is chosen."""

_SECOND_US = 1_000_000
_OF_UNITS_S = {1: (1, 2, 5, 10, 30), 60: (1, 2, 5, 10, 30), 3600: (1, 2, 4, 8, 16)}
# Longest times that can be chosen: round ones, each about twice the one before.
LONGEST_US = np.array(
    [
        _SECOND_US * unit * n
        for unit, numbers in {**_OF_UNITS_S, 86_400: tuple(1 << k for k in range(13))}.items()
        for n in numbers
    ],
    np.int64,
)
_N_BINS = len(LONGEST_US) + 1
# Chosen is the time that so many cases do not exceed, and then a few times as much. A share nearer
# to 1 would leave so few cases beyond it that noise might choose a time far above all of them.
_QUANTILE, _FURTHER = Fraction(3, 4), 2
# Of epsilon, for each of these choices, and for all of them together.
_BOUND_SHARE, _BOUND_SHARES = Fraction(1, 25), Fraction(1, 5)


class GroupsDecision(contract.Decision, wire_name="bought-groups"):
    """The groups that were bought.

    Attributes:
        names: string[n], the labels in the order of their bytes; a pair is its two names in JSON.
        is_pair: Whether they are pairs.
    """

    names: pa.StringArray
    is_pair: bool

    @property
    def labels(self) -> list[str]:
        """The labels."""
        names: list[str] = self.names.to_pylist()
        return names

    @property
    def steps(self) -> list[declared.Group]:
        """What they stand for."""
        if not self.is_pair:
            return list(self.labels)
        return [(first, second) for first, second in map(json.loads, self.labels)]


class LongestTimeDecision(contract.Decision, wire_name="bought-longest-time"):
    """The longest time that was bought.

    Attributes:
        longest_us: In microseconds.
    """

    longest_us: int


def count_labels(batch: Batch, by: str, max_labels: int) -> ActivityCounts:
    """Adds up the weights of cases by label, see `activities_of_cases`.

    Args:
        batch: Complete cases, and what was decided before.
        by: What the labels are of.
        max_labels: Distinct ones of a case that count.
    """
    labelled = relabel_by(batch.traces, by)
    return bought.activities_of_cases(
        Batch(labelled, batch.decisions, batch.randomness), max_labels
    )


def relabel_by(traces: TraceBatch, by: str) -> TraceBatch:
    """Returns the cases with labels in place of activities; OTHER where an event has none.

    Args:
        traces: Complete cases.
        by: activity, pair, or an attribute of events or of the case.
    """
    if by == declared.ACTIVITY or not traces.n_events:
        return traces
    if by == declared.PAIR:
        width, codes = len(traces.vocabulary), traces.activities.astype(np.int64)
        pairs = np.append(0, codes[:-1]) * width + codes
        used, labels = np.unique(np.where(traces.is_first, -1, pairs), return_inverse=True)
        names = traces.vocabulary.names.to_pylist()
        texts = [
            OTHER if key < 0 else json.dumps([names[key // width], names[key % width]])
            for key in used.tolist()
        ]
        # The first event has the label of the second, if there is one, so that it adds none.
        second = np.minimum(traces.offsets[:-1] + 1, traces.n_events - 1)
        labels = labels.astype(np.int64)
        labels[traces.offsets[:-1]] = np.where(
            traces.lengths > 1, labels[second], labels[traces.offsets[:-1]]
        )
        return _relabelled(traces, labels, pa.array(texts, pa.string()))
    values = traces.attributes.get(by)
    if values is None:
        return _relabelled(traces, np.zeros(traces.n_events, np.int64), pa.array([OTHER]))
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    texts = pa.concat_arrays([encoded.dictionary.cast(pa.string()), pa.array([OTHER])])
    texts = pc.if_else(pc.equal(texts, ""), OTHER, texts)  # a group has a name
    labels = np.asarray(pc.fill_null(encoded.indices, len(texts) - 1), np.int64)
    return _relabelled(traces, labels, texts)


def _relabelled(traces: TraceBatch, labels: np.ndarray, texts: pa.Array) -> TraceBatch:
    vocabulary = ActivityVocabulary.of(texts)
    codes = vocabulary.codes(texts)[labels]
    return replace(traces, activities=codes, vocabulary=vocabulary)


def count_times(batch: Batch, indicator: declared.Timed) -> summands.CellSums:
    """Counts cases by the bin of an indicator's time, of `LONGEST_US`.

    Args:
        batch: Complete cases, and what was decided before.
        indicator: What it is.
    """
    numbers = summands.numbers_added(indicator, indicator.steps_of, batch.traces)
    bins = np.searchsorted(LONGEST_US, numbers.values[numbers.is_there])
    return summands.CellSums(np.bincount(bins, minlength=_N_BINS).astype(np.int64))


def selection_parts(params: IndicatorParams) -> tuple[Part, ...]:
    """Returns the parts that choose what is not declared."""
    parts = []
    if params.public_range is None and any(i.by in declared.PERIODS for i in params.indicators):
        calendar, zone = WorkingCalendar(), params.calendar_time_zone
        parts.append(time_range_part(calendar, zone, params.max_units, BOUGHT))
    share = VOCABULARY_SHARE / max(len(params.selected_groups), 1)
    parts += [_groups_part(params, by, most, share) for by, most in params.selected_groups.items()]
    times = params.selected_times
    each = min(_BOUND_SHARE, _BOUND_SHARES / max(len(times), 1))
    return (*parts, *(_bound_part(params, indicator, each) for indicator in times))


def _groups_part(params: IndicatorParams, by: str, most: int, share: Fraction) -> Part:
    name = selection_name(by)
    # A case has one value of its own attribute.
    max_labels = 1 if is_case_attribute(by) else params.max_activities
    changed = bought.changed_names(max_labels, params.max_units)
    what = {declared.ACTIVITY: "activities", declared.PAIR: "pairs of activities"}.get(
        by, f"values of {by}"
    )

    def does(means: Allowances) -> str:
        likely = bought.likely_names(means[name], max_labels, params.max_units)
        return (
            f"chooses {likely.replace('activities', what, 1)}, the {most:,} most frequent at most"
        )

    def decide(given: Given) -> GroupsDecision:
        counted, allowance = given.statistics[name], given.means[name]
        chosen = bought.choose_vocabulary(
            counted, allowance, changed, given.randomness, most + 1, purpose=name
        )
        names = chosen.vocabulary.names
        return GroupsDecision(names.filter(pc.not_equal(names, OTHER)), by == declared.PAIR)

    needs = (Sums(name, share, changed, bought.NAME_UNITS, is_open=True, is_l2=True),)
    counters = {name: Counted(ActivityCounts, count_labels, (by, max_labels))}
    return Part(name, needs, does, decide, counters, BOUGHT, chosen=name)


def _bound_part(params: IndicatorParams, indicator: declared.Timed, share: Fraction) -> Part:
    name = longest_time_name(indicator)

    def decide(given: Given) -> LongestTimeDecision:
        cases = given.statistics[name].cells(_N_BINS)
        epsilon = given.means[name].epsilon
        place = choose_quantile(cases, epsilon, _QUANTILE, params.max_units, given.randomness, name)
        return LongestTimeDecision(int(LONGEST_US[min(place + _FURTHER, len(LONGEST_US) - 1)]))

    does = "chooses a round time, 4 to 8 times what about three of four cases do not exceed"
    needs, counters = (
        (Choice(name, share),),
        {name: Counted(summands.CellSums, count_times, (indicator,))},
    )
    return Part(name, needs, lambda means: does, decide, counters, BOUGHT, chosen=f"the {name}")


# --- What is released of noisy sums and chosen quantiles: numbers with intervals, in long form. ---
# The parts of such a release are here as well: what each counts, gets of the budget, says and
# decides.


SUMS = "sums"
"""The round of all sums, and of the quantiles."""


class NoisySums(contract.Decision, wire_name="noisy-cell-sums"):
    """Sums with noise.

    Attributes:
        values: int64[n], in lattice steps.
    """

    values: np.ndarray


def noise_of(term: terms.Term, means: Allowances, params: RequestedParams) -> SumNoise:
    """Returns the noise of a term's sums.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    return means[term.name].noise(term.changed.of_cases(params.max_units), term.units)


def noises_of(params: IndicatorParams, means: Allowances) -> dict[str, quantiles.NoisyNumber]:
    """Returns 0 with the noise of the sums of each term, in their own units, by its name.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    noises = {term: noise_of(term, means, params) for term in weighed_terms(params)}
    return {
        term.name: quantiles.NoisyNumber(
            0.0, {term.name: noise.width / term.units}, noise.is_laplace
        )
        for term, noise in noises.items()
    }


def count_term(batch: Batch, term: terms.Term, params: IndicatorParams) -> summands.CellSums:
    """Counts a term.

    Args:
        batch: Complete cases, and what was decided before.
        term: Of what is asked for.
        params: What is asked for.
    """
    return summands.CellSums(term.count(batch.traces, Known(params, batch.decisions)))


def _cells_of(term: terms.Term, given: Given, params: IndicatorParams) -> np.ndarray:
    cells: summands.CellSums = given.statistics[term.name]
    return cells.cells(term.n_cells(Known(params, given.decisions)))


def parts_of(params: IndicatorParams) -> tuple[Part, ...]:
    """Returns the parts in the order in which they are decided."""
    parts = list(selection_parts(params))
    reality = _reality(weighed_terms(params))  # the first says it of all
    for term, share in counted_terms(params).items():
        if terms.is_chosen(term):
            parts.append(_quantiles_part(term, share, params))
        else:
            parts.append(_sums_part(term, share, reality, params))
            reality = ""
    return tuple(parts)


def _reality(weighed: Iterable[terms.Term]) -> str:
    changes = "; ".join(dict.fromkeys(map(_change, weighed)))
    return (
        f"One case is in one group of an indicator, and changes at most: {changes}. Exact discrete "
        "noise on all of these, also of groups that no case is in, covers that. Means, shares and "
        "intervals are computed from the noisy numbers only."
    )


def _change(term: terms.Term) -> str:
    """What one case changes of a term at most, in words: its `changed`."""
    if isinstance(term, terms.SumOf):
        return "each sum by half of the distance of its bounds, since their middle is taken off"
    if isinstance(term, terms.EventsOf):
        return f"numbers of events by {term.changed.l1 // term.units} in all"
    if isinstance(term, terms.BinsOf):
        running = "the running sums that quantiles are read from by 1 each, where they have its bin"
        return running if term.is_running else "one bin of each histogram by 1"
    if term.changed.linf < term.units:
        return "each number of cases with a property by 1/2, since half of all cases is taken off"
    return "each number of cases by 1"


def _sums_part(term: terms.Term, share: Fraction, reality: str, params: IndicatorParams) -> Part:
    need = Sums(term.name, share, term.changed.of_cases(params.max_units), term.units)

    of = "events" if isinstance(term, terms.EventsOf) else "cases"
    if isinstance(term, terms.SumOf):
        of = "occurrences" if isinstance(term.indicator, declared.Frequency) else "times the range"

    def decide(given: Given, noise: SumNoise) -> NoisySums:
        sums = _cells_of(term, given, params)
        places = np.arange(len(sums))
        return NoisySums(noisy_sums(sums, noise, term.name, places, given.randomness))

    return noisy_part(
        need,
        {term.name: Counted(summands.CellSums, count_term, (term, params))},
        lambda n: f"discrete {n.kind} noise of {n.half_width:,} {of} (95 %) on each number",
        decide,
        SUMS,
        reality,
    )


def _quantiles_part(bins: terms.BinsOf, share: Fraction, params: IndicatorParams) -> Part:
    indicator = bins.indicator
    assert isinstance(indicator, declared.Measured)
    name, wanted = indicator.title, indicator.quantiles
    n_choices = 2 * len(wanted) * bins.n_steps

    def does(means: Allowances) -> str:
        epsilon = means[name].epsilon / n_choices
        ranks = max(
            quantiles.rank_half_width(epsilon, quantile, params.max_units) for quantile in wanted
        )
        said = {"n": len(wanted), "ranks": math.ceil(ranks)}
        return sentence("private-indicators", "quantiles", params, **said)

    def decide(given: Given) -> quantiles.PointsDecision:
        rows = _cells_of(bins, given, params).reshape(-1, bins.n_bins)
        own = given.means[name].epsilon / n_choices, params.max_units, given.randomness, name
        return quantiles.choose_points(rows, wanted, *own)

    needs: tuple[Need, ...] = (Pure(name, share),)
    counters = {bins.name: Counted(summands.CellSums, count_term, (bins, params))}
    reality = f"Chosen by permute-and-flip on ranks, which one case moves by at most one: {name}."
    return Part(name, needs, does, decide, counters, SUMS, reality)


_NO_BOUNDS = (0.0, 0.0)


Noises = Mapping[str, quantiles.NoisyNumber]
Measurements = tuple[Mapping[str, np.ndarray], Noises, Mapping[str, np.ndarray]]
"""All that was measured of the terms: what figures are made of.

First float64[n_cells] of each term, by its name: numbers of cases and of events, sums in ranges of
the numbers that are summed up, and running sums. Then 0 with the noise of each, in the same. Of
indicators whose quantiles were chosen, by title, int64[n, 2]: bins of `terms.grid` between which
they lie, by group, step and quantile, the last fastest.
"""


def measurements_of(
    params: IndicatorParams, decided: Mapping[str, Any], means: Allowances
) -> Measurements:
    """Returns what a release measured.

    Args:
        params: What was asked for.
        decided: What the parts decided, by their names.
        means: What each need spent, from which its noise follows.
    """
    values = {term.name: decided[term.name].values / term.units for term in weighed_terms(params)}
    titles = [term.indicator.title for term in counted_terms(params) if terms.is_chosen(term)]
    chosen = {title: decided[title].points.reshape(-1, 2) for title in titles}
    return values, noises_of(params, means), chosen


class NumbersOfCases:
    """The numbers that figures are made of, each with noise of its own."""

    params: RequestedParams
    noises: Noises

    def number(self, term: terms.Term, place: int) -> quantiles.NoisyNumber:
        """Returns a number of a term by its place; by default 0, where its noise alone matters."""
        return self.noises[term.name]

    def cases(self, population: summands.Population, group: int = 0) -> quantiles.NoisyNumber:
        """Returns the number of cases of a group of a population."""
        term = terms.CasesOf(population)
        number = self.number(term, group)
        return number.plus(0.5, self.cases(summands.Population())) if term.is_centred else number

    def cases_of(
        self, indicator: declared.Indicator, group: int = 0, place: int = 0
    ) -> quantiles.NoisyNumber:
        """Returns the cases of a group that have a number of an indicator, for one of its steps."""
        if indicator.is_of_all:
            return self.cases(summands.Population.of(indicator), group)
        term = terms.CasesWith(indicator, self.params.n_steps_of(indicator))
        number = self.number(term, place)
        if not term.is_centred:
            return number
        return number.plus(0.5, self.cases(term.population, group))


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


class _Figures(NumbersOfCases):
    def __init__(self, known: Known, measured: Measurements) -> None:
        self.known, self.params = known, known.params
        self.values, self.noises, self.chosen = measured

    def number(self, term: terms.Term, place: int) -> quantiles.NoisyNumber:
        """A measured number by its place; its noise is independent of that of any other term."""
        return replace(super().number(term, place), value=float(self.values[term.name][place]))

    def rows(self, indicator: declared.Indicator) -> Iterator[IndicatorRow]:
        """The rows of an indicator, by group and step."""
        groups = self.known.groups(summands.Population.of(indicator)).labels
        names = [""]
        if indicator.is_by_steps:
            names = [step_text(step) for step in self.known.steps(indicator)]
        figures: Callable[[Any, int, int, str], Iterator[IndicatorRow]] = self._figure
        if isinstance(indicator, declared.Measured) and not isinstance(indicator.of, str):
            figures = self._quantiles
        elif isinstance(indicator, declared.Measured) and indicator.of == "histogram":
            figures = self._histogram
        for group, label in enumerate(groups):
            for step, name in enumerate(names):
                yield from figures(indicator, group, group * len(names) + step, label or name)

    def _figure(
        self, indicator: declared.Indicator, group: int, place: int, label: str
    ) -> Iterator[IndicatorRow]:
        kind, bounds = DERIVED, _NO_BOUNDS
        n_steps = self.params.n_steps_of(indicator)
        if isinstance(indicator, declared.Workload):
            kind, number = MEASURED, self.number(terms.EventsOf(indicator, n_steps), place)
            interval = quantiles.number_of(number)
        elif isinstance(indicator, declared.Cases):
            population = summands.Population.of(indicator)
            kind = DERIVED if terms.CasesOf(population).is_centred else MEASURED
            interval = quantiles.number_of(self.cases(population, group))
        else:
            term = terms.SumOf(indicator, n_steps)
            low, high = term.summand(self.known)
            total = quantiles.NoisyNumber(0.0, {}).plus(high - low, self.number(term, place))
            cases = self.cases_of(indicator, group, place)
            number = total.plus((low + high) / 2, cases)
            if isinstance(indicator, declared.Frequency):
                interval = quantiles.number_of(number)
            elif isinstance(indicator, declared.Measured) and indicator.of == "sum":
                interval = quantiles.number_of(number, is_count=False)
                if low >= 0:
                    interval = quantiles.Interval95(*(max(n, 0.0) for n in interval))
                n_cases = max(cases.value, 1.0)
                bounds = low * n_cases, high * n_cases
            else:
                interval = quantiles.mean_of(total, cases, low, high)
                bounds = low, high
        yield _row(indicator, label, interval, indicator.unit, kind, bounds)

    def _quantiles(
        self, indicator: declared.Measured, group: int, place: int, label: str
    ) -> Iterator[IndicatorRow]:
        low, high = summands.bounds_of(indicator, self.known.selected_us(indicator))
        n = len(indicator.quantiles)
        if is_running(indicator, self.params):
            term = terms.BinsOf(indicator, self.params.n_steps_of(indicator), is_running=True)
            first = place * term.n_bins
            running = self.values[term.name][first : first + term.n_bins]
            half = self.noises[term.name].half_width
            places = quantiles.quantiles_of_running(running, indicator.quantiles, half)
            points = terms.coarse_grid()
        else:
            ends = self.chosen[indicator.title][place * n : (place + 1) * n]
            places = [quantiles.interval_between(*spot) for spot in ends.tolist()]
            points = terms.grid()
        for quantile, spot in zip(indicator.quantiles, places, strict=True):
            value, least, most = (quantiles.value_at(end, low, high, points) for end in spot)
            rounding = (high - low) / (2 * summands.RANGE)
            interval = quantiles.Interval95(
                value, max(least - rounding, low), min(most + rounding, high)
            )
            group_text = _joined(label, decimal_text(quantile) if n > 1 else "")
            yield _row(indicator, group_text, interval, indicator.unit, MEASURED, (low, high))

    def _histogram(
        self, indicator: declared.Measured, group: int, place: int, label: str
    ) -> Iterator[IndicatorRow]:
        """The bins, none negative and together as many as cases were measured, by them or apart."""
        term = terms.BinsOf(indicator, self.params.n_steps_of(indicator))
        first = place * term.n_bins
        counts = self.values[term.name][first : first + term.n_bins]
        half = self.noises[term.name].half_width
        total, population = counts.sum(), summands.Population.of(indicator)
        if indicator.is_of_all and terms.CasesOf(population).name in self.values:
            total = self.cases(population, group).value
        fitted = onto_simplex(counts[None, :], np.array([max(total, 1.0)]))[0]
        low, high = summands.bounds_of(indicator, self.known.selected_us(indicator))
        edges = [low + (high - low) * b / term.n_bins for b in range(term.n_bins + 1)]
        for b, (count, value) in enumerate(zip(counts, fitted, strict=True)):
            ends = quantiles.count_within(float(count), half)
            interval = quantiles.Interval95(round(value), min(ends[0], value), max(ends[1], value))
            of = _edges_text(indicator, edges[b], edges[b + 1])
            yield _row(indicator, _joined(label, of), interval, "cases", DERIVED)


def step_text(step: declared.Group) -> str:
    """Returns an activity as it is, and a pair with an arrow."""
    return step if isinstance(step, str) else f"{step[0]} → {step[1]}"


def _edges_text(indicator: declared.Measured, low: float, high: float) -> str:
    if isinstance(indicator, declared.Timed):
        return f"{duration_text(round(low))} to {duration_text(round(high))}"
    return f"{low:g} to {high:g}"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _row(
    indicator: declared.Indicator,
    group: str,
    interval: quantiles.Interval95,
    unit: str,
    kind: str,
    bounds: tuple[float, float] = _NO_BOUNDS,
) -> IndicatorRow:
    """The row of a number; of what can be negative, or is 0, the grade is by its bounds."""
    one = _SECOND_US if unit == "s" else 1
    scale: Scale = "share" if unit == SHARE else "position" if bounds[0] < 0 else "amount"
    ends: tuple[float, float, float] = interval
    most = 0 if getattr(indicator, "of", "") == "sum" else bounds[1]
    # The interval of a quantile reaches to chosen points, which is wide enough.
    if scale == "amount" and not getattr(indicator, "quantiles", ()):
        lows, highs = wider_ends(*np.array(ends)[:, None])
        ends = ends[0], lows[0], min(highs[0], most or np.inf)
    value, low, high = (float(f"{number / one:.9g}") for number in ends)
    ends = value, min(low, value), max(high, value)
    grade = grade_of(*ends, scale, (bounds[1] - bounds[0]) / one)
    return IndicatorRow(indicator.title, group or None, *ends, unit, kind, grade)

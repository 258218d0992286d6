"""The sums of indicators, against sums over cases in plain Python; and the grids of quantiles."""

from __future__ import annotations

import datetime
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.indicator_logs import AMOUNT, KIND, Case, Event, case_lists, log_of
from tests.support.logs import trace_batch
from tracecloak.anonymizers.indicators import summands, terms
from tracecloak.anonymizers.indicators.declare_rules import OF_ONE, OF_TWO, cases_that_keep
from tracecloak.anonymizers.indicators.declared import PERIODS, Indicator, Measured, OneIndicator
from tracecloak.anonymizers.indicators.figures import GroupsDecision
from tracecloak.anonymizers.indicators.params import IndicatorParams, Known, counted_terms
from tracecloak.anonymizers.indicators.summands import RANGE, Population
from tracecloak.anonymizers.rigorous.bought import cases_from
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch

HOUR = 3_600_000_000
DECLARED: dict[str, Any] = {
    "epsilon": "1",
    "service_times": True,
    "first_date": "2024-01-05",
    "last_date": "2024-01-31",
    "indicators": [
        "cases",
        "cases where.occurs=A",
        f"cases by={KIND} groups=k2|k1|none where.occurs=B",
        "throughput at_most=2h",
        "throughput of=0.25|0.5 at_most=2h",
        "throughput of=0.1|0.2|0.3|0.4|0.5|0.6|0.7|0.8|0.9|0.95|0.99 at_most=2h name=q",
        "throughput of=histogram n_bins=5 at_most=2h by=week",
        "within limit=90m by=week",
        "rework",
        "rework by=activity groups=A|C",
        "rule template=existence activity=B n=2 within=1h",
        "frequency activity=A at_most=2 where.occurs=C",
        f"rule template=response activity=A then=B by={KIND} groups=k2|k1|none",
        "waiting by=pair groups=A>B|B>A|C>C at_most=1d",
        f"waiting activity=B then=C of=sum at_most=1h by={KIND} groups=k2|k1|none",
        "working by=activity groups=B|A at_most=1h of=histogram n_bins=3",
        f"amount attribute={AMOUNT} bounds=-1|100 where.attribute={KIND} where.equals=k1",
        f"amount attribute={AMOUNT} bounds=-1|100 of=median",
        "workload groups=R2|R1 at_most=2 where.occurs=A",
    ],
}
PARAMS = IndicatorParams(**DECLARED)
KNOWN = Known(PARAMS, {})
TERMS = list(counted_terms(PARAMS))


def numbers_of(indicator: Any, case: Case) -> list[float | None]:
    """The numbers of one case, by step, where an indicator has numbers."""
    steps = KNOWN.steps(indicator)
    match indicator.indicator:
        case "throughput":
            return [case.throughput_us]
        case "within":
            return [case.throughput_us <= indicator.limit]
        case "rework":
            return [case.names.count(step) > 1 for step in steps] or [case.repeats]
        case "frequency":
            return [case.names.count(step) for step in steps]
        case "rule" if indicator.template == "existence":
            soon = (e for e in case.events if e.time_us <= case.events[0].time_us + HOUR)
            return [sum(event.activity == "B" for event in soon) > 1]
        case "rule":
            return [all("B" in case.names[i:] for i, n in enumerate(case.names) if n == "A")]
        case "waiting":
            return [case.wait_us(*step) for step in steps]
        case "working":
            return [case.work_us(step) for step in steps]
    assert indicator.indicator == "amount"
    return [case.number]


def bounds_of(indicator: Any) -> tuple[float, float]:
    if indicator.indicator == "amount":
        low, high = map(float, indicator.bounds)
        return low, high
    if isinstance(indicator, Measured):
        return 0, indicator.at_most  # type: ignore[attr-defined]
    return 0, getattr(indicator, "at_most", 1)


def place_of(indicator: Indicator, number: float) -> int:
    low, high = bounds_of(indicator)
    return round((min(max(number, low), high) - low) / (high - low) * RANGE)


def group_of(population: Population, case: Case) -> int | None:
    """The group of one case, found one after the other."""
    where = population.where
    if where is not None and where.occurs not in (None, *case.names):
        return None
    if where is not None and where.attribute is not None and case.kind != where.equals:
        return None
    groups = KNOWN.groups(population)
    if groups.borders_us is not None:
        start, borders = case.events[0].time_us, groups.borders_us.tolist()
        places = [g for g in range(len(groups.labels)) if borders[g] <= start < borders[g + 1]]
        return places[0] if places else None
    if groups.attribute is None:
        return 0
    return groups.labels.index(case.kind) if case.kind in groups.labels else None


def naive(term: Any, cases: list[Case]) -> Counter[Any]:
    """The sums of a term by group, step and bin, exactly."""
    sums: Counter[Any] = Counter()
    population = term.population
    for case in cases:
        group = group_of(population, case)
        if isinstance(term, terms.CasesOf):
            if term.is_centred:
                sums[0] += UNITS // 2 if group is not None else -UNITS // 2
            elif group is not None:
                sums[group] += UNITS
            continue
        if group is None:
            continue
        indicator, n_steps = term.indicator, term.shape(KNOWN)[1]
        if isinstance(term, terms.EventsOf):
            counts = case.events_by([str(step) for step in indicator.groups], indicator.at_most)
            for step, n in enumerate(counts):
                sums[step] += n * UNITS
            continue
        for step, number in enumerate(numbers_of(indicator, case)):
            cell = group * n_steps + step
            if isinstance(term, terms.CasesWith):
                centre = UNITS // 2 if term.is_centred else 0
                sums[cell] += (UNITS if number is not None else 0) - centre
            elif number is None:
                continue
            elif isinstance(term, terms.SumOf):
                sums[cell] += place_of(indicator, number) - RANGE // 2
            else:
                place = place_of(indicator, number)
                sums[cell * term.n_bins + bin_of(term, place)] += 1
    return sums


def bin_of(term: terms.BinsOf, place: int) -> int:
    if term.indicator.of == "histogram":  # type: ignore[attr-defined]
        return sum(place >= round(b * RANGE / term.n_bins) for b in range(1, term.n_bins))
    points = terms.coarse_grid() if term.is_running else terms.grid()
    return next(i for i, point in enumerate(points.tolist()) if place <= point)


@given(case_lists(), st.booleans())
def test_every_term_is_the_sum_over_its_cases(cases: list[Case], is_plain: bool) -> None:
    traces = log_of(cases, "ABCY" if is_plain else None, is_plain) if is_named(cases) else None
    traces = log_of(cases, is_plain=is_plain) if traces is None else traces
    for term in TERMS:
        cells = term.count(traces, KNOWN)
        assert cells.dtype == np.int64, term.name
        assert len(cells) == term.n_cells(KNOWN), term.name
        expected = naive(term, cases)
        if isinstance(term, terms.BinsOf) and term.is_running:
            rows = np.split(cells, term.n_cells(KNOWN) // term.n_bins)
            cells = np.concatenate([to_bins(row) for row in rows])
        elif isinstance(term, terms.BinsOf):
            cells = cells // term.units
        assert {i: n for i, n in enumerate(cells.tolist()) if n} == {
            i: n for i, n in expected.items() if n
        }, term.name


def is_named(cases: list[Case]) -> bool:
    return {name for case in cases for name in case.names} <= set("ABC")


def to_bins(measured: np.ndarray) -> np.ndarray:
    """Running sums as the cases of each bin."""
    above = cases_from(measured)
    return np.rint(above - np.append(above[1:], 0)).astype(np.int64)


BOUGHT = IndicatorParams(
    epsilon="10",
    indicators=[
        f"cases by={KIND}", f"throughput by={KIND} at_most=1d of=median",
        f"throughput by={KIND} at_most=1d of=0.1|0.2|0.3|0.4|0.5|0.6|0.7|0.8|0.9 name=q",
        f"amount by={KIND} attribute={AMOUNT} bounds=0|1", "rework by=activity",
        "frequency by=activity", "waiting by=pair at_most=1d",
        "waiting by=pair at_most=1d of=median", "waiting by=pair at_most=1d of=histogram",
        "workload", "within limit=1d",
    ],
)  # fmt: skip


def bought(names: dict[str, list[str]]) -> Known:
    decided = {
        f"groups by {by}": GroupsDecision(pa.array(names.get(by, []), pa.string()), by == "pair")
        for by in BOUGHT.selected_groups
    }
    return Known(BOUGHT, decided)


@pytest.mark.parametrize(
    "names",
    [{}, {KIND: ["k1"]}, {"activity": ["A", "B"], "pair": ['["A", "B"]'], "org:resource": ["R1"]}],
    ids=["nothing", "values", "steps"],
)
def test_there_are_as_many_cells_as_was_bought_even_if_that_is_nothing(
    names: dict[str, list[str]],
) -> None:
    """Else the sums of a term would be taken for those of the next one, with too little noise."""
    known = bought(names)
    some = Case((Event("A", 0, "R1"), Event("B", HOUR, "R2"), Event("A", HOUR)), "k1", "0.5")
    for cases in ([], [some], [some, some]):
        traces = log_of(cases)
        for term in counted_terms(BOUGHT):
            assert len(term.count(traces, known)) == term.n_cells(known), term.name


def test_weights_of_numbers_of_cases() -> None:
    assert terms.weight_of([]) == 0
    assert terms.weight_of([Fraction(1)]) == Fraction(63, 100)
    # Eight means of one number: its share is twice as large.
    assert terms.weight_of([Fraction(1)] * 8) == Fraction(126, 100)
    assert terms.weight_of([Fraction(3)] * 8) == 3 * Fraction(126, 100)


# --- Summands -------------------------------------------------------------------------------------


READ = pydantic.TypeAdapter(OneIndicator)


@lru_cache
def read(text: str) -> Any:
    return READ.validate_python(text)


def test_bounds_however_far_apart_keep_a_case_between_0_and_the_range() -> None:
    for low, high in [(0.0, 1e-300), (-1e300, 1e300), (1e15, 1e15 + 1)]:
        summand = summands.Summand(low, high)
        values = np.array([low, high, (low + high) / 2, -1e308, 1e308, 0.0])
        places = summand.places(values)
        assert ((places >= 0) & (places <= summands.RANGE)).all()
        assert places[:2].tolist() == [0, summands.RANGE]


def test_an_attribute_that_the_log_does_not_have_is_of_no_case() -> None:
    traces = log_of([Case((Event("A", 0),), amount="5")])
    other = read("amount attribute=case:other bounds=0|1")
    numbers = summands.numbers_added(other, (), traces)
    assert numbers.is_there.tolist() == [[False]]


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


def us(text: str, zone: str = "UTC") -> int:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(zone))
    return (moment - EPOCH) // MICROSECOND


def test_a_value_is_found_as_it_is_written_in_plain_texts_and_in_dictionaries() -> None:
    texts = ["a", None, "b", "A", "a ", "", "a"]
    plain = pa.array(texts, pa.string())
    # A dictionary may hold a missing value, too, and values that nothing has.
    hostile = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, 2, 3, 4, 5, 1], pa.int32()),
        pa.array([None, "a", "b", "A", "a ", "", "c"], pa.string()),
    )
    for values in (plain, plain.dictionary_encode(), hostile):
        assert summands.value_places(values, ["b", "a"]).tolist() == [1, -1, 0, -1, -1, -1, 1]
        assert summands.value_places(values, []).tolist() == [-1] * 7
    assert summands.value_places(plain[:0], ["a"]).tolist() == []


def naive_label(period: str, moment_us: int, zone: str) -> str:
    local = (EPOCH + moment_us * MICROSECOND).astimezone(ZoneInfo(zone))
    year, week, _ = local.isocalendar()
    return {
        "day": f"{local:%Y-%m-%d}",
        "week": f"{year}-W{week:02}",
        "month": f"{local:%Y-%m}",
        "quarter": f"{local.year}-Q{(local.month - 1) // 3 + 1}",
        "year": f"{local.year}",
    }[period]


# Clocks of half an hour, of a day that a place left out, and of changes by night and at midnight.
ZONES = ("UTC", "Europe/Amsterdam", "Asia/Kolkata", "America/Santiago", "Africa/Cairo", "Asia/Gaza")
SPAN = us("2020-01-01"), us("2025-12-31")


@given(
    st.sampled_from(PERIODS), st.sampled_from(ZONES), st.integers(*SPAN), st.integers(0, 500),
    st.data(),
)  # fmt: skip
def test_a_case_is_in_the_period_of_the_clock_of_the_place(
    period: str, zone: str, first_us: int, n_days: int, data: st.DataObject
) -> None:
    last_us = first_us + 86_400_000_000 * n_days + 1
    groups = summands.periods_of(period, first_us, last_us, zone)
    assert groups.borders_us is not None and (np.diff(groups.borders_us) > 0).all()
    assert len(set(groups.labels)) == len(groups.labels)
    near = [int(border) + d for border in groups.borders_us for d in (-1, 0, 1)]
    starts = [first_us, last_us - 1, *data.draw(st.lists(st.sampled_from(near), max_size=9))]
    traces = log_of([Case((Event("A", start), Event("B", start + 1))) for start in starts])
    places = groups.places(traces).tolist()
    for start, place in zip(starts, places, strict=True):
        if place < 0:
            assert not groups.borders_us[0] <= start < groups.borders_us[-1]
        else:
            assert groups.labels[place] == naive_label(period, start, zone)
    assert places[0] == 0
    assert places[1] == len(groups.labels) - 1


def test_a_range_of_no_time_has_no_period() -> None:
    with pytest.raises(UsageError, match="there is no month between the dates"):
        summands.periods_of("month", us("2024-01-01"), us("2023-12-31"), "UTC")


RuleCase = list[tuple[str, int]]


def batch(cases: list[RuleCase]) -> TraceBatch:
    """Cases of activities and times in microseconds."""
    return trace_batch(
        [(f"c{number}", name, time) for number, case in enumerate(cases) for name, time in case]
    )


def keeps(case: RuleCase, template: str, n: int, within: int | None) -> bool:
    """The same of one case, as one would say it; A is the first activity, B the second."""
    begin = case[0][1]

    def near(earlier: int, later: int) -> bool:
        return within is None or case[later][1] - case[earlier][1] <= within

    places = range(len(case))
    a = [i for i in places if case[i][0] == "A"]
    b = [i for i in places if case[i][0] == "B"]
    soon = [i for i in a if within is None or case[i][1] - begin <= within]
    response = all(any(j > i and near(i, j) for j in b) for i in a)
    precedence = all(any(i < j and near(i, j) for i in a) for j in b)
    chain_response = all(i + 1 in b and near(i, i + 1) for i in a)
    chain_precedence = all(j - 1 in a and near(j - 1, j) for j in b)
    return {
        "existence": len(soon) >= n,
        "absence": len(soon) < n,
        "first": case[0][0] == "A",
        "last": len(case) - 1 in soon,
        "response": response,
        "precedence": precedence,
        "succession": response and precedence,
        "chain_response": chain_response,
        "chain_precedence": chain_precedence,
        "chain_succession": chain_response and chain_precedence,
        "not_coexistence": not any(near(min(i, j), max(i, j)) for i in a for j in b),
    }[template]


def timed(case: RuleCase) -> RuleCase:
    """The same events, each as much later than the one before as its number says."""
    times = np.cumsum([since for _, since in case]).tolist()
    return [(name, time) for (name, _), time in zip(case, times, strict=True)]


steps = st.tuples(st.sampled_from("ABC"), st.integers(0, 3))
cases = st.lists(st.lists(steps, min_size=1, max_size=6).map(timed), min_size=1, max_size=6)


@pytest.mark.parametrize("template", [*OF_ONE, *OF_TWO])
@given(log=cases, n=st.integers(1, 3), within=st.none() | st.integers(0, 5))
def test_what_is_found_is_what_plain_loops_find(
    template: str, log: list[RuleCase], n: int, within: int | None
) -> None:
    found = cases_that_keep(batch(log), template, "A", "B", n, within)
    assert found.tolist() == [keeps(case, template, n, within) for case in log]


def test_an_activity_that_never_occurs_breaks_no_rule_that_needs_it_to() -> None:
    traces = batch([[("A", 0)], [("C", 0)]])
    assert cases_that_keep(traces, "precedence", "nowhere", "A").tolist() == [False, True]
    assert cases_that_keep(traces, "existence", "nowhere").tolist() == [False, False]

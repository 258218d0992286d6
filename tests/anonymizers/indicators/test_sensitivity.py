"""What a unit changes of all that has noise, by enumeration of neighbouring tiny logs.

Every case of up to three events of a tiny alphabet, of few times and values, is added to logs of up
to two others; and every pair of some cases, as those of an individual. No term moves further than
its noise is made for, each bound is attained, and all terms and choices together cost no more than
is promised. Controls are
terms that are wrong as terms easily are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.anonymizers.indicators.test_terms import DECLARED
from tests.support.coupled_noise import Coupled, loss_between, run
from tests.support.indicator_logs import Case, Event, log_of
from tests.support.keys import randomness
from tests.support.silence import Silence
from tests.support.tiers import at_night
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.anonymizers.indicators import quantiles, terms
from tracecloak.anonymizers.indicators.errors import PrivateIndicators
from tracecloak.anonymizers.indicators.params import IndicatorParams, Known, counted_terms
from tracecloak.anonymizers.indicators.summands import RANGE, Summand

METHOD = PrivateIndicators()
HOUR = 3_600_000_000
FIRST_US = 1_705_276_800_000_000  # 2024-01-15
GAPS = (0, HOUR, 80 * HOUR)


@lru_cache
def cases_of_one_unit() -> tuple[Case, ...]:
    """All cases of up to three events of two activities, and others with further values."""
    cases = []
    values = itertools.cycle(itertools.product(("k1", "k2", None), ("50", "-9", "1e9", "no", None)))
    for n in (1, 2, 3):
        for names in itertools.product("AB", repeat=n):
            for gaps in {(gap,) * (n - 1): None for gap in GAPS}:
                times = itertools.accumulate((FIRST_US, *gaps))
                events = (
                    Event(name, time, "R1", time - 90 * HOUR)
                    for name, time in zip(names, times, strict=True)
                )
                cases.append(Case(tuple(events), *next(values)))
    hour = [Event(name, FIRST_US + place * HOUR) for place, name in enumerate("BACBCCABA")]
    long = [Event(name, FIRST_US + place * 80 * HOUR, "R2") for place, name in enumerate("BACCABA")]
    cases += [Case(tuple(hour), "k1", "100"), Case(tuple(long), "k1", "-1")]
    cases += [Case((Event("Y", 0),)), Case((Event("Y", 0, "R3"), Event("Y", 10**17)), "k3", "50")]
    return tuple(cases)


OTHERS = (
    Case((Event("A", FIRST_US, "R1"), Event("B", FIRST_US + HOUR, "R2")), "k1", "7"),
    Case((Event("C", FIRST_US, None), Event("C", FIRST_US + 90 * HOUR)), "k2", None),
)


def logs_of_others() -> Iterator[tuple[Case, ...]]:
    """Of none, one and two cases."""
    yield ()
    yield OTHERS[1:]
    yield OTHERS


@dataclass
class Largest:
    """The largest change of a sum that was seen, by norm."""

    l0: int = 0
    l1: int = 0
    l2_squared: int = 0
    linf: int = 0

    def see(self, change: np.ndarray) -> None:
        sizes = np.abs(change).astype(object)
        self.l0 = max(self.l0, int((change != 0).sum()))
        self.l1 = max(self.l1, int(sizes.sum()))
        self.l2_squared = max(self.l2_squared, int((sizes**2).sum()))
        self.linf = max(self.linf, int(sizes.max(initial=0)))

    def is_within(self, bound: Sensitivity) -> bool:
        return (
            self.l0 <= bound.l0
            and self.l1 <= bound.l1
            and self.l2_squared <= bound.l2_squared
            and self.linf <= bound.linf
        )


def largest_changes(
    of: Sequence[terms.Term], known: Known, units: Sequence[tuple[Case, ...]]
) -> list[Largest]:
    """What the units change of each term, each added to every log of others."""
    found = [Largest() for _ in of]
    for others in logs_of_others():
        before = [term.count(log_of(others), known) for term in of]
        for unit in units:
            traces = log_of([*others, *unit])
            for term, exact, largest in zip(of, before, found, strict=True):
                largest.see(term.count(traces, known) - exact)
    return found


def units_of(m: int) -> list[tuple[Case, ...]]:
    """All cases alone, or all pairs of some of them."""
    cases = cases_of_one_unit()
    if m == 1:
        return [(case,) for case in cases]
    return list(itertools.combinations_with_replacement(cases[:1] + cases[-4:] + cases[12::12], m))


PARAMS = IndicatorParams(**DECLARED)
KNOWN = Known(PARAMS, {})
TERMS = list(counted_terms(PARAMS))


@pytest.mark.parametrize("m", [1, 2])
def test_no_unit_changes_a_term_by_more_than_its_noise_is_made_for_and_some_by_as_much(
    m: int,
) -> None:
    for term, seen in zip(TERMS, largest_changes(TERMS, KNOWN, units_of(m)), strict=True):
        bound = term.changed.of_cases(m)
        assert seen.is_within(bound), (term.name, seen, bound)
        attained = (seen.l1, seen.l2_squared, seen.linf)
        assert attained == (bound.l1, bound.l2_squared, bound.linf), term.name


@dataclass(frozen=True)
class NotClipped(terms.SumOf):
    """A number beyond its bounds counts as it is."""

    def summand(self, known: Known) -> Summand:  # type: ignore[override]
        own = super().summand(known)

        class Unclipped(Summand):
            def places(self, values: np.ndarray, n_steps: int = RANGE) -> np.ndarray:
                share = (values - self.low) / (self.high - self.low)
                return np.rint(share * n_steps).astype(np.int64)

        return Unclipped(own.low, own.high)


@dataclass(frozen=True)
class NotCentred(terms.SumOf):
    """Nothing is taken off the numbers."""

    def count(self, traces: Any, known: Any) -> np.ndarray:
        numbers = self.numbers(traces, known)
        n_there = np.array([numbers.is_there[self.places(traces, known) >= 0].sum()])
        return super().count(traces, known) + RANGE // 2 * n_there


@dataclass(frozen=True)
class OfTwoBins(terms.BinsOf):
    """A case is in its bin and in the next one."""

    def bins(self, traces: Any, known: Any) -> np.ndarray:
        own = super().bins(traces, known)
        return own + np.roll(own, 1, axis=1)


@dataclass(frozen=True)
class OfEveryStep(terms.CasesWith):
    """A case counts once for each time that it has a number, whatever the steps."""

    def count(self, traces: Any, known: Any) -> np.ndarray:
        return super().count(traces, known) * self.n_steps


@dataclass(frozen=True)
class WithoutCap(terms.EventsOf):
    """All events of a case count."""

    def count(self, traces: Any, known: Any) -> np.ndarray:
        workload = self.indicator.model_copy(update={"at_most": 100})
        return terms.EventsOf(workload, self.n_steps).count(traces, known)


@dataclass(frozen=True)
class OfAllGroups(terms.CasesOf):
    """A case of one group counts in the next one, too."""

    def count(self, traces: Any, known: Any) -> np.ndarray:
        own = super().count(traces, known)
        return own + np.roll(own, 1)


def of_kind(kind: type, has: str = "") -> Any:
    return next(term for term in TERMS if type(term) is kind and has in term.name)


def broken(name: str) -> terms.Term:
    if name == "a case in two groups":
        return OfAllGroups(of_kind(terms.CasesOf, "by case:kind").population)
    kind, base = {
        "a summand that is not clipped": (NotClipped, of_kind(terms.SumOf, "throughput")),
        "a centred sum that takes nothing off": (NotCentred, of_kind(terms.SumOf, "within")),
        "a histogram of two bins": (OfTwoBins, of_kind(terms.BinsOf, "histogram of throughput")),
        "running sums of two bins": (OfTwoBins, of_kind(terms.BinsOf, "q,")),
        "a case that counts for every step": (OfEveryStep, of_kind(terms.CasesWith, "by pair")),
        "events without a cap": (WithoutCap, of_kind(terms.EventsOf)),
    }[name]
    return kind(**vars(base))


def test_a_term_that_is_wrong_is_caught() -> None:
    for name in [
        "a summand that is not clipped",
        "a centred sum that takes nothing off",
        "a histogram of two bins",
        "running sums of two bins",
        "a case that counts for every step",
        "events without a cap",
        "a case in two groups",
    ]:
        term = broken(name)
        [seen] = largest_changes([term], KNOWN, units_of(1))
        assert not seen.is_within(term.changed)


@dataclass
class Scores(Silence):
    """Notes the scores of choices, and chooses the first."""

    def select(self, stream: Any, scores: np.ndarray, *given: Any, **named: Any) -> int:
        super().select(stream, scores, *given, **named)
        return 0


def scores_of(bins: np.ndarray, shares: Sequence[Fraction], m: int) -> Scores:
    noise = Scores()
    keyed = randomness().with_noise(noise)
    quantiles.choose_points(bins, tuple(shares), Fraction(1), m, keyed, "x")
    return noise


def rows_of_bins(n_bins: int, n_cases: int) -> Iterator[np.ndarray]:
    for cases in itertools.product(range(n_cases + 1), repeat=n_bins):
        if sum(cases) <= n_cases:
            yield np.array(cases, np.int64)


@pytest.mark.parametrize("m", [1, 2])
def test_no_unit_moves_the_scores_of_a_choice_further_than_it_is_made_for(m: int) -> None:
    """And some moves them as far, so the choices are no wider than they must be."""
    shares = [Fraction(1, 10), Fraction(1, 2), Fraction(3, 4)]
    largest = [Fraction(0)] * 2 * len(shares)  # each has a lower end and an upper one
    for before in rows_of_bins(4, 3):
        first = scores_of(before[None], shares, m).chosen
        for more in itertools.combinations_with_replacement(range(4), m):
            after = before + np.bincount(more, minlength=4)
            second = scores_of(after[None], shares, m).chosen
            for place, (one, other) in enumerate(zip(first, second, strict=True)):
                assert one[1:] == other[1:] == (Fraction(1), one[2], False)
                moved = Fraction(int(np.abs(one[0] - other[0]).max())) / one[2]
                largest[place] = max(largest[place], moved)
    assert largest == [1] * 2 * len(shares)


def test_a_unit_of_several_groups_moves_each_choice_by_its_cases_there() -> None:
    """So all rows of an end of a quantile together cost no more than one of them."""
    half = [Fraction(1, 2)]
    before = scores_of(np.array([[1, 2, 0], [0, 1, 1]]), half, 2).chosen
    after = scores_of(np.array([[2, 2, 0], [0, 1, 2]]), half, 2).chosen
    moved = [
        Fraction(int(np.abs(one[0] - other[0]).max())) / one[2]
        for one, other in zip(before, after, strict=True)
    ]
    assert sum(moved[::2]) <= 1 and sum(moved[1::2]) <= 1


TOGETHER: dict[str, dict[str, Any]] = {
    "laplace": {"delta": "0"},
    "individuals": {"delta": "0", "max_cases_per_individual": 2},
    "gaussian": {"epsilon": "2"},
    "gaussian, individuals": {"epsilon": "2", "max_cases_per_individual": 2},
}


def owned(cases: Sequence[Case], unit: Sequence[Case]) -> Any:
    """The log of cases of somebody each, and of a unit."""
    traces = log_of([*cases, *unit])
    owners = [*(f"o{i}" for i in range(len(cases))), *["k"] * len(unit)]
    return replace(traces, individuals=pa.array(owners, pa.string()))


@pytest.mark.parametrize(
    "name", [at_night(name) if name in ("gaussian", "laplace") else name for name in TOGETHER]
)
def test_all_sums_windows_and_choices_of_a_unit_cost_what_is_promised_at_most(name: str) -> None:
    """Both neighbours come out alike; the noise that was drawn is what it must hide."""
    params = METHOD.Params(**{**DECLARED, **TOGETHER[name]})
    m, budget = params.max_units, METHOD.budget(params)
    first = Coupled()
    released = run(METHOD, params, owned(OTHERS, ()), first)
    dearest_pure = dearest_squared = 0.0
    for unit in units_of(m)[:: 9 if m == 1 else 14] + units_of(m)[-4:]:
        second = Coupled(first.seen)
        assert run(METHOD, params, owned(OTHERS, unit), second) == released
        loss = loss_between(first.seen, second.seen, frozenset(), {})
        assert not loss.new
        dearest_pure = max(dearest_pure, loss.pure)
        dearest_squared = max(dearest_squared, loss.squared)
    if budget.deviation is None:
        assert dearest_squared == 0
        assert 0.5 < dearest_pure <= float(params.epsilon) * (1 + 1e-9)
        return
    choices = sum(float(mean.epsilon) for mean in budget.means.values())
    assert choices < float(params.epsilon)
    assert dearest_pure <= choices * (1 + 1e-9)
    promised = 1 / float(budget.deviation) ** 2
    assert 0.5 * promised < dearest_squared <= promised * (1 + 1e-6)

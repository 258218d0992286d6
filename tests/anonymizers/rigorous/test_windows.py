"""What several windows cost an individual whose cases are divided among them, method by method.

In each window j of an individual's m cases may move what has noise by at most j/m of what the noise
is made for, and nothing else of the release. Windows are releases of their own, so it is enough to
look at every part of a history in one window; then all ways to divide it are added up.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pydantic
import pytest

from tests.support.coupled_noise import SPLITS, Coupled, Loss, loss_between, loss_of_split, run
from tests.support.examples import examples_of
from tests.support.logs import MINUTE, trace_batch
from tests.support.tiers import at_night
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.rigorous.parts_method import windows_add_up
from tracecloak.anonymizers.variants.method import VariantHistogramMethod, VariantHistogramParams
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram

DAY = 24 * 60 * MINUTE
FIRST_US = 1_590_969_600_000_000  # 2020-06-01
# A case is its activities and the minutes between them.
Case = tuple[str, int]
USUAL, LONG, NEW = ("AB", 5), ("AAAAAA", 1), ("XC", 3000)
KINDS: tuple[Case, ...] = (USUAL, LONG, NEW)
OTHERS: tuple[Case, ...] = (*[("AB", 5)] * 30, *[("ABC", 60)] * 12, ("B", 0), ("CA", 1), ("AAA", 2))


def log_of(cases: Sequence[Case], method: Anonymizer, params: Any) -> TraceBatch:
    """The others, each with one case, and one individual with these."""
    events, owners, values = [], {}, []
    every = [*((case, f"o{i}") for i, case in enumerate(OTHERS)), *((case, "k") for case in cases)]
    for i, (case, owner) in enumerate(every):
        name, (activities, minutes) = f"c{i:03}", case
        owners[name] = owner
        for place, activity in enumerate(activities):
            at = FIRST_US + i % 7 * DAY + place * minutes * MINUTE
            events.append((name, activity, at))
            values.append(i % 2)
    traces = trace_batch(events, "ABCX", individuals=owners)
    texts = {
        "org:resource": ("R1", "R2"), "case:age": ("20", "70"), "case:diagnosis": ("A", "B"),
    }  # fmt: skip
    return replace(
        traces,
        attributes={
            own.name: pa.array([texts[own.name][v] for v in values]).dictionary_encode()
            for own in method.attributes(params)
        },
    )


def parts_of_histories(m: int) -> list[tuple[Case, ...]]:
    """Every choice of 1 to m cases."""
    return [
        cases
        for j in range(1, m + 1)
        for cases in itertools.combinations_with_replacement(KINDS, j)
    ]


def ways_to_divide(cases: tuple[Case, ...]) -> Iterator[list[tuple[Case, ...]]]:
    """Every way to divide cases among windows."""
    if not cases:
        yield []
        return
    first, rest = cases[0], cases[1:]
    for way in ways_to_divide(rest):
        yield [(first,), *way]
        for i, window in enumerate(way):
            yield [*way[:i], tuple(sorted((first, *window), key=KINDS.index)), *way[i + 1 :]]


def with_cases(method: Anonymizer, m: int) -> list[Any]:
    """The examples of a method that say that it divides by case, with so many cases."""
    if "max_cases_per_individual" not in method.Params.model_fields:
        return []
    made = []
    for example in examples_of(method):
        with suppress(pydantic.ValidationError):  # some protect cases alone
            made.append(method.Params(**{**example, "max_cases_per_individual": m}))
    return [params for params in made if method.shares_by_case(params)]


# Sums of which a threshold decides whether they are released at all, if only one unit has them.
OPEN = frozenset({
    "variant count", "activity", "joint-variants/variants/count",
    "auto-variants/variants/count", "auto-variants/histogram/count", "variant-histogram/count",
    "groups by activity", "groups by pair", "groups by org:resource", "groups by case:diagnosis",
})  # fmt: skip


@dataclass(frozen=True)
class Paid:
    """What a release pays for."""

    pure: Fraction
    instead: Fraction
    squared: Fraction

    @classmethod
    def of(cls, spends: Sequence[Spend]) -> Paid:
        pure = instead = squared = Fraction(0)
        for part in spends:
            if part.mechanism == "joint":
                pure += sum((epsilon for _, epsilon in part.choices), Fraction(0))
                squared += sum((block.squared_loss for block in part.blocks), Fraction(0))
                instead += max((way.epsilon for way in part.instead), default=Fraction(0))
            elif part.mechanism == "discrete_gaussian":
                assert part.scale is not None and part.sensitivity is not None
                squared += 1 / (Fraction(*part.scale) ** 2 - 4) * part.sensitivity**2
            else:
                pure += part.epsilon
        return cls(pure, instead, squared)

    def covers(self, loss: Loss, share: Fraction) -> bool:
        """Whether a loss is at most that share of it; what is done instead is done alone."""
        slack = 1 + 1e-6
        if loss.squared and loss.squared > float(share**2 * self.squared) * slack:
            return False
        most = self.pure + (0 if loss.squared else self.instead)
        return loss.pure <= float(share * most) * slack


def losses(
    method: Anonymizer, params: Any, parts: Sequence[tuple[Case, ...]]
) -> dict[tuple[Case, ...], tuple[Loss, Coupled, Coupled]]:
    """What each part of a history loses in a window; all else of a release must be the same."""
    first = Coupled()
    released = run(method, params, log_of((), method, params), first)
    found = {}
    for cases in parts:
        second = Coupled(first.seen)
        assert run(method, params, log_of(cases, method, params), second) == released
        decisions = dict.fromkeys(SPLITS, loss_of_split)
        found[cases] = loss_between(first.seen, second.seen, OPEN, decisions), first, second
    return found


def check_new_cells(loss: Loss, second: Coupled, j: int, m: int) -> None:
    """Of j cases a unit has at most so many new cells, and in them so much, as is provided for."""
    for purpose, values in loss.new.items():
        if purpose == "variant count":
            assert sum(values) <= j
            continue
        changed, steps = second.seen.thresholds[purpose]
        assert len(values) * m <= j * changed.l0
        assert max(values) <= changed.linf * steps


def is_kept(method: Anonymizer, params: Any) -> bool:
    """Whether j of m cases move everything by j/m at most, and windows together by no more."""
    m = params.max_cases_per_individual
    paid = Paid.of(method.spends(params))
    found = losses(method, params, parts_of_histories(m))
    for cases, (loss, _, second) in found.items():
        check_new_cells(loss, second, len(cases), m)
        if not paid.covers(loss, Fraction(len(cases), m)):
            return False
    for history in itertools.combinations_with_replacement(KINDS, m):
        for way in ways_to_divide(history):
            each = [found[cases][0] for cases in way]
            together = Loss(sum(x.pure for x in each), sum(x.squared for x in each), {})
            if not paid.covers(together, Fraction(1)):
                return False
    # What is paid for is needed by some histories, so the bound is no empty one.
    all_of_it = [found[cases][0] for cases in found if len(cases) == m]
    assert max(loss.pure + loss.squared for loss in all_of_it) > 0
    return True


def is_quick(name: str, m: int, place: int) -> bool:
    """Those made of `private-log` take seconds each, and one of its examples is for all of them."""
    if "-rigorous" in name:
        return False
    return m == 2 and place < (1 if name == "private-log" else 2)


CASES = [
    (pytest.param if is_quick(name, m, place) else at_night)(name, m, place)
    for name, method in METHODS.items()
    for m in (2, 3)
    for place in range(len(with_cases(method, m)))
]


@pytest.mark.by_day(9)
@pytest.mark.parametrize(("name", "m", "place"), CASES)
def test_some_of_an_individuals_cases_move_no_more_than_their_share(
    name: str, m: int, place: int
) -> None:
    method = METHODS[name]
    assert is_kept(method, with_cases(method, m)[place])


@dataclass(frozen=True)
class _CountedTogether:
    """An individual counts as m cases of the variant of its first one, however many it has."""

    m: int
    kind: ClassVar[type[VariantHistogram]] = VariantHistogram

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> VariantHistogram:
        assert traces.individuals is not None
        _, first = np.unique(traces.individuals.to_numpy(zero_copy_only=False), return_index=True)
        found = VariantHistogram.from_traces(traces.take(np.sort(first)))
        return VariantHistogram(found.sequences, found.counts * self.m)


class CountedTogether(VariantHistogramMethod):
    """`variant-histogram` with an individual's cases bounded together: right in one window."""

    def requires(
        self, round_name: str, params: VariantHistogramParams
    ) -> Mapping[str, contract.Counter]:
        counter = _CountedTogether(params.max_units)
        return {**super().requires(round_name, params), "variants": counter}


class HalfTheNoise(VariantHistogramParams):
    """Noise that is made for half of the cases."""

    @property
    def scale(self) -> tuple[int, int]:
        numerator, denominator = super().scale
        return numerator, 2 * denominator


@pytest.mark.parametrize("m", [2, 3])
def test_a_method_that_bounds_an_individuals_cases_together_is_caught(m: int) -> None:
    """All of its cases in one window cost what is paid, and one of them costs as much."""
    method = CountedTogether()
    params = method.Params(epsilon="1", max_cases_per_individual=m)
    paid = Paid.of(method.spends(params))
    found = losses(method, params, [(USUAL,), (USUAL,) * m])
    for cases, (loss, *_) in found.items():
        assert loss.pure == pytest.approx(1)
        assert paid.covers(loss, Fraction(1))
        assert paid.covers(loss, Fraction(len(cases), m)) == (len(cases) == m)
    assert not is_kept(method, params)


def test_noise_for_half_of_the_cases_is_caught() -> None:
    method = VariantHistogramMethod()
    assert is_kept(method, VariantHistogramParams(epsilon="1", max_cases_per_individual=2))
    assert not is_kept(method, HalfTheNoise(epsilon="1", max_cases_per_individual=2))


class SaysTheLength(VariantHistogramMethod):
    """A method that shows something exact."""

    def decide(self, *given: Any) -> Any:
        decided = super().decide(*given)
        longest = int(np.diff(given[1]["variants"].offsets).max())
        variants = replace(decided.variants, counts=decided.variants.counts + longest)
        return replace(decided, variants=variants)


def test_what_is_shown_without_noise_is_caught() -> None:
    method = SaysTheLength()
    params = method.Params(epsilon="8", delta="1e-5", max_cases_per_individual=2)
    with pytest.raises(AssertionError):
        is_kept(method, params)


def example_of(name: str, place: int = 0, **more: Any) -> tuple[Anonymizer, Any]:
    method = METHODS[name]
    return method, method.Params(**{**examples_of(method)[place], **more})


def test_only_rigorous_releases_divide_by_case_and_all_that_are_registered_do() -> None:
    for method in METHODS.values():
        for example in examples_of(method):
            params = method.Params(**example)
            is_rigorous = method.guarantee(params).kind == "rigorous"
            assert method.shares_by_case(params) == is_rigorous


def test_windows_add_up_for_individuals_of_several_cases_of_other_methods() -> None:
    for more, adds_up in (
        ({}, False),
        ({"max_cases_per_individual": 1}, False),
        ({"max_cases_per_individual": 2}, True),
    ):
        assert windows_add_up(*example_of("laplace-dfg", 1, **more)) == adds_up
        assert not windows_add_up(*example_of("laplace-dfg", 4, **more))
        assert not windows_add_up(*example_of("private-log", **more))
    assert not windows_add_up(*example_of("amun"))


def test_a_generator_of_others_adds_up_unless_it_says_otherwise() -> None:
    from tracecloak.anonymizers.variants.method import VariantLog
    from tracecloak.anonymizers.variants.sparse_histogram import SparseHistogram

    class Other(SparseHistogram):
        shares_by_case = False

    params = {"epsilon": "1", "delta": "0", "vocabulary": ("A",), "max_trace_length": 2}
    for kind, shares in ((SparseHistogram, True), (Other, False)):
        method = VariantLog(kind())
        made = method.Params(**params, max_cases_per_individual=2)
        assert method.shares_by_case(made) == shares != windows_add_up(method, made)

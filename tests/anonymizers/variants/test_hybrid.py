"""`hybrid-log` and `auto-variants`: their parts, what decides, and what must never come out."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.keys import randomness, release_key
from tests.support.logs import Variant, histogram, trace_batch, variant_counts
from tests.support.privacy_loss import delta_between, discrete_laplace
from tracecloak.anonymizers.accounting.calibration import laplace_scale, stability_threshold
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.variants import auto as auto_variants
from tracecloak.anonymizers.variants import hybrid as hybrid_variants
from tracecloak.anonymizers.variants import stable_variants as stable
from tracecloak.anonymizers.variants.auto import AutoVariants, balance, choice_epsilon, way_of
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.hybrid import HybridVariants, joined
from tracecloak.anonymizers.variants.markov import MarkovVariants
from tracecloak.anonymizers.variants.method import VariantLog
from tracecloak.anonymizers.variants.privtree import PrivTree
from tracecloak.anonymizers.variants.stable_variants import released, stable_variants
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

NAMES = ("A", "B", "C")
VOCABULARY = ActivityVocabulary.public(NAMES)
DELTA = Fraction(1, 10**6)
HYBRID, AUTO = HybridVariants(), AutoVariants()
GENERATORS = pytest.mark.parametrize("generator", [HYBRID, AUTO], ids=lambda g: g.name)


def counted(counts: Mapping[Variant, int]) -> VariantHistogram:
    return histogram(counts, VOCABULARY.names.to_pylist())


def domain(max_units: int = 1) -> Domain:
    return Domain(VOCABULARY, 5, max_units)


def variants_of(made: ReleasedVariants) -> Counter[Variant]:
    rows = made.to_table().to_pylist()
    assert len({tuple(row["variant"]) for row in rows}) == len(rows)
    return Counter({tuple(row["variant"]): row["count"] for row in rows})


def all_variants(length: int) -> list[Variant]:
    return [v for n in range(1, length + 1) for v in itertools.product(NAMES, repeat=n)]


LOGS: dict[str, dict[Variant, int]] = {
    "empty": {},
    "one case": {("A",): 1},
    "other": {(OTHER, "A"): 30, (OTHER,): 20},
    "frequent": {("A", "B"): 500, ("A", "C", "B"): 200, ("B",): 2, ("B", "C"): 1},
    "many": {variant: 1 + 7 * i % 5 for i, variant in enumerate(all_variants(4))},
}


@pytest.mark.parametrize("max_units", [1, 2, 7])
@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(100)])
@GENERATORS
def test_the_parts_add_up_to_the_budget(generator: Any, epsilon: Fraction, max_units: int) -> None:
    parts = generator.spends(epsilon, DELTA, max_units)
    assert total(parts) == (epsilon, DELTA)
    assert all(part.what.startswith(generator.name) for part in parts)
    assert generator.explain(epsilon, DELTA, max_units)


@pytest.mark.parametrize("max_units", [1, 3])
@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(100)])
@pytest.mark.parametrize("log", LOGS)
@GENERATORS
def test_every_release_stays_within_the_domain(
    generator: Any, log: str, epsilon: Fraction, max_units: int
) -> None:
    for number in range(2):
        made = generator.answer(
            counted(LOGS[log]), domain(max_units), epsilon, DELTA, randomness(number)
        )
        found = variants_of(made)
        assert all(1 <= len(variant) <= 5 for variant in found)
        assert set(itertools.chain(*found)) <= {*NAMES, OTHER}
        assert made.names.to_pylist() == sorted(set(itertools.chain(*found)))
        assert (made.counts > 0).all() and (np.diff(made.counts) <= 0).all()
        assert made.lows is None and made.highs is None


@GENERATORS
def test_a_release_is_determined_by_the_histogram_and_the_key(generator: Any) -> None:
    variants = counted({**LOGS["many"], **LOGS["frequent"]})
    order = np.arange(variants.n_variants)[::-1].copy()
    again = VariantHistogram.from_sequences(variants.sequences.take(order), variants.counts[order])
    first, second, third = (
        variants_of(generator.answer(v, domain(), Fraction(2), DELTA, randomness(number)))
        for v, number in ((variants, 0), (again, 0), (variants, 1))
    )
    assert first == second != third


# --- the stability histogram ----------------------------------------------------------------------


def test_each_part_has_its_share_and_sees_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def histogram_of(variants: Any, *rest: Any) -> VariantHistogram:
        asked.append((variants, *rest[:3]))
        return stable_variants(variants, *rest)

    class Spy(MarkovVariants):
        def answer(self, counted: Any, domain: Any, epsilon: Any, delta: Any, r: Any) -> Any:
            asked.append((counted, epsilon, delta, domain.max_units))
            return super().answer(counted, domain, epsilon, delta, r)

    monkeypatch.setattr(hybrid_variants, "stable_variants", histogram_of)
    monkeypatch.setattr(hybrid_variants, "MarkovVariants", Spy)
    variants = counted(LOGS["frequent"])
    HybridVariants().answer(variants, domain(2), Fraction(3), DELTA, randomness())
    half = (Fraction(3, 2), DELTA / 2, 2)
    assert [call[1:] for call in asked] == [half, half]
    assert all(call[0] is variants for call in asked)


@pytest.mark.parametrize("max_units", [1, 2])
def test_the_histogram_adds_laplace_noise_and_cuts_at_the_threshold(
    monkeypatch: pytest.MonkeyPatch, max_units: int
) -> None:
    """`calibration.stability_threshold` proves what this scale and this threshold keep."""
    asked: list[tuple[int, ...]] = []

    def none(stream: Any, *scale: int) -> np.ndarray:
        asked.append(scale)
        return np.zeros(len(stream), np.int64)

    monkeypatch.setattr(stable, "draw_laplace", none)
    least = stability_threshold(1, DELTA, max_units)
    variants = counted({("A",): least - 1, ("B",): least, ("C", "A"): least + 5})
    kept = stable_variants(variants, Fraction(1), DELTA, max_units, randomness(), "test")
    assert asked == [laplace_scale(1, of_count(max_units))]
    found = variants_of(released(kept, VOCABULARY))
    assert found == {("B",): least, ("C", "A"): least + 5}


# --- joining --------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(variant_counts(), variant_counts())
def test_drawn_variants_fill_up_what_is_missing(
    published: dict[Variant, int], drawn: dict[Variant, int]
) -> None:
    made = joined(counted(published), released(counted(drawn), VOCABULARY), VOCABULARY)
    found = variants_of(made)
    for variant, n in published.items():
        assert found[variant] == n
    others = {variant: n for variant, n in drawn.items() if variant not in published}
    missing = max(0, sum(drawn.values()) - sum(published.values()))
    rest = {variant: n for variant, n in found.items() if variant not in published}
    assert sum(rest.values()) == (missing if others else 0)
    assert set(rest) <= set(others)
    for variant, n in others.items():
        assert abs(rest.get(variant, 0) - n * missing / sum(others.values())) <= 1


def test_published_variants_keep_their_counts_in_the_release() -> None:
    epsilon = Fraction(2)
    variants = counted({**LOGS["many"], **LOGS["frequent"]})
    kept = stable_variants(
        variants, epsilon / 2, DELTA / 2, 1, randomness(), "hybrid-log/histogram"
    )
    assert kept.n_variants == 2
    found = variants_of(HYBRID.answer(variants, domain(), epsilon, DELTA, randomness()))
    for variant, n in variants_of(released(kept, VOCABULARY)).items():
        assert found[variant] == n
    assert len(found) > 2


# --- the choice -----------------------------------------------------------------------------------


@given(variant_counts(), st.integers(2, 12), st.sampled_from(all_variants(3)))
def test_a_case_changes_the_balance_by_1(
    counts: dict[Variant, int], threshold: int, variant: Variant
) -> None:
    before, more = counted(counts), counted({variant: 1})
    change = balance(VariantHistogram.merge([before, more]), threshold) - balance(before, threshold)
    assert change == (1 if counts.get(variant, 0) >= threshold - 1 else -1)


@pytest.mark.parametrize("max_units", [1, 2])
def test_the_choice_keeps_its_epsilon_exactly(
    monkeypatch: pytest.MonkeyPatch, max_units: int
) -> None:
    """Hockey-stick divergence of both numbers; control: at 4/5 of their epsilon it is above 0."""
    monkeypatch.setattr(auto_variants, "_MOST_FOR_CHOICE", 1)  # laws short enough to be summed
    epsilon = Fraction(20)
    [choice, variants] = AUTO.spends(epsilon, DELTA, max_units)
    assert choice.epsilon == choice_epsilon(epsilon) == 1 and variants.epsilon == 19
    numbers: dict[str, tuple[Fraction, Callable[[VariantHistogram], int]]] = {
        "balance": (Fraction(3, 4), lambda log: balance(log, 10)),
        "cases": (Fraction(1, 4), lambda log: log.n_cases),
    }
    counts: dict[Variant, int] = {("A",): 30, ("B",): 2}
    both = counted(counts | {("A",): 30 + max_units})
    for number, (share, exact) in numbers.items():
        scale = Fraction(*AUTO._scale(number, epsilon, max_units))
        assert exact(both) - exact(counted(counts)) == max_units
        more, fewer = (
            discrete_laplace(scale, 1_000, exact(log)) for log in (both, counted(counts))
        )
        _, most = delta_between(more, fewer, share)
        assert most < Fraction(1, 10**30)
        least, _ = delta_between(more, fewer, share * Fraction(4, 5))
        assert least > Fraction(1, 200)


@pytest.mark.parametrize(
    ("noisy_balance", "noisy_cases", "way"),
    [
        (-51, 100, "chain"),
        (-50, 100, "tree"),
        (-1, 100, "tree"),
        (0, 100, "histogram"),
        (49, 100, "histogram"),
        (50, 100, "tree"),
        (-1, -5, "chain"),
        (3, -5, "tree"),
    ],
)
def test_the_share_that_a_histogram_keeps_decides(
    noisy_balance: int, noisy_cases: int, way: str
) -> None:
    """A quarter, a half and three quarters of 100 cases are balances of -50, 0 and 50."""
    assert way_of(noisy_balance, noisy_cases) == way


@pytest.mark.parametrize(("noise", "way"), [(-26, "chain"), (-1, "tree"), (0, "histogram")])
def test_the_noise_is_looked_at_and_the_rest_is_spent_on_one_way(
    monkeypatch: pytest.MonkeyPatch, noise: int, way: str
) -> None:
    asked: list[tuple[int, ...]] = []

    def of(stream: Any, *scale: int) -> np.ndarray:
        asked.append(scale)
        assert len(stream) == 1
        return np.array([noise if len(asked) == 1 else 0])

    ways: list[Any] = []

    def spy(way: str, kind: type) -> type:
        class Spy(kind):  # type: ignore[misc]
            def answer(self, counted: Any, domain: Any, epsilon: Any, delta: Any, r: Any) -> Any:
                ways.append((way, epsilon, delta))
                return super().answer(counted, domain, epsilon, delta, r)

        return Spy

    def histogram_of(variants: Any, *rest: Any) -> VariantHistogram:
        ways.append(("histogram", *rest[:2]))
        return stable_variants(variants, *rest)

    epsilon = Fraction(2)
    assert choice_epsilon(epsilon) == Fraction(1, 40)
    assert choice_epsilon(Fraction(1, 4)) == Fraction(1, 80)
    rest = epsilon - Fraction(1, 40)
    least = stability_threshold(rest, DELTA, 2)
    # 25 of 50 cases from the threshold on: a balance of 0.
    log: dict[Variant, int] = {("A",): least + 24, ("B",): 50 - (least + 24)}
    assert 0 < log["B",] < least and balance(counted(log), least) == 0
    monkeypatch.setattr(auto_variants, "draw_laplace", of)
    monkeypatch.setattr(auto_variants, "MarkovVariants", spy("chain", MarkovVariants))
    monkeypatch.setattr(auto_variants, "PrivTree", spy("tree", PrivTree))
    monkeypatch.setattr(auto_variants, "stable_variants", histogram_of)
    AutoVariants().answer(counted(log), domain(2), epsilon, DELTA, randomness())
    assert ways == [(way, rest, DELTA)]
    assert asked == [
        laplace_scale(Fraction(3, 160), of_count(2)),
        laplace_scale(Fraction(1, 160), of_count(2)),
    ]


# --- methods --------------------------------------------------------------------------------------


@GENERATORS
def test_it_is_a_method_with_its_promise(generator: Any) -> None:
    log = {f"case {i}": "A B" if i % 3 else "A C B" for i in range(300)}
    method = VariantLog(generator)
    given_: dict[str, Any] = {"epsilon": "8", "vocabulary": NAMES, "max_trace_length": 4}
    params = method.Params(**given_)
    assert total(method.spends(params)) == params.budget
    made = anonymise([trace_batch(log)], method, params, release_key(), "release", "config")
    variants = made.products.by_name["variants"]
    assert variants.n_cases == made.traces[0].n_cases
    assert variants_of(variants)["A", "B"] == pytest.approx(200, abs=20)

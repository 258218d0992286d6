"""`hybrid-log`: its parts, how they are joined, and what must never come out."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from tests.support.generators import answer_of, budget, explanation_of, spends_of
from tests.support.keys import randomness, release_key
from tests.support.logs import Variant, histogram, trace_batch, variant_counts
from tests.support.silence import Silence
from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.accounting.sensitivity import of_count, of_one_cell
from tracecloak.anonymizers.accounting.thresholds import stability_threshold
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.variants import hybrid as hybrid_variants
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.hybrid import HybridVariants, joined
from tracecloak.anonymizers.variants.markov import MarkovVariants
from tracecloak.anonymizers.variants.method import VariantLog
from tracecloak.anonymizers.variants.stable_variants import (
    StableVariants,
    released,
    stable_variants,
)
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

NAMES = ("A", "B", "C")
VOCABULARY = ActivityVocabulary.public(NAMES)
DELTA = Fraction(1, 10**6)
HYBRID = HybridVariants()


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
def test_the_parts_add_up_to_the_budget(epsilon: Fraction, max_units: int) -> None:
    [part] = spends_of(HYBRID, epsilon, DELTA, max_units)
    assert total([part]) == (epsilon, DELTA)
    chain = ["hybrid-log/chain clip", "hybrid-log/chain sums"]
    assert [block.what for block in part.blocks] == ["hybrid-log histogram", *chain]
    assert not part.choices
    assert 0 < part.blocks[0].delta < DELTA and not any(b.delta for b in part.blocks[1:])
    assert explanation_of(HYBRID, epsilon, DELTA, max_units)


@pytest.mark.parametrize("max_units", [1, 3])
@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(100)])
@pytest.mark.parametrize("log", LOGS)
def test_every_release_stays_within_the_domain(log: str, epsilon: Fraction, max_units: int) -> None:
    for number in range(2):
        made = answer_of(
            HYBRID, counted(LOGS[log]), domain(max_units), epsilon, DELTA, randomness(number)
        )
        found = variants_of(made)
        assert all(1 <= len(variant) <= 5 for variant in found)
        assert set(itertools.chain(*found)) <= {*NAMES, OTHER}
        assert made.names.to_pylist() == sorted(set(itertools.chain(*found)))
        assert (made.counts > 0).all() and (np.diff(made.counts) <= 0).all()
        assert made.lows is None and made.highs is None


def test_a_release_is_determined_by_the_histogram_and_the_key() -> None:
    variants = counted({**LOGS["many"], **LOGS["frequent"]})
    order = np.arange(variants.n_variants)[::-1].copy()
    again = VariantHistogram.from_sequences(variants.sequences.take(order), variants.counts[order])
    first, second, third = (
        variants_of(answer_of(HYBRID, v, domain(), 2, DELTA, randomness(number)))
        for v, number in ((variants, 0), (again, 0), (variants, 1))
    )
    assert first == second != third


# --- the stability histogram ----------------------------------------------------------------------


def test_each_part_has_its_share_and_sees_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def histogram_of(variants: Any, *rest: Any) -> VariantHistogram:
        asked.append((variants, *rest[:2]))
        return stable_variants(variants, *rest)

    class Spy(MarkovVariants):
        def answer(self, counted: Any, domain: Any, means: Any, r: Any) -> Any:
            asked.append((counted, means[self._sums], domain.max_units))
            assert means[self._clip].share == Fraction(1, 40)
            return super().answer(counted, domain, means, r)

    monkeypatch.setattr(hybrid_variants, "stable_variants", histogram_of)
    monkeypatch.setattr(hybrid_variants, "MarkovVariants", Spy)
    variants = counted(LOGS["frequent"])
    answer_of(HybridVariants(), variants, domain(2), 3, DELTA, randomness())
    assert all(call[0] is variants and call[2] == 2 for call in asked)
    one, other = (call[1] for call in asked)
    assert (one.share, other.share) == (Fraction(1, 2), Fraction(19, 40))
    assert one.deviation == other.deviation is not None
    assert 0 < one.delta < DELTA and other.delta == 0


@pytest.mark.parametrize("max_units", [1, 2])
@pytest.mark.parametrize("is_alone", [True, False])
def test_the_histogram_adds_noise_and_cuts_at_the_threshold(is_alone: bool, max_units: int) -> None:
    """Laplace noise where nothing else is released, and Gaussian beside a chain.

    `thresholds.stability_threshold` proves what that scale and that threshold keep, and
    `joint.joint_deviation` the other.
    """
    generator: Any = StableVariants() if is_alone else HYBRID
    means = budget(generator, 1, DELTA, max_units).means
    own = means["variants" if is_alone else "hybrid-log histogram"]
    changed = of_one_cell(max_units)
    noise, threshold = own.noise(changed), own.threshold(changed)
    if is_alone:
        assert noise.scale == laplace_scale(1, of_count(max_units)) and noise.units == 1
        assert threshold == stability_threshold(1, DELTA, max_units)
    else:
        assert noise.units == UNITS and not noise.is_laplace
    least = math.ceil(threshold / noise.units)
    variants = counted({("A",): least - 1, ("B",): least, ("C", "A"): least + 5})
    silence = Silence()
    quiet = randomness().with_noise(silence)
    kept = stable_variants(variants, own, max_units, quiet, "test")
    law = "laplace" if is_alone else "gaussian"
    assert silence.draws == [(law, 3, Fraction(*noise.scale))]
    found = variants_of(released(kept, VOCABULARY))
    assert found == {("B",): least, ("C", "A"): least + 5}


@pytest.mark.parametrize("max_units", [1, 2, 7])
def test_variants_of_one_unit_alone_seldom_pass(max_units: int) -> None:
    """However its cases are spread over new variants; by the tail of the normal law.

    Control: at a threshold of a deviation less they pass more often than delta allows.
    """
    own = budget(HYBRID, 1, DELTA, max_units).means["hybrid-log histogram"]
    changed = of_one_cell(max_units)
    noise, threshold = own.noise(changed), own.threshold(changed)

    def passing(cases: int, threshold: float) -> float:
        return float(stats.norm.sf((threshold - cases * noise.units) / noise.width))

    for n_variants in range(1, max_units + 1):
        cases = max_units - n_variants + 1  # of one of them, the others have one case each
        seen = passing(cases, threshold) + (n_variants - 1) * passing(1, threshold)
        assert seen <= own.delta
    assert passing(max_units, threshold - noise.width) > own.delta


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
    own = budget(HYBRID, epsilon, DELTA).means["hybrid-log histogram"]
    kept = stable_variants(variants, own, 1, randomness(), "hybrid-log/histogram")
    assert 1 <= kept.n_variants <= 4  # two, but for one key in sixty
    found = variants_of(answer_of(HYBRID, variants, domain(), epsilon, DELTA, randomness()))
    for variant, n in variants_of(released(kept, VOCABULARY)).items():
        assert found[variant] == n
    assert len(found) > 2


# --- methods --------------------------------------------------------------------------------------


def test_it_is_a_method_with_its_promise() -> None:
    log = {f"case {i}": "A B" if i % 3 else "A C B" for i in range(300)}
    method = VariantLog(HYBRID)
    given_: dict[str, Any] = {"epsilon": "8", "vocabulary": NAMES, "max_trace_length": 4}
    params = method.Params(**given_)
    assert total(method.spends(params)) == params.budget
    made = anonymise([trace_batch(log)], method, params, release_key(), "release", "config")
    variants = made.products.by_name["variants"]
    assert variants.n_cases == made.traces[0].n_cases
    assert variants_of(variants)["A", "B"] == pytest.approx(200, abs=20)

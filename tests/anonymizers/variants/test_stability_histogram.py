"""Histograms of variants: those above a threshold, or over all of a domain.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pyarrow as pa
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import logs
from tests.support.chi_square import ALPHA, p_value_of_law
from tests.support.generators import answer_of, explanation_of, spends_of
from tests.support.keys import randomness, release_key
from tests.support.logs import Log, Variant, histogram, read_released, trace_batch
from tests.support.privacy_loss import ONE, Law, delta_between, discrete_laplace
from tests.support.rounds import run_rounds
from tests.support.silence import Silence
from tests.support.tiers import at_night
from tracecloak.anonymizers.accounting.calibration import (
    laplace_interval,
    stability_threshold,
    truncated_noise_bound,
)
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.contract.in_memory import Anonymised, anonymise
from tracecloak.anonymizers.noise.randomness import cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.variants import sparse_histogram
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.method import VariantHistogramMethod, VariantHistogramParams
from tracecloak.anonymizers.variants.sparse_histogram import (
    SparseHistogram,
    Thresholds,
    _invert,
    _numbers,
)
from tracecloak.schemas.arrays.columnar import encode
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.published.figures import wider_ends
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

METHOD = VariantHistogramMethod()


def params_of(epsilon: str = "1", **given_: Any) -> VariantHistogramParams:
    return VariantHistogramParams(epsilon=epsilon, **given_)


def decided(
    counts: dict[Variant, int],
    params: VariantHistogramParams,
    number: int = 0,
    names: Iterable[str] = "ABC",
) -> ReleasedVariants:
    """One decision on a histogram that is given, under the key of that number."""
    statistics = {"variants": histogram(counts, names), "names": ActivityVocabulary.of(names)}
    return METHOD.decide("variants", statistics, {}, params, randomness(number)).variants


def released(log: Log, params: VariantHistogramParams, number: int = 0) -> Anonymised:
    return anonymise([trace_batch(log)], METHOD, params, release_key(number), "release", "config")


def repeated(variants: dict[str, int]) -> dict[str, str]:
    """A log with each variant so many times."""
    cases = itertools.chain(*([variant] * n for variant, n in variants.items()))
    return {f"case {i}": variant for i, variant in enumerate(cases)}


@pytest.mark.parametrize(
    ("epsilon", "threshold", "bound"),
    # exp(-eps (t - 1)) / (1 + exp(-eps)) <= 1e-6, and Desfontaines et al. 2022, Definition 4.
    [("0.1", 133, 109), ("0.5", 28, 25), ("1", 15, 14), ("2", 8, 7)],
)
def test_the_published_thresholds_reach_the_release(
    epsilon: str, threshold: int, bound: int
) -> None:
    laplace, truncated = params_of(epsilon), params_of(epsilon, noise="truncated")
    assert laplace.threshold == threshold
    assert truncated.threshold == bound + 1
    of_three = {"max_cases_per_individual": 3}
    budget = Fraction(epsilon), Fraction(1, 10**6), 3
    assert params_of(epsilon, **of_three).threshold == stability_threshold(*budget)
    several = params_of(epsilon, **of_three, noise="truncated")
    assert several.threshold == truncated_noise_bound(*budget) + 1
    for params in (laplace, truncated):
        assert str(params.threshold) in METHOD.guarantee(params).reality
        assert f" {params.threshold} noisy cases" in METHOD.explain(params)[0]

    class Asked(Silence):
        def truncated_laplace(self, stream: Any, *rest: Any) -> np.ndarray:
            return self._zeros(f"within {rest[2]}", stream, *rest[:2])

    for params, law in ((laplace, "laplace"), (truncated, f"within {bound}")):
        silent = Asked()
        counts = {("A",): params.threshold - 1, ("B",): params.threshold, ("C",): 10**6}
        once = histogram(dict.fromkeys(counts, 1))  # in the order of their names
        many = replace(once, counts=np.array(list(counts.values()), np.int64))
        statistics = {"variants": many, "names": ActivityVocabulary.of("ABC")}
        keyed = randomness().with_noise(silent)
        made = METHOD.decide("variants", statistics, {}, params, keyed).variants
        assert read_released(made) == {("C",): 10**6, ("B",): params.threshold}
        assert silent.draws == [(law, 3, 1 / Fraction(epsilon))]
        kept = METHOD.keep("variants", statistics, {}, params, keyed)
        assert kept["variants"].counts.tolist() == [params.threshold, 10**6]


def test_delta_0_is_refused() -> None:
    with pytest.raises(pydantic.ValidationError, match="needs delta above 0"):
        params_of(delta="0")


@given(st.fractions(Fraction(1, 50), 300, max_denominator=60), st.sampled_from([0.5, 0.95, 0.999]))
def test_the_interval_is_the_smallest_that_holds_the_noise(
    scale: Fraction, confidence: float
) -> None:
    h = laplace_interval(scale, confidence)
    decay = math.exp(-1 / scale)

    def outside(reach: int) -> float:
        """P(|X| > reach), summed."""
        x = np.arange(reach + 1, reach + 2 + int(45 * scale) + 10)
        return float(2 * (1 - decay) / (1 + decay) * (decay**x).sum())

    assert outside(h) <= (1 - confidence) * (1 + 1e-9)
    assert h == 0 or outside(h - 1) > (1 - confidence) * (1 - 1e-9)


@given(
    st.sets(st.lists(st.sampled_from("ABC"), min_size=1, max_size=4).map(tuple), max_size=8),
    st.integers(0, 5),
)
def test_a_variants_count_does_not_depend_on_the_others(others: set[Variant], number: int) -> None:
    """Same key, same names: alone and among others a variant gets the same noise."""
    params = params_of("2")
    alone = read_released(decided({("A", "B"): 30}, params, number))
    among = read_released(decided({**dict.fromkeys(others, 9), ("A", "B"): 30}, params, number))
    assert among["A", "B"] == alone["A", "B"]


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.lists(st.sampled_from("ABC"), min_size=1, max_size=4).map(tuple),
        st.integers(1, 12),
        max_size=8,
    ),
    st.integers(0, 9),
    st.sampled_from(["laplace", "truncated"]),
)
def test_no_variant_is_ever_invented(counts: dict[Variant, int], number: int, noise: str) -> None:
    params = params_of("3", delta="1e-5", noise=noise)
    made = decided(counts, params, number)
    found = read_released(made)
    assert set(found) <= set(counts)
    assert all(count >= params.threshold for count in found.values())
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert set(made.names.to_pylist()) == {name for variant in found for name in variant}
    plain = np.maximum(made.counts - params.interval, 0), made.counts + params.interval
    for limits, wider in zip((made.lows, made.highs), wider_ends(made.counts, *plain), strict=True):
        assert limits is not None and limits.tolist() == wider.tolist()


CANARY = "canary-activity-7f3a"


@pytest.mark.parametrize("noise", ["laplace", "truncated"])
@pytest.mark.parametrize("name", [CANARY, "A" + CANARY, "~" + CANARY])
def test_names_of_unreleased_variants_are_in_no_byte(name: str, noise: str) -> None:
    """The canary's name sorts before, between and after the others."""
    log = repeated({"A B": 60, "B C": 50, f"A {name} C": 1})
    params = params_of("1", delta="1e-12", noise=noise)
    rounds = run_rounds([trace_batch(log)], METHOD, params, release_key(1))
    assert CANARY.encode() in encode(rounds.statistics["variants"]["names"])  # it was there
    made = released(log, params, 1)
    assert made.products.by_name["variants"].n_variants == 2
    table = made.products.by_name["variants"].to_table()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    everything = [
        encode(rounds.decisions["variants"]),
        encode(made.products),
        *(encode(batch) for batch in made.traces),
        sink.getvalue().to_pybytes(),
        json.dumps(made.products.by_name["variants"].to_json()).encode(),
    ]
    assert not [part for part in everything if CANARY.encode() in part]
    assert not [part for part in everything if b"case " in part]  # nor an old case id
    assert made.products.by_name["variants"].names.to_pylist() == ["A", "B", "C"]


# --- Over all of a domain -------------------------------------------------------------------------


ZERO = Fraction(0)


def domain(names: Iterable[str] = "AB", max_length: int = 4, max_units: int = 1) -> Domain:
    return Domain(ActivityVocabulary.public(names), max_length, max_units)


def of_domain(counts: Mapping[Variant, int], of: Domain) -> VariantHistogram:
    return logs.histogram(counts, of.vocabulary.names.to_pylist())


def released_over(
    counts: Mapping[Variant, int],
    of: Domain,
    epsilon: Fraction | int = 1,
    number: int = 0,
    junk: Fraction | int = Fraction(1, 20),
) -> dict[Variant, int]:
    """What the key of that number releases; checks its shape on the way."""
    counted = of_domain(counts, of)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_histogram, "JUNK", Fraction(junk))
        made = answer_of(SparseHistogram(), counted, of, epsilon, ZERO, randomness(number))
    return logs.read_released(made)


@pytest.mark.by_day(8)
@pytest.mark.parametrize("junk", [Fraction(1, 20), Fraction(7, 3)])
@pytest.mark.parametrize("scale", [(1, 1), (10, 1), (1, 7), (3, 1)])
@pytest.mark.parametrize(("n_activities", "max_length"), [(1, 3), (2, 2), (28, 25), (1000, 300)])
def test_thresholds_are_the_smallest_that_bound_the_junk(
    n_activities: int, max_length: int, scale: tuple[int, int], junk: Fraction
) -> None:
    thresholds = Thresholds(n_activities, max_length, scale, junk)
    assert thresholds.n_lengths == max_length
    with mpmath.workdps(1200):
        decay = mpmath.exp(-mpmath.mpf(scale[1]) / scale[0])
        share = mpmath.mpf(junk.numerator) / junk.denominator / max_length

        def expected(length: int, least: int) -> mpmath.mpf:
            return mpmath.mpf(n_activities) ** length * decay**least / (1 + decay)

        for length in {1, 2, max_length}:
            least = thresholds.of(length)
            assert expected(length, least) <= share
            assert least == 1 or expected(length, least - 1) > share


def test_lengths_whose_threshold_leaves_int64_are_not_released() -> None:
    wide = Thresholds(1000, 10**9, (2**40, 1), Fraction(1, 20))
    assert wide.of(wide.n_lengths) <= 2**62 < wide.of(wide.n_lengths + 1)
    narrow = domain(max_length=5)
    counted = of_domain({("A",) * 5: 7}, narrow)
    made = answer_of(SparseHistogram(), counted, narrow, Fraction(1, 2**39), ZERO, randomness())
    assert made.n_variants == 0


@pytest.mark.parametrize("max_units", [1, 3])
@pytest.mark.parametrize("delta", [ZERO, Fraction(1, 10**6)])
def test_the_parts_are_the_budget_and_the_noise_covers_a_unit(
    delta: Fraction, max_units: int
) -> None:
    epsilon = Fraction(7, 10)
    [part] = spends_of(SparseHistogram(), epsilon, delta, max_units)
    assert total([part]) == (epsilon, delta)
    assert part.mechanism == "discrete_laplace" and part.scale is not None
    assert Fraction(*part.scale) == max_units / epsilon
    thresholds = SparseHistogram().thresholds(domain(max_units=max_units), epsilon)
    assert thresholds.scale == part.scale
    assert "0.05 variants" in explanation_of(SparseHistogram(), epsilon, delta, max_units)


@pytest.mark.parametrize(
    ("n_activities", "length", "scale", "junk"),
    [
        (28, 25, (1, 1), Fraction(1, 20)),
        (1000, 300, (10, 1), Fraction(1, 20)),
        (2, 1, (1, 1), Fraction(2)),
        (3, 4, (5, 2), Fraction(30)),
    ],
)
def test_the_enclosures_hold_the_binomial_law(
    n_activities: int, length: int, scale: tuple[int, int], junk: Fraction
) -> None:
    """Against the binomial sum in 2,500 digits, which has room for 1 - p where p is 10^-900."""
    thresholds = Thresholds(n_activities, length, scale, junk)
    n = n_activities**length
    with mpmath.workdps(2500):
        decay = mpmath.exp(-mpmath.mpf(scale[1]) / scale[0])
        p = decay ** thresholds.of(length) / (1 + decay)
        at_most = term = mpmath.exp(n * mpmath.log(1 - p))
        for k, found in enumerate(
            itertools.islice(thresholds.n_passing_at_most(length, 60), min(6, n))
        ):
            low, high = mpmath.mpf(str(found.low)), mpmath.mpf(str(found.high))
            assert low <= at_most <= high
            assert high - low < mpmath.mpf(10) ** -45
            term = term * (n - k) / (k + 1) * p / (1 - p)
            at_most += term


class Words(CellStream):
    """A stream of words that are given."""

    def __init__(self, *words: int) -> None:
        super().__init__(randomness(), "given", cell_numbers(np.arange(1)))
        self.rest = list(words)

    def words(self, rows: np.ndarray) -> np.ndarray:
        return np.array([[self.rest.pop(0), 0]], np.uint64)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_a_number_on_the_edge_is_told_by_further_words(k: int) -> None:
    """U agrees with P(K <= k) in 192 bits; a bit less is k, a bit more is k + 1."""
    thresholds = Thresholds(28, 25, (1, 1), Fraction(50))
    enclosure = next(itertools.islice(thresholds.n_passing_at_most(25, 120), k, None))
    edge = int(Fraction(enclosure.low) * 2**256)
    head, *rest = ((edge >> shift) % 2**64 for shift in (192, 128, 64))
    for last, expected in ((edge % 2**64 - 1000, k), (edge % 2**64 + 1000, k + 1)):
        assert 0 <= last < 2**64
        stream = Words(*rest, last)
        assert _invert(thresholds, 25, stream, 0, head) == expected
        assert not stream.rest


# Two sequences, A and OTHER, and a threshold of 1.
TINY = domain("A", 1)
TINY_JUNK = Fraction(1)
TOP = 5  # values from here on are one


def cell_law(true: int, least: int, scale: Fraction = Fraction(1)) -> Law:
    """The released value of one sequence, 0 where it is not."""
    noisy = discrete_laplace(scale, 150, true)
    return noisy.map(lambda n: 0 if n < least else n)


def capped(law: Law) -> dict[Any, float]:
    made = law.map(lambda pair: tuple(min(n, TOP) for n in pair))
    return {pair: float(Fraction(high, ONE)) for pair, (_, high) in made.chances.items()}


@functools.cache
def tiny_law(a: int, other: int) -> Law:
    [least] = {Thresholds(2, 1, (1, 1), TINY_JUNK).of(1)}
    return cell_law(a, least).times(cell_law(other, least))


def broken_law(a: int) -> Law:
    """With A observed, OTHER is released wherever one of two draws over the domain passes."""
    alone = cell_law(0, 1)
    passing = {n: bounds for n, bounds in alone.chances.items() if n}
    p = sum(Fraction(high, ONE) for _, high in passing.values())
    more = (1 - (1 - p) ** 2) / p
    chances = {n: (int(low * more), int(high * more) + 1) for n, (low, high) in passing.items()}
    rest = ONE - sum(high for _, high in chances.values())
    other = Law({**chances, 0: (rest - len(chances), rest + len(chances))}, alone.rest)
    return cell_law(a, 1).times(other)


N_RELEASES = 500


@pytest.mark.parametrize("a", [at_night(0), 2])
def test_the_release_of_a_tiny_domain_has_the_law_of_noise_on_every_sequence(a: int) -> None:
    """500 releases; A has `a` cases. Control: all draws placed on sequences without a case."""
    counts = {("A",): a} if a else {}
    sample: Counter[Any] = Counter()
    for number in range(N_RELEASES):
        made = released_over(counts, TINY, 1, number, TINY_JUNK)
        assert made.keys() <= {("A",), (OTHER,)}
        sample[min(made.get(("A",), 0), TOP), min(made.get((OTHER,), 0), TOP)] += 1
    assert p_value_of_law(sample, capped(tiny_law(a, 0))) > ALPHA
    if a:
        assert p_value_of_law(sample, capped(broken_law(a))) < 1e-3  # 1e-11 and more in the mean


@pytest.mark.parametrize(("a", "other"), [(0, 0), (1, 0), (2, 1)])
def test_one_case_is_covered_by_epsilon_alone(a: int, other: int) -> None:
    """Exactly, on the law that the releases were found to have. Control: the broken placement."""
    before = tiny_law(a, other)
    _, most = delta_between(tiny_law(a + 1, other), before, Fraction(1))
    # What lies beyond the listed values, of probability e^-145, is all that is left.
    assert most < Fraction(1, 10**60)
    least, _ = delta_between(tiny_law(a + 1, other), before, Fraction(9, 10))
    assert least > Fraction(1, 1000)
    least, _ = delta_between(broken_law(1), tiny_law(0, 0), Fraction(1))
    assert least > Fraction(1, 1000)


def test_sequences_are_without_replacement() -> None:
    """As many distinct sequences of a length are released as passed, of up to 3 and 9."""
    of = domain("AB", 2)
    thresholds = Thresholds(3, 2, (1, 1), Fraction(6))
    most = 0
    for number in range(100):
        drawn = dict(_numbers(thresholds, randomness(number)))
        made = released_over({}, of, 1, number, 6)
        assert Counter(map(len, made)) == drawn
        most = max(most, drawn.get(1, 0))
    assert most == 3

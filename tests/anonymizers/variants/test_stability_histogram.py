"""The stability histogram: its law, what it must never show, and the log that it describes.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.keys import randomness, release_key
from tests.support.logs import Log, Variant, histogram, read_released, trace_batch
from tests.support.rounds import run_rounds
from tests.support.silence import Silence
from tracecloak.anonymizers.accounting.calibration import (
    laplace_interval,
    stability_threshold,
    truncated_noise_bound,
)
from tracecloak.anonymizers.contract.in_memory import Anonymised, anonymise
from tracecloak.anonymizers.variants.method import VariantHistogramMethod, VariantHistogramParams
from tracecloak.schemas.arrays.columnar import encode
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published.figures import wider_ends
from tracecloak.schemas.published.variants import ReleasedVariants

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

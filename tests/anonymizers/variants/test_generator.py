"""What all generators of variants have in common: room for what they make, and delta."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.logs.params import GENERATORS
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.variants.generator import excess_of_names, fitting
from tracecloak.anonymizers.variants.method import VariantLog
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first

METHODS_OF_VARIANTS = [method for method in METHODS.values() if isinstance(method, VariantLog)]
PURE = sorted(name for name, generator in GENERATORS.items() if generator.is_pure)


def variants(*counts: int, length: int = 1) -> ReleasedVariants:
    """Variants of one activity each, with intervals."""
    names = pa.array([f"a{i}" for i in range(len(counts))])
    codes = np.repeat(np.arange(len(counts)), length).astype(np.int32)
    offsets = np.arange(len(counts) + 1) * length
    return most_frequent_first(names, offsets, codes, np.array(counts, np.int64), 5)


# --- room -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "length", "max_cases"),
    [((3, 2), 1, None), ((3, 2), 1, 4), ((), 1, None), ((10**7,), 2, None), ((10**9,), 9, 10**9)],
)
def test_what_there_is_room_for_stays_as_it_is(
    counts: tuple[int, ...], length: int, max_cases: int | None
) -> None:
    found = variants(*counts, length=length)
    assert fitting(found, max_cases) is found


@pytest.mark.parametrize(
    ("counts", "length", "max_cases", "most"),
    [
        ((6 * 10**9, 3 * 10**9, 10**9), 1, None, 10**7),
        ((6 * 10**9, 3 * 10**9, 10**9), 100, None, (1 << 28) // 100),
        ((6 * 10**9, 3 * 10**9, 10**9), 1, 5, 10**7),
        ((6 * 10**9, 3 * 10**9, 10**9), 1, 2 * 10**7, 2 * 10**7),
        ((6 * 10**9, 3 * 10**9, 10**9), 100, 2 * 10**7, 2 * (1 << 28) // 100),
        ((2**62,) * 40, 1, None, 10**7),  # whose sum is beyond 64 bits
    ],
)
def test_of_more_as_many_are_released_in_proportion_and_without_intervals(
    counts: tuple[int, ...], length: int, max_cases: int | None, most: int
) -> None:
    made = fitting(variants(*counts, length=length), max_cases)
    assert made.n_cases == most
    assert made.n_variants == len(counts)
    shares = np.array(counts) / sum(map(float, counts))
    assert np.abs(made.counts - shares * most).max() < 1
    assert made.lows is None and made.highs is None


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS_OF_VARIANTS, ids=lambda method: method.name)
def test_a_generator_says_how_many_names_it_can_count_by(method: VariantLog) -> None:
    generator = method._generator
    most = generator.most_names
    assert excess_of_names(generator, None) == excess_of_names(generator, 2) == ""
    if most is None:
        assert excess_of_names(generator, 10**6) == ""
    else:
        assert excess_of_names(generator, most) == ""
        assert f"{most:,} activities" in excess_of_names(generator, most + 1)


# --- a delta that buys nothing --------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS_OF_VARIANTS, ids=lambda method: method.name)
def test_a_pure_generator_leaves_its_delta_to_the_names_that_are_bought(method: VariantLog) -> None:
    """Their threshold falls with it; what is spent adds up to what was asked all the same."""
    asked = Fraction("20"), Fraction("1e-5")
    given: dict[str, Any] = {"epsilon": "20", "delta": "1e-5"}
    bought = method.Params(**given, buy_vocabulary=True)
    spent = {spend.what: spend.delta for spend in method.spends(bought)}
    assert total(method.spends(bought)) == asked
    is_pure = method._generator.is_pure
    assert spent["vocabulary"] == asked[1] * (1 if is_pure else Fraction(5, 100))
    assert sum(spent.values()) == asked[1]
    # Where nothing else can use it, it is spent for nothing: what was asked is what is charged.
    public = method.Params(**given, vocabulary=("A",), max_trace_length=3)
    assert total(method.spends(public)) == asked


@pytest.mark.parametrize("variants", PURE)
def test_a_log_with_times_gives_it_to_its_durations(variants: str) -> None:
    method = PrivateLog()
    given: dict[str, Any] = {"epsilon": "1", "vocabulary": ("A", "B"), "max_trace_length": 4}
    attributes = {"org:resource": {"values": ["R1"]}}
    pure = method.Params(**given, variants=variants, attributes=attributes)
    other = method.Params(**given, variants="markov-log", attributes=attributes)
    assert total(method.spends(pure)) == pure.budget == other.budget
    assert pure.shares["variants"][1] == 0 < other.shares["variants"][1]
    for part in ("durations", "attribute org:resource"):
        assert pure.shares[part][0] == other.shares[part][0]
        assert pure.shares[part][1] > 1.5 * other.shares[part][1]
    [own] = [spend for spend in method.spends(pure) if spend.what == "durations"]
    [others] = [spend for spend in method.spends(other) if spend.what == "durations"]
    assert own.scale is not None and others.scale is not None
    assert Fraction(*own.scale) < Fraction(*others.scale)  # and so there is less noise
    alone = method.Params(**given, variants=variants, products="variants")
    assert alone.shares == {"variants": alone.budget}

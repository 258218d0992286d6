"""What all generators of variants have in common: room for what they make, and delta.

What is made up beside the variants that a histogram shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.keys import randomness
from tests.support.logs import Variant, histogram
from tracecloak.anonymizers.accounting.composition import Spend, total
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.rigorous.params import VOCABULARY_SHARE
from tracecloak.anonymizers.variants.auto import completed
from tracecloak.anonymizers.variants.generator import Domain, excess_of_names, released
from tracecloak.anonymizers.variants.method import VariantLog
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first

NAMES = ("A", "B", "C", "D", "E")
VOCABULARY = ActivityVocabulary.public(NAMES)


def made(seen: Mapping[Variant, int], n_missing: float, max_length: int = 6) -> dict[Variant, int]:
    exact = histogram(seen, VOCABULARY.names.to_pylist())
    domain = Domain(VOCABULARY, max_length, 1)
    found = completed(exact, 15, n_missing, domain, randomness(), "test")
    rows = released(found, VOCABULARY).to_table().to_pylist()
    return {tuple(row["variant"]): row["count"] for row in rows}


METHODS_OF_VARIANTS = [method for method in METHODS.values() if isinstance(method, VariantLog)]


def variants(*counts: int, length: int = 1) -> ReleasedVariants:
    """Variants of one activity each, with intervals."""
    names = pa.array([f"a{i}" for i in range(len(counts))])
    codes = np.repeat(np.arange(len(counts)), length).astype(np.int32)
    offsets = np.arange(len(counts) + 1) * length
    return most_frequent_first(names, offsets, codes, np.array(counts, np.int64), 5)


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


def thresholds_of(spends: tuple[Spend, ...]) -> dict[str, Fraction]:
    """The deltas of thresholds, by what is spent or by block."""
    found = {spend.what: spend.delta for spend in spends if not spend.blocks}
    return found | {b.what: b.delta for spend in spends for b in spend.blocks}


@pytest.mark.parametrize("method", METHODS_OF_VARIANTS, ids=lambda method: method.name)
def test_a_pure_generator_leaves_its_delta_to_the_names_that_are_bought(method: VariantLog) -> None:
    """They have all sums of the Gaussian budget; what is spent adds up to what was asked."""
    asked = Fraction("20"), Fraction("1e-5")
    given: dict[str, Any] = {"epsilon": "20", "delta": "1e-5"}
    bought = method.Params(**given, buy_vocabulary=True)
    assert total(method.spends(bought)) == asked
    means = method.budget(bought).means
    names = means["vocabulary"]
    if method._generator.is_pure:
        assert names.share + means["length"].share == 1
    else:
        assert names.share == VOCABULARY_SHARE
    assert thresholds_of(method.spends(bought))["vocabulary"] == names.delta > 0
    assert names.noise(of_one_cell()).width == pytest.approx(
        float(names.deviation or 0) / math.sqrt(names.share) * UNITS, rel=1e-4
    )
    # Where nothing else can use it, it is spent for nothing: what was asked is what is charged.
    public = method.Params(**given, vocabulary=("A",), max_trace_length=3)
    assert total(method.spends(public)) == asked
    assert sum(thresholds_of(method.spends(public)).values()) <= asked[1]

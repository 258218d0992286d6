"""A joint mechanism with something in its place is accounted for anew, from its numbers alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.support.generators import spends_of
from tracecloak.anonymizers.accounting.composed import is_accounted_for, spend_of_json
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.variants.auto import AutoVariants

DELTA = Fraction(1, 10**6)


@pytest.fixture(scope="module")
def spend() -> Spend:
    [spend] = spends_of(AutoVariants(), Fraction(1), DELTA)
    return spend_of_json(spend.to_json())


def with_threshold(spend: Spend, delta: Fraction) -> Spend:
    """The same with another delta of the histogram."""
    tree, histogram = spend.instead
    return replace(spend, instead=(tree, replace(histogram, delta=delta)))


def test_what_a_release_says_is_enough(spend: Spend) -> None:
    assert is_accounted_for(spend) is True


@pytest.mark.parametrize("share", ["0.9", "1", "2"])
def test_a_threshold_that_needs_more_is_noticed(spend: Spend, share: str) -> None:
    """All of delta, whatever the choice was, is too much: the sums lose more after some of it."""
    assert is_accounted_for(with_threshold(spend, DELTA * Fraction(share))) is False


def test_a_threshold_that_needs_less_is_enough(spend: Spend) -> None:
    assert is_accounted_for(with_threshold(spend, DELTA / 8)) is True


def test_noise_that_is_one_percent_too_small_is_noticed(spend: Spend) -> None:
    blocks = tuple(
        replace(block, scale=(block.scale[0] * 99, block.scale[1] * 100)) for block in spend.blocks
    )
    assert is_accounted_for(replace(spend, blocks=blocks)) is False

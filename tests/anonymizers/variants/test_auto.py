"""`auto-variants`: which way it takes, by what numbers, and that either way is paid for."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.support.generators import budget
from tests.support.keys import randomness
from tests.support.logs import Variant, histogram
from tracecloak.anonymizers.accounting.composition import rough_gaussian_delta
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.drawing import Recording
from tracecloak.anonymizers.rigorous.budget import Choice, Instead, Sums, budget_of
from tracecloak.anonymizers.variants.auto import AutoVariants
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.schemas.events.events import ActivityVocabulary

NAMES = tuple("ABCDEFGH")
VOCABULARY = ActivityVocabulary.public(NAMES)
DELTA = Fraction(1, 10**6)
AUTO = AutoVariants()
ONE = of_one_cell().times(1024)


def ways_of(
    log: Mapping[Variant, int], epsilon: Any, max_length: int = 8, n_keys: int = 12
) -> Counter[str]:
    """Which way was taken, by the noise that was drawn."""
    exact = histogram(log, VOCABULARY.names.to_pylist())
    domain = Domain(VOCABULARY, max_length, 1)
    means = budget(AUTO, epsilon, DELTA, 1, max_length).means
    found: Counter[str] = Counter()
    for number in range(n_keys):
        recording = Recording()
        AUTO.answer(exact, domain, means, randomness(number).with_noise(recording))
        purposes = {drawn.purpose for drawn in recording.drawn}
        own = {
            "joint": f"{AUTO.name}/chain" in purposes,
            "histogram": f"{AUTO.name}/histogram/count" in purposes,
        }
        [way] = [name for name, is_own in own.items() if is_own] or ["tree"]
        found[way] += 1
    return found


def _scattered(n_cases: int, n_names: int) -> dict[Variant, int]:
    generator = np.random.default_rng(3)
    log: Counter[Variant] = Counter()
    for _ in range(n_cases):
        log[tuple(generator.permutation(list(NAMES[:n_names])).tolist())] += 1
    return dict(log)


STRAIGHT: dict[Variant, int] = {tuple("ABCD"): 1900, tuple("ABD"): 95, tuple("AD"): 5}


@pytest.mark.parametrize(
    ("log", "epsilon", "way"),
    [
        (STRAIGHT, 1, "histogram"),
        (STRAIGHT, 4, "histogram"),
        (_scattered(1500, 5), 1, "joint"),
    ],
    ids=["line", "line, 4", "scattered"],
)
def test_the_way_follows_from_how_many_cases_a_histogram_would_show(
    log: dict[Variant, int], epsilon: Any, way: str
) -> None:
    taken = ways_of(log, epsilon)
    assert taken[way] >= 9, taken


def _mixed(
    deviation: float, chosen: float, epsilon: float, of_histogram: float, ways: tuple[bool, bool]
) -> float:
    """Delta at epsilon of a randomised response, then of one way after each of its answers."""
    lost = math.exp(chosen) / (1 + math.exp(chosen))
    return sum(
        chance * (of_histogram if in_place else rough_gaussian_delta(deviation, epsilon - loss))
        for chance, loss, in_place in zip((lost, 1 - lost), (chosen, -chosen), ways, strict=True)
    )


@pytest.mark.parametrize("share", [Fraction(1, 4), Fraction(9, 10)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(4)])
def test_whatever_way_follows_an_answer_delta_holds(epsilon: Fraction, share: Fraction) -> None:
    """And all of it is used; what is in place of the sums costs them something if it has much."""
    sums = Sums("sums", Fraction(1), ONE, 1024, is_l2=True)
    choice = Choice("choice", Fraction(4, 100))
    place = Instead("x", "x", Fraction(1), ("sums",), delta_share=share)

    def worst(needs: tuple[Any, ...], of_place: Fraction) -> float:
        found = budget_of(epsilon, DELTA, needs)
        assert found.deviation is not None
        own = float(epsilon * choice.share)
        return max(
            _mixed(float(found.deviation), own, float(epsilon), float(of_place), ways)
            for ways in itertools.product((False, True), repeat=2)
        )

    shared = budget_of(epsilon, DELTA, (choice, sums, place))
    assert shared.means["x"].delta == share * DELTA
    assert 0.9999 < worst((choice, sums, place), share * DELTA) / float(DELTA) <= 1
    alone = budget_of(epsilon, DELTA, (choice, sums))
    assert shared.deviation is not None and alone.deviation is not None
    assert (shared.deviation > alone.deviation) == (share > Fraction(1, 2))
    assert worst((choice, sums), DELTA) > 1.05 * float(DELTA)  # the control

"""Noisy sums are kept where somebody listens, and the noise is the same as where nobody does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.support.keys import randomness
from tracecloak.anonymizers.noise.noting import Noting, note
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums
from tracecloak.schemas.published.measures import Measure

NOISE = SumNoise((80, 1), 4, False)
CELLS = np.arange(50)


def test_the_noise_is_that_of_what_draws() -> None:
    plain, noting = randomness(3), Noting()
    sums = np.arange(50) * NOISE.units
    expected = noisy_sums(sums, NOISE, "test", CELLS, plain)
    listened = noisy_sums(sums, NOISE, "test", CELLS, plain.with_noise(noting))
    assert np.array_equal(expected, listened)
    assert not noting.noted  # nobody said that these may be seen


def test_what_is_noted_comes_out_in_its_order() -> None:
    noting = Noting()
    listened = randomness().with_noise(noting)
    note(listened, "cases", lambda: [("sizes",)], np.array([3.5]), 2.0)
    note(listened, "arc", lambda: [("A", "B"), ("B", "A")], np.array([1.0, -2.0]), 1.5)
    assert noting.measures.rows() == [
        Measure("cases", ("sizes",), 3.5, 2.0),
        Measure("arc", ("A", "B"), 1.0, 1.5),
        Measure("arc", ("B", "A"), -2.0, 1.5),
    ]


def test_labels_are_not_made_where_nobody_listens() -> None:
    def labels() -> Iterator[tuple[str, ...]]:
        raise AssertionError("nobody listens")
        yield ()

    note(randomness(), "cases", labels, np.array([1.0]), 1.0)

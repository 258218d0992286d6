"""Both tree methods on a log of the size of the hospital's of 2011: they come to an end there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.hospital_2011 import N_ACTIVITIES, hospital_2011
from tests.support.keys import randomness
from tests.support.trees import mined_tree
from tracecloak.anonymizers.noise.drawing import Noise
from tracecloak.anonymizers.trees.dpim import Dpim, DpimParams
from tracecloak.anonymizers.trees.process_tree import ProcessTreeParams

pytestmark = pytest.mark.slow


class Counting(Noise):
    """Draws exactly, and notes how many numbers each draw has."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def laplace(self, *given: Any) -> np.ndarray:
        found = super().laplace(*given)
        self.sizes.append(len(found))
        return found


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": "1.25"},
        {"epsilon": "1.25", "size_bounds": (4_280, 4_310)},
        {"epsilon": "100", "stop_probability": "0.1"},
    ],
)
def test_dpim_draws_noise_on_all_pairs_once_a_round(given: dict[str, Any]) -> None:
    """624 activities have 390,625 pairs; each of thousands of choices once had noise on all."""
    variants, vocabulary = hospital_2011()
    noise, n_pairs = Counting(), (N_ACTIVITIES + 1) ** 2
    params = DpimParams(vocabulary=vocabulary.names.to_pylist(), **given)
    keyed = randomness().with_noise(noise)
    found = Dpim().mined(variants, vocabulary, params, keyed)
    n_rounds = noise.sizes.count(1)
    assert 1 <= n_rounds == noise.sizes.count(n_pairs)
    assert set(found.tree.labels) <= set(vocabulary.names.to_pylist())


def test_the_rigorous_tree_of_it_says_more_than_a_flower() -> None:
    variants, vocabulary = hospital_2011()
    names = vocabulary.names.to_pylist()
    params = ProcessTreeParams(epsilon="8", delta="1e-6", vocabulary=names, closed_vocabulary=True)
    found = mined_tree(variants, params, randomness())
    assert found.fitness is not None and 0 <= found.fitness <= 1
    assert 0 < len(found.tree.labels) < N_ACTIVITIES

"""What a release by Amun does to cases and times, and what is said of it before a log is read."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.paper_log import traces_of
from tests.support.rounds import run_rounds
from tracecloak.anonymizers.amun.case_moves import (
    moves_per_transition,
)
from tracecloak.anonymizers.amun.method import Amun, AmunParams
from tracecloak.anonymizers.noise.published import laplace_by_inversion


@pytest.mark.parametrize(
    ("profile", "epsilon"), [("reference", 0.8109302162), ("paper", 0.1777249)]
)
def test_oversampling_draws_by_the_epsilon_of_its_profile(profile: str, epsilon: float) -> None:
    """Of six transitions each one's noise is Laplace of scale 1 / epsilon, and positive."""
    params = AmunParams(mode="oversampling", guessing_advantage=0.2, profile=profile)
    assert params.epsilon_d == pytest.approx(epsilon, abs=1e-6)
    traces = traces_of([(str(i), "A", i) for i in range(5)])  # one transition, one variant
    gained = []
    for number in range(200):
        run = run_rounds(traces, Amun(), params, release_key(number))
        sampling = run.decisions["sampling"]
        assert not sampling.losses.any()
        words = run.by_round["sampling"].words("amun/count", np.zeros((1, 2), np.uint64))
        [gain] = sampling.gains.tolist()
        assert gain == abs(int(laplace_by_inversion(words, 1 / params.epsilon_d)[0]))
        gained.append(gain)
    deviation = np.std(gained) / np.sqrt(len(gained))
    assert np.mean(gained) == pytest.approx(moves_per_transition(params), abs=4 * deviation)

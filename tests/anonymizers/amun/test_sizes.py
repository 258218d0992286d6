"""How many cases Amun releases, foretold: beside what it then makes, and of logs by hand."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.paper_log import traces_of
from tests.support.rounds import run_rounds
from tests.support.tiers import at_night
from tracecloak.anonymizers.amun.case_moves import (
    SizeForecast,
    draw_gains_and_losses,
    forecast_size,
)
from tracecloak.anonymizers.amun.method import Amun, AmunParams
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.variants import Dafsa, VariantHistogram

N_CASES, N_ACTIVITIES = 1_143, 624


@functools.cache
def long_tail() -> Dafsa:
    """Returns 1,143 cases of 5 to 25 events over 624 activities, nearly each like no other."""
    drawn = np.random.default_rng(0)
    lengths = drawn.integers(5, 26, N_CASES)
    weights = 1 / np.arange(1, N_ACTIVITIES + 1)
    codes = drawn.choice(N_ACTIVITIES, int(lengths.sum()), p=weights / weights.sum())
    sequences = encode_sequences(offsets_of(lengths), codes.astype(np.int32))
    return Dafsa.from_variants(VariantHistogram.from_sequences(sequences, np.ones(N_CASES, "i8")))


def of(dafsa: Dafsa, params: AmunParams, number: int) -> int:
    """Returns the cases of a release under some key."""
    counts = dafsa.variants.counts
    randomness = Randomness(release_key(number), "release", "", "")
    gains, losses = draw_gains_and_losses(dafsa, counts, params, randomness)
    return int((counts + gains - losses).sum())


@pytest.mark.parametrize(
    ("mode", "profile", "low", "high"),
    [
        ("oversampling", "reference", 3, 8),
        ("oversampling", "paper", 20, 30),
        at_night("sampling", "reference", 1, 2.5),
        at_night("oversampling", "tables", 3, 8),
    ],
)
def test_a_log_of_many_activities_is_said_to_grow_as_it_then_does(
    mode: str, profile: str, low: float, high: float
) -> None:
    """By the paper's epsilon to 25 times its size: what nobody would expect of `oversampling`."""
    params = AmunParams(guessing_advantage=0.2, mode=mode, profile=profile)
    told = forecast_size(long_tail(), params)
    assert low < told.growth < high
    assert told.n_cases == N_CASES and told.mean < told.most < 1.15 * told.mean
    for number in range(3):
        assert of(long_tail(), params, number) == pytest.approx(told.mean, rel=0.1)


def test_a_release_that_would_be_too_large_is_refused_before_its_noise_is_drawn() -> None:
    """One case, one transition: 1 + 1.2 cases on average; at g = 0.01 some 25."""
    traces = traces_of([("1", "A", 0)])
    wide = {"guessing_advantage": 0.01, "mode": "oversampling"}
    message = r"^max_growth=10 is exceeded: the release would have more cases "
    with pytest.raises(UsageError, match=message):
        run_rounds(traces, Amun(), AmunParams(**wide, max_growth=10), release_key())
    run_rounds(traces, Amun(), AmunParams(**wide), release_key())
    run_rounds(traces, Amun(), AmunParams(**wide, max_growth=1000), release_key())
    run_rounds(traces, Amun(), AmunParams(guessing_advantage=0.01, max_growth=1), release_key())


def test_the_sentence_says_no_number_of_the_log() -> None:
    """It is written to logs and is an error's, and the number of cases is exact."""
    assert SizeForecast(1_143, 34_612.2, 34_911.9).sentence == (
        "A release would have about 30.3 times the cases of the log; 19 of 20 releases have at "
        "most 30.5 times as many."
    )
    assert "about 1.4 times the cases" in SizeForecast(5, 6.99, 8).sentence

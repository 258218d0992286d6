"""What a release by Amun does to cases and times, and what is said of it before a log is read."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.paper_log import DAY_US, table_1, traces_of
from tests.support.rounds import run_rounds
from tracecloak.anonymizers.amun.costs import (
    moves_per_transition,
    noise_in_ranges,
)
from tracecloak.anonymizers.amun.guessing_advantage import epsilon_of_counts
from tracecloak.anonymizers.amun.method import Amun, AmunParams
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.anonymizers.noise.published import laplace_by_inversion
from tracecloak.examination.demo.hospital import hospital_log
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import TraceBatch

# --- the default leaves times that are of use -----------------------------------------------------


@functools.cache
def hospital() -> TraceBatch:
    """Returns 600 synthetic cases, nearly each with a variant of its own, and very uneven steps."""
    [rows] = hospital_log(600)
    resolved = ColumnMapping().resolve(rows.schema.names, xes_names=False)
    numbers, none = np.arange(rows.num_rows), np.zeros(0, np.int64)
    [traces] = group_into_traces([resolved.canonicalise(rows, numbers, none, 0)[0]])
    return traces


# --- oversampling by the authors' epsilon ---------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "epsilon"), [("reference", 0.8109302162), ("paper", 0.1777249)]
)
def test_oversampling_draws_by_the_epsilon_of_its_profile(profile: str, epsilon: float) -> None:
    """Table 1 has six transitions; each one's noise is Laplace of scale 1 / epsilon, and positive.

    The draws are made again from the words that they are made of. Every transition must gain at
    least its noise, and one that gains for no other's sake exactly that: so the sizes show which
    epsilon it was.
    """
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


# --- what is said beforehand ----------------------------------------------------------------------


@pytest.mark.parametrize(("profile", "moves"), [("reference", 1.2), ("paper", 5.6193)])
def test_the_moves_of_a_transition_are_the_mean_size_of_rounded_noise(
    profile: str, moves: float
) -> None:
    """(1 - g²) / 4g by epsilon_d, which is 1.2 at g = 0.2; by hand the sum over sizes else."""
    params = AmunParams(mode="oversampling", guessing_advantage=0.2, profile=profile)
    by_size = sum(np.exp(-params.epsilon_d * (size - 0.5)) for size in range(1, 400))
    assert moves_per_transition(params) == pytest.approx(by_size)
    assert moves_per_transition(params) == pytest.approx(moves, abs=1e-3)


def test_no_release_moves_more_cases_on_average_than_is_said() -> None:
    """Of the hospital: 20 releases by oversampling, and gains and losses by sampling."""
    for mode, profile in [
        ("oversampling", "reference"),
        ("oversampling", "paper"),
        ("sampling", "paper"),
        ("oversampling", "tables"),
    ]:
        params = AmunParams(mode=mode, guessing_advantage=0.2, profile=profile)
        moves = []
        for number in range(5):
            run = run_rounds([hospital()], Amun(), params, release_key(number))
            sampling = run.decisions["sampling"]
            n_transitions = run.decisions["dafsa"].dafsa.n_transitions
            moves.append((sampling.gains.sum() + sampling.losses.sum()) / n_transitions)
        assert np.mean(moves) < moves_per_transition(params)
        # Not an empty promise either: cases of the hospital share enough of their transitions.
        assert np.mean(moves) > moves_per_transition(params) / 10


@pytest.mark.parametrize("profile", ["reference", "paper"])
@pytest.mark.parametrize("zero_prior", [0.1, 10])
@pytest.mark.parametrize("g", [0.05, 0.2, 0.5])
def test_no_time_has_a_larger_scale_than_is_said(profile: str, g: float, zero_prior: float) -> None:
    """The noise in ranges of the group, of every time of Table 1 and of the hospital."""
    smallest_epsilon = min(epsilon_of_counts(g), 0.7 if profile == "reference" else np.inf)
    assert noise_in_ranges(AmunParams(guessing_advantage=g, profile=profile)) == pytest.approx(
        1 / smallest_epsilon
    )
    params = AmunParams(guessing_advantage=g, profile=profile, zero_prior_epsilon=zero_prior)
    said = noise_in_ranges(params)
    for traces in (table_1(), [hospital()]):
        run = run_rounds(traces, Amun(), params, release_key())
        table, scales = run.statistics["sampling"]["times"], run.decisions["sampling"].scales
        n_groups = run.decisions["dafsa"].dafsa.n_transitions + 1
        smallest, largest = table.extremes(n_groups)
        tick = np.where(table.groups == n_groups - 1, DAY_US, params.choices.time_unit_us)
        ranges = (largest - smallest)[table.groups] * tick
        assert (scales <= said * ranges * (1 + 1e-6)).all()
        assert (scales > 0).any()

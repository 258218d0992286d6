"""Intervals of `private-dfg` hold the log's counts, clip and all, and are not much too wide.

What a clip takes is spread as the released counts are, so it is too little where the cases that are
scaled down take other pairs than most or are many times as long as the clip: of a log with a heavy
tail of lengths fewer intervals hold, and that is shown here as well.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.support.graph_intervals import intervals_of
from tests.support.real_logs import public_log
from tracecloak.anonymizers.graphs.private_dfg import PrivateDfgParams
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch

SECOND_US = 1_000_000


def log_of(cases: list[np.ndarray], n_names: int) -> TraceBatch:
    """A log with steps of seconds to months, by the activity that they lead to."""
    rng, lengths = np.random.default_rng(1), np.array([len(case) for case in cases])
    codes = np.concatenate(cases).astype(np.int32)
    steps = (np.exp(rng.normal(9 + 0.8 * (codes % 5), 2.5)) * SECOND_US).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    steps[offsets[:-1]] = 0
    before = np.concatenate([[0], np.cumsum(steps)])
    times = before[1:] - np.repeat(before[offsets[:-1]], lengths)
    words = ActivityVocabulary.public([f"a{i:02}" for i in range(n_names)])
    ids = pa.array([f"c{i}" for i in range(len(cases))])
    return TraceBatch(ids, offsets, codes, times, words)


def flower() -> TraceBatch:
    """Anything may follow anything, for about a dozen events."""
    rng = np.random.default_rng(2)
    return log_of([rng.integers(0, 10, 1 + rng.geometric(1 / 12)) for _ in range(2000)], 10)


def mixture() -> TraceBatch:
    """Of 8,000 cases most are short, and every seventh has a hundred events of its own."""
    rng = np.random.default_rng(9)
    long = (np.concatenate([[0], rng.integers(2, 12, 100), [1]]) for _ in range(8000))
    return log_of([np.array([0, 1]) if rng.random() < 0.85 else case for case in long], 12)


def line() -> TraceBatch:
    """Every case is the same."""
    return log_of([np.arange(10)] * 5000, 10)


def params_of(traces: TraceBatch, epsilon: str, *, durations: bool) -> PrivateDfgParams:
    names = [name for name in traces.vocabulary.names.to_pylist() if name != "__other__"]
    return PrivateDfgParams(epsilon=epsilon, vocabulary=tuple(names), durations=durations)


# How wide intervals are at most, in those of noise alone, where a clip in L1 may be taken: what
# that takes is known from the lengths that an eighth of epsilon is for.
WIDEST = 2.5
LOGS = [flower, mixture, line]
EPSILONS = ["0.5", "1", "4"]


@pytest.mark.parametrize("durations", [False, True])
@pytest.mark.parametrize("log", [flower, mixture], ids=lambda log: log.__name__)
def test_intervals_hold_nine_times_in_ten_of_few_releases(
    log: Callable[[], TraceBatch], durations: bool
) -> None:
    """12 keys, of which each has some hundred intervals."""
    traces = log()
    found = intervals_of(traces, params_of(traces, "1", durations=durations), 12)
    assert found["edges"].n > 1000
    assert found["edges"].coverage >= 0.93
    assert found["edges"].mean_width <= 1.5
    if durations:
        assert found["durations"].coverage >= 0.93
        assert found["durations"].mean_width <= 1.5


def test_what_a_public_clip_takes_is_in_the_intervals_however_much_it_is() -> None:
    """A clip of half of most cases' norms. Control: the quantiles of noise alone hold for few."""
    traces = flower()
    params = params_of(traces, "4", durations=False).model_copy(update={"l2_clip": Decimal(2)})
    found = intervals_of(traces, params, 12)["edges"]
    assert found.n > 1000
    assert found.coverage >= 0.93
    assert found.of_noise_alone < 0.5 * found.n


@pytest.mark.slow
@pytest.mark.parametrize("durations", [False, True])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.__name__)
def test_intervals_hold_of_two_hundred_releases(
    log: Callable[[], TraceBatch], epsilon: str, durations: bool
) -> None:
    traces = log()
    params = params_of(traces, epsilon, durations=durations)
    for seen in intervals_of(traces, params, 200).values():
        if seen.n:
            assert seen.coverage >= 0.93
            assert seen.mean_width <= WIDEST


REAL = [
    "bpic2013_incidents.xes.gz",
    "bpic2013_closed.xes.gz",
    "coselog_receipt.xes.gz",
    "sepsis.xes.gz",
    "unrineweginfectie.xes.gz",
]


@pytest.mark.slow
@pytest.mark.logs
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("file", REAL)
def test_intervals_hold_of_real_logs(logs_folder: Path, file: str, epsilon: str) -> None:
    """Over 200 keys."""
    traces = public_log(logs_folder, file)
    params = params_of(traces, epsilon, durations=False)
    found = intervals_of(traces, params, 200)["edges"]
    assert found.coverage >= 0.93
    assert found.mean_width <= WIDEST

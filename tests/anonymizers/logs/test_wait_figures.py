"""Mean waits of a released log: a worked example, and how often their intervals are right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.logs import MINUTE, trace_batch
from tracecloak.anonymizers.logs.wait_figures import wait_figures
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published import measures as sums
from tracecloak.schemas.published.figures import Figure
from tracecloak.schemas.published.measures import Measure, ReleasedMeasures
from tracecloak.schemas.statistics.log_times import LogTimes

HOUR = 60 * MINUTE
NAMES = ActivityVocabulary.public("ABC")
PAIR = ("A", "B")


def times(n_cases: int, wait_us: int) -> LogTimes:
    steps = [
        (str(case), name, 0 if name == "A" else wait_us) for case in range(n_cases) for name in "AB"
    ]
    return LogTimes.from_traces(trace_batch(steps).recode_public(NAMES))


def waits(value: float, deviation: float, all_us: float, path: Figure) -> list[Figure]:
    rows = ReleasedMeasures.of([Measure(sums.TIME_OF_PAIR, PAIR, value, deviation)])
    return list(wait_figures(rows, [path], all_us, times(200, HOUR), NAMES))


def taken(n: int, within: int = 0) -> Figure:
    return Figure("path", PAIR, n, n - within, n + within, "measured")


def test_what_a_clip_took_is_given_back_and_is_less_sure() -> None:
    """Of 200 hours the clip took half: doubled, it is an hour each, give or take a quarter."""
    [wait] = waits(100 * HOUR, 0.0, 200 * HOUR, taken(200))
    assert (wait.name, wait.of, wait.kind) == ("mean_wait_us", PAIR, "derived")
    assert wait.value == pytest.approx(HOUR, rel=0.05)
    assert (wait.low + wait.high) / 2 == pytest.approx(HOUR)
    assert (wait.high - wait.low) / 2 == pytest.approx(1.96 * HOUR / 4, rel=1e-3)


def test_noise_of_the_time_and_of_the_count_add_up() -> None:
    """10 hours of 200, and 5 of 200 times: half the width is 1.96 sqrt(.05^2 + .025^2) hours."""
    [wait] = waits(200 * HOUR, 10 * HOUR, 200 * HOUR, taken(200, round(1.96 * 5)))
    half = 1.96 * math.hypot(0.05, 0.025) * HOUR
    assert (wait.high - wait.low) / 2 == pytest.approx(half, rel=0.01)


def test_a_wait_without_a_sum_or_of_few_is_no_figure() -> None:
    assert waits(100 * HOUR, HOUR, 100 * HOUR, taken(99)) == []
    assert waits(100 * HOUR, HOUR, 100 * HOUR, Figure("path", ("B", "C"), 500, 490, 510, "m")) == []


def test_sums_of_noise_are_raised_by_no_more_than_four() -> None:
    [wait] = waits(HOUR, 0.0, 10_000 * HOUR, taken(200))
    assert wait.low == pytest.approx(4 * HOUR / 200 * (1 - 1.96 * 0.5 * 0.75), rel=1e-3)


@pytest.mark.parametrize(("share_of_width", "least", "most"), [(1.0, 0.93, 1.0), (0.5, 0.5, 0.85)])
def test_waits_of_the_original_lie_within(share_of_width: float, least: float, most: float) -> None:
    """Over 400 draws of the noise of time and count; half the width, the control, does not do."""
    generator = np.random.default_rng(4)
    within = []
    for _ in range(400):
        n = round(generator.normal(200, 5))
        total = generator.normal(200 * HOUR, 10 * HOUR)
        # The released log has the wait that noise made of it, which the interval then holds, too.
        [wait] = wait_figures(
            ReleasedMeasures.of([Measure(sums.TIME_OF_PAIR, PAIR, total, 10.0 * HOUR)]),
            [taken(n, round(1.96 * 5))],
            total,
            times(200, round(total / n)),
            NAMES,
        )
        middle, half = (wait.low + wait.high) / 2, (wait.high - wait.low) / 2 * share_of_width
        within.append(abs(middle - HOUR) <= half)
    assert least <= np.mean(within) <= most

"""Mean waits of a released log: a worked example, and how often their intervals are right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.logs import MINUTE, trace_batch
from tracecloak.anonymizers.logs.log_figures import wait_figures
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published import figures as sums
from tracecloak.schemas.published.figures import Figure, Measure, ReleasedMeasures
from tracecloak.schemas.statistics.log_times import LogTimes

HOUR = 60 * MINUTE
NAMES = ActivityVocabulary.public("ABC")
PAIR = ("A", "B")


def times(n_cases: int, wait_us: int) -> LogTimes:
    steps = [
        (str(case), name, 0 if name == "A" else wait_us) for case in range(n_cases) for name in "AB"
    ]
    return LogTimes.from_traces(trace_batch(steps).recode_public(NAMES))


def waits(
    value: float, deviation: float, path: Figure, kept: dict[tuple[str, ...], float] | None = None
) -> list[Figure]:
    """Of one pair; nothing was cut of it, nor of others, unless it is said."""
    shares = {PAIR: 1.0, (): 1.0} if kept is None else kept
    rows = [Measure(sums.TIME_KEPT, of, share, 0.0) for of, share in shares.items()]
    rows.append(Measure(sums.TIME_OF_PAIR, PAIR, value, deviation))
    return list(wait_figures(ReleasedMeasures.of(rows), [path], times(200, HOUR), NAMES))


def taken(n: int, within: int = 0) -> Figure:
    return Figure("path", PAIR, n, n - within, n + within, "measured")


def test_what_a_clip_may_have_taken_raises_the_upper_end() -> None:
    """150 hours of 200 steps: .75 each, or 1.25 if the clip kept .8 of the pair, and .8 of all."""
    [wait] = waits(150 * HOUR, 0.0, taken(200), {PAIR: 0.8, (): 0.8})
    assert (wait.name, wait.of, wait.kind) == ("mean_wait_us", PAIR, "derived")
    assert wait.value == pytest.approx(HOUR, rel=0.05)
    assert (wait.low / HOUR, wait.high / HOUR) == pytest.approx((0.75, 1.25))


def test_noise_of_the_time_and_of_the_count_add_up() -> None:
    """10 hours of 200, and 5 of 200 times: half the width is 1.96 sqrt(.05^2 + .025^2) hours."""
    [wait] = waits(200 * HOUR, 10 * HOUR, taken(200, round(1.96 * 5)))
    half = 1.96 * math.hypot(0.05, 0.025) * HOUR
    assert (wait.high - wait.low) / 2 == pytest.approx(half, rel=0.01)


@pytest.mark.parametrize("kept", [{}, {PAIR: 0.3, (): 0.3}])
def test_of_a_pair_of_which_nearly_all_may_be_lost_only_that_is_known(kept: dict) -> None:
    [wait] = waits(100 * HOUR, 0.0, taken(200), kept)
    assert (wait.low / HOUR, wait.high / HOUR) == pytest.approx((0.5, 5))
    assert wait.grade == "noise"


@pytest.mark.parametrize(("share_of_width", "least", "most"), [(1.0, 0.93, 1.0), (0.5, 0.5, 0.85)])
def test_waits_of_the_original_lie_within(share_of_width: float, least: float, most: float) -> None:
    """Over 400 draws of the noise of time and count; half the width, the control, does not do."""
    generator = np.random.default_rng(4)
    within = []
    for _ in range(400):
        n = round(generator.normal(200, 5))
        total = generator.normal(200 * HOUR, 10 * HOUR)
        [wait] = waits(total, 10.0 * HOUR, taken(n, round(1.96 * 5)))
        low = total / n - share_of_width * (total / n - wait.low)
        high = total / n + share_of_width * (wait.high - total / n)
        within.append(low <= HOUR <= high)
    assert least <= np.mean(within) <= most

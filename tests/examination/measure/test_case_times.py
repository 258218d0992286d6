"""What is read off the times of a log: by hand, by its laws, and against plain Python."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import MINUTE, cases_of, event_logs, trace_batch
from tracecloak.examination.measure import utility
from tracecloak.examination.measure.utility import CaseTimes
from tracecloak.schemas.events.traces import TraceBatch

HOUR = 60
DAY = 24 * HOUR


def log(cases: dict[str, str]) -> TraceBatch:
    return trace_batch(cases, "ABCD")


def figures(original: dict[str, str], released: dict[str, str]) -> dict[str, float | None]:
    return CaseTimes(log(original)).figures(log(released))


def test_the_distance_of_durations_by_hand() -> None:
    """1 and 3 hours against 2 and 3: half an hour of a mean of two."""
    original = {"1": f"A B@{HOUR}", "2": f"A B@{3 * HOUR}"}
    released = {"1": f"A B@{2 * HOUR}", "2": f"A B@{3 * HOUR}"}
    assert figures(original, released)["case_duration_distance"] == pytest.approx(0.25)
    at_once = {"1": "A B@0"}
    assert figures(original, at_once)["case_duration_distance"] == pytest.approx(1)
    assert figures(at_once, original)["case_duration_distance"] is None  # over a mean of 0
    assert figures(original, {})["case_duration_distance"] is None


def test_the_duration_of_the_top_variants_by_hand() -> None:
    """A B takes a day and is released with two; A C takes a day and is not released."""
    original = {"1": f"A B@{DAY}", "2": f"A B@{DAY}", "3": f"A C@{DAY}"}
    released = {"x": f"A B@{2 * DAY}", "y": f"A B@{2 * DAY}", "z": "D"}
    assert figures(original, released)["top_variant_duration_error"] == pytest.approx(1)
    half = {"x": f"A B@{DAY}", "y": f"A C@{2 * DAY}"}
    assert figures(original, half)["top_variant_duration_error"] == pytest.approx(0.5)
    # .01 day is 14.4 minutes: a variant of no duration that is released with as many errs by 1.
    nothing, minutes = {"1": "A B@0"}, {"1": "A B@28", "2": "A B@29", "3": "A B@29", "4": "A B@0"}
    error = (28 + 29 + 29) / 4 / 14.4
    assert figures(nothing, minutes)["top_variant_duration_error"] == pytest.approx(error)


def test_only_ten_variants_are_on_top_and_the_first_of_equals() -> None:
    cases = {f"{a}{b}": f"{a} {b}" for a, b in itertools.product("ABC", "ABCD")}
    cases["again"] = "C D"
    top = utility.top_variants(log(cases))
    assert top.n_variants == 10 and top.counts.tolist() == [1] * 9 + [2]
    classes = utility.classes_of(log(cases), top)
    assert (classes == 10).sum() == 2  # C B and C C


def test_eta_squared_by_hand() -> None:
    """Classes of values 0, 2 and 4, 6: of the squares 20 around 3, 16 lie between."""
    values, classes = np.array([0.0, 2, 4, 6]), np.array([0, 0, 1, 1])
    assert utility.eta_squared(values, classes) == pytest.approx(16 / 20)
    assert utility.eta_squared(values, np.array([0, 1, 2, 3])) == pytest.approx(1)
    assert utility.eta_squared(values, np.zeros(4, np.int64)) == pytest.approx(0)
    assert utility.eta_squared(np.ones(3), np.array([0, 1, 1])) is None
    assert utility.eta_squared(np.zeros(0), np.zeros(0, np.int64)) is None


def test_durations_that_the_variant_tells_and_those_that_it_does_not() -> None:
    by_variant = {str(i): f"A {'BC'[i % 2]}@{[HOUR, DAY][i % 2]}" for i in range(8)}
    mixed = {str(i): f"A {'BC'[i % 2]}@{[HOUR, DAY][i // 4]}" for i in range(8)}
    assert figures(by_variant, by_variant)["duration_eta_squared"] == pytest.approx(1)
    assert figures(by_variant, mixed)["duration_eta_squared"] == pytest.approx(0)


def test_drift_by_hand() -> None:
    """Four A B, then A B and three A C: the shares of A B are 1 and a quarter."""
    cases = {str(i): f"A@{i} {'B' if i < 5 else 'C'}@{i + 1}" for i in range(8)}
    assert figures(cases, cases)["drift"] == pytest.approx(0.75)
    one = np.array([5])
    assert utility.half_difference(one, one) is None
    halves = utility.half_difference(np.array([3, 1, 2]), np.array([0, 1, 0]))
    assert halves == pytest.approx(1)  # the first alone, then the two others


def test_the_wait_of_big_pairs_by_hand() -> None:
    """A B in 30 cases waits an hour, B C in 21 two, C D in 19 is not big."""
    cases = {
        str(i): f"A B@{HOUR}" + f" C@{3 * HOUR}" * (i < 21) + f" D@{4 * HOUR}" * (i < 19)
        for i in range(30)
    }
    released = {"x": f"A B@{HOUR} C@{2 * HOUR}"}
    assert figures(cases, released)["big_pair_wait_error"] == pytest.approx((0 + 1 / 2) / 2)
    assert figures(cases, {"x": f"A B@{HOUR}"})["big_pair_wait_error"] == pytest.approx(1 / 2)
    assert figures(released, cases)["big_pair_wait_error"] is None
    # A case shows a pair once, however often it has it.
    often = {str(i): "A B A B A B" for i in range(10)}
    assert figures(often, often)["big_pair_wait_error"] is None
    assert utility.PairWaits.of(log(often)).cases.tolist() == [10, 10]


def test_misplaced_waiting_time_by_hand() -> None:
    """Of 4 hours 3 are at A B; in the release a quarter of all is there, a quarter at C D."""
    cases = {"x": f"A B@{HOUR} C@{2 * HOUR}", "y": f"A B@{2 * HOUR}"}
    released = {"x": f"A B@{HOUR} C@{3 * HOUR}", "y": f"C D@{HOUR}"}
    assert figures(cases, released)["misplaced_waiting_time"] == pytest.approx(0.5)
    assert figures(cases, cases)["misplaced_waiting_time"] == 0
    # Only where the time goes counts, and not how much there is; and how often does not either.
    half = {"x": f"A B@{HOUR // 2} C@{HOUR}", "y": f"A B@{HOUR}", "z": "A B@0"}
    assert figures(cases, half)["misplaced_waiting_time"] == pytest.approx(0)
    assert figures(cases, {"x": "A B@0"})["misplaced_waiting_time"] == 1
    assert figures({"x": "A B@0"}, cases)["misplaced_waiting_time"] is None


def test_two_per_cent_of_many_cases_are_more_than_twenty() -> None:
    cases = {str(i): f"A B@{HOUR}" if i < 24 else "A" for i in range(1250)}
    assert figures(cases, cases)["big_pair_wait_error"] is None
    assert figures({**cases, "24": f"A B@{HOUR}"}, cases)["big_pair_wait_error"] == 0


@given(event_logs(max_events=40))
def test_a_log_is_at_no_distance_from_itself(events: Any) -> None:
    traces = trace_batch(events, "ABC")
    found = CaseTimes(traces).figures(traces)
    errors = ("case_duration_distance", "top_variant_duration_error", "big_pair_wait_error")
    for name in errors:
        assert found[name] in (0, None), name
    for name in ("duration_eta_squared", "drift"):
        assert found[name] is None or 0 <= found[name] <= 1


@given(event_logs(max_events=40), st.integers(2, 9))
def test_measures_do_not_depend_on_the_unit_of_long_times(events: Any, factor: int) -> None:
    """Errors relative to what the log has stay, if all is so slow that no floor holds."""
    slow = trace_batch([(case, a, t * 1000) for case, a, t in events], "ABC")
    times = slow.times * factor
    other = trace_batch([(case, a, t * 2000) for case, a, t in events], "ABC")
    first = utility.distance_over_mean(*(utility.case_durations_us(one) for one in (slow, other)))
    second = utility.distance_over_mean(
        utility.case_durations_us(replace(slow, times=times)),
        utility.case_durations_us(replace(other, times=other.times * factor)),
    )
    assert first == (None if second is None else pytest.approx(second))
    assert first in (None, pytest.approx(1))  # everything takes twice as long


@given(event_logs(max_events=60, n_cases=6), event_logs(max_events=60, n_cases=6))
def test_the_measures_are_those_of_plain_python(original: Any, released: Any) -> None:
    """Groups, halves and pairs in loops; pairs count from one case on here."""
    a, b = (cases_of(one) for one in (original, released))
    variants = Counter(tuple(name for name, _ in steps) for steps in a.values())
    top = [v for v, _ in sorted(variants.items(), key=lambda item: (-item[1], item[0]))[:10]]

    def grouped(cases: Any) -> dict[Any, list[float]]:
        groups: dict[Any, list[float]] = {}
        for steps in cases.values():
            variant = tuple(name for name, _ in steps)
            groups.setdefault(variant if variant in top else None, []).append(
                float(steps[-1][1] - steps[0][1])
            )
        return groups

    found = CaseTimes(trace_batch(original, "ABC")).figures(trace_batch(released, "ABC"))
    own, other = grouped(a), grouped(b)
    errors = [
        abs(statistics.fmean(other[v]) - statistics.fmean(own[v]))
        / max(statistics.fmean(own[v]), 0.01 * DAY * MINUTE)
        if v in other
        else 1
        for v in top
    ]
    expected = statistics.fmean(errors) if errors else None
    assert found["top_variant_duration_error"] == (expected if expected is None else
                                                   pytest.approx(expected))  # fmt: skip
    ordered = sorted(b.values(), key=lambda steps: steps[0][1])
    classes = [tuple(name for name, _ in steps) for steps in ordered]
    classes = [variant if variant in top else None for variant in classes]
    halves = Counter(classes[: len(b) // 2]), Counter(classes[len(b) // 2 :])
    if len(b) > 1:
        between = sum(
            abs(halves[0][c] / halves[0].total() - halves[1][c] / halves[1].total())
            for c in set(classes)
        )
        assert found["drift"] == pytest.approx(between / 2)
    waits: dict[Any, list[int]] = {}
    for steps in b.values():
        for (one, begun), (two, ended) in itertools.pairwise(steps):
            waits.setdefault(("ABC".index(one), "ABC".index(two)), []).append(ended - begun)
    pairs = utility.PairWaits.of(trace_batch(released, "ABC"))
    assert [(int(k) >> 32, int(k) & 0xFF) for k in pairs.keys] == sorted(waits)
    assert pairs.means_us.tolist() == [
        pytest.approx(statistics.fmean(waits[pair])) for pair in sorted(waits)
    ]

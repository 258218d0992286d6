"""What a release keeps: each distance by hand, by its laws, and against a naive one."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.schemas.statistics.test_service_times import HOUR, intervals
from tests.support.logs import MINUTE, cases_of, event_logs, naive_variants, trace_batch
from tracecloak.examination.measure import utility
from tracecloak.examination.measure.utility import (
    CaseTimes,
    mean_error,
    next_activity_accuracy,
    service_errors,
    variants_of_fifth,
)
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram

DAY = 24 * 60


def log(cases: dict[str, str]) -> TraceBatch:
    return trace_batch(cases, "ABCD")


def figures(original: dict[str, str], released: dict[str, str]) -> dict[str, float | None]:
    return CaseTimes(log(original)).figures(log(released))


def test_the_errors_of_a_graph_by_hand() -> None:
    a, b = np.array([90, 9, 1, 0]), np.array([80, 0, 0, 4])
    ends = np.arange(4, dtype=np.int32)
    graph, other = (DirectlyFollows(ends, ends, counts) for counts in (a, b))
    assert graph.relative_error(other) == pytest.approx(0.24)
    assert utility.precision_and_recall(a, b) == (0.5, pytest.approx(1 / 3))
    assert DirectlyFollows.merge(()).relative_error(other) is None
    assert utility.total_variation(np.array([2, 2]), np.array([1, 0])) == 0.5
    assert utility.total_variation(np.array([0, 0]), np.array([0, 7])) == 1


def test_only_ten_variants_are_on_top_and_the_first_of_equals() -> None:
    cases = {f"{a}{b}": f"{a} {b}" for a, b in itertools.product("ABC", "ABCD")}
    cases["again"] = "C D"
    top = CaseTimes(log(cases))._top
    assert top.n_variants == 10 and top.counts.tolist() == [1] * 9 + [2]


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


HOUR_US = 3_600_000_000


@settings(deadline=None)
@given(event_logs(), event_logs())
def test_total_variation_of_variants_is_that_of_a_loop(log, other) -> None:
    a, b = naive_variants(log), naive_variants(other)
    sides = (VariantHistogram.from_traces(trace_batch(x, "ABC")) for x in (log, other))
    expected = float(bool(a) != bool(b))
    if a and b:
        shares = Counter({v: n / a.total() for v, n in a.items()})
        shares.subtract({v: n / b.total() for v, n in b.items()})
        expected = sum(abs(share) for share in shares.values()) / 2
    assert utility.variant_distance(*sides) == pytest.approx(expected)


def test_lengths_activities_and_times_by_hand() -> None:
    a, b = trace_batch({"1": "A B", "2": "A B C"}, "ABC"), trace_batch({"1": "A", "2": "A"}, "ABC")
    assert utility.length_distance(a, b) == 1.5
    assert utility.length_distance(a, trace_batch({}, "ABC")) is None
    assert utility.activity_mix_distance(a, b) == pytest.approx(0.6)
    assert utility.hour_of_week_distance(a, a) == 0
    counted = (VariantHistogram.from_traces(one) for one in (a, trace_batch({}, "ABC")))
    assert utility.true_variant_mass(*counted) == 1
    spans = (a.times[a.offsets[1:] - 1] - a.starts) / (24 * HOUR_US)
    assert utility.case_duration_distance_days(a, b) == pytest.approx(spans.mean())


def test_the_hour_of_the_week_begins_on_monday() -> None:
    """1970-01-05 was a Monday: a week later is the same hour, an hour later is not."""
    log = trace_batch({"1": "A"}, "A")
    monday = 4 * 24 * HOUR_US
    shifts = {0: 0.0, 7 * 24 * HOUR_US: 0.0, HOUR_US: 1.0}
    at = [type(log)(**{**vars(log), "times": np.array([monday + s])}) for s in shifts]
    found = [utility.hour_of_week_distance(at[0], other) for other in at]
    assert found == list(shifts.values())


SERVED = intervals([[("A", 0, HOUR), ("B", 3 * HOUR, 4 * HOUR)], [("A", 0, 3 * HOUR)]])


def test_by_hand():
    """A takes 2 hours on average, B 1 and waits 2. Released: A 3 hours, B none, and waits 3."""
    released = intervals([[("A", 0, 3 * HOUR), ("B", 6 * HOUR, 6 * HOUR)]])
    errors = service_errors(SERVED, released)
    assert errors["service_time_error"] == pytest.approx((2 * 1 + 1 * 1) / 5)
    assert errors["waiting_time_error"] == pytest.approx(1 / 2)


def test_without_starts_there_is_no_measure():
    assert service_errors(SERVED, trace_batch([("c", "A", 0)], "ABC")) == {}
    assert service_errors(trace_batch([("c", "A", 0)], "ABC"), SERVED) == {}
    nothing = np.array([1.0]), np.array([0.0])
    assert mean_error(nothing, nothing) is None


def accuracy(trained: Any, tested: Any, names: str = "ABC") -> float | None:
    logs = (VariantHistogram.from_traces(trace_batch(one, names)) for one in (trained, tested))
    return next_activity_accuracy(*logs, len(names))


def test_nothing_learnt_and_nothing_to_test() -> None:
    assert accuracy({}, {"x": "A B"}) == 0
    assert accuracy({"1": "A B"}, {}) is None


def test_about_a_fifth_is_tested_and_always_the_same() -> None:
    cases = {f"case {i}": "A B" if i % 2 else "B A" for i in range(2000)}
    first = variants_of_fifth(trace_batch(cases, "AB"))
    assert 320 < first.n_cases < 480
    again = variants_of_fifth(trace_batch(dict(reversed(cases.items())), "AB"))
    assert again.sequences.equals(first.sequences)
    assert again.counts.tolist() == first.counts.tolist()


@given(event_logs(max_events=60), event_logs(max_events=30))
def test_it_is_that_of_plain_python(trained: Any, tested: Any) -> None:
    counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    end = 3

    def steps(log: Any) -> list[tuple[tuple[int, int], int]]:
        found = []
        for case in cases_of(log).values():
            codes = [end, *("ABC".index(name) for name, _ in case), end]
            found += [((codes[i - 1], codes[i]), codes[i + 1]) for i in range(1, len(codes) - 1)]
        return found

    for context, following in steps(trained):
        for known in (context, context[1:], ()):
            counts[known][following] += 1
    hits = 0
    for context, following in steps(tested):
        for known in (context, context[1:], ()):
            if counts[known]:
                best = max(counts[known].values())
                hits += following == min(c for c, n in counts[known].items() if n == best)
                break
    expected = hits / len(steps(tested)) if steps(tested) else None
    assert accuracy(trained, tested) == (None if expected is None else pytest.approx(expected))

"""What a release keeps: each distance by hand, by its laws, and against a naive one.

What is read off the times of a log: by hand, by its laws, and against plain Python.
"""

from __future__ import annotations

import itertools
import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.logs import MINUTE, cases_of, event_logs, naive_variants, trace_batch
from tests.support.releasing import hospital_files, tracecloak
from tracecloak.examination.measure import utility
from tracecloak.examination.measure.utility import CaseTimes
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram

HOUR = 60
DAY = 24 * HOUR


def log(cases: dict[str, str]) -> TraceBatch:
    return trace_batch(cases, "ABCD")


def figures(original: dict[str, str], released: dict[str, str]) -> dict[str, float | None]:
    return CaseTimes(log(original)).figures(log(released))


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
LOG = {"1": "A B C", "2": "A B C", "3": "A C", "4": "B"}
OTHER_LOG = {"x": "A B C", "y": "C C"}


def variants(log: dict[str, str]) -> VariantHistogram:
    return VariantHistogram.from_traces(trace_batch(log, "ABC"))


@settings(deadline=None)
@given(event_logs(), event_logs())
def test_total_variation_of_variants_is_that_of_a_loop(log, other) -> None:
    a, b = naive_variants(log), naive_variants(other)
    counts = utility.aligned_variants(
        *(VariantHistogram.from_traces(trace_batch(x, "ABC")) for x in (log, other))
    )[:2]
    expected = float(bool(a) != bool(b))
    if a and b:
        shares = Counter({v: n / a.total() for v, n in a.items()})
        shares.subtract({v: n / b.total() for v, n in b.items()})
        expected = sum(abs(share) for share in shares.values()) / 2
    assert utility.total_variation(*counts) == pytest.approx(expected)


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


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    return ",".join(str(path) for path in hospital_files(tmp_path, 300))


def evaluation(tmp_path: Path, original: str, *flags: object) -> dict[str, object]:
    common = (
        "--log",
        original,
        "--output",
        tmp_path / "out",
        "--runner",
        "InMemory",
        "--release_id",
        f"r{len(list(tmp_path.glob('out/run_id=*')))}",
    )
    assert tracecloak("release", *common, *flags) == 0
    report = tmp_path / "e.json"
    released = (tmp_path / "out", "--output", report)
    assert tracecloak("evaluate", "--log", original, *released) == 0
    return json.loads(report.read_text())


def test_stamps_that_are_positions_are_not_compared_as_times(tmp_path: Path, original: str) -> None:
    flags = ("--method", "variant-histogram", "--epsilon", 50, "--delta", "1e-5")
    report = evaluation(tmp_path, original, *flags)
    assert report["true_variant_mass"] == 1
    assert 0 < report["variant_total_variation"] < 1
    assert "hour_of_week_total_variation" not in report
    timed = evaluation(tmp_path, original, "--method", "amun")
    assert 0 <= timed["hour_of_week_total_variation"] <= 1
    assert timed["relative_size"] > 0

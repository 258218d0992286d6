"""What is chosen on the log: labels of cases, their groups, and longest times."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.indicator_logs import KIND, RESOURCE, Case, Event, case_lists, log_of
from tests.support.keys import randomness, release_key
from tests.support.rounds import run_rounds
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.indicators import figures
from tracecloak.anonymizers.indicators.errors import PrivateIndicators
from tracecloak.anonymizers.indicators.summands import CellSums
from tracecloak.anonymizers.rigorous.bought import NAME_UNITS
from tracecloak.schemas.events.events import OTHER
from tracecloak.schemas.statistics.variants import ActivityCounts

METHOD = PrivateIndicators()
HOUR, DAY = 3_600_000_000, 24 * 3_600_000_000


def labels_of(case: Case, by: str) -> set[str]:
    """The labels of one case, without what none of its events has."""
    if by == "pair":
        return {json.dumps(pair) for pair in zip(case.names, case.names[1:], strict=False)}
    if by == KIND:
        return {case.kind} if case.kind else set()
    if by == RESOURCE:
        return {event.resource for event in case.events if event.resource}
    return set(case.names) - {OTHER}


@given(case_lists(), st.booleans(), st.sampled_from(["activity", "pair", KIND, RESOURCE, "case:x"]))
def test_labels_of_cases_are_those_of_one_case_at_a_time(
    cases: list[Case], is_plain: bool, by: str
) -> None:
    labelled = figures.relabel_by(log_of(cases, is_plain=is_plain), by)
    names = labelled.vocabulary.names.to_pylist()
    assert names == sorted(set(names), key=str.encode)
    for i, case in enumerate(cases):
        first, end = labelled.offsets[i : i + 2]
        labels = {names[code] for code in labelled.activities[first:end]} - {OTHER}
        assert labels == (set() if by == "case:x" else labels_of(case, by))


@given(case_lists(), st.sampled_from(["activity", "pair", KIND, RESOURCE]), st.integers(1, 3))
def test_a_case_counts_for_so_many_labels_and_with_the_norm_of_so_many(
    cases: list[Case], by: str, most: int
) -> None:
    for case in cases:
        counted = Counted(ActivityCounts, figures.count_labels, (by, most)).count(
            log_of([case]), {}, randomness()
        )
        counts = counted.counts.tolist()
        assert 1 <= len(counts) <= most
        # Each weighs sqrt(most / how many it has), rounded down.
        for weight in counts:
            assert 0 <= NAME_UNITS * (most / len(counts)) ** 0.5 - weight <= 1
        assert set(counted.names.to_pylist()) <= labels_of(case, by) | {OTHER}


@given(case_lists())
def test_times_are_counted_by_their_bins(cases: list[Case]) -> None:
    params = METHOD.Params(epsilon="1", service_times=True, indicators=[
        "throughput", "waiting activity=A then=B", "working activity=B",
    ])  # fmt: skip
    numbers = (
        lambda case: case.throughput_us, lambda c: c.wait_us("A", "B"), lambda c: c.work_us("B"),
    )  # fmt: skip
    for indicator, number in zip(params.selected_times, numbers, strict=True):
        counted = (
            Counted(CellSums, figures.count_times, (indicator,))
            .count(log_of(cases), {}, randomness())
            .values
        )
        expected = [0] * (len(figures.LONGEST_US) + 1)
        for time in (number(case) for case in cases):
            if time is not None:
                expected[sum(int(edge) < time for edge in figures.LONGEST_US)] += 1
        assert counted.tolist() == expected


def bought(cases: list[Case], *indicators: str, number: int = 0, **others: Any) -> dict[str, Any]:
    params = METHOD.Params(
        **{"epsilon": "20", "delta": "1e-5", **others, "indicators": list(indicators)}
    )
    return METHOD.known(run_rounds([log_of(cases)], METHOD, params, release_key(number)).decisions)


MANY = [
    Case(
        (Event("A", i % 50 * DAY, "R1"), Event("B", i % 50 * DAY + (i % 20 + 1) * HOUR, "R2")),
        "k1" if i % 3 else "k2",
        "5",
    )
    for i in range(600)
]
RARE = [Case((Event("X", DAY, "R9"), Event("Y", DAY + 400 * DAY, "R9")), "k9", "5")]


def test_what_many_cases_have_is_chosen_and_what_one_has_is_not() -> None:
    indicators = (
        "rework by=activity", "waiting by=pair at_most=1d", "workload", f"cases by={KIND}",
    )  # fmt: skip
    for number in range(3):
        decided = bought(MANY + RARE, *indicators, number=number)
        assert decided["groups by activity"].labels == ["A", "B"]
        assert decided["groups by pair"].steps == [("A", "B")]
        assert decided[f"groups by {RESOURCE}"].labels == ["R1", "R2"]
        assert decided[f"groups by {KIND}"].labels == ["k1", "k2"]


def test_empty_texts_and_what_is_missing_are_no_groups() -> None:
    cases = [Case((Event("A", DAY),), kind) for kind in ("", None, OTHER, "k1") for _ in range(300)]
    assert bought(cases, f"cases by={KIND}")[f"groups by {KIND}"].labels == ["k1"]
    assert bought(cases, "workload")[f"groups by {RESOURCE}"].labels == []


def test_the_longest_time_is_a_few_times_that_of_three_of_four_cases() -> None:
    """To a round number, whatever one case takes; it never runs away."""
    for number in range(20):
        decided = bought(MANY + RARE, "throughput", number=number)
        longest = decided["mean throughput time, longest time"].longest_us
        assert longest in figures.LONGEST_US
        assert 2 * 15 * HOUR < longest < 8 * 24 * HOUR

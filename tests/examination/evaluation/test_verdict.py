"""What a release is good for, by its measures."""

from __future__ import annotations

import pytest

from tracecloak.examination.evaluation.evaluate import verdict_of


def grade_of(error: float | None, drawn: float | None = None) -> str | None:
    report = {"variant_emd": error, "bootstrap": {"variant_emd": drawn}}
    uses = verdict_of(report)["uses"]
    return uses[0]["grade"] if uses else None


def test_the_sentence_has_uses_by_grade_with_their_errors() -> None:
    report = {
        "edge_relative_error": 0.034,
        "activity_mix_total_variation": 0.01,
        "variant_total_variation": 0.61,
        "case_duration_distance": 0.24,
        "edge_recall": 0.2,
        "misplaced_waiting_time": None,
    }
    found = verdict_of(report)
    assert found["sentence"] == (
        "Good for how often one activity follows another (3 % off), how often activities occur "
        "(1 % off). Rough for how long cases take (24 % off). Not for the variants and their "
        "shares (61 % off)."
    )
    assert found["bounds"] == {"good": pytest.approx(0.1), "rough": pytest.approx(1 / 3)}
    assert [use["measure"] for use in found["uses"]] == list(report)[:4]


def test_the_bounds_belong_to_the_better_grade() -> None:
    assert [grade_of(error) for error in (0, 0.1, 0.1001, 1 / 3, 0.334)] == [
        "good", "good", "rough", "rough", "no",
    ]  # fmt: skip


def test_no_release_need_be_nearer_than_a_bootstrap() -> None:
    assert grade_of(0.5, drawn=0.5) == "good"
    assert grade_of(0.5, drawn=0.49) == "no"


def test_what_is_the_better_the_more_it_is_counts_by_what_the_log_gets() -> None:
    report = {"next_activity_accuracy": 0.6, "of_the_log": {"next_activity_accuracy": 0.8}}
    [use] = verdict_of(report)["uses"]
    assert use["error"] == pytest.approx(0.25) and use["grade"] == "rough"
    [better] = verdict_of({**report, "next_activity_accuracy": 0.9})["uses"]
    assert better["error"] == 0

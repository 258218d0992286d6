"""What a release is good for, by its measures: the sentence that its evaluation begins with.

Each use of a log is judged by one measure of how far off the release is, 0 where it is the log
itself. It is good up to a tenth, and rough up to a third, with which of two numbers, one twice the
other, the larger one stays the larger. A release need not be nearer than a bootstrap of the log,
which is good whatever it gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracecloak.examination.measure.registry import MEASURES
from tracecloak.pipelines.planning.worth import percent

_USES = {
    "edge_relative_error": "how often one activity follows another",
    "activity_mix_total_variation": "how often activities occur",
    "variant_emd": "the course of cases",
    "variant_total_variation": "the variants and their shares",
    "next_activity_accuracy": "the prediction of the next activity",
    "case_duration_distance": "how long cases take",
    "misplaced_waiting_time": "where time passes",
    "service_time_error": "service times",
    "indicator_error": "the figures",
    "tree_fitness": "the model of the process",
}
_BOUNDS = {"good": 1 / 10, "rough": 1 / 3}
_GRADES = {"good": "Good for", "rough": "Rough for", "no": "Not for"}


def verdict_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the verdict on a release as JSON values.

    Args:
        report: Its measures by their names, those of a `bootstrap` and those `of_the_log`.

    Returns:
        `sentence`; `bounds`, the largest errors of `good` and `rough`; and `uses`, one for each
        measure that was computed: `use`, `measure`, `error` and `grade`.
    """
    uses: list[dict[str, Any]] = []
    for name, use in _USES.items():
        error = _error(name, report, report)
        if error is None:
            continue
        drawn = _error(name, report.get("bootstrap", {}), report) or 0.0
        fitting = (grade for grade, most in _BOUNDS.items() if error <= max(most, drawn))
        grade = next(fitting, "no")
        uses.append({"use": use, "measure": name, "error": round(error, 4), "grade": grade})
    parts = []
    for grade, words in _GRADES.items():
        named = [f"{u['use']} ({percent(u['error'])} off)" for u in uses if u["grade"] == grade]
        if named:
            parts.append(f"{words} {', '.join(named)}.")
    sentence = " ".join(parts) or "No measure says what this release is good for."
    return {"sentence": sentence, "bounds": _BOUNDS, "uses": uses}


def _error(name: str, line: Mapping[str, Any], report: Mapping[str, Any]) -> float | None:
    """How far off a line is; what is the better the more it is, as a share of what the log gets."""
    value: float | None = line.get(name)
    if value is None or MEASURES[name].better == "less":
        return value
    of_log = report.get("of_the_log", {}).get(name) or 1.0
    return max(1 - value / of_log, 0.0)

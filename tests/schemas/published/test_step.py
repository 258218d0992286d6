"""Releases of steps as messages and tables: equal ones are equal bytes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.figures import Figure, ReleasedFigures
from tracecloak.schemas.published.step import StepIndicators, StepRelease

OTHERS = {
    "release_id": "ward", "epoch": "2", "product": "dfg", "view": "total", "step": 3, "start_us": 0,
    "end_us": 40, "n_steps_left": 6, "epsilon": "0.5", "delta": "0.000001",
}  # fmt: skip
CELLS = [("B", "■"), ("A", "B"), ("▶", "A"), ("A", "A")]


def release(order: list[int]) -> StepRelease:
    counts, errors = np.array([7, -3, 12, 0]), np.array([1.0, 2.5, 1 / 3, 4.0])
    return StepRelease.of([CELLS[i] for i in order], counts[order], errors[order], **OTHERS)


def test_a_message_says_all_and_is_read_back() -> None:
    made = release([0, 1, 2, 3])
    body = json.loads(made.to_json())
    assert {k: v for k, v in body.items() if k != "cells"} == OTHERS
    assert body["cells"][1] == {"cell": ["A", "B"], "count": -3, "standard_error": 2.5}
    assert StepRelease.from_json(made.to_json()) == made
    assert made.key == ("ward", "2", "dfg", "total", 3)


def with_limits(made: StepRelease) -> StepRelease:
    figures = ReleasedFigures.of([Figure("cases", (), 12, 10, 14, "derived")])
    return replace(made, lows=np.array([0, 0, 0, 5]), highs=np.array([8, 2, 0, 9]), figures=figures)


def test_limits_and_figures_are_said_of_each_count_and_read_back() -> None:
    made = with_limits(release([0, 1, 2, 3]))
    body = json.loads(made.to_json())
    assert body["cells"][3] == {
        "cell": ["▶", "A"], "count": 12, "standard_error": 0.333333,
        "low": 5, "high": 9, "kind": "measured", "usable": True, "grade": "rough",
    }  # fmt: skip
    assert [row["usable"] for row in body["cells"]] == [False, False, True, True]
    assert [(row["figure"], row["low"], row["high"]) for row in body["figures"]] == [
        ("cases", 10, 14)
    ]
    assert StepRelease.from_json(made.to_json()) == made
    names = ["cell", "count", "standard_error", "low", "high", "kind", "usable", "grade"]
    assert made.to_rows().column_names[-8:] == names


def test_a_step_of_an_earlier_version_keeps_its_form() -> None:
    """Its bytes were published, so that a step that is drawn again is compared in that form."""
    old, new = release([0, 1, 2, 3]), with_limits(release([0, 1, 2, 3]))
    kept = StepRelease.from_kept(old.to_kept())
    assert kept.to_json() == old.to_json() != new.to_json()
    assert kept.lows is None and kept.figures is None
    assert "low" not in kept.to_rows().column_names
    assert new.in_form_of(kept) == old
    assert new.in_form_of(new) == new


def test_limits_without_their_other_end_are_refused() -> None:
    made, ones = release([0, 1, 2, 3]), np.ones(4, np.int64)
    for wrong in ({"lows": ones}, {"figures": with_limits(made).figures}):
        with pytest.raises(UsageError, match="go together"):
            replace(made, **wrong)
    with pytest.raises(UsageError, match="as many"):
        replace(made, lows=ones[:2], highs=ones[:2])


def test_what_is_no_release_is_refused() -> None:
    for data in [b"", b"[]", b"{}", b"\xff", b'{"cells": [{"cell": ["A"], "count": 1}]}']:
        with pytest.raises(UsageError, match="no release"):
            StepRelease.from_json(data)
        with pytest.raises(UsageError, match="no release"):
            StepIndicators.from_json(data)


def test_cells_twice_or_counts_too_few_are_refused() -> None:
    ones = np.ones(2)
    with pytest.raises(UsageError, match="sorted and distinct"):
        StepRelease.of([("A",), ("A",)], ones, ones, **OTHERS)
    with pytest.raises(UsageError, match="as many"):
        StepRelease(cells=(("A",),), counts=ones, standard_errors=ones, **OTHERS)

"""The errors of a horizon are those of the steps, and a reader is told them before these are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.local_streams import run_script
from tests.support.stream_runs import batch_of, published, stream_config
from tracecloak.anonymizers.streams.dfg_steps import DfgParams, DfgSteps
from tracecloak.anonymizers.streams.steps import StreamName
from tracecloak.examination.demo.live_page import (
    PublishedSteps,
    errors_data,
    errors_over_horizon,
    state,
)
from tracecloak.schemas.published.step import StepRelease

HORIZON = 40
VIEWS: dict[str, dict[str, Any]] = {
    "window": {},
    "total": {"view": "total"},
    "sliding": {"view": "sliding", "sliding_steps": 7},
}


def product_of(view: str) -> DfgSteps:
    given = {"epsilon": "1", "vocabulary": ("A", "B"), "max_trace_length": 5, "horizon": HORIZON}
    return DfgSteps(DfgParams(**{**given, **VIEWS[view]}))


def first_step(view: str) -> StepRelease:
    made, name = product_of(view), StreamName("ward", "1", "configuration", 0, 1_000_000)
    return made.publish(0, made.count(batch_of(*["AB"] * 1000)), [], name, release_key(0))[0]


@pytest.mark.parametrize("view", VIEWS)
def test_the_errors_are_those_that_the_steps_say(view: str) -> None:
    errors = errors_over_horizon(product_of(view).params.model_dump())
    assert len(errors) == HORIZON
    assert errors[0] == pytest.approx(first_step(view).standard_errors[0], rel=1e-5)


@pytest.mark.parametrize("view", VIEWS)
def test_the_error_of_the_number_of_cases_is_that_of_its_interval(view: str) -> None:
    errors = errors_over_horizon(product_of(view).params.model_dump())
    newest = first_step(view)
    shown = errors_data(errors, newest, 1_000_000)
    assert newest.figures is not None
    cases = newest.figures.rows()[0]
    counted = [p for p in shown["points"] if p["what"].startswith("number") and p["step"] == 0]
    assert counted
    # It has 1.96 deviations to each side, and all of it is rounded.
    for point in counted:
        assert abs(cases.high - cases.value - 1.96 * point["error"]) < 2 + 0.01 * cases.high


def test_the_text_says_the_error_now_at_the_end_and_at_most() -> None:
    errors = np.array([10.0, 30.0, 20.0, 15.0])
    newest = first_step("total")
    assert errors_data(errors, newest, 1)["text"].endswith(
        "The standard deviation of the count of a path is 10 in step 0, 15 in the last step, 3, "
        "at most 30, in step 1."
    )
    assert "in step 0, as in every other." in errors_data(np.ones(4), newest, 1)["text"]
    assert "at most" not in errors_data(errors[:1], newest, 1)["text"]


def test_the_page_takes_them_from_the_manifest_of_the_epoch(tmp_path: Path) -> None:
    """Of a stream as it is run; without its manifest nothing is said of later steps."""
    config = stream_config(tmp_path, view="total", horizon=3, start="1970-01-01")
    run_script(config, [], until=3)
    steps = PublishedSteps(Path(config.output), "ward", "1")
    newest = published(config)[-1]
    shown = state(steps.views(), manifest=steps.manifest())["errors"]
    now = [
        p for p in shown["points"] if p["step"] == newest.step and p["what"] == "count of a path"
    ]
    assert now[0]["error"] == pytest.approx(newest.standard_errors[0], rel=0.01)
    assert now[0]["end_ms"] == newest.end_us // 1000
    assert json.loads(json.dumps(shown)) == shown
    manifest = steps.manifest()
    assert manifest is not None
    assert state(steps.views())["errors"] is None
    assert state(steps.views(), manifest={**manifest, "params": {}})["errors"] is None
    next(Path(config.output).rglob("manifest.json")).unlink()
    assert steps.manifest() is None

"""Indicators of a stream: without noise those of a naive count, and no case moves them further."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pydantic
import pytest

from tests.support.keys import release_key
from tests.support.stream_runs import batch_of, no_noise
from tracecloak.anonymizers.streams.indicator_steps import IndicatorStepParams, IndicatorSteps
from tracecloak.anonymizers.streams.steps import StreamName
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.published.step import StepIndicators

NAME = StreamName("ward", "1", "configuration", 1_000, 50)
STEPS = [("AB", "AB", "B"), (), ("AAB",), ("AB", "B", "B"), ("AB",) * 5]
ASKED = (
    "cases",
    "rework",
    "frequency activity=A at_most=2",
    "rule template=response activity=A then=B",
    "cases where.occurs=A",
    "frequency by=activity groups=A|B",
)


def params(**changes: Any) -> IndicatorStepParams:
    given: dict[str, Any] = {
        "epsilon": "1",
        "vocabulary": ("A", "B"),
        "max_trace_length": 4,
        "horizon": len(STEPS),
        "indicators": ASKED,
    }
    return IndicatorStepParams(**{**given, **changes})


def stream(made: IndicatorSteps, steps: Sequence[Sequence[str]]) -> list[StepIndicators]:
    """All steps one after the other; what is kept travels as bytes."""
    releases, past = [], []
    for step, variants in enumerate(steps):
        counted = decode(encode(made.count(batch_of(*variants))))
        release, rest = made.publish(step, counted, past, NAME, release_key())
        releases.append(release)
        if rest is not None:
            past.append(decode(encode(rest)))
    return releases


def naive(cases: Sequence[str]) -> list[float]:
    """The numbers of `ASKED`; of no case a share is the middle of its bounds."""
    n = max(len(cases), 1)
    share = 0.5 if not cases else 0.0
    return [
        len(cases),
        share or sum(case.count("A") > 1 or case.count("B") > 1 for case in cases) / n,
        sum(min(case.count("A"), 2) for case in cases),
        share or sum("B" in case.rpartition("A")[2] or "A" not in case for case in cases) / n,
        sum("A" in case for case in cases),
        *(sum(name in case for case in cases) for name in "AB"),
    ]


@pytest.mark.parametrize(
    "changes",
    [{}, {"delta": "0"}, {"view": "total"}, {"view": "sliding", "sliding_steps": 2}],
    ids=["window", "window without delta", "total", "sliding"],
)
def test_without_noise_they_are_those_of_the_cases(changes: dict[str, Any]) -> None:
    with no_noise():
        releases = stream(IndicatorSteps(params(**changes)), STEPS)
    length = {"window": 1, "total": len(STEPS), "sliding": 2}[changes.get("view", "window")]
    for step, release in enumerate(releases):
        cases = [case for part in STEPS[max(step + 1 - length, 0) : step + 1] for case in part]
        values = [row.value for row in release.indicators.rows()]
        assert values == pytest.approx(naive(cases), abs=1e-6)


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_no_case_moves_the_sums_further_than_the_noise_is_made_for(delta: str) -> None:
    """All cases of up to four events; one of them attains nearly all of it."""
    made = IndicatorSteps(params(delta=delta))
    words = (w for n in range(1, 5) for w in itertools.product("ABC", repeat=n))
    sums = [made.count(batch_of("".join(word))).by_name["sums"].values for word in words]
    norms = [
        float(np.abs(v).sum()) if delta == "0" else math.sqrt(float((v**2).sum())) for v in sums
    ]
    assert max(norms) <= made.params.case_norm
    assert max(norms) >= 0.9 * made.params.case_norm
    assert made.params.noises["indicators"].case_norm == made.params.case_norm


def test_intervals_hold_what_was_counted() -> None:
    """Over many keys, of a window, at 95 %; half of the width holds far less."""
    made = IndicatorSteps(params(indicators=("cases", "rework", "throughput at_most=1h")))
    counted = made.count(batch_of(*["AAB"] * 300, *["AB"] * 200))
    n_held, n_half, n = 0, 0, 0
    for key in range(200):
        release, _ = made.publish(0, counted, [], NAME, release_key(key))
        for row, truth in zip(release.indicators.rows()[:2], (500, 0.6), strict=True):
            middle, half = (row.low + row.high) / 2, (row.high - row.low) / 4
            n_held += row.low <= truth <= row.high
            n_half += abs(truth - middle) <= half
            n += 1
    assert n_held / n > 0.91
    assert n_half / n < 0.85


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"indicators": ["amount attribute=case:a bounds=0|1"]}, "indicators.0: a stream carries"),
        ({"indicators": ["cases", "cases by=month"]}, "the steps of a stream are its periods"),
        ({"indicators": ["throughput"]}, "at_most must be declared"),
        ({"indicators": ["waiting by=pair at_most=1d"]}, "groups by pair must be declared"),
        ({"indicators": ["frequency activity=Z"]}, "activity 'Z' is not in the vocabulary"),
        ({"delta": "0", "view": "total"}, "delta 0 is only for view window"),
    ],
)
def test_what_a_stream_cannot_have_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=said):
        params(**changes)

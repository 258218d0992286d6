"""The release stage alone: one pane a step, steps in their order, and what is kept."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from tests.support.beam_state import Bag, Cell
from tests.support.keys import key_in_environment, release_key
from tests.support.stream_runs import batch_of
from tracecloak.anonymizers.streams.dfg_steps import DfgParams, DfgSteps
from tracecloak.anonymizers.streams.steps import StreamName
from tracecloak.schemas.arrays.columnar import encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.transforms.keys import KeyReference
from tracecloak.transforms.stream import publish_steps

S = 1_000_000
RULE = ClosingRule(("A", "B"), 10 * S, S, S, 0, 5, S, (), 4 * S, 100 * S)
NAME = StreamName("ward", "1", "configuration", 100 * S, 10 * S)


def product(view: str = "window", horizon: int = 4) -> DfgSteps:
    return DfgSteps(
        DfgParams(
            epsilon="1",
            vocabulary=("A", "B"),
            max_trace_length=5,
            horizon=horizon,
            view=view,  # type: ignore[arg-type]
        )
    )


def counted(made: DfgSteps, *variants: str) -> Statistics:
    return made.count(batch_of(*variants))


class Stage:
    """The stateful stage, and its state."""

    def __init__(self, made: DfgSteps, monkeypatch: pytest.MonkeyPatch) -> None:
        key = KeyReference(key_in_environment(monkeypatch))
        self._fn = publish_steps._Release(made, RULE, NAME, key)
        self._fn.setup()
        self.waiting, self.past, self.following, self.timer = Bag(), Bag(), Cell(), Cell()

    def give(self, step: int, statistics: Statistics | None) -> None:
        data = b"" if statistics is None else encode(statistics)
        self._fn.process((0, (step, data)), self.waiting, self.following, self.timer)

    def fire(self) -> list[Any]:
        return list(self._fn.publish(self.waiting, self.past, self.following, self.timer))


def test_the_first_element_starts_the_ticker_at_step_0(monkeypatch: pytest.MonkeyPatch) -> None:
    made = product()
    for element in (None, counted(made, "AB")):
        stage = Stage(made, monkeypatch)
        stage.give(2, element)
        assert stage.timer.value == Timestamp(100 + 10 + 4)
        [first] = stage.fire()
        assert first.step == 0
        assert stage.timer.value == Timestamp(100 + 20 + 4)


def test_steps_come_in_their_order_with_their_own_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = product()
    stage = Stage(made, monkeypatch)
    for step in (2, 0):  # 2 first, as where one shard is ahead
        stage.give(step, counted(made, *["AB"] * 1000 * (step + 1)))
    found = [release for _ in range(6) for release in stage.fire()]
    assert [release.step for release in found] == [0, 1, 2, 3]
    place = found[0].cells.index(("A", "B"))
    counts = np.array([release.counts[place] for release in found])
    assert (np.abs(counts - [1000, 0, 3000, 0]) < 10 * found[0].standard_errors[0]).all()
    assert stage.timer.value == Timestamp(100 + 40 + 4)  # none behind the last


def test_what_waits_for_a_later_step_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    made = product()
    stage = Stage(made, monkeypatch)
    stage.give(1, counted(made, "AB"))
    stage.give(3, counted(made, "AB"))
    stage.fire()
    assert sorted(step for step, _ in stage.waiting.values) == [1, 3]
    stage.fire()
    assert [step for step, _ in stage.waiting.values] == [3]


@pytest.mark.parametrize(("view", "kept"), [("window", 0), ("total", 3)])
def test_what_is_kept_is_bounded_and_gone_at_the_end(
    monkeypatch: pytest.MonkeyPatch, view: str, kept: int
) -> None:
    made = product(view)
    stage = Stage(made, monkeypatch)
    stage.give(0, None)
    sizes = []
    for _ in range(4):
        stage.fire()
        sizes.append(len(stage.past.values))
    assert sizes == [min(1, kept), min(2, kept), kept, 0]


def test_sums_are_of_the_steps_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the order in which the runner gives what was kept."""
    made = product("total")
    stage = Stage(made, monkeypatch)
    steps = [counted(made, *["AB"] * n) for n in (1, 50, 3, 7)]
    for step, statistics in enumerate(steps):
        stage.give(step, statistics)
    past: list[Any] = []
    for step, statistics in enumerate(steps):
        expected, kept = made.publish(step, statistics, past, NAME, release_key())
        past.append(kept)
        [found] = stage.fire()
        assert found == expected


def test_a_firing_that_is_tried_again_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made = product("total")
    results = []
    for repeated in (False, True):
        stage = Stage(made, monkeypatch)
        stage.give(0, counted(made, "AB", "A"))
        stage.give(1, counted(made, "B"))
        bytes_of = []
        for _ in range(3):
            before = list(stage.waiting.values), list(stage.past.values), stage.following.value
            [release] = stage.fire()
            if repeated:  # the runner forgot it all and tries again
                stage.waiting.values, stage.past.values = map(list, before[:2])
                stage.following.value = before[2]
                [release] = stage.fire()
            bytes_of.append(release.to_json())
        results.append(bytes_of)
    assert results[0] == results[1]


def test_counts_for_a_step_that_is_published_end_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = product()
    stage = Stage(made, monkeypatch)
    stage.give(0, None)
    stage.fire()
    with pytest.raises(GuaranteeError, match="step 0 has cases after"):
        stage.give(0, counted(made, "AB"))


@pytest.mark.parametrize(
    "pane",
    [
        PaneInfo(True, False, PaneInfoTiming.ON_TIME, 0, 0),  # not the last
        PaneInfo(False, True, PaneInfoTiming.ON_TIME, 1, 1),  # a second one
        PaneInfo(True, True, PaneInfoTiming.EARLY, 0, -1),
        PaneInfo(True, True, PaneInfoTiming.LATE, 0, 0),
    ],
)
def test_a_pane_that_is_not_the_only_one_does_not_pass(pane: PaneInfo) -> None:
    gate = publish_steps._Gate()
    statistics = counted(product(), "AB")
    with pytest.raises(GuaranteeError, match="second release"):
        list(gate.process((3, statistics), pane))
    good = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    [(_, (step, _))] = gate.process((3, statistics), good)
    assert step == 3


def keep(element: tuple[int, Statistics]) -> int:
    return element[0]


def test_cases_outside_the_horizon_are_counted_for_the_operator() -> None:
    pipeline = beam.Pipeline("FnApiRunner")
    closed = [(step, batch_of("AB", "A")) for step in (-1, 0, 3, 4, 9)]
    steps = (
        pipeline
        | beam.Create(closed).with_output_types(tuple[int, TraceBatch])
        | beam.ParDo(publish_steps._Count(product())).with_output_types(tuple[int, Statistics])
        | beam.Map(keep)
    )
    assert_that(steps, equal_to([0, 3]))
    result = pipeline.run()
    result.wait_until_finish()
    named = MetricsFilter().with_name(publish_steps.NOT_PUBLISHED)
    [counter] = result.metrics().query(named)["counters"]
    assert counter.committed == 6

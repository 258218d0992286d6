"""The release stage alone: one pane a step, steps in their order, and what is kept."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from tests.support.beam_state import Bag, Cell
from tests.support.keys import key_in_environment, release_key
from tests.support.logs import trace_batch
from tests.support.stream_runs import batch_of
from tracecloak.anonymizers.streams.dfg_steps import DfgParams, DfgSteps
from tracecloak.anonymizers.streams.steps import StreamName, counts_digest
from tracecloak.schemas.arrays.columnar import encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import GuaranteeError, TracecloakError
from tracecloak.schemas.published.step import StepRelease
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.stream import beam_stages
from tracecloak.transforms.stream.step_sinks import KeptSteps

S = 1_000_000
RULE = ClosingRule(("A", "B"), 10 * S, S, S, 0, 5, S, (), 4 * S, 100 * S)
NAME = StreamName("ward", "1", "configuration", 100 * S, 10 * S)


def product(view: Any = "window") -> DfgSteps:
    given = {"epsilon": "1", "vocabulary": ("A", "B"), "max_trace_length": 5, "horizon": 4}
    return DfgSteps(DfgParams(**given, view=view))


def counted(made: DfgSteps, *variants: str) -> Statistics:
    return made.count(batch_of(*variants))


class Stage:
    """The stateful stage, and its state."""

    def __init__(self, made: DfgSteps, key: KeyReference, folder: Path, may_be_early: bool) -> None:
        self.made = made
        steps = KeptSteps(str(folder), StepRelease)
        self._fn = beam_stages.ReleaseSteps(made, RULE, NAME, key, steps, may_be_early)
        self._fn.setup()
        self.waiting, self.past, self.following = Bag(), Bag(), Cell()
        self.timer, self.counts = Cell(), Cell()

    def give(self, step: int, *variants: str) -> None:
        """Cases that closed in a step."""
        self.give_counts(step, encode(counted(self.made, *variants)))

    def give_counts(self, step: int, data: bytes = b"") -> None:
        element = 0, (step, data)
        list(self._fn.process(element, self.waiting, self.following, self.timer))

    def fire(self) -> list[Any]:
        state = self.waiting, self.past, self.following, self.timer, self.counts
        return list(self._fn.publish(*state))


NewStage = Callable[..., Stage]


@pytest.fixture
def new_stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> NewStage:
    """Makes a stage of a view; those of one folder keep the steps of one epoch."""
    key = KeyReference(key_in_environment(monkeypatch))

    def make(view: str = "window", folder: str = "", may_be_early: bool = False) -> Stage:
        return Stage(product(view), key, tmp_path / folder, may_be_early)

    return make


def test_steps_come_in_their_order_with_their_own_counts(new_stage: NewStage) -> None:
    stage = new_stage()
    for step in (2, 0):  # 2 first, as where one shard is ahead
        stage.give(step, *["AB"] * 1000 * (step + 1))
    found = [release for _ in range(6) for release in stage.fire()]
    assert [release.step for release in found] == [0, 1, 2, 3]
    place = found[0].cells.index(("A", "B"))
    counts = np.array([release.counts[place] for release in found])
    assert (np.abs(counts - [1000, 0, 3000, 0]) < 10 * found[0].standard_errors[0]).all()
    assert stage.timer.value == Timestamp(100 + 40 + 4)  # none behind the last


def test_a_step_that_an_earlier_version_decided_is_published_as_it_was(
    new_stage: NewStage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Version 0.1.0 published no limits: its bytes are out, and the steps behind it have them."""

    def fired() -> list[StepRelease]:
        stage = new_stage()
        stage.give(0, "AB", "B")
        return stage.fire() + stage.fire()

    def as_before(_: DfgSteps, *given: Any) -> tuple[StepRelease, Any]:
        released, state = publish(product(), *given)
        return replace(released, lows=None, highs=None, figures=None), state

    publish = DfgSteps.publish
    with monkeypatch.context() as patch:
        patch.setattr(DfgSteps, "publish", as_before)
        before = fired()
    (tmp_path / "step-000001.decision").unlink()
    again = fired()
    assert again[0].to_json() == before[0].to_json()
    assert again[0].lows is None and again[1].lows is not None
    assert np.array_equal(again[1].counts, before[1].counts)


class Clock:
    """The clock of a worker, which goes on only where somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now: float) -> None:
        self.now = now
        monkeypatch.setattr(beam_stages.time, "time", lambda: self.now)
        monkeypatch.setattr(beam_stages.time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


def test_no_step_is_decided_before_it_is_over_by_the_clock(
    new_stage: NewStage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A watermark that leaps, as in a drain: catches an epoch that is spent by it."""
    stage = new_stage()
    stage.give(0, "AB")
    clock = Clock(monkeypatch, 114)  # step 0 begins at 100, has 10 s, and waits 4 s
    assert [release.step for release in stage.fire()] == [0]
    for _ in range(2):  # the runner tries again
        with pytest.raises(GuaranteeError, match=r"step 1 .* only in 10 s:"):
            clock.now = 113.9
            stage.fire()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000.decision"]
    again = new_stage()  # what was decided is published again whatever the clock says
    again.give(0, "AB")
    clock.now = 20
    assert [release.step for release in again.fire()] == [0]
    clock.now = 124
    assert [release.step for release in stage.fire()] == [1]


@pytest.mark.parametrize(("may_be_early", "now", "after"), [(False, 111.5, 114), (True, 101, 101)])
def test_a_step_waits_for_a_clock_that_is_a_little_behind_unless_a_drain_was_asked_for(
    new_stage: NewStage, monkeypatch: pytest.MonkeyPatch, may_be_early: bool, now: float, after: int
) -> None:
    stage = new_stage(may_be_early=may_be_early)
    stage.give(0, "AB")
    clock = Clock(monkeypatch, now)
    n_fired = 4 if may_be_early else 1
    assert [one.step for _ in range(n_fired) for one in stage.fire()] == list(range(n_fired))
    assert clock.now == after


def test_sums_are_of_the_steps_in_their_order(new_stage: NewStage) -> None:
    """Whatever the order in which the runner gives what was kept."""
    made = product("total")
    stage = new_stage("total")
    steps = [counted(made, *["AB"] * n) for n in (1, 50, 3, 7)]
    for step, statistics in enumerate(steps):
        stage.give_counts(step, encode(statistics))
    past: list[Any] = []
    so_far = b""
    for step, statistics in enumerate(steps):
        so_far = counts_digest(so_far, step, statistics, release_key())
        name = replace(NAME, counts_digest=so_far.hex())
        expected, kept = made.publish(step, statistics, past, name, release_key())
        past.append(kept)
        [found] = stage.fire()
        assert found == expected


@pytest.mark.parametrize(("view", "kept"), [("window", 0), ("total", 3)])
def test_what_is_kept_is_bounded_and_gone_at_the_end(
    new_stage: NewStage, view: str, kept: int
) -> None:
    stage = new_stage(view)
    stage.give_counts(0)
    sizes = []
    for _ in range(4):
        stage.fire()
        sizes.append(len(stage.past.values))
    assert sizes == [min(1, kept), min(2, kept), kept, 0]


def test_counts_for_a_step_that_is_published_are_dropped_and_end_nothing(
    new_stage: NewStage,
) -> None:
    """Somebody's case must not be able to end an epoch, which would tell that it came."""
    stage, other = (new_stage("window", name) for name in ("late", "none"))
    for one in (stage, other):
        one.give_counts(0)
        one.fire()
    stage.give(0, "AB")
    assert stage.waiting.values == []
    assert stage.fire()[0].to_json() == other.fire()[0].to_json()


# --- What was decided stays -------------------------------------------------------------------


@pytest.mark.parametrize("view", ["window", "total"])
def test_a_lost_state_and_other_counts_give_what_was_decided_and_nothing_new(
    new_stage: NewStage,
    monkeypatch: pytest.MonkeyPatch,
    view: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Other counts would be a second release, and a case that was forgotten could count twice."""
    first = new_stage(view)
    first.give(0, "AB", "A")
    first.give(1, "B")
    decided = [first.fire()[0].to_json() for _ in range(2)]
    again = new_stage(view)
    again.give(0, "AB")  # one case less
    again.give(1, "B")
    drawn: list[int] = []
    monkeypatch.setattr(DfgSteps, "publish", lambda self, step, *others: drawn.append(step))
    with caplog.at_level(logging.WARNING, logger="tracecloak"):
        assert [again.fire()[0].to_json() for _ in range(2)] == decided
    assert caplog.text.count("not those that it was decided on") == 1
    # That the epoch is over is told at once, and not at the end of the next step.
    assert again.timer.value <= Timestamp(100 + 20 + 4)
    again.give(0, "B")  # which says nothing about the watermark
    with pytest.raises(GuaranteeError, match=r"decided on other cases.*Begin another"):
        again.fire()
    assert drawn == []


def test_other_cases_with_the_same_counts_are_not_the_same(
    new_stage: NewStage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those of the first run closed once, and would count again where that is forgotten."""
    made = product()
    count = beam_stages._Count(made, NAME, KeyReference(key_in_environment(monkeypatch)))
    count.setup()
    first, same, others = (new_stage() for _ in range(3))
    for stage, case in ((first, "c"), (same, "c"), (others, "d")):
        [(_, statistics)] = count.process((0, trace_batch({case: "A B"})))
        stage.give_counts(0, encode(statistics))
    decided = first.fire()[0].to_json()
    for stage in (same, others):
        assert stage.fire()[0].to_json() == decided
    assert same.fire()[0].step == 1
    (tmp_path / "step-000001.decision").unlink()
    with pytest.raises(GuaranteeError, match="decided on other cases"):
        others.fire()


def remove_all(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def swap(folder: Path) -> None:
    path = folder / "step-000001.decision"
    path.write_bytes((folder / "step-000000.decision").read_bytes())


def change(folder: Path) -> None:
    path = folder / "step-000001.decision"
    path.write_bytes(path.read_bytes().replace(b'"count":', b'"count":1'))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (remove_all, "what was kept of it is gone"),
        (swap, "not what tracecloak wrote there.*begin another epoch"),
        (change, "not what tracecloak wrote there.*begin another epoch"),
    ],
)
def test_what_is_kept_must_be_there_as_it_was_written(
    new_stage: NewStage, tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    stage = new_stage()
    stage.give_counts(0)
    stage.fire()
    stage.fire()
    harm(tmp_path)
    with pytest.raises(TracecloakError, match=f"(?s){said}"):
        stage.fire()


def test_a_release_that_comes_out_otherwise_on_the_same_counts_is_none(
    new_stage: NewStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with another version: sums that follow would not go with what was published."""
    first, again = (new_stage("total") for _ in range(2))
    for stage in (first, again):
        stage.give(0, "AB")
    first.fire()
    original = DfgSteps.publish

    def otherwise(self: DfgSteps, *others: Any) -> Any:
        released, kept = original(self, *others)
        return replace(released, counts=released.counts + 1), kept

    monkeypatch.setattr(DfgSteps, "publish", otherwise)
    with pytest.raises(GuaranteeError, match="differs from what was decided"):
        again.fire()


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
    gate = beam_stages._Gate()
    statistics = counted(product(), "AB")
    with pytest.raises(GuaranteeError, match="second release"):
        list(gate.process((3, statistics), pane))
    good = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    [(_, (step, _))] = gate.process((3, statistics), good)
    assert step == 3

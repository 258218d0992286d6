"""Audited epsilon of whole streams, all steps together, and of streams that are wrong on purpose.

The two inputs differ in one case whose messages are spread over many steps. False alarms: a bound
exceeds the claim with probability at most 1e-9 where the claim holds (`epsilon_lower_bound`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.stream_runs import S, Sent
from tracecloak.anonymizers.streams.continual import ContinualNoise
from tracecloak.anonymizers.streams.dfg_steps import DfgParams, DfgSteps
from tracecloak.anonymizers.streams.identities import Identities
from tracecloak.anonymizers.streams.steps import StreamName
from tracecloak.examination.audit.bounds import epsilon_lower_bound
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.step import StepRelease
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.open_cases import OpenCases
from tracecloak.transforms.formats.messages import MessageFormat

N_STEPS, PERIOD_US = 10, 10 * S
EPSILON = "1.5"
RULE = ClosingRule(("A", "B"), PERIOD_US, 12 * S, 300 * S, 0, 9, 1_000 * S)
NAME = StreamName("ward", "1", "configuration", 0, PERIOD_US)
# Of others, two in each step; and the one, with an event in each of the first nine steps.
OTHERS = [Sent(10 * i + j, f"o{i}.{j}", "AB"[j], f"{i}") for i in range(9) for j in range(2)]
ONE = [Sent(10 * i + 5, "one", "A", f"{i}") for i in range(9)]


def steps_of(sent: Sequence[Sent], rule: ClosingRule) -> list[TraceBatch | None]:
    """The cases that close in each step."""
    messages = [s.message() for s in sent]
    layout = MessageFormat(ColumnMapping(timestamp_unit="us"))
    events, rejects = layout.decode(
        [m.value for m in messages], [m.timestamp.micros for m in messages]
    )
    assert rejects.num_rows == 0
    keyed = Identities(release_key()).keyed(events, rule, False)
    _, steps, _ = OpenCases.none().add(keyed, rule, 0).close(2**60, rule, 0)
    closed = dict(steps)
    assert set(closed) <= set(range(N_STEPS + 1))
    return [closed.get(step) for step in range(N_STEPS)]


def steps_of_windows(sent: Sequence[Sent]) -> list[TraceBatch | None]:
    """A case counts in every window with what it did there: another case for each."""
    parts = [s._replace(case=f"{s.case}/{int(s.publish // 10)}") for s in sent]
    return steps_of(parts, ClosingRule(("A", "B"), PERIOD_US, 1 * S, 2 * S, 0, 9, S))


def features(
    steps: Sequence[TraceBatch | None], params: DfgParams, n: int, first_key: int
) -> np.ndarray:
    """float64[n, n_features], all counts of n streams, each under a key of its own."""
    made = DfgSteps(params)
    nothing = made.count(TraceBatch.from_events([]))
    counted = [nothing if step is None else made.count(step) for step in steps]
    rows = []
    for key in range(first_key, first_key + n):
        past: list[object] = []
        row: list[np.ndarray] = []
        for step, statistics in enumerate(counted):
            released, kept = made.publish(step, statistics, past, NAME, release_key(key))
            assert isinstance(released, StepRelease)
            past += [] if kept is None else [kept]
            row.append(released.counts)
        rows.append(np.concatenate(row).astype(float))
    return np.array(rows)


def params(**changes: str) -> DfgParams:
    return DfgParams(
        epsilon=EPSILON,
        vocabulary=("A", "B"),
        max_trace_length=9,
        horizon=N_STEPS,
        **changes,  # type: ignore[arg-type]
    )


def short() -> DfgParams:
    """With noise for cases of one event, as those of a window are."""
    return DfgParams(**{**params(delta="0").model_dump(), "max_trace_length": 1})


def audited(
    asked: DfgParams,
    assemble: Callable[[Sequence[Sent]], list[TraceBatch | None]],
    n: int = 250,
) -> float:
    with_one = features(assemble([*OTHERS, *ONE]), asked, n, 0)
    without = features(assemble(OTHERS), asked, n, n)
    return epsilon_lower_bound(with_one, without, float(asked.delta)).epsilon


def in_one_step(sent: Sequence[Sent]) -> list[TraceBatch | None]:
    return steps_of(sent, RULE)


@pytest.mark.slow
def test_a_whole_stream_keeps_its_epsilon() -> None:
    assert audited(params(view="window", delta="0"), in_one_step) <= float(EPSILON)


def test_noise_that_is_too_small_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of what it should be: as if each step could have an epsilon of its own."""
    add = ContinualNoise.add

    def small(self: ContinualNoise, *arguments: object) -> np.ndarray:
        own = replace(self, scale=(self.scale[0], self.scale[1] * N_STEPS))
        return add(own, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ContinualNoise, "add", small)
    assert audited(params(delta="0"), in_one_step) > float(EPSILON)


@pytest.mark.slow
def test_a_case_that_counts_in_every_window_is_caught() -> None:
    """Cut to what it does in a window, with noise for a case of one event in one window."""
    assert audited(short(), steps_of_windows, 1500) > float(EPSILON)

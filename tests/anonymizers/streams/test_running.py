"""A stream in one place: what it counts, and what it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.keys import release_key
from tests.support.stream_runs import Sent, stream_config
from tracecloak.anonymizers.streams.dfg_steps import DfgSteps
from tracecloak.anonymizers.streams.running import RunningStream
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.events.traces import TraceBatch

S = 1_000_000


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The cases of each count."""
    found: list[int] = []
    original = DfgSteps.count

    def count(self: DfgSteps, traces: TraceBatch) -> Statistics:
        found.append(traces.n_cases)
        return original(self, traces)

    monkeypatch.setattr(DfgSteps, "count", count)
    yield found


@pytest.mark.parametrize("delay", ["0s", "40s"])
def test_cases_behind_the_horizon_are_not_counted(
    tmp_path: Path, counted: list[int], delay: str
) -> None:
    """Catches counts that nobody publishes, and that are kept as long as the last step waits."""
    config = stream_config(tmp_path, horizon=2, release_delay=delay)
    stream = RunningStream(
        config.made_product(), config.rule, config.name, release_key(1), release_key(2)
    )
    # Three cases close in the two steps, and forty behind them.
    seconds = [1.0, 8.0, 15.0, *(float(second) for second in range(20, 60))]
    messages = [Sent(at, f"c{at}", "END", f"{at}").message() for at in seconds]
    state = stream.begin()
    decided = []
    for message, at in zip(messages, seconds, strict=True):
        events, _ = config.layout.decode([message.value], [int(at * S)])
        state = stream.take(state, stream.keyed(events))
        state, made = stream.advance(state, int(at * S))
        decided += made
    _, made = stream.advance(state, 1_000 * S)
    assert [one.step for one in [*decided, *made]] == [0, 1]
    assert sum(counted) == 3

"""A stream that is started again: what a step released stays, and nothing else of it is seen."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from tests.support.releasing import key_files
from tests.support.stream_runs import (
    Happening,
    Sent,
    accepted,
    files_of,
    in_time,
    made,
    one_key,
    random_messages,
    run,
    stream_config,
    stream_of,
)
from tests.support.tiers import at_night
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.run import run_stream
from tracecloak.schemas.errors import GuaranteeError, TracecloakError
from tracecloak.transforms.stream import step_files

PRODUCTS: dict[str, dict[str, Any]] = {
    "dfg": {},
    "dfg totals": {"view": "total"},
    "variants": {"product": "variants", "view": "total", "epsilon": "40"},
    "log": {
        "product": "log", "epsilon": "40", "first_date": "1970-01-01", "last_date": "1970-01-02",
        "n_duration_bins": 4, "l2_clip": "4",
    },
}  # fmt: skip
WHOLE = re.compile(
    r"manifest\.json|statement\.md|product=\w+/view=\w+/step-\d{6}"
    r"(\.json|\.parquet|/step\.json|/log\.parquet|/log\.xes\.gz)"
)
_SENT: list[tuple[int, bytes]] = []


class Topic(beam.DoFn):
    """A topic: it has what was sent to it before, and cannot give it back."""

    def process(self, release: Any) -> None:
        _SENT.append((release.key[-1], release.to_json()))


def sent_again(config: StreamConfig, happenings: Sequence[Happening]) -> dict[int, set[bytes]]:
    """Runs a stream; returns what its topic got of each step."""
    _SENT.clear()
    run_stream(config, messages=stream_of(happenings), sinks=[beam.ParDo(Topic())])
    return {step: {data for at, data in _SENT if at == step} for step, _ in _SENT}


def messages() -> list[Sent]:
    return random_messages(until=30)


def fewer(step: int = 1) -> list[Sent]:
    """What comes after a restart: the messages of a case of this step were acknowledged."""
    lost = accepted(messages())[step][0].case
    return [sent for sent in messages() if sent.case != lost]


def steps_of(config: StreamConfig) -> dict[str, bytes]:
    return {name: data for name, data in files_of(config).items() if name.startswith("product")}


@contextmanager
def failing_at(step: int) -> Iterator[None]:
    """No file of a step can be moved to its place: it is as if the process had been killed."""
    original = step_files.rename

    def rename(sources: list[str], targets: list[str]) -> None:
        if f"step-{step:06d}" in targets[0]:
            raise OSError("cut off")
        original(sources, targets)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_files, "rename", rename)
        yield


def cut_off_at(config: StreamConfig, step: int) -> None:
    with failing_at(step), pytest.raises(TracecloakError, match="stays published"):
        run(config, in_time(messages(), 60))


@pytest.mark.parametrize(
    "name", ["dfg totals", *(at_night(n) for n in PRODUCTS if n != "dfg totals")]
)
def test_a_step_that_was_cut_off_before_it_appeared_appears_as_it_was_decided(
    tmp_path: Path, name: str
) -> None:
    """With other messages at the restart; then the epoch ends, for a case could count twice."""
    whole, config = (
        stream_config(tmp_path / place, horizon=3, **PRODUCTS[name])
        for place in made(tmp_path, "whole", "cut off")
    )
    with pytest.MonkeyPatch.context() as patch:
        one_key(patch)
        run(whole, in_time(messages(), 60))
        cut_off_at(config, 1)
        cut = steps_of(config)
        assert cut and not any("step-000001" in path for path in cut)
        with pytest.raises(GuaranteeError, match=r"step 2 cannot be published.*another epoch"):
            sent_again(config, in_time(fewer(), 60))
    expected = {path: data for path, data in steps_of(whole).items() if "step-000002" not in path}
    assert steps_of(config) == expected
    assert {step for step, _ in _SENT} == {0, 1}
    if name != "log":
        for step, data in _SENT:
            assert data in expected.values(), step


def test_under_the_output_lies_nothing_but_whole_steps_at_any_time(tmp_path: Path) -> None:
    """And what a step releases is kept before a byte of it is written anywhere else."""
    config = stream_config(tmp_path, horizon=2, **PRODUCTS["log"])
    seen: set[str] = set()
    original = {name: getattr(step_files, name) for name in ("create", "rename")}

    def look() -> None:
        names = list(files_of(config))
        assert all(WHOLE.fullmatch(name) for name in names), names
        assert not list((tmp_path / "out").rglob("_*"))
        seen.update(names)

    def create(path: str, *others: Any, **named: Any) -> Any:
        place = Path(path)
        assert tmp_path / "out" not in place.parents
        assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
        if place.name.startswith(("step", "log")):
            decided = list((tmp_path / "keys" / "operator").rglob("*.decision"))
            n_whole = len({name for name in files_of(config) if name.endswith("step.json")})
            assert len(decided) == n_whole + 1
            assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in decided)
        look()
        return original["create"](path, *others, **named)

    def rename(sources: list[str], targets: list[str]) -> None:
        look()
        original["rename"](sources, targets)
        look()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_files, "create", create)
        patch.setattr(step_files, "rename", rename)
        run(config, in_time(messages(), 60))
    assert len(seen) == 2 + 2 * 3
    # The epoch is over: what was kept of it goes with its key.
    assert not list((tmp_path / "keys").rglob("*.decision"))
    assert not list((tmp_path / "_incomplete-out").rglob("*.part"))
    assert len(key_files(tmp_path / "keys")) == 1  # that of identities

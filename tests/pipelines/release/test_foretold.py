"""How large a release by oversampling becomes: what `plan` and both ways to release say first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.releasing import tracecloak
from tests.support.terminal import watch
from tests.support.tiers import at_night
from tracecloak.pipelines.planning import plan as plans

SAID = "A release would have about "


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator looks: elsewhere none of this is shown (`test_what_others_read.py`)."""
    watch(monkeypatch)


@pytest.fixture
def flags(tmp_path: Path) -> list[str]:
    """Of a log of 30 cases, each with an activity of its own."""
    rows = [f"{i},a{i},2026-01-0{1 + i % 9}T00:00:00Z" for i in range(30)]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["case_id,activity,timestamp", *rows, ""]))
    return [
        "--log", str(log), "--output", str(tmp_path / "out"), "--method", "amun",
        "--guessing_advantage", "0.2",
    ]  # fmt: skip


def test_a_plan_does_not_read_a_large_log_for_it(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plans, "_FORETOLD_BYTES", 10)
    assert tracecloak("plan", *flags, "--full", "--mode", "oversampling") == 0
    told = capsys.readouterr().out
    assert SAID not in told
    assert "a plan reads up to 10 for it. A release says it before noise is drawn." in told


@pytest.mark.parametrize("runner", ["InMemory", at_night("FnApiRunner")])
def test_a_release_says_it_before_noise_is_drawn(
    flags: list[str], runner: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak("release", *flags, "--mode", "oversampling", "--runner", runner) == 0
    told = capsys.readouterr().err
    assert 0 < told.index(f"WARNING amun: {SAID}") < told.index("decided: dafsa")


def test_a_release_that_is_too_large_is_refused(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = [*flags, "--mode", "oversampling", "--runner", "InMemory", "--max_growth"]
    assert tracecloak("release", *wanted, "1.5") == 2
    told = capsys.readouterr().err.splitlines()
    assert any(f"WARNING amun: {SAID}" in line for line in told)  # to who watches a terminal
    # What anybody may read is public: the parameter, and the exit code.
    assert re.findall(r"\d[\d.]*", told[-1]) == ["1.5", "2"]
    assert tracecloak("release", *wanted, "10") == 0

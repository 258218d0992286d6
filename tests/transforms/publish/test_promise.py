"""How little a large epsilon promises: the sentence, and every place that must say it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import csv_log, tracecloak
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.transforms.publish.promise import caution

ROWS = [(f"c{i}", name, f"2026-01-0{1 + i % 9}T0{k}:00:00Z") for i in range(40) for k, name in
        enumerate("AB")]  # fmt: skip


def promising(epsilon: float | None, kind: Any = "rigorous", **changes: Any) -> str:
    given = {"unit": "case", "adjacency": "add_remove", "delta": 1e-6, **changes}
    return caution(Guarantee(kind, epsilon=epsilon, claim="", reality="", **given))


@pytest.mark.parametrize("epsilon", [4.0, 4.5, 6.0, 6.9])
def test_the_rise_of_a_guess_is_that_of_the_bound(epsilon: float) -> None:
    """Catches one that is rounded down, or is that of another prior."""
    [percent] = re.findall(r"may become ([\d.]+) %\.$", promising(epsilon))
    exact = 100 / (1 + math.exp(-epsilon))
    assert exact <= float(percent) < exact + 0.1


@pytest.mark.parametrize("epsilon", [6.91, 20.0, 100.0, 1e300])
def test_beyond_a_tenth_of_a_percent_a_guess_is_not_called_a_certainty(epsilon: float) -> None:
    assert promising(epsilon).endswith("may become more than 99.9 %.")
    assert 1 / (1 + math.exp(-6.91)) > 0.999


def test_small_epsilons_and_promises_without_one_need_no_caution() -> None:
    assert promising(3.999) == promising(0.01) == ""
    assert promising(None, "published", delta=None) == promising(50.0, "syntactic") == ""
    assert promising(50.0, "published")


def test_it_is_about_the_unit_and_the_change_that_epsilon_holds_for() -> None:
    assert "that a person is in the input" in promising(5.0, unit="individual")
    assert "which of two courses one case took" in promising(5.0, adjacency="replace_one")


@pytest.mark.parametrize(("epsilon", "most"), [("100", "more than 99.9 %"), ("4", "98.3 %")])
def test_every_place_that_shows_the_promise_says_it(
    epsilon: str, most: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "names.txt"
    names.write_text("A\nB\n")
    flags = ["--log", csv_log(tmp_path / "log.csv", ROWS), "--output", tmp_path / "out",
             "--method", "private-dfg", "--epsilon", epsilon, "--vocabulary", names, "--l2_clip",
             "2", "--release_id", "r", "--key_store", tmp_path / "keys", "--runner",
             "InMemory"]  # fmt: skip
    sentence = (
        f"Epsilon {epsilon} promises little: a guess of 50 % that one case is in the input "
        f"may become {most}."
    )
    folder = tmp_path / "out/run_id=r"
    for command in (["plan", *flags], ["release", *flags], ["verify", folder]):
        assert tracecloak(*command) == 0
        assert sentence in " ".join(capsys.readouterr().out.split())
    assert tracecloak("verify", folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["caution"] == sentence
    for name in ("report.html", "statement.md"):
        assert sentence in (folder / name).read_text(encoding="utf-8")

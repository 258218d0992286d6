"""What a promise means for a guess, as an officer says it, and every place that must say it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import csv_log, placed, tracecloak
from tests.transforms.publish.test_report import made_up
from tracecloak.anonymizers.accounting.composition import noise_of
from tracecloak.anonymizers.registry import METHODS
from tracecloak.schemas.published.manifest import Guarantee, ReleaseManifest
from tracecloak.transforms.publish.statement import caution, in_words

ROWS = [(f"c{i}", name, f"2026-01-0{1 + i % 9}T0{k}:00:00Z") for i in range(40) for k, name in
        enumerate("AB")]  # fmt: skip


def promising(epsilon: float | None, kind: Any = "rigorous", **changes: Any) -> str:
    given = {"unit": "case", "adjacency": "add_remove", "delta": 1e-6, **changes}
    return caution(Guarantee(kind, epsilon=epsilon, claim="", reality="", **given))


def test_the_rise_of_a_guess_is_that_of_the_bound() -> None:
    """Catches one that is rounded down, or is that of another prior."""
    for epsilon in [4.0, 4.5, 6.0, 6.9]:
        [percent] = re.findall(r"may become ([\d.]+) %\.$", promising(epsilon))
        exact = 100 / (1 + math.exp(-epsilon))
        assert exact <= float(percent) < exact + 0.1


def test_beyond_a_tenth_of_a_percent_a_guess_is_not_called_a_certainty() -> None:
    for epsilon in [6.91, 20.0, 100.0, 1e300]:
        assert promising(epsilon).endswith("may become more than 99.9 %.")
        assert 1 / (1 + math.exp(-6.91)) > 0.999


def test_small_epsilons_and_promises_without_one_need_no_caution() -> None:
    assert promising(3.999) == promising(0.01) == ""
    assert promising(None, "published", delta=None) == promising(50.0, "syntactic") == ""
    assert promising(50.0, "published")


def test_it_is_about_the_unit_and_the_change_that_epsilon_holds_for() -> None:
    assert "that a person is in the input" in promising(5.0, unit="individual")
    assert "which of two courses one case took" in promising(5.0, adjacency="replace_one")


def test_every_place_that_shows_the_promise_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "names.txt"
    names.write_text("A\nB\n")
    of_graph = ("--method", "private-dfg", "--epsilon", 100, "--vocabulary", names, "--l2_clip", 2)
    _, *flags = placed(tmp_path, csv_log(tmp_path / "log.csv", ROWS), *of_graph)
    sentence = (
        "Epsilon 100 promises little: a guess of 50 % that one case is in the input may become "
        "more than 99.9 %."
    )
    folder = tmp_path / "out/run_id=r"
    for command in (["plan", *flags], ["release", *flags], ["verify", folder]):
        assert tracecloak(*command) == 0
        assert sentence in " ".join(capsys.readouterr().out.split())
    assert tracecloak("verify", folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["caution"] == sentence
    for name in ("report.html", "statement.md"):
        assert sentence in (folder / name).read_text(encoding="utf-8")


# --- In an officer's words ------------------------------------------------------------------------


def manifest_with(name: str, example: dict[str, Any]) -> ReleaseManifest:
    method = METHODS[name]
    params = method.Params(**example)
    return made_up(
        method=name,
        params=params.resolved(),
        guarantee=method.guarantee(params),
        spends=tuple(json.loads(json.dumps(part.to_json())) for part in method.spends(params)),
    )


def test_the_unit_and_the_change_are_those_of_the_promise() -> None:
    def words(**changes: Any) -> dict[str, str]:
        promise = replace(made_up().guarantee, **changes)
        limits = {"max_trace_length": 40, "max_cases_per_individual": 3}
        return in_words(made_up(guarantee=promise, params=limits))

    person = words(unit="individual")
    assert "the cases of everybody but one person" in person["headline"]
    assert person["change"].endswith(
        "at most: of a person, at most 3 cases count, and of a case, the first 40 events count."
    )
    assert "of a person" not in words()["change"]
    replaced = words(adjacency="replace_one")
    assert "which of two courses that one took" in replaced["headline"]
    # That case may be there for certain: what it did is another question, with twice the epsilon.
    course = words(unit="individual")["course"]
    assert "88.1 % at most" in course and "course" not in replaced
    # Replacing is removing and adding: delta is larger than that of the other question.
    assert course.endswith("for this question delta is at most 0.00000372.")
    assert "with more than 99.9 %; for" in words(epsilon=8.0)["course"]
    assert words(epsilon=60.0)["course"].endswith("any probability: nothing bounds it.")
    assert "delta" not in words(delta=0.0)["course"]
    assert "in the result of the query" in words(population="query result")["headline"]
    # A parameter that is no number could be somebody's text.
    odd = made_up(params={"max_trace_length": "5\nheadline: All is well."})
    assert "All is well" not in "".join(in_words(odd).values())


@pytest.mark.parametrize("name", ["private-log", "private-dfg", "private-indicators"])
def test_noise_is_told_by_how_often_it_holds_what_one_unit_changes(name: str) -> None:
    manifest = manifest_with(name, METHODS[name].examples[0])
    blocks = [
        (math.sqrt(2) if part["mechanism"] == "discrete_laplace" else 1, block)
        for part in manifest.spends
        for block in part.get("blocks", [part])
        if block["scale"]
    ]
    times = [
        factor * Fraction(block["scale"]) / Fraction(block["sensitivity"])
        for factor, block in blocks
    ]
    [shown] = re.findall(
        r"its standard deviation is (\S+) to (\S+) times", in_words(manifest)["noise"]
    )
    for number, exact in zip(shown, (min(times), max(times)), strict=True):
        assert float(number) == pytest.approx(exact, rel=0.06)
    rows = [row for part in manifest.spends for row in noise_of(part)]
    assert [row[0] for row in rows] == [block["what"] for _, block in blocks]


def test_noise_that_is_narrower_than_the_change_is_not_said_to_hide_it() -> None:
    def told(scale: str) -> str:
        part = {"what": "a", "mechanism": "discrete_laplace", "scale": scale, "sensitivity": "1"}
        return in_words(made_up(spends=(part,)))["noise"]

    assert "so that nobody can be sure of such a change" in told("3")
    assert "hides little where it is below 1" in told("1/3")
    unlisted = in_words(made_up())["noise"]
    assert "makes each result at most 2.719 times as probable (delta comes on top);" in unlisted

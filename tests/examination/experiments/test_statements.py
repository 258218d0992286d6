"""What papers state beside what was found, and what is missing where the time is over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.examination.experiments.test_run import command, log_of, sacofa_sapa
from tests.examination.experiments.test_run import path as path  # a fixture
from tracecloak.examination.comparison import rows as kept
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.comparison.rows import Cell
from tracecloak.examination.experiments import run as experiment
from tracecloak.examination.experiments.run import Experiment, paper_named, release_of
from tracecloak.examination.experiments.table import (
    THE_LOG,
    THE_PAPER,
    Boxes,
    Figures,
    Statement,
    judge_statement,
    sections_of,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies


# --- statements -----------------------------------------------------------------------------------


def levels(figure: dict[tuple[str, str], float], name: str) -> list[dict[str, Any]]:
    return [{"arm": arm, "level": level, name: value} for (arm, level), value in figure.items()]


NOTHING_PRINTED = [{"arm": arm, "level": ""} for arm in (THE_LOG, THE_PAPER)]


def of(spec: dict[str, Any], rows: list[dict[str, Any]], at: str = "1") -> Statement:
    table = Figures([*NOTHING_PRINTED, *rows], at.split(","), {"errors": ["error"]})
    return judge_statement(
        {"source": "s", "text": "t", "figure": "x", **spec}, table, {"kinds": "ab"}
    )


def test_a_statement_is_confirmed_deviates_or_is_undecided() -> None:
    """A missing figure hides neither that a part does not hold nor that the whole is unknown."""
    rows = levels({("a", "1"): 0.9, ("b", "1"): 0.8, ("c", "1"): 0.5, ("d", "1"): 0.6}, "x")
    one, two = {"more": "a", "than": "b"}, {"more": ["a", "c"], "than": "d"}
    assert of(one, rows).verdict == "confirmed"
    assert of(one, rows, "1,2").verdict == "undecided"
    assert of({**one, "slack": -0.2}, rows).verdict == "deviates"
    assert of(two, rows).verdict == of(two, rows, "1,2").verdict == "deviates"
    assert of({**two, "slack": 0.11}, rows).verdict == "confirmed"
    assert of({**two, "slack": 0.11}, rows, "1,2").verdict == "undecided"
    assert of({"more": "x", "than": 1}, rows).verdict == of(one, [], "").verdict == "undecided"
    assert (
        of(two, rows).found
        == "a and d at 1: 0.900 against 0.600; c and d at 1: 0.500 against 0.600"
    )
    each = {"more": "{}", "than": 0.85, "each": "kinds"}
    assert of(each, rows).found == "a at 1: 0.900 against 0.850; b at 1: 0.800 against 0.850"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"near": 0.31}, "confirmed"),
        ({"near": 0.29}, "deviates"),
        ({"in": "some"}, "confirmed"),
        ({"in": "the middle"}, "confirmed"),
        ({"in": "no order"}, "confirmed"),
        ({"in": "some", "at": ["2"]}, "deviates"),
        ({"in": "the middle", "at": ["2"]}, "deviates"),
        ({"in": "no order", "at": ["1", "3"]}, "deviates"),
        ({"in": "no order", "at": ["1"]}, "undecided"),
        ({"in": "some", "at": ["1", "4"]}, "undecided"),
        ({"in": "the middle", "at": ["2"], "slack": 0.21}, "confirmed"),
        ({"at": "the least", "slack": -0.05}, "confirmed"),
        ({"from": "c", "at": ["1"]}, "deviates"),
        ({"from": "c", "at": ["2"]}, "confirmed"),
    ],
)
def test_figures_are_compared_as_the_file_says(spec: dict[str, Any], expected: str) -> None:
    """A is above b by 0.1 and 0.3, and once below it by 0.2; c is 0.9 at 1 and 0.1 at 2."""
    a, b = {"1": 0.6, "2": 0.3, "3": 0.8}, {"1": 0.5, "2": 0.5, "3": 0.5}
    rows = levels({(arm, at): x for arm, of_arm in (("a", a), ("b", b), ("c", {"1": 0.9, "2": 0.7}))
                   for at, x in of_arm.items()}, "x")  # fmt: skip
    found = of({"more": "a", "than": "b", **spec}, rows, "1,2,3")
    assert found.verdict == expected, found


def test_a_release_that_would_lose_the_whole_log_counts_as_0() -> None:
    """But not as an error of 0."""
    rows = [*levels({("a", "1"): 0.7}, "x"), *levels({("a", "1"): 0.7}, "error")]
    rows += [{"arm": arm, "level": "1", "refused": "no", **lost}
             for arm, lost in (("b", {"is_lost": True}), ("c", {}))]  # fmt: skip
    found = of({"more": "b", "than": "a"}, rows)
    assert found.verdict == "deviates" and found.found == "b and a at 1: 0.000 against 0.700"
    assert of({"more": "c", "than": "a"}, rows).verdict == "undecided"
    assert of({"more": "b", "than": "a", "figure": "error"}, rows).verdict == "undecided"


def test_figures_that_fall_are_ordered() -> None:
    rows = levels({("a", "3"): 0.9, ("a", "1"): 0.5, ("a", "0.5"): 0.55}, "x")
    falls = {"more": "a", "falls": True, "at": "falling"}
    assert of(falls, rows, "1,3").verdict == "confirmed"
    assert of(falls, rows, "0.5,1,3").verdict == "deviates"
    assert of(falls, rows, "1,2,3").verdict == "undecided"
    assert of(falls, rows, "3").verdict == "undecided"
    assert of(falls, rows, "1,3").found == "a at 3 0.900, a at 1 0.500"


def test_a_section_shows_how_far_figures_are_from_those_of_an_arm() -> None:
    rows = [{"arm": "m", "level": "", "x": 0.5}, *levels({("a", "1"): 0.75, ("b", "1"): 0.4}, "x")]
    table = Figures([*NOTHING_PRINTED, *rows], ["1"], {"figures": {"x": "X"}, "axis": "level"})
    spec = {"title": "{title}", "file": "f", "figures": ["x"], "from": "m", "chart": True,
            "marks": {"m": 0.0}}  # fmt: skip
    [section] = sections_of(spec, table, {})
    assert section.header == ("", "level", "X") and section.title == "X"
    assert [row[:3] for row in section.rows] == [
        ("m", "", "0.000"), ("a", "1", "0.250"), ("b", "1", "-0.100")
    ]  # fmt: skip
    assert isinstance(section.chart, Boxes) and section.chart.values["a", "1"] == [0.25]
    assert section.chart.marks == {"m": 0.0}


def verdicts(grid: Any, rows: list[dict[str, Any]], own: dict[str, Any], part: str) -> list[str]:
    found = grid.statements(grid.table(log_of(), rows, own))
    return [one.verdict for one in found if part in one.text]


def test_the_statements_on_tlkc_are_judged_at_its_settings() -> None:
    """Algorithm 2 keeps 0.06 more with multisets, and as much with sequences."""
    grid = paper_named("tlkc", {})
    figure = {("TLKC-EXT, multiset", "strong"): 0.7, ("TLKC, multiset", "strong"): 0.64,
              ("TLKC-EXT, sequence", "strong"): 0.2, ("TLKC, sequence", "strong"): 0.2}  # fmt: skip
    rows = levels(figure, "data_utility")
    assert verdicts(grid, rows, {}, "considerably more") == ["deviates"]
    assert verdicts(grid, rows[:2], {}, "considerably more") == ["undecided"]
    assert verdicts(grid, rows, {}, "no less data utility") == ["undecided"]
    others = {(f"{arm}, {kind}", "strong"): 0.3 for arm in ("TLKC-EXT", "TLKC")
              for kind in ("set", "relative")}  # fmt: skip
    whole = rows + levels(others, "data_utility")
    assert verdicts(grid, whole, {}, "no less data utility") == ["confirmed"]
    whole[2]["data_utility"] = 0.25
    assert verdicts(grid, whole, {}, "considerably more") == ["confirmed"]
    assert verdicts(grid, rows, {}, "about the data utility") == ["undecided"]


def test_the_command_says_at_its_end_which_statements_hold(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    flags = ["--epsilons", "1", "--k_follows", "1", "--mine", 0, "--repetitions", 1]
    assert command("sacofa-sapa", path, *flags, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["missing"] == 0
    assert {one["verdict"] for one in data["statements"]} <= {"confirmed", "deviates", "undecided"}
    assert {one["log"] for one in data["statements"]} == {"hospital"}
    page = (path.parent / "out" / "experiment.html").read_text(encoding="utf-8")
    last = page.split("<h3>")[-1]
    assert last.startswith("What the paper states")
    assert last.count("<tr>") == 1 + len(data["statements"])


# --- what is missing ------------------------------------------------------------------------------


def test_no_release_is_begun_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each release takes a minute: in seven and a half eight are begun, each cell once first."""
    now = [0.0]

    def slow(log: Original, cell: Cell) -> Any:
        now[0] += 60 if cell.method else 0
        return release_of(log, cell)

    monkeypatch.setattr(kept.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(experiment, "release_of", slow)
    wanted = Experiment((log_of(),), 3, 0, max_minutes=7.5, paper=sacofa_sapa())
    rows = [row for row, _ in wanted.rows()]
    n_cells = len(list(wanted.paper.cells(log_of())))
    assert [row["repetition"] for row in rows[1:]] == [0] * n_cells + [1] * (8 - n_cells)
    assert wanted.missing(rows) == 3 * n_cells - 8
    # The same again goes on.
    more = list(wanted.rows(rows))
    assert [is_new for _, is_new in more].count(True) == 3 * n_cells - 8

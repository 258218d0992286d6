"""What would help a release, and the least epsilon for a goal: tried on made-up logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import csv_log, small_rows, tracecloak
from tests.support.tiers import each_row
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.planning.plan import EPSILONS, least_epsilon, read_goal
from tracecloak.pipelines.planning.utility import ends_at
from tracecloak.pipelines.planning.verdict import judged_at, recommend, shortfall_at
from tracecloak.schemas.errors import UsageError

NAMES = tuple(f"step {i}" for i in range(25))
GRAPH: Any = METHODS["private-dfg"]


def params(**given: Any) -> Any:
    return GRAPH.Params(**{"epsilon": "1", "vocabulary": NAMES, **given})


def test_what_helps_is_listed_with_its_figure_and_what_does_not_is_not() -> None:
    """A declared length changes no sum of a graph, and ten times the cases most of all."""
    given = params()
    mends = recommend(GRAPH, given, judged_at(GRAPH, given, 1_000))
    names = [what for what, _ in mends.helpful]
    assert names[:2] == ["10 times the cases", "epsilon 2"]
    shortfalls = [then for _, then in mends.helpful]
    assert shortfalls == sorted(shortfalls) and max(shortfalls) < mends.now
    # The figure is that of the log that is named.
    assert shortfalls[0] == shortfall_at(GRAPH, given, 10_000, "graph")


# --- goals ----------------------------------------------------------------------------------------


@each_row(("text", "kind", "shortfall"), [
    ("graph within 10 %", "graph", 0.1), ("variants of 60%", "variants", 0.4),
    (" tree within 2.5 % ", "tree", 0.025), ("figures", "figures", 0.0),
    ("figures of 80 %", "figures", 0.2),
])  # fmt: skip
def test_goals_are_read(text: str, kind: str, shortfall: float) -> None:
    assert read_goal(text) == (kind, pytest.approx(shortfall))


@each_row("text", ["", "graph", "graph within 10", "graph of 10 %", "figures of 101 %"])
def test_what_is_no_goal_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="must be 'graph within 10 %'"):
        read_goal(text)


@pytest.mark.parametrize(("method", "goal", "bound"), [
    ("private-dfg", "graph within 25 %", 0.25),
    pytest.param("variant-histogram", "variants of 60 %", 0.4, marks=pytest.mark.slow),
])  # fmt: skip
def test_the_least_epsilon_is_that_of_a_scan(method: str, goal: str, bound: float) -> None:
    """By each end of the range: it is reached by that epsilon, and by none that is much less."""
    ours: Any = METHODS[method]
    kind = read_goal(goal)[0]
    least = least_epsilon(ours, ours.Params(epsilon="1", vocabulary=NAMES), 500, goal, 100)
    for end, epsilon in enumerate(least.epsilons):
        assert epsilon is not None
        place = EPSILONS.index(epsilon)
        tried = [
            ends_at(ours, ours.Params(epsilon=one, vocabulary=NAMES), 500, 100)[end]
            for one in (EPSILONS[place - 8], EPSILONS[place - 1], epsilon, EPSILONS[place + 8])
        ]
        assert [worth.shortfall(kind) <= bound for worth in tried] == [False] * 2 + [True] * 2
    low, high = least.epsilons
    assert low and high and float(low) < float(high)
    assert f": epsilon {low} to {high}, depending on the process." in least.sentence
    assert least.to_json()["epsilon"] == [low, high]


def test_a_goal_that_is_out_of_reach_says_so_with_the_best() -> None:
    least = least_epsilon(GRAPH, params(), 100, "graph within 1 %")
    assert least.epsilons == (None, None) and least.best > 0.01
    assert "not reached up to epsilon 16, whose best is counts off by " in least.sentence


# --- the command ----------------------------------------------------------------------------------


def test_a_plan_says_the_verdict_what_helps_and_the_cost_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [
        "--log", csv_log(tmp_path / "log.csv", list(small_rows())), "--output", tmp_path / "out",
        "--method", "private-dfg", "--buy_vocabulary", "--key_store", tmp_path / "keys",
        "--expected_cases", "500",
    ]  # fmt: skip
    assert tracecloak("plan", *flags, "--epsilon", "1", "--full") == 0
    full = capsys.readouterr().out.splitlines()
    assert tracecloak("plan", *flags, "--epsilon", "1") == 0
    short = capsys.readouterr().out.splitlines()
    assert full[: len(short) - 1] == short[:-1] and "--full" in short[-1] and len(short) <= 6
    assert "Reads" in full and "Reads" not in short
    verdict, helps, cost = short[:3]
    assert ", with 500 cases: " in verdict and helps.startswith(
        "What would help most for a usual process: "
    )
    assert cost.endswith("account default; nothing was spent before, as there is no ledger yet.")
    assert not (tmp_path / "keys").exists()
    # An epsilon that is looked for need not be given.
    assert tracecloak("plan", *flags, "--for", "graph within 0.1 %", "--json") == 0
    assert json.loads(capsys.readouterr().out)["least"]["for"] == "graph within 0.1 %"
    assert tracecloak("plan", *flags, "--for", "graph") == 2
    assert "--for is 'graph', and must be" in capsys.readouterr().err

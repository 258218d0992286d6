"""The verdict of a plan: its bounds, its words, and that it is right for each family of methods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import csv_log, small_rows, tracecloak
from tests.support.tiers import each_row
from tests.support.ways_by_cell import recorded
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.planning.utility import (
    REGULAR,
    WITHIN,
    UtilityEstimate,
    may_be_noise,
    median_utility,
)
from tracecloak.pipelines.planning.verdict import (
    grade_of,
    judged_at,
    recommend,
)
from tracecloak.schemas.published.manifest import Yield

NAMES = tuple(f"step {i}" for i in range(10))
GRAPH = UtilityEstimate(1_000, Yield(1_000, None, 10, 20), 10, None, 0.1)
TREE = replace(GRAPH, graph_error=None, noise_share=0.1)


@each_row(
    ("worth", "grade"),
    [
        (GRAPH, "worth it"),
        (replace(GRAPH, graph_error=0.333), "worth it"),
        (replace(GRAPH, graph_error=0.334), "hardly"),
        (replace(GRAPH, graph_error=0.91), "no"),
        (replace(GRAPH, graph_error=0.8, case_share=0.5), "worth it"),
        (replace(GRAPH, graph_error=0.8, case_share=0.49), "hardly"),
        (replace(GRAPH, held=Yield(1_000, None, 4, 20)), "hardly"),
        (replace(GRAPH, held=Yield(1_000, None, 5, 20)), "worth it"),
        (replace(GRAPH, held=Yield(0, None, 0, 0)), "no"),
        (TREE, "worth it"),
        (replace(TREE, noise_share=0.11), "hardly"),
        (replace(TREE, noise_share=0.34), "no"),
        (replace(GRAPH, held=Yield(), graph_error=None, refusal="too much"), "no"),
    ],
)
def test_the_bounds(worth: UtilityEstimate, grade: str) -> None:
    assert grade_of(worth) == grade


def test_a_verdict_depends_on_how_alike_cases_are_until_that_is_declared() -> None:
    """300 cases of 11 activities at epsilon 0.5; and 10, which are too few of any process."""
    method: Any = METHODS["private-dfg"]
    params = method.Params(epsilon="0.5", vocabulary=tuple(f"step {i}" for i in range(10)))
    judged = judged_at(method, params, 300)
    assert judged.grade == "depends" and "depending on how alike your" in judged.sentence
    errors = [
        judged_at(method, params, 300, n_variants).between("graph") for n_variants in (9, 290)
    ]
    assert errors == sorted(errors)
    assert all(high <= 3.001 * low for low, high in errors)
    assert judged_at(method, params, 10).grade == "no"


@pytest.mark.slow
def test_no_size_is_called_worthless_at_which_a_public_log_came_out_well() -> None:
    """Of cells as recorded: half of a way's releases have a distance below 0.2."""
    method = METHODS["private-log"]
    sizes = {
        (cell.epsilon, cell.n_cases, cell.n_names)
        for cell in recorded()
        if cell.median("joint") < 0.2 and cell.n_cases <= 1_100
    }
    assert len(sizes) > 20
    for epsilon, n_cases, n_names in sorted(sizes):
        names = tuple(f"step {i}" for i in range(n_names - 1))
        params = method.Params(epsilon=epsilon, vocabulary=names)
        needs_verdict = may_be_noise(method, params, n_cases)
        best = median_utility(method, params, n_cases, REGULAR).times(1 / WITHIN)
        assert not needs_verdict or grade_of(best) != "no"


# One method of each family, with the number of cases at which an ordinary epsilon is worth it.
FAMILIES = ["private-dfg", "process-tree", "variant-histogram", "privtree", "markov-log"]


@pytest.mark.parametrize("method", [*FAMILIES, "private-log", "laplace-levels", "sparse-histogram"])
def test_each_family_is_worth_much_epsilon_and_not_little(method: str) -> None:
    def params(epsilon: str) -> Any:
        given: dict[str, Any] = {"epsilon": epsilon, "vocabulary": NAMES, "max_trace_length": 10}
        return METHODS[method].Params(**given)

    assert judged_at(METHODS[method], params("200"), 3_000, 330).grade == "worth it"
    little = judged_at(METHODS[method], params("0.01"), 30)
    assert little.grade == "no"
    mends = recommend(METHODS[method], params("0.01"), little)
    assert mends.sentence == "Nothing that was tried would help much."


def test_no_verdict_depends_on_the_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two logs, one of them a hundred times as large, under one key."""
    from tests.support.releasing import fix_key

    fix_key(monkeypatch)
    names = tmp_path / "names.txt"
    names.write_text("A\nB\n")
    said = []
    rows = list(small_rows())
    for number, log in enumerate((rows, [(f"{i}{c}", *r) for i in range(100) for c, *r in rows])):
        path = csv_log(tmp_path / f"log{number}.csv", log)
        assert tracecloak(
            "plan", "--log", path, "--output", tmp_path / "o", "--method", "private-dfg",
            "--epsilon", "1", "--vocabulary", names, "--expected_cases", "50",
        ) == 0  # fmt: skip
        said.append(capsys.readouterr().out.splitlines()[:3])
    assert said[0] == said[1] and ", with 50 cases: " in said[0][0]

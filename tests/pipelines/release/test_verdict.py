"""The verdict of a plan: its bounds, its words, and that it is right for each family of methods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import csv_log, small_rows, tracecloak
from tests.support.ways_by_cell import recorded
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.planning.advice import may_be_noise
from tracecloak.pipelines.planning.verdict import (
    Verdict,
    _changes,
    advice_on,
    grade_of,
    judged_at,
    mends_of,
)
from tracecloak.pipelines.planning.worth import REGULAR, WITHIN, Worth, worth_at
from tracecloak.schemas.published.yields import Yield

NAMES = tuple(f"step {i}" for i in range(10))
GRAPH = Worth(1_000, Yield(1_000, None, 10, 20), 10, None, 0.1)
TREE = replace(GRAPH, graph_error=None, noise_share=0.1)


@pytest.mark.parametrize(
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
def test_the_bounds(worth: Worth, grade: str) -> None:
    assert grade_of(worth) == grade


def test_counts_at_the_bound_keep_their_order() -> None:
    """Two counts, one twice the other, each off by what is called readable."""
    error = 0.333
    assert 2 * (1 - error) > 1 + error and grade_of(replace(GRAPH, graph_error=error)) == "worth it"


def test_the_words() -> None:
    worse = replace(GRAPH, graph_error=0.3)
    assert Verdict(GRAPH, (GRAPH, worse), "worth it").sentence == (
        "Worth it, with 1,000 cases: the counts of the graph will be off by 10 % to 30 %, "
        "depending on how alike your cases are."
    )
    useless = replace(GRAPH, n_cases=1, graph_error=1.2, case_share=0.004)
    better = replace(GRAPH, graph_error=0.2, case_share=0.7)
    judged = Verdict(useless, (better, useless), "depends", 3)
    assert judged.sentence == (
        "It depends, with 1 case: the counts of the graph will be off by 20 % to 120 %, and the "
        "variants that are released have 0.4 % to 70 % of the cases, depending on the process."
    )
    assert judged.in_short == "It depends, with 1 case (counts off by 20 % to 120 %)"
    assert judged.to_json()["graph_error"] == [0.2, 1.2]
    empty = replace(GRAPH, held=Yield(0, None, 0, 0))
    assert "nothing comes out" in Verdict(empty, (empty, empty), "no").sentence
    noisy = replace(TREE, noise_share=0.25)
    assert Verdict(noisy, (noisy, noisy), "hardly").sentence == (
        "Hardly, with 1,000 cases: the noise on each pair of steps that the tree is made of is as "
        "large as 25 % of the cases."
    )


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


def test_methods_that_publish_less_are_named_where_a_release_is_of_no_use() -> None:
    """Figures of 150 cases at epsilon 1; a graph has no other pairs, but a log has fewer counts."""
    method: Any = METHODS["private-log"]
    names = tuple(f"step {i}" for i in range(29))
    judged = judged_at(method, method.Params(epsilon="1", vocabulary=names), 150, 45)
    mends = mends_of(method, method.Params(epsilon="1", vocabulary=names), judged)
    assert dict(mends.others)["private-indicators"].worth.n_usable == 3
    assert "private-indicators (cases, mean throughput time, share " in mends.sentence
    others = {one["method"]: one["verdict"] for one in mends.others_json()}
    assert others["private-indicators"] == "worth_it" and "private-log" not in others
    # All of these are tried, and none publishes more than the method itself.
    graph: Any = METHODS["private-dfg"]
    given = graph.Params(epsilon="1", vocabulary=names)
    named = dict(mends_of(graph, given, judged_at(graph, given, 150, 120)).others)
    assert "private-indicators" in named and "auto-variants" not in named


@pytest.mark.parametrize(("name", "has_groups"), [("joint-variants", True), ("private-dfg", False)])
def test_groups_are_named_where_fewer_names_are_tried(name: str, has_groups: bool) -> None:
    method: Any = METHODS[name]
    wide = tuple(f"step {number}" for number in range(60))
    params = method.Params(epsilon="0.5", vocabulary=wide, max_trace_length=12)
    whats = [what for ladder in _changes(method, params, GRAPH) for what, *_ in ladder]
    [some, fewer] = [what for what in whats if "activities" in what]
    assert some.startswith("45 activities, each a group of the 60") and fewer.startswith("15 ")
    assert fewer.endswith(", see --groups") == has_groups


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
        is_in_doubt = may_be_noise(method, params, n_cases)
        best = worth_at(method, params, n_cases, REGULAR).times(1 / WITHIN)
        assert not is_in_doubt or grade_of(best) != "no"


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
    mends = mends_of(METHODS[method], params("0.01"), little)
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


def test_a_published_method_gets_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(
        "plan", "--log", csv_log(tmp_path / "log.csv", small_rows()), "--output", tmp_path / "o",
        "--method", "pretsa", "--k", "2", "--t", "1",
    ) == 0  # fmt: skip
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("Not judged: ") and "`tracecloak evaluate`" in second


@pytest.mark.parametrize(
    ("epsilon", "n_cases", "share"),
    [("0.01", 1_000, "most"), ("0.1", 400, "m"), ("1", 1_000, ""), ("0.01", 10**6, "")],
)
def test_a_release_that_is_mostly_noise_is_called_so(
    epsilon: str, n_cases: int, share: str
) -> None:
    method = METHODS["private-dfg"]
    told = advice_on(method, method.Params(epsilon=epsilon, vocabulary=NAMES), n_cases)
    if not share:
        assert told == ""
        return
    assert told.startswith(share) and " noise. On synthetic logs of as many cases, the " in told
    assert told.endswith(" `tracecloak plan` tries what would help most.")


def test_what_would_help_is_on_the_screen_of_a_release_that_is_mostly_noise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own numbers look like those of any log; the public ones say that they are noise."""
    names = tmp_path / "names.txt"
    names.write_text("\n".join(NAMES))
    rows = [(f"c{i}", name, f"2026-01-01T00:0{k}:00Z") for i in range(60) for k, name in
            enumerate(NAMES[:3])]  # fmt: skip
    flags = [
        "--log", csv_log(tmp_path / "log.csv", rows), "--method", "markov-log", "--vocabulary",
        names, "--max_trace_length", "6", "--output", tmp_path / "out", "--key_store",
        tmp_path / "keys", "--runner", "InMemory",
    ]  # fmt: skip
    shown = []
    for number in range(20):  # what comes out is empty or poor now and then, and is called that
        name = f"r{number}"
        assert tracecloak("release", *flags, "--epsilon", "0.01", "--release_id", name) == 0
        shown.append(capsys.readouterr().out)
        if " noise. On synthetic logs of as many cases, the " in shown[-1]:
            break
    else:
        pytest.fail(f"no release is called noise:\n{shown[-1]}")
    assert tracecloak("release", *flags, "--epsilon", "100", "--release_id", "much") == 0
    assert "advice" not in capsys.readouterr().out

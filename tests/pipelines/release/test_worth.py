"""What a release is worth: a plan's verdict by public numbers, what would help, and what came out.

A release that nobody could use is refused by public numbers, or called so by its released ones.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.releasing import (
    csv_log,
    fix_key,
    key_files,
    ledger_entries,
    manifest,
    placed,
    small_rows,
    tracecloak,
)
from tests.support.tiers import each_row, few_examples
from tests.support.ways_by_cell import recorded
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.demo.hospital import ACTIVITIES, hospital_log
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.plan import resolve
from tracecloak.pipelines.planning import utility, verdict
from tracecloak.pipelines.planning.plan import EPSILONS, least_epsilon, read_goal
from tracecloak.pipelines.planning.verdict import (
    grade_of,
    judged_at,
    recommend,
    shortfall_at,
    unusable,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.manifest import Yield
from tracecloak.schemas.published.rows import traces_of_rows
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.publish.statement import came_out_in_words

WIDE = tuple(f"step {number}" for number in range(150))
NAMES = WIDE[:10]
GRAPH: Any = METHODS["private-dfg"]


def line(folder: Path, command: str, *more: object, names: tuple[str, ...] = WIDE) -> list[object]:
    (folder / "names.txt").write_text("\n".join(names))
    given = ("--vocabulary", folder / "names.txt", "--closed_vocabulary", *more)
    log = csv_log(folder / "log.csv", list(small_rows(20)))
    _, *flags = placed(folder, log, "--method", "private-dfg", "--epsilon", 1, *given)
    return [command, *flags]


@given(
    n_cases=st.integers(1, 3_000),
    n_variants=st.integers(1, 3_000),
    n_names=st.integers(1, 30),
    max_length=st.integers(1, 30),
)
@few_examples(deadline=None)
def test_a_synthetic_log_has_about_as_many_variants_as_are_declared(
    n_cases: int, n_variants: int, n_names: int, max_length: int
) -> None:
    """Zipf's law: each has at most as many cases as the one before; as many as there can be."""
    [process] = utility.processes(n_variants, n_cases)
    counts = utility._cases_by_rank(process.exponent, n_cases, process.n_variants)
    assert counts.sum() == n_cases and (np.diff(counts) <= 1).all()
    if process.exponent < 2 and n_variants <= 0.9 * n_cases:
        assert len(counts) == pytest.approx(n_variants, rel=0.1, abs=3)
    assert len(counts) <= 1.1 * n_variants + 3
    names = tuple(f"step {i}" for i in range(n_names))
    log = utility.synthetic_log.__wrapped__(names, max_length, n_cases, True, process)
    assert log.n_cases == n_cases and log.lengths.min() >= 1
    assert log.individuals is not None and len(set(log.individuals.to_pylist())) == n_cases
    variants = VariantHistogram.from_traces(log)
    assert variants.n_variants <= len(counts)
    # Where there is room for others, few are still known after all their edits.
    if n_names > 5 and max_length > 5:
        assert variants.n_variants >= 0.95 * len(counts) - 1


def test_the_error_of_a_graph_is_in_the_range() -> None:
    """On the synthetic hospital, which is another process, with its number of variants declared."""
    [rows] = hospital_log(2000)
    log = traces_of_rows(rows)
    method: Any = METHODS["private-dfg"]
    params = method.Params(epsilon="1", vocabulary=tuple(sorted(ACTIVITIES)))
    n_variants = VariantHistogram.from_traces(log).n_variants
    errors = [
        utility.estimate_utility_of_log(
            method, params, log, ReleaseKey(bytes([run] * 32))
        ).graph_error
        for run in range(100, 105)
    ]
    best, worst = utility.ends_at(method, params, 2000, n_variants)
    low, high = best.graph_error, worst.graph_error
    assert low is not None and high is not None and high <= 3.001 * low
    assert low <= np.median(np.array(errors, float)) <= high
    widest = [worth.graph_error or 0.0 for worth in utility.ends_at(method, params, 2000, None)]
    assert widest[0] < low and widest[1] > 5 * widest[0]


def test_a_run_that_ends_at_the_variants_says_what_the_whole_log_does() -> None:
    """Of the rounds after them nothing is looked at."""
    params = METHODS["private-log"].Params(epsilon="1", vocabulary=NAMES, max_trace_length=10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracecloak.pipelines.planning.utility._UntilVariants", lambda: None)
        whole = utility.estimate_utility(METHODS["private-log"], params, 1000, 0, utility.USUAL)
    short = utility.estimate_utility(METHODS["private-log"], params, 1000, 0, utility.USUAL)
    assert (short.graph_error, short.case_share) == (whole.graph_error, whole.case_share)
    assert short.held.n_activities == whole.held.n_activities
    assert whole.graph_error is not None and 0 < whole.graph_error < 0.9


# --- verdicts ------------------------------------------------------------------------------------

OF_GRAPH = utility.UtilityEstimate(1_000, Yield(1_000, None, 10, 20), 10, None, 0.1)
OF_TREE = replace(OF_GRAPH, graph_error=None, noise_share=0.1)


@each_row(
    ("worth", "grade"),
    [
        (OF_GRAPH, "worth it"),
        (replace(OF_GRAPH, graph_error=0.333), "worth it"),
        (replace(OF_GRAPH, graph_error=0.334), "hardly"),
        (replace(OF_GRAPH, graph_error=0.91), "no"),
        (replace(OF_GRAPH, graph_error=0.8, case_share=0.5), "worth it"),
        (replace(OF_GRAPH, graph_error=0.8, case_share=0.49), "hardly"),
        (replace(OF_GRAPH, held=Yield(1_000, None, 4, 20)), "hardly"),
        (replace(OF_GRAPH, held=Yield(1_000, None, 5, 20)), "worth it"),
        (replace(OF_GRAPH, held=Yield(0, None, 0, 0)), "no"),
        (OF_TREE, "worth it"),
        (replace(OF_TREE, noise_share=0.11), "hardly"),
        (replace(OF_TREE, noise_share=0.34), "no"),
        (replace(OF_GRAPH, held=Yield(), graph_error=None, refusal="too much"), "no"),
    ],
)
def test_the_bounds(worth: utility.UtilityEstimate, grade: str) -> None:
    assert grade_of(worth) == grade


def test_a_verdict_depends_on_how_alike_cases_are_until_that_is_declared() -> None:
    """300 cases of 11 activities at epsilon 0.5; and 10, which are too few of any process."""
    method: Any = METHODS["private-dfg"]
    params = method.Params(epsilon="0.5", vocabulary=NAMES)
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
        needs_verdict = utility.may_be_noise(method, params, n_cases)
        best = utility.median_utility(method, params, n_cases, utility.REGULAR).times(
            1 / utility.WITHIN
        )
        assert not needs_verdict or grade_of(best) != "no"


# One method of each family, with the number of cases at which an ordinary epsilon is worth it.
@each_row(
    "method",
    [
        *("private-dfg", "process-tree", "variant-histogram", "privtree", "markov-log"),
        *("private-log", "laplace-levels", "sparse-histogram"),
    ],
)
@pytest.mark.slow
def test_each_family_is_worth_much_epsilon_and_not_little(method: str) -> None:
    def params(epsilon: str) -> Any:
        given: dict[str, Any] = {"epsilon": epsilon, "vocabulary": NAMES, "max_trace_length": 10}
        return METHODS[method].Params(**given)

    assert judged_at(METHODS[method], params("200"), 3_000, 330).grade == "worth it"
    little = judged_at(METHODS[method], params("0.01"), 30)
    assert little.grade == "no"
    recommendations = recommend(METHODS[method], params("0.01"), little)
    assert recommendations.sentence == "Nothing that was tried would help much."


# --- what would help, and goals -----------------------------------------------------------------


def params(**given: Any) -> Any:
    return GRAPH.Params(**{"epsilon": "1", "vocabulary": NAMES, **given})


def test_what_helps_is_listed_with_its_figure_and_what_does_not_is_not() -> None:
    """A declared length changes no sum of a graph, and ten times the cases most of all."""
    given = params()
    recommendations = recommend(GRAPH, given, judged_at(GRAPH, given, 1_000))
    names = [what for what, _ in recommendations.helpful]
    assert names[:2] == ["10 times the cases", "epsilon 2"]
    shortfalls = [then for _, then in recommendations.helpful]
    assert shortfalls == sorted(shortfalls) and max(shortfalls) < recommendations.now
    # The figure is that of the log that is named.
    assert shortfalls[0] == shortfall_at(GRAPH, given, 10_000, "graph")


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
            utility.ends_at(ours, ours.Params(epsilon=one, vocabulary=NAMES), 500, 100)[end]
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


def test_a_plan_says_the_verdict_what_helps_and_the_cost_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two logs, one of them a hundred times as large, it says the same first."""
    rows, said = list(small_rows()), []
    large = [(f"{i}{case}", *more) for i in range(100) for case, *more in rows]
    flags = [
        *line(tmp_path, "plan", names=("A", "B", "C", "D")), "--expected_cases", "50",
    ]  # fmt: skip
    for log, more in ((rows, []), (large, ["--full"])):
        csv_log(tmp_path / "log.csv", log)
        assert tracecloak(*flags, *more) == 0
        said.append(capsys.readouterr().out.splitlines())
    short, full = said
    assert short[:3] == full[:3] and "--full" in short[-1] and len(short) <= 6
    assert "Reads" in full and "Reads" not in short
    assert ", with 50 cases: " in short[0] and "What would help most" in short[1]
    assert not (tmp_path / "keys").exists()
    # An epsilon that is looked for need not be given.
    at = flags.index("--epsilon")
    goal = [*flags[:at], *flags[at + 2 :], "--for"]
    assert tracecloak(*goal, "graph within 0.1 %", "--json") == 0
    assert json.loads(capsys.readouterr().out)["least"]["for"] == "graph within 0.1 %"
    assert tracecloak(*goal, "graph") == 2


# --- refused beforehand, by public numbers ------------------------------------------------------


def config_of(expected_cases: int | None, **params: Any) -> ReleaseConfig:
    return ReleaseConfig(
        log=("log.csv",),
        output="out",
        method="private-dfg",
        params={"epsilon": "1", **params},
        expected_cases=expected_cases,
    )


def test_a_wide_log_is_refused_before_anything_is_claimed_and_finished_once_it_drew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """150 activities and 40 cases at epsilon 1: too few, however much alike they are."""
    wide = ["--expected_cases", 40]
    assert tracecloak(*line(tmp_path, "plan", *wide)) == 9
    first, helps, *_ = capsys.readouterr().out.splitlines()
    assert "NOT USABLE" in first and "10 times the cases" in helps
    assert tracecloak(*line(tmp_path, "release", *wide)) == 9
    assert f"{first} {helps}" in capsys.readouterr().err
    assert ledger_entries(tmp_path / "keys") == key_files(tmp_path / "keys") == []
    assert not (tmp_path / "out" / "run_id=r").exists()
    forced = ["--even_if_unusable", "--release_id", "s"]
    assert tracecloak(*line(tmp_path, "release", *wide, *forced)) == 0
    # What is drawn is paid: to refuse it would lose what it cost.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracecloak.pipelines.runners.in_memory.commit", None)
        assert tracecloak(*line(tmp_path, "release")) == 6
    assert tracecloak(*line(tmp_path, "release", *wide)) == 0
    assert manifest(tmp_path / "out" / "run_id=r")["usability"] == "not_usable"
    actions = [entry.action for entry in ledger_entries(tmp_path / "keys")]
    assert actions == ["reserve", "draw", "commit"] * 2


@pytest.mark.parametrize(
    "config",
    [
        config_of(None, vocabulary=WIDE),
        config_of(1_000, buy_vocabulary=True),
        config_of(100_001, vocabulary=WIDE, epsilon="0.001"),
        config_of(1_000, vocabulary=WIDE[:20]),
    ],
    ids=["no cases", "no names", "many cases", "little noise"],
)
def test_nothing_is_refused_and_nothing_made_up_where_nothing_can_be_said(
    config: ReleaseConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_up(*_: object) -> None:
        raise AssertionError("a log was made")

    monkeypatch.setattr(verdict, "judged_at", made_up)
    assert unusable(resolve(config)) is None


@pytest.mark.parametrize(("epsilon", "n_cases"), [("1", 1_000), ("4", 300)])
@pytest.mark.parametrize("n_names", [3, 30])
def test_a_good_log_is_never_refused(epsilon: str, n_cases: int, n_names: int) -> None:
    """Those of whose graph at least half comes out on a made-up log."""
    config = config_of(n_cases, vocabulary=WIDE[:n_names], epsilon=epsilon)
    assert unusable(resolve(config)) is None


# --- called so afterwards, by released numbers ----------------------------------------------------


@each_row(
    ("held", "usability"),
    [
        (Yield(9, None, 2, 3, unclear_share=0.5), "not_usable"),
        (Yield(9, None, 2, 3, unclear_share=0.49), "usable"),
        (Yield(0, None, 0, 0), "not_usable"),
        (Yield(9, 3, 2, None), "not_judged"),
    ],
)
def test_the_verdict_of_a_release(held: Yield, usability: str) -> None:
    assert held.usability == usability
    words = came_out_in_words(held, {})["held"]
    is_said = words.startswith("NOT USABLE: 50% of all that is counted")
    assert is_said == (held.unclear_share == 0.5)


def test_a_release_that_says_nothing_says_so_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With exit code 0, and what was charged stays charged; the folder alone tells it again."""
    fix_key(monkeypatch)
    with monkeypatch.context() as patch:  # arcs as the noise has them, and wider intervals
        threshold = "tracecloak.anonymizers.noise.sums.SumNoise.threshold"
        patch.setattr(threshold, lambda noise, n_cells: noise.width // 2)
        assert tracecloak(*line(tmp_path, "release", names=("A", "B", "C"))) == 0
    body = manifest(tmp_path / "out" / "run_id=r")
    assert body["usability"] == "not_usable" and body["came_out"]["unclear_share"] == 1
    shown = capsys.readouterr().out
    assert "holds       NOT USABLE: 100% of all that is counted" in shown and "advice  " in shown
    folder = tmp_path / "out" / "run_id=r"
    assert "<p>NOT USABLE: 100% of all" in (folder / "report.html").read_text()
    assert "By its own numbers: NOT USABLE: 100%" in (folder / "statement.md").read_text()
    graph = json.loads((folder / "dfg.json").read_text())
    assert ReleasedGraph.from_json(graph).came_out().usability == "not_usable"
    assert tracecloak("verify", folder) == 0  # it computes both from the files
    assert [e.action for e in ledger_entries(tmp_path / "keys")] == ["reserve", "draw", "commit"]

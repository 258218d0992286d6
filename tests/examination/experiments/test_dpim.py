"""`tracecloak experiment dpim`: what is run, judged and shown, on a synthetic log."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.logs import trace_batch
from tests.support.pages import drawn_in
from tests.support.releasing import csv_log, tracecloak
from tracecloak.examination.comparison import compare
from tracecloak.examination.experiments import report as experiment_report
from tracecloak.examination.experiments import run as experiment
from tracecloak.examination.experiments.figures import values_of
from tracecloak.examination.experiments.grids import THE_LOG, Boxes, Cell, Grid
from tracecloak.examination.experiments.log import Log
from tracecloak.examination.experiments.run import ROWS, Experiment, grid_named, release_of, run
from tracecloak.examination.measure.tree_quality import BASELINES, MEASURES, PatientJudge, TreeJudge
from tracecloak.schemas.models.process_tree import flower, normalise, parse_tree

pytestmark = pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies

VARIANTS = {"A B C D": 40, "A C B D": 25, "A B D": 15, "A D": 8, "B A D": 2}
NO_NOISE = "no noise"


@pytest.fixture(autouse=True)
def _version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever edits the code while tests run does not make rows old; nothing runs without pm4py."""
    pytest.importorskip("pm4py")
    pytest.importorskip("sklearn")
    monkeypatch.setattr(compare, "code_version", lambda: "0.1 of a test")


def cases() -> dict[str, str]:
    repeated = [variant for variant, count in VARIANTS.items() for _ in range(count)]
    return {f"secret-{i}": variant for i, variant in enumerate(repeated)}


def log_of() -> Log:
    return Log("log", trace_batch(cases(), "ABCD"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return csv_log(
        tmp_path / "hospital.csv",
        [
            (case, activity, f"2026-01-{1 + i % 28:02d}T1{step}:{i % 60:02d}:00+00:00")
            for i, (case, variant) in enumerate(cases().items())
            for step, activity in enumerate(variant.split())
        ],
    )


def command(path: Path, *flags: object) -> int:
    return tracecloak("experiment", "dpim", "--log", path, "--output", path.parent / "out", *flags)


def read_rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / ROWS).read_text().splitlines()]


def grid(**flags: str) -> Grid:
    return grid_named("dpim", {"epsilons": "4", **flags})


def table(page: str, title: str) -> list[list[str]]:
    """The cells of the first table under a heading, its header first."""
    [body] = re.findall(rf"<h3>{re.escape(title)}</h3>.*?<table>(.*?)</table>", page, re.DOTALL)
    return [re.findall("<t[hd]>(.*?)</t[hd]>", line) for line in body.strip().split("</tr>")[:-1]]


# --- what is run ----------------------------------------------------------------------------------


def test_models_of_the_log_stand_before_both_methods_at_the_paper_s_epsilons() -> None:
    found = list(grid_named("dpim", {}).cells(log_of()))
    assert [(cell.arm, cell.level, cell.epsilon) for cell in found] == [
        ("IM", "", ""), ("IMf", "", ""), ("flower", "", ""),
        ("dpim", NO_NOISE, "100000"), ("dpim, every pair", NO_NOISE, "100000"),
        ("process-tree", NO_NOISE, "1000"),
        ("dpim", "3.75", "3.75"), ("process-tree", "3.75", "3.75"),
        ("dpim", "1.25", "1.25"), ("process-tree", "1.25", "1.25"),
        ("dpim", "0.125", "0.125"), ("process-tree", "0.125", "0.125"),
    ]  # fmt: skip
    assert all(cell.is_mined for cell in found)
    params = {(cell.arm, cell.level): cell.params for cell in found}
    assert params["dpim", "1.25"] == {"epsilon": "1.25", "bounds_from_log": True}
    names = ["A", "B", "C", "D"]
    assert params["process-tree", "1.25"] == {"epsilon": "1.25", "vocabulary": names}
    # By hand: from the start A B, to the end D, AB AC AD BA BC BD CB CD: with these three, 11.
    assert params["dpim, every pair", NO_NOISE]["size_bounds"] == [11, 11]


def test_bounds_that_are_public_need_public_names() -> None:
    of_dpim = [cell.params for cell in grid(size_bounds="public").cells(log_of())][6]
    assert of_dpim == {"epsilon": "4", "vocabulary": ["A", "B", "C", "D"]}


def test_fitness_by_tokens_is_asked_of_dpim_alone() -> None:
    found = {
        cell.method: cell.params.get("fitness_measure")
        for cell in grid(fitness_measure="tokens").cells(log_of())
        if cell.method
    }
    assert found == {"dpim": "tokens", "process-tree": None}
    assert any("by tokens" in note for note in grid(fitness_measure="tokens").notes())
    assert not any("by tokens" in note for note in grid(fitness_measure="share").notes())


def test_every_pair_without_noise_is_one_tree_and_it_has_all_activities() -> None:
    """All pairs that occur hold and no other, so releases differ in nothing."""
    [cell] = [cell for cell in grid().cells(log_of()) if cell.arm == "dpim, every pair"]
    trees = [release_of(log_of(), cell).tree for _ in range(3)]
    texts = {tree.text for tree in trees if tree is not None}
    assert len(texts) == 1
    assert sorted(parse_tree(texts.pop()).labels) == ["A", "B", "C", "D"]


def test_figures_of_a_tree_are_its_own() -> None:
    """A threshold that no tree reaches: what is released then is the flower, and said to be."""
    log = log_of()
    params = {
        "epsilon": "5",
        "fitness_threshold": "1",
        "stop_probability": "1",
        "size_bounds": [1, 1],
    }
    cell = Cell("dpim", "5", "5", "dpim", params, is_mined=True)
    released = release_of(log, cell)
    assert released.tree is not None and released.variants.n_variants == 0
    assert released.tree.tree == normalise(flower("ABCD"))
    assert grid().figures(log, released, cell) == {
        "is_found": 0, "said_fitness": None, "nodes": 7, "activities": 4,
    }  # fmt: skip


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_shows_the_figures_of_the_paper(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    flags = ["--epsilons", "20,2", "--repetitions", 3]
    assert command(path, *flags) == 0
    out = path.parent / "out"
    rows, page = read_rows(out), (out / "experiment.html").read_text(encoding="utf-8")
    assert len(rows) == 1 + len(BASELINES) + 3 * 3 + 2 * 2 * 3
    assert not any("refused" in row for row in rows) and "secret" not in page + str(rows)
    [of_log] = [row for row in rows if row["arm"] == THE_LOG]
    assert of_log["fitness"] is None and of_log["mine_patience"] == 0
    log = log_of()
    judge = TreeJudge(log.variants, log.vocabulary)
    for row in rows[1:]:
        found = judge.judged(parse_tree(row["tree"]))
        for name in (*MEASURES, "share"):
            assert row[name] == pytest.approx(getattr(found, name))
        assert row["is_found"] in ((None,) if row["arm"] in BASELINES else (0, 1))

    # Figure 3, and Figure 4 as a table, computed once more from the rows.
    [miner] = [row for row in rows if row["arm"] == "IM"]
    deviations = table(page, "Figure 3: deviation from IM, without noise")
    assert deviations[0] == [
        "without noise",
        "fitness",
        "precision",
        "simplicity",
        "generalisation",
    ]
    assert [line[0] for line in deviations[1:]] == ["dpim", "dpim, every pair", "process-tree"]
    for line in deviations[1:]:
        for name, cell in zip(MEASURES, line[1:], strict=True):
            values = values_of(rows, name, arm=line[0], level=NO_NOISE)
            assert float(cell.split(" ")[0]) == pytest.approx(
                np.median(values) - miner[name], abs=0.0006
            )
    measures = table(page, "Figure 4 as a table")
    assert [line[0] for line in measures[1:]] == [
        *BASELINES, "dpim, no noise", "dpim, 20", "dpim, 2", "dpim, every pair, no noise",
        "process-tree, no noise", "process-tree, 20", "process-tree, 2",
    ]  # fmt: skip
    for line in measures[1:]:
        arm, level = (line[0], "") if line[0] in BASELINES else line[0].rsplit(", ", 1)
        for name, cell in zip((*MEASURES, "share"), line[1:], strict=True):
            values = values_of(rows, name, arm=arm, level=level)
            assert float(cell) == pytest.approx(np.median(values), abs=0.0006)
    precision = table(page, "Figure 4: precision")
    assert precision[0] == ["epsilon", NO_NOISE, "20", "2"]
    assert [line[2:] for line in precision[1:4]] == [["-", "-"]] * 3
    assert precision[1][1] == f"{miner['precision']:.3f}"

    images = drawn_in(page, out)
    assert {f"figures/figure-4-{name}-hospital.svg" for name in MEASURES} < set(images)
    drawn = (out / "figures/figure-4-precision-hospital.svg").read_text(encoding="utf-8")
    for name in ("dpim", "process-tree", *BASELINES):
        assert f">{name}</text>" in drawn
    assert "every pair" not in drawn  # which has no epsilon
    assert images.count("figures/figure-5-im-hospital.svg") == 1
    assert set(images) == {f"figures/{file.name}" for file in (out / "figures").iterdir()}

    # Nothing is released or judged again; more repetitions add to what is there.
    before = {file: file.read_bytes() for file in out.rglob("*.*") if file.is_file()}
    monkeypatch.setattr(experiment, "release_of", None)
    monkeypatch.setattr(PatientJudge, "judged", None)
    assert command(path, *flags) == 0
    assert {file: file.read_bytes() for file in before} == before
    assert "charts" in capsys.readouterr().out


def test_what_takes_too_long_is_said_and_tried_again_with_more_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")

    def slow(self: Any, asked: Any) -> Any:
        raise TimeoutError("mining took longer than 3 s")

    monkeypatch.setattr(PatientJudge, "judged", slow)
    wanted = Experiment(grid(), (log_of(),), ["process-tree"], 2, 2, patience=3)
    rows = run(wanted, tmp_path / ROWS)
    assert [row["arm"] for row in rows] == [THE_LOG, *BASELINES, *["process-tree"] * 4]
    assert all(row["f_score"] is row["share"] is None for row in rows)
    experiment_report.write_report(wanted, rows, "", tmp_path)
    page = (tmp_path / "experiment.html").read_text()
    assert "IM: 1 models took too long to be judged" in page
    assert "process-tree at 4: 2 models took too long to be judged" in page
    section = page.split("<h2")[1]
    assert "Figure 3: " not in section and "Figure 4: " not in section  # nothing is known of them
    assert section.count("undecided") >= 6
    assert "activities of the tree" in page
    assert not any(is_new for _, is_new in wanted.rows(rows))
    longer = Experiment(grid(), (log_of(),), ["process-tree"], 2, 2, patience=4)
    assert [is_new for _, is_new in longer.rows(rows)] == [False, *[True] * 7]


def test_without_models_there_are_sizes_and_times(tmp_path: Path) -> None:
    """Nothing is judged, so pm4py is not started either."""
    rows = run(Experiment(grid(), (log_of(),), None, 1, 0), tmp_path / ROWS)
    assert [row["nodes"] is not None for row in rows] == [False] * 4 + [True] * 5
    assert all(row["fitness"] is None and row["mine_seconds"] is None for row in rows)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--epsilons", "0.01"], "epsilons must be above 0.01 and at most 1000, got '0.01'"),
        (["--epsilons", "1001"], "epsilons must be above 0.01 and at most 1000, got '1001'"),
        (["--fitness_measure", "time"], "fitness_measure must be one of share, tokens"),
        (["--size_bounds", "paper"], "size_bounds must be one of log, public, got 'paper'"),
        (["--methods", "sapa"], "methods must be of dpim, process-tree, got 'sapa'"),
        (["--patience", "0"], "patience must be above 0"),
        (["--pruning", "1"], "unknown flag --pruning"),
    ],
)
def test_a_wrong_command_is_refused_before_anything_is_written(
    path: Path, flags: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(path, *flags) == 2
    assert said in capsys.readouterr().err
    assert not (path.parent / "out").exists()


def test_marks_are_lines_of_their_own_and_named() -> None:
    pytest.importorskip("matplotlib")
    boxes = Boxes("y", "x", ["1"], {("a", "1"): [1.0, 2.0]}, marks={"IM": 0.5, "flower": 3.0})
    with experiment_report._drawing():
        figure = experiment_report._drawn(boxes)
    [axes] = figure.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "IM", "flower"]
    levels = {tuple(line.get_ydata()): line.get_linestyle() for line in axes.get_lines()}
    assert {(0.5, 0.5), (3.0, 3.0)} <= set(levels)
    assert levels[0.5, 0.5] != levels[3.0, 3.0]

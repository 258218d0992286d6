"""A release that nobody could use: refused by public numbers, called so by its released ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import (
    csv_log,
    fix_key,
    key_files,
    ledger_entries,
    manifest,
    small_rows,
    tracecloak,
)
from tests.support.tiers import each_row
from tracecloak.anonymizers.graphs import graph_figures, noisy_graph
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.planning import verdict
from tracecloak.pipelines.planning.verdict import unusable
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.manifest import Yield
from tracecloak.transforms.publish.release_folder import ReleaseFolder

WIDE = tuple(f"step {number}" for number in range(150))
FEW = WIDE[:20]


def line(folder: Path, command: str, *more: object, names: tuple[str, ...] = WIDE) -> list[object]:
    (folder / "names.txt").write_text("\n".join(names))
    return [
        command, "--log", csv_log(folder / "log.csv", list(small_rows(20))), "--output",
        folder / "out", "--key_store", folder / "keys", "--method", "private-dfg", "--epsilon", 1,
        "--vocabulary", folder / "names.txt", "--closed_vocabulary", "--release_id", "r",
        "--runner", "InMemory", *more,
    ]  # fmt: skip


def config_of(expected_cases: int | None, **params: Any) -> ReleaseConfig:
    return ReleaseConfig(
        log=("log.csv",),
        output="out",
        method="private-dfg",
        params={"epsilon": "1", **params},
        expected_cases=expected_cases,
    )


# --- beforehand, by public numbers ----------------------------------------------------------------


def test_a_wide_log_is_refused_before_anything_is_claimed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """150 activities and 40 cases at epsilon 1: too few, however much alike they are."""
    wide = ["--expected_cases", 40]
    assert tracecloak(*line(tmp_path, "plan", *wide)) == 9
    first, helps, costs, refused, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("NOT USABLE, by public numbers alone: with 40 cases and 150 activi")
    assert helps.startswith("What would help most for a usual process: 10 times the cases (counts ")
    assert costs.startswith("Costs epsilon 1 ")
    assert refused.endswith("makes and pays nothing of it, unless --even_if_unusable is set.")
    assert tracecloak(*line(tmp_path, "release", *wide)) == 9
    told = capsys.readouterr().err
    assert f"{first} {helps}" in told and "Nothing was claimed or paid" in told
    assert ledger_entries(tmp_path / "keys") == key_files(tmp_path / "keys") == []
    assert not (tmp_path / "out" / "run_id=r").exists()
    assert tracecloak(*line(tmp_path, "release", *wide, "--even_if_unusable")) == 0


def test_what_was_drawn_is_finished_whatever_is_expected_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paid: to refuse it would lose what it cost."""
    with monkeypatch.context() as patch:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(ReleaseFolder, "commit", killed)
        assert tracecloak(*line(tmp_path, "release")) == 6
    assert tracecloak(*line(tmp_path, "release", "--expected_cases", 40)) == 0
    assert manifest(tmp_path / "out" / "run_id=r")["usability"] == "not_usable"
    assert [e.action for e in ledger_entries(tmp_path / "keys")] == ["reserve", "draw", "commit"]


@pytest.mark.parametrize(
    "config",
    [
        config_of(None, vocabulary=WIDE),
        config_of(1_000, buy_vocabulary=True),
        config_of(100_001, vocabulary=WIDE, epsilon="0.001"),
        config_of(1_000, vocabulary=FEW),
    ],
    ids=["no cases", "no names", "many cases", "little noise"],
)
def test_nothing_is_refused_and_nothing_made_up_where_nothing_can_be_said(
    config: ReleaseConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_up(*_: object) -> None:
        raise AssertionError("a log was made")

    monkeypatch.setattr(verdict, "judged_at", made_up)
    assert unusable(config) is None


@pytest.mark.parametrize(("epsilon", "n_cases"), [("1", 1_000), ("4", 300)])
@pytest.mark.parametrize("n_names", [3, 30])
def test_a_good_log_is_never_refused(epsilon: str, n_cases: int, n_names: int) -> None:
    """Those of whose graph at least half comes out on a made-up log."""
    config = config_of(n_cases, vocabulary=WIDE[:n_names], epsilon=epsilon)
    assert unusable(config) is None


# --- afterwards, by released numbers --------------------------------------------------------------


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
    is_said = held.sentence.startswith("NOT USABLE: 50% of all that is counted")
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


def test_neighbours_with_the_same_released_graph_have_the_same_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The released graph is forced to be one, as noise may make it, of logs that are neighbours.

    Control: a verdict that looks at the number of exact cases differs.
    """
    forced = ReleasedGraph.from_json(
        {
            "activities": ["A", "B", "C"],
            "edges": [
                {"source": "▶", "target": "A", "count": 9, "low": 0, "high": 30},
                {"source": "A", "target": "■", "count": 9, "low": 0, "high": 30},
            ],
        }
    )
    monkeypatch.setattr(noisy_graph, "released_graph", lambda *_: forced)
    monkeypatch.setattr(graph_figures, "figures_of_graph", lambda *_: [])
    rows = list(small_rows(6))
    told, exact = [], []
    for number, log in enumerate((rows, [row for row in rows if row[0] != rows[0][0]])):
        folder = tmp_path / f"of-{number}"
        folder.mkdir()
        command = line(folder, "release", names=("A", "B", "C"))
        csv_log(folder / "log.csv", log)
        assert tracecloak(*command) == 0
        body = manifest(folder / "out" / "run_id=r")
        told.append((body["came_out"], body["usability"]))
        exact.append(len({row[0] for row in log}))
    assert told[0] == told[1] and told[0][1] == "not_usable"
    assert exact[0] != exact[1]

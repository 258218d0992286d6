"""`tracecloak experiment dpim`: what is run, judged and shown, on a synthetic log."""

from __future__ import annotations

import pytest

from tests.examination.experiments.test_run import log_of
from tests.examination.experiments.test_run import path as path  # a fixture
from tracecloak.examination.experiments.paper import Paper
from tracecloak.examination.experiments.run import paper_named, release_of
from tracecloak.schemas.models import parse_tree

pytestmark = pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies

NO_NOISE = "no noise"


@pytest.fixture(autouse=True)
def _libraries() -> None:
    pytest.importorskip("pm4py")
    pytest.importorskip("sklearn")


def grid(**flags: str) -> Paper:
    return paper_named("dpim", {"epsilons": "4", **flags})


# --- what is run ----------------------------------------------------------------------------------


def test_models_of_the_log_stand_before_both_methods_at_the_paper_s_epsilons() -> None:
    found = list(paper_named("dpim", {}).cells(log_of()))
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


def test_every_pair_without_noise_is_one_tree_and_it_has_all_activities() -> None:
    """All pairs that occur hold and no other, so releases differ in nothing."""
    [cell] = [cell for cell in grid().cells(log_of()) if cell.arm == "dpim, every pair"]
    trees = [release_of(log_of(), cell).tree for _ in range(3)]
    texts = {tree.text for tree in trees if tree is not None}
    assert len(texts) == 1
    assert sorted(parse_tree(texts.pop()).labels) == ["A", "B", "C", "D"]

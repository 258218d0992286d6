"""Measures of process trees: by hand on small trees, and against pm4py's own front door."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings

from tests.support.logs import Variant, histogram
from tests.support.trees import trees
from tracecloak.examination.measure import mining
from tracecloak.examination.measure.mining import (
    BASELINES,
    PatientMiner,
    TreeJudge,
    TreeQuality,
    own_tree,
    pm4py_tree,
)
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.models import (
    SILENT,
    ProcessTree,
    exclusive,
    flower,
    leaf,
    loop,
    optional,
    parallel,
    sequence,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies

NAMES = ActivityVocabulary.of("ABCD")
A, B, C, D = map(leaf, "ABCD")
PROCESS = {("A", "B", "C"): 6, ("A", "C", "B"): 5, ("A", "C"): 4, ("A", "D", "D"): 1}


@pytest.fixture(autouse=True)
def _pm4py() -> Any:
    return pytest.importorskip("pm4py")


def judge(counts: Mapping[Variant, int]) -> TreeJudge:
    return TreeJudge(histogram(counts, "ABCD"), NAMES)


def judged(counts: Mapping[Variant, int], tree: ProcessTree) -> TreeQuality:
    return judge(counts).judged(tree)


def figures(found: TreeQuality) -> tuple[float, ...]:
    return tuple(getattr(found, name) for name in (*mining.MEASURES, "share"))


@pytest.mark.parametrize(
    "tree",
    [
        sequence(A, optional(loop(parallel(B, C), SILENT)), optional(D)),
        sequence(A, exclusive(sequence(optional(B), C), loop(D, SILENT))),
        loop(A, exclusive(B, C)),
        flower("ABCD"),
    ],
    ids=str,
)
def test_the_four_measures_are_what_the_front_door_gives(tree: ProcessTree) -> None:
    pm4py = pytest.importorskip("pm4py")
    found = judge(PROCESS)
    net = pm4py.convert_to_petri_net(pm4py_tree(tree))
    log = found._log
    assert figures(found.judged(tree))[:4] == pytest.approx(
        (
            pm4py.fitness_token_based_replay(log, *net)["log_fitness"],
            pm4py.precision_token_based_replay(log, *net),
            _simplicity(net[0]),
            pm4py.generalization_tbr(log, *net),
        )
    )


def _simplicity(net: Any) -> float:
    """From the arcs alone: each has two ends."""
    n = len(net.places) + len(net.transitions)
    return 1 / (1 + max(0, 2 * len(net.arcs) / n - 2))


@given(trees())
@settings(max_examples=30)
def test_a_tree_comes_back_from_pm4py_as_it_was(tree: ProcessTree) -> None:
    theirs = pm4py_tree(tree)
    assert own_tree(theirs) == tree
    assert theirs.parent is None and all(child.parent is theirs for child in theirs.children)


def test_the_inductive_miner_is_pm4py_s_and_fits_its_log() -> None:
    pm4py = pytest.importorskip("pm4py")
    rare = {("A", "B", "B"): 1, ("C", "A"): 1}
    found = judge({("A", "B", "C"): 50, ("A", "C", "B"): 30, **rare})
    theirs = pm4py.discover_process_tree_inductive(found._log)
    assert found.baseline("IM") == own_tree(theirs)
    infrequent = pm4py.discover_process_tree_inductive(found._log, noise_threshold=0.2)
    assert found.baseline("IMf") == own_tree(infrequent) != found.baseline("IM")
    quality = found.judged("IM")
    assert (quality.fitness, quality.share) == (1, 1)
    assert quality.tree == found.baseline("IM")
    assert found.judged("IMf").share < 1


def test_the_flower_has_the_activities_that_occur_and_allows_them_always() -> None:
    """By hand: 30 of 66, as a case A B C takes one of three at each of its steps."""
    found = judge({("A", "B", "C"): 6, ("A", "C"): 2}).judged("flower")
    assert found.tree == flower("ABC")
    assert (found.fitness, found.share) == (1, 1)
    assert found.precision == pytest.approx(30 / 66)


def test_a_tree_with_an_activity_that_the_vocabulary_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="not"):
        judged(PROCESS, sequence(A, leaf("Z")))


def test_in_a_process_of_its_own_a_tree_is_judged_the_same_until_patience_ends() -> None:
    miner = PatientMiner(histogram(PROCESS, "ABCD"), NAMES, 100, TreeJudge)
    try:
        for asked in (sequence(A, B, C), *BASELINES):
            assert miner.mined(asked) == judge(PROCESS).judged(asked)
        with pytest.raises(RuntimeError, match="failed with ValueError"):
            miner.mined(sequence(A, A))
        worker, _ = miner._worker or (None, None)
        assert worker is not None
        os.kill(worker.pid, signal.SIGSTOP)  # it cannot be faster than no patience at all
        miner._patience = 0.0
        with pytest.raises(TimeoutError, match="longer than 0 s"):
            miner.mined(sequence(A, C, B))
        assert not worker.is_alive()
    finally:
        miner.close()

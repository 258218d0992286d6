"""Mined and released models: by hand, against pm4py's own front door, and on real logs."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.logs import Variant, histogram, variant_counts
from tests.support.trees import trees
from tracecloak.examination.measure import mining
from tracecloak.schemas.errors import UsageError
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
SEQUENCE = {("A", "B", "C"): 6, ("A", "C"): 2}
PROCESS = {("A", "B", "C"): 6, ("A", "C", "B"): 5, ("A", "C"): 4, ("A", "D", "D"): 1}


@pytest.fixture
def pm4py() -> Any:
    return pytest.importorskip("pm4py")


def judge(counts: Mapping[Variant, int]) -> mining.ModelJudge:
    return mining.ModelJudge(histogram(counts, "ABCD"), NAMES)


def of(counts: Mapping[Variant, int], released: Mapping[Variant, int]) -> mining.ModelQuality:
    found = judge(counts).of(histogram(released, "ABCD"))
    assert found is not None
    return found


# --- models that are mined ------------------------------------------------------------------------


@pytest.mark.usefixtures("pm4py")
def test_a_released_log_is_judged_by_the_original() -> None:
    narrow = of(SEQUENCE, {("A", "B", "C"): 99})
    assert narrow.fitness < 1 and narrow.precision == 1
    assert of(SEQUENCE, {("D", "D"): 1}).fitness < narrow.fitness
    assert judge(SEQUENCE).of(histogram({}, "ABCD")) is None
    assert mining.ModelQuality(0, 0, 0, 0, A).f_score == 0


@pytest.mark.usefixtures("pm4py")
def test_counts_weigh_what_is_mined_and_what_it_is_judged_by() -> None:
    """Rare behaviour is left out of the model, and costs as much as it is frequent in the log."""
    usual, rare = ("A", "B", "C"), ("A", "C")
    noisy = {usual: 1000, rare: 1}
    assert of({usual: 1, rare: 9}, noisy).fitness < of({usual: 9, rare: 1}, noisy).fitness < 1
    assert of({usual: 9, rare: 1}, {usual: 500, rare: 500}).fitness == 1


@pytest.mark.usefixtures("pm4py")
def test_a_transition_that_never_fires_counts_fully_against_a_model() -> None:
    """Of A and D to choose from the log needs A only, four times: 1 - (1/2 + 1/2 + 1) / 3."""
    found = of({("B", "A"): 4}, {("B", "A"): 5, ("B", "D"): 5})
    assert found.tree.operator == "sequence" and sorted(found.tree.labels) == ["A", "B", "D"]
    assert found.generalization == pytest.approx(1 - 2 / 3)


@pytest.mark.parametrize("needs", ["cases", "pm4py", "sklearn.ensemble"])
def test_what_models_and_normal_behaviour_need_is_named(
    needs: str, monkeypatch: pytest.MonkeyPatch, pm4py: Any
) -> None:
    pytest.importorskip("sklearn")
    if needs == "cases":
        for kind in (judge, lambda counts: mining.NormalBehaviour(histogram(counts, "ABCD"))):
            with pytest.raises(UsageError, match="at least one case"):
                kind({})
        return
    monkeypatch.setitem(sys.modules, needs, None)
    with pytest.raises(UsageError, match="the extra mining"):
        mining.require_pm4py() if needs == "pm4py" else mining.require_scikit_learn()


# --- trees ----------------------------------------------------------------------------------------


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
def test_the_four_measures_are_what_the_front_door_gives(tree: ProcessTree, pm4py: Any) -> None:
    found = judge(PROCESS)
    net = pm4py.convert_to_petri_net(mining.pm4py_tree(tree))
    log = found._log
    n = len(net[0].places) + len(net[0].transitions)
    quality = found.judged(tree)
    assert [getattr(quality, name) for name in mining.MEASURES] == pytest.approx(
        [
            pm4py.fitness_token_based_replay(log, *net)["log_fitness"],
            pm4py.precision_token_based_replay(log, *net),
            1 / (1 + max(0, 2 * len(net[0].arcs) / n - 2)),  # each arc has two ends
            pm4py.generalization_tbr(log, *net),
        ]
    )


@pytest.mark.usefixtures("pm4py")
@given(trees())
@settings(max_examples=30)
def test_a_tree_comes_back_from_pm4py_as_it_was(tree: ProcessTree) -> None:
    theirs = mining.pm4py_tree(tree)
    assert mining.own_tree(theirs) == tree
    assert theirs.parent is None and all(child.parent is theirs for child in theirs.children)


def test_the_inductive_miner_is_pm4py_s_and_fits_its_log(pm4py: Any) -> None:
    counts = {("A", "B", "C"): 50, ("A", "C", "B"): 30, ("A", "B", "B"): 1, ("C", "A"): 1}
    found = judge(counts)
    theirs = pm4py.discover_process_tree_inductive(found._log)
    assert found.baseline("IM") == mining.own_tree(theirs)
    infrequent = pm4py.discover_process_tree_inductive(found._log, noise_threshold=0.2)
    assert found.baseline("IMf") == mining.own_tree(infrequent) != found.baseline("IM")
    quality = found.judged("IM")
    assert (quality.fitness, quality.share) == (1, 1)
    share = found.judged("IMf").share
    assert share is not None and share < 1
    # The model that is mined of a release is the infrequent one.
    mined = of(counts, counts)
    assert mined.tree == found.baseline("IMf")
    assert mined.fitness == found.judged("IMf").fitness


@pytest.mark.usefixtures("pm4py")
def test_the_flower_has_the_activities_that_occur_and_allows_them_always() -> None:
    """By hand: 30 of 66, as a case A B C takes one of three at each of its steps."""
    found = judge(SEQUENCE).judged("flower")
    assert found.tree == flower("ABC")
    assert (found.fitness, found.share) == (1, 1)
    assert found.precision == pytest.approx(30 / 66)


@pytest.mark.usefixtures("pm4py")
def test_a_tree_with_an_activity_that_the_vocabulary_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="not"):
        judge(PROCESS).judged(sequence(A, leaf("Z")))


@pytest.mark.usefixtures("pm4py")
def test_in_a_process_of_its_own_a_model_is_judged_the_same_until_patience_ends() -> None:
    original = histogram(PROCESS, "ABCD")
    released = histogram(shuffled(PROCESS), "ABCD")
    miner = mining.PatientMiner(original, NAMES, 100)
    try:
        for asked in (sequence(A, B, C), *mining.BASELINES):
            assert miner.mined(asked) == judge(PROCESS).judged(asked)
        assert miner.mined(released) == judge(PROCESS).of(released)
        assert miner.mined(histogram({}, "ABCD")) is None
        with pytest.raises(RuntimeError, match="failed with ValueError"):
            miner.mined(sequence(A, A))
        [worker] = miner.processes
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGSTOP)  # it cannot be faster than no patience at all
        miner._patience = 0.0
        with pytest.raises(TimeoutError, match="longer than 0 s"):
            miner.mined(released)
        assert not worker.is_alive()
    finally:
        miner.close()


# --- complexity -----------------------------------------------------------------------------------


def naive_entropy(counts: Mapping[Variant, int]) -> float:
    """Case after case through a growing automaton of dicts, as the definition reads."""
    children: dict[Variant, list[Variant]] = {(): []}
    branch = {(): 0}
    events: dict[int, int] = {}
    for variant in sorted(counts, key=lambda v: (-counts[v], v)):
        for _ in range(counts[variant]):
            for end in range(1, len(variant) + 1):
                prefix, before = variant[:end], variant[: end - 1]
                if prefix not in branch:
                    is_first = not children[before]
                    branch[prefix] = branch[before] if is_first else max(branch.values()) + 1
                    children[before].append(prefix)
                    children[prefix] = []
                events[branch[prefix]] = events.get(branch[prefix], 0) + 1
    n = sum(events.values())
    if n < 2:
        return 0.0
    return 1 - sum(k * math.log(k) for k in events.values()) / (n * math.log(n))


@given(variant_counts("ABCD"))
def test_the_entropy_is_that_of_the_definition(counts: dict[Variant, int]) -> None:
    found = mining.sequence_entropy(histogram(counts, "ABCD"))
    assert found == pytest.approx(naive_entropy(counts), abs=1e-12)


# --- normal traces --------------------------------------------------------------------------------

LONGER = {
    ("A", "B", "C", "D"): 300,
    ("A", "C", "B", "D"): 200,
    ("A", "B", "D"): 100,
    ("A", "B", "C", "B", "C", "D"): 60,
}


def shuffled(counts: Mapping[Variant, int]) -> dict[Variant, int]:
    """The same cases with their events in any order."""
    random = np.random.default_rng(5)
    found: dict[Variant, int] = {}
    for variant, count in counts.items():
        for _ in range(count):
            mixed = tuple(random.permutation(variant).tolist())
            found[mixed] = found.get(mixed, 0) + 1
    return found


def naive_features(variant: Variant, known: list[Any]) -> list[int]:
    having = {*variant, *pairwise(variant)}
    return [int(feature in having) for feature in known]


def test_the_share_is_that_of_a_forest_on_plain_features() -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    cases = [variant for variant, count in sorted(LONGER.items()) for _ in range(count)]
    having = {*"ABCD", *(pair for variant in LONGER for pair in pairwise(variant))}
    known = sorted(having, key=lambda one: " ".join(str("ABCD".index(name)) for name in one))
    forest = ensemble.IsolationForest(random_state=0)
    forest.fit(np.array([naive_features(case, known) for case in cases], np.float32))
    released = {("A", "B", "C", "D"): 7, ("D", "A"): 2, ("B",): 1, ("A", "B", "D"): 5}
    table = np.array([naive_features(variant, known) for variant in released], np.float32)
    is_normal = forest.predict(table) == 1
    counts = np.array(list(released.values()))
    assert 0 < is_normal.sum() < len(released)
    found = mining.NormalBehaviour(histogram(LONGER, "ABCD")).share(histogram(released, "ABCD"))
    assert found == pytest.approx(counts[is_normal].sum() / counts.sum())

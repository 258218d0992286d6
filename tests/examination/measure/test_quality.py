"""The measures of the SaCoFa and SaPa paper: by hand, against naive references, with controls."""

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
from hypothesis import given

from tests.support.logs import Variant, histogram, variant_counts
from tracecloak.examination.measure import mining
from tracecloak.examination.measure.mining import (
    JudgedProcess,
    MinedQuality,
    NormalBehaviour,
    PatientMiner,
    require_scikit_learn,
    sequence_entropy,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary

pytestmark = pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies

NAMES = ActivityVocabulary.of("ABCD")


def entropy(counts: Mapping[Variant, int]) -> float:
    return sequence_entropy(histogram(counts, "ABCD"))


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
    assert entropy(counts) == pytest.approx(naive_entropy(counts), abs=1e-12)


# --- normal traces --------------------------------------------------------------------------------

PROCESS = {
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
    cases = [variant for variant, count in sorted(PROCESS.items()) for _ in range(count)]
    pairs = sorted({pair for v in PROCESS for pair in pairwise(v)})
    known = [*"ABCD", *pairs]
    forest = ensemble.IsolationForest(random_state=0)
    forest.fit(np.array([naive_features(case, known) for case in cases], np.float32))
    released = {("A", "B", "C", "D"): 7, ("D", "A"): 2, ("B",): 1, ("A", "B", "D"): 5}
    table = np.array([naive_features(variant, known) for variant in released], np.float32)
    is_normal = forest.predict(table) == 1
    counts = np.array(list(released.values()))
    assert 0 < is_normal.sum() < len(released)
    found = NormalBehaviour(histogram(PROCESS, "ABCD")).share(histogram(released, "ABCD"))
    assert found == pytest.approx(counts[is_normal].sum() / counts.sum())


def test_normal_behaviour_needs_cases_and_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    with pytest.raises(UsageError, match="at least one case"):
        NormalBehaviour(histogram({}, "ABCD"))
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(UsageError, match=r"scikit-learn, .*the extra mining"):
        require_scikit_learn()


# --- mined models ---------------------------------------------------------------------------------


def test_a_transition_that_never_fires_counts_fully_against_a_model() -> None:
    """Of A and D to choose from the log needs A only, four times: 1 - (1/2 + 1/2 + 1) / 3."""
    pytest.importorskip("pm4py")
    process = JudgedProcess(histogram({("B", "A"): 4}, "ABCD"), NAMES)
    found = process.of(histogram({("B", "A"): 5, ("B", "D"): 5}, "ABCD"), NAMES)
    assert isinstance(found, MinedQuality)
    assert found.tree.operator == "sequence" and sorted(found.tree.labels) == ["A", "B", "D"]
    assert found.generalization == pytest.approx(1 - 2 / 3)


def test_generalisation_is_what_the_front_door_gives() -> None:
    pm4py = pytest.importorskip("pm4py")
    original = histogram(PROCESS, "ABCD")
    process = JudgedProcess(original, NAMES)
    own = process.of_original
    assert isinstance(own, MinedQuality)
    tree = mining.pm4py_module("pm4py.objects.process_tree.utils.generic").parse(str(own.tree))
    net = pm4py.convert_to_petri_net(tree)
    assert own.generalization == pytest.approx(pm4py.generalization_tbr(process._log, *net))


def test_mining_in_a_process_of_its_own_gives_the_same_and_ends_when_it_takes_too_long() -> None:
    pytest.importorskip("pm4py")
    original, released = histogram(PROCESS, "ABCD"), histogram(shuffled(PROCESS), "ABCD")
    miner = PatientMiner(original, NAMES, patience=60)
    try:
        assert miner.mined(released) == JudgedProcess(original, NAMES).of(released, NAMES)
        assert miner.mined(histogram({}, "ABCD")) is None
        worker, _ = miner._worker or (None, None)
        assert worker is not None
        os.kill(worker.pid, signal.SIGSTOP)  # it cannot be faster than no patience at all
        miner._patience = 0.0
        with pytest.raises(TimeoutError, match="longer than 0 s"):
            miner.mined(released)
        assert not worker.is_alive()
    finally:
        miner.close()

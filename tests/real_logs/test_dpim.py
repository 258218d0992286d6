"""`dpim` and `process-tree` on public research logs, judged by pm4py.

Fixed keys. Bounds are those that were asked for, or somewhat beyond what was measured. Fitness and
precision are by token replay (Rozinat and van der Aalst, 2008; Muñoz-Gama and Carmona, 2010), which
passes over activities that a model does not have: the mean share of a case that fits is asked for
beside it. The logs are not part of the project; TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.keys import randomness
from tests.support.real_logs import source_of
from tests.support.tiers import at_night
from tests.support.trees import mined_tree
from tracecloak.anonymizers.trees.cuts import cases_with_pair
from tracecloak.anonymizers.trees.dpim import Dpim, DpimParams
from tracecloak.anonymizers.trees.process_tree import ProcessTreeParams
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.measure.mining import MEASURES, Baseline, ModelJudge, ModelQuality
from tracecloak.schemas.models import ProcessTree
from tracecloak.schemas.published.graph import ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram

# pm4py judges ten trees of Sepsis in some minutes.
pytestmark = [pytest.mark.logs, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(1800)]

COSELOG, SEPSIS, HOSPITAL = ("coselog_receipt.xes.gz", "sepsis.xes.gz", "unrineweginfectie.xes.gz")
N_RUNS = 10


@functools.cache
def log(folder: Path, name: str) -> Original:
    return Original(name, source_of(folder, name).log())


@functools.cache
def judge(folder: Path, name: str) -> ModelJudge:
    pytest.importorskip("pm4py")
    found = log(folder, name)
    return ModelJudge(found.variants, found.vocabulary)


def quality(folder: Path, name: str, tree: ProcessTree | Baseline) -> ModelQuality:
    return judge(folder, name).judged(tree)


def measures(found: ModelQuality) -> np.ndarray:
    """float64[4]: fitness, precision, simplicity, generalisation."""
    return np.array([getattr(found, which) for which in MEASURES])


def mined(folder: Path, name: str, number: int, **given: Any) -> ReleasedTree:
    """With the log's activities for public vocabulary."""
    found = log(folder, name)
    params = ProcessTreeParams(**{"epsilon": "1.25", "vocabulary": found.names, **given})
    return mined_tree(found.variants, params, randomness(number))


def published(folder: Path, name: str, number: int, **given: Any) -> ReleasedTree:
    """With the log's own names."""
    traces = log(folder, name).traces
    counted = {"variants": VariantHistogram.from_traces(traces), "names": traces.vocabulary}
    decided: Any = Dpim().decide("tree", counted, {}, DpimParams(**given), randomness(number))
    return decided.tree  # type: ignore[no-any-return]


def of_every_pair(folder: Path, name: str) -> ReleasedTree:
    """Of `dpim` without noise: all pairs that occur and no other, whatever the tree's fitness."""
    found = log(folder, name)
    n_pairs = int((cases_with_pair(found.variants, len(found.vocabulary.names)) > 0).sum())
    given = {"size_bounds": (n_pairs, n_pairs), "fitness_threshold": "0"}
    return published(folder, name, 0, epsilon="100000", **given)


# --- at epsilon 1.25 --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [COSELOG, at_night(SEPSIS)])
def test_at_epsilon_1_25_trees_fit_and_say_more_than_the_flower(
    logs_folder: Path, name: str
) -> None:
    """Medians of 10 runs: fitness 0.9 or more, precision 1.5 times that of the flower or more.

    The flower allows all; its precision is the control, and what it has beside fitness 1.
    """
    runs = [mined(logs_folder, name, i) for i in range(N_RUNS)]
    judged = [quality(logs_folder, name, run.tree) for run in runs]
    fitness, precision, *_ = np.median([measures(one) for one in judged], axis=0)
    everything = quality(logs_folder, name, "flower")
    assert everything.fitness == pytest.approx(1) and everything.share == 1
    assert everything.precision == pytest.approx({COSELOG: 0.106, SEPSIS: 0.179}[name], abs=0.001)
    assert fitness >= 0.9 and np.median([one.share for one in judged]) >= 0.9
    assert precision >= 1.5 * everything.precision
    # What is said of the fitness is near it: noise of a scale of 16 cases in more than 1,000.
    for run, one in zip(runs, judged, strict=True):
        assert run.fitness == pytest.approx(one.share, abs=0.2)


# --- without noise ----------------------------------------------------------------------------

# The paper finds nearly all deviations from the inductive miner within 0.10. One is not.
# The hospital log, precision, which is better: an activity that some cases skip, and others have
# several times, is as frequent as cases are, so it is not optional; the inductive miner sees the
# cases that skip it.
NEAR = 0.10
FAR = {COSELOG: {}, SEPSIS: {}, HOSPITAL: {"precision": 0.201}}


def deviation(folder: Path, name: str, tree: ProcessTree) -> dict[str, float]:
    """What a tree has more of each measure than the inductive miner's."""
    both = [measures(quality(folder, name, one)) for one in (tree, "IM")]
    return dict(zip(MEASURES, (both[0] - both[1]).tolist(), strict=True))


@pytest.mark.parametrize("name", [at_night(COSELOG), at_night(SEPSIS), HOSPITAL])
def test_dpim_without_noise_is_near_the_inductive_miner(logs_folder: Path, name: str) -> None:
    """At epsilon 100,000 with every pair, as the authors' code has it without privacy."""
    tree = of_every_pair(logs_folder, name).tree
    for which, value in deviation(logs_folder, name, tree).items():
        if which in FAR[name]:
            assert value == pytest.approx(FAR[name][which], abs=0.005), which
        else:
            assert abs(value) <= NEAR, which

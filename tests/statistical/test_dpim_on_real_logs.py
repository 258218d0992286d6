"""`dpim` and `process-tree` on public research logs, judged by pm4py.

Fixed keys. Bounds are those that were asked for, or somewhat beyond what was measured. Fitness and
precision are by token replay (Rozinat and van der Aalst, 2008; Muñoz-Gama and Carmona, 2010), which
passes over activities that a model does not have: the mean share of a case that fits is asked for
beside it. The logs are not part of the project; TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anonymizers.dpim import Dpim
from anonymizers.dpim_params import DpimParams
from anonymizers.process_tree_miner import ProcessTreeMiner
from anonymizers.process_tree_params import ProcessTreeParams
from anonymizers.tree_fitness import UNITS, fitness_sum
from pipelines.in_memory import group_into_traces
from schemas.columns import ColumnMapping
from schemas.process_tree import ProcessTree, flower
from schemas.released_tree import ReleasedTree
from schemas.variants import VariantHistogram
from schemas.vocabulary import ActivityVocabulary
from tests.support.keys import randomness
from transforms.files import match_files
from transforms.formats.registry import SourceFormat
from transforms.read import EventSource

pytestmark = [pytest.mark.logs, pytest.mark.filterwarnings("ignore")]

COSELOG, SEPSIS, HOSPITAL = (
    "coselog_receipt.xes.gz",
    "sepsis.xes.gz",
    "unrineweginfectie.xes.gz",
)
N_RUNS = 10


@dataclass(frozen=True)
class Log:
    """A log with its activities for public vocabulary, and pm4py's form of it."""

    names: tuple[str, ...]
    vocabulary: ActivityVocabulary
    variants: VariantHistogram
    counts: dict[tuple[str, ...], int]
    theirs: Any


def pm4py_module(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(f"pm4py.{name}")


@functools.cache
def log(folder: Path, name: str) -> Log:
    source = EventSource(tuple(match_files([str(folder / name)])), SourceFormat(), ColumnMapping())
    [traces] = group_into_traces([events for f in source.files for events, _ in source.read(f)])
    names = tuple(traces.vocabulary.names.to_pylist())
    vocabulary = ActivityVocabulary.public(names)
    variants = VariantHistogram.from_traces(traces.recode_public(vocabulary))
    labels = vocabulary.names.to_pylist()
    counts = {
        tuple(labels[code] for code in variants.codes[first:last]): int(n)
        for first, last, n in zip(
            variants.offsets[:-1], variants.offsets[1:], variants.counts, strict=True
        )
    }
    objects = pm4py_module("objects.log.obj")
    theirs = objects.EventLog()
    for variant, n in counts.items():
        trace = objects.Trace([objects.Event({"concept:name": label}) for label in variant])
        for _ in range(n):
            theirs.append(trace)
    return Log(names, vocabulary, variants, counts, theirs)


def pm4py_tree(tree: ProcessTree) -> Any:
    objects = pm4py_module("objects.process_tree.obj")
    operators = {
        "sequence": objects.Operator.SEQUENCE,
        "exclusive": objects.Operator.XOR,
        "parallel": objects.Operator.PARALLEL,
        "loop": objects.Operator.LOOP,
    }
    made = objects.ProcessTree(operators.get(tree.operator or ""), label=tree.label)
    for child in tree.children:
        own = pm4py_tree(child)
        own.parent = made
        made.children.append(own)
    return made


_judged: dict[tuple[str, str], np.ndarray] = {}


def measures(folder: Path, name: str, tree: Any) -> np.ndarray:
    """float64[4]: fitness, precision, simplicity, generalisation; equal trees are judged once."""
    key = name, str(tree)
    if key not in _judged:
        theirs = pm4py_tree(tree) if isinstance(tree, ProcessTree) else tree
        found, silent = log(folder, name), {"show_progress_bar": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = pm4py_module("objects.conversion.process_tree.converter").apply(theirs)

            def evaluation(which: str) -> Any:
                return pm4py_module(f"algo.evaluation.{which}")

            fitness = evaluation("replay_fitness.variants.token_replay").apply(
                found.theirs, *net, parameters=silent
            )["log_fitness"]
            precision = evaluation("precision.variants.etconformance_token").apply(
                found.theirs, *net, parameters=silent
            )
            simplicity = evaluation("simplicity.variants.arc_degree").apply(net[0])
            general = evaluation("generalization.variants.token_based").apply(
                found.theirs, *net, parameters=silent
            )
        _judged[key] = np.array([fitness, precision, simplicity, general])
    return _judged[key]


def inductive_miner(folder: Path, name: str) -> Any:
    miner = pm4py_module("algo.discovery.inductive.variants.im")
    structures = pm4py_module("algo.discovery.inductive.dtypes.im_ds")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return miner.IMUVCL({}).apply(structures.IMDataStructureUVCL(log(folder, name).counts), {})


def mined(folder: Path, name: str, number: int, **given: Any) -> ReleasedTree:
    found = log(folder, name)
    params = ProcessTreeParams(**{"epsilon": "1.25", "vocabulary": found.names, **given})
    return ProcessTreeMiner().mined(found.variants, found.vocabulary, params, randomness(number))


def published(folder: Path, name: str, number: int, **given: Any) -> ReleasedTree:
    """With the bounds of the paper's experiments, and the log's own names."""
    found = log(folder, name)
    params = DpimParams(**{"bounds_from_log": True, **given})
    return Dpim().mined(found.variants, found.vocabulary, params, randomness(number))


def share(folder: Path, name: str, tree: ProcessTree) -> float:
    found = log(folder, name)
    total = fitness_sum(tree, found.vocabulary.names.to_pylist(), found.variants, "share")
    return total / UNITS / found.variants.n_cases


@pytest.mark.parametrize("name", [COSELOG, SEPSIS])
def test_at_epsilon_1_25_trees_fit_and_say_more_than_the_flower(
    logs_folder: Path, name: str
) -> None:
    """Medians of 10 runs: fitness 0.9 or more, precision 1.5 times that of the flower or more.

    The flower allows all; its precision is the control, and what it has beside fitness 1.
    """
    runs = [mined(logs_folder, name, i) for i in range(N_RUNS)]
    medians = np.median([measures(logs_folder, name, run.tree) for run in runs], axis=0)
    shares = [share(logs_folder, name, run.tree) for run in runs]
    everything = measures(logs_folder, name, flower(log(logs_folder, name).names))
    print(name, medians.round(3), everything.round(3), np.median(shares))  # noqa: T201
    assert everything[0] == pytest.approx(1)
    assert everything[1] == pytest.approx({COSELOG: 0.106, SEPSIS: 0.179}[name], abs=0.001)
    assert medians[0] >= 0.9 and np.median(shares) >= 0.9
    assert medians[1] >= 1.5 * everything[1]
    # What is said of the fitness is near it: noise of a scale of 16 cases in more than 1,000.
    for run, own in zip(runs, shares, strict=True):
        assert run.fitness == pytest.approx(own, abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("name", [COSELOG, SEPSIS])
def test_without_a_delta_and_without_questions(logs_folder: Path, name: str) -> None:
    everything = measures(logs_folder, name, flower(log(logs_folder, name).names))
    for given in ({"delta": "0"}, {"ends_share": "0"}):
        runs = [mined(logs_folder, name, i, **given) for i in range(2)]
        medians = np.median([measures(logs_folder, name, run.tree) for run in runs], axis=0)
        assert medians[0] >= 0.9 and medians[1] >= 1.4 * everything[1], given


# Where DPIM without noise is further than 0.10 from the inductive miner: the random number of pairs
# leaves out some, or has some that do not occur; and it never looks at the log again, so where the
# inductive miner splits the log it takes a flower, or finds structure where that has a flower.
FAR = {COSELOG: {"simplicity"}, SEPSIS: {"simplicity"}, HOSPITAL: {"precision"}}
FURTHEST = 0.2


@pytest.mark.slow
@pytest.mark.parametrize("name", FAR)
def test_dpim_without_noise_is_near_the_inductive_miner(logs_folder: Path, name: str) -> None:
    """At epsilon 100,000, medians of 2 runs; what is further off than 0.10 is listed above."""
    runs = [published(logs_folder, name, i, epsilon="100000").tree for i in range(2)]
    medians = np.median([measures(logs_folder, name, tree) for tree in runs], axis=0)
    theirs = measures(logs_folder, name, inductive_miner(logs_folder, name))
    print(name, medians.round(3), theirs.round(3))  # noqa: T201
    for which, own, other in zip(
        ("fitness", "precision", "simplicity", "generalisation"), medians, theirs, strict=True
    ):
        allowed = FURTHEST if which in FAR[name] else 0.10
        assert abs(own - other) <= allowed, which


@pytest.mark.slow
@pytest.mark.parametrize("name", [COSELOG, SEPSIS])
def test_dpim_as_published_is_not_to_be_told_from_a_flower(logs_folder: Path, name: str) -> None:
    """At epsilon 1.25 with the paper's bounds: it fits, as almost everything is allowed."""
    runs = [published(logs_folder, name, i, epsilon="1.25") for i in range(2)]
    medians = np.median([measures(logs_folder, name, run.tree) for run in runs], axis=0)
    everything = measures(logs_folder, name, flower(log(logs_folder, name).names))
    assert all(run.is_found for run in runs)
    assert medians[0] >= 0.95 and medians[1] <= 1.25 * everything[1]

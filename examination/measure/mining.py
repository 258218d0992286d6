"""Process models that are mined of a release, or released, and how well they describe the log.

The inductive miner infrequent (Leemans, Fahland and van der Aalst, 2014) makes a model of released
variants, and the original log is held against it by pm4py: fitness by token replay (Rozinat and van
der Aalst, 2008), precision by escaping edges (Muñoz-Gama and Carmona, 2010), generalisation by how
often transitions fire (Buijs, van Dongen and van der Aalst, 2014), simplicity by the mean degree of
places and transitions (Vázquez-Barreiros, Mucientes and Lama, 2015). Token replay passes over
activities that a model does not have; the mean share of a case that fits
(`anonymizers.trees.fitness`) counts them.

What the SaCoFa and SaPa papers measure beside it: the normalised sequence entropy (Augusto,
Mendling, Vidgof and Wurm, 2022), and the share of traces that an isolation forest (Liu, Ting and
Zhou, 2008) trained on the original calls normal.

Every figure is exact about private data: for the operator, not for publication. scikit-learn and
pm4py are the extra `mining` and are imported when they are first needed.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import threading
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from multiprocessing.process import BaseProcess
from typing import Any, Literal, get_args

import numpy as np

from tracecloak.anonymizers.trees.fitness import UNITS, fitness_sum
from tracecloak.schemas import models
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.errors import UsageError, import_extra
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.statistics.variants import Trie, VariantHistogram

# --- The quality of a model -----------------------------------------------------------------------
# On Sepsis, 846 variants, and its own model, fitness by replay takes 0.9 s and by alignments 14 s;
# precision by replay takes 10 s, and by alignments every prefix would need one. So both are
# replayed.


# Of the inductive miner: edges rarer than this share of the strongest are left out where no model
# is found with them.
NOISE = 0.2

_ACTIVITY = "concept:name"
_OPERATORS: dict[str, models.Operator] = {sign: operator for operator, sign in models.SIGNS.items()}


# The measures of a model, by the attributes of `ModelQuality`.
MEASURES = ("fitness", "precision", "simplicity", "generalization")

# Models of the log itself: of the inductive miner, of its infrequent variant, and of no miner.
Baseline = Literal["IM", "IMf", "flower"]
BASELINES: tuple[Baseline, ...] = get_args(Baseline)


@dataclass(frozen=True)
class ModelQuality:
    """How well a model describes a log.

    Attributes:
        fitness: From 0 to 1: how much of the log the model can replay.
        precision: From 0 to 1: how little else it allows where the log has been.
        generalization: At most 1, which it comes near if every transition of the model is needed
            often: 1 minus the mean of 1 / √(times that the log fires it), 1 for one never fired.
        simplicity: At most 1: 1 / (1 + what the mean number of arcs of a place or a transition of
            the Petri net has above 2). It is 1 for a sequence; a flower is not simple in this way.
        tree: The model.
        share: From 0 to 1: the mean over the cases of the share of a case that fits; None of a
            model that was mined of released variants, of which it is not computed.
    """

    fitness: float
    precision: float
    generalization: float
    simplicity: float
    tree: models.ProcessTree
    share: float | None = None

    @property
    def f_score(self) -> float:
        """The harmonic mean of fitness and precision; 0 if both are."""
        both = self.fitness + self.precision
        return 2 * self.fitness * self.precision / both if both else 0.0


def require_pm4py() -> None:
    """Imports pm4py.

    Raises:
        UsageError: It is not installed.
    """
    pm4py_module("pm4py")


class ModelJudge:
    """Judges models by one log; equal trees are judged once.

    Args:
        original: The log's variants, at least one.
        vocabulary: What their codes, and those of released variants, mean.

    Raises:
        UsageError: pm4py is not installed, or the log is empty.
    """

    def __init__(self, original: VariantHistogram, vocabulary: ActivityVocabulary) -> None:
        require_pm4py()
        if not original.n_variants:
            raise UsageError("mining needs a log with at least one case")
        self._variants, self._vocabulary = original, vocabulary
        self._known: dict[models.ProcessTree, ModelQuality] = {}

    def of(self, released: VariantHistogram) -> ModelQuality | None:
        """Returns the quality of the model of released variants; None if they have no case."""
        if not released.n_variants:
            return None
        return self._judge(_mined(_counter(released, self._vocabulary)))

    def judged(self, asked: models.ProcessTree | Baseline) -> ModelQuality:
        """Returns the quality of a tree, or of the model of the log itself that is named.

        Args:
            asked: Of activities of the vocabulary, each in one leaf at most.

        Raises:
            ValueError: The tree has an activity twice, or one that the vocabulary lacks.
        """
        tree = asked if isinstance(asked, models.ProcessTree) else self.baseline(asked)
        if tree not in self._known:
            share = share_that_fits(tree, self._variants, self._vocabulary)
            self._known[tree] = replace(self._judge(pm4py_tree(tree)), share=share)
        return self._known[tree]

    def baseline(self, name: Baseline) -> models.ProcessTree:
        """Returns a model of the log itself, without privacy.

        Args:
            name: `IM`: of the inductive miner (Leemans, Fahland and van der Aalst, 2013); `IMf`: of
                its infrequent variant (2014, noise 0.2); or the flower of the activities that
                occur.
        """
        if name == "flower":
            names = self._vocabulary.names.to_pylist()
            return models.flower(names[code] for code in sorted(set(self._variants.codes.tolist())))
        counted = _counter(self._variants, self._vocabulary)
        return own_tree(_mined(counted, NOISE if name == "IMf" else 0.0))

    @cached_property
    def _log(self) -> Any:
        """The original as pm4py's event log; equal cases are one object."""
        log_of = pm4py_module("pm4py.objects.log.obj")
        log = log_of.EventLog()
        for variant, count in _counter(self._variants, self._vocabulary).items():
            trace = log_of.Trace([log_of.Event({_ACTIVITY: name}) for name in variant])
            for _ in range(count):
                log.append(trace)
        return log

    def _judge(self, tree: Any) -> ModelQuality:
        converter = pm4py_module("pm4py.objects.conversion.process_tree.converter")
        fitness, precision, generality, simplicity = (
            pm4py_module(f"pm4py.algo.evaluation.{name}")
            for name in (
                "replay_fitness.variants.token_replay",
                "precision.variants.etconformance_token",
                "generalization.variants.token_based",
                "simplicity.variants.arc_degree",
            )
        )
        silent = {"show_progress_bar": False}
        with warnings.catch_warnings(action="ignore"):  # of pm4py and its libraries
            net = converter.apply(tree)
            return ModelQuality(
                float(fitness.apply(self._log, *net, parameters=silent)["log_fitness"]),
                float(precision.apply(self._log, *net, parameters=silent)),
                float(generality.apply(self._log, *net, parameters=silent)),
                float(simplicity.apply(net[0])),
                own_tree(tree),
            )


def pm4py_module(module: str) -> Any:
    """Returns a module of pm4py by its whole name, imported without its warnings.

    Raises:
        UsageError: pm4py is not installed.
    """
    with warnings.catch_warnings(action="ignore"):  # of pm4py and its libraries
        return import_extra(module, "mining", "pm4py", "mining")


def _counter(
    variants: VariantHistogram, vocabulary: ActivityVocabulary
) -> Counter[tuple[str, ...]]:
    """What pm4py calls a compressed log: tuples of names with their numbers of cases."""
    return Counter(variants.named(vocabulary))


def own_tree(tree: Any) -> models.ProcessTree:
    """Returns a process tree of pm4py's as one of ours."""
    if tree.operator is None:
        return models.SILENT if tree.label is None else models.leaf(tree.label)
    children = tuple(map(own_tree, tree.children))
    operator = _OPERATORS[tree.operator.value]
    if operator == "loop" and len(children) > 2:  # ways back to choose from
        return models.loop(children[0], models.exclusive(*children[1:]))
    return models.ProcessTree(operator, None, children)


def _mined(variants: Counter[tuple[str, ...]], noise: float = NOISE) -> Any:
    """Returns the process tree of the inductive miner infrequent; with noise 0, of the plain."""
    # The miner's front door takes no counted variants, although it says so.
    structures = pm4py_module("pm4py.algo.discovery.inductive.dtypes.im_ds")
    trees = pm4py_module("pm4py.objects.process_tree.utils.generic")
    log = structures.IMDataStructureUVCL(variants)
    with warnings.catch_warnings(action="ignore"):
        miner = pm4py_module(f"pm4py.algo.discovery.inductive.variants.{'imf' if noise else 'im'}")
        params = {miner.IMFParameters.NOISE_THRESHOLD: noise} if noise else {}
        kind = miner.IMFUVCL if noise else miner.IMUVCL
        tree = trees.fold(kind(params).apply(log, params))
        trees.tree_sort(tree)
    return tree


# --- Mining in a process of its own ---------------------------------------------------------------


class PatientMiner:
    """Mines and judges in a process of its own, which is ended when a model takes too long.

    Replaying a log on a model of thousands of variants can take hours, and cannot be stopped
    otherwise.

    Args:
        original: The log's variants, at least one.
        vocabulary: What their codes mean.
        patience: Seconds that one model may take.
    """

    def __init__(
        self, original: VariantHistogram, vocabulary: ActivityVocabulary, patience: float
    ) -> None:
        self._log, self._patience = (original, vocabulary), patience
        self._pool: ProcessPoolExecutor | None = None

    def mined(self, asked: VariantHistogram | models.ProcessTree | Baseline) -> ModelQuality | None:
        """Returns the quality of the model of released variants; None if they have no case.

        Args:
            asked: The variants; or a tree, or the name of a model of the log itself.

        Raises:
            TimeoutError: It took too long.
            RuntimeError: The process ended, or mining failed there.
        """
        try:
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, context, _begin, self._log)
                self._pool.submit(int).result()  # once pm4py is imported, the clock starts
            return self._pool.submit(_answer, asked).result(self._patience)
        except TimeoutError:
            self.close()
            raise TimeoutError(f"mining took longer than {self._patience:g} s") from None
        except BrokenExecutor:
            self.close()
            raise RuntimeError("the process that mines has ended") from None

    @property
    def processes(self) -> list[BaseProcess]:
        """The process, once it is there."""
        return list(((self._pool and self._pool._processes) or {}).values())

    def interrupt(self) -> None:
        """Ends the process from another thread; a question that it works on is a RuntimeError."""
        for process in self.processes:
            process.kill()

    def close(self) -> None:
        """Ends the process."""
        self.interrupt()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


_judge: ModelJudge  # in a process that mines


def _begin(original: VariantHistogram, vocabulary: ActivityVocabulary) -> None:
    global _judge
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _judge = ModelJudge(original, vocabulary)


def _answer(asked: VariantHistogram | models.ProcessTree | Baseline) -> ModelQuality | None:
    try:
        return _judge.of(asked) if isinstance(asked, VariantHistogram) else _judge.judged(asked)
    except Exception as error:  # of pm4py: its text may hold data
        raise RuntimeError(f"mining failed with {type(error).__name__}") from None


def _end_with_parent() -> None:
    """Ends this process with the one that asks, which may be killed while a model is replayed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


# --- Complexity -------------------------------------------------------------------------------


def sequence_entropy(variants: VariantHistogram) -> float:
    """Returns the normalised sequence entropy: from 0, one sequence only, to 1, all different.

    The prefixes of a log are a tree, which is cut into branches: the first continuation of a prefix
    that is read stays in the prefix's branch, every later one begins a branch of its own. With n
    events of which n_i lie in branch i it is 1 - Σ n_i ln n_i / (n ln n).

    It depends on which cases are read first. The authors read events by time, which released
    variants do not have; here the most frequent variant is read first, and of equally frequent ones
    the one whose activities come first in the vocabulary. Blind to what the activities are; a log
    of at most one event has entropy 0.
    """
    n_events = int((variants.counts * np.diff(variants.offsets)).sum())
    if n_events < 2:
        return 0.0
    trie = Trie.from_variants(variants)
    branches = _branches(trie, variants)
    sizes = sum_groups(branches[1:], trie.counts[1:], len(branches))
    sizes = sizes[sizes > 0].astype(np.float64)
    entropy = 1.0 - float((sizes * np.log(sizes)).sum()) / (n_events * np.log(n_events))
    return max(float(entropy), 0.0)  # or a rounding error below


def _branches(trie: Trie, variants: VariantHistogram) -> np.ndarray:
    """int64[n_nodes]: the first node of the branch that each node lies in."""
    n_nodes = len(trie.parents)
    place = np.empty(variants.n_variants, np.int64)  # at which a variant is read
    place[np.argsort(-variants.counts, kind="stable")] = np.arange(variants.n_variants)
    row = np.repeat(np.arange(variants.n_variants), np.diff(variants.offsets))
    first_read = np.full(n_nodes, variants.n_variants)
    np.minimum.at(first_read, trie.nodes, place[row])

    inner = np.arange(1, n_nodes)
    by_parent = inner[np.lexsort((first_read[inner], trie.parents[inner]))]
    parents = trie.parents[by_parent]
    stays = np.zeros(n_nodes, bool)
    stays[by_parent[np.diff(parents, prepend=-1) != 0]] = True

    branch = np.arange(n_nodes)
    for depth in range(1, int(trie.depths.max()) + 1):
        nodes = np.flatnonzero(stays & (trie.depths == depth))
        branch[nodes] = branch[trie.parents[nodes]]
    return branch


# --- Noise that is easily recognised ----------------------------------------------------------

# The forest's random numbers are always the same, so that all releases meet one forest.
_FOREST = 0


def require_scikit_learn() -> None:
    """Imports scikit-learn.

    Raises:
        UsageError: It is not installed.
    """
    import_extra("sklearn.ensemble", "the share of normal traces", "scikit-learn", "mining")


class NormalBehaviour:
    """Tells normal traces from others by an isolation forest trained on one log.

    The features of a trace are binary: which activities it has, and which of them directly follow
    each other. An activity or pair that the log never has is no feature: no tree could ask for it.
    All settings are scikit-learn's defaults: a hundred trees of up to 256 traces each, and normal
    is what is isolated no sooner than the forest expects on average.

    Args:
        original: The log's variants, at least one.

    Raises:
        UsageError: scikit-learn is not installed, or the log is empty.
    """

    def __init__(self, original: VariantHistogram) -> None:
        require_scikit_learn()
        if not original.n_variants:
            raise UsageError("normal behaviour needs a log with at least one case")
        text = importlib.import_module("sklearn.feature_extraction.text")
        self._features = text.CountVectorizer(analyzer=_having, binary=True, dtype=np.float32)
        table = self._features.fit_transform(_sequences(original)).toarray()
        ensemble = importlib.import_module("sklearn.ensemble")
        self._forest = ensemble.IsolationForest(random_state=_FOREST)
        self._forest.fit(np.repeat(table, original.counts, axis=0))

    def share(self, released: VariantHistogram) -> float | None:
        """Returns the share of cases that are normal, from 0 to 1; None without a case."""
        if not released.n_variants:
            return None
        table = self._features.transform(_sequences(released)).toarray()
        is_normal = self._forest.predict(table) > 0
        return float(released.counts[is_normal].sum() / released.n_cases)


def _having(codes: Sequence[int]) -> list[str]:
    """What a trace has: its activities, and the pairs of which one directly follows the other."""
    return [*map(str, codes), *(f"{a} {b}" for a, b in pairwise(codes))]


def _sequences(variants: VariantHistogram) -> list[list[int]]:
    codes = variants.codes.tolist()
    return [codes[first:last] for first, last in pairwise(variants.offsets.tolist())]


def share_that_fits(
    tree: models.ProcessTree, variants: VariantHistogram, vocabulary: ActivityVocabulary
) -> float:
    """Returns the mean over the cases of the share of a case that fits; needs no pm4py.

    Args:
        tree: With each activity once, all of the vocabulary.
        variants: Of the log, at least one.
        vocabulary: What their codes mean.
    """
    fits = fitness_sum(tree, vocabulary.names.to_pylist(), variants)
    return fits / UNITS / variants.n_cases


def pm4py_tree(tree: models.ProcessTree) -> Any:
    """Returns a process tree as one of pm4py's; `mining.own_tree` is the way back.

    Raises:
        UsageError: pm4py is not installed.
    """
    objects = pm4py_module("pm4py.objects.process_tree.obj")
    operator = objects.Operator(models.SIGNS[tree.operator]) if tree.operator else None
    node = objects.ProcessTree(operator, label=tree.label)
    for child in map(pm4py_tree, tree.children):
        child.parent = node
        node.children.append(child)
    return node

"""What the SaCoFa and SaPa papers measure a released trace-variant distribution by.

Fahrenkrog-Petersen, Kabierski, van der Aa and Weidlich ("Semantics-aware Mechanisms for
Control-flow Anonymization in Process Mining", 2023), section 5.2: the F-score and the
generalisation (Buijs, van Dongen and van der Aalst, 2014) of the process model that is mined from
it, its normalised sequence entropy (Augusto, Mendling, Vidgof and Wurm, "The connection between
process complexity of event sequences and models discovered by process mining", 2022), and the share
of its traces that an isolation forest (Liu, Ting and Zhou, 2008) trained on the original calls
normal.

All variants are coded by one vocabulary. Every figure is exact about private data: for the
operator, not for publication. scikit-learn and pm4py are the extra `mining` and are imported when
they are first needed.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tracecloak.examination.measure.mining import MinedProcess, ModelQuality, own_tree, pm4py_module
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.errors import UsageError, of_extra
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.models.process_tree import ProcessTree
from tracecloak.schemas.statistics.dafsa import Trie
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- Mined models -----------------------------------------------------------------------------


@dataclass(frozen=True)
class MinedQuality(ModelQuality):
    """How well a mined model describes a log, and the model.

    Attributes:
        generalization: At most 1, which it comes near if every transition of the model is needed
            often: 1 minus the mean of 1 / √(times that the log fires it), 1 for one never fired.
        tree: The model.
    """

    generalization: float
    tree: ProcessTree


class JudgedProcess(MinedProcess):
    """Judges models by one log: fitness, precision and generalisation by one adapter to pm4py."""

    def mined(self, released: VariantHistogram, vocabulary: ActivityVocabulary) -> (
        MinedQuality | None
    ):  # fmt: skip
        """Returns the quality of the model of a released log; None if it has no case.

        Args:
            released: Its variants.
            vocabulary: What their codes mean.
        """
        quality = self.of(released, vocabulary)
        assert quality is None or isinstance(quality, MinedQuality)
        return quality

    def answer(self, question: Any, vocabulary: ActivityVocabulary) -> MinedQuality | None:
        """Returns the answer to what a `PatientMiner` is asked: the quality of released variants.

        Args:
            question: The variants.
            vocabulary: What their codes mean.
        """
        return self.mined(question, vocabulary)

    def _judge(self, tree: Any) -> MinedQuality:
        quality = super()._judge(tree)
        converter = pm4py_module("pm4py.objects.conversion.process_tree.converter")
        generality = pm4py_module("pm4py.algo.evaluation.generalization.variants.token_based")
        value = generality.apply(
            self._log, *converter.apply(tree), parameters={"show_progress_bar": False}
        )
        return MinedQuality(quality.fitness, quality.precision, float(value), own_tree(tree))


class PatientMiner:
    """Mines and judges in a process of its own, which is ended when a model takes too long.

    Replaying a log on a model of thousands of variants can take hours, and cannot be stopped
    otherwise.

    Args:
        original: The log's variants, at least one.
        vocabulary: What their codes mean.
        patience: Seconds that one model may take.
        kind: What answers in the other process.
    """

    def __init__(
        self,
        original: VariantHistogram,
        vocabulary: ActivityVocabulary,
        patience: float,
        kind: type[JudgedProcess] = JudgedProcess,
    ) -> None:
        self._log, self._patience, self._kind = (original, vocabulary), patience, kind
        self._worker: tuple[Any, Connection] | None = None

    def mined(self, question: object) -> MinedQuality | None:
        """Returns the quality of the model of a released log; None if it has no case.

        Args:
            question: The variants of the log; or what else `kind` answers.

        Raises:
            TimeoutError: It took too long.
            RuntimeError: The process ended, or mining failed there.
        """
        if self._worker is None:
            self._worker = self._started()
        _, end = self._worker
        try:
            end.send(question)
            has_answered = end.poll(self._patience)
            answer = end.recv() if has_answered else None
        except (EOFError, OSError):
            self.close()
            raise RuntimeError("the process that mines has ended") from None
        if not has_answered:
            self.close()
            raise TimeoutError(f"mining took longer than {self._patience:g} s")
        if isinstance(answer, Exception):
            raise RuntimeError(f"mining failed with {answer}")
        assert answer is None or isinstance(answer, MinedQuality)
        return answer

    def interrupt(self) -> None:
        """Ends the process from another thread; a question that it works on is a RuntimeError."""
        if self._worker is not None:
            self._worker[0].kill()

    def close(self) -> None:
        """Ends the process."""
        if self._worker is not None:
            process, end = self._worker
            end.close()
            process.kill()
            process.join()
            self._worker = None

    def _started(self) -> tuple[Any, Connection]:
        context = multiprocessing.get_context("spawn")
        our_end, their_end = context.Pipe()
        process = context.Process(
            target=_mine_all, args=(their_end, self._kind, *self._log), daemon=True
        )
        process.start()
        their_end.close()
        try:
            our_end.recv()  # once pm4py is imported, the clock starts
        except EOFError:
            raise RuntimeError("the process that mines has ended") from None
        return process, our_end


def _mine_all(
    end: Connection,
    kind: type[JudgedProcess],
    original: VariantHistogram,
    vocabulary: ActivityVocabulary,
) -> None:
    """Answers every question, until there are no more."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    process = kind(original, vocabulary)
    end.send(None)
    while True:
        try:
            question = end.recv()
        except EOFError:
            return
        try:
            end.send(process.answer(question, vocabulary))
        except Exception as error:  # of pm4py: its text may hold data
            end.send(RuntimeError(type(error).__name__))


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
    of_extra("sklearn.ensemble", "the share of normal traces", "scikit-learn", "mining")


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
        self._width = int(original.codes.max()) + 1
        self._features = np.unique(np.concatenate(self._having(original)[1]))
        ensemble = importlib.import_module("sklearn.ensemble")
        self._forest = ensemble.IsolationForest(random_state=_FOREST)
        self._forest.fit(np.repeat(self.features(original), original.counts, axis=0))

    def share(self, released: VariantHistogram) -> float | None:
        """Returns the share of cases that are normal, from 0 to 1; None without a case."""
        if not released.n_variants:
            return None
        is_normal = self._forest.predict(self.features(released)) > 0
        return float(released.counts[is_normal].sum() / released.n_cases)

    def features(self, variants: VariantHistogram) -> np.ndarray:
        """Returns float32[n_variants, n_features], 1 for what a variant has and 0 otherwise."""
        table = np.zeros((variants.n_variants, len(self._features)), np.float32)
        for rows, keys in zip(*self._having(variants), strict=True):
            place = np.minimum(np.searchsorted(self._features, keys), len(self._features) - 1)
            known = self._features[place] == keys
            table[rows[known], place[known]] = 1
        return table

    def _having(
        self, variants: VariantHistogram
    ) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Returns the rows and the keys of activities, and of pairs, which are numbered after them.

        Codes that the log does not reach share one number beyond its own.
        """
        codes = np.minimum(variants.codes.astype(np.int64), self._width)
        row = np.repeat(np.arange(variants.n_variants), np.diff(variants.offsets))
        within = np.flatnonzero(np.diff(row) == 0)
        span = self._width + 1
        pairs = span + codes[within] * span + codes[within + 1]
        return (row, row[within]), (codes, pairs)

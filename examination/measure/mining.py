"""What process is mined from a released log, and how well it describes the original: by pm4py.

The inductive miner infrequent (Leemans, Fahland and van der Aalst, 2014) makes a model of released
variants, and the original log is held against it: fitness by token replay (Rozinat and van der
Aalst, 2008), precision by escaping edges (Muñoz-Gama and Carmona, 2010), and the F-score of both.
On Sepsis, 846 variants, and its own model, fitness by replay takes 0.9 s and by alignments 14 s;
precision by replay takes 10 s, and by alignments every prefix would need one. So both are replayed.

Every figure is exact about private data: for the operator, not for publication. pm4py is the extra
`mining` and is imported when it is first needed.
"""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from tracecloak.schemas.errors import UsageError, missing_extra
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.models.process_tree import (
    SIGNS,
    SILENT,
    Operator,
    ProcessTree,
    exclusive,
    leaf,
    loop,
)
from tracecloak.schemas.statistics.variants import VariantHistogram

# Of the inductive miner: edges rarer than this share of the strongest are left out where no model
# is found with them.
NOISE = 0.2

_ACTIVITY = "concept:name"
_OPERATORS: dict[str, Operator] = {sign: operator for operator, sign in SIGNS.items()}


@dataclass(frozen=True)
class ModelQuality:
    """How well a model describes a log.

    Attributes:
        fitness: From 0 to 1: how much of the log the model can replay.
        precision: From 0 to 1: how little else it allows where the log has been.
    """

    fitness: float
    precision: float

    @property
    def f_score(self) -> float:
        """The harmonic mean of both; 0 if both are."""
        both = self.fitness + self.precision
        return 2 * self.fitness * self.precision / both if both else 0.0


def require_pm4py() -> None:
    """Imports pm4py.

    Raises:
        UsageError: It is not installed.
    """
    try:
        pm4py_module("pm4py")
    except ImportError:
        raise missing_extra("mining", "pm4py", "mining") from None


class MinedProcess:
    """Judges models by one log.

    Args:
        original: The log's variants, at least one.
        vocabulary: What their codes mean.

    Raises:
        UsageError: pm4py is not installed, or the log is empty.
    """

    def __init__(self, original: VariantHistogram, vocabulary: ActivityVocabulary) -> None:
        require_pm4py()
        if not original.n_variants:
            raise UsageError("mining needs a log with at least one case")
        self._original = _counter(original, vocabulary)

    def of(self, released: VariantHistogram, vocabulary: ActivityVocabulary) -> ModelQuality | None:
        """Returns the quality of the model of a released log; None if it has no case.

        Args:
            released: Its variants.
            vocabulary: What their codes mean.
        """
        if not released.n_variants:
            return None
        return self._judge(_mined(_counter(released, vocabulary)))

    @cached_property
    def of_original(self) -> ModelQuality:
        """The quality of the model of the original itself."""
        return self._judge(_mined(self._original))

    @cached_property
    def of_flower(self) -> ModelQuality:
        """The quality of the model that allows everything: any of the activities, any number."""
        names = {name for variant in self._original for name in variant}
        return self._judge(_flower(sorted(names)))

    @cached_property
    def _log(self) -> Any:
        """The original as pm4py's event log; equal cases are one object."""
        log_of = pm4py_module("pm4py.objects.log.obj")
        log = log_of.EventLog()
        for variant, count in self._original.items():
            trace = log_of.Trace([log_of.Event({_ACTIVITY: name}) for name in variant])
            for _ in range(count):
                log.append(trace)
        return log

    def _judge(self, tree: Any) -> ModelQuality:
        converter = pm4py_module("pm4py.objects.conversion.process_tree.converter")
        fitness = pm4py_module("pm4py.algo.evaluation.replay_fitness.variants.token_replay")
        precision = pm4py_module("pm4py.algo.evaluation.precision.variants.etconformance_token")
        silent = {"show_progress_bar": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pm4py and its libraries
            net = converter.apply(tree)
            fit = fitness.apply(self._log, *net, parameters=silent)["log_fitness"]
            exact = precision.apply(self._log, *net, parameters=silent)
        return ModelQuality(float(fit), float(exact))


def pm4py_module(module: str) -> Any:
    """Returns a module of pm4py by its whole name, imported without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pm4py and its libraries
        return importlib.import_module(module)


def _counter(
    variants: VariantHistogram, vocabulary: ActivityVocabulary
) -> Counter[tuple[str, ...]]:
    """What pm4py calls a compressed log: tuples of names with their numbers of cases."""
    names = vocabulary.names.to_pylist()
    text = [names[code] for code in variants.codes.tolist()]
    return Counter(
        {
            tuple(text[first:last]): count
            for (first, last), count in zip(
                pairwise(variants.offsets.tolist()), variants.counts.tolist(), strict=True
            )
        }
    )


def inductive_tree(
    variants: VariantHistogram, vocabulary: ActivityVocabulary, is_infrequent: bool = True
) -> ProcessTree:
    """Returns the process tree of the inductive miner (2013), or of the infrequent one (2014).

    Args:
        variants: At least one.
        vocabulary: What their codes mean.
        is_infrequent: Whether rare edges are left out where no model is found with them.

    Raises:
        UsageError: pm4py is not installed.
    """
    require_pm4py()
    return own_tree(_mined(_counter(variants, vocabulary), NOISE if is_infrequent else 0.0))


def own_tree(tree: Any) -> ProcessTree:
    """Returns a process tree of pm4py's as one of ours."""
    if tree.operator is None:
        return SILENT if tree.label is None else leaf(tree.label)
    children = tuple(map(own_tree, tree.children))
    operator = _OPERATORS[tree.operator.value]
    if operator == "loop" and len(children) > 2:  # ways back to choose from
        return loop(children[0], exclusive(*children[1:]))
    return ProcessTree(operator, None, children)


def _mined(variants: Counter[tuple[str, ...]], noise: float = NOISE) -> Any:
    """Returns the process tree of the inductive miner infrequent; with noise 0, of the plain."""
    # The miner's front door takes no counted variants, although it says so.
    structures = pm4py_module("pm4py.algo.discovery.inductive.dtypes.im_ds")
    trees = pm4py_module("pm4py.objects.process_tree.utils.generic")
    log = structures.IMDataStructureUVCL(variants)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if noise:
            miner = pm4py_module("pm4py.algo.discovery.inductive.variants.imf")
            params = {miner.IMFParameters.NOISE_THRESHOLD: noise}
            tree = miner.IMFUVCL(params).apply(log, params)
        else:
            miner = pm4py_module("pm4py.algo.discovery.inductive.variants.im")
            tree = miner.IMUVCL({}).apply(log, {})
        tree = trees.fold(tree)
        trees.tree_sort(tree)
    return tree


def _flower(names: list[str]) -> Any:
    """Returns the process tree of a loop around a choice of all activities."""
    trees = pm4py_module("pm4py.objects.process_tree.obj")
    loop = trees.ProcessTree(operator=trees.Operator.LOOP)
    silent = trees.ProcessTree(parent=loop)
    choice = trees.ProcessTree(operator=trees.Operator.XOR, parent=loop)
    choice.children = [trees.ProcessTree(parent=choice, label=name) for name in names]
    loop.children = [silent, choice]
    return loop

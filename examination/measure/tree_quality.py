"""What the DPIM paper measures a process tree by, and the models that it is set beside: by pm4py.

Schulze, Zisgen, Kirschke, Mohammadi and Koschmider ("Differentially Private Inductive Miner",
section VI) compare fitness, precision, simplicity and generalisation, all of the Petri net of a
tree and on the log itself: fitness and precision by token replay (Rozinat and van der Aalst, 2008;
Muñoz-Gama and Carmona, 2010), generalisation by how often transitions fire (Buijs, van Dongen and
van der Aalst, 2014), simplicity by the mean degree of places and transitions (Vázquez-Barreiros,
Mucientes and Lama, 2015).

Token replay passes over activities that a model does not have, as if they had not happened. The
mean share of a case that fits (`anonymizers.trees.fitness`) counts them, so it stands beside them.

Every figure is exact about private data: for the operator, not for publication.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from tracecloak.anonymizers.trees.fitness import UNITS, fitness_sum
from tracecloak.examination.measure.mining import inductive_tree, pm4py_module
from tracecloak.examination.measure.quality import JudgedProcess, MinedQuality
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.models.process_tree import SIGNS, ProcessTree, flower
from tracecloak.schemas.statistics.variants import VariantHistogram

# The four measures of the paper, by the attributes of `TreeQuality`.
MEASURES = ("fitness", "precision", "simplicity", "generalization")

# Models of the log itself: of the inductive miner, of its infrequent variant, and of no miner.
Baseline = Literal["IM", "IMf", "flower"]
BASELINES: tuple[Baseline, ...] = get_args(Baseline)


@dataclass(frozen=True)
class TreeQuality(MinedQuality):
    """How well a process tree describes a log.

    Attributes:
        simplicity: At most 1: 1 / (1 + what the mean number of arcs of a place or a transition of
            the Petri net has above 2). It is 1 for a sequence; a flower is not simple in this way.
        share: From 0 to 1: the mean over the cases of the share of a case that fits.
    """

    simplicity: float
    share: float


class TreeJudge(JudgedProcess):
    """Judges process trees by one log; equal trees are judged once.

    Args:
        original: The log's variants, at least one.
        vocabulary: What their codes mean.

    Raises:
        UsageError: pm4py is not installed, or the log is empty.
    """

    def __init__(self, original: VariantHistogram, vocabulary: ActivityVocabulary) -> None:
        super().__init__(original, vocabulary)
        self._variants, self._vocabulary = original, vocabulary
        self._known: dict[ProcessTree, TreeQuality] = {}

    def judged(self, asked: ProcessTree | Baseline) -> TreeQuality:
        """Returns the quality of a tree, or of the model of the log itself that is named.

        Args:
            asked: Of activities of the vocabulary, each in one leaf at most.

        Raises:
            ValueError: The tree has an activity twice, or one that the vocabulary lacks.
        """
        tree = asked if isinstance(asked, ProcessTree) else self.baseline(asked)
        if tree not in self._known:
            self._known[tree] = self._judge(pm4py_tree(tree))
        return self._known[tree]

    def answer(self, question: Any, vocabulary: ActivityVocabulary) -> TreeQuality:
        """Returns the quality of the tree or the model that a `PatientMiner` is asked for."""
        return self.judged(question)

    def baseline(self, name: Baseline) -> ProcessTree:
        """Returns a model of the log itself, without privacy.

        Args:
            name: `IM`: of the inductive miner (Leemans, Fahland and van der Aalst, 2013); `IMf`: of
                its infrequent variant (2014, noise 0.2); or the flower of the activities that
                occur.
        """
        if name == "flower":
            names = self._vocabulary.names.to_pylist()
            return flower(names[code] for code in sorted(set(self._variants.codes.tolist())))
        return inductive_tree(self._variants, self._vocabulary, is_infrequent=name == "IMf")

    def _judge(self, tree: Any) -> TreeQuality:
        quality = super()._judge(tree)
        converter = pm4py_module("pm4py.objects.conversion.process_tree.converter")
        simplicity = pm4py_module("pm4py.algo.evaluation.simplicity.variants.arc_degree")
        return TreeQuality(
            quality.fitness,
            quality.precision,
            quality.generalization,
            quality.tree,
            float(simplicity.apply(converter.apply(tree)[0])),
            share_that_fits(quality.tree, self._variants, self._vocabulary),
        )


def share_that_fits(
    tree: ProcessTree, variants: VariantHistogram, vocabulary: ActivityVocabulary
) -> float:
    """Returns the mean over the cases of the share of a case that fits; needs no pm4py.

    Args:
        tree: With each activity once, all of the vocabulary.
        variants: Of the log, at least one.
        vocabulary: What their codes mean.
    """
    fits = fitness_sum(tree, vocabulary.names.to_pylist(), variants)
    return fits / UNITS / variants.n_cases


def pm4py_tree(tree: ProcessTree) -> Any:
    """Returns a process tree as one of pm4py's; `mining.own_tree` is the way back.

    Raises:
        ImportError: pm4py is not installed.
    """
    objects = pm4py_module("pm4py.objects.process_tree.obj")
    operator = objects.Operator(SIGNS[tree.operator]) if tree.operator else None
    node = objects.ProcessTree(operator, label=tree.label)
    for child in map(pm4py_tree, tree.children):
        child.parent = node
        node.children.append(child)
    return node

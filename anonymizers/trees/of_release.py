"""Process trees of what was released: of a private graph or private variants, at no further cost.

Whatever is computed from a release alone is as private as the release (post-processing; Dwork and
Roth, "The Algorithmic Foundations of Differential Privacy", 2014). So any miner will do; this is
the one of `process-tree`, with counts, ends and scores taken from the release in place of the log.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tracecloak.anonymizers.trees.counts import Part, cases_with_pair
from tracecloak.anonymizers.trees.cuts import PartEnds, Relation, Rules, build_tree, top_pairs
from tracecloak.anonymizers.trees.fitness import FITNESS_POWER, score_sum
from tracecloak.anonymizers.trees.questions import exact_ends
from tracecloak.schemas.models.process_tree import Operator, ProcessTree, flower, normalise
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.statistics.variants import VariantHistogram

_RULES: tuple[Rules, ...] = ("structural", "published")
# Counts of a release have no noise to allow for: a count that is larger by one case is larger.
_TOLERANCE = 0.5


def tree_of_graph(graph: ReleasedGraph, n_pairs: int | None = None) -> ProcessTree:
    """Returns the tree of a released directly-follows graph.

    Args:
        graph: Its counts are of occurrences, which here are taken for those of cases.
        n_pairs: So many of its most frequent edges are looked at; all, if None.
    """
    names = graph.names.to_pylist()
    n = len(names)
    counts = np.zeros((n + 1, n + 1), np.int64)
    # The artificial start is the last row, the artificial end the last column.
    counts[np.minimum(graph.sources, n), np.minimum(graph.targets, n)] = graph.counts
    relation = top_pairs(Relation.exact(counts), counts.size if n_pairs is None else n_pairs)
    starts, ends = relation.holds[n, :n], relation.holds[:n, n]

    def ends_of_parts(operator: Operator, parts: Sequence[Part], depth: int) -> list[PartEnds]:
        return [
            PartEnds(
                frozenset(code for code in part if starts[code]),
                frozenset(code for code in part if ends[code]),
            )
            for part in parts
        ]

    return build_tree(relation, names, _TOLERANCE, ends_of_parts, "structural")


def tree_of_variants(
    variants: VariantHistogram, names: Sequence[str], n_sizes: int = 20
) -> ProcessTree:
    """Returns the tree of released variants that scores best on them; see `VariantFit.score`.

    Args:
        variants: Released ones, at least one.
        names: By the codes of the variants.
        n_sizes: Candidates, by the number of the most frequent pairs that they are made of.
    """
    relation = Relation.exact(cases_with_pair(variants, len(names)))

    ends = exact_ends(variants, len(names))
    n_pairs = int(relation.holds.sum())
    trees = {normalise(flower(names)): None}
    for size in {math.ceil(n_pairs * (i + 1) / n_sizes) for i in range(n_sizes)}:
        for rules in _RULES:
            chosen = top_pairs(relation, size)
            trees[build_tree(chosen, names, _TOLERANCE, ends, rules)] = None

    def merit(tree: ProcessTree) -> tuple[int, int, str]:
        """Returns what trees are compared by: if scores are equal, the smallest tree is best."""
        score = score_sum(tree, names, variants, FITNESS_POWER)
        return score, -sum(1 for _ in tree.nodes()), str(tree)

    return max(trees, key=merit)

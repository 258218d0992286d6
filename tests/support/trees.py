"""Process trees for tests: random ones, and their languages by plain recursion."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
from hypothesis import strategies as st

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.trees import cuts
from tracecloak.anonymizers.trees.process_tree import (
    ProcessTreeMiner,
    ProcessTreeParams,
    TreeDecision,
)
from tracecloak.schemas.models import SILENT, ProcessTree, exclusive, leaf, loop, parallel, sequence
from tracecloak.schemas.published.graph import ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram

Word = tuple[str, ...]


def exact_ends(variants: VariantHistogram, n_activities: int) -> cuts.EndsOfParts:
    """Answers the questions of a miner by counting without noise."""

    def answer(parts: Sequence[cuts.Part]) -> tuple[np.ndarray, np.ndarray]:
        starts, ends = cuts.cases_by_ends(variants, n_activities, parts)
        return starts > 0, ends > 0

    return answer


def mined_tree(
    variants: VariantHistogram, params: ProcessTreeParams, randomness: Randomness
) -> ReleasedTree:
    """What `process-tree` releases of variants in the codes of the public vocabulary."""
    counted = {"variants": variants}
    decision = ProcessTreeMiner().decide("tree", counted, {}, params, randomness)
    return cast(TreeDecision, decision).tree


def language(tree: ProcessTree, max_length: int) -> set[Word]:
    """All words of a tree up to a length."""
    if tree.operator is None:
        word = () if tree.label is None else (tree.label,)
        return {word} if len(word) <= max_length else set()
    parts = [language(child, max_length) for child in tree.children]
    if tree.operator == "exclusive":
        return set().union(*parts)
    if tree.operator == "sequence":
        found: set[Word] = {()}
        for part in parts:
            found = {a + b for a in found for b in part if len(a) + len(b) <= max_length}
        return found
    if tree.operator == "parallel":
        found = {()}
        for part in parts:
            found = set().union(
                *(shuffles(a, b) for a in found for b in part if len(a) + len(b) <= max_length)
            )
        return found
    body, back = parts
    found, fresh = set(body), set(body)
    while fresh:
        fresh = {
            a + b + c
            for a, b, c in itertools.product(fresh, back, body)
            if len(a) + len(b) + len(c) <= max_length
        } - found
        found |= fresh
    return found


def shuffles(a: Word, b: Word) -> set[Word]:
    """All interleavings of two words."""
    if not a or not b:
        return {a + b}
    return {a[:1] + rest for rest in shuffles(a[1:], b)} | {
        b[:1] + rest for rest in shuffles(a, b[1:])
    }


def random_tree(random: np.random.Generator, labels: Iterable[str]) -> ProcessTree:
    """A tree that has each of the labels once, and here and there a silent step."""
    names = list(labels)
    if len(names) == 1:
        kind = random.integers(0, 6)
        tree = leaf(names[0])
        if kind == 0:
            return exclusive(SILENT, tree)
        return loop(tree, SILENT) if kind == 1 else tree
    cut = int(random.integers(1, len(names)))
    left, right = random_tree(random, names[:cut]), random_tree(random, names[cut:])
    return (sequence, exclusive, parallel, loop)[random.integers(0, 4)](left, right)


def trees(labels: str = "ABCDE") -> st.SearchStrategy[ProcessTree]:
    """Trees that have some of the labels, each once at most, in any order."""
    return st.tuples(
        st.permutations(labels), st.integers(1, len(labels)), st.integers(0, 2**32 - 1)
    ).map(lambda drawn: random_tree(np.random.default_rng(drawn[2]), drawn[0][: drawn[1]]))

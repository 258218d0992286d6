"""Cuts and the trees that they make, beside those of pm4py; and the fitness of trees."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import Variant, histogram, variant_counts
from tests.support.trees import exact_ends, language, random_tree, trees
from tracecloak.anonymizers.trees import cuts, fitness
from tracecloak.anonymizers.trees.fitness import (
    UNITS,
    fitness_sum,
    replay,
    score_sum,
    token_fitness,
)
from tracecloak.schemas import models
from tracecloak.schemas.models import ProcessTree, net_of_tree, normalise, states_of

NAMES = "ABCDEF"


def pm4py_module(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(f"pm4py.{name}")


def mined(counts: dict[Variant, int], names: str = NAMES, is_published: bool = False) -> str:
    variants = histogram(counts, names)
    counted = cuts.cases_with_pair(variants, len(names))
    relation = cuts.Relation(counted, counted > 0)
    return str(
        cuts.TreeBuilder(
            relation, names, 0.5, exact_ends(variants, len(names)), is_published
        ).tree()
    )


@settings(max_examples=100, deadline=None)
@given(variant_counts("ABC", 6, 6))
def test_counts_are_those_of_plain_python(counts: dict[Variant, int]) -> None:
    variants, n = histogram(counts), 3
    pairs: Counter[tuple[int, int]] = Counter()
    clipped = {norm: Counter() for norm in (1, 2)}
    for variant, n_cases in counts.items():
        codes = ["ABC".index(name) for name in variant]
        own = set(zip([n, *codes], [*codes, n], strict=True))
        for pair in own:
            pairs[pair] += n_cases
            weights = {1: min(1, 3 / len(own)), 2: min(1, (3 / len(own)) ** 0.5)}
            for norm, weight in weights.items():
                clipped[norm][pair] += n_cases * int(cuts.PAIR_UNITS * weight + 1e-9)
    found = cuts.cases_with_pair(variants, n)
    assert {tuple(at): found[tuple(at)] for at in np.argwhere(found).tolist()} == pairs
    for norm in (1, 2):
        found = cuts.clipped_pairs(variants, n, 3, norm)  # type: ignore[arg-type]
        assert {tuple(at): found[tuple(at)] for at in np.argwhere(found).tolist()} == clipped[norm]


def test_ends_of_parts_are_those_of_the_projected_cases() -> None:
    variants = histogram({tuple("ABCAB"): 2, tuple("CB"): 3, tuple("BAB"): 5}, "ABCD")
    starts, ends = cuts.cases_by_ends(variants, 4, [(0, 2), (1,)])
    # Without B the cases are A C A, C and A.
    assert starts.tolist() == [2 + 5, 10, 3, 0] and ends.tolist() == [2 + 5, 10, 3, 0]
    starts, ends = cuts.cases_by_ends(variants, 4, [(0, 1, 2)])
    assert starts.tolist() == [2, 5, 3, 0] and ends.tolist() == [0, 10, 0, 0]
    starts, _ = cuts.cases_by_ends(variants, 4, [(3,)])
    assert not starts.any()


def random_relation(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The relation of a random log, or of all short words of a random tree, or of some of them."""
    n = int(random.integers(2, 6))
    alphabet = list(NAMES[:n])
    if random.integers(0, 2):
        words = sorted(language(random_tree(random, alphabet), 6) - {()})
        words = [word for word in words if random.random() < random.choice([0.5, 1])] or words
    else:
        words = [
            tuple(random.choice(alphabet, size=random.integers(1, 2 * n)).tolist())
            for _ in range(int(random.integers(1, 6)))
        ]
    used = sorted(set().union(*words))
    counts = dict.fromkeys(words, 1)
    found = cuts.cases_with_pair(histogram(counts, used), len(used)) > 0
    return found[:-1, :-1], found[-1, :-1], found[:-1, -1]


def pm4py_cut(name: str, relation: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Any:
    module = pm4py_module(f"algo.discovery.inductive.cuts.{name}")
    structures = pm4py_module("algo.discovery.inductive.dtypes.im_ds")
    inductive = pm4py_module("algo.discovery.inductive.dtypes.im_dfg")
    graph = pm4py_module("objects.dfg.obj").DFG()
    follows, starts, ends = relation
    for a, b in np.argwhere(follows).tolist():
        graph.graph[a, b] = 1
    for code in np.flatnonzero(starts).tolist():
        graph.start_activities[code] = 1
    for code in np.flatnonzero(ends).tolist():
        graph.end_activities[code] = 1
    cut = {"sequence": "SequenceCut", "xor": "ExclusiveChoiceCut",
           "concurrency": "ConcurrencyCut", "loop": "LoopCut"}[name]  # fmt: skip
    parts = getattr(module, cut).holds(structures.IMDataStructureDFG(inductive.InductiveDFG(graph)))
    return None if parts is None else [tuple(sorted(part)) for part in parts]


def test_cuts_are_those_of_pm4py() -> None:
    """On 200 relations; of each kind of cut there are some, and some have none."""
    random = np.random.default_rng(1)
    n_found: Counter[str] = Counter()
    for _ in range(200):
        follows, starts, ends = relation = random_relation(random)
        ours = {"sequence": cuts.sequence_cut(follows),
                "xor": cuts.exclusive_cut(follows),
                "concurrency": cuts.parallel_cut(follows, starts, ends),
                "loop": cuts.loop_cut(follows, starts, ends)}  # fmt: skip
        for name, parts in ours.items():
            theirs = pm4py_cut(name, relation)
            if name in ("xor", "concurrency"):  # whose order means nothing
                theirs = None if theirs is None else sorted(theirs)
            if name == "loop" and parts is not None:  # pm4py puts the ways back together
                parts = [parts[0], tuple(sorted(code for part in parts[1:] for code in part))]
            assert parts == theirs, (name, relation)
            n_found[name] += parts is not None
    assert min(n_found.values()) > 6 and max(n_found.values()) < 150


def rediscoverable(tree: ProcessTree) -> bool:
    """Whether a tree is of the class of which the relation of its language says which it is."""
    if any(node.is_silent for node in tree.nodes()):
        return False
    for node in tree.nodes():
        if node.operator == "loop":
            words = language(node.children[0], 6)
            if {word[0] for word in words} & {word[-1] for word in words}:
                return False
    return True


def test_trees_are_rediscovered_from_their_logs() -> None:
    """Where the relation says which tree it is, it is found, whatever the frequencies."""
    random = np.random.default_rng(5)
    n_rediscovered = 0
    while n_rediscovered < 60:
        tree = normalise(random_tree(random, NAMES[: random.integers(2, 6)]))
        if not rediscoverable(tree):
            continue
        words = sorted(language(tree, 7))
        counts = {word: int(random.integers(1, 5)) for word in words}
        assert mined(counts) == str(tree)
        n_rediscovered += 1


def test_the_example_of_the_paper() -> None:
    """Variants 1 to 3, and then the one in which surgery comes twice."""
    counts = {tuple("RHMD"): 63, tuple("RHSD"): 25, tuple("RHD"): 12}
    expected = "->( 'R', 'H', X( tau, 'M', 'S' ), 'D' )"
    assert mined(counts, "DHMRS") == mined(counts, "DHMRS", True) == expected
    counts[tuple("RHSSD")] = 1
    looped = "->( 'R', 'H', X( tau, 'M', *( 'S', tau ) ), 'D' )"
    assert mined(counts, "DHMRS") == mined(counts, "DHMRS", True) == looped
    table = cuts.cases_with_pair(histogram(counts, "DHMRS"), 5)
    d, h, m, r, s, end = range(6)
    rows = {(end, r): 101, (r, h): 101, (h, m): 63, (h, s): 26, (h, d): 12, (m, d): 63,
            (s, s): 1, (s, d): 26, (d, end): 101}  # fmt: skip
    assert {tuple(at): table[tuple(at)] for at in np.argwhere(table).tolist()} == rows


def test_published_rules_make_rare_parts_and_all_loops_of_parts_optional() -> None:
    """An activity that follows itself is a loop (line 9 of algorithm 4), optional only if rare."""
    rare = {tuple("AB"): 90, tuple("A"): 10}
    assert mined(rare, "AB", True) == "->( 'A', X( tau, 'B' ) )"
    itself = {tuple("ABB"): 60, tuple("AB"): 40}
    assert mined(itself, "AB", True) == "->( 'A', *( 'B', tau ) )"
    of_some = {tuple("ABB"): 20, tuple("AB"): 20, tuple("A"): 60}
    assert mined(of_some, "AB", True) == "->( 'A', X( tau, *( 'B', tau ) ) )"
    looped = {tuple("ABCAB"): 10, tuple("AB"): 90}
    assert mined(looped, "ABC", True).startswith("X( tau, *( ")
    assert not mined(looped, "ABC").startswith("X( tau")


def test_any_relation_becomes_a_tree_of_its_activities() -> None:
    """Noise makes relations that no log has; each activity with a pair is in the tree once."""
    random = np.random.default_rng(7)

    for _ in range(150):
        n = int(random.integers(1, 7))
        holds = random.random((n + 1, n + 1)) < random.choice([0.1, 0.3, 0.8])
        counts = random.integers(-20, 100, (n + 1, n + 1))
        for rules in (True, False):
            anew = bool(random.random() < 0.5)
            relation = cuts.Relation(counts, holds)
            tree = cuts.TreeBuilder(
                relation, NAMES, 5, lambda _, n=n: (np.zeros(n, bool),) * 2, rules, anew
            ).tree()  # type: ignore[arg-type]
            used = holds[:n, :].any(axis=1) | holds[:, :n].any(axis=0)
            assert sorted(tree.labels) == [NAMES[i] for i in np.flatnonzero(used)]


FITNESS_NAMES = "ABCDE"


def walked(tree: models.ProcessTree, case: Sequence[str]) -> tuple[int, bool, int]:
    """Events replayed, whether it may end, and the alternatives, by sets of states."""
    model = states_of(net_of_tree(tree))
    silent = model.codes < 0
    at = np.zeros(model.n_states, bool)
    at[0] = True
    n_replayed, alternatives = 0, 0

    def following(at: np.ndarray) -> dict[str, np.ndarray]:
        found = {}
        for code, label in enumerate(model.labels):
            steps = (model.codes == code) & model.after(at, silent)[model.sources]
            if steps.any():
                found[label] = np.zeros(model.n_states, bool)
                found[label][model.targets[steps]] = True
        return found

    for event in case:
        further = following(at)
        alternatives += max(1, len(further))
        if event in further:
            at = further[event]
            n_replayed += 1
    alternatives += max(1, len(following(at)))
    return n_replayed, bool((model.after(at, silent) & model.is_final).any()), alternatives


@settings(max_examples=200, deadline=None)
@given(trees(FITNESS_NAMES), variant_counts(FITNESS_NAMES, 7, 5), st.integers(0, 5))
def test_replay_is_a_walk_through_the_states(
    tree: models.ProcessTree, counts: dict[Variant, int], few: int
) -> None:
    """However many sequences are few enough to be replayed one by one."""
    variants = histogram(counts, FITNESS_NAMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitness, "_FEW", few)
        fit = replay(tree, FITNESS_NAMES, variants, counts_alternatives=True)
    expected = [walked(tree, variant) for variant in sorted(counts)]
    found = zip(fit.replayed, fit.is_complete, fit.alternatives, strict=True)
    assert [tuple(row) for row in found] == expected
    shares = {
        variant: (done + ends) / (len(variant) + 1)
        for variant, (done, ends, _) in zip(sorted(counts), expected, strict=True)
    }
    total = sum(shares[variant] * n for variant, n in counts.items())
    assert fitness_sum(tree, FITNESS_NAMES, variants) == pytest.approx(total * UNITS, abs=50)


def test_tokens_of_a_replay() -> None:
    """Of A B C in its order: a token for each event and for the end, and none for what it lacks."""
    tree = models.parse_tree("->( 'A', 'B', 'C' )")
    fits, short, strange = tuple("ABC"), tuple("A"), tuple("ABXC")
    assert token_fitness(tree, "ABCX", histogram({fits: 3, strange: 2}, "ABCX")) == 1
    # A is allowed and the end is not: one of two tokens; four of four, three times.
    assert token_fitness(tree, "ABCX", histogram({fits: 3, short: 1}, "ABCX")) == Fraction(13, 14)
    # A second A misses a token: of five tokens one.
    assert token_fitness(tree, "ABCX", histogram({tuple("AABC"): 1}, "ABCX")) == Fraction(4, 5)


@settings(max_examples=60, deadline=None)
@given(trees("ABC"), variant_counts("ABC", 6, 4), variant_counts("ABC", 9, 1))
def test_one_case_more_adds_between_nothing_and_one(
    tree: models.ProcessTree, counts: dict[Variant, int], more: dict[Variant, int]
) -> None:
    """To every sum, whatever the tree: so the scores of all candidates move in one direction."""
    together = dict(counts)
    for variant in more:
        together[variant] = together.get(variant, 0) + 1
    for power in (1, 8):
        small = score_sum(tree, "ABC", histogram(counts), power)
        large = score_sum(tree, "ABC", histogram(together), power)
        assert 0 <= large - small <= UNITS * len(more)


def test_what_cannot_be_replayed_is_refused() -> None:
    variants = histogram({tuple("AB"): 1}, FITNESS_NAMES)
    with pytest.raises(ValueError, match="more than once"):
        replay(models.parse_tree("->( 'A', 'A' )"), FITNESS_NAMES, variants)
    with pytest.raises(ValueError, match="not among the names"):
        replay(models.parse_tree("->( 'A', 'Z' )"), FITNESS_NAMES, variants)
    with pytest.raises(ValueError, match="needs the alternatives"):
        replay(models.leaf("A"), FITNESS_NAMES, variants).score(1)

"""Fitness and precision case by case, beside a walk through the states of the tree's Petri net."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import Variant, histogram, variant_counts
from tests.support.trees import trees
from tracecloak.anonymizers.trees import fitness
from tracecloak.anonymizers.trees.fitness import (
    UNITS,
    fitness_sum,
    replay,
    score_sum,
    token_fitness,
)
from tracecloak.schemas import models
from tracecloak.schemas.models import net_of_tree, states_of

NAMES = "ABCDE"


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
@given(trees(NAMES), variant_counts(NAMES, 7, 5), st.integers(0, 5))
def test_replay_is_a_walk_through_the_states(
    tree: models.ProcessTree, counts: dict[Variant, int], few: int
) -> None:
    """However many sequences are few enough to be replayed one by one."""
    variants = histogram(counts, NAMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitness, "_FEW", few)
        fit = replay(tree, NAMES, variants, counts_alternatives=True)
    expected = [walked(tree, variant) for variant in sorted(counts)]
    found = zip(fit.replayed, fit.is_complete, fit.alternatives, strict=True)
    assert [tuple(row) for row in found] == expected
    shares = {
        variant: (done + ends) / (len(variant) + 1)
        for variant, (done, ends, _) in zip(sorted(counts), expected, strict=True)
    }
    total = sum(shares[variant] * n for variant, n in counts.items())
    assert fitness_sum(tree, NAMES, variants) == pytest.approx(total * UNITS, abs=50)


def test_a_long_misfit_costs_no_more_than_one_case() -> None:
    """Token replay's fitness falls from 1.000 to 0.047 by it; here the sum falls by 1 at most."""
    tree = models.parse_tree("->( 'A', 'B' )")
    long = tuple("C" * 3000)
    before = fitness_sum(tree, "ABC", histogram({tuple("AB"): 100}, "ABC"))
    after = fitness_sum(tree, "ABC", histogram({tuple("AB"): 99, long: 1}, "ABC"))
    assert before == 100 * UNITS and 0 <= before - after <= UNITS


def test_tokens_of_a_replay() -> None:
    """Of A B C in its order: a token for each event and for the end, and none for what it lacks."""
    tree = models.parse_tree("->( 'A', 'B', 'C' )")
    fits, short, strange = tuple("ABC"), tuple("A"), tuple("ABXC")
    assert token_fitness(tree, "ABCX", histogram({fits: 3, strange: 2}, "ABCX")) == 1
    # A is allowed and the end is not: one of two tokens; four of four, three times.
    assert token_fitness(tree, "ABCX", histogram({fits: 3, short: 1}, "ABCX")) == Fraction(13, 14)
    # A second A misses a token: of five tokens one.
    assert token_fitness(tree, "ABCX", histogram({tuple("AABC"): 1}, "ABCX")) == Fraction(4, 5)
    with pytest.raises(ValueError, match="needs at least one case"):
        token_fitness(tree, "ABC", histogram({}, "ABC"))


@settings(max_examples=50, deadline=None)
@given(trees(NAMES), variant_counts(NAMES, 7, 5))
def test_tokens_are_those_of_cases_that_have_the_trees_activities_only(
    tree: models.ProcessTree, counts: dict[Variant, int]
) -> None:
    def known(variant: Variant) -> Variant:
        return tuple(name for name in variant if name in tree.labels)

    counts = {variant: count for variant, count in counts.items() if known(variant)}
    if not counts:
        return
    kept: Counter[Variant] = Counter()
    for variant, count in counts.items():
        kept[known(variant)] += count
    fit = replay(tree, NAMES, histogram(kept, NAMES))
    cases = histogram(kept, NAMES).counts
    allowed, tokens = (fit.replayed + fit.is_complete) @ cases, (fit.lengths + 1) @ cases
    assert token_fitness(tree, NAMES, histogram(counts, NAMES)) == Fraction(
        int(allowed), int(tokens)
    )


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


def test_silent_trees_and_empty_logs() -> None:
    fit = replay(models.SILENT, NAMES, histogram({tuple("AB"): 2}, NAMES), counts_alternatives=True)
    assert fit.replayed.tolist() == [0] and fit.is_complete.tolist() == [True]
    assert fit.alternatives is not None and fit.alternatives.tolist() == [3]
    assert score_sum(models.flower(NAMES), NAMES, histogram({}, NAMES), 8) == 0


def test_what_cannot_be_replayed_is_refused() -> None:
    variants = histogram({tuple("AB"): 1}, NAMES)
    with pytest.raises(ValueError, match="more than once"):
        replay(models.parse_tree("->( 'A', 'A' )"), NAMES, variants)
    with pytest.raises(ValueError, match="not among the names"):
        replay(models.parse_tree("->( 'A', 'Z' )"), NAMES, variants)
    with pytest.raises(ValueError, match="needs the alternatives"):
        replay(models.leaf("A"), NAMES, variants).score(1)

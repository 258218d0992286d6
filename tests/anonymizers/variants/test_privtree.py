"""PrivTree on prefixes: its privacy loss exactly, its laws, and what may come out of it.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import libmp

from tests.support.chi_square import ALPHA, p_value_of_law
from tests.support.generators import spends_of
from tests.support.keys import randomness
from tests.support.logs import Variant, histogram
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.privtree import PrivTree, SplitRule, SplitTree, complete, grow
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.statistics.variants import VariantHistogram

BITS = 200
ONE = 1 << BITS
DEPTHS = 200


def counted(counts: Mapping[Variant, int], domain: Domain) -> VariantHistogram:
    return histogram(counts, domain.vocabulary.names.to_pylist())


def units(value: mpmath.iv.mpf) -> tuple[int, int]:
    """Bounds of a number in units of 2^-200."""
    low, high = (value * ONE)._mpi_
    return int(libmp.to_int(low, "f")), int(libmp.to_int(high, "c"))


def iv(value: Fraction | int) -> mpmath.iv.mpf:
    value = Fraction(value)
    return mpmath.iv.mpf(value.numerator) / value.denominator


@functools.cache
def chance_above(scale: Fraction, t: int) -> mpmath.iv.mpf:
    """P(X >= t) of discrete Laplace noise, summed from its definition: weights e^(-|x| / scale)."""
    mpmath.iv.prec = 2 * BITS
    decay = mpmath.iv.exp(-1 / iv(scale))
    all_weights = (1 + decay) / (1 - decay)
    if t >= 1:
        return decay**t / (1 - decay) / all_weights
    return 1 - chance_above(scale, 1 - t)


def loss_of_split(scale: Fraction, bias: int, before: int) -> mpmath.iv.mpf:
    """Natural logarithm of how much likelier a split is at one bias than at another."""
    above = chance_above(scale, 1 - bias)
    return mpmath.iv.log(above / chance_above(scale, 1 - before))


RULES = [
    (Fraction(1), 29, 1), (Fraction("0.6"), 29, 1), (Fraction("0.001"), 18, 1),
    (Fraction(4), 18, 1), (Fraction(60), 3, 1), (Fraction(1), 2, 1), (Fraction(1), 101, 3),
]  # fmt: skip


@pytest.mark.parametrize(("epsilon", "n_children", "max_units"), RULES)
def test_the_rule_is_that_of_the_paper(epsilon: Fraction, n_children: int, max_units: int) -> None:
    """A scale of (2 beta - 1) / ((beta - 1) epsilon) a case, a decay of ceil(scale ln beta)."""
    rule = SplitRule(epsilon, n_children, max_units)
    scale = Fraction(*rule.scale)
    assert scale == max_units * Fraction(2 * n_children - 1, n_children - 1) / epsilon
    with mpmath.workdps(40):
        paper = mpmath.ceil(
            mpmath.mpf(scale.numerator) / scale.denominator * mpmath.log(n_children)
        )
    assert rule.decay == max(1, int(paper))


@pytest.mark.parametrize(("epsilon", "n_children", "max_units"), RULES)
def test_a_path_of_200_decisions_loses_no_more_than_epsilon(
    epsilon: Fraction, n_children: int, max_units: int
) -> None:
    """The sum over depths of ln(P(split | c) / P(split | c - 1)), in enclosures, for every c."""
    rule = SplitRule(epsilon, n_children, max_units)
    scale, decay = Fraction(*rule.scale), rule.decay
    per_case = epsilon / max_units

    @functools.cache
    def upper(bias: int, before: int) -> int:
        return units(loss_of_split(scale, bias, before))[1]

    def loss(count: int, floor: int | None) -> int:
        lost = 0
        for depth in range(DEPTHS):
            bias, before = count - depth * decay, count - 1 - depth * decay
            if floor is not None:
                bias, before = max(bias, floor), max(before, floor)
            if bias > before:
                lost += upper(bias, before)
        return lost

    most = units(iv(per_case))[0]
    # Counts that reach the bound near the root and far from it, between two of its steps.
    step = max(1, decay // 20)
    tried = [*range(1, 3 * decay + 1, step), *range(150 * decay, 151 * decay + 1, step)]
    losses = [loss(count, -decay) for count in tried]
    assert max(losses) <= most
    assert max(losses) > 0.75 * most, "the noise is no wider than it has to be"
    assert loss(1, None) > 20 * most


Tree = frozenset[Variant]  # the split prefixes


def tree_law(
    counts: Mapping[Variant, int],
    names: tuple[str, ...],
    max_length: int,
    rule: SplitRule,
    floor: bool = True,
) -> dict[Tree, mpmath.iv.mpf]:
    """Chances of all trees, by enumeration."""
    scale = Fraction(*rule.scale)

    def below(prefix: Variant) -> dict[Tree, mpmath.iv.mpf]:
        depth = len(prefix)
        if depth == max_length:
            return {frozenset(): mpmath.iv.mpf(1)}
        count = sum(n for variant, n in counts.items() if variant[:depth] == prefix)
        bias = count - depth * rule.decay
        if floor:
            bias = max(bias, -rule.decay)
        splits = chance_above(scale, 1 - bias)
        law = {frozenset({prefix}): splits}
        for name in names:
            parts = below((*prefix, name))
            law = {
                tree | part: chance * more
                for tree, chance in law.items()
                for part, more in parts.items()
            }
        return {frozenset(): 1 - splits, **law}

    return below(())


NEIGHBOURS: list[tuple[dict[Variant, int], Variant]] = [
    ({}, ("A", "A", "A")),
    ({("A", "B", "A"): 4, ("B",): 2}, ("A", "B", "A")),
    ({("A", "B", "A"): 9, ("A", "A", "A"): 3}, ("A", "A")),
    ({("B", "B", "B"): 20, ("B", "B"): 5}, ("B", "B", "B")),
    ({("A",): 3}, ("B", "A", "B")),
]


@pytest.mark.parametrize(("counts", "case"), NEIGHBOURS)
def test_no_tree_is_likelier_by_more_than_epsilon_with_one_case_more(
    counts: dict[Variant, int], case: Variant
) -> None:
    """All 26 trees over two names up to length 3, in enclosures, both directions."""
    names, epsilon = ("A", "B"), Fraction(2)
    rule = SplitRule(epsilon, len(names) + 1, 1)
    more = {**counts, case: counts.get(case, 0) + 1}
    laws = [tree_law(log, names, 3, rule) for log in (counts, more)]
    assert len(laws[0]) == 26
    for law in laws:
        low, high = units(sum(law.values(), mpmath.iv.mpf(0)))
        assert low <= ONE <= high
    most = units(iv(epsilon))[0]
    for tree, chance in laws[0].items():
        low, high = units(mpmath.iv.log(laws[1][tree] / chance))
        assert high <= most and low >= -most


def split_prefixes(tree: SplitTree, domain: Domain) -> list[Variant]:
    names = domain.vocabulary.names.to_pylist()
    made: list[Variant] = []
    for parent, activity in zip(tree.parents, tree.activities, strict=True):
        made.append((*made[parent], names[activity]) if parent >= 0 else ())
    return made


N_TREES = 1000


def test_trees_are_as_likely_as_enumerated() -> None:
    """Chi-square of 1,000 trees. Controls: the law of a log with three cases more, or no clamp."""
    domain = Domain(ActivityVocabulary.of([OTHER, "A"]), 3, 1)
    names = (OTHER, "A")
    counts: dict[Variant, int] = {("A", "A", "A"): 3, (OTHER, "A"): 1}
    rule = SplitRule(Fraction(2), 3, 1)
    log = counted(counts, domain)
    sample: Counter[frozenset[Variant]] = Counter()
    for number in range(N_TREES):
        tree = grow(log, domain, rule, (1, 1), randomness(number))
        sample[frozenset(split_prefixes(tree, domain))] += 1

    def law(log: Mapping[Variant, int], floor: bool = True) -> dict[Tree, float]:
        chances = tree_law(log, names, 3, rule, floor)
        total_ = sum(float(chance.mid) for chance in chances.values())
        return {tree: float(chance.mid) / total_ for tree, chance in chances.items()}

    assert p_value_of_law(sample, law(counts)) > ALPHA
    assert p_value_of_law(sample, law({**counts, ("A", "A", "A"): 6})) < ALPHA
    assert p_value_of_law(sample, law(counts, floor=False)) < ALPHA


# Rows of (parent, activity, counts of the children, END last); -1 where the child is split.
Rows = list[tuple[int, int, list[int]]]


def completed(rows: Rows, max_length: int = 5) -> Counter[tuple[int, ...]]:
    counts, depths = np.array([row[2] for row in rows], np.int64), [0]
    for parent, _, _ in rows[1:]:
        depths.append(depths[parent] + 1)
    ends = (np.array([row[i] for row in rows]) for i in (0, 1))
    tree = SplitTree((1, 10), *ends, np.array(depths), counts >= 0, np.maximum(counts, 0))
    found: Counter[tuple[int, ...]] = Counter()
    where = Domain(ActivityVocabulary.of("ABC"), max_length, 1)
    for offsets, codes, numbers in complete(tree, where, randomness()):
        for first, last, n in zip(offsets[:-1], offsets[1:], numbers, strict=True):
            found[tuple(codes[first:last].tolist())] += int(n)
    return found


def test_an_unsplit_prefix_goes_on_as_the_prefixes_most_alike() -> None:
    root = (-1, -1, [-1, -1, 0, 0])
    b_a = (0, 1, [70, 0, 0, 0])  # B, then A is not split
    # After A B comes C and the end, so after B A as well; its last activity alone has B follow.
    same: Rows = [root, (0, 0, [0, -1, 0, 0]), b_a, (1, 1, [0, 0, -1, 0]), (3, 2, [0, 0, 0, 90])]
    assert completed(same) == {(0, 1, 2): 90, (1, 0, 2): 70}
    # A C B ends, as A B does. C is not like A or A B, but like A C in its last: C B, which ends.
    last: Rows = [(-1, -1, [-1, 0, 30, 0]), (0, 0, [0, -1, -1, 0]), (1, 1, [0, 0, 0, 50])]
    assert completed([*last, (1, 2, [0, 20, 0, 0])]) == {(0, 1): 50, (0, 2, 1): 20, (2, 1): 30}
    # A walk that finds no end is undone, and a prefix of full length is a variant.
    assert completed([(-1, -1, [40, 0, 2, 0])]) == {(0,): 40, (2,): 2}
    assert completed([(-1, -1, [-1, 0, 0, 0]), (0, 0, [8, 0, 0, 9])], 2) == {(0, 0): 8, (0,): 9}
    # Of 4,000 cases 3 in 4 end, and one in 4 goes on: within 8 standard deviations.
    ends: Rows = [root, (0, 0, [0, 0, -1, 300]), (0, 1, [4000, 0, 0, 0]), (1, 2, [0, 0, 0, 100])]
    found = completed(ends, 3)
    assert abs(found[1, 0] - 3000) < 220 and found[1, 0] + found[1, 0, 2] == 4000


def test_noise_too_wide_is_refused_beforehand() -> None:
    with pytest.raises(UsageError, match="raise epsilon"):
        spends_of(PrivTree(), Fraction(1, 10**13), 0)

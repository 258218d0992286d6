"""Algorithm 1, lines 8 to 25: which variants move, against an exact enumeration of its law."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chi_square import ALPHA, p_value_of_law
from tests.support.keys import randomness
from tracecloak.anonymizers.amun.case_moves import draw_moves
from tracecloak.anonymizers.noise.randomness import below, cell_numbers, uniform
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.statistics.dafsa import Dafsa
from tracecloak.schemas.statistics.variants import VariantHistogram

Law = dict[tuple[int, ...], float]


def dafsa_of(variants: Sequence[str], counts: Sequence[int]) -> Dafsa:
    """The automaton of words over the capital letters."""
    offsets = offsets_of(np.array([len(word) for word in variants], np.int64))
    codes = np.array([ord(letter) - ord("A") for word in variants for letter in word], np.int32)
    sequences = encode_sequences(offsets, codes)
    return Dafsa.from_variants(VariantHistogram.from_sequences(sequences, np.array(counts)))


def paths_of(dafsa: Dafsa) -> list[list[int]]:
    bounds = itertools.pairwise(dafsa.variants.offsets.tolist())
    return [dafsa.path[a:b].tolist() for a, b in bounds]


def moves(
    dafsa: Dafsa, needs: Sequence[int], purpose: str = "moves", number: int = 0
) -> tuple[int, ...]:
    counts = dafsa.variants.counts
    drawn = draw_moves(dafsa, counts, np.array(needs), randomness(number), purpose)
    return tuple(drawn.tolist())


# Table 1 of the Amun paper, with more cases of its variants so that the weights differ.
PAPER = dafsa_of(["ABC", "AEC", "DABC", "DAEC"], [20, 5, 2, 1])


# --- what holds after every pass ------------------------------------------------------------------


@st.composite
def automata_and_needs(draw: st.DrawFn) -> tuple[Dafsa, np.ndarray, np.ndarray]:
    """An automaton, numbers of cases (0 for some variants), and needs where cases pass."""
    words = draw(st.lists(st.text("ABC", min_size=1, max_size=5), min_size=1, max_size=8))
    dafsa = dafsa_of(words, [1] * len(words))
    n = dafsa.variants.n_variants
    counts = np.array(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    size = dafsa.n_transitions
    needs = np.array(draw(st.lists(st.integers(0, 12), min_size=size, max_size=size)))
    return dafsa, counts, np.where(dafsa.contingency_table_of(counts) > 0, needs, 0)


@given(automata_and_needs(), st.integers(0, 100))
def test_every_need_is_met_and_no_more_is_picked_than_needed(
    case: tuple[Dafsa, np.ndarray, np.ndarray], number: int
) -> None:
    dafsa, counts, needs = case
    picks = draw_moves(dafsa, counts, needs, randomness(number), "moves")
    assert picks.dtype == np.int64
    assert (dafsa.contingency_table_of(picks) >= needs).all()
    assert (picks[counts == 0] == 0).all()
    assert needs.max(initial=0) <= picks.sum() <= needs.sum()


# --- what the picks depend on ---------------------------------------------------------------------


@given(automata_and_needs(), st.integers(0, 100))
def test_picks_are_those_of_a_pass_that_raises_every_transition(
    case: tuple[Dafsa, np.ndarray, np.ndarray], number: int
) -> None:
    """The algorithm as it is written, one ticket after the other."""
    dafsa, counts, needs = case
    keyed, paths = randomness(number), paths_of(dafsa)
    needy = np.flatnonzero(needs)
    words = keyed.words("moves/order", cell_numbers(needy.astype(np.uint64)))
    frequency = dafsa.contingency_table_of(counts)
    clocks = -elementary.log(uniform(words[:, 0])) / frequency[needy]
    added, picks = np.zeros(dafsa.n_transitions, np.int64), np.zeros(len(counts), np.int64)
    for transition in needy[np.argsort(clocks, kind="stable")].tolist():
        if added[transition] >= needs[transition]:
            continue
        through = [v for v, path in enumerate(paths) if transition in path]
        cases = np.repeat(through, counts[through])
        cell = cell_numbers(np.full(needs[transition], transition, np.uint64))
        tickets = keyed.words("moves/pick", cell, np.arange(needs[transition]))[:, 0]
        for variant in cases[below(tickets, len(cases))].tolist():
            picks[variant] += 1
            added[paths[variant]] += 1
    assert draw_moves(dafsa, counts, needs, keyed, "moves").tolist() == picks.tolist()


# --- the law of the moves -------------------------------------------------------------------------


def by_frequency(weights: Sequence[int]) -> list[Fraction]:
    return [Fraction(weight, sum(weights)) for weight in weights]


def evenly(weights: Sequence[int]) -> list[Fraction]:
    return [Fraction(1, len(weights))] * len(weights)


def exact_law(
    dafsa: Dafsa,
    needs: Sequence[int],
    transition_weights: Callable[[Sequence[int]], list[Fraction]] = by_frequency,
    variant_weights: Callable[[Sequence[int]], list[Fraction]] = by_frequency,
) -> Law:
    """Enumerates Algorithm 1: a needy transition, so many variants through it, until none is."""
    counts = dafsa.variants.counts.tolist()
    frequency = dafsa.contingency_table.tolist()
    paths = paths_of(dafsa)
    open_states = {((0,) * len(counts), (0,) * dafsa.n_transitions): Fraction(1)}
    law: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    while open_states:
        following: defaultdict[tuple, Fraction] = defaultdict(Fraction)
        for (picks, added), chance in open_states.items():
            needy = [t for t in range(dafsa.n_transitions) if added[t] < needs[t]]
            if not needy:
                law[picks] += chance
                continue
            shares = transition_weights([frequency[t] for t in needy])
            for t, share in zip(needy, shares, strict=True):
                through = [v for v, path in enumerate(paths) if t in path]
                odds = variant_weights([counts[v] for v in through])
                for chosen in itertools.product(range(len(through)), repeat=needs[t]):
                    new_picks, new_added, p = list(picks), list(added), chance * share
                    for c in chosen:
                        p *= odds[c]
                        new_picks[through[c]] += 1
                        for step in paths[through[c]]:
                            new_added[step] += 1
                    following[tuple(new_picks), tuple(new_added)] += p
        open_states = following
    return {picks: float(chance) for picks, chance in law.items()}


def sample(dafsa: Dafsa, needs: Sequence[int], n: int) -> Counter[tuple[int, ...]]:
    """Moves of n independent releases, ten purposes a key."""
    return Counter(moves(dafsa, needs, f"trial {i % 10}", i // 10) for i in range(n))


@pytest.mark.parametrize("needs", [[1, 1, 2, 1, 0, 1], [0, 2, 1, 0, 2, 1], [2, 0, 0, 2, 1, 1]])
def test_all_picks_of_a_pass_follow_algorithm_1(needs: list[int]) -> None:
    """With n = 3,000; controls: transitions picked evenly, variants picked evenly."""
    law = exact_law(PAPER, needs)
    assert sum(law.values()) == pytest.approx(1)
    drawn = sample(PAPER, needs, 3_000)
    assert p_value_of_law(drawn, law) > ALPHA
    assert p_value_of_law(drawn, exact_law(PAPER, needs, variant_weights=evenly)) < ALPHA
    assert p_value_of_law(drawn, exact_law(PAPER, needs, transition_weights=evenly)) < ALPHA


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(0, 1000))
def test_one_variant_alone_takes_its_largest_need_in_the_order_of_the_picks(
    need: int, number: int
) -> None:
    dafsa = dafsa_of(["A"], [5])
    assert moves(dafsa, [need], number=number) == (need,)

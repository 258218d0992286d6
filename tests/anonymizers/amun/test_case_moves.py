"""Algorithm 1, lines 8 to 25: which variants move, against an exact enumeration of its law."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.keys import randomness
from tracecloak.anonymizers.amun.case_moves import draw_moves
from tracecloak.anonymizers.noise.randomness import below, cell_numbers, uniform
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.statistics.variants import Dafsa, VariantHistogram


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


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(0, 1000))
def test_one_variant_alone_takes_its_largest_need_in_the_order_of_the_picks(
    need: int, number: int
) -> None:
    dafsa = dafsa_of(["A"], [5])
    assert moves(dafsa, [need], number=number) == (need,)

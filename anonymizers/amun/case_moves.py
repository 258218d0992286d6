"""Algorithm 1 of Amun, lines 8 to 25: which variants gain and lose cases.

Each DAFSA transition needs a noisy number of cases more or fewer. While some transition's need is
not met, one of those is picked with its frequency as weight, as many variants through it as it
needs are picked with their numbers of cases as weights, and every pick counts for all transitions
of its variant. Gains and losses are two such passes; in each, what has been added only grows.

A picked transition's need is met at once, so no transition is picked twice. Picking among the needy
by weight is then going through all of them in one weighted random order and passing over those
whose need others have met by their turn.
"""

from __future__ import annotations

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness, below, cell_numbers, uniform
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.statistics.dafsa import Dafsa


def draw_moves(
    dafsa: Dafsa, counts: np.ndarray, needs: np.ndarray, randomness: Randomness, purpose: str
) -> np.ndarray:
    """Runs one pass.

    Args:
        dafsa: The automaton.
        counts: int64[n_variants], cases per variant.
        needs: int64[n_transitions], not negative; 0 where no case takes the transition.
        randomness: The release's randomness.
        purpose: What the draws are for.

    Returns:
        int64[n_variants], how often each variant was picked. Afterwards every transition has been
        credited at least its need.
    """
    lengths = np.diff(dafsa.variants.offsets)
    frequency = dafsa.contingency_table_of(counts)
    # Positions by transition, with running numbers of cases: a variant through a transition is
    # found by its case number.
    by_transition = np.argsort(dafsa.path, kind="stable")
    variant_of = np.repeat(np.arange(len(counts)), lengths)[by_transition]
    cases_upto = np.cumsum(counts[variant_of])
    first_position = offsets_of(np.bincount(dafsa.path, minlength=dafsa.n_transitions))
    cases_before = np.concatenate([[0], cases_upto])[first_position[:-1]]

    needy = np.flatnonzero(needs)
    words = randomness.words(f"{purpose}/order", cell_numbers(needy.astype(np.uint64)))
    # The earliest of exponential clocks with these rates is each one by its weight.
    order = needy[
        np.argsort(-elementary.log(uniform(words[:, 0])) / frequency[needy], kind="stable")
    ]

    wanted = needs[order]
    number = ranges(np.zeros(len(order), np.int64), wanted)
    cells = cell_numbers(np.repeat(order, wanted).astype(np.uint64))
    words = randomness.words(f"{purpose}/pick", cells, number)
    tickets = np.repeat(cases_before[order], wanted)
    tickets += below(words[:, 0], np.repeat(frequency[order], wanted))
    variants = variant_of[np.searchsorted(cases_upto, tickets, side="right")].tolist()

    # Lists, because most steps read or raise a dozen numbers, which numpy is slow at.
    starts, path = dafsa.variants.offsets.tolist(), dafsa.path.tolist()
    added = [0] * dafsa.n_transitions
    picks = [0] * len(counts)
    first = 0
    for transition, want in zip(order.tolist(), wanted.tolist(), strict=True):
        if added[transition] < want:
            for variant in variants[first : first + want]:
                picks[variant] += 1
                for taken in path[starts[variant] : starts[variant + 1]]:
                    added[taken] += 1
        first += want
    return np.array(picks, np.int64)

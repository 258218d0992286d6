"""Algorithm 1 of Amun, lines 8 to 25: which variants gain and lose cases.

Each DAFSA transition needs a noisy number of cases more or fewer. While some transition's need is
not met, one of those is picked with its frequency as weight, as many variants through it as it
needs are picked with their numbers of cases as weights, and every pick counts for all transitions
of its variant. Gains and losses are two such passes; in each, what has been added only grows.
"""

from __future__ import annotations

import numpy as np

from anonymizers.randomness import Randomness, below, cell_numbers
from schemas.dafsa import Dafsa
from schemas.merging import offsets_of

# Candidates drawn ahead per pass over the needy transitions, so that draws are vectorised; those
# whose need is met by the time they come up are skipped, which leaves the distribution as it is.
_MIN_BLOCK = 256


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

    starts = dafsa.variants.offsets.tolist()
    added = np.zeros(dafsa.n_transitions, np.int64)
    picks = np.zeros(len(counts), np.int64)
    draws = _Draws(randomness, purpose)
    while True:
        needy = np.flatnonzero(added < needs)
        if len(needy) == 0:
            return picks
        cumulative = np.cumsum(frequency[needy])
        n = max(_MIN_BLOCK, 2 * len(needy))
        tickets = draws.below(np.full(n, cumulative[-1]))
        candidates = needy[np.searchsorted(cumulative, tickets, side="right")]
        wanted = needs[candidates]
        tickets = draws.below(np.repeat(frequency[candidates], wanted))
        positions = np.searchsorted(
            cases_upto, np.repeat(cases_before[candidates], wanted) + tickets, side="right"
        )
        variants = variant_of[positions].tolist()
        first = 0
        for transition, want in zip(candidates.tolist(), wanted.tolist(), strict=True):
            if added[transition] < want:
                for variant in variants[first : first + want]:
                    picks[variant] += 1
                    # A path takes a transition once: the automaton has no cycle.
                    added[dafsa.path[starts[variant] : starts[variant + 1]]] += 1
            first += want


class _Draws:
    """Numbers drawn one after the other, for a decision that is made in one place."""

    def __init__(self, randomness: Randomness, purpose: str) -> None:
        self._randomness = randomness
        self._purpose = purpose
        self._next = 0

    def below(self, bounds: np.ndarray) -> np.ndarray:
        cells = cell_numbers(np.arange(self._next, self._next + len(bounds), dtype=np.uint64))
        self._next += len(bounds)
        return below(self._randomness.words(self._purpose, cells)[:, 0], bounds)

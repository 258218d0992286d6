"""Algorithm 1 of Amun, lines 8 to 25: the noise of counts, and which variants gain and lose cases.

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

from tracecloak.anonymizers.amun.params import AmunParams
from tracecloak.anonymizers.noise.published import laplace_by_inversion
from tracecloak.anonymizers.noise.randomness import Randomness, below, cell_numbers, uniform
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.dafsa import Dafsa

# Beyond this the draws alone take gigabytes, and next to nothing is left of the log.
_MAX_MOVES = 100_000_000
# Laplace noise is drawn in these parts of 1 where it is rounded up.
_PARTS = 2**20


def draw_gains_and_losses(
    dafsa: Dafsa, counts: np.ndarray, params: AmunParams, randomness: Randomness
) -> tuple[np.ndarray, np.ndarray]:
    """Draws the noise of the counts, and the cases that it takes.

    Args:
        dafsa: The automaton.
        counts: int64[n_variants], cases per variant.
        params: Amun's.
        randomness: The release's randomness.

    Returns:
        (gains int64[n_variants], losses int64[n_variants]), cases to copy and to delete.

    Raises:
        UsageError: There are more of them than can be moved.
    """
    present = np.flatnonzero(dafsa.contingency_table_of(counts))
    noise = np.zeros(dafsa.n_transitions, np.int64)
    words = randomness.words("amun/count", cell_numbers(present.astype(np.uint64)))
    noise[present] = _noise_of_counts(words, params)
    if np.abs(noise).sum(dtype=np.float64) > _MAX_MOVES:
        raise UsageError(
            f"guessing_advantage={params.guessing_advantage:g} asks for more than {_MAX_MOVES:,} "
            "cases to copy or delete; raise it"
        )
    if params.mode == "oversampling":
        more, fewer = np.abs(noise), np.zeros_like(noise)
    else:
        more, fewer = np.maximum(noise, 0), np.maximum(-noise, 0)
    of_authors = params.choices.moves == "authors"
    draw = draw_moves_of_the_authors if of_authors else draw_moves
    gains = draw(dafsa, counts, more, randomness, "amun/gain")
    losses = draw(dafsa, counts, fewer, randomness, "amun/loss")
    if of_authors and params.mode != "oversampling":
        more_often = np.where((gains > 0) & (losses > 0), gains - losses, 0)
        gains, losses = np.maximum(more_often, 0), np.minimum(np.maximum(-more_often, 0), 1)
    # A deletion that finds no case left still counted for its transitions; it deletes nothing.
    return gains, np.minimum(losses, counts + gains)


def _noise_of_counts(words: np.ndarray, params: AmunParams) -> np.ndarray:
    """int64[n], noise of the counts from uint64[n, 2] words: rounded, or as the authors round."""
    scale = 1 / params.epsilon_d
    if params.choices.moves == "algorithm_1":
        return laplace_by_inversion(words, scale)
    noise = laplace_by_inversion(words, scale * _PARTS)
    if params.mode == "oversampling":
        noise = np.abs(noise)
    return -(-noise // _PARTS)


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
    needy = np.flatnonzero(needs)
    words = randomness.words(f"{purpose}/order", cell_numbers(needy.astype(np.uint64)))
    # Each of them gets an exponential clock whose rate is its frequency. The clock that rings first
    # belongs to each with a probability in proportion to its frequency, so sorting the clocks draws
    # an order by weight.
    frequency = dafsa.contingency_table_of(counts)
    clocks = -elementary.log(uniform(words[:, 0])) / frequency[needy]
    order = needy[np.argsort(clocks, kind="stable")]
    wanted = needs[order]
    variants = _picked(dafsa, counts, order, wanted, randomness, purpose).tolist()

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


def draw_moves_of_the_authors(
    dafsa: Dafsa, counts: np.ndarray, needs: np.ndarray, randomness: Randomness, purpose: str
) -> np.ndarray:
    """Runs one pass as the authors' code does, which picks those first that were given the least.

    Among the transitions whose needs are not met, the weight of each is how much less it was given
    than the one that was given the most; equal weights where all were given the same. Arguments and
    result are those of `draw_moves`. It takes time in the square of the number of transitions.
    """
    needy = np.flatnonzero(needs)
    wanted = needs[needy]
    variants = _picked(dafsa, counts, needy, wanted, randomness, purpose)
    first = offsets_of(wanted)
    words = randomness.words(f"{purpose}/order", cell_numbers(np.arange(len(needy), dtype="u8")))
    chances = uniform(words[:, 0])

    starts, added = dafsa.variants.offsets, np.zeros(dafsa.n_transitions, np.int64)
    picks = np.zeros(len(counts), np.int64)
    left = np.arange(len(needy))
    for chance in chances:
        if not len(left):
            break
        given = added[needy[left]]
        upto = np.cumsum(given.max() - given)
        if not upto[-1]:
            upto = np.arange(1, len(left) + 1)
        # The random number is above 0, so a variant of weight 0 is never picked.
        turn = left[np.searchsorted(upto, chance * upto[-1])]
        for variant in variants[first[turn] : first[turn + 1]]:
            picks[variant] += 1
            # An automaton without cycles: a variant takes a transition once.
            added[dafsa.path[starts[variant] : starts[variant + 1]]] += 1
        left = left[added[needy[left]] < wanted[left]]
    return picks


def _picked(
    dafsa: Dafsa,
    counts: np.ndarray,
    transitions: np.ndarray,
    wanted: np.ndarray,
    randomness: Randomness,
    purpose: str,
) -> np.ndarray:
    """int64[sum of wanted], variants through each transition with their numbers as weights."""
    lengths = np.diff(dafsa.variants.offsets)
    frequency = dafsa.contingency_table_of(counts)
    # Positions by transition, with running numbers of cases: a variant through a transition is
    # found by its case number.
    variant_of = np.repeat(np.arange(len(counts)), lengths)[dafsa.by_transition]
    cases_upto = np.cumsum(counts[variant_of])
    first_position = offsets_of(np.bincount(dafsa.path, minlength=dafsa.n_transitions))
    cases_before = np.concatenate([[0], cases_upto])[first_position[:-1]]

    number = ranges(np.zeros(len(transitions), np.int64), wanted)
    cells = cell_numbers(np.repeat(transitions, wanted).astype(np.uint64))
    words = randomness.words(f"{purpose}/pick", cells, number)
    tickets = np.repeat(cases_before[transitions], wanted)
    tickets += below(words[:, 0], np.repeat(frequency[transitions], wanted))
    return variant_of[np.searchsorted(cases_upto, tickets, side="right")]

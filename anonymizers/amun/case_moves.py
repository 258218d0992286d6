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

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracecloak.anonymizers.amun.params import AmunParams, laplace_by_inversion
from tracecloak.anonymizers.noise.randomness import (
    KEY_BYTES,
    Randomness,
    ReleaseKey,
    below,
    cell_numbers,
    uniform,
)
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import distinct_counts, ranges, stable_order, sum_groups
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.variants import Dafsa

# Beyond this the draws alone take gigabytes, and next to nothing is left of the log.
_MAX_MOVES = 100_000_000
# So many turns are looked at together.
_TURNS = 1 << 12
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
    present = np.flatnonzero(dafsa.contingency_table(counts))
    noise = np.zeros(dafsa.n_transitions, np.int64)
    words = randomness.words("amun/count", cell_numbers(present.astype(np.uint64)))
    if params.choices.moves == "algorithm_1":
        noise[present] = laplace_by_inversion(words, 1 / params.epsilon_d)
    else:  # as the authors round
        drawn = laplace_by_inversion(words, 1 / params.epsilon_d * _PARTS)
        drawn = np.abs(drawn) if params.mode == "oversampling" else drawn
        noise[present] = -(-drawn // _PARTS)
    if np.abs(noise).sum(dtype=np.float64) > _MAX_MOVES:
        raise UsageError(
            f"guessing_advantage={params.guessing_advantage:g} asks for more than {_MAX_MOVES:,} "
            "cases to copy or delete; raise it"
        )
    if params.mode == "oversampling":
        more, fewer = np.abs(noise), np.zeros_like(noise)
    else:
        more, fewer = np.maximum(noise, 0), np.maximum(-noise, 0)
    is_of_authors = params.choices.moves == "authors"
    gains = draw_moves(dafsa, counts, more, randomness, "amun/gain", is_of_authors)
    losses = draw_moves(dafsa, counts, fewer, randomness, "amun/loss", is_of_authors)
    if is_of_authors and params.mode != "oversampling":
        more_often = np.where((gains > 0) & (losses > 0), gains - losses, 0)
        gains, losses = np.maximum(more_often, 0), np.minimum(np.maximum(-more_often, 0), 1)
    # A deletion that finds no case left still counted for its transitions; it deletes nothing.
    return gains, np.minimum(losses, counts + gains)


def draw_moves(
    dafsa: Dafsa,
    counts: np.ndarray,
    needs: np.ndarray,
    randomness: Randomness,
    purpose: str,
    of_authors: bool = False,
) -> np.ndarray:
    """Runs one pass.

    Args:
        dafsa: The automaton.
        counts: int64[n_variants], cases per variant.
        needs: int64[n_transitions], not negative; 0 where no case takes the transition.
        randomness: The release's randomness.
        purpose: What the draws are for.
        of_authors: Whether those are picked first that were given the least, as in the authors'
            code. It takes time in the square of the number of transitions.

    Returns:
        int64[n_variants], how often each variant was picked. Afterwards every transition has been
        credited at least its need.
    """
    needy = np.flatnonzero(needs)
    wanted = needs[needy]
    frequency = dafsa.contingency_table(counts)
    numbers = np.arange(len(needy)) if of_authors else needy
    words = randomness.words(f"{purpose}/order", cell_numbers(numbers.astype(np.uint64)))
    chances = uniform(words[:, 0])

    # Variants through each transition are picked with their numbers as weights. Positions are in
    # the order of transitions, with running numbers of cases: a case number tells the variant.
    variants = np.repeat(np.arange(len(counts)), np.diff(dafsa.variants.offsets))
    variants = variants[stable_order(dafsa.path)]
    asked = np.repeat(needy, wanted)
    number = ranges(np.zeros(len(needy), np.int64), wanted)
    words = randomness.words(f"{purpose}/pick", cell_numbers(asked.astype(np.uint64)), number)
    tickets = (np.cumsum(frequency) - frequency)[asked] + below(words[:, 0], frequency[asked])
    places = np.searchsorted(np.cumsum(counts[variants]), tickets, side="right")
    # Of each turn the variants that are picked, and how often.
    turn_of = np.repeat(np.arange(len(needy)) * len(counts), wanted)
    keys, times = distinct_counts(turn_of + variants[places])
    begins = np.searchsorted(keys, np.arange(len(needy) + 1) * len(counts))
    picked = keys % max(len(counts), 1)
    none = np.zeros(dafsa.n_transitions, np.int64), np.zeros(len(counts), np.int64)
    turns = _Turns(dafsa, needy, wanted, begins, picked, times, *none)
    if of_authors:
        for turn in _least_given_first(needy, wanted, chances, turns.added):
            turns.take(np.array([turn]))
    else:
        # Each transition gets an exponential clock whose rate is its frequency. The clock that
        # rings first belongs to each with a probability in proportion to its frequency, so sorting
        # the clocks draws an order by weight.
        order = np.argsort(-elementary.log(chances) / frequency[needy], kind="stable")
        for begin in range(0, len(order), _TURNS):
            turns.take(order[begin : begin + _TURNS])
    return turns.picks


@dataclass(frozen=True, eq=False)
class _Turns:
    """The turns of one pass, one for each needy transition, and what those taken so far gave.

    Attributes:
        dafsa: The automaton.
        needy: int64[n_turns], the transition of each turn.
        wanted: int64[n_turns], its need.
        begins: int64[n_turns+1], CSR offsets of the turns into `picked` and `times`.
        picked: int64[n_picks], variants.
        times: int64[n_picks], how often the turn picks each.
        added: int64[n_transitions], what each transition was credited; it grows.
        picks: int64[n_variants], how often each variant was picked; it grows.
    """

    dafsa: Dafsa
    needy: np.ndarray
    wanted: np.ndarray
    begins: np.ndarray
    picked: np.ndarray
    times: np.ndarray
    added: np.ndarray
    picks: np.ndarray

    def take(self, turns: np.ndarray) -> None:
        """Takes turns in their order, but for those whose need is met by their turn."""
        left = self.wanted[turns] - self.added[self.needy[turns]]
        turns, left = turns[left > 0], left[left > 0]
        n_picks = self.begins[turns + 1] - self.begins[turns]
        pick = ranges(self.begins[turns], n_picks)
        variant, n = self.picked[pick], self.times[pick]
        picker = np.repeat(np.arange(len(turns)), n_picks)
        # An automaton without cycles: a variant takes a transition once.
        offsets = self.dafsa.variants.offsets
        lengths = offsets[variant + 1] - offsets[variant]
        transition = self.dafsa.path[ranges(offsets[variant], lengths)]
        giver, given = np.repeat(picker, lengths), np.repeat(n, lengths)
        place = np.full(self.dafsa.n_transitions, -1)
        place[self.needy[turns]] = np.arange(len(turns))
        taker = place[transition]
        is_later = taker > giver
        is_taken = _taken(left, giver[is_later], taker[is_later], given[is_later])
        np.add.at(self.picks, variant, np.where(is_taken[picker], n, 0))
        np.add.at(self.added, transition, np.where(is_taken[giver], given, 0))


def _taken(left: np.ndarray, giver: np.ndarray, taker: np.ndarray, given: np.ndarray) -> np.ndarray:
    """bool[n_turns]: which turns are taken, as each is whose need earlier ones have not met.

    What a turn gets is at least what those give that are taken for sure, and at most that and what
    those give that are open still. The first open one is decided by either, so all are in the end.

    Args:
        left: int64[n_turns], need at the first of the turns.
        giver: int64[n], a turn that would give.
        taker: int64[n], the later turn that would get it.
        given: int64[n], how much.
    """
    is_taken, is_open = np.zeros(len(left), bool), np.ones(len(left), bool)
    sure = np.zeros(len(left), np.int64)
    while is_open.any():
        most = sure + sum_groups(taker, given, len(left))
        now = is_open & (most < left)
        is_taken |= now
        comes = now[giver]
        sure += sum_groups(taker[comes], given[comes], len(left))
        is_open &= ~now & (sure < left)
        stays = is_open[giver] & is_open[taker]
        giver, taker, given = giver[stays], taker[stays], given[stays]
    return is_taken


def _least_given_first(
    needy: np.ndarray, wanted: np.ndarray, chances: np.ndarray, added: np.ndarray
) -> Iterator[int]:
    """Yields turns as the authors' code takes them.

    Among the transitions whose needs are not met, the weight of each is how much less it was given
    than the one that was given the most; equal weights where all were given the same.
    """
    left = np.arange(len(needy))
    for chance in chances:
        if not len(left):
            break
        given = added[needy[left]]
        upto = np.cumsum(given.max() - given)
        if not upto[-1]:
            upto = np.arange(1, len(left) + 1)
        # The random number is above 0, so a variant of weight 0 is never picked.
        yield int(left[np.searchsorted(upto, chance * upto[-1])])
        left = left[added[needy[left]] < wanted[left]]


# --- What a release by Amun costs in cases and times, from its parameters alone. ------------------
# Bounds on means, in units that the data decides: transitions of the automaton, and ranges of
# times. No log is read. What the profiles made of public logs stands in
# `docs/explanation/methods`.
#
# How many cases a release by Amun will have, foretold from a log before its noise is drawn.
#
# Amun copies cases until every transition of the automaton has its noise, so what it releases
# grows with the number of transitions and not with that of the cases: of 1,143 cases with long
# variants of their own it can make thirty times as many. How much is shared between variants
# decides, which no formula says; so the draws are made here with noise of their own, that of no
# release.


def moves_per_transition(params: AmunParams) -> float:
    """Returns the mean number of cases to copy or delete for one transition, at most.

    That is the mean size of Laplace noise rounded to the nearest integer, 1 / (2 sinh(epsilon /
    2)); or where the authors round up that of the copies, and in the other modes half of it. A case
    that is moved for a transition counts for all others that it takes, so fewer are.
    """
    if params.choices.moves == "authors":
        up = 1 / -math.expm1(-params.epsilon_d)
        return up if params.mode == "oversampling" else up - 0.5
    return 1 / (2 * math.sinh(params.epsilon_d / 2))


# A number of cases is a sum over the transitions, so a few draws are enough where there are many
# transitions. These bounds keep the time to seconds.
_FEWEST_DRAWS, _MOST_DRAWS, _TRANSITIONS = 5, 100, 40_000


def forecast_size(dafsa: Dafsa, params: AmunParams) -> tuple[float, float]:
    """Returns the cases of a release for one of the log: to be expected, and of 19 in 20 at most.

    It depends on the variants of the log and on no time, and is the same for equal logs.

    Args:
        dafsa: Of the log's variants; it has a case.
        params: Amun's; the filter is left out, which drops cases before the others are moved.

    Raises:
        UsageError: More cases would be moved than can be.
    """
    counts = dafsa.variants.counts
    n_cases = int(counts.sum())
    sizes = []
    n_draws = int(np.clip(_TRANSITIONS // dafsa.n_transitions, _FEWEST_DRAWS, _MOST_DRAWS))
    for number in range(n_draws):
        randomness = Randomness(ReleaseKey(bytes(KEY_BYTES)), "amun/foretold", str(number), "")
        gains, losses = draw_gains_and_losses(dafsa, counts, params, randomness)
        sizes.append(n_cases + int(gains.sum()) - int(losses.sum()))
    mean, spread = float(np.mean(sizes)), float(np.std(sizes, ddof=1))
    # A further draw is below this in 95 % of the times: Student's quantile, within 2 % of it.
    deviations = 1.645 * (1 + 1.2 / (n_draws - 1)) * math.sqrt(1 + 1 / n_draws)
    return mean / n_cases, (mean + deviations * spread) / n_cases

"""What a release by Amun costs in cases and times, from its parameters alone.

Bounds on means, in units that the data decides: transitions of the automaton, and ranges of times.
No log is read. What the profiles made of public logs stands in `docs/explanation/methods`.

How many cases a release by Amun will have, foretold from a log before its noise is drawn.

Amun copies cases until every transition of the automaton has its noise, so what it releases grows
with the number of transitions and not with that of the cases: of 1,143 cases with long variants of
their own it can make thirty times as many. How much is shared between variants decides, which no
formula says; so the draws are made here with noise of their own, that of no release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tracecloak.anonymizers.amun.case_moves import draw_gains_and_losses
from tracecloak.anonymizers.amun.guessing_advantage import epsilon_of_counts
from tracecloak.anonymizers.amun.params import AmunParams
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.release_key import KEY_BYTES, ReleaseKey
from tracecloak.schemas.statistics.dafsa import Dafsa


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


def noise_in_ranges(params: AmunParams) -> float:
    """Returns the mean size of a time's noise before compression, at most, in ranges of its group.

    Equation 3 is smallest at the prior (1 - g) / 2, where it is epsilon_d; a time whose prior plus
    g reaches 1 has the saturated epsilon, and one whose clamped prior is 0 has one of its own.
    Times of a case that is released c times have c times the noise, and with `correlated_times` all
    have the longest case's length times it.
    """
    epsilons = [epsilon_of_counts(params.guessing_advantage)]
    if params.choices.saturated_epsilon != "epsilon_d":
        epsilons.append(float(params.choices.saturated_epsilon))
    if params.choices.prior == "clamped":
        epsilons.append(params.zero_prior_epsilon)
    return 1 / min(epsilons)


def cost_in_cases(params: AmunParams) -> str:
    """Returns the sentence on the number of cases."""
    moves = moves_per_transition(params)
    sentence = "Cases: "
    if params.mode == "filtering":
        precision = params.choices.time_precision_us / 1e6
        sentence += (
            f"those with a time that is too easy to guess within {precision:g} s are dropped, "
            "which can be most of a log; of the others, "
        )
    if params.mode == "oversampling":
        return sentence + (
            f"on average at most {moves:.3g} are copied for each transition of the DAFSA and none "
            f"is deleted, so n cases that take T transitions become at most n + {moves:.3g} T: "
            "hardly more where many cases share few variants, several times as many where each "
            "has its own."
        )
    copied = deleted = moves / 2
    if params.choices.moves == "authors":
        copied, deleted = (moves + 0.5) / 2, (moves - 0.5) / 2
    return sentence + (
        f"on average at most {copied:.3g} are copied and {deleted:.3g} deleted for each "
        "transition of the DAFSA, the fewer the more transitions a case takes."
    )


def cost_in_times(params: AmunParams) -> str:
    """Returns the sentences on the steps between the events of a case."""
    longest = " times the length of the longest case" if params.correlated_times else ""
    of_noise = (
        "The compression leaves at most half of that noise. What is then below 0 becomes 0, and "
        "the mean step grows by what was cut off."
    )
    if params.choices.negative_steps == "mirrored":
        of_noise = (
            "Where it would make a step negative it is turned around, which makes the mean step "
            "longer, to several times its length where a few steps are very long. The compression "
            "leaves at most half of that noise."
        )
    afterwards = {
        "noise": of_noise,
        "shifts": of_noise,
        "equation_4": "What is then below 0 becomes 0. The compression multiplies every step, not "
        "its noise alone, by one factor of at most 1/2, and of far less where starts are noised "
        "by more than the log's duration: steps no longer have the length that they had.",
    }
    whole = (
        "The compression leaves all of that noise. What is then below 0 becomes 0, and the mean "
        "step grows by what was cut off, to several times its length where a few steps are very "
        "long."
    )
    return (
        f"Times: the noise of a step has a mean size of at most {noise_in_ranges(params):.3g}"
        f"{longest} times the range of its transition's steps, the longest less the shortest, and "
        "c times that if its case is released c times; a start's is of as many ranges of all "
        "starts. " + afterwards.get(params.choices.compression, whole)
    )


# A number of cases is a sum over the transitions, so a few draws are enough where there are many
# transitions. These bounds keep the time to seconds.
_FEWEST_DRAWS, _MOST_DRAWS, _TRANSITIONS = 5, 100, 40_000


@dataclass(frozen=True)
class Foretold:
    """The number of cases of a release, before it is made.

    Attributes:
        n_cases: Of the log.
        mean: What is to be expected.
        most: What 19 of 20 releases stay below.
    """

    n_cases: int
    mean: float
    most: float

    @property
    def growth(self) -> float:
        """Cases to be expected for one of the log."""
        return self.mean / self.n_cases

    @property
    def sentence(self) -> str:
        """What is said of it, without the number of cases: it goes to logs of workers, too."""
        return (
            f"A release would have about {self.growth:.3g} times the cases of the log; 19 of 20 "
            f"releases have at most {self.most / self.n_cases:.3g} times as many."
        )


def foretell(dafsa: Dafsa, params: AmunParams) -> Foretold:
    """Returns how many cases a release by sampling or oversampling will have.

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
    return Foretold(n_cases, mean, mean + deviations * spread)

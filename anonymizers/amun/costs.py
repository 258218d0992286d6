"""What a release by Amun costs in cases and times, from its parameters alone.

Bounds on means, in units that the data decides: transitions of the automaton, and ranges of times.
No log is read. What the profiles made of public logs stands in `docs/explanation/methods`.
"""

from __future__ import annotations

import math

from tracecloak.anonymizers.amun.guessing_advantage import epsilon_of_counts
from tracecloak.anonymizers.amun.params import AmunParams


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

"""How many cases a release by Amun will have, foretold from a log before its noise is drawn.

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
from tracecloak.anonymizers.amun.params import AmunParams
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.release_key import KEY_BYTES, ReleaseKey
from tracecloak.schemas.statistics.dafsa import Dafsa

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

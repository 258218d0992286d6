"""Parameters of `dpim`, what the paper claims of it and what its parts cost.

Schulze, Zisgen, Kirschke, Mohammadi and Koschmider, "Differentially Private Inductive Miner". The
paper's neighbours are logs of equally many cases of which one is replaced; the number of cases is
public.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import of_count, of_shares
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.names import NamesParams
from tracecloak.anonymizers.rigorous.cells import excess_of_pairs
from tracecloak.anonymizers.rigorous.params import Exact, drawable
from tracecloak.anonymizers.trees.fitness import UNITS

# Of the non-zero pairs, by which the paper sets its bounds on either side, and to what it rounds.
_AROUND, _ROUND_TO = 15, 5


class DpimParams(NamesParams):
    """Parameters of `dpim`."""

    epsilon: Exact = Field(gt=0, le=1000_000)
    """Epsilon as the paper counts it, a decimal above epsilon_0; more is spent."""
    epsilon_0: Exact = Field(Decimal("0.01"), gt=0, le=1)
    """Of epsilon, the part for giving up after a number of rounds; the smaller, the more rounds."""
    stop_probability: Exact = Field(Decimal("0.01"), gt=0, le=1)
    """Chance to give up after a round without a good tree (gamma)."""
    fitness_threshold: Exact = Field(Decimal("0.95"), ge=0, le=1)
    """Noisy fitness from which on a tree is taken (t). Too high, no tree is found."""
    pairs_share: Exact = Field(Decimal("0.65"), gt=0, lt=1)
    """Share of a round for the pairs (r1); the three shares sum to 1."""
    ends_share: Exact = Field(Decimal("0.25"), gt=0, lt=1)
    """Share of a round for the ends of parts (r2)."""
    fitness_share: Exact = Field(Decimal("0.1"), gt=0, lt=1)
    """Share of a round for the fitness (r3)."""
    size_bounds: tuple[int, int] | None = None
    """Least and largest number of pairs of a candidate (lb and ub), public; by default one and
    four for each name of the vocabulary."""
    bounds_from_log: bool = False
    """Set the bounds as in the paper's experiments, by the exact number of pairs in the log less
    and plus 15, rounded to 5. That number is not paid for: no finite epsilon holds."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> DpimParams:
        if self.epsilon <= self.epsilon_0:
            raise ValueError("epsilon must be above epsilon_0, which is a part of it")
        total = self.pairs_share + self.ends_share + self.fitness_share
        if total != 1:
            raise ValueError(
                f"pairs_share, ends_share and fitness_share must sum to 1, got {total}"
            )
        if self.size_bounds is not None:
            if self.bounds_from_log:
                raise ValueError("size_bounds and bounds_from_log exclude each other")
            if not 1 <= self.size_bounds[0] <= self.size_bounds[1]:
                raise ValueError(
                    "size_bounds must be two numbers from 1 up, the smaller first, got "
                    f"{list(self.size_bounds)}"
                )
        if self.n_words is not None and (excess := excess_of_pairs(self.n_words, 1)):
            raise ValueError(excess)
        return self

    @property
    def bounds(self) -> ContributionBounds:
        """The public caps."""
        return ContributionBounds(self.vocabulary, closed=self.closed_vocabulary)

    @property
    def round_epsilon(self) -> Fraction:
        """Epsilon of one round as the paper counts it, epsilon_1."""
        return (Fraction(self.epsilon) - Fraction(self.epsilon_0)) / 2

    @property
    def n_rounds(self) -> int:
        """Rounds at most (T): the smallest number that rejection sampling allows."""
        gamma = float(self.stop_probability)
        return math.ceil(max(math.log(2 / float(self.epsilon_0)) / gamma, 1 + 1 / (math.e * gamma)))

    def pairs_scale(self, n_pairs: int) -> tuple[int, int]:
        """Scale of the noise on counts of pairs where so many are selected: 2 n / (eps_1 r1).

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        return drawable(
            laplace_scale(self.round_epsilon * Fraction(self.pairs_share), of_count(2 * n_pairs))
        )

    def ends_scale(self, depth: int) -> tuple[int, int]:
        """Scale of the noise on the counts of ends: 4 / eps, eps halved at each cut on the way.

        Args:
            depth: Parallel and loop cuts around the question and its own, at least 1.
        """
        epsilon = self.round_epsilon * Fraction(self.ends_share) / 2**depth
        return laplace_scale(epsilon, of_count(4))

    @property
    def fitness_scale(self) -> tuple[int, int]:
        """Scale of the noise on the sum of fitness over all cases, in UNITS of a case.

        That of the mean fitness is 1 / (|L| eps_1 r3), with |L| the number of cases. (Algorithm 2
        leaves the line out; the text has r1 in its place and the proof has r3.)
        """
        return drawable(
            laplace_scale(self.round_epsilon * Fraction(self.fitness_share), of_shares(UNITS))
        )

    def sizes(self, n_names: int, n_pairs_in_log: int) -> tuple[int, int]:
        """Returns the least and the largest number of pairs of a candidate.

        Args:
            n_names: Names of the vocabulary.
            n_pairs_in_log: Pairs that occur; looked at with `bounds_from_log` only.
        """
        most = (n_names + 1) ** 2
        if self.bounds_from_log:
            low, high = (
                _ROUND_TO * math.floor((n_pairs_in_log + change) / _ROUND_TO + 0.5)
                for change in (-_AROUND, _AROUND)
            )
            low, high = max(low, n_names), min(high, n_names**2 - 1)
        else:
            low, high = self.size_bounds or (n_names, 4 * n_names)
        low = min(max(low, 1), most)
        return low, min(max(low, high), most)

    def real_epsilon(self, n_names: int) -> Fraction:
        """Epsilon that holds for the release if names, bounds and the number of cases are public.

        Twice that of a round and epsilon_0 (Liu and Talwar, 2019, theorem 3.1). In a round the
        selection costs twice what the paper says, as replacing a case can raise one count and lower
        another; the counts of pairs and the fitness cost what it says. Cuts beside each other each
        spend the half of what was left above them; a cut that asks has a part of two or more
        activities beside another, so on each level there are at most a third of the activities.

        Args:
            n_names: Names of the vocabulary.
        """
        pairs = Fraction(self.pairs_share) * Fraction(3, 2)
        widest = max(1, n_names // 3)
        ends = Fraction(self.ends_share) * widest
        one = self.round_epsilon * (pairs + ends + Fraction(self.fitness_share))
        return 2 * one + Fraction(self.epsilon_0)

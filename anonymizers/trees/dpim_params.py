"""Parameters of `dpim`, what the paper claims of it and what its parts cost.

Schulze, Zisgen, Kirschke, Mohammadi and Koschmider, "Differentially Private Inductive Miner". The
paper's neighbours are logs of equally many cases of which one is replaced; the number of cases is
public.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Literal

import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import of_count, of_shares
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.names import NamesParams
from tracecloak.anonymizers.rigorous.cells import excess_of_pairs
from tracecloak.anonymizers.rigorous.params import Exact, drawable
from tracecloak.anonymizers.trees.fitness import UNITS

# The paper sets its bounds so many pairs below and above the number of pairs that are not 0, and
# rounds both to multiples of the second number.
_AROUND, _ROUND_TO = 15, 5


class DpimParams(NamesParams):
    """Parameters of `dpim`."""

    epsilon: Exact = Field(gt=0, le=1000_000)
    """Epsilon as the paper counts it, a decimal above epsilon_0; more is spent."""
    epsilon_0: Exact = Field(default=Decimal("0.01"), gt=0, le=1)
    """Of epsilon, the part for giving up after a number of rounds; the smaller, the more rounds."""
    stop_probability: Exact = Field(default=Decimal("0.01"), gt=0, le=1)
    """Chance to give up after a round without a good tree (gamma)."""
    fitness_threshold: Exact = Field(default=Decimal("0.95"), ge=0, le=1)
    """Noisy fitness from which on a tree is taken (t). Too high, no tree is found."""
    fitness_measure: Literal["share", "tokens"] = "share"
    """How a tree's fitness is measured: as the mean share of a case that fits, or by tokens as in
    the paper, of which a long case has more than a short one. By tokens no finite epsilon
    holds."""
    pairs_share: Exact = Field(default=Decimal("0.65"), gt=0, lt=1)
    """Share of a round for the pairs (r1); the three shares sum to 1."""
    ends_share: Exact = Field(default=Decimal("0.25"), gt=0, lt=1)
    """Share of a round for the ends of parts (r2)."""
    fitness_share: Exact = Field(default=Decimal("0.1"), gt=0, lt=1)
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
    def has_epsilon(self) -> bool:
        """Whether a finite epsilon holds."""
        is_public = self.n_words is not None and not self.bounds_from_log
        return is_public and self.fitness_measure == "share"

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

    def ends_scale(self, number: int) -> tuple[int, int]:
        """Scale of the noise on the counts of ends: 4 / eps, eps halved from question to question.

        "First 0.5 eps, then 0.25 eps, etc.", for all parallel and loop cuts of a tree, as in the
        authors' code. (Algorithm 4 hands the halved budget down, so that cuts beside each other
        would each spend as much, and together more than there is.)

        Args:
            number: Of the question in its round, from 1 up.
        """
        epsilon = self.round_epsilon * Fraction(self.ends_share) / 2**number
        return laplace_scale(epsilon, of_count(4))

    @property
    def fitness_scale(self) -> tuple[int, int]:
        """Scale of the noise on the sum of fitness over all cases, in UNITS of a case.

        That of the mean fitness is 1 / (|L| eps_1 r3), with |L| the number of cases. (Algorithm 2
        leaves the line out; the text has r1 in its place and the proof has r3.) It covers the mean
        share of a case; fitness by tokens can change by any amount and gets the same noise.
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

    @property
    def real_epsilon(self) -> Fraction:
        """Epsilon that holds for the release if names, bounds and the number of cases are public.

        Twice that of a round and epsilon_0 (Liu and Talwar, 2019, theorem 3.1). In a round:

        * Choosing n pairs by noise of scale b costs 2 n / b, which is eps_1 r1 and twice what the
          paper says. Where a case is replaced every count moves by at most 1, up or down. Take the
          noise of all pairs that are not chosen as given, and move that of each chosen one by the
          change of its count and by 1 more: the order of the chosen ones stays, and they stay above
          the others, each of which rose by at most 1. That is at most 2 for each of n. Nearly so
          much is lost where all chosen counts fall as the others rise.
        * The fresh counts of these pairs cost n / b, half of eps_1 r1, as the paper says.
        * Of the questions about ends, number i costs eps_1 r2 / 2^i: less than eps_1 r2 together.
        * The fitness costs eps_1 r3.
        """
        pairs = Fraction(self.pairs_share) * Fraction(3, 2)
        one = self.round_epsilon * (
            pairs + Fraction(self.ends_share) + Fraction(self.fitness_share)
        )
        return 2 * one + Fraction(self.epsilon_0)

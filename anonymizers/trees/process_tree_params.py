"""Parameters of `process-tree`, and what they cost."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_scaled_pairs, of_shares
from tracecloak.anonymizers.noise.sums import SumNoise, variance_of
from tracecloak.anonymizers.rigorous.bought_vocabulary import vocabulary_part
from tracecloak.anonymizers.rigorous.budget import Allowance, Budget, Choice, Need, Sums, budget_of
from tracecloak.anonymizers.rigorous.cells import excess_of_pairs
from tracecloak.anonymizers.rigorous.clips import RANKS_SHARE, norm_grid, ranks_need
from tracecloak.anonymizers.rigorous.names import ListedParams
from tracecloak.anonymizers.rigorous.params import Exact
from tracecloak.anonymizers.trees.counts import PAIR_UNITS
from tracecloak.anonymizers.trees.fitness import UNITS

_PAIRS_SHARE, _FITNESS_SHARE = Fraction(95, 100), Fraction(5, 100)
# So many pairs of a case count fully at delta 0 if `max_pairs` is not given.
_PURE_PAIRS = 8


class ProcessTreeParams(ListedParams):
    """Parameters of `process-tree`."""

    max_pairs: int | None = Field(None, ge=2, le=10_000)
    """Distinct directly-follows pairs of a case that count fully, public; a case of more is scaled
    down. Without it a number is bought that takes about as much from the counts as noise adds; with
    delta 0 it is 8. Noise grows with it: by its root, or in proportion with delta 0."""
    min_size: Exact = Field(Decimal("0.5"), gt=0, le=1000)
    """Pairs in the smallest candidate, for each name of the vocabulary. Public."""
    max_size: Exact = Field(Decimal(4), gt=0, le=1000)
    """Pairs in the largest candidate, for each name of the vocabulary. Public; large trees allow
    more than the log has."""
    n_sizes: int = Field(12, ge=1, le=100)
    """Sizes of candidates, evenly from min_size to max_size. More of them cost time, and no
    epsilon."""
    selection_share: Exact = Field(Decimal("0.1"), gt=0, lt=Decimal("0.6"))
    """Share of epsilon for the choice of a candidate; the rest is for the pairs."""
    ends_share: Exact = Field(Decimal("0.05"), ge=0, lt=Decimal("0.3"))
    """Share of epsilon for what begins and ends the parts of parallel and loop cuts, for all cuts
    together; with 0 the pairs alone say it."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> ProcessTreeParams:
        if self.min_size > self.max_size:
            raise ValueError("min_size must be at most max_size")
        if self.n_words is not None and (excess := excess_of_pairs(self.n_words, 1)):
            raise ValueError(excess)
        self.check_names()
        return self

    @property
    def is_pure(self) -> bool:
        """Whether delta is 0 and the noise on pairs Laplace."""
        return self.delta == 0

    @property
    def needs(self) -> tuple[Need, ...]:
        """What each part has to spend, in their order.

        The vocabulary and the number of pairs where they are bought, the pairs, the ends, the
        choice and its fitness.
        """
        needs: list[Need] = []
        if self.vocabulary is None:
            of_unit = self.max_activities, self.max_units
            needs += vocabulary_part(*of_unit).needs
        share = _PAIRS_SHARE
        if self.public_pairs is None:
            needs.append(ranks_need("clip", share * RANKS_SHARE, self.max_units))
            share *= 1 - RANKS_SHARE
            largest = self.pairs_sensitivity(int(norm_grid()[-1]))
            one = self.pairs_sensitivity(1)
            pairs = Sums("pairs", share, one, PAIR_UNITS, is_any_clip=True, largest=largest)
        else:
            pairs = Sums("pairs", share, self.pairs_sensitivity(self.public_pairs), PAIR_UNITS)
        needs.append(pairs)
        if self.ends_share:
            needs.append(Choice("ends", Fraction(self.ends_share)))
        needs.append(Choice("selection", Fraction(self.selection_share)))
        changed = of_shares(UNITS, self.max_units)
        needs.append(Sums("fitness", _FITNESS_SHARE, changed, UNITS))
        return tuple(needs)

    def needs_of(self, name: str) -> tuple[Need, ...]:
        """Returns what the part of a name has to spend."""
        return tuple(need for need in self.needs if need.name == name)

    @property
    def spending(self) -> Budget:
        """What each need may spend."""
        return budget_of(*self.budget, self.needs)

    @property
    def for_names(self) -> Allowance:
        """What the choice of the activities may spend where they are bought."""
        return self.spending.means["vocabulary"]

    @property
    def public_pairs(self) -> int | None:
        """Pairs of a case that count fully where they are public."""
        return _PURE_PAIRS if self.is_pure and self.max_pairs is None else self.max_pairs

    def pairs_sensitivity(self, max_pairs: int) -> Sensitivity:
        """By how much one unit changes the counts of pairs, in PAIR_UNITS-ths of a case.

        Args:
            max_pairs: Pairs of a case that count fully.
        """
        return of_scaled_pairs(max_pairs, PAIR_UNITS, 1 if self.is_pure else 2, self.max_units)

    def pairs_noise(self, max_pairs: int) -> SumNoise:
        """The noise on the counts of pairs.

        Args:
            max_pairs: Pairs of a case that count fully.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        changed = self.pairs_sensitivity(max_pairs)
        return self.spending.means["pairs"].noise(changed, PAIR_UNITS)

    def pairs_deviation(self, max_pairs: int) -> float:
        """Standard deviation of that noise in cases.

        Args:
            max_pairs: Pairs of a case that count fully.
        """
        return math.sqrt(variance_of(self.pairs_noise(max_pairs)))

    @property
    def fitness_noise(self) -> SumNoise:
        """The noise on the sums of what fits and what does not, in UNITS of a case.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        changed = of_shares(UNITS, self.max_units)
        return self.spending.means["fitness"].noise(changed, UNITS)

    def sizes(self, n_names: int) -> list[int]:
        """Returns how many pairs the candidates have, ascending and distinct.

        Args:
            n_names: Names of the vocabulary, which is public or paid for.
        """
        low, high = Fraction(self.min_size), Fraction(self.max_size)
        steps = max(1, self.n_sizes - 1)
        ratios = [low + (high - low) * i / steps for i in range(self.n_sizes)]
        most = n_names * (n_names + 2)  # all but the pair of start and end
        return sorted({min(most, max(1, math.ceil(ratio * n_names))) for ratio in ratios})

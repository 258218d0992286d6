"""Parameters of `process-tree`, and what they cost."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.calibration import gaussian_scale, laplace_scale
from tracecloak.anonymizers.accounting.composition import split
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_scaled_pairs, of_shares
from tracecloak.anonymizers.rigorous.cells import excess_of_pairs
from tracecloak.anonymizers.rigorous.names import ListedParams
from tracecloak.anonymizers.rigorous.params import BOUGHT_SHARE, Exact, drawable
from tracecloak.anonymizers.trees.counts import PAIR_UNITS
from tracecloak.anonymizers.trees.fitness import UNITS

_FITNESS_SHARE = Fraction(5, 100)


class ProcessTreeParams(ListedParams):
    """Parameters of `process-tree`."""

    max_pairs: int = Field(8, ge=2, le=10_000)
    """Distinct directly-follows pairs of a case that count fully, public; a case of more is scaled
    down. Noise grows with it: by its root, or in proportion with delta 0."""
    min_size: Exact = Field(Decimal("0.5"), gt=0, le=1000)
    """Pairs in the smallest candidate, for each name of the vocabulary. Public."""
    max_size: Exact = Field(Decimal(4), gt=0, le=1000)
    """Pairs in the largest candidate, for each name of the vocabulary. Public; large trees allow
    more than the log has."""
    n_sizes: int = Field(12, ge=1, le=100)
    """Sizes of candidates, evenly from min_size to max_size. More of them cost time, and no
    epsilon."""
    fitness_power: int = Field(8, ge=1, le=64)
    """How much more a misfit counts than what the tree allows beside the log: the choice is by
    precision times fitness to this power."""
    selection_share: Exact = Field(Decimal("0.2"), gt=0, lt=Decimal("0.6"))
    """Share of epsilon for the choice of a candidate; the rest is for the pairs."""
    ends_share: Exact = Field(Decimal("0.05"), ge=0, lt=Decimal("0.3"))
    """Share of epsilon for what begins and ends the parts of parallel cuts, for all cuts together;
    with 0 the pairs alone say it."""

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
    def shares(self) -> dict[str, tuple[Fraction, Fraction]]:
        """(epsilon, delta) of each part; they add up to those of the release.

        The vocabulary where it is bought, the pairs, the ends, the choice and its fitness.
        """
        epsilon, delta = self.budget
        parts = {"selection": Fraction(self.selection_share), "fitness": _FITNESS_SHARE}
        if self.ends_share:
            parts["ends"] = Fraction(self.ends_share)
        if self.vocabulary is None:
            parts["vocabulary"] = BOUGHT_SHARE
        parts["pairs"] = 1 - sum(parts.values(), Fraction(0))
        order = ("vocabulary", "pairs", "ends", "selection", "fitness")
        shares = split(epsilon, delta, {name: parts[name] for name in order if name in parts})
        for name in ("ends", "selection", "fitness"):  # pure: the pairs take their delta
            if name in shares:
                shares["pairs"] = (shares["pairs"][0], shares["pairs"][1] + shares[name][1])
                shares[name] = (shares[name][0], Fraction(0))
        return shares

    @property
    def pairs_sensitivity(self) -> Sensitivity:
        """By how much one unit changes the counts of pairs, in PAIR_UNITS-ths of a case."""
        return of_scaled_pairs(self.max_pairs, PAIR_UNITS, 1 if self.is_pure else 2, self.max_units)

    @property
    def pairs_scale(self) -> tuple[int, int]:
        """Scale of the noise on the counts of pairs, Laplace or Gaussian, in the same.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        epsilon, delta = self.shares["pairs"]
        if self.is_pure:
            return drawable(laplace_scale(epsilon, self.pairs_sensitivity))
        return drawable(gaussian_scale(epsilon, delta, self.pairs_sensitivity))

    @property
    def pairs_deviation(self) -> float:
        """Standard deviation of that noise in cases."""
        width = self.pairs_scale[0] / self.pairs_scale[1] / PAIR_UNITS
        return width * math.sqrt(2) if self.is_pure else width

    @property
    def fitness_scale(self) -> tuple[int, int]:
        """Scale of the noise on the sums of what fits and what does not, in UNITS of a case.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        epsilon, _ = self.shares["fitness"]
        return drawable(laplace_scale(epsilon, of_shares(UNITS, self.max_units)))

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

"""`auto-variants`: a Markov chain, a PrivTree or a stability histogram, whichever suits the log.

A twentieth of epsilon, or 1/40 if that is less, is for two noisy numbers that decide: that of the
cases that a stability histogram would be sure to keep, and that of all. The rest of epsilon is all
spent on one way: the chain where the histogram would keep less than a quarter of the cases, itself
where it would keep from half to three quarters, and the tree between and above.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_scale, stability_threshold
from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.accounting.sensitivity import of_count, of_one_cell
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.params import BOUGHT_SHARE, drawable
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.markov import MarkovVariants
from tracecloak.anonymizers.variants.privtree import PrivTree
from tracecloak.anonymizers.variants.stable_variants import released, stable_variants
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

# The bounds are the best found on three public logs and a synthetic one, by the earth mover's
# distance. Where variants hardly repeat, only the chain's pairs of activities have counts above
# their noise. Where most of the log is in few frequent variants, no split of epsilon over a tree is
# as good as the histogram. Where even rarer ones stand out, the tree also has what that drops.
_CHAIN_BELOW = Fraction(1, 4)
_HISTOGRAM_FROM = Fraction(1, 2)
_TREE_FROM = Fraction(3, 4)

# Of the choice: the balance decides, and the number of cases only says where its bounds are.
_SHARES = {"balance": Fraction(3, 4), "cases": Fraction(1, 4)}
# The noise on the balance then has a scale of 53; more is better spent on the variants.
_MOST_FOR_CHOICE = Fraction(1, 40)

Way = Literal["chain", "tree", "histogram"]


def choice_epsilon(epsilon: Fraction) -> Fraction:
    """Returns what of epsilon is spent on the choice."""
    return min(epsilon * BOUGHT_SHARE, _MOST_FOR_CHOICE)


def balance(counted: VariantHistogram, threshold: int) -> int:
    """Returns 2 sum of max(0, count - threshold + 1) over the variants, less the number of cases.

    One case more adds 1, or takes 1 away where its variant stays below the threshold: so it is a
    number of sensitivity 1, which the number of cases in variants above the threshold is not.
    """
    above = np.maximum(counted.counts - (threshold - 1), 0).sum()
    return 2 * int(above) - counted.n_cases


def way_of(noisy_balance: int, noisy_cases: int) -> Way:
    """Returns the way for a balance and a number of cases, which is taken to be 1 at least."""
    kept = (Fraction(noisy_balance, max(1, noisy_cases)) + 1) / 2
    if kept < _CHAIN_BELOW:
        return "chain"
    return "histogram" if _HISTOGRAM_FROM <= kept < _TREE_FROM else "tree"


class AutoVariants:
    """The generator `auto-variants`; see the module."""

    name: ClassVar[str] = "auto-variants"
    summary: ClassVar[str] = "variant histogram or Markov chain, whichever suits the log"
    is_pure: ClassVar[bool] = False
    # Of every way: which one the noise chooses must not decide whether there is a release.
    most_names: ClassVar[int | None] = MarkovVariants.most_names
    reality: ClassVar[str] = (
        "Two numbers with exact noise decide to spend the rest on a stability histogram of "
        "variants, a PrivTree of prefixes or a noisy Markov chain."
    )

    def __init__(self) -> None:
        """Has the generators for logs whose variants do not make a good histogram."""
        self._markov, self._tree = MarkovVariants(f"{self.name}/chain"), PrivTree()

    def spends(self, epsilon: Fraction, delta: Fraction, max_units: int) -> tuple[Spend, ...]:
        """Returns the decision's parts and that of the way it chose.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        choice = choice_epsilon(epsilon)
        rest = epsilon - choice
        for generator in (self._markov, self._tree):
            generator.spends(rest, delta, max_units)  # or is refused
        drawable(laplace_scale(rest, of_one_cell(max_units)))
        for number in _SHARES:
            self._scale(number, epsilon, max_units)
        return (
            Spend(f"{self.name} choice", "pure", choice, Fraction(0)),
            Spend(f"{self.name} variants", "approximate", rest, delta),
        )

    def explain(self, epsilon: Fraction, delta: Fraction, max_units: int) -> str:
        """Returns what it does."""
        choice = choice_epsilon(epsilon)
        rest = epsilon - choice
        return (
            f"decides with epsilon {decimal_text(choice)} between a histogram of "
            f"variants of at least {stability_threshold(rest, delta, max_units):,} noisy cases, a "
            f"tree, which {self._tree.explain(rest, delta, max_units)}, and a chain, which "
            f"{self._markov.explain(rest, delta, max_units)}"
        )

    def _scale(self, number: str, epsilon: Fraction, max_units: int) -> tuple[int, int]:
        own = choice_epsilon(epsilon) * _SHARES[number]
        return drawable(laplace_scale(own, of_count().of_cases(max_units)))

    def answer(
        self,
        counted: VariantHistogram,
        domain: Domain,
        epsilon: Fraction,
        delta: Fraction,
        randomness: Randomness,
    ) -> ReleasedVariants:
        """Returns the variants of the way that was chosen."""
        rest, units = epsilon - choice_epsilon(epsilon), domain.max_units
        threshold = stability_threshold(rest, delta, units)
        way = self._choose(counted, threshold, epsilon, units, randomness)
        if way == "chain":
            return self._markov.answer(counted, domain, rest, delta, randomness)
        if way == "tree":
            return self._tree.answer(counted, domain, rest, delta, randomness)
        prefix = f"{self.name}/histogram"
        kept = stable_variants(counted, rest, delta, units, randomness, prefix)
        return released(kept, domain.vocabulary)

    def _choose(
        self,
        counted: VariantHistogram,
        threshold: int,
        epsilon: Fraction,
        max_units: int,
        randomness: Randomness,
    ) -> Way:
        def noise(number: str) -> int:
            cell = cell_numbers(np.zeros(1, np.int64))
            stream = CellStream(randomness, f"{self.name}/choice/{number}", cell)
            return int(draw_laplace(stream, *self._scale(number, epsilon, max_units))[0])

        return way_of(
            balance(counted, threshold) + noise("balance"), counted.n_cases + noise("cases")
        )

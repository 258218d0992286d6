"""`auto-variants`: a stability histogram where cases repeat variants, else a Markov chain.

A twentieth of epsilon, or 1/40 if that is less, is for one noisy number that decides: how many
cases a stability histogram would be sure to keep, less a fifth of all cases. The rest is spent on
the histogram alone if that is positive, and on `markov-log` alone if not.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np

from anonymizers.accounting import Spend, decimal_text
from anonymizers.calibration import laplace_scale, stability_threshold
from anonymizers.markov_variants import MarkovVariants
from anonymizers.randomness import Randomness, cell_numbers
from anonymizers.rigorous import BOUGHT_SHARE, drawable
from anonymizers.samplers import CellStream, discrete_laplace
from anonymizers.stable_variants import released, stable_variants
from anonymizers.variant_generators import Domain
from schemas.released_variants import ReleasedVariants
from schemas.variants import VariantHistogram

# The histogram is taken where it keeps one in so many cases. Below, most of the log would be lost;
# above, what it keeps is right where the chain's is made up.
_ONE_IN = 5
# With this the noise on that number has a scale of 160 cases; more epsilon is better spent on the
# variants, where the number is that of hundreds of cases.
_MOST_FOR_CHOICE = Fraction(1, 40)


def choice_epsilon(epsilon: Fraction) -> Fraction:
    """Returns what of epsilon is spent on the choice."""
    return min(epsilon * BOUGHT_SHARE, _MOST_FOR_CHOICE)


def surplus(counted: VariantHistogram, threshold: int) -> int:
    """Returns 5 sum of max(0, count - threshold + 1) over the variants, less the number of cases.

    One case more adds 4, or takes 1 away where its variant stays below the threshold: so it is a
    number of sensitivity 4, which the number of cases in variants above the threshold is not.
    """
    above = np.maximum(counted.counts - (threshold - 1), 0).sum()
    return _ONE_IN * int(above) - counted.n_cases


class AutoVariants:
    """The generator `auto-variants`; see the module."""

    name: ClassVar[str] = "auto-variants"
    summary: ClassVar[str] = "variant histogram or Markov chain, whichever suits the log"
    is_pure: ClassVar[bool] = False
    reality: ClassVar[str] = (
        "A small part of epsilon decides, on one number with exact noise, to spend the rest on a "
        "stability histogram of variants or on cases drawn from a noisy Markov chain."
    )

    def __init__(self) -> None:
        """Has a Markov generator for logs that do not repeat variants."""
        self._markov = MarkovVariants(f"{self.name}/chain")

    def spends(self, epsilon: Fraction, delta: Fraction, max_units: int) -> tuple[Spend, ...]:
        """Returns the decision's part and that of the way it chose.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        choice = choice_epsilon(epsilon)
        rest = epsilon - choice
        self._markov.spends(rest, delta, max_units)  # or is refused
        drawable(laplace_scale(rest, max_units))
        scale = self._scale(choice, max_units)
        sensitivity = (_ONE_IN - 1) * max_units
        return (
            Spend(
                f"{self.name} choice", "discrete_laplace", choice, Fraction(0), scale, sensitivity
            ),
            Spend(f"{self.name} variants", "approximate", rest, delta),
        )

    def explain(self, epsilon: Fraction, delta: Fraction, max_units: int) -> str:
        """Returns what it does."""
        choice = choice_epsilon(epsilon)
        rest = epsilon - choice
        return (
            f"decides with epsilon {decimal_text(choice)} between a histogram of "
            f"variants of at least {stability_threshold(rest, delta, max_units):,} noisy cases and "
            f"a chain, which {self._markov.explain(rest, delta, max_units)}"
        )

    def _scale(self, epsilon: Fraction, max_units: int) -> tuple[int, int]:
        return drawable(laplace_scale(epsilon, (_ONE_IN - 1) * max_units))

    def answer(
        self,
        counted: VariantHistogram,
        domain: Domain,
        epsilon: Fraction,
        delta: Fraction,
        randomness: Randomness,
    ) -> ReleasedVariants:
        """Returns the variants of the way that was chosen.

        Raises:
            UsageError: The domain is too large, whatever the counts.
        """
        choice, units = choice_epsilon(epsilon), domain.max_units
        rest = epsilon - choice
        stream = CellStream(randomness, f"{self.name}/choice", cell_numbers(np.zeros(1, np.int64)))
        noise = discrete_laplace(stream, *self._scale(choice, units))
        if surplus(counted, stability_threshold(rest, delta, units)) + int(noise[0]) <= 0:
            return self._markov.answer(counted, domain, rest, delta, randomness)
        prefix = f"{self.name}/histogram"
        kept = stable_variants(counted, rest, delta, units, randomness, prefix)
        return released(kept, domain.vocabulary)

"""How far released variants will be from those of the log, by each way to make them.

Suppose that of 1,000 cases 400 are of variants that are too rare for a histogram. If there are few
activities, a noisy chain of their steps is still clear, and cases that are made up by it come
nearer to these 400 than leaving them out does. If there are many, noise hides the chain. So what to
expect follows from how many cases are rare, how many there are in all, how many activities are
public, and from noise that is known beforehand.

The first two are measured as a profile. Think of the cases of each variant as numbered, and count
each case in the bin of its number: of 70 cases of a variant, with a threshold of 17, 16 are in the
bin from 1 on, 51 in the bin from 17 on, and 3 in the bin from 68 on. One case more adds 1 to one
bin and changes no other.

What is expected is the earth mover's distance of variants, from 0 to 1: the least average share of
a case that must be edited (`examination.measure`). Its logarithm is taken to be linear in what a
profile says. That is a rule of thumb and no theorem: its coefficients were fitted to public logs,
and tests/support/ways_by_cell.py fits them again, and says how well they do on a log that they were
not fitted to. docs/explanation/decisions.md has the figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.anonymizers.variants.generator import CLEARLY_SHOWN, Domain, numbered_cases
from tracecloak.anonymizers.variants.joint_variants import pair_deviations
from tracecloak.schemas.statistics.variants import VariantHistogram

HISTOGRAM, JOINT, TREE = "histogram", "joint", "tree"

# A profile is taken together with some cases of a usual log, of which so many are rare: as many as
# two scales of its noise, and ten. So what noise hides is expected to be as usual.
_USUAL_SCALES, _USUAL_CASES, _USUAL_RARE = 2, 10, 0.4
# And with a few variants about the threshold, which may come out on either side of it.
_ABOUT_THRESHOLD = 0.1
_MOST_RARE = 1 - 1e-3
# Unseen cases that stand out less say nothing of the chain, and if they stand out more, no more.
_LEAST_OUT, _MOST_OUT = 0.4, 2.0
# Where all pairs are hidden by a chain's noise, partitions still say what occurs in so many cases.
_LEAST_OF_ALL_OUT = 1.0

COEFFICIENTS = {
    HISTOGRAM: (-1.202, 0.285, 0.084, -0.257, 0.71, 0.202, 0.075),
    JOINT: (-1.383, 0.285, 0.084, -0.257, 0.71, -0.403, -0.023),
    TREE: (-1.103, 0.285, 0.084, -0.257, 0.71, 0.202, -0.052),
}
"""Of each way, the coefficients of what `Profile.features` returns."""


@dataclass(frozen=True, eq=False)
class Profile:
    """How many cases have which number among the cases of their variant.

    Attributes:
        threshold: From how many noisy cases on a histogram shows a variant.
        cases: int64[3], cases with a number below the threshold, from it on, and from four times
            the threshold on; exact, or with noise of the same scale each.
    """

    threshold: int
    cases: np.ndarray

    @classmethod
    def of(cls, counted: VariantHistogram, threshold: int) -> Profile:
        """Counts exactly."""
        return cls(threshold, numbered_cases(counted, threshold))

    @property
    def n_unseen(self) -> int:
        """Cases that a histogram is not sure to show, at least 0."""
        return max(int(self.cases[0]), 0)

    def features(self, scale: float, domain: Domain, for_chain: Allowance) -> np.ndarray:
        """Returns what the distances are linear in.

        Args:
            scale: Of the noise of each number; 0 without noise.
            domain: What is public.
            for_chain: What the chain of `joint-variants` may spend.

        Returns:
            float64[7]: 1; the logit of the share of rare cases; the logarithms of the number of
            cases in thresholds, of how far pairs of activities stand out of a chain's noise, of the
            share of unseen cases, and of how far these stand out, within bounds; and by how much
            the logit exceeds the usual one, or 0.
        """
        usual = _USUAL_CASES + _USUAL_SCALES * scale
        known = max(float(self.cases.sum()), 0.0)
        unseen = (min(self.n_unseen, known) + _USUAL_RARE * usual) / (known + usual)
        n_cases, rare = self._rare(usual)
        stands_out = pair_deviations(n_cases, domain, for_chain)
        unseen_out = max(stands_out, _LEAST_OF_ALL_OUT) * unseen**2
        unseen_out = min(max(unseen_out, _LEAST_OUT), _MOST_OUT)
        logs = map(math.log, (n_cases / self.threshold, stands_out, unseen, unseen_out))
        logit = _logit(rare)
        return np.array([1.0, logit, *logs, max(logit - _logit(_USUAL_RARE), 0.0)])

    def _rare(self, usual: float) -> tuple[float, float]:
        """About how many cases there are, and which share is of variants below the threshold.

        A variant above the threshold has cases with a number below it, too. There are about as many
        such variants as have a case of each number in the second bin; there cannot be more than
        there are variants with a case of each number in the first one.
        """
        widths = np.array([self.threshold - 1, (CLEARLY_SHOWN - 1) * self.threshold])
        variants = np.maximum(self.cases[:2] / widths, 0)
        if variants[1] > variants[0]:
            variants[:] = max(float(self.cases[:2].sum()) / int(widths.sum()), 0.0)
        low, middle = (variants * widths).tolist()
        n_cases = low + middle + max(float(self.cases[2]), 0.0) + usual
        below = max(low - float(variants[1]) * (self.threshold - 1), 0.0)
        about = _ABOUT_THRESHOLD * self.threshold
        share = (below + _USUAL_RARE * usual + about) / (n_cases + 2 * about)
        return n_cases, min(share, _MOST_RARE)


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


def expected_distances(features: np.ndarray) -> dict[str, float]:
    """Returns the distance to expect of each way, above 0.

    Those above 1, which no distance is, still say which way is the nearest.

    Args:
        features: float64[7], see `Profile.features`.
    """
    values = features.tolist()
    return {
        way: math.exp(sum(a * b for a, b in zip(row, values, strict=True)))
        for way, row in COEFFICIENTS.items()
    }

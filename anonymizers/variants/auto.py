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
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream, draw_laplace
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous import budget
from tracecloak.anonymizers.rigorous.params import drawable
from tracecloak.anonymizers.variants import generator, markov
from tracecloak.anonymizers.variants.joint_variants import REPEATED, JointVariants, pair_deviations
from tracecloak.anonymizers.variants.privtree import PrivTree
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variant_flows import FlowCells, VariantFlows
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- How far released variants will be from those of the log, by each way to make them. -----------


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
        return cls(threshold, generator.numbered_cases(counted, threshold))

    @property
    def n_unseen(self) -> int:
        """Cases that a histogram is not sure to show, at least 0."""
        return max(int(self.cases[0]), 0)

    def features(
        self, scale: float, domain: generator.Domain, for_chain: budget.Allowance
    ) -> np.ndarray:
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
        widths = np.array([self.threshold - 1, (generator.CLEARLY_SHOWN - 1) * self.threshold])
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


# ---
# `auto-variants`: `joint-variants`, a histogram or a PrivTree, by which is expected to err least.
# Three hundredths of epsilon are for a profile: about how many cases are of variants that a
# histogram would show for sure, by little or by much, and about how many are not. With noise that
# is known beforehand and the number of activities, the distance of what each way would release
# follows from it (`anonymizers.variants.auto`), and the way of the least is taken:
# 1. `joint-variants`, whose chain makes up the cases that a histogram would not show. The cases
#    that would have been shown anyway come out worse, as they share the budget.
# 2. A histogram with Laplace noise. Three quarters of the cases that it misses are walks of the
#    chain of what it published, unless their number may be nothing but its noise.
# 3. A tree of prefixes: it stops where cases get few, and shows how these began. What it does takes
#    longer the longer its walks may be, so it takes cases for ended after event 100, or where a
#    declared length ends them before.
#
# Variants that were seen, and cases that go other ways through what was seen.
#
# What a threshold hides is mostly what cases rarely do between two things that many do. A chain of
# the published variants has some of that: it skips, repeats or leaves where only other variants
# did, and at other positions. It looks at nothing but released numbers, so it costs no privacy.


_CHOICE = Fraction(3, 100)
# The share of delta for the histogram's threshold. At a delta of 1e-6 a quarter costs the noise of
# `joint-variants` nothing, and raises the threshold by 10 %.
_OF_DELTA = Fraction(1, 4)
# Events of a case in the tree.
_LONGEST_IN_TREE = 100


class AutoVariants(JointVariants, name="auto-variants"):
    """The generator; see the module.

    Where something else of a release gets noise, too, it is `joint-variants` in any case.
    """

    reality: ClassVar[str] = (
        f"{JointVariants.reality} Or all of it is done by a PrivTree, or by a histogram of "
        "variants with a threshold, with what the choice between them leaves of epsilon; that "
        "choice is made by three numbers with exact Laplace noise, of which a case counts in one."
    )

    _tree: ClassVar[PrivTree] = PrivTree()  # for logs of which hardly a variant is seen

    def needs(self, max_units: int, max_length: int | None) -> tuple[budget.Need, ...]:
        """Returns what `joint-variants` needs, what the choice, and what is done in its place."""
        joint = super().needs(max_units, max_length)
        names = tuple(need.name for need in joint if isinstance(need, budget.Sums))
        tree = (
            budget.Instead(f"{self.name}/{need.name}", "privtree", need.share, names, need.largest)
            for need in self._tree.needs(max_units, max_length)
            if isinstance(need, budget.Pure)
        )
        cases = budget.Instead(
            *(f"{self.name}/histogram", "variant-histogram", Fraction(1), names),
            delta_share=_OF_DELTA,
        )
        return (budget.Choice(f"{self.name} choice", _CHOICE), *joint, *tree, cases)

    def explain(self, means: budget.Allowances, max_units: int) -> str:
        """Returns what it does."""
        joint = super().explain(means, max_units)
        if not self._has_others(means):
            return joint
        least = means[f"{self.name}/histogram"].threshold(of_one_cell(max_units))
        tree = self._tree.explain(self._tree_allowances(means), max_units)
        return sentence("generators", "auto", None, measured=joint, least=least, of_tree=tree)

    def answer(
        self,
        counted: VariantHistogram,
        domain: generator.Domain,
        means: budget.Allowances,
        randomness: Randomness,
    ) -> ReleasedVariants:
        """Returns the variants of the way that was chosen."""
        if not self._has_others(means):
            return super().answer(counted, domain, means, randomness)
        changed = of_one_cell(domain.max_units)
        width = drawable(laplace_scale(means[f"{self.name} choice"].epsilon, changed))
        exact = Profile.of(counted, means[f"{self.name}/histogram"].threshold(changed))
        cells = cell_numbers(np.arange(len(exact.cases)))
        noise = draw_laplace(CellStream(randomness, f"{self.name}/choice", cells), *width)
        profile, scale = replace(exact, cases=exact.cases + noise), float(Fraction(*width))
        for_chain = means[self.name].part(REPEATED.chain)
        distances = expected_distances(profile.features(scale, domain, for_chain))
        way = min(distances, key=lambda name: distances[name])
        if way == JOINT:
            return super().answer(counted, domain, means, randomness)
        if way == TREE:
            in_tree = replace(domain, max_length=min(domain.max_length, _LONGEST_IN_TREE))
            return self._tree.answer(counted, in_tree, self._tree_allowances(means), randomness)
        assert way == HISTOGRAM
        allowance, prefix = means[f"{self.name}/histogram"], f"{self.name}/histogram"
        seen = generator.stable_variants(counted, allowance, domain.max_units, randomness, prefix)
        # The cases below the threshold of each variant that was shown are no longer unseen.
        missing = profile.n_unseen - (profile.threshold - 1) * seen.n_variants
        if missing > scale:
            seen = completed(seen, profile.threshold, missing, domain, randomness, prefix)
        return generator.released(seen, domain.vocabulary)

    def _tree_allowances(self, means: budget.Allowances) -> budget.Allowances:
        names = (need.name for need in self._tree.needs(1, None))
        return {name: means[f"{self.name}/{name}"] for name in names}

    def _has_others(self, means: budget.Allowances) -> bool:
        return bool(means[f"{self.name}/histogram"].epsilon)


_CELLS = 2_000_000
# The share of the missing cases that are made up. The others are like nothing that is shown, and it
# costs more to put them in a wrong place than to leave them out.
_MADE_UP = 0.75
# The root of 12, in thousandths: see `completed`.
_ROOT_OF_12 = 3464


def completed(
    seen: VariantHistogram,
    threshold: int,
    n_missing: float,
    domain: generator.Domain,
    randomness: Randomness,
    prefix: str,
) -> VariantHistogram:
    """Returns the variants that were seen, and three quarters of the missing cases in others.

    What each arc has at each position is known but for the variants below the threshold, which may
    have anything up to it: a deviation of the threshold by the root of 12. So where the seen
    variants have few cases at a position, the chain goes on as elsewhere. Nothing is made up where
    it has no other walks.

    Args:
        seen: Noisy counts, as they are released.
        threshold: Smallest noisy count that is released.
        n_missing: About how many cases are of no variant among them; may be negative.
        domain: What is public.
        randomness: The release's.
        prefix: What the purposes begin with.
    """
    if n_missing <= 0 or not seen.n_variants:
        return seen
    cells = FlowCells.of(len(domain.vocabulary), domain.max_length, _CELLS)
    sums = VariantFlows.from_variants(seen, cells).unclipped_sums(cells)
    hidden = SumNoise((1000 * threshold, _ROOT_OF_12), 1, is_laplace=False)
    chain = markov.chain_of(sums, cells, hidden, _known(sums, cells))
    if chain is None:
        return seen
    walks = markov.walks_beside(seen, chain, domain.vocabulary, randomness, f"{prefix}/walk")
    if not walks.n_variants:
        return seen
    weights, n_made = walks.counts / walks.counts.sum(), _MADE_UP * n_missing
    drawn = markov.drawn_cases(walks.sequences, weights, n_made, randomness, f"{prefix}/draw")
    return VariantHistogram(
        pa.concat_arrays([seen.sequences, drawn.sequences]),
        np.concatenate([seen.counts, drawn.counts]),
    )


def _known(sums: np.ndarray, cells: FlowCells) -> markov.KnownEnds:
    """All arcs of what was seen, whatever the position: none of them is noise."""
    n, blocks = cells.n_names, cells.by_block(sums)
    return markov.KnownEnds(blocks[1, n, :n], blocks[2:, :n].sum(axis=0))

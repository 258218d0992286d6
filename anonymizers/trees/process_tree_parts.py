"""The parts of `process-tree`: what each counts, asks or chooses, with which noise.

The vocabulary comes first where it is bought; all others are of one round, each decided on what
those before it decided: the number of pairs, the pairs, what begins and ends parts of cuts, the
tree, and its fitness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.drawing import select
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.noise.sums import noisy_sums
from tracecloak.anonymizers.rigorous.bought import in_vocabulary, known_vocabulary
from tracecloak.anonymizers.rigorous.bought_vocabulary import vocabulary_part
from tracecloak.anonymizers.rigorous.cells import most_names_of_pairs
from tracecloak.anonymizers.rigorous.clip_by_rank import rank_of_clip
from tracecloak.anonymizers.rigorous.clips import choose_clip, norm_grid
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.trees.asked_ends import AskedEnds
from tracecloak.anonymizers.trees.counts import clipped_pairs, numbers_of_pairs
from tracecloak.anonymizers.trees.cuts import Relation, Rules, build_tree, top_pairs
from tracecloak.anonymizers.trees.fitness import (
    FITNESS_POWER,
    UNITS,
    fitness_sum,
    interval_of_share,
    score_sum,
)
from tracecloak.anonymizers.trees.process_tree_params import ProcessTreeParams
from tracecloak.anonymizers.trees.questions import HalvedBudget
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.models.process_tree import ProcessTree, flower, normalise
from tracecloak.schemas.statistics.variants import VariantHistogram

TREE = "tree"
"""The round of all parts but the vocabulary."""

_RULES: tuple[Rules, ...] = ("structural", "published")
# The most activities that can be bought: noise can be drawn for no more.
_MOST_NAMES = most_names_of_pairs(1)
# How much an error by noise weighs against one by counting fewer pairs when their number is chosen.
_WEIGHT_OF_NOISE = 1.5


@dataclass(frozen=True)
class Variants:
    """Cases by variant, over the vocabulary that was bought if one was."""

    kind: ClassVar[type[VariantHistogram]] = VariantHistogram

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> VariantHistogram:
        """Counts a batch."""
        return VariantHistogram.from_traces(in_vocabulary(traces, decisions))


_COUNTERS: Mapping[str, contract.Counter] = {"variants": Variants()}


def parts_of_tree(params: ProcessTreeParams) -> tuple[Part, ...]:
    """Returns the parts, each of the need of its name."""
    by_need = {
        "vocabulary": _vocabulary,
        "clip": _clip,
        "pairs": _pairs,
        "ends": _ends,
        "selection": _selection,
        "fitness": _fitness,
    }
    return tuple(by_need[need.name](params) for need in params.needs)


def _vocabulary(params: ProcessTreeParams) -> Part:
    of_unit = params.max_activities, params.max_units
    other = "; all others count as __other__"
    return vocabulary_part(*of_unit, other, most_names=_MOST_NAMES)


def _clip(params: ProcessTreeParams) -> Part:
    sentence = (
        "chooses how many distinct pairs of a case count fully, so that counting fewer takes about "
        "as much from the counts as their noise adds"
    )

    def decide(given: Given) -> int:
        variants = given.statistics["variants"]
        return chosen_pairs(variants, len(_names(given, params)), params, given.randomness)

    needs, chosen = params.needs_of("clip"), "number of pairs"
    return Part("clip", needs, lambda means: sentence, decide, _COUNTERS, TREE, chosen=chosen)


def _pairs(params: ProcessTreeParams) -> Part:
    known = params.public_pairs
    noise = "discrete Laplace" if params.is_pure else "discrete Gaussian"
    deviation = params.pairs_deviation(known or 1)
    sentence = (
        "counts in how many cases each pair of activities follows directly, with noise of a "
        f"standard deviation of {deviation:.1f} cases"
        + ("" if known else ", times the root of the bought number of pairs,")
        + " on every possible pair"
    )
    reality = (
        "One case changes the counts of pairs by a vector whose norm is bounded, exactly and in "
        f"integers; exact {noise} noise on every possible pair covers it, and the candidate trees "
        "follow from these counts."
    )

    def decide(given: Given) -> Relation:
        variants, n_names = given.statistics["variants"], len(_names(given, params))
        max_pairs = _counted_pairs(given, params)
        return noisy_relation(variants, n_names, max_pairs, params, given.randomness)

    needs = params.needs_of("pairs")
    return Part("pairs", needs, lambda means: sentence, decide, _COUNTERS, TREE, reality)


def _ends(params: ProcessTreeParams) -> Part:
    sentence = "counts what begins and ends the parts of parallel and loop cuts"
    reality = (
        "What begins and ends the parts of parallel and loop cuts is counted with noise from one "
        "budget, of which every question takes half of what is left."
    )

    def decide(given: Given) -> AskedEnds:
        budget = HalvedBudget(given.means["ends"].epsilon)
        variants = given.statistics["variants"]
        return AskedEnds(variants, budget, params.max_units, given.randomness)

    needs = params.needs_of("ends")
    return Part("ends", needs, lambda means: sentence, decide, _COUNTERS, TREE, reality)


def _selection(params: ProcessTreeParams) -> Part:
    sentence = (
        f"chooses between the trees of {params.n_sizes} numbers of pairs by precision times "
        f"fitness to the power of {FITNESS_POWER}"
    )
    reality = (
        "One of them is chosen by permute-and-flip on a score to which one case adds between 0 and "
        "1, whatever the tree, and its fitness is a sum of the same kind."
    )

    def decide(given: Given) -> ProcessTree:
        variants, names = given.statistics["variants"], _names(given, params)
        deviation = params.pairs_deviation(_counted_pairs(given, params))
        ends = given.decisions.get("ends")
        if ends is None:
            ends = AskedEnds(variants, None, params.max_units, given.randomness)
        trees = candidates(given.decisions["pairs"], deviation, names, ends, params)
        scores = [score_sum(tree, names, variants, FITNESS_POWER) for tree in trees]
        cells = cell_numbers(np.arange(len(trees)))
        chosen = select(
            CellStream(given.randomness, "process-tree/selection", cells),
            np.array(scores, np.int64),
            given.means["selection"].epsilon,
            Fraction(of_count(UNITS).of_cases(params.max_units).linf),
            monotone=True,  # a case adds something to each score, or is taken from each
        )
        return trees[chosen]

    needs = params.needs_of("selection")
    return Part("selection", needs, lambda means: sentence, decide, _COUNTERS, TREE, reality)


def _fitness(params: ProcessTreeParams) -> Part:
    sentence = (
        "says the mean share of a case that fits, out of sums with noise of "
        f"{params.fitness_noise.width / UNITS:.1f} cases"
    )

    def decide(given: Given) -> tuple[float, float, float] | None:
        variants, names = given.statistics["variants"], _names(given, params)
        tree: ProcessTree = given.decisions["selection"]
        return noisy_fitness(tree, names, variants, params, given.randomness)

    needs = params.needs_of("fitness")
    return Part("fitness", needs, lambda means: sentence, decide, _COUNTERS, TREE)


def _names(given: Given, params: ProcessTreeParams) -> list[str]:
    names: list[str] = known_vocabulary(params.words, given.decisions).names.to_pylist()
    return names


def _counted_pairs(given: Given, params: ProcessTreeParams) -> int:
    """How many distinct pairs of a case count fully, public or chosen on the log."""
    max_pairs = params.public_pairs
    return int(given.decisions["clip"]) if max_pairs is None else max_pairs


def chosen_pairs(
    variants: VariantHistogram, n_names: int, params: ProcessTreeParams, randomness: Randomness
) -> int:
    """Returns how many distinct pairs of a case count fully, chosen on the log."""
    grid, means = norm_grid(), params.spending.means
    bucket = np.searchsorted(grid, numbers_of_pairs(variants, n_names))
    cases = sum_groups(bucket, variants.counts, len(grid) + 1)
    noise_of_clip = params.pairs_deviation(1)
    rank = rank_of_clip(noise_of_clip, n_names * (n_names + 2), n_names, _WEIGHT_OF_NOISE)
    of_unit = params.max_units, randomness
    return choose_clip(cases, means["clip"], rank, *of_unit, "process-tree/clip")


def noisy_relation(
    variants: VariantHistogram,
    n_names: int,
    max_pairs: int,
    params: ProcessTreeParams,
    randomness: Randomness,
) -> Relation:
    """Returns the noisy counts of all pairs in cases, all but that of start and end."""
    exact = clipped_pairs(variants, n_names, max_pairs, 1 if params.is_pure else 2)
    noise, cells = params.pairs_noise(max_pairs), np.arange(exact.size)
    noisy = noisy_sums(exact.ravel(), noise, "process-tree/pairs", cells, randomness)
    counts = noisy.reshape(exact.shape) // noise.units
    holds = np.ones(exact.shape, bool)
    holds[-1, -1] = False
    return Relation(counts, holds)


def candidates(
    relation: Relation,
    deviation: float,
    names: Sequence[str],
    ends: AskedEnds,
    params: ProcessTreeParams,
) -> list[ProcessTree]:
    """Returns distinct trees of all sizes by both sets of rules, and the flower of all names.

    Beside those of the grid there is the size of all pairs that stand out of the noise.

    What is read of the log is what the questions about ends are answered with. The noise of each
    count of the relation has the deviation, in cases.
    """
    trees = {normalise(flower(names)): None}
    above_noise = deviation * math.sqrt(2 * math.log(relation.counts.size))
    n_clear = int((relation.holds & (relation.counts > above_noise)).sum())
    for size in (n_clear, *params.sizes(len(names))):
        strongest = top_pairs(relation, size)
        for rules in _RULES:
            trees[build_tree(strongest, names, 2 * deviation, ends.of(strongest), rules)] = None
    return list(trees)


def noisy_fitness(
    tree: ProcessTree,
    names: Sequence[str],
    variants: VariantHistogram,
    params: ProcessTreeParams,
    randomness: Randomness,
) -> tuple[float, float, float] | None:
    """Returns about which share of a case fits on average, from 0 to 1, and its 95 % interval.

    A case adds to what fits and to what does not, in total 1, and both sums have noise. None: it
    leaves no cases. What it makes of a share beyond 0 or 1 is cut. The interval is that of the
    quotient to first order (the delta method).
    """
    fits = fitness_sum(tree, names, variants, "share")
    sums = np.array([fits, variants.n_cases * UNITS - fits], np.int64)
    stream = CellStream(randomness, "process-tree/fitness", cell_numbers(np.arange(2)))
    noise = params.fitness_noise
    fitting, rest = (sums + noise.draw(stream)).tolist()
    if fitting + rest <= 0:
        return None
    share = min(max(fitting / (fitting + rest), 0.0), 1.0)
    half = noise.half_width * UNITS / (fitting + rest) * math.hypot(share, 1 - share)
    return share, *interval_of_share(share, half)

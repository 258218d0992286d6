"""`process-tree`: a process tree that is chosen for fitness and precision, under one epsilon.

The inductive miner on noisy counts, as DPIM has it (Schulze, Zisgen, Kirschke, Mohammadi and
Koschmider, "Differentially Private Inductive Miner"), with what its proof lacks: one case more or
less changes the cases of all pairs of activities together by a bounded amount, and noise on every
possible pair covers it. All candidates, the trees of the most frequent pairs for each size of a
public grid, follow from these same counts and cost nothing more. What begins and ends the parts of
parallel and loop cuts is asked from one budget for all cuts of all candidates. The choice is by
permute-and-flip (McKenna and Sheldon, 2020) on a score of which every case gives between 0 and 1:
the higher, the more of the case fits and the fewer other activities the tree would have allowed on
its way. So a tree that allows everything does not win, as it does where fitness alone counts. Last,
the fitness of the tree is said, with noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from tracecloak.anonymizers.accounting.by_case import divides_by_case
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.noise.drawing import select
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.noise.sums import noisy_sums
from tracecloak.anonymizers.rigorous.bought import (
    in_vocabulary,
    known_vocabulary,
    vocabulary_part,
)
from tracecloak.anonymizers.rigorous.cells import most_names_of_pairs
from tracecloak.anonymizers.rigorous.clip_by_rank import rank_of_clip
from tracecloak.anonymizers.rigorous.clips import choose_clip, norm_grid
from tracecloak.anonymizers.rigorous.params import DECLARED, guarantee_of
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.trees.counts import Part as TreePart
from tracecloak.anonymizers.trees.counts import clipped_pairs, numbers_of_pairs
from tracecloak.anonymizers.trees.cuts import PartEnds, Relation, Rules, build_tree, top_pairs
from tracecloak.anonymizers.trees.fitness import UNITS, fitness_sum, score_sum
from tracecloak.anonymizers.trees.process_tree_params import ProcessTreeParams
from tracecloak.anonymizers.trees.questions import (
    HalvedBudget,
    NoisyEnds,
    clearly_above_zero,
    noisy_ends,
    scale_of,
)
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.models.process_tree import Operator, ProcessTree, flower, normalise
from tracecloak.schemas.published.guarantee import Guarantee, Kind
from tracecloak.schemas.published.manifest import Operation
from tracecloak.schemas.published.tree import ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram

_RULES: tuple[Rules, ...] = ("structural", "published")
# That noise can be drawn for, if they are bought.
_MOST_NAMES = most_names_of_pairs(1)
# What noise counts for beside what counting fewer pairs takes.
_WEIGHT_OF_NOISE = 1.5
# A question is asked where what is clearly above its noise is at most so much of the cases.
_MOST_NOISE = 0.25


@dataclass(frozen=True)
class TreeDecision(contract.Decision):
    """What is released.

    Attributes:
        tree: The tree.
    """

    tree: ReleasedTree


@dataclass(frozen=True)
class Variants:
    """Cases by variant, over the vocabulary that was bought if one was."""

    kind: ClassVar[type[VariantHistogram]] = VariantHistogram

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> VariantHistogram:
        """Counts a batch."""
        return VariantHistogram.from_traces(in_vocabulary(traces, decisions))


def _vocabulary(params: ProcessTreeParams) -> Part:
    of_unit = params.max_activities, params.max_units
    other = "; all others count as __other__"
    return vocabulary_part(*of_unit, other, most_names=_MOST_NAMES)


class ProcessTreeMiner(contract.Anonymizer):
    """The method; see the module."""

    name: ClassVar[str] = "process-tree"
    summary: ClassVar[str] = "process tree chosen for fitness and precision"
    guarantee_kind: ClassVar[Kind] = "rigorous"
    log: ClassVar[Literal["none"]] = "none"
    Params: ClassVar[type[ProcessTreeParams]] = ProcessTreeParams
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("condensation", "event", "concept:name"),
    )
    exact_noise: ClassVar[bool] = True
    sums: ClassVar[Literal["none", "released", "pairs", "cells"]] = "cells"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"epsilon": "1", "vocabulary": ("A", "B", "C"), "max_pairs": 4},
        {"epsilon": "20", "delta": "1e-5", "buy_vocabulary": True, "n_sizes": 4},
        {"epsilon": "2", "delta": "0", "vocabulary": ("A", "B"), "ends_share": "0"},
        {"epsilon": "9", "vocabulary": ("A", "B"), "max_cases_per_individual": 2},
    )

    def bounds(self, params: ProcessTreeParams) -> ContributionBounds:
        """Returns the public caps."""
        return params.bounds

    def rounds(self, params: ProcessTreeParams) -> tuple[str, ...]:
        """Returns the rounds: the vocabulary where it is bought, and the tree."""
        return ("vocabulary", "tree") if params.vocabulary is None else ("tree",)

    def spends(self, params: ProcessTreeParams) -> tuple[Spend, ...]:
        """Returns the parts.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        return params.spending.spends()

    def shares_by_case(self, params: ProcessTreeParams) -> bool:
        """Returns whether j of m cases cost at most j/m of what is paid.

        Pairs are counted by case and scaled down case by case; each question is about sums to which
        a case adds at most once for each part, and a case raises every score by at most 1, so that
        j of them cost at most j/m of what the choice between trees has. How many questions are
        asked follows from noisy counts, and they all have their epsilons from one budget.
        """
        return divides_by_case(self.spends(params))

    def guarantee(self, params: ProcessTreeParams) -> Guarantee:
        """Returns the promise."""
        noise = "discrete Laplace" if params.is_pure else "discrete Gaussian"
        asked = (
            " What begins and ends the parts of parallel and loop cuts is counted with noise from "
            "one budget, of which every question takes half of what is left."
            if params.ends_share
            else ""
        )
        names = {"vocabulary": "vocabulary", "clip": "number of pairs"}
        found = [names[need.name] for need in params.needs if need.name in names]
        bought = f" Chosen on the log and paid for: {' and '.join(found)}." if found else ""
        return guarantee_of(
            params,
            self.spends(params),
            f"One case changes the counts of pairs by a vector whose norm is bounded, exactly and "
            f"in integers; exact {noise} noise on every possible pair covers it, and the candidate "
            f"trees follow from these counts.{asked} One of them is chosen by permute-and-flip on "
            "a score to which one case adds between 0 and 1, whatever the tree, and its fitness "
            f"is a sum of the same kind.{bought}",
            DECLARED,
        )

    def explain(self, params: ProcessTreeParams) -> tuple[str, ...]:
        """Returns a sentence a part, with the error to expect."""
        known = params.public_pairs
        said = {
            "clip": "chooses how many distinct pairs of a case count fully, so that counting fewer "
            "takes about as much from the counts as their noise adds",
            "pairs": "counts in how many cases each pair of activities follows directly, with "
            f"noise of a standard deviation of {params.pairs_deviation(known or 1):.1f} cases"
            + ("" if known else ", times the root of the bought number of pairs,")
            + " on every possible pair",
            "ends": "counts what begins and ends the parts of parallel and loop cuts",
            "selection": f"chooses between the trees of {params.n_sizes} numbers of pairs by "
            f"precision times fitness to the power of {params.fitness_power}",
            "fitness": "says the mean share of a case that fits, out of sums with noise of "
            f"{params.fitness_noise.width / UNITS:.1f} cases",
        }
        budget = params.spending
        if params.vocabulary is None:
            said["vocabulary"] = _vocabulary(params).sentence(budget.means)
        sentences = [f"{n.name}: {said[n.name]}; {budget.means[n.name].text}" for n in params.needs]
        return (*sentences, budget.explanation) if budget.explanation else tuple(sentences)

    def requires(
        self, round_name: str, params: ProcessTreeParams
    ) -> Mapping[str, contract.Counter]:
        """Returns the counters of a round."""
        if round_name == "vocabulary":
            return _vocabulary(params).counters
        return {"variants": Variants()}

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: ProcessTreeParams,
        randomness: Randomness,
    ) -> contract.Decision:
        """Decides a round."""
        if round_name == "vocabulary":
            means = params.spending.means
            given = Given(statistics, decisions, means, randomness)
            bought: contract.Decision = _vocabulary(params).decide(given)
            return bought
        vocabulary = known_vocabulary(params.words, decisions)
        return TreeDecision(self.mined(statistics["variants"], vocabulary, params, randomness))

    def mined(
        self,
        variants: VariantHistogram,
        vocabulary: ActivityVocabulary,
        params: ProcessTreeParams,
        randomness: Randomness,
    ) -> ReleasedTree:
        """Returns the tree of a log."""
        names = vocabulary.names.to_pylist()
        max_pairs = self.counted_pairs(variants, len(names), params, randomness)
        relation = self.noisy_relation(variants, len(names), max_pairs, params, randomness)
        deviation = params.pairs_deviation(max_pairs)
        candidates = self.candidates(relation, deviation, names, variants, params, randomness)
        scores = np.array(
            [score_sum(tree, names, variants, params.fitness_power) for tree in candidates],
            np.int64,
        )
        cells = cell_numbers(np.arange(len(candidates)))
        chosen = select(
            CellStream(randomness, "process-tree/selection", cells),
            scores,
            params.spending.means["selection"].epsilon,
            Fraction(of_count(UNITS).of_cases(params.max_units).linf),
            monotone=True,  # a case adds something to each score, or is taken from each
        )
        tree = candidates[chosen]
        fitness = self.noisy_fitness(tree, names, variants, params, randomness)
        return ReleasedTree(vocabulary.names, str(tree), True, fitness)

    def counted_pairs(
        self,
        variants: VariantHistogram,
        n_names: int,
        params: ProcessTreeParams,
        randomness: Randomness,
    ) -> int:
        """Returns how many distinct pairs of a case count fully, public or chosen on the log."""
        if params.public_pairs is not None:
            return params.public_pairs
        grid, means = norm_grid(), params.spending.means
        bucket = np.searchsorted(grid, numbers_of_pairs(variants, n_names))
        cases = sum_groups(bucket, variants.counts, len(grid) + 1)
        noise_of_clip = params.pairs_deviation(1)
        rank = rank_of_clip(noise_of_clip, n_names * (n_names + 2), n_names, _WEIGHT_OF_NOISE)
        of_unit = params.max_units, randomness
        return choose_clip(cases, means["clip"], rank, *of_unit, "process-tree/clip")

    def noisy_relation(
        self,
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
        self,
        relation: Relation,
        deviation: float,
        names: Sequence[str],
        variants: VariantHistogram,
        params: ProcessTreeParams,
        randomness: Randomness,
    ) -> list[ProcessTree]:
        """Returns distinct trees of all sizes by both sets of rules, and the flower of all names.

        Beside those of the grid there is the size of all pairs that stand out of the noise.

        What is read of the log is what the questions about ends are answered with. The noise of
        each count of the relation has the deviation, in cases.
        """
        ends = _Ends(variants, params, randomness)
        found = {normalise(flower(names)): None}
        above_noise = deviation * math.sqrt(2 * math.log(relation.counts.size))
        n_clear = int((relation.holds & (relation.counts > above_noise)).sum())
        for size in (n_clear, *params.sizes(len(names))):
            chosen = top_pairs(relation, size)
            for rules in _RULES:
                tree = build_tree(chosen, names, 2 * deviation, ends.of(chosen), rules)
                found[tree] = None
        return list(found)

    def noisy_fitness(
        self,
        tree: ProcessTree,
        names: Sequence[str],
        variants: VariantHistogram,
        params: ProcessTreeParams,
        randomness: Randomness,
    ) -> float | None:
        """Returns about which share of a case fits on average, from 0 to 1.

        A case adds to what fits and to what does not, in total 1, and both sums have noise. None:
        it leaves no cases. What it makes of a share beyond 0 or 1 is cut.
        """
        fits = fitness_sum(tree, names, variants, "share")
        sums = np.array([fits, variants.n_cases * UNITS - fits], np.int64)
        stream = CellStream(randomness, "process-tree/fitness", cell_numbers(np.arange(2)))
        fitting, rest = (sums + params.fitness_noise.draw(stream)).tolist()
        return min(max(fitting / (fitting + rest), 0.0), 1.0) if fitting + rest > 0 else None

    def writes(self, params: ProcessTreeParams) -> tuple[str, ...]:
        """Returns the name of the product."""
        return ("tree",)

    def products(
        self, decisions: contract.Decisions, params: ProcessTreeParams
    ) -> contract.Products:
        """Returns the tree."""
        return contract.Products({"tree": decisions["tree"].tree})


class _Ends:
    """Answers the questions of all candidates from one budget; what was asked once is kept."""

    def __init__(
        self,
        variants: VariantHistogram,
        params: ProcessTreeParams,
        randomness: Randomness,
    ) -> None:
        self.variants = variants
        self.params = params
        self.randomness = randomness
        self.budget: HalvedBudget | None = None
        if params.ends_share:
            self.budget = HalvedBudget(params.spending.means["ends"].epsilon)
        self.known: dict[tuple[TreePart, ...], tuple[NoisyEnds, float]] = {}

    def of(
        self, relation: Relation
    ) -> Callable[[Operator, Sequence[TreePart], int], Sequence[PartEnds]]:
        """Returns what the miner of a relation asks."""
        n = relation.n_activities
        starts, ends = relation.holds[n, :n], relation.holds[:n, n]
        n_cases = int(relation.counts[n, :n][starts].sum())

        def answer(operator: Operator, parts: Sequence[TreePart], depth: int) -> list[PartEnds]:
            known = self._asked(tuple(part for part in parts if len(part) > 1), n, n_cases)
            return [
                PartEnds(
                    _clear(part, starts, known and (known[0].starts, known[1])),
                    _clear(part, ends, known and (known[0].ends, known[1])),
                )
                for part in parts
            ]

        return answer

    def _asked(
        self, parts: tuple[TreePart, ...], n: int, n_cases: int
    ) -> tuple[NoisyEnds, float] | None:
        """The noisy counts and what is clearly above 0; None where it is not worth asking."""
        if parts in self.known or not parts or self.budget is None:
            return self.known.get(parts)
        scale = scale_of(self.budget.peek(), len(parts), self.params.max_units)
        if clearly_above_zero(scale) > _MOST_NOISE * n_cases:
            return None
        self.budget.draw()
        found = noisy_ends(
            self.variants,
            n,
            parts,
            scale,
            self.randomness,
            f"process-tree/ends/{len(self.known)}",
        )
        self.known[parts] = found, clearly_above_zero(scale)
        return self.known[parts]


def _clear(
    part: TreePart, in_relation: np.ndarray, known: tuple[np.ndarray, float] | None
) -> frozenset[int]:
    """Activities of a part that clearly begin or end it, or those of the relation if none does."""
    if known is not None:
        counts, threshold = known
        clear = frozenset(code for code in part if counts[code] >= threshold)
        if clear:
            return clear
    return frozenset(code for code in part if in_relation[code])

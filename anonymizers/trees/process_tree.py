"""`process-tree`: a process tree that is chosen for fitness and precision, under one epsilon.

Noisy answers to which activities begin and end the parts of a cut are here as well, from one budget
for all questions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting import sensitivity
from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import of_distinct_cells
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.sentences import told
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream, draw_laplace
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums
from tracecloak.anonymizers.rigorous import bought
from tracecloak.anonymizers.rigorous.budget import Allowances, Budget, Choice, Need, Sums
from tracecloak.anonymizers.rigorous.clips import RANKS_SHARE, choose_clip, norm_grid, ranks_need
from tracecloak.anonymizers.rigorous.names import ListedParams, excess_of_names, most_names_of_pairs
from tracecloak.anonymizers.rigorous.params import Exact
from tracecloak.anonymizers.rigorous.parts_method import (
    Given,
    PartsMethod,
    budget_of_parts,
    noisy_part,
)
from tracecloak.anonymizers.rigorous.parts_method import Part as BudgetPart
from tracecloak.anonymizers.trees import cuts
from tracecloak.anonymizers.trees.fitness import (
    FITNESS_POWER,
    UNITS,
    fitness_sum,
    interval_of_share,
    score_sum,
)
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.models import ProcessTree, flower, normalise
from tracecloak.schemas.published.graph import ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram

# ---
# Noisy answers to which activities begin and end the parts of a cut, and what all answers cost.
# A miner that works on a directly-follows relation does not know which activities come first and
# last within a part of a parallel or loop cut. DetectS_E of DPIM (Schulze, Zisgen, Kirschke,
# Mohammadi and Koschmider, "Differentially Private Inductive Miner", algorithm 5) counts it on the
# log projected to the parts, with Laplace noise, and takes what is clearly above 0. The cost of a
# question is halved from one to the next, so that any number of them stays within a budget. In the
# paper it is halved along each path of the tree: cuts beside each other each spend as much, and
# together more than the budget. Here the halving goes over all questions that are asked.
#
# What begins and ends the parts of parallel and loop cuts, asked of the log from one budget.


def clear_ends(
    variants: VariantHistogram,
    n_activities: int,
    parts: Sequence[cuts.Part],
    scale: tuple[int, int],
    randomness: Randomness,
    purpose: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns bool[n] twice: which activities clearly come first and last in a part.

    By noisy numbers of cases; every activity of the parts has noise.

    Args:
        variants: Of the log.
        n_activities: n.
        parts: Disjoint, of codes.
        scale: Of discrete Laplace noise. A case more counts once among the starts and once among
            the ends of each part.
        randomness: The release's.
        purpose: One of its own for each question.
    """
    asked = np.array(sorted(code for part in parts for code in part), np.int64)
    starts, ends = (np.zeros(n_activities, bool) for _ in range(2))
    counted = cuts.cases_by_ends(variants, n_activities, parts)
    for clear, exact, which in zip((starts, ends), counted, ("start", "end"), strict=True):
        stream = CellStream(randomness, f"{purpose}/{which}", cell_numbers(asked))
        clear[asked] = exact[asked] + draw_laplace(stream, *scale) >= clearly_above_zero(scale)
    return starts, ends


def clearly_above_zero(scale: tuple[int, int]) -> float:
    """Returns two standard deviations of Laplace noise, sqrt(8) scales: DPIM's threshold."""
    return math.sqrt(8) * scale[0] / scale[1]


# A question is asked only if the least number that is clearly above its noise is at most this share
# of the cases.
_MOST_NOISE = 0.25


@dataclass
class EndsEstimator:
    """Answers the questions of all candidates from one budget; what was asked once is kept.

    Attributes:
        variants: Of the log, exact; they are looked at with noise alone.
        epsilon: What all questions together may spend, of which every one has half of what is left,
            so that they never add up to it; None: none is asked.
        max_units: Cases of one unit.
        randomness: The release's.
        known: By the parts that were asked about, what `clear_ends` answered.
    """

    variants: VariantHistogram
    epsilon: Fraction | None
    max_units: int
    randomness: Randomness
    known: dict[tuple[cuts.Part, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def of(self, relation: cuts.Relation) -> cuts.EndsOfParts:
        """Returns what the miner of a relation asks."""
        n = relation.n_activities
        starts, ends = relation.holds[n, :n], relation.holds[:n, n]
        n_cases = int(relation.counts[n, :n][starts].sum())

        def answer(parts: Sequence[cuts.Part]) -> tuple[np.ndarray, np.ndarray]:
            known = self._asked(tuple(part for part in parts if len(part) > 1), n, n_cases)
            first, last = known or (np.zeros(n, bool), np.zeros(n, bool))
            return _clear(parts, starts, first), _clear(parts, ends, last)

        return answer

    def _asked(
        self, parts: tuple[cuts.Part, ...], n: int, n_cases: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """See `clear_ends`; None where it is not worth asking."""
        if parts in self.known or not parts or self.epsilon is None:
            return self.known.get(parts)
        epsilon = self.epsilon / 2 ** (len(self.known) + 1)
        scale = laplace_scale(epsilon, of_distinct_cells(2 * len(parts), self.max_units))
        if clearly_above_zero(scale) > _MOST_NOISE * n_cases:
            return None
        purpose = f"process-tree/ends/{len(self.known)}"
        own = n, parts, scale, self.randomness, purpose
        return self.known.setdefault(parts, clear_ends(self.variants, *own))


def _clear(parts: Sequence[cuts.Part], in_relation: np.ndarray, is_clear: np.ndarray) -> np.ndarray:
    """bool[n]: what clearly begins or ends each part, or what does in the relation if nothing."""
    known = is_clear.copy()
    for part in map(list, parts):
        if not is_clear[part].any():
            known[part] = in_relation[part]
    return known


# --- `process-tree`: a process tree that is chosen for fitness and precision, under one epsilon. --
# The inductive miner on noisy counts, as DPIM has it (Schulze, Zisgen, Kirschke, Mohammadi and
# Koschmider, "Differentially Private Inductive Miner"), with what its proof lacks: one case more
# or less changes the cases of all pairs of activities together by a bounded amount, and noise on
# every possible pair covers it. All candidates, the trees of the most frequent pairs for each
# size of a public grid, follow from these same counts and cost nothing more. What begins and ends
# the parts of parallel and loop cuts is asked from one budget for all cuts of all candidates. The
# choice is by permute-and-flip (McKenna and Sheldon, 2020) on a score of which every case gives
# between 0 and 1: the higher, the more of the case fits and the fewer other activities the tree
# would have allowed on its way. So a tree that allows everything does not win, as it does where
# fitness alone counts. Last, the fitness of the tree is said, with noise.
#
# The vocabulary comes first where it is bought; all other parts are of one round, each decided on
# what those before it decided: the number of pairs, the pairs, what begins and ends parts of
# cuts, the tree, and its fitness.


_PAIRS_SHARE, _FITNESS_SHARE = Fraction(95, 100), Fraction(5, 100)
# So many pairs of a case count fully at delta 0 if `max_pairs` is not given.
_PURE_PAIRS = 8


class ProcessTreeParams(ListedParams):
    """Parameters of `process-tree`."""

    max_pairs: int | None = Field(default=None, ge=2, le=10_000)
    """Distinct directly-follows pairs of a case that count fully, public; a case of more is scaled
    down. Without it a number is bought that takes about as much from the counts as noise adds; with
    delta 0 it is 8. Noise grows with it: by its root, or in proportion with delta 0."""
    min_size: Exact = Field(default=Decimal("0.5"), gt=0, le=1000)
    """Pairs in the smallest candidate, for each name of the vocabulary. Public."""
    max_size: Exact = Field(default=Decimal(4), gt=0, le=1000)
    """Pairs in the largest candidate, for each name of the vocabulary. Public; large trees allow
    more than the log has."""
    n_sizes: int = Field(default=12, ge=1, le=100)
    """Sizes of candidates, evenly from min_size to max_size. More of them cost time, and no
    epsilon."""
    selection_share: Exact = Field(default=Decimal("0.1"), gt=0, lt=Decimal("0.6"))
    """Share of epsilon for the choice of a candidate; the rest is for the pairs."""
    ends_share: Exact = Field(default=Decimal("0.05"), ge=0, lt=Decimal("0.3"))
    """Share of epsilon for what begins and ends the parts of parallel and loop cuts, for all cuts
    together; with 0 the pairs alone say it."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> ProcessTreeParams:
        if self.min_size > self.max_size:
            raise ValueError("min_size must be at most max_size")
        if excess := excess_of_names(self.n_words, most_names_of_pairs(1)):
            raise ValueError(excess)
        self.check_names()
        return self

    @property
    def is_pure(self) -> bool:
        """Whether delta is 0 and the noise on pairs Laplace."""
        return self.delta == 0

    @property
    def spending(self) -> Budget:
        """What each need may spend."""
        return budget_of_parts(self.parts, *self.budget)

    @property
    def parts(self) -> tuple[BudgetPart, ...]:
        """The parts in their order.

        The vocabulary and the number of pairs where they are bought, the pairs, the ends, the
        choice and its fitness.
        """
        parts = []
        if self.vocabulary is None:
            other = "; all others count as __other__"
            parts.append(bought.vocabulary_part(self, other, most_names=_MOST_NAMES))
        if self.public_pairs is None:
            parts.append(_clip(self))
        parts.append(_pairs(self))
        if self.ends_share:
            parts.append(_ends(self))
        return (*parts, _selection(self), _fitness(self))

    @property
    def public_pairs(self) -> int | None:
        """Pairs of a case that count fully where they are public."""
        return _PURE_PAIRS if self.is_pure and self.max_pairs is None else self.max_pairs

    def pairs_sensitivity(self, max_pairs: int) -> sensitivity.Sensitivity:
        """By how much one unit changes the counts of pairs, in cuts.PAIR_UNITS-ths of a case.

        Args:
            max_pairs: Pairs of a case that count fully.
        """
        return sensitivity.of_scaled_pairs(
            max_pairs, cuts.PAIR_UNITS, 1 if self.is_pure else 2, self.max_units
        )

    def pairs_noise(self, max_pairs: int) -> SumNoise:
        """The noise on the counts of pairs.

        Args:
            max_pairs: Pairs of a case that count fully.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        changed = self.pairs_sensitivity(max_pairs)
        return self.spending.means["pairs"].noise(changed, cuts.PAIR_UNITS)

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


TREE = "tree"
"""The round of all parts but the vocabulary."""

# The most activities that can be bought: noise can be drawn for no more.
_MOST_NAMES = most_names_of_pairs(1)
# How much an error by noise weighs against one by counting fewer pairs when their number is chosen.
_WEIGHT_OF_NOISE = 1.5


def _part(
    need: Need,
    sentence: Callable[[Allowances], str],
    decide: Callable[[Given], Any],
    reality: str = "",
    chosen: str = "",
) -> BudgetPart:
    """A part of the tree's round, which has the name of its need."""
    counters = {"variants": bought.VARIANTS_IN_DOMAIN}
    return BudgetPart(need.name, (need,), sentence, decide, counters, TREE, reality, chosen)


def _clip(params: ProcessTreeParams) -> BudgetPart:
    def decide(given: Given) -> int:
        variants, n_names = given.statistics["variants"], len(_names(given, params))
        grid = norm_grid()
        bucket = np.searchsorted(grid, cuts.numbers_of_pairs(variants, n_names))
        cases = sum_groups(bucket, variants.counts, len(grid) + 1)
        deviation = params.pairs_noise(1).deviation
        rank = bought.rank_of_clip(deviation, n_names * (n_names + 2), n_names, _WEIGHT_OF_NOISE)
        unit = params.max_units, given.randomness
        return choose_clip(cases, given.means["clip"], rank, *unit, "process-tree/clip")

    return _part(
        ranks_need("clip", _PAIRS_SHARE * RANKS_SHARE, params.max_units),
        told("process-tree", "clip", params),
        decide,
        chosen="number of pairs",
    )


def _pairs(params: ProcessTreeParams) -> BudgetPart:
    known = params.public_pairs
    if known is None:
        share, largest = _PAIRS_SHARE * (1 - RANKS_SHARE), int(norm_grid()[-1])
        changed = params.pairs_sensitivity(1), params.pairs_sensitivity(largest)
        need = Sums(
            "pairs", share, changed[0], cuts.PAIR_UNITS, is_any_clip=True, largest=changed[1]
        )
    else:
        need = Sums("pairs", _PAIRS_SHARE, params.pairs_sensitivity(known), cuts.PAIR_UNITS)

    noise = "discrete Laplace" if params.is_pure else "discrete Gaussian"
    reality = (
        "One case changes the counts of pairs by a vector whose norm is bounded, exactly and in "
        f"integers; exact {noise} noise on every possible pair covers it, and the candidate trees "
        "follow from these counts."
    )
    does = told("process-tree", "pairs", params)
    return _part(need, does, partial(noisy_relation, params=params), reality)


def _ends(params: ProcessTreeParams) -> BudgetPart:
    def decide(given: Given) -> EndsEstimator:
        variants, epsilon = given.statistics["variants"], given.means["ends"].epsilon
        return EndsEstimator(variants, epsilon, params.max_units, given.randomness)

    return _part(
        Choice("ends", Fraction(params.ends_share)),
        lambda means: "counts what begins and ends the parts of parallel and loop cuts",
        decide,
        "What begins and ends the parts of parallel and loop cuts is counted with noise from one "
        "budget, of which every question takes half of what is left.",
    )


def _selection(params: ProcessTreeParams) -> BudgetPart:
    def decide(given: Given) -> ProcessTree:
        variants, names = given.statistics["variants"], _names(given, params)
        deviation = params.pairs_noise(_counted_pairs(given, params)).deviation
        ends = given.decisions.get("ends")
        if ends is None:
            ends = EndsEstimator(variants, None, params.max_units, given.randomness)
        # Those of the grid, and that of all pairs that stand out of the noise. What is read of the
        # log is what the questions about ends are answered with.
        relation: cuts.Relation = given.decisions["pairs"]
        above_noise = deviation * math.sqrt(2 * math.log(relation.counts.size))
        n_clear = int((relation.holds & (relation.counts > above_noise)).sum())
        strongest = [cuts.top_pairs(relation, n) for n in (n_clear, *params.sizes(len(names)))]
        made = (
            cuts.TreeBuilder(pairs, names, 2 * deviation, ends.of(pairs), is_published).tree()
            for pairs, is_published in itertools.product(strongest, (False, True))
        )
        trees = list(dict.fromkeys([normalise(flower(names)), *made]))
        scores = [score_sum(tree, names, variants, FITNESS_POWER) for tree in trees]
        cells = cell_numbers(np.arange(len(trees)))
        stream = CellStream(given.randomness, "process-tree/selection", cells)
        chosen = stream.noise.select(
            stream,
            np.array(scores, np.int64),
            given.means["selection"].epsilon,
            Fraction(sensitivity.of_count(UNITS).of_cases(params.max_units).linf),
            monotone=True,  # a case adds something to each score, or is taken from each
        )
        return trees[chosen]

    return _part(
        Choice("selection", Fraction(params.selection_share)),
        told("process-tree", "selection", params, power=FITNESS_POWER),
        decide,
        "One of them is chosen by permute-and-flip on a score to which one case adds between 0 and "
        "1, whatever the tree, and its fitness is a sum of the same kind.",
    )


def _fitness(params: ProcessTreeParams) -> BudgetPart:
    return noisy_part(
        Sums("fitness", _FITNESS_SHARE, sensitivity.of_shares(UNITS, params.max_units), UNITS),
        {"variants": bought.VARIANTS_IN_DOMAIN},
        told("process-tree", "fitness", params),
        partial(noisy_fitness, params=params),
        TREE,
    )


def _names(given: Given, params: ProcessTreeParams) -> list[str]:
    names: list[str] = bought.vocabulary_in_effect(params.words, given.decisions).names.to_pylist()
    return names


def _counted_pairs(given: Given, params: ProcessTreeParams) -> int:
    """How many distinct pairs of a case count fully, public or chosen on the log."""
    max_pairs = params.public_pairs
    return int(given.decisions["clip"]) if max_pairs is None else max_pairs


def noisy_relation(given: Given, params: ProcessTreeParams) -> cuts.Relation:
    """Returns the noisy counts of all pairs in cases, all but that of start and end."""
    variants, n_names = given.statistics["variants"], len(_names(given, params))
    max_pairs = _counted_pairs(given, params)
    exact = cuts.clipped_pairs(variants, n_names, max_pairs, 1 if params.is_pure else 2)
    noise, cells = params.pairs_noise(max_pairs), np.arange(exact.size)
    noisy = noisy_sums(exact.ravel(), noise, "process-tree/pairs", cells, given.randomness)
    counts = noisy.reshape(exact.shape) // noise.units
    holds = np.ones(exact.shape, bool)
    holds[-1, -1] = False
    return cuts.Relation(counts, holds)


def noisy_fitness(
    given: Given, noise: SumNoise, params: ProcessTreeParams
) -> tuple[float, float, float] | None:
    """Returns about which share of a case fits on average, from 0 to 1, and its 95 % interval.

    A case adds to what fits and to what does not, in total 1, and both sums have noise. None: it
    leaves no cases. What it makes of a share beyond 0 or 1 is cut. The interval is that of the
    quotient to first order (the delta method).
    """
    variants = given.statistics["variants"]
    fits = fitness_sum(given.decisions["selection"], _names(given, params), variants)
    sums = np.array([fits, variants.n_cases * UNITS - fits], np.int64)
    stream = CellStream(given.randomness, "process-tree/fitness", cell_numbers(np.arange(2)))
    fitting, rest = (sums + noise.draw(stream)).tolist()
    if fitting + rest <= 0:
        return None
    share = min(max(fitting / (fitting + rest), 0.0), 1.0)
    half = noise.half_width * UNITS / (fitting + rest) * math.hypot(share, 1 - share)
    return share, *interval_of_share(share, half)


class TreeDecision(contract.Decision, wire_name="tree"):
    """What is released.

    Attributes:
        tree: The tree.
    """

    tree: ReleasedTree


class ProcessTreeMiner(PartsMethod, name="process-tree"):
    """The method; see the module."""

    Params: ClassVar[type[ProcessTreeParams]] = ProcessTreeParams

    def moves_by_case(self, params: ProcessTreeParams) -> bool:
        """Pairs are counted by case and scaled down case by case.

        Each question is about sums to which a case adds at most once for each part, and a case
        raises every score by at most 1, so that j of them cost at most j/m of what the choice
        between trees has. How many questions are asked follows from noisy counts, and they all
        have their epsilons from one budget.
        """
        return True

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: ProcessTreeParams
    ) -> contract.Decision:
        """Returns the vocabulary that was bought, or the tree with its fitness."""
        if round_name != TREE:
            return super().combined(round_name, decided, given, params)
        names = bought.vocabulary_in_effect(params.words, given.decisions).names
        fitness = decided["fitness"] or (None,)
        return TreeDecision(ReleasedTree(names, str(decided["selection"]), True, *fitness))

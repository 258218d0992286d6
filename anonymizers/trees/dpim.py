"""`dpim`: a process tree from noisy directly-follows pairs, taken if it fits well, as published.

The Differentially Private Inductive Miner of Schulze, Zisgen, Kirschke, Mohammadi and Koschmider,
algorithms 1 to 5. A round selects a random number of pairs by report-noisy-max on the number of
cases that have each, adds fresh noise to these counts, and mines them by cuts; what begins and ends
the parts of parallel and loop cuts is asked of the log with noise. The first tree of a noisy
fitness above a threshold is taken (Liu and Talwar, "Private Selection from Private Candidates",
2019, algorithm 1); after each round there is a chance to give up.

Where the paper leaves something open: noise is exact discrete Laplace of the paper's scale, and the
fitness is the mean over the cases of the share of each that fits, which has the sensitivity that
the paper states. The token-weighted fitness of its code has none below 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from tracecloak.anonymizers import contract
from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.counters import CollectNames, CountVariants
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.randomness import Randomness, below, cell_numbers
from tracecloak.anonymizers.noise.samplers import LARGEST_SCALE, CellStream
from tracecloak.anonymizers.trees.counts import Part, cases_with_pair
from tracecloak.anonymizers.trees.cuts import PartEnds, Relation, build_tree
from tracecloak.anonymizers.trees.dpim_params import DpimParams
from tracecloak.anonymizers.trees.fitness import UNITS, fitness_sum
from tracecloak.anonymizers.trees.process_tree_miner import TreeDecision
from tracecloak.anonymizers.trees.questions import clearly_above_zero, noisy_ends
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.models.process_tree import Operator, ProcessTree, flower, normalise
from tracecloak.schemas.published.guarantee import Guarantee, Kind
from tracecloak.schemas.published.manifest import Operation
from tracecloak.schemas.published.tree import ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram

_ROWS = 1 << 20  # noise of so many pairs is drawn at a time


@dataclass(frozen=True)
class _Round:
    """What a round has: the log, and randomness that is its own."""

    variants: VariantHistogram
    names: Sequence[str]
    params: DpimParams
    randomness: Randomness
    number: int

    def selected(self, counts: np.ndarray, n_pairs: int) -> Relation:
        """Returns the pairs that report-noisy-max chooses one after the other, with fresh noise.

        Args:
            counts: int64[n+1, n+1], cases with each pair.
            n_pairs: How many.
        """
        scale, n_cells = self.params.pairs_scale(n_pairs), counts.size
        flat, is_left = counts.ravel(), np.ones(n_cells, bool)
        # No two rounds and no two choices have a cell in common.
        first = self.number * n_cells * (n_cells + 1)
        n_at_once = max(1, _ROWS // n_cells)
        for begun in range(0, n_pairs, n_at_once):
            n = min(n_at_once, n_pairs - begun)
            cells = first + begun * n_cells + np.arange(n * n_cells)
            stream = CellStream(self.randomness, "dpim/select", cell_numbers(cells))
            noise = draw_laplace(stream, *scale).reshape(n, n_cells)
            for row in noise:
                noisy = np.where(is_left, flat + row, np.iinfo(np.int64).min)
                is_left[int(np.argmax(noisy))] = False
        cells = first + n_cells * n_cells + np.arange(n_cells)
        stream = CellStream(self.randomness, "dpim/select", cell_numbers(cells))
        noisy = flat + draw_laplace(stream, *scale)
        return Relation(noisy.reshape(counts.shape), ~is_left.reshape(counts.shape))

    def tree(self, relation: Relation, n_pairs: int) -> ProcessTree:
        """Returns the tree of a relation."""
        tolerance = clearly_above_zero(self.params.pairs_scale(n_pairs))
        asked = 0

        def ends_of_parts(operator: Operator, parts: Sequence[Part], depth: int) -> list[PartEnds]:
            nonlocal asked
            asked += 1
            return self.ends(parts, depth, asked)

        return build_tree(relation, self.names, tolerance, ends_of_parts)

    def ends(self, parts: Sequence[Part], depth: int, number: int) -> list[PartEnds]:
        """Answers a question (DetectS_E): the log keeps the activities of all parts together."""
        scale = self.params.ends_scale(depth)
        if scale[0] > LARGEST_SCALE * scale[1]:  # nothing would be clearly above 0
            return [PartEnds(frozenset(), frozenset()) for _ in parts]
        together = tuple(sorted(code for part in parts for code in part))
        found = noisy_ends(
            self.variants,
            len(self.names),
            [together],
            scale,
            self.randomness,
            f"dpim/ends/{self.number}/{number}",
        )
        least = clearly_above_zero(scale)
        return [
            PartEnds(
                frozenset(code for code in part if found.starts[code] >= least),
                frozenset(code for code in part if found.ends[code] >= least),
            )
            for part in parts
        ]

    def fitness(self, tree: ProcessTree) -> float:
        """Returns the noisy mean fitness of the cases, whose number is public."""
        cell = cell_numbers(np.array([self.number]))
        stream = CellStream(self.randomness, "dpim/fitness", cell)
        noise = int(draw_laplace(stream, *self.params.fitness_scale)[0])
        fits = fitness_sum(tree, self.names, self.variants, "share")
        return (fits + noise) / (self.variants.n_cases * UNITS)

    def gives_up(self) -> bool:
        """Whether the coin says so, which comes up with the probability to stop."""
        cell = cell_numbers(np.array([self.number]))
        word = int(self.randomness.words("dpim/stop", cell)[0, 0])
        return word < Fraction(self.params.stop_probability) * 2**64


class Dpim(contract.Anonymizer):
    """The method; see the module."""

    name: ClassVar[str] = "dpim"
    summary: ClassVar[str] = "inductive miner on noisy directly-follows pairs"
    guarantee_kind: ClassVar[Kind] = "published"
    log: ClassVar[Literal["none"]] = "none"
    Params: ClassVar[type[DpimParams]] = DpimParams
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("condensation", "event", "concept:name"),
    )
    exact_noise: ClassVar[bool] = True
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"epsilon": "1.25"},
        {"epsilon": "3.75", "vocabulary": ("A", "B", "C"), "stop_probability": "0.2"},
        {"epsilon": "100", "bounds_from_log": True, "vocabulary": ("A", "B")},
        {"epsilon": "2", "vocabulary": ("A", "B"), "size_bounds": (2, 5)},
    )

    def bounds(self, params: DpimParams) -> ContributionBounds:
        """Returns the public caps."""
        return params.bounds

    def rounds(self, params: DpimParams) -> tuple[str, ...]:
        """Returns the one round of counting; all rounds of the method look at the same count."""
        return ("tree",)

    def _real_epsilon(self, params: DpimParams) -> Fraction | None:
        if params.n_words is None or params.bounds_from_log:
            return None
        return params.real_epsilon(params.n_words)

    def spends(self, params: DpimParams) -> tuple[Spend, ...]:
        """Returns the one part, if a finite epsilon holds."""
        epsilon = self._real_epsilon(params)
        return () if epsilon is None else (Spend("tree", "pure", epsilon, Fraction(0)),)

    def guarantee(self, params: DpimParams) -> Guarantee:
        """Returns the published claim and what is true of it."""
        epsilon = self._real_epsilon(params)
        given = decimal_text(Fraction(params.epsilon))
        not_covered = ["The number of cases is taken to be public."]
        if params.vocabulary is None:
            not_covered.append("The activity names are the input's own, so a new one is seen.")
        if params.bounds_from_log:
            not_covered.append(
                "The bounds on the number of pairs are the exact number of pairs in the log less "
                "and plus 15: a leak, as one case can change it, and it is not paid for."
            )
        return Guarantee(
            kind="published",
            unit="case",
            adjacency="replace_one",
            epsilon=None if epsilon is None else float(epsilon),
            delta=None if epsilon is None else 0.0,
            claim=f"epsilon = {given} for the process tree and its fitness.",
            reality="Report-noisy-max with noise of scale 1 / e costs up to 2 e where a case is "
            "replaced, as one count can rise while another falls: the pairs cost 1.5 times their "
            "share. The budget for what begins and ends the parts of cuts is halved along each "
            "path of the tree only, so cuts beside each other overspend it"
            + ("." if epsilon is None else f"; with that, epsilon {float(epsilon):.6g} holds."),
            not_covered=(
                *not_covered,
                "A person with several cases is protected case by case.",
                "Releases of the same cases add up: so do their epsilons.",
            ),
        )

    def explain(self, params: DpimParams) -> tuple[str, ...]:
        """Returns what it does and what it costs."""
        epsilon = self._real_epsilon(params)
        held = "no finite one holds" if epsilon is None else f"{float(epsilon):.6g} holds"
        bounds = (
            "the exact number of pairs in the log, less and plus 15"
            if params.bounds_from_log
            else f"{params.size_bounds[0]} and {params.size_bounds[1]}"
            if params.size_bounds
            else "one and four for each activity"
        )
        return (
            f"tree: up to {params.n_rounds} rounds mine a random number of pairs, between "
            f"{bounds}, and the first tree of a noisy fitness of "
            f"{decimal_text(Fraction(params.fitness_threshold))} or more is released; epsilon "
            f"{decimal_text(Fraction(params.epsilon))} as published, and {held}",
        )

    def requires(self, round_name: str, params: DpimParams) -> Mapping[str, contract.Counter]:
        """Returns the counters."""
        return {"variants": CountVariants(), "names": CollectNames()}

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: DpimParams,
        randomness: Randomness,
    ) -> TreeDecision:
        """Mines until a tree fits, the coin stops it, or there are no rounds left."""
        variants: VariantHistogram = statistics["variants"]
        names: ActivityVocabulary = statistics["names"]
        vocabulary = names if params.words is None else params.words
        return TreeDecision(self.mined(variants, vocabulary, params, randomness))

    def mined(
        self,
        variants: VariantHistogram,
        vocabulary: ActivityVocabulary,
        params: DpimParams,
        randomness: Randomness,
    ) -> ReleasedTree:
        """Returns the tree of a log; the flower of all names where none was found."""
        names = vocabulary.names.to_pylist()
        if variants.n_cases:
            counts = cases_with_pair(variants, len(names))
            low, high = params.sizes(len(names), int((counts > 0).sum()))
            for number in range(params.n_rounds):
                own = _Round(variants, names, params, randomness, number)
                cell = cell_numbers(np.array([number]))
                words = randomness.words("dpim/size", cell)[:, 0]
                n_pairs = low + int(below(words, high - low + 1)[0])
                tree = own.tree(own.selected(counts, n_pairs), n_pairs)
                fitness = own.fitness(tree)
                if fitness >= params.fitness_threshold:
                    return ReleasedTree(vocabulary.names, str(tree), True, fitness)
                if own.gives_up():
                    break
        return ReleasedTree(vocabulary.names, str(normalise(flower(names))), False, None)

    def writes(self, params: DpimParams) -> tuple[str, ...]:
        """Returns the name of the product."""
        return ("tree",)

    def products(self, decisions: contract.Decisions, params: DpimParams) -> contract.Products:
        """Returns the tree."""
        return contract.Products({"tree": decisions["tree"].tree})

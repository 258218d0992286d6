"""`dpim`: a process tree from noisy directly-follows pairs, taken if it fits well.

As published by Schulze et al.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.sensitivity import of_count, of_shares
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import variants_and_names
from tracecloak.anonymizers.contract.method import NamesParams
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.randomness import Randomness, below, cell_numbers
from tracecloak.anonymizers.noise.samplers import LARGEST_SCALE, CellStream, draw_laplace
from tracecloak.anonymizers.rigorous.names import excess_of_names, most_names_of_pairs
from tracecloak.anonymizers.rigorous.params import Exact, drawable, published_guarantee
from tracecloak.anonymizers.rigorous.parts_method import Given, step
from tracecloak.anonymizers.rigorous.parts_method import Part as BudgetPart
from tracecloak.anonymizers.trees.cuts import Part, Relation, TreeBuilder, cases_with_pair
from tracecloak.anonymizers.trees.fitness import (
    UNITS,
    fitness_sum,
    interval_of_share,
    token_fitness,
)
from tracecloak.anonymizers.trees.process_tree import TreeDecision, clear_ends, clearly_above_zero
from tracecloak.schemas.models import ProcessTree, flower, normalise
from tracecloak.schemas.published.graph import ReleasedTree
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- Parameters of `dpim`, what the paper claims of it and what its parts cost. -------------------
# Schulze, Zisgen, Kirschke, Mohammadi and Koschmider, "Differentially Private Inductive Miner".
# The paper's neighbours are logs of equally many cases of which one is replaced; the number of
# cases is public.


# The paper sets its bounds so many pairs below and above the number of pairs that are not 0, and
# rounds both to multiples of the second number.
_AROUND, _ROUND_TO = 15, 5


class DpimParams(NamesParams):
    """Parameters of `dpim`."""

    epsilon: Exact = Field(gt=0, le=1000_000)
    """Epsilon as the paper counts it, a decimal above epsilon_0; more is spent."""
    epsilon_0: Exact = Field(default=Decimal("0.01"), gt=0, le=1)
    """Of epsilon, the part for giving up after a number of rounds; the smaller, the more rounds."""
    stop_probability: Exact = Field(default=Decimal("0.01"), gt=0, le=1)
    """Chance to give up after a round without a good tree (gamma)."""
    fitness_threshold: Exact = Field(default=Decimal("0.95"), ge=0, le=1)
    """Noisy fitness from which on a tree is taken (t). Too high, no tree is found."""
    fitness_measure: Literal["share", "tokens"] = "share"
    """How a tree's fitness is measured: as the mean share of a case that fits, or by tokens as in
    the paper, of which a long case has more than a short one. By tokens no finite epsilon
    holds."""
    pairs_share: Exact = Field(default=Decimal("0.65"), gt=0, lt=1)
    """Share of a round for the pairs (r1); the three shares sum to 1."""
    ends_share: Exact = Field(default=Decimal("0.25"), gt=0, lt=1)
    """Share of a round for the ends of parts (r2)."""
    fitness_share: Exact = Field(default=Decimal("0.1"), gt=0, lt=1)
    """Share of a round for the fitness (r3)."""
    size_bounds: tuple[int, int] | None = None
    """Least and largest number of pairs of a candidate (lb and ub), public; by default one and
    four for each name of the vocabulary."""
    bounds_from_log: bool = False
    """Set the bounds as in the paper's experiments, by the exact number of pairs in the log less
    and plus 15, rounded to 5. That number is not paid for: no finite epsilon holds."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> DpimParams:
        if self.epsilon <= self.epsilon_0:
            raise ValueError("epsilon must be above epsilon_0, which is a part of it")
        total = self.pairs_share + self.ends_share + self.fitness_share
        if total != 1:
            raise ValueError(
                f"pairs_share, ends_share and fitness_share must sum to 1, got {total}"
            )
        if self.size_bounds is not None:
            if self.bounds_from_log:
                raise ValueError("size_bounds and bounds_from_log exclude each other")
            if not 1 <= self.size_bounds[0] <= self.size_bounds[1]:
                raise ValueError(
                    "size_bounds must be two numbers from 1 up, the smaller first, got "
                    f"{list(self.size_bounds)}"
                )
        if excess := excess_of_names(self.n_words, most_names_of_pairs(1)):
            raise ValueError(excess)
        return self

    @property
    def round_epsilon(self) -> Fraction:
        """Epsilon of one round as the paper counts it, epsilon_1."""
        return (Fraction(self.epsilon) - Fraction(self.epsilon_0)) / 2

    @property
    def n_rounds(self) -> int:
        """Rounds at most (T): the smallest number that rejection sampling allows."""
        gamma = float(self.stop_probability)
        return math.ceil(max(math.log(2 / float(self.epsilon_0)) / gamma, 1 + 1 / (math.e * gamma)))

    def pairs_scale(self, n_pairs: int) -> tuple[int, int]:
        """Scale of the noise on counts of pairs where so many are selected: 2 n / (eps_1 r1).

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        return drawable(
            laplace_scale(self.round_epsilon * Fraction(self.pairs_share), of_count(2 * n_pairs))
        )

    def ends_scale(self, number: int) -> tuple[int, int]:
        """Scale of the noise on the counts of ends: 4 / eps, eps halved from question to question.

        "First 0.5 eps, then 0.25 eps, etc.", for all parallel and loop cuts of a tree, as in the
        authors' code. (Algorithm 4 hands the halved budget down, so that cuts beside each other
        would each spend as much, and together more than there is.)

        Args:
            number: Of the question in its round, from 1 up.
        """
        epsilon = self.round_epsilon * Fraction(self.ends_share) / 2**number
        return laplace_scale(epsilon, of_count(4))

    @property
    def fitness_scale(self) -> tuple[int, int]:
        """Scale of the noise on the sum of fitness over all cases, in UNITS of a case.

        That of the mean fitness is 1 / (|L| eps_1 r3), with |L| the number of cases. (Algorithm 2
        leaves the line out; the text has r1 in its place and the proof has r3.) It covers the mean
        share of a case; fitness by tokens can change by any amount and gets the same noise.
        """
        return drawable(
            laplace_scale(self.round_epsilon * Fraction(self.fitness_share), of_shares(UNITS))
        )

    def sizes(self, n_names: int, n_pairs_in_log: int) -> tuple[int, int]:
        """Returns the least and the largest number of pairs of a candidate.

        Args:
            n_names: Names of the vocabulary.
            n_pairs_in_log: Pairs that occur; looked at with `bounds_from_log` only.
        """
        most = (n_names + 1) ** 2
        if self.bounds_from_log:
            low, high = (
                _ROUND_TO * math.floor((n_pairs_in_log + change) / _ROUND_TO + 0.5)
                for change in (-_AROUND, _AROUND)
            )
            low, high = max(low, n_names), min(high, n_names**2 - 1)
        else:
            low, high = self.size_bounds or (n_names, 4 * n_names)
        low = min(max(low, 1), most)
        return low, min(max(low, high), most)

    @property
    def real_epsilon(self) -> Fraction | None:
        """Epsilon that holds for the release if the number of cases is public; None: no finite one.

        One does if names and bounds are public, too, and fitness is the mean share of a case.

        Twice that of a round and epsilon_0 (Liu and Talwar, 2019, theorem 3.1). In a round:

        * Choosing n pairs by noise of scale b costs 2 n / b, which is eps_1 r1 and twice what the
          paper says. Where a case is replaced every count moves by at most 1, up or down. Take the
          noise of all pairs that are not chosen as given, and move that of each chosen one by the
          change of its count and by 1 more: the order of the chosen ones stays, and they stay above
          the others, each of which rose by at most 1. That is at most 2 for each of n. Nearly so
          much is lost where all chosen counts fall as the others rise.
        * The fresh counts of these pairs cost n / b, half of eps_1 r1, as the paper says.
        * Of the questions about ends, number i costs eps_1 r2 / 2^i: less than eps_1 r2 together.
        * The fitness costs eps_1 r3.
        """
        if self.n_words is None or self.bounds_from_log or self.fitness_measure == "tokens":
            return None
        pairs = Fraction(self.pairs_share) * Fraction(3, 2)
        shares = pairs + Fraction(self.ends_share) + Fraction(self.fitness_share)
        return 2 * self.round_epsilon * shares + Fraction(self.epsilon_0)


# ---
# `dpim`: a process tree from noisy directly-follows pairs, taken if it fits well, as published.
# The Differentially Private Inductive Miner of Schulze, Zisgen, Kirschke, Mohammadi and Koschmider,
# algorithms 1 to 5. A round chooses a random number of pairs by noisy numbers of cases that have
# each, adds fresh noise to the counts of these, and mines them by cuts; what begins and ends the
# parts of parallel and loop cuts is asked of the log with noise. The first tree of a noisy fitness
# above a threshold is taken (Liu and Talwar, "Private Selection from Private Candidates", 2019,
# algorithm 1); after each round there is a chance to give up. Where the paper leaves something
# open, or its algorithms and the code of its authors differ:
#
# * Noise is exact discrete Laplace of the paper's scale.
# * It is drawn once a round to choose all pairs, as in the example of table II and in the code;
#   algorithm 2 draws it anew for each of them, and costs no less.
# * The pairs are chosen by noisy counts (line 12 of algorithm 2). The authors' code does so since
#   its commit e9178bc of August 2024, and chose them by exact counts before.
# * An activity that follows itself is a loop, as in line 9 of algorithm 4, and optional where it is
#   rare, as line 10 has it of others. Without that, fitness on Sepsis without noise is .183 below
#   the inductive miner's, and figure 3 of the paper has .10. The code makes every such loop
#   optional.
# * The budget for questions about ends is halved from question to question over the whole tree, as
#   the text and the code have it; algorithm 4 halves it along each path.
# * A part that no cut divides, and to whose first activities pairs lead, is a loop that begins anew
#   with these, as in the code; it is a flower only if there are none.
# * Fitness is the mean over the cases of the share of each that fits, which has the sensitivity
#   that the paper states. `fitness_measure` has that of tokens, which has none below 1.
# * A noisy fitness is cut to what lies between 0 and 1, before it is compared and where it is said.


@dataclass(frozen=True)
class _Round:
    """What a round has: the log, whole and in pieces, and randomness that is its own."""

    variants: VariantHistogram
    names: Sequence[str]
    params: DpimParams
    randomness: Randomness
    number: int
    pieces: Sequence[VariantHistogram] = ()

    def selected(self, counts: np.ndarray, n_pairs: int) -> Relation:
        """Returns the pairs of the largest noisy counts, with fresh noise on these alone.

        Noise is drawn once for all choices of a round, as in the paper's table II and in the code
        of its authors. Algorithm 2 draws it anew for each; both cost the same, as
        `DpimParams.real_epsilon` says. Of equal noisy counts the first is taken.

        Args:
            counts: int64[n+1, n+1], cases with each pair.
            n_pairs: How many, at most all.
        """
        flat = counts.ravel()
        noisy = flat + self._noise("select", np.arange(flat.size), n_pairs)
        chosen = np.argsort(-noisy, kind="stable")[:n_pairs]
        holds, released = np.zeros(flat.size, bool), np.zeros(flat.size, np.int64)
        holds[chosen] = True
        released[chosen] = flat[chosen] + self._noise("count", chosen, n_pairs)
        return Relation(released.reshape(counts.shape), holds.reshape(counts.shape))

    def _noise(self, purpose: str, pairs: np.ndarray, n_pairs: int) -> np.ndarray:
        """Noise of a round on so many pairs; no two rounds have a cell in common."""
        n_cells = (len(self.names) + 1) ** 2
        cells = cell_numbers(self.number * n_cells + pairs)
        stream = CellStream(self.randomness, f"dpim/{purpose}", cells)
        return draw_laplace(stream, *self.params.pairs_scale(n_pairs))

    def tree(self, relation: Relation, n_pairs: int) -> ProcessTree:
        """Returns the tree of a relation."""
        tolerance = clearly_above_zero(self.params.pairs_scale(n_pairs))
        number = itertools.count(1)

        def ends_of_parts(parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray]:
            return self.ends(parts, next(number))

        own = relation, self.names, tolerance, ends_of_parts
        return TreeBuilder(*own, begins_anew=True).tree()

    def ends(self, parts: Sequence[Part], number: int) -> tuple[np.ndarray, np.ndarray]:
        """Answers a question (DetectS_E): the log keeps the activities of all parts together.

        Args:
            parts: Of a parallel or loop cut.
            number: Of the question in this round, from 1 up.
        """
        scale = self.params.ends_scale(number)
        if scale[0] > LARGEST_SCALE * scale[1]:  # nothing would be clearly above 0
            return np.zeros(len(self.names), bool), np.zeros(len(self.names), bool)
        together = tuple(sorted(code for part in parts for code in part))
        own = self.randomness, f"dpim/ends/{self.number}/{number}"
        return clear_ends(self.variants, len(self.names), [together], scale, *own)

    def fitness(self, tree: ProcessTree) -> float:
        """Returns the noisy fitness, from 0 to 1; the number of cases is public.

        Once cases enough are seen that it stays below the threshold whatever the others are, they
        are not looked at, and what is returned is below the threshold too.
        """
        cell = cell_numbers(np.array([self.number]))
        stream = CellStream(self.randomness, "dpim/fitness", cell)
        noise = int(draw_laplace(stream, *self.params.fitness_scale)[0])
        most = self.variants.n_cases * UNITS
        if self.params.fitness_measure == "tokens":
            fits = math.floor(most * token_fitness(tree, self.names, self.variants))
            return min(max((fits + noise) / most, 0.0), 1.0)
        fits = most
        for piece in self.pieces or (self.variants,):
            fits -= piece.n_cases * UNITS - fitness_sum(tree, self.names, piece)
            fitness = min(max((fits + noise) / most, 0.0), 1.0)
            if fitness < self.params.fitness_threshold:
                break
        return fitness

    def fitness_within(self, fitness: float) -> tuple[float, float] | tuple[()]:
        """Returns the 95 % interval around a noisy fitness; none by tokens, which have no bound.

        It is that of the noise alone: the first tree of several that reaches a threshold is one
        whose noise was rather too large.
        """
        if self.params.fitness_measure == "tokens":
            return ()
        scale = Fraction(*self.params.fitness_scale) / (self.variants.n_cases * UNITS)
        return interval_of_share(fitness, math.log(20) * float(scale))


def _by_length(variants: VariantHistogram) -> list[VariantHistogram]:
    """Returns the variants in pieces, short ones first: an eighth, as many again, and so on."""
    order = np.argsort(np.diff(variants.offsets), kind="stable")
    ends = sorted({len(order) // 8, len(order) // 4, len(order) // 2, len(order)} - {0})
    pieces = [np.sort(piece) for piece in np.split(order, ends[:-1])]
    return [variants.take(p) for p in pieces]


class Dpim(contract.Anonymizer, name="dpim"):
    """The method; see the module."""

    Params: ClassVar[type[DpimParams]] = DpimParams

    def spends(self, params: DpimParams) -> tuple[Spend, ...]:
        """Returns the one part, if a finite epsilon holds."""
        epsilon = params.real_epsilon
        return () if epsilon is None else (Spend("tree", "pure", epsilon, Fraction(0)),)

    def guarantee(self, params: DpimParams) -> Guarantee:
        """Returns the published claim and what is true of it."""
        return published_guarantee(self.name, params, params.real_epsilon, "replace_one")

    def parts(self, params: DpimParams) -> tuple[BudgetPart, ...]:
        """Returns the one part; all rounds of the published method look at the same count."""

        def decide(given: Given) -> TreeDecision:
            # Until a tree fits, the coin says to stop, or no round is left.
            variants, randomness = given.statistics["variants"], given.randomness
            vocabulary = params.names_in_effect(given.statistics["names"])
            names = vocabulary.names.to_pylist()
            if variants.n_cases:
                counts = cases_with_pair(variants, len(names))
                low, high = params.sizes(len(names), int((counts > 0).sum()))
                pieces = _by_length(variants)
                for number in range(params.n_rounds):
                    attempt = _Round(variants, names, params, randomness, number, pieces)
                    cell = cell_numbers(np.array([number]))
                    words = randomness.words("dpim/size", cell)[:, 0]
                    n_pairs = low + int(below(words, high - low + 1)[0])
                    tree = attempt.tree(attempt.selected(counts, n_pairs), n_pairs)
                    fitness = attempt.fitness(tree)
                    if fitness >= params.fitness_threshold:
                        within = attempt.fitness_within(fitness)
                        found = ReleasedTree(vocabulary.names, str(tree), True, fitness, *within)
                        return TreeDecision(found)
                    word = int(randomness.words("dpim/stop", cell)[0, 0])
                    if word < Fraction(params.stop_probability) * 2**64:
                        break
            flower_of_all = str(normalise(flower(names)))
            return TreeDecision(ReleasedTree(vocabulary.names, flower_of_all, False, None))

        return (step("tree", sentence(self.name, "tree", params), variants_and_names(), decide),)

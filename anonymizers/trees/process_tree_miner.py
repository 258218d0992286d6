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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.rigorous.bought import known_vocabulary
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, PartsMethod
from tracecloak.anonymizers.trees.process_tree_parts import TREE, ProcessTreeParams, parts_of_tree
from tracecloak.schemas.published.manifest import CONDENSED, Operation
from tracecloak.schemas.published.tree import ReleasedTree


@dataclass(frozen=True)
class TreeDecision(contract.Decision):
    """What is released.

    Attributes:
        tree: The tree.
    """

    wire_name: ClassVar[str] = "tree"

    tree: ReleasedTree


class ProcessTreeMiner(PartsMethod):
    """The method; see the module."""

    name: ClassVar[str] = "process-tree"
    summary: ClassVar[str] = "process tree chosen for fitness and precision"
    Params: ClassVar[type[ProcessTreeParams]] = ProcessTreeParams
    operations: ClassVar[tuple[Operation, ...]] = (CONDENSED,)
    sums: ClassVar[Literal["none", "released", "pairs", "cells"]] = "cells"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"epsilon": "1", "vocabulary": ("A", "B", "C"), "max_pairs": 4},
        {"epsilon": "20", "delta": "1e-5", "buy_vocabulary": True, "n_sizes": 4},
        {"epsilon": "2", "delta": "0", "vocabulary": ("A", "B"), "ends_share": "0"},
        {"epsilon": "9", "vocabulary": ("A", "B"), "max_cases_per_individual": 2},
    )

    def parts(self, params: ProcessTreeParams) -> tuple[Part, ...]:
        """Returns the vocabulary where it is bought, and the parts of the tree, in one round."""
        return parts_of_tree(params)

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
        names = known_vocabulary(params.words, given.decisions).names
        fitness = decided["fitness"] or (None,)
        return TreeDecision(ReleasedTree(names, str(decided["selection"]), True, *fitness))

    def writes(self, params: ProcessTreeParams) -> tuple[str, ...]:
        """Returns the name of the product."""
        return ("tree",)

    def products(
        self, decisions: contract.Decisions, params: ProcessTreeParams
    ) -> contract.Products:
        """Returns the tree."""
        return contract.Products({"tree": decisions["tree"].tree})

"""`tracecloak experiment dpim`: the evaluation of the DP inductive miner, on given logs.

Schulze, Zisgen, Kirschke, Mohammadi and Koschmider ("Differentially Private Inductive Miner"),
section VI: how far `dpim` without noise is from the inductive miner (Figure 3), and fitness,
precision, simplicity and generalisation at three epsilons (Figure 4); `process-tree`, whose
epsilon holds, beside it. The infrequent inductive miner and the flower model are lines in the same
charts: a model that fits says nothing if the flower, which allows everything, fits as well. What is
shown and stated is in `papers/dpim.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from tracecloak.anonymizers.trees.counts import cases_with_pair
from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.networks import Log
from tracecloak.examination.experiments.paper import Cell, Paper, Released
from tracecloak.examination.measure.quality import MinedQuality, PatientMiner
from tracecloak.examination.measure.tree_quality import BASELINES, TreeJudge

_NO_NOISE = "no noise"
# What stands for no noise: the paper's epsilon, and the largest that `process-tree` takes.
_WITHOUT_NOISE = {"dpim": "100000", "process-tree": "1000"}


class DpimPaper(Paper):
    """The evaluation; see the module."""

    name: ClassVar[str] = "dpim"

    def words(self) -> Mapping[str, Any]:
        """Returns what the flags say, and the epsilons that stand for no noise for the notes."""
        return {**self.given, "without_noise": _WITHOUT_NOISE}

    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields the models of the log itself, then both methods without noise and at epsilons."""
        for name in BASELINES:
            yield Cell(name, "", "", "", {}, is_mined=True)
        names = list(log.names)
        of_dpim: dict[str, Any] = {"vocabulary": names}
        if self.given["size_bounds"] == "log":
            of_dpim = {"bounds_from_log": True}
        if self.given["fitness_measure"] != "share":
            of_dpim["fitness_measure"] = self.given["fitness_measure"]
        n_pairs = int((cases_with_pair(log.variants, len(log.vocabulary.names)) > 0).sum())
        every_pair = {"size_bounds": [n_pairs, n_pairs], "fitness_threshold": "0"}
        for level in (_NO_NOISE, *self.given["epsilons"]):
            for arm, method, params in (
                ("dpim", "dpim", of_dpim),
                ("dpim, every pair", "dpim", every_pair),
                ("process-tree", "process-tree", {"vocabulary": names}),
            ):
                if params is every_pair and level != _NO_NOISE:
                    continue
                epsilon = _WITHOUT_NOISE[method] if level == _NO_NOISE else level
                params = {"epsilon": epsilon, **params}
                yield Cell(arm, level, epsilon, method, params, is_mined=True)

    def of_the_log(self) -> Cell:
        """Returns the cell of the log itself, whose models have cells of their own."""
        return replace(super().of_the_log(), is_mined=False)

    def miner(self, log: Log, patience: float) -> PatientMiner:
        """Returns what judges trees."""
        return PatientMiner(log.variants, log.vocabulary, patience, TreeJudge)

    def mined(self, miner: PatientMiner, released: Released, cell: Cell) -> MinedQuality | None:
        """Returns the quality of a released tree, or of a model of the log itself.

        Raises:
            TimeoutError: It took too long.
            RuntimeError: Judging failed.
        """
        if released.tree is not None:
            return miner.mined(released.tree.tree)
        return miner.mined(cell.arm)

    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns whether a tree was found, its size, and what the release says of its fitness."""
        if released.tree is None:
            return dict.fromkeys(("is_found", "said_fitness", "nodes", "activities"))
        return {
            "is_found": float(released.tree.is_found),
            "said_fitness": released.tree.fitness,
            "nodes": released.tree.weight,
            "activities": len(released.tree.tree.labels),
        }

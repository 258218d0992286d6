"""`tracecloak experiment dpim`: the evaluation of the DP inductive miner, on given logs.

Schulze, Zisgen, Kirschke, Mohammadi and Koschmider ("Differentially Private Inductive Miner"),
section VI: how far `dpim` without noise is from the inductive miner (Figure 3), and fitness,
precision, simplicity and generalisation at three epsilons (Figure 4); `process-tree`, whose
epsilon holds, beside it. The infrequent inductive miner and the flower model are lines in the same
charts: a model that fits says nothing if the flower, which allows everything, fits as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from tracecloak.anonymizers.trees.counts import cases_with_pair
from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.figures import (
    NOTHING,
    median_of,
    quartiles_shown,
    shown,
    values_of,
)
from tracecloak.examination.experiments.grids import (
    Boxes,
    Cell,
    Flag,
    Grid,
    Released,
    Section,
    Table,
    Tree,
    boxes_of,
    numbers,
    table_of,
)
from tracecloak.examination.experiments.log import Log
from tracecloak.examination.experiments.settings import one_of
from tracecloak.examination.experiments.statements import (
    Statement,
    at_least,
    judged,
    medians,
    ordered,
)
from tracecloak.examination.measure.quality import MinedQuality, PatientMiner
from tracecloak.examination.measure.tree_quality import BASELINES, MEASURES, PatientJudge

_DPIM, _RIGOROUS = "dpim", "process-tree"
_EVERY_PAIR = "dpim, every pair"
_NO_NOISE = "no noise"
# What stands for no noise: the paper's epsilon, and the largest that `process-tree` takes.
_WITHOUT_NOISE = {_DPIM: "100000", _RIGOROUS: "1000"}
_MINER, _, _FLOWER = BASELINES
# Within which the paper finds nearly all deviations.
_NEAR = 0.10
# By which precision is more than another one.
_MORE = 0.005
_TITLES = {
    **dict(zip(MEASURES, (*MEASURES[:-1], "generalisation"), strict=True)),
    "share": "mean share of a case that fits",
}


class DpimGrid(Grid):
    """The experiment; see the module.

    Args:
        flags: Texts by name: `epsilons`, `size_bounds` and `fitness_measure`, each None where it
            was not given.

    Raises:
        UsageError: One is out of range.
    """

    name: ClassVar[str] = "dpim"
    title: ClassVar[str] = "The differentially private inductive miner"
    methods: ClassVar[tuple[str, ...]] = (_DPIM, _RIGOROUS)
    has_models: ClassVar[bool] = True
    of_models: ClassVar[tuple[str, ...]] = ("simplicity", "share")
    flags: ClassVar[tuple[Flag, ...]] = (
        Flag("epsilons", "of a release (default 3.75,1.25,0.125)"),
        Flag("size_bounds", "of dpim, the number of pairs of a candidate: log, as in the paper by "
             "the pairs of the log, or public, by the number of activities (default log)"),
        Flag("fitness_measure", "of dpim, by which it takes a tree: share, the mean share of a "
             "case that fits, or tokens, as in the paper (default share)"),
    )  # fmt: skip

    def __init__(self, flags: Mapping[str, str | None]) -> None:
        self._epsilons = numbers(
            "epsilons", flags["epsilons"], ("3.75", "1.25", "0.125"), 0.01, 1000
        )
        self._bounds = one_of("size_bounds", flags["size_bounds"], ("log", "public"))
        measure = flags["fitness_measure"]
        self._measure = one_of("fitness_measure", measure, ("share", "tokens"))

    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields the models of the log itself, then both methods without noise and at epsilons."""
        for name in BASELINES:
            yield Cell(name, "", "", "", {}, is_mined=True)
        names = list(log.names)
        of_dpim: dict[str, object] = (
            {"bounds_from_log": True} if self._bounds == "log" else {"vocabulary": names}
        )
        if self._measure != "share":
            of_dpim["fitness_measure"] = self._measure
        n_pairs = int((cases_with_pair(log.variants, len(log.vocabulary.names)) > 0).sum())
        every_pair = {"size_bounds": [n_pairs, n_pairs], "fitness_threshold": "0"}
        for level in (_NO_NOISE, *self._epsilons):
            epsilons = _WITHOUT_NOISE if level == _NO_NOISE else dict.fromkeys(self.methods, level)
            yield _cell(_DPIM, level, _DPIM, epsilons[_DPIM], of_dpim)
            if level == _NO_NOISE:
                yield _cell(_EVERY_PAIR, level, _DPIM, epsilons[_DPIM], every_pair)
            yield _cell(_RIGOROUS, level, _RIGOROUS, epsilons[_RIGOROUS], {"vocabulary": names})

    def of_the_log(self) -> Cell:
        """Returns the cell of the log itself, whose models have cells of their own."""
        return replace(super().of_the_log(), is_mined=False)

    def miner(self, log: Log, patience: float) -> PatientMiner:
        """Returns what judges trees."""
        return PatientJudge(log.variants, log.vocabulary, patience)

    def mined(self, miner: PatientMiner, released: Released, cell: Cell) -> MinedQuality | None:
        """Returns the quality of a released tree, or of a model of the log itself.

        Raises:
            TimeoutError: It took too long.
            RuntimeError: Judging failed.
        """
        assert isinstance(miner, PatientJudge)
        if released.tree is not None:
            return miner.judged(released.tree.tree)
        [baseline] = [name for name in BASELINES if name == cell.arm]
        return miner.judged(baseline)

    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns whether a tree was found, its size, and what the release says of its fitness."""
        if released.tree is None:
            return {"is_found": None, "said_fitness": None, "nodes": None, "activities": None}
        return {
            "is_found": float(released.tree.is_found),
            "said_fitness": released.tree.fitness,
            "nodes": released.tree.weight,
            "activities": len(released.tree.tree.labels),
        }

    def noted(self) -> Mapping[str, Any]:
        """Returns what the template of the notes prints."""
        return {
            "bounds": self._bounds,
            "measure": self._measure,
            "of_dpim": _WITHOUT_NOISE[_DPIM],
            "of_rigorous": _WITHOUT_NOISE[_RIGOROUS],
        }

    def sections(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Section]:
        """Yields Figures 3 to 5, Figure 4 as a table, and what the paper does not show."""
        arms = list(dict.fromkeys(row["arm"] for row in rows if row["method"]))
        yield self._deviations(rows, arms)
        for name in MEASURES:
            yield self._measured(f"Figure 4: {_TITLES[name]}", name, rows, arms, f"figure-4-{name}")
        yield self._as_table(rows, arms)
        yield self._measured(
            f"Beside the paper: {_TITLES['share']}", "share", rows, arms, "share"
        )  # fmt: skip
        levels = [_NO_NOISE, *self._epsilons]
        for name, (title, text) in _FURTHER.items():
            table = table_of(rows, name, "epsilon", arms, levels)
            yield Section(f"Beside the paper: {title}", text, [table], name)
        yield from self._models(rows, arms)

    def statements(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Statement]:
        """Yields what section VI states, by medians; without noise, of the tree of every pair."""
        of_log = _baselines(rows)
        miner = of_log.get(_MINER, {})
        away = [
            (_TITLES[name], None if value is None or beside is None else value - beside)
            for name in MEASURES
            for value, beside in [(medians(rows, name)(_EVERY_PAIR, _NO_NOISE), miner.get(name))]
        ]
        near = f"without noise DPIM is within {_NEAR:.2f} of the inductive miner"
        correct, utility = "section VI, Figure 3", "section VI, Figure 4"
        figures = ", ".join(f"{title} {value:+.3f}" for title, value in away if value is not None)
        holds = [None if value is None else abs(value) <= _NEAR for _, value in away]
        yield judged(correct, near, holds, figures)

        def pairs(name: str, other: str | float) -> list[tuple[str, float | None, float | None]]:
            beside = of_log.get(other, {}).get(name) if isinstance(other, str) else other
            median = medians(rows, name)
            return [(f"epsilon {e}", median(_DPIM, e), beside) for e in self._epsilons]

        def turned(
            places: list[tuple[str, float | None, float | None]],
        ) -> list[tuple[str, float | None, float | None]]:
            return [(place, b, a) for place, a, b in places]

        yield at_least(
            utility, "most models have a fitness of 0.95, and none but one is below 0.9",
            pairs("fitness", 0.95),
        )  # fmt: skip
        yield at_least(
            utility, "privacy raises precision above that of the inductive miner, on 10 of 14 logs",
            pairs("precision", _MINER),
        )  # fmt: skip
        yield at_least(
            "beside the paper", "a released tree is more precise than the flower, which allows all",
            pairs("precision", _FLOWER), -_MORE,
        )  # fmt: skip
        yield at_least(
            utility, "models are simpler than that of the inductive miner",
            pairs("simplicity", _MINER),
        )  # fmt: skip
        yield at_least(
            utility, "privacy lowers generalisation", turned(pairs("generalization", _MINER)),
        )  # fmt: skip
        by_epsilon = sorted(self._epsilons, key=float, reverse=True)
        general = medians(rows, "generalization")
        yield ordered(
            utility, "generalisation mostly falls further with a smaller epsilon",
            [(f"epsilon {e}", general(_DPIM, e)) for e in by_epsilon],
        )  # fmt: skip

    def _deviations(self, rows: Sequence[Row], arms: Sequence[str]) -> Section:
        """Figure 3."""
        miner = _baselines(rows).get(_MINER, {})
        gaps = {
            (arm, _TITLES[name]): [value - miner[name] for value in values]
            for arm in arms
            for name in MEASURES
            if miner.get(name) is not None
            and (values := values_of(rows, name, arm=arm, level=_NO_NOISE))
        }
        titles = [_TITLES[name] for name in MEASURES]
        marks = {_MINER: 0.0, f"{_NEAR:.2f} above": _NEAR, f"{_NEAR:.2f} below": -_NEAR}
        chart = Boxes("deviation", "", titles, gaps, marks=marks)
        table = Table(
            ("without noise", *titles),
            [(arm, *(quartiles_shown(gaps.get((arm, t), [])) for t in titles)) for arm in arms],
        )
        return Section(
            "Figure 3: deviation from IM, without noise",
            "What a released tree has more or less than the inductive miner's. The paper finds "
            f"nearly all within {_NEAR:.2f}. Where no cut is found DPIM takes a loop that begins "
            "anew, or a flower, and the inductive miner sets an activity apart and looks for cuts "
            "of the others: so its model can be simpler where that happens.",
            [*([chart] if gaps else []), table],
            "figure-3",
        )

    def _measured(
        self, title: str, name: str, rows: Sequence[Row], arms: Sequence[str], file: str
    ) -> Section:
        """A chart and a table of a measure, with those of the log's own models."""
        marks = {arm: row[name] for arm, row in _baselines(rows).items() if row[name] is not None}
        levels = [*self._epsilons]
        chart = boxes_of(rows, name, arms, levels, _TITLES[name], "epsilon", marks=marks)
        return Section(
            title, "", [*([chart] if chart.values else []), self._table(rows, name, arms)], file
        )

    def _table(self, rows: Sequence[Row], name: str, arms: Sequence[str]) -> Table:
        levels = [_NO_NOISE, *self._epsilons]
        table = table_of(rows, name, "epsilon", arms, levels)
        of_log = [
            (arm, shown(row[name]), *[NOTHING] * len(self._epsilons))
            for arm, row in _baselines(rows).items()
        ]
        return Table(table.header, [*of_log, *table.rows])

    def _as_table(self, rows: Sequence[Row], arms: Sequence[str]) -> Section:
        """All measures at a glance."""
        names = (*MEASURES, "share")
        of_log = [(arm, *(shown(row[n]) for n in names)) for arm, row in _baselines(rows).items()]
        releases = [
            (
                f"{arm}, {level}",
                *(shown(median_of(values_of(rows, n, arm=arm, level=level))) for n in names),
            )
            for arm in arms
            for level in (_NO_NOISE, *self._epsilons)
            if any((row["arm"], row["level"]) == (arm, level) for row in rows)
        ]
        header = ("model, epsilon", *(_TITLES[name] for name in names))
        return Section(
            "Figure 4 as a table", "Medians.", [Table(header, [*of_log, *releases])], "table"
        )

    def _models(self, rows: Sequence[Row], arms: Sequence[str]) -> Iterator[Section]:
        """Figure 5: the inductive miner's model, and each method's without and with noise."""
        of_miner = _baselines(rows).get(_MINER, {})
        if of_miner.get("tree"):
            yield Section("Figure 5: model of IM", "", [Tree(of_miner["tree"])],
                          "figure-5-im")  # fmt: skip
        for arm in arms:
            for level in (_NO_NOISE, *self._epsilons):
                trees = [
                    row["tree"]
                    for row in rows
                    if (row["arm"], row["level"]) == (arm, level) and row.get("tree")
                ]
                if trees:
                    with_noise = level if level == _NO_NOISE else f"epsilon {level}"
                    yield Section(
                        f"Figure 5: model of {arm}, {with_noise}", "Of the first repetition.",
                        [Tree(trees[0])], f"figure-5-{arm}-{level}",
                    )  # fmt: skip


_FURTHER = {
    "is_found": (
        "releases with a tree that was found",
        "As a share; otherwise the flower is released.",
    ),
    "said_fitness": ("fitness that the release says", "With noise; to be held against the share."),
    "activities": ("activities of the tree", ""),
    "nodes": ("nodes of the tree", ""),
    "seconds": ("seconds", "From cases in memory to the released tree."),
}


def _cell(arm: str, level: str, method: str, epsilon: str, params: Mapping[str, object]) -> Cell:
    return Cell(arm, level, epsilon, method, {"epsilon": epsilon, **params}, is_mined=True)


def _baselines(rows: Sequence[Row]) -> dict[str, Row]:
    """The rows of models of the log itself that were judged, by their names, in order."""
    by_arm = {row["arm"]: row for row in rows if row.get("f_score") is not None}
    return {name: by_arm[name] for name in BASELINES if name in by_arm}

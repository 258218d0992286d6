"""`tracecloak experiment tlkc`: the evaluation of the TLKC paper, on given logs.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section 6:
both algorithms for every kind of background knowledge, beside the two baselines; mined models, data
utility, directly-follows graphs, handover networks and bottlenecks, as Tables 9 and 10 and Figures
5 to 13 have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, get_args

from tracecloak.pipelines.experiments.compare import Row
from tracecloak.pipelines.experiments.grids import (
    Boxes,
    Cell,
    Flag,
    Grid,
    Log,
    Released,
    Section,
    Table,
    shown,
    table_of,
    values_of,
)
from tracecloak.pipelines.experiments.measures import figures_of, measure, perspectives_of
from tracecloak.pipelines.experiments.settings import Setting, declaration, settings_of, some_of
from tracecloak.pipelines.linkage.logs import sensitive_columns
from tracecloak.pipelines.measure.perspectives import RESOURCE
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.statistics.background_knowledge import Kind, Perspective

_KINDS: tuple[Kind, ...] = get_args(Kind)
_ALGORITHMS = {"TLKC-EXT": "n_score", "TLKC": "frequent_traces"}
_BASELINES = {"Baseline-1": "k-anonymous-variants", "Baseline-2": "k-anonymous-subtraces"}
# Whoever knows more than a sequence knows the times, and no baseline is for whoever knows less.
_OF_BASELINES: tuple[Kind, ...] = ("sequence", "relative")
_IN_WORDS: dict[Perspective, str] = {
    "activity": "activities",
    "resource": "resources",
    "activity_resource": "activities with resources",
}
# Of so many settings there are charts; of all there are tables.
_CHARTED = 2
_MOST_COLUMNS = 6


class TlkcGrid(Grid):
    """The experiment; see the module.

    Args:
        flags: Texts by name: `settings`, `knowledge`, `sensitive`, `alpha` and `theta`, each None
            where it was not given.

    Raises:
        UsageError: One is out of range.
    """

    name: ClassVar[str] = "tlkc"
    title: ClassVar[str] = "TLKC privacy beside two baselines"
    methods: ClassVar[tuple[str, ...]] = ("tlkc", *_BASELINES.values())
    repetitions: ClassVar[int] = 1  # nothing is drawn but ids
    has_models: ClassVar[bool] = True
    has_distances: ClassVar[bool] = True
    flags: ClassVar[tuple[Flag, ...]] = (
        Flag("settings", "weak, strong, T/L/K/C such as hours/2/20/0.5, or all: the 200 of the "
             "paper (default weak,strong)"),
        Flag("knowledge", "kinds of background knowledge (default set,multiset,sequence,relative)"),
        Flag("sensitive", "attributes of the case, case:NAME or case:NAME=COLUMN, whose values are "
             "read from the log (default: none, and C says nothing)"),
        Flag("alpha", "of TLKC-EXT, Algorithm 2 (default 0.5)"),
        Flag("theta", "of TLKC, Algorithm 1 (default 0.5)"),
    )  # fmt: skip

    def __init__(self, flags: Mapping[str, str | None]) -> None:
        self._settings = settings_of(flags["settings"])
        self._kinds = some_of("knowledge", flags["knowledge"], _KINDS)
        self._sensitive = sensitive_columns(flags["sensitive"] or "")
        self._alpha, self._theta = (_number(name, flags[name]) for name in ("alpha", "theta"))

    def columns(self, mapping: ColumnMapping) -> Mapping[str, str]:
        """Returns those of the sensitive attributes, and of the resource if it is mapped."""
        resource = {} if mapping.resource is None else {RESOURCE: mapping.resource}
        return {**self._sensitive, **resource}

    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields both algorithms and both baselines, for every setting and perspective.

        Raises:
            UsageError: An attribute has more values than can be declared.
        """
        sensitive = {name: declaration(log, name) for name in self._sensitive}
        for perspective in perspectives_of(log):
            resources = {} if perspective == "activity" else {RESOURCE: declaration(log, RESOURCE)}
            for setting in self._settings:
                yield from self._of_setting(setting, perspective, resources, sensitive)

    def _of_setting(
        self,
        setting: Setting,
        perspective: Perspective,
        resources: Mapping[str, Any],
        sensitive: Mapping[str, Any],
    ) -> Iterator[Cell]:
        common = {"k": setting.k, "time_unit": setting.time_unit, "perspective": perspective}

        def cell(arm: str, kind: Kind, method: str, params: Row, declared: Row) -> Cell:
            return Cell(
                _arm(arm, kind, perspective), setting.name, "", method,
                {**common, "knowledge_kind": kind, **params}, needs_log=True,
                is_mined=perspective == "activity",
                declared={name: own for name, own in declared.items() if own},
            )  # fmt: skip

        weights = {"n_score": {"alpha": self._alpha}, "frequent_traces": {"theta": self._theta}}
        for arm, algorithm in _ALGORITHMS.items():
            for kind in self._kinds:
                params = {
                    "length": setting.length,
                    "confidence": setting.confidence,
                    "algorithm": algorithm,
                    **weights[algorithm],
                }
                declared = {"resources": resources, "sensitive": sensitive}
                yield cell(arm, kind, "tlkc", params, declared)
        for arm, method in _BASELINES.items():
            for kind in _OF_BASELINES:
                if kind in self._kinds:
                    yield cell(arm, kind, method, {}, {"resources": resources})

    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns the measures of every perspective that the release has."""
        return figures_of(log, released)

    def notes(self) -> Sequence[str]:
        """Returns what differs from the paper."""
        names = ", ".join(self._sensitive) or "none"
        return (
            "After Rafiei and van der Aalst, Group-Based Privacy Preservation Techniques for "
            "Process Mining, section 6. TLKC-EXT is Algorithm 2, TLKC is Algorithm 1; both keep "
            "the same promise. It is one of the released log and no differential privacy: no "
            "finite epsilon holds. Every release was verified on its own cases.",
            f"Sensitive attributes: {names}. Their values, and the resources, are read from the "
            "log, which a release must not do. Numbers are low, middle or high by quartiles. The "
            "baselines protect no sensitive value, and are for whoever knows the whole case: its "
            "sequence, or its sequence with times (relative).",
            "Models are judged by token replay of the log, which passes over events whose activity "
            "the model lacks: a model of the one activity that is left has fitness and precision "
            "1. So these figures say something only beside the data utility.",
            "Resources and their perspectives are there if the flag --resource names their column. "
            "A bottleneck is one of the slowest arcs of the performance-annotated graph that has "
            "at least a hundredth of all directly-follows pairs; the paper compares two pictures.",
        )

    def sections(self, log: Log, rows: Sequence[Row], own: Row) -> Iterator[Section]:
        """Yields Tables 9 and 10, Figures 5 to 13 and what the paper does not show."""
        arms = self._arms(log, rows)
        yield Section("Settings", "", [self._settings_shown()], "settings")
        yield Section("Tables 9 and 10: the log", "", [_log_shown(log, own)], "tables-9-10")
        control = arms["activity"]
        yield self._of_measures(
            "Figures 5 and 7: quality of the mined model", "figure-5", rows, control, own,
            [
                ("f_score", "F1-score"),
                ("fitness", "fitness"),
                ("precision", "precision"),
                ("distinct_elements", "different activities that are left"),
            ],
        )  # fmt: skip
        for perspective, title, file in _UTILITY:
            yield self._of_measures(
                title, file, rows, arms[perspective], None,
                [(measure("data_utility", perspective), "data utility")],
            )  # fmt: skip
        for perspective, title, file in _GRAPHS:
            # Releases for the third perspective have resources too.
            others = arms["activity_resource"] if perspective == "resource" else ()
            yield self._of_measures(
                title, file, rows, arms[perspective], None,
                [
                    (measure(f"graph_{name}", perspective), shown_as)
                    for name, shown_as in _OF_GRAPHS.items()
                ],
                others,
            )  # fmt: skip
        yield self._of_measures(
            "Figures 11 and 12: bottlenecks", "figure-11", rows, control, None,
            [
                ("bottlenecks_shared", "share of the bottlenecks that are kept"),
                ("bottlenecks_is_slowest_kept", "slowest arc is the same (1) or not (0)"),
                ("bottlenecks_rank_correlation", "rank correlation of mean durations"),
                ("bottlenecks_mean_error", "mean relative error of mean durations"),
            ],
        )  # fmt: skip
        for perspective, own_arms in arms.items():
            further = [
                *((measure(name, perspective), title) for name, title in _FURTHER),
                *(_OF_RELEASES if perspective == "activity" else _OF_RELEASES[:2]),
            ]
            yield Section(
                f"Beside the paper: {_IN_WORDS[perspective]}",
                "",
                [self._table(rows, name, title, own_arms) for name, title in further],
                f"further-{perspective}",
            )

    def _arms(self, log: Log, rows: Sequence[Row]) -> dict[Perspective, tuple[str, ...]]:
        """The arms that were run, by perspective."""
        run = {row["arm"] for row in rows}
        found: dict[Perspective, tuple[str, ...]] = dict.fromkeys(_IN_WORDS, ())
        for cell in self.cells(log):
            perspective = cell.params["perspective"]
            if cell.arm in run and cell.arm not in found[perspective]:
                found[perspective] += (cell.arm,)
        return found

    def _settings_shown(self) -> Table:
        return Table(
            ("setting", "T", "L", "K", "C"),
            [
                (one.name, one.time_unit, str(one.length), str(one.k), f"{one.confidence:g}")
                for one in self._settings
            ],
        )

    def _of_measures(
        self,
        title: str,
        file: str,
        rows: Sequence[Row],
        arms: Sequence[str],
        own: Row | None,
        measures: Sequence[tuple[str, str]],
        others: Sequence[str] = (),
    ) -> Section:
        """A section with a chart of the first measure, and a table of each with further arms."""
        name, y = measures[0]
        line = None if own is None else own.get(name)
        chart = self._chart(rows, name, y, arms, line)
        parts: list[Table | Boxes] = [chart] if chart.values else []
        parts += [self._table(rows, *one, (*arms, *others)) for one in measures]
        text = "" if line is None else f"The {y} of the log's own model is {shown(line)}."
        return Section(title, text, parts, file)

    def _table(self, rows: Sequence[Row], name: str, title: str, arms: Sequence[str]) -> Table:
        """A row an arm and a column a setting; of many settings the other way round."""
        found = table_of(rows, name, title, arms, [one.name for one in self._settings])
        if len(self._settings) <= _MOST_COLUMNS or not arms:
            return found
        header, *others = zip(found.header, *found.rows, strict=True)
        return Table(header, others)

    def _chart(
        self, rows: Sequence[Row], name: str, y: str, arms: Sequence[str], line: float | None
    ) -> Boxes:
        """A group for each kind and setting, a box for each method."""
        values: dict[tuple[str, str], Sequence[float]] = {}
        for setting in self._settings[:_CHARTED]:
            for arm in arms:
                method, kind, *_ = arm.split(", ")
                found = values_of(rows, name, arm=arm, level=setting.name)
                if found:
                    values[method, f"{kind}\n{setting.name}"] = found
        groups = list(dict.fromkeys(group for _, group in values))
        return Boxes(y, "", groups, values, line)


_UTILITY: tuple[tuple[Perspective, str, str], ...] = (
    ("activity", "Figures 6 and 7: data utility", "figure-6"),
    ("resource", "Figure 10: data utility of resources", "figure-10"),
    (
        "activity_resource",
        "Beside the paper: data utility of activities with resources",
        "utility-pairs",
    ),
)
_GRAPHS: tuple[tuple[Perspective, str, str], ...] = (
    ("activity", "Figure 13: directly-follows graph", "figure-13"),
    ("resource", "Figure 9: handover network", "figure-9"),
    (
        "activity_resource",
        "Beside the paper: directly-follows graph of activities with resources",
        "graph-pairs",
    ),
)
_OF_GRAPHS = {
    "f_score": "F-score of counts kept and precision",
    "kept": "counts kept",
    "precision": "precision",
    "occurrence_ratio": "occurrence ratio, the paper's fitness",
}
_FURTHER = (
    ("appropriateness", "advanced behavioural appropriateness"),
    ("sampled_truly", "truly sampled behaviour"),
    ("total_variation", "total variation of variants"),
    ("distinct_variants", "variants"),
)
_OF_RELEASES = (
    ("cases_kept", "share of the cases"),
    ("events_kept", "share of the events"),
    ("duration_error", "total duration error"),
    ("seconds", "seconds, from cases in memory to released cases"),
)


def _arm(method: str, kind: Kind, perspective: Perspective) -> str:
    own = "" if perspective == "activity" else f", {_IN_WORDS[perspective]}"
    return f"{method}, {kind}{own}"


def _number(name: str, text: str | None) -> float:
    """Returns a number, whose range the method knows."""
    try:
        return 0.5 if text is None else float(text)
    except ValueError:
        raise UsageError(f"{name} must be a number from 0 to 1, got {text!r}") from None


def _log_shown(log: Log, own: Row) -> Table:
    rows = []
    for perspective in perspectives_of(log):
        elements, variants = (
            own[measure(f"distinct_{name}", perspective)] for name in ("elements", "variants")
        )
        share = f"{variants / log.traces.n_cases:.1%}"
        rows.append((_IN_WORDS[perspective], f"{elements:,}", f"{variants:,}", share))
    return Table(("of the log", "different", "variants", "variants a case"), rows)

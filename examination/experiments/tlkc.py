"""`tracecloak experiment tlkc`: the evaluation of the TLKC paper, on given logs.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section 6:
both algorithms for every kind of background knowledge, beside the two baselines; mined models, data
utility, directly-follows graphs, handover networks and bottlenecks, as Tables 9 and 10 and Figures
5 to 13 have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, get_args

from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.figures import shown, values_of
from tracecloak.examination.experiments.grids import (
    Boxes,
    Cell,
    Flag,
    Grid,
    Released,
    Section,
    Table,
    table_of,
)
from tracecloak.examination.experiments.log import Log
from tracecloak.examination.experiments.measures import figures_of, measure, perspectives_of
from tracecloak.examination.experiments.networks import (
    Edge,
    Network,
    edges_of_graph,
    inner,
    names_of,
    nodes_of,
    receiver,
    slowest,
    widest,
)
from tracecloak.examination.experiments.settings import (
    Setting,
    declaration,
    one_of,
    settings_of,
    some_of,
)
from tracecloak.examination.experiments.statements import (
    Statement,
    at_least,
    judged,
    medians,
    ordered,
)
from tracecloak.examination.linkage.logs import sensitive_columns
from tracecloak.examination.measure.behaviour_measures import N_BOTTLENECKS
from tracecloak.examination.measure.perspectives import RESOURCE, only_common
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.statistics.background_knowledge import Kind, Perspective

_KINDS: tuple[Kind, ...] = get_args(Kind)
_ALGORITHMS = {"TLKC-EXT": "n_score", "TLKC": "frequent_traces"}
_BASELINES = {"Baseline-1": "k-anonymous-variants", "Baseline-2": "k-anonymous-subtraces"}
# Knowledge of more than a sequence is that of the times, and no baseline is for less.
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
        flags: Texts by name: `settings`, `knowledge`, `sensitive`, `alpha`, `theta` and `profile`,
            each None where it was not given.

    Raises:
        UsageError: One is out of range.
    """

    name: ClassVar[str] = "tlkc"
    title: ClassVar[str] = "TLKC privacy beside two baselines"
    methods: ClassVar[tuple[str, ...]] = ("tlkc", *_BASELINES.values())
    # Ties that are drawn at random hardly change a model.
    mined_repetitions: ClassVar[int | None] = 1
    mined_in_full: ClassVar[int | None] = 1
    has_models: ClassVar[bool] = True
    has_distances: ClassVar[bool] = True
    flags: ClassVar[tuple[Flag, ...]] = (
        Flag("settings", "weak, strong, T/L/K/C such as hours/2/20/0.5, or all: the 200 of the "
             "paper (default weak,strong)", full="all"),
        Flag("knowledge", "kinds of background knowledge (default set,multiset,sequence,relative)"),
        Flag("sensitive", "attributes of the case, case:NAME or case:NAME=COLUMN, whose values are "
             "read from the log (default: none, and C says nothing)"),
        Flag("alpha", "of TLKC-EXT, Algorithm 2 (default 0.5)"),
        Flag("theta", "of TLKC, Algorithm 1 (default 0.5)"),
        Flag("profile", "of both algorithms: paper, which draws one of equal scores and gives "
             "nothing back, or sparing, the default of tlkc itself (default paper)"),
    )  # fmt: skip

    def __init__(self, flags: Mapping[str, str | None]) -> None:
        self._settings = settings_of(flags["settings"])
        self._kinds = some_of("knowledge", flags["knowledge"], _KINDS)
        self._sensitive = sensitive_columns(flags["sensitive"] or "")
        self._alpha, self._theta = (_number(name, flags[name]) for name in ("alpha", "theta"))
        self._profile = one_of("profile", flags["profile"], ("paper", "sparing"))

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
                declared={name: columns for name, columns in declared.items() if columns},
                is_drawn=method == "tlkc" and self._profile == "paper",
            )  # fmt: skip

        weights = {"n_score": {"alpha": self._alpha}, "frequent_traces": {"theta": self._theta}}
        for arm, algorithm in _ALGORITHMS.items():
            for kind in self._kinds:
                params = {
                    "length": setting.length,
                    "confidence": setting.confidence,
                    "algorithm": algorithm,
                    "profile": self._profile,
                    **weights[algorithm],
                }
                declared = {"resources": resources, "sensitive": sensitive}
                yield cell(arm, kind, "tlkc", params, declared)
        for arm, method in _BASELINES.items():
            for kind in _OF_BASELINES:
                if kind in self._kinds:
                    yield cell(arm, kind, method, {}, {"resources": resources})

    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns the measures of every perspective that the release has, and what is drawn."""
        row = figures_of(log, released)
        assert released.traces is not None
        if cell.level != self._settings[-1].name or not cell.arm.startswith(_DRAWN):
            return row
        perspective: Perspective = cell.params["perspective"]
        before, after = log.traces.recode(log.vocabulary), released.traces
        if perspective == "activity":
            left = only_common(before, after)
            row["waits"] = edges_of_graph(before, after, perspective)
            row["waits_of_log"] = edges_of_graph(before, left, perspective)
        elif perspective == "resource":
            row["handovers"] = edges_of_graph(before, after, perspective)
        return row

    def noted(self) -> Mapping[str, Any]:
        """Returns what the template of the notes prints."""
        return {"sensitive": ", ".join(self._sensitive) or "none", "profile": self._profile}

    def sections(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Section]:
        """Yields Tables 9 and 10, Figures 5 to 13 and what the paper does not show."""
        arms = self._arms(log, rows)
        yield Section("Settings", "", [self._settings_shown()], "settings")
        yield Section("Tables 9 and 10: the log", "", [_log_shown(log, log_row)], "tables-9-10")
        control = arms["activity"]
        yield self._of_measures(
            "Figures 5 and 7: quality of the mined model", "figure-5", rows, control, log_row,
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
        yield from self._handovers(rows, log)
        yield from self._waits(rows, log)
        yield self._of_measures(
            "Figures 11 and 12 in figures: bottlenecks", "bottlenecks", rows, control, None,
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

    def _handovers(self, rows: Sequence[Row], log: Log) -> Iterator[Section]:
        """Figure 8: who hands work over to whom, and one resource in colour."""
        for kind in self._kinds:
            arm = _arm("TLKC-EXT", kind, "resource")
            row = self._drawn(rows, arm, "handovers")
            if row is None:
                continue
            before = inner(edges_of_graph(log.traces, log.traces, "resource"))
            after = inner(row["handovers"])
            names, followed = names_of(log, "resource"), receiver(before, nodes_of(after))
            sides = [{(int(a), int(b)) for a, b, *_ in edges} for edges in (before, after)]
            pairs = [{pair for pair in side if followed in pair and len({*pair}) > 1}
                   for side in sides]  # fmt: skip
            networks = [
                Network(title, "circle", names, edges, frozenset(marked))
                for title, edges, marked in zip(
                    ("the log", arm), (before, after), pairs, strict=True
                )
            ]
            one = "" if followed is None else (
                f" In colour are those of one resource, {names[followed]}: {len(pairs[0])} in the "
                f"log, of which {len(pairs[0] & pairs[1])} are left."
            )  # fmt: skip
            yield Section(
                f"Figure 8: handover networks, {kind}",
                f"All {len(sides[0]):,} handovers of the log and the {len(sides[1]):,} of a "
                f"release with the setting {self._settings[-1].name}, which has "
                f"{len(sides[0] & sides[1]):,} of the log's; the wider, the more often.{one}",
                [networks],
                f"figure-8-{kind}",
            )
            return

    def _waits(self, rows: Sequence[Row], log: Log) -> Iterator[Section]:
        """Figures 11 and 12: mean times between activities, the longest in colour."""
        names = names_of(log, "activity")
        for kind in self._kinds:
            arm = _arm("TLKC-EXT", kind, "activity")
            row = self._drawn(rows, arm, "waits")
            if row is None or not inner(row["waits"]):
                continue
            number = "11" if kind in ("set", "multiset") else "12"
            yield Section(
                f"Figure {number}: mean times between activities, {kind}",
                f"The log, projected on the activities that are left, and a release with the "
                f"setting {self._settings[-1].name}. Drawn are the most frequent arcs into each "
                "activity and out of it, and in colour the slowest frequent ones.",
                [[
                    _timed("the log", names, row["waits_of_log"]),
                    _timed(arm, names, row["waits"]),
                ]],
                f"figure-{number}-{kind}",
            )  # fmt: skip

    def _drawn(self, rows: Sequence[Row], arm: str, name: str) -> Row | None:
        """The first row of the last setting that has the figure to draw; None: no row has it."""
        level = self._settings[-1].name
        drawn = (row for row in rows if (row["arm"], row["level"]) == (arm, level))
        return next((row for row in drawn if row.get(name) is not None), None)

    def statements(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Statement]:
        """Yields what section 6 states, by the medians of the settings called weak and strong."""
        for setting in self._settings:
            if setting.name in _UTILITY_STATED:
                yield from self._of_utility(rows, setting.name)
        yield from self._of_models(rows, log_row)
        yield from self._of_graphs(rows)
        yield from self._of_waits(rows)

    def _of_utility(self, rows: Sequence[Row], level: str) -> Iterator[Statement]:
        """Figure 6: the two algorithms side by side."""
        median = medians(rows, "data_utility")
        for text, kinds, least in _UTILITY_STATED[level]:
            pairs = [
                (kind, median(f"TLKC-EXT, {kind}", level), median(f"TLKC, {kind}", level))
                for kind in kinds
            ]
            yield at_least("section 6.2.2, Figure 6", text, pairs, -least)

    def _of_models(self, rows: Sequence[Row], log_row: Row) -> Iterator[Statement]:
        """Figure 5."""
        level = _STRONG
        source = "section 6.2.1, Figure 5"
        fitness, f_score = medians(rows, "fitness"), medians(rows, "f_score")
        yield at_least(
            source,
            "the fitness of models of relative knowledge is below that of the other kinds",
            [
                (f"{kind} against relative", fitness(f"TLKC-EXT, {kind}", level),
                 fitness("TLKC-EXT, relative", level))
                for kind in ("set", "multiset", "sequence")
            ],
        )  # fmt: skip
        yield at_least(
            source,
            "Baseline-2 has the best F-score, since little behaviour is left",
            [
                (f"Baseline-2 against {kind}", f_score("Baseline-2, sequence", level),
                 f_score(f"TLKC-EXT, {kind}", level))
                for kind in self._kinds
            ],
        )  # fmt: skip
        reference = log_row.get("f_score")
        near = {
            kind: abs(value - reference)
            for kind in self._kinds
            if reference is not None and (value := f_score(f"TLKC-EXT, {kind}", level)) is not None
        }
        both = {"sequence", "relative"} <= near.keys()
        others = min(near["sequence"], near["relative"]) if both else None
        yield at_least(
            source,
            "with set and multiset the F-score is nearest to that of the log's own model",
            [
                (f"others against {kind}, how far away", others, near.get(kind))
                for kind in ("set", "multiset")
            ],
        )

    def _of_graphs(self, rows: Sequence[Row]) -> Iterator[Statement]:
        """Figures 9, 10 and 13."""
        level = _STRONG
        for source, perspective, what in _GRAPHS_STATED:
            arms = [_arm("TLKC-EXT", kind, perspective) for kind in self._kinds]
            precision = medians(rows, measure("graph_precision", perspective))
            fitness = medians(rows, measure("graph_occurrence_ratio", perspective))
            yield at_least(
                source,
                f"the precision of {what} is high with every kind (0.8 or more)",
                [
                    (kind, precision(arm, level), 0.8)
                    for kind, arm in zip(self._kinds, arms, strict=True)
                ],
            )
            yield ordered(
                source,
                f"the fitness of {what} falls as more is known",
                [(kind, fitness(arm, level)) for kind, arm in zip(self._kinds, arms, strict=True)],
            )
        utility = medians(rows, measure("data_utility", "resource"))
        yield at_least(
            "section 6.3.2, Figure 10",
            "the data utility of resources is above 0.5 even for strong knowledge",
            [
                (kind, utility(_arm("TLKC-EXT", kind, "resource"), level), 0.5)
                for kind in self._kinds
            ],
        )

    def _of_waits(self, rows: Sequence[Row]) -> Iterator[Statement]:
        """Figures 11 and 12."""
        level = _STRONG
        source = "section 6.4, Figures 11 and 12"
        shared = medians(rows, "bottlenecks_is_slowest_kept")
        shares = {kind: shared(f"TLKC-EXT, {kind}", level) for kind in self._kinds}
        yield at_least(
            source,
            "the slowest arc stays the same with set, multiset and sequence",
            [(kind, shares.get(kind), 1.0) for kind in ("set", "multiset", "sequence")],
        )
        relative = shares.get("relative")
        yield judged(
            source,
            "with relative knowledge the bottlenecks are others",
            [None if relative is None else relative < 1],
            "" if relative is None else f"slowest arc kept in {relative:.0%} of releases",
        )

    def _arms(self, log: Log, rows: Sequence[Row]) -> dict[Perspective, tuple[str, ...]]:
        """The arms that were run, by perspective."""
        run = {row["arm"] for row in rows}
        arms: dict[Perspective, tuple[str, ...]] = dict.fromkeys(_IN_WORDS, ())
        for cell in self.cells(log):
            perspective = cell.params["perspective"]
            if cell.arm in run and cell.arm not in arms[perspective]:
                arms[perspective] += (cell.arm,)
        return arms

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
        log_row: Row | None,
        measures: Sequence[tuple[str, str]],
        others: Sequence[str] = (),
    ) -> Section:
        """A section with a chart of the first measure, and a table of each with further arms."""
        name, y = measures[0]
        line = None if log_row is None else log_row.get(name)
        chart = self._chart(rows, name, y, arms, line)
        parts: list[Table | Boxes] = [chart] if chart.values else []
        parts += [self._table(rows, *one, (*arms, *others)) for one in measures]
        text = "" if line is None else f"The {y} of the log's own model is {shown(line)}."
        return Section(title, text, parts, file)

    def _table(self, rows: Sequence[Row], name: str, title: str, arms: Sequence[str]) -> Table:
        """A row an arm and a column a setting; of many settings the other way round."""
        table = table_of(rows, name, title, arms, [one.name for one in self._settings])
        if len(self._settings) <= _MOST_COLUMNS or not arms:
            return table
        header, *others = zip(table.header, *table.rows, strict=True)
        return Table(header, others)

    def _chart(
        self, rows: Sequence[Row], name: str, y: str, arms: Sequence[str], line: float | None
    ) -> Boxes:
        """A group for each kind and setting, a box for each method."""
        values: dict[tuple[str, str], Sequence[float]] = {}
        for setting in self._settings[:_CHARTED]:
            for arm in arms:
                method, kind, *_ = arm.split(", ")
                boxed = values_of(rows, name, arm=arm, level=setting.name)
                if boxed:
                    values[method, f"{kind}\n{setting.name}"] = boxed
        groups = list(dict.fromkeys(group for _, group in values))
        return Boxes(y, "", groups, values, line)


# The setting that sections 6.3 and 6.4 have, and Figure 5b.
_STRONG = "strong"
# Of which arms the graphs are kept and drawn.
_DRAWN = "TLKC-EXT"
# What is stated of Figure 6: of which kinds Algorithm 2 keeps so much more than Algorithm 1.
_UTILITY_STATED: dict[str, tuple[tuple[str, tuple[Kind, ...], float], ...]] = {
    "weak": (
        ("TLKC-EXT has about the data utility of TLKC (less by at most 0.02)", _KINDS, -0.02),
        ("TLKC-EXT has slightly more than TLKC where much is known", ("sequence", "relative"), 0.0),
    ),
    "strong": (
        ("TLKC-EXT has considerably more data utility than TLKC (by 0.05 or more)",
         ("multiset", "sequence"), 0.05),
        ("TLKC-EXT has no less data utility than TLKC", _KINDS, 0.0),
    ),
}  # fmt: skip
_GRAPHS_STATED: tuple[tuple[str, Perspective, str], ...] = (
    ("section 6.4, Figure 13", "activity", "directly-follows graphs"),
    ("section 6.3.1, Figure 9", "resource", "handover networks"),
)
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


def _timed(title: str, names: Mapping[int, str], edges: Sequence[Edge]) -> Network:
    """The main arcs with their mean hours, the bottlenecks in colour."""
    marked = slowest(edges, N_BOTTLENECKS)
    drawn = widest(edges, marked)
    hours = {(int(a), int(b)): mean for a, b, _, mean in inner(drawn)}
    labels = {
        pair: f"{mean / 24:.1f} d" if mean >= 48 else f"{mean:.1f} h"
        for pair, mean in hours.items()
    }
    return Network(title, "layers", names, drawn, frozenset(marked), labels)


def _arm(method: str, kind: Kind, perspective: Perspective) -> str:
    of_perspective = "" if perspective == "activity" else f", {_IN_WORDS[perspective]}"
    return f"{method}, {kind}{of_perspective}"


def _number(name: str, text: str | None) -> float:
    """Returns a number, whose range the method knows."""
    try:
        return 0.5 if text is None else float(text)
    except ValueError:
        raise UsageError(f"{name} must be a number from 0 to 1, got {text!r}") from None


def _log_shown(log: Log, log_row: Row) -> Table:
    rows = []
    for perspective in perspectives_of(log):
        elements, variants = (
            log_row[measure(f"distinct_{name}", perspective)] for name in ("elements", "variants")
        )
        share = f"{variants / log.traces.n_cases:.1%}"
        rows.append((_IN_WORDS[perspective], f"{elements:,}", f"{variants:,}", share))
    return Table(("of the log", "different", "variants", "variants a case"), rows)

"""`tracecloak experiment tlkc`: the evaluation of the TLKC paper, on given logs.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section 6:
both algorithms for every kind of background knowledge, beside the two baselines; mined models, data
utility, directly-follows graphs, handover networks and bottlenecks, as Tables 9 and 10 and Figures
5 to 13 have them. What is shown and stated is in `papers/tlkc.toml`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, get_args

import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.paper import (
    Cell,
    Log,
    Paper,
    Released,
    edges_of_graph,
    figures_of,
    graph_of,
    inner,
    measure,
    names_of,
    nodes_of,
    perspectives_of,
    receiver,
    slowest,
)
from tracecloak.examination.experiments.table import Figures, Graph, Section, Table
from tracecloak.examination.linkage.logs import FEW_NUMBERS, number_of, sensitive_columns
from tracecloak.examination.measure.behaviour_measures import N_BOTTLENECKS, RESOURCE, only_common
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.declarations import MAX_VALUES
from tracecloak.schemas.statistics.background_knowledge import Perspective, TimeUnit

_ALGORITHMS = {"TLKC-EXT": ("n_score", "alpha"), "TLKC": ("frequent_traces", "theta")}
_BASELINES = {"Baseline-1": "k-anonymous-variants", "Baseline-2": "k-anonymous-subtraces"}
# Knowledge of more than a sequence is that of the times, and no baseline is for less.
_OF_BASELINES = ("sequence", "relative")
_IN_WORDS: dict[Perspective, str] = {
    "activity": "activities",
    "resource": "resources",
    "activity_resource": "activities with resources",
}
# Of which arms the graphs are kept and drawn.
_DRAWN = "TLKC-EXT"
# All settings of section 6.1.
_UNITS, _LENGTHS, _KS = ("hours", "minutes"), range(2, 7), range(20, 61, 10)
_CONFIDENCES = (0.2, 0.3, 0.4, 0.5)


class Setting(NamedTuple):
    """T, L, K and C."""

    time_unit: str
    length: int
    k: int
    confidence: float


class TlkcPaper(Paper):
    """The evaluation; see the module."""

    name: ClassVar[str] = "tlkc"

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        super().__init__(texts)
        self.settings_by_name = settings_of(self.given["settings"], self.spec["settings"])
        self._sensitive = sensitive_columns(self.given["sensitive"] or "")
        self._weights = {name: _weight(name, self.given[name]) for name in ("alpha", "theta")}

    def words(self) -> Mapping[str, Any]:
        """Returns what the flags say."""
        return {**self.given, "sensitive": ", ".join(self._sensitive) or "none"}

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
        profile = self.given["profile"]
        for perspective in perspectives_of(log):
            resources = {} if perspective == "activity" else {RESOURCE: declaration(log, RESOURCE)}
            for (name, setting), (arm, kind) in itertools.product(
                self.settings_by_name.items(),
                itertools.product((*_ALGORITHMS, *_BASELINES), self.given["knowledge"]),
            ):
                params = {
                    "k": setting.k, "time_unit": setting.time_unit, "perspective": perspective,
                    "knowledge_kind": kind,
                }  # fmt: skip
                declared = {"resources": resources}
                if arm in _ALGORITHMS:
                    algorithm, weight = _ALGORITHMS[arm]
                    declared["sensitive"] = sensitive
                    params |= {
                        "length": setting.length, "confidence": setting.confidence,
                        "algorithm": algorithm, "profile": profile, weight: self._weights[weight],
                    }  # fmt: skip
                elif kind not in _OF_BASELINES:
                    continue
                yield Cell(
                    f"{arm}, {kind}" if perspective == "activity"
                    else f"{arm}, {kind}, {_IN_WORDS[perspective]}",
                    name, "", _BASELINES.get(arm, "tlkc"), params, needs_log=True,
                    is_mined=perspective == "activity",
                    declared={what: columns for what, columns in declared.items() if columns},
                    is_drawn=arm in _ALGORITHMS and profile == "paper",
                )  # fmt: skip

    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns the measures of every perspective that the release has, and what is drawn."""
        row = figures_of(log, released)
        assert released.traces is not None
        if cell.level != self._last or not cell.arm.startswith(_DRAWN):
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

    @property
    def _last(self) -> str:
        """The setting whose graphs are drawn."""
        return list(self.settings_by_name)[-1]

    def settings(self, log: Log, table: Figures, spec: Row) -> Iterator[Section]:
        """Yields a table of the settings."""
        rows = [
            (name, one.time_unit, str(one.length), str(one.k), f"{one.confidence:g}")
            for name, one in self.settings_by_name.items()
        ]
        yield Section("Settings", "", [Table(("setting", "T", "L", "K", "C"), rows)], "settings")

    def of_the_log_itself(self, log: Log, table: Figures, spec: Row) -> Iterator[Section]:
        """Yields Tables 9 and 10."""
        rows = []
        for perspective in perspectives_of(log):
            elements, variants = (
                table.rows[0][measure(f"distinct_{name}", perspective)]
                for name in ("elements", "variants")
            )
            share = f"{variants / log.traces.n_cases:.1%}"
            rows.append((_IN_WORDS[perspective], f"{elements:,}", f"{variants:,}", share))
        shown = Table(("of the log", "different", "variants", "variants a case"), rows)
        yield Section("Tables 9 and 10: the log", "", [shown], "tables-9-10")

    def handovers(self, log: Log, table: Figures, spec: Row) -> Iterator[Section]:
        """Yields Figure 8: who hands work over to whom, and one resource in colour."""
        for kind, arm, row in self._drawn(table, "handovers", ", resources")[:1]:
            before = inner(edges_of_graph(log.traces, log.traces, "resource"))
            after = inner(row["handovers"])
            names, followed = names_of(log, "resource"), receiver(before, nodes_of(after))
            sides = [{(int(a), int(b)) for a, b, *_ in edges} for edges in (before, after)]
            left = sides[0] & sides[1]
            one = ""
            if followed is not None:
                own, kept = (
                    sum(followed in pair and len({*pair}) > 1 for pair in pairs)
                    for pairs in (sides[0], left)
                )
                name = names[followed - 1].as_py()
                one = f" Of one resource, {name}, the log has {own}, of which {kept} are left."
            yield Section(
                f"Figure 8: handover networks, {kind}",
                f"All {len(sides[0]):,} handovers of the log and the {len(sides[1]):,} of a "
                f"release with the setting {self._last}, which has {len(left):,} of the log's; "
                f"the wider, the more often.{one}",
                [Graph("the log", graph_of(names, before)), Graph(arm, graph_of(names, after))],
                f"figure-8-{kind}",
            )

    def waits(self, log: Log, table: Figures, spec: Row) -> Iterator[Section]:
        """Yields Figures 11 and 12: mean times between activities, the longest first."""
        names = names_of(log, "activity")
        for kind, arm, row in self._drawn(table, "waits", ""):
            if not inner(row["waits"]):
                continue
            number = "11" if kind in ("set", "multiset") else "12"
            sides = {"the log": row["waits_of_log"], arm: row["waits"]}
            rows = []
            for title, edges in sides.items():
                hours = {(int(a), int(b)): mean for a, b, _, mean in edges}
                for a, b in slowest(edges, N_BOTTLENECKS):
                    pair = " to ".join(names[code - 1].as_py() for code in (a, b))
                    rows.append((title, pair, f"{hours[a, b]:.1f} h"))
            bottlenecks = Table(("slowest frequent arcs", "", "mean time"), rows)
            yield Section(
                f"Figure {number}: mean times between activities, {kind}",
                f"The log, projected on the activities that are left, and a release with the "
                f"setting {self._last}. Drawn are how often activities follow each other.",
                [
                    bottlenecks,
                    *(Graph(title, graph_of(names, one)) for title, one in sides.items()),
                ],
                f"figure-{number}-{kind}",
            )

    def _drawn(self, table: Figures, name: str, suffix: str) -> list[tuple[str, str, Row]]:
        """By kind the arm and its first row of the last setting that has the figure to draw."""
        found: dict[str, tuple[str, str, Row]] = {}
        arms = {f"{_DRAWN}, {kind}{suffix}": kind for kind in self.given["knowledge"]}
        for row in table.rows:
            if row["level"] == self._last and row["arm"] in arms and row.get(name) is not None:
                found.setdefault(row["arm"], (arms[row["arm"]], row["arm"], row))
        return [found[arm] for arm in arms if arm in found]


def settings_of(text: str, named: Mapping[str, str]) -> dict[str, Setting]:
    """Returns settings by their names: those that are named, T/L/K/C, or all 200 of the paper.

    Raises:
        UsageError: One is none of these, is there twice, or there is none.
    """
    if text == "all":
        every = itertools.product(_UNITS, _LENGTHS, _KS, _CONFIDENCES)
        return {"/".join(map(str, one)): Setting(*one) for one in every}
    names = [part.strip() for part in text.split(",") if part.strip()]
    settings = {}
    for name in names:
        try:
            unit, length, k, confidence = named.get(name, name).split("/")
            settings[name] = Setting(unit, int(length), int(k), float(confidence))
            if unit not in get_args(TimeUnit):
                raise ValueError(unit)
        except ValueError:
            raise UsageError(
                f"settings must be {', '.join(named)}, all, or T/L/K/C such as hours/2/20/0.5, got "
                f"{name!r}"
            ) from None
    if not names or len(settings) < len(names):
        raise UsageError(f"settings must be distinct and separated by commas, got {text!r}")
    return settings


def declaration(log: Log, name: str) -> dict[str, Any]:
    """Declares an attribute by the values of a log: texts, or bounds of numbers that are many.

    Raises:
        UsageError: It has no value, or too many.
    """
    values = pc.unique(log.traces.attributes[name].cast(pa.string())).to_pylist()
    texts = sorted(text for text in values if text)
    column = log.columns[name]
    numbers = [number_of(text) for text in texts] if name != RESOURCE else []
    if len(numbers) > FEW_NUMBERS and all(map(math.isfinite, numbers)):
        is_whole = all(number == int(number) for number in numbers)
        low, high = min(numbers), max(numbers)
        n_bins = min(int(high - low) + 1, MAX_VALUES) if is_whole else MAX_VALUES
        return {"bounds": [low, high], "n_bins": n_bins, "whole": is_whole, "column": column}
    if not 0 < len(texts) <= MAX_VALUES:
        raise UsageError(
            f"{name} must have 1 to {MAX_VALUES} different values in {log.name!r}, got {len(texts)}"
        )
    return {"values": texts, "column": column}


def _weight(name: str, text: str) -> float:
    """Returns a number, whose range the method knows."""
    if math.isnan(number := number_of(text)):
        raise UsageError(f"{name} must be a number from 0 to 1, got {text!r}")
    return number

"""A paper's evaluation as a table: settings, measures of a release, statements of the paper.

`papers/NAME.toml` says which methods and flags there are, what is shown of the rows, and what the
paper states of its results. A subclass of `Paper` has what cannot be said there: which releases a
setting of the flags makes of a log (`cells`), what is measured of one (`figures`), and sections of
a kind that only one paper has. `examination.experiments.run` runs any of them, `table.py` makes
sections of a page of the rows and judges the statements.

What the experiments on the k-anonymity family measure of a release, in all its perspectives, and
their graphs of handovers and of waiting times. Every figure is exact about private data: for the
operator only.
"""

from __future__ import annotations

import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib import resources
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.experiments.table import (
    THE_LOG,
    THE_PAPER,
    Figures,
    Section,
    Statement,
    judge_statement,
    sections_of,
)
from tracecloak.examination.measure import utility
from tracecloak.examination.measure.behaviour_measures import (
    PERSPECTIVES,
    Elements,
    behavioural_appropriateness,
    bottlenecks,
    data_utility,
    edges_of,
    graph_similarity,
    has_resources,
    projected,
    total_duration_error,
    truly_sampled,
)
from tracecloak.examination.measure.mining import MinedQuality, NormalBehaviour, PatientMiner
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import ReleasedGraph, ReleasedTree
from tracecloak.schemas.statistics.background_knowledge import Perspective
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.pages.page import from_template

# --- Graphs of a log and of a release: handovers of work, and how long steps take. ----------------
# A log whose resource X hands work to Y forty times, after two hours in the mean, has an edge
# from X to Y of forty and two. A row keeps such edges by numbers (`edges_of_graph`), the page
# draws them with names (`graph_of`).
#
# A log of an experiment: what releases are made of and compared with.


@dataclass(frozen=True)
class Log(Original):
    """A log that releases are made of and compared with.

    Attributes:
        read_seconds: How long it took to read.
        columns: Source columns of the attributes that were read with it, by name.
    """

    read_seconds: float = 0.0
    columns: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def normal(self) -> NormalBehaviour:
        """What distinguishes its normal traces from others."""
        return NormalBehaviour(self.variants)


START, END = -1, -2
_HOUR_US = 3_600_000_000
# An arc with less than this share of all pairs is no bottleneck; the paper has pictures only.
_FREQUENT_SHARE = 0.01

# [source, target, how often, mean hours], by the codes of elements, and START and END.
Edge = Sequence[float]


def edges_of_graph(log: TraceBatch, traces: TraceBatch, perspective: Perspective) -> list[Edge]:
    """Returns the directly-follows graph of some cases, and where they begin and end.

    Args:
        log: The log; the codes of the elements are by its names.
        traces: Cases with no names that the log lacks.
        perspective: What an element is.

    Returns:
        Edges by code; with START and END the hours are 0.
    """
    _, cases = projected([log, traces], perspective)
    if not cases.n_events:
        return []
    of_code = np.array([int(name) for name in cases.vocabulary.names.to_pylist()], np.int64)
    codes = of_code[cases.activities]
    later = np.flatnonzero(~cases.is_first)
    last = cases.offsets[1:] - 1
    sources = np.concatenate([codes[later - 1], np.full(cases.n_cases, START), codes[last]])
    targets = np.concatenate([codes[later], codes[cases.offsets[:-1]], np.full(cases.n_cases, END)])
    hours = np.zeros(len(sources))
    hours[: len(later)] = cases.durations[later] / _HOUR_US
    pairs, edge = np.unique(np.stack([sources, targets]), axis=1, return_inverse=True)
    edge = edge.reshape(-1)
    counts = np.bincount(edge)
    means = sum_groups(edge, hours, len(counts)) / counts
    return [
        [int(a), int(b), int(n), round(float(mean), 4)]
        for a, b, n, mean in zip(*pairs, counts, means, strict=True)
    ]


def names_of(log: Log, perspective: Perspective) -> pa.StringArray:
    """Returns the names of a log's activities or resources, in the order of their codes."""
    elements = Elements.of([log.traces], perspective)
    return (elements.activities if perspective == "activity" else elements.resources).names


def graph_of(names: pa.StringArray, edges: Sequence[Edge]) -> ReleasedGraph:
    """Returns the edges as a graph with their counts, to be drawn."""
    code = {START: len(names), END: len(names) + 1}
    whole = [(int(a), int(b), int(n)) for a, b, n, _ in edges]
    ordered = sorted((code.get(a, a - 1), code.get(b, b - 1), n) for a, b, n in whole)
    sources, targets, counts = np.array(ordered, np.int64).reshape(-1, 3).T
    pairs = sources.astype(np.int32), targets.astype(np.int32)
    return ReleasedGraph(names, *pairs, counts, counts, counts)


def inner(edges: Sequence[Edge]) -> list[Edge]:
    """Returns the edges between elements."""
    return [edge for edge in edges if edge[0] > 0 and edge[1] > 0]


def nodes_of(edges: Sequence[Edge]) -> set[int]:
    """Returns the elements that some edges join."""
    return {int(node) for edge in edges for node in edge[:2] if node > 0}


def slowest(edges: Sequence[Edge], n: int) -> list[tuple[int, int]]:
    """Returns the pairs of the slowest edges among the frequent ones, the slowest first."""
    between = inner(edges)
    least = _FREQUENT_SHARE * sum(edge[2] for edge in between)
    frequent = [edge for edge in between if edge[2] >= least]
    ranked = sorted(frequent, key=lambda edge: (-edge[3], edge[0], edge[1]))
    return [(int(edge[0]), int(edge[1])) for edge in ranked[:n]]


def receiver(edges: Sequence[Edge], among: set[int]) -> int | None:
    """Returns the node that most others hand work to of those that hand on to the fewest.

    Figure 8 of the TLKC paper follows one that is given work by eight and hands none on.

    Args:
        edges: Of the whole log.
        among: The nodes to choose from; None is returned if nobody hands work to any of them.
    """
    pairs = [(int(a), int(b)) for a, b, *_ in inner(edges) if a != b]
    n_out = {node: sum(a == node for a, _ in pairs) for node in among}
    n_in = {node: sum(b == node for _, b in pairs) for node in among}
    known = [node for node in among if n_in[node]]
    return min(known, key=lambda node: (n_out[node], -n_in[node], node), default=None)


# --- A paper's evaluation as a table: settings, measures of a release, statements of the paper. ---
# `papers/NAME.toml` says which methods and flags there are, what is shown of the rows, and what
# the paper states of its results. A subclass of `Paper` has what cannot be said there: which
# releases a setting of the flags makes of a log (`cells`), what is measured of one (`figures`),
# and sections of a kind that only one paper has. `examination.experiments.run` runs any of them,
# `table.py` makes sections of a page of the rows, `statements.py` judges the statements.
#
# The measures are those of `examination.measure.behaviour_measures`; here they become the figures
# of a row. Every figure is exact about private data: for the operator only.


@dataclass(frozen=True)
class Cell:
    """One method with one set of parameters, to be released several times.

    Attributes:
        arm: What the charts call it.
        level: Where on their axis it stands, such as an epsilon.
        epsilon: Its epsilon as published, as text.
        method: Its name in the registry; an empty text: the log itself is looked at, once.
        params: Its parameters.
        needs_log: Whether a log with times is measured, not just its variants.
        is_mined: Whether a process is mined from the release.
        declared: Further parameters, which declare attributes by the log's own values. Rows have
            the names and columns of the attributes only.
        is_drawn: Whether two releases differ in more than ids. If not, there is one.
    """

    arm: str
    level: str
    epsilon: str
    method: str
    params: Mapping[str, Any]
    needs_log: bool = False
    is_mined: bool = False
    declared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_drawn: bool = True

    @property
    def identity(self) -> Row:
        """The columns of rows that distinguish it from other cells of a log."""
        columns = {
            name: {attribute: given["column"] for attribute, given in declarations.items()}
            for name, declarations in self.declared.items()
        }
        return {
            "arm": self.arm,
            "level": self.level,
            "method": self.method,
            "epsilon": self.epsilon,
            "params": json.dumps({**self.params, **columns}, sort_keys=True),
        }


@dataclass(frozen=True)
class Released:
    """One release in memory.

    Attributes:
        variants: In the codes of the original's vocabulary; none where a tree is released.
        traces: The cases, or None: none were asked for.
        seconds: What the release took, from cases in memory on.
        tree: The process tree, or None: that is not what the method releases.
    """

    variants: VariantHistogram
    traces: TraceBatch | None
    seconds: float
    tree: ReleasedTree | None = None


class Paper(ABC):
    """One paper's evaluation.

    Without flags its cells are so few that an hour on two cores does for a log of the paper's size;
    what the paper has beyond is in `Flag.full`.

    Attributes:
        name: As in the command.
        spec: Its TOML file: `title`, `methods`, `flags` (see `value_of`; `full` is a value with
            `--full`), `has_models`: whether processes are mined, which needs pm4py and
            scikit-learn, `has_distances`: whether distances of variants are measured, which needs
            POT; `mined`: of so many releases of a cell a process is mined, unless told otherwise
            (of all without it), and `mined_in_full`, with `--full`; `of_models`: what is said of a
            model's quality beside what is said in every evaluation.
        methods: The registry's names of what is compared.
        repetitions: Of each cell in which something is drawn, unless told otherwise: as many as a
            box of quartiles takes to be read.
        has_models: See `spec`.
        given: Values of the flags by name: see `value_of`.

    Args:
        texts: Texts of the flags, or None, by name.

    Raises:
        UsageError: One is out of range.
    """

    name: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]
    repetitions: ClassVar[int] = 10
    has_models: ClassVar[bool]
    spec: ClassVar[Mapping[str, Any]]

    def __init_subclass__(cls) -> None:
        file = resources.files(__package__) / "papers" / f"{cls.name}.toml"
        cls.spec = spec = tomllib.loads(file.read_text(encoding="utf-8"))
        cls.methods, cls.has_models = tuple(spec["methods"]), spec["has_models"]

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        self.given: dict[str, Any] = {
            flag["name"]: value_of(flag, texts[flag["name"]]) for flag in self.spec["flags"]
        }

    @abstractmethod
    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields what is run on a log."""

    @abstractmethod
    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns what is measured of a release: JSON values by name, None where nothing is.

        The log itself, as if it were a release, is measured too.
        """

    def columns(self, mapping: ColumnMapping) -> Mapping[str, str]:
        """Returns the source columns of the attributes that are read with a log, by name.

        Args:
            mapping: What the log's columns mean.
        """
        return {}

    def of_the_log(self) -> Cell:
        """Returns the cell that stands for the log itself."""
        return Cell(THE_LOG, "", "", "", {}, is_mined=self.has_models)

    def miner(self, log: Log, patience: float) -> PatientMiner:
        """Returns what mines or judges the models of a log; one may take so many seconds."""
        return PatientMiner(log.variants, log.vocabulary, patience)

    def mined(self, miner: PatientMiner, released: Released, cell: Cell) -> MinedQuality | None:
        """Returns the quality of the model of a release, or of the log; None: nothing to mine.

        Raises:
            TimeoutError: It took too long.
            RuntimeError: Mining failed.
        """
        return miner.mined(released.variants)

    def notes(self) -> Sequence[str]:
        """Returns paragraphs on what was run and how it differs from the paper."""
        template = f"papers/{self.name}.md.j2"
        return [line for line in from_template(__package__, template, **self.words()) if line]

    def words(self) -> Mapping[str, Any]:
        """Returns what the notes print, and what `each` of sections and statements may name."""
        return self.given

    def printed(self, log: Log) -> Mapping[str, Any]:
        """Returns what the paper prints of a log of these sizes; nothing if it has no such log."""
        sizes = log.identity()
        for printed in self.spec.get("logs", ()):
            if all(sizes[name] == printed.get(name, sizes[name]) for name in _SIZES):
                return printed
        return {}

    def table(self, log: Log, rows: Sequence[Row], log_row: Row) -> Figures:
        """Returns the figures of a log, with what the paper prints of it."""
        printed = {**self.printed(log), "arm": THE_PAPER, "level": ""}
        levels = [cell.level for cell in self.cells(log) if cell.level]
        own = {**log_row, "arm": THE_LOG, "level": ""}
        return Figures([own, printed, *rows], list(dict.fromkeys(levels)), self.spec)

    def sections(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Section]:
        """Yields the page's sections on a log.

        Args:
            log: The log.
            rows: Its rows, those of a cell in the order of the repetitions; some can be missing.
            log_row: The row of the log itself.
        """
        table = self.table(log, rows, log_row)
        for spec in self.spec["sections"]:
            if "by" in spec:
                yield from getattr(self, spec["by"])(log, table, spec)
            else:
                yield from sections_of(spec, table, self.words())

    def statements(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Statement]:
        """Yields what the paper states of its results, and whether the rows of a log agree."""
        table = self.table(log, rows, log_row)
        for spec in self.spec["statements"]:
            yield judge_statement(spec, table, self.words())


_SIZES = ("cases", "events", "variants")


def value_of(flag: Mapping[str, Any], text: str | None) -> Any:
    """Returns what a flag's text means.

    Args:
        flag: `among`: names to choose from; `above` and `most`: bounds of numbers; `is_whole`:
            they are; `is_single`: there is one; `is_repeated`: one may come twice. With none of
            these the value is the text.
        text: As it was given, or None: the default, if there is one.

    Raises:
        UsageError: It is not as the flag says.
    """
    name, text = flag["name"], text if text is not None else flag.get("default")
    if text is None or not flag.keys() & {"among", "most"}:
        return text
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if "among" in flag:
        chosen = tuple(one for one in flag["among"] if one in parts)
        names = ", ".join(flag["among"])
        if flag.get("is_single"):
            if parts != chosen or len(parts) != 1:
                raise UsageError(f"{name} must be one of {names}, got {text!r}")
            return chosen[0]
        if not chosen or len(chosen) != len(parts):
            raise UsageError(
                f"{name} must be some of {names}, each once and separated by commas, got {text!r}"
            )
        return chosen
    low, high = flag["above"], flag["most"]
    for one in parts:
        try:
            is_within = low < float(one) <= high
        except ValueError:
            is_within = False
        if not is_within:
            raise UsageError(f"{name} must be above {low:g} and at most {high:g}, got {one!r}")
        if flag.get("is_whole") and not one.isdecimal():
            raise UsageError(f"{name} must be whole numbers, got {one!r}")
    if not parts or (len(set(parts)) < len(parts) and not flag.get("is_repeated")):
        raise UsageError(f"{name} must be distinct numbers separated by commas, got {text!r}")
    if flag.get("is_single") and len(parts) > 1:
        raise UsageError(f"{name} must be one number, got {len(parts)}")
    values = tuple(map(int, parts)) if flag.get("is_whole") else parts
    return values[0] if flag.get("is_single") else values


_OF_GRAPHS = ("kept", "precision", "f_score", "occurrence_ratio")
_OF_SAMPLES = ("truly", "to_the_unit", "unsampled")
_OF_BOTTLENECKS = ("n_compared", "shared", "is_slowest_kept", "rank_correlation", "mean_error")
# What is measured of every perspective, on the log that is projected on it.
_PROJECTED = (
    "distinct_elements", "distinct_variants", "data_utility", "total_variation", "appropriateness",
    *(f"graph_{name}" for name in _OF_GRAPHS),
    *(f"sampled_{name}" for name in _OF_SAMPLES),
)  # fmt: skip


def measure(name: str, perspective: Perspective = "activity") -> str:
    """Returns what a figure of a perspective is called in a row."""
    return name if perspective == "activity" else f"{perspective}_{name}"


def perspectives_of(log: Log) -> tuple[Perspective, ...]:
    """Returns the perspectives that a log has: without resources just the one on activities."""
    return PERSPECTIVES if has_resources(log.traces) else PERSPECTIVES[:1]


def figures_of(log: Log, released: Released) -> Row:
    """Returns sizes, times and, for each perspective, what became of behaviour.

    A perspective that the log or the release lacks has None.

    Args:
        log: The log.
        released: A release of it that has cases.
    """
    assert released.traces is not None
    before, after = log.traces.recode(log.vocabulary), released.traces
    waits = bottlenecks(before, after)
    row: Row = {
        "released_cases": after.n_cases,
        "released_events": after.n_events,
        "released_variants": released.variants.n_variants,
        "cases_kept": after.n_cases / before.n_cases,
        "events_kept": after.n_events / before.n_events,
        "duration_error": total_duration_error(before, after),
        **{f"bottlenecks_{name}": _number(getattr(waits, name)) for name in _OF_BOTTLENECKS},
    }
    for perspective in PERSPECTIVES:
        is_there = perspective == "activity" or (has_resources(before) and has_resources(after))
        figures = _projected(before, after, perspective) if is_there else dict.fromkeys(_PROJECTED)
        row |= {measure(name, perspective): value for name, value in figures.items()}
    return row


def _projected(log: TraceBatch, release: TraceBatch, perspective: Perspective) -> dict[str, Any]:
    """The figures of _PROJECTED."""
    before, after = projected([log, release], perspective)
    nodes = np.unique(before.activities)
    graph = asdict(graph_similarity(edges_of(before), edges_of(after), nodes))
    sampled = truly_sampled(before, after)
    variants = [VariantHistogram.from_traces(side) for side in (before, after)]
    counts, released_counts, _ = utility.aligned_variants(*variants)
    return {
        "distinct_elements": len(np.unique(after.activities)),
        "distinct_variants": variants[1].n_variants,
        "data_utility": data_utility(before, after),
        "total_variation": utility.total_variation(counts, released_counts),
        "appropriateness": behavioural_appropriateness(before, after),
        **{f"graph_{name}": graph[name] for name in _OF_GRAPHS},
        **{f"sampled_{n}": None if sampled is None else getattr(sampled, n) for n in _OF_SAMPLES},
    }


def _number(value: float | bool | None) -> float | None:
    return None if value is None else float(value)

"""What an experiment is made of: cells to be repeated, figures of a release, sections of a page.

A paper's experiment is one `Grid`: it says which methods run with which parameters on a log, what
is measured of a release, and which tables and charts are made of the rows.
`examination.experiments.run` runs any of them, `examination.experiments.report` shows any of them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.figures import (
    quartiles_shown,
    values_of,
)
from tracecloak.examination.experiments.log import Log
from tracecloak.examination.experiments.networks import Network
from tracecloak.examination.experiments.statements import Statement
from tracecloak.examination.measure.quality import MinedQuality, PatientMiner
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.tree import ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.pages.text_templates import from_template

# The arm of the log itself.
THE_LOG = "the log itself"


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


@dataclass(frozen=True)
class Flag:
    """A flag of one experiment.

    Attributes:
        name: Without the dashes; its value is a text.
        meaning: The help.
        full: Its value with `--full`, unless one is given: the paper's grid. None: the default is.
    """

    name: str
    meaning: str
    full: str | None = None


class Grid(ABC):
    """One paper's experiment; its constructor takes the texts of its flags, or None, by name.

    Without flags its cells are so few that an hour on two cores does for a log of the paper's size;
    what the paper has beyond is in `Flag.full`.

    Attributes:
        name: As in the command.
        title: Of the page.
        flags: What the constructor takes.
        methods: The registry's names of what is compared.
        mined_repetitions: Of so many releases of a cell a process is mined, unless told otherwise;
            None: of all.
        mined_in_full: The same with `--full`.
        repetitions: Of each cell in which something is drawn, unless told otherwise: as many as a
            box of quartiles takes to be read.
        has_models: Whether processes are mined, which needs pm4py and scikit-learn.
        has_distances: Whether distances of variants are measured, which needs POT.
        of_models: What is said of a model's quality beside what is said in every experiment.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    flags: ClassVar[tuple[Flag, ...]]
    methods: ClassVar[tuple[str, ...]]
    repetitions: ClassVar[int] = 10
    mined_repetitions: ClassVar[int | None] = None
    mined_in_full: ClassVar[int | None] = None
    has_models: ClassVar[bool] = False
    has_distances: ClassVar[bool] = False
    of_models: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def __init__(self, flags: Mapping[str, str | None]) -> None: ...

    def columns(self, mapping: ColumnMapping) -> Mapping[str, str]:
        """Returns the source columns of the attributes that are read with a log, by name.

        Args:
            mapping: What the log's columns mean.
        """
        return {}

    @abstractmethod
    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields what is run on a log."""

    @abstractmethod
    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns what is measured of a release: JSON values by name, None where nothing is.

        The log itself, as if it were a release, is measured too.
        """

    def notes(self) -> Sequence[str]:
        """Returns paragraphs on what was run and how it differs from the paper."""
        template = f"papers/{self.name}.md.j2"
        return [line for line in from_template(__package__, template, **self.noted()) if line]

    def noted(self) -> Mapping[str, Any]:
        """Returns what the template of the notes prints."""
        return {}

    @abstractmethod
    def sections(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Section]:
        """Yields the page's sections on a log.

        Args:
            log: The log.
            rows: Its rows, those of a cell in the order of the repetitions.
            log_row: The row of the log itself.
        """

    def statements(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterable[Statement]:
        """Returns what the paper states of its results, and whether the rows of a log agree.

        Args:
            log: The log.
            rows: Its rows, as for `sections`; some can be missing.
            log_row: The row of the log itself.
        """
        return ()

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


# --- What a page shows ------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes:
        header: Names of the columns.
        rows: Texts, as many a row as columns.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Boxes:
    """Boxes of repeated figures, side by side in groups.

    Attributes:
        y: What is on the vertical axis.
        x: What the groups are.
        groups: Their names, from left to right.
        values: Figures by (arm, group); an arm lacks the groups where it was not run.
        line: The log's own figure, or None.
        is_log: Whether the vertical axis is logarithmic.
        marks: Further figures to be drawn as lines, by what they are.
    """

    y: str
    x: str
    groups: Sequence[str]
    values: Mapping[tuple[str, str], Sequence[float]]
    line: float | None = None
    is_log: bool = False
    marks: Mapping[str, float] = field(default_factory=dict)

    @property
    def arms(self) -> list[str]:
        """What is compared, in order."""
        return list(dict.fromkeys(arm for arm, _ in self.values))


@dataclass(frozen=True)
class Lines:
    """Lines over a common axis.

    Attributes:
        x: What is on the horizontal axis.
        y: What is on the vertical axis.
        places: float64[n], the horizontal places.
        values: n figures by line.
    """

    x: str
    y: str
    places: Sequence[float]
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Tree:
    """A process model.

    Attributes:
        text: Its text form (schemas.models.process_tree).
    """

    text: str


@dataclass(frozen=True)
class Section:
    """A figure or a table of the paper, for one log.

    Attributes:
        title: Its heading.
        text: What it shows, or an empty text.
        parts: Tables, charts, and graphs that stand side by side in one drawing.
        file: What its images are called, without an ending.
    """

    title: str
    text: str
    parts: Sequence[Table | Boxes | Lines | Tree | Sequence[Network]]
    file: str


# --- Reading flags and rows -------------------------------------------------------------------


def listed(text: str | None, default: Sequence[str]) -> tuple[str, ...]:
    """Returns the parts of a text between commas, or what holds without one."""
    if text is None:
        return tuple(default)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def numbers(
    name: str, text: str | None, default: Sequence[str], low: float, high: float
) -> tuple[str, ...]:
    """Returns distinct numbers above `low` and at most `high`, as they were written.

    Raises:
        UsageError: One is none, or out of range, there twice, or there is none.
    """
    texts = listed(text, default)
    for one in texts:
        try:
            is_known = low < float(one) <= high
        except ValueError:
            is_known = False
        if not is_known:
            raise UsageError(f"{name} must be above {low:g} and at most {high:g}, got {one!r}")
    twice = [one for one in texts if texts.count(one) > 1]
    if twice or not texts:
        raise UsageError(f"{name} must be distinct numbers separated by commas, got {text!r}")
    return texts


def wholes(
    name: str, text: str | None, default: Sequence[str], high: int = 10**9
) -> tuple[int, ...]:
    """Returns distinct whole numbers from 1 to `high`.

    Raises:
        UsageError: One is none, or out of range, there twice, or there is none.
    """
    texts = numbers(name, text, default, 0, high)
    for one in texts:
        if not one.isdecimal():
            raise UsageError(f"{name} must be whole numbers, got {one!r}")
    return tuple(map(int, texts))


def table_of(
    rows: Sequence[Row], name: str, x: str, arms: Sequence[str], levels: Sequence[str]
) -> Table:
    """Returns the quartiles of a figure: a row an arm, a column a level."""
    return Table(
        (x, *levels),
        [
            (
                arm,
                *(quartiles_shown(values_of(rows, name, arm=arm, level=level)) for level in levels),
            )
            for arm in arms
        ],
    )


def boxes_of(
    rows: Sequence[Row],
    name: str,
    arms: Sequence[str],
    levels: Sequence[str],
    y: str,
    x: str,
    **further: Any,
) -> Boxes:
    """Returns the boxes of a figure: a group a level, a box an arm."""
    values = {
        (arm, level): known
        for arm in arms
        for level in levels
        if (known := values_of(rows, name, arm=arm, level=level))
    }
    return Boxes(y, x, levels, values, **further)


def active_cases(traces: TraceBatch, times: np.ndarray) -> np.ndarray:
    """Returns int64[n_times], how many cases have begun and not ended at each time.

    Args:
        traces: The cases.
        times: int64[n_times], microseconds since 1970-01-01 UTC.
    """
    ends = traces.times[traces.offsets[1:] - 1]
    begun = np.searchsorted(np.sort(traces.starts), times, side="right")
    return begun - np.searchsorted(np.sort(ends), times, side="left")

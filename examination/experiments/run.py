"""`tracecloak experiment`: a paper's evaluation on given logs, as one command that can be resumed.

A `Paper` says what is run and measured; here are its releases, each in memory under a fresh key.
All cells are released once, then all once more, and so on: whenever a run ends, there is about as
much of every cell. The figures are exact about private data: for the operator only.
"""

from __future__ import annotations

import base64
import importlib
import io
import itertools
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pydantic

from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.contract.wrong_values import usage_error
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.comparison.contenders import Released, released_in_memory
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.comparison.report import INTERNAL
from tracecloak.examination.comparison.rows import Asked, Benchmark, Cell, Row
from tracecloak.examination.experiments.amun import AmunPaper
from tracecloak.examination.experiments.other_papers import (
    DpimPaper,
    PretsaPaper,
    SacofaSapaPaper,
    TlkcPaper,
)
from tracecloak.examination.experiments.paper import Paper
from tracecloak.examination.experiments.table import (
    THE_LOG,
    Boxes,
    Figures,
    Lines,
    Section,
    Statement,
    counted,
)
from tracecloak.examination.measure import mining
from tracecloak.examination.measure.measures import require_pot
from tracecloak.schemas.errors import UsageError, import_extra
from tracecloak.schemas.models import parse_tree
from tracecloak.transforms.models.tree_forms import write_tree_svg
from tracecloak.transforms.pages.page import Page, rendered

# A new experiment is a file of a paper, its TOML file, and a line here.
PAPERS: dict[str, type[Paper]] = {
    paper.name: paper for paper in (AmunPaper, SacofaSapaPaper, TlkcPaper, PretsaPaper, DpimPaper)
}
# Releases of a cell: as many as a box of quartiles takes to be read.
DEFAULT_REPETITIONS = 10
DEFAULT_PATIENCE = 120.0
# After so many minutes no release is begun any more, unless the paper's whole grid is asked for.
DEFAULT_MINUTES = 60.0

ROWS, TABLE = "experiment.jsonl", "experiment.parquet"
REPORT_FILES = "experiment.html, figures/*.svg, experiment.parquet and experiment.jsonl"

_MINED = ("fitness", "precision", "f_score", "generalization", "tree")


def require_extras(paper: Paper, mined: int) -> None:
    """Checks that the libraries are installed that the figures and charts of an experiment need.

    Args:
        paper: The experiment.
        mined: As in `Experiment`.

    Raises:
        UsageError: One is not installed.
    """
    import_extra("matplotlib.figure", "the page of charts", "matplotlib", "report")
    if paper.spec["has_distances"]:
        require_pot()
    if paper.spec["has_models"]:
        mining.require_scikit_learn()
        if mined:
            mining.require_pm4py()


def paper_named(name: str, flags: dict[str, Any], is_full: bool = False) -> Paper:
    """Returns an experiment.

    Args:
        name: Its name.
        flags: Texts of the flags that were given; its own are taken out.
        is_full: Whether the other flags are those of the paper's whole grid.

    Raises:
        UsageError: There is none of that name, or a flag is out of range.
    """
    if name not in PAPERS:
        raise UsageError(f"experiment must be one of {', '.join(PAPERS)}, got {name!r}")
    own_flags = PAPERS[name].spec["flags"]
    full = {flag["name"]: flag.get("full") if is_full else None for flag in own_flags}
    return PAPERS[name]({flag: flags.pop(flag, text) for flag, text in full.items()})


@dataclass(frozen=True, eq=False)
class Experiment(Benchmark):
    """What is run.

    Attributes:
        logs: See `Benchmark`, as all others.
        paper: The experiment.
        methods: Names of the methods to run, or None: all of the paper's.

    Raises:
        UsageError: One of them is out of range, no method is there, or a library is not installed.
    """

    stage: ClassVar[str] = "experiment"
    shares_time: ClassVar[bool] = True

    paper: Paper = field(kw_only=True)
    methods: Sequence[str] | None = None

    def __post_init__(self) -> None:
        self.check_runs()
        known = self.paper.spec["methods"]
        for name in self.methods or ():
            if name not in known:
                raise UsageError(f"methods must be of {', '.join(known)}, got {name!r}")
        if not any(map(self._has, known)):
            raise UsageError(f"none of the methods is there: {', '.join(self.left_out)}")
        for log in self.logs:
            for cell in self.cells(log):
                if cell.method:
                    _parameters(METHODS[cell.method], cell)
        require_extras(self.paper, self.mined)

    @property
    def left_out(self) -> list[str]:
        """Names of the methods that should run and that this installation does not have."""
        wanted = self.paper.spec["methods"] if self.methods is None else self.methods
        return [name for name in wanted if name not in METHODS]

    def _has(self, name: str) -> bool:
        return name in METHODS and (self.methods is None or name in self.methods)

    @property
    def model_figures(self) -> Mapping[str, str]:
        """What is said of the quality of a model; nothing where the paper mines none."""
        names = (*_MINED, *self.paper.spec.get("of_models", ()))
        return {name: name for name in names if self.paper.spec["has_models"]}

    def cells(self, log: Original) -> list[Cell]:
        """Returns the log itself, other models of it, and all that is released.

        What takes longer than the rest comes no later for that: nobody knows before.
        """
        cells = [self.paper.log_cell(), *self.paper.cells(log)]
        return [cell for cell in cells if not cell.method or self._has(cell.method)]

    def identity(self, cell: Cell) -> Row:
        """Returns the columns of rows that distinguish a cell from others."""
        columns = {
            name: {attribute: given["column"] for attribute, given in declarations.items()}
            for name, declarations in cell.declared.items()
        }
        params = json.dumps({**cell.params, **columns}, sort_keys=True)
        names = ("arm", "level", "method", "epsilon")
        known_by = {name: getattr(cell, name) for name in names}
        return {"experiment": self.paper.name, **known_by, "params": params, "delta": "0"}

    def measure(self, log: Original, cell: Cell, repetition: int) -> tuple[Row, Asked]:
        """Makes a release, and measures it."""
        released = release_of(log, cell)
        figures = {
            **self.paper.figures(log, released, cell),
            "seconds": released.seconds,
            "read_seconds": log.read_seconds,
        }
        tree = None if released.tree is None else released.tree.tree
        return figures, tree or cell.model or released.variants

    def table(self, log: Original, rows: Sequence[Row]) -> Figures:
        """Returns the figures of a log."""
        log_rows = [row for row in rows if row["log"] == log.name]
        [log_row] = [row for row in log_rows if row["arm"] == THE_LOG]
        return self.paper.table(log, [row for row in log_rows if row is not log_row], log_row)


def _parameters(method: Anonymizer, cell: Cell) -> Any:
    try:
        return method.Params(**cell.params, **cell.declared)
    except pydantic.ValidationError as error:
        raise usage_error(error) from None


def release_of(log: Original, cell: Cell) -> Released:
    """Makes one release of a log; of a cell without a method the log itself stands for it.

    Raises:
        UsageError: The method refuses its parameters, or the log with them.
        GuaranteeError: It cannot keep its promise on this log, or has not.
    """
    if not cell.method:
        return Released(log.variants, log.side.traces)
    method = METHODS[cell.method]
    return released_in_memory(log, method, _parameters(method, cell), cell.needs_log)


def write_parquet(rows: Sequence[Row], path: Path) -> None:
    """Writes rows as a table, a column a figure, null where a row has none."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: pa.array([row.get(name) for row in rows]) for name in names}
    table = pa.table(columns).replace_schema_metadata(
        {"tracecloak.publishable": "false", "tracecloak.warning": INTERNAL}
    )
    pq.write_table(table, path)


# --- What an experiment shows: a page with tables and charts, which lie beside it as SVG files. ---


PAGE = "experiment.html"
FIGURES = "figures"

# Colours that differ in lightness too.
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
_DASHES = ("--", "-", ":", "-.")
_DRAWING = {"svg.hashsalt": "tracecloak", "svg.fonttype": "none", "font.size": 9}
# Leaves of a process model that is still drawn; a larger one is shown as text.
_MAX_LEAVES = 120
_NOT_PRIVATE = "not private: for the operator only"


def write_report(
    experiment: Experiment,
    rows: Sequence[Row],
    stated: Mapping[str, Sequence[Statement]],
    command: str,
    folder: Path,
) -> list[Path]:
    """Writes the page and its charts, and returns their paths, the page first.

    Args:
        experiment: What was run.
        rows: All of its rows.
        stated: The statements of the paper by log.
        command: The command that makes the page, in the folder of the logs.
        folder: Where to; it is there.
    """
    (folder / FIGURES).mkdir(exist_ok=True)
    images: list[Path] = []
    logs = []
    for log in experiment.logs:
        log_rows = [row for row in rows if row["log"] == log.name]
        drawn = [
            (section, *_drawn(section, log.name, folder, images))
            for section in experiment.paper.sections(log, experiment.table(log, rows))
        ]
        shown = [one for one in drawn if one[0].rows or any(one[1:])]
        logs.append((log, log_rows, _unmined(log_rows), shown, stated[log.name]))
    context = {
        "internal": INTERNAL,
        "command": command,
        "notes": experiment.paper.notes(),
        "experiment": experiment,
        "missing": experiment.missing(rows),
        "logs": logs,
        "counted": counted,
    }
    anchors = tuple((f"log-{i}", log.name) for i, log in enumerate(experiment.logs, 1))
    page = folder / PAGE
    page.write_bytes(
        rendered(Page("experiment.html.j2", experiment.paper.spec["title"], anchors, context))
    )
    return [page, *images]


def _unmined(rows: Iterable[Row]) -> Counter[str]:
    """The cells of which some model took too long, and of how many releases."""
    return Counter(
        row["arm"] + (f" at {row['level']}" if row["level"] else "")
        for row in rows
        if row.get("mine_patience") and row.get("released_cases") != 0 and row["f_score"] is None
    )


def _drawn(
    section: Section, log: str, folder: Path, images: list[Path]
) -> tuple[str | None, str | None]:
    """Writes what a section draws; returns its address, or a text of a model that is too large."""
    tree = None if section.tree is None else parse_tree(section.tree)
    if tree is not None and sum(not node.children for node in tree.nodes()) > _MAX_LEAVES:
        return None, section.tree
    if tree is not None:
        drawn = write_tree_svg(tree, section.title, _NOT_PRIVATE).encode()
    elif section.chart is None:
        return None, None
    else:
        drawn = _chart(section.chart)
    path = folder / FIGURES / (re.sub(r"[^\w.-]+", "-", f"{section.file}-{log}") + ".svg")
    path.write_bytes(drawn)
    images.append(path)
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}", None


# --- Charts -----------------------------------------------------------------------------------


def _chart(chart: Boxes | Lines) -> bytes:
    """The SVG of a chart, with room for a legend beside it.

    It is the same whatever matplotlib's settings are on this machine.
    """
    stream, style = io.BytesIO(), importlib.import_module("matplotlib.style")
    ignored = warnings.catch_warnings(action="ignore")  # a name in letters that the font lacks
    with style.context(_DRAWING, after_reset=True), ignored:
        figure = importlib.import_module("matplotlib.figure").Figure(figsize=(7.5, 3.6))
        axes = figure.add_axes((0.1, 0.14, 0.66, 0.82))
        axes.set_xlabel(chart.x)
        axes.set_ylabel(chart.y)
        axes.grid(axis="y" if isinstance(chart, Boxes) else "both", linewidth=0.3)
        handles = _boxes(axes, chart) if isinstance(chart, Boxes) else _lines(axes, chart)
        beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "frameon": False}
        axes.legend(handles.values(), handles, **beside)
        figure.text(0.995, 0.005, _NOT_PRIVATE, ha="right", fontsize=6)
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def _boxes(axes: Any, boxes: Boxes) -> dict[str, Any]:
    """Draws boxes of quartiles with the median, whose whiskers reach to the extremes.

    A single figure is a bar: a box of it is a line that nobody sees. Returns handles by label.
    """
    arms, groups = (list(dict.fromkeys(names)) for names in zip(*boxes.values, strict=True))
    width = 0.8 / max(len(arms), 1)
    has_bars = all(len(values) == 1 for values in boxes.values.values()) and not boxes.is_log
    handles: dict[str, Any] = {}
    for number, (arm, colour) in enumerate(zip(arms, itertools.cycle(_COLOURS))):
        of_arm = {place: boxes.values.get((arm, group)) for place, group in enumerate(groups)}
        known = {place: values for place, values in of_arm.items() if values is not None}
        places = [place + (number - (len(arms) - 1) / 2) * width for place in known]
        if has_bars:
            heights = [values[0] for values in known.values()]
            handles[arm] = axes.bar(places, heights, width * 0.85, color=colour)
            continue
        drawn = axes.boxplot(
            list(known.values()),
            positions=places,
            widths=width * 0.85,
            whis=(0, 100),
            patch_artist=True,
            showfliers=False,
            manage_ticks=False,
            boxprops={"facecolor": colour, "edgecolor": colour, "linewidth": 2},
            medianprops={"color": "black", "linewidth": 0.8},
        )
        handles[arm] = drawn["boxes"][0]
    for (label, value), style in zip(boxes.marks.items(), itertools.cycle(_DASHES)):
        handles[label] = axes.axhline(value, color="black", linewidth=0.8, linestyle=style)
    if boxes.is_log:
        axes.set_yscale("log")
    axes.set_xticks(range(len(groups)), groups)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    return handles


def _lines(axes: Any, lines: Lines) -> dict[str, Any]:
    """Draws lines; returns handles by label."""
    colours = itertools.cycle(("black", *_COLOURS))
    return {
        label: axes.plot(lines.places, values, linewidth=1, color=colour)[0]
        for (label, values), colour in zip(lines.values.items(), colours, strict=False)
    }

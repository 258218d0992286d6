"""What an experiment shows: a page with tables and charts, which lie beside it as SVG files, too.

The same rows make the same bytes. matplotlib is the extra `report` and is imported when it is first
needed; nothing is fetched from elsewhere.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import io
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.comparison.report import INTERNAL
from tracecloak.examination.experiments.run import Experiment, rows_of
from tracecloak.examination.experiments.table import (
    THE_LOG,
    Boxes,
    Graph,
    Lines,
    Section,
    Statement,
    Table,
    Tree,
    counted,
)
from tracecloak.schemas.errors import of_extra
from tracecloak.schemas.models import parse_tree
from tracecloak.transforms.models.dfg_svg import write_svg
from tracecloak.transforms.models.tree_forms import write_tree_svg
from tracecloak.transforms.pages.page import Page, rendered

PAGE = "experiment.html"
FIGURES = "figures"

# Colours that differ in lightness too.
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
_DASHES = ("-", "--", ":", "-.")
_DRAWING = {"svg.hashsalt": "tracecloak", "svg.fonttype": "none", "font.size": 9}
# Leaves of a process model that is still drawn; a larger one is shown as text.
_MAX_LEAVES = 120
_NOT_PRIVATE = "not private: for the operator only"


def require_matplotlib() -> None:
    """Imports matplotlib.

    Raises:
        UsageError: It is not installed.
    """
    of_extra("matplotlib.figure", "the page of charts", "matplotlib", "report")


def write_report(
    experiment: Experiment, rows: Sequence[Row], command: str, folder: Path
) -> list[Path]:
    """Writes the page and its charts, and returns their paths, the page first.

    Args:
        experiment: What was run.
        rows: All of its rows.
        command: The command that makes the page, in the folder of the logs.
        folder: Where to; it is there.

    Raises:
        UsageError: matplotlib is not installed.
    """
    require_matplotlib()
    (folder / FIGURES).mkdir(exist_ok=True)
    images: list[Path] = []
    stated = experiment.statements(rows)
    logs = []
    for log in experiment.logs:
        log_row, of_log = rows_of(log, rows)
        sections = []
        shown = experiment.paper.sections(log, of_log, log_row)
        for section in (*shown, *_of_statements(stated[log.name])):
            parts = [
                _part(part, section, log.name, folder, images)
                for part in section.parts
                if not isinstance(part, Table) or part.rows
            ]
            if parts:
                sections.append({"title": section.title, "text": section.text, "parts": parts})
        size = log.identity()
        logs.append(
            {
                "name": log.name,
                "text": f"{size['cases']:,} cases, {size['events']:,} events, "
                f"{size['variants']:,} variants, {len(log.names)} activities.",
                "refused": _refusals(of_log) + _unmined(of_log),
                "sections": sections,
            }
        )
    page = folder / PAGE
    context = {
        "internal": INTERNAL,
        "command": command,
        "notes": [*experiment.paper.notes(), *_of_the_run(experiment, rows)],
        "logs": logs,
    }
    anchors = tuple((f"log-{i}", log.name) for i, log in enumerate(experiment.logs, 1))
    page.write_bytes(
        rendered(Page("experiment.html.j2", experiment.paper.spec["title"], anchors, context))
    )
    return [page, *images]


def _of_statements(statements: Sequence[Statement]) -> Iterator[Section]:
    """The last section of a log, of a paper that states something."""
    if statements:
        text = (
            f"Of the paper's statements on its results: {counted(statements)}. Each is judged on "
            "the medians of this log."
        )
        rows = [(one.source, one.text, one.verdict, one.found) for one in statements]
        table = Table(("the paper", "states", "here", "figures"), rows)
        yield Section("What the paper states", text, [table], "")


def _of_the_run(experiment: Experiment, rows: Sequence[Row]) -> list[str]:
    n = experiment.repetitions
    said = [
        "A figure is of one release."
        if n == 1
        else f"A figure is the median of {n} releases, each under a fresh key, and in brackets "
        "the quartiles."
    ]
    if experiment.paper.has_models and experiment.mined < n:
        said.append(f"Processes were mined of {experiment.mined} of them.")
    missing = experiment.missing(rows)
    if missing:
        said.append(
            f"The time was up before {missing:,} releases were begun: the same command goes on."
        )
    if experiment.left_out:
        said.append(
            f"Left out, as this installation does not have them: {', '.join(experiment.left_out)}."
        )
    return said


def _refusals(rows: Sequence[Row]) -> list[str]:
    """What was refused, and why."""
    return [
        f"{row['arm']} at {row['level']} was refused after {row['repetition']} releases: "
        f"{row['refused']}."
        for row in rows
        if "refused" in row
    ]


def _unmined(rows: Sequence[Row]) -> list[str]:
    """The cells of which some model took too long."""
    said: dict[tuple[str, str], int] = {}
    for row in rows:
        tried = row.get("mine_patience") and row.get("released_cases") != 0
        if tried and row["f_score"] is None:
            key = row["arm"], row["level"]
            said[key] = said.get(key, 0) + 1
    return [
        f"{arm}{f' at {level}' if level else ''}: {n} models took too long to be judged; they "
        "count nowhere."
        for (arm, level), n in said.items()
    ]


def _part(
    part: Table | Boxes | Lines | Tree | Graph,
    section: Section,
    log: str,
    folder: Path,
    images: list[Path],
) -> dict[str, Any]:
    """Returns what the template shows of a part; writes its image, if it has one."""
    empty: dict[str, Any] = {"image": None, "header": None, "rows": None, "text": None}
    if isinstance(part, Table):
        return {**empty, "header": part.header, "rows": part.rows}
    name = section.file
    if isinstance(part, Tree):
        tree = parse_tree(part.text)
        if sum(not node.children for node in tree.nodes()) > _MAX_LEAVES:
            return {**empty, "text": part.text}
        drawn = write_tree_svg(tree, section.title, _NOT_PRIVATE).encode()
    elif isinstance(part, Graph):
        name += f"-{part.title}"
        drawn = write_svg(part.graph, part.title, _NOT_PRIVATE).encode()
    else:
        with _drawing():
            drawn = _saved(_boxes_figure(part) if isinstance(part, Boxes) else _lines_figure(part))
    path = folder / FIGURES / (re.sub(r"[^\w.-]+", "-", f"{name}-{log}") + ".svg")
    path.write_bytes(drawn)
    images.append(path)
    return {**empty, "image": f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"}


# --- Charts -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _drawing() -> Iterator[None]:
    """Draws the same whatever matplotlib's settings are on this machine."""
    matplotlib = importlib.import_module("matplotlib")
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name in letters that the font lacks
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_DRAWING)
        yield


def _axes(chart: Boxes | Lines, grid: str) -> tuple[Any, Any]:
    """A figure, and axes with room for a legend beside them."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(7.5, 3.6))
    axes = figure.add_axes((0.1, 0.14, 0.66, 0.82))
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    axes.grid(axis=grid, linewidth=0.3)
    return figure, axes


def _saved(figure: Any) -> bytes:
    figure.text(0.995, 0.005, _NOT_PRIVATE, ha="right", fontsize=6)
    stream = io.BytesIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def _boxes_figure(boxes: Boxes) -> Any:
    """Boxes of quartiles with the median; whiskers reach to the extremes.

    A single figure is a bar: a box of it is a line that nobody sees.
    """
    figure, axes = _axes(boxes, "y")
    arms = boxes.arms
    width = 0.8 / max(len(arms), 1)
    has_bars = all(len(values) == 1 for values in boxes.values.values()) and not boxes.is_log
    cbook = importlib.import_module("matplotlib.cbook")
    handles = []
    for number, arm in enumerate(arms):
        colour = _COLOURS[number % len(_COLOURS)]
        groups = [group for group in boxes.groups if (arm, group) in boxes.values]
        places = [
            boxes.groups.index(group) + (number - (len(arms) - 1) / 2) * width for group in groups
        ]
        if has_bars:
            heights = [boxes.values[arm, group][0] for group in groups]
            handles.append(axes.bar(places, heights, width * 0.85, color=colour))
            continue
        stats = cbook.boxplot_stats([boxes.values[arm, g] for g in groups], whis=(0, 100))
        drawn = axes.bxp(
            stats,
            positions=places,
            widths=width * 0.85,
            patch_artist=True,
            showfliers=False,
            manage_ticks=False,
            boxprops={"facecolor": colour, "edgecolor": colour, "linewidth": 2},
            medianprops={"color": "black", "linewidth": 0.8},
        )
        handles.append(drawn["boxes"][0])
    if boxes.line is not None:
        handles.append(axes.axhline(boxes.line, color="black", linewidth=0.8, linestyle="--"))
    for value, style in zip(boxes.marks.values(), itertools.cycle(_DASHES)):
        handles.append(axes.axhline(value, color="black", linewidth=0.8, linestyle=style))
    if boxes.is_log:
        axes.set_yscale("log")
    labels = [*arms, *([THE_LOG] if boxes.line is not None else []), *boxes.marks]
    axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    axes.set_xticks(range(len(boxes.groups)), boxes.groups)
    axes.set_xlim(-0.6, len(boxes.groups) - 0.4)
    return figure


def _lines_figure(lines: Lines) -> Any:
    figure, axes = _axes(lines, "both")
    colours = ("black", *_COLOURS)
    for number, (label, values) in enumerate(lines.values.items()):
        axes.plot(
            lines.places, values, label=label, linewidth=1, color=colours[number % len(colours)]
        )
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return figure

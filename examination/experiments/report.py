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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracecloak.examination.comparison.report import INTERNAL
from tracecloak.examination.comparison.rows import Row
from tracecloak.examination.experiments.run import Experiment
from tracecloak.examination.experiments.table import Boxes, Lines, Section, Statement, counted
from tracecloak.schemas.errors import import_extra
from tracecloak.schemas.models import parse_tree
from tracecloak.transforms.models.tree_forms import write_tree_svg
from tracecloak.transforms.pages.page import Page, rendered

PAGE = "experiment.html"
FIGURES = "figures"

# Colours that differ in lightness too.
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
_DASHES = ("--", "-", ":", "-.")
_DRAWING = {"svg.hashsalt": "tracecloak", "svg.fonttype": "none", "font.size": 9}
# Leaves of a process model that is still drawn; a larger one is shown as text.
_MAX_LEAVES = 120
_NOT_PRIVATE = "not private: for the operator only"


def require_matplotlib() -> None:
    """Imports matplotlib.

    Raises:
        UsageError: It is not installed.
    """
    import_extra("matplotlib.figure", "the page of charts", "matplotlib", "report")


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

    Raises:
        UsageError: matplotlib is not installed.
    """
    require_matplotlib()
    (folder / FIGURES).mkdir(exist_ok=True)
    images: list[Path] = []
    logs = []
    for log in experiment.logs:
        sections = []
        for section in experiment.paper.sections(log, experiment.table(log, rows)):
            image, text = _drawn(section, log.name, folder, images)
            if section.rows or image or text:
                sections.append({"section": section, "image": image, "model": text})
        logs.append(
            {
                "name": log.name,
                "size": log.identity(),
                "n_activities": len(log.names),
                "rows": [row for row in rows if row["log"] == log.name],
                "unmined": _unmined(row for row in rows if row["log"] == log.name),
                "sections": sections,
                "statements": stated[log.name],
                "counted": counted(stated[log.name]),
            }
        )
    context = {
        "internal": INTERNAL,
        "command": command,
        "notes": experiment.paper.notes(),
        "experiment": experiment,
        "missing": experiment.missing(rows),
        "logs": logs,
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
        with _drawing():
            drawn = _chart(section.chart)
    path = folder / FIGURES / (re.sub(r"[^\w.-]+", "-", f"{section.file}-{log}") + ".svg")
    path.write_bytes(drawn)
    images.append(path)
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}", None


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


def _chart(chart: Boxes | Lines) -> bytes:
    """The SVG of a chart, with room for a legend beside it."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(7.5, 3.6))
    axes = figure.add_axes((0.1, 0.14, 0.66, 0.82))
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    axes.grid(axis="y" if isinstance(chart, Boxes) else "both", linewidth=0.3)
    handles = _boxes(axes, chart) if isinstance(chart, Boxes) else _lines(axes, chart)
    axes.legend(
        handles.values(), handles, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False
    )
    figure.text(0.995, 0.005, _NOT_PRIVATE, ha="right", fontsize=6)
    stream = io.BytesIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def _boxes(axes: Any, boxes: Boxes) -> dict[str, Any]:
    """Draws boxes of quartiles with the median, whose whiskers reach to the extremes.

    A single figure is a bar: a box of it is a line that nobody sees. Returns handles by label.
    """
    arms = boxes.arms
    width = 0.8 / max(len(arms), 1)
    has_bars = all(len(values) == 1 for values in boxes.values.values()) and not boxes.is_log
    cbook = importlib.import_module("matplotlib.cbook")
    handles: dict[str, Any] = {}
    for number, (arm, colour) in enumerate(zip(arms, itertools.cycle(_COLOURS))):
        groups = [group for group in boxes.groups if (arm, group) in boxes.values]
        places = [
            boxes.groups.index(group) + (number - (len(arms) - 1) / 2) * width for group in groups
        ]
        if has_bars:
            heights = [boxes.values[arm, group][0] for group in groups]
            handles[arm] = axes.bar(places, heights, width * 0.85, color=colour)
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
        handles[arm] = drawn["boxes"][0]
    for (label, value), style in zip(boxes.marks.items(), itertools.cycle(_DASHES)):
        handles[label] = axes.axhline(value, color="black", linewidth=0.8, linestyle=style)
    if boxes.is_log:
        axes.set_yscale("log")
    axes.set_xticks(range(len(boxes.groups)), boxes.groups)
    axes.set_xlim(-0.6, len(boxes.groups) - 0.4)
    return handles


def _lines(axes: Any, lines: Lines) -> dict[str, Any]:
    """Draws lines; returns handles by label."""
    colours = itertools.cycle(("black", *_COLOURS))
    return {
        label: axes.plot(lines.places, values, linewidth=1, color=colour)[0]
        for (label, values), colour in zip(lines.values.items(), colours, strict=False)
    }

"""What a page shows of released figures: totals with their intervals, and how sure each is.

Pure functions of published values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracecloak.schemas.published.figure import GRADES, LEGEND, MODELLED, Grade, grades
from tracecloak.schemas.published.figures import Figure, ReleasedFigures
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.transforms.models.plain_names import plain_name
from tracecloak.transforms.publish.map_data import map_data

if TYPE_CHECKING:
    from tracecloak.schemas.published.groups import ReleasedGroups

_WHOLE_LOG = ("cases", "events")
_DURATIONS = {
    "mean_duration_us": "mean",
    "median_duration_us": "median",
    "quantile_duration_us": "quantile",
}
_N_ROWS = 200
_MICROSECONDS = 1e-6
_UNITS = ("day", 86400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)


@dataclass(frozen=True)
class ShownFigure:
    """A figure as a page prints it.

    Attributes:
        name: What it is of.
        text: The number, with its interval.
        kind: Its kind.
        grade: How sure it is.
    """

    name: str
    text: str
    kind: str
    grade: Grade


def figures_data(figures: ReleasedFigures) -> dict[str, Any]:
    """Returns totals, those of each activity, times, and the limit of what is hidden.

    Returns:
        `legend`, what the grades mean; `totals`, `activities`, the most frequent first, `times`,
        the surest first, and of a log `durations`, `waits`, likewise, and `starts`: lists of
        `ShownFigure`; `most_hidden`, the limit of a path that is not shown, as a text, empty where
        none is known.
    """
    rows = figures.rows()
    activities = sorted((r for r in rows if r.name == "activity"), key=lambda row: -row.value)
    times, waits = (
        sorted((row for row in rows if row.name == name), key=lambda row: GRADES.index(row.grade))
        for name in ("median_time_us", "mean_wait_us")
    )
    starts = [row for row in rows if row.name == "starts"]
    return {
        "legend": LEGEND,
        "totals": [_shown(row, row.name) for row in rows if row.name in _WHOLE_LOG],
        "activities": [_shown(row, plain_name(row.of[0])) for row in activities[:_N_ROWS]],
        "times": [_between(row) for row in times[:_N_ROWS]],
        "waits": [_between(row) for row in waits[:_N_ROWS]],
        "durations": [
            _shown(row, " ".join([_DURATIONS[row.name], *row.of]), duration_in_words)
            for row in rows
            if row.name in _DURATIONS
        ],
        "starts": [_shown(row, " to ".join(row.of)) for row in starts[:_N_ROWS]],
        "most_hidden": next((f"{r.high:,}" for r in rows if r.name == "path_not_shown"), ""),
    }


def mark_grades(
    shown: dict[str, Any], graph: ReleasedGraph, figures: ReleasedFigures | None
) -> None:
    """Notes on the paths and activities of a map how sure their numbers are.

    Args:
        shown: What `map_data` gave for the graph; every path gets `grade`, and so does an
            activity with a figure, and a path whose median time is a figure gets that, and
            `time_grade`. Activities, start and end get the numbers of their figures.
        graph: What was released.
        figures: Of the same release; without them no activity gets a grade.
    """
    labels = [plain_name(name) for name in graph.labels]
    graded = grades(graph.counts, graph.lows, graph.highs).tolist()
    by_ends = {
        (labels[source], labels[target]): grade
        for source, target, grade in zip(graph.sources, graph.targets, graded, strict=True)
    }
    by_name: dict[tuple[str, ...], Figure] = {}
    if figures is not None:
        marked = (
            row for row in figures.rows() if row.name in ("activity", "cases", "median_time_us")
        )
        by_name = {tuple(map(plain_name, row.of)): row for row in marked}
    names = [node["name"] for node in shown["nodes"]]
    for edge in shown["edges"]:
        ends = names[edge["source"]], names[edge["target"]]
        edge["grade"] = by_ends[ends]
        if median := by_name.get(ends):
            edge["median_s"] = float(f"{median.value * _MICROSECONDS:.3g}")
            edge["time_grade"] = median.grade
    for node in shown["nodes"]:
        if total := by_name.get((node["name"],)):
            node["grade"], node["count"] = total.grade, total.value
    if cases := by_name.get(()):
        for place in (shown["start"], shown["end"]):
            shown["nodes"][place]["count"] = cases.value


def folded_map(groups: ReleasedGroups) -> dict[str, Any]:
    """Returns the map of groups, as `map_data` has that of activities, and which are in which.

    Returns:
        `map`; and `members`, the names of the activities by that of their group, of groups with
        several or whose name is another one, in the order of the groups.
    """
    shown = map_data(groups.graph, {})
    mark_grades(shown, groups.graph, None)
    members: dict[str, list[str]] = {}
    for name, group in groups.members.items():
        members.setdefault(plain_name(group), []).append(plain_name(name))
    several = {group: names for group, names in sorted(members.items()) if names != [group]}
    return {"map": shown, "members": several}


def mark_modelled_times(shown: dict[str, Any]) -> None:
    """Notes on the paths of a map that their times, without a figure, were drawn from a model."""
    for edge in shown["edges"]:
        edge.setdefault("time_grade", MODELLED)


def sentence_of_variants(variants: ReleasedVariants) -> str:
    """Returns of which kind the numbers of variants are, and how many are noise."""
    if variants.lows is None or variants.highs is None:
        return (
            " The numbers are modelled: they were drawn so that the whole agrees with what was "
            "measured, and nothing says how far off the number of one variant is."
        )
    n_noise = grades(variants.counts, variants.lows, variants.highs).tolist().count("noise")
    return f" {n_noise:,} of the numbers are noise. {LEGEND}" if n_noise else ""


def duration_in_words(us: int) -> str:
    """Returns a time in the largest unit that it has one of, such as `3.2 hours`."""
    seconds = us * _MICROSECONDS
    if seconds < 1:
        return "at once"
    name, size = next(unit for unit in _UNITS if seconds >= unit[1])
    number = f"{seconds / size:,.1f}" if seconds < 9.95 * size else f"{seconds / size:,.0f}"
    number = number.removesuffix(".0")
    return f"{number} {name}{'' if number == '1' else 's'}"


def _between(figure: Figure) -> ShownFigure:
    return _shown(figure, " → ".join(map(plain_name, figure.of)), duration_in_words)


def _shown(figure: Figure, name: str, words: Callable[[int], str] = "{:,}".format) -> ShownFigure:
    text = f"{words(figure.value)} ({words(figure.low)}\u2013{words(figure.high)})"
    return ShownFigure(name, text, figure.kind, figure.grade)

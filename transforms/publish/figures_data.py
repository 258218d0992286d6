"""What a page shows of released figures, with intervals and grades, and of a graph or a tree.

The graph of a log is shown as a map, a tree by its nodes, as JSON values.

Pure functions of published values. A page is small whatever the log's size: rare paths, variants
and the ends of very long ones are left out of it, and it says how many; the files have them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.figures import (
    GRADES,
    LEGEND,
    MODELLED,
    Figure,
    Grade,
    ReleasedFigures,
    grades,
)
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.transforms.models.plain_names import plain_name

if TYPE_CHECKING:
    from tracecloak.schemas.published.durations import ReleasedDurations
    from tracecloak.schemas.published.groups import ReleasedGroups
    from tracecloak.schemas.published.tree import ReleasedTree

MAX_PATHS = 2000
_MICROSECONDS = 1e-6

Medians = Mapping[tuple[int, int], float]


def graph_of_log(
    graph: DirectlyFollows,
    vocabulary: ActivityVocabulary,
    figures: ReleasedFigures | None = None,
) -> ReleasedGraph:
    """Returns the graph of a released log, whose numbers have the intervals that figures give.

    Args:
        graph: The log's.
        vocabulary: What its codes mean.
        figures: Those of the log; of None, or of a path without one, both ends are its number.
    """
    labels, lows, highs = vocabulary.labels, graph.counts.copy(), graph.counts.copy()
    rows = () if figures is None else figures.rows()
    of_path = {row.of: row for row in rows if row.name == "path"}
    for i, ends in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)):
        row = of_path.get((labels[ends[0]], labels[ends[1]]))
        if row is not None:
            lows[i], highs[i] = row.low, row.high
    return ReleasedGraph(vocabulary.names, graph.sources, graph.targets, graph.counts, lows, highs)


def graph_of_variants(variants: ReleasedVariants) -> ReleasedGraph:
    """Returns the graph of released variants, whose paths have no intervals of their own."""
    vocabulary = ActivityVocabulary(variants.names)
    words = DirectlyFollows.from_rows(variants.offsets, variants.codes, variants.counts, vocabulary)
    return graph_of_log(words, vocabulary)


def map_data(graph: ReleasedGraph, medians: Medians) -> dict[str, Any]:
    """Returns activities and the most frequent paths of a graph.

    A path is doubtful if its interval reaches down to 0: what noise alone could have made.

    Args:
        graph: What was released.
        medians: About the median time in seconds of a path by the codes of its ends, if known.
    """
    passed = graph.throughputs()
    rows = np.sort(np.argsort(-graph.counts, kind="stable")[:MAX_PATHS])
    ends = np.concatenate([graph.sources[rows], graph.targets[rows], [graph.start, graph.end]])
    used, places = np.unique(ends, return_inverse=True)
    labels = graph.labels
    has_intervals = not np.array_equal(graph.lows, graph.highs)
    sources, targets = places[: len(rows)], places[len(rows) : 2 * len(rows)]
    edges = []
    for row, source, target in zip(rows.tolist(), sources, targets, strict=True):
        low, high = int(graph.lows[row]), int(graph.highs[row])
        median = medians.get((int(graph.sources[row]), int(graph.targets[row])))
        edges.append(
            {
                "source": int(source),
                "target": int(target),
                "count": int(graph.counts[row]),
                "low": low if has_intervals else None,
                "high": high if has_intervals else None,
                "doubtful": has_intervals and low <= 0,
                "median_s": None if median is None else float(f"{median:.3g}"),
            }
        )
    return {
        "nodes": [
            {"name": plain_name(labels[code]), "count": int(passed[code])} for code in used.tolist()
        ],
        "start": int(places[-2]),
        "end": int(places[-1]),
        "edges": edges,
        "n_left_out": len(graph.counts) - len(rows),
        "n_activities_left_out": int(np.count_nonzero(np.delete(passed, used))),
    }


def tree_data(tree: ReleasedTree) -> list[dict[str, Any]]:
    """Returns the nodes of a tree, parents before their children."""
    rows: list[dict[str, Any]] = tree.to_table().to_pylist()
    return [
        {
            "parent": row["parent"],
            "kind": row["kind"],
            "activity": None if row["activity"] is None else plain_name(row["activity"]),
        }
        for row in rows
    ]


def medians_of(durations: ReleasedDurations, graph: ReleasedGraph) -> dict[tuple[int, int], float]:
    """Returns about the median time in seconds of each path whose durations were released.

    Its ends are codes of the graph. The last bin has no upper border: durations in it count as its
    lower one.

    Args:
        durations: Whose activities are all among those of the graph.
        graph: Whose paths these are.
    """
    names = ActivityVocabulary(durations.names).labels
    # An activity that is called as the start or the end is comes before these.
    place = {name: code for code, name in reversed([*enumerate(graph.labels)])}
    edges = np.concatenate([[0], durations.edges_us, durations.edges_us[-1:]]) * _MICROSECONDS
    middles = np.sqrt(np.maximum(edges[:-1], 1e-3) * np.maximum(edges[1:], 1e-3))
    pairs = durations.sources.astype(np.int64) << 32 | durations.targets
    medians = {}
    for pair in np.unique(pairs).tolist():
        rows = np.flatnonzero(pairs == pair)
        rows = rows[np.argsort(durations.bins[rows], kind="stable")]
        below = np.cumsum(durations.counts[rows])
        middle = rows[np.searchsorted(2 * below, below[-1])]
        source, target = (place[names[code]] for code in (pair >> 32, pair & 0xFFFFFFFF))
        medians[source, target] = float(middles[durations.bins[middle]])
    return medians


_WHOLE_LOG = ("cases", "events")
_DURATIONS = {
    "mean_duration_us": "mean",
    "median_duration_us": "median",
    "quantile_duration_us": "quantile",
}
_N_ROWS = 200
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

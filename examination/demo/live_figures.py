"""What a live page shows of a stream: the graph of a step, and the number of cases by step.

All of it follows from the releases: counts with noise, and errors that are public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tracecloak.anonymizers.streams.step_figures import figures_within, with_intervals
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.evidence import evidence_of
from tracecloak.schemas.published.figures import Figure
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.publish.figures_data import map_data, mark_grades


@dataclass(frozen=True, eq=False)
class ShownGraph:
    """The edges of a step that are worth a look.

    Attributes:
        graph: The edges, with their counts and 95 % intervals.
        is_doubtful: bool[n_edges], those that may well be noise alone.
        most_hidden: The most that any other edge has, with a probability of about 95 %.
    """

    graph: ReleasedGraph
    is_doubtful: np.ndarray
    most_hidden: int


def shown_graph(release: StepRelease) -> ShownGraph:
    """Returns the edges that noise alone hardly makes, and doubtful ones between their activities.

    Which are which is decided for all cells together (`schemas.published.evidence`). Nothing is
    left of the rest: most counts of a public alphabet are zero, and noise makes half of these
    positive. Of doubtful edges those stay whose activities have sure edges as well.
    """
    evidence = evidence_of(release)
    start, end = ActivityVocabulary.of([]).labels
    reached = {
        start,
        end,
        *(name for i in np.flatnonzero(evidence.is_sure) for name in release.cells[i]),
    }
    near = np.fromiter((reached.issuperset(cell) for cell in release.cells), bool)
    vocabulary = ActivityVocabulary.of(reached - {start, end})
    codes = {label: code for code, label in enumerate(vocabulary.labels)}
    rows = np.flatnonzero(evidence.is_sure | (evidence.is_doubtful & near))
    pairs = [(codes[release.cells[i][0]], codes[release.cells[i][1]]) for i in rows.tolist()]
    order = sorted(range(len(pairs)), key=pairs.__getitem__)
    rows = rows[order]
    assert release.lows is not None and release.highs is not None
    counts, lows, highs = (of[rows] for of in (release.counts, release.lows, release.highs))
    sources, targets = np.array([pairs[i] for i in order], np.int32).reshape(-1, 2).T
    graph = ReleasedGraph(vocabulary.names, sources, targets, counts, lows, highs)
    is_shown = np.zeros(len(release.cells), bool)
    is_shown[rows] = True
    hidden = next(f for f in figures_within(release, is_shown) if f.name == "path_not_shown")
    return ShownGraph(graph, evidence.is_doubtful[rows], hidden.high)


def total_of(release: StepRelease) -> Figure:
    """Returns the number of cases of a graph, each as far as the clip lets it count."""
    assert release.figures is not None
    return next(figure for figure in release.figures.rows() if figure.name == "cases")


def totals_of(views: Mapping[str, Sequence[StepRelease]]) -> list[tuple[int, Figure]]:
    """Returns the number of cases so far after each step; none where it was not published.

    Totals are taken as they are. Windows are added up from step 0 to the first that is missing;
    their noise is independent.

    Args:
        views: The releases of each view, in the order of their steps.
    """
    if "total" in views:
        return [(release.step, total_of(release)) for release in views["total"]]
    totals: list[tuple[int, Figure]] = []
    added: StepRelease | None = None
    for step, release in enumerate(views.get("window", ())):
        if release.step != step:
            break
        ends = _ends_of(release)
        if added is not None:
            errors = np.hypot(added.standard_errors, ends.standard_errors)
            ends = replace(ends, counts=added.counts + ends.counts, standard_errors=errors)
        added = ends
        totals.append((step, total_of(with_intervals(added))))
    return totals


def _ends_of(release: StepRelease) -> StepRelease:
    """The counts of the edges from the start and of those into the end, which cases follow from."""
    rows = [i for i, cell in enumerate(release.cells) if is_end(cell)]
    return replace(
        release,
        cells=tuple(release.cells[i] for i in rows),
        counts=release.counts[rows],
        standard_errors=release.standard_errors[rows],
        lows=None,
        highs=None,
        figures=None,
    )


def is_end(cell: tuple[str, ...]) -> bool:
    """Whether an edge comes from the start or leads to the end."""
    start, end = ActivityVocabulary.of([]).labels
    return cell[0] == start or cell[1] == end


def course_of(
    totals: Sequence[tuple[int, Figure]], releases: Sequence[StepRelease]
) -> list[dict[str, Any]]:
    """Returns a row for each step: its end, the number of cases and its 95 % interval.

    Args:
        totals: The numbers, by step.
        releases: Among them one of each of these steps, for when it ended.
    """
    ends = {release.step: release.end_us for release in releases}
    return [
        {
            "step": step,
            "end_ms": ends[step] // 1000,
            "count": total.value,
            "low": total.low,
            "high": total.high,
            "grade": total.grade,
        }
        for step, total in totals
    ]


def map_of(release: StepRelease) -> tuple[dict[str, Any] | None, int]:
    """Returns the map of a step as pages show it, and the most that any other path has.

    There is no map where nothing stands out.
    """
    shown = shown_graph(release)
    if not len(shown.graph.counts):
        return None, shown.most_hidden
    drawn = map_data(shown.graph, {})
    mark_grades(drawn, shown.graph, release.figures)
    # Decided for all pairs together, and not by the interval of each.
    for edge, is_doubtful in zip(drawn["edges"], shown.is_doubtful.tolist(), strict=True):
        edge["doubtful"] = is_doubtful
    return drawn, shown.most_hidden


def headline(release: StepRelease) -> str:
    """Returns what a step is about: which cases, from when to when."""
    what = {
        "window": "Cases that closed in this step",
        "total": "All cases that have closed so far",
        "sliding": "Cases that closed in the last steps",
    }[release.view]
    return f"{what}: {_moment(release.start_us)} to {_moment(release.end_us)} UTC"


def _moment(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")

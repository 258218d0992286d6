"""What a live page shows of a stream: the graph of a step, and the number of cases by step.

All of it follows from the releases: counts with noise, and errors that are public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.evidence import evidence_of
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.publish.map_data import map_data

# Half of the 95 % interval of a sum of many cells, in standard deviations: it is nearly normal,
# whatever the noise of each.
_Z = 1.96


@dataclass(frozen=True, eq=False)
class ShownGraph:
    """The edges of a step that are worth a look.

    Attributes:
        graph: The edges, with their counts and 95 % intervals.
        is_doubtful: bool[n_edges], those that may well be noise alone.
    """

    graph: ReleasedGraph
    is_doubtful: np.ndarray


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
    counts, half = release.counts[rows], evidence.half_widths[rows]
    sources, targets = np.array([pairs[i] for i in order], np.int32).reshape(-1, 2).T
    lows = np.maximum(counts - half, 0)
    graph = ReleasedGraph(vocabulary.names, sources, targets, counts, lows, counts + half)
    return ShownGraph(graph, evidence.is_doubtful[rows])


@dataclass(frozen=True)
class Total:
    """The number of cases that a step, or several, published counts of.

    Attributes:
        step: The last step that is counted.
        count: Cases, each as far as the clip lets it count; with noise, so it may be negative.
        error: Standard deviation of the noise in it.
    """

    step: int
    count: float
    error: float


def total_of(release: StepRelease) -> Total:
    """Returns the number of cases of a graph.

    Each case begins and ends once, so the edges from the start and those into the end both add up
    to it. Their noise is independent, and that of the mean of both sums is less.
    """
    start, end = ActivityVocabulary.of([]).labels
    sums = [
        [i for i, cell in enumerate(release.cells) if cell[at] == label]
        for at, label in ((0, start), (1, end))
    ]
    rows = sums[0] + sums[1]
    error = math.hypot(*release.standard_errors[rows].tolist()) / 2
    return Total(release.step, float(release.counts[rows].sum()) / 2, error)


def totals_of(views: Mapping[str, Sequence[StepRelease]]) -> list[Total]:
    """Returns the number of cases so far after each step; none where it was not published.

    Totals are taken as they are. Windows are added up from step 0 to the first that is missing;
    their noise is independent.

    Args:
        views: The releases of each view, in the order of their steps.
    """
    if "total" in views:
        return [total_of(release) for release in views["total"]]
    totals: list[Total] = []
    count, variance = 0.0, 0.0
    for step, release in enumerate(views.get("window", ())):
        if release.step != step:
            break
        total = total_of(release)
        count, variance = count + total.count, variance + total.error**2
        totals.append(Total(step, count, math.sqrt(variance)))
    return totals


def course_of(totals: Sequence[Total], releases: Sequence[StepRelease]) -> list[dict[str, Any]]:
    """Returns a row for each step: its end, the number of cases and its 95 % interval.

    Args:
        totals: The numbers, by step.
        releases: Among them one of each of these steps, for when it ended.
    """
    ends = {release.step: release.end_us for release in releases}
    return [
        {
            "step": total.step,
            "end_ms": ends[total.step] // 1000,
            "count": round(total.count),
            "low": round(total.count - _Z * total.error),
            "high": round(total.count + _Z * total.error),
        }
        for total in totals
    ]


def map_of(release: StepRelease) -> dict[str, Any] | None:
    """Returns the map of a step as pages show it; None where nothing stands out."""
    shown = shown_graph(release)
    if not len(shown.graph.counts):
        return None
    drawn = map_data(shown.graph, {})
    # Decided for all pairs together, and not by the interval of each.
    for edge, is_doubtful in zip(drawn["edges"], shown.is_doubtful.tolist(), strict=True):
        edge["doubtful"] = is_doubtful
    return drawn


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

"""What a page shows of the graph of a log, as JSON values: its map; or of a tree: its nodes.

Pure functions of published values. A page is small whatever the log's size: rare paths, variants
and the ends of very long ones are left out of it, and it says how many; the files have them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.transforms.models.plain_names import plain_name

if TYPE_CHECKING:
    from tracecloak.schemas.published.durations import ReleasedDurations
    from tracecloak.schemas.published.figures import ReleasedFigures
    from tracecloak.schemas.published.tree import ReleasedTree
    from tracecloak.schemas.published.variants import ReleasedVariants

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

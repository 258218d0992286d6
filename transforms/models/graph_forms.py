"""The files of a released graph beside Parquet and JSON, by the endings of their names.

Writes a released directly-follows graph as text in the DOT language of Graphviz.

The whole graph is written; nodes have numbers for names, so no activity can break the grammar or
meet another. https://graphviz.org/doc/info/lang.html says what the language is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.transforms.models.dfg_svg import edge_label, edge_sentence, plain_name, write_svg

if TYPE_CHECKING:
    from tracecloak.schemas.published.graph import ReleasedGroups


_THINNEST, _THICKEST = 0.8, 5.0  # points
# In strings a backslash begins an escape and an ampersand an entity of HTML.
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})


def write_dot(graph: ReleasedGraph, title: str) -> str:
    """Returns the graph as DOT: nodes with how often they are passed, edges with their counts.

    Control characters in names and marks of writing direction are replaced, and names are cut at
    200 characters. Activities without an edge are nodes too.

    Args:
        graph: What to write.
        title: Stands above the picture.
    """
    names = [*(plain_name(name) for name in graph.names.to_pylist()), "▶", "■"]
    passed = graph.throughputs().tolist()
    heaviest = max(graph.counts.tolist(), default=1)
    lines = [
        "digraph dfg {",
        f"  graph [rankdir=TB, labelloc=t, label={_quoted(plain_name(title))},"
        ' fontname="Helvetica"];',
        '  node [shape=box, style="rounded,filled", fillcolor="#e9f0f7", color="#5b7a99",'
        ' fontname="Helvetica"];',
        '  edge [color="#4a6785", fontname="Helvetica", fontsize=10];',
    ]
    for code in range(graph.start):
        lines.append(f"  n{code} [label={_quoted(names[code], str(passed[code]))}];")
    for code, rank in ((graph.start, "source"), (graph.end, "sink")):
        node = f"n{code} [shape=circle, label={_quoted(names[code])}, tooltip={passed[code]}]"
        lines.append(f"  {{ rank={rank}; {node}; }}")
    for edge in range(graph.weight):
        count = int(graph.counts[edge])
        width = _THINNEST + (_THICKEST - _THINNEST) * math.sqrt(count / heaviest)
        lines.append(
            f"  n{graph.sources[edge]} -> n{graph.targets[edge]}"
            f" [label={_quoted(edge_label(graph, edge))}, penwidth={width:.2f},"
            f" tooltip={_quoted(edge_sentence(graph, edge, names))}];"
        )
    return "\n".join([*lines, "}", ""])


def _quoted(*lines: str) -> str:
    return '"' + "\\n".join(line.translate(_ESCAPES) for line in lines) + '"'


def forms_of_graph(graph: ReleasedGraph, title: str, promise: str) -> dict[str, bytes]:
    """Returns a graph as DOT and as an SVG picture with the promise below.

    An edge is doubtful if its interval reaches down to 0, as on the page of the release.
    """
    has_intervals = not np.array_equal(graph.lows, graph.highs)
    doubtful = graph.lows <= 0 if has_intervals else None
    return {
        "dot": write_dot(graph, title).encode(),
        "svg": write_svg(graph, title, promise, is_doubtful=doubtful).encode(),
    }


def forms_of_groups(groups: ReleasedGroups, title: str, promise: str) -> dict[str, bytes]:
    """Returns the graph of groups in the same forms."""
    return forms_of_graph(groups.graph, title, promise)

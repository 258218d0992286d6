"""The files of a released graph beside Parquet and JSON, by the endings of their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.transforms.models.dfg_dot import write_dot
from tracecloak.transforms.models.dfg_svg import write_svg

if TYPE_CHECKING:
    from tracecloak.schemas.published.groups import ReleasedGroups


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

"""Released graphs: their columns, their JSON, their wire form, equality."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from tracecloak.schemas.published.figures import without_kinds
from tracecloak.schemas.published.graph import ReleasedGraph

GRAPH = ReleasedGraph(
    names=pa.array(["A", "B", "Ünused"]),
    sources=np.array([0, 0, 1, 3], np.int32),
    targets=np.array([0, 1, 4, 0], np.int32),
    counts=np.array([2, 7, 7, 7], np.int64),
    lows=np.array([0, 4, 4, 4], np.int64),
    highs=np.array([5, 10, 10, 10], np.int64),
)


def test_the_table_has_labels_and_numbers():
    table = GRAPH.to_table()
    assert [(f.name, str(f.type)) for f in table.schema] == [
        ("source", "string"), ("target", "string"), ("count", "int64"), ("low", "int64"),
        ("high", "int64"), ("kind", "string"), ("usable", "bool"), ("grade", "string"),
    ]  # fmt: skip
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("A", "A", 2, 0, 5, "measured", False, "noise"),
        ("A", "B", 7, 4, 10, "measured", True, "rough"),
        ("B", "■", 7, 4, 10, "measured", True, "rough"),
        ("▶", "A", 7, 4, 10, "measured", True, "rough"),
    ]


def test_a_graph_of_the_first_version_says_nothing_of_kinds():
    """Catches an old release that reads back as another one."""
    old = without_kinds(GRAPH)
    assert old.to_table().column_names == ["source", "target", "count", "low", "high"]
    assert ReleasedGraph.from_json(old.to_json()).to_json() == old.to_json()
    assert old != GRAPH


def test_throughputs_count_loops_and_both_artificial_nodes():
    assert GRAPH.throughputs().tolist() == [9, 7, 0, 7, 7]
    # Where flow is not conserved, the larger side counts.
    assert replace(GRAPH, counts=np.array([2, 7, 8, 1])).throughputs().tolist() == [9, 8, 0, 1, 8]

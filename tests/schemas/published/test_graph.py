"""Released graphs: their columns, their JSON, their wire form, equality."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tracecloak.schemas.arrays.columnar import decode, encode
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
EMPTY = ReleasedGraph(
    pa.array([], pa.string()),
    np.zeros(0, np.int32),
    np.zeros(0, np.int32),
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
)


def test_start_and_end_come_after_the_names():
    assert (GRAPH.start, GRAPH.end) == (3, 4)
    assert GRAPH.labels == ["A", "B", "Ünused", "▶", "■"]
    assert GRAPH.weight == 4
    assert (EMPTY.start, EMPTY.end, EMPTY.weight) == (0, 1, 0)


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


def test_json_has_the_same_edges_and_the_whole_vocabulary():
    body = json.loads(json.dumps(GRAPH.to_json()))
    assert list(body) == ["start", "end", "activities", "edges"]
    assert (body["start"], body["end"]) == ("▶", "■")
    assert body["activities"] == ["A", "B", "Ünused"]
    assert body["edges"] == GRAPH.to_table().to_pylist()
    numbers = {"count": 7, "low": 4, "high": 10}
    words = {"kind": "measured", "usable": True, "grade": "rough"}
    assert body["edges"][1] == {"source": "A", "target": "B", **numbers, **words}


def test_a_graph_of_the_first_version_says_nothing_of_kinds():
    """Catches an old release that reads back as another one."""
    old = without_kinds(GRAPH)
    assert old.to_table().column_names == ["source", "target", "count", "low", "high"]
    assert ReleasedGraph.from_json(old.to_json()).to_json() == old.to_json()
    assert old != GRAPH


def test_an_empty_graph_has_the_same_shape():
    assert EMPTY.to_table().schema == GRAPH.to_table().schema
    assert EMPTY.to_json() == {"start": "▶", "end": "■", "activities": [], "edges": []}
    assert EMPTY.throughputs().tolist() == [0, 0]


def test_throughputs_count_loops_and_both_artificial_nodes():
    assert GRAPH.throughputs().tolist() == [9, 7, 0, 7, 7]
    # Where flow is not conserved, the larger side counts.
    assert replace(GRAPH, counts=np.array([2, 7, 8, 1])).throughputs().tolist() == [9, 8, 0, 1, 8]


@pytest.mark.parametrize("graph", [GRAPH, EMPTY])
def test_the_wire_form_gives_an_equal_graph(graph):
    found = decode(encode(graph))
    assert found == graph and found is not graph
    assert found.to_json() == graph.to_json()
    assert found.counts.dtype == np.int64 and found.sources.dtype == np.int32


def test_graphs_are_equal_if_all_columns_are():
    assert replace(GRAPH, counts=GRAPH.counts.copy()) == GRAPH
    assert replace(GRAPH, names=pa.array(["A", "B", "C"])) != GRAPH
    for name in ("sources", "targets", "counts", "lows", "highs"):
        assert replace(GRAPH, **{name: getattr(GRAPH, name)[::-1]}) != GRAPH
    assert EMPTY != GRAPH and GRAPH != "graph"
    with pytest.raises(TypeError, match="unhashable"):
        hash(GRAPH)

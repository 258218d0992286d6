"""Released graphs, variants, durations and sums: tables and JSON, selections, the wire."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.published.figures import (
    Figure,
    Measure,
    ReleasedFigures,
    ReleasedMeasures,
    without_kinds,
)
from tracecloak.schemas.published.graph import ReleasedDurations, ReleasedGraph, ReleasedTree
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.transforms.publish.products import PRODUCTS, called, kind_of

VARIANTS = ReleasedVariants(
    pa.array(["A", "B", "é"]), np.array([0, 2, 3, 6]), np.array([0, 1, 2, 1, 1, 0], np.int32),
    *map(np.array, ([90, 30, 16], [87, 27, 13], [93, 33, 19])),
)  # fmt: skip
SURE = {"kind": "measured", "usable": True, "grade": "good"}
ROWS = [
    {"variant": ["A", "B"], "count": 90, "low": 87, "high": 93, **SURE},
    {"variant": ["é"], "count": 30, "low": 27, "high": 33, **SURE},
    {"variant": ["B", "B", "A"], "count": 16, "low": 13, "high": 19, **SURE},
]
DURATIONS = ReleasedDurations(
    pa.array(["A", "B"]), np.array([1_000, 60_000]),
    *(np.array(of, np.int32) for of in ([0, 0, 1], [1, 1, 0], [0, 2, 1])),
    *map(np.array, ([5, 7, 9], [2, 4, 6], [8, 10, 12])),
)  # fmt: skip
COLUMNS = (
    "source", "target", "from_us", "to_us", "count", "low", "high", "kind", "usable", "grade",
)  # fmt: skip
GRAPH = ReleasedGraph(
    pa.array(["A", "B", "Ünused"]),
    np.array([0, 0, 1, 3], np.int32),
    np.array([0, 1, 4, 0], np.int32),
    *(np.array(of, np.int64) for of in ([2, 7, 7, 7], [0, 4, 4, 4], [5, 10, 10, 10])),
)
SPREAD = [
    dict(zip(COLUMNS, row, strict=True))
    for row in (
        ("A", "B", 0, 1_000, 5, 2, 8, "measured", False, "noise"),
        ("A", "B", 60_000, None, 7, 4, 10, "measured", True, "rough"),
        ("B", "A", 1_000, 60_000, 9, 6, 12, "measured", True, "rough"),
    )
]


def test_selected_variants_come_in_the_order_asked_for() -> None:
    for rows in [[], [1], [2, 0], [1, 1, 0, 2]]:
        taken = VARIANTS.take(np.array(rows, np.int64))
        assert taken.to_table().to_pylist() == [ROWS[row] for row in rows]
        assert taken.offsets.dtype == np.int64
        assert taken.names.equals(VARIANTS.names)


def test_a_table_of_durations_has_the_borders_of_their_bins() -> None:
    table = DURATIONS.to_table()
    table.validate(full=True)
    assert table.to_pylist() == SPREAD
    assert table.schema.field("to_us").type == pa.int64()
    body = DURATIONS.to_json()
    assert json.loads(json.dumps(body, allow_nan=False)) == {"durations": SPREAD} == body


def test_a_table_of_a_graph_has_labels_and_numbers() -> None:
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
    old = without_kinds(GRAPH)
    assert old != GRAPH and old.to_table().column_names == table.column_names[:5]


def test_throughputs_count_loops_and_both_artificial_nodes() -> None:
    assert GRAPH.throughputs().tolist() == [9, 7, 0, 7, 7]
    # Where flow is not conserved, the larger side counts.
    assert replace(GRAPH, counts=np.array([2, 7, 8, 1])).throughputs().tolist() == [9, 8, 0, 1, 8]


# --- Read back from JSON --------------------------------------------------------------------------

FIGURES = ReleasedFigures.of(
    [
        Figure("cases", (), 120, 100, 141, "derived"),
        Figure("activity", ("A",), 7, 0, 30, "derived"),
        Figure("median_time_us", ("A", "B"), 60_000_000, 31_000_000, 90_000_000, "derived"),
    ]
)
TREE = ReleasedTree(pa.array(["a", "b"]), "->( 'a', X( 'b', tau ) )", True, 0.5)
NOTHING = VARIANTS.take(np.zeros(0, np.int64))
NOTHING = replace(NOTHING, names=pa.array([], pa.string()), lows=None, highs=None)


def test_a_product_comes_back_from_its_json() -> None:
    """By way of the table of kinds, as who received it reads it: of one kind alone."""
    for product in [
        GRAPH,
        without_kinds(GRAPH),
        ReleasedGraph(pa.array(["A"]), *(np.zeros(0, np.int64) for _ in range(5))),
        VARIANTS,
        replace(VARIANTS, lows=None, highs=None),
        without_kinds(VARIANTS),
        without_kinds(replace(VARIANTS, lows=None, highs=None)),
        NOTHING,
        DURATIONS,
        without_kinds(DURATIONS),
        FIGURES,
        ReleasedFigures.of([]),
        replace(DURATIONS, edges_us=np.array([1_000, 60_000, 61_000, 62_000], np.int64)),
        TREE,
        replace(TREE, fitness_low=0.25, fitness_high=0.75),
        replace(TREE, is_found=False, fitness=None),
    ]:
        body = json.loads(json.dumps(product.to_json()))
        found = []
        for kind in PRODUCTS.builtins.values():
            with contextlib.suppress(Exception):
                found.append(kind.read(body))
        assert [type(one) for one in found] == [type(product)]
        assert found[0].to_json() == product.to_json()
        assert found[0].to_table().to_pylist() == product.to_table().to_pylist()
        title, promise = "r: x", "It holds."
        forms = [called(kind_of(one).forms, one, title, promise) for one in (product, found[0])]
        assert forms[0] == forms[1]


def test_values_that_no_product_gives_are_refused() -> None:
    for body in (
        {**GRAPH.to_json(), "more": 1},
        {**GRAPH.to_json(), "activities": ["B", "A", "Ünused"]},
        {**TREE.to_json(), "nodes": []},
        {**VARIANTS.to_json(), "activities": ["A"]},
    ):
        for kind in PRODUCTS.builtins.values():
            with pytest.raises((ValueError, KeyError)):
                kind.read(body)


def test_a_graph_in_which_an_activity_cannot_be_told_from_its_ends_is_not_read() -> None:
    for name in ["▶", "■"]:
        graph = replace(GRAPH, names=pa.array(["A", "B", name]))
        with pytest.raises(ValueError, match="start or the end"):
            ReleasedGraph.from_json(graph.to_json())


@pytest.mark.parametrize("count", [2**62 - 1, 2**62, 1.0, True])
def test_counts_of_edges_are_whole_numbers_whose_sum_is_one_too(count: Any) -> None:
    body = replace(GRAPH, **{name: value[:1] for name, value in vars(GRAPH).items()}).to_json()
    body["edges"] = [{**body["edges"][0], "count": count, "low": 0, "high": 0}]
    if count == 2**62 - 1:
        assert ReleasedGraph.from_json(body).counts.tolist() == [count]
    else:
        with pytest.raises(ValueError, match="whole numbers"):
            ReleasedGraph.from_json(body)


# --- Sums -----------------------------------------------------------------------------------------

NUMBERS = st.floats(-1e12, 1e12)
MEASURES = st.lists(
    st.builds(Measure, st.text(), st.lists(st.text(), max_size=3).map(tuple), NUMBERS, NUMBERS)
)


@given(MEASURES)
def test_sums_come_back_from_json_and_from_the_wire(rows: list[Measure]) -> None:
    measures = ReleasedMeasures.of(rows)
    assert measures.rows() == rows
    body = json.loads(json.dumps(measures.to_json()))
    assert ReleasedMeasures.from_json(body).rows() == rows
    assert decode(encode(measures)).rows() == rows
    assert measures.to_table().to_pylist() == body["measures"]


@given(MEASURES, MEASURES)
def test_joined_sums_are_one_after_the_other(first: list[Measure], second: list[Measure]) -> None:
    joined = ReleasedMeasures.joined(map(ReleasedMeasures.of, (first, second)))
    assert joined.rows() == [*first, *second]
    kinds = {row.what for row in joined.rows()}
    assert sum(len(joined.rows(kind)) for kind in kinds) == len(first) + len(second)

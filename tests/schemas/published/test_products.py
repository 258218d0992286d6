"""Released products and their rows: graphs, variants, durations, and parts of a log."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.format_streams import rows_of as batch_of
from tests.support.logs import Step, cases_of, event_logs, read_cases, trace_batch
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.schemas.published.figures import (
    Figure,
    Measure,
    ReleasedFigures,
    ReleasedMeasures,
    without_kinds,
)
from tracecloak.schemas.published.graph import ReleasedDurations, ReleasedGraph, ReleasedTree
from tracecloak.schemas.published.rows import merge_rows, part_rows, parts_of, traces_of_rows
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
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


# --- Rows of a log --------------------------------------------------------------------------------


Case = tuple[str, list[Step]]
Row = tuple[str, str, int]

# Ids whose order differs between bytes, code points and UTF-16, and one that begins another.
ids = st.one_of(
    st.sampled_from(["", "a", "aa", "Z", "é", "\uffff", "\U0001f600", "10", "9"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
)
# A case's steps in time order; few times, so that starts tie.
steps = st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 3)), min_size=1, max_size=6).map(
    lambda found: sorted(found, key=lambda step: step[1])
)
cases = st.dictionaries(ids, steps, max_size=10)


def canonical(found: dict[str, list[Step]]) -> list[Case]:
    """Cases by start, then by id; the sort is by code points as by UTF-8 bytes."""
    return sorted(found.items(), key=lambda case: (case[1][0][1], case[0]))


def rows_in(ordered: Sequence[Case]) -> list[Row]:
    return [(case, activity, time) for case, own in ordered for activity, time in own]


def read_rows(batches: Sequence[pa.RecordBatch]) -> list[Row]:
    """All rows; each batch is valid and has some."""
    found: list[Row] = []
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(RELEASED_SCHEMA) and batch.num_rows
        columns = [batch.column(i) for i in range(2)]
        columns.append(batch.column(2).cast(pa.int64()))
        found += zip(*(column.to_pylist() for column in columns), strict=True)
    return found


def cut(rows: Sequence[Row], borders: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The rows as batches with the given borders; equal borders make empty batches."""
    places = [0, *sorted(min(border, len(rows)) for border in borders), len(rows)]
    for first, last in itertools.pairwise(places):
        yield batch_of(*rows[first:last])


# --- parts ----------------------------------------------------------------------------------------


@settings(deadline=None)
@given(event_logs(n_cases=9), st.sampled_from([1, 2, 3, 8, 1000]))
def test_parts_are_a_partition_of_the_cases_by_their_ids(log, n_parts):
    traces = trace_batch(log, "ABC")
    expected = cases_of(log)
    found: dict[str, list[Step]] = {}
    numbers = []
    for number, part in parts_of(traces, n_parts):
        own = read_cases(part)
        assert own
        assert set((hash_text(part.case_ids) % np.uint64(n_parts)).tolist()) == {number}
        # Within a part the cases keep their order.
        assert list(own) == [case for case in expected if case in own]
        assert not own.keys() & found.keys()
        found |= own
        numbers.append(number)
    assert found == expected and numbers == sorted(set(numbers))


def test_rows_of_no_cases_have_the_schema():
    for rows in (part_rows([]), part_rows([trace_batch({})])):
        assert rows.num_rows == 0 and rows.schema.equals(RELEASED_SCHEMA)


# --- merging streams ------------------------------------------------------------------------------

borders = st.lists(st.integers(0, 40), max_size=8)


@settings(deadline=None)
@given(cases, st.integers(1, 4), st.data())
def test_merged_streams_equal_everything_sorted_at_once(found, n_streams, data):
    ordered = canonical(found)
    place = {case: data.draw(st.integers(0, n_streams - 1)) for case in found}
    streams = [
        # Borders fall between cases and within them.
        cut(rows_in([c for c in ordered if place[c[0]] == k]), data.draw(borders))
        for k in range(n_streams)
    ]
    assert read_rows(list(merge_rows(streams))) == rows_in(ordered)


@given(event_logs())
def test_rows_without_times_have_the_numbers_of_events_in_their_place(log) -> None:
    """Catches numbers that are lost on the way, or cases that are no more in order."""
    timed = trace_batch(log, "ABC")
    numbers = np.arange(timed.n_events) - np.repeat(timed.offsets[:-1], timed.lengths) + 1
    attributes = {"event_index": pa.array(numbers), "who": pa.array(["x"] * timed.n_events)}
    rows = part_rows([replace(timed, times=numbers, attributes=attributes)])
    assert rows.schema.names == ["case_id", "activity", "event_index", "who"]
    again = traces_of_rows(rows)
    assert again.case_ids.to_pylist() == sorted(timed.case_ids.to_pylist())
    assert list(again.attributes) == ["event_index", "who"]
    assert again.to_rows().equals(rows)
    halves = [iter([half]) for half in (rows.slice(0, 0), rows)]
    assert pa.Table.from_batches(merge_rows(halves, rows.schema), rows.schema).equals(
        pa.Table.from_batches([rows])
    )


# --- Numbers of variants --------------------------------------------------------------------------


NAMES = pa.array(list("ABCDEFGH"), pa.string())

Rows = list[tuple[tuple[str, ...], int]]


def released(rows: Rows, half_width: int | None = 2) -> ReleasedVariants:
    """Variants with these counts; 0 is left out."""
    offsets = np.cumsum([0, *(len(variant) for variant, _ in rows)], dtype=np.int64)
    codes = np.array(["ABCDEFGH".index(a) for variant, _ in rows for a in variant], np.int32)
    counts = np.array([count for _, count in rows], np.int64)
    return most_frequent_first(NAMES, offsets, codes, counts, half_width)


def rows_of_variants(variants: ReleasedVariants) -> Rows:
    table = variants.to_table()
    table.validate(full=True)
    return [(tuple(row["variant"]), row["count"]) for row in table.to_pylist()]


def spelled(number: int) -> tuple[str, ...]:
    """A variant of its own for each number."""
    return tuple("ABCDEFGH"[int(digit)] for digit in f"{number:o}")


@st.composite
def variants_of_any_size(draw: st.DrawFn) -> ReleasedVariants:
    """Up to 8 variants; the counts' sum fits int64, their products with others do not."""
    count = st.one_of(st.integers(0, 5), st.integers(1, 10**4), st.integers(1, 2**58))
    counts = draw(st.lists(count, max_size=8))
    return released([(spelled(i), n) for i, n in enumerate(counts)])


wanted = st.one_of(st.integers(0, 20), st.integers(0, 10**6), st.integers(0, 2**62))


def check(variants: ReleasedVariants, n_cases: int) -> None:
    before = dict(rows_of_variants(variants))
    resized = variants.resized(n_cases)
    rows = rows_of_variants(resized)
    total = sum(before.values())
    assert resized.n_cases == sum(count for _, count in rows) == (n_cases if total else 0)
    assert resized.counts.dtype == np.int64 and (resized.counts > 0).all()
    assert resized.lows is None and resized.highs is None
    counts = [count for _, count in rows]
    assert counts == sorted(counts, reverse=True)
    after = dict(rows)
    assert len(after) == len(rows) and set(after) <= set(before)
    for variant, count in before.items():  # those that are left out have 0
        assert abs(after.get(variant, 0) - Fraction(count * n_cases, total)) < 1
    # Of equal counts the variant that was more frequent stays in front.
    place = {variant: i for i, variant in enumerate(before)}
    for (variant, count), (following, next_count) in itertools.pairwise(rows):
        assert count > next_count or place[variant] < place[following]
    # Only names that are used are left.
    used = sorted({name for variant in after for name in variant})
    assert resized.names.to_pylist() == used
    assert rows_of_variants(variants) == list(before.items())  # it stays as it was


@given(variants_of_any_size(), wanted)
def test_counts_are_in_proportion_and_sum_to_the_number(variants, n_cases):
    check(variants, n_cases)


def test_products_about_2_to_the_63_are_exact():
    for n_cases in [2**40 - 1, 2**40, 2**40 + 1]:
        for total in [2**22 - 1, 2**22, 2**22 + 1, 2**61]:
            check(
                released([(("A",), total // 2), (("B",), total - total // 2 - 1), (("C",), 1)]),
                n_cases,
            )

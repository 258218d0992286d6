"""Declarations of attributes, their cells and values, and attributes that go along with events."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from tests.support.logs import trace_batch
from tests.support.record_files import canonical
from tracecloak.anonymizers.contract.method import Params
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.declarations import (
    Attribute,
    Declaration,
    Declarations,
    HandoverDeclarations,
    declared,
)
from tracecloak.schemas.events.events import (
    EVENT_SCHEMA,
    ActivityVocabulary,
    attribute_column,
    event_schema,
    released_schema,
)
from tracecloak.schemas.events.traces import (
    INDIVIDUAL_ID,
    TraceBatch,
    split_by_shard,
    with_attributes,
)
from tracecloak.schemas.published.rows import no_traces, part_rows, parts_of


class Method(Params):
    attributes: Declarations = Field(default_factory=dict)


def attribute(name: str = "x", **declaration: Any) -> Attribute:
    return Attribute(name, Declaration(**declaration))


# --- declarations ---------------------------------------------------------------------------------

EXAMPLE: dict[str, Any] = {
    "org:resource": {"values": ["R1", "R2"]},
    "case:age": {"bounds": [0, 100], "n_bins": 10, "whole": True, "column": "age"},
    "amount": {"bounds": [0, 50000.5], "n_bins": 20},
}


def test_a_method_takes_declarations_as_a_mapping_or_as_json() -> None:
    params = Method(attributes=EXAMPLE)
    assert Method(attributes=json.dumps(EXAMPLE)) == params
    resource, age, amount = declared(params.attributes)
    assert [(a.column, a.is_of_case, a.n_cells, a.arrow_type) for a in (resource, age, amount)] == [
        ("org:resource", False, 3, pa.string()), ("age", True, 11, pa.int64()),
        ("amount", False, 21, pa.float64()),
    ]  # fmt: skip
    assert pickle.loads(pickle.dumps(age)) == age  # noqa: S301 - of this test's own


class Handing(Params):
    attributes: HandoverDeclarations = Field(default_factory=dict)


def test_a_method_that_can_keep_handovers_takes_them_for_events_with_values() -> None:
    values = {"values": ["R1", "R2"]}
    given_ = {"org:resource": {**values, "handovers": True}, "case:x": values, "b": values}
    params = Handing(attributes=given_)
    assert [own.has_handovers for own in declared(params.attributes)] == [True, False, False]
    assert params.resolved()["attributes"] == given_
    assert Handing(**params.resolved()) == params
    assert Handing(attributes=EXAMPLE).resolved() == Method(attributes=EXAMPLE).resolved()


REFUSED: dict[str, list[dict[str, Any]]] = {
    "either values or bounds": [{}, {"values": ["a"], "bounds": [0, 1]}],
    "at least 1 item": [{"values": []}],
    "at most 1000 items": [{"values": [str(i) for i in range(1001)]}],
    "distinct": [{"values": ["a", "b", "a"]}, {"values": [1, "1"]}],
    "1 to 1000 printable": [{"values": ["a", ""]}],
    "1000 printable|surrogates|valid unicode": [{"values": ["a\nb"]}, {"values": ["\ud800"]}],
    "valid string": [{"values": [True]}],
    "go with bounds": [{"values": ["a"], "n_bins": 3}, {"values": ["a"], "whole": True}],
    "at least 1 character": [{"values": ["a"], "column": ""}],
    "finite|number": [{"bounds": pair} for pair in ([0, math.inf], [math.nan, 1], [0, 10**400])],
    "two different numbers": [{"bounds": [1, 1]}, {"bounds": [2, 1]}],
    "two numbers|required": [{"bounds": [False, True]}, {"bounds": [0]}],
    "than or equal to": [{"bounds": [0, 1], "n_bins": n} for n in (0, 1001)],
    "must be whole": [{"bounds": [0, most], "whole": True} for most in (1.5, 2**53 + 2)],
    "Extra inputs": [{"bounds": [0, 1], "colour": "red"}, {"values": ["a"], "handovers": True}],
}
NAMES_REFUSED = {
    "released in any case": [
        *("case:concept:name", "concept:name", "time:timestamp", "case_id", "activity"),
        "timestamp",
    ],
    "cannot name": ["", "case:", " x", "a\tb"],
    "prefix of an extension": ["my:x", "case:my:x", "org:"],
}


def test_a_declaration_that_is_none_is_refused() -> None:
    a = {"values": ["a"]}
    refused: list[tuple[type[Params], Any, str]] = [
        *((Method, {"x": one}, said) for said, many in REFUSED.items() for one in many),
        *((Method, {name: a}, said) for said, many in NAMES_REFUSED.items() for name in many),
        (Method, {f"x{i}": a for i in range(101)}, "at most 100 items"),
        (Method, "{", "must be JSON"),
        (Method, [], "valid dictionary"),
        (Handing, {"x": {"bounds": [0, 1], "handovers": True}}, "handovers goes with values"),
        (Handing, {"case:x": {**a, "handovers": True}}, "'case:x' belongs to the case"),
        (Handing, {"x": {**a, "handovers": "often"}}, "valid boolean"),
        (Handing, {"activity": a}, "released in any case"),
        *((kind, '{"x": {"values": ["a"]}, "x": {}}', "given twice") for kind in (Method, Handing)),
    ]
    for kind, declarations, said in refused:
        with pytest.raises(ValueError, match=said):
            kind(attributes=declarations)


# --- cells ----------------------------------------------------------------------------------------


@given(
    st.floats(-1e12, 1e12),
    st.floats(1e-6, 1e12),
    st.integers(1, 60),
    st.lists(st.floats(-3e12, 3e12) | st.none(), max_size=20),
)
def test_numbers_are_in_the_bin_of_a_loop(
    low: float, width: float, n_bins: int, numbers: list[float | None]
) -> None:
    high = low + width
    if not low < high:
        return
    edges = np.linspace(low, high, n_bins + 1)
    expected = [
        0 if x is None else 1 + sum(edge <= x for edge in edges[1:-1].tolist()) for x in numbers
    ]
    texts = pa.array([None if x is None else repr(x) for x in numbers], pa.string())
    found = attribute(bounds=[low, high], n_bins=n_bins)
    assert found.cells(texts).tolist() == expected
    assert found.cells(texts.dictionary_encode()).tolist() == expected


WIDTHS = st.tuples(st.integers(-(10**6), 10**6), st.integers(1, 10**6), st.integers(1, 60))


@given(WIDTHS, st.booleans(), st.data())
def test_values_lie_in_their_cell_and_within_the_bounds(
    shape: tuple[int, int, int], whole: bool, data: st.DataObject
) -> None:
    low, width, n_bins = shape
    one = attribute(bounds=[low, low + width], n_bins=n_bins, whole=whole)
    cells = np.array(data.draw(st.lists(st.integers(0, one.n_cells - 1), max_size=20)), np.int64)
    uniforms = np.array(
        data.draw(
            st.lists(st.floats(0, 1, exclude_max=True), min_size=len(cells), max_size=len(cells))
        ),
        np.float64,
    )
    values = one.values_of(cells, uniforms)
    assert values.type == one.arrow_type
    assert [value is None for value in values.to_pylist()] == (cells == 0).tolist()
    assert all(low <= value <= low + width for value in values.drop_null().to_pylist())
    assert one.cells(values.cast(pa.string())).tolist() == cells.tolist()


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1),
                min_size=1, max_size=8, unique=True), st.data())  # fmt: skip
def test_texts_round_trip(values: list[str], data: st.DataObject) -> None:
    one = attribute(values=values)
    cells = np.array(data.draw(st.lists(st.integers(0, len(values)), max_size=20)), np.int64)
    made = one.values_of(cells, np.zeros(len(cells)))
    assert made.type == pa.string()
    assert made.to_pylist() == [None if cell == 0 else values[cell - 1] for cell in cells]
    assert one.cells(made).tolist() == cells.tolist()


def test_large_bounds_stay_exact() -> None:
    largest = attribute(bounds=[-(2**53), 2**53], n_bins=7, whole=True)
    texts = [str(-(2**53)), str(2**53)]
    assert largest.cells(pa.array(texts)).tolist() == [1, 7]
    made = largest.values_of(np.array([1, 7]), np.array([0.0, math.nextafter(1, 0)])).to_pylist()
    assert made[0] == -(2**53) and 2**53 - 4 <= made[1] <= 2**53
    wide = attribute(bounds=[-1e300, 1e300], n_bins=1000)
    assert np.isfinite(wide.values_of(np.arange(1, 1001), np.full(1000, 0.5))).all()


# --- from a source to traces ----------------------------------------------------------------------

MAPPING = ColumnMapping(
    case_id="c", activity="a", timestamp="t", attributes=(("case:age", "age"), ("resource", "who"))
)


def read_columns(**columns: Sequence[Any]) -> pa.RecordBatch:
    return canonical(columns, MAPPING)[0]


def events() -> pa.RecordBatch:
    return read_columns(
        c=["1", "2", "1", "2", "1"],
        a=["A", "A", "B", "B", "C"],
        t=[f"2026-01-01T00:00:0{second}" for second in (3, 1, 2, 2, 1)],
        age=["44", None, "33", "55", None],
        who=["R3", "R1", None, "R2", "R1"],
        secret=["s"] * 5,
    )


def test_a_missing_value_rejects_no_event_and_a_missing_column_is_named_before_reading() -> None:
    batch = read_columns(c=["1"], a=["A"], t=["2026-01-01"], age=[None], who=[None])
    assert batch.num_rows == 1
    declaring = MAPPING.resolve(["c", "a", "t"], xes_names=False)
    assert set(declaring.required) == {"c", "a", "t", "age", "who"}
    # Where records alone tell the columns, whether one has a value is nobody's business.
    telling = MAPPING.resolve(None, xes_names=True)
    assert set(telling.required) == {"c", "a", "t"}
    assert set(telling.wanted) == {"c", "a", "t", "age", "who"}
    twice = ColumnMapping(resource="who", attributes=(("resource", "who"),))
    assert "who" in twice.resolve(None, xes_names=True).required


def test_with_individuals_a_case_takes_a_value_of_its_own_individual() -> None:
    batch = events()
    whose = pa.array(["p", "p", "q", "q", "p"]).dictionary_encode()
    schema = event_schema([INDIVIDUAL_ID], ["case:age", "resource"])
    arrays = {**dict(zip(batch.schema.names, batch.columns, strict=True)), INDIVIDUAL_ID: whose}
    owned = pa.RecordBatch.from_arrays([arrays[n] for n in schema.names], schema=schema)
    traces = TraceBatch.from_events([owned], by_individual=True)
    found = dict(
        zip(
            zip(traces.individuals.to_pylist(), traces.case_ids.to_pylist(), strict=True),
            traces.attributes["case:age"].take(pa.array(traces.offsets[:-1])).to_pylist(),
            strict=True,
        )
    )
    assert found == {("p", "1"): "44", ("q", "1"): "33", ("p", "2"): None, ("q", "2"): "55"}


def test_events_must_agree_on_their_attributes() -> None:
    plain = events().select(EVENT_SCHEMA.names)
    with pytest.raises(InputSchemaError, match="the same attributes"):
        TraceBatch.from_events([events(), plain])
    assert with_attributes(events(), []).schema.equals(EVENT_SCHEMA)
    assert with_attributes(plain, []) is plain
    one = with_attributes(events(), ["resource"])
    assert one.schema.equals(event_schema((), ["resource"]))
    none = TraceBatch.from_events([events().slice(0, 0)]).attributes
    assert {name: len(values) for name, values in none.items()} == {"case:age": 0, "resource": 0}
    with pytest.raises(InputSchemaError, match="no attribute 'colour'"):
        with_attributes(events(), ["resource", "colour"])


Log = list[tuple[str, int, str | None, str | None]]
RESOURCES = st.lists(
    st.tuples(
        st.sampled_from("1234"),
        st.integers(0, 5),
        st.none() | st.sampled_from(["R1", "R2", "R3"]),
        st.none() | st.sampled_from(["10", "20"]),
    ),
    min_size=1,
    max_size=25,
)


def carried(log: Log) -> pa.RecordBatch:
    return read_columns(
        c=[case for case, *_ in log],
        a=["A"] * len(log),
        t=[f"2026-01-01T00:00:0{second}" for _, second, *_ in log],
        who=pa.array([who for *_, who, _ in log], pa.string()).to_pylist(),
        age=[age for *_, age in log],
    )


def naive(log: Log) -> dict[str, tuple[list[str | None], str | None]]:
    """Resources in the order of time, and the first age, of each case."""
    cases: dict[str, list[tuple[int, str | None, str | None]]] = {}
    for case, second, who, age in log:
        cases.setdefault(case, []).append((second, who, age))
    found = {}
    for case, steps in cases.items():
        ordered = sorted(steps, key=lambda step: step[0])
        ages = [age for *_, age in ordered if age is not None]
        found[case] = ([who for _, who, _ in ordered], ages[0] if ages else None)
    return found


def read(traces: TraceBatch) -> dict[str, tuple[list[str | None], str | None]]:
    whole = {name: values.to_pylist() for name, values in traces.attributes.items()}
    found = {}
    for case, first, last in zip(
        traces.case_ids.to_pylist(), traces.offsets[:-1], traces.offsets[1:], strict=True
    ):
        [age] = set(whole["case:age"][first:last])
        found[case] = (whole["resource"][first:last], age)
    return found


@given(RESOURCES, st.integers(1, 5), st.integers(0, 25))
def test_attributes_do_not_depend_on_shards_or_batches(log: Log, n_shards: int, cut: int) -> None:
    whole = carried(log)
    found: dict[str, Any] = {}
    shards: dict[int, list[pa.RecordBatch]] = {}
    for batch in (whole.slice(cut), whole.slice(0, cut)):
        for shard, part in split_by_shard(batch, n_shards):
            column = part.column(attribute_column("resource"))
            present = set(column.to_pylist()) - {None}
            assert set(column.dictionary.to_pylist()) == present, "a value of another shard"
            shards.setdefault(shard, []).append(part)
    for parts in shards.values():
        found |= read(TraceBatch.from_events(parts))
    assert found == naive(log) == read(TraceBatch.from_events([whole]))


@given(RESOURCES, st.data())
def test_attributes_go_along_with_their_cases(log: Log, data: st.DataObject) -> None:
    traces = TraceBatch.from_events([carried(log)])
    expected = naive(log)
    taken = data.draw(st.lists(st.sampled_from(range(traces.n_cases)), unique=True))
    part = traces.take(np.array(taken, np.int64))
    names = traces.case_ids.take(pa.array(taken, pa.int64())).to_pylist()
    assert read(part) == {name: expected[name] for name in names}
    assert read(decode(encode(traces))) == expected
    short = traces.truncate(2)
    assert read(short) == {name: (who[:2], age) for name, (who, age) in expected.items()}
    renamed = traces.recode_public(ActivityVocabulary.public(["B"]))
    assert read(renamed) == expected == read(traces.recode(ActivityVocabulary.of("AB")))
    rest = traces.take(np.setdiff1d(np.arange(traces.n_cases), taken))
    assert read(TraceBatch.concat([part, rest])) == expected


# --- released -------------------------------------------------------------------------------------


def released(n_cases: int, **attributes: Sequence[Any]) -> TraceBatch:
    """Cases of two events each, an attribute's values by event."""
    traces = trace_batch({f"case {i}": f"A@{i} B" for i in range(n_cases)}, "AB")
    arrays = {name: pa.array(values) for name, values in attributes.items()}
    return replace(traces, attributes=arrays)


def test_values_of_a_source_are_not_released() -> None:
    traces = TraceBatch.from_events([events()])
    with pytest.raises(ValueError, match="cannot be released"):
        traces.to_rows()
    with pytest.raises(ValueError, match="cannot be released"):
        part_rows([traces])


def test_a_part_without_cases_has_the_columns() -> None:
    columns = no_traces({"x": pa.float64()})
    assert dict(parts_of(columns, 3)) == dict.fromkeys(range(3), columns)
    assert list(parts_of(no_traces({}), 3)) == []
    rows = part_rows([columns])
    assert rows.num_rows == 0 and rows.schema.equals(released_schema({"x": pa.float64()}))


def test_released_cases_must_have_the_same_attributes() -> None:
    one = released(1, x=[1, 2])
    for other in (
        released(1, x=["a", "b"]), released(1, y=[1, 2]), released(1),
        released(1, x=[1, 2], y=[1, 2]), no_traces({"y": pa.int64()}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="the same attributes"):
            part_rows([one, other])
        if other.n_cases:
            with pytest.raises(ValueError, match="the same attributes"):
                TraceBatch.concat([one, other])

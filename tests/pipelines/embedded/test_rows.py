"""Rows in, rows out: whatever they come as, in whatever order, they are one release."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

from tests.support.embedded import (
    ACTIVITIES,
    AMUN,
    COLUMNS,
    UNPAID,
    canonical,
    claims,
    fields,
    in_memory,
    paid,
    raw,
    typed,
)
from tests.support.examples import examples_of
from tests.support.logs import read_cases, trace_batch
from tests.support.releasing import fix_key, ledger_entries
from tests.support.stream_runs import (
    Happening,
    Sent,
    in_time,
    random_messages,
    run,
    stream_config,
    stream_keys,
    stream_of,
    ticking,
)
from tests.support.tiers import each_row
from tracecloak import METHODS, AnonymizeEventLog, KeyReference, PublishDirectlyFollows, anonymise
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.embedded.directly_follows import ToMessage
from tracecloak.pipelines.embedded.elements import elements_of
from tracecloak.pipelines.embedded.read import PRODUCT_COLUMNS, ReleasedRows, field_name, read_rows
from tracecloak.schemas.errors import BudgetExhausted, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import released_schema
from tracecloak.schemas.events.traces import TraceBatch

RUNNERS = ("FnApiRunner", "BundleBasedDirectRunner")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "ab" * 32)


def _noted(row: Any, path: str) -> None:
    with Path(path).open("a") as stream:
        stream.write(f"{fields(row)}\n")


def test_dicts_are_paid_once_and_released_as_rows(tmp_path: Path) -> None:
    """One pipeline twice: its types, its metrics, its rejects, its ledger, its noise."""
    rows: list[dict[str, Any]] = [*claims(), {"claim": "c-x", "step": "Pay", "at": "soon"}]
    released = []
    for attempt in ("first", "second"):
        options = PipelineOptions(["--runtime_type_check"])
        pipeline = beam.Pipeline(runner="FnApiRunner", options=options)
        outputs = (
            pipeline
            | beam.Create(rows)
            | AnonymizeEventLog(**AMUN, **paid(tmp_path, with_rejects=True, max_error_ratio=0.1))
        )
        types = dict(outputs["released"].element_type._fields)
        assert types == {"case_id": str, "activity": str, "timestamp": Timestamp}
        reasons = outputs["rejects"] | beam.Map(lambda row: row.reason)
        assert_that(reasons, equal_to(["unparsable time"]))
        _ = outputs["released"] | beam.Map(_noted, str(tmp_path / attempt))
        result = pipeline.run()
        result.wait_until_finish()
        counters = result.metrics().query(MetricsFilter().with_namespace("tracecloak"))["counters"]
        counted = {counter.key.metric.name: counter.committed for counter in counters}
        assert counted == {"records read": 61, "records rejected: unparsable time": 1}
        released.append(sorted((tmp_path / attempt).read_text().splitlines()))
    assert len(released[0]) >= 30 and released[0] == released[1]
    entries = ledger_entries(tmp_path / "keys")
    assert [entry.action for entry in entries] == ["reserve", "draw"]


@pytest.mark.slow
def test_every_kind_of_element_is_the_release_of_the_in_memory_driver() -> None:
    """Stamps differ, so their order is that of the numbers in memory."""
    rows = claims()
    expected = in_memory(rows)
    kinds: dict[str, tuple[list[Any], Any]] = {
        "dicts": (rows, None),
        "named tuples": (typed(rows), None),
        "rows": ([beam.Row(**row) for row in rows], RowTypeConstraint.from_fields(
            [("claim", str), ("step", str), ("at", str)])),
        "batches": ([raw(rows[:7]), raw(rows[7:])], pa.RecordBatch),
    }  # fmt: skip
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        for name, (elements, element_type) in kinds.items():
            created = pipeline | f"Create {name}" >> beam.Create(elements)
            if element_type is not None:
                same = beam.Map(lambda row: row).with_output_types(element_type)
                created = created | f"Type {name}" >> same
            released = created | f"Anonymize {name}" >> AnonymizeEventLog(**AMUN, **UNPAID)
            found = released | f"Fields {name}" >> beam.Map(fields)
            assert_that(found, equal_to(expected), name)
        ours = (
            pipeline
            | "Create ours" >> beam.Create([canonical(rows)]).with_output_types(pa.RecordBatch)
            | "Anonymize ours" >> AnonymizeEventLog(**AMUN, **UNPAID, output="batches")
            | beam.FlatMap(lambda batch: batch.column("activity").to_pylist())
        )
        assert_that(ours, equal_to([activity for _, activity, _ in expected]), "ours")


class FailsOnce(beam.DoFn):
    """Fails a bundle once, after it gave some of it."""

    def __init__(self, marker: Path) -> None:
        self._marker = str(marker)

    def process(self, row: dict[str, Any]) -> Any:
        yield row
        if row["claim"] == "c-7" and not Path(self._marker).exists():
            Path(self._marker).touch()
            raise RuntimeError("try again")


def shuffled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return random.Random(1).sample(rows, len(rows))


def reversed_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("delivered", [shuffled, reversed_rows])
def test_a_shuffled_or_retried_delivery_is_the_same_release(
    tmp_path: Path, runner: str, delivered: Callable[..., list[dict[str, Any]]]
) -> None:
    """All events of a case have one stamp, so nothing but their content orders them."""
    rows = claims(ties=True)
    expected = in_memory(sorted(rows, key=lambda row: sorted(row.items())))
    with beam.Pipeline(runner=runner) as pipeline:
        created = pipeline | beam.Create(delivered(rows))
        if runner == "BundleBasedDirectRunner":
            created = created | beam.ParDo(FailsOnce(tmp_path / "failed")).with_output_types(dict)
        released = created | AnonymizeEventLog(**AMUN, **UNPAID) | beam.Map(fields)
        assert_that(released, equal_to(expected))


@pytest.mark.slow
def test_rows_come_of_a_product_and_malformed_batches_end_nothing(tmp_path: Path) -> None:
    batches = [raw(claims(300)), raw([{"claim": "c", "step": "Pay", "at": "soon"}])]
    keys = {**COLUMNS, "vocabulary": list(ACTIVITIES), "epsilon": 2, **paid(tmp_path)}
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        created = pipeline | beam.Create(batches).with_output_types(pa.RecordBatch)
        edges = created | AnonymizeEventLog("private-dfg", product="dfg", **keys)
        assert [name for name, _ in edges.element_type._fields] == [*PRODUCT_COLUMNS["dfg"]]
        starts = (
            edges
            | beam.Filter(lambda edge: (edge.source, edge.target) == ("▶", "Register"))
            | beam.Map(lambda edge: 200 < edge.count < 400 and edge.low <= edge.count <= edge.high)
        )
        assert_that(starts, equal_to([True]))


@pytest.mark.slow
def test_the_columns_of_every_product_are_known_when_a_pipeline_is_built() -> None:
    """Of whatever method; a product that is new needs its columns in the table."""
    log = {f"c{i}": "A B C" if i % 2 else "A C" for i in range(30)}
    key, seen = KeyReference("env:TEST_KEY").resolve(), set()
    for name, method in METHODS.items():
        for example in examples_of(method)[:2]:
            if "max_cases_per_individual" in example:
                continue
            made = anonymise([trace_batch(log)], method, method.Params(**example), key, "r", name)
            for product, released in made.products.by_name.items():
                known = PRODUCT_COLUMNS[product]
                table = released.to_table()
                in_order = [column for column in known if column in table.column_names]
                assert table.column_names == in_order, (name, product)
                assert [known[column] for column in in_order] == table.schema.types
                seen.add(product)
    assert seen == set(PRODUCT_COLUMNS) - {"groups"}


def test_attributes_have_fields_of_their_types() -> None:
    kinds = {"case:amount": pa.int64(), "2nd": pa.string(), "share": pa.float64()}
    row_type = dict(ReleasedRows(released_schema(kinds))._type._fields)
    assert list(row_type)[3:] == ["case_amount", "attribute_2nd", "share"]
    assert row_type["share"] == float | None
    names = {"_x": "attribute__x", "class": "attribute_class", "é": "é"}
    assert {name: field_name(name) for name in names} == names
    with pytest.raises(UsageError, match="one name in a row"):
        ReleasedRows(released_schema({"a:b": pa.string(), "a.b": pa.string()}))


def _variants(traces: TraceBatch) -> set[tuple[str, ...]]:
    return {tuple(name for name, _ in case) for case in read_cases(traces).values()}


def test_an_order_column_orders_whatever_a_collection_holds() -> None:
    steps = ("Register", "Check", "Pay")
    numbered: list[dict[str, Any]] = [
        {"claim": f"c-{case}", "step": step, "at": "2026-03-01T09:00:00Z", "line": line}
        for case in range(9)
        for step, line in zip(steps, (3, "20", "2e2"), strict=True)
    ]
    texts = [{**row, "line": str(row["line"])} for row in numbered]
    mapped = {**AMUN, **UNPAID, "order": "line"}
    plan = AnonymizeEventLog(**mapped)._plan
    order = ColumnMapping(**COLUMNS, order="line")
    columns, none = raw(shuffled(texts)), np.zeros(0, np.int64)
    resolved = order.resolve(columns.schema.names, xes_names=False)
    ours = resolved.canonicalise(columns, np.zeros(len(texts), np.int64), none, 0)[0]
    kinds: dict[str, tuple[list[Any], Any]] = {
        "dicts": (shuffled(numbered), dict[str, Any]),
        "batches": ([raw(shuffled(texts)[:9]), raw(shuffled(texts)[9:])], pa.RecordBatch),
        "canonical": ([ours.slice(0, 5), ours.slice(5)], pa.RecordBatch),
    }
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        for name, (elements, element_type) in kinds.items():
            events = pipeline | f"Create {name}" >> beam.Create(elements).with_output_types(
                element_type
            )
            read = events | f"Read {name}" >> _Read(plan)
            found = (
                read
                | f"Variants {name}" >> beam.FlatMap(_variants)
                | f"Once {name}" >> (beam.Distinct())
            )
            assert_that(found, equal_to([steps]), name)


class _Read(beam.PTransform):
    """What comes before a method."""

    def __init__(self, plan: ReleasePlan) -> None:
        super().__init__()
        self._plan = plan

    def expand(self, events: Any) -> Any:
        elements = elements_of(events, self._plan)
        return read_rows(events, elements, self._plan, None)["traces"]


def as_dict(sent: Sent) -> dict[str, Any]:
    """A message as a row: its time is a time."""
    return {
        "case_id": sent.case,
        "activity": sent.activity,
        "timestamp": Timestamp(sent.publish - sent.age),
        "event_id": sent.event_id,
    }


def as_row(happening: Happening) -> Happening:
    if isinstance(happening, float | int):
        return happening
    return [
        TimestampedValue(as_dict(sent), sent.publish)
        for sent in happening
        if isinstance(sent, Sent)
    ]


def published(folder: Path, happenings: Sequence[Happening]) -> None:
    keys = stream_keys(folder)
    del keys["input_subscription"]
    rows = stream_of(map(as_row, happenings)).with_output_types(dict)
    with beam.Pipeline(runner="BundleBasedDirectRunner") as pipeline:
        edges = pipeline | rows | PublishDirectlyFollows(**keys)
        _ = edges | beam.Map(_noted_edge, str(folder / "edges"))


def _noted_edge(edge: Any, path: str) -> None:
    with Path(path).open("a") as stream:
        stream.write(json.dumps([edge.step, edge.source, edge.target, edge.count]) + "\n")


@pytest.mark.slow
def test_a_stream_of_rows_is_the_stream_of_their_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same key, the same steps; an epoch that is built again pays nothing and goes on."""
    fix_key(monkeypatch)
    happenings = [*in_time(random_messages(until=30), 30), *ticking(30, 120)]
    (tmp_path / "rows").mkdir()
    (tmp_path / "messages").mkdir()
    published(tmp_path / "rows", happenings)
    run(stream_config(tmp_path / "messages", time_attribute="time"), happenings)
    steps = [
        {path.name: path.read_bytes() for path in (tmp_path / place).rglob("step-*")}
        for place in ("rows/out", "messages/out")
    ]
    assert steps[0] == steps[1] and steps[0]
    found = [json.loads(line) for line in (tmp_path / "rows" / "edges").read_text().splitlines()]
    files = [json.loads(path.read_text()) for path in (tmp_path / "rows/out").rglob("step-*.json")]
    cells = [[f["step"], *c["cell"], c["count"]] for f in files for c in f["cells"]]
    assert sorted(found) == sorted(cells)
    with pytest.raises(BudgetExhausted, match="its last step is published"):
        published(tmp_path / "rows", happenings)
    paid = [e.action for e in ledger_entries(tmp_path / "rows" / "keys") if e.action != "step"]
    assert paid == ["reserve", "commit"]


@each_row(
    ("row", "body", "attributes"),
    [
        ({"c": 1, "t": 5.5}, {"c": 1, "t": 5.5}, {}),
        ({"c": "x", "t": Timestamp(5)}, {"c": "x"}, {"time": "1970-01-01T00:00:05Z"}),
        ({"c": [1], "t": None, "more": 1}, {"c": [], "t": None}, {}),
        ({"c": float("nan")}, {"c": None, "t": None}, {}),
        ({"c": Timestamp(5), "t": 1}, {"c": "1970-01-01T00:00:05Z", "t": 1}, {}),
        ({"c": Decimal("7.0"), "t": Decimal("1.5")}, {"c": 7, "t": 1.5}, {}),
    ],
)
def test_a_row_is_a_message_of_the_fields_that_are_read(
    row: dict[str, Any], body: dict[str, Any], attributes: dict[str, str]
) -> None:
    message = ToMessage(("c", "t"), "t", is_dict=True)(row)
    assert (json.loads(message.data), message.attributes) == (body, attributes)

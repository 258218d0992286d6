"""Large values that travel in chunks arrive as they were, in whatever order the chunks come."""

from __future__ import annotations

import random

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders.coders import TupleCoder
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import trace_batch
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.arrow_coder import RecordBatchCoder
from tracecloak.transforms.batch import traces as chunks
from tracecloak.transforms.batch.traces import CHUNK, cut, whole


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 100)


def statistics(n_cases: int) -> Statistics:
    traces = trace_batch({f"c{i}": " ".join("ABC"[: 1 + i % 3]) for i in range(n_cases)})
    return Statistics({"variants": VariantHistogram.from_traces(traces)})


def counts(found: list[Statistics]) -> list[int]:
    return sorted(int(f.by_name["variants"].counts.sum()) for f in found)


def test_values_whose_chunks_are_mixed_are_told_apart() -> None:
    mixed = [chunk for n in (3, 7, 7, 12) for chunk in cut(statistics(n))]
    assert len(mixed) > 8
    assert all(len(part) <= 100 for *_, part in mixed)
    random.Random(1).shuffle(mixed)
    assert counts(list(whole(mixed))) == [3, 7, 7, 12]


def test_a_chunk_that_was_lost_is_an_error_and_no_smaller_count() -> None:
    given = list(cut(statistics(5)))
    with pytest.raises(ValueError, match="1 values lack chunks"):
        list(whole(given[1:]))


INT64 = st.one_of(st.integers(-5, 300), st.integers(-(1 << 63), (1 << 63) - 1))


@given(st.lists(INT64, max_size=80), st.sampled_from([1, 1_000_000]), st.integers(1, 70_000))
def test_a_batch_of_events_arrives_as_it_was(numbers: list[int], unit: int, size: int) -> None:
    """Whatever its numbers, in as few bytes as they need."""
    values = [n // unit * unit if n >= 0 else -(-n // unit * unit) for n in numbers]
    names = pa.array([str(n) for n in range(size)])
    codes = pa.array([None if n == 7 else n % size for n in numbers], pa.int32())
    fields = [pa.field("a", pa.int64(), False, {"b": "c"}), pa.field("n", pa.int64())]
    fields.append(pa.field("d", pa.dictionary(pa.int32(), pa.string())))
    columns = [pa.array(values, pa.int64()), pa.array([None, *values][: len(values)], pa.int64())]
    columns.append(pa.DictionaryArray.from_arrays(codes, names))
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, {"e": "f"}))[1:]
    found = RecordBatchCoder().decode(RecordBatchCoder().encode(batch))
    assert found.schema.equals(batch.schema, check_metadata=True) and found.equals(batch)


def test_the_type_of_a_chunk_has_the_same_coder_everywhere() -> None:
    """Catches elements that one stage encodes and the next decodes as something else."""
    assert isinstance(beam.coders.registry.get_coder(CHUNK), TupleCoder)
